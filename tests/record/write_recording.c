/* SPDX-License-Identifier: MIT */
/*
 * Captures what simulated processors run, by the engine, and writes it through the public writer:
 * what a driver and its companion do. recording.sh compares what decoders find with the numbers
 * that this prints.
 *
 * write_recording SCENARIO CODE [FILE]: CODE is a file that gets the code; without FILE, the
 * recording goes to standard output. To standard error it prints "stream I INSTRUCTIONS" for each
 * stream, and "time BEGIN END" in nanoseconds, between which everything ran.
 */
#include <ptah/model/machine.h>
#include <ptah/recording.h>

#include "base/path_hash.h"
#include "record/recording.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MEMORY	 ((size_t)16 << 20)
#define CODE	 UINT64_C(0x401000)
#define KERNEL	 UINT64_C(0xffffffff81000000)
#define ROUNDS	 100
#define PROCESS	 100 /* the first pid */
#define CPUS	 2
#define MAX_PATH 4096

/* A loop of so many rounds, then a jump to its beginning through a register. */
static const uint8_t code[] = {
    0xff, 0xc9, /* dec ecx */
    0x75, 0xfc, /* jnz back to it */
    0xff, 0xe0, /* jmp rax */
};

/* In the kernel: two nops, iretq. */
static const uint8_t kernel_code[] = {0x90, 0x90, 0x48, 0xcf};

struct stream {
	struct ptah_capture *capture;
	uint32_t number;
	struct ptah_truth truth;
	struct path_hash path;
	uint64_t drained;
};

static struct {
	struct ptah_machine *machine;
	struct ptah_hal hal;
	struct ptah_engine *engine;
	struct ptah_recording *recording;
	struct stream streams[4];
	unsigned stream_count;
	uint64_t first_tsc, begin, end;
	uint64_t cuts; /* for the size of the next piece */
	bool os;
	uint64_t loop; /* where the loop begins: so many bytes after the code */
	char code_path[MAX_PATH + 8];
} the;

static void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, ptah_recording_why(the.recording));
	exit(1);
}

static void check(int status, const char *what)
{
	if (status < 0)
		die(what);
}

/* The machine */

static void on_pmi(void *argument, unsigned cpu)
{
	(void)argument, (void)cpu;
	ptah_engine_pmi(the.engine);
}

static void open_machine(void)
{
	struct ptah_machine_config config = {.size = sizeof(config),
					     .cpus = CPUS,
					     .processor = ptah_model_find("skylake"),
					     .arena_size = MEMORY};

	the.machine = malloc(ptah_machine_size(CPUS));
	config.arena = aligned_alloc(4096, MEMORY);
	if (!the.machine || !config.arena || ptah_machine_init(the.machine, &config) < 0)
		exit(1);
	ptah_machine_hal(the.machine, &the.hal);
	check(ptah_engine_new(&the.hal, the.machine, &the.engine), "engine");
	ptah_machine_on_pmi(the.machine, on_pmi, NULL);
	for (unsigned i = 0; i < CPUS; i++) {
		const struct ptah_model_context kernel = {.mode = PTAH_EXEC_64};

		ptah_model_choose(ptah_machine_model(the.machine, i),
				  &(struct ptah_model_choices){.whole_ip = true});
		ptah_model_set_tsc(ptah_machine_model(the.machine, i), the.first_tsc);
		ptah_model_begin(ptah_machine_model(the.machine, i), KERNEL, &kernel);
	}
}

static struct ptah_model *processor(unsigned cpu)
{
	ptah_machine_set_cpu(the.machine, cpu);
	return ptah_machine_model(the.machine, cpu);
}

/* The time of both processors goes on. */
static uint64_t later(unsigned cpu, uint64_t ticks)
{
	struct ptah_model *m = ptah_machine_model(the.machine, cpu);
	struct ptah_model *other = ptah_machine_model(the.machine, !cpu);

	ptah_model_pass(m, ticks);
	if (ptah_model_tsc(other) < ptah_model_tsc(m))
		ptah_model_pass(other, ptah_model_tsc(m) - ptah_model_tsc(other));
	return ptah_model_tsc(m);
}

