/* SPDX-License-Identifier: MIT */
/*
 * A program that attacks the recorder native: hostile_native [threaded] [nobody] HOW [NUMBER
 * [SEED]]. It works, attacks through the memory that it shares with the recorder and through system
 * calls, works on, and exits with 7. threaded: it has threads. nobody: it becomes that user first,
 * without execve.
 */
#include "record/call_entry.h"
#include "record/native/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FAILED 1 /* the attack could not be carried out */

static uint64_t seed = 1;
static struct native_header *shared;
static uint64_t shared_bytes;
static long number; /* argument of the attack */
static volatile unsigned sink;

static uint64_t next_random(void)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return seed >> 16;
}

static uint64_t wild(void)
{
	static const uint64_t edges[] = {0,	     1,		4096,	    INT32_MAX,
					 UINT32_MAX, INT64_MAX, UINT64_MAX, UINT64_C(1) << 47};
	const uint64_t random = next_random();

	return random % 3 ? edges[random / 3 % 8] : next_random();
}

__attribute__((noinline)) static unsigned step(unsigned n)
{
	return n & 1 ? 3 * n + 1 : n / 2;
}

__attribute__((noinline)) static void work(unsigned times)
{
	for (unsigned i = 1; i <= times; i++)
		for (unsigned n = i; n > 1; n = step(n))
			sink++;
}

static void milliseconds(unsigned n)
{
	const struct timespec pause = {n / 1000, (long)(n % 1000) * 1000000};

	nanosleep(&pause, NULL);
}

static void find_memory(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512];

	while (f && fgets(line, sizeof(line), f)) {
		unsigned long start, end;

		if (!strstr(line, "memfd:ptah") || sscanf(line, "%lx-%lx", &start, &end) != 2)
			continue;
		if (!shared)
			shared = (struct native_header *)start;
		shared_bytes = end - (uint64_t)shared;
	}
	if (f)
		fclose(f);
	if (!shared)
		exit(FAILED);
}

/* A descriptor of the memory, out of the recorder's. */
static int open_memory(void)
{
	for (int fd = 0; fd < 256; fd++) {
		char path[64], target[128];
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/%d/fd/%d", shared->recorder_pid, fd);
		n = readlink(path, target, sizeof(target) - 1);
		target[n < 0 ? 0 : n] = '\0';
		if (!strncmp(target, "/memfd:ptah", 11))
			return open(path, O_RDWR);
	}
	exit(FAILED);
}

#define SLOTS (NATIVE_ROOMY + 16) /* of both sizes: each that is written to gets pages */

static struct native_thread *thread_at(unsigned slot)
{
	return (void *)((char *)shared + native_slot_at(slot));
}

static void *work_on(void *unused)
{
	for (;;) {
		work(20);
		milliseconds(1);
	}
	return unused;
}

