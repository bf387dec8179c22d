/* SPDX-License-Identifier: MIT */
/*
 * A program that attacks its recorder: hostile HOW [SEED]. It works, attacks through everything
 * that it can reach, works on, and exits with 7.
 */
#include "perfdata/writer.h"
#include "record/qemu/shared.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ATTACKED 1 /* the attack could not be carried out */

static uint64_t seed;
static size_t shared_size;
static int memory = -1;
static pid_t recorder;
static volatile unsigned sink;

static uint64_t next_random(void)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return seed >> 16;
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

/* Opens the recorder's memory through the recorder's descriptors. */
static int open_memory(void)
{
	for (int fd = 0; fd < 64; fd++) {
		char path[64], target[128];
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/%d/fd/%d", recorder, fd);
		n = readlink(path, target, sizeof(target) - 1);
		if (n < 0)
			continue;
		target[n] = '\0';
		if (!strncmp(target, "/memfd:ptah-record", 18))
			return open(path, O_RDWR);
	}
	return -1;
}

/* Not so when the recorder has died. */
static bool is_recorder(void)
{
	char path[64], name[16] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/comm", recorder);
	f = fopen(path, "r");
	if (!f)
		return false;
	if (!fgets(name, sizeof(name), f))
		name[0] = '\0';
	fclose(f);
	return !strcmp(name, "ptah\n") && recorder == getppid();
}

static struct shared_header *map_memory(void)
{
	struct stat st;
	void *at;

	memory = open_memory();
	if (memory < 0 || fstat(memory, &st))
		exit(ATTACKED);
	shared_size = (size_t)st.st_size;
	at = mmap(NULL, shared_size, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	if (at == MAP_FAILED)
		exit(ATTACKED);
	return at;
}

/* The first slot in use, which is that of this thread. */
static struct shared_thread *own_slot(struct shared_header *h)
{
	for (unsigned i = 0; i < SHARED_THREADS; i++)
		if (shared_slot(h, h->buffer, i)->pid == getpid())
			return shared_slot(h, h->buffer, i);
	exit(ATTACKED);
}

/* Messages */

static void send(struct shared_header *h, const struct shared_message *m, const void *payload)
{
	uint64_t head = atomic_load(&h->message_head), at = head % SHARED_MESSAGES;
	uint64_t total = (sizeof(*m) + m->bytes + 7) & ~UINT64_C(7);

	while (head + total - atomic_load(&h->message_tail) > SHARED_MESSAGES)
		milliseconds(1);
	if (at + total > SHARED_MESSAGES)
		return;
	memcpy(shared_messages(h) + at, m, sizeof(*m));
	memcpy(shared_messages(h) + at + sizeof(*m), payload, m->bytes);
	atomic_store(&h->message_head, head + total);
}

static uint64_t wild(void)
{
	static const uint64_t edges[] = {0,	     1,		4096,	    INT32_MAX,
					 UINT32_MAX, INT64_MAX, UINT64_MAX, UINT64_C(1) << 47};
	const uint64_t random = next_random();

	return random % 3 ? edges[random / 3 % 8] : next_random();
}

/* Messages of all types with wild values. */
static void wild_messages(struct shared_header *h, unsigned count)
{
	static char payload[SHARED_MESSAGE_MAX];

	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (char)(i % 70 ? 'a' + i % 26 : next_random());
	payload[0] = '/';
	for (unsigned i = 0; i < count; i++) {
		struct shared_message m = {
		    .type = (uint32_t)(next_random() % (MESSAGE_FATAL + 2)),
		    .bytes = (uint32_t)(next_random() % 4 ? next_random() % 64
							  : next_random() % SHARED_MESSAGE_MAX),
		    .pid = next_random() % 3 ? getpid() : (int32_t)wild(),
		    .tid = next_random() % 3 ? getpid() : (int32_t)wild(),
		    .tsc = wild(),
		    .address = wild(),
		    .size = wild(),
		    .value = next_random() % 2 ? next_random() % SHARED_THREADS : wild(),
		};

		send(h, &m, payload);
	}
}

/* Threads that are their own parents, in processes that change: perf removes such a thread twice. */
static void own_parents(struct shared_header *h)
{
	for (unsigned i = 0; i < 1000; i++) {
		struct shared_message m = {
		    .type = MESSAGE_FORK,
		    .pid = 1 + 256 * (int32_t)(next_random() % 12),
		    .value = 1 + 256 * (next_random() % 12),
		};

		m.address = i % 2 ? (uint64_t)m.pid : 1 + 256 * (next_random() % 12);
		send(h, &m, "");
	}
}

/* A path longer than a record of perf.data takes; a pipe in place of a mapped file. */
static void odd_paths(struct shared_header *h)
{
	static struct {
		struct perfdata_mapping mapping;
		char path[4200];
	} map = {.mapping.size = 4096};
	struct shared_message m = {.type = MESSAGE_MAP, .pid = getpid(), .tid = getpid()};

	memset(map.path, 'x', sizeof(map.path) - 1);
	map.path[0] = '/';
	m.bytes = sizeof(map);
	send(h, &m, &map);
	if (mkfifo("pipe", 0600) || !realpath("pipe", map.path))
		exit(ATTACKED);
	send(h, &m, &map);
}

/* Scribbling */

static void scribble(uint8_t *at, size_t n, uint64_t word)
{
	for (size_t i = 0; i + 8 <= n; i += 8) {
		uint64_t value = word == 1 ? next_random() << 20 ^ next_random() : word;

		memcpy(at + i, &value, 8);
	}
}

static void wild_positions(struct shared_header *h)
{
	for (unsigned i = 0; i < 64; i++) {
		struct shared_thread *t = shared_slot(h, h->buffer, (unsigned)next_random() % 4);

		atomic_store(&t->published, wild());
		atomic_store(&t->tail, wild());
		t->live.m.bytes = wild();
		t->checkpoint.m.bytes = wild();
		atomic_store(&h->message_tail, wild());
		milliseconds(1);
	}
}

/* What this thread has recorded so far disappears, truth and trace alike. */
static void forget(struct shared_header *h)
{
	struct shared_thread *t = own_slot(h);

	memset(shared_buffer(t), 0, h->buffer);
	memset(shared_staging(t), 0, SIMULATED_STAGING);
	memset((void *)&t->live, 0, sizeof(t->live));
	memset((void *)&t->checkpoint, 0, sizeof(t->checkpoint));
	kill(getpid(), SIGKILL);
}

/* The program's own address space: what QEMU has mapped, which /proc/self/maps does not show. */
static void scribble_own(void)
{
	char path[64], line[512];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/maps", getpid());
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f)) {
		unsigned long start, end;

		if (strstr(line, "memfd:ptah-record") &&
		    sscanf(line, "%lx-%lx", &start, &end) == 2) {
			scribble((uint8_t *)start, end - start, 1);
			fclose(f);
			return;
		}
	}
	exit(ATTACKED);
}

