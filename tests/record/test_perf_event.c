/* SPDX-License-Identifier: MIT */
/* The whole recorder hardware on the simulated kernel of kernel.h. */
#include "record/problem_of.h"
#include "kernel.h"

#include "perfdata/reader.h"
#include "perfdata/tracing_data.h"

#include <ptah/packet.h>

#include <elf.h>
#include <pthread.h>

/*
 * Full-trace mode: trace is taken as it comes, and an event whose buffer was full is switched on
 * again.
 */
TEST(full_trace)
{
	const uint8_t *bytes = pattern();
	struct ptah_record_config config = self_config(PTAH_RECORD_DRAIN);
	struct ptah_recorder *r = start(&config);
	struct ptah_record_status s;
	struct fake *f = &fakes[0];

	assert_int_equal(fake_count, 2);
	assert_int_equal(f->attr.type, 8);
	assert_int_equal(f->attr.config, 0x300e601);
	assert_int_equal(fakes[1].attr.config, PERF_COUNT_SW_DUMMY);
	assert_int_equal(f->cpu, -1);
	assert_false(f->attr.inherit);
	assert_true(f->on && fakes[1].on);
	assert_int_equal(fakes[1].output, f->fd);
	map_as_recorder(f);
	assert_int_equal(put_trace(f, bytes, 5000), 5000);
	put_aux_record(f, 0, 5000, 0);
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	assert_int_equal(taken.size, 5000);
	assert_int_equal(taken.last.tid, gettid());
	assert_int_equal(taken.last.cpu, -1);
	/*
	 * The buffer is full: the driver stops, writes TRUNCATED, and the event is off. There was
	 * room from the last page on of which not everything was taken.
	 */
	assert_int_equal(f->page->aux_tail, 4096);
	assert_int_equal(put_trace(f, bytes + 5000, 7288), 7288);
	put_aux_record(f, 5000, 7288, PERF_AUX_FLAG_TRUNCATED);
	f->on = false;
	assert_int_equal(put_trace(f, bytes, 1), 0);
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	assert_true(f->on);
	assert_int_equal(taken.last.offset, 5000);
	assert_int_equal(taken.size, 12288);
	assert_memory_equal(taken.bytes, bytes, 12288);
	/* The same without a record: the buffer was full when the thread was switched in. */
	assert_int_equal(put_trace(f, bytes + 12288, 8192), 8192);
	put_aux_record(f, 12288, 8192, 0);
	f->on = false;
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	assert_true(f->on);
	/* Losses in records are counted. */
	put_aux_record(f, 20480, 0, PERF_AUX_FLAG_PARTIAL | PERF_AUX_FLAG_COLLISION);
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	s = status_of(r);
	assert_int_equal(s.losses.truncated, 1);
	assert_int_equal(s.losses.partial, 1);
	assert_int_equal(s.losses.collisions, 1);
	assert_int_equal(s.losses.lost_records, 0);
	assert_int_equal(s.trace_bytes, 20480);
	assert_int_equal(s.threads, 1);
	/* While recording is paused the event stays off. */
	assert_int_equal(ptah_recorder_pause(r, true), 0);
	assert_false(f->on);
	assert_true(fakes[1].on);
	put_aux_record(f, 20480, 0, PERF_AUX_FLAG_TRUNCATED);
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	assert_false(f->on);
	assert_int_equal(ptah_recorder_pause(r, false), 0);
	assert_true(f->on);
	/* The rest is taken at the end. */
	assert_int_equal(put_trace(f, bytes + 20480, 100), 100);
	assert_int_equal(ptah_recorder_finish(r), 0);
	assert_false(f->on || fakes[1].on);
	assert_int_equal(taken.size, 20580);
	assert_memory_equal(taken.bytes, bytes, 20580);
	ptah_recorder_free(r);
}

TEST(snapshots)
{
	const uint8_t *bytes = pattern();
	struct ptah_record_config config = self_config(PTAH_RECORD_SNAPSHOT);
	struct ptah_recorder *r = start(&config);
	struct fake *f = &fakes[0];

	map_as_recorder(f);
	put_overwriting(f, bytes, 3000);
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	assert_int_equal(taken.size, 0); /* nothing before a snapshot is requested */
	assert_int_equal(ptah_recorder_snapshot(r), 0);
	assert_int_equal(f->disabled, 1);
	assert_true(f->on);
	assert_int_equal(taken.size, 3000);
	put_overwriting(f, bytes + 3000, 20000);
	taken.size = 0;
	assert_int_equal(ptah_recorder_snapshot(r), 0);
	assert_int_equal(taken.size, 8192);
	assert_memory_equal(taken.bytes, bytes + 23000 - 8192, 8192);
	/* At least a part of one round was lost: 20000 - 2 * 8192. */
	assert_int_equal(status_of(r).losses.overwritten, 20000 - 2 * 8192);
	assert_int_equal(taken.last.offset, 3000 + 20000 - 2 * 8192);
	assert_int_equal(status_of(r).snapshots, 2);
	/* A snapshot does not end a pause. */
	assert_int_equal(ptah_recorder_pause(r, true), 0);
	assert_int_equal(ptah_recorder_snapshot(r), 0);
	assert_false(f->on);
	/* Trace after the last snapshot is dropped. */
	put_overwriting(f, bytes, 10);
	assert_int_equal(ptah_recorder_finish(r), 0);
	assert_int_equal(taken.size, 8192);
	ptah_recorder_free(r);

	/* Without a snapshot, the end is taken. */
	config = self_config(PTAH_RECORD_SNAPSHOT);
	r = start(&config);
	map_as_recorder(f);
	put_overwriting(f, bytes, 9000);
	assert_int_equal(ptah_recorder_finish(r), 0);
	assert_int_equal(taken.size, 8192);
	assert_memory_equal(taken.bytes, bytes + 9000 - 8192, 8192);
	ptah_recorder_free(r);
}

TEST(stop_when_full)
{
	const uint8_t *bytes = pattern();
	struct ptah_record_config config = self_config(PTAH_RECORD_STOP_WHEN_FULL);
	struct ptah_recorder *r = start(&config);
	struct fake *f = &fakes[0];

	map_as_recorder(f);
	assert_int_equal(put_trace(f, bytes, 8192), 8192);
	put_aux_record(f, 0, 8192, PERF_AUX_FLAG_TRUNCATED);
	f->on = false;
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	assert_false(f->on);
	assert_int_equal(put_trace(f, bytes, 1), 0);
	assert_int_equal(ptah_recorder_finish(r), 0);
	assert_int_equal(taken.size, 8192);
	assert_memory_equal(taken.bytes, bytes, 8192);
	assert_int_equal(status_of(r).losses.truncated, 1);
	ptah_recorder_free(r);
}

