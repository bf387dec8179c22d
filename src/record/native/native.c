/* SPDX-License-Identifier: MIT */
/*
 * The recorder native: puts the runtime into a command, takes what it and its children write into
 * the shared memory, and finishes each thread's trace, whichever way its process ends.
 */
#include "record/native/attach.h"
#include "record/monotonic.h"
#include "record/native/check.h"
#include "record/native/inject.h"
#include "record/native/keep.h"
#include "record/native/messages_in.h"
#include "record/native/pauses.h"
#include "record/native/streams.h"
#include "record/native/truth.h"

#include "perfdata/message.h"
#include "record/qemu/processes.h"
#include "record/simulated/code_map.h"
#include "record/simulated/simulated.h"
#include "record/tsc_clock.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define POLL_MS	      2
#define LOOK_NS	      (INT64_C(10) * 1000000) /* between two looks at chunks that are not FULL */
#define LIVE_ROUND    (64u << 10) /* bytes that a round takes where they are decoded meanwhile */
#define LEAST_CHUNK   (16u << 10)
#define SEIZED_NS     200000 /* between two looks at a process that is about to execve */
#define ANCESTORS_MAX 64     /* of a process, up to the recorder */
#define EXEC_WAITS    2000   /* times that a program is waited for that is about to execve */
#define CODE_PIECE    32768  /* bytes of code that are written at once */
#define SILENT	      64     /* processes that ended without a word, and are remembered */
#define SLOT_WAITS    100    /* times that a new program waits for threads to end */

/* A process that was seized because it is about to execve. */
struct seized {
	int32_t pid;
	int32_t tid; /* of the thread, which has the number `pid` from its execve on */
	bool waits_for_pid;
	unsigned waits; /* for a slot, held at its execve: so many times until now */
	struct seized *next;
};

struct recording {
	struct ptah_recorder *r;
	struct native_header *shared;
	uint64_t bytes;
	uint32_t flags;
	int memory; /* file descriptor of the shared memory */
	struct native_streams *streams;
	bool live;	/* somebody takes the recording while it is being made */
	bool more;	/* chunks are left that the last round has not taken */
	unsigned first; /* slot whose chunks the next round takes first */
	int64_t looked; /* nanoseconds: when chunks that are not FULL were looked at */
	struct native_messages *messages;
	struct native_truth truth;
	struct native_truth_thread truths[NATIVE_THREADS]; /* by slot */
	/* Of the trace in a slot, where not all of it is kept. */
	struct kept {
		struct native_end end;
		uint64_t written;
		bool snapped; /* a snapshot has had a part of it */
		bool full;
	} kept[NATIVE_THREADS];
	uint64_t buffer; /* bytes that are kept of each thread, where not all are */
	uint8_t *joined; /* room for them, and for a chunk */
	struct processes processes;
	/* The last ones that ended without a word: who waits for them may say why. */
	struct silent {
		int32_t pid;
		char name[16];
	} silent[SILENT];
	unsigned silent_count;
	struct seized *seized;
	struct native_pauses pauses;
	pid_t pid; /* of the command; 0: it has ended */
	const char *name;
	char own_name[16];
	uint64_t controls[NATIVE_THREADS]; /* by slot: struct native_control of its process */
	size_t attached;		   /* of the targets: to so many processes */
	int32_t detaching;		   /* a process; 0: none */
	/* Of the targets: where its struct native_control is; it has ended, or runs on untraced. */
	struct {
		uint64_t control;
		bool over;
	} * targets;
	bool rest_taken;
	uint32_t stream_count;
	uint64_t last_tsc;
	uint32_t event;	   /* native_header.message_event, before what was taken last */
	bool refused;	   /* r->refusal says why */
	bool committed;	   /* too late to be refused */
	bool has_vdso;	   /* the recording has its code */
	bool damage_noted; /* a note says that the shared memory was damaged */
};

static struct perfdata_writer *writer_of(const struct recording *r)
{
	return r->r->writer;
}

static void wrote(struct recording *r, int status)
{
	recorder_wrote(r->r, status);
}

/* ---- Mappings -------------------------------------------------------------- */

/* The vDSO has no file: its code is that of this process, which has the same kernel. */
static void write_vdso(struct recording *r, const struct code_map *map)
{
	const size_t size = (size_t)(map->end - map->start);
	void *own = (void *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);
	unsigned char pages[64];

	if (r->has_vdso || !own || size > sizeof(pages) * NATIVE_PAGE || mincore(own, size, pages))
		return;
	wrote(r, perfdata_add_vdso(writer_of(r), own, size));
	r->has_vdso = true; /* all processes have the same */
}

static void write_map(struct recording *r, int32_t pid, uint64_t tsc, const struct code_map *map,
		      const char *name)
{
	const struct perfdata_mapping mapping = {
	    .address = map->start,
	    .size = map->end - map->start,
	    .file_offset = map->offset,
	    .inode = map->inode,
	    .major = map->major,
	    .minor = map->minor,
	    .prot = map->prot,
	    .flags = map->flags,
	};

	if (!strcmp(name, "[vdso]"))
		write_vdso(r, map);
	wrote(r, perfdata_write_mmap2(writer_of(r), pid, pid, tsc, &mapping, name));
}

/* Writes the executable mappings of files, and the vDSO, that overlap [start, end). */
static void write_maps(struct recording *r, int32_t pid, uint64_t tsc, uint64_t start, uint64_t end)
{
	char path[32], *line = NULL;
	size_t room = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "re");
	while (f && getline(&line, &room, f) > 0) {
		struct code_map map;
		const char *name = code_map_parse(line, &map);

		if (name && (map.prot & PROT_EXEC) && map.start < end && start < map.end &&
		    (code_map_leads_to(name, map.inode) || !strcmp(name, "[vdso]")))
			write_map(r, pid, tsc, &map, name);
	}
	free(line);
	if (f)
		fclose(f);
}

