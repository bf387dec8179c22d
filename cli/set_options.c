/* SPDX-License-Identifier: MIT */
/* Makes a trace set of the options that describe a raw trace: --pt, and those that belong to it. */
#include "record_filter.h"
#include "set_options.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct builder {
	const struct command *command;
	struct input *input;
	struct ptah_trace_set *set;
	const struct set_option *option; /* the one that is taken */
	char text[4096];		 /* its value, which is taken apart from the end */
	struct ptah_trace_processor processor;
	/* What belongs to the files of records that follow. */
	uint64_t sample_type;
	int64_t tsc_offset;
	const char *kcore, *filter;
};

static int complain_set(const struct builder *b, const char *format, ...) PRINTF_LIKE(2, 3);

/* Prints "--NAME=VALUE: what is wrong". Returns EXIT_USAGE. */
static int complain_set(const struct builder *b, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return fail_usage(b->command, "--%s=%s: %s", b->option->name, b->option->value, text);
}

static int complain_status(const struct builder *b, int status)
{
	return status == PTAH_E_NOMEM ? fail(b->command, "%s", ptah_strerror(status))
				      : complain_set(b, "%s", ptah_strerror(status));
}

/* Reads all of `text` as a number. */
static bool read_set_number(const char *text, int base, uint64_t *value)
{
	char *end;

	/* strtoull() accepts blanks and signs. */
	if (strspn(text, base == 16 ? "0123456789abcdefABCDEF" : "0123456789") == 0)
		return false;
	errno = 0;
	*value = strtoull(text, &end, base);
	return !*end && !errno;
}

static int take_number(const struct builder *b, uint64_t most, uint64_t *value)
{
	if (!read_set_number(b->option->value, 0, value))
		return complain_set(b, "not a number");
	if (*value > most)
		return complain_set(b, "the largest value is %" PRIu64, most);
	return EXIT_OK;
}

/* Whether all of the text is the name of a file, so that it is not to be taken apart. */
static bool is_name(const struct builder *b)
{
	return access(b->text, F_OK) == 0;
}

/* Something that a comma separates from what it belongs to: ",KEY=NUMBER". */
struct attribute {
	const char *key; /* NULL ends a list */
	int base;
	uint64_t most, value;
	bool given;
};

static struct attribute *find_attribute(struct attribute *list, const char *text)
{
	const size_t n = strcspn(text, "=");

	for (; text[n] && list->key; list++)
		if (strlen(list->key) == n && !strncmp(list->key, text, n))
			return list;
	return NULL;
}

/* Takes attributes from the end of the text. A comma that begins none belongs to the name. */
static int take_attributes(struct builder *b, struct attribute *list)
{
	char *comma;

	while (!is_name(b) && (comma = strrchr(b->text, ','))) {
		struct attribute *a = find_attribute(list, comma + 1);

		if (!a)
			return EXIT_OK;
		if (a->given)
			return complain_set(b, "%s is given twice", a->key);
		if (!read_set_number(comma + 1 + strlen(a->key) + 1, a->base, &a->value))
			return complain_set(b, "%s is not a number", comma + 1);
		if (a->value > a->most)
			return complain_set(b, "%s is too large", comma + 1);
		a->given = true;
		*comma = '\0';
	}
	return EXIT_OK;
}

/* Takes ":FROM" or ":FROM-TO" from the end of the text, if it is there. The rest is the path. */
static int take_range(struct builder *b, struct ptah_trace_file *file)
{
	char *colon = is_name(b) ? NULL : strrchr(b->text, ':'), *dash;
	bool numbers;

	file->path = b->text;
	file->from = file->to = 0;
	if (!colon)
		return EXIT_OK;
	dash = strchr(colon, '-');
	if (dash)
		*dash = '\0';
	numbers = read_set_number(colon + 1, 0, &file->from) &&
		  (!dash || read_set_number(dash + 1, 0, &file->to));
	if (dash)
		*dash = '-';
	if (!numbers) {
		file->from = file->to = 0;
		return EXIT_OK; /* the colon belongs to the name */
	}
	if (dash && file->to <= file->from)
		return complain_set(b, "no byte is from %" PRIu64 " up to %" PRIu64, file->from,
				    file->to);
	*colon = '\0';
	return EXIT_OK;
}

