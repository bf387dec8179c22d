/* SPDX-License-Identifier: MIT */
/*
 * The backend for FreeBSD's hwt(4), driven as hwt's user tool drives it, on simulated processors.
 * A copy of what each thread, or each processor, has output is the judge of positions, records and
 * bytes.
 */
#include "kernel.h"

#define BUFFER ((size_t)16 * PAGE_SIZE)

#define USER   PTAH_RTIT_CTL_USER
#define OS     PTAH_RTIT_CTL_OS
#define BRANCH PTAH_RTIT_CTL_BRANCH_EN

static const struct pt_cpu_config plain = {.rtit_ctl = USER | OS | BRANCH};

/* What the tool knows of one buffer, and what was output into it. */
struct tool {
	struct hwt_vm *vm;
	int id;
	const uint8_t *map;
	uint64_t seen; /* bytes that were read along, by the records */
	uint64_t records;
	struct stream stream;
};

static struct ptah_model_faults faults;

static void boot(void)
{
	unsigned cpu;

	kernel_boot("skylake");
	for (cpu = 0; cpu < CPUS; cpu++)
		rig_silence(&rig, cpu, &faults);
	assert_int_equal(kernel_load(), 0);
}

static void halt(void)
{
	assert_int_equal(kernel_unload(), 0);
	kernel_halt();
}

static void open_tool(struct tool *t, struct hwt_vm *vm, int id)
{
	*t = (struct tool){.vm = vm, .id = id, .map = kernel_user_map(vm)};
}

static void close_tool(struct tool *t)
{
	stream_free(&t->stream);
}

static void check_bytes(const struct tool *t, uint64_t from, uint64_t to)
{
	size_t size = (size_t)t->vm->npages * PAGE_SIZE;
	uint64_t at;

	assert_true(to <= t->stream.n);
	for (at = from; at < to; at++) {
		if (t->map[at % size] != t->stream.bytes[at])
			fail_msg("byte %llu is another", (unsigned long long)at);
	}
}

/* Reads what the records say is new. In less than 16 pages a record does not say in which lap it is,
 * and its bytes may be gone. */
static void read_along(struct hwt_context *ctx, struct tool *tools, int n)
{
	struct hwt_record_entry entry;
	int i;

	kernel_swi_wait();
	while (hwt_record_get(ctx, &entry)) {
		if (entry.record_type != HWT_RECORD_BUFFER)
			continue;
		for (i = 0; i < n && tools[i].id != entry.buf_id; i++)
			;
		assert_true(i < n);
		uint64_t at = (uint64_t)entry.curpage * PAGE_SIZE + entry.offset;
		uint64_t more = (at + ctx->bufsize - tools[i].seen % ctx->bufsize) % ctx->bufsize;

		if (ctx->bufsize >= BUFFER)
			check_bytes(&tools[i], tools[i].seen, tools[i].seen + more);
		tools[i].seen += more;
		tools[i].records++;
	}
}

/* The position is exact, and the last lap is in the buffer. */
static void check_position(const struct tool *t)
{
	size_t size = (size_t)t->vm->npages * PAGE_SIZE;
	vm_offset_t offset;
	uint64_t data;
	int page;

	assert_int_equal(hwt_bufptr_get(t->vm, &page, &offset, &data), 0);
	assert_int_equal(data, t->stream.n);
	assert_int_equal((uint64_t)page * PAGE_SIZE + offset, t->stream.n % size);
	check_bytes(t, data < size ? 0 : data - size, data);
}

