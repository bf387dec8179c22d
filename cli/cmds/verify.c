/* SPDX-License-Identifier: MIT */
/* ptah verify: decodes a recording and compares with what the recorder counted. */
#include "input.h"
#include "output/json.h"
#include "output/fields.h"
#include "output/pretty.h"
#include "output/names.h"
#include "render.h"

#include <inttypes.h>
#include <string.h>

struct options {
	struct input input;
	bool all;
};

static const struct option_def verify_options[] = {
    {.name = "all",
     .kind = OPTION_FLAG,
     .at = offsetof(struct options, all),
     .help = "a thread that cannot be verified is a failure",
     .man =
	 "Exit with 1 also when a thread cannot be verified: it has no ground truth, as one that "
	 "was killed inside of a system call, or the recording has a part of its trace only. "
	 "Without this option such threads are counted, and do not matter as long as others are "
	 "equal."},
    {0}};

struct verify {
	const struct input *input;
	bool all;
	const struct ptah_session *session;
	const struct renderer *renderer;
	struct out *out;
	struct json json;
	struct ptah_workers *workers; /* keep what is known of the code from stream to stream */
	unsigned threads, unequal, unknown;
	uint64_t instructions;
};

/* The result for one stream. */
struct verdict {
	const struct ptah_stream_info *info;
	const struct ptah_verify *result;
	int status; /* negative: it could not be verified */
};

static bool is_success(const struct verify *v)
{
	return !v->unequal && v->unknown < v->threads && (!v->all || !v->unknown);
}

/* JSON */

static void begin_verify_json(void *view)
{
	struct verify *v = view;

	json_init(&v->json, v->out);
	json_object(&v->json, NULL, false);
	json_array(&v->json, "threads");
}

static void put_truth_json(struct json *j, const char *key, const struct ptah_truth *t)
{
	json_object(j, key, true);
	json_number(j, "instructions", t->instructions);
	json_number(j, "conditional", t->conditional);
	json_number(j, "indirect", t->indirect);
	json_number(j, "returns", t->returns);
	json_address(j, "path_hash", t->path_hash);
	json_end_object(j);
}

static void put_silent_json(struct json *j, const struct ptah_verify *r)
{
	json_object(j, "silent_loops", true);
	json_number(j, "interruptions", r->silent_loops);
	json_address(j, "ip", r->silent.ip);
	json_number(j, "offset", r->silent.offset);
	if (r->silent_passes)
		json_number(j, "passes", r->silent_passes);
	json_end_object(j);
}

static void put_verify_json(void *view, const void *row)
{
	struct verify *v = view;
	const struct verdict *verdict = row;
	const struct ptah_verify *r = verdict->result;

	json_object(&v->json, NULL, false);
	json_string(&v->json, "comm", verdict->info->comm);
	json_signed(&v->json, "pid", verdict->info->pid);
	json_signed(&v->json, "tid", verdict->info->tid);
	if (verdict->status < 0) {
		json_string(&v->json, "problem", ptah_strerror(verdict->status));
	} else {
		json_bool(&v->json, "equal", r->equal);
		json_number(&v->json, "errors", r->errors);
		json_number(&v->json, "overflows", r->overflows);
		put_truth_json(&v->json, "decoded", &r->decoded);
		put_truth_json(&v->json, "recorded", &verdict->info->truth);
		if (r->silent_loops)
			put_silent_json(&v->json, r);
	}
	json_end_object(&v->json);
}

static void end_verify_json(void *view)
{
	struct verify *v = view;

	json_end_array(&v->json);
	json_number(&v->json, "not_verified", v->unknown);
	json_bool(&v->json, "equal", is_success(v));
	json_end_object(&v->json);
	json_finish(&v->json);
}

/* TSV */

struct row {
	int32_t pid, tid;
	uint64_t instructions, conditional, errors;
	const char *comm, *result;
};

static const struct field fields[] = {
    FIELD_TSV(struct row, "pid", FIELD_SIGNED, pid),
    FIELD_TSV(struct row, "tid", FIELD_SIGNED, tid),
    FIELD_TSV(struct row, "comm", FIELD_STRING, comm),
    FIELD_TSV(struct row, "instructions", FIELD_NUMBER, instructions),
    FIELD_TSV(struct row, "conditional", FIELD_NUMBER, conditional),
    FIELD_TSV(struct row, "errors", FIELD_NUMBER, errors),
    FIELD_TSV(struct row, "result", FIELD_STRING, result),
};

static const struct row_type row_type = ROW_TYPE(fields);

static void begin_verify_tsv(void *view)
{
	fields_tsv_head(((struct verify *)view)->out, &row_type, 0);
}