/* The events that are opened for each target. */
TEST(layouts)
{
	const struct ptah_record_filter filter = {PTAH_RANGE_FILTER, "/bin/true", 16, 32};
	int32_t pid = getpid(), cpu = 0, tid = gettid();
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	char *command[] = {"true", NULL};
	struct ptah_record_config config = self_config(PTAH_RECORD_DRAIN);
	struct ptah_recorder *r;
	struct ptah_message why;

	config.filters = &filter;
	config.filter_count = 1;
	config.target.argv = command;
	config.target.kind = PTAH_RECORD_COMMAND;
	assert_int_equal(open_recorder(&config, &r, NULL, &why), 0);
	/* A pair of events on each processor, which the next execve() switches on. */
	assert_int_equal(fake_count, 2 * cpus);
	for (unsigned i = 0; i < fake_count; i++) {
		assert_int_equal(fakes[i].cpu, i / 2);
		assert_true(fakes[i].attr.inherit && fakes[i].attr.enable_on_exec && !fakes[i].on);
	}
	assert_string_equal(fakes[0].filter, "filter 0x10/0x20@/bin/true");
	ptah_recorder_free(r); /* the command was never released */

	config = self_config(PTAH_RECORD_DRAIN);
	config.target.argv = command;
	config.target.kind = PTAH_RECORD_COMMAND;
	config.target.start_paused = true;
	config.target.per_thread = true;
	assert_int_equal(open_recorder(&config, &r, NULL, &why), 0);
	assert_int_equal(fake_count, 2);
	assert_int_equal(fakes[0].cpu, -1);
	assert_false(fakes[0].attr.enable_on_exec || fakes[0].attr.inherit);
	assert_true(fakes[1].attr.enable_on_exec);
	ptah_recorder_free(r);

	config = self_config(PTAH_RECORD_DRAIN);
	config.target.kind = PTAH_RECORD_PROCESSES;
	config.target.ids = &pid;
	config.target.id_count = 1;
	r = start(&config);
	assert_int_equal(fake_count, 2 * cpus);
	assert_true(fakes[0].attr.inherit && !fakes[0].attr.enable_on_exec && fakes[0].on);
	assert_int_equal(fakes[0].tid, pid);
	ptah_recorder_free(r);

	config = self_config(PTAH_RECORD_DRAIN);
	config.target.kind = PTAH_RECORD_THREADS;
	config.target.ids = &tid;
	config.target.id_count = 1;
	config.target.start_paused = true;
	r = start(&config);
	assert_int_equal(fake_count, 2);
	assert_true(!fakes[0].on && fakes[1].on);
	assert_int_equal(ptah_recorder_pause(r, false), 0);
	assert_true(fakes[0].on);
	ptah_recorder_free(r);

	config = self_config(PTAH_RECORD_DRAIN);
	config.target.kind = PTAH_RECORD_CPUS;
	config.target.ids = &cpu;
	config.target.id_count = 1;
	ptah_record_trace_default(&config.trace);
	config.trace.os = true;
	r = start(&config);
	/* What is executed on the other processors is recorded, but not their switches. */
	assert_int_equal(fake_count, 2 + cpus - 1);
	for (unsigned i = 2; i < fake_count; i++) {
		assert_int_equal(fakes[i].cpu, i - 1);
		assert_int_equal(fakes[i].attr.type, PERF_TYPE_SOFTWARE);
		assert_true(fakes[i].on && fakes[i].attr.mmap2 && fakes[i].attr.comm_exec);
		assert_false(fakes[i].attr.context_switch);
	}
	assert_true(fakes[1].attr.context_switch);
	assert_int_equal(fakes[0].tid, -1);
	assert_int_equal(fakes[0].cpu, 0);
	assert_false(fakes[0].attr.exclude_kernel || fakes[0].attr.exclude_user);
	map_as_recorder(&fakes[0]);
	put_trace(&fakes[0], pattern(), 8);
	assert_int_equal(ptah_recorder_finish(r), 0);
	assert_int_equal(taken.last.cpu, 0);
	assert_int_equal(taken.last.tid, -1);
	ptah_recorder_free(r);
}

TEST(what_the_kernel_refuses)
{
	static const struct {
		int error;
		enum ptah_record_problem problem;
	} cases[] = {
	    {EACCES, PTAH_RECORD_PERMISSION}, {EPERM, PTAH_RECORD_PERMISSION},
	    {EBUSY, PTAH_RECORD_BUSY},	      {ESRCH, PTAH_RECORD_NO_TARGET},
	    {ENODEV, PTAH_RECORD_NO_TARGET},  {ENOENT, PTAH_RECORD_NO_DRIVER},
	    {EMFILE, PTAH_RECORD_NO_MEMORY},  {ENOMEM, PTAH_RECORD_NO_MEMORY},
	    {EINVAL, PTAH_RECORD_BAD_OPTION}, {ENOSYS, PTAH_RECORD_NO_DRIVER},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ptah_record_config config = self_config(PTAH_RECORD_DRAIN);
		enum ptah_record_problem problem = PTAH_RECORD_FINE;
		struct ptah_message why = {""};
		struct ptah_recorder *r;

		refuse_with = cases[i].error;
		assert_true(open_recorder(&config, &r, &problem, &why) < 0);
		assert_int_equal(problem, cases[i].problem);
		assert_true(strlen(why.text) > 10);
	}
}

