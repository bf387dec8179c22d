/* SPDX-License-Identifier: MIT */
/*
 * Descriptors: which file, pipe or socket each number of each process is, from the calls that open,
 * copy and close them. A child has those of its parent. A connected socket's peer is the one that
 * accept() returned for it: the kernel answers connections in their order.
 */
#include "waits/syscalls.h"

#include "base/bits.h"
#include "session/session.h"

#include <stdlib.h>
#include <string.h>

/* More descriptors of a process are not followed. */
#define MOST_DESCRIPTORS 65536

/* So many are followed of all processes together: each child has a table of its own. */
#define MOST_SLOTS ((size_t)1 << 24)

/* So many forks have not returned, or the oldest is forgotten. */
#define MOST_FORKING 1024

/* No socket's address is longer (sockaddr_un). */
#define MOST_ADDRESS 110

/* So many connections wait to be accepted, or the oldest is forgotten. */
#define MOST_CONNECTING 1024

#define OPEN_CLONE_FILES UINT64_C(0x400)

struct owner {
	uint32_t *objects; /* by descriptor; 0: not known */
	size_t count;
};

struct descriptors {
	struct ptah_syscalls *calls;
	struct owner *owners;
	size_t count, capacity;
	size_t slots; /* of all owners */
	struct table by_pid;
	uint32_t connecting[MOST_CONNECTING];
	size_t connecting_count;
	/* Processes that are in fork(): their children have returned from it before them, perhaps. */
	int32_t forking[MOST_FORKING];
	size_t forking_count;
};

static uint32_t add_object(struct descriptors *d, unsigned kind)
{
	struct ptah_syscalls *s = d->calls;
	struct object *objects =
	    session_grow(s->objects, s->object_count, &s->object_capacity, sizeof(*objects));

	if (!objects || s->object_count >= UINT32_MAX)
		return 0;
	s->objects = objects;
	objects[s->object_count] = (struct object){.kind = (uint8_t)kind};
	return (uint32_t)s->object_count++;
}

int descriptors_new(struct ptah_syscalls *calls, struct descriptors **descriptors)
{
	struct descriptors *d = calloc(1, sizeof(*d));

	*descriptors = d;
	if (!d)
		return PTAH_E_NOMEM;
	d->calls = calls;
	/* Number 0 is that of what is not known; the first member is none. */
	add_object(d, PTAH_DESCRIPTOR_UNKNOWN);
	calls->members = session_grow(NULL, 0, &calls->member_capacity, sizeof(*calls->members));
	calls->member_count = 1;
	return calls->object_count && calls->members ? 0 : PTAH_E_NOMEM;
}

void descriptors_free(struct descriptors *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->count; i++)
		free(d->owners[i].objects);
	free(d->owners);
	table_free(&d->by_pid);
	free(d);
}

static struct owner *find_owner(struct descriptors *d, int32_t pid)
{
	const size_t i = table_get(&d->by_pid, (uint32_t)pid);

	return i == SIZE_MAX ? NULL : &d->owners[i];
}

static struct owner *owner_of(struct descriptors *d, int32_t pid)
{
	struct owner *owner = find_owner(d, pid), *owners;

	if (owner)
		return owner;
	owners = session_grow(d->owners, d->count, &d->capacity, sizeof(*owners));
	if (!owners)
		return NULL;
	d->owners = owners;
	if (table_set(&d->by_pid, (uint32_t)pid, d->count) < 0)
		return NULL;
	owners[d->count] = (struct owner){0};
	return &owners[d->count++];
}

static uint32_t object_of(struct descriptors *d, int32_t pid, uint64_t fd)
{
	const struct owner *owner = find_owner(d, pid);

	return owner && (uint32_t)fd < owner->count ? owner->objects[(uint32_t)fd] : 0;
}