/* Processes */

static void limit_recorder(void)
{
	const struct rlimit limit = {200000, 200000};

	if (prlimit(recorder, RLIMIT_FSIZE, &limit, NULL))
		exit(ATTACKED);
}

static void fork_and_die(struct shared_header *h)
{
	for (unsigned i = 0; i < 20; i++) {
		pid_t child = fork();

		if (!child) {
			work(2000);
			wild_messages(h, 20);
			kill(getpid(), next_random() % 2 ? SIGKILL : SIGABRT);
		}
		if (next_random() % 2)
			kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
}

static void flood(struct shared_header *h)
{
	struct shared_thread *t = own_slot(h);

	for (int i = 0; i < 10; i++) {
		wild_messages(h, 1000);
		atomic_store(&t->published, atomic_load(&t->tail) + h->buffer);
	}
}

/* Runs mapped code whose file's name is that of a pipe by now, which nobody writes to. */
static void pipe_for_file(void)
{
	static uint8_t code[4096];
	int fd = open("code", O_RDWR | O_CREAT | O_TRUNC, 0700);
	void (*function)(void);
	void *at;

	memset(code, 0xc3, sizeof(code)); /* ret */
	if (fd < 0 || write(fd, code, sizeof(code)) != sizeof(code))
		exit(ATTACKED);
	at = mmap(NULL, sizeof(code), PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	if (at == MAP_FAILED || unlink("code") || mkfifo("code", 0600))
		exit(ATTACKED);
	memcpy(&function, &at, sizeof(function));
	function();
}

static void attack(const char *how)
{
	struct shared_header *h = map_memory();

	if (!strcmp(how, "truncate")) {
		if (!ftruncate(memory, 0))
			return;
	} else if (!strcmp(how, "grow")) {
		if (!ftruncate(memory, INT64_C(1) << 40))
			return;
	} else if (!strcmp(how, "seal")) {
		if (!fcntl(memory, F_ADD_SEALS, F_SEAL_FUTURE_WRITE))
			return;
	} else if (!strcmp(how, "punch")) {
		if (!fallocate(memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
			       (off_t)shared_size))
			return;
	} else if (!strcmp(how, "close")) {
		for (int fd = 3; fd < 1024; fd++)
			close(fd);
	} else if (!strcmp(how, "zero")) {
		scribble((uint8_t *)h, shared_size, 0);
	} else if (!strcmp(how, "ones")) {
		scribble((uint8_t *)h, shared_size, UINT64_MAX);
	} else if (!strcmp(how, "random")) {
		scribble((uint8_t *)h, shared_size, 1);
	} else if (!strcmp(how, "header")) {
		scribble((uint8_t *)h, SHARED_HEADER_BYTES, 1);
	} else if (!strcmp(how, "ring")) {
		scribble(shared_messages(h), SHARED_MESSAGES, 1);
		atomic_fetch_add(&h->message_head, 65536);
	} else if (!strcmp(how, "threads")) {
		scribble((uint8_t *)own_slot(h), SHARED_THREAD_BYTES, 1);
	} else if (!strcmp(how, "positions")) {
		wild_positions(h);
	} else if (!strcmp(how, "back")) {
		atomic_store(&h->message_head, 0);
		atomic_store(&h->message_tail, 0);
		wild_messages(h, 100);
	} else if (!strcmp(how, "messages")) {
		own_parents(h);
		wild_messages(h, 2000);
	} else if (!strcmp(how, "paths")) {
		odd_paths(h);
	} else if (!strcmp(how, "flood")) {
		flood(h);
	} else if (!strcmp(how, "forget")) {
		forget(h);
	} else if (!strcmp(how, "own")) {
		scribble_own();
	} else if (!strcmp(how, "limit")) {
		limit_recorder();
	} else if (!strcmp(how, "forks")) {
		fork_and_die(h);
	} else if (!strcmp(how, "kill")) {
		kill(recorder, SIGKILL);
	} else {
		exit(2);
	}
}

int main(int argc, char **argv)
{
	seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
	if (argc < 2)
		return 2;
	recorder = getppid();
	if (!strcmp(argv[1], "fifo")) {
		pipe_for_file();
		return 7;
	}
	work(3000);
	if (!strcmp(argv[1], "nothing"))
		return 7;
	milliseconds(300); /* the recorder has written what there is */
	if (!is_recorder())
		return ATTACKED;
	attack(argv[1]);
	work(3000);
	return 7;
}
