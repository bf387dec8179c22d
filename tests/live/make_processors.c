/* SPDX-License-Identifier: MIT */
/*
 * Writes a recording per CPU that was made up by chance, as `perf record -o -` writes it through a
 * pipe: threads of several processes move between CPUs, call functions, fork and execute other
 * programs, while perf takes records and trace from the CPUs' buffers, one after the other, round
 * by round. Standard error says how many instructions ran, and how many calls there were.
 *
 *	make_processors SEED OPTIONS [CODE] >FILE
 *
 * CODE: a file that has the code at offset 4096 and names its functions; without one, code that is
 * in no file. OPTIONS:
 *	t  the events of tasks, which stop when the task leaves (perf record COMMAND); otherwise
 *	   those of CPUs (perf record -a)
 *	v  with few time stamps, so that it is not always known who ran
 *	s  one process only
 *	f  few rounds: the seeds of fuzz/fuzz_live.c
 */
#include "perfdata/build.h"

#define CPUS	3
#define THREADS 8
/* main, and its loop: call rax; jmp rcx. f, nops and ret, is 0x100 times the nops after main. */
#define BASE 0x12345000
#define LOOP (BASE + 16)

static const uint8_t main_code[] = {0xff, 0xd0, 0xff, 0xe1};
static const uint8_t f_code[] = {0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xc3};

struct task {
	int32_t pid, tid;
	unsigned nops; /* in f of its process; the same in all its threads */
	bool in_f;
	int cpu;
};

struct processor {
	struct perfdata_buffer records; /* not read yet */
	struct ptah_generator g;
	uint8_t trace[1 << 20];
	size_t published, read; /* of the trace: known to perf, and read */
	int task;		/* index; -1: idle */
	bool begun;
};

struct world {
	unsigned seed;
	bool tasks, vague, single;
	uint64_t tsc, instructions, calls;
	const char *code;
	struct task list[THREADS];
	int count;
	struct processor cpus[CPUS];
	struct perfdata_buffer out, scratch;
};

static unsigned random_below(struct world *w, unsigned n)
{
	w->seed = w->seed * 1103515245 + 12345;
	return (w->seed >> 16) % n;
}

/* Records have a time each; the clock of build.h counts four ticks. */
static uint64_t tick(struct world *w)
{
	return w->tsc += 4 + 4 * random_below(w, 16);
}

/* A record is made in `scratch`, and appended to what the CPU's ring holds. */
static void log_record(struct world *w, struct processor *p)
{
	perfdata_put(&p->records, w->scratch.bytes + BUILD_DATA, w->scratch.size - BUILD_DATA);
	w->scratch.size = BUILD_DATA;
}

/* The trace up to here becomes visible. */
static void publish(struct world *w, unsigned cpu)
{
	struct processor *p = &w->cpus[cpu];
	const size_t n = (size_t)(p->g.out - p->trace);
	struct perfdata_buffer body = {0};

	if (n == p->published)
		return;
	perfdata_put64(&body, p->published);
	perfdata_put64(&body, n - p->published);
	perfdata_put64(&body, 0);
	build_record_on(&w->scratch, cpu, PERFDATA_AUX, 0, &body, 0, 0, build_time(tick(w)));
	perfdata_buffer_free(&body);
	log_record(w, p);
	p->published = n;
}

static void log_switch(struct world *w, unsigned cpu, bool out, int task, int other)
{
	const struct task none = {.pid = 0, .tid = 0};
	const struct task *a = task < 0 ? &none : &w->list[task];
	const struct task *b = other < 0 ? &none : &w->list[other];

	if (w->tasks && task < 0)
		return;
	build_switch_on(&w->scratch, cpu, out, a->pid, a->tid, w->tasks ? -1 : b->pid,
			w->tasks ? -1 : b->tid, tick(w));
	log_record(w, &w->cpus[cpu]);
}

/* Another task, or none, comes to the CPU. */
static void switch_to(struct world *w, unsigned cpu, int task)
{
	struct processor *p = &w->cpus[cpu];
	const int before = p->task;

	if (task == before)
		return;
	log_switch(w, cpu, true, before, task);
	if (w->tasks && before >= 0)
		publish(w, cpu);
	if (before >= 0)
		w->list[before].cpu = -1;
	log_switch(w, cpu, false, task, before);
	p->task = task;
	if (task >= 0)
		w->list[task].cpu = (int)cpu;
}

static uint64_t f_of(const struct task *t)
{
	return BASE + 0x100 * t->nops;
}

