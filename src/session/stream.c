/* SPDX-License-Identifier: MIT */
/* Decoding one stream over the memory of its time. */
#include "session/session.h"

#include "base/compiler.h"
#include "base/path_hash.h"
#include "image/image.h"

#include <stdlib.h>

struct ptah_stream {
	const struct ptah_session *session;
	const struct stream *stream;
	struct ptah_image *image;
	struct ptah_flow *flow;
	size_t next_piece;
	/* Changes that replace something, and so must wait for their time. */
	const struct change **later;
	size_t later_count, next_later;
	uint64_t offset;
};

/* A file that is missing has been told of when the session was opened, or --force was given. */
static int apply(struct ptah_stream *s, const struct change *change)
{
	char *path;
	int status;

	switch (change->type) {
	case CHANGE_EXEC:
		return ptah_image_remove(s->image, change->address, change->size);
	case CHANGE_CODE:
		return ptah_image_add_bytes(s->image, change->bytes, change->size, change->address);
	default:
		break;
	}
	if (!session_is_file(change->path))
		return 0;
	path = session_path(s->session, change->path);
	if (!path)
		return PTAH_E_NOMEM;
	status =
	    ptah_image_add_file(s->image, path, change->file_offset, change->size, change->address);
	free(path);
	return status == PTAH_E_NOMEM ? status : 0;
}

static bool overlap(const struct change *a, const struct change *b)
{
	return a->address - b->address < b->size || b->address - a->address < a->size;
}

/* Does it replace what is there, or come behind something that will? */
static bool must_wait(const struct ptah_stream *s, const struct change *change)
{
	if (image_overlaps(s->image, change->address, change->size))
		return true;
	for (size_t i = 0; i < s->later_count; i++)
		if (overlap(s->later[i], change))
			return true;
	return false;
}

/*
 * What is mapped where nothing was before can be there from the beginning: no
 * instruction has run there earlier. That makes coarse time stamps harmless.
 */
static int build_image(struct ptah_stream *s, const struct process *process)
{
	if (!process)
		return 0;
	s->later = calloc(process->count + 1, sizeof(const struct change *));
	if (!s->later)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < process->count; i++) {
		const struct change *change = &process->changes[i];

		if (change->tsc && must_wait(s, change)) {
			s->later[s->later_count++] = change;
		} else {
			int status = apply(s, change);

			if (status < 0)
				return status;
		}
	}
	return 0;
}

static void set_limit(struct ptah_stream *s)
{
	ptah_flow_set_time_limit(
	    s->flow, s->next_later < s->later_count ? s->later[s->next_later]->tsc : UINT64_MAX);
}

int ptah_stream_new(const struct ptah_session *session, size_t index, struct ptah_stream **stream)
{
	struct ptah_stream *s;
	int status;

	if (!session || !stream || index >= session->stream_count)
		return PTAH_E_INVAL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return PTAH_E_NOMEM;
	s->session = session;
	s->stream = &session->streams[index];
	if (session->image) {
		status = ptah_image_clone(session->image, &s->image);
	} else {
		status = ptah_image_new(&s->image);
		if (status >= 0)
			status = build_image(s, session_process(session, s->stream->info.pid));
	}
	if (status >= 0)
		status = ptah_flow_new(s->image, NULL, &s->flow);
	if (status < 0) {
		ptah_stream_free(s);
		return status;
	}
	set_limit(s);
	*stream = s;
	return 0;
}

void ptah_stream_free(struct ptah_stream *s)
{
	if (!s)
		return;
	ptah_flow_free(s->flow);
	ptah_image_free(s->image);
	free(s->later);
	free(s);
}

/* The flow has reached the next change's time. */
static int apply_later(struct ptah_stream *s)
{
	uint64_t tsc = s->later[s->next_later]->tsc;

	while (s->next_later < s->later_count && s->later[s->next_later]->tsc == tsc) {
		int status = apply(s, s->later[s->next_later++]);

		if (status < 0)
			return status;
	}
	set_limit(s);
	return 0;
}

static int feed_next(struct ptah_stream *s)
{
	const struct piece *piece = &s->stream->pieces[s->next_piece++];
	bool last = s->next_piece == s->stream->count;

	s->offset = piece->offset + piece->size;
	return ptah_flow_feed(s->flow, piece->bytes, piece->size, last);
}

int ptah_stream_read(struct ptah_stream *s, struct ptah_item *items, size_t capacity)
{
	if (!s || !capacity)
		return PTAH_E_INVAL;
	for (;;) {
		int n = ptah_flow_read(s->flow, items, capacity), status;

		if (n)
			return n;
		if (ptah_flow_paused(s->flow))
			status = apply_later(s);
		else if (s->next_piece < s->stream->count)
			status = feed_next(s);
		else
			return 0;
		if (status < 0)
			return status;
	}
}

int ptah_stream_insns(const struct ptah_stream *s, const struct ptah_item *block,
		      struct ptah_insn *insns, size_t capacity)
{
	return ptah_flow_insns(s->flow, block, insns, capacity);
}

uint64_t ptah_stream_offset(const struct ptah_stream *s)
{
	return s->offset;
}

/* Verification */

static void count_block(struct ptah_truth *t, const struct ptah_item *block)
{
	t->instructions += block->ninsn;
	switch (block->class) {
	case PTAH_INSN_COND:
		t->conditional++;
		break;
	case PTAH_INSN_JUMP_IND:
	case PTAH_INSN_CALL_IND:
		t->indirect++;
		break;
	case PTAH_INSN_RETURN:
		t->returns++;
		break;
	default:
		break;
	}
}

static void account(struct ptah_verify *v, struct path_hash *path, const struct ptah_item *item)
{
	switch (item->type) {
	case PTAH_ITEM_BLOCK:
		count_block(&v->decoded, item);
		path_hash_add(path, item->ip, item->end);
		break;
	case PTAH_ITEM_OVERFLOW:
		v->overflows++;
		break;
	case PTAH_ITEM_ERROR:
		if (!v->errors++)
			v->first = *item;
		break;
	default:
		break;
	}
}

int ptah_session_verify(const struct ptah_session *session, size_t index,
			struct ptah_verify *result)
{
	struct ptah_item items[512];
	struct ptah_stream *stream;
	struct path_hash path = {0};
	const struct ptah_truth *truth;
	int n;

	if (!session || !result || index >= session->stream_count)
		return PTAH_E_INVAL;
	memset(result, 0, sizeof(*result));
	if (!session->streams[index].info.has_truth)
		return PTAH_E_MISSING;
	n = ptah_stream_new(session, index, &stream);
	if (n < 0)
		return n;
	while ((n = ptah_stream_read(stream, items, ARRAY_SIZE(items))) > 0)
		for (int i = 0; i < n; i++)
			account(result, &path, &items[i]);
	ptah_stream_free(stream);
	result->decoded.path_hash = path_hash_value(&path);
	truth = &session->streams[index].info.truth;
	result->equal =
	    n >= 0 && !result->errors && !memcmp(truth, &result->decoded, sizeof(*truth));
	return n < 0 ? n : 0;
}
