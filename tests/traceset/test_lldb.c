/* SPDX-License-Identifier: MIT */
/*
 * LLDB's trace bundles: every form of trace.json, with the words that refuse a wrong one, and
 * decodes that must equal those of a perf.data file with the same trace.
 *
 * The forms are those of the files in LLDB's own test suite, lldb/test/API/commands/trace.
 */
#include "folder.h"
#include "perfdata/build.h"

#include "traceset/set.h"

#include <elf.h>
#include <sys/stat.h>

static struct ptah_message why;

static struct ptah_trace_set *load(const char *json)
{
	struct ptah_trace_set *set;

	write_file("b/trace.json", json, strlen(json));
	if (ptah_trace_set_open("b", &set, &why) < 0)
		fail_msg("%s", why.text);
	return set;
}

static bool ends_with(const char *text, const char *end)
{
	return strlen(text) >= strlen(end) && !strcmp(text + strlen(text) - strlen(end), end);
}

/* What is read */

#define INTEL(f, m, s)                                                                             \
	"\"vendor\":\"GenuineIntel\",\"family\":" #f ",\"model\":" #m ",\"stepping\":" #s

#define TYPE "\"type\":\"intel-pt\",\"cpuInfo\":{" INTEL(6, 79, 1) "}"

/* Two processes with two modules and one thread; in each form of the file. */
static void check_threads(const char *json)
{
	static const uint8_t id[20] = {0x6a, 0xa9, 0xa4, 0xe2, 0x6f, 0x28, 0x2f, 0x33, 0x37, 0x7d,
				       0x59, 0xfe, 0xce, 0x87, 0x4c, 0x71, 0x5b, 0x41, 0x26, 0x1a};
	struct ptah_trace_set *set = load(json);

	assert_int_equal(set->processor.cpu.family, 6);
	assert_int_equal(set->processor.cpu.model, 79);
	assert_int_equal(set->processor.cpu.stepping, 1);
	assert_false(set->processor.has_clock);
	assert_int_equal(set->stream_count, 1);
	assert_int_equal(set->streams[0].cpu, -1);
	assert_int_equal(set->streams[0].pid, 1234);
	assert_int_equal(set->streams[0].tid, 3842849);
	assert_true(ends_with(set->streams[0].file.path, "/b/threads/3842849.trace"));
	assert_int_equal(set->thread_count, 1);
	assert_int_equal(set->code_count, 2);
	assert_int_equal(set->code[0].kind, PTAH_TRACE_CODE_ELF);
	assert_int_equal(set->code[0].pid, 1234);
	assert_int_equal(set->code[0].address, 0x400000);
	assert_int_equal(set->code[0].build_id_size, 20);
	assert_memory_equal(set->code[0].build_id, id, 20);
	assert_true(ends_with(set->code[0].file.path, "/b/modules/a.out"));
	assert_string_equal(set->code[0].recorded_path, "/usr/bin/a.out");
	/* Only where it was: it may still be there. */
	assert_int_equal(set->code[1].pid, 5678);
	assert_int_equal(set->code[1].address, UINT64_C(0x7ffff7bd9000));
	assert_int_equal(set->code[1].build_id_size, 0);
	assert_string_equal(set->code[1].file.path, "/usr/lib/b.so");
	assert_int_equal(set->sideband_count, 0);
	ptah_trace_set_free(set);
}