/* Many threads on many processors exceed the usual soft limit of open files. */
TEST(many_files)
{
	struct ptah_record_config config = self_config(PTAH_RECORD_DRAIN);
	enum ptah_record_problem problem = PTAH_RECORD_FINE;
	struct rlimit before, limit;
	struct ptah_message why;
	struct ptah_recorder *r;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	limit = before;
	limit.rlim_cur = limit.rlim_max - 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	wanted_files = limit.rlim_max;
	r = start(&config);
	assert_int_equal(file_limit(), limit.rlim_max);
	ptah_recorder_free(r);
	assert_int_equal(file_limit(), limit.rlim_max - 1);

	/* More files than the hard limit: refused, and the soft limit is restored as well. */
	config = self_config(PTAH_RECORD_DRAIN);
	refuse_with = EMFILE;
	assert_true(open_recorder(&config, &r, &problem, &why) < 0);
	assert_int_equal(problem, PTAH_RECORD_NO_MEMORY);
	assert_int_equal(file_limit(), limit.rlim_max - 1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

/* The driver is exclusive: a second event on the same thread and processor is EBUSY. */
TEST(what_is_named_twice)
{
	const int32_t pids[] = {getpid(), getpid()}, cpus[] = {0, 0}, tids[] = {gettid(), gettid()};
	const struct {
		enum ptah_record_target target;
		const int32_t *ids;
	} cases[] = {
	    {PTAH_RECORD_PROCESSES, pids}, {PTAH_RECORD_CPUS, cpus}, {PTAH_RECORD_THREADS, tids}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ptah_record_config config = self_config(PTAH_RECORD_DRAIN);
		struct ptah_recorder *r;

		config.target.kind = cases[i].target;
		config.target.ids = cases[i].ids;
		config.target.id_count = 2;
		r = start(&config);
		for (unsigned a = 0; a < fake_count; a++)
			for (unsigned b = 0; b < a; b++)
				assert_false(fakes[a].attr.type == fakes[b].attr.type &&
					     fakes[a].tid == fakes[b].tid &&
					     fakes[a].cpu == fakes[b].cpu);
		ptah_recorder_free(r);
	}
}

/* A kernel before 5.1: what it does not support is left out, one after the other, and noted. */
TEST(an_older_kernel)
{
	struct perf_event_attr unknown = {
	    .build_id = 1, .text_poke = 1, .bpf_event = 1, .ksymbol = 1};
	struct ptah_record_config config = self_config(PTAH_RECORD_DRAIN);
	struct ptah_recorder *r;

	unknown_flags = flags_of(&unknown);
	r = start(&config);
	/* The ring has the watermark of the event that made it, in bytes. */
	assert_true(fakes[0].attr.watermark);
	assert_int_equal(fakes[0].attr.wakeup_watermark, 2048);
	assert_false(fakes[1].attr.build_id);
	assert_true(fakes[1].attr.context_switch && fakes[1].attr.mmap2);
	assert_int_equal(status_of(r).notes, 1);
	ptah_recorder_free(r);
}

/* Events that pause and resume the trace */

static void put_events(void)
{
	put_file("/sys/bus/event_source/devices/uprobe/type", "7\n");
	put_file("/sys/bus/event_source/devices/uprobe/format/retprobe", "config:0\n");
	put_file("/sys/kernel/tracing/events/syscalls/sys_enter_write/id", "711\n");
}

static bool is_open(const struct fake *f)
{
	return fcntl(f->fd, F_GETFD) >= 0;
}

/* Without Intel PT the kernel that runs this answers as the simulated one, if it knows aux-action. */
TEST(aux_actions_are_refused_as_by_the_kernel)
{
	struct perf_event_attr attr = {.size = PERFDATA_ATTR_SIZE,
				       .type = PERF_TYPE_SOFTWARE,
				       .config = PERF_COUNT_SW_DUMMY,
				       .sample_period = 1,
				       .exclude_kernel = 1};

	reset();
	for (uint32_t action = 1; action < 16; action++) {
		triggers_set_action(&attr, action);
		assert_int_equal(real_syscall(SYS_perf_event_open, (long)(uintptr_t)&attr, 0, -1,
					      -1, PERF_FLAG_FD_CLOEXEC),
				 -1);
		if (action == PERFDATA_AUX_START_PAUSED && errno != EOPNOTSUPP)
			return; /* an older kernel, or no right to ask */
		assert_int_equal(errno, check_aux_action(&attr, 0, -1, -1));
	}
}

TEST(only_during_a_function)
{
	static const struct ptah_record_trigger during[] = {
	    {PTAH_TRIGGER_ENTRY, true, "/bin/program", 0x1149},
	    {PTAH_TRIGGER_RETURN, false, "/bin/program", 0x1149},
	};
	const uint8_t *bytes = pattern();
	struct ptah_record_config config = self_config(PTAH_RECORD_DRAIN);
	struct ptah_recorder *r;
	struct fake *f = &fakes[0];

	put_events();
	config.triggers.items = during;
	config.triggers.count = 2;
	config.triggers.start_paused = true;
	r = start(&config);
	assert_int_equal(fake_count, 4);
	for (unsigned i = 1; i < 3; i++) {
		assert_int_equal(fakes[i].attr.type, 7);
		assert_int_equal(fakes[i].attr.config, i - 1);
		assert_string_equal((const char *)(uintptr_t)fakes[i].attr.uprobe_path,
				    "/bin/program");
		assert_int_equal(fakes[i].attr.probe_offset, 0x1149);
		assert_int_equal(fakes[i].group, f->fd);
		assert_true(fakes[i].on);
		assert_false(fakes[i].attr.inherit);
	}
	assert_int_equal(fakes[3].attr.config, PERF_COUNT_SW_DUMMY);
	map_as_recorder(f);
	assert_int_equal(put_trace(f, bytes, 100), 0); /* it is not called yet */
	happen(&fakes[1]);
	assert_int_equal(put_trace(f, bytes, 100), 100);
	happen(&fakes[2]);
	assert_int_equal(put_trace(f, bytes, 100), 0);
	put_aux_record(f, 0, 100, 0);
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	assert_int_equal(taken.size, 100);
	assert_int_equal(ptah_recorder_finish(r), 0);
	ptah_recorder_free(r);
	for (unsigned i = 0; i < 4; i++)
		assert_false(is_open(&fakes[i]));
}

TEST(events_that_pause_and_resume)
{
	static const struct ptah_record_trigger items[] = {
	    {PTAH_TRIGGER_TRACEPOINT, false, "syscalls:sys_enter_write", 0},
	    {PTAH_TRIGGER_ADDRESS, true, NULL, 0x401000},
	};
	struct ptah_record_config config = self_config(PTAH_RECORD_DRAIN);
	struct ptah_recorder *r;

	put_events();
	config.triggers.items = items;
	config.triggers.count = 2;
	r = start(&config);
	assert_int_equal(fakes[1].attr.type, PERF_TYPE_TRACEPOINT);
	assert_int_equal(fakes[1].attr.config, 711);
	assert_false(fakes[1].attr.exclude_kernel);
	assert_int_equal(fakes[2].attr.type, PERF_TYPE_BREAKPOINT);
	assert_int_equal(fakes[2].attr.bp_addr, 0x401000);
	assert_true(fakes[2].attr.exclude_kernel);
	assert_false(fakes[0].paused);
	happen(&fakes[1]);
	assert_true(fakes[0].paused);
	happen(&fakes[2]);
	assert_false(fakes[0].paused);
	ptah_recorder_free(r);
}

static void refuse_triggers(const struct ptah_record_trigger *items, size_t n, bool start_paused,
			    enum ptah_record_problem expected, const char *sentence)
{
	struct ptah_record_config config = self_config(PTAH_RECORD_DRAIN);
	enum ptah_record_problem problem = PTAH_RECORD_FINE;
	struct ptah_message why = {""};
	struct ptah_recorder *r;

	no_aux_action = strstr(sentence, "6.13") != NULL;
	config.triggers.items = items;
	config.triggers.count = n;
	config.triggers.start_paused = start_paused;
	assert_true(open_recorder(&config, &r, &problem, &why) < 0);
	assert_int_equal(problem, expected);
	if (!strstr(why.text, sentence))
		fail_msg("%s", why.text);
	for (unsigned i = 0; i < fake_count; i++)
		assert_false(is_open(&fakes[i]));
}

TEST(triggers_that_are_refused)
{
	static const struct ptah_record_trigger
	    pause = {PTAH_TRIGGER_ADDRESS, false, NULL, 0x401000},
	    entry = {PTAH_TRIGGER_ENTRY, true, "/bin/program", 0x1149},
	    kernel = {PTAH_TRIGGER_ADDRESS, true, NULL, 0xffffffff81000000},
	    missing = {PTAH_TRIGGER_TRACEPOINT, true, "syscalls:sys_enter_none", 0},
	    outside = {PTAH_TRIGGER_TRACEPOINT, true, "../x:y", 0}, none = {0, true, NULL, 0};
	const struct ptah_record_trigger many[PTAH_RECORD_TRIGGERS + 1] = {pause};

	put_events();
	refuse_triggers(&pause, 1, false, PTAH_RECORD_NOT_POSSIBLE, "Linux 6.13 and later");
	refuse_triggers(&entry, 1, true, PTAH_RECORD_NOT_POSSIBLE, "Linux 6.13 and later");
	refuse_triggers(&pause, 1, true, PTAH_RECORD_BAD_OPTION, "no event resumes it");
	refuse_triggers(NULL, 0, true, PTAH_RECORD_BAD_OPTION, "no event resumes it");
	refuse_triggers(&kernel, 1, false, PTAH_RECORD_BAD_OPTION, "which is not traced");
	refuse_triggers(&missing, 1, false, PTAH_RECORD_NO_TARGET, "sys_enter_none");
	refuse_triggers(&outside, 1, false, PTAH_RECORD_BAD_OPTION, "no tracepoint");
	refuse_triggers(&none, 1, false, PTAH_RECORD_BAD_OPTION, "makes no sense");
	refuse_triggers(many, PTAH_RECORD_TRIGGERS + 1, false, PTAH_RECORD_BAD_OPTION, "more than");
	remove_file("/sys/bus/event_source/devices/uprobe/type");
	refuse_triggers(&entry, 1, false, PTAH_RECORD_NO_DRIVER, "no uprobes");
}

#define TRACEPOINT "/sys/kernel/tracing/events/sched/sched_switch/"

static const char switch_format[] =
    "name: sched_switch\nID: 372\nformat:\n"
    "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n"
    "\tfield:pid_t next_pid;\toffset:56;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n";

/* As the recorder maps the ring of an event without trace. */
static void map_ring_of(struct fake *f, uint64_t size)
{
	f->data_size = size;
	munmap(f->page, 4096);
	f->page = mmap(NULL, 4096 + size, PROT_READ | PROT_WRITE, MAP_SHARED, f->fd, 0);
	assert_true(f->page != MAP_FAILED);
	f->data = (uint8_t *)f->page + 4096;
}

/* What the file has of the events: samples by event, formats, what was lost. */
static void check_beside(const char *path, const uint8_t *raw, size_t raw_size)
{
	unsigned samples = 0, lost = 0, notes = 0;
	struct perfdata_sample sample;
	struct tracing_formats formats;
	struct perfdata_event_info info;
	struct perfdata_record record;
	struct ptah_message why = {""};
	struct perfdata_file *f;
	const uint8_t *tracing;
	size_t size;

	assert_int_equal(perfdata_open(path, &f, &why), 0);
	perfdata_want_samples(f);
	while (perfdata_next(f, &record, &why) > 0) {
		assert_int_not_equal(record.type, PERFDATA_LOST);
		if (record.type == PERFDATA_LOST_SAMPLES)
			lost += record.lost;
		notes += record.type == PERFDATA_HEADER_EVENT_TYPE &&
			 record.tag == PERFDATA_PTAH_NOTE && record.text_size > 30 &&
			 !memcmp(record.text, "-e sched:sched_switch: 9 samples", 32);
		if (record.type != PERFDATA_SAMPLE)
			continue;
		samples++;
		assert_true(perfdata_event(f, record.sampled - 1, &info));
		assert_string_equal(info.name, "sched:sched_switch");
		assert_true(perfdata_sample_at(f, record.sampled - 1, record.raw, &sample));
		assert_int_equal(sample.raw_size, raw_size);
		assert_memory_equal(sample.raw, raw, raw_size);
	}
	assert_int_equal(samples, 1);
	assert_int_equal(lost, 7);
	assert_int_equal(notes, 1);
	assert_true(perfdata_event(f, 3, &info));
	assert_string_equal(info.name, "page-faults:u");
	tracing = perfdata_tracing_data(f, &size);
	assert_int_equal(tracing_formats_read(tracing, size, &formats), 0);
	assert_int_equal(formats.count, 1);
	assert_string_equal(tracing_format_find(&formats, 372)->name, "sched_switch");
	tracing_formats_free(&formats);
	perfdata_close(f);
}

/* As perf record 6.1 opens them (perf record -vv): what differs is said where it is. */
static void check_beside_attr(const struct fake *f, uint32_t type, uint64_t config, uint64_t period,
			      uint64_t sample_type, uint64_t flags)
{
	const uint64_t watermark = UINT64_C(1) << 14; /* the recorder's ring, not perf's */

	assert_int_equal(f->attr.type, type);
	assert_int_equal(f->attr.config, config);
	assert_int_equal(f->attr.sample_period, period);
	assert_int_equal(f->attr.sample_type, sample_type);
	assert_int_equal(f->attr.read_format, PERF_FORMAT_ID | PERFDATA_READ_LOST);
	assert_int_equal(flags_of(&f->attr), flags | watermark);
	assert_int_equal(f->attr.wakeup_watermark, 2048);
	assert_int_equal(f->output, -1); /* a ring of its own */
	assert_int_equal(f->tid, fakes[0].tid);
	assert_int_equal(f->cpu, fakes[0].cpu);
}

/* disabled, sample_id_all, exclude_guest; exclude_kernel, exclude_hv; freq */
#define BESIDE_FLAGS (UINT64_C(1) | UINT64_C(1) << 18 | UINT64_C(1) << 20)
#define BESIDE_USER  (UINT64_C(1) << 5 | UINT64_C(1) << 6)
#define BESIDE_FREQ  (UINT64_C(1) << 10)

TEST(events_beside_the_trace)
{
	static const char *const items[] = {"sched:sched_switch", "page-faults:u", "cycles"};
	/* ip, pid and tid, time, cpu, period; the size of the raw data, and these */
	uint64_t sample[] = {PERF_RECORD_SAMPLE | UINT64_C(72) << 48, 0, 1, 2, 3, 0, 1, 0, 0};
	uint64_t loss[] = {PERF_RECORD_LOST | UINT64_C(48) << 48, 0, 7, 2, 3, 0};
	const uint32_t raw[4] = {12, 372, 99, 0};
	struct ptah_record_config config = self_config(PTAH_RECORD_DRAIN);
	struct ptah_recorder *r;

	put_file(TRACEPOINT "id", "372\n");
	put_file(TRACEPOINT "format", switch_format);
	config.output.sink = NULL;
	config.output.path = "beside.data";
	config.events.items = items;
	config.events.count = 3;
	r = start(&config);
	assert_int_equal(fake_count, 5);
	check_beside_attr(&fakes[2], PERF_TYPE_TRACEPOINT, 372, 1, 0x10587, BESIDE_FLAGS);
	check_beside_attr(&fakes[3], PERF_TYPE_SOFTWARE, 2, 1, 0x10187, BESIDE_FLAGS | BESIDE_USER);
	check_beside_attr(&fakes[4], PERF_TYPE_HARDWARE, 0, 4000, 0x10187,
			  BESIDE_FLAGS | BESIDE_FREQ);
	assert_true(fakes[2].on && fakes[3].on && fakes[4].on);
	/* A pause of the trace is one of these events, too; the records of maps go on. */
	assert_int_equal(ptah_recorder_pause(r, true), 0);
	assert_false(fakes[0].on || fakes[2].on || fakes[3].on || fakes[4].on);
	assert_true(fakes[1].on);
	assert_int_equal(ptah_recorder_pause(r, false), 0);
	assert_true(fakes[2].on && fakes[3].on && fakes[4].on);
	map_ring_of(&fakes[2], 8192);
	sample[1] = loss[1] = loss[5] = id_of(&fakes[2]);
	memcpy(&sample[7], raw, sizeof(raw));
	assert_true(put_record(&fakes[2], sample, sizeof(sample)));
	assert_true(put_record(&fakes[2], loss, sizeof(loss)));
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	/* Two more are lost, and no record says so: read() returns this page (value, id, lost). */
	fakes[2].page->offset = 9;
	assert_int_equal(ptah_recorder_finish(r), 0);
	assert_false(fakes[2].on || fakes[3].on || fakes[4].on);
	assert_int_equal(status_of(r).losses.lost_records, 0); /* maps are complete */
	ptah_recorder_free(r);
	check_beside("beside.data", (const uint8_t *)(raw + 1), 12);
}

static void refuse_event(const char *text, enum ptah_record_problem expected, const char *sentence)
{
	struct ptah_record_config config = self_config(PTAH_RECORD_DRAIN);
	enum ptah_record_problem problem = PTAH_RECORD_FINE;
	struct ptah_message why = {""};
	struct ptah_recorder *r;

	config.events.items = &text;
	config.events.count = 1;
	assert_true(open_recorder(&config, &r, &problem, &why) < 0);
	assert_int_equal(problem, expected);
	if (!strstr(why.text, sentence) || !strstr(why.text, text))
		fail_msg("%s", why.text);
	for (unsigned i = 0; i < fake_count; i++)
		assert_false(is_open(&fakes[i]));
}

TEST(events_beside_that_are_refused)
{
	put_file(TRACEPOINT "id", "372\n");
	refuse_event("sched:none", PTAH_RECORD_NO_TARGET, "available_events lists");
	refuse_event("../x:y", PTAH_RECORD_BAD_OPTION, "no event that can be recorded");
	refuse_event("sched:*", PTAH_RECORD_BAD_OPTION, "without * and ?");
	refuse_event("cycle", PTAH_RECORD_BAD_OPTION, "cycles, instructions");
	refuse_event("page-faults:x", PTAH_RECORD_BAD_OPTION, "u (user code) and k");
	refuse_event("sched:sched_switch:", PTAH_RECORD_BAD_OPTION, "u (user code) and k");
}

TEST(metadata)
{
	struct ptah_record_config config = self_config(PTAH_RECORD_DRAIN);
	struct ptah_record_metadata m = {.size = sizeof(m)};
	struct ptah_recorder *r;

	ptah_record_trace_default(&config.trace);
	config.trace.mtc_period = 3;
	r = start(&config);
	assert_int_equal(ptah_recorder_metadata(r, &m), 0);
	assert_int_equal(m.pmu_type, 8);
	assert_int_equal(m.time_mult, 1);
	assert_int_equal(m.nominal_ratio, 36);
	assert_true(m.cpu.family >= 6);
	assert_int_equal(strlen(m.vendor), 12);
	/* TraceEn, User, ToPA, MTCEn, TSCEn, BranchEn, MTCFreq 3, PSBFreq 3 */
	assert_int_equal(m.rtit_ctl, 0x2709 | 3 << 14 | 3 << 24);
	ptah_recorder_free(r);
}

/* Whether there is Ptah's command: if ctest runs the test, except with ThreadSanitizer. */
static bool has_command(void)
{
	const char *path = getenv("PTAH");

	return path && !access(path, X_OK);
}

static unsigned long long number_from(const char *command)
{
	unsigned long long n = 0;
	FILE *f = popen(command, "r");

	assert_non_null(f);
	if (fscanf(f, "%llu", &n) != 1)
		n = 0;
	pclose(f);
	return n;
}

/* A kernel of one page. */
static void put_kernel(void)
{
	uint8_t kcore[8192] = {0};
	const Elf64_Ehdr head = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64},
				 .e_phoff = sizeof(head),
				 .e_phentsize = sizeof(Elf64_Phdr),
				 .e_phnum = 1};
	const Elf64_Phdr load = {
	    .p_type = PT_LOAD, .p_vaddr = 0xffffffff81000000, .p_offset = 4096, .p_filesz = 4096};
	char path[128];
	FILE *f;

	put_file("/proc/kallsyms", "ffffffff81000000 T _text\n"
				   "ffffffff81000000 T _stext\n"
				   "ffffffff81000800 T _etext\n");
	put_file("/proc/modules", "");
	memcpy(kcore, &head, sizeof(head));
	memcpy(kcore + sizeof(head), &load, sizeof(load));
	snprintf(path, sizeof(path), "%s/proc/kcore", root);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(kcore, sizeof(kcore), 1, f), 1);
	assert_int_equal(fclose(f), 0);
	own_kernel = true;
}