/* Takes ":ADDR" from the end of the text. False: it is not there. */
static bool take_address(struct builder *b, uint64_t *address)
{
	char *colon = strrchr(b->text, ':');

	if (!colon || colon == b->text || !read_set_number(colon + 1, 16, address))
		return false;
	*colon = '\0';
	return true;
}

/* Complains if the file cannot be read. */
static int check_set_file(const struct builder *b, const char *path)
{
	return access(path, R_OK) < 0 ? fail(b->command, "--%s=%s: %s: %s", b->option->name,
					     b->option->value, path, strerror(errno))
				      : EXIT_OK;
}

/*
 * Whether the file is a recording, and no raw trace. Reading the bytes of a pipe would take them
 * away.
 */
static bool is_recording(const char *path)
{
	char magic[8] = "";
	struct stat st;
	FILE *f = !stat(path, &st) && S_ISREG(st.st_mode) ? fopen(path, "re") : NULL;
	size_t n = f ? fread(magic, 1, sizeof(magic), f) : 0;

	if (f)
		fclose(f);
	return n == sizeof(magic) && !memcmp(magic, "PERFILE2", sizeof(magic));
}

static int add_set_stream(struct builder *b)
{
	struct ptah_trace_stream stream = {.size = sizeof(stream)};
	struct attribute given[] = {{.key = "cpu", .most = INT32_MAX},
				    {.key = "pid", .most = INT32_MAX},
				    {.key = "tid", .most = INT32_MAX},
				    {0}};
	int status = take_attributes(b, given);

	if (!status)
		status = take_range(b, &stream.file);
	if (status)
		return status;
	if (is_recording(stream.file.path))
		return complain_set(b, "this is a recording (perf.data), not a raw trace; read it "
				       "without --pt");
	stream.cpu = given[0].given ? (int32_t)given[0].value : -1;
	stream.pid = given[1].given ? (int32_t)given[1].value : -1;
	stream.tid = given[2].given ? (int32_t)given[2].value : -1;
	status = ptah_trace_set_add_stream(b->set, &stream);
	return status < 0 ? complain_status(b, status) : EXIT_OK;
}

/* The process or the address space that code belongs to. */
static int take_memory(struct builder *b, struct ptah_trace_code *code)
{
	struct attribute given[] = {
	    {.key = "cr3", .base = 16, .most = UINT64_MAX - 1, .value = PTAH_SPACE_ANY},
	    {.key = "vmcs", .base = 16, .most = UINT64_MAX - 1, .value = PTAH_SPACE_ANY},
	    {.key = b->option->kind == SET_PAGES ? NULL : "pid", .most = INT32_MAX},
	    {0}};
	int status = take_attributes(b, given);

	if (!status && given[2].given && (given[0].given || given[1].given))
		return complain_set(b, "a process or an address space, not both");
	code->space = (struct ptah_space){given[0].value, given[1].value};
	code->pid = given[2].given ? (int32_t)given[2].value : -1;
	return status;
}

static int add_set_code(struct builder *b, struct ptah_trace_code *code)
{
	char *folder = NULL, *path = NULL;
	int status;

	/* Relative to the working folder, and not to that of the set. */
	if (*code->file.path != '/') {
		folder = getcwd(NULL, 0);
		if (!folder || asprintf(&path, "%s/%s", folder, code->file.path) < 0)
			path = NULL;
		code->file.path = path ? path : code->file.path;
	}
	free(folder);
	status = ptah_trace_set_add_code(b->set, code);
	free(path);
	return status < 0 ? complain_status(b, status) : EXIT_OK;
}

static int add_raw(struct builder *b)
{
	struct ptah_trace_code code = {.size = sizeof(code), .kind = PTAH_TRACE_CODE_RAW};
	int status = take_memory(b, &code);

	if (!status && !take_address(b, &code.address))
		return complain_set(b, "it takes FILE:ADDRESS (hexadecimal)");
	if (!status)
		status = take_range(b, &code.file);
	if (!status)
		status = check_set_file(b, code.file.path);
	return status ? status : add_set_code(b, &code);
}