/* What comes before the attack. Returns how many arguments say so. */
static int prepare(char **argv)
{
	pthread_t thread;
	int n = 1;

	if (argv[n] && !strcmp(argv[n], "threaded")) {
		pthread_create(&thread, NULL, work_on, NULL);
		pthread_create(&thread, NULL, work_on, NULL);
		n++;
	}
	if (argv[n] && !strcmp(argv[n], "nobody")) {
		if (setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
			exit(FAILED);
		n++;
	}
	return n - 1;
}

/* ---- Messages ------------------------------------------------------------- */

/* Without the lock, so that the runtime's own may be overwritten. */
static void send_message(struct native_message m, const void *payload)
{
	uint8_t *ring = (uint8_t *)shared + NATIVE_HEADER_BYTES;
	const uint64_t total = sizeof(m) + ((m.bytes + 7u) & ~UINT64_C(7));
	uint64_t head = __atomic_load_n(&shared->message_head, __ATOMIC_SEQ_CST);

	for (unsigned i = 0; i < 1000; i++) {
		if (head + total - __atomic_load_n(&shared->message_tail, __ATOMIC_SEQ_CST) <=
		    NATIVE_MESSAGES)
			break;
		milliseconds(1);
		head = __atomic_load_n(&shared->message_head, __ATOMIC_SEQ_CST);
	}
	m.pid = m.pid ? m.pid : getpid();
	m.tid = m.tid ? m.tid : getpid();
	m.tsc = m.tsc ? m.tsc : __builtin_ia32_rdtsc();
	for (uint64_t i = 0; i < sizeof(m); i++)
		ring[(head + i) % NATIVE_MESSAGES] = ((const uint8_t *)&m)[i];
	for (uint64_t i = 0; i < m.bytes; i++)
		ring[(head + sizeof(m) + i) % NATIVE_MESSAGES] = ((const uint8_t *)payload)[i];
	__atomic_store_n(&shared->message_head, head + total, __ATOMIC_SEQ_CST);
}

static char payload[NATIVE_MESSAGE_MAX];

static void send_plain(uint32_t type, uint32_t bytes)
{
	send_message((struct native_message){.type = type, .bytes = bytes}, payload);
}

/* All types but those that are attacks of their own. */
static void messages(void)
{
	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (char)(i % 70 ? 'a' + i % 26 : next_random());
	payload[0] = '/';
	for (long i = 0; i < number; i++) {
		const struct native_message m = {
		    .type = (uint32_t)(next_random() % (NATIVE_MESSAGE_USER + 2)),
		    .bytes = (uint32_t)(next_random() % 4 ? next_random() % 64
							  : next_random() % NATIVE_MESSAGE_MAX),
		    .pid = next_random() % 3 ? 0 : (int32_t)wild(),
		    .tid = next_random() % 3 ? 0 : (int32_t)wild(),
		    .tsc = wild(),
		    .address = wild(),
		    .size = wild(),
		    .value = next_random() % 2 ? next_random() % 200 : wild(),
		};

		if (m.type != NATIVE_MESSAGE_REFUSED && m.type != NATIVE_MESSAGE_EXEC)
			send_message(m, payload);
	}
}

static void notes(void)
{
	strcpy(payload, "\033[31mred\033]0;title\007\r\nnote: false");
	send_plain(NATIVE_MESSAGE_NOTE, (uint32_t)strlen(payload));
}

static void names(void)
{
	memset(payload, 'A', sizeof(payload));
	for (long i = 0; i < number; i++)
		send_plain(NATIVE_MESSAGE_COMM, sizeof(payload));
}

static void forks(void)
{
	for (long i = 0; i < number; i++)
		send_message((struct native_message){.type = NATIVE_MESSAGE_FORK,
						     .pid = 100000000 + (int32_t)i,
						     .tid = 1,
						     .value = (uint64_t)getpid()},
			     NULL);
}

static void code(void)
{
	for (long i = 0; i < number; i++)
		send_message((struct native_message){.type = NATIVE_MESSAGE_CODE,
						     .bytes = NATIVE_MESSAGE_MAX - (uint32_t)i,
						     .address = 0x100000 * (uint64_t)(i + 1)},
			     payload);
}

static void maps(void)
{
	for (int i = 0; i < 300; i++)
		mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, open("/proc/self/exe", 0), 0);
	for (long i = 0; i < number; i++)
		send_message(
		    (struct native_message){.type = NATIVE_MESSAGE_MAP, .size = UINT64_MAX}, NULL);
}

static void exits(void)
{
	struct {
		struct native_exit exit;
		struct native_block block;
		char code[8];
	} p = {{1}, {0x1000, 0x1001}, {(char)0xc3}};

	for (long i = 0; i < number; i++)
		send_message((struct native_message){.type = NATIVE_MESSAGE_EXITS,
						     .bytes = sizeof(p),
						     .value = wild()},
			     &p);
}

static void threads(void)
{
	for (unsigned slot = 1; slot < SLOTS; slot++)
		send_message((struct native_message){.type = NATIVE_MESSAGE_THREAD,
						     .tid = 100000000 + (int32_t)slot,
						     .value = slot,
						     .address = wild(),
						     .size = wild()},
			     NULL);
}

