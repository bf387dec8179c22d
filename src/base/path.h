/* SPDX-License-Identifier: MIT */
/* Paths from untrusted files, which must not lead out of the folder that they are put below. */
#ifndef PTAH_BASE_PATH_H
#define PTAH_BASE_PATH_H

/*
 * Resolves "." and ".." in an absolute path, in place and without looking at files:
 * "/a/./b/../c" becomes "/a/c". As in chroot(2), ".." at the root is the root:
 * "/../a" becomes "/a". The result is never longer. A path that is not absolute, as strangers'
 * recordings may have it, stays as it is.
 */
void path_resolve(char *path);

#endif
