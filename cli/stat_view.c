/* SPDX-License-Identifier: MIT */
/* The counts of `ptah stat` as text, TSV and JSON. */
#include "stat_view.h"

#include "base/text.h"
#include "output/fields.h"
#include "output/pretty.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double ratio(double a, double b)
{
	return b > 0 ? a / b : 0;
}

/* JSON */

/* The key is the name in snake_case: tip_pge for TIP.PGE. */
static void put_stat_number(struct json *j, const char *name, uint64_t value)
{
	char key[32];
	size_t i;

	for (i = 0; i < sizeof(key) - 1 && name[i]; i++)
		key[i] =
		    isalnum((unsigned char)name[i]) ? (char)tolower((unsigned char)name[i]) : '_';
	key[i] = '\0';
	json_number(j, key, value);
}

static void put_counts_json(struct json *j, const struct stat_counts *c)
{
	if (!c->part) {
		json_number(j, "bytes", c->bytes);
		json_number(j, "bad_bytes", c->bad_bytes);
		json_number(j, "lost_bytes", c->lost_bytes);
	}
	json_number(j, "blocks", c->blocks);
	json_number(j, "instructions", c->instructions);
	if (!c->part)
		json_real(j, "bits_per_instruction",
			  ratio(8.0 * (double)c->bytes, (double)c->instructions));
	json_number(j, "errors", c->errors);
	json_number(j, "overflows", c->overflows);
	json_number(j, "gaps", c->gaps);
	json_real(j, "seconds", c->seconds);
	if (!c->part)
		json_real(j, "mb_per_second", ratio((double)c->bytes / 1e6, c->seconds));
	json_real(j, "million_instructions_per_second",
		  ratio((double)c->instructions / 1e6, c->seconds));
	json_object(j, "branches", false);
	for (unsigned i = 1; i < PTAH_INSN_CLASS_MAX; i++)
		put_stat_number(j, ptah_insn_class_name(i), c->classes[i]);
	json_end_object(j);
	if (c->part)
		return;
	json_object(j, "packets", false);
	for (unsigned i = 0; i < PTAH_PACKET_TYPE_MAX; i++)
		if (c->packets[i])
			put_stat_number(j, ptah_packet_name(i), c->packets[i]);
	json_end_object(j);
}

static void begin_json(void *view)
{
	struct stat_view *s = view;

	json_init(&s->json, s->out);
	json_object(&s->json, NULL, false);
	json_array(&s->json, "streams");
}

static void put_stat_json(void *view, const void *stream)
{
	struct stat_view *s = view;
	const struct stat_row *row = stream;

	json_object(&s->json, NULL, false);
	json_string(&s->json, "comm", row->info->comm);
	json_signed(&s->json, "pid", row->info->pid);
	json_signed(&s->json, "tid", row->info->tid);
	json_signed(&s->json, "cpu", row->info->cpu);
	put_counts_json(&s->json, row->counts);
	if (shares_has(row->info))
		json_array(&s->json, "processes");
	for (size_t i = 0; i < row->share_count; i++) {
		json_object(&s->json, NULL, true);
		json_signed(&s->json, "pid", row->shares[i].pid);
		json_string(&s->json, "comm", row->shares[i].comm);
		json_number(&s->json, "instructions", row->shares[i].instructions);
		json_end_object(&s->json);
	}
	if (shares_has(row->info))
		json_end_array(&s->json);
	json_end_object(&s->json);
}

static void put_namespaces_json(struct json *j, const struct ptah_session *session)
{
	struct ptah_namespaces n;
	struct ptah_cgroup cgroup;

	json_array(j, "namespaces");
	for (size_t i = 0; ptah_session_namespaces(session, i, &n); i++) {
		const uint64_t ns = n.tsc ? ptah_session_time(session, n.tsc) : 0;

		json_object(j, NULL, true);
		json_signed(j, "pid", n.pid);
		json_signed(j, "tid", n.tid);
		json_seconds(j, "time_s", ns);
		json_object(j, "inodes", true);
		for (unsigned k = 0; k < PTAH_NAMESPACE_MAX; k++)
			if (n.of[k].inode)
				json_number(j, n.of[k].name, n.of[k].inode);
		json_end_object(j);
		json_end_object(j);
	}
	json_end_array(j);
	json_array(j, "cgroups");
	for (size_t i = 0; ptah_session_cgroup(session, i, &cgroup); i++) {
		json_object(j, NULL, true);
		json_number(j, "id", cgroup.id);
		json_string(j, "path", cgroup.path);
		json_end_object(j);
	}
	json_end_array(j);
}

static void end_json(void *view)
{
	struct stat_view *s = view;

	json_end_array(&s->json);
	put_counts_json(&s->json, &s->sum);
	json_array(&s->json, "notes");
	for (size_t i = 0; ptah_session_note(s->session, i); i++)
		json_string(&s->json, NULL, ptah_session_note(s->session, i));
	json_end_array(&s->json);
	stat_put_samples_json(&s->json, s->session);
	put_namespaces_json(&s->json, s->session);
	json_end_object(&s->json);
	json_finish(&s->json);
}

