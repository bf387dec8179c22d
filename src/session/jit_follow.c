/* SPDX-License-Identifier: MIT */
/*
 * Finds lists of generated code while their processes run, and reads what has been added to them
 * (jit_follow.h). What a file has depends on strangers: so few processes are followed at once, a
 * look takes a megabyte, and all lists together have a limit in memory.
 */
#include "session/jit_follow.h"

#include "perfdata/jit_folder.h"
#include "perfdata/jit_process.h"
#include "session/grow.h"
#include "session/jit.h"
#include "session/records.h"
#include "support/list.h"
#include "support/monotonic.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

/* So many processes are followed at once; each has up to so many jitdumps open, and a map. */
#define PROCESSES 64
#define OPEN_EACH 4
/* So many lists are known in all, and so many of one process. */
#define LISTS	   4096
#define LISTS_EACH 16
/* Bytes that are read in one step; and that all lists may take in memory. */
#define STEP   (UINT64_C(1) << 20)
#define MEMORY (UINT64_C(256) << 20)
/* So many open files of a process are looked at. */
#define FILES 4096
/* At the end all is read, but a program that runs on may write as fast as that: so many times. */
#define PASSES 16
/* What the kernel adds to the path of a file that was deleted. */
#define DELETED " (deleted)"

/*
 * Where a process has new code and no list has been found, it is looked for again: the first times
 * at once, then every so many nanoseconds. Without new code every second.
 */
#define LOOKS	    8
#define LOOKS_APART UINT64_C(250000000)
#define LOOKS_IDLE  UINT64_C(1000000000)

/* How far the last record that has come may be before the beginning of a jitdump, in ns. */
#define CLOCKS_APART (UINT64_C(600) * 1000000000)

struct follow_process {
	int32_t pid;
	bool fresh; /* it has new code */
	bool exited;
	bool final; /* its lists were looked for after it had exited */
	unsigned looks;
	uint64_t looked; /* when, by CLOCK_MONOTONIC */
};

struct jit_follow {
	struct follow_process processes[PROCESSES];
	size_t count, last;  /* last: the one that was noted last */
	size_t turn;	     /* whose lists are read first */
	struct table newest; /* by pid: the index of a list */
	struct timespec began;
	bool is_full; /* a note was made of the limits */
};

int jit_follow_new(struct jit_follow **follow)
{
	*follow = calloc(1, sizeof(**follow));
	if (!*follow)
		return PTAH_E_NOMEM;
	/* The kernel takes the times of files from the same clock. */
	clock_gettime(CLOCK_REALTIME_COARSE, &(*follow)->began);
	return 0;
}

void jit_follow_free(struct jit_follow *follow)
{
	if (follow)
		table_free(&follow->newest);
	free(follow);
}

size_t jit_follow_newest(const struct ptah_session *s, int32_t pid)
{
	return table_get(&s->growth->jit->newest, (uint32_t)pid);
}

static void note_full(struct ptah_session *s, const char *what)
{
	if (!s->growth->jit->is_full)
		session_note_format(s, "%s: of some generated code the names are not known", what);
	s->growth->jit->is_full = true;
}

/* Processes */

static bool has_list(const struct ptah_session *s, int32_t pid, bool is_map)
{
	for (size_t i = jit_follow_newest(s, pid); i != SESSION_NONE; i = s->jitdumps[i].older)
		if (s->jitdumps[i].is_map == is_map && s->jitdumps[i].opened &&
		    !s->jitdumps[i].left)
			return true;
	return false;
}

/*
 * Ends reading the lists of a process, but not those that were recorded at `from` or later. Returns
 * whether there are such.
 */
static bool leave_lists(struct ptah_session *s, int32_t pid, uint64_t from)
{
	bool any = false;

	for (size_t i = jit_follow_newest(s, pid); i != SESSION_NONE; i = s->jitdumps[i].older) {
		struct jitdump *list = &s->jitdumps[i];

		if (list->path && !list->left && list->time >= from) {
			any = true;
			continue;
		}
		if (list->opened)
			symbol_jit_file_close(&list->file);
		list->left = list->opened;
	}
	return any;
}

/* Ends following a process. */
static void let_go(struct ptah_session *s, size_t process)
{
	struct jit_follow *f = s->growth->jit;

	leave_lists(s, f->processes[process].pid, UINT64_MAX);
	f->processes[process] = f->processes[--f->count];
}

