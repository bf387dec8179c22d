/* SPDX-License-Identifier: MIT */
/* The files of src/view/web/, which cmake/web.cmake makes part of the program. */
#ifndef PTAH_VIEW_WEB_H
#define PTAH_VIEW_WEB_H

#include <stddef.h>

struct view_file {
	const char *name;	    /* "style.css" */
	const char *type;	    /* "text/css; charset=utf-8" */
	const char *hash;	    /* of the bytes: SHA-256 in base64 */
	const unsigned char *bytes; /* a NUL follows them */
	size_t size;
};

/* Ends with an element without a name. */
extern const struct view_file view_files[];

/* NULL: there is no such file. */
const struct view_file *view_file_find(const char *name);

#endif
