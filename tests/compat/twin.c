/* SPDX-License-Identifier: MIT */
/*
 * twin [options] inputs...: one client against two libraries.
 *
 *	--judged LIB, --judge LIB     the libraries
 *	--clients A,B                 of these alone (a name's beginning is enough); see --list
 *	--mutate SEED:N               N damaged versions of each input; SEED:N:I the one of number I
 *	--pages PREFIX                the memory of the .pt files that follow
 *	--code FILE:ADDRESS           the same: one file at an address
 *	--timed                       with packets about time put in (with --pages)
 *	--blind                       does not compare get_offset(): for what else differs
 *	--print                       every call, and what the judged library answers
 *	--keep N                      go on after N differences
 *	--limit N                     calls per client; else many per byte (code may loop for ever)
 *	--show RULE                   the calls that this rule excuses, in words
 *	--save FILE                   the trace that the first difference was found in
 *
 * Inputs: golden cases (.txt), raw traces (.pt), recordings. Exits with 1 when
 * there is a difference that no rule explains.
 */
#include "twin.h"

#include "bench/bench.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef TWIN_JUDGED
#define TWIN_JUDGED "libipt.so.2"
#endif
#ifndef TWIN_JUDGE
#define TWIN_JUDGE "libipt.so.2"
#endif

struct options {
	const char *judged, *judge, *clients, *pages, *code, *save, *show;
	uint64_t seed, mutants, only, limit;
	unsigned keep;
	bool timed, blind, print;
};

struct totals {
	struct twin_api api[2];
	struct twin_result *result;
	unsigned inputs;
};

void twin_die(const char *what, const char *why)
{
	fflush(stdout);
	fprintf(stderr, "twin: %s: %s\n", what, why);
	exit(2);
}

/* Called by the benchmark's trace loader on an error. */
void bench_die(const char *what, const char *why)
{
	twin_die(what, why);
}

static void load(struct twin_api *api, const char *path)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void *symbol;

	if (!handle)
		twin_die(path, dlerror());
	api->path = path;
#define TWIN_RESOLVE(name)                                                                         \
	symbol = dlsym(handle, #name);                                                             \
	memcpy(&api->name, &symbol, sizeof(symbol));
	TWIN_FUNCTIONS(TWIN_RESOLVE)
#undef TWIN_RESOLVE
	if (!api->pt_library_version)
		twin_die(path, "is no libipt");
}

static bool is_wanted(const char *list, const char *name)
{
	if (!list)
		return true;
	for (;;) {
		size_t n = strcspn(list, ",");

		if (n && !strncmp(list, name, n))
			return true;
		if (!list[n])
			return false;
		list += n + 1;
	}
}

static void save(const struct options *o, const struct twin_input *input)
{
	FILE *f = fopen(o->save, "wb");

	if (!f || fwrite(input->bytes, 1, input->size, f) != input->size || fclose(f))
		twin_die(o->save, "cannot be written");
}

static bool is_there(const struct totals *t, const struct twin_client *client)
{
	return !client->since_2_1 || (t->api[0].pt_evt_next && t->api[1].pt_evt_next &&
				      t->api[0].pt_blk_resync && t->api[1].pt_blk_resync);
}

static void name_mutant(char *name, size_t room, const struct options *o,
			const struct twin_input *input, uint64_t mutant)
{
	if (o->mutants)
		snprintf(name, room, "%.1000s --mutate %" PRIu64 ":%" PRIu64 ":%" PRIu64,
			 input->name, o->seed, o->mutants, mutant);
	else
		snprintf(name, room, "%s", input->name);
}

static bool is_asked_for(const struct totals *t, const struct options *o,
			 const struct twin_input *input, const struct twin_client *client)
{
	return is_wanted(o->clients, client->name) && is_there(t, client) &&
	       (input->nsections || client->decoder < TWIN_INSN);
}

/* Limits the processor time, so that a library that hangs is noticed on a busy machine, too. */
static void limit_time(size_t size)
{
	const struct itimerval limit = {
	    .it_value = {.tv_sec = (time_t)(size >> 11), .tv_usec = 300000}};

	setitimer(ITIMER_PROF, &limit, NULL);
}