/* Whether a process that has new code may take the place of this one. */
static bool is_idle(const struct ptah_session *s, const struct follow_process *p)
{
	return p->exited || (p->looks && !has_list(s, p->pid, false) && !has_list(s, p->pid, true));
}

static bool make_room(struct ptah_session *s)
{
	struct jit_follow *f = s->growth->jit;

	for (size_t i = 0; i < f->count && f->count == PROCESSES; i++)
		if (is_idle(s, &f->processes[i]))
			let_go(s, i);
	return f->count < PROCESSES;
}

void jit_follow_process(struct ptah_session *s, int32_t pid)
{
	struct jit_follow *f = s->growth->jit;

	if (pid <= 0 || s->is_guest || s->config.no_images)
		return;
	if (f->last >= f->count || f->processes[f->last].pid != pid)
		for (f->last = 0; f->last < f->count && f->processes[f->last].pid != pid; f->last++)
			;
	if (f->last == f->count) {
		if (!make_room(s)) {
			note_full(s, "too many processes generate code at once");
			return;
		}
		f->last = f->count++;
		f->processes[f->last] = (struct follow_process){.pid = pid};
	}
	f->processes[f->last].fresh = true;
}

void jit_follow_forked(struct ptah_session *s, int32_t pid, uint64_t time)
{
	struct jit_follow *f = s->growth->jit;

	for (size_t i = f->count; i-- > 0;) {
		if (f->processes[i].pid != pid)
			continue;
		/* A jitdump is noted when its record comes: that may be before this is applied. */
		if (leave_lists(s, pid, time))
			f->processes[i] = (struct follow_process){.pid = pid, .fresh = true};
		else
			let_go(s, i);
	}
}

void jit_follow_exited(struct ptah_session *s, int32_t pid)
{
	struct jit_follow *f = s->growth->jit;

	for (size_t i = 0; i < f->count; i++)
		if (f->processes[i].pid == pid)
			f->processes[i].exited = true;
}

/* Lists */

/* A list of a process. NULL: there are too many, or no memory. */
static struct jitdump *add_list(struct ptah_session *s, int32_t pid, const char *path, size_t n)
{
	struct table *newest = &s->growth->jit->newest;
	struct jitdump *list;
	size_t older = table_get(newest, (uint32_t)pid), each = 0;

	for (size_t i = older; i != SESSION_NONE; i = s->jitdumps[i].older)
		each++;
	if (each >= LISTS_EACH || s->jitdump_count >= LISTS) {
		note_full(s, "there are too many lists of generated code");
		return NULL;
	}
	if (!LIST_ROOM(s->jitdumps, s->jitdump_count, s->jitdump_capacity))
		return NULL;
	list = &s->jitdumps[s->jitdump_count];
	*list = (struct jitdump){.pid = pid, .older = older, .file = {.fd = -1}};
	list->path = path ? strndup(path, n) : NULL;
	if ((path && !list->path) || table_set(newest, (uint32_t)pid, s->jitdump_count) < 0) {
		free(list->path);
		return NULL;
	}
	s->jitdump_count++;
	return list;
}

int jit_follow_dump(struct ptah_session *s, const struct perfdata_record *r)
{
	struct jitdump *list;

	if (s->config.no_images || s->is_guest)
		return 0;
	for (size_t i = jit_follow_newest(s, r->pid); i != SESSION_NONE; i = s->jitdumps[i].older)
		if (s->jitdumps[i].path && !s->jitdumps[i].left &&
		    !strncmp(s->jitdumps[i].path, r->text, r->text_size) &&
		    !s->jitdumps[i].path[r->text_size])
			return 0;
	list = add_list(s, r->pid, r->text, r->text_size);
	if (list)
		list->time = r->time;
	jit_follow_process(s, r->pid);
	return 0;
}

/*
 * Whether the processes of the recording are this machine's. The numbers of others mean nothing
 * here: what is recorded comes through a pipe, and may be from elsewhere.
 */
static bool is_here(const struct ptah_session *s)
{
	const char *name = perfdata_hostname(s->file);
	struct utsname here;

	return s->growth->is_local || (*name && !uname(&here) && !strcmp(name, here.nodename));
}

