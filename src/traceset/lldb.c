/* SPDX-License-Identifier: MIT */
/*
 * Reads the trace bundles of LLDB ("trace save", "trace load"): a folder with a file trace.json,
 * which names raw traces, modules, and the records of context switches.
 *
 * LLDB has changed the names of some members. A list of names here begins with the one of today. In
 * the first form, "type" and the processor were in an object "trace".
 */
#include "traceset/foreign.h"

#include "base/order.h"
#include "perfdata/format.h"
#include "traceset/json_file.h"
#include "traceset/set.h"

#include <fcntl.h>
#include <gelf.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DESCRIPTION "trace.json"

/* Where Linux loads its code if it does not choose the address at random. */
#define KERNEL_ADDRESS UINT64_C(0xffffffff81000000)

struct bundle {
	struct ptah_trace_set *set;
	void *traced; /* the threads or CPUs that have a trace: a tree (tsearch) */
	bool of_cpus; /* the traces are of CPUs, not of threads */
};

/* The member of `object` that has one of the names. */
#define MEMBER(object, member, ...)                                                                \
	json_value_member(object, (const char *const[]){__VA_ARGS__, NULL}, member)

static int read_lldb_number(const struct json_value *object, const char *name, uint64_t max,
			    uint64_t *number)
{
	struct json_value member;
	int status = MEMBER(object, &member, name);

	return status < 0 ? status : json_value_number(&member, 0, max, number);
}

/* The number of a process or thread. */
static int read_id(const struct json_value *object, const char *name, int32_t *id)
{
	struct json_value member;
	uint64_t number = 0;
	int status = MEMBER(object, &member, name);

	if (status >= 0)
		status = json_value_number(&member, 1, INT32_MAX, &number);
	*id = (int32_t)number;
	return status;
}

/* The path of a file. The set looks for relative ones in the bundle's folder, as LLDB does. */
static int read_lldb_path(const struct json_value *value, const char **path)
{
	int status = json_value_text(value, path);

	if (status >= 0 && !**path)
		return json_value_fail(value, PTAH_E_BAD_FILE, "expected the path of a file");
	return status;
}

/* The processor */

static int read_lldb_processor(const struct json_value *about,
			       struct ptah_trace_processor *processor)
{
	struct json_value info, vendor;
	uint64_t family, model, stepping;
	const char *name = "";
	int status = MEMBER(about, &info, "cpuInfo", "pt_cpu");

	if (status >= 0)
		status = MEMBER(&info, &vendor, "vendor");
	if (status >= 0)
		status = json_value_text(&vendor, &name);
	if (status >= 0)
		status = read_lldb_number(&info, "family", UINT16_MAX, &family);
	if (status >= 0)
		status = read_lldb_number(&info, "model", UINT8_MAX, &model);
	if (status >= 0)
		status = read_lldb_number(&info, "stepping", UINT8_MAX, &stepping);
	if (status >= 0 && (!strcmp(name, "GenuineIntel") || !strcmp(name, "intel")))
		processor->cpu =
		    (struct ptah_cpu){(uint16_t)family, (uint8_t)model, (uint8_t)stepping};
	return status;
}

static int read_clock(const struct json_value *clock, struct ptah_trace_processor *processor)
{
	uint64_t mult = 0, shift = 0;
	int status = read_lldb_number(clock, "timeMult", UINT32_MAX, &mult);

	if (status >= 0)
		status = read_lldb_number(clock, "timeShift", 63, &shift);
	if (status >= 0)
		status = read_lldb_number(clock, "timeZero", UINT64_MAX, &processor->time_zero);
	if (status >= 0 && !mult)
		return json_value_fail(clock, PTAH_E_BAD_FILE,
				       "timeMult is 0, which makes a clock that stands still");
	processor->time_mult = (uint32_t)mult;
	processor->time_shift = (uint16_t)shift;
	processor->has_clock = status >= 0;
	return status;
}

/* Modules */

/* Two hexadecimal digits for each byte, with "-" anywhere in between. */
static int parse_uuid(const struct json_value *value, const char *text, uint8_t bytes[20],
		      size_t *digits)
{
	static const char hex[] = "0123456789abcdef0123456789ABCDEF";

	for (*digits = 0; *text; text++) {
		const char *digit = strchr(hex, *text);
		const size_t i = *digits / 2;

		if (*text == '-')
			continue;
		if (!digit || i == 20)
			return json_value_fail(value, PTAH_E_BAD_FILE,
					       "expected up to 40 hexadecimal digits");
		bytes[i] = (uint8_t)(bytes[i] << 4 | ((digit - hex) & 15));
		++*digits;
	}
	if (*digits % 2)
		return json_value_fail(value, PTAH_E_BAD_FILE,
				       "expected two hexadecimal digits for each byte");
	return 0;
}

