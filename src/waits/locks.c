/* SPDX-License-Identifier: MIT */
/*
 * Who ended the waits for locks of files, semaphores of System V, and messages in queues: the last
 * call before the wait's end that gave something back or sent something. For a lock that is exactly
 * the one, since nobody else gives back what the waiter has got by then. For the others there may be
 * several; then the wait is marked so.
 */
#include "waits/waits.h"

#include "base/bits.h"
#include "base/order.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

/* What is waited for. */
enum family {
	FAMILY_FLOCK = 1,
	FAMILY_FCNTL,
	FAMILY_SEMAPHORE,
	FAMILY_MESSAGE, /* arrives in a queue of System V */
	FAMILY_ROOM,	/* in such a queue */
	FAMILY_QUEUE,	/* a message arrives in a queue of POSIX */
	FAMILY_QUEUE_ROOM,
};

#define F_UNLCK 2
#define F_RDLCK 0

#define LOCK_SHARED 1
#define LOCK_UN	    8
#define SEM_UNDO    0x1000

/* A call that may end waits; or, while they are listed, a call after which exits may. */
struct release {
	uint64_t key; /* the family, and the number of a file or of what System V has */
	uint32_t call;
	int32_t pid; /* that holds something; 0: the call itself releases it */
};

struct releases {
	struct release *list;
	size_t count, capacity;
	uint32_t *files; /* of each object the first one with the same name */
};

static int add_release(struct releases *r, uint64_t key, size_t call, int32_t pid)
{
	if (!LIST_ROOM(r->list, r->count, r->capacity))
		return PTAH_E_NOMEM;
	r->list[r->count++] = (struct release){key, (uint32_t)call, pid};
	return 0;
}

static uint64_t key_of(enum family family, uint64_t number)
{
	return (uint64_t)family << 32 | (uint32_t)number;
}

/* Files that were opened by the same name are one. */

static int compare_names(const void *a, const void *b, void *context)
{
	const struct object *objects = context;
	const uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
	const struct object *x = &objects[i], *y = &objects[k];
	const size_t n = x->name_size < y->name_size ? x->name_size : y->name_size;
	const int order = n ? memcmp(x->name, y->name, n) : 0;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (order || x->name_size != y->name_size)
		return order ? order : x->name_size < y->name_size ? -1 : 1;
	return COMPARE(i, k);
}

static bool same_file(const struct object *x, const struct object *y)
{
	return x->name_size && x->kind == y->kind && x->name_size == y->name_size &&
	       !memcmp(x->name, y->name, x->name_size);
}

static int list_files(const struct ptah_syscalls *s, struct releases *r)
{
	uint32_t *sorted = malloc((s->object_count + 1) * sizeof(*sorted));

	r->files = malloc((s->object_count + 1) * sizeof(*r->files));
	if (!sorted || !r->files) {
		free(sorted);
		return PTAH_E_NOMEM;
	}
	for (size_t i = 0; i < s->object_count; i++)
		sorted[i] = (uint32_t)i;
	qsort_r(sorted, s->object_count, sizeof(*sorted), compare_names, s->objects);
	for (size_t i = 0; i < s->object_count; i++) {
		const uint32_t at = sorted[i], before = i ? sorted[i - 1] : 0;

		r->files[at] =
		    i && same_file(&s->objects[at], &s->objects[before]) ? r->files[before] : at;
	}
	free(sorted);
	return 0;
}

/* Calls */

static bool has_succeeded(const struct system_call *c)
{
	return c->flags & PTAH_SYSCALL_RETURNED && c->result >= 0;
}

/* F_SETLK, F_SETLKW, F_OFD_SETLK, F_OFD_SETLKW, whose struct flock is known. */
static bool sets_lock(const struct system_call *c)
{
	const uint64_t command = c->args[1];

	return (command == 6 || command == 7 || command == 37 || command == 38) &&
	       c->data_size >= 32 && c->data_arg == 2;
}

/* Of the operations of semop() those with a semaphore's number; 0: there is none. */
static int16_t semaphore_change(const struct system_call *c, uint16_t number, uint16_t *flags)
{
	for (size_t at = 0; c->data_arg == 1 && at + 6 <= c->data_size; at += 6)
		if (load_le16(c->data + at) == number) {
			*flags |= load_le16(c->data + at + 4);
			return (int16_t)load_le16(c->data + at + 2);
		}
	return 0;
}

static bool is_undone(const struct system_call *c)
{
	for (size_t at = 0; c->data_arg == 1 && at + 6 <= c->data_size; at += 6)
		if (load_le16(c->data + at + 4) & SEM_UNDO)
			return true;
	return false;
}

/* fcntl() that gives back, or shares; any other holds a lock from there on. */
static int list_fcntl(const struct ptah_syscalls *s, struct releases *r, size_t i)
{
	const struct system_call *c = &s->calls[i];
	const uint64_t key = key_of(FAMILY_FCNTL, r->files[c->object]);
	const unsigned type = sets_lock(c) ? load_le16(c->data) : F_UNLCK;
	int status = 0;

	if (!sets_lock(c) || !c->object)
		return 0;
	if (type == F_UNLCK || type == F_RDLCK)
		status = add_release(r, key, i, 0);
	return status < 0 || type == F_UNLCK ? status : add_release(r, key, i, c->pid);
}