/* --kcore: the output is a folder, as with perf. An old recording is kept, or restored. */
TEST(a_copy_of_the_kernel)
{
	static const struct ptah_record_sink nowhere = {.take = NULL, .context = NULL};
	struct ptah_record_config config = self_config(PTAH_RECORD_DRAIN);
	struct ptah_message why = {""};
	struct perfdata_file *f;
	struct perfdata_record record;
	struct ptah_recorder *r;
	unsigned kernels = 0;

	put_kernel();
	config.output.sink = &nowhere; /* a dry run makes no folder */
	config.output.path = "k.data";
	ptah_record_trace_default(&config.trace);
	config.trace.user = false;
	config.output.kcore = config.trace.os = true;
	assert_int_equal(open_recorder(&config, &r, NULL, &why), 0);
	ptah_recorder_free(r);
	assert_int_equal(access("k.data", F_OK), -1);
	reset();
	config.output.sink = NULL;
	r = start(&config);
	assert_int_equal(ptah_recorder_finish(r), 0);
	ptah_recorder_free(r);
	assert_int_equal(access("k.data/kcore_dir/kcore", R_OK), 0);
	assert_int_equal(system("cmp -s k.data/kcore_dir/kallsyms proc/kallsyms"), 0);
	assert_int_equal(access("k.data/kcore_dir/modules", R_OK), 0);
	assert_int_equal(access("k.data.old", F_OK), -1);
	if (perfdata_open("k.data/data", &f, &why) < 0)
		fail_msg("%s", why.text);
	while (perfdata_next(f, &record, &why) > 0)
		kernels += record.type == PERFDATA_MMAP && record.address == 0xffffffff81000000 &&
			   record.size == 0x800;
	assert_int_equal(kernels, 1);
	perfdata_close(f);
	if (system("command -v perf >/dev/null") == 0)
		assert_int_equal(
		    number_from("perf script -i k.data --show-mmap-events 2>/dev/null | "
				"grep -c 'kernel.kallsyms._text'"),
		    1);

	/* A recording that is not finished leaves the old one in its place. */
	assert_int_equal(system("echo first >k.data/mark"), 0);
	reset();
	r = start(&config);
	assert_int_equal(access("k.data/mark", F_OK), -1);
	assert_int_equal(access("k.data.old/mark", F_OK), 0);
	ptah_recorder_free(r);
	assert_int_equal(access("k.data/mark", F_OK), 0);
	assert_int_equal(access("k.data.old", F_OK), -1);

	/* A kernel that hides its code. */
	remove_file("/proc/kcore");
	reset();
	r = NULL;
	assert_int_equal(open_recorder(&config, &r, NULL, &why), 0);
	assert_true(ptah_recorder_start(r) < 0);
	assert_non_null(strstr(ptah_recorder_why(r, NULL), "kcore"));
	ptah_recorder_free(r);
	assert_int_equal(access("k.data/mark", F_OK), 0);
	own_kernel = false;
}

