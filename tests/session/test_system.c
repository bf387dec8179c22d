/* SPDX-License-Identifier: MIT */
/*
 * Recordings of a simulated system: some processors, on which threads of several programs run, wait
 * and move, begin programs, and switch at small distances; a processor is idle for long. What each
 * thread ran is known, and the decode must find it.
 */
#include "perfdata/build.h"

#include <ptah/session.h>

#define BASE  0x412345
#define PAGE  UINT64_C(4096)
#define CPUS  3
#define STEPS 400
#define RATIO BUILD_RATIO /* of the core's frequency and of the TSC's to the bus's */

/* How the trace is made. */
enum kind {
	/* A command and its children: tracing begins with a PSB when a thread arrives. */
	KIND_TASK,
	/* A whole machine, with MTC packets, also while packets are off. */
	KIND_MTC,
	/* The same with CYC packets, of a core that runs at the TSC's frequency. */
	KIND_CYC,
	KIND_MAX
};

struct task {
	int32_t pid, tid;
	unsigned code; /* the program: its loop has 2 + code instructions */
	int cpu;       /* where it runs; -1: nowhere */
	bool exists;
};

/* Tasks 1 and 2 are threads of one process. 3 is a process that task 0 starts. */
static const struct task first_tasks[] = {
    {7, 7, 1, -1, true}, {8, 8, 2, -1, true}, {8, 9, 2, -1, false}, {10, 10, 1, -1, false}};

#define TASKS ARRAY_SIZE(first_tasks)

struct processor {
	struct perfdata_buffer side; /* its ring of records */
	struct ptah_generator g;
	uint8_t trace[1 << 17];
	struct task *runs; /* NULL: idle */
	uint64_t asleep;   /* until then nothing happens */
	uint64_t mtc;	   /* time of the last MTC, or of the TSC that came later */
	uint64_t cyc;	   /* time up to which CYC packets have counted */
	uint64_t insns[16];
};

/* The file with the code. */
static char code_path[PATH_MAX];

struct machine {
	enum kind kind;
	unsigned seed, programs;
	uint64_t now; /* TSC */
	struct task tasks[TASKS];
	struct processor cpus[CPUS];
};

static unsigned random_below(struct machine *m, unsigned n)
{
	m->seed = m->seed * 1103515245 + 12345;
	return (m->seed >> 8) % n;
}

static void pass(struct machine *m, unsigned most)
{
	m->now += 4 * (1 + random_below(m, most));
}

/* Time */

#define MTC_FREQ  3 /* an MTC for each 8 ticks of the crystal, which are 16 of the TSC */
#define MTC_TICKS UINT64_C(16)

static void put_byte(struct ptah_generator *g, unsigned byte)
{
	*g->out++ = (uint8_t)byte;
}

/* CYC: five bits in the first byte, seven in the others; a bit says that another byte follows. */
static void count_cycles(struct machine *m, struct processor *cpu, uint64_t until)
{
	uint64_t n = until - cpu->cyc;

	if (m->kind != KIND_CYC || !n)
		return;
	put_byte(&cpu->g, (unsigned)((n & 0x1f) << 3 | (n > 0x1f ? 4 : 0) | 3));
	for (n >>= 5; n; n >>= 7)
		put_byte(&cpu->g, (unsigned)((n & 0x7f) << 1 | (n > 0x7f)));
	cpu->cyc = until;
}

/* The MTCs that are due. */
static void tick(struct machine *m, struct processor *cpu)
{
	if (m->kind == KIND_TASK)
		return;
	generator_flush_tnt(&cpu->g);
	for (uint64_t t = (cpu->mtc / MTC_TICKS + 1) * MTC_TICKS; t <= m->now; t += MTC_TICKS) {
		count_cycles(m, cpu, t);
		put_byte(&cpu->g, 0x59);
		put_byte(&cpu->g, (unsigned)(t / MTC_TICKS) & 0xff);
		cpu->mtc = t;
	}
}

/* PSB+ with TSC, TMA and CBR. */
static void stamp(struct machine *m, struct processor *cpu, bool enabled)
{
	struct ptah_generator *g = &cpu->g;

	count_cycles(m, cpu, m->now);
	generator_psb_begin(g);
	generator_tsc(g, m->now);
	if (m->kind != KIND_TASK) {
		const uint64_t crystal = m->now / 2;

		store_le64(g->out, 0x7302 | (crystal & 0xffff) << 16 | (m->now & 1) << 40);
		g->out += 7;
	}
	generator_cbr(g, RATIO);
	generator_psb_end(g, enabled, BASE);
	cpu->mtc = m->now;
}

/* Running */