/* ---- Programs that run already ------------------------------------------------ */

/* Code that is in no file. */
static void write_bytes(struct recording *r, int32_t pid, uint64_t start, uint64_t end)
{
	uint8_t bytes[CODE_PIECE];

	while (start < end) {
		const uint64_t n = end - start < sizeof(bytes) ? end - start : sizeof(bytes);
		struct iovec to = {bytes, n}, from = {(void *)(uintptr_t)start, n};
		const ssize_t got = process_vm_readv(pid, &to, 1, &from, 1, 0);

		if (got > 0)
			wrote(r, perfdata_add_code(writer_of(r), pid, r->last_tsc, start, bytes,
						   (size_t)got));
		start += got > 0 ? (uint64_t)got : NATIVE_PAGE;
	}
}

/* The pages of a file's mapping that the program has changed: proc(5), pagemap. */
static void write_changed(struct recording *r, int32_t pid, int pagemap, const struct code_map *map)
{
	for (uint64_t page = map->start; page < map->end; page += NATIVE_PAGE) {
		const uint64_t in_memory = UINT64_C(3) << 62, is_file = UINT64_C(1) << 61;
		uint64_t entry;

		if (pread(pagemap, &entry, sizeof(entry),
			  (off_t)(page / NATIVE_PAGE * sizeof(entry))) != sizeof(entry))
			return;
		if (entry & in_memory && !(entry & is_file))
			write_bytes(r, pid, page, page + NATIVE_PAGE);
	}
}

/* What write_maps() does not describe; the runtime sends what can be written to. */
static void write_code(struct recording *r, int32_t pid)
{
	char path[32], *line = NULL;
	size_t room = 0;
	int pagemap;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	pagemap = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "re");
	while (f && getline(&line, &room, f) > 0) {
		struct code_map map;
		const char *name = code_map_parse(line, &map);

		if (!name || !(map.prot & PROT_EXEC) || map.prot & PROT_WRITE || *name == '[')
			continue;
		if (!code_map_leads_to(name, map.inode))
			write_bytes(r, pid, map.start, map.end);
		else if (pagemap >= 0)
			write_changed(r, pid, pagemap, &map);
	}
	free(line);
	if (f)
		fclose(f);
	if (pagemap >= 0)
		close(pagemap);
}

static bool is_attached(const struct recording *r)
{
	return r->r->config.target.kind == PTAH_RECORD_PROCESSES;
}

static void set_over(struct recording *r, int32_t pid)
{
	for (size_t i = 0; is_attached(r) && i < r->attached; i++)
		if (r->r->config.target.ids[i] == pid)
			r->targets[i].over = true;
}

/* 0: it is about to be another program, whose threads have not said anything yet. */
static void set_control(struct recording *r, int32_t pid, uint64_t control)
{
	for (size_t i = 0; is_attached(r) && i < r->attached; i++)
		if (r->r->config.target.ids[i] == pid)
			r->targets[i].control = control;
}

static bool all_over(const struct recording *r)
{
	for (size_t i = 0; i < r->attached; i++)
		if (!r->targets[i].over)
			return false;
	return true;
}

/* ---- Threads and processes --------------------------------------------------- */

static void write_trace(struct recording *r, const struct native_stream *s, const uint8_t *bytes,
			size_t n)
{
	if (!n)
		return;
	wrote(r, perfdata_write_auxtrace(writer_of(r), s->stream, s->tid, bytes, n));
	r->r->status.trace_bytes += n;
}

/* n bytes have arrived that begin and end with a packet. */
static void take_trace(struct recording *r, const struct native_stream *s, const uint8_t *bytes,
		       size_t n)
{
	struct kept *kept = &r->kept[s - r->streams->list];
	size_t fits;

	switch (r->r->config.buffer.policy) {
	case PTAH_RECORD_SNAPSHOT:
		if (!native_end_add(&kept->end, r->buffer, bytes, n))
			recorder_fail(r->r, PTAH_RECORD_NO_MEMORY, PTAH_E_NOMEM, "out of memory");
		break;
	case PTAH_RECORD_STOP_WHEN_FULL:
		if (kept->full)
			break;
		fits = native_fits(bytes, n, r->buffer - kept->written);
		kept->full = fits < n;
		kept->written += fits;
		write_trace(r, s, bytes, fits);
		break;
	default:
		write_trace(r, s, bytes, n);
	}
}

/* Writes what is kept of a thread whose end alone is, and what it is just writing. */
static void write_end(struct recording *r, unsigned slot, size_t looked)
{
	const struct kept *kept = &r->kept[slot];
	size_t n = native_end_get(&kept->end, r->buffer, r->joined);

	memcpy(r->joined + n, r->streams->bytes, looked);
	write_trace(r, &r->streams->list[slot], r->joined, n + looked);
}

/* Whether trace of the thread is missing in the recording, so that the truth is not of that. */
static bool is_part(struct recording *r, const struct kept *kept)
{
	if (kept->full)
		recorder_note(r->r, SIMULATED_NOTE_FULL, r->buffer);
	else if (kept->end.total > r->buffer)
		recorder_note(r->r, SIMULATED_NOTE_END, r->buffer, kept->end.total);
	return kept->full || kept->end.total > r->buffer || kept->snapped;
}

/* All of the thread's trace has arrived. Whether the recording has all of it. */
static bool write_kept(struct recording *r, unsigned slot)
{
	struct kept *kept = &r->kept[slot];
	const bool part = is_part(r, kept);

	if (r->r->config.buffer.policy == PTAH_RECORD_SNAPSHOT)
		write_end(r, slot, 0);
	native_end_free(&kept->end);
	*kept = (struct kept){.full = false};
	return !part;
}

