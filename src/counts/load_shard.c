/* SPDX-License-Identifier: MIT */
/*
 * Reads shards. The file may come from anyone: nothing in it is used before it has been checked.
 */
#include "counts/load.h"
#include "counts/shard_internal.h"
#include "perfdata/message.h"
#include "counts/counts_internal.h"

#include <inttypes.h>
#include <stdlib.h>

struct shard_load {
	struct load l; /* its `counts` is that of the recording that is being read */
	struct ptah_shard *shard;
};

static const char *wrong_with_range(const struct shard_recording *r,
				    const struct shard_range *range, const uint8_t *at)
{
	if (range->from >= range->to || range->flags > (RANGE_HAS_ERROR | RANGE_SETTLED))
		return "malformed range";
	if (r->range_count > 1 && shard_compare_ranges(range - 1, range) >= 0)
		return "ranges are not in order";
	if (range->flags & RANGE_HAS_ERROR ? at[48] != COUNTS_IS_ERROR
					   : !load_all_zero(at + 48, sizeof(range->first_error)))
		return "the first error is none";
	return NULL;
}

static int load_ranges(struct shard_load *s, struct shard_recording *r, uint64_t count)
{
	struct load *l = &s->l;

	for (uint64_t i = 0; i < count; i++) {
		const uint8_t *place = l->r.p, *at = reader_bytes(&l->r, SHARD_RANGE);
		struct shard_range *range = at ? shard_add_range(r) : NULL;
		const char *wrong;

		if (!at)
			return load_refuse(l, place, "the file ends inside a range");
		if (!range)
			return PTAH_E_NOMEM;
		range->stream = load_le64(at);
		range->from = load_le64(at + 8);
		range->to = load_le64(at + 16);
		range->begin = load_le64(at + 24);
		range->end = load_le64(at + 32);
		range->space = (int32_t)load_le32(at + 40);
		range->flags = load_le32(at + 44);
		memcpy(&range->first_error, at + 48, sizeof(range->first_error));
		wrong = wrong_with_range(r, range, at);
		if (wrong)
			return load_refuse(l, at, wrong);
		if (range->flags & RANGE_HAS_ERROR)
			range->first_error.type = PTAH_ITEM_ERROR;
	}
	return 0;
}

/* The mapping that the i-th file of a process is a piece of. */
static bool load_whole(struct counts_process *p, size_t i, const uint8_t *at)
{
	const struct ptah_counts_file *file = &p->files[i];
	struct ptah_counts_file *whole = &p->wholes[i];

	*whole = *file;
	whole->address = load_le64(at);
	whole->size = load_le64(at + 8);
	whole->file_offset = file->file_offset - (file->address - whole->address);
	return whole->size && counts_last(whole) >= whole->address &&
	       whole->address <= file->address && counts_last(whole) >= counts_last(file);
}

static int load_process(struct shard_load *s, struct counts_process *p)
{
	struct load *l = &s->l;
	const uint8_t *place = l->r.p, *at = reader_bytes(&l->r, SHARD_PROCESS);
	uint32_t flags;

	if (!at)
		return load_refuse(l, place, "the file ends inside a process");
	p->space = (int32_t)load_le32(at);
	flags = load_le32(at + 4);
	p->permanent = flags & SHARD_PERMANENT;
	p->order.stream = load_le64(at + 8);
	p->order.space.cr3 = load_le64(at + 16);
	p->order.space.vmcs = load_le64(at + 24);
	if (flags & ~(uint32_t)(SHARD_PERMANENT | SHARD_WHOLES) || p->calls)
		return load_refuse(l, at, "malformed process");
	if (!(flags & SHARD_WHOLES))
		return p->file_count ? load_refuse(l, at, "files without mappings") : 0;
	p->wholes = calloc(p->file_count + 1, sizeof(*p->wholes));
	if (!p->wholes)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < p->file_count; i++) {
		place = l->r.p;
		at = reader_bytes(&l->r, SHARD_WHOLE);
		if (!at || !load_whole(p, i, at))
			return load_refuse(l, place, "malformed mapping");
	}
	return 0;
}

static int load_counts(struct shard_load *s, struct ptah_counts **counts)
{
	struct load *l = &s->l;
	const uint8_t *place = l->r.p, *at;
	const uint64_t size = reader_u64(&l->r);
	struct ptah_message why = {""};
	int status;

	at = reader_bytes(&l->r, size);
	if (!at)
		return load_refuse(l, place, "the file ends inside counts");
	ptah_counts_free(*counts);
	*counts = NULL;
	status = counts_load(at, (size_t)size, counts, &why);
	if (status == PTAH_E_NOMEM)
		return status;
	if (status < 0)
		return perfdata_message(l->why, PTAH_E_BAD_FILE, "counts at offset 0x%zx: %s",
					(size_t)(at - l->begin), why.text);
	for (size_t i = 0; i < (*counts)->count && status >= 0; i++)
		status = load_process(s, &(*counts)->processes[i]);
	return status;
}

