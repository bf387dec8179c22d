/* SPDX-License-Identifier: MIT */
/*
 * Proves of the native recorder's side of the memory that it shares with a program: whatever
 * stands there, reading ends, and only whole messages, packets and numbers arrive.
 *
 * Input: struct input, then bytes of the message ring, of a chunk of trace and of a chunk of the
 * log of exits.
 */
#include "fuzz.h"

#include "record/native/messages_in.h"
#include "record/native/streams.h"
#include "record/native/truth.h"

#include <sys/mman.h>

#define SLOT 1
#define PID  7

/* input.finish */
#define WITHOUT_TRUTH 0x80
#define SETTLED	      0x40
#define RUNS	      0x20

struct input {
	uint32_t message_head, messages; /* how far the ring is written; bytes of the input */
	uint32_t trace;			 /* bytes of the input */
	uint32_t lengths[NATIVE_LOGS];	 /* that the chunks claim */
	uint8_t states[NATIVE_LOGS], state, finish;
};

struct world {
	uint8_t *memory;
	struct native_messages messages;
	struct native_streams streams;
	struct native_truth truth;
	struct native_truth_thread thread;
};

static void take_message(void *context, const struct native_message *m, const char *payload)
{
	struct world *w = context;

	CHECK(m->bytes <= NATIVE_MESSAGE_MAX && !payload[m->bytes]);
	/* The last bits of the thread's number say whose they are, and that a program ends. */
	if (m->type == NATIVE_MESSAGE_EXITS)
		native_truth_describe(&w->truth, m->tid & 1, 0, m->value, payload, m->bytes);
	if (m->type == NATIVE_MESSAGE_EXITS && m->tid & 2)
		native_truth_forget(&w->truth, m->tid & 1);
}

static void take_log(void *context, const struct native_stream *s, unsigned log,
		     const uint8_t *bytes, size_t n)
{
	struct world *w = context;

	CHECK(n && n <= NATIVE_CHUNK && s->pid == PID);
	if (log == NATIVE_LOG_TRACE)
		return;
	CHECK(n % sizeof(uint32_t) == 0);
	native_truth_keep(&w->truth, &w->thread, bytes, n);
}

static uint8_t *map_memory(void)
{
	void *memory = mmap(NULL, native_bytes(), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	CHECK(memory != MAP_FAILED);
	return memory;
}

/* Copies at most `room` of the n bytes, and goes on behind them. */
static void fill(uint8_t *to, size_t room, const uint8_t **data, size_t *size, size_t n)
{
	n = n < *size ? n : *size;
	memcpy(to, *data, n < room ? n : room);
	*data += n;
	*size -= n;
}

static void write_memory(const struct world *w, const struct input *in, const uint8_t *data,
			 size_t size)
{
	struct native_header *header = (struct native_header *)(void *)w->memory;
	uint8_t *slot = w->memory + native_slot_at(SLOT);
	struct native_thread *thread = (struct native_thread *)(void *)slot;

	header->message_head = in->message_head;
	fill(w->memory + NATIVE_HEADER_BYTES, NATIVE_MESSAGES, &data, &size, in->messages);
	fill(slot + native_chunk_at(NATIVE_LOG_TRACE, 0), NATIVE_CHUNK, &data, &size, in->trace);
	fill(slot + native_chunk_at(NATIVE_LOG_EXITS, 0), NATIVE_CHUNK, &data, &size, size);
	thread->state = in->state;
	thread->settled = in->finish & SETTLED ? in->lengths[NATIVE_LOG_TRACE] : 0;
	for (unsigned log = 0; log < NATIVE_LOGS; log++)
		thread->chunks[log][0] =
		    (struct native_chunk){.state = in->states[log], .length = in->lengths[log]};
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world *w = calloc(1, sizeof(*w));
	struct ptah_truth truth;
	unsigned most = STREAMS_ALL;
	uint32_t flags;
	struct input in;

	CHECK(w);
	if (size >= sizeof(in)) {
		memcpy(&in, data, sizeof(in));
		w->memory = map_memory();
		flags = in.finish & WITHOUT_TRUTH ? 0 : NATIVE_TRUTH;
		write_memory(w, &in, data + sizeof(in), size - sizeof(in));
		w->messages.shared = (struct native_header *)(void *)w->memory;
		w->messages.take = take_message;
		w->messages.context = w;
		w->streams.memory = w->memory;
		w->streams.slots = NATIVE_THREADS;
		w->streams.flags = flags;
		w->streams.chunks = NATIVE_CHUNKS;
		w->streams.chunk_bytes = NATIVE_CHUNK;
		w->streams.take = take_log;
		w->streams.context = w;
		CHECK(streams_begin(&w->streams, SLOT, PID, PID, 0));
		CHECK(native_truth_begin(&w->truth) == 0 && native_truth_begin(&w->truth) == 1);
		native_messages_drain(&w->messages);
		streams_drain(&w->streams, SLOT, &most);
		streams_take_early(&w->streams, SLOT);
		if (in.finish)
			streams_finish(&w->streams, SLOT, in.finish & RUNS);
		native_truth_count(&w->truth, &w->thread);
		native_truth_get(&w->truth, &w->thread, &truth);
		CHECK(!munmap(w->memory, native_bytes()));
	}
	free(w->thread.pending);
	native_truth_free(&w->truth);
	free(w);
	return 0;
}