TEST(traces_of_threads)
{
	check_threads("{" TYPE ",\"cpus\":null,\"kernel\":null,\"tscPerfZeroConversion\":null,"
		      "\"processes\":[{\"pid\":1234,\"triple\":\"x86_64-*-linux\",\"threads\":"
		      "[{\"tid\":3842849,\"iptTrace\":\"threads/3842849.trace\"}],\"modules\":["
		      "{\"systemPath\":\"/usr/bin/a.out\",\"file\":\"modules/a.out\","
		      "\"loadAddress\":4194304,"
		      "\"uuid\":\"6AA9A4E2-6F28-2F33-377D-59FECE874C71-5B41261A\"}]},"
		      "{\"pid\":5678,\"threads\":[],\"modules\":[{\"systemPath\":"
		      "\"/usr/lib/b.so\",\"loadAddress\":\"140737349783552\",\"uuid\":\"\"}]}]}");
	/* before that: the names of 2022 */
	check_threads("{" TYPE ",\"processes\":[{\"pid\":1234,\"threads\":"
		      "[{\"tid\":3842849,\"traceBuffer\":\"threads/3842849.trace\"}],\"modules\":["
		      "{\"systemPath\":\"/usr/bin/a.out\",\"file\":\"modules/a.out\","
		      "\"loadAddress\":4194304,"
		      "\"uuid\":\"6aa9a4e2-6f28-2f33-377d-59fece874c71-5b41261a\"}]},"
		      "{\"pid\":5678,\"threads\":[],\"modules\":[{\"systemPath\":"
		      "\"/usr/lib/b.so\",\"loadAddress\":140737349783552,"
		      "\"uuid\":\"12345678\"}]}]}");
	/* the first form, of 2020 */
	check_threads(
	    "{\"trace\":{\"type\":\"intel-pt\",\"pt_cpu\":{\"vendor\":\"intel\",\"family\":6,"
	    "\"model\":79,\"stepping\":1}},\"processes\":[{\"pid\":1234,\"triple\":\"\","
	    "\"threads\":[{\"tid\":3842849,\"traceFile\":\"threads/3842849.trace\"}],"
	    "\"modules\":[{\"file\":\"modules/a.out\",\"systemPath\":\"/usr/bin/a.out\","
	    "\"loadAddress\":\"0x0000000000400000\","
	    "\"uuid\":\"6AA9A4E26F282F33377D59FECE874C715B41261A\"}]},"
	    "{\"pid\":5678,\"threads\":[],\"modules\":[{\"systemPath\":"
	    "\"/usr/lib/b.so\",\"loadAddress\":\"0x00007ffff7bd9000\"}]}]}");
}

static void check_cpus(const char *json)
{
	struct ptah_trace_set *set = load(json);

	assert_true(set->processor.has_clock);
	assert_int_equal(set->processor.time_mult, 1076264588);
	assert_int_equal(set->processor.time_shift, 31);
	assert_int_equal(set->processor.time_zero, UINT64_C(18433473881008870804));
	assert_int_equal(set->stream_count, 2);
	assert_int_equal(set->streams[1].cpu, 51);
	assert_int_equal(set->streams[1].pid, -1);
	assert_int_equal(set->streams[1].tid, -1);
	assert_true(ends_with(set->streams[1].file.path, "/b/cores/51.intelpt_trace"));
	assert_int_equal(set->sideband_count, 2);
	assert_int_equal(set->sideband[0].cpu, 45);
	assert_int_equal(set->sideband[0].sample_type, 2 | 4); /* PERF_SAMPLE_TID, _TIME */
	assert_true(ends_with(set->sideband[0].file.path, "/b/45.switches"));
	assert_int_equal(set->thread_count, 2);
	assert_int_equal(set->threads[1].pid, 7);
	assert_int_equal(set->threads[1].tid, 8);
	/* Without a path of its own, relative to the bundle. */
	assert_true(ends_with(set->code[0].file.path, "/b/m.out"));
	assert_null(set->code[0].recorded_path);
	ptah_trace_set_free(set);
}

TEST(traces_of_cpus)
{
	static const char processes[] =
	    "\"processes\":[{\"pid\":7,\"threads\":[{\"tid\":7},{\"tid\":8,\"iptTrace\":null}],"
	    "\"modules\":[{\"systemPath\":\"m.out\",\"loadAddress\":1}]}]";
	char json[2048];

	snprintf(json, sizeof(json),
		 "{" TYPE ",\"cpus\":[{\"id\":45,\"iptTrace\":\"cores/45.intelpt_trace\","
		 "\"contextSwitchTrace\":\"45.switches\"},{\"contextSwitchTrace\":\"51.switches\","
		 "\"id\":51,\"iptTrace\":\"cores/51.intelpt_trace\"}],%s,"
		 "\"tscPerfZeroConversion\":{\"timeMult\":1076264588,\"timeShift\":31,"
		 "\"timeZero\":\"18433473881008870804\"}}",
		 processes);
	check_cpus(json);
	snprintf(json, sizeof(json),
		 "{" TYPE ",\"cores\":[{\"coreId\":45,\"traceBuffer\":\"cores/45.intelpt_trace\","
		 "\"contextSwitchTrace\":\"45.switches\"},{\"contextSwitchTrace\":\"51.switches\","
		 "\"coreId\":51,\"traceBuffer\":\"cores/51.intelpt_trace\"}],%s,"
		 "\"tscPerfZeroConversion\":{\"timeMult\":1076264588,\"timeShift\":31,"
		 "\"timeZero\":18433473881008870804}}",
		 processes);
	check_cpus(json);
}

