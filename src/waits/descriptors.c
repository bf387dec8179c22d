/* SPDX-License-Identifier: MIT */
/*
 * Descriptors: which file, pipe or socket each number of each process is, from the calls that open,
 * copy and close them. A child has those of its parent. A connected socket's peer is the one that
 * accept() returned for it: the kernel answers connections in their order.
 */
#include "waits/syscalls.h"

#include "base/bits.h"
#include "base/hash.h"
#include "session/session.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

/* More descriptors of a process are not followed. */
#define MOST_DESCRIPTORS 65536

/* So many are followed of all processes together: each child has a table of its own. */
#define MOST_SLOTS ((size_t)1 << 24)

/*
 * So many are put into tables in all: a recording may have a process with many descriptors fork and
 * end again and again. From there on they are not known.
 */
#define MOST_MADE ((size_t)1 << 28)

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
	size_t made;  /* slots of all tables that were made, also of those that are gone */
	size_t looks; /* slots that were looked at */
	bool has_locks;
	struct table by_pid;
	struct table watched; /* by key_of(): the last struct member with this key */
	uint32_t connecting[MOST_CONNECTING];
	size_t connecting_count;
	/* Processes that are in fork(): their children have returned from it before them, perhaps. */
	int32_t forking[MOST_FORKING];
	size_t forking_count;
};

static uint32_t add_object(struct descriptors *d, unsigned kind)
{
	struct ptah_syscalls *s = d->calls;

	if (s->object_count >= UINT32_MAX ||
	    !LIST_ROOM(s->objects, s->object_count, s->object_capacity))
		return 0;
	s->objects[s->object_count] = (struct object){.kind = (uint8_t)kind};
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
	if (!calls->object_count || !LIST_ROOM(calls->members, 0, calls->member_capacity))
		return PTAH_E_NOMEM;
	calls->member_count = 1;
	return 0;
}

void descriptors_free(struct descriptors *d)
{
	if (!d)
		return;
	for (size_t i = 0; i < d->count; i++)
		free(d->owners[i].objects);
	free(d->owners);
	table_free(&d->by_pid);
	table_free(&d->watched);
	free(d);
}

static struct owner *find_owner(struct descriptors *d, int32_t pid)
{
	const size_t i = table_get(&d->by_pid, (uint32_t)pid);

	return i == SIZE_MAX ? NULL : &d->owners[i];
}

static struct owner *owner_of(struct descriptors *d, int32_t pid)
{
	struct owner *owner = find_owner(d, pid);

	if (owner)
		return owner;
	if (!LIST_ROOM(d->owners, d->count, d->capacity))
		return NULL;
	if (table_set(&d->by_pid, (uint32_t)pid, d->count) < 0)
		return NULL;
	d->owners[d->count] = (struct owner){0};
	return &d->owners[d->count++];
}

static uint32_t object_of(struct descriptors *d, int32_t pid, uint64_t fd)
{
	const struct owner *owner = find_owner(d, pid);

	return owner && (uint32_t)fd < owner->count ? owner->objects[(uint32_t)fd] : 0;
}

static bool may_make(const struct descriptors *d, size_t slots)
{
	return slots <= MOST_SLOTS - d->slots && slots <= MOST_MADE - d->made;
}

static void made_slots(struct descriptors *d, size_t slots)
{
	d->slots += slots;
	d->made += slots;
}

/* Makes room for a descriptor, as long as there is some. */
static int grow_owner(struct descriptors *d, struct owner *owner, size_t fd)
{
	const size_t count = 2 * fd + 16;
	uint32_t *objects;

	if (fd < owner->count || !may_make(d, count - owner->count))
		return 0;
	objects = reallocarray(owner->objects, count, sizeof(*objects));
	if (!objects)
		return PTAH_E_NOMEM;
	memset(objects + owner->count, 0, (count - owner->count) * sizeof(*objects));
	made_slots(d, count - owner->count);
	owner->objects = objects;
	owner->count = count;
	return 0;
}

