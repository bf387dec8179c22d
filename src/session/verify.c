/* SPDX-License-Identifier: MIT */
/* A decode against what the recorder counted. */
#include "session/session.h"

#include "base/compiler.h"
#include "base/path_hash.h"

#include <string.h>

/* A decode on its way. */
struct account {
	struct ptah_verify *result;
	struct path_hash path;
};

static void add_block(struct account *a, uint64_t ip, uint64_t end, unsigned ninsn, unsigned class)
{
	struct ptah_truth *t = &a->result->decoded;

	t->instructions += ninsn;
	t->conditional += class == PTAH_INSN_COND;
	t->indirect += class == PTAH_INSN_JUMP_IND || class == PTAH_INSN_CALL_IND;
	t->returns += class == PTAH_INSN_RETURN;
	path_hash_add(&a->path, ip, end);
}

static void add_item(struct account *a, const struct ptah_item *item)
{
	struct ptah_verify *v = a->result;

	switch (item->type) {
	case PTAH_ITEM_BLOCK:
		add_block(a, item->ip, item->end, item->ninsn, item->class);
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

/* Blocks where there is nothing else: the quick way. */
static int verify_alone(const struct ptah_session *session, size_t index, struct account *a)
{
	struct ptah_block blocks[512];
	struct ptah_stream *stream;
	struct ptah_item item;
	int n = ptah_stream_new(session, index, &stream);

	if (n < 0)
		return n;
	do {
		while ((n = ptah_stream_read_blocks(stream, blocks, ARRAY_SIZE(blocks))) > 0)
			for (int i = 0; i < n; i++)
				add_block(a, blocks[i].ip, blocks[i].ip + blocks[i].size,
					  blocks[i].ninsn, blocks[i].class);
		n = ptah_stream_read(stream, &item, 1);
		if (n > 0)
			add_item(a, &item);
	} while (n > 0);
	ptah_stream_free(stream);
	return n;
}

static int verify_with_jobs(const struct ptah_session *session, size_t index,
			    const struct ptah_jobs *jobs, struct account *a)
{
	struct ptah_item items[512];
	struct ptah_reader *reader;
	int n = ptah_reader_new(session, index, jobs, &reader);

	if (n < 0)
		return n;
	while ((n = ptah_reader_read(reader, items, ARRAY_SIZE(items))) > 0)
		for (int i = 0; i < n; i++)
			add_item(a, &items[i]);
	ptah_reader_free(reader);
	return n;
}

int ptah_session_verify(const struct ptah_session *session, size_t index,
			const struct ptah_jobs *jobs, struct ptah_verify *result)
{
	struct account a = {.result = result};
	const struct ptah_truth *truth;
	int n;

	if (!session || !result || index >= session->stream_count)
		return PTAH_E_INVAL;
	memset(result, 0, sizeof(*result));
	if (!session->streams[index].info.has_truth)
		return PTAH_E_MISSING;
	n = jobs && jobs->jobs > 1 ? verify_with_jobs(session, index, jobs, &a)
				   : verify_alone(session, index, &a);
	result->decoded.path_hash = path_hash_value(&a.path);
	truth = &session->streams[index].info.truth;
	result->equal =
	    n >= 0 && !result->errors && !memcmp(truth, &result->decoded, sizeof(*truth));
	return n < 0 ? n : 0;
}
