/* SPDX-License-Identifier: MIT */
/*
 * write_bundle RECORDING FOLDER threads|cpus: makes a trace bundle of LLDB from a recording of
 * Ptah, with its traces as those of threads, or each as that of a CPU on which nothing else ran.
 */
#include "perfdata/byte_buffer.h"
#include "perfdata/format.h"
#include "perfdata/reader.h"

#include <elf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *folder;
static bool of_cpus;

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "write_bundle: %s\n", what);
	exit(1);
}

static FILE *create(const char *path)
{
	FILE *f = fopen(path, "wb");

	if (!f)
		die(path);
	return f;
}

static FILE *create_data(size_t stream, const char *kind)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%zu.%s", folder, stream, kind);
	return create(path);
}

static void write_stream(const struct ptah_session *s, size_t stream)
{
	FILE *f = create_data(stream, "intelpt_trace");
	const uint8_t *bytes;
	uint64_t offset = 0;
	size_t n;

	while ((n = ptah_session_stream_bytes(s, stream, offset, &bytes)) > 0) {
		fwrite(bytes, 1, n, f);
		offset += n;
	}
	fclose(f);
}

/* PERF_RECORD_SWITCH_CPU_WIDE: the thread arrives, before all of its trace. */
static void write_switch(const struct ptah_stream_info *info, const struct perfdata_clock *clock,
			 size_t stream)
{
	struct perfdata_buffer b = {0};
	FILE *f = create_data(stream, "perf_context_switch_trace");

	perfdata_put32(&b, PERFDATA_SWITCH_CPU_WIDE);
	perfdata_put16(&b, 0);
	perfdata_put16(&b, 32);
	perfdata_put64(&b, 0);
	perfdata_put32(&b, (uint32_t)info->pid);
	perfdata_put32(&b, (uint32_t)info->tid);
	perfdata_put64(&b, clock->zero + 1);
	fwrite(b.bytes, 1, b.size, f);
	fclose(f);
	perfdata_buffer_free(&b);
}

/* The lowest address of a file's segments, by its own addresses. */
static uint64_t lowest_address(const char *path)
{
	uint64_t lowest = UINT64_MAX;
	FILE *f = fopen(path, "rb");
	Elf64_Ehdr header;
	Elf64_Phdr segment;

	if (!f || fread(&header, sizeof(header), 1, f) != 1 ||
	    fseek(f, (long)header.e_phoff, SEEK_SET))
		die(path);
	for (unsigned i = 0; i < header.e_phnum; i++)
		if (fread(&segment, sizeof(segment), 1, f) != 1)
			die(path);
		else if (segment.p_type == PT_LOAD && segment.p_vaddr < lowest)
			lowest = segment.p_vaddr;
	fclose(f);
	return lowest;
}

/* Where the lowest segment lies when the file's bytes from `offset` on are at `address`. */
static uint64_t load_address(const char *path, uint64_t address, uint64_t offset)
{
	const uint64_t lowest = lowest_address(path);
	FILE *f = fopen(path, "rb");
	uint64_t load = UINT64_MAX;
	Elf64_Ehdr header;
	Elf64_Phdr segment;

	if (!f || fread(&header, sizeof(header), 1, f) != 1 ||
	    fseek(f, (long)header.e_phoff, SEEK_SET))
		die(path);
	for (unsigned i = 0; i < header.e_phnum; i++)
		if (fread(&segment, sizeof(segment), 1, f) == 1 && segment.p_type == PT_LOAD &&
		    offset >= (segment.p_offset & ~UINT64_C(4095)) &&
		    offset < segment.p_offset + segment.p_filesz)
			load = address - offset + segment.p_offset - segment.p_vaddr + lowest;
	fclose(f);
	return load;
}

static void write_uuid(FILE *json, const struct perfdata_build_id *id)
{
	for (size_t i = 0; i < id->size; i++)
		fprintf(json, "%s%02X", i == 4 || i == 6 || i == 8 || i == 10 || i == 16 ? "-" : "",
			id->bytes[i]);
}