/* What a sink receives with output.kcore: the files first, then everything else. */
struct delivered {
	char name[64];
	uint64_t size;
	unsigned files, others;
	bool refuse;
};

static int take_files(void *context, const struct ptah_record_piece *piece)
{
	struct delivered *d = context;
	char path[64];
	FILE *f;

	if (piece->kind != PTAH_RECORD_PIECE_FILE) {
		d->others += piece->kind == PTAH_RECORD_PIECE_TRACE;
		assert_null(piece->name);
		return 0;
	}
	if (d->refuse)
		return PTAH_E_NOSPACE;
	assert_int_equal(d->others, 0);
	if (!piece->offset) {
		snprintf(d->name, sizeof(d->name), "%s", piece->name);
		d->files++;
		d->size = 0;
	}
	assert_string_equal(piece->name, d->name);
	assert_int_equal(piece->offset, d->size);
	assert_int_equal(strncmp(piece->name, "kcore_dir/", 10), 0);
	snprintf(path, sizeof(path), "sink-%s", piece->name + 10);
	f = fopen(path, piece->offset ? "a" : "w");
	assert_non_null(f);
	assert_int_equal(fwrite(piece->bytes, 1, piece->size, f), piece->size);
	assert_int_equal(fclose(f), 0);
	d->size += piece->size;
	return 0;
}

/* A sink gets the files that the folder of a recording with --kcore has. */
TEST(a_copy_of_the_kernel_into_a_sink)
{
	struct delivered delivered = {.files = 0};
	const struct ptah_record_sink to = {.take = take_files, .context = &delivered};
	struct ptah_record_config config = self_config(PTAH_RECORD_DRAIN);
	struct ptah_message why = {""};
	struct ptah_recorder *r = NULL;

	put_kernel();
	config.output.path = "k.folder";
	config.output.sink = NULL;
	ptah_record_trace_default(&config.trace);
	config.output.kcore = config.trace.os = true;
	r = start(&config);
	assert_int_equal(ptah_recorder_finish(r), 0);
	ptah_recorder_free(r);
	reset();
	config.output.sink = &to;
	r = start(&config);
	assert_int_equal(delivered.files, 3);
	map_as_recorder(&fakes[0]);
	put_trace(&fakes[0], pattern(), 8);
	assert_int_equal(ptah_recorder_finish(r), 0);
	ptah_recorder_free(r);
	assert_int_equal(delivered.files, 3);
	assert_int_equal(delivered.others, 1);
	assert_int_equal(system("cmp sink-kcore k.folder/kcore_dir/kcore && "
				"cmp sink-kallsyms k.folder/kcore_dir/kallsyms && "
				"cmp sink-modules k.folder/kcore_dir/modules"),
			 0);

	/* A sink that refuses ends the recording before it begins. */
	reset();
	delivered = (struct delivered){.refuse = true};
	assert_int_equal(open_recorder(&config, &r, NULL, &why), 0);
	assert_int_equal(ptah_recorder_start(r), PTAH_E_NOSPACE);
	assert_int_equal(problem_of(r), PTAH_RECORD_OUTPUT);
	assert_non_null(strstr(ptah_recorder_why(r, NULL), "kcore_dir/kcore"));
	ptah_recorder_free(r);
	own_kernel = false;
}