static int add_program(struct builder *b, uint8_t kind)
{
	struct ptah_trace_code code = {.size = sizeof(code), .kind = kind};
	int status = take_memory(b, &code);

	if (status)
		return status;
	/* A colon may also belong to the file's name. */
	if (!is_name(b) && !take_address(b, &code.address) && strchr(b->text, ':'))
		return complain_set(b, "it takes FILE or FILE:BASE (hexadecimal)");
	code.file.path = b->text;
	status = check_set_file(b, code.file.path);
	return status ? status : add_set_code(b, &code);
}

static int add_set_pages(struct builder *b)
{
	struct ptah_trace_code code = {.size = sizeof(code), .kind = PTAH_TRACE_CODE_PAGES};
	int status = take_memory(b, &code);

	for (unsigned i = 0; i < 2 && !status; i++) {
		char path[sizeof(b->text) + 8];

		snprintf(path, sizeof(path), "%s.%s", b->text, i ? "dump" : "addr");
		status = check_set_file(b, path);
	}
	code.file.path = b->text;
	return status ? status : add_set_code(b, &code);
}

static int add_set_sideband(struct builder *b)
{
	struct ptah_trace_sideband sideband = {
	    .size = sizeof(sideband),
	    .sample_type = b->sample_type,
	    .cpu = -1,
	    .pid = -1,
	    .tid = -1,
	    .tsc_offset = b->tsc_offset,
	    .primary = b->option->kind == SET_SIDEBAND_PRIMARY,
	};
	int status = take_range(b, &sideband.file);

	if (!status)
		status = check_set_file(b, sideband.file.path);
	if (status)
		return status;
	status = ptah_trace_set_add_sideband(b->set, &sideband);
	return status < 0 ? complain_status(b, status) : EXIT_OK;
}

/* "ID:TYPE" */
static int add_set_event(struct builder *b)
{
	struct ptah_trace_event event = {.size = sizeof(event)};
	char *colon = strchr(b->text, ':');
	int status;

	if (colon)
		*colon = '\0';
	if (!colon || !read_set_number(b->text, 0, &event.id) ||
	    !read_set_number(colon + 1, 0, &event.sample_type))
		return complain_set(b, "it takes ID:TYPE");
	status = ptah_trace_set_add_event(b->set, &event);
	return status < 0 ? complain_status(b, status) : EXIT_OK;
}

static int take_tsc_offset(struct builder *b)
{
	const bool negative = b->text[0] == '-';
	uint64_t ticks;

	/* ptxed also takes a negative number as what it is in 64 bits. */
	if (!read_set_number(b->text + negative, 0, &ticks))
		return complain_set(b, "not a number");
	b->tsc_offset = (int64_t)(negative ? -ticks : ticks);
	return EXIT_OK;
}

/* Options of which the last one counts, or that are valid for what follows. */
static int take_sideband_number(struct builder *b)
{
	uint64_t value;
	int status = take_number(b, UINT64_MAX, &value);

	if (status)
		return status;
	b->processor.has_clock = true;
	switch (b->option->kind) {
	case SET_TIME_ZERO:
		b->processor.time_zero = value;
		break;
	case SET_TIME_SHIFT:
		if (value >= 64)
			return complain_set(b, "it is less than 64");
		b->processor.time_shift = (uint16_t)value;
		break;
	default:
		if (!value || value > UINT32_MAX)
			return complain_set(b, "it is from 1 to %u", UINT32_MAX);
		b->processor.time_mult = (uint32_t)value;
		break;
	}
	return EXIT_OK;
}

/* "EAX,EBX" */
static int take_set_leaf(struct builder *b)
{
	char *comma = strchr(b->text, ',');
	uint64_t eax, ebx;

	if (comma)
		*comma = '\0';
	if (!comma || !read_set_number(b->text, 0, &eax) || !read_set_number(comma + 1, 0, &ebx) ||
	    !eax || !ebx || eax > UINT32_MAX || ebx > UINT32_MAX)
		return complain_set(b, "it takes EAX,EBX");
	b->processor.tsc_d = (uint32_t)eax;
	b->processor.tsc_n = (uint32_t)ebx;
	return EXIT_OK;
}

