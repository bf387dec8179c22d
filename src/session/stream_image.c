/* SPDX-License-Identifier: MIT */
/*
 * The memory of a stream's process as an image: what is there from the beginning, and what each
 * later change of it does to the image.
 */
#include "session/stream.h"

#include "session/guest.h"

#include "image/image_access.h"

#include <stdlib.h>
#include <string.h>

/*
 * Whether the address has code already. Bytes are added only to addresses without code: code that
 * the image has belongs to the same time, or will be replaced later.
 */
static bool is_taken(const struct stream_decoder *s, uint64_t address)
{
	struct ptah_section section;

	return s->space ? ptah_image_find(s->image, address, s->space, &section) >= 0
			: image_overlaps(s->image, address, 1);
}

static int fill(struct stream_decoder *s, const struct change *change)
{
	uint64_t i = 0;

	while (i < change->size) {
		uint64_t start = i;
		int status;

		while (i < change->size && !is_taken(s, change->address + i))
			i++;
		status = i > start ? ptah_image_add_bytes(s->image, change->bytes + start,
							  (size_t)(i - start),
							  change->address + start, s->space)
				   : 0;
		if (status < 0)
			return status;
		i++;
	}
	return 0;
}

static int add_code(struct stream_decoder *s, const struct change *change)
{
	/*
	 * Time 0: bytes at addresses that had not been seen before, recorded when they were first
	 * executed.
	 */
	if (!change->tsc && image_overlaps(s->image, change->address, change->size))
		return fill(s, change);
	return ptah_image_add_bytes(s->image, change->bytes, (size_t)change->size, change->address,
				    s->space);
}

/* Whether the code of the mapping is in the recording: of [vdso] in a 64-bit process. */
static bool is_recorded_vdso(const struct ptah_session *session, const struct change *change)
{
	return session->vdso_size && change->address > UINT32_MAX && !change->file_offset &&
	       !strcmp(change->path, "[vdso]");
}

static int add_recorded_vdso(struct stream_decoder *s, const struct change *change)
{
	const uint64_t size = s->session->vdso_size;

	return ptah_image_add_bytes(s->image, s->session->vdso_code,
				    (size_t)(size < change->size ? size : change->size),
				    change->address, s->space);
}

/*
 * The copy of the vdso that was mapped; NULL: none is known. What distinguishes an x32 program from
 * a 32-bit one is not recorded: it has the other copy if there is only that one.
 */
static const char *vdso_of(const struct ptah_session *session, const struct change *change)
{
	const char *const *vdso = session->vdso;

	if (strcmp(change->path, "[vdso]") != 0)
		return NULL;
	if (change->address > UINT32_MAX)
		return vdso[PTAH_TRACE_VDSO_64];
	return vdso[PTAH_TRACE_VDSO_32] ? vdso[PTAH_TRACE_VDSO_32] : vdso[PTAH_TRACE_VDSO_X32];
}

static int add_map(struct stream_decoder *s, const struct change *change)
{
	const char *vdso = vdso_of(s->session, change);
	int status = PTAH_E_MISSING;

	if (!vdso && is_recorded_vdso(s->session, change))
		return add_recorded_vdso(s, change);
	if (vdso || session_copy_of(s->session, change) ||
	    (change_is_file(change) && !change->unfit)) {
		char *path = vdso ? strdup(vdso) : session_map_path(s->session, change);

		if (!path)
			return PTAH_E_NOMEM;
		status = ptah_image_add_file(s->image, path, change->file_offset, change->size,
					     change->address, s->space);
		free(path);
	}
	if (status >= 0 || status == PTAH_E_NOMEM)
		return status;
	/*
	 * No file, or a missing one, which was reported when the session was opened. What was
	 * mapped there before is unmapped all the same.
	 */
	return ptah_image_remove(s->image, change->address, change->size, s->space);
}

/* Unmaps what the changes [first, last) of a process mapped. */
static int unmap_changes(struct stream_decoder *s, const struct process *p, size_t first,
			 size_t last)
{
	int status = 0;

	for (size_t i = first; i < last && status >= 0; i++)
		if (p->changes[i].type != CHANGE_EXEC)
			status = ptah_image_remove(s->image, p->changes[i].address,
						   p->changes[i].size, s->space);
	return status;
}

/*
 * An execve in a trace set: unmaps what the process had since the one before, its parents' memory
 * included. Code of every process, which the set names too, stays.
 */