/* A recording made by QEMU, replayed as if by a processor and its driver. */

struct play {
	uint8_t *trace;
	size_t trace_size;
	uint8_t records[1 << 16]; /* records of the types that the kernel writes */
	size_t records_size;
	int32_t pid; /* in `records` */
	uint64_t instructions;
	struct fake *f;
};

static int take_play(void *context, const struct ptah_record_piece *piece)
{
	struct play *p = context;
	uint32_t type;

	if (piece->kind == PTAH_RECORD_PIECE_TRACE) {
		p->trace = realloc(p->trace, p->trace_size + piece->size);
		memcpy(p->trace + p->trace_size, piece->bytes, piece->size);
		p->trace_size += piece->size;
		p->pid = piece->tid;
		return 0;
	}
	memcpy(&type, piece->bytes, sizeof(type));
	if (type >= 64)
		return 0;
	assert_true(p->records_size + piece->size <= sizeof(p->records));
	memcpy(p->records + p->records_size, piece->bytes, piece->size);
	p->records_size += piece->size;
	return 0;
}

/* False: QEMU or its plugin is missing. */
static bool record_with_qemu(struct play *p)
{
	char *command[] = {"sh", "-c", "i=0; while [ $i -lt 60 ]; do i=$((i+1)); done", NULL};
	const struct ptah_record_sink to = {.take = take_play, .context = p};
	const struct ptah_record_config config = {.size = sizeof(config),
						  .target.argv = command,
						  .backend.kind = PTAH_RECORDER_QEMU,
						  .backend.no_syscalls = true,
						  .output.sink = &to};
	struct ptah_record_status result;
	struct ptah_message why = {""};
	int status = ptah_record(&config, &result, &why);

	if (status == PTAH_E_MISSING) {
		print_message("SKIP: %s\n", why.text);
		return false;
	}
	assert_int_equal(status, 0);
	p->instructions = result.instructions;
	return true;
}

/* Replaces the process in a record: in its fields and in the sample id. */
static void rename_process(uint8_t *record, size_t size, int32_t from, int32_t to)
{
	const size_t fields[] = {8, 12, 16, 20, size - 32, size - 28};
	uint32_t type;

	memcpy(&type, record, sizeof(type));
	for (size_t i = 0; i < 6; i++) {
		int32_t value;

		if ((i == 2 || i == 3) && type != PERF_RECORD_EXIT && type != PERF_RECORD_FORK)
			continue;
		memcpy(&value, record + fields[i], sizeof(value));
		if (value == from)
			memcpy(record + fields[i], &to, sizeof(to));
	}
}

/* The size of whole packets: a processor that stops has written the packets it began. */
static size_t whole_packets(const uint8_t *bytes, size_t n, size_t most)
{
	struct ptah_packet packet;
	size_t done = 0;

	while (done < n) {
		int size = ptah_packet_decode(&packet, bytes + done, n - done, 0);

		assert_true(size > 0);
		if (done + (size_t)size > most)
			break;
		done += (size_t)size;
	}
	return done;
}

/*
 * Of a whole processor the trace continues over switches and is taken when its buffer is a quarter
 * full: records of later times are in the file long before.
 */
static void put_later_switches(struct play *p)
{
	for (uint64_t i = 0; i < 3; i++) {
		const uint64_t in[5] = {PERF_RECORD_SWITCH | UINT64_C(40) << 48,
					UINT64_C(999999) << 32 | 999999, (UINT64_C(1) << 40) + i, 0,
					1};

		assert_true(put_record(p->f, in, sizeof(in)));
		while (__atomic_load_n(&p->f->page->data_tail, __ATOMIC_ACQUIRE) != p->f->data_head)
			sched_yield();
	}
}

static void *play(void *context)
{
	struct play *p = context;
	/* The thread is switched in at time 1: a record of a sample id alone. */
	const uint64_t in[5] = {PERF_RECORD_SWITCH | UINT64_C(40) << 48,
				(uint64_t)(uint32_t)p->f->tid << 32 | (uint32_t)p->f->tid, 1, 0, 1};
	unsigned seed = 7;
	FILE *end;

	assert_true(put_record(p->f, in, sizeof(in)));

	for (size_t at = 0; at < p->records_size;) {
		uint16_t size;

		memcpy(&size, p->records + at + 6, 2);
		rename_process(p->records + at, size, p->pid, p->f->tid);
		while (!put_record(p->f, p->records + at, size))
			sched_yield();
		at += size;
	}
	p->pid = p->f->tid;
	if (p->f->cpu >= 0)
		put_later_switches(p);
	for (size_t at = 0; at < p->trace_size;) {
		size_t n = whole_packets(p->trace + at, p->trace_size - at,
					 500 + (seed = seed * 1103515245u + 12345u) % 2000);

		/* Where the buffer is full the program waits, so that nothing is lost. */
		while (!put_trace(p->f, p->trace + at, n))
			sched_yield();
		put_aux_record(p->f, at, n, 0);
		at += n;
	}
	end = fopen("fifo", "w"); /* the command ends */
	fclose(end);
	return NULL;
}

/*
 * Compares the trace in the file byte for byte. A piece begins where the padding of the last one
 * begins.
 */
static void compare_trace(const struct play *p)
{
	uint8_t *whole = calloc(1, p->trace_size + 8);
	struct ptah_message why = {""};
	struct perfdata_file *f;
	struct perfdata_record r;
	uint64_t end = 0;

	assert_non_null(whole);
	if (perfdata_open("x.data", &f, &why) < 0)
		fail_msg("%s", why.text);
	while (perfdata_next(f, &r, &why) > 0) {
		if (r.type != PERFDATA_AUXTRACE)
			continue;
		assert_true(r.trace_offset <= end && end - r.trace_offset < 8);
		end = r.trace_offset + r.trace_size;
		assert_true(end <= p->trace_size + 8);
		memcpy(whole + r.trace_offset, r.bytes, r.trace_size);
	}
	assert_true(end >= p->trace_size && end - p->trace_size < 8);
	assert_memory_equal(whole, p->trace, p->trace_size);
	perfdata_close(f);
	free(whole);
}

static void play_again(struct play *p, bool per_thread)
{
	char *command[] = {"sh", "-c", "read x <fifo", NULL};
	struct ptah_record_config config = self_config(PTAH_RECORD_DRAIN);
	struct ptah_record_status s;
	struct ptah_recorder *r;
	pthread_t thread;
	int status;

	config.target.kind = PTAH_RECORD_COMMAND;
	config.target.argv = command;
	config.target.per_thread = per_thread;
	config.output.sink = NULL;
	config.output.path = "x.data";
	r = start(&config);
	p->f = &fakes[0];
	p->f->on = true; /* the execve() has switched it on */
	map_as_recorder(p->f);
	assert_int_equal(pthread_create(&thread, NULL, play, p), 0);
	while ((status = ptah_recorder_poll(r, 1)) > 0)
		;
	assert_int_equal(status, 0);
	pthread_join(thread, NULL);
	assert_int_equal(ptah_recorder_finish(r), 0);
	s = status_of(r);
	ptah_recorder_free(r);
	assert_true(p->trace_size > 4 * 8192); /* the buffer wrapped a few times */
	assert_int_equal(s.trace_bytes, p->trace_size);
	assert_int_equal(s.losses.truncated, 0);
	compare_trace(p);
	if (system("command -v perf >/dev/null") == 0) {
		assert_int_equal(
		    number_from("perf script -i x.data --itrace=i0ns -F ip 2>/dev/null | wc -l"),
		    p->instructions);
		/* What perf prints for the list of AUXTRACE records. */
		assert_int_equal(number_from("perf script -i x.data --header-only 2>/dev/null | "
					     "grep -c 'contains AUX area data'"),
				 1);
		assert_int_equal(
		    number_from("perf script -i x.data --itrace=e 2>&1 | "
				"grep 'trace error type' | grep -vc 'Lost trace data'"),
		    0);
	}
	if (has_command())
		assert_int_equal(number_from("\"$PTAH\" stat x.data 2>/dev/null | tr -d , | "
					     "awk '$1 == \"instructions\" { print $2 }'"),
				 p->instructions);
}

