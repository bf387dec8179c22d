/* SPDX-License-Identifier: MIT */
/*
 * take_apart RECORDING FOLDER: takes a recording apart into what a driver without perf.data would
 * leave, for the tests of trace sets: FOLDER/trace.N for each stream, FOLDER/records with the other
 * records as they are, and a ptah.trace. The trace is cut into pieces of at most 1000 bytes, each
 * in a file of its own up to the tenth.
 */
#include "perfdata/file.h"

#include <ptah/trace_set.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE	  1000
#define FILES_MAX 10

struct taken {
	const char *folder;
	struct perfdata_file *file;
	struct ptah_trace_set *set;
	FILE *records;
	unsigned files;
};

static void must(bool true_one, const char *what)
{
	if (true_one)
		return;
	fprintf(stderr, "take_apart: %s\n", what);
	exit(1);
}

static FILE *create(const struct taken *t, const char *name, char *path, size_t size)
{
	FILE *f;

	snprintf(path, size, "%s/%s", t->folder, name);
	f = fopen(path, "ab");
	must(f != NULL, "cannot create a file");
	return f;
}

static void take_piece(struct taken *t, const struct perfdata_record *r, const uint8_t *bytes,
		       size_t n)
{
	struct ptah_trace_stream stream = {
	    .size = sizeof(stream), .cpu = r->cpu, .tid = r->cpu < 0 ? r->tid : -1};
	char name[32], path[4096];
	FILE *f;

	snprintf(name, sizeof(name), "trace.%u", t->files < FILES_MAX ? t->files++ : FILES_MAX);
	f = create(t, name, path, sizeof(path));
	must(!fseek(f, 0, SEEK_END), "cannot seek");
	stream.file.path = path;
	stream.file.from = (uint64_t)ftell(f);
	stream.file.to = stream.file.from + n;
	must(fwrite(bytes, 1, n, f) == n && !fclose(f), "cannot write trace");
	must(!ptah_trace_set_add_stream(t->set, &stream), "a stream is refused");
}

/* The record as it lies in the recording's only file. */
static void take_record(const struct taken *t, const struct perfdata_record *r)
{
	const uint8_t *bytes = t->file->parts[0].bytes + r->offset;
	const size_t n = load_le16(bytes + 6);

	must(fwrite(bytes, 1, n, t->records) == n, "cannot write records");
}

static void set_processor(struct taken *t)
{
	struct ptah_trace_processor p = {.size = sizeof(p)};
	struct perfdata_timing timing;
	struct perfdata_clock clock;

	ptah_cpu_parse(perfdata_cpuid(t->file), &p.cpu);
	if (perfdata_timing(t->file, &timing)) {
		p.trace.mtc_period = timing.mtc_freq;
		p.trace.cyc_threshold = timing.cyc_thresh;
		p.trace.no_tnt = timing.no_tnt;
		p.trace.no_retcomp = timing.no_retcomp;
		p.tsc_n = timing.tsc_n;
		p.tsc_d = timing.tsc_d;
		p.nominal_ratio = timing.nominal_ratio;
	}
	p.has_clock = perfdata_clock(t->file, &clock);
	p.time_shift = clock.shift;
	p.time_mult = clock.mult;
	p.time_zero = clock.zero;
	must(!ptah_trace_set_processor(t->set, &p), "the processor is refused");
}

int main(int argc, char **argv)
{
	struct ptah_trace_sideband sideband = {.size = sizeof(sideband), .cpu = -1};
	struct taken t = {.folder = argv[argc - 1]};
	struct ptah_message why = {""};
	struct perfdata_record r;
	char path[4096];
	int more;

	must(argc == 3, "it takes RECORDING FOLDER");
	must(perfdata_open(argv[1], &t.file, &why) >= 0, why.text);
	must(!ptah_trace_set_new(&t.set), "no memory");
	t.records = create(&t, "records", path, sizeof(path));
	while ((more = perfdata_next(t.file, &r, &why)) > 0) {
		if (r.type != PERFDATA_AUXTRACE) {
			take_record(&t, &r);
			continue;
		}
		for (uint64_t at = 0; at < r.trace_size; at += PIECE)
			take_piece(&t, &r, r.bytes + at,
				   (size_t)(r.trace_size - at < PIECE ? r.trace_size - at : PIECE));
	}
	must(!more, why.text);
	must(!fclose(t.records), "cannot write records");
	sideband.file.path = path;
	sideband.sample_type = t.file->attrs[0].sample_type;
	must(!ptah_trace_set_add_sideband(t.set, &sideband), "the sideband is refused");
	set_processor(&t);
	snprintf(path, sizeof(path), "%s/ptah.trace", t.folder);
	must(!ptah_trace_set_save(t.set, path, &why), why.text);
	ptah_trace_set_free(t.set);
	perfdata_close(t.file);
	return 0;
}