static int list_flock(const struct ptah_syscalls *s, struct releases *r, size_t i)
{
	const struct system_call *c = &s->calls[i];
	const uint64_t key = key_of(FAMILY_FLOCK, r->files[c->object]);
	int status = 0;

	if (!c->object)
		return 0;
	if (c->args[1] & (LOCK_UN | LOCK_SHARED))
		status = add_release(r, key, i, 0);
	return status < 0 || c->args[1] & LOCK_UN ? status : add_release(r, key, i, c->pid);
}

static int list_call(const struct ptah_syscalls *s, struct releases *r, size_t i)
{
	const struct system_call *c = &s->calls[i];
	const uint32_t file = r->files[c->object];
	int status;

	switch (c->number) {
	case NR_CLOSE: /* gives back the locks of the file */
		if (!c->object || s->objects[c->object].kind != PTAH_DESCRIPTOR_FILE)
			return 0;
		status = add_release(r, key_of(FAMILY_FLOCK, file), i, 0);
		return status < 0 ? status : add_release(r, key_of(FAMILY_FCNTL, file), i, 0);
	case NR_FCNTL:
		return has_succeeded(c) ? list_fcntl(s, r, i) : 0;
	case NR_FLOCK:
		return has_succeeded(c) ? list_flock(s, r, i) : 0;
	case NR_SEMOP:
	case NR_SEMTIMEDOP:
		if (!has_succeeded(c))
			return 0;
		status = add_release(r, key_of(FAMILY_SEMAPHORE, c->args[0]), i, 0);
		return status < 0 || !is_undone(c)
			   ? status
			   : add_release(r, key_of(FAMILY_SEMAPHORE, c->args[0]), i, c->pid);
	case NR_SEMCTL: /* IPC_RMID, SETVAL, SETALL */
		return has_succeeded(c) && (c->args[2] == 0 || c->args[2] == 16 || c->args[2] == 17)
			   ? add_release(r, key_of(FAMILY_SEMAPHORE, c->args[0]), i, 0)
			   : 0;
	case NR_MSGSND:
	case NR_MSGRCV:
		return has_succeeded(c) ? add_release(r,
						      key_of(c->number == NR_MSGSND ? FAMILY_MESSAGE
										    : FAMILY_ROOM,
							     c->args[0]),
						      i, 0)
					: 0;
	case NR_MQ_TIMEDSEND:
	case NR_MQ_TIMEDRECEIVE:
		return has_succeeded(c) && c->object
			   ? add_release(r,
					 key_of(c->number == NR_MQ_TIMEDSEND ? FAMILY_QUEUE
									     : FAMILY_QUEUE_ROOM,
						file),
					 i, 0)
			   : 0;
	default:
		return 0;
	}
}

/* Ends of processes that hold something release it. */

static int compare_holders(const void *a, const void *b)
{
	const struct release *x = a, *y = b;

	return COMPARE_THEN(x->pid, y->pid,
			    COMPARE_THEN(x->key, y->key, COMPARE(x->call, y->call)));
}

static int compare_releases(const void *a, const void *b)
{
	const struct release *x = a, *y = b;

	return COMPARE_THEN(x->key, y->key, COMPARE(x->call, y->call));
}

/* The first one of a process; releases of their own, with pid 0, come first. */
static size_t first_of(const struct releases *r, size_t count, int32_t pid)
{
	size_t at;

	BISECT(at, 0, count, r->list[at].pid < pid);
	return at;
}

/* So many holders are looked at: a recording may have thousands of one process, and of exits. */
#define MOST_LOOKS (UINT32_C(1) << 22)

static int list_exits(const struct ptah_syscalls *s, struct releases *r)
{
	const size_t count = r->count, holders = first_of(r, count, 1);
	uint32_t looks = 0;
	int status = 0;

	for (size_t i = 0; i < s->count && status >= 0 && holders < count; i++) {
		const struct system_call *c = &s->calls[i];
		uint64_t last = 0;

		if (c->number != NR_EXIT_GROUP || !(c->flags & PTAH_SYSCALL_ENTERED))
			continue;
		for (size_t k = first_of(r, count, c->pid);
		     k < count && r->list[k].pid == c->pid && status >= 0 && looks < MOST_LOOKS;
		     k++, looks++) {
			if (r->list[k].key != last && r->list[k].call < i)
				status = add_release(r, r->list[k].key, i, 0);
			last = r->list[k].key;
		}
	}
	/* What is held is of no use any more. */
	if (count > holders)
		memmove(r->list + holders, r->list + count, (r->count - count) * sizeof(*r->list));
	r->count -= count - holders;
	return status;
}

/* Waits */

