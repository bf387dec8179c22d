/* SPDX-License-Identifier: MIT */
/*
 * Proves of the public writer: whatever is called in whatever order with whatever numbers, each
 * call returns, refusals have a sentence and change nothing, and the file that is finished is one
 * that the library opens, with as many bytes of trace as were taken. A recording without trace
 * leaves nothing.
 *
 * Input: a byte of options (kind of the streams, snapshots, layout of a pipe, RTIT_CTL), then
 * calls: a byte that says which, and its arguments. Strings and trace are bytes of the input.
 */
#include "fuzz.h"
#include "record/recording.h"

#include <ptah/engine/rtit.h>
#include <ptah/recording.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct input {
	const uint8_t *p, *end;
};

static uint64_t number(struct input *in)
{
	static const uint64_t special[] = {0,	       UINT64_MAX, INT64_MAX,
					   UINT32_MAX, INT32_MAX,  UINT64_C(0xffffffff81000000),
					   4096,       65536};
	uint64_t value = 0;
	unsigned kind = in->p < in->end ? *in->p++ : 0, n = kind >> 6;

	if (kind & 32)
		return special[kind & 7] - (n & 1);
	if (!n)
		return kind & 31;
	for (n = 1u << n; n && in->p < in->end; n--)
		value = value << 8 | *in->p++;
	return value;
}

static size_t bytes(struct input *in, const uint8_t **at)
{
	size_t n = (size_t)(number(in) & 0xffff);

	n = n < (size_t)(in->end - in->p) ? n : (size_t)(in->end - in->p);
	*at = in->p;
	in->p += n;
	return n;
}

/* The caller frees it; NULL now and then. */
static char *string(struct input *in)
{
	const uint8_t *at;
	size_t n = bytes(in, &at);
	char *text;

	if (n == 7)
		return NULL;
	text = calloc(1, n + 1);
	CHECK(text);
	memcpy(text, at, n);
	return text;
}

static int add_trace(struct ptah_recording *r, struct input *in)
{
	uint32_t stream = (uint32_t)number(in);
	uint64_t position = number(in);
	struct ptah_piece pieces[3] = {0};
	uint8_t *copies[3];
	int status;

	for (size_t i = 0; i < 3; i++) {
		const uint8_t *at;

		pieces[i].size = bytes(in, &at);
		pieces[i].address = copies[i] = fuzz_copy(at, pieces[i].size);
	}
	status = ptah_recording_add_pieces(r, stream, position, pieces, 3);
	for (size_t i = 0; i < 3; i++)
		free(copies[i]);
	return status;
}

static int add_map(struct ptah_recording *r, struct input *in)
{
	char *path = string(in);
	struct ptah_recording_map map = {
	    .size = sizeof(map),
	    .pid = (int32_t)number(in),
	    .tsc = number(in),
	    .address = number(in),
	    .bytes = number(in),
	    .file_offset = number(in),
	    .path = path,
	    .build_id_size = (uint8_t)number(in),
	};
	int status = ptah_recording_add_map(r, &map);

	free(path);
	return status;
}

static int add_code(struct ptah_recording *r, struct input *in)
{
	const uint8_t *at;
	size_t n = bytes(in, &at);
	char *name = string(in);
	uint8_t *copy = fuzz_copy(at, n);
	int32_t pid = (int32_t)number(in);
	uint64_t tsc = number(in);
	int status = ptah_recording_add_code(r, pid, tsc, number(in), copy, n, name);

	free(copy);
	free(name);
	return status;
}

static int add_stream(struct ptah_recording *r, struct input *in)
{
	const struct ptah_recording_stream config = {.size = sizeof(config),
						     .cpu = (int32_t)number(in),
						     .pid = (int32_t)number(in),
						     .tid = (int32_t)number(in),
						     .tsc = number(in)};
	uint32_t stream;

	return ptah_recording_add_stream(r, &config, &stream);
}

static int add_name(struct ptah_recording *r, struct input *in, bool exec)
{
	char *name = string(in);
	const struct ptah_recording_task task = {.size = sizeof(task),
						 .kind = exec ? PTAH_RECORDING_EXEC
							      : PTAH_RECORDING_NAME,
						 .pid = (int32_t)number(in),
						 .tid = (int32_t)number(in),
						 .tsc = number(in),
						 .name = name};
	int status = ptah_recording_add_task(r, &task);

	free(name);
	return status;
}

