/* SPDX-License-Identifier: MIT */
/* Reads arguments from /proc, and exit statuses from pidfds (live_commands.h). */
#include "live_commands.h"

#include "base/pidfd.h"
#include "support/keyed.h"
#include "support/list.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#define LONGEST	 (64u << 10) /* of arguments that are kept */
#define MOST_FDS 256

/* As in perf_event_open(2). */
#define RECORD_COMM 3
#define RECORD_FORK 7

/* PERF_RECORD_HEADER_FEATURE, as perf and ptah record begin with it, of the machine's name. */
#define RECORD_FEATURE	 80
#define FEATURE_HOSTNAME 3

/* A process from its beginning to its end. */
struct life {
	int32_t pid;
	int fd; /* -1: none */
	int wait_status;
	size_t last; /* its last program */
};

/* A program that a process executed. */
struct program {
	size_t life;
	char comm[16];
	char *command; /* NULL: not known */
	bool taken;
};

/* The last life of a pid. */
struct last_life {
	uint64_t pid;
	size_t life;
};

struct live_commands {
	bool is_here; /* the recording is of this machine, whose processes have its numbers */
	struct life *lives;
	struct program *programs;
	size_t life_count, life_room, count, room;
	size_t fds;
	size_t first_open;  /* lives before it have no fd */
	size_t first_taken; /* programs before it are taken */
	struct keyed by_pid;
};

struct live_commands *live_commands_new(bool is_here)
{
	struct live_commands *c = calloc(1, sizeof(*c));

	if (c)
		*c = (struct live_commands){
		    .is_here = is_here,
		    .by_pid = {.row_size = sizeof(struct last_life),
			       .key_size = offsetof(struct last_life, life)}};
	return c;
}

static void close_fd(struct live_commands *c, struct life *l)
{
	if (l->fd < 0)
		return;
	close(l->fd);
	l->fd = -1;
	c->fds--;
}

void live_commands_free(struct live_commands *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->life_count; i++)
		close_fd(c, &c->lives[i]);
	for (size_t i = 0; i < c->count; i++)
		free(c->programs[i].command);
	free(c->lives);
	free(c->programs);
	keyed_free(&c->by_pid);
	free(c);
}

/* Reading */