static uint64_t ip_of(const struct task *t)
{
	return t->in_f ? f_of(t) : LOOP;
}

/* The CPU's task runs for a while in user code. */
static void run(struct world *w, unsigned cpu)
{
	struct processor *p = &w->cpus[cpu];
	struct task *t = &w->list[p->task];
	struct ptah_generator *g = &p->g;
	const unsigned n = 1 + random_below(w, 12);

	if (!p->begun || random_below(w, w->vague ? 12 : 3) == 0)
		generator_psb(g, tick(w), 20, false, 0);
	p->begun = true;
	generator_enable(g, ip_of(t));
	if (!w->vague || random_below(w, 3) == 0)
		generator_tsc(g, tick(w));
	for (unsigned i = 0; i < n; i++) {
		if (t->in_f) {
			generator_tip(g, LOOP + 2);
			generator_tip(g, LOOP);
			w->instructions += t->nops + 2;
		} else {
			generator_tip(g, f_of(t));
			w->instructions++;
			w->calls++;
		}
		t->in_f = !t->in_f;
	}
	if (!w->vague && random_below(w, 2))
		generator_tsc(g, tick(w));
	generator_async_disable(g, ip_of(t));
}

/* The code of a process, at a time; 0: from the beginning. */
static void log_code(struct world *w, struct perfdata_buffer *to, const struct task *t,
		     uint64_t tsc)
{
	if (w->code) {
		build_mmap2(&w->scratch, t->pid, BASE, 4096, 4096, w->code, tsc, NULL);
	} else {
		build_mmap2(&w->scratch, t->pid, BASE, 4096, 0, "//anon", tsc, NULL);
		build_code(&w->scratch, t->pid, tsc, LOOP, main_code, sizeof(main_code));
		build_code(&w->scratch, t->pid, tsc, f_of(t), f_code + 6 - t->nops, t->nops + 1);
	}
	perfdata_put(to, w->scratch.bytes + BUILD_DATA, w->scratch.size - BUILD_DATA);
	w->scratch.size = BUILD_DATA;
}

/* The CPU's task forks: a process, or a thread. */
static void fork_task(struct world *w, unsigned cpu)
{
	const struct task *parent = &w->list[w->cpus[cpu].task];
	struct task *child = &w->list[w->count];
	const bool thread = w->single || random_below(w, 2);

	if (w->count == THREADS)
		return;
	w->count++;
	/* It begins in the loop: at the first instruction of a function there would be one call
	 * more than call instructions. */
	*child = (struct task){.pid = thread ? parent->pid : 20 + w->count,
			       .tid = 20 + w->count,
			       .nops = parent->nops,
			       .cpu = -1};
	build_fork(&w->scratch, child->pid, child->tid, parent->pid, parent->tid, tick(w));
	log_record(w, &w->cpus[cpu]);
}

static unsigned threads_of(const struct world *w, int32_t pid)
{
	unsigned n = 0;

	for (int i = 0; i < w->count; i++)
		n += w->list[i].pid == pid;
	return n;
}

/* The CPU's task executes another program. */
static void execute(struct world *w, unsigned cpu)
{
	struct processor *p = &w->cpus[cpu];
	struct task *t = &w->list[p->task];

	if (threads_of(w, t->pid) > 1)
		return;
	build_comm(&w->scratch, t->pid, t->tid, true, "other", tick(w));
	log_record(w, p);
	t->nops = 1 + random_below(w, 6);
	t->in_f = false;
	log_code(w, &p->records, t, tick(w));
	tick(w);
}

static void step(struct world *w)
{
	const unsigned cpu = random_below(w, CPUS);
	struct processor *p = &w->cpus[cpu];
	const unsigned what = random_below(w, 40);
	int task;

	tick(w);
	if (what < 10 || p->task < 0) {
		task = (int)random_below(w, (unsigned)w->count + 1) - 1;
		if (task < 0 || w->list[task].cpu < 0)
			switch_to(w, cpu, task);
	} else if (what == 10) {
		fork_task(w, cpu);
	} else if (what == 11) {
		execute(w, cpu);
	} else if ((size_t)(p->g.out - p->trace) < sizeof(p->trace) - 4096) {
		run(w, cpu);
	}
	if (!w->tasks && (size_t)(p->g.out - p->trace) - p->published > 700 &&
	    random_below(w, 4) == 0)
		publish(w, cpu);
}

