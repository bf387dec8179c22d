/* SPDX-License-Identifier: MIT */
/*
 * Whose processes may share a memory (layout.h). Who can write to it can falsify the recording of
 * all that have it, so these have to be processes that the kernel would let trace each other
 * (ptrace(2), "Ptrace access mode checking"): the same users, groups and capabilities. The runtime
 * asks when a process has changed them, the recorder when it puts the runtime into a program.
 */
#ifndef PTAH_RECORD_NATIVE_USERS_H
#define PTAH_RECORD_NATIVE_USERS_H

#include <stdbool.h>
#include <stdint.h>

struct native_user {
	uint32_t uids[3], gids[3]; /* real, effective, saved */
	uint64_t capabilities;	   /* permitted */
	uint64_t space;		   /* inode of the user namespace; 0: not known */
};

static inline bool native_user_has(const uint32_t ids[3], uint32_t id)
{
	return ids[0] == id || ids[1] == id || ids[2] == id;
}

/* Root, also where it has put on another user for a while: it can take that off again. */
static inline bool native_user_is_root(const struct native_user *u)
{
	return native_user_has(u->uids, 0);
}

static inline bool native_user_is(const struct native_user *a, const struct native_user *b)
{
	if (a->capabilities != b->capabilities || a->space != b->space)
		return false;
	if (native_user_is_root(a) || native_user_is_root(b))
		return native_user_is_root(a) && native_user_is_root(b);
	for (unsigned i = 0; i < 3; i++)
		if (a->uids[i] != b->uids[i] || a->gids[i] != b->gids[i])
			return false;
	return true;
}

/* Whether one of a's processes can have become b's without the help of another program. */
static inline bool native_user_can_become(const struct native_user *a, const struct native_user *b)
{
	if (native_user_is_root(a))
		return true;
	for (unsigned i = 0; i < 3; i++)
		if (!native_user_has(a->uids, b->uids[i]) || !native_user_has(a->gids, b->gids[i]))
			return false;
	/* In a namespace that it has made, they are worth nothing outside. */
	return a->space != b->space || !(b->capabilities & ~a->capabilities);
}

/* What the kernel says of a thread. False: there is none. */
bool native_user_read(int32_t tid, struct native_user *user);

#endif