/* What is refused */

#define CPU(id)		 "{\"id\":" #id ",\"iptTrace\":\"t\",\"contextSwitchTrace\":\"s\"}"
#define CLOCK		 "\"tscPerfZeroConversion\":{\"timeMult\":1,\"timeShift\":1,\"timeZero\":0}"
#define PROCESS(members) "{" TYPE ",\"processes\":[{\"pid\":1," members "}]}"
#define MODULE(members)                                                                            \
	PROCESS("\"modules\":[{\"systemPath\":\"/a\",\"loadAddress\":0," members "}]")

static const struct {
	const char *json, *message;
	int status;
} refused[] = {
    {"[]", "expected an object, found an array", PTAH_E_BAD_FILE},
    {"{}", "no trace bundle of LLDB, which has a member \"type\"", PTAH_E_FOREIGN},
    {"{\"traceEvents\":[]}", "no trace bundle of LLDB", PTAH_E_FOREIGN},
    {"{\"type\":\"arm-etm\"}", "type: a trace of \"arm-etm\", not of \"intel-pt\"", PTAH_E_FOREIGN},
    {"{\"type\":\"intel-pt\"}", "cpuInfo: an object is missing", PTAH_E_BAD_FILE},
    {"{\"trace\":{\"type\":\"intel-pt\",\"cpuInfo\":{\"vendor\":\"intel\"}}}",
     "trace.cpuInfo.family: a whole number from 0 to 65535 is missing", PTAH_E_BAD_FILE},
    {"{\"type\":\"intel-pt\",\"cpuInfo\":{\"vendor\":\"intel\",\"family\":6,\"model\":256,"
     "\"stepping\":1}}",
     "cpuInfo.model: expected a whole number from 0 to 255, found 256", PTAH_E_BAD_FILE},
    {"{\"type\":\"intel-pt\",\"cpuInfo\":{\"vendor\":\"intel\",\"family\":\"six\"}}",
     "cpuInfo.family: expected a whole number from 0 to 65535, found six", PTAH_E_BAD_FILE},
    {"{" TYPE ",\"processes\":[123]}", "processes[0]: expected an object, found 123",
     PTAH_E_BAD_FILE},
    {"{" TYPE ",\"processes\":{}}", "processes: expected an array, found an object",
     PTAH_E_BAD_FILE},
    {"{" TYPE ",\"processes\":[{\"pid\":1},{}]}",
     "processes[1].pid: a whole number from 1 to 2147483647 is missing", PTAH_E_BAD_FILE},
    {PROCESS("\"threads\":[{\"tid\":\"0x80000000\"}]"),
     "processes[0].threads[0].tid: expected a whole number from 1 to 2147483647, found 0x80000000",
     PTAH_E_BAD_FILE},
    {PROCESS("\"threads\":[{\"tid\":2,\"iptTrace\":3}]"),
     "processes[0].threads[0].iptTrace: expected a string, found 3", PTAH_E_BAD_FILE},
    {PROCESS("\"threads\":[{\"tid\":2,\"iptTrace\":\"\"}]"),
     "processes[0].threads[0].iptTrace: expected the path of a file", PTAH_E_BAD_FILE},
    {PROCESS("\"threads\":[{\"tid\":2,\"iptTrace\":\"a\"},{\"tid\":2,\"traceFile\":\"b\"}]"),
     "processes[0].threads[1].traceFile: a second trace of this thread or CPU", PTAH_E_BAD_FILE},
    {PROCESS("\"modules\":[{}]"), "processes[0].modules[0].systemPath: a string is missing",
     PTAH_E_BAD_FILE},
    {PROCESS("\"modules\":[{\"systemPath\":\"/a\"}]"),
     "processes[0].modules[0].loadAddress: a whole number from 0 to 18446744073709551615 is "
     "missing",
     PTAH_E_BAD_FILE},
    {MODULE("\"uuid\":\"12-3\""),
     "processes[0].modules[0].uuid: expected two hexadecimal digits for each byte",
     PTAH_E_BAD_FILE},
    {MODULE("\"uuid\":\"no\""),
     "processes[0].modules[0].uuid: expected up to 40 hexadecimal digits", PTAH_E_BAD_FILE},
    {MODULE("\"uuid\":\"00112233445566778899aabbccddeeff001122334\""),
     "processes[0].modules[0].uuid: expected up to 40 hexadecimal digits", PTAH_E_BAD_FILE},
    {PROCESS("\"threads\":[{\"tid\":2}]"),
     "names no trace: neither cpus[].iptTrace nor processes[].threads[].iptTrace", PTAH_E_EMPTY},
    {"{" TYPE ",\"cpus\":[" CPU(1) "]}",
     "tscPerfZeroConversion: is missing; traces of CPUs need the clock of their context switches",
     PTAH_E_BAD_FILE},
    {"{" TYPE ",\"cpus\":[" CPU(1) "],\"tscPerfZeroConversion\":{\"timeMult\":0,\"timeShift\":1,"
				   "\"timeZero\":0}}",
     "tscPerfZeroConversion: timeMult is 0", PTAH_E_BAD_FILE},
    {"{" TYPE ",\"cpus\":[" CPU(1) "],\"tscPerfZeroConversion\":{\"timeMult\":1,\"timeShift\":64,"
				   "\"timeZero\":0}}",
     "tscPerfZeroConversion.timeShift: expected a whole number from 0 to 63, found 64",
     PTAH_E_BAD_FILE},
    {"{" TYPE "," CLOCK ",\"cpus\":[" CPU(1) "," CPU(1) "]}",
     "cpus[1].iptTrace: a second trace of this thread or CPU", PTAH_E_BAD_FILE},
    {"{" TYPE "," CLOCK ",\"cores\":[{\"coreId\":-1}]}",
     "cores[0].coreId: expected a whole number from 0 to 2147483647, found -1", PTAH_E_BAD_FILE},
    {"{" TYPE "," CLOCK ",\"cpus\":[{\"id\":1,\"iptTrace\":\"a\"}]}",
     "cpus[0].contextSwitchTrace: a string is missing", PTAH_E_BAD_FILE},
    {"{" TYPE "," CLOCK ",\"cpus\":[" CPU(1) "],\"processes\":[{\"pid\":1,\"threads\":[{\"tid\":1,"
					     "\"iptTrace\":\"t\"}]}]}",
     "processes[0].threads[0].iptTrace: a bundle has traces of threads or of CPUs, not of both",
     PTAH_E_BAD_FILE},
    {"{" TYPE "," CLOCK ",\"cpus\":[" CPU(1) "],\"kernel\":{}}", "kernel.file: a string is missing",
     PTAH_E_BAD_FILE},
    {"{" TYPE "," CLOCK ",\"cpus\":[" CPU(1) "],\"kernel\":[]}",
     "kernel: expected an object, found an array", PTAH_E_BAD_FILE},
};