/* Whether a descriptor of any process is an object; yes, when too much was looked at. */
static bool has_number(struct descriptors *d, uint32_t object)
{
	for (size_t i = 0; i < d->count && d->looks < MOST_MADE; i++) {
		const struct owner *owner = &d->owners[i];

		d->looks += owner->count + 1;
		for (size_t fd = 0; fd < owner->count; fd++)
			if (owner->objects[fd] == object)
				return true;
	}
	return d->looks >= MOST_MADE;
}

/* A call has taken a number from an object: its last one, perhaps. */
static void drop_number(struct descriptors *d, const struct system_call *c, uint32_t object)
{
	if (d->calls->objects[object].locked && !has_number(d, object))
		d->calls->objects[object].closed = (uint32_t)(c - d->calls->calls) + 1;
}

/* From this call on the descriptor is that object; 0: it is closed, or not known. */
static int set_object(struct descriptors *d, const struct system_call *c, int64_t fd,
		      uint32_t object)
{
	struct owner *owner;
	uint32_t before;
	int status = 0;

	if (fd < 0 || fd >= MOST_DESCRIPTORS)
		return 0;
	owner = object ? owner_of(d, c->pid) : find_owner(d, c->pid);
	if (!owner)
		return object ? PTAH_E_NOMEM : 0;
	/* What is not known takes no memory: recordings come from strangers. */
	if (object)
		status = grow_owner(d, owner, (size_t)fd);
	if ((size_t)fd >= owner->count)
		return status;
	before = owner->objects[fd];
	owner->objects[fd] = object;
	drop_number(d, c, before);
	return status;
}

/* Processes */

/* The child begins with the descriptors of its parent. */
static int inherit(struct descriptors *d, int32_t parent, int32_t child)
{
	struct owner *from = find_owner(d, parent), *to = find_owner(d, child);

	/* A process that has ended has none, so that its number may be that of another one. */
	if (parent == child || child <= 0 || !from || !from->count || (to && to->count) ||
	    !may_make(d, from->count))
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
	made_slots(d, to->count);
	return 0;
}

/* The process ends with this call. */
static void forget(struct descriptors *d, const struct system_call *c)
{
	struct owner *owner = find_owner(d, c->pid), gone;

	if (!owner)
		return;
	gone = *owner;
	*owner = (struct owner){0};
	d->slots -= gone.count;
	for (size_t i = 0; i < gone.count && d->has_locks; i++)
		drop_number(d, c, gone.objects[i]);
	free(gone.objects);
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
	if (kind == PTAH_DESCRIPTOR_FILE || kind == PTAH_DESCRIPTOR_QUEUE) {
		d->calls->objects[object].name = c->data;
		d->calls->objects[object].name_size = c->data_size;
	} else if (kind == PTAH_DESCRIPTOR_EVENTFD) {
		d->calls->objects[object].peer = object;
	} else if (kind == PTAH_DESCRIPTOR_PIDFD) {
		d->calls->objects[object].pid = (int32_t)c->args[0];
	}
	if (c->number == NR_ACCEPT || c->number == NR_ACCEPT4) {
		accept_object(d, c->object, object);
		d->calls->objects[object].call = (uint32_t)(c - d->calls->calls) + 1;
	}
	return set_object(d, c, c->result, object);
}

/* Of what an epoll watches, by its descriptor or by its data. Other members may have the same. */
static uint64_t key_of(uint32_t epoll, uint64_t value, bool is_descriptor)
{
	return hash_number(hash_number(2 * (uint64_t)epoll + is_descriptor) ^ value);
}

/* The member with this key, if it is that of this epoll and still watched. 0: there is none. */
static uint32_t find_member(const struct descriptors *d, uint32_t epoll, uint64_t value,
			    bool is_descriptor)
{
	const size_t i = table_get(&d->watched, key_of(epoll, value, is_descriptor));
	const struct member *m = i == SIZE_MAX ? NULL : &d->calls->members[i];

	if (!m || m->epoll != epoll || m->until != UINT64_MAX)
		return 0;
	if (is_descriptor ? m->descriptor != (int32_t)value : !m->has_data || m->data != value)
		return 0;
	return (uint32_t)i;
}