static int take_set_clock(struct builder *b)
{
	static const uint64_t most[] = {[SET_MTC_FREQ] = 15,
					[SET_NOM_FREQ] = UINT8_MAX,
					[SET_LEAF_15_EAX] = UINT32_MAX,
					[SET_LEAF_15_EBX] = UINT32_MAX};
	const enum set_option_kind kind = b->option->kind;
	uint64_t value;
	int status = take_number(b, most[kind], &value);

	if (status)
		return status;
	if (kind == SET_MTC_FREQ)
		b->processor.trace.mtc_period = (uint8_t)value;
	else if (kind == SET_NOM_FREQ)
		b->processor.nominal_ratio = (uint8_t)value;
	else if (kind == SET_LEAF_15_EAX)
		b->processor.tsc_d = (uint32_t)value;
	else
		b->processor.tsc_n = (uint32_t)value;
	return EXIT_OK;
}

/* "filter:addrN_cfg", "_a" and "_b" */
static int take_hardware_range(struct builder *b)
{
	const unsigned n = (unsigned)(b->option->name[strlen("filter:addr")] - '0');
	struct ptah_range *range = &b->processor.trace.ranges[n % PTAH_RANGES];
	uint64_t value;
	int status = take_number(b, b->option->kind == SET_RANGE_CFG ? 15 : UINT64_MAX, &value);

	if (status)
		return status;
	if (b->option->kind == SET_RANGE_A) {
		range->first = value;
	} else if (b->option->kind == SET_RANGE_B) {
		range->last = value;
	} else {
		if (value > PTAH_RANGE_STOP)
			return complain_set(b, "it is 0, 1 (filter) or 2 (stop)");
		range->mode = (uint8_t)value;
	}
	return EXIT_OK;
}

static int take_kcore(struct builder *b)
{
	if (b->kcore)
		return complain_set(b, "it can be given once");
	b->kcore = b->option->value;
	return check_set_file(b, b->kcore);
}

static int take_vdso(struct builder *b)
{
	static const uint8_t abis[] = {[SET_VDSO_64] = PTAH_TRACE_VDSO_64,
				       [SET_VDSO_X32] = PTAH_TRACE_VDSO_X32,
				       [SET_VDSO_32] = PTAH_TRACE_VDSO_32};
	struct ptah_trace_system system = {.size = sizeof(system)};
	int status = check_set_file(b, b->text);

	if (status)
		return status;
	system.vdso[abis[b->option->kind]] = b->text;
	status = ptah_trace_set_system(b->set, &system);
	return status < 0 ? complain_status(b, status) : EXIT_OK;
}

static int take_sysroot(struct builder *b)
{
	if (b->input->symfs && strcmp(b->input->symfs, b->option->value) != 0)
		return complain_set(b, "--symfs is another folder");
	b->input->symfs = b->option->value;
	return EXIT_OK;
}

static int take_set_option(struct builder *b)
{
	uint64_t unused;

	switch (b->option->kind) {
	case SET_PT:
		return add_set_stream(b);
	case SET_RAW:
		return add_raw(b);
	case SET_ELF:
		return add_program(b, PTAH_TRACE_CODE_ELF);
	case SET_PE:
		return add_program(b, PTAH_TRACE_CODE_PE);
	case SET_PAGES:
		return add_set_pages(b);
	case SET_FILTER:
		if (b->filter)
			return complain_set(b,
					    "it can be given once; commas separate several ranges");
		b->filter = b->option->value;
		return EXIT_OK;
	case SET_MTC_FREQ:
	case SET_NOM_FREQ:
	case SET_LEAF_15_EAX:
	case SET_LEAF_15_EBX:
		return take_set_clock(b);
	case SET_LEAF_15:
		return take_set_leaf(b);
	case SET_RANGE_CFG:
	case SET_RANGE_A:
	case SET_RANGE_B:
		return take_hardware_range(b);
	case SET_SIDEBAND:
	case SET_SIDEBAND_PRIMARY:
		b->processor.has_clock = true;
		return add_set_sideband(b);
	case SET_SAMPLE_TYPE:
		return take_number(b, UINT64_MAX, &b->sample_type);
	case SET_SAMPLE_CONFIG:
		return add_set_event(b);
	case SET_TIME_ZERO:
	case SET_TIME_SHIFT:
	case SET_TIME_MULT:
		return take_sideband_number(b);
	case SET_TSC_OFFSET:
		return take_tsc_offset(b);
	case SET_SYSROOT:
		return take_sysroot(b);
	case SET_KCORE:
		return take_kcore(b);
	case SET_VDSO_64:
	case SET_VDSO_X32:
	case SET_VDSO_32:
		return take_vdso(b);
	case SET_NUMBER_WITHOUT_EFFECT:
		return take_number(b, UINT64_MAX, &unused);
	}
	return EXIT_OK;
}

