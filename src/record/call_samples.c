/* SPDX-License-Identifier: MIT */
/* See call_samples.h. */
#include "record/call_samples.h"

#include "base/order.h"
#include "record/call_entry.h"
#include "record/recorder.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

/* The size of the entry; 0: it is none, or not whole in the n bytes. */
static size_t entry_size(const uint8_t *bytes, size_t n)
{
	struct call_entry e;
	size_t size;

	if (n < sizeof(e))
		return 0;
	memcpy(&e, bytes, sizeof(e));
	if ((e.kind != CALL_ENTRY_CALL && e.kind != CALL_ENTRY_RETURN) ||
	    e.data > CALL_ENTRY_DATA || e.argument >= CALL_ENTRY_WORDS)
		return 0;
	size = sizeof(e) + 8u * call_entry_words(e.kind) + ((e.data + 7u) & ~7u);
	return size <= n ? size : 0;
}

uint8_t *call_samples_room(struct call_samples *calls, size_t n)
{
	return LIST_ROOM_FOR(calls->bytes, calls->size, n, calls->room) ? calls->bytes + calls->size
									: NULL;
}

static bool add_taken(struct call_samples *calls, const struct taken_call *taken)
{
	if (!LIST_ROOM(calls->list, calls->count, calls->list_room))
		return false;
	if (calls->count && taken->tsc < calls->list[calls->count - 1].tsc)
		calls->unordered = true;
	calls->list[calls->count++] = *taken;
	return true;
}

int call_samples_take(struct call_samples *calls, size_t n, const struct call_origin *origin)
{
	size_t at = calls->size, size;

	calls->size += n;
	for (; at < calls->size; at += size) {
		struct taken_call taken = {.at = at, .pid = origin->pid, .tid = origin->tid};
		struct call_entry e;

		size = entry_size(calls->bytes + at, calls->size - at);
		if (!size)
			return 1;
		memcpy(&e, calls->bytes + at, sizeof(e));
		e.tsc = e.tsc < origin->latest ? e.tsc : origin->latest;
		if (*origin->last < e.tsc)
			*origin->last = e.tsc;
		taken.tsc = *origin->last;
		taken.size = size;
		if (!add_taken(calls, &taken))
			return PTAH_E_NOMEM;
	}
	return 0;
}

static int compare_sampled_call_times(const void *a, const void *b)
{
	const struct taken_call *x = a, *y = b;

	return COMPARE_THEN(x->tsc, y->tsc, COMPARE(x->at, y->at));
}

static void write_call(struct ptah_recorder *r, const struct taken_call *taken,
		       const uint8_t *bytes)
{
	struct perfdata_call call = {.pid = taken->pid, .tid = taken->tid, .tsc = taken->tsc};
	struct call_entry e;
	size_t words;

	memcpy(&e, bytes, sizeof(e));
	words = 8u * call_entry_words(e.kind);
	call.ip = e.ip;
	call.number = (int32_t)e.number;
	call.returned = e.kind == CALL_ENTRY_RETURN;
	memcpy(call.words, bytes + sizeof(e), words);
	call.argument = e.argument;
	call.data = bytes + sizeof(e) + words;
	call.data_size = e.data;
	recorder_wrote(r, perfdata_write_call(r->writer, &call));
}

/* Forgets the oldest calls, so that no more than `most` bytes are kept. */
static void forget_calls(struct call_samples *calls, size_t most)
{
	while (calls->kept_size - calls->gone > most) {
		struct taken_call oldest;

		memcpy(&oldest, calls->kept + calls->gone, sizeof(oldest));
		calls->gone += sizeof(oldest) + oldest.size;
	}
	if (calls->gone < calls->kept_size / 2)
		return;
	calls->kept_size -= calls->gone;
	memmove(calls->kept, calls->kept + calls->gone, calls->kept_size);
	calls->gone = 0;
}

/* False: there is no memory. */
static bool keep_call(struct call_samples *calls, const struct taken_call *taken,
		      const uint8_t *bytes, size_t most)
{
	if (!LIST_ROOM_FOR(calls->kept, calls->kept_size, sizeof(*taken) + taken->size,
			   calls->kept_room))
		return false;
	memcpy(calls->kept + calls->kept_size, taken, sizeof(*taken));
	memcpy(calls->kept + calls->kept_size + sizeof(*taken), bytes, taken->size);
	calls->kept_size += sizeof(*taken) + taken->size;
	forget_calls(calls, most);
	return true;
}

void call_samples_write_kept(struct call_samples *calls, struct ptah_recorder *r)
{
	struct taken_call taken;

	for (size_t at = calls->gone; at < calls->kept_size; at += sizeof(taken) + taken.size) {
		memcpy(&taken, calls->kept + at, sizeof(taken));
		write_call(r, &taken, calls->kept + at + sizeof(taken));
	}
	calls->kept_size = calls->gone = 0;
}

int call_samples_pass(struct call_samples *calls, struct ptah_recorder *r, size_t most)
{
	bool done = true;

	if (calls->unordered)
		qsort(calls->list, calls->count, sizeof(*calls->list), compare_sampled_call_times);
	for (size_t i = 0; i < calls->count && done; i++) {
		const struct taken_call *taken = &calls->list[i];

		if (r->config.buffer.policy == PTAH_RECORD_SNAPSHOT)
			done = keep_call(calls, taken, calls->bytes + taken->at, most);
		else
			write_call(r, taken, calls->bytes + taken->at);
	}
	calls->size = calls->count = 0;
	calls->unordered = false;
	return done ? 0 : PTAH_E_NOMEM;
}

void call_samples_free(struct call_samples *calls)
{
	free(calls->bytes);
	free(calls->list);
	free(calls->kept);
}