static void run_client(struct totals *t, const struct options *o, const struct twin_input *input,
		       const struct twin_client *client, uint64_t seed)
{
	const struct twin_run run = {
	    .api = {&t->api[0], &t->api[1]},
	    .input = input,
	    .client = client,
	    .result = t->result,
	    .seed = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15),
	    .limit = o->limit ? o->limit : 2000 + 64 * (uint64_t)input->size,
	    .keep = o->keep,
	    .blind = o->blind,
	    .print = o->print,
	    .show = o->show,
	};
	const unsigned before = t->result->found;

	limit_time(input->size);
	t->result->begin = t->result->calls;
	t->result->runs++;
	twin_run(&run);
	if (t->result->found != before && o->save && !t->result->saved) {
		save(o, input);
		t->result->saved = true;
	}
}

/* Runs the rest of an input, from result->next on: mutant by mutant, client by client. */
static void run_rest(struct totals *t, const struct options *o, const struct twin_input *input,
		     uint64_t count)
{
	uint64_t *next = &t->result->next;
	struct twin_input mutant = {.bytes = NULL};
	uint64_t have = UINT64_MAX;

	while (*next < count) {
		const uint64_t i = *next / twin_client_count;
		const struct twin_client *client = &twin_clients[(*next)++ % twin_client_count];

		if (!is_asked_for(t, o, input, client) ||
		    (o->mutants && o->only != UINT64_MAX && i != o->only))
			continue;
		if (o->mutants && have != i) {
			free(mutant.bytes);
			twin_mutate(&mutant, input, o->seed + i);
			name_mutant(mutant.name, sizeof(mutant.name), o, input, i);
			have = i;
		}
		run_client(t, o, o->mutants ? &mutant : input, client,
			   o->mutants ? o->seed + i : 0);
	}
	free(mutant.bytes);
}

/* Reports what the child was doing when it ended. */
static void report_end(struct totals *t, const struct options *o, const struct twin_input *input,
		       int status)
{
	struct twin_result *result = t->result;
	const uint64_t at = result->next - 1;
	char name[sizeof(input->name)];

	name_mutant(name, sizeof(name), o, input, at / twin_client_count);
	printf("%s: %s: the %s %s in call %" PRIu64 "\n", name,
	       twin_clients[at % twin_client_count].name, result->side ? "judge" : "judged library",
	       WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "exits",
	       result->calls - result->begin + 1);
	if (result->side)
		result->crashes++;
	else
		result->found++;
}

/*
 * Runs an input in a process of its own, because either library may crash or hang. The rest of the
 * input then runs in another one.
 */
static void run_input(struct totals *t, const struct options *o, struct twin_input *input)
{
	const uint64_t count = (o->mutants ? o->mutants : 1) * twin_client_count;
	int status;
	pid_t child;

	t->inputs++;
	input->newer = twin_is_2_1(&t->api[0]) && twin_is_2_1(&t->api[1]);
	t->result->next = 0;
	while (t->result->next < count && input->size) {
		fflush(stdout);
		child = fork();
		if (child < 0)
			twin_die("fork", strerror(errno));
		if (!child) {
			run_rest(t, o, input, count);
			fflush(stdout);
			_exit(0);
		}
		while (waitpid(child, &status, 0) < 0)
			if (errno != EINTR)
				twin_die("waitpid", strerror(errno));
		if (WIFEXITED(status) && !WEXITSTATUS(status))
			break;
		report_end(t, o, input, status);
	}
	twin_input_free(input);
}

static bool ends_in(const char *path, const char *end)
{
	size_t n = strlen(path), m = strlen(end);

	return n >= m && !strcmp(path + n - m, end);
}

static void load_raw(const struct options *o, struct twin_input *input, const char *path)
{
	char *file = strdup(o->code), *colon = file ? strrchr(file, ':') : NULL;

	if (!colon)
		twin_die(o->code, "not FILE:ADDRESS");
	*colon = '\0';
	twin_load_raw(input, path, file, strtoull(colon + 1, NULL, 16));
	free(file);
}

static void run_path(struct totals *t, const struct options *o, const char *path)
{
	struct twin_input input;

	if (ends_in(path, ".txt"))
		twin_load_case(&input, path);
	else if (!ends_in(path, ".pt"))
		twin_load_session(&input, path);
	else if (o->code)
		load_raw(o, &input, path);
	else
		twin_load_pt(&input, path, o->pages, o->timed);
	run_input(t, o, &input);
}