static int unmap_process(struct stream_decoder *s, const struct change *exec)
{
	const struct process *const processes = s->session->processes, *p;
	size_t process = s->stream->process, first, last;

	/* The change may be one that the process has inherited. */
	for (;; process = p->parent) {
		if (process == SESSION_NONE)
			return 0;
		p = &processes[process];
		if (exec >= p->changes && exec < p->changes + p->count)
			break;
	}
	for (last = (size_t)(exec - p->changes);; last = p->inherited, p = &processes[p->parent]) {
		int status;

		first = last ? p->changes[last - 1].execs_at : 0;
		status = unmap_changes(s, p, first, last);
		if (status < 0 || first || p->parent == SESSION_NONE)
			return status;
	}
}

int stream_apply_change(struct stream_decoder *s, const struct change *change)
{
	switch (change->type) {
	case CHANGE_EXEC:
		if (s->session->is_set && !s->space)
			return unmap_process(s, change);
		/* The kernel's code, if the image has it, stays. */
		return ptah_image_remove(s->image, change->address,
					 s->session->kernel.image ? KERNEL_HALF : change->size,
					 s->space);
	case CHANGE_PAGE:
		return s->view ? guest_view_change(s->view, s->image, change) : 0;
	case CHANGE_CODE:
		return add_code(s, change);
	default:
		return add_map(s, change);
	}
}

int stream_apply_later(struct stream_decoder *s, const struct change *change)
{
	int status;

	image_set_time(s->image, change->tsc);
	status = stream_apply_change(s, change);
	image_set_time(s->image, 0);
	if (s->session->growth)
		free((void *)(uintptr_t)change);
	return status;
}

void stream_free_changes(const struct ptah_session *session, const struct change **changes,
			 size_t next, size_t count)
{
	/* A session that grows has copies. */
	for (size_t i = next; i < count && session->growth; i++)
		free((void *)(uintptr_t)changes[i]);
	free(changes);
}

void stream_forget_changes(struct stream_decoder *s)
{
	stream_free_changes(s->session, s->later, s->next_later, s->later_count);
	s->later = NULL;
	s->later_count = s->next_later = 0;
}

/* Adds a copy, because the lists of a session that grows move. */
static int keep_change(struct stream_decoder *s, const struct change *change)
{
	struct change *copy = malloc(sizeof(*copy));

	if (!copy)
		return PTAH_E_NOMEM;
	*copy = *change;
	s->later[s->later_count++] = copy;
	return 0;
}

int stream_build_image(struct stream_decoder *s, size_t process)
{
	const struct change **changes;
	size_t count;
	bool *waits;
	int status;

	if (process == SESSION_NONE || s->session->config.no_images)
		return 0;
	status = s->follow ? session_memory(s->session, process, &changes, &waits, &count)
			   : session_stream_memory(s->session, s->stream, &changes, &waits, &count);
	if (status < 0)
		return status;
	s->later = changes;
	for (size_t i = 0; i < count && status >= 0; i++) {
		if (!waits[i])
			status = stream_apply_change(s, changes[i]);
		else if (!s->session->growth)
			s->later[s->later_count++] = changes[i];
		else
			status = keep_change(s, changes[i]);
	}
	free(waits);
	return status;
}

/* Sessions that grow */

static bool touch(const struct change *a, const struct change *b)
{
	return a->address <= b->address + (b->size - 1) && b->address <= a->address + (a->size - 1);
}

/* Whether the change replaces something that is there, or will be. */
static bool replaces(const struct stream_decoder *s, const struct change *change)
{
	for (size_t i = s->next_later; i < s->later_count; i++)
		if (touch(s->later[i], change))
			return true;
	if (change->type == CHANGE_PAGE)
		return s->view && guest_view_has(s->view, change);
	return s->space ? image_overlaps_in(s->image, change->address, change->size, s->space)
			: image_overlaps(s->image, change->address, change->size);
}

static int insert_later(struct stream_decoder *s, const struct change *change)
{
	const struct change **later;
	size_t at;
	int status;

	if (s->next_later) {
		s->later_count -= s->next_later;
		memmove(s->later, s->later + s->next_later, s->later_count * sizeof(*s->later));
		s->next_later = 0;
	}
	later = reallocarray(s->later, s->later_count + 1, sizeof(*later));
	if (!later)
		return PTAH_E_NOMEM;
	s->later = later;
	status = keep_change(s, change);
	if (status < 0)
		return status;
	for (at = s->later_count - 1; at && later[at - 1]->tsc > change->tsc; at--) {
		const struct change *before = later[at - 1];

		later[at - 1] = later[at];
		later[at] = before;
	}
	return 0;
}

int stream_take_change(struct stream_decoder *s, const struct change *change)
{
	if (s->session->config.no_images)
		return 0;
	return change->tsc && replaces(s, change) ? insert_later(s, change)
						  : stream_apply_change(s, change);
}