/*
 * Once with a buffer of the thread's own, once with a buffer of the processor where it is switched
 * in.
 */
TEST(a_processor_that_plays)
{
	static struct play p;

	if (!record_with_qemu(&p))
		skip();
	assert_int_equal(mkfifo("fifo", 0600), 0);
	play_again(&p, true);
	play_again(&p, false);
	free(p.trace);
}

/* Processors that come and go */

static void put_online(const char *list)
{
	own_processors = true;
	put_file(PROCESSORS "possible", "0-7\n");
	put_file(PROCESSORS "online", list);
	ahead++;
}

static struct ptah_record_config all_cpus_config(void)
{
	struct ptah_record_config config = self_config(PTAH_RECORD_DRAIN);

	config.target.kind = PTAH_RECORD_CPUS;
	config.buffer.size = 1 << 20;
	config.buffer.sideband = 1 << 18;
	put_online("0-1\n");
	return config;
}

/* The process is switched in on the processor, at time 1, and its records follow. */
static void put_process(const struct play *p, struct fake *f, int32_t pid)
{
	const uint64_t in[6] = {PERF_RECORD_SWITCH_CPU_WIDE |
				    (uint64_t)PERF_RECORD_MISC_SWITCH_OUT << 32 |
				    UINT64_C(48) << 48,
				(uint64_t)(uint32_t)pid << 32 | (uint32_t)pid,
				0,
				1,
				cpu_of(f),
				id_of(f + 1)};

	assert_true(put_record(f, in, sizeof(in)));
	for (size_t at = 0; at < p->records_size;) {
		const uint64_t cpu = cpu_of(f), id = id_of(f + 1);
		uint8_t record[1 << 16];
		uint16_t size;

		memcpy(&size, p->records + at + 6, 2);
		memcpy(record, p->records + at, size);
		rename_process(record, size, p->pid, pid);
		memcpy(record + size - 16, &cpu, sizeof(cpu));
		memcpy(record + size - 8, &id, sizeof(id));
		assert_true(put_record(f, record, size));
		at += size;
	}
}

static void put_part(const struct play *p, struct fake *f, size_t from, size_t to)
{
	const uint64_t at = f->aux_head;

	assert_int_equal(put_trace(f, p->trace + from, to - from), to - from);
	put_aux_record(f, at, to - from, 0);
}

/* The ids that the file's header has for an event, as format.h describes them. */
static size_t ids_in_file(const char *path, unsigned event, uint64_t *ids, size_t room)
{
	uint64_t attrs, entry, section[2];
	FILE *f = fopen(path, "r");
	size_t n;

	assert_non_null(f);
	assert_int_equal(fseek(f, PERFDATA_AT_ATTRS, SEEK_SET), 0);
	assert_int_equal(fread(&attrs, 8, 1, f), 1);
	assert_int_equal(fseek(f, PERFDATA_AT_ATTR_SIZE, SEEK_SET), 0);
	assert_int_equal(fread(&entry, 8, 1, f), 1);
	assert_int_equal(fseek(f, (long)(attrs + (event + 1) * entry - 16), SEEK_SET), 0);
	assert_int_equal(fread(section, sizeof(section), 1, f), 1);
	assert_true(section[1] / 8 <= room);
	assert_int_equal(fseek(f, (long)section[0], SEEK_SET), 0);
	n = fread(ids, 8, section[1] / 8, f);
	assert_int_equal(n, section[1] / 8);
	fclose(f);
	return n;
}

/*
 * Of all processors: two come online while recording and run the program, and one of them goes
 * offline in its middle and comes back.
 */
static struct ptah_recorder *let_them_come(const struct play *p,
					   const struct ptah_record_config *config)
{
	const size_t half = whole_packets(p->trace, p->trace_size, p->trace_size / 2);
	struct ptah_recorder *r = start(config);

	assert_int_equal(fake_count, 4);
	put_online("0-1,3,5\n");
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	assert_int_equal(fake_count, 8);
	assert_int_equal(fakes[4].cpu, 3);
	assert_int_equal(fakes[7].cpu, 5);
	for (unsigned i = 4; i < 8; i++)
		assert_true(fakes[i].on && fakes[i].tid == -1);
	map_as_recorder(&fakes[4]);
	map_as_recorder(&fakes[6]);
	put_process(p, &fakes[4], 4343);
	put_part(p, &fakes[4], 0, p->trace_size);
	put_process(p, &fakes[6], 4242);
	put_part(p, &fakes[6], 0, half);
	/* Nothing was taken since: it is when the processor has gone. */
	put_online("0-1,3\n");
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	assert_false(is_open(&fakes[6]) || is_open(&fakes[7]));
	assert_int_equal(status_of(r).trace_bytes, p->trace_size + half);
	put_online("0-1,3,5\n");
	absent_cpu = 5; /* a moment before perf_event_open() has it */
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	assert_int_equal(fake_count, 8);
	absent_cpu = -1;
	put_online("0-1,3,5\n");
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	assert_int_equal(fake_count, 10);
	map_as_recorder(&fakes[8]);
	put_part(p, &fakes[8], half, p->trace_size);
	ahead++;
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	/* online, online, offline, online */
	assert_int_equal(status_of(r).notes, 4);
	return r;
}

static void finish(const struct play *p, struct ptah_recorder *r)
{
	assert_int_equal(ptah_recorder_finish(r), 0);
	assert_int_equal(status_of(r).trace_bytes, 2 * p->trace_size);
	ptah_recorder_free(r);
}

/* The stream of the processor that came back has no gap, and nothing twice. */
static void check_stream(const struct play *p)
{
	struct ptah_message why = {""};
	struct perfdata_record record;
	struct perfdata_file *f;
	uint64_t end = 0;

	if (perfdata_open("h.data", &f, &why) < 0)
		fail_msg("%s", why.text);
	while (perfdata_next(f, &record, &why) > 0) {
		if (record.type != PERFDATA_AUXTRACE || record.cpu != 5)
			continue;
		assert_int_equal(record.index, 3);
		assert_true(record.trace_offset <= end && end - record.trace_offset < 8);
		end = record.trace_offset + record.trace_size;
	}
	assert_true(end >= p->trace_size && end - p->trace_size < 8);
	perfdata_close(f);
}

static void check_with_perf(const struct play *p)
{
	const size_t half = whole_packets(p->trace, p->trace_size, p->trace_size / 2);

	if (system("command -v perf >/dev/null") != 0)
		return;
	assert_int_equal(
	    number_from("perf script -i h.data --itrace=i0ns -F ip 2>/dev/null | wc -l"),
	    2 * p->instructions);
	assert_int_equal(number_from("perf script -i h.data --itrace=e 2>&1 | "
				     "grep -c 'trace error type'"),
			 0);
	assert_int_equal(number_from("perf script -i h.data --header-only 2>/dev/null | "
				     "grep -c 'id = { 1, 3, 5, 7, 9 }'"),
			 1);
	/* The last of the records of AUX continues where its processor's first one ended. */
	assert_int_equal(number_from("perf report -i h.data -D 2>/dev/null | "
				     "sed -n 's/.*PERF_RECORD_AUX offset: \\(0x[^ ]*\\).*/\\1/p' | "
				     "tail -1 | xargs printf '%d\\n'"),
			 half);
}