TEST(wrong_descriptions)
{
	struct ptah_trace_set *set;

	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		char expected[1024];

		write_file("b/trace.json", refused[i].json, strlen(refused[i].json));
		if (ptah_trace_set_open("b", &set, &why) != refused[i].status)
			fail_msg("%s: not refused", refused[i].json);
		snprintf(expected, sizeof(expected), "b/trace.json: %s", refused[i].message);
		if (strncmp(why.text, expected, strlen(expected)) != 0)
			fail_msg("%s: %s", refused[i].json, why.text);
	}
}

/* What is decoded */

#define BASE 0x12345 /* of each loop */
#define PAGE 0x12000 /* where the file with the loop is mapped */

/* An ELF file of one page: a loop of nops and jmp rax, and a build id of its own. */
struct program {
	Elf64_Ehdr header;
	Elf64_Phdr segments[2];
	Elf64_Nhdr note;
	char name[4];
	uint8_t id[20];
	uint8_t space[0x345 - 64 - 2 * 56 - 12 - 4 - 20];
	uint8_t code[4096 - 0x345];
};

static void write_program(const char *path, unsigned nops)
{
	static struct program p;

	_Static_assert(offsetof(struct program, code) == (BASE & 0xfff), "the loop's place");
	memset(&p, 0, sizeof(p));
	memcpy(p.header.e_ident, ELFMAG, SELFMAG);
	p.header.e_ident[EI_CLASS] = ELFCLASS64;
	p.header.e_ident[EI_DATA] = ELFDATA2LSB;
	p.header.e_ident[EI_VERSION] = EV_CURRENT;
	p.header.e_type = ET_DYN;
	p.header.e_machine = EM_X86_64;
	p.header.e_version = EV_CURRENT;
	p.header.e_ehsize = sizeof(p.header);
	p.header.e_phoff = offsetof(struct program, segments);
	p.header.e_phentsize = sizeof(p.segments[0]);
	p.header.e_phnum = 2;
	p.segments[0] = (Elf64_Phdr){.p_type = PT_LOAD,
				     .p_flags = PF_R | PF_X,
				     .p_filesz = sizeof(p),
				     .p_memsz = sizeof(p),
				     .p_align = 4096};
	p.segments[1] = (Elf64_Phdr){.p_type = PT_NOTE,
				     .p_flags = PF_R,
				     .p_offset = offsetof(struct program, note),
				     .p_vaddr = offsetof(struct program, note),
				     .p_filesz = 12 + 4 + 20,
				     .p_memsz = 12 + 4 + 20,
				     .p_align = 4};
	p.note = (Elf64_Nhdr){4, sizeof(p.id), NT_GNU_BUILD_ID};
	memcpy(p.name, "GNU", 4);
	memset(p.id, (int)nops, sizeof(p.id));
	memset(p.code, 0x90, nops);
	memcpy(p.code + nops, "\xff\xe0", 2);
	write_file(path, &p, sizeof(p));
}

