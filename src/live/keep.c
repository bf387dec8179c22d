/* SPDX-License-Identifier: MIT */
/*
 * Keeps the end of a recording in memory: all records, and the last trace of each stream, so that
 * what led to a moment can be saved when the moment has come.
 */
#include "live/live.h"

#include <ptah/packet.h>

#include "base/bits.h"
#include "perfdata/format.h"
#include "perfdata/message.h"
#include "perfdata/writer.h"

#include <stdlib.h>
#include <string.h>

/* A stream of trace, of which the end is kept. */
struct kept_stream {
	uint32_t stream;
	struct live_list list;
	uint64_t bytes;
	bool cut; /* its beginning is not kept */
};

struct ptah_live_keep {
	uint64_t per_stream, memory;
	pthread_mutex_t lock; /* of what follows */
	struct ptah_record_sink sink;
	struct live_list records;
	uint64_t record_bytes, bytes;
	struct kept_stream *streams;
	size_t count, capacity;
};

static struct live_entry *copy_of(const struct ptah_record_piece *p)
{
	struct live_entry *e = malloc(sizeof(*e) + p->size);

	if (!e)
		return NULL;
	*e = (struct live_entry){.stream = p->stream,
				 .tid = p->tid,
				 .cpu = p->cpu,
				 .offset = p->offset,
				 .when = live_now(),
				 .size = p->size};
	memcpy(e->bytes, p->bytes, p->size);
	return e;
}

static struct kept_stream *stream_of(struct ptah_live_keep *k, uint32_t stream)
{
	struct kept_stream *streams;

	for (size_t i = k->count; i-- > 0;)
		if (k->streams[i].stream == stream)
			return &k->streams[i];
	streams = session_grow(k->streams, k->count, &k->capacity, sizeof(*streams));
	if (!streams)
		return NULL;
	/* The lists point into themselves while they are empty. */
	for (size_t i = 0; i < k->count; i++)
		if (!streams[i].list.first)
			live_list_init(&streams[i].list);
	k->streams = streams;
	streams[k->count] = (struct kept_stream){.stream = stream};
	live_list_init(&streams[k->count].list);
	return &streams[k->count++];
}

static void forget_first(struct ptah_live_keep *k, struct kept_stream *s)
{
	struct live_entry *e = s->list.first;

	s->list.first = e->next;
	if (!e->next)
		live_list_init(&s->list);
	s->bytes -= e->size;
	k->bytes -= e->size;
	s->cut = true;
	free(e);
}

/* The stream whose first piece is the oldest. */
static struct kept_stream *oldest(struct ptah_live_keep *k)
{
	struct kept_stream *found = NULL;

	for (size_t i = 0; i < k->count; i++) {
		struct kept_stream *s = &k->streams[i];

		if (s->list.first && (!found || s->list.first->when < found->list.first->when))
			found = s;
	}
	return found;
}

static int keep_trace(struct ptah_live_keep *k, const struct ptah_record_piece *p)
{
	struct kept_stream *s = stream_of(k, p->stream);
	struct live_entry *e = s ? copy_of(p) : NULL;

	if (!e)
		return PTAH_E_NOMEM;
	live_list_add(&s->list, e);
	s->bytes += e->size;
	k->bytes += e->size;
	while (s->bytes - s->list.first->size >= k->per_stream)
		forget_first(k, s);
	while (k->bytes > k->memory)
		forget_first(k, oldest(k));
	return 0;
}

static int keep_record(struct ptah_live_keep *k, const struct ptah_record_piece *p)
{
	struct live_entry *e;

	if (k->record_bytes + p->size > k->memory)
		return PTAH_E_LIMIT;
	e = copy_of(p);
	if (!e)
		return PTAH_E_NOMEM;
	k->record_bytes += sizeof(*e) + p->size;
	live_list_add(&k->records, e);
	return 0;
}

static int take(void *context, const struct ptah_record_piece *p)
{
	struct ptah_live_keep *k = context;
	int status = 0;

	pthread_mutex_lock(&k->lock);
	if (p->kind == PTAH_RECORD_PIECE_TRACE && p->size)
		status = keep_trace(k, p);
	else if (p->kind == PTAH_RECORD_PIECE_RECORD)
		status = keep_record(k, p);
	pthread_mutex_unlock(&k->lock);
	return status;
}