static void count(struct stream *s, uint64_t begin, uint64_t end, uint64_t instructions)
{
	s->truth.instructions += instructions;
	path_hash_add(&s->path, begin, end);
}

/* A thread runs on a processor from the kernel's IRET to the next timer interrupt. */
static void run_slice(struct stream *s, unsigned cpu, uint64_t at)
{
	struct ptah_model *m = processor(cpu);
	const struct ptah_model_context user = {.cpl = 3, .mode = PTAH_EXEC_64};
	const struct ptah_model_context kernel = {.cpl = 0, .mode = PTAH_EXEC_64};
	const struct ptah_model_transfer enter = {
	    .kind = PTAH_MODEL_IRET, .ip = KERNEL + 2, .to = at, .after = user};
	const struct ptah_model_transfer timer = {
	    .kind = PTAH_MODEL_INTERRUPT, .ip = at, .to = KERNEL, .after = kernel};
	const struct ptah_model_branch jump = {at + 4, at + 6, at, PTAH_INSN_JUMP_IND, true};

	if (the.os)
		count(s, KERNEL, KERNEL + sizeof(kernel_code), 3);
	ptah_model_transfer(m, &enter);
	for (unsigned i = ROUNDS; i; i--) {
		const struct ptah_model_branch loop = {at + 2, at + 4, at + the.loop,
						       PTAH_INSN_COND, i > 1};
		/* The other program's two nops, and then one of them. */
		const uint64_t begin = i == ROUNDS ? at : at + the.loop;

		later(cpu, 100 + i % 3);
		ptah_model_branch(m, &loop);
		count(s, begin, at + 4, the.loop && i == ROUNDS ? 3 : 2);
		s->truth.conditional++;
	}
	later(cpu, 3);
	ptah_model_branch(m, &jump);
	count(s, at + 4, at + 6, 1);
	s->truth.indirect++;
	ptah_model_transfer(m, &timer);
	ptah_model_stand(m, KERNEL);
	if (the.end < ptah_model_tsc(m))
		the.end = ptah_model_tsc(m);
}

/* The companion */

static void add_records(const struct stream *s)
{
	struct ptah_capture_record records[16];
	int n;

	while ((n = ptah_capture_records(s->capture, records, 16)) > 0)
		check(ptah_recording_add_records(the.recording, s->number, records, (size_t)n),
		      "records");
}

/* Takes what a capture has, in pieces that end anywhere in a packet. */
static void drain(struct stream *s)
{
	uint64_t position, at;
	struct ptah_piece pieces[4];
	int n;

	check(ptah_capture_flush(s->capture, &position), "flush");
	add_records(s);
	for (at = s->drained; at < position; at = s->drained) {
		uint64_t size = 1 + (the.cuts = the.cuts * 5 + 3) % 301;

		if (size > position - at)
			size = position - at;
		n = ptah_capture_pieces(s->capture, at, at + size, pieces, 4);
		check(n, "pieces");
		check(ptah_recording_add_pieces(the.recording, s->number, at, pieces, (size_t)n),
		      "trace");
		s->drained += size;
	}
	check(ptah_capture_consume(s->capture, position, NULL), "consume");
	check(ptah_recording_flush(the.recording), "flush");
}

static void write_bytes(const char *path, const uint8_t *bytes, size_t size)
{
	FILE *f = fopen(path, "w");

	if (!f || fwrite(bytes, size, 1, f) != 1 || fclose(f))
		exit(1);
}

static void write_code(const char *path)
{
	write_bytes(path, code, sizeof(code));
	if (!realpath(path, the.code_path))
		exit(1);
}