static void write_modules(FILE *json, const char *recording, int32_t pid)
{
	struct perfdata_record record;
	struct perfdata_file *file;
	bool first = true;

	if (perfdata_open(recording, &file, NULL) < 0)
		die(recording);
	while (perfdata_next(file, &record, NULL) > 0) {
		struct perfdata_build_id id = record.id;
		char path[4096];

		if (record.type != PERFDATA_MMAP2 || record.pid != pid)
			continue;
		snprintf(path, sizeof(path), "%.*s", (int)record.text_size, record.text);
		if (!ptah_path_is_file(path))
			continue;
		if (!id.size)
			perfdata_build_id_read(path, &id);
		fprintf(json, "%s{\"systemPath\": \"%s\", \"loadAddress\": %" PRIu64,
			first ? "" : ",\n", path,
			load_address(path, record.address, record.file_offset));
		fprintf(json, ", \"uuid\": \"");
		write_uuid(json, &id);
		fprintf(json, "\"}");
		first = false;
	}
	perfdata_close(file);
}

static void write_processes(FILE *json, const struct ptah_session *s, const char *recording)
{
	struct ptah_stream_info info, other;
	const size_t n = ptah_session_streams(s);

	for (size_t i = 0; i < n; i++) {
		size_t first = 0;

		ptah_session_stream_info(s, i, &info);
		do
			ptah_session_stream_info(s, first, &other);
		while (other.pid != info.pid && ++first);
		if (first != i)
			continue;
		fprintf(json, "%s{\"pid\": %d, \"triple\": \"x86_64-pc-linux\", \"threads\": [",
			i ? ",\n" : "", info.pid);
		for (size_t k = i; k < n; k++) {
			ptah_session_stream_info(s, k, &other);
			if (other.pid != info.pid)
				continue;
			fprintf(json, "%s{\"tid\": %d", k > i ? ", " : "", other.tid);
			if (!of_cpus)
				fprintf(json, ", \"iptTrace\": \"%zu.intelpt_trace\"", k);
			fprintf(json, "}");
		}
		fprintf(json, "],\n\"modules\": [");
		write_modules(json, recording, info.pid);
		fprintf(json, "]}");
	}
}

static void write_cpus(FILE *json, const struct ptah_session *s, const struct perfdata_clock *clock)
{
	struct ptah_stream_info info;

	fprintf(json, ",\n\"cpus\": [");
	for (size_t i = 0; i < ptah_session_streams(s); i++) {
		ptah_session_stream_info(s, i, &info);
		write_switch(&info, clock, i);
		fprintf(json,
			"%s{\"id\": %zu, \"iptTrace\": \"%zu.intelpt_trace\", "
			"\"contextSwitchTrace\": \"%zu.perf_context_switch_trace\"}",
			i ? ",\n" : "", i, i, i);
	}
	fprintf(
	    json,
	    "],\n\"tscPerfZeroConversion\": {\"timeMult\": %u, \"timeShift\": %u, \"timeZero\": "
	    "\"%" PRIu64 "\"}",
	    clock->mult, clock->shift, clock->zero);
}

int main(int argc, char **argv)
{
	struct perfdata_record record;
	struct perfdata_clock clock;
	struct perfdata_file *file;
	struct ptah_session *s;
	char path[4096];
	FILE *json;

	if (argc != 4)
		die("RECORDING FOLDER threads|cpus");
	folder = argv[2];
	of_cpus = !strcmp(argv[3], "cpus");
	mkdir(folder, 0700);
	if (ptah_session_open(argv[1], NULL, &s, NULL) < 0 ||
	    perfdata_open(argv[1], &file, NULL) < 0)
		die(argv[1]);
	while (perfdata_next(file, &record, NULL) > 0)
		;
	if (!perfdata_clock(file, &clock))
		die("no clock");
	for (size_t i = 0; i < ptah_session_streams(s); i++)
		write_stream(s, i);
	snprintf(path, sizeof(path), "%s/trace.json", folder);
	json = create(path);
	fprintf(json, "{\"type\": \"intel-pt\", \"cpuInfo\": {\"vendor\": \"GenuineIntel\", "
		      "\"family\": 6, \"model\": 142, \"stepping\": 10},\n\"processes\": [");
	write_processes(json, s, argv[1]);
	fprintf(json, "]");
	if (of_cpus)
		write_cpus(json, s, &clock);
	fprintf(json, "}\n");
	fclose(json);
	perfdata_close(file);
	ptah_session_close(s);
	return 0;
}