/* perf takes what the CPUs' buffers hold; meanwhile all run on. */
static void round_of_perf(struct world *w)
{
	for (unsigned cpu = 0; cpu < CPUS; cpu++) {
		struct processor *p = &w->cpus[cpu];
		const size_t n = p->published - p->read;

		perfdata_put(&w->out, p->records.bytes, p->records.size);
		p->records.size = 0;
		for (unsigned i = random_below(w, 4); i; i--)
			step(w);
		if (n)
			build_auxtrace(&w->out, cpu, 7, (int32_t)cpu, p->read, p->trace + p->read,
				       n, (n + 7) & ~(size_t)7);
		p->read += n;
		for (unsigned i = random_below(w, 8); i; i--)
			step(w);
	}
	perfdata_put32(&w->out, PERFDATA_FINISHED_ROUND);
	perfdata_put16(&w->out, 0);
	perfdata_put16(&w->out, 8);
}

static void begin(struct world *w)
{
	build_begin(&w->scratch);
	build_with_cpus(&w->scratch);
	build_begin(&w->out);
	build_with_cpus(&w->out);
	build_info(&w->out, PERFDATA_AUXTRACE_INTEL_PT, false);
	store_le64(w->out.bytes + BUILD_INFO + 8 * PERFDATA_INFO_PER_CPU, 1);
	w->tsc = 1000;
	for (w->count = 0; w->count < (w->single ? 1 : 2); w->count++) {
		struct task *t = &w->list[w->count];

		*t = (struct task){.pid = 7 + w->count, .tid = 7 + w->count, .cpu = -1};
		t->nops = 2 + (unsigned)w->count;
		build_comm(&w->out, t->pid, t->tid, false, "task", 0);
		log_code(w, &w->out, t, 0);
	}
	for (unsigned cpu = 0; cpu < CPUS; cpu++) {
		struct processor *p = &w->cpus[cpu];

		generator_init(&p->g, p->trace, false, false);
		p->task = -1;
		if (w->tasks)
			continue;
		build_record_on(&w->scratch, cpu, PERFDATA_ITRACE_START, 0,
				&(struct perfdata_buffer){.bytes = (uint8_t[8]){0}, .size = 8}, 0,
				0, build_time(tick(w)));
		log_record(w, p);
	}
}

static void end(struct world *w)
{
	for (unsigned cpu = 0; cpu < CPUS; cpu++) {
		switch_to(w, cpu, -1);
		publish(w, cpu);
	}
	for (unsigned cpu = 0; cpu < CPUS; cpu++) {
		struct processor *p = &w->cpus[cpu];
		const size_t n = p->published - p->read;

		perfdata_put(&w->out, p->records.bytes, p->records.size);
		if (n)
			build_auxtrace(&w->out, cpu, 7, (int32_t)cpu, p->read, p->trace + p->read,
				       n, (n + 7) & ~(size_t)7);
	}
}

/* In the layout of a pipe: the attribute is a record. */
static void write_pipe(const struct world *w)
{
	struct perfdata_buffer head = {0};

	perfdata_put(&head, "PERFILE2\20\0\0\0\0\0\0\0\100\0\0\0\0\0\200\0", 24);
	perfdata_put(&head, w->out.bytes + 112, 120);
	fwrite(head.bytes, head.size, 1, stdout);
	fwrite(w->out.bytes + BUILD_DATA, w->out.size - BUILD_DATA, 1, stdout);
	perfdata_buffer_free(&head);
}

int main(int argc, char **argv)
{
	struct world *w = calloc(1, sizeof(*w));

	if (!w || argc < 3)
		return 2;
	w->code = argc > 3 ? argv[3] : NULL;
	w->seed = (unsigned)atoi(argv[1]);
	w->tasks = strchr(argv[2], 't');
	w->vague = strchr(argv[2], 'v');
	w->single = strchr(argv[2], 's');
	begin(w);
	for (unsigned i = strchr(argv[2], 'f') ? 195 : 0; i < 200; i++)
		round_of_perf(w);
	end(w);
	write_pipe(w);
	fprintf(stderr, "%llu instructions\n%llu calls\n", (unsigned long long)w->instructions,
		(unsigned long long)w->calls);
	for (unsigned cpu = 0; cpu < CPUS; cpu++)
		perfdata_buffer_free(&w->cpus[cpu].records);
	perfdata_buffer_free(&w->out);
	perfdata_buffer_free(&w->scratch);
	free(w);
	return 0;
}