TEST(processors_are_traced)
{
	static const size_t sizes[] = {1, 2, 16, 700};
	struct tool tools[CPUS];
	struct hwt_context *ctx;
	struct hwt_cpu *cpu;
	size_t i, round;
	int n = 0;

	for (i = 0; i < 4; i++, n = 0) {
		boot();
		assert_int_equal(hwt_alloc_cpu_mode(&ctx, 3, sizes[i] * PAGE_SIZE), 0);
		assert_int_equal(hwt_set_config(ctx, &plain, sizeof(plain)), 0);
		TAILQ_FOREACH (cpu, &ctx->cpus, next) {
			open_tool(&tools[n], cpu->vm, cpu->cpu_id);
			n++;
		}
		assert_int_equal(hwt_start(ctx), 0);
		for (round = 0; round < 40; round++) {
			for (n = 0; n < CPUS; n++)
				stream_put(&tools[n].stream, &rig, (unsigned)n,
					   ctx->bufsize / 8 + (uint64_t)n * 100 + round);
			read_along(ctx, tools, CPUS);
		}
		for (n = 0; n < CPUS; n++) {
			assert_true(tools[n].records >= (sizes[i] < 16 ? 2 : 32));
			check_position(&tools[n]);
			assert_true(rig_enabled(&rig, (unsigned)n));
		}
		assert_int_equal(hwt_stop(ctx, NULL, NULL), 0);
		read_along(ctx, tools, CPUS);
		for (n = 0; n < CPUS; n++) {
			assert_false(rig_enabled(&rig, (unsigned)n));
			if (ctx->bufsize >= BUFFER)
				assert_int_equal(tools[n].seen, tools[n].stream.n);
			check_position(&tools[n]);
			close_tool(&tools[n]);
		}
		hwt_close(ctx);
		assert_string_equal(kernel_log(), "");
		halt();
	}
}

/* A process with its threads and the tool that reads them. */
struct process {
	struct proc proc;
	struct thread threads[40];
	struct tool tools[40];
	int n;
};

static void open_process(struct process *p, int n, size_t bufsize)
{
	struct thread *threads[40];
	int i;

	memset(p, 0, sizeof(*p));
	p->n = n;
	for (i = 0; i < n; i++) {
		p->threads[i] = (struct thread){.proc = &p->proc, .cpu = -1};
		threads[i] = &p->threads[i];
	}
	assert_int_equal(hwt_alloc_thread_mode(&p->proc, threads, n, bufsize), 0);
	for (i = 0; i < n; i++)
		open_tool(&p->tools[i], p->threads[i].thr->vm, p->threads[i].thr->thread_id);
}

static int add_thread(struct process *p)
{
	struct thread *td = &p->threads[p->n];
	int error;

	*td = (struct thread){.proc = &p->proc, .cpu = -1};
	kernel_no_sleep(true);
	error = hwt_thread_create(td);
	kernel_no_sleep(false);
	if (!error) {
		open_tool(&p->tools[p->n], td->thr->vm, td->thr->thread_id);
		p->n++;
	}
	return error;
}

static void run(struct process *p, int i, int cpu, uint64_t bytes)
{
	hwt_switch_in(&p->threads[i], cpu);
	stream_put(&p->tools[i].stream, &rig, (unsigned)cpu, bytes);
	hwt_switch_out(&p->threads[i]);
	assert_false(rig_enabled(&rig, (unsigned)cpu));
}

static void close_process(struct process *p)
{
	int i;

	hwt_close(p->proc.ctx);
	for (i = 0; i < p->n; i++)
		close_tool(&p->tools[i]);
	kernel_run_tasks();
}

/* Threads move between processors, are created while the process is traced, and exit. */
TEST(threads_are_traced)
{
	struct process p;
	int round, i;

	boot();
	open_process(&p, 2, BUFFER);
	assert_int_equal(hwt_set_config(p.proc.ctx, &plain, sizeof(plain)), 0);
	run(&p, 0, 0, 1000); /* not started: nothing is traced */
	assert_int_equal(p.tools[0].stream.n, 0);
	p.tools[0].stream.put = 0;
	assert_int_equal(hwt_start(p.proc.ctx), 0);
	for (round = 0; round < 60; round++) {
		if (round == 20)
			assert_int_equal(add_thread(&p), 0);
		for (i = 0; i < p.n; i++)
			run(&p, i, (round + i) % 2, BUFFER / 7 + (uint64_t)(round * 31 + i));
		read_along(p.proc.ctx, p.tools, p.n);
		for (i = 0; i < p.n; i++)
			assert_int_equal(p.tools[i].seen, p.tools[i].stream.n);
	}
	/* One exits while it is traced; what it has written can still be read. */
	hwt_switch_in(&p.threads[1], 1);
	stream_put(&p.tools[1].stream, &rig, 1, 3333);
	hwt_thread_exit(&p.threads[1]);
	assert_false(rig_enabled(&rig, 1));
	ptah_machine_set_cpu(rig.machine, 0);
	for (i = 0; i < p.n; i++) {
		assert_true(p.tools[i].records >= 60 - (i == 2 ? 20 : 0));
		check_position(&p.tools[i]);
	}
	assert_int_equal(hwt_stop(p.proc.ctx, NULL, NULL), 0);
	close_process(&p);
	assert_string_equal(kernel_log(), "");
	halt();
}

