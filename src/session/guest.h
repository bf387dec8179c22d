/* SPDX-License-Identifier: MIT */
/*
 * The code of a virtual machine that was recorded from outside: pages, and where each of its
 * processors had them in which address space.
 */
#ifndef PTAH_SESSION_GUEST_H
#define PTAH_SESSION_GUEST_H

#include "session/session.h"

/* First pass: takes a page, or notes an address space. */
int guest_take(struct ptah_session *s, const struct perfdata_record *r);
/* Between the passes: gives each address space a number, and finds the files of pages. */
int guest_number_spaces(struct ptah_session *s);
/*
 * In a session that grows: the same, one by one; address spaces are numbered in the order in which
 * they come. 1: guest_apply() takes the record at its time.
 */
int guest_grow(struct ptah_session *s, const struct perfdata_record *r, struct ptah_message *why);
/*
 * Finds the index of a space in `spaces`, in a session that grows; SESSION_NONE: it is not there.
 */
size_t guest_find_space(const struct ptah_session *s, uint64_t cr3);
/* Trace of a processor has come, perhaps before its first map. */
int guest_begin_processor(struct ptah_session *s, int32_t cpu);
/* Second pass: maps and names, in the order of time. */
int guest_apply(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc);
/* Whose memory a processor's trace ran over; SESSION_NONE: nothing is known of the processor. */
size_t guest_processor(const struct ptah_session *s, int32_t cpu);
void guest_forget(struct ptah_session *s);

/* guest_files.c: finds the files of the pages below symfs, if that is given. */
int guest_find_files(struct ptah_session *s);
/* The same for one page, in a session that grows; the first time all files are listed. */
int guest_find_file(struct ptah_session *s, struct guest_page *page);
void guest_files_free(struct guest_files *files);
/* As ptah_session_find_map(). False: the recording is not of a virtual machine. */
bool guest_find_map(const struct ptah_session *s, int32_t space, uint64_t address, uint64_t tsc,
		    struct ptah_map *map);

/* What code one processor has, at one moment. */
struct guest_view;

/* The reader of the image becomes the view, which must live as long as the image. */
int guest_view_new(struct ptah_image *image, struct guest_view **view);
void guest_view_free(struct guest_view *view);
/* Whether there is a page at the change's place. */
bool guest_view_has(const struct guest_view *view, const struct change *change);
/* Makes a CHANGE_PAGE. */
int guest_view_change(struct guest_view *view, struct ptah_image *image,
		      const struct change *change);

#endif