int ptah_live_keep_new(uint64_t bytes, uint64_t memory, struct ptah_live_keep **keep)
{
	struct ptah_live_keep *k;

	if (!bytes || !memory || !keep)
		return PTAH_E_INVAL;
	k = calloc(1, sizeof(*k));
	if (!k)
		return PTAH_E_NOMEM;
	k->per_stream = bytes;
	k->memory = memory;
	k->sink = (struct ptah_record_sink){.take = take, .context = k};
	pthread_mutex_init(&k->lock, NULL);
	live_list_init(&k->records);
	*keep = k;
	return 0;
}

const struct ptah_record_sink *ptah_live_keep_sink(struct ptah_live_keep *k)
{
	return k ? &k->sink : NULL;
}

/* Saving */

static int give(const struct ptah_record_sink *to, const struct live_entry *e, uint8_t kind,
		uint64_t skip)
{
	const struct ptah_record_piece piece = {.kind = kind,
						.stream = e->stream,
						.tid = e->tid,
						.cpu = e->cpu,
						.offset = e->offset + skip,
						.bytes = e->bytes + skip,
						.size = e->size - skip};

	return piece.size ? to->take(to->context, &piece) : 0;
}

/* What is kept of a stream, from a PSB on if its beginning is not. */
static int save_stream(const struct kept_stream *s, const struct ptah_record_sink *to)
{
	bool begun = !s->cut;
	int status = 0;

	for (const struct live_entry *e = s->list.first; e && status >= 0; e = e->next) {
		const uint8_t *psb =
		    begun ? e->bytes : ptah_packet_find_psb(e->bytes, e->bytes + e->size);

		if (!psb)
			continue;
		begun = true;
		status = give(to, e, PTAH_RECORD_PIECE_TRACE, (uint64_t)(psb - e->bytes));
	}
	return status;
}

static int pass_note(void *context, const struct perfdata_piece *p)
{
	const struct ptah_record_sink *to = context;
	const struct ptah_record_piece piece = {
	    .kind = PTAH_RECORD_PIECE_RECORD, .bytes = p->bytes, .size = p->size};

	/* The description of the recording has come already: only the note is wanted. */
	if (p->trace || p->size < 20 || load_le32(p->bytes) != PERFDATA_HEADER_EVENT_TYPE)
		return 0;
	return to->take(to->context, &piece);
}

static int save_note(const struct ptah_record_sink *to, const char *note)
{
	const struct perfdata_writer_config config = {
	    .path = "", .take = pass_note, .context = (void *)(uintptr_t)to, .clock.mult = 1};
	struct perfdata_writer *w;
	int status = perfdata_writer_open(&config, &w, NULL);

	if (status < 0)
		return status;
	status = perfdata_add_note(w, note);
	perfdata_writer_abort(w);
	return status;
}

static int save_all(struct ptah_live_keep *k, const struct ptah_record_sink *to)
{
	int status = 0;

	for (const struct live_entry *e = k->records.first; e && status >= 0; e = e->next)
		status = give(to, e, PTAH_RECORD_PIECE_RECORD, 0);
	for (size_t i = 0; i < k->count && status >= 0; i++)
		status = save_stream(&k->streams[i], to);
	return status;
}

int ptah_live_keep_save(struct ptah_live_keep *k, const char *path, const char *note,
			struct ptah_message *why)
{
	struct ptah_live_file *file;
	int status, end;

	if (!k || !path)
		return PTAH_E_INVAL;
	status = ptah_live_file_new(path, &file, why);
	if (status < 0)
		return status;
	pthread_mutex_lock(&k->lock);
	status = save_all(k, ptah_live_file_sink(file));
	pthread_mutex_unlock(&k->lock);
	if (note && status >= 0)
		status = save_note(ptah_live_file_sink(file), note);
	end = ptah_live_file_finish(file);
	ptah_live_file_free(file);
	status = status < 0 ? status : end;
	return status < 0 ? perfdata_message(why, status, "%s: could not be written", path) : 0;
}

void ptah_live_keep_free(struct ptah_live_keep *k)
{
	if (!k)
		return;
	for (size_t i = 0; i < k->count; i++)
		live_list_free(&k->streams[i].list);
	free(k->streams);
	live_list_free(&k->records);
	pthread_mutex_destroy(&k->lock);
	free(k);
}