static void write_programs(void)
{
	write_program("b/seven", 2);
	write_program("b/eight", 1);
}

struct trace {
	struct ptah_generator g;
	uint8_t bytes[4096];
};

static void stamp(struct trace *t, uint64_t tsc)
{
	generator_psb(&t->g, tsc, 20, false, 0);
}

/* n jumps between two stays in the kernel; the time stamp is before the first. */
static void jumps(struct trace *t, uint64_t tsc, unsigned n)
{
	generator_enable(&t->g, BASE);
	generator_tsc(&t->g, tsc);
	while (n--)
		generator_tip(&t->g, BASE);
	generator_async_disable(&t->g, BASE);
}

static size_t trace_size(const struct trace *t)
{
	return (size_t)(t->g.out - t->bytes);
}

/* All that a decode says, as text; the caller frees it. And the instructions by thread. */
static char *decode(const char *path, const struct ptah_session_config *config, uint64_t insns[16])
{
	struct ptah_stream_info info;
	struct ptah_session *s;
	struct ptah_thread thread;
	struct ptah_reader *st;
	struct ptah_item items[8];
	char *text;
	size_t size;
	FILE *f = open_memstream(&text, &size);
	int n;

	assert_non_null(f);
	memset(insns, 0, 16 * sizeof(*insns));
	if (ptah_session_open(path, config, &s, &why) < 0)
		fail_msg("%s", why.text);
	for (size_t i = 0; i < ptah_session_streams(s); i++) {
		assert_int_equal(ptah_session_stream_info(s, i, &info), 0);
		fprintf(f, "stream cpu %d pid %d tid %d\n", info.cpu, info.pid, info.tid);
		assert_int_equal(ptah_reader_new(s, i, NULL, &st), 0);
		while ((n = ptah_reader_read(st, items, 8)) > 0) {
			assert_int_equal(ptah_reader_thread(st, &thread), 0);
			for (int k = 0; k < n; k++) {
				const struct ptah_item *item = &items[k];
				const bool block = item->type == PTAH_ITEM_BLOCK;

				fprintf(f, "%d/%d %d %d %llx-%llx %d %llu\n", thread.pid,
					thread.tid, item->type, item->flags,
					(unsigned long long)item->ip, (unsigned long long)item->to,
					item->count, (unsigned long long)item->tsc);
				if (block && thread.tid >= 0 && thread.tid < 16)
					insns[thread.tid] += item->ninsn;
			}
		}
		assert_int_equal(n, 0);
		ptah_reader_free(st);
	}
	ptah_session_close(s);
	assert_int_equal(fclose(f), 0);
	return text;
}