/* Two threads at the same time; the buffers' owner ends while both are on processors. */
TEST(the_owner_dies_while_threads_run)
{
	struct process p;
	int i;

	boot();
	open_process(&p, 2, BUFFER);
	hwt_set_config(p.proc.ctx, &plain, sizeof(plain));
	hwt_start(p.proc.ctx);
	for (i = 0; i < 2; i++)
		hwt_switch_in(&p.threads[i], i);
	for (i = 0; i < 2; i++)
		stream_put(&p.tools[i].stream, &rig, (unsigned)i, 3 * BUFFER + 100);
	ptah_machine_set_cpu(rig.machine, 0);
	for (i = 0; i < 2; i++)
		check_position(&p.tools[i]);
	close_process(&p);
	for (i = 0; i < 2; i++)
		assert_false(rig_enabled(&rig, (unsigned)i));
	/* Those that go are no threads of any context now. */
	p.proc.ctx = NULL;
	for (i = 0; i < 2; i++)
		hwt_switch_out(&p.threads[i]);
	/* Others come. One was on its processor before its process was started. */
	open_process(&p, 2, BUFFER);
	hwt_set_config(p.proc.ctx, &plain, sizeof(plain));
	hwt_switch_in(&p.threads[0], 0);
	hwt_start(p.proc.ctx);
	hwt_switch_out(&p.threads[0]);
	run(&p, 0, 1, 5000);
	check_position(&p.tools[0]);
	close_process(&p);
	halt();
}

static void come(void *argument)
{
	hwt_switch_in(argument, 1);
}

/* hwt changes its state late: a hook that comes in between does not start the thread again. */
TEST(a_hook_comes_while_the_context_stops)
{
	struct process p;

	boot();
	open_process(&p, 1, BUFFER);
	hwt_set_config(p.proc.ctx, &plain, sizeof(plain));
	hwt_start(p.proc.ctx);
	run(&p, 0, 0, 4000);
	hwt_stop(p.proc.ctx, come, &p.threads[0]);
	assert_false(rig_enabled(&rig, 1));
	hwt_switch_out(&p.threads[0]);
	ptah_machine_set_cpu(rig.machine, 0);
	check_position(&p.tools[0]);
	close_process(&p);
	halt();
}

/* PMIs come late, some when their thread has left: none is unknown, and no byte is missing. */
TEST(interrupts_come_late)
{
	struct ptah_model_faults late = {
	    .silent = true, .pmi_skid_bytes = 700, .pmi_skid_boundaries = 9};
	struct process p;
	unsigned round, i;

	boot();
	for (i = 0; i < CPUS; i++)
		rig_silence(&rig, i, &late);
	open_process(&p, 2, BUFFER);
	hwt_set_config(p.proc.ctx, &plain, sizeof(plain));
	hwt_start(p.proc.ctx);
	for (round = 0; round < 200; round++) {
		for (i = 0; i < 2; i++)
			run(&p, (int)i, (int)(round + i) % 2, 3000 + round * 13 % 2000);
		read_along(p.proc.ctx, p.tools, p.n);
	}
	ptah_machine_set_cpu(rig.machine, 0);
	for (i = 0; i < 2; i++)
		check_position(&p.tools[i]);
	close_process(&p);
	halt();
}