static void run(struct machine *m, struct processor *cpu)
{
	struct task *t = cpu->runs;

	count_cycles(m, cpu, m->now);
	generator_enable(&cpu->g, BASE);
	for (unsigned n = 1 + random_below(m, 4); n--;) {
		for (unsigned k = random_below(m, 4); k--;) {
			count_cycles(m, cpu, m->now);
			generator_tip(&cpu->g, BASE);
			cpu->insns[t->tid] += 2 + t->code;
		}
		pass(m, 6);
		tick(m, cpu);
		if (m->kind != KIND_TASK && !random_below(m, 30))
			stamp(m, cpu, true);
	}
	count_cycles(m, cpu, m->now);
	generator_async_disable(&cpu->g, BASE);
	pass(m, 3);
	tick(m, cpu);
}

static uint32_t number(const struct machine *m, const struct processor *cpu)
{
	return (uint32_t)(cpu - m->cpus);
}

/* The record of a switch: SWITCH of a traced thread, or SWITCH_CPU_WIDE with the other thread. */
static void record_switch(struct machine *m, struct processor *cpu, bool out,
			  const struct task *task, const struct task *other)
{
	const bool wide = m->kind != KIND_TASK;

	if (!wide && !task)
		return;
	build_switch_on(&cpu->side, number(m, cpu), out, task ? task->pid : 0, task ? task->tid : 0,
			other ? other->pid : 0,
			!wide	? -1
			: other ? other->tid
				: 0,
			m->now);
}

/* What the kernel does before and after a switch takes longer than the period of MTC packets. */
static void wait_in_kernel(struct machine *m, struct processor *cpu)
{
	pass(m, 3);
	if (m->kind != KIND_TASK && random_below(m, 8))
		m->now += 4 * MTC_TICKS;
	tick(m, cpu);
}

/* `to` (NULL: idle) follows what runs. */
static void switch_to(struct machine *m, struct processor *cpu, struct task *to)
{
	struct task *from = cpu->runs;

	wait_in_kernel(m, cpu);
	record_switch(m, cpu, true, from, to);
	pass(m, random_below(m, 4) ? 1 : 8); /* often at a small distance */
	tick(m, cpu);
	if (m->kind == KIND_TASK && to) {
		stamp(m, cpu, false);
		pass(m, 2);
	}
	record_switch(m, cpu, false, to, from);
	wait_in_kernel(m, cpu);
	if (from)
		from->cpu = -1;
	if (to)
		to->cpu = (int)number(m, cpu);
	cpu->runs = to;
}

/* Records of the thread that runs */

static void record_comm(struct machine *m, struct processor *cpu, const struct task *t, bool exec,
			const char *name)
{
	struct perfdata_buffer body = {0};

	perfdata_put32(&body, (uint32_t)t->pid);
	perfdata_put32(&body, (uint32_t)t->tid);
	perfdata_put_string(&body, name, 8);
	build_record_on(&cpu->side, number(m, cpu), PERFDATA_COMM,
			exec ? PERFDATA_MISC_COMM_EXEC : 0, &body, t->pid, t->tid,
			build_time(m->now));
	perfdata_buffer_free(&body);
}

static void record_map(struct machine *m, struct processor *cpu, const struct task *t)
{
	build_mmap2(&cpu->side, t->pid, BASE & ~(PAGE - 1), PAGE, t->code * PAGE, code_path, m->now,
		    NULL);
}

/* The thread executes another program, which takes a while. */
static void execute(struct machine *m, struct processor *cpu)
{
	struct task *t = cpu->runs;

	pass(m, 20);
	tick(m, cpu);
	t->code = 1 + random_below(m, m->programs);
	record_comm(m, cpu, t, true, "program");
	pass(m, 5);
	record_map(m, cpu, t);
	m->now += 8 * MTC_TICKS; /* long enough for a time stamp to be certain */
	tick(m, cpu);
	if (m->kind == KIND_TASK)
		stamp(m, cpu, false);
}

/* The thread begins another one, which may run elsewhere at once. */
static void start(struct machine *m, struct processor *cpu, struct task *child)
{
	const struct task *t = cpu->runs;

	if (child->exists || t->tid != (child->pid == 8 ? 8 : 7))
		return;
	child->exists = true;
	child->code = t->code;
	/* The time of the record is that of the parent's CPU. */
	build_fork(&cpu->side, child->pid, child->tid, t->pid, t->tid, m->now);
	pass(m, 5);
	tick(m, cpu);
}

static struct task *free_task(struct machine *m)
{
	for (unsigned i = 0; i < 4; i++) {
		struct task *t = &m->tasks[random_below(m, TASKS)];

		if (t->exists && t->cpu < 0)
			return t;
	}
	return NULL;
}

/* With threads in one process only one may be alive when it executes a program. */
static bool may_execute(const struct machine *m, const struct task *t)
{
	return t->pid != 8 || (t->tid == 8 && !m->tasks[2].exists);
}