static void take_bytes(void *context, const struct native_stream *s, unsigned log,
		       const uint8_t *bytes, size_t n)
{
	struct recording *r = context;

	if (log == NATIVE_LOG_EXITS)
		native_truth_keep(&r->truth, &r->truths[s - r->streams->list], bytes, n);
	else
		take_trace(r, s, bytes, n);
}

static const char *name_of(const struct recording *r, int32_t pid)
{
	const struct process *process = processes_find(&r->processes, pid);

	return process ? process->name : r->name;
}

/*
 * What the second log says of a thread whose trace has arrived. complete: all of it is in the
 * recording, and the runtime itself has ended it, or it was killed in a system call. One that was
 * killed elsewhere may have logged exits whose packets lead to no outcome any more.
 */
static void write_truth(struct recording *r, unsigned slot, bool complete)
{
	const struct native_stream *s = &r->streams->list[slot];
	struct ptah_truth truth;

	native_truth_count(&r->truth, &r->truths[slot]);
	if (r->flags & NATIVE_TRUTH && complete && !r->streams->damaged && !r->messages->damaged &&
	    native_truth_get(&r->truth, &r->truths[slot], &truth))
		wrote(r, perfdata_add_truth(writer_of(r), s->stream, s->pid, s->tid, &truth, 0));
	r->r->status.instructions += r->truths[slot].instructions;
	r->truths[slot] = (struct native_truth_thread){0};
}

/* exec: the thread that made the process continue with another program; 0: it does not. */
static void finish_thread(struct recording *r, unsigned slot, int32_t exec)
{
	const struct native_stream s = r->streams->list[slot];
	const struct process *process = processes_find(&r->processes, s.pid);
	const int32_t parent = process ? process->parent : s.pid;
	const bool ended = streams_has_ended(r->streams, slot);
	bool complete;

	streams_finish(r->streams, slot);
	complete = write_kept(r, slot);
	write_truth(r, slot, complete && (ended || s.tid == exec || r->streams->list[slot].closed));
	if (!exec || s.tid != s.pid)
		wrote(r,
		      perfdata_write_exit(writer_of(r), s.pid, s.tid, parent, parent, r->last_tsc));
}

static void finish_process(struct recording *r, int32_t pid, int32_t exec)
{
	for (unsigned i = 0; i < NATIVE_THREADS; i++)
		if (r->streams->list[i].used && r->streams->list[i].pid == pid)
			finish_thread(r, i, exec);
}

static void add_process(struct recording *r, int32_t pid, int32_t parent, const char *name)
{
	if (!processes_add(&r->processes, pid, parent, name))
		recorder_fail(r->r, PTAH_RECORD_NO_MEMORY, PTAH_E_NOMEM, "out of memory");
	r->r->status.processes++;
}

static void forget_seized(struct recording *r, int32_t pid)
{
	for (struct seized **p = &r->seized; *p; p = &(*p)->next) {
		struct seized *s = *p;

		if (s->pid != pid)
			continue;
		*p = s->next;
		free(s);
		return;
	}
}

static bool is_seized(const struct recording *r, int32_t pid)
{
	for (const struct seized *s = r->seized; s; s = s->next)
		if (s->pid == pid)
			return true;
	return false;
}

static void bury(struct recording *r, size_t i)
{
	const struct process *process = &r->processes.list[i];
	const int32_t pid = process->pid;

	if (!process->told) {
		struct silent *s = &r->silent[r->silent_count++ % SILENT];

		s->pid = pid;
		memcpy(s->name, process->name, sizeof(s->name));
	}

	finish_process(r, pid, 0);
	forget_seized(r, pid);
	set_over(r, pid);
	processes_remove(&r->processes, i);
}

/* Whether a round has left chunks of the process. */
static bool has_more(const struct recording *r, int32_t pid)
{
	for (unsigned i = 0; i < NATIVE_THREADS && r->more; i++)
		if (r->streams->list[i].pid == pid && streams_has_more(r->streams, i))
			return true;
	return false;
}

static void bury_dead(struct recording *r)
{
	for (size_t i = r->processes.count; i-- > 0;)
		if (r->processes.list[i].dead && !has_more(r, r->processes.list[i].pid))
			bury(r, i);
}

/* ---- Execve ------------------------------------------------------------------ */

static int32_t parent_of(int32_t pid)
{
	char path[32], text[512];
	const char *rest;
	int parent = 0;
	size_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	n = fread(text, 1, sizeof(text) - 1, f);
	fclose(f);
	text[n] = '\0';
	rest = strrchr(text, ')'); /* proc(5): "pid (comm) state ppid ..." */
	if (!rest || sscanf(rest + 1, " %*c %d", &parent) != 1)
		return 0;
	return parent;
}

static bool is_target(const struct recording *r, int32_t pid)
{
	for (size_t i = 0; is_attached(r) && i < r->attached; i++)
		if (r->r->config.target.ids[i] == pid)
			return true;
	return false;
}

/*
 * A message can name any process, and the recorder may be more powerful than the program: only what
 * descends from the recorder is traced, or from a process that it was told to record.
 */
static bool is_descendant(const struct recording *r, int32_t pid)
{
	for (unsigned i = 0; i < ANCESTORS_MAX && pid > 1; i++) {
		if (is_target(r, pid))
			return true;
		if (pid == getpid())
			return i > 0;
		pid = parent_of(pid);
	}
	return false;
}

static void on_exec(struct recording *r, const struct native_message *m)
{
	struct seized *s = is_descendant(r, m->pid) ? calloc(1, sizeof(*s)) : NULL;
	struct ptah_message why = {"it does not descend from what is recorded"};

	pauses_end(&r->pauses, m->pid);
	if (m->pid == r->detaching) { /* it is traced, and let go */
		free(s);
		native_messages_answer(r->messages);
		return;
	}

	if (s && inject_seize(m->tid, &why) >= 0) {
		s->pid = m->pid;
		s->tid = m->tid;
		s->next = r->seized;
		r->seized = s;
	} else {
		free(s);
		recorder_note(r->r, "process %d (%s) is not recorded after its execve: %s", m->pid,
			      name_of(r, m->pid), why.text);
	}
	native_messages_answer(r->messages);
}