static void open_recording(const char *path, uint8_t kind, const struct ptah_trace_config *trace,
			   bool snapshot)
{
	static char *const command[] = {(char *)"write_recording", NULL};
	struct ptah_recording_config config = {.size = sizeof(config),
					       .path = path,
					       .fd = STDOUT_FILENO,
					       .kind = kind,
					       .snapshot = snapshot,
					       .caps = ptah_engine_caps(the.engine, 0),
					       .trace = trace,
					       .command = command};
	struct ptah_message why;

	if (ptah_recording_new(&config, &the.recording, &why) < 0) {
		fprintf(stderr, "%s\n", why.text);
		exit(1);
	}
}

static void add_task(enum ptah_recording_change kind, int32_t pid, uint64_t tsc, const char *name)
{
	const struct ptah_recording_task task = {.size = sizeof(task),
						 .kind = (uint8_t)kind,
						 .pid = pid,
						 .tid = pid,
						 .tsc = tsc,
						 .name = name};

	check(ptah_recording_add_task(the.recording, &task), "task");
}

/* Process i, with the code at the same address in each. */
static void add_process(unsigned i)
{
	const int32_t pid = PROCESS + (int32_t)i;
	struct ptah_recording_map map = {
	    .size = sizeof(map), .pid = pid, .address = CODE, .bytes = 4096, .path = the.code_path};
	char name[16];

	snprintf(name, sizeof(name), "worker-%u", i);
	add_task(PTAH_RECORDING_NAME, pid, 0, name);
	check(ptah_recording_add_map(the.recording, &map), "map");
}

static struct stream *new_capture(const struct ptah_trace_config *trace, int cpu, uint8_t policy,
				  size_t buffer)
{
	struct stream *s = &the.streams[the.stream_count++];
	struct ptah_capture_config config = {
	    .size = sizeof(config), .trace = trace, .cpu = cpu, .policy = policy, .buffer = buffer};
	struct ptah_trace_problem problem = {0};

	if (ptah_capture_new(the.engine, &config, &s->capture, &problem) < 0) {
		fprintf(stderr, "%s: %s\n", problem.field, problem.reason);
		exit(1);
	}
	check(ptah_capture_start(s->capture), "start");
	if (!the.begin)
		the.begin = ptah_model_tsc(processor(cpu < 0 ? 0 : (unsigned)cpu));
	return s;
}

/* By the crystal's frequency and the ratio in CPUID.15H. */
static double nanoseconds(uint64_t tsc)
{
	const struct ptah_caps *caps = ptah_engine_caps(the.engine, 0);

	return (double)tsc * 1e9 * caps->tsc_d / caps->tsc_n / caps->crystal_hz;
}

static void finish(bool truth)
{
	for (unsigned i = 0; i < the.stream_count; i++) {
		struct stream *s = &the.streams[i];

		s->truth.path_hash = path_hash_value(&s->path);
		if (truth)
			check(recording_add_truth(the.recording, s->number, &s->truth), "truth");
		fprintf(stderr, "stream %u %" PRIu64 "\n", i, s->truth.instructions);
		check(ptah_capture_free(s->capture), "free");
	}
	fprintf(stderr, "time %.0f %.0f\n", nanoseconds(the.begin), nanoseconds(the.end));
	check(ptah_recording_finish(the.recording), "finish");
	ptah_recording_free(the.recording);
	check(ptah_engine_free(the.engine), "engine");
	if (ptah_machine_violation(the.machine)) {
		fprintf(stderr, "%s\n", ptah_machine_violation(the.machine));
		exit(1);
	}
}

/* Scenarios */

static struct ptah_trace_config options(bool os)
{
	struct ptah_trace_config trace;

	ptah_trace_config_default(ptah_engine_caps(the.engine, 0), &trace);
	trace.os = the.os = os;
	trace.mtc = trace.cyc = true;
	trace.mtc_period = 3;
	return trace;
}