static void map_programs(struct perfdata_buffer *b)
{
	char *path = realpath("b/seven", NULL);

	build_mmap2(b, 7, PAGE, 4096, 0, path, 0, NULL);
	free(path);
	path = realpath("b/eight", NULL);
	build_mmap2(b, 8, PAGE, 4096, 0, path, 0, NULL);
	free(path);
}

#define MODULES(pid, name, id)                                                                     \
	"\"pid\":" #pid ",\"modules\":[{\"systemPath\":\"/not/there\",\"file\":\"" name            \
	"\",\"loadAddress\":\"0x12000\",\"uuid\":\"" id id id id id "\"}]"
#define SEVEN MODULES(7, "seven", "02020202-")
#define EIGHT MODULES(8, "eight", "01010101-")

TEST(decode_of_threads)
{
	static const char json[] =
	    "{" TYPE ",\"processes\":[{" SEVEN ",\"threads\":[{\"tid\":7,\"iptTrace\":\"7.pt\"},"
	    "{\"tid\":9,\"iptTrace\":\"9.pt\"}]},"
	    "{" EIGHT ",\"threads\":[{\"tid\":8,\"iptTrace\":\"8.pt\"}]}]}";
	static const struct {
		int32_t pid, tid;
		const char *path;
	} threads[] = {{7, 7, "b/7.pt"}, {7, 9, "b/9.pt"}, {8, 8, "b/8.pt"}};
	struct perfdata_buffer file = {0};
	uint64_t expected[16], insns[16];
	char *was, *is;

	write_programs();
	write_file("b/trace.json", json, strlen(json));
	build_begin(&file);
	build_info(&file, PERFDATA_AUXTRACE_INTEL_PT, false);
	build_comm(&file, 7, 7, false, "", 0);
	build_comm(&file, 7, 9, false, "", 0);
	build_comm(&file, 8, 8, false, "", 0);
	map_programs(&file);
	for (uint32_t i = 0; i < 3; i++) {
		struct trace t = {.bytes = {0}};

		/* LLDB copies a ring from its oldest byte on; what is not yet written is 0. */
		generator_init(&t.g, t.bytes + 64, false, false);
		stamp(&t, 100 + i);
		jumps(&t, 200 + i, 5 + i);
		stamp(&t, 300 + i);
		jumps(&t, 400 + i, 7 + i);
		write_file(threads[i].path, t.bytes, trace_size(&t));
		build_auxtrace(&file, i, threads[i].tid, -1, 0, t.bytes, trace_size(&t),
			       trace_size(&t));
	}
	build_end(&file, PERFDATA_FEATURE_ARCH, "x86_64");
	write_file("perf.data", file.bytes, file.size);
	perfdata_buffer_free(&file);

	was = decode("perf.data", NULL, expected);
	is = decode("b", NULL, insns);
	assert_string_equal(is, was);
	assert_int_equal(insns[7], 3 * (5 + 7));
	assert_int_equal(insns[9], 3 * (6 + 8));
	assert_int_equal(insns[8], 2 * (7 + 9));
	free(is);
	is = decode("b/trace.json", NULL, insns);
	assert_string_equal(is, was);
	free(was);
	free(is);
}

/* Both records of a switch: for perf.data, and as LLDB's event makes them, without the CPU. */
static void switches(struct perfdata_buffer *file, struct perfdata_buffer *bare, uint32_t cpu,
		     int32_t from, int32_t to, uint64_t tsc)
{
	build_switch_on(file, cpu, true, from, from, to, to, tsc);
	build_switch_on(file, cpu, false, to, to, from, from, tsc);
	build_switch(bare, true, from, from, to, to, tsc);
	build_switch(bare, false, to, to, from, from, tsc);
}