/* Takes a file over as a list that was found without a record. */
static void take_file(struct ptah_session *s, int32_t pid, int fd, bool is_map)
{
	struct jitdump *list = add_list(s, pid, NULL, 0);

	if (!list) {
		close(fd);
		return;
	}
	list->is_map = list->settled = is_map;
	list->opened = true;
	symbol_jit_file_init(&list->file, fd, !is_map, false);
}

/* Opens a regular file. -1: it is none. */
static int open_file(const char *path, int flags, struct stat *st)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);

	if (fd < 0)
		return -1;
	if (!fstat(fd, st) && S_ISREG(st->st_mode))
		return fd;
	close(fd);
	errno = EINVAL;
	return -1;
}

static bool is_before(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

/*
 * Whether it is the file of this process, and not one that an earlier process of its number has
 * left.
 */
static bool is_own(const struct ptah_session *s, int32_t pid, const struct stat *st)
{
	struct timespec start;

	if (!s->config.ignore_build_ids && geteuid() && st->st_uid && st->st_uid != geteuid())
		return false;
	if (!s->growth->is_local || !is_before(&st->st_mtim, &s->growth->jit->began))
		return true;
	start = perfdata_process_start(pid);
	return !is_before(&st->st_mtim, &start);
}

/* Opens a file that may be a list of the process. */
static void try_file(struct ptah_session *s, int32_t pid, const char *path, int flags, bool is_map)
{
	struct stat st;
	const int fd = open_file(path, flags, &st);

	if (fd >= 0 && is_own(s, pid, &st))
		take_file(s, pid, fd, is_map);
	else if (fd >= 0)
		close(fd);
}

/* Whether it is the path of a jitdump of a process that has one of these two numbers. */
static bool is_dump_of(const char *path, size_t n, int32_t pid, int32_t inner)
{
	int32_t number;

	return perfdata_jit_kind(path, n, &number) == PERFDATA_JIT_DUMP &&
	       (number == pid || number == inner);
}

/*
 * The jitdump that the process has open for writing: an emulator need not have mapped it where its
 * guest has. This works also if the file was deleted or is in another namespace. A child may have
 * its parent's open, which is not its own. -1: there is none.
 */
static int open_written(int32_t pid)
{
	const int32_t inner = perfdata_inner_pid(pid);
	char folder[64], path[128], target[4096];
	struct dirent *entry;
	struct stat st;
	ssize_t n;
	int fd = -1;
	DIR *d;

	snprintf(folder, sizeof(folder), "/proc/%d/fd", (int)pid);
	d = opendir(folder);
	for (unsigned i = 0; d && fd < 0 && i < FILES && (entry = readdir(d)); i++) {
		snprintf(path, sizeof(path), "%s/%.20s", folder, entry->d_name);
		n = readlink(path, target, sizeof(target));
		if (n > (ssize_t)strlen(DELETED) &&
		    !memcmp(target + n - strlen(DELETED), DELETED, strlen(DELETED)))
			n -= (ssize_t)strlen(DELETED);
		/* The link says what the file was opened for. */
		if (n > 0 && is_dump_of(target, (size_t)n, pid, inner) && !lstat(path, &st) &&
		    st.st_mode & S_IWUSR)
			fd = open_file(path, 0, &st);
	}
	if (d)
		closedir(d);
	return fd;
}

/* Whether another file of the process may be open. */
static bool may_open(struct ptah_session *s, int32_t pid)
{
	size_t open = 0;

	for (size_t i = jit_follow_newest(s, pid); i != SESSION_NONE; i = s->jitdumps[i].older)
		open += s->jitdumps[i].file.fd >= 0;
	if (open < OPEN_EACH)
		return true;
	note_full(s, "a process has too many lists of generated code at once");
	return false;
}

/* Opens jitdumps that were recorded. Returns whether there is one of the present process. */
static bool open_recorded(struct ptah_session *s, int32_t pid)
{
	bool any = false;

	for (size_t i = jit_follow_newest(s, pid); i != SESSION_NONE; i = s->jitdumps[i].older) {
		struct jitdump *list = &s->jitdumps[i];
		struct stat st;
		char *path;
		int fd;

		any = any || (list->path && !list->left);
		if (!list->path || list->opened)
			continue;
		if (!may_open(s, pid)) {
			list->opened = true;
			continue;
		}
		path = jit_dump_path(s, list);
		fd = path ? open_file(path, 0, &st) : -1;
		free(path);
		list->opened = fd >= 0;
		if (fd >= 0)
			symbol_jit_file_init(&list->file, fd, true, s->use_jit_code);
	}
	return any;
}

static void look_for_dump(struct ptah_session *s, int32_t pid)
{
	char name[64];
	int fd;

	if (open_recorded(s, pid) || s->symfs || !is_here(s))
		return;
	fd = open_written(pid);
	if (fd >= 0) {
		take_file(s, pid, fd, false);
		return;
	}
	/* It may have exited already. */
	snprintf(name, sizeof(name), "/tmp/jit-%d.dump", (int)pid);
	try_file(s, pid, name + strlen("/tmp/"), O_NOFOLLOW, false);
	if (!has_list(s, pid, false))
		try_file(s, pid, name, O_NOFOLLOW, false);
}

static void look_for_map(struct ptah_session *s, int32_t pid)
{
	char name[64], *path;

	if (!s->symfs && !is_here(s))
		return;
	snprintf(name, sizeof(name), "/tmp/perf-%d.map", (int)pid);
	path = session_path(s, name);
	if (path)
		try_file(s, pid, path, 0, true);
	free(path);
}

static void look(struct ptah_session *s, struct follow_process *p, bool complete)
{
	const bool dump = has_list(s, p->pid, false), map = has_list(s, p->pid, true);
	const uint64_t time = (uint64_t)monotonic_ns(), passed = time - p->looked;

	if ((dump && map) || p->final)
		return;
	if (!complete && !p->exited && !(p->fresh && (p->looks < LOOKS || passed > LOOKS_APART)) &&
	    passed < LOOKS_IDLE)
		return;
	p->looked = time;
	p->looks++;
	p->fresh = false;
	p->final = p->exited;
	if (!dump)
		look_for_dump(s, p->pid);
	if (!map)
		look_for_map(s, p->pid);
}

/* Reading */

/*
 * Whether a jitdump that was found without a record has the clock of the recording. The records so
 * far may be older than its beginning, but not by much.
 */
static bool has_clock_of(const struct ptah_session *s, const struct jitdump *list, bool complete)
{
	const uint64_t apart = s->has_clock ? session_tsc(s, s->clock.zero + CLOCKS_APART) : 0;
	uint64_t begin = list->jit.is_tsc ? list->jit.time : session_tsc(s, list->jit.time);

	begin -= s->tsc_high;
	/* A process that ran already began it before. */
	if (begin < s->begin)
		return !list->jit.is_tsc && s->has_clock;
	return begin <= s->end || (!complete && begin - s->end < apart);
}

/* Finds out whether the times of a list can be used; at the end, whether they could. */
static void settle(const struct ptah_session *s, struct jitdump *list, bool complete)
{
	const bool before = list->has_times;
	uint64_t shift;

	if (list->is_map || (list->settled && (list->path || !complete)))
		return;
	list->has_times = !list->path	     ? has_clock_of(s, list, complete)
			  : list->jit.is_tsc ? true
					     : jit_times_shift(s, list, &shift);
	for (size_t i = 0; i < list->jit.indexed && before && !list->has_times; i++)
		list->jit.codes[i].from = 0;
	list->settled = true;
}

/* The time of code as TSC packets have it. */
static uint64_t convert(const struct ptah_session *s, const struct jitdump *list, uint64_t time)
{
	if (!list->has_times)
		return 0;
	if (!list->jit.is_tsc)
		time = session_tsc(s, list->path ? time + (list->time - list->jit.time) : time);
	return time > s->tsc_high ? time - s->tsc_high : 0;
}

/* Code that serves as code. */
static int add_change(struct ptah_session *s, const struct jitdump *list,
		      const struct symbol_jit_code *code)
{
	const struct change change = {.type = CHANGE_CODE,
				      .tsc = code->from,
				      .address = code->head,
				      .size = code->size,
				      .bytes = code->bytes};
	struct process *p = session_process_of(s, list->pid);

	return p ? grow_add_change(s, p, &change) : PTAH_E_NOMEM;
}

/* Takes what was added to a list. 1: it has grown. */
static int take_new(struct ptah_session *s, struct jitdump *list)
{
	int status = 0;

	for (size_t i = list->jit.indexed; i < list->jit.count && status >= 0; i++) {
		struct symbol_jit_code *code = &list->jit.codes[i];

		code->from = convert(s, list, code->from);
		if (list->path && s->use_jit_code && code->from && code->bytes)
			status = add_change(s, list, code);
	}
	if (status < 0 || list->jit.indexed == list->jit.count)
		return status;
	status = symbol_jit_index(&list->jit);
	list->grown = ++s->jit_generation;
	return status < 0 ? status : 1;
}

/* The list cannot be read any longer. */
static void give_up(struct ptah_session *s, struct jitdump *list, int status)
{
	if (list->path)
		jit_note_unread(s, list->path, status);
	else if (status != PTAH_E_BAD_MAGIC)
		note_full(s, "a list of generated code is too large, or cannot be read");
	symbol_jit_file_close(&list->file);
}

/* Reads a list, as far as *left allows. 1: it has grown. */
static int read_list(struct ptah_session *s, struct jitdump *list, uint64_t *left, bool complete)
{
	const uint64_t restarts = list->file.restarts;
	int64_t n = symbol_jit_file_begin(&list->file, &list->jit);
	int status;

	if (!n && !list->is_map)
		return 0;
	if (n >= 0)
		settle(s, list, complete);
	if (n >= 0)
		n = symbol_jit_file_more(&list->file, &list->jit, *left, complete);
	if (list->file.restarts != restarts) {
		list->settled = false;
		settle(s, list, complete);
	}
	*left -= n > 0 && (uint64_t)n < *left ? (uint64_t)n : n > 0 ? *left : 0;
	status = take_new(s, list);
	if (n < 0 || status < 0)
		give_up(s, list, n < 0 ? (int)n : status);
	return status > 0;
}

/* Whether the lists may take more memory. */
static bool has_memory(struct ptah_session *s)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < s->jitdump_count; i++)
		sum += symbol_jit_memory(&s->jitdumps[i].jit);
	if (sum < MEMORY)
		return true;
	note_full(s, "the lists of generated code are too large");
	return false;
}

