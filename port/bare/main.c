/* SPDX-License-Identifier: MIT */
/*
 * The bare image: it records its own path by Intel PT and prints it on the serial line. First a
 * short path, packet by packet; then a path that is much longer than the buffer, which is emptied
 * by PMIs, and of which every call is counted in the packets. With "crash" at the end of its command
 * line it crashes instead, while a buffer that wraps is traced, for a dump of its memory.
 * docs/port-bare.md.
 */
#include "port.h"
#include "program.h"
#include "show.h"

#include <string.h>

#define EXIT_FINE  16u /* isa-debug-exit makes 2 * 16 + 1 of it: 33 */
#define EXIT_WRONG 17u

#define BUFFER	   ((size_t)16 << 10)
#define REGION	   ((size_t)4 << 10)
#define LONG_PATH  10000u
#define CRASH_PATH 30000u /* some laps of the buffer */

/* What the boot loader passes (Multiboot specification, "Boot information format"). */
struct multiboot_info {
	uint32_t flags;			     /* bit 0: the next two are valid */
	uint32_t memory_below, memory_above; /* KB below 640 KB, and from 1 MB on */
	uint32_t boot_device;
	uint32_t command_line; /* bit 2 of the flags: its address */
};

void bare_main(const struct multiboot_info *info);

/* The bytes that have been taken out of the engine's buffer. */
static uint8_t trace[256 << 10];
static size_t traced;

/* The engine calls this, also in a PMI: it takes the bytes [tail, position) out of the buffer. */
static uint64_t take(void *cookie, struct ptah_capture *capture, uint64_t tail, uint64_t position)
{
	struct ptah_piece pieces[4];
	int n = ptah_capture_pieces(capture, tail, position, pieces, 4);

	(void)cookie;
	for (int i = 0; i < n && pieces[i].size <= sizeof(trace) - traced; i++) {
		memcpy(trace + traced, pieces[i].address, pieces[i].size);
		traced += pieces[i].size;
		tail += pieces[i].size;
	}
	return tail;
}

static _Noreturn void fail(const char *what, int error)
{
	bare_print(what);
	bare_print(": ");
	bare_print(error ? ptah_strerror(error) : "not as expected");
	bare_print("\n");
	bare_exit(EXIT_WRONG);
}

static void check(int status, const char *what)
{
	if (status < 0)
		fail(what, status);
}

static struct ptah_engine *new_engine(struct ptah_trace_config *config)
{
	struct ptah_engine *engine;
	const struct ptah_caps *caps;

	check(ptah_engine_new(&bare_port, NULL, &engine), "ptah_engine_new");
	caps = ptah_engine_caps(engine, 0);
	if (caps->obstacle) {
		bare_print(ptah_caps_advice(caps->obstacle));
		bare_print("\n");
		bare_exit(EXIT_WRONG);
	}
	bare_print("processor: family ");
	bare_print_number(caps->cpu.family);
	bare_print(", model ");
	bare_print_hex(caps->cpu.model);
	bare_print(", address ranges ");
	bare_print_number(caps->ranges);
	bare_print("\n");
	ptah_trace_config_default(caps, config);
	config->tsc = false;
	config->no_retcomp = true; /* each return has its address */
	if (caps->ranges)
		config->ranges[0] = (struct ptah_range){
		    (uintptr_t)traced_begin, (uintptr_t)traced_end - 1, PTAH_RANGE_FILTER};
	return engine;
}

static struct ptah_capture *new_capture(struct ptah_engine *engine,
					const struct ptah_trace_config *trace_config,
					uint8_t policy)
{
	const struct ptah_capture_config config = {.size = sizeof(config),
						   .trace = trace_config,
						   .policy = policy,
						   .buffer = BUFFER,
						   .region = REGION,
						   .pmis = BUFFER / REGION,
						   .drain =
						       policy == PTAH_POLICY_DRAIN ? take : NULL};
	struct ptah_trace_problem problem = {0};
	struct ptah_capture *capture;
	int status = ptah_capture_new(engine, &config, &capture, &problem);

	if (status < 0 && problem.field) {
		bare_print(problem.field);
		bare_print(" ");
		bare_print(problem.reason);
		bare_print("\n");
	}
	check(status, "ptah_capture_new");
	return capture;
}

static void show_short_path(struct ptah_capture *capture)
{
	unsigned result;

	check(ptah_capture_start(capture), "ptah_capture_start");
	result = short_path();
	check(ptah_capture_stop(capture), "ptah_capture_stop");
	bare_print("the path of short_path(), which returned ");
	bare_print_number(result);
	bare_print(":\n");
	if (!show_packets(trace, traced))
		fail("packets", 0);
}

static void count_long_path(struct ptah_capture *capture)
{
	struct ptah_capture_status status = {.size = sizeof(status)};
	size_t before = traced;
	long calls;

	check(ptah_capture_start(capture), "ptah_capture_start");
	long_path(LONG_PATH);
	check(ptah_capture_stop(capture), "ptah_capture_stop");
	ptah_capture_status(capture, &status);
	calls = show_count(trace + before, traced - before, (uintptr_t)step);
	bare_print("long_path(): ");
	bare_print_number(steps);
	bare_print(" calls of step(), ");
	bare_print_number((uint64_t)calls);
	bare_print(" in the trace of ");
	bare_print_number(traced - before);
	bare_print(" bytes; a buffer of ");
	bare_print_number(status.buffer);
	bare_print(", ");
	bare_print_number(status.pmis);
	bare_print(" PMIs, ");
	bare_print_number(status.position - traced);
	bare_print(" bytes lost\n");
	if (calls != LONG_PATH || status.position != traced || !status.pmis)
		fail("long_path()", 0);
}

/* Whether the command line, if there is one, ends with this word. */
static bool is_told_to(const struct multiboot_info *info, const char *word)
{
	const char *text = (const char *)(uintptr_t)info->command_line;
	size_t n = 0, length = 0;

	while (word[length])
		length++;
	while (info->flags & 4 && text[n])
		n++;
	while (length && n && text[n - 1] == word[length - 1])
		n--, length--;
	return !length;
}

static _Noreturn void crash_traced(struct ptah_engine *engine,
				   const struct ptah_trace_config *config)
{
	check(ptah_capture_start(new_capture(engine, config, PTAH_POLICY_WRAP)),
	      "ptah_capture_start");
	crash(CRASH_PATH);
	fail("crash()", 0);
}

void bare_main(const struct multiboot_info *info)
{
	struct ptah_trace_config config;
	struct ptah_engine *engine;
	struct ptah_capture *capture;
	bool crashes = is_told_to(info, "crash"); /* before the memory behind the image is used */

	bare_serial_begin();
	bare_interrupts_begin();
	if (!(info->flags & 1))
		fail("the boot loader says nothing about memory", 0);
	bare_memory_begin(((uint64_t)info->memory_above + 1024) << 10);
	engine = new_engine(&config);
	bare_pmi_to(engine);
	if (crashes)
		crash_traced(engine, &config);
	capture = new_capture(engine, &config, PTAH_POLICY_DRAIN);
	show_short_path(capture);
	count_long_path(capture);
	bare_export(trace, traced);
	check(ptah_capture_free(capture), "ptah_capture_free");
	bare_pmi_to(NULL);
	check(ptah_engine_free(engine), "ptah_engine_free");
	if (bare_memory_used())
		fail("memory that was not released", 0);
	bare_print("done\n");
	bare_exit(EXIT_FINE);
}