/* TSV */

struct tsv_row {
	int32_t pid, tid;
	const char *comm;
	uint64_t bytes, blocks, instructions, errors, overflows;
	bool has_bytes;
};

static const struct field fields[] = {
    FIELD_TSV(struct tsv_row, "pid", FIELD_SIGNED, pid),
    FIELD_TSV(struct tsv_row, "tid", FIELD_SIGNED, tid),
    FIELD_TSV(struct tsv_row, "comm", FIELD_STRING, comm),
    {"bytes", NULL, FIELD_NUMBER, offsetof(struct tsv_row, bytes), 0,
     offsetof(struct tsv_row, has_bytes)},
    FIELD_TSV(struct tsv_row, "blocks", FIELD_NUMBER, blocks),
    FIELD_TSV(struct tsv_row, "instructions", FIELD_NUMBER, instructions),
    FIELD_TSV(struct tsv_row, "errors", FIELD_NUMBER, errors),
    FIELD_TSV(struct tsv_row, "overflows", FIELD_NUMBER, overflows),
};

static const struct row_type row_type = ROW_TYPE(fields);

static void begin_tsv(void *view)
{
	fields_tsv_head(((struct stat_view *)view)->out, &row_type, 0);
}

static void put_stat_tsv(void *view, const void *stream)
{
	const struct stat_row *row = stream;
	const struct stat_counts *c = row->counts;
	const struct tsv_row tsv = {.pid = row->info->pid,
				    .tid = row->info->tid,
				    .comm = row->info->comm,
				    .bytes = c->bytes,
				    .has_bytes = !c->part,
				    .blocks = c->blocks,
				    .instructions = c->instructions,
				    .errors = c->errors,
				    .overflows = c->overflows};

	fields_tsv(((struct stat_view *)view)->out, &row_type, 0, &tsv);
}

/* There is no place for notes in a table. */
static void end_tsv(void *view)
{
	const struct stat_view *s = view;

	input_notes(s->input, s->session);
}

/* Text */

static void put_inner_line(struct out *out, const char *what, uint64_t value)
{
	char text[PRETTY_NUMBER];

	out_format(out, "    %-22s %16s\n", what, pretty_number(value, text));
}

static void put_stat_line(struct out *out, const char *what, uint64_t value)
{
	char text[PRETTY_NUMBER];

	out_format(out, "  %-24s %16s\n", what, pretty_number(value, text));
}

/* A line that should be 0. */
static void put_losses(struct out *out, const char *what, uint64_t value)
{
	char line[64], text[PRETTY_NUMBER];

	snprintf(line, sizeof(line), "  %-24s %16s", what, pretty_number(value, text));
	pretty_text(out, value ? PRETTY_BAD : PRETTY_PLAIN, line);
	out_char(out, '\n');
}

static void put_stat_name(struct out *out, const struct ptah_stream_info *info)
{
	if (shares_has(info))
		out_format(out, "CPU %d", info->cpu);
	else if (info->tid < 0 && info->cpu >= 0)
		out_format(out, "%s %d, CPU %d", info->comm[0] ? info->comm : "trace", info->pid,
			   info->cpu);
	else
		out_format(out, "%s %d/%d", info->comm[0] ? info->comm : "trace", info->pid,
			   info->tid);
}

/* `bad`: the stream with the first error, or NULL if there is only one. */
static void put_counts_text(struct out *out, const struct stat_counts *c,
			    const struct ptah_stream_info *bad)
{
	if (!c->part)
		put_stat_line(out, "bytes", c->bytes);
	if (c->bad_bytes)
		put_losses(out, "bad bytes", c->bad_bytes);
	if (c->lost_bytes)
		put_losses(out, "lost bytes", c->lost_bytes);
	put_stat_line(out, "blocks", c->blocks);
	put_stat_line(out, "instructions", c->instructions);
	for (unsigned i = 1; i < PTAH_INSN_CLASS_MAX; i++)
		if (c->classes[i])
			put_inner_line(out, ptah_insn_class_name(i), c->classes[i]);
	if (!c->part)
		out_format(out, "  %-24s %16.3f\n", "bits per instruction",
			   ratio(8.0 * (double)c->bytes, (double)c->instructions));
	put_losses(out, "errors", c->errors);
	if (c->errors) {
		out_text(out, "    the first ");
		if (bad) {
			out_text(out, "in ");
			put_stat_name(out, bad);
			out_char(out, ' ');
		}
		out_format(out, "at offset 0x%" PRIx64 ", ip 0x%" PRIx64 ": %s\n",
			   c->first_error.offset, c->first_error.ip,
			   ptah_strerror(c->first_error.status));
	}
	put_losses(out, "overflows", c->overflows);
	if (c->gaps)
		put_stat_line(out, "gaps without TNT packets", c->gaps);
	if (c->part)
		return;
	out_format(out, "  %-24s %16.1f\n  %-24s %16.1f\n", "decoded, MB/s",
		   ratio((double)c->bytes / 1e6, c->seconds), "decoded, Minsn/s",
		   ratio((double)c->instructions / 1e6, c->seconds));
	out_text(out, "  packets\n");
	for (unsigned i = 0; i < PTAH_PACKET_TYPE_MAX; i++)
		if (c->packets[i])
			put_inner_line(out, ptah_packet_name(i), c->packets[i]);
}