/*
 * The "uuid" of a module is its build id. Where a file has none, LLDB makes up a number of four
 * bytes, or writes nothing; that is not compared with the file.
 */
static int read_uuid(const struct json_value *module, struct ptah_trace_code *code)
{
	struct json_value uuid;
	const char *text;
	size_t digits = 0;
	int status = MEMBER(module, &uuid, "uuid");

	if (status < 0 || json_value_is_null(&uuid))
		return status;
	status = json_value_text(&uuid, &text);
	if (status >= 0)
		status = parse_uuid(&uuid, text, code->build_id, &digits);
	code->build_id_size = (uint8_t)(digits > 8 ? digits / 2 : 0);
	return status;
}

/* "systemPath" is where the file lay when it ran, "file" is a copy of it. */
static int read_module_paths(const struct json_value *module, struct ptah_trace_code *code)
{
	struct json_value system, file;
	const char *path;
	int status = MEMBER(module, &system, "systemPath");

	if (status >= 0)
		status = read_lldb_path(&system, &path);
	if (status >= 0)
		status = MEMBER(module, &file, "file");
	if (status < 0)
		return status;
	code->recorded_path = *path == '/' ? path : NULL;
	code->file.path = path;
	return json_value_is_null(&file) ? 0 : read_lldb_path(&file, &code->file.path);
}

static int read_module(const struct bundle *b, const struct json_value *module, int32_t pid)
{
	struct ptah_trace_code code = {
	    .size = sizeof(code), .kind = PTAH_TRACE_CODE_ELF, .pid = pid};
	int status = read_module_paths(module, &code);

	if (status >= 0)
		status = read_lldb_number(module, "loadAddress", UINT64_MAX, &code.address);
	if (status >= 0)
		status = read_uuid(module, &code);
	return status < 0 ? status : ptah_trace_set_add_code(b->set, &code);
}

/* The kernel */

/* Finds the first and the lowest address among the segments of an ELF file. */
static bool find_segments(Elf *elf, uint64_t *first, uint64_t *lowest)
{
	bool found = false;
	size_t n;

	if (elf_kind(elf) != ELF_K_ELF || elf_getphdrnum(elf, &n) < 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr segment;

		if (!gelf_getphdr(elf, (int)i, &segment) || segment.p_type != PT_LOAD)
			continue;
		if (!found)
			*first = *lowest = segment.p_vaddr;
		else if (segment.p_vaddr < *lowest)
			*lowest = segment.p_vaddr;
		found = true;
	}
	return found;
}

/*
 * "loadAddress" is that of the first segment. A set wants that of the lowest, which in vmlinux is
 * another one: it has each processor's variables at address 0.
 */
static uint64_t kernel_base(const char *path, uint64_t address)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	uint64_t first, lowest;
	Elf *elf;

	if (fd < 0)
		return address;
	elf = elf_version(EV_CURRENT) == EV_NONE ? NULL : elf_begin(fd, ELF_C_READ, NULL);
	if (elf && find_segments(elf, &first, &lowest))
		address += lowest - first;
	elf_end(elf);
	close(fd);
	return address;
}

static int read_lldb_kernel(const struct bundle *b, const struct json_value *kernel)
{
	struct ptah_trace_code code = {
	    .size = sizeof(code), .kind = PTAH_TRACE_CODE_ELF, .address = KERNEL_ADDRESS};
	struct ptah_trace_code *added;
	struct json_value file, load;
	int status = MEMBER(kernel, &load, "loadAddress");

	if (status >= 0 && !json_value_is_null(&load))
		status = json_value_number(&load, 0, UINT64_MAX, &code.address);
	if (status >= 0)
		status = MEMBER(kernel, &file, "file");
	if (status >= 0)
		status = read_lldb_path(&file, &code.file.path);
	if (status >= 0)
		status = ptah_trace_set_add_code(b->set, &code);
	if (status < 0)
		return status;
	/* The set has made the path absolute. */
	added = &b->set->code[b->set->code_count - 1];
	added->address = kernel_base(added->file.path, code.address);
	return 0;
}

/* Traces */

static int compare_lldb_keys(const void *a, const void *b)
{
	const uintptr_t x = (uintptr_t)a, y = (uintptr_t)b;

	return COMPARE(x, y);
}

static void forget_key(void *key)
{
	(void)key;
}