TEST(decode_of_cpus)
{
	/* The clock of build_info(): 1000 + TSC / 4. */
	static const char json[] =
	    "{" TYPE ",\"processes\":[{" SEVEN ",\"threads\":[{\"tid\":7}]},{" EIGHT
	    ",\"threads\":[]}],\"tscPerfZeroConversion\":{\"timeMult\":2,\"timeShift\":3,"
	    "\"timeZero\":1000},\"cpus\":["
	    "{\"id\":0,\"iptTrace\":\"0.pt\",\"contextSwitchTrace\":\"0.sw\"},"
	    "{\"id\":1,\"iptTrace\":\"1.pt\",\"contextSwitchTrace\":\"1.sw\"}]}";
	struct perfdata_buffer file = {0}, bare[2] = {{0}, {0}};
	static struct trace t[2];
	uint64_t expected[16], insns[16];
	char *was, *is;

	write_programs();
	write_file("b/trace.json", json, strlen(json));
	build_begin(&file);
	build_with_cpus(&file);
	build_info(&file, PERFDATA_AUXTRACE_INTEL_PT, false);
	map_programs(&file);
	for (unsigned i = 0; i < 2; i++) {
		const int32_t first = i ? 8 : 7, second = i ? 7 : 8;

		memset(&t[i], 0, sizeof(t[i]));
		generator_init(&t[i].g, t[i].bytes, false, false);
		build_begin(&bare[i]);
		switches(&file, &bare[i], i, 0, first, 150);
		switches(&file, &bare[i], i, first, second, 250);
		switches(&file, &bare[i], i, second, 0, 450);
		stamp(&t[i], 200);
		jumps(&t[i], 201, 5 + i);
		stamp(&t[i], 300);
		jumps(&t[i], 301, 7 + i);
		stamp(&t[i], 500);
	}
	for (unsigned i = 0; i < 2; i++)
		build_auxtrace(&file, i, 7, (int32_t)i, 0, t[i].bytes, trace_size(&t[i]),
			       trace_size(&t[i]));
	build_end(&file, PERFDATA_FEATURE_ARCH, "x86_64");
	write_file("perf.data", file.bytes, file.size);
	write_file("b/0.pt", t[0].bytes, trace_size(&t[0]));
	write_file("b/1.pt", t[1].bytes, trace_size(&t[1]));
	write_file("b/0.sw", bare[0].bytes + BUILD_DATA, bare[0].size - BUILD_DATA);
	write_file("b/1.sw", bare[1].bytes + BUILD_DATA, bare[1].size - BUILD_DATA);
	perfdata_buffer_free(&file);
	perfdata_buffer_free(&bare[0]);
	perfdata_buffer_free(&bare[1]);

	was = decode("perf.data", NULL, expected);
	is = decode("b", NULL, insns);
	assert_string_equal(is, was);
	assert_int_equal(insns[7], 3 * (5 + 8));
	assert_int_equal(insns[8], 2 * (7 + 6));
	free(was);
	free(is);
}

/*
 * Process 7 is not in the bundle. Nothing that it ran is taken for process 8's, although that is
 * the only one whose code is known and has code at the same address.
 */
TEST(another_process_on_the_cpu)
{
	static const char json[] =
	    "{" TYPE ",\"processes\":[{" EIGHT
	    ",\"threads\":[]}],\"tscPerfZeroConversion\":{\"timeMult\":2,\"timeShift\":3,"
	    "\"timeZero\":1000},\"cpus\":["
	    "{\"id\":0,\"iptTrace\":\"0.pt\",\"contextSwitchTrace\":\"0.sw\"},"
	    "{\"id\":1,\"iptTrace\":\"1.pt\",\"contextSwitchTrace\":\"1.sw\"}]}";
	struct ptah_session *s;
	uint64_t insns[16];

	write_file("b/trace.json", json,
		   strlen(json)); /* the rest is as decode_of_cpus() left it */
	free(decode("b", NULL, insns));
	assert_int_equal(insns[8], 2 * (7 + 6));
	assert_int_equal(insns[7], 0);
	assert_int_equal(ptah_session_open("b", NULL, &s, &why), 0);
	assert_non_null(ptah_session_note(s, 0));
	assert_non_null(
	    strstr(ptah_session_note(s, 0), "no code is known of process 7, which ran"));
	assert_null(ptah_session_note(s, 1));
	ptah_session_close(s);
}