struct stat_kept {
	struct ptah_stream_info info;
	struct stat_counts counts;
	size_t share_count;
	struct process_share shares[];
};

static int keep_stat_row(struct stat_view *s, const struct stat_row *row)
{
	const size_t size = row->share_count * sizeof(*row->shares);
	struct stat_kept **kept = reallocarray(s->kept, s->kept_count + 1, sizeof(*kept));
	struct stat_kept *copy = kept ? malloc(sizeof(*copy) + size) : NULL;

	if (kept)
		s->kept = kept;
	if (!copy)
		return PTAH_E_NOMEM;
	copy->info = *row->info;
	copy->counts = *row->counts;
	copy->share_count = row->share_count;
	if (size)
		memcpy(copy->shares, row->shares, size);
	s->kept[s->kept_count++] = copy;
	return 0;
}

void stat_view_free(struct stat_view *s)
{
	for (size_t i = 0; i < s->kept_count; i++)
		free(s->kept[i]);
	free(s->kept);
}

/* A stream that is alone is the summary, and is kept for it. */
static void put_stat_text(void *view, const void *stream)
{
	struct stat_view *s = view;

	if (s->status >= 0 && (s->per_thread || s->streams == 1))
		s->status = keep_stat_row(s, stream);
}

static void put_stream_text(struct out *out, const struct stat_kept *k)
{
	put_stat_name(out, &k->info);
	out_char(out, '\n');
	put_counts_text(out, &k->counts, NULL);
	for (size_t i = 0; i < k->share_count; i++) {
		const struct process_share *share = &k->shares[i];
		char name[16], number[PRETTY_NUMBER];

		snprintf(name, sizeof(name), "%d", share->pid);
		if (share->pid < -1) { /* an address space, which has a name instead of a pid */
			memcpy(name, share->comm, sizeof(name));
			text_clean(name);
		}
		out_format(out, "  process %-16s %16s instructions\n", name,
			   pretty_number(share->instructions, number));
	}
}

static void put_notes_text(const struct stat_view *s)
{
	const char *note;

	for (size_t i = 0; (note = ptah_session_note(s->session, i)); i++) {
		out_text(s->out, "note: ");
		out_clean(s->out, note);
		out_char(s->out, '\n');
	}
}

static void put_namespaces_text(struct out *out, const struct ptah_session *session)
{
	struct ptah_namespaces n;
	struct ptah_cgroup cgroup;

	for (size_t i = 0; ptah_session_namespaces(session, i, &n); i++) {
		out_format(out, "namespaces of %d/%d", n.pid, n.tid);
		for (unsigned k = 0; k < PTAH_NAMESPACE_MAX; k++)
			if (n.of[k].inode)
				out_format(out, "  %s %" PRIu64, n.of[k].name, n.of[k].inode);
		out_char(out, '\n');
	}
	for (size_t i = 0; ptah_session_cgroup(session, i, &cgroup); i++) {
		out_format(out, "cgroup %" PRIu64 "  ", cgroup.id);
		out_clean(out, cgroup.path);
		out_char(out, '\n');
	}
}

static void end_stat_text(void *view)
{
	struct stat_view *s = view;

	put_notes_text(s);
	if (s->streams > 1) {
		out_format(s->out, "all %u streams%s\n", s->streams,
			   s->per_thread ? "" : " (--per-thread shows each)");
		put_counts_text(s->out, &s->sum, &s->first_bad);
	}
	for (size_t i = 0; i < s->kept_count && (s->per_thread || s->streams == 1); i++)
		put_stream_text(s->out, s->kept[i]);
	stat_put_samples_text(s->out, s->session);
	if (s->per_thread)
		put_namespaces_text(s->out, s->session);
}

const struct renderer stat_renderers[FORMAT_MAX] = {
    [FORMAT_TEXT] = {.row = put_stat_text, .end = end_stat_text, .offered = true},
    [FORMAT_JSON] = {.begin = begin_json, .row = put_stat_json, .end = end_json, .offered = true},
    [FORMAT_TSV] = {.begin = begin_tsv, .row = put_stat_tsv, .end = end_tsv, .offered = true},
};