TEST(a_stopped_context_starts_again)
{
	struct pt_cpu_config user = {.rtit_ctl = USER | BRANCH};
	struct ptah_model *model;
	struct process p;
	uint64_t ctl;

	boot();
	open_process(&p, 1, BUFFER);
	hwt_set_config(p.proc.ctx, &plain, sizeof(plain));
	hwt_start(p.proc.ctx);
	run(&p, 0, 0, 4000);
	hwt_switch_in(&p.threads[0], 1);
	ptah_machine_set_cpu(rig.machine, 0);
	assert_int_equal(hwt_set_config(p.proc.ctx, &user, sizeof(user)), ENXIO);
	hwt_stop(p.proc.ctx, NULL, NULL);
	assert_false(rig_enabled(&rig, 1));
	hwt_switch_out(&p.threads[0]);
	assert_int_equal(hwt_set_config(p.proc.ctx, &user, sizeof(user)), 0);
	hwt_start(p.proc.ctx);
	hwt_switch_in(&p.threads[0], 1);
	model = ptah_machine_model(rig.machine, 1);
	assert_int_equal(ptah_model_rdmsr(model, PTAH_IA32_RTIT_CTL, &ctl), PTAH_OK);
	assert_int_equal(ctl, USER | BRANCH | PTAH_RTIT_CTL_TOPA | PTAH_RTIT_CTL_TRACE_EN);
	stream_put(&p.tools[0].stream, &rig, 1, 7000);
	hwt_switch_out(&p.threads[0]);
	ptah_machine_set_cpu(rig.machine, 0);
	check_position(&p.tools[0]);
	close_process(&p);
	halt();
}

/* Registers are as the configuration says, with two ranges and CR3. */
TEST(a_whole_configuration_is_traced)
{
	const struct pt_cpu_config config = {
	    .rtit_ctl = USER | BRANCH | PTAH_RTIT_CTL_MTC_EN | PTAH_RTIT_CTL_TSC_EN |
			PTAH_RTIT_CTL_CR3_FILTER | UINT64_C(2) << 36,
	    .cr3_filter = 0x1234000,
	    .nranges = 2,
	    .ip_ranges = {{0x400000, 0x400fff}, {0x500000, 0x500010}},
	    .mtc_freq = 3,
	};
	static const struct {
		uint32_t msr;
		uint64_t value;
	} expected[] = {
	    {PTAH_IA32_RTIT_CTL, USER | BRANCH | PTAH_RTIT_CTL_MTC_EN | PTAH_RTIT_CTL_TSC_EN |
				     PTAH_RTIT_CTL_CR3_FILTER | PTAH_RTIT_CTL_TOPA |
				     PTAH_RTIT_CTL_TRACE_EN | UINT64_C(3) << 14 |
				     UINT64_C(0x21) << 32},
	    {PTAH_IA32_RTIT_CR3_MATCH, 0x1234000},
	    {PTAH_IA32_RTIT_ADDR(0), 0x400000},
	    {PTAH_IA32_RTIT_ADDR(0) + 1, 0x400fff},
	    {PTAH_IA32_RTIT_ADDR(1), 0x500000},
	    {PTAH_IA32_RTIT_ADDR(1) + 1, 0x500010},
	};
	struct hwt_context *ctx;
	uint64_t value;
	size_t i;

	boot();
	assert_int_equal(hwt_alloc_cpu_mode(&ctx, 2, BUFFER), 0);
	hwt_set_config(ctx, &config, sizeof(config));
	hwt_start(ctx);
	for (i = 0; i < nitems(expected); i++) {
		assert_int_equal(
		    ptah_model_rdmsr(ptah_machine_model(rig.machine, 1), expected[i].msr, &value),
		    PTAH_OK);
		assert_true(value == expected[i].value);
	}
	assert_false(rig_enabled(&rig, 0));
	hwt_close(ctx);
	halt();
}