/* Makes room for a descriptor, as long as there is some. */
static int grow_owner(struct descriptors *d, struct owner *owner, size_t fd)
{
	const size_t count = 2 * fd + 16;
	uint32_t *objects;

	if (fd < owner->count || count - owner->count > MOST_SLOTS - d->slots)
		return 0;
	objects = reallocarray(owner->objects, count, sizeof(*objects));
	if (!objects)
		return PTAH_E_NOMEM;
	memset(objects + owner->count, 0, (count - owner->count) * sizeof(*objects));
	d->slots += count - owner->count;
	owner->objects = objects;
	owner->count = count;
	return 0;
}

/* The descriptor is that object from now on; 0: it is closed, or not known. */
static int set_object(struct descriptors *d, int32_t pid, int64_t fd, uint32_t object)
{
	struct owner *owner;
	int status = 0;

	if (fd < 0 || fd >= MOST_DESCRIPTORS)
		return 0;
	owner = object ? owner_of(d, pid) : find_owner(d, pid);
	if (!owner)
		return object ? PTAH_E_NOMEM : 0;
	/* What is not known takes no memory: recordings come from strangers. */
	if (object)
		status = grow_owner(d, owner, (size_t)fd);
	if ((size_t)fd < owner->count)
		owner->objects[fd] = object;
	return status;
}

/* Processes */

/* The child begins with the descriptors of its parent. */
static int inherit(struct descriptors *d, int32_t parent, int32_t child)
{
	struct owner *from = find_owner(d, parent), *to = find_owner(d, child);

	/* A process that has ended has none, so that its number may be that of another one. */
	if (parent == child || child <= 0 || !from || !from->count || (to && to->count) ||
	    from->count > MOST_SLOTS - d->slots)
		return 0;
	to = owner_of(d, child);
	if (!to)
		return PTAH_E_NOMEM;
	from = find_owner(d, parent); /* it may have moved */
	to->objects = malloc(from->count * sizeof(*to->objects));
	if (!to->objects)
		return PTAH_E_NOMEM;
	memcpy(to->objects, from->objects, from->count * sizeof(*to->objects));
	to->count = from->count;
	d->slots += to->count;
	return 0;
}

static void forget(struct descriptors *d, int32_t pid)
{
	struct owner *owner = find_owner(d, pid);

	if (!owner)
		return;
	d->slots -= owner->count;
	free(owner->objects);
	*owner = (struct owner){0};
}

static bool is_fork(const struct system_call *c)
{
	return c->number == NR_FORK || c->number == NR_VFORK || c->number == NR_CLONE ||
	       c->number == NR_CLONE3;
}

static void remove_forking(struct descriptors *d, size_t i)
{
	memmove(d->forking + i, d->forking + i + 1, (--d->forking_count - i) * sizeof(*d->forking));
}

static void begin_fork(struct descriptors *d, int32_t pid)
{
	if (d->forking_count == MOST_FORKING)
		remove_forking(d, 0);
	d->forking[d->forking_count++] = pid;
}

static int end_fork(struct descriptors *d, const struct system_call *c)
{
	/* A child's first return: of the process that is in such a call, the latest one. */
	if (!(c->flags & PTAH_SYSCALL_ENTERED))
		return d->forking_count ? inherit(d, d->forking[d->forking_count - 1], c->pid) : 0;
	for (size_t i = d->forking_count; i-- > 0;)
		if (d->forking[i] == c->pid) {
			remove_forking(d, i);
			break;
		}
	if (c->result <= 0 || (c->number == NR_CLONE && c->args[0] & OPEN_CLONE_FILES))
		return 0;
	return inherit(d, c->pid, (int32_t)c->result);
}

/* Sockets */