/* Reads the lists of a process. 1: some have grown. */
static int read_lists(struct ptah_session *s, int32_t pid, uint64_t *left, bool complete)
{
	int grown = 0;

	for (size_t i = jit_follow_newest(s, pid); i != SESSION_NONE; i = s->jitdumps[i].older) {
		struct jitdump *list = &s->jitdumps[i];

		if (!list->opened && complete && list->path) {
			errno = ENOENT;
			jit_note_unread(s, list->path, PTAH_E_SYSTEM);
			list->opened = true;
		}
		if (list->opened && list->file.fd >= 0 && *left)
			grown |= read_list(s, list, left, complete);
	}
	return grown;
}

/* Ends following processes that have exited and have no lists. */
static void forget_exited(struct ptah_session *s)
{
	struct jit_follow *f = s->growth->jit;

	for (size_t i = f->count; i-- > 0;)
		if (f->processes[i].final &&
		    jit_follow_newest(s, f->processes[i].pid) == SESSION_NONE)
			let_go(s, i);
}

/* Reads the lists of all processes, beginning with the one where the limit was reached before. */
static int read_all(struct ptah_session *s, bool complete)
{
	struct jit_follow *f = s->growth->jit;
	uint64_t left = complete ? MEMORY : STEP;
	int grown = 0;

	for (size_t i = 0; i < f->count && left; i++) {
		struct follow_process *p;

		f->turn = f->turn < f->count ? f->turn : 0;
		p = &f->processes[f->turn];
		look(s, p, complete);
		grown |= read_lists(s, p->pid, &left, complete);
		f->turn += left > 0;
	}
	forget_exited(s);
	return grown;
}

int jit_follow_read(struct ptah_session *s, bool complete)
{
	int grown = 0, more = 1;

	if (!s->growth->jit->count || s->is_guest)
		return 0;
	for (unsigned i = 0; more && i < (complete ? PASSES : 1) && has_memory(s); i++) {
		more = read_all(s, complete);
		grown |= more;
	}
	return grown;
}