/* Requests that the seed truncates, ignores or writes to a register as they are. */
TEST(bad_configurations_are_refused_by_name)
{
	static const struct {
		struct pt_cpu_config config;
		size_t size;
		int error;
		const char *field;
	} cases[] = {
	    {{.rtit_ctl = USER | BRANCH}, 8, EINVAL, "config_size"},
	    {{.rtit_ctl = USER | BRANCH | PTAH_RTIT_CTL_PTW_EN}, 0, ENXIO, "ptwrite"},
	    {{.rtit_ctl = USER | BRANCH | PTAH_RTIT_CTL_DIS_TNT}, 0, ENXIO, "no_tnt"},
	    {{.rtit_ctl = USER | BRANCH | PTAH_RTIT_CTL_FABRIC_EN}, 0, ENXIO, "FabricEn"},
	    {{.rtit_ctl = USER | BRANCH | UINT64_C(1) << 18}, 0, EINVAL, "reserved"},
	    {{.rtit_ctl = BRANCH}, 0, EINVAL, "os"},
	    {{.rtit_ctl = USER | BRANCH, .mtc_freq = 2}, 0, EINVAL, "mtc_period"},
	    {{.rtit_ctl = USER | BRANCH, .mtc_freq = 16}, 0, EINVAL, "mtc_freq"},
	    {{.rtit_ctl = USER | BRANCH | UINT64_C(3) << 14, .mtc_freq = 6}, 0, EINVAL, "mtc_freq"},
	    {{.rtit_ctl = USER | BRANCH, .cyc_thresh = 15}, 0, EINVAL, "cyc_threshold"},
	    {{.rtit_ctl = USER | BRANCH, .psb_freq = 99}, 0, EINVAL, "psb_freq"},
	    {{.rtit_ctl = USER | BRANCH, .cr3_filter = 0x1000}, 0, EINVAL, "cr3_filter"},
	    {{.rtit_ctl = USER | BRANCH | PTAH_RTIT_CTL_CR3_FILTER, .cr3_filter = 3},
	     0,
	     EINVAL,
	     "cr3"},
	    {{.rtit_ctl = USER | BRANCH, .nranges = 3}, 0, EINVAL, "nranges"},
	    {{.rtit_ctl = USER | BRANCH, .nranges = -1}, 0, EINVAL, "nranges"},
	    {{.rtit_ctl = USER | BRANCH | UINT64_C(1) << 36, .nranges = 1},
	     0,
	     EINVAL,
	     "ranges[1].mode"},
	    {{.rtit_ctl = USER | BRANCH,
	      .nranges = 1,
	      .ip_ranges = {{0x800000000000, 0x800000000001}}},
	     0,
	     EINVAL,
	     "ranges[0].first"},
	    {{.rtit_ctl = USER | BRANCH, .nranges = 1, .ip_ranges = {{2, 1}}},
	     0,
	     EINVAL,
	     "ranges[0].last"},
	};
	struct hwt_context *ctx;
	struct process p;
	vm_offset_t offset;
	uint64_t data;
	size_t i, size;
	int page;

	for (i = 0; i < nitems(cases); i++) {
		size = cases[i].size ? cases[i].size : sizeof(cases[i].config);
		boot();
		assert_int_equal(hwt_alloc_cpu_mode(&ctx, 1, BUFFER), 0);
		hwt_set_config(ctx, &cases[i].config, size);
		hwt_start(ctx);
		assert_false(rig_enabled(&rig, 0));
		assert_non_null(strstr(kernel_log(), cases[i].field));
		assert_int_equal(hwt_bufptr_get(TAILQ_FIRST(&ctx->cpus)->vm, &page, &offset, &data),
				 cases[i].error);
		hwt_close(ctx);

		open_process(&p, 1, BUFFER);
		hwt_set_config(p.proc.ctx, &cases[i].config, size);
		hwt_start(p.proc.ctx);
		run(&p, 0, 0, 100);
		run(&p, 0, 0, 100);
		assert_int_equal(p.tools[0].stream.n, 0);
		kernel_swi_wait();
		assert_non_null(strstr(kernel_log(), cases[i].field));
		assert_int_equal(hwt_bufptr_get(p.tools[0].vm, &page, &offset, &data),
				 cases[i].error);
		close_process(&p);
		halt();
	}
}