static const char *wrong_with_recording(const struct ptah_shard *shard, uint32_t index,
					uint32_t flags, const uint8_t *name, uint64_t length)
{
	if (index >= shard->planned ||
	    (shard->count && index <= shard->recordings[shard->count - 1].index))
		return "recordings are not in order";
	if (flags > SHARD_UNREAD || !length || memchr(name, 0, (size_t)length))
		return "malformed recording";
	return NULL;
}

static int load_recording(struct shard_load *s)
{
	struct load *l = &s->l;
	const uint8_t *at = l->r.p, *name, *rest;
	const uint32_t index = reader_u32(&l->r), flags = reader_u32(&l->r);
	const uint64_t digest = reader_u64(&l->r), ranges = reader_u64(&l->r),
		       length = reader_u64(&l->r);
	struct shard_recording *r;
	const char *wrong;
	int status;

	name = reader_bytes(&l->r, length);
	rest = reader_bytes(&l->r, (8 - length % 8) % 8);
	if (!name || !rest)
		return load_refuse(l, at, "the file ends inside a recording");
	wrong = wrong_with_recording(s->shard, index, flags, name, length);
	if (!wrong && (!load_all_zero(rest, (8 - length % 8) % 8) || (flags && ranges)))
		wrong = "malformed recording";
	if (wrong)
		return load_refuse(l, at, wrong);
	r = shard_add_recording(s->shard, index, (const char *)name, (size_t)length);
	if (!r)
		return PTAH_E_NOMEM;
	r->digest = digest;
	r->unread = flags;
	if (r->unread) {
		shard_forget_counts(r);
		return 0;
	}
	status = load_ranges(s, r, ranges);
	if (status >= 0)
		status = load_counts(s, &r->plus);
	return status < 0 ? status : load_counts(s, &r->minus);
}

static int load_parts(struct shard_load *s)
{
	struct load *l = &s->l;
	const uint8_t *at = l->r.p, *bits;
	const uint64_t plan = reader_u64(&l->r);
	const uint32_t parts = reader_u32(&l->r), planned = reader_u32(&l->r);
	const uint64_t recordings = reader_u64(&l->r);
	int status;

	if (!parts || parts > PTAH_SHARD_PARTS_MAX || !planned || recordings > planned)
		return load_refuse(l, at, "malformed header");
	bits = reader_bytes(&l->r, shard_bitmap_size(parts));
	if (!bits)
		return load_refuse(l, at, "the file ends inside its header");
	status = shard_new(&s->shard, parts, planned, plan);
	if (status < 0)
		return status;
	memcpy(s->shard->bits, bits, shard_bitmap_size(parts));
	for (size_t i = 0; i < 8 * shard_bitmap_size(parts); i++) {
		if (!(bits[i / 8] >> i % 8 & 1))
			continue;
		if (i >= parts)
			return load_refuse(l, bits + i / 8, "a shard that there cannot be");
		s->shard->present++;
	}
	if (!s->shard->present)
		return load_refuse(l, bits, "it is none of the shards");
	for (uint64_t i = 0; i < recordings && status >= 0; i++)
		status = load_recording(s);
	if (status >= 0 && l->r.p < l->r.end)
		status = load_refuse(l, l->r.p, "bytes after the last recording");
	return status;
}

static int load_shard_bytes(const void *bytes, size_t n, struct ptah_shard **shard,
			    struct ptah_message *why)
{
	struct shard_load s = {.l = {.begin = bytes, .why = why}};
	int status;

	if ((!bytes && n) || !shard)
		return PTAH_E_INVAL;
	s.l.r = (struct reader){.p = bytes, .end = n ? (const uint8_t *)bytes + n : bytes};
	status = load_file_header(&s.l, SHARD_MAGIC, "not a shard", SHARD_VERSION, n);
	if (status >= 0)
		status = load_parts(&s);
	if (status < 0) {
		ptah_shard_free(s.shard);
		return status == PTAH_E_NOMEM ? perfdata_message(why, status, "out of memory")
					      : status;
	}
	*shard = s.shard;
	return 0;
}

int ptah_shard_load(const void *bytes, size_t n, struct ptah_shard **shard,
		    struct ptah_message *why)
{
	perfdata_message_begin(why);
	return perfdata_message_end(why, load_shard_bytes(bytes, n, shard, why));
}

static int load_it(void *shard, const void *bytes, size_t n, struct ptah_message *why)
{
	return ptah_shard_load(bytes, n, shard, why);
}

static int open_shard_file(const char *path, struct ptah_shard **shard, struct ptah_message *why)
{
	return path && shard ? load_from_file(path, load_it, shard, why) : PTAH_E_INVAL;
}

int ptah_shard_open(const char *path, struct ptah_shard **shard, struct ptah_message *why)
{
	perfdata_message_begin(why);
	return perfdata_message_end(why, open_shard_file(path, shard, why));
}
