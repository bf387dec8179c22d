/* SPDX-License-Identifier: MIT */
/*
 * The companion of a driver that is made with the capture engine: the part in user space, which
 * turns captures into a recording. In the examples it is in the same program as the engine; with a
 * real driver the capture's bytes are mapped or copied, and its records, capabilities and options
 * are passed through an ioctl as the structs that they are (docs/porting.md).
 */
#ifndef PTAH_EXAMPLES_COMPANION_H
#define PTAH_EXAMPLES_COMPANION_H

#include <ptah/recording.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

static inline void companion_check(const struct ptah_recording *r, int status)
{
	if (status >= 0)
		return;
	fprintf(stderr, "%s: %s\n", ptah_strerror(status), ptah_recording_why(r));
	exit(1);
}

/* kind: PTAH_RECORDING_CPUS or PTAH_RECORDING_THREADS. */
static inline struct ptah_recording *companion_open(const char *path, uint8_t kind,
						    const struct ptah_caps *caps,
						    const struct ptah_trace_config *trace)
{
	struct ptah_recording_config config = {
	    .size = sizeof(config), .path = path, .kind = kind, .caps = caps, .trace = trace};
	struct ptah_message why;
	struct ptah_recording *r;

	if (ptah_recording_new(&config, &r, &why) < 0) {
		fprintf(stderr, "%s\n", why.text);
		exit(1);
	}
	return r;
}

/* A process and its code, in a file NAME.bin: perf decodes code from files alone. */
static inline void companion_add_process(struct ptah_recording *r, int32_t pid, const char *name,
					 uint64_t address, const void *code, size_t size)
{
	char file[64], path[PATH_MAX];
	struct ptah_recording_map map = {
	    .size = sizeof(map), .pid = pid, .address = address, .bytes = size, .path = path};
	struct ptah_recording_task task = {.size = sizeof(task),
					   .kind = PTAH_RECORDING_NAME,
					   .pid = pid,
					   .tid = pid,
					   .name = name};
	FILE *f;

	snprintf(file, sizeof(file), "%s.bin", name);
	f = fopen(file, "w");
	if (!f || fwrite(code, size, 1, f) != 1 || fclose(f) || !realpath(file, path))
		exit(1);
	companion_check(r, ptah_recording_add_task(r, &task));
	companion_check(r, ptah_recording_add_map(r, &map));
}

/* Of a processor or of a thread, as the recording's kind says; the other numbers are not used. */
static inline uint32_t companion_add_stream(struct ptah_recording *r, unsigned cpu, int32_t pid)
{
	const struct ptah_recording_stream config = {
	    .size = sizeof(config), .cpu = (int32_t)cpu, .pid = pid, .tid = pid};
	uint32_t stream;

	companion_check(r, ptah_recording_add_stream(r, &config, &stream));
	return stream;
}

/* Takes what the capture has, and gives the buffer back to it. */
static inline void companion_drain(struct ptah_recording *r, uint32_t stream,
				   struct ptah_capture *capture)
{
	struct ptah_capture_status status = {.size = sizeof(status)};
	struct ptah_capture_record records[64];
	struct ptah_piece pieces[16];
	uint64_t from;
	int n;

	companion_check(r, ptah_capture_flush(capture, NULL));
	companion_check(r, ptah_capture_status(capture, &status));
	n = ptah_capture_records(capture, records, 64);
	companion_check(r, ptah_recording_add_records(r, stream, records, (size_t)n));
	/* A buffer that wraps has lost what is older than `oldest`. */
	from = status.tail > status.oldest ? status.tail : status.oldest;
	n = ptah_capture_pieces(capture, from, status.position, pieces, 16);
	companion_check(r, n);
	companion_check(r, ptah_recording_add_pieces(r, stream, from, pieces, (size_t)n));
	companion_check(r, ptah_capture_consume(capture, status.position, NULL));
	companion_check(r, ptah_recording_flush(r));
}

static inline void companion_close(struct ptah_recording *r)
{
	companion_check(r, ptah_recording_finish(r));
	ptah_recording_free(r);
}

#endif