static void step(struct machine *m)
{
	struct processor *cpu = &m->cpus[random_below(m, CPUS)];
	struct task *next;

	pass(m, 4);
	if (m->now < cpu->asleep)
		return;
	tick(m, cpu);
	if (!cpu->runs) {
		next = free_task(m);
		if (next)
			switch_to(m, cpu, next);
		return;
	}
	run(m, cpu);
	switch (random_below(m, 8)) {
	case 0:
	case 1:
	case 2:
		switch_to(m, cpu, free_task(m));
		break;
	case 3:
		switch_to(m, cpu, NULL);
		/* Deep sleep: not even MTCs, and a time stamp at its end. */
		if (!random_below(m, 3)) {
			cpu->asleep = m->now + 40000;
			cpu->mtc = cpu->cyc = cpu->asleep;
		}
		break;
	case 4:
		if (m->programs > 1 && may_execute(m, cpu->runs))
			execute(m, cpu);
		break;
	case 5:
		start(m, cpu, &m->tasks[2 + random_below(m, 2)]);
		break;
	default:
		break;
	}
}

/* After a deep sleep the time is in a PSB+. */
static void wake(struct machine *m)
{
	for (unsigned i = 0; i < CPUS; i++) {
		struct processor *cpu = &m->cpus[i];

		if (!cpu->asleep || m->now < cpu->asleep)
			continue;
		cpu->asleep = 0;
		stamp(m, cpu, false);
	}
}

/* The recording */

static void put_info(struct perfdata_buffer *b, enum kind kind)
{
	build_info(b, PERFDATA_AUXTRACE_INTEL_PT, false);
	build_timing(b, (kind != KIND_TASK ? PERFDATA_PT_MTC | MTC_FREQ << 14 : 0) |
			    (kind == KIND_CYC ? PERFDATA_PT_CYC : 0));
	store_le64(b->bytes + BUILD_INFO + 8 * PERFDATA_INFO_PER_CPU, 1);
}

/* Each program's loop is nops and jmp rax, on a page of its own. */
static void write_code(void)
{
	uint8_t page[PAGE];
	FILE *f = fopen("code", "wb");

	assert_non_null(f);
	assert_non_null(realpath("code", code_path));
	for (unsigned code = 0; code < 5; code++) {
		memset(page, 0xcc, sizeof(page));
		memset(page + (BASE & (PAGE - 1)), 0x90, 1 + code);
		memcpy(page + (BASE & (PAGE - 1)) + 1 + code, "\xff\xe0", 2);
		assert_int_equal(fwrite(page, sizeof(page), 1, f), 1);
	}
	assert_int_equal(fclose(f), 0);
}

/* `alone`: only the process that has threads runs, and no other program. */
static struct machine *simulate(unsigned seed, enum kind kind, bool alone)
{
	struct machine *m = calloc(1, sizeof(*m));

	assert_non_null(m);
	m->seed = seed;
	m->kind = kind;
	m->programs = alone ? 1 : 4;
	m->now = 4000;
	memcpy(m->tasks, first_tasks, sizeof(first_tasks));
	m->tasks[0].exists = !alone;
	for (unsigned i = 0; i < CPUS; i++) {
		generator_init(&m->cpus[i].g, m->cpus[i].trace, false, false);
		build_begin(&m->cpus[i].side);
		build_with_cpus(&m->cpus[i].side);
		stamp(m, &m->cpus[i], false);
	}
	for (unsigned i = 0; i < STEPS; i++) {
		wake(m);
		step(m);
	}
	m->now += 100000;
	for (unsigned i = 0; i < CPUS; i++)
		stamp(m, &m->cpus[i], false);
	return m;
}

/*
 * Writes what existed before, then the records of each CPU, one CPU after the other, so that the
 * records are not in the order of time.
 */
static void write_recording(struct machine *m, const char *path, bool alone)
{
	struct perfdata_buffer file = {0};
	FILE *f;

	build_begin(&file);
	build_with_cpus(&file);
	put_info(&file, m->kind);
	for (unsigned i = alone; i < 2; i++) {
		const struct task *t = &first_tasks[i];

		build_comm(&file, t->pid, t->tid, false, "first", 0);
		build_mmap2(&file, t->pid, BASE & ~(PAGE - 1), PAGE, t->code * PAGE, code_path, 0,
			    NULL);
	}
	for (unsigned i = CPUS; i--;)
		perfdata_put(&file, m->cpus[i].side.bytes + BUILD_DATA,
			     m->cpus[i].side.size - BUILD_DATA);
	for (unsigned i = 0; i < CPUS; i++) {
		const size_t n = (size_t)(m->cpus[i].g.out - m->cpus[i].trace);

		assert_true(n < sizeof(m->cpus[i].trace));
		build_auxtrace(&file, i, 7, (int32_t)i, 0, m->cpus[i].trace, n,
			       (n + 7) & ~(size_t)7);
	}
	build_end(&file, PERFDATA_FEATURE_ARCH, "x86_64");
	f = fopen(path, "wb");
	assert_non_null(f);
	assert_int_equal(fwrite(file.bytes, file.size, 1, f), 1);
	assert_int_equal(fclose(f), 0);
	perfdata_buffer_free(&file);
}