/* --filter: names of functions become offsets in files, and then the text is as perf records it. */

/* Whether the text names no function and no relative path, so that it can be used as it is. */
static bool is_plain(const char *text)
{
	struct ptah_filter filter;

	while (*(text += strspn(text, " ,")))
		if (ptah_filter_parse(&text, &filter, NULL) < 0 || *filter.start.name ||
		    !filter.has_end || *filter.end.name || (*filter.file && *filter.file != '/'))
			return false;
	return true;
}

/* The path by which the records name a file: it lies below --symfs here. */
static const char *recorded_path(const struct builder *b, const char *path)
{
	char *root = b->input->symfs ? realpath(b->input->symfs, NULL) : NULL;
	const size_t n = root ? strlen(root) : 0;

	if (n > 1 && !strncmp(path, root, n) && path[n] == '/')
		path += n;
	free(root);
	return path;
}

static int write_filters(const struct builder *b, const struct filters *filters, char *text,
			 size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < filters->count; i++) {
		const struct ptah_record_filter *f = &filters->items[i];
		struct stat st = {0};
		uint64_t length = f->size;

		/* All of a file. */
		if (length == UINT64_MAX) {
			if (stat(f->path, &st) < 0)
				return fail(b->command, "--filter: %s: %s", f->path,
					    strerror(errno));
			length = (uint64_t)st.st_size;
		}
		if (!length)
			return fail(b->command, "--filter: %s: the file is empty", f->path);
		n += (size_t)snprintf(text + n, size - n, "%s%s 0x%" PRIx64 "/0x%" PRIx64 "%s%s",
				      i ? "," : "", f->mode == PTAH_RANGE_STOP ? "stop" : "filter",
				      f->start, length, f->path ? "@" : "",
				      f->path ? recorded_path(b, f->path) : "");
		if (n >= size)
			return fail(b->command, "--filter: its paths are too long");
	}
	return EXIT_OK;
}

bool set_option_is_code(const struct set_option *option)
{
	return option->kind == SET_RAW || option->kind == SET_ELF || option->kind == SET_PE ||
	       option->kind == SET_PAGES;
}

const struct set_option *set_options_add_code(const struct input *input)
{
	for (size_t i = 0; i < input->set_option_count && input->path; i++)
		if (set_option_is_code(&input->set_options[i]))
			return &input->set_options[i];
	return NULL;
}

/* The program that names without a file belong to: the first --elf. */
static const char *first_elf(const struct builder *b, char *path, size_t size)
{
	for (size_t i = 0; i < b->input->set_option_count; i++) {
		const struct set_option *o = &b->input->set_options[i];

		if (o->kind != SET_ELF)
			continue;
		snprintf(path, size, "%s", o->value);
		if (access(path, F_OK) < 0)
			path[strcspn(path, ",:")] = '\0';
		return path;
	}
	return NULL;
}

static int add_set_filter(struct builder *b)
{
	char text[4 * (sizeof(b->text) + 64)], program[sizeof(b->text)];
	struct ptah_trace_system system = {.size = sizeof(system), .filter = b->filter};
	struct filters filters;
	int status;

	if (!is_plain(b->filter)) {
		status = filters_parse(b->command, b->filter,
				       first_elf(b, program, sizeof(program)), false, &filters);
		if (!status)
			status = write_filters(b, &filters, text, sizeof(text));
		filters_free(&filters);
		if (status)
			return status;
		system.filter = text;
	}
	status = ptah_trace_set_system(b->set, &system);
	return status < 0
		   ? fail_usage(b->command, "--filter=%s: %s", b->filter, ptah_strerror(status))
		   : EXIT_OK;
}