/* number: a process that is not recorded. */
static void foreign(void)
{
	static const uint32_t types[] = {NATIVE_MESSAGE_EXEC, NATIVE_MESSAGE_THREAD,
					 NATIVE_MESSAGE_FORK, NATIVE_MESSAGE_USER,
					 NATIVE_MESSAGE_EXEC_FAILED};
	const int32_t pid = (int32_t)number;

	for (unsigned i = 0; i < 2 * sizeof(types) / sizeof(*types); i++) {
		const bool whole = i % 2; /* the thread alone, or the process, too */

		send_message((struct native_message){.type = types[i / 2],
						     .pid = whole ? pid : getpid(),
						     .tid = pid,
						     .value = 77,
						     .address = (uintptr_t)payload},
			     NULL);
		milliseconds(50);
	}
}

/* A child that is recorded, but has not asked for this. */
static void daemon_execs(void)
{
	const pid_t child = fork();

	if (!child) {
		setsid();
		milliseconds(1000);
		_exit(0);
	}
	send_message((struct native_message){.type = NATIVE_MESSAGE_EXEC, .tid = child}, NULL);
	milliseconds(100);
}

static int32_t vforker;

static void *call_vfork(void *unused)
{
	const struct timespec pause = {1, 0};

	__atomic_store_n(&vforker, (int32_t)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
	milliseconds(100);
	if (syscall(SYS_vfork) == 0) {
		syscall(SYS_nanosleep, &pause, NULL);
		syscall(SYS_exit, 0);
	}
	return unused;
}

/* A thread that cannot be stopped now. */
static void vfork_fails(void)
{
	struct native_message m = {.type = NATIVE_MESSAGE_EXEC};
	pthread_t thread;

	pthread_create(&thread, NULL, call_vfork, NULL);
	while (!(m.tid = __atomic_load_n(&vforker, __ATOMIC_SEQ_CST)))
		milliseconds(1);
	send_message(m, NULL);
	milliseconds(300);
	m.type = NATIVE_MESSAGE_EXEC_FAILED;
	send_message(m, NULL);
	pthread_join(thread, NULL);
}

static void fatal(void)
{
	send_message((struct native_message){.type = NATIVE_MESSAGE_FATAL,
					     .pid = 1,
					     .tid = 1,
					     .value = SIGSEGV,
					     .size = 1,
					     .address = 0x1234},
		     NULL);
	send_message((struct native_message){.type = NATIVE_MESSAGE_REAPED,
					     .address = (uint64_t)getppid(),
					     .value = SIGKILL},
		     NULL);
}

static void refuse(void)
{
	strcpy(payload, "\033[31m oh no");
	send_plain(NATIVE_MESSAGE_REFUSED, 12);
}

/* ---- Memory --------------------------------------------------------------- */

static void cut(void)
{
	if (!ftruncate(open_memory(), 0))
		exit(FAILED);
}

static void grow(void)
{
	if (!ftruncate(open_memory(), INT64_C(1) << 40))
		exit(FAILED);
}

static void seal(void)
{
	if (!fcntl(open_memory(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE))
		exit(FAILED);
}

static void punch(void)
{
	if (fallocate(open_memory(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
		      (off_t)shared_bytes))
		exit(FAILED);
}

static void zero(void)
{
	memset(shared, 0, NATIVE_HEADER_BYTES + NATIVE_MESSAGES);
}

static void ones(void)
{
	memset(shared, 0xff, NATIVE_HEADER_BYTES + NATIVE_MESSAGES);
}

/* number: of which byte of the header on. */
static void scribble(void)
{
	for (unsigned round = 0; round < 30; round++) {
		for (unsigned i = 0; i < 64; i++) {
			const uint64_t slot = native_slot_at(next_random() % SLOTS);
			const uint64_t at =
			    next_random() % 4
				? next_random() % 512 +
				      (next_random() % 2 ? 0
							 : offsetof(struct native_header, paused))
				: slot + next_random() % NATIVE_THREAD_BYTES;
			const uint64_t word = wild();

			memcpy((char *)shared + (at & ~UINT64_C(7)), &word, sizeof(word));
		}
		work(3);
	}
}

static void slots(void)
{
	for (long round = 0; round < number; round++) {
		for (unsigned slot = 0; slot < SLOTS; slot++) {
			struct native_thread *t = thread_at(slot);
			char *chunk = (char *)t + native_chunk_at(NATIVE_LOG_TRACE,
								  next_random() % NATIVE_CHUNKS);

			t->state = next_random() % 4;
			t->paused = next_random() % 4;
			t->settled = next_random();
			t->current[0] = next_random() % 3;
			for (unsigned i = 0; i < NATIVE_CHUNKS; i++)
				t->chunks[NATIVE_LOG_TRACE][i] = (struct native_chunk){
				    next_random() % 3, (uint32_t)next_random() % 200000};
			for (unsigned i = 0; i < 64; i++)
				chunk[next_random() % NATIVE_CHUNK] = (char)next_random();
		}
		work(5);
	}
}

/* Entries that make sense and others, of its own thread and of those that are not there. */
static void calls(void)
{
	for (long round = 0; round < number; round++) {
		struct native_thread *t = thread_at(round % 3);
		char *log = (char *)t + NATIVE_CALLS_AT;

		for (unsigned at = 0; at + 72 <= NATIVE_CALL_BYTES; at += 72) {
			struct call_entry e = {
			    .tsc = wild(),
			    .ip = wild(),
			    .number = (uint32_t)wild(),
			    .data = next_random() % 8 ? 0 : (uint16_t)next_random(),
			    .kind = next_random() % 16 ? CALL_ENTRY_CALL : (uint8_t)next_random(),
			    .argument = next_random() % 16 ? 0 : (uint8_t)next_random()};

			memcpy(log + at, &e, sizeof(e));
		}
		t->calls_head +=
		    next_random() % 64 ? next_random() % NATIVE_CALL_BYTES & ~7u : wild();
		if (!(next_random() % 16))
			t->calls_tail = wild();
		work(5);
	}
}

static void full(void)
{
	for (long round = 0; round < number; round++)
		for (unsigned slot = 0; slot < SLOTS; slot++)
			for (unsigned i = 0; i < NATIVE_CHUNKS; i++)
				thread_at(slot)->chunks[NATIVE_LOG_TRACE][i] =
				    (struct native_chunk){CHUNK_FULL, NATIVE_CHUNK};
}

static void psbs(void)
{
	struct native_thread *t = thread_at(0);

	for (unsigned i = 0; i < NATIVE_CHUNKS; i++) {
		uint8_t *chunk = (uint8_t *)t + native_chunk_at(NATIVE_LOG_TRACE, i);

		for (unsigned k = 0; k < NATIVE_CHUNK; k += 2)
			memcpy(chunk + k, "\x02\x82", 2);
		t->chunks[NATIVE_LOG_TRACE][i] = (struct native_chunk){CHUNK_FULL, NATIVE_CHUNK};
	}
}

/* The first word of each of these: nobody would go on if anybody believed it. */
static void header(void)
{
	shared->chunks = 0;
	shared->chunk_bytes = 0x7ffff000;
	shared->flags = UINT32_MAX;
	shared->filter_count = INT32_MAX;
	shared->recorder_pid = 1;
	shared->answered = 0;
	shared->paused = 1;
}

static void lock(void)
{
	shared->message_lock = 1;
	for (unsigned i = 0; i < 2; i++) {
		void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		void (*function)(void);

		if (at == MAP_FAILED)
			exit(FAILED);
		memset(at, 0xc3, 1);
		memcpy(&function, &at, sizeof(function));
		function();
	}
}

static void back(void)
{
	shared->message_head = shared->message_tail = 0;
	number = 100;
	messages();
}

/* The runtime's own code and data. */
static void runtime(void)
{
	const int fd = open("/proc/self/mem", O_RDWR);
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512], junk[4096];

	for (size_t i = 0; i < sizeof(junk); i++)
		junk[i] = (char)next_random();
	while (f && fgets(line, sizeof(line), f)) {
		unsigned long start, end;
		char mode[8];

		if (sscanf(line, "%lx-%lx %7s", &start, &end, mode) == 3 && mode[2] == 'x' &&
		    start >= 0x550000000000 && start < 0x555500000000 &&
		    pwrite(fd, junk, sizeof(junk), (off_t)start + 4096) < 0)
			exit(FAILED);
	}
}

/* ---- Processes ------------------------------------------------------------ */

static void kill_recorder(void)
{
	kill(shared->recorder_pid, SIGKILL);
}

static void stop_recorder(void)
{
	kill(shared->recorder_pid, SIGSTOP);
	work(20000);
	kill(shared->recorder_pid, SIGCONT);
}

static void trace_me(void)
{
	ptrace(PTRACE_TRACEME, 0, 0, 0);
}

static void trace_recorder(void)
{
	ptrace(PTRACE_SEIZE, shared->recorder_pid, 0, 0);
}

/* Threads, children and execve, until a signal comes. */
static _Noreturn void live(void)
{
	pthread_t thread;

	for (unsigned i = next_random() % 3; i; i--)
		pthread_create(&thread, NULL, work_on, NULL);
	for (;;) {
		const pid_t child = fork();

		if (!child && next_random() % 2)
			execl("/bin/true", "true", (char *)NULL);
		if (!child)
			_exit(0);
		work((unsigned)next_random() % 100);
		waitpid(child, NULL, 0);
		milliseconds(1);
	}
}

/* number children, each ended at a random moment. */
static void moments(void)
{
	static const int signals[] = {SIGKILL, SIGTERM, SIGINT, SIGABRT, SIGHUP, SIGALRM};

	for (long i = 0; i < number; i++) {
		const pid_t child = fork();

		next_random();
		if (!child)
			live();
		usleep((unsigned)(next_random() % 30000));
		kill(child, SIGSTOP);
		usleep((unsigned)(next_random() % 1000));
		kill(child, SIGCONT);
		usleep((unsigned)(next_random() % 3000));
		kill(child, signals[next_random() % 6]);
		waitpid(child, NULL, 0);
	}
}

static const struct {
	const char *name;
	void (*attack)(void);
	long number; /* that the attack has if none is given */
} attacks[] = {
    {"messages", messages, 2000},
    {"notes", notes, 0},
    {"names", names, 30},
    {"forks", forks, 1000},
    {"code", code, 30},
    {"maps", maps, 30},
    {"exits", exits, 1000},
    {"threads", threads, 0},
    {"foreign", foreign, 1},
    {"daemon", daemon_execs, 0},
    {"vfork", vfork_fails, 0},
    {"fatal", fatal, 0},
    {"refuse", refuse, 0},
    {"truncate", cut, 0},
    {"grow", grow, 0},
    {"seal", seal, 0},
    {"punch", punch, 0},
    {"zero", zero, 0},
    {"ones", ones, 0},
    {"random", scribble, 0},
    {"slots", slots, 10},
    {"full", full, 200},
    {"calls", calls, 300},
    {"psbs", psbs, 0},
    {"header", header, 0},
    {"lock", lock, 0},
    {"back", back, 0},
    {"runtime", runtime, 0},
    {"kill", kill_recorder, 0},
    {"stop", stop_recorder, 0},
    {"trace-me", trace_me, 0},
    {"trace-recorder", trace_recorder, 0},
    {"abort", abort, 0},
    {"moments", moments, 20},
};

int main(int argc, char **argv)
{
	const int before = prepare(argv);
	const char *how;

	argc -= before;
	argv += before;
	how = argc > 1 ? argv[1] : "";
	if (argc > 3)
		seed = strtoull(argv[3], NULL, 10);
	work(2000);
	if (!strcmp(how, "nothing"))
		return 7;
	for (size_t i = 0; i < sizeof(attacks) / sizeof(*attacks); i++) {
		if (strcmp(how, attacks[i].name))
			continue;
		find_memory();
		printf("attack\n"); /* it is too late to be recorded by another recorder */
		fflush(stdout);
		number = argc > 2 ? atol(argv[2]) : attacks[i].number;
		attacks[i].attack();
		work(2000);
		return 7;
	}
	return 2;
}
