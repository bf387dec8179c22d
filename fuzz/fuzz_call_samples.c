/* SPDX-License-Identifier: MIT */
/*
 * Proves of system calls that come as messages of several threads, as the recorders qemu and ptrace
 * pass them (fuzz_native_calls.c has the log of one thread): samples are whole and of the thread whose
 * entry it was, in the order of time, and none is later than the message; for a snapshot the last
 * calls are kept, and no more than so many bytes of them.
 *
 * Input: a byte that is 0 or how many times 64 bytes are kept, then messages: a byte for the thread,
 * one for the time, one for the size in units of 8 bytes, and its bytes. The thread 255 has what was
 * taken written.
 */
#include "fuzz.h"

#include "base/bits.h"
#include "perfdata/format.h"
#include "record/call_entry.h"
#include "record/call_samples.h"
#include "record/recorder.h"

#define THREADS 4
#define WRITE	255

/* Instead of recorder.c, which needs all recorders. */
int recorder_wrote(struct ptah_recorder *r, int status)
{
	(void)r;
	CHECK(status >= 0);
	return status;
}

struct world {
	struct ptah_recorder recorder;
	struct call_samples calls;
	uint64_t last[THREADS]; /* time of each thread's last entry */
	uint64_t latest;	/* of the messages */
	uint64_t time;		/* of the last sample of this round */
	size_t most, samples;
};

static int take_piece(void *context, const struct perfdata_piece *piece)
{
	struct world *w = context;
	const uint8_t *bytes = piece->bytes;
	uint32_t thread;

	CHECK(!piece->trace && piece->size >= 8 && piece->size % 8 == 0);
	if (load_le32(bytes) != PERFDATA_SAMPLE)
		return 0;
	thread = load_le32(bytes + 28) - 1;
	CHECK(load_le16(bytes + 6) == piece->size && load_le32(bytes + 48) + 52 == piece->size);
	CHECK(thread < THREADS && load_le32(bytes + 24) == thread / 2 + 1);
	CHECK(load_le64(bytes + 32) <= w->latest);
	/* Kept ones are of several rounds. */
	CHECK(w->most || load_le64(bytes + 32) >= w->time);
	w->time = load_le64(bytes + 32);
	w->samples++;
	return 0;
}

static void write_round(struct world *w)
{
	w->time = 0;
	CHECK(call_samples_pass(&w->calls, &w->recorder, w->most) >= 0);
	CHECK(!w->calls.size && !w->calls.count);
	CHECK(!w->most || w->calls.kept_size - w->calls.gone <= w->most);
}

static void take_message(struct world *w, unsigned thread, const uint8_t *data, size_t n)
{
	const struct call_origin origin = {.pid = (int32_t)(thread / 2 + 1),
					   .tid = (int32_t)(thread + 1),
					   .last = &w->last[thread],
					   .latest = w->latest};
	uint8_t *bytes = call_samples_room(&w->calls, n);

	CHECK(bytes);
	memcpy(bytes, data, n);
	CHECK(call_samples_take(&w->calls, n, &origin) >= 0);
	CHECK(w->last[thread] <= w->latest);
}

static void run(struct world *w, const uint8_t *data, size_t size)
{
	while (size >= 3) {
		const size_t n = 8u * data[2] < size - 3 ? 8u * data[2] : size - 3;

		w->latest += data[1];
		if (data[0] == WRITE)
			write_round(w);
		else if (n) /* empty ones are refused before */
			take_message(w, data[0] % THREADS, data + 3, n);
		data += 3 + n;
		size -= 3 + n;
	}
	write_round(w);
	call_samples_write_kept(&w->calls, &w->recorder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world *w = calloc(1, sizeof(*w));
	const struct perfdata_writer_config config = {
	    .path = "", .take = take_piece, .context = w, .clock.mult = 1, .calls = true};

	CHECK(w);
	if (size) {
		w->most = 64u * data[0];
		if (w->most)
			w->recorder.config.buffer.policy = PTAH_RECORD_SNAPSHOT;
		CHECK(perfdata_writer_open(&config, &w->recorder.writer, NULL) >= 0);
		run(w, data + 1, size - 1);
		/* At most two for each entry, which has 32 bytes at least. */
		CHECK(w->samples <= size / 16);
		perfdata_writer_abort(w->recorder.writer);
	}
	call_samples_free(&w->calls);
	free(w);
	return 0;
}