static const char *value_of(char **argv, int argc, int *i)
{
	if (*i + 1 >= argc)
		twin_die(argv[*i], "wants a value");
	return argv[++*i];
}

static void parse_mutate(struct options *o, const char *text)
{
	char *end;

	o->seed = strtoull(text, &end, 0);
	if (*end != ':')
		twin_die(text, "not SEED:N");
	o->mutants = strtoull(end + 1, &end, 0);
	o->only = *end == ':' ? strtoull(end + 1, &end, 0) : UINT64_MAX;
	if (*end)
		twin_die(text, "not SEED:N");
}

/* Parses one argument. False: it is no option. */
static bool parse(struct options *o, char **argv, int argc, int *i)
{
	const char *name = argv[*i];

	if (!strcmp(name, "--judged"))
		o->judged = value_of(argv, argc, i);
	else if (!strcmp(name, "--judge"))
		o->judge = value_of(argv, argc, i);
	else if (!strcmp(name, "--clients"))
		o->clients = value_of(argv, argc, i);
	else if (!strcmp(name, "--pages"))
		o->pages = value_of(argv, argc, i);
	else if (!strcmp(name, "--code"))
		o->code = value_of(argv, argc, i);
	else if (!strcmp(name, "--show"))
		o->show = value_of(argv, argc, i);
	else if (!strcmp(name, "--save"))
		o->save = value_of(argv, argc, i);
	else if (!strcmp(name, "--mutate"))
		parse_mutate(o, value_of(argv, argc, i));
	else if (!strcmp(name, "--keep"))
		o->keep = (unsigned)strtoul(value_of(argv, argc, i), NULL, 0);
	else if (!strcmp(name, "--limit"))
		o->limit = strtoull(value_of(argv, argc, i), NULL, 0);
	else if (!strcmp(name, "--blind"))
		o->blind = true;
	else if (!strcmp(name, "--print"))
		o->print = true;
	else if (!strcmp(name, "--timed"))
		o->timed = true;
	else if (!strncmp(name, "--", 2))
		twin_die(name, "no such option");
	else
		return false;
	return true;
}

static int list(void)
{
	for (unsigned i = 0; i < twin_client_count; i++)
		puts(twin_clients[i].name);
	return 0;
}

int main(int argc, char **argv)
{
	struct options o = {.judged = TWIN_JUDGED, .judge = TWIN_JUDGE};
	struct totals t = {.inputs = 0};

	if (argc > 1 && !strcmp(argv[1], "--list"))
		return list();
	t.result = mmap(NULL, sizeof(*t.result), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	if (t.result == MAP_FAILED || twin_rule_total() > TWIN_RULES)
		twin_die("twin", "no room for its result");
	/*
	 * Memory that a library reads before writing it has a fixed pattern, so that one run does
	 * not influence another.
	 */
	mallopt(M_PERTURB, 0xff);
	for (int i = 1; i < argc; i++) {
		if (parse(&o, argv, argc, &i))
			continue;
		if (!t.api[0].path) {
			load(&t.api[0], o.judged);
			load(&t.api[1], o.judge);
		}
		run_path(&t, &o, argv[i]);
	}
	for (unsigned i = 0; i < twin_rule_total(); i++)
		if (t.result->by_rule[i])
			printf("rule %s: %" PRIu64 " times\n", twin_rule_at(i)->name,
			       t.result->by_rule[i]);
	if (t.result->joined)
		printf("rule block-cut: %" PRIu64 " times\n", t.result->joined);
	if (t.result->ticks)
		printf("rule estimated-tick: %" PRIu64 " times\n", t.result->ticks);
	if (t.result->astray)
		printf("rule position-before-error: %" PRIu64 " times\n", t.result->astray);
	if (t.result->crashes)
		printf("the judge crashed %" PRIu64 " times\n", t.result->crashes);
	printf("%u inputs, %" PRIu64 " runs, %" PRIu64 " calls, %u differences\n", t.inputs,
	       t.result->runs, t.result->calls, t.result->found);
	return t.result->found || !t.inputs;
}
