/* SPDX-License-Identifier: MIT */
/* Writes counts in the file format of docs/profile-file.md. */
#include "base/bits.h"
#include "counts/counts_internal.h"
#include "perfdata/byte_buffer.h"

#include <string.h>

_Static_assert(sizeof(struct ptah_item) == 48, "as docs/profile-file.md has it");

bool counts_have_versions(const struct counts_process *p)
{
	for (size_t i = 0; i < p->block_count; i++)
		if (p->blocks[i].version || p->blocks[i].target_version)
			return true;
	for (size_t i = 0; i < p->edge_count; i++)
		if (p->edges[i].version || p->edges[i].target_version)
			return true;
	/* These are sorted. */
	return p->file_count && p->files[p->file_count - 1].version;
}

static void put_versions(struct perfdata_buffer *out, uint64_t version, uint64_t target, bool has)
{
	if (!has)
		return;
	perfdata_put64(out, version);
	perfdata_put64(out, target);
}

static void put_saved_files(struct perfdata_buffer *out, const struct counts_process *p,
			    bool versions)
{
	for (size_t i = 0; i < p->file_count; i++) {
		const struct ptah_counts_file *f = &p->files[i];
		const uint32_t length = (uint32_t)strlen(f->path);

		perfdata_put64(out, f->address);
		perfdata_put64(out, f->size);
		perfdata_put64(out, f->file_offset);
		perfdata_put32(out, length);
		perfdata_put32(out, f->build_id_size);
		perfdata_put(out, f->build_id, f->build_id_size);
		perfdata_put(out, NULL, 24 - (size_t)f->build_id_size);
		if (versions)
			perfdata_put64(out, f->version);
		perfdata_put(out, f->path, length);
		perfdata_put(out, NULL, (8 - length % 8) % 8);
	}
}

static void put_saved_blocks(struct perfdata_buffer *out, const struct counts_process *p,
			     bool versions)
{
	for (size_t i = 0; i < p->block_count; i++) {
		const struct ptah_profile_block *b = &p->blocks[i];
		uint8_t bytes[COUNTS_BLOCK] = {0};

		store_le64(bytes, b->ip);
		store_le64(bytes + 8, b->end);
		store_le64(bytes + 16, b->target);
		store_le64(bytes + 24, b->count);
		store_le64(bytes + 32, b->taken);
		store_le64(bytes + 40, b->unknown);
		store_le32(bytes + 48, b->space);
		store_le16(bytes + 52, b->ninsn);
		bytes[54] = b->mode;
		bytes[55] = b->insn_class;
		bytes[56] = b->last_size;
		bytes[57] = b->truncated;
		perfdata_put(out, bytes, sizeof(bytes));
		put_versions(out, b->version, b->target_version, versions);
	}
}

static void put_edges(struct perfdata_buffer *out, const struct counts_process *p, bool versions)
{
	for (size_t i = 0; i < p->edge_count; i++) {
		const struct ptah_profile_edge *e = &p->edges[i];
		uint8_t bytes[COUNTS_EDGE] = {0};

		store_le64(bytes, e->from);
		store_le64(bytes + 8, e->to);
		store_le64(bytes + 16, e->count);
		store_le32(bytes + 24, e->space);
		bytes[28] = e->mode;
		bytes[29] = e->insn_class;
		perfdata_put(out, bytes, sizeof(bytes));
		put_versions(out, e->version, e->target_version, versions);
	}
}

bool counts_put_process(struct perfdata_buffer *out, const struct counts_process *p, unsigned times,
			bool versions)
{
	struct ptah_item first = p->events.first_error;

	/* The file has a fixed number here; the enumerator's may change with the version. */
	first.type = COUNTS_IS_ERROR;
	perfdata_put32(out, (uint32_t)p->pid);
	perfdata_put32(out, p->calls ? times : 0);
	perfdata_put64(out, p->space_count);
	perfdata_put64(out, p->file_count);
	perfdata_put64(out, p->block_count);
	perfdata_put64(out, p->edge_count);
	perfdata_put64(out, p->events.errors);
	perfdata_put64(out, p->events.overflows);
	perfdata_put64(out, p->events.gaps);
	perfdata_put(out, p->events.errors ? &first : NULL, sizeof(first));
	perfdata_put(out, p->comm, sizeof(p->comm));
	perfdata_put64(out, p->calls ? 1 : 0);
	for (size_t i = 0; i < p->space_count; i++) {
		perfdata_put64(out, p->spaces[i].cr3);
		perfdata_put64(out, p->spaces[i].vmcs);
	}
	put_saved_files(out, p, versions);
	put_saved_blocks(out, p, versions);
	put_edges(out, p, versions);
	return !p->calls || counts_put_calls(out, p->calls);
}

void counts_put_header(uint8_t *bytes, size_t n)
{
	store_le64(bytes + COUNTS_AT_SIZE, n);
	store_le64(bytes + COUNTS_AT_CHECKSUM,
		   counts_checksum(bytes + COUNTS_HEADER, n - COUNTS_HEADER));
}

int ptah_counts_save(const struct ptah_counts *c, void **bytes, size_t *n)
{
	struct perfdata_buffer out = {0};
	bool done = true, versions = false;

	if (!c || !bytes || !n)
		return PTAH_E_INVAL;
	perfdata_put(&out, COUNTS_MAGIC, 8);
	/* What most programs need is also read by others. */
	for (size_t i = 0; i < c->count && !versions; i++)
		versions = counts_have_versions(&c->processes[i]);
	perfdata_put32(&out, versions ? COUNTS_VERSION : COUNTS_VERSION - 1);
	perfdata_put32(&out, 0);
	perfdata_put64(&out, 0); /* size and checksum: written below */
	perfdata_put64(&out, 0);
	perfdata_put64(&out, c->count);
	for (size_t i = 0; i < c->count && done; i++)
		done = counts_put_process(&out, &c->processes[i], c->times, versions);
	if (!done || out.failed) {
		perfdata_buffer_free(&out);
		return PTAH_E_NOMEM;
	}
	counts_put_header(out.bytes, out.size);
	*bytes = out.bytes;
	*n = out.size;
	return 0;
}