static struct native_thread *thread_at(const struct recording *r, unsigned slot)
{
	return (struct native_thread *)(void *)((uint8_t *)r->shared +
						native_slot_at(r->flags, slot));
}

static unsigned claim_slot(const struct recording *r)
{
	for (unsigned i = 0; i < NATIVE_THREADS; i++) {
		uint32_t free_state = NATIVE_SLOT_FREE;

		if (!r->streams->list[i].used &&
		    __atomic_compare_exchange_n(&thread_at(r, i)->state, &free_state,
						NATIVE_SLOT_ACTIVE, false, __ATOMIC_ACQ_REL,
						__ATOMIC_RELAXED))
			return i;
	}
	return NATIVE_THREADS;
}

static void read_comm(int32_t pid, char name[16])
{
	char path[32];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	f = fopen(path, "re");
	if (!f || !fgets(name, 16, f))
		name[0] = '\0';
	if (f)
		fclose(f);
	name[strcspn(name, "\n")] = '\0';
}

/*
 * Other threads may have gone on after the message, until the kernel ended them: what they ran is
 * before the new program's mappings, which are the code of all that comes later.
 */
static void take_time(struct recording *r)
{
#ifdef __x86_64__
	const uint64_t now = __builtin_ia32_rdtsc();

	if (now > r->last_tsc)
		r->last_tsc = now;
#else
	(void)r;
#endif
}

/* The process stands before the first instruction of its new program. */
static void enter_program(struct recording *r, int32_t pid, int32_t tid, unsigned slot)
{
	struct inject_memory memory = {.fd = r->memory, .bytes = r->bytes, .or_natively = true};
	struct process *process = processes_find(&r->processes, pid);
	struct ptah_message why = {""};
	char name[16];

	take_time(r);
	finish_process(r, pid, tid);
	set_control(r, pid, 0);
	read_comm(pid, name);
	if (process)
		process_set_name(process, name);
	else
		add_process(r, pid, parent_of(pid), name);
	wrote(r, perfdata_write_comm(writer_of(r), pid, pid, r->last_tsc, true, name));
	write_maps(r, pid, r->last_tsc, 0, UINT64_MAX);
	memory.slot = slot < NATIVE_THREADS ? slot : claim_slot(r);
	if (memory.slot == NATIVE_THREADS) {
		set_over(r, pid);
		inject_release(pid);
		recorder_note(r->r,
			      "process %d (%s) is not recorded: more threads run at the same "
			      "time than can be recorded",
			      pid, name);
	} else if (inject_runtime(pid, &memory, &why) < 0) {
		__atomic_store_n(&thread_at(r, memory.slot)->state, NATIVE_SLOT_FREE,
				 __ATOMIC_RELEASE);
		set_over(r, pid);
		recorder_note(r->r, "process %d (%s) is not recorded: %s", pid, name, why.text);
	}
}

/*
 * inject_exec() of the thread. One that is not the first of its process has the process's number
 * when its execve is reported; its own is nobody's from then on, or if it was killed.
 */
static int await_exec(struct seized *s, int *ended)
{
	struct ptah_message why = {""};
	int status;

	if (!s->waits_for_pid) {
		status = inject_exec(s->tid, ended, &why);
		if (s->tid == s->pid || status != PTAH_E_MISSING)
			return status;
		s->waits_for_pid = true;
	}
	return inject_exec(s->pid, ended, &why);
}

static void look_at_seized(struct recording *r)
{
	struct seized *next;

	for (struct seized *s = r->seized; s; s = next) {
		const int32_t pid = s->pid, tid = s->tid;
		int ended = 0, status = s->waits ? 1 : await_exec(s, &ended);
		unsigned slot = NATIVE_THREADS;

		next = s->next;
		if (!status)
			continue;
		if (status > 0)
			slot = claim_slot(r);
		/* Slots of threads that have ended become free after this. */
		if (status > 0 && slot == NATIVE_THREADS && s->waits++ < SLOT_WAITS)
			continue;
		forget_seized(r, pid);
		if (status > 0)
			enter_program(r, pid, tid, slot);
		else if (status == PTAH_E_MISSING &&
			 pid == r->pid) { /* its status has been taken */
			r->r->status.wait_status = ended;
			r->pid = r->r->status.pid = 0;
		}
	}
}

/* ---- Messages ---------------------------------------------------------------- */

static void on_thread(struct recording *r, const struct native_message *m)
{
	char name[16] = "";

	if (!streams_begin(r->streams, m->value, m->pid, m->tid, r->stream_count))
		return;
	r->stream_count++;
	r->r->status.threads++;
	r->controls[m->value] = m->address;
	pauses_begin_thread(&r->pauses, (unsigned)m->value, m->address, m->size);
	set_control(r, m->pid, m->address);
	if (m->tid != m->pid) {
		wrote(r, perfdata_write_fork(writer_of(r), m->pid, m->tid, m->pid, m->pid, m->tsc));
		if (is_target(r, m->pid))
			read_comm(m->tid, name);
		wrote(r, perfdata_write_comm(writer_of(r), m->pid, m->tid, m->tsc, false,
					     name[0] ? name : name_of(r, m->pid)));
	}
	wrote(r, perfdata_write_itrace_start(writer_of(r), m->pid, m->tid, m->tsc));
}

static void on_fork(struct recording *r, const struct native_message *m)
{
	const int32_t parent = (int32_t)m->value;
	const struct process *before = processes_find(&r->processes, m->pid);
	char name[16];

	if (before) /* the pid is used again: the process before has died */
		bury(r, (size_t)(before - r->processes.list));
	snprintf(name, sizeof(name), "%s", name_of(r, parent));
	add_process(r, m->pid, parent, name);
	wrote(r, perfdata_write_fork(writer_of(r), m->pid, m->pid, parent, parent, m->tsc));
}