static void switch_thread(struct stream *s, unsigned cpu, bool in)
{
	uint64_t irqs;

	processor(cpu);
	irqs = the.hal.irq_save(the.machine);
	if (in)
		check(ptah_capture_switch_in(s->capture), "switch in");
	else
		ptah_capture_switch_out(s->capture);
	the.hal.irq_restore(the.machine, irqs);
}

/* A capture follows each of two threads, which change the processor. */
static void threads(const char *path)
{
	const struct ptah_trace_config trace = options(false);

	open_recording(path, PTAH_RECORDING_THREADS, &trace, false);
	for (unsigned i = 0; i < 2; i++) {
		struct stream *s =
		    new_capture(&trace, PTAH_CAPTURE_THREAD, PTAH_POLICY_DRAIN, 1 << 16);
		const struct ptah_recording_stream of = {
		    .size = sizeof(of), .pid = PROCESS + (int32_t)i, .tid = PROCESS + (int32_t)i};

		add_process(i);
		check(ptah_recording_add_stream(the.recording, &of, &s->number), "stream");
	}
	for (unsigned slice = 0; slice < 200; slice++) {
		struct stream *s = &the.streams[slice % 2];
		const unsigned cpu = (slice + slice / 2) % 2;

		switch_thread(s, cpu, true);
		run_slice(s, cpu, CODE);
		switch_thread(s, cpu, false);
		if (slice % 10 > 7)
			drain(s);
	}
	for (unsigned i = 0; i < 2; i++) {
		check(ptah_capture_stop(the.streams[i].capture), "stop");
		drain(&the.streams[i]);
	}
	finish(true);
}

/* Three processes take turns on two processors, which are captured. */
static void processors(const char *path, bool os)
{
	const struct ptah_trace_config trace = options(os);

	open_recording(path, PTAH_RECORDING_CPUS, &trace, false);
	for (unsigned i = 0; i < 3; i++)
		add_process(i);
	if (os)
		check(ptah_recording_add_code(the.recording, PTAH_RECORDING_KERNEL, 0, KERNEL,
					      kernel_code, sizeof(kernel_code), "dispatch"),
		      "code");
	for (unsigned cpu = 0; cpu < CPUS; cpu++) {
		struct stream *s = new_capture(&trace, (int)cpu, PTAH_POLICY_DRAIN, 1 << 19);
		const struct ptah_recording_stream of = {.size = sizeof(of), .cpu = (int32_t)cpu};

		check(ptah_recording_add_stream(the.recording, &of, &s->number), "stream");
	}
	for (unsigned slice = 0; slice < 200; slice++) {
		const unsigned cpu = slice % 2;
		const int32_t pid = PROCESS + (int32_t)(slice / 2 + cpu) % 3;

		check(ptah_recording_add_switch(the.recording, (int32_t)cpu, later(cpu, 5000), pid,
						pid),
		      "switch");
		later(cpu, 5000);
		run_slice(&the.streams[cpu], cpu, CODE);
		later(cpu, 5000);
		if (slice % 10 > 7)
			drain(&the.streams[cpu]);
	}
	for (unsigned i = 0; i < CPUS; i++) {
		check(ptah_capture_stop(the.streams[i].capture), "stop");
		drain(&the.streams[i]);
	}
	finish(true);
}

/*
 * A thread executes another program, whose code is at the same addresses in another file: the
 * capture and the stream continue. With `generated` the code is in no file, and is rewritten.
 */