/* 0: it waits for nothing of this kind. */
static uint64_t key_of_wait(const struct ptah_waits *w, const struct releases *r,
			    const struct wait *wait)
{
	const struct system_call *c = wait_call(w, wait);
	const uint32_t file = r->files[c->object];

	switch (c->number) {
	case NR_FLOCK:
		return c->object ? key_of(FAMILY_FLOCK, file) : 0;
	case NR_FCNTL:
		return c->object ? key_of(FAMILY_FCNTL, file) : 0;
	case NR_SEMOP:
	case NR_SEMTIMEDOP:
		return key_of(FAMILY_SEMAPHORE, c->args[0]);
	case NR_MSGRCV:
		return key_of(FAMILY_MESSAGE, c->args[0]);
	case NR_MSGSND:
		return key_of(FAMILY_ROOM, c->args[0]);
	case NR_MQ_TIMEDRECEIVE:
		return c->object ? key_of(FAMILY_QUEUE, file) : 0;
	case NR_MQ_TIMEDSEND:
		return c->object ? key_of(FAMILY_QUEUE_ROOM, file) : 0;
	default:
		return 0;
	}
}

/* Whether one semop() may have let another one go on; yes, where the operations are not known. */
static bool lets_go_on(const struct system_call *c, const struct system_call *waiting)
{
	uint16_t flags = 0;

	if (c->number == NR_SEMCTL || c->number == NR_EXIT_GROUP || c->data_size < 6 ||
	    waiting->data_size < 6)
		return true;
	for (size_t at = 0; at + 6 <= waiting->data_size; at += 6) {
		const int16_t wanted = (int16_t)load_le16(waiting->data + at + 2);
		const int16_t change = semaphore_change(c, load_le16(waiting->data + at), &flags);

		if ((wanted < 0 && change > 0) || (!wanted && change < 0))
			return true;
	}
	return false;
}

/* Whether two fcntl() locks are of common bytes; yes, where that is not known. */
static bool overlap(const struct system_call *c, const struct system_call *waiting)
{
	uint64_t a, b, size, other;

	if (!sets_lock(c) || !sets_lock(waiting) || load_le16(c->data + 2) ||
	    load_le16(waiting->data + 2)) /* l_whence is SEEK_SET */
		return true;
	a = load_le64(c->data + 8);
	size = load_le64(c->data + 16);
	b = load_le64(waiting->data + 8);
	other = load_le64(waiting->data + 16);
	return (!size || a + size > b) && (!other || b + other > a);
}

static bool may_end(const struct ptah_waits *w, const struct wait *wait,
		    const struct system_call *c)
{
	const struct system_call *waiting = wait_call(w, wait);

	if (c->tid == wait->tid || call_end(w, c) <= wait->begin)
		return false;
	switch (waiting->number) {
	case NR_SEMOP:
	case NR_SEMTIMEDOP:
		return lets_go_on(c, waiting);
	case NR_FCNTL: /* the threads of a process have its locks together */
		return overlap(c, waiting) && (waiting->args[1] != 7 || c->pid != wait->pid);
	default:
		return true;
	}
}

/* So many calls before a wait's end are looked at. */
#define MOST_BEFORE 64

/* A path that depends on where the process is may be another file in another one. */
static bool is_doubtful(const struct ptah_waits *w, const struct wait *wait,
			const struct system_call *c)
{
	const struct object *o = &w->calls->objects[wait_call(w, wait)->object];

	return c->pid != wait->pid && o->kind == PTAH_DESCRIPTOR_FILE && o->name_size &&
	       o->name[0] != '/';
}

static void match_wait(struct ptah_waits *w, const struct releases *r, struct wait *wait)
{
	const uint64_t key = key_of_wait(w, r, wait);
	const struct system_call *found = NULL;
	size_t at;
	bool several = false;

	if (!key || wait->how != PTAH_WAIT_END_UNKNOWN)
		return;
	/* Finds the first that is not before the wait's end. */
	BISECT(at, 0, r->count,
	       r->list[at].key < key ||
		   (r->list[at].key == key && w->calls->calls[r->list[at].call].begin < wait->end));
	for (unsigned i = 0; i < MOST_BEFORE && at && r->list[at - 1].key == key; i++) {
		const struct system_call *c = &w->calls->calls[r->list[--at].call];

		if (!may_end(w, wait, c))
			continue;
		if (!found) {
			wait_set_waker(w, wait, r->list[at].call);
			found = c;
		}
		several = several || c->tid != found->tid;
	}
	if (found && ((several && wait->kind != PTAH_WAIT_LOCK) || is_doubtful(w, wait, found)))
		wait->flags |= PTAH_WAIT_SEVERAL;
}

int locks_match(struct ptah_waits *w)
{
	struct releases r = {0};
	int status = list_files(w->calls, &r);

	for (size_t i = 0; i < w->calls->count && status >= 0; i++)
		status = list_call(w->calls, &r, i);
	if (status >= 0 && r.count) {
		qsort(r.list, r.count, sizeof(*r.list), compare_holders);
		status = list_exits(w->calls, &r);
	}
	if (status >= 0 && r.count) {
		qsort(r.list, r.count, sizeof(*r.list), compare_releases);
		for (size_t i = 0; i < w->count; i++)
			match_wait(w, &r, &w->waits[i]);
	}
	free(r.list);
	free(r.files);
	return status;
}