static int index_member(struct descriptors *d, uint32_t i)
{
	struct member *members = d->calls->members, *m = &members[i];
	const uint64_t key = key_of(m->epoll, m->data, false);
	const size_t other = table_get(&d->watched, key);
	int status = table_set(&d->watched, key_of(m->epoll, (uint32_t)m->descriptor, true), i);

	if (status < 0 || !m->has_data)
		return status;
	/* Data that several descriptors have do not say which one it was. */
	if (other != SIZE_MAX && members[other].epoll == m->epoll &&
	    members[other].data == m->data && members[other].until == UINT64_MAX) {
		members[other].has_data = m->has_data = false;
		return 0;
	}
	return table_set(&d->watched, key, i);
}

/* What an epoll watched as this descriptor is not watched any more. */
static void unwatch_object(const struct descriptors *d, const struct system_call *c)
{
	const uint32_t m = find_member(d, c->object, (uint32_t)c->args[2], true);

	if (m)
		d->calls->members[m].until = c->begin;
}

/* epoll_ctl(): EPOLL_CTL_ADD 1, EPOLL_CTL_DEL 2, EPOLL_CTL_MOD 3 */
static int watch_object(struct descriptors *d, const struct system_call *c)
{
	struct ptah_syscalls *s = d->calls;
	const uint32_t object = object_of(d, c->pid, c->args[2]);

	if (c->result < 0 || s->objects[c->object].kind != PTAH_DESCRIPTOR_EPOLL)
		return 0;
	unwatch_object(d, c); /* ADD, too: that it succeeds says that the old one was closed */
	if (c->args[1] == 2 || !object)
		return 0;
	if (!LIST_ROOM(s->members, s->member_count, s->member_capacity))
		return PTAH_E_NOMEM;
	s->members[s->member_count] =
	    (struct member){.object = object,
			    .next = s->objects[c->object].members,
			    .epoll = c->object,
			    .descriptor = (int32_t)c->args[2],
			    .has_data = c->data_size >= 12,
			    .data = c->data_size >= 12 ? load_le64(c->data + 4) : 0,
			    .since = c->begin,
			    .until = UINT64_MAX};
	s->objects[c->object].members = (uint32_t)s->member_count++;
	return index_member(d, s->objects[c->object].members);
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
		return set_object(d, c, (int32_t)c->args[0], 0);
	case NR_EXIT_GROUP:
		forget(d, c);
		return 0;
	default:
		return 0;
	}
}

static void set_room(struct object *pipe, const struct system_call *c)
{
	if (!c->object || c->result <= 0)
		return;
	if (!pipe->room)
		pipe->room_since = c->begin;
	if (pipe->room < (uint32_t)c->result)
		pipe->room = (uint32_t)c->result;
}

/* A lock belongs to the object from now on. */
static void lock_object(struct descriptors *d, const struct system_call *c)
{
	if (!c->object || c->result < 0)
		return;
	d->calls->objects[c->object].locked = d->has_locks = true;
}

