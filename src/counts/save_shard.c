/* SPDX-License-Identifier: MIT */
/* Writes shards in the file format of docs/profile-file.md. */
#include "counts/shard_internal.h"
#include "perfdata/byte_buffer.h"

#include <stdlib.h>

/* What the file of counts does not have of a process and its files. */
static void put_saved_process(struct perfdata_buffer *out, const struct counts_process *p)
{
	perfdata_put32(out, (uint32_t)p->space);
	perfdata_put32(out, (p->permanent ? SHARD_PERMANENT : 0) | (p->wholes ? SHARD_WHOLES : 0));
	perfdata_put64(out, p->order.stream);
	perfdata_put64(out, p->order.space.cr3);
	perfdata_put64(out, p->order.space.vmcs);
	for (size_t i = 0; p->wholes && i < p->file_count; i++) {
		perfdata_put64(out, p->wholes[i].address);
		perfdata_put64(out, p->wholes[i].size);
	}
}

static int put_saved_shard_counts(struct perfdata_buffer *out, const struct ptah_counts *counts)
{
	void *bytes;
	size_t n;
	int status = ptah_counts_save(counts, &bytes, &n);

	if (status < 0)
		return status;
	perfdata_put64(out, n);
	perfdata_put(out, bytes, n);
	free(bytes);
	for (size_t i = 0; i < counts->count; i++)
		put_saved_process(out, &counts->processes[i]);
	return 0;
}

static void put_range(struct perfdata_buffer *out, const struct shard_range *range)
{
	struct ptah_item error = range->first_error;

	error.type = COUNTS_IS_ERROR;
	perfdata_put64(out, range->stream);
	perfdata_put64(out, range->from);
	perfdata_put64(out, range->to);
	perfdata_put64(out, range->begin);
	perfdata_put64(out, range->end);
	perfdata_put32(out, (uint32_t)range->space);
	perfdata_put32(out, range->flags);
	perfdata_put(out, range->flags & RANGE_HAS_ERROR ? &error : NULL, sizeof(error));
}

static int put_recording(struct perfdata_buffer *out, const struct shard_recording *r)
{
	const size_t length = strlen(r->name);
	int status;

	perfdata_put32(out, r->index);
	perfdata_put32(out, r->unread ? SHARD_UNREAD : 0);
	perfdata_put64(out, r->digest);
	perfdata_put64(out, r->range_count);
	perfdata_put64(out, length);
	perfdata_put(out, r->name, length);
	perfdata_put(out, NULL, (8 - length % 8) % 8);
	if (r->unread)
		return 0;
	for (size_t i = 0; i < r->range_count; i++)
		put_range(out, &r->ranges[i]);
	status = put_saved_shard_counts(out, r->plus);
	return status < 0 ? status : put_saved_shard_counts(out, r->minus);
}

int ptah_shard_save(const struct ptah_shard *s, void **bytes, size_t *n)
{
	struct perfdata_buffer out = {0};
	int status = 0;

	if (!s || !bytes || !n)
		return PTAH_E_INVAL;
	perfdata_put(&out, SHARD_MAGIC, 8);
	perfdata_put32(&out, SHARD_VERSION);
	perfdata_put32(&out, 0);
	perfdata_put64(&out, 0); /* size and checksum: written below */
	perfdata_put64(&out, 0);
	perfdata_put64(&out, s->plan);
	perfdata_put32(&out, s->parts);
	perfdata_put32(&out, s->planned);
	perfdata_put64(&out, s->count);
	perfdata_put(&out, s->bits, shard_bitmap_size(s->parts));
	for (size_t i = 0; i < s->count && status >= 0; i++)
		status = put_recording(&out, &s->recordings[i]);
	if (status < 0 || out.failed) {
		perfdata_buffer_free(&out);
		return PTAH_E_NOMEM;
	}
	counts_put_header(out.bytes, out.size);
	*bytes = out.bytes;
	*n = out.size;
	return 0;
}
