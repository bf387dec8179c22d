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

#define F_RDLCK 0
#define F_WRLCK 1
#define F_UNLCK 2

#define LOCK_SHARED 1
#define LOCK_UN	    8
#define SEM_UNDO    0x1000

/*
 * A call that may end waits; or, while they are listed, a call after which exits may. In the list of
 * what was set, a call that sets a lock of a file or gives it back.
 */
struct release {
	uint64_t key;	/* the family, and the number of a file or of what System V has */
	uint64_t owner; /* of a file's lock: see owner_of_lock(); 0: it is none */
	uint32_t call;
	int32_t pid; /* that holds something; 0: the call itself releases it */
};

struct release_list {
	struct release *list;
	size_t count, capacity;
};

struct releases {
	struct release_list all, set;
	uint32_t *files; /* of each object the first one with the same name */
};

static int add_release(struct release_list *r, const struct release *release)
{
	if (!LIST_ROOM(r->list, r->count, r->capacity))
		return PTAH_E_NOMEM;
	r->list[r->count++] = *release;
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

/* The change by the first operation of semop() that has a semaphore's number; 0: there is none. */
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

/*
 * The number of a lock that the threads of a process have together. Other numbers are those of
 * objects.
 */
#define OF_PROCESS (UINT64_C(1) << 32)

/* Who has the lock that flock() or fcntl() sets: an open file, or for F_SETLK and F_SETLKW a process. */
static uint64_t owner_of_lock(const struct system_call *c)
{
	return c->number == NR_FCNTL && (c->args[1] == 6 || c->args[1] == 7)
		   ? OF_PROCESS | (uint32_t)c->pid
		   : c->object;
}

enum lock_type {
	LOCK_NONE,
	LOCK_TO_READ,
	LOCK_TO_WRITE
};

static enum lock_type lock_type(const struct system_call *c)
{
	unsigned type;

	if (c->number == NR_CLOSE)
		return LOCK_NONE;
	if (c->number == NR_FLOCK)
		return c->args[1] & LOCK_UN	  ? LOCK_NONE
		       : c->args[1] & LOCK_SHARED ? LOCK_TO_READ
						  : LOCK_TO_WRITE;
	type = sets_lock(c) ? load_le16(c->data) : F_WRLCK;
	return type == F_UNLCK ? LOCK_NONE : type == F_RDLCK ? LOCK_TO_READ : LOCK_TO_WRITE;
}

/* Whether what one call sets is in the way of what another one wants to set. */
static bool keeps_out(const struct system_call *c, const struct system_call *waiting)
{
	const enum lock_type type = lock_type(c);

	return type == LOCK_TO_WRITE ||
	       (type == LOCK_TO_READ && lock_type(waiting) == LOCK_TO_WRITE);
}

/* What sets a lock of a file, or gives it back. */
static int list_setting(const struct ptah_syscalls *s, struct releases *r, size_t i)
{
	const struct system_call *c = &s->calls[i];
	const bool is_flock = c->number == NR_FLOCK;
	const struct release set = {
	    .key = key_of(is_flock ? FAMILY_FLOCK : FAMILY_FCNTL, r->files[c->object]),
	    .owner = owner_of_lock(c),
	    .call = (uint32_t)i};

	if (!c->object || !has_succeeded(c) ||
	    (!is_flock && !(c->number == NR_FCNTL && sets_lock(c))))
		return 0;
	return add_release(&r->set, &set);
}

static int compare_owners(const void *a, const void *b)
{
	const struct release *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	if (x->owner != y->owner)
		return x->owner < y->owner ? -1 : 1;
	return x->call < y->call ? -1 : x->call > y->call;
}

/* How many were set before one with this key, owner and call, in their order. */
static size_t count_set(const struct release_list *set, const struct release *release)
{
	size_t low = 0, high = set->count;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (compare_owners(&set->list[middle], release) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The last one that an owner had set before a call. NULL: there is none. */
static const struct release *last_set(const struct release_list *set, const struct release *release)
{
	const size_t n = count_set(set, release);
	const struct release *last = n ? &set->list[n - 1] : NULL;

	return last && last->key == release->key && last->owner == release->owner ? last : NULL;
}

/* close() gives back the locks that the process has of the file, whatever others of it are open. */
static int list_closes(const struct ptah_syscalls *s, struct releases *r)
{
	struct release_list closes = {0};
	int status = 0;

	for (size_t i = 0; i < s->count && status >= 0; i++) {
		const struct system_call *c = &s->calls[i];
		const struct release close = {.key = key_of(FAMILY_FCNTL, r->files[c->object]),
					      .owner = OF_PROCESS | (uint32_t)c->pid,
					      .call = (uint32_t)i};

		if (c->number == NR_CLOSE && c->object && last_set(&r->set, &close))
			status = add_release(&closes, &close);
	}
	for (size_t i = 0; i < closes.count && status >= 0; i++)
		status = add_release(&r->set, &closes.list[i]);
	free(closes.list);
	if (r->set.count)
		qsort(r->set.list, r->set.count, sizeof(*r->set.list), compare_owners);
	return status;
}

/* Those that may give back what was set: the next one that is set, and the end of its owner. */
static int list_file_releases(const struct ptah_syscalls *s, struct releases *r)
{
	int status = 0;

	for (size_t i = 0; i < r->set.count && status >= 0; i++) {
		struct release release = r->set.list[i];
		const bool is_last = i + 1 == r->set.count ||
				     r->set.list[i + 1].key != release.key ||
				     r->set.list[i + 1].owner != release.owner;

		status = add_release(&r->all, &release);
		if (status < 0 || !is_last)
			continue;
		if (release.owner & OF_PROCESS) {
			release.pid = (int32_t)release.owner;
			release.call = 0;
			status = add_release(&r->all, &release);
		} else if (s->objects[release.owner].closed) {
			release.call = s->objects[release.owner].closed - 1;
			status = add_release(&r->all, &release);
		}
	}
	return status;
}

/* semop() that has SEM_UNDO is undone when its process ends. */
static int list_semop(struct releases *r, const struct system_call *c, struct release *release)
{
	int status = add_release(&r->all, release);

	if (status < 0 || !is_undone(c))
		return status;
	release->pid = c->pid;
	return add_release(&r->all, release);
}

static int list_call(const struct ptah_syscalls *s, struct releases *r, size_t i)
{
	const struct system_call *c = &s->calls[i];
	struct release release = {.call = (uint32_t)i};

	if (!has_succeeded(c))
		return 0;
	switch (c->number) {
	case NR_SEMOP:
	case NR_SEMTIMEDOP:
		release.key = key_of(FAMILY_SEMAPHORE, c->args[0]);
		return list_semop(r, c, &release);
	case NR_SEMCTL: /* IPC_RMID, SETVAL, SETALL */
		if (c->args[2] == 0 || c->args[2] == 16 || c->args[2] == 17)
			release.key = key_of(FAMILY_SEMAPHORE, c->args[0]);
		break;
	case NR_MSGSND:
		release.key = key_of(FAMILY_MESSAGE, c->args[0]);
		break;
	case NR_MSGRCV:
		release.key = key_of(FAMILY_ROOM, c->args[0]);
		break;
	case NR_MQ_TIMEDSEND:
	case NR_MQ_TIMEDRECEIVE:
		if (c->object)
			release.key =
			    key_of(c->number == NR_MQ_TIMEDSEND ? FAMILY_QUEUE : FAMILY_QUEUE_ROOM,
				   r->files[c->object]);
		break;
	default:
		break;
	}
	return release.key ? add_release(&r->all, &release) : 0;
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
static size_t first_of(const struct release_list *r, size_t count, int32_t pid)
{
	size_t at;

	BISECT(at, 0, count, r->list[at].pid < pid);
	return at;
}

/* So many holders are looked at: a recording may have thousands of one process, and of exits. */
#define MOST_LOOKS (UINT32_C(1) << 22)

static int list_exits(const struct ptah_syscalls *s, struct release_list *r)
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
			struct release release = r->list[k];

			release.call = (uint32_t)i;
			release.pid = 0;
			if (release.key != last && r->list[k].call < i)
				status = add_release(r, &release);
			last = release.key;
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

/* The bytes [*from, *until) of a lock of fcntl(), or all. False: they are not known. */
static bool bytes_of_lock(const struct system_call *c, uint64_t *from, uint64_t *until)
{
	uint64_t size;

	*from = 0;
	*until = UINT64_MAX;
	if (c->number != NR_FCNTL)
		return true;
	if (!sets_lock(c) || load_le16(c->data + 2)) /* l_whence is not SEEK_SET */
		return false;
	size = load_le64(c->data + 16);
	if (load_le64(c->data + 8) > INT64_MAX || size > INT64_MAX)
		return false;
	*from = load_le64(c->data + 8);
	if (size)
		*until = *from + size;
	return true;
}

/* So many calls before a wait's end, and before one of those, are looked at. */
#define MOST_BEFORE 64

/*
 * Whether an owner had a lock that keeps others from locking the bytes [from, until), before it gave
 * it back. Where it has set none yet it is not known; then it had one if it gave that one back itself.
 */
static bool has_held(const struct ptah_waits *w, const struct releases *r,
		     const struct release *release, const struct system_call *waiting,
		     uint64_t from, uint64_t until)
{
	const struct system_call *calls = w->calls->calls, *c = &calls[release->call];
	const struct release *set = last_set(&r->set, release);
	uint64_t first = 0, last = 0;

	for (unsigned i = 0; set && i < MOST_BEFORE; i++) {
		const struct system_call *setting = &calls[set->call];
		const bool is_known = bytes_of_lock(setting, &first, &last);
		const struct release before = *set;

		set = last_set(&r->set, &before);
		/* One that was still going on in another thread; or that is of other bytes. */
		if (call_end(w, setting) > call_end(w, c) ||
		    (is_known && (first >= until || last <= from)))
			continue;
		if (keeps_out(setting, waiting))
			return true;
		if (is_known && first <= from && last >= until)
			return false;
		if (is_known && first <= from)
			from = last;
		else if (is_known && last >= until)
			until = first;
	}
	return !set && (c->number == NR_FLOCK || c->number == NR_FCNTL) &&
	       !last_set(&r->set, release);
}

/* Whether a call has given back what a wait for a file's lock was for. */
static bool gives_back(const struct ptah_waits *w, const struct releases *r,
		       const struct release *release, const struct system_call *waiting)
{
	const struct system_call *c = &w->calls->calls[release->call];
	const bool sets = c->number == NR_FLOCK || c->number == NR_FCNTL;
	uint64_t from = 0, until = UINT64_MAX, first, last;

	if (sets && keeps_out(c, waiting))
		return false;
	bytes_of_lock(waiting, &from, &until);
	if (bytes_of_lock(c, &first, &last)) {
		from = first > from ? first : from;
		until = last < until ? last : until;
	}
	return from < until && has_held(w, r, release, waiting, from, until);
}

static bool may_end(const struct ptah_waits *w, const struct releases *r, const struct wait *wait,
		    const struct release *release)
{
	const struct system_call *waiting = wait_call(w, wait);
	const struct system_call *c = &w->calls->calls[release->call];

	if (c->tid == wait->tid || call_end(w, c) <= wait->begin)
		return false;
	switch (waiting->number) {
	case NR_SEMOP:
	case NR_SEMTIMEDOP:
		return lets_go_on(c, waiting);
	case NR_FLOCK:
	case NR_FCNTL:
		return release->owner != owner_of_lock(waiting) &&
		       gives_back(w, r, release, waiting);
	default:
		return true;
	}
}

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
	const struct release *list = r->all.list;
	size_t at;
	bool several = false;

	if (!key || wait->how != PTAH_WAIT_END_UNKNOWN)
		return;
	/* Finds the first that is not before the wait's end. */
	BISECT(at, 0, r->all.count,
	       list[at].key < key ||
		   (list[at].key == key && w->calls->calls[list[at].call].begin < wait->end));
	for (unsigned i = 0; i < MOST_BEFORE && at && list[at - 1].key == key; i++) {
		const struct system_call *c = &w->calls->calls[list[--at].call];

		if (!may_end(w, r, wait, &list[at]))
			continue;
		if (!found) {
			wait_set_waker(w, wait, list[at].call);
			found = c;
		}
		several = several || c->tid != found->tid;
	}
	if (found && ((several && wait->kind != PTAH_WAIT_LOCK) || is_doubtful(w, wait, found)))
		wait->flags |= PTAH_WAIT_SEVERAL;
}

static int list_releases(struct ptah_waits *w, struct releases *r)
{
	int status = list_files(w->calls, r);

	for (size_t i = 0; i < w->calls->count && status >= 0; i++)
		status = list_setting(w->calls, r, i);
	if (r->set.count)
		qsort(r->set.list, r->set.count, sizeof(*r->set.list), compare_owners);
	if (status >= 0)
		status = list_closes(w->calls, r);
	if (status >= 0)
		status = list_file_releases(w->calls, r);
	for (size_t i = 0; i < w->calls->count && status >= 0; i++)
		status = list_call(w->calls, r, i);
	if (status < 0 || !r->all.count)
		return status;
	qsort(r->all.list, r->all.count, sizeof(*r->all.list), compare_holders);
	status = list_exits(w->calls, &r->all);
	if (r->all.count)
		qsort(r->all.list, r->all.count, sizeof(*r->all.list), compare_releases);
	return status;
}

int locks_match(struct ptah_waits *w)
{
	struct releases r = {0};
	int status = list_releases(w, &r);

	for (size_t i = 0; i < w->count && status >= 0 && r.all.count; i++)
		match_wait(w, &r, &w->waits[i]);
	free(r.all.list);
	free(r.set.list);
	free(r.files);
	return status;
}
