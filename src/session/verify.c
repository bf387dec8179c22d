/* SPDX-License-Identifier: MIT */
/* A decode against what the recorder counted. */
#include "session/session.h"

#include "base/compiler.h"
#include "base/path_hash.h"

#include <string.h>

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
			const struct ptah_jobs *jobs, struct ptah_verify *result)
{
	struct ptah_item items[512];
	struct ptah_reader *reader;
	struct path_hash path = {0};
	const struct ptah_truth *truth;
	int n;

	if (!session || !result || index >= session->stream_count)
		return PTAH_E_INVAL;
	memset(result, 0, sizeof(*result));
	if (!session->streams[index].info.has_truth)
		return PTAH_E_MISSING;
	n = ptah_reader_new(session, index, jobs, &reader);
	if (n < 0)
		return n;
	while ((n = ptah_reader_read(reader, items, ARRAY_SIZE(items))) > 0)
		for (int i = 0; i < n; i++)
			account(result, &path, &items[i]);
	ptah_reader_free(reader);
	result->decoded.path_hash = path_hash_value(&path);
	truth = &session->streams[index].info.truth;
	result->equal =
	    n >= 0 && !result->errors && !memcmp(truth, &result->decoded, sizeof(*truth));
	return n < 0 ? n : 0;
}