static int leave_fcntl(struct descriptors *d, const struct system_call *c)
{
	switch (c->args[1]) {
	case 0:	   /* F_DUPFD */
	case 1030: /* F_DUPFD_CLOEXEC */
		return set_object(d, c, c->result, c->object);
	case 1031: /* F_SETPIPE_SZ */
		set_room(&d->calls->objects[c->object], c);
		return 0;
	case 37: /* F_OFD_SETLK */
	case 38: /* F_OFD_SETLKW */
		lock_object(d, c);
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
	case NR_INOTIFY_INIT:
	case NR_INOTIFY_INIT1:
		return open_object(d, c, PTAH_DESCRIPTOR_INOTIFY);
	case NR_PIDFD_OPEN:
		return open_object(d, c, PTAH_DESCRIPTOR_PIDFD);
	case NR_MQ_OPEN:
		return open_object(d, c, PTAH_DESCRIPTOR_QUEUE);
	case NR_FCNTL:
		return leave_fcntl(d, c);
	case NR_FLOCK:
		lock_object(d, c);
		return 0;
	case NR_DUP:
	case NR_DUP2:
	case NR_DUP3:
		return set_object(d, c, c->result, c->object);
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
	status = set_object(d, c, (int32_t)load_le32(c->data), a);
	return status < 0 ? status : set_object(d, c, (int32_t)load_le32(c->data + 4), b);
}

void descriptors_read(struct descriptors *d, const struct system_call *c)
{
	if (c->number != NR_CONNECT || !c->object)
		return;
	name_object(d, c);
	d->calls->objects[c->object].call = (uint32_t)(c - d->calls->calls) + 1;
	connect_object(d, c->object);
}

/* So many descriptors that were ready at once are known. */
#define MOST_READY 1024

/* Puts an object in front of those that were ready when the call ended. */
static int add_ready(struct ptah_syscalls *s, struct system_call *c, const struct member *member)
{
	if (!LIST_ROOM(s->members, s->member_count, s->member_capacity))
		return PTAH_E_NOMEM;
	s->members[s->member_count] = *member;
	s->members[s->member_count].next = c->ready;
	c->ready = (uint32_t)s->member_count++;
	return 0;
}

static int add_ready_descriptor(struct descriptors *d, struct system_call *c, uint32_t fd,
				uint32_t how)
{
	const struct member member = {
	    .object = object_of(d, c->pid, fd), .descriptor = (int32_t)fd, .data = how};

	return add_ready(d->calls, c, &member);
}

static int read_polled(struct descriptors *d, struct system_call *c)
{
	int status = 0;

	for (size_t at = c->data_size / 8; at-- > 0 && status >= 0;) {
		const uint8_t *polled = c->data + 8 * at;
		const uint16_t how = load_le16(polled + 6);

		if (how)
			status = add_ready_descriptor(d, c, load_le32(polled), how);
	}
	return status;
}

/* One of the sets alone was copied: argument 1 is that for reading. */
static int read_selected(struct descriptors *d, struct system_call *c)
{
	const uint32_t how = c->data_arg == 1 ? READY_IN : c->data_arg == 2 ? READY_OUT : 0;
	int status = 0;

	for (uint32_t fd = 0; fd < 8 * c->data_size && fd < MOST_READY && status >= 0; fd++)
		if (c->data[fd / 8] >> fd % 8 & 1)
			status = add_ready_descriptor(d, c, fd, how);
	return status;
}

/* The event's data are those with which the descriptor was added. */
static int read_epolled(struct descriptors *d, struct system_call *c)
{
	struct ptah_syscalls *s = d->calls;
	int status = 0;

	for (size_t at = 0; at + 12 <= c->data_size && status >= 0; at += 12) {
		const uint32_t m = find_member(d, c->object, load_le64(c->data + at + 4), false);

		if (m) {
			const struct member member = {.object = s->members[m].object,
						      .descriptor = s->members[m].descriptor,
						      .data = load_le32(c->data + at)};

			status = add_ready(s, c, &member);
		}
	}
	return status;
}

int descriptors_written(struct descriptors *d, struct system_call *c)
{
	switch (c->number) {
	case NR_PIPE:
	case NR_PIPE2:
	case NR_SOCKETPAIR:
		return c->result == 0 && c->data_size >= 8 ? open_pair(d, c) : 0;
	case NR_POLL:
	case NR_PPOLL:
		return read_polled(d, c);
	case NR_SELECT:
	case NR_PSELECT6:
		return read_selected(d, c);
	case NR_EPOLL_WAIT:
	case NR_EPOLL_PWAIT:
	case NR_EPOLL_PWAIT2:
		return read_epolled(d, c);
	default:
		return 0;
	}
}
