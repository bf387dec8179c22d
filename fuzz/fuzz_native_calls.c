/* SPDX-License-Identifier: MIT */
/*
 * Proves of the log of system calls that the native recorder shares with a program: whatever stands
 * there, samples are whole, at most as many as there is room for entries, and their times do not go
 * back.
 *
 * Input: struct input, then bytes of the log.
 */
#include "fuzz.h"

#include "base/bits.h"
#include "perfdata/format.h"
#include "record/call_entry.h"
#include "record/native/native.h"

#include <sys/mman.h>

#define SLOT 1
#define PID  7

/* Instead of recorder.c and maps.c, which need all recorders. */

int recorder_fail(struct ptah_recorder *r, enum ptah_record_problem problem, int status,
		  const char *format, ...)
{
	(void)r;
	(void)problem;
	(void)status;
	(void)format;
	abort();
}

int recorder_wrote(struct ptah_recorder *r, int status)
{
	(void)r;
	CHECK(status >= 0);
	return status;
}

void native_take_time(struct recording *r)
{
	const uint64_t now = __builtin_ia32_rdtsc();

	r->last_tsc = now > r->last_tsc ? now : r->last_tsc;
}

struct input {
	uint32_t begin;	   /* the log has been taken up to here */
	uint32_t more[2];  /* and is written so much further, twice */
	uint32_t snapshot; /* not 0: calls are kept, and so many bytes of them */
};

struct world {
	struct ptah_recorder recorder;
	struct recording recording;
	struct native_streams streams;
	size_t samples;
	uint64_t time;
};

/* Sizes and times of whole records; the samples before their formats have come are none. */
static int take_piece(void *context, const struct perfdata_piece *piece)
{
	struct world *w = context;
	const uint8_t *bytes = piece->bytes;

	CHECK(!piece->trace && piece->size >= 8 && piece->size % 8 == 0);
	if (load_le32(bytes) != PERFDATA_SAMPLE)
		return 0;
	CHECK(load_le16(bytes + 6) == piece->size);
	CHECK(load_le32(bytes + 24) == PID && load_le32(bytes + 28) == PID);
	CHECK(load_le32(bytes + 48) + 52 == piece->size);
	CHECK(load_le64(bytes + 32) >= w->time);
	w->time = load_le64(bytes + 32);
	w->samples++;
	return 0;
}

static void begin(struct world *w, const struct input *in)
{
	const struct perfdata_writer_config config = {
	    .path = "", .take = take_piece, .context = w, .clock.mult = 1, .calls = true};
	void *memory = mmap(NULL, native_bytes(), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	CHECK(memory != MAP_FAILED);
	CHECK(perfdata_writer_open(&config, &w->recorder.writer, NULL) >= 0);
	if (in->snapshot)
		w->recorder.config.buffer.policy = PTAH_RECORD_SNAPSHOT;
	w->recording.r = &w->recorder;
	w->recording.flags = NATIVE_CALLS;
	w->recording.buffer = in->snapshot;
	w->recording.streams = &w->streams;
	w->streams.memory = memory;
	w->streams.slots = NATIVE_THREADS;
	w->streams.flags = NATIVE_CALLS;
	CHECK(streams_begin(&w->streams, SLOT, PID, PID, 0));
	w->streams.list[SLOT].calls = in->begin;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world *w = calloc(1, sizeof(*w));
	struct native_thread *thread;
	struct input in;

	CHECK(w);
	if (size >= sizeof(in)) {
		memcpy(&in, data, sizeof(in));
		begin(w, &in);
		thread = streams_thread(&w->streams, SLOT);
		size -= sizeof(in);
		for (size_t i = 0; i < size && i < NATIVE_CALL_BYTES; i++)
			((uint8_t *)thread)[NATIVE_CALLS_AT + (in.begin + i) % NATIVE_CALL_BYTES] =
			    data[sizeof(in) + i];
		thread->calls_head = in.begin;
		for (unsigned i = 0; i < 2; i++) {
			thread->calls_head += in.more[i];
			native_take_calls(&w->recording);
			CHECK(thread->calls_tail == thread->calls_head);
		}
		call_samples_write_kept(&w->recording.calls, &w->recorder);
		/* Two for each entry, which has 32 bytes at least. */
		CHECK(w->samples <= 4 * NATIVE_CALL_BYTES / 32);
		call_samples_free(&w->recording.calls);
		perfdata_writer_abort(w->recorder.writer);
		CHECK(!munmap(w->streams.memory, native_bytes()));
	}
	free(w);
	return 0;
}