TEST(processors_that_come_online)
{
	static struct play p;
	struct ptah_record_config config;
	struct ptah_recorder *r;
	uint64_t ids[16];

	if (!record_with_qemu(&p))
		skip();
	config = all_cpus_config();
	config.output.sink = NULL;
	config.output.path = "h.data";
	r = let_them_come(&p, &config);
	/* A file whose recorder is killed now has the ids as well. */
	for (unsigned event = 0; event < 2; event++) {
		assert_int_equal(ids_in_file("h.data", event, ids, 16), 5);
		for (unsigned i = 0; i < 5; i++)
			assert_int_equal(ids[i], 2 * i + event + 1);
	}
	finish(&p, r);
	check_stream(&p);
	check_with_perf(&p);
	if (has_command())
		assert_int_equal(number_from("\"$PTAH\" stat h.data 2>/dev/null | tr -d , | "
					     "awk '$1 == \"instructions\" { print $2 }'"),
				 2 * p.instructions);
	free(p.trace);
	p = (struct play){0};
}

/* As a file that was made through a pipe: 16 bytes, then the pieces, those of trace with a head. */
static int take_as_pipe(void *context, const struct ptah_record_piece *piece)
{
	const size_t padding = -piece->size & 7;
	const uint64_t head[6] = {PERFDATA_AUXTRACE | UINT64_C(48) << 48,
				  piece->size + padding,
				  piece->offset,
				  1,
				  piece->stream | (uint64_t)(uint32_t)piece->tid << 32,
				  (uint32_t)piece->cpu};
	FILE *f = context;

	if (piece->kind == PTAH_RECORD_PIECE_TRACE)
		fwrite(head, sizeof(head), 1, f);
	fwrite(piece->bytes, piece->size, 1, f);
	fwrite("\0\0\0\0\0\0\0", padding, 1, f);
	return 0;
}

TEST(processors_that_come_online_into_a_sink)
{
	static struct play p;
	const uint64_t size = 16;
	FILE *f = fopen("h.pipe", "w");
	const struct ptah_record_sink to = {.take = take_as_pipe, .context = f};
	struct ptah_record_config config;

	assert_non_null(f);
	if (!record_with_qemu(&p))
		skip();
	fwrite("PERFILE2", 8, 1, f);
	fwrite(&size, 8, 1, f);
	config = all_cpus_config();
	config.output.sink = &to;
	finish(&p, let_them_come(&p, &config));
	assert_int_equal(fclose(f), 0);
	if (system("command -v perf >/dev/null") == 0)
		assert_int_equal(
		    number_from(
			"cat h.pipe | perf script -i - --itrace=i0ns -F ip 2>/dev/null | wc -l"),
		    2 * p.instructions);
	if (has_command())
		assert_int_equal(number_from("\"$PTAH\" stat h.pipe 2>/dev/null | tr -d , | "
					     "awk '$1 == \"instructions\" { print $2 }'"),
				 2 * p.instructions);
	free(p.trace);
}

/*
 * Threads with an event for each processor: their processors that come online later are noted.
 * Those with one event for all of them miss nothing.
 */
TEST(threads_on_processors_that_come_online)
{
	const int32_t pid = getpid();

	for (int per_thread = 0; per_thread < 2; per_thread++) {
		struct ptah_record_config config = all_cpus_config();
		struct ptah_recorder *r;
		unsigned events;

		config.target.kind = PTAH_RECORD_PROCESSES;
		config.target.ids = &pid;
		config.target.id_count = 1;
		config.target.per_thread = per_thread;
		r = start(&config);
		events = fake_count;
		put_online("0-1,3\n");
		assert_int_equal(ptah_recorder_poll(r, 0), 1);
		ahead++;
		assert_int_equal(ptah_recorder_poll(r, 0), 1);
		assert_int_equal(fake_count, events);
		assert_int_equal(status_of(r).notes, !per_thread);
		assert_int_equal(ptah_recorder_finish(r), 0);
		ptah_recorder_free(r);
	}
}

static unsigned late_attrs;

static int count_attrs(void *context, const struct ptah_record_piece *piece)
{
	uint32_t type;

	(void)context;
	if (piece->kind == PTAH_RECORD_PIECE_TRACE)
		return 0;
	memcpy(&type, piece->bytes, sizeof(type));
	late_attrs +=
	    type == PERFDATA_HEADER_ATTR && piece->size == 8 + PERFDATA_ATTR_SIZE + 8; /* one id */
	return 0;
}

/* With a pause, of chosen processors, into a sink; and what cannot be recorded is noted. */
TEST(processors_by_choice)
{
	static const struct ptah_record_sink counting = {.take = count_attrs, .context = NULL};
	const int32_t chosen[] = {1};
	struct ptah_record_config config = all_cpus_config();
	struct ptah_recorder *r;
	unsigned before;

	late_attrs = 0;
	config.output.sink = &counting;
	r = start(&config);
	assert_int_equal(ptah_recorder_pause(r, true), 0);
	put_online("0-2\n");
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	assert_int_equal(fake_count, 6);
	assert_true(!fakes[4].on && fakes[5].on);
	assert_int_equal(late_attrs, 2);
	assert_int_equal(ptah_recorder_pause(r, false), 0);
	assert_true(fakes[4].on);
	/* Nothing changes: no further events. */
	ahead++;
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	assert_int_equal(fake_count, 6);
	/* While a processor is offline, the others are switched off and on. */
	put_online("0,2\n");
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	assert_int_equal(ptah_recorder_pause(r, true), 0);
	assert_int_equal(ptah_recorder_pause(r, false), 0);
	assert_true(fakes[0].on && fakes[4].on);
	/* Another tracer has the next one: noted once. */
	refuse_with = EBUSY;
	put_online("0,2-3\n");
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	ahead++;
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	assert_int_equal(status_of(r).notes, 3);
	assert_int_equal(ptah_recorder_finish(r), 0);
	ptah_recorder_free(r);

	config = all_cpus_config();
	config.target.ids = chosen;
	config.target.id_count = 1;
	r = start(&config);
	before = fake_count;
	put_online("0,2\n");
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	assert_int_equal(fake_count, before);
	put_online("0-2\n");
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	assert_int_equal(fake_count, before + 2);
	assert_int_equal(fakes[before].cpu, 1);
	assert_int_equal(ptah_recorder_finish(r), 0);
	ptah_recorder_free(r);
}

/* The triggers of a processor end and begin with its trace. */
TEST(triggers_on_processors_that_come_and_go)
{
	static const struct ptah_record_trigger pause = {PTAH_TRIGGER_TRACEPOINT, false,
							 "syscalls:sys_enter_write", 0};
	struct ptah_record_config config = all_cpus_config();
	struct ptah_recorder *r;

	put_events();
	config.triggers.items = &pause;
	config.triggers.count = 1;
	r = start(&config);
	assert_int_equal(fake_count, 6); /* trace, trigger and records of two processors */
	put_online("0\n");
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(is_open(&fakes[i]), i < 3);
	put_online("0-1\n");
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	assert_int_equal(fake_count, 9);
	assert_int_equal(fakes[7].cpu, 1);
	assert_int_equal(fakes[7].group, fakes[6].fd);
	assert_true(is_open(&fakes[7]));
	assert_int_equal(ptah_recorder_finish(r), 0);
	ptah_recorder_free(r);
	for (unsigned i = 0; i < 9; i++)
		assert_false(is_open(&fakes[i]));
}

TEST_GROUP(enter, leave)