static void on_map(struct recording *r, const struct native_message *m)
{
	if (processes_find(&r->processes, m->pid))
		write_maps(r, m->pid, m->tsc, m->address, m->address + m->size);
	native_messages_answer(r->messages);
}

static void on_comm(struct recording *r, const struct native_message *m, const char *name)
{
	struct process *process = processes_find(&r->processes, m->pid);

	if (process && m->pid == m->tid)
		process_set_name(process, name);
	wrote(r, perfdata_write_comm(writer_of(r), m->pid, m->tid, m->tsc, false, name));
}

static void set_told(struct recording *r, int32_t pid)
{
	struct process *process = processes_find(&r->processes, pid);

	if (process)
		process->told = true;
}

static void on_fatal(struct recording *r, const struct native_message *m)
{
	const struct recorder_end end = {
	    .signal = (int)m->value,
	    .pid = m->pid,
	    .tid = m->tid,
	    .comm = name_of(r, m->pid),
	    .placed = m->size,
	    .ip = m->address,
	};

	set_told(r, m->pid);
	recorder_note_end(r->r, &end);
}

static void on_reaped(struct recording *r, const struct native_message *m)
{
	const int32_t pid = (int32_t)m->address;
	const struct process *process = processes_find(&r->processes, pid);
	struct recorder_end end = {.signal = (int)m->value, .pid = pid, .tid = pid};

	if (process && !process->told)
		end.comm = process->name;
	for (size_t i = 0; i < SILENT; i++)
		if (!process && r->silent[i].pid == pid) {
			end.comm = r->silent[i].name;
			r->silent[i].pid = 0;
		}
	if (!end.comm)
		return;
	recorder_note_end(r->r, &end);
	set_told(r, pid);
}

static void on_ended(struct recording *r, const struct native_message *m)
{
	set_told(r, m->pid);
	recorder_process_ended(r->r, m->pid, (int)(m->value & 0xff) << 8);
}

/* Nobody has seen the program run: another recorder begins again. */
static void on_refused(struct recording *r, const struct native_message *m, const char *why)
{
	if (r->committed || m->pid != r->pid)
		return;
	r->refused = true;
	snprintf(r->r->refusal.text, sizeof(r->r->refusal.text), "%s", why);
}

static void on_message(void *context, const struct native_message *m, const char *payload)
{
	struct recording *r = context;

	if (m->tsc > r->last_tsc)
		r->last_tsc = m->tsc;
	switch (m->type) {
	case NATIVE_MESSAGE_THREAD:
		on_thread(r, m);
		break;
	case NATIVE_MESSAGE_COMM:
		on_comm(r, m, payload);
		break;
	case NATIVE_MESSAGE_MAP:
		on_map(r, m);
		break;
	case NATIVE_MESSAGE_CODE:
		wrote(r, perfdata_add_code(writer_of(r), m->pid, m->tsc, m->address, payload,
					   m->bytes));
		break;
	case NATIVE_MESSAGE_FORK:
		on_fork(r, m);
		break;
	case NATIVE_MESSAGE_EXEC:
		on_exec(r, m);
		break;
	case NATIVE_MESSAGE_EXEC_FAILED:
		forget_seized(r, m->pid);
		inject_release(m->tid);
		break;
	case NATIVE_MESSAGE_REFUSED:
		on_refused(r, m, payload);
		break;
	case NATIVE_MESSAGE_LEFT:
		set_over(r, m->pid);
		if (m->pid == r->detaching)
			break;
		recorder_note(r->r, "process %d (%s) runs on untraced: %s", m->pid,
			      name_of(r, m->pid), payload);
		break;
	case NATIVE_MESSAGE_NOTE:
		recorder_note(r->r, "%s", payload);
		break;
	case NATIVE_MESSAGE_EXITS:
		native_truth_describe(&r->truth, m->value, payload, m->bytes);
		break;
	case NATIVE_MESSAGE_COMMITTED:
		r->committed = true;
		break;
	case NATIVE_MESSAGE_FATAL:
		on_fatal(r, m);
		break;
	case NATIVE_MESSAGE_ENDED:
		on_ended(r, m);
		break;
	case NATIVE_MESSAGE_REAPED:
		on_reaped(r, m);
		break;
	default:
		break;
	}
}

/* ---- Recording --------------------------------------------------------------- */

static void note_damage(struct recording *r)
{
	if (r->damage_noted || (!r->streams->damaged && !r->messages->damaged))
		return;
	r->damage_noted = r->streams->damaged = true;
	recorder_note(r->r, "a program has written to the memory that it shares with the recorder: "
			    "parts of the trace may be missing or wrong");
}

/* Waits up to timeout_ms for a process to end, and takes all messages and all published trace. */
static bool any_seized(const struct recording *r)
{
	for (size_t i = 0; i < r->processes.count; i++)
		if (is_seized(r, r->processes.list[i].pid))
			return true;
	return false;
}

static bool any_runs(const struct recording *r)
{
	if (!r->stream_count)
		return true; /* it has just been started */
	for (unsigned i = 0; i < NATIVE_THREADS; i++)
		if (r->streams->list[i].used && !streams_has_ended(r->streams, i))
			return true;
	return false;
}

/*
 * Waits for the next event of the programs. Their ends, and stops of those that are seized, are
 * none: where nobody runs, the kernel is asked for ends, and what is seized is looked at often.
 */
static void wait_for_programs(struct recording *r, int timeout_ms)
{
	struct native_header *header = r->shared;
	struct timespec time = {.tv_nsec = timeout_ms * 1000000L};

	if (timeout_ms && any_seized(r))
		time.tv_nsec = SEIZED_NS;
	if (timeout_ms && (any_runs(r) || any_seized(r))) {
		syscall(SYS_futex, &header->message_event, FUTEX_WAIT, r->event, &time, NULL, 0);
		timeout_ms = 0;
	}
	processes_wait(&r->processes, timeout_ms);
	r->event = __atomic_load_n(&header->message_event, __ATOMIC_ACQUIRE);
}