static void put_verify_tsv(void *view, const void *verdict)
{
	struct verify *v = view;
	const struct verdict *w = verdict;
	struct row row = {.pid = w->info->pid, .tid = w->info->tid, .comm = w->info->comm};

	if (w->status < 0) {
		row.result = ptah_error_name(w->status);
	} else {
		row.instructions = w->result->decoded.instructions;
		row.conditional = w->result->decoded.conditional;
		row.errors = w->result->errors;
		row.result = w->result->equal ? "equal" : "differs";
	}
	fields_tsv(v->out, &row_type, 0, &row);
}

/* Text */

static void compare(struct out *out, const char *what, uint64_t decoded, uint64_t recorded)
{
	char a[PRETTY_NUMBER], b[PRETTY_NUMBER];

	if (decoded != recorded)
		out_format(out, "    %s: decoded %s, recorded %s\n", what,
			   pretty_number(decoded, a), pretty_number(recorded, b));
}

/* " in symbol+0x10", if the symbol is known. */
static void put_verify_place(struct verify *v, const struct ptah_stream_info *info, uint64_t ip)
{
	struct names *names;
	char text[NAMES_LABEL_MAX];

	if (input_names(v->input, v->session, &names) < 0)
		return;
	names_show_all(names);
	if (names_find(names, info->space, ip)->symbol) {
		out_text(v->out, ", ");
		out_clean(v->out, names_label(names, info->space, ip, text, sizeof(text)));
		out_char(v->out, ',');
	}
	names_free(names);
}

/* Why the decode lacks instructions although nothing else is wrong. */
static void put_silent_text(struct verify *v, const struct ptah_stream_info *info,
			    const struct ptah_verify *r)
{
	if (!r->silent_loops)
		return;
	out_format(v->out, "    the loop at 0x%" PRIx64, r->silent.ip);
	put_verify_place(v, info, r->silent.ip);
	out_format(
	    v->out,
	    " was interrupted at offset 0x%" PRIx64 ": it has only jumps and calls to fixed\n"
	    "    addresses, for which Intel PT has no packet, so the trace does not contain how "
	    "often it ran\n",
	    r->silent.offset);
	if (r->silent_passes)
		out_format(v->out, "    with %" PRIu64 " more passes there the decode is equal\n",
			   r->silent_passes);
	if (r->silent_loops > 1)
		out_format(v->out, "    such loops were interrupted %" PRIu64 " times\n",
			   r->silent_loops);
}

static void put_result_text(struct verify *v, const struct ptah_stream_info *info,
			    const struct ptah_verify *r)
{
	const struct ptah_truth *d = &r->decoded, *t = &info->truth;
	char n[4][PRETTY_NUMBER];

	out_format(v->out,
		   "%s instructions, %s conditional, %s indirect, %s returns, path %016" PRIx64
		   ": ",
		   pretty_number(d->instructions, n[0]), pretty_number(d->conditional, n[1]),
		   pretty_number(d->indirect, n[2]), pretty_number(d->returns, n[3]), d->path_hash);
	pretty_text(v->out, r->equal ? PRETTY_GOOD : PRETTY_BAD, r->equal ? "equal" : "DIFFERS");
	out_char(v->out, '\n');
	if (r->overflows)
		out_format(v->out, "    %s overflows: the recorder could not follow\n",
			   pretty_number(r->overflows, n[0]));
	if (r->equal)
		return;
	compare(v->out, "instructions", d->instructions, t->instructions);
	compare(v->out, "conditional", d->conditional, t->conditional);
	compare(v->out, "indirect", d->indirect, t->indirect);
	compare(v->out, "returns", d->returns, t->returns);
	if (d->path_hash != t->path_hash)
		out_format(v->out, "    path: decoded %016" PRIx64 ", recorded %016" PRIx64 "\n",
			   d->path_hash, t->path_hash);
	if (r->errors)
		out_format(v->out,
			   "    %s errors; the first at offset 0x%" PRIx64 ", ip 0x%" PRIx64
			   ": %s\n",
			   pretty_number(r->errors, n[0]), r->first.offset, r->first.ip,
			   ptah_strerror(r->first.status));
	put_silent_text(v, info, r);
}

/* With --quiet, a stream that is equal and lost nothing gets no line. */
static void put_verify_text(void *view, const void *verdict)
{
	struct verify *v = view;
	const struct verdict *w = verdict;

	if (v->input->quiet && w->status >= 0 && w->result->equal && !w->result->overflows)
		return;
	if (w->info->tid < 0 && w->info->cpu >= 0)
		out_format(v->out, "CPU %d: ", w->info->cpu);
	else
		out_format(v->out, "%s %d/%d: ", w->info->comm[0] ? w->info->comm : "-",
			   w->info->pid, w->info->tid);
	if (w->status == PTAH_E_MISSING)
		out_text(v->out, "no ground truth in this recording\n");
	else if (w->status < 0)
		out_format(v->out, "%s\n", ptah_strerror(w->status));
	else
		put_result_text(v, w->info, w->result);
}