/* Where the kernel may not sleep there are captures for new threads, or ENOMEM. */
TEST(new_threads_do_not_sleep)
{
	struct process p;
	int i, error = 0;

	boot();
	open_process(&p, 1, 2 * PAGE_SIZE);
	hwt_set_config(p.proc.ctx, &plain, sizeof(plain));
	hwt_start(p.proc.ctx);
	while (!error && p.n < 39)
		error = add_thread(&p);
	assert_int_equal(error, ENOMEM);
	assert_int_equal(p.n, 16);
	/* A task makes more. */
	kernel_run_tasks();
	for (i = 0; i < 8; i++)
		assert_int_equal(add_thread(&p), 0);
	for (i = 0; i < p.n; i++) {
		run(&p, i, i % 2, 9000 + (uint64_t)i);
		ptah_machine_set_cpu(rig.machine, 0);
		check_position(&p.tools[i]);
	}
	close_process(&p);
	halt();
}

TEST(the_module_stays_while_it_traces)
{
	struct hwt_context *ctx;
	struct process p;

	boot();
	assert_int_equal(hwt_alloc_cpu_mode(&ctx, 1, BUFFER), 0);
	hwt_set_config(ctx, &plain, sizeof(plain));
	hwt_start(ctx);
	assert_int_equal(kernel_unload(), EBUSY);
	assert_true(rig_enabled(&rig, 0));
	assert_non_null(hwt_registered());
	hwt_close(ctx);
	open_process(&p, 1, BUFFER);
	hwt_set_config(p.proc.ctx, &plain, sizeof(plain));
	hwt_start(p.proc.ctx);
	hwt_switch_in(&p.threads[0], 1);
	ptah_machine_set_cpu(rig.machine, 0);
	assert_int_equal(kernel_unload(), EBUSY);
	assert_true(rig_enabled(&rig, 1));
	close_process(&p);
	assert_int_equal(kernel_unload(), 0);
	assert_null(hwt_registered());
	assert_int_equal(kernel_load(), 0);
	halt();
}

/* Two contexts want one processor; the second gets nothing, and its user an error. */
TEST(contexts_share_processors)
{
	struct hwt_context *first, *second;
	struct process p;
	vm_offset_t offset;
	uint64_t data;
	int page;

	boot();
	assert_int_equal(hwt_alloc_cpu_mode(&first, 1, BUFFER), 0);
	assert_int_equal(hwt_alloc_cpu_mode(&second, 3, BUFFER), 0);
	hwt_set_config(first, &plain, sizeof(plain));
	hwt_set_config(second, &plain, sizeof(plain));
	hwt_start(first);
	hwt_start(second);
	assert_true(rig_enabled(&rig, 0));
	assert_false(rig_enabled(&rig, 1));
	assert_int_equal(hwt_bufptr_get(TAILQ_FIRST(&second->cpus)->vm, &page, &offset, &data),
			 EBUSY);
	/* A thread is traced on the processor that nobody has. */
	open_process(&p, 1, BUFFER);
	hwt_set_config(p.proc.ctx, &plain, sizeof(plain));
	hwt_start(p.proc.ctx);
	hwt_switch_in(&p.threads[0], 0);
	hwt_switch_out(&p.threads[0]);
	run(&p, 0, 1, 2000);
	assert_int_equal(p.tools[0].stream.n, 2000);
	ptah_machine_set_cpu(rig.machine, 0);
	check_position(&p.tools[0]);
	hwt_stop(first, NULL, NULL);
	hwt_start(second); /* it is in the state RUNNING: ENXIO */
	hwt_stop(second, NULL, NULL);
	hwt_start(second);
	assert_true(rig_enabled(&rig, 0) && rig_enabled(&rig, 1));
	hwt_close(second);
	hwt_close(first);
	close_process(&p);
	halt();
}

TEST(without_intel_pt_it_does_not_load)
{
	kernel_boot("none");
	assert_int_equal(kernel_load(), ENXIO);
	assert_null(hwt_registered());
	assert_non_null(strstr(kernel_log(), "ptah: "));
	kernel_halt();
}