/* What only the options together say. */

static int check_set_ranges(const struct builder *b)
{
	for (unsigned i = 0; i < PTAH_RANGES; i++) {
		const struct ptah_range *range = &b->processor.trace.ranges[i];

		if (range->mode && b->filter)
			return fail_usage(b->command, "--filter or --filter:addr%u_cfg, not both",
					  i);
		if (range->mode && range->last < range->first)
			return fail_usage(b->command,
					  "--filter:addr%u_b: the range ends before it begins", i);
	}
	return EXIT_OK;
}

static int complete(struct builder *b)
{
	struct ptah_trace_processor *p = &b->processor;
	const struct ptah_trace_system system = {
	    .size = sizeof(system),
	    .kcore = b->kcore,
	    .kallsyms = b->input->kallsyms,
	    /* Of no effect on this session, but a set that is saved has it. */
	    .root = b->input->symfs,
	};
	int status = check_set_ranges(b);

	if (status)
		return status;
	if (!p->tsc_n != !p->tsc_d)
		return fail_usage(b->command,
				  "--cpuid-0x15.eax and --cpuid-0x15.ebx belong together, and "
				  "neither is 0 unless both are");
	if (set_options_add_code(b->input)) /* the set describes itself */
		return EXIT_OK;
	if (p->has_clock && !p->time_mult)
		p->time_mult = 1;
	p->trace.os = b->kcore || b->input->vmlinux || b->input->kallsyms;
	p->trace.no_tnt = b->input->no_tnt;
	p->trace.no_retcomp = b->input->no_retcomp;
	status = ptah_trace_set_processor(b->set, p);
	if (status >= 0)
		status = ptah_trace_set_system(b->set, &system);
	if (status < 0)
		return fail(b->command, "%s", ptah_strerror(status));
	return b->filter ? add_set_filter(b) : EXIT_OK;
}

/* ptxed's sample type is that of the files that follow; here one that comes late is also theirs. */
static int take_first_sample_type(struct builder *b)
{
	for (size_t i = 0; i < b->input->set_option_count; i++) {
		b->option = &b->input->set_options[i];
		if (b->option->kind == SET_SAMPLE_TYPE)
			return take_number(b, UINT64_MAX, &b->sample_type);
	}
	return EXIT_OK;
}

static int take_all(struct builder *b)
{
	int status = take_first_sample_type(b);

	for (size_t i = 0; i < b->input->set_option_count && !status; i++) {
		b->option = &b->input->set_options[i];
		if (snprintf(b->text, sizeof(b->text), "%s", b->option->value) >=
		    (int)sizeof(b->text))
			return complain_set(b, "it is too long");
		status = take_set_option(b);
	}
	return status ? status : complete(b);
}

/* A new set, or the one that the options add code to. */
static int begin_set(struct builder *b)
{
	const char *path = b->input->path;
	const struct set_option *code = set_options_add_code(b->input);
	struct ptah_message why = {""};
	int status = code ? ptah_trace_set_open(path, &b->set, &why) : ptah_trace_set_new(&b->set);

	if (status == PTAH_E_BAD_MAGIC)
		return fail_usage(
		    b->command,
		    "--raw, --elf, --pe and --pages belong to --pt, or to a set of raw "
		    "traces, and %s is none",
		    path);
	if (status < 0)
		return fail(b->command, "%s", why.text[0] ? why.text : ptah_strerror(status));
	return EXIT_OK;
}

int set_options_build(const struct command *command, struct input *input,
		      const struct ptah_cpu *cpu, struct ptah_trace_set **set,
		      struct ptah_trace_processor *processor)
{
	struct builder b = {
	    .command = command, .input = input, .processor = {.size = sizeof(b.processor)}};
	int status;

	b.processor.cpu = *cpu;
	status = begin_set(&b);
	if (status)
		return status;
	status = take_all(&b);
	*processor = b.processor;
	if (status)
		ptah_trace_set_free(b.set);
	else
		*set = b.set;
	return status;
}
