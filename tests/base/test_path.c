/* SPDX-License-Identifier: MIT */
/* Paths below a root: as in chroot(2), ".." at the root is the root (POSIX, Pathname Resolution).
 */
#include "../test.h"

#include "base/path.h"

#include <stdio.h>

TEST(dots_do_not_leave_the_root)
{
	static const char *const paths[][2] = {
	    {"/", "/"},
	    {"/a", "/a"},
	    {"/a/b.so", "/a/b.so"},
	    {"/../a", "/a"},
	    {"/../../../etc/passwd", "/etc/passwd"},
	    {"/a/../../b", "/b"},
	    {"/a/../b", "/b"},
	    {"/a/b/../c/./d", "/a/c/d"},
	    {"/a/..", "/"},
	    {"/..", "/"},
	    {"/.", "/"},
	    {"//a///b/", "/a/b"},
	    {"/...", "/..."},
	    {"/..a/.b/c..", "/..a/.b/c.."},
	    {"/a/.../b", "/a/.../b"},
	    {"a/../b", "a/../b"}, /* not absolute: there is no room for a '/' before it */
	    {"", ""},
	};
	char text[64];

	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		snprintf(text, sizeof(text), "%s", paths[i][0]);
		path_resolve(text);
		assert_string_equal(text, paths[i][1]);
	}
}