/* Takes what threads have written that do not fill a chunk for long. */
static void take_early(struct recording *r)
{
	const int64_t now = monotonic_ns();

	if (now - r->looked < LOOK_NS)
		return;
	r->looked = now;
	for (unsigned i = 0; i < NATIVE_THREADS; i++)
		streams_take_early(r->streams, i);
}

/*
 * Takes chunks that are FULL. Where they are decoded meanwhile, a round takes a few alone, so that
 * it does not last long. The next round begins behind the last thread of which this one took some:
 * a thread that fills its chunks faster than they are decoded must not keep another from its turn,
 * for which it may be waiting.
 */
static void drain_threads(struct recording *r, const bool ended[NATIVE_THREADS])
{
	unsigned most = STREAMS_ALL;
	const unsigned first = r->first;

	if (r->live)
		most = (LIVE_ROUND + r->streams->chunk_bytes - 1) / r->streams->chunk_bytes;
	r->more = false;
	for (unsigned k = 0; k < NATIVE_THREADS; k++) {
		const unsigned i = (first + k) % NATIVE_THREADS, before = most;

		if (streams_drain(r->streams, i, &most))
			r->more = true;
		else if (ended[i] && r->streams->list[i].used)
			finish_thread(r, i, 0);
		if (most < before)
			r->first = (i + 1) % NATIVE_THREADS;
	}
}

static void drain(struct recording *r, int timeout_ms)
{
	bool ended[NATIVE_THREADS];

	/* The ends are read first: all messages were sent before. */
	wait_for_programs(r, r->more ? 0 : timeout_ms);
	for (unsigned i = 0; i < NATIVE_THREADS; i++)
		ended[i] = streams_has_ended(r->streams, i);
	native_messages_drain(r->messages);
	for (unsigned i = 0; i < NATIVE_THREADS; i++)
		native_truth_count(&r->truth, &r->truths[i]);
	look_at_seized(r);
	pauses_follow(&r->pauses);
	drain_threads(r, ended);
	if (r->live)
		take_early(r);
	bury_dead(r);
	note_damage(r);
	recorder_flush(r->r);
}

/* Nobody is interrupted any more. */
static void end_pauses(struct recording *r)
{
	r->pauses.over = true;
	pauses_end(&r->pauses, 0);
}

/* Nobody waits for the recorder any more. */
static void leave(struct recording *r)
{
	end_pauses(r);
	__atomic_store_n(&r->shared->recorder_alive, 0, __ATOMIC_RELEASE);
	while (r->seized) {
		inject_release(r->seized->waits_for_pid ? r->seized->pid : r->seized->tid);
		forget_seized(r, r->seized->pid);
	}
}

static void serve(void *context)
{
	drain(context, 0);
}

/* A process that can be let go; its struct native_control. */
static int32_t find_recorded(const struct recording *r, uint64_t *control)
{
	/* Its threads may not have said anything yet. */
	for (size_t i = 0; i < r->attached; i++)
		if (!r->targets[i].over && r->targets[i].control) {
			*control = r->targets[i].control;
			return r->r->config.target.ids[i];
		}
	for (unsigned i = 0; i < NATIVE_THREADS; i++) {
		const struct native_stream *s = &r->streams->list[i];

		*control = r->controls[i];
		if (s->used && !streams_has_ended(r->streams, i) &&
		    processes_find(&r->processes, s->pid) && !is_seized(r, s->pid) &&
		    is_descendant(r, s->pid))
			return s->pid;
	}
	return 0;
}

static void let_go(struct recording *r, int32_t pid, uint64_t control)
{
	struct detach d = {.pid = pid, .control = control, .serve = serve, .context = r};
	const struct process *process;

	r->detaching = pid;
	detach_process(&d);
	drain(r, 0);
	r->detaching = 0;
	if (d.stuck)
		recorder_note(r->r,
			      "process %d (%s) is still in %u system calls: it runs on untraced "
			      "when they are done",
			      pid, name_of(r, pid), d.stuck);
	process = processes_find(&r->processes, pid);
	if (process)
		bury(r, (size_t)(process - r->processes.list));
	set_over(r, pid);
}

static bool any_execs(const struct recording *r)
{
	for (size_t i = 0; i < r->attached; i++)
		if (!r->targets[i].over &&
		    (!r->targets[i].control || is_seized(r, r->r->config.target.ids[i])))
			return true;
	return false;
}

/* What was there before the recording is there after it: it runs on natively. */
static void let_all_go(struct recording *r)
{
	uint64_t control;
	int32_t pid;

	for (unsigned i = 0; i < EXEC_WAITS && any_execs(r); i++)
		drain(r, POLL_MS);
	while (is_attached(r) && (pid = find_recorded(r, &control)))
		let_go(r, pid, control);
}

static int take_rest(struct recording *r)
{
	end_pauses(r);
	drain(r, 0);
	drain(r, 0); /* again, for processes that died during the first */
	let_all_go(r);
	r->rest_taken = true;
	leave(r);
	for (size_t i = 0; i < r->processes.count; i++)
		if (r->processes.list[i].pid != r->pid)
			recorder_note(r->r,
				      "process %d (%s) still ran when the recording ended: what "
				      "followed was not recorded",
				      r->processes.list[i].pid, r->processes.list[i].name);
	for (unsigned i = 0; i < NATIVE_THREADS; i++)
		if (r->streams->list[i].used)
			finish_thread(r, i, 0);
	return r->r->error;
}