/*
 * Notes that the thread or CPU `key` has a trace. Two traces with one key would be taken for pieces
 * of one trace, and a damaged bundle decoded to nonsense.
 */
static int note_traced(struct bundle *b, uint64_t key, const struct json_value *trace)
{
	void *as_pointer = (void *)(uintptr_t)key;

	_Static_assert(sizeof(void *) == sizeof(key), "keys are kept as pointers");
	if (tfind(as_pointer, &b->traced, compare_lldb_keys))
		return json_value_fail(trace, PTAH_E_BAD_FILE,
				       "a second trace of this thread or CPU");
	return tsearch(as_pointer, &b->traced, compare_lldb_keys) ? 0 : PTAH_E_NOMEM;
}

static int add_lldb_stream(struct bundle *b, const struct json_value *trace, int32_t cpu,
			   int32_t pid, int32_t tid)
{
	struct ptah_trace_stream stream = {
	    .size = sizeof(stream), .cpu = cpu, .pid = pid, .tid = tid};
	int status =
	    note_traced(b, cpu >= 0 ? (uint64_t)cpu : (uint64_t)pid << 32 | (uint32_t)tid, trace);

	if (status >= 0)
		status = read_lldb_path(trace, &stream.file.path);
	return status < 0 ? status : ptah_trace_set_add_stream(b->set, &stream);
}

static int read_thread(struct bundle *b, const struct json_value *thread, int32_t pid)
{
	struct ptah_trace_thread is = {.size = sizeof(is), .pid = pid};
	struct json_value trace;
	int status = read_id(thread, "tid", &is.tid);

	if (status >= 0)
		status = ptah_trace_set_add_thread(b->set, &is);
	if (status >= 0)
		status = MEMBER(thread, &trace, "iptTrace", "traceBuffer", "traceFile");
	if (status < 0 || json_value_is_null(&trace))
		return status;
	if (b->of_cpus)
		return json_value_fail(&trace, PTAH_E_BAD_FILE,
				       "a bundle has traces of threads or of CPUs, not of both");
	return add_lldb_stream(b, &trace, -1, pid, is.tid);
}

/*
 * LLDB opens the context switches of a CPU as records with two fields after their own, and
 * sample_id_all.
 */
static int add_switches(const struct bundle *b, const struct json_value *switches, int32_t cpu)
{
	struct ptah_trace_sideband sideband = {.size = sizeof(sideband),
					       .sample_type =
						   PERFDATA_SAMPLE_TID | PERFDATA_SAMPLE_TIME,
					       .cpu = cpu,
					       .pid = -1,
					       .tid = -1};
	int status = read_lldb_path(switches, &sideband.file.path);

	return status < 0 ? status : ptah_trace_set_add_sideband(b->set, &sideband);
}

static int read_cpu(struct bundle *b, const struct json_value *cpu)
{
	struct json_value id, trace, switches;
	uint64_t number = 0;
	int status = MEMBER(cpu, &id, "id", "coreId");

	if (status >= 0)
		status = json_value_number(&id, 0, INT32_MAX, &number);
	if (status >= 0)
		status = MEMBER(cpu, &trace, "iptTrace", "traceBuffer");
	if (status >= 0)
		status = MEMBER(cpu, &switches, "contextSwitchTrace");
	if (status >= 0)
		status = add_lldb_stream(b, &trace, (int32_t)number, -1, -1);
	return status < 0 ? status : add_switches(b, &switches, (int32_t)number);
}

/* The whole */

static int read_lldb_process(struct bundle *b, const struct json_value *process)
{
	struct json_value threads, modules, element;
	size_t n = 0;
	int32_t pid;
	int status = read_id(process, "pid", &pid);

	if (status >= 0)
		status = MEMBER(process, &threads, "threads");
	if (status >= 0)
		status = json_value_count(&threads, &n);
	for (size_t i = 0; i < n && status >= 0; i++) {
		json_value_element(&threads, i, &element);
		status = read_thread(b, &element, pid);
	}
	if (status >= 0)
		status = MEMBER(process, &modules, "modules");
	if (status >= 0)
		status = json_value_count(&modules, &n);
	for (size_t i = 0; i < n && status >= 0; i++) {
		json_value_element(&modules, i, &element);
		status = read_module(b, &element, pid);
	}
	return status;
}

static int read_processes(struct bundle *b, const struct json_value *bundle)
{
	struct json_value processes, process;
	size_t n = 0;
	int status = MEMBER(bundle, &processes, "processes");

	if (status >= 0)
		status = json_value_count(&processes, &n);
	for (size_t i = 0; i < n && status >= 0; i++) {
		json_value_element(&processes, i, &process);
		status = read_lldb_process(b, &process);
	}
	return status;
}