static bool same_name(const struct object *a, const struct object *b)
{
	const uint8_t *p = a->name, *q = b->name;
	const size_t n = a->name_size < b->name_size ? a->name_size : b->name_size;

	if (!p || !q || n < 4 || load_le16(p) != load_le16(q))
		return false;
	if (load_le16(p) == 1) /* AF_UNIX: what follows a path's NUL does not count */
		return p[2] ? strnlen((const char *)p + 2, a->name_size - 2) ==
				      strnlen((const char *)q + 2, b->name_size - 2) &&
				  !strncmp((const char *)p + 2, (const char *)q + 2, n - 2)
			    : a->name_size == b->name_size && !memcmp(p, q, n);
	/* Of AF_INET and AF_INET6 the port: whoever listens may do so for all addresses. */
	return p[2] == q[2] && p[3] == q[3] && (p[2] || p[3]);
}

static void connect_object(struct descriptors *d, uint32_t object)
{
	if (d->connecting_count == MOST_CONNECTING)
		memmove(d->connecting, d->connecting + 1,
			--d->connecting_count * sizeof(*d->connecting));
	d->connecting[d->connecting_count++] = object;
}

static void drop_connecting(struct descriptors *d, size_t i)
{
	memmove(d->connecting + i, d->connecting + i + 1,
		(--d->connecting_count - i) * sizeof(*d->connecting));
}

static void give_up_connect(struct descriptors *d, uint32_t object)
{
	for (size_t i = 0; i < d->connecting_count; i++)
		if (d->connecting[i] == object) {
			drop_connecting(d, i);
			return;
		}
}

/* The accepted socket's peer is the first one that connected to where `listener` listens. */
static void accept_object(struct descriptors *d, uint32_t listener, uint32_t accepted)
{
	struct object *objects = d->calls->objects;

	for (size_t i = 0; i < d->connecting_count; i++) {
		const uint32_t other = d->connecting[i];

		if (!same_name(&objects[other], &objects[listener]))
			continue;
		objects[accepted].peer = other;
		objects[other].peer = accepted;
		drop_connecting(d, i);
		return;
	}
}

static void name_object(struct descriptors *d, const struct system_call *c)
{
	struct object *o = &d->calls->objects[c->object];

	if (!c->object || !c->data)
		return;
	o->name = c->data;
	o->name_size = c->data_size < MOST_ADDRESS ? c->data_size : MOST_ADDRESS;
}

/* Calls */

/* A new object, as the result of a call. */
static int open_object(struct descriptors *d, const struct system_call *c, unsigned kind)
{
	const uint32_t object = c->result >= 0 ? add_object(d, kind) : 0;

	if (c->result < 0)
		return 0;
	if (!object)
		return PTAH_E_NOMEM;
	if (kind == PTAH_DESCRIPTOR_FILE) {
		d->calls->objects[object].name = c->data;
		d->calls->objects[object].name_size = c->data_size;
	} else if (kind == PTAH_DESCRIPTOR_EVENTFD) {
		d->calls->objects[object].peer = object;
	}
	if (c->number == NR_ACCEPT || c->number == NR_ACCEPT4) {
		accept_object(d, c->object, object);
		d->calls->objects[object].call = (uint32_t)(c - d->calls->calls) + 1;
	}
	return set_object(d, c->pid, c->result, object);
}

/* epoll_ctl(EPOLL_CTL_ADD) */
static int watch_object(struct descriptors *d, const struct system_call *c)
{
	struct ptah_syscalls *s = d->calls;
	const uint32_t object = object_of(d, c->pid, c->args[2]);
	struct member *members;

	if (c->args[1] != 1 || c->result < 0 || !object ||
	    s->objects[c->object].kind != PTAH_DESCRIPTOR_EPOLL)
		return 0;
	members = session_grow(s->members, s->member_count, &s->member_capacity, sizeof(*members));
	if (!members)
		return PTAH_E_NOMEM;
	s->members = members;
	members[s->member_count] = (struct member){object, s->objects[c->object].members};
	s->objects[c->object].members = (uint32_t)s->member_count++;
	return 0;
}