/* Whether the command has ended. */
static bool has_ended(struct recording *r)
{
	pid_t pid;

	if (!r->pid)
		return true;
	pid = waitpid(r->pid, &r->r->status.wait_status, WNOHANG);
	if (pid != r->pid && (pid >= 0 || errno == EINTR))
		return false;
	if (pid == r->pid && WIFSTOPPED(r->r->status.wait_status))
		return false;
	r->pid = r->r->status.pid = 0;
	return true;
}

static int poll_command(struct ptah_recorder *recorder, int timeout_ms)
{
	struct recording *r = recorder->self;
	const int64_t end = monotonic_ns() + timeout_ms * INT64_C(1000000);

	do {
		if (is_attached(r) && all_over(r))
			return take_rest(r);
		/* A process that is traced is waited for by inject_exec() or pauses.c alone. */
		if (!is_attached(r) && !is_seized(r, r->pid) &&
		    !pauses_traces(&r->pauses, r->pid) && has_ended(r))
			return take_rest(r);
		drain(r, POLL_MS);
		if (r->refused)
			return RECORDER_REFUSED;
		if (recorder->error < 0) {
			leave(r);
			return recorder->error;
		}
		if (recorder_is_full(recorder))
			return 1; /* ptah_recorder_poll() ends the recording */
	} while (monotonic_ns() < end);
	return 1;
}

static int stop(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self;

	if (is_attached(r))
		return r->rest_taken ? 0 : take_rest(r);
	return r->pid ? take_rest(r) : 0;
}

/* pauses.c */
static bool may_trace(void *context, int32_t pid)
{
	return !is_seized(context, pid) && is_descendant(context, pid);
}

static void on_end(void *context, int32_t pid, int wait_status)
{
	struct recording *r = context;

	if (pid != r->pid)
		return;
	r->r->status.wait_status = wait_status;
	r->pid = r->r->status.pid = 0;
}

static int set_paused(struct ptah_recorder *recorder, bool on)
{
	struct recording *r = recorder->self;

	pauses_set(&r->pauses, on);
	while (!pauses_follow(&r->pauses) && !pauses_are_late(&r->pauses))
		drain(r, POLL_MS);
	drain(r, 0);
	return recorder->error;
}

static unsigned claim_for(void *context)
{
	return claim_slot(context);
}

static void give_slot_back(void *context, unsigned slot)
{
	__atomic_store_n(&thread_at(context, slot)->state, NATIVE_SLOT_FREE, __ATOMIC_RELEASE);
}

static int attach_to(struct recording *r, size_t target, struct ptah_message *why)
{
	const int32_t pid = r->r->config.target.ids[target];
	const struct attach_memory memory = {.fd = r->memory,
					     .bytes = r->bytes,
					     .claim = claim_for,
					     .give_back = give_slot_back,
					     .context = r};
	struct attach *a = attach_hold(pid, why);
	char name[16];
	int status;

	if (!a)
		return PTAH_E_SYSTEM;
	read_comm(pid, name);
	add_process(r, pid, parent_of(pid), name);
	take_time(r);
	wrote(r, perfdata_write_comm(writer_of(r), pid, pid, r->last_tsc, false, name));
	write_maps(r, pid, r->last_tsc, 0, UINT64_MAX);
	write_code(r, pid);
	status = attach_put(a, &memory, &r->targets[target].control, why);
	if (status < 0)
		processes_remove(&r->processes, r->processes.count - 1);
	return status;
}

static int start_attached(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self;
	struct ptah_message why = {""};

	r->targets = calloc(recorder->config.target.id_count, sizeof(*r->targets));
	if (!r->targets)
		return recorder_fail(recorder, PTAH_RECORD_NO_MEMORY, PTAH_E_NOMEM,
				     "out of memory");
	r->committed = true;
	r->shared->committed = 1;
	for (size_t i = 0; i < recorder->config.target.id_count; i++) {
		const int status = attach_to(r, i, &why);

		if (status < 0)
			return recorder_fail(recorder, PTAH_RECORD_NOT_POSSIBLE, status, "%s",
					     why.text);
		r->attached++;
	}
	return recorder->error;
}

static int start(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self;
	const struct inject_memory memory = {.fd = r->memory, .bytes = r->bytes, .slot = 0};
	struct ptah_message why = {""};
	int status;

	if (is_attached(r))
		return start_attached(recorder);
	status = inject_start(recorder->config.target.argv, &r->pid, &why);

	if (status < 0) {
		r->pid = 0;
		return recorder_fail(recorder, PTAH_RECORD_NO_TARGET, status, "%s", why.text);
	}
	recorder->status.pid = r->pid;
	add_process(r, r->pid, getpid(), r->name);
	/* A time before that of any packet: decoders look for code by time. */
	take_time(r);
	wrote(r, perfdata_write_comm(writer_of(r), r->pid, r->pid, r->last_tsc, true, r->name));
	write_maps(r, r->pid, r->last_tsc, 0, UINT64_MAX);
	status = inject_runtime(r->pid, &memory, &why);
	if (status < 0)
		return recorder_fail(recorder, PTAH_RECORD_NOT_POSSIBLE, status, "%s", why.text);
	return recorder->error;
}

/* ---- Opening and closing -------------------------------------------------------- */

static void put_filters(struct native_header *h, const struct ptah_record_config *config)
{
	h->filter_count = (uint32_t)config->filter_count;
	for (size_t i = 0; i < config->filter_count; i++) {
		const struct ptah_record_filter *from = &config->filters[i];
		struct native_filter *to = &h->filters[i];

		to->mode = from->mode;
		to->start = from->start;
		to->size = simulated_filter_size(from);
		if (from->path)
			snprintf(to->path, sizeof(to->path), "%s", from->path);
	}
}