static void free_machine(struct machine *m)
{
	for (unsigned i = 0; i < CPUS; i++)
		perfdata_buffer_free(&m->cpus[i].side);
	free(m);
}

/* The decode */

struct sums {
	uint64_t insns[16], unknown, nobody, errors;
};

static struct sums decode(const struct ptah_session *s, size_t index)
{
	struct sums sums = {.errors = 0};
	struct ptah_item items[16];
	struct ptah_thread thread;
	struct ptah_reader *st;
	int n;

	assert_int_equal(ptah_reader_new(s, index, NULL, &st), 0);
	while ((n = ptah_reader_read(st, items, 16)) > 0) {
		assert_int_equal(ptah_reader_thread(st, &thread), 0);
		for (int i = 0; i < n; i++) {
			if (items[i].type == PTAH_ITEM_BLOCK && thread.tid > 0)
				sums.insns[thread.tid] += items[i].ninsn;
			else if (items[i].type == PTAH_ITEM_BLOCK)
				sums.unknown += items[i].ninsn;
			else if (items[i].type == PTAH_ITEM_ERROR &&
				 items[i].status == PTAH_E_NO_THREAD)
				sums.nobody++;
			else if (items[i].type == PTAH_ITEM_ERROR && thread.tid > 0)
				sums.errors++;
		}
	}
	assert_int_equal(n, 0);
	ptah_reader_free(st);
	return sums;
}

struct score {
	uint64_t ran, found;
};

/* No instruction is another thread's. `exact`: none is missing either. */
static void check_cpu(const struct machine *m, unsigned cpu, const struct sums *sums, bool exact,
		      struct score *score)
{
	const uint64_t *insns = m->cpus[cpu].insns;

	assert_int_equal(sums->errors, 0);
	for (unsigned tid = 0; tid < 16; tid++) {
		if (exact)
			assert_int_equal(sums->insns[tid], insns[tid]);
		assert_true(sums->insns[tid] <= insns[tid]);
		score->ran += insns[tid];
		score->found += sums->insns[tid];
	}
	if (exact)
		assert_int_equal(sums->nobody + sums->unknown, 0);
}

static struct score check(unsigned seed, enum kind kind, bool alone, bool exact)
{
	struct machine *m = simulate(seed, kind, alone);
	struct ptah_message why = {""};
	struct score score = {0};
	struct ptah_session *s;

	write_recording(m, "system.data", alone);
	if (ptah_session_open("system.data", NULL, &s, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(ptah_session_streams(s), CPUS);
	for (unsigned i = 0; i < CPUS; i++) {
		const struct sums sums = decode(s, i);

		check_cpu(m, i, &sums, exact, &score);
	}
	ptah_session_close(s);
	free_machine(m);
	return score;
}

/* Each turn begins with a time stamp: every instruction is its thread's. */
static void programs_that_are_followed(void **state)
{
	(void)state;
	for (unsigned seed = 0; seed < 200; seed++)
		check(seed, KIND_TASK, false, true);
}

static void threads_of_one_program(void **state)
{
	(void)state;
	for (unsigned seed = 0; seed < 200; seed++)
		check(seed, KIND_TASK, true, true);
}

/* With MTC packets only few are in doubt, and none is wrong. */
static void whole_machine(enum kind kind)
{
	struct score sum = {0};

	for (unsigned seed = 0; seed < 200; seed++) {
		const struct score score = check(seed, kind, seed & 1, false);

		sum.ran += score.ran;
		sum.found += score.found;
	}
	print_message("%lu of %lu instructions have their thread\n", (unsigned long)sum.found,
		      (unsigned long)sum.ran);
	assert_true(sum.found > sum.ran / 10 * 9);
}

static void whole_machine_with_mtc(void **state)
{
	(void)state;
	whole_machine(KIND_MTC);
}

static void whole_machine_with_cyc(void **state)
{
	(void)state;
	whole_machine(KIND_CYC);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(programs_that_are_followed),
	    cmocka_unit_test(threads_of_one_program),
	    cmocka_unit_test(whole_machine_with_mtc),
	    cmocka_unit_test(whole_machine_with_cyc),
	};

	write_code();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