static void programs(const char *path, bool generated)
{
	static const uint8_t other[] = {0x90, 0x90, 0x75,
					0xfd, 0xff, 0xe0}; /* jnz to the second nop */
	const struct ptah_trace_config trace = options(false);
	const struct ptah_recording_stream of = {
	    .size = sizeof(of), .pid = PROCESS, .tid = PROCESS};
	struct ptah_recording_map map = {.size = sizeof(map),
					 .pid = PROCESS,
					 .address = CODE,
					 .bytes = 4096,
					 .path = the.code_path};
	struct stream *s;

	open_recording(path, PTAH_RECORDING_THREADS, &trace, false);
	if (generated)
		check(ptah_recording_add_code(the.recording, PROCESS, 0, CODE, code, sizeof(code),
					      NULL),
		      "code");
	else
		add_process(0);
	s = new_capture(&trace, PTAH_CAPTURE_THREAD, PTAH_POLICY_DRAIN, 1 << 19);
	check(ptah_recording_add_stream(the.recording, &of, &s->number), "stream");
	for (unsigned slice = 0; slice < 100; slice++) {
		const uint64_t now = later(0, 5000);

		if (slice == 50) {
			the.loop = 1;
			map.tsc = now;
			strcat(the.code_path, ".other");
			write_bytes(the.code_path, other, sizeof(other));
		}
		if (slice == 50 && generated)
			check(ptah_recording_add_code(the.recording, PROCESS, now, CODE, other,
						      sizeof(other), NULL),
			      "code");
		if (slice == 50 && !generated) {
			add_task(PTAH_RECORDING_EXEC, PROCESS, now, "other");
			check(ptah_recording_add_map(the.recording, &map), "map");
		}
		later(0, 5000);
		switch_thread(s, 0, true);
		run_slice(s, 0, CODE);
		switch_thread(s, 0, false);
		if (slice % 10 == 9)
			drain(s);
	}
	check(ptah_capture_stop(s->capture), "stop");
	drain(s);
	finish(true);
}

/* A ring that has wrapped many times: the stream begins in the middle. */
static void ring(const char *path, bool snapshots)
{
	const struct ptah_trace_config trace = options(false);
	const struct ptah_recording_stream of = {.size = sizeof(of)};
	struct ptah_capture_status status = {.size = sizeof(status)};
	struct ptah_piece pieces[8];
	struct stream *s;

	open_recording(path, PTAH_RECORDING_CPUS, &trace, snapshots);
	add_process(0);
	s = new_capture(&trace, 0, PTAH_POLICY_WRAP, 1 << 15);
	check(ptah_recording_add_stream(the.recording, &of, &s->number), "stream");
	check(ptah_recording_add_switch(the.recording, 0, 0, PROCESS, PROCESS), "switch");
	for (unsigned i = 0; i < (snapshots ? 4 : 1); i++) {
		int n;

		/* The third snapshot overlaps with the second. */
		for (unsigned slice = 0; slice < (i == 2 ? 50 : 1000); slice++)
			run_slice(s, 0, CODE);
		check(ptah_capture_pause(s->capture), "pause");
		check(ptah_capture_status(s->capture, &status), "status");
		n = ptah_capture_pieces(s->capture, status.oldest, status.position, pieces, 8);
		check(n, "pieces");
		check(ptah_recording_add_pieces(the.recording, s->number, status.oldest, pieces,
						(size_t)n),
		      "trace");
		add_records(s);
		check(ptah_capture_resume(s->capture), "resume");
	}
	check(ptah_capture_stop(s->capture), "stop");
	finish(false);
}

int main(int argc, char **argv)
{
	const char *scenario = argc > 2 ? argv[1] : "", *path = argc > 3 ? argv[3] : NULL;

	if (argc < 3 || argc > 4)
		return 2;
	write_code(argv[2]);
	/* 556 days at 3 GHz: TSC packets have less bits. */
	the.first_tsc = 1000000 + (strcmp(scenario, "uptime") ? 0 : UINT64_C(1) << 57);
	open_machine();
	if (!strcmp(scenario, "threads"))
		threads(path);
	else if (!strcmp(scenario, "processors"))
		processors(path, false);
	else if (!strcmp(scenario, "kernel"))
		processors(path, true);
	else if (!strcmp(scenario, "exec") || !strcmp(scenario, "uptime"))
		programs(path, false);
	else if (!strcmp(scenario, "generated"))
		programs(path, true);
	else if (!strcmp(scenario, "ring"))
		ring(path, false);
	else if (!strcmp(scenario, "snapshots"))
		ring(path, true);
	else
		return 2;
	return 0;
}