int descriptors_enter(struct descriptors *d, struct system_call *c)
{
	if (syscall_has_descriptor(c->number))
		c->object = object_of(d, c->pid, c->args[0]);
	if (c->number == NR_SPLICE || c->number == NR_TEE)
		c->second = object_of(d, c->pid, c->args[c->number == NR_SPLICE ? 2 : 1]);
	if (is_fork(c))
		begin_fork(d, c->pid);
	switch (c->number) {
	case NR_CLOSE:
		return set_object(d, c->pid, (int32_t)c->args[0], 0);
	case NR_EXIT_GROUP:
		forget(d, c->pid);
		return 0;
	default:
		return 0;
	}
}

int descriptors_leave(struct descriptors *d, const struct system_call *c)
{
	if (is_fork(c))
		return end_fork(d, c);
	if (!(c->flags & PTAH_SYSCALL_ENTERED))
		return 0;
	switch (c->number) {
	case NR_OPEN:
	case NR_CREAT:
	case NR_OPENAT:
	case NR_OPENAT2:
		return open_object(d, c, PTAH_DESCRIPTOR_FILE);
	case NR_SOCKET:
	case NR_ACCEPT:
	case NR_ACCEPT4:
		return open_object(d, c, PTAH_DESCRIPTOR_SOCKET);
	case NR_EVENTFD:
	case NR_EVENTFD2:
		return open_object(d, c, PTAH_DESCRIPTOR_EVENTFD);
	case NR_EPOLL_CREATE:
	case NR_EPOLL_CREATE1:
		return open_object(d, c, PTAH_DESCRIPTOR_EPOLL);
	case NR_TIMERFD_CREATE:
		return open_object(d, c, PTAH_DESCRIPTOR_TIMERFD);
	case NR_SIGNALFD:
	case NR_SIGNALFD4:
		return (int32_t)c->args[0] == -1 ? open_object(d, c, PTAH_DESCRIPTOR_SIGNALFD) : 0;
	case NR_FCNTL:
		/* F_DUPFD, F_DUPFD_CLOEXEC */
		if (c->args[1] != 0 && c->args[1] != 1030)
			return 0;
		return set_object(d, c->pid, c->result, c->object);
	case NR_DUP:
	case NR_DUP2:
	case NR_DUP3:
		return set_object(d, c->pid, c->result, c->object);
	case NR_BIND:
		if (c->result >= 0)
			name_object(d, c);
		return 0;
	case NR_CONNECT:
		if (c->result < 0 && c->result != -115) /* EINPROGRESS */
			give_up_connect(d, c->object);
		return 0;
	case NR_EPOLL_CTL:
		return watch_object(d, c);
	default:
		return 0;
	}
}

static int open_pair(struct descriptors *d, const struct system_call *c)
{
	const bool pipe = c->number != NR_SOCKETPAIR;
	const unsigned kind = pipe ? PTAH_DESCRIPTOR_PIPE : PTAH_DESCRIPTOR_SOCKET;
	const uint32_t a = add_object(d, kind), b = pipe ? a : add_object(d, kind);
	int status;

	if (!a || !b)
		return PTAH_E_NOMEM;
	d->calls->objects[a].peer = b;
	d->calls->objects[b].peer = a;
	status = set_object(d, c->pid, (int32_t)load_le32(c->data), a);
	return status < 0 ? status : set_object(d, c->pid, (int32_t)load_le32(c->data + 4), b);
}

void descriptors_read(struct descriptors *d, const struct system_call *c)
{
	if (c->number != NR_CONNECT || !c->object)
		return;
	name_object(d, c);
	d->calls->objects[c->object].call = (uint32_t)(c - d->calls->calls) + 1;
	connect_object(d, c->object);
}

int descriptors_written(struct descriptors *d, const struct system_call *c)
{
	if ((c->number == NR_PIPE || c->number == NR_PIPE2 || c->number == NR_SOCKETPAIR) &&
	    c->result == 0 && c->data_size >= 8)
		return open_pair(d, c);
	return 0;
}