/* Whether the recording itself says why it has no ground truth. See note_missing_truth(). */
static bool is_explained(const struct ptah_session *session)
{
	const char *note;

	for (size_t i = 0; (note = ptah_session_note(session, i)); i++)
		if (!strncmp(note, "no ground truth", 15))
			return true;
	return false;
}

static void put_total(void *view)
{
	const struct verify *v = view;
	char text[PRETTY_NUMBER];

	out_format(v->out, "%u thread%s: ", v->threads, v->threads == 1 ? "" : "s");
	if (v->unequal)
		pretty_text(v->out, PRETTY_BAD, "the decode differs from what ran");
	else if (v->unknown == v->threads)
		out_text(v->out, "not verified");
	else if (v->unknown)
		out_text(v->out, "equal");
	else
		pretty_text(v->out, PRETTY_GOOD, "decoded exactly what ran");
	if (v->threads > 1 && v->unequal)
		out_format(v->out, " in %u of them", v->unequal);
	if (v->threads > 1 && v->unknown)
		out_format(v->out, ", %u of them not verified", v->unknown);
	if (v->threads > 1)
		out_format(v->out, ", %s instructions", pretty_number(v->instructions, text));
	out_char(v->out, '\n');
	if (v->unknown && !is_explained(v->session))
		out_text(v->out,
			 "    only a recorder that carries out the program itself can count what "
			 "runs:\n    ptah record --recorder=native --truth, or "
			 "--recorder=qemu or ptrace\n");
}

static const struct renderer renderers[FORMAT_MAX] = {
    [FORMAT_TEXT] = {.row = put_verify_text, .end = put_total, .offered = true},
    [FORMAT_JSON] = {.begin = begin_verify_json,
		     .row = put_verify_json,
		     .end = end_verify_json,
		     .offered = true},
    [FORMAT_TSV] = {.begin = begin_verify_tsv, .row = put_verify_tsv, .offered = true},
};

static void verify_stream(struct verify *v, const struct ptah_session *session, size_t i)
{
	const struct ptah_jobs jobs = {
	    .size = sizeof(jobs), .jobs = input_jobs(v->input, 0), .workers = v->workers};
	struct ptah_stream_info info;
	struct ptah_verify r;
	struct verdict verdict = {.info = &info, .result = &r};

	input_stream_info(session, i, &info);
	verdict.status = ptah_session_verify(session, i, &jobs, &r);
	v->threads++;
	v->unknown += verdict.status < 0;
	v->unequal += verdict.status >= 0 && !r.equal;
	v->instructions += r.decoded.instructions;
	v->renderer->row(v, &verdict);
}

static int run_verify(int argc, char **argv)
{
	struct options o = {.input.format = FORMAT_TEXT};
	struct verify v = {.input = &o.input};
	struct ptah_session *session;
	int status, first = options_parse(&command_verify, argc, argv, &o, &status);

	if (first < 0)
		return status;
	v.renderer = renderer_choose(&command_verify, renderers, o.input.format, "");
	if (!v.renderer)
		return EXIT_USAGE;
	status = input_open(&command_verify, &o.input, argc - first, argv + first, true, &session);
	if (status)
		return status;
	status = output_open(&command_verify, &o.input, &v.out);
	if (status) {
		ptah_session_close(session);
		return status;
	}
	v.session = session;
	v.all = o.all;
	RENDER(v.renderer, begin, &v);
	if (ptah_workers_new(session, &v.workers) < 0)
		v.workers = NULL; /* verifying works without them, only slower */
	for (size_t i = 0; i < ptah_session_streams(session) && !interrupted(); i++)
		if (input_wants(&o.input, session, i))
			verify_stream(&v, session, i);
	RENDER(v.renderer, end, &v);
	input_notes(&o.input, session);
	ptah_workers_free(v.workers);
	ptah_session_close(session);
	return output_close(&command_verify, v.out, is_success(&v) ? EXIT_OK : EXIT_FAILED);
}

const struct command command_verify = {
    .name = "verify",
    .usage = "[OPTIONS] [FILE]",
    .summary = "decode and compare with what the recorder saw",
    .details =
	"Decodes a recording of `ptah record` and compares instructions, branches and the hash\n"
	"of the whole path with what the recorder counted while the program ran. Exits with 0\n"
	"when no thread differs, with 1 otherwise. --quiet shows the total, and of the\n"
	"threads only those that are not equal.",
    .options = (const struct option_def *const[]){verify_options, names_options, jobs_options,
						  input_options, raw_options, ptxed_options,
						  decode_options, output_options, format_options,
						  quiet_options, help_options, NULL},
    .notes = (const struct option_note[]){{"quiet", "Only those threads are shown that "
						    "differ, cannot be verified or have losses; "
						    "then the total."},
					  {0}},
    .operand = COMPLETE_FILE,
    .run = run_verify,
};