/* Reads a file of /proc/PID. Returns its size, 0: nothing. */
static size_t read_proc(int32_t pid, const char *name, char *text, size_t room)
{
	char path[64];
	size_t n = 0;
	ssize_t part;
	int fd;

	snprintf(path, sizeof(path), "/proc/%" PRId32 "/%s", pid, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	while (n < room && (part = read(fd, text + n, room - n)) > 0)
		n += (size_t)part;
	close(fd);
	return n;
}

/*
 * The recorder qemu runs the program in qemu-user: `qemu -plugin ... -0 NAME PATH ARGUMENTS`. Where
 * the program's own arguments begin, its name first; *skip is the path.
 */
static size_t skip_emulator(const char *text, size_t n, size_t *skip)
{
	const char *end = text + n, *word = text + strnlen(text, n) + 1;

	*skip = n;
	if (word >= end || strcmp(word, "-plugin") != 0)
		return 0;
	while (word < end && strcmp(word, "-0") != 0)
		word += strlen(word) + 1;
	if (word >= end)
		return 0;
	word += strlen(word) + 1;
	if (word >= end)
		return 0;
	*skip = (size_t)(word - text) + strlen(word) + 1;
	return (size_t)(word - text);
}

/* Writes the words with spaces between them. The caller frees it. */
static char *join_words(const char *text, size_t n)
{
	size_t skip, from = skip_emulator(text, n, &skip), k = 0;
	char *joined = malloc(n + 1);

	for (size_t i = from; joined && i < n; i += strlen(text + i) + 1) {
		if (i == skip)
			continue;
		if (k)
			joined[k++] = ' ';
		k += (size_t)sprintf(joined + k, "%s", text + i);
	}
	if (joined)
		joined[k] = '\0';
	return joined;
}

static bool is_name_of(const char *word, const char *comm)
{
	const char *slash = strrchr(word, '/');

	return !strncmp(slash ? slash + 1 : word, comm, 15);
}

/* Whether the process with this command line has a name. qemu-user sets it after a while. */
static bool has_name(const char *now, const char *comm, const char *text, size_t n)
{
	size_t skip;
	const size_t from = skip_emulator(text, n, &skip);

	if (!from || strncmp(now, "qemu-", 5) != 0)
		return !strcmp(now, comm);
	return is_name_of(text + from, comm) ||
	       is_name_of(text + from + strlen(text + from) + 1, comm);
}

/*
 * The arguments of a process that has this name. NULL: it has ended, or has executed another
 * program meanwhile.
 */
static char *read_command(int32_t pid, const char *comm)
{
	char *text = calloc(1, LONGEST + 2), *command = NULL;
	char now[17] = "";
	const size_t n = text ? read_proc(pid, "cmdline", text, LONGEST) : 0;

	if (n && read_proc(pid, "comm", now, sizeof(now) - 1)) {
		now[strcspn(now, "\n")] = '\0';
		if (has_name(now, comm, text, n))
			command = join_words(text, n + (text[n - 1] != '\0'));
	}
	free(text);
	return command;
}

/* Lives and programs */

/* The place of a pid's life. NULL: out of memory. *is_new: it had none. */
static struct last_life *life_of(struct live_commands *c, int32_t pid, bool *is_new)
{
	const struct last_life row = {.pid = (uint32_t)pid};
	const uint32_t number = keyed_number(&c->by_pid, &row, is_new);

	return number ? keyed_row(&c->by_pid, number) : NULL;
}

/* A process begins. */
static struct life *add_life(struct live_commands *c, int32_t pid)
{
	bool is_new;
	struct last_life *last = life_of(c, pid, &is_new);
	struct life *l;

	if (!last || !LIST_ROOM(c->lives, c->life_count, c->life_room))
		return NULL;
	last->life = c->life_count;
	l = &c->lives[c->life_count++];
	*l = (struct life){.pid = pid, .fd = -1, .wait_status = -1, .last = SIZE_MAX};
	if (c->is_here && c->fds < MOST_FDS)
		l->fd = (int)syscall(SYS_pidfd_open, pid, 0);
	c->fds += l->fd >= 0;
	return l;
}

/* The process that has this pid now, which begins if it is not known. NULL: out of memory. */
static struct life *find_life(struct live_commands *c, int32_t pid)
{
	bool is_new;
	const struct last_life *last = life_of(c, pid, &is_new);

	if (last && !is_new && last->life < c->life_count && c->lives[last->life].pid == pid)
		return &c->lives[last->life];
	return add_life(c, pid);
}

/* Takes the command, which may be NULL. */
static void add_command_program(struct live_commands *c, struct life *l, const char *comm,
				char *command)
{
	struct program *p;

	if (!l || !LIST_ROOM(c->programs, c->count, c->room)) {
		free(command);
		return;
	}
	p = &c->programs[c->count];
	*p = (struct program){.life = (size_t)(l - c->lives), .command = command};
	snprintf(p->comm, sizeof(p->comm), "%s", comm);
	l->last = c->count++;
}

/* A process begins as a copy of another one. */
static void take_fork(struct live_commands *c, int32_t pid, int32_t parent)
{
	const struct life *from = find_life(c, parent);
	const struct program *p = from && from->last != SIZE_MAX ? &c->programs[from->last] : NULL;
	char comm[16] = "", *command = p && p->command ? strdup(p->command) : NULL;

	if (p)
		memcpy(comm, p->comm, sizeof(comm));
	add_command_program(c, add_life(c, pid), comm, command);
}

/* A process has a name, which is new to it. */
static void take_comm(struct live_commands *c, int32_t pid, const char *comm, bool exec)
{
	struct life *l = find_life(c, pid);

	if (l && !exec && l->last != SIZE_MAX) {
		memset(c->programs[l->last].comm, 0, sizeof(c->programs->comm));
		snprintf(c->programs[l->last].comm, sizeof(c->programs->comm), "%s", comm);
		return;
	}
	add_command_program(c, l, comm, c->is_here ? read_command(pid, comm) : NULL);
}

/* Takes what a feature has, after its record's header. */
static void take_feature(struct live_commands *c, const char *bytes, size_t n)
{
	struct utsname here;
	uint64_t feature;
	const size_t at = sizeof(feature) + sizeof(uint32_t);

	if (n <= at || uname(&here))
		return;
	memcpy(&feature, bytes, sizeof(feature));
	if (feature == FEATURE_HOSTNAME)
		c->is_here = strnlen(bytes + at, n - at) == strlen(here.nodename) &&
			     !memcmp(bytes + at, here.nodename, strlen(here.nodename));
}

void live_commands_take(struct live_commands *c, const struct ptah_record_piece *piece)
{
	struct {
		uint32_t type;
		uint16_t misc, size;
		int32_t ids[2];
	} head;
	const char *bytes = piece->bytes;
	char comm[16] = "";

	if (piece->kind != PTAH_RECORD_PIECE_RECORD || piece->size < sizeof(head))
		return;
	memcpy(&head, bytes, sizeof(head));
	if (head.type == RECORD_FEATURE)
		take_feature(c, bytes + 8, piece->size - 8);
	if (head.type == RECORD_FORK && head.ids[0] != head.ids[1])
		take_fork(c, head.ids[0], head.ids[1]);
	if (head.type != RECORD_COMM || head.ids[0] != head.ids[1])
		return;
	memcpy(comm, bytes + sizeof(head),
	       strnlen(bytes + sizeof(head),
		       piece->size - sizeof(head) < 15 ? piece->size - sizeof(head) : 15));
	take_comm(c, head.ids[0], comm, head.misc & (1u << 13));
}

void live_commands_ended(struct live_commands *c, int32_t pid, int wait_status)
{
	struct life *l = find_life(c, pid);

	if (!l)
		return;
	l->wait_status = wait_status;
	close_fd(c, l);
}

void live_commands_look(struct live_commands *c)
{
	for (size_t i = c->first_open; i < c->life_count && c->fds; i++) {
		struct life *l = &c->lives[i];

		if (l->fd >= 0 && pidfd_wait_status(l->fd, &l->wait_status))
			close_fd(c, l);
	}
	while (c->first_open < c->life_count && c->lives[c->first_open].fd < 0)
		c->first_open++;
}

/* Describing */

/* The first program of the pid with this name that no process has taken. */
static struct program *choose_untaken_program(const struct live_commands *c, int32_t pid,
					      const char *comm)
{
	for (size_t i = c->first_taken; i < c->count; i++) {
		struct program *p = &c->programs[i];

		if (!p->taken && c->lives[p->life].pid == pid && !strcmp(p->comm, comm))
			return p;
	}
	return NULL;
}

int live_commands_describe(struct live_commands *c, int32_t pid, int wait_status,
			   struct cover_process *processes, size_t n)
{
	size_t command = SIZE_MAX;

	live_commands_look(c);
	for (size_t i = 0; i < n; i++) {
		struct cover_process *p = &processes[i];
		struct program *found = choose_untaken_program(c, p->pid, p->comm);

		if (p->pid == pid)
			command = i;
		if (!found)
			continue;
		found->taken = true;
		while (c->first_taken < c->count && c->programs[c->first_taken].taken)
			c->first_taken++;
		p->command = found->command ? strdup(found->command) : NULL;
		if (found->command && !p->command)
			return PTAH_E_NOMEM;
		if (c->lives[found->life].last == (size_t)(found - c->programs))
			p->wait_status = c->lives[found->life].wait_status;
	}
	if (command != SIZE_MAX && processes[command].wait_status < 0)
		processes[command].wait_status = wait_status;
	return 0;
}