static int read_cpus(struct bundle *b, const struct json_value *bundle)
{
	struct json_value cpus, cpu;
	size_t n = 0;
	int status = MEMBER(bundle, &cpus, "cpus", "cores");

	if (status >= 0)
		status = json_value_count(&cpus, &n);
	b->of_cpus = n;
	for (size_t i = 0; i < n && status >= 0; i++) {
		json_value_element(&cpus, i, &cpu);
		status = read_cpu(b, &cpu);
	}
	return status;
}

/* The processor and its clock, and that the trace is one of Intel PT. */
static int read_about(struct bundle *b, const struct json_value *bundle)
{
	struct ptah_trace_processor processor = {.size = sizeof(processor)};
	struct json_value trace, type, clock;
	const struct json_value *about;
	const char *name = "";
	int status = MEMBER(bundle, &trace, "trace");

	if (status < 0)
		return status;
	about = json_value_is_null(&trace) ? bundle : &trace;
	status = MEMBER(about, &type, "type");
	if (status >= 0 && json_value_is_null(&type))
		return json_value_fail(bundle, PTAH_E_FOREIGN,
				       "no trace bundle of LLDB, which has a member \"type\"");
	if (status >= 0)
		status = json_value_text(&type, &name);
	if (status >= 0 && strcmp(name, "intel-pt") != 0)
		return json_value_fail(&type, PTAH_E_FOREIGN,
				       "a trace of \"%s\", not of \"intel-pt\"", name);
	if (status >= 0)
		status = read_lldb_processor(about, &processor);
	if (status >= 0)
		status = MEMBER(bundle, &clock, "tscPerfZeroConversion");
	if (status >= 0 && !json_value_is_null(&clock))
		status = read_clock(&clock, &processor);
	if (status >= 0 && b->of_cpus && !processor.has_clock)
		return json_value_fail(&clock, PTAH_E_BAD_FILE,
				       "is missing; traces of CPUs need the clock of their context "
				       "switches");
	return status < 0 ? status : ptah_trace_set_processor(b->set, &processor);
}

static int read_bundle(struct bundle *b, const struct json_value *bundle)
{
	struct json_value kernel;
	int status = MEMBER(bundle, &kernel, "kernel");

	if (status >= 0)
		status = read_cpus(b, bundle);
	if (status >= 0)
		status = read_about(b, bundle);
	if (status >= 0)
		status = read_processes(b, bundle);
	if (status >= 0 && !json_value_is_null(&kernel))
		status = read_lldb_kernel(b, &kernel);
	if (status >= 0 && !b->traced)
		return json_value_fail(bundle, PTAH_E_EMPTY,
				       "names no trace: neither cpus[].iptTrace nor "
				       "processes[].threads[].iptTrace");
	return status;
}

/* The path of trace.json, which may have another name if it is `path` itself. */
static char *description_path(const char *path)
{
	struct stat st;
	char *description;

	if (stat(path, &st) || !S_ISDIR(st.st_mode))
		return strdup(path);
	return asprintf(&description, "%s/" DESCRIPTION, path) < 0 ? NULL : description;
}

static int read_lldb(const char *path, struct ptah_trace_set *set, struct ptah_message *why)
{
	char *description = description_path(path);
	struct bundle b = {.set = set};
	struct json_value bundle;
	struct json_file file;
	int status = description ? json_file_open(&file, description, why, &bundle) : PTAH_E_NOMEM;

	if (status >= 0) {
		status = read_bundle(&b, &bundle);
		json_file_close(&file);
	}
	tdestroy(b.traced, forget_key);
	free(description);
	return status;
}

/* Whether there is an object at the beginning of the file. */
static bool begins_object(const char *path)
{
	FILE *f = fopen(path, "re");
	int c = f ? getc(f) : EOF;

	for (unsigned i = 0; f && i < 64 && (c == ' ' || c == '\t' || c == '\r' || c == '\n'); i++)
		c = getc(f);
	if (f)
		fclose(f);
	return c == '{';
}

static bool is_lldb(const char *path)
{
	const size_t n = strlen(path);
	struct stat st;
	char *description;
	bool is;

	if (stat(path, &st))
		return false;
	if (!S_ISDIR(st.st_mode))
		return S_ISREG(st.st_mode) && n > 5 && !strcmp(path + n - 5, ".json") &&
		       begins_object(path);
	description = description_path(path);
	is = description && !access(description, F_OK);
	free(description);
	return is;
}

const struct foreign_reader foreign_lldb = {"trace bundle of LLDB", is_lldb, read_lldb};
