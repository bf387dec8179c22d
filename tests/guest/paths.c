/* SPDX-License-Identifier: MIT */
/*
 * paths perf|ptah [CPU]: reads a decoded recording, and prints how many instructions each processor
 * and each thread ran, with the hash of its path (docs/path-hash.md), and how often decoding
 * failed. What it prints of two decoders of the same recording can be compared with diff.
 *
 * perf: what perf script --itrace=i0nse -F tid,cpu,ip,insnlen prints.
 * ptah: what ptah script --blocks --format=tsv prints.
 * CPU is the processor of all of it, if given; -1 stands for threads wherever they run.
 */
#include "base/path_hash.h"
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	ALL = -2,
	EACH_LINE = -2
};

struct path {
	long cpu;
	long tid; /* ALL: the processor's; -1: of an unknown thread */
	uint64_t instructions;
	struct path_hash hash;
};

static struct path *paths;
static size_t path_count;
static uint64_t failures;

static struct path *path_of(long cpu, long tid)
{
	for (size_t i = 0; i < path_count; i++)
		if (paths[i].cpu == cpu && paths[i].tid == tid)
			return &paths[i];
	paths = realloc(paths, (path_count + 1) * sizeof(*paths));
	if (!paths)
		abort();
	paths[path_count] = (struct path){.cpu = cpu, .tid = tid};
	return &paths[path_count++];
}

static void add(long cpu, long tid, uint64_t start, uint64_t end, uint64_t instructions)
{
	/* The path of the last thread is most often that of the next instruction. */
	static size_t all, one;
	if (all >= path_count || paths[all].cpu != cpu || paths[all].tid != ALL)
		all = (size_t)(path_of(cpu, ALL) - paths);
	paths[all].instructions += instructions;
	path_hash_add(&paths[all].hash, start, end);
	if (start >> 63)
		return;
	if (one >= path_count || paths[one].cpu != cpu || paths[one].tid != tid)
		one = (size_t)(path_of(cpu, tid) - paths);
	paths[one].instructions += instructions;
	path_hash_add(&paths[one].hash, start, end);
}

/* "  102 [000]  ffffffff8107e916 ilen: 2"; without "[000]" where a thread is not bound to a CPU. */
static void read_perf(char *line, long only)
{
	char *at = line;
	long tid = strtol(at, &at, 10), cpu = -1;
	at += strspn(at, " ");
	if (*at == '[') {
		cpu = strtol(at + 1, &at, 10);
		at++;
	}
	if (only != EACH_LINE)
		cpu = only;
	uint64_t ip = strtoull(at, &at, 16), bytes = 0;
	if ((at = strstr(at, "ilen:")) != NULL)
		bytes = strtoull(at + 5, NULL, 10);
	if (bytes)
		add(cpu, tid, ip, ip + bytes, 1);
	else
		failures++;
}

/* "102	0xffffffff8107e916	0xffffffff8107e91d	2	jump" */
static void read_ptah(char *line, long cpu)
{
	char *at = line;
	long tid = strtol(at, &at, 10);
	uint64_t start = strtoull(at, &at, 16), end = strtoull(at, &at, 16);
	uint64_t instructions = strtoull(at, &at, 10);
	if (instructions)
		add(cpu, tid, start, end, instructions);
	else
		failures++;
}

static int by_place(const void *a, const void *b)
{
	const struct path *x = a, *y = b;
	if (x->cpu != y->cpu)
		return x->cpu < y->cpu ? -1 : 1;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

int main(int argc, char **argv)
{
	static char line[4096];
	bool perf = argc > 1 && !strcmp(argv[1], "perf");
	long cpu = argc > 2 ? strtol(argv[2], NULL, 10) : EACH_LINE;
	if (!perf && (argc < 2 || strcmp(argv[1], "ptah") != 0))
		return 2;
	while (fgets(line, sizeof(line), stdin)) {
		if (line[strspn(line, " \n")] == '\0' || !strncmp(line, "tid", 3))
			continue;
		if (strstr(line, "trace error") || line[0] == '#')
			failures++;
		else if (perf)
			read_perf(line, cpu);
		else
			read_ptah(line, cpu);
	}
	if (path_count)
		qsort(paths, path_count, sizeof(*paths), by_place);
	for (size_t i = 0; i < path_count; i++) {
		const struct path *p = &paths[i];
		printf("cpu %ld ", p->cpu);
		if (p->tid != ALL)
			printf("thread %ld ", p->tid);
		printf("instructions %" PRIu64 " path %016" PRIx64 "\n", p->instructions,
		       path_hash_value(&p->hash));
	}
	printf("errors %" PRIu64 "\n", failures);
	return 0;
}