/* The build id in the bundle is that of another file. */
TEST(changed_module)
{
	static const char json[] = "{" TYPE ",\"processes\":[{" SEVEN
				   ",\"threads\":[{\"tid\":7,\"iptTrace\":\"7.pt\"}]}]}";
	const struct ptah_session_config force = {.size = sizeof(force), .ignore_build_ids = true};
	struct trace t = {.bytes = {0}};
	struct ptah_session *s;
	uint64_t insns[16];

	write_file("b/trace.json", json, strlen(json));
	generator_init(&t.g, t.bytes, false, false);
	stamp(&t, 100);
	jumps(&t, 200, 5);
	write_file("b/7.pt", t.bytes, trace_size(&t));
	write_program("b/seven", 1);
	assert_int_equal(ptah_session_open("b", NULL, &s, &why), PTAH_E_CHANGED);
	assert_non_null(strstr(why.text, "b/seven is not the file that ran"));
	assert_non_null(strstr(why.text, "0202020202020202020202020202020202020202"));
	free(decode("b", &force, insns));
	assert_int_equal(insns[7], 2 * 5);
	unlink("b/seven");
	assert_true(ptah_session_open("b", NULL, &s, &why) < 0);
	assert_non_null(strstr(why.text, "b/seven"));
	free(decode("b", &force, insns));
	assert_int_equal(insns[7], 0);
	unlink("b/7.pt");
	assert_int_equal(ptah_session_open("b", NULL, &s, &why), PTAH_E_SYSTEM);
	assert_non_null(strstr(why.text, "b/7.pt"));
}

/*
 * The kernel's loop, in every process. Its file has a segment at address 0 after the first, as
 * vmlinux has one with each processor's variables, and "loadAddress" is that of the first.
 */
TEST(kernel)
{
	static const char json[] =
	    "{" TYPE "," CLOCK ",\"cpus\":[{\"id\":0,\"iptTrace\":\"0.pt\","
	    "\"contextSwitchTrace\":\"0.sw\"}],\"kernel\":{\"file\":\"vmlinux\"}}";
	struct ptah_trace_set *set;
	uint64_t insns[16];
	struct program p;
	FILE *f;

	set = load(json);
	assert_int_equal(set->code_count, 1);
	assert_int_equal(set->code[0].pid, -1);
	assert_int_equal(set->code[0].address, UINT64_C(0xffffffff81000000));
	ptah_trace_set_free(set);

	write_program("b/vmlinux", 2);
	f = fopen("b/vmlinux", "r+b");
	assert_non_null(f);
	assert_int_equal(fread(&p, sizeof(p), 1, f), 1);
	p.segments[0].p_vaddr = UINT64_C(0xffffffff81000000);
	p.segments[1].p_type = PT_LOAD;
	p.segments[1].p_vaddr = 0;
	rewind(f);
	assert_int_equal(fwrite(&p, sizeof(p), 1, f), 1);
	assert_int_equal(fclose(f), 0);
	set = load(json);
	assert_int_equal(set->code[0].address, 0); /* where the file says */
	ptah_trace_set_free(set);
	set = load("{" TYPE "," CLOCK ",\"cpus\":[{\"id\":0,\"iptTrace\":\"0.pt\","
		   "\"contextSwitchTrace\":\"0.sw\"}],\"kernel\":{\"file\":\"vmlinux\","
		   "\"loadAddress\":\"0xffffffff9a000000\"},\"processes\":[]}");
	assert_int_equal(set->code[0].address, 0x19000000);
	ptah_trace_set_free(set);

	/* In every process, whose switches decode_of_cpus() has left. */
	write_program("b/vmlinux", 2);
	ptah_trace_set_free(
	    load("{" TYPE ",\"tscPerfZeroConversion\":{\"timeMult\":2,\"timeShift\":3,"
		 "\"timeZero\":1000},\"cpus\":[{\"id\":0,\"iptTrace\":\"0.pt\","
		 "\"contextSwitchTrace\":\"0.sw\"}],\"kernel\":{\"file\":\"vmlinux\","
		 "\"loadAddress\":\"0x12000\"}}"));
	free(decode("b", NULL, insns));
	assert_int_equal(insns[7], 3 * 5);
	assert_int_equal(insns[8], 3 * 7);
}

static int make_bundle(void **state)
{
	return make_folder(state) || mkdir("b", 0700);
}

TEST_GROUP(make_bundle, remove_folder)