static int add_record(struct ptah_recording *r, struct input *in)
{
	uint32_t stream = (uint32_t)number(in);
	const struct ptah_capture_record record = {.position = number(in),
						   .time = number(in),
						   .lost = number(in),
						   .flags = (uint32_t)number(in)};

	return ptah_recording_add_records(r, stream, &record, 1);
}

static int call(struct ptah_recording *r, struct input *in)
{
	const unsigned which = *in->p++;
	const struct ptah_truth truth = {.instructions = which};
	struct ptah_recording_task task;
	int32_t a, b, c, d;
	char *text;
	int status;

	switch (which % 14) {
	case 0:
		return add_stream(r, in);
	case 1:
	case 2:
	case 3:
		return add_trace(r, in);
	case 4:
		return add_map(r, in);
	case 5:
		return add_code(r, in);
	case 6:
		return add_name(r, in, which & 16);
	case 7:
		return add_record(r, in);
	case 8:
		return recording_add_truth(r, (uint32_t)number(in), &truth);
	case 9:
		text = string(in);
		status = ptah_recording_add_note(r, text);
		free(text);
		return status;
	case 10:
		return ptah_recording_flush(r);
	default:
		a = (int32_t)number(in);
		b = (int32_t)number(in);
		c = (int32_t)number(in);
		d = (int32_t)number(in);
		if (which % 14 == 11)
			return ptah_recording_add_switch(r, a, (uint32_t)d, b, c);
		task = (struct ptah_recording_task){.size = sizeof(task),
						    .kind = which % 14 == 12 ? PTAH_RECORDING_FORK
									     : PTAH_RECORDING_EXIT,
						    .pid = a,
						    .tid = b,
						    .parent_pid = c,
						    .parent_tid = d,
						    .tsc = number(in)};
		return ptah_recording_add_task(r, &task);
	}
}

/* The library opens it, and the streams have what was taken, with less than 8 bytes of padding. */
static void open_again(const char *path, uint64_t taken)
{
	const struct ptah_session_config config = {
	    .size = sizeof(config), .symfs = "/var/empty/ptah-fuzz", .ignore_build_ids = true};
	struct ptah_stream_info info;
	struct ptah_message why = {""};
	struct ptah_session *s;
	uint64_t sum = 0;

	if (ptah_session_open(path, &config, &s, &why) < 0) {
		fprintf(stderr, "%s\n", why.text);
		abort();
	}
	for (size_t i = 0; i < ptah_session_streams(s); i++) {
		CHECK(!ptah_session_stream_info(s, i, &info));
		sum += info.bytes;
	}
	CHECK(sum > 0 && taken > 0);
	ptah_session_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ptah_recording_config config = {.size = sizeof(config)};
	struct ptah_message why = {""};
	struct ptah_recording *r;
	struct input in = {data + 2, data + size};
	uint64_t before = 0;
	struct stat st;
	char path[64];
	int status;

	if (size < 2)
		return 0;
	config.fd = memfd_create("fuzz", 0);
	CHECK(config.fd >= 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", config.fd);
	config.kind = data[0] & 1;
	config.snapshot = data[0] & 2;
	config.rtit_ctl = PTAH_RTIT_CTL_USER | PTAH_RTIT_CTL_BRANCH_EN |
			  (data[0] & 8 ? PTAH_RTIT_CTL_OS : 0) |
			  (data[0] & 16 ? 0 : PTAH_RTIT_CTL_TSC_EN) | (uint64_t)data[1] << 4;
	config.clock.mult = data[0] & 32 ? data[1] : 0;
	config.clock.zero = data[0] & 64 ? UINT64_MAX - data[1] : 0;
	if (data[0] & 4)
		CHECK(!fcntl(config.fd, F_SETFL, O_APPEND));
	if (ptah_recording_new(&config, &r, &why) < 0) {
		fprintf(stderr, "%s\n", why.text);
		abort();
	}
	while (in.p < in.end) {
		status = call(r, &in);
		CHECK(!status || status == PTAH_E_INVAL);
		CHECK(!status || *ptah_recording_why(r));
		CHECK(ptah_recording_bytes(r) >= before);
		before = ptah_recording_bytes(r);
	}
	status = ptah_recording_finish(r);
	CHECK(status == (before ? 0 : PTAH_E_EMPTY));
	ptah_recording_free(r);
	CHECK(!fstat(config.fd, &st) && (st.st_size != 0) == (before != 0));
	if (before)
		open_again(path, before);
	close(config.fd);
	return 0;
}
