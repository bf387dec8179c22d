/* SPDX-License-Identifier: MIT */
/* Writes coverage in the formats of `ptah cover`. */
#include "cover_rows.h"

#include "output/drcov.h"
#include "output/fields.h"

#include <stdio.h>
#include <stdlib.h>

const char *const cover_format_names[] = {"edges", "blocks", "drcov", "bitmap", "processes", NULL};

/* The pid and name of the process that a space belongs to. */
static void find_cover_process(const struct ptah_session *session, int32_t space,
			       struct ptah_thread *who)
{
	if (ptah_session_space(session, space, who) < 0)
		*who = (struct ptah_thread){.pid = space, .tid = -1};
}

/* A row as it is written. */
struct shown {
	uint64_t from, to, count, ninsn;
	int32_t pid;
	const char *insn_class, *symbol, *to_symbol, *comm;
};

static const struct field edge_fields[] = {
    FIELD_TSV(struct shown, "from", FIELD_ADDRESS, from),
    FIELD_TSV(struct shown, "to", FIELD_ADDRESS, to),
    FIELD_TSV(struct shown, "count", FIELD_NUMBER, count),
    FIELD_TSV(struct shown, "pid", FIELD_SIGNED, pid),
    FIELD_TSV(struct shown, "class", FIELD_STRING, insn_class),
    FIELD_TSV(struct shown, "symbol", FIELD_STRING, symbol),
    FIELD_TSV(struct shown, "to_symbol", FIELD_STRING, to_symbol),
    FIELD_TSV(struct shown, "comm", FIELD_STRING, comm),
};

static const struct field block_fields[] = {
    FIELD_TSV(struct shown, "ip", FIELD_ADDRESS, from),
    FIELD_TSV(struct shown, "end", FIELD_ADDRESS, to),
    FIELD_TSV(struct shown, "count", FIELD_NUMBER, count),
    FIELD_TSV(struct shown, "pid", FIELD_SIGNED, pid),
    FIELD_TSV(struct shown, "class", FIELD_STRING, insn_class),
    FIELD_TSV(struct shown, "instructions", FIELD_NUMBER, ninsn),
    FIELD_TSV(struct shown, "symbol", FIELD_STRING, symbol),
    FIELD_TSV(struct shown, "comm", FIELD_STRING, comm),
};

static const struct row_type edge_type = ROW_TYPE(edge_fields);
static const struct row_type block_type = ROW_TYPE(block_fields);

static void put_cover_rows(struct out *out, struct names *names, const struct cover_rows *rows)
{
	const struct row_type *type = rows->edges ? &edge_type : &block_type;
	char symbol[NAMES_LABEL_MAX], to_symbol[NAMES_LABEL_MAX];
	struct ptah_thread who;

	fields_tsv_head(out, type, 0);
	for (size_t i = 0; i < rows->count; i++) {
		const struct cover_row *row = &rows->row[i];
		struct shown shown = {.from = row->from,
				      .to = row->to,
				      .count = row->count,
				      .ninsn = row->ninsn,
				      .insn_class = ptah_insn_class_name(row->insn_class),
				      .comm = who.comm};

		if (!i || row->space != row[-1].space)
			find_cover_process(rows->session, row->space, &who);
		shown.pid = who.pid;
		shown.symbol = names_label_version(names, row->space, row->from, row->version,
						   symbol, sizeof(symbol));
		if (rows->edges)
			shown.to_symbol =
			    names_label_version(names, row->space, row->to, row->target_version,
						to_symbol, sizeof(to_symbol));
		fields_tsv(out, type, 0, &shown);
	}
}

void cover_fill_bitmap(uint8_t *bitmap, size_t size, const struct cover_rows *rows)
{
	for (size_t i = 0; i < rows->count; i++) {
		const struct cover_row *row = &rows->row[i];
		uint8_t *entry = &bitmap[ptah_coverage_index(row->from, row->to, size)];

		*entry =
		    (uint8_t)(row->count > (uint64_t)(UINT8_MAX - *entry) ? UINT8_MAX
									  : *entry + row->count);
	}
}

static int put_bitmap(struct out *out, const struct cover_output *o, const struct cover_rows *rows)
{
	const size_t size = (size_t)o->map_size;
	uint8_t *bitmap = calloc(size, 1);

	if (!bitmap)
		return PTAH_E_NOMEM;
	cover_fill_bitmap(bitmap, size, rows);
	out_bytes(out, (const char *)bitmap, size);
	free(bitmap);
	return 0;
}

static int put_drcov(struct out *out, const struct cover_output *o, struct names *names,
		     const struct cover_rows *rows)
{
	struct drcov *drcov;
	int status = drcov_new(names, &drcov);

	if (status < 0)
		return status;
	for (size_t i = 0; i < rows->count && status >= 0; i++)
		status = drcov_add(drcov, rows->row[i].space, rows->row[i].from, rows->row[i].to,
				   rows->row[i].version);
	if (status >= 0) {
		drcov_write(drcov, out);
		if (drcov_left_out(drcov) && !o->quiet)
			fprintf(stderr, "note: %zu blocks lie in no file: they are left out\n",
				drcov_left_out(drcov));
	}
	drcov_free(drcov);
	return status;
}

int cover_write(const struct cover_output *o, struct out *out, struct names *names,
		const struct cover_rows *rows)
{
	switch (o->format) {
	case COVER_DRCOV:
		return put_drcov(out, o, names, rows);
	case COVER_BITMAP:
		return put_bitmap(out, o, rows);
	default:
		put_cover_rows(out, names, rows);
		return 0;
	}
}