/* What a thread may write until it waits: four chunks at least, which are smaller for that. */
static void size_chunks(struct native_header *h, const struct ptah_record_config *config)
{
	const uint64_t size = config->buffer.size;

	h->chunks = NATIVE_CHUNKS;
	h->chunk_bytes = NATIVE_CHUNK;
	if (!size || config->buffer.policy != PTAH_RECORD_DRAIN)
		return;
	while (h->chunk_bytes > LEAST_CHUNK && h->chunk_bytes * UINT64_C(4) > size)
		h->chunk_bytes /= 2;
	if (size / h->chunk_bytes < h->chunks)
		h->chunks = (uint32_t)(size / h->chunk_bytes);
	if (h->chunks < 2)
		h->chunks = 2;
}

static int create_memory(struct recording *r, const struct ptah_record_config *config)
{
	struct native_header *h;
	void *map;

	r->bytes = native_bytes(r->flags);
	r->memory = memfd_create("ptah", MFD_CLOEXEC);
	if (r->memory < 0 || ftruncate(r->memory, (off_t)r->bytes))
		return PTAH_E_SYSTEM;
	map =
	    mmap(NULL, r->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, r->memory, 0);
	if (map == MAP_FAILED)
		return PTAH_E_SYSTEM;
	h = r->shared = map;
	h->magic = NATIVE_MAGIC;
	h->flags = r->flags;
	h->bytes = r->bytes;
	h->no_retcomp = config->trace.no_retcomp;
	h->tsc = true;
	size_chunks(h, config);
	h->recorder_pid = getpid();
	h->recorder_alive = 1;
	h->committed = r->committed;
	h->paused = config->target.start_paused;
	put_filters(h, config);
	return getrandom(&h->guard, sizeof(h->guard), 0) == sizeof(h->guard) ? 0 : PTAH_E_SYSTEM;
}

static int open_recorder(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self = calloc(1, sizeof(*r));
	const struct ptah_record_sink *sink = recorder->config.output.sink;
	struct perfdata_clock clock;
	const char *slash;
	int status;

	if (!r)
		return PTAH_E_NOMEM;
	r->r = recorder;
	r->memory = -1;
	r->flags = (recorder->config.backend.truth ? NATIVE_TRUTH : 0) |
		   (recorder->config.target.no_inherit ? NATIVE_ALONE : 0);
	if (is_attached(r)) {
		read_comm(recorder->config.target.ids[0], r->own_name);
		r->name = r->own_name;
	} else {
		slash = strrchr(recorder->config.target.argv[0], '/');
		r->name = slash ? slash + 1 : recorder->config.target.argv[0];
	}
	r->committed = sink && sink->take && !sink->restart;
	r->buffer =
	    recorder->config.buffer.size ? recorder->config.buffer.size : SIMULATED_DEFAULT_BUFFER;
	if (recorder->config.buffer.policy == PTAH_RECORD_SNAPSHOT)
		r->joined = malloc(r->buffer + NATIVE_CHUNK);
	r->streams = calloc(1, sizeof(*r->streams));
	r->messages = calloc(1, sizeof(*r->messages));
	if (!r->streams || !r->messages ||
	    (recorder->config.buffer.policy == PTAH_RECORD_SNAPSHOT && !r->joined))
		return PTAH_E_NOMEM;
	status = create_memory(r, &recorder->config);
	if (status < 0) {
		struct ptah_message why = {""};

		status = perfdata_system_message(&why, errno, "shared memory", "create");
		return recorder_fail(recorder, PTAH_RECORD_NO_MEMORY, status, "%s", why.text);
	}
	*r->streams = (struct native_streams){.memory = (uint8_t *)r->shared,
					      .flags = r->flags,
					      .chunks = r->shared->chunks,
					      .chunk_bytes = r->shared->chunk_bytes,
					      .take = take_bytes,
					      .context = r};
	*r->messages =
	    (struct native_messages){.shared = r->shared, .take = on_message, .context = r};
	r->pauses = (struct native_pauses){.shared = r->shared,
					   .streams = r->streams,
					   .on = recorder->config.target.start_paused,
					   .may_trace = may_trace,
					   .ended = on_end,
					   .context = r};
	tsc_clock_read(&clock);
	status = simulated_open_writer(
	    recorder, recorder->config.buffer.policy == PTAH_RECORD_SNAPSHOT, &clock);
	r->live = status >= 0 && recorder->config.buffer.policy == PTAH_RECORD_DRAIN &&
		  perfdata_writer_is_read(recorder->writer);
	return status;
}

/* A program that was refused has to be ended before another recorder starts it. */
static void kill_refused(struct recording *r)
{
	if (!r->refused || !r->pid)
		return;
	kill(r->pid, SIGKILL);
	while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static void close_recorder(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self;

	if (!r)
		return;
	kill_refused(r);
	if (r->shared) {
		leave(r);
		munmap(r->shared, r->bytes);
	}
	if (r->memory >= 0)
		close(r->memory);
	processes_free(&r->processes);
	for (unsigned i = 0; i < NATIVE_THREADS; i++) {
		free(r->truths[i].pending);
		native_end_free(&r->kept[i].end);
	}
	free(r->joined);
	native_truth_free(&r->truth);
	free(r->streams);
	free(r->messages);
	free(r->targets);
	free(r);
}

/* Of each thread that has not ended: what is kept, and what has not arrived yet. */
static int take_snapshot(struct ptah_recorder *recorder)
{
	struct recording *r = recorder->self;

	drain(r, 0);
	for (unsigned i = 0; i < NATIVE_THREADS; i++) {
		unsigned all = STREAMS_ALL;

		if (!r->streams->list[i].used)
			continue;
		streams_drain(r->streams, i, &all);
		write_end(r, i, streams_look(r->streams, i));
		r->kept[i].snapped = true;
	}
	return recorder->error;
}

const struct recorder_backend recorder_native = {
    .kind = PTAH_RECORDER_NATIVE,
    .check = native_check,
    .open = open_recorder,
    .start = start,
    .poll = poll_command,
    .pause = set_paused,
    .snapshot = take_snapshot,
    .stop = stop,
    .close = close_recorder,
    .timer = true,
};
