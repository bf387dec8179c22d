/* SPDX-License-Identifier: MIT */
#include "cli.h"

#include <inttypes.h>

struct options {
	struct input input;
};

static const struct option_def option_defs[] = {
    INPUT_JOBS_OPTION(struct options),
    INPUT_OPTIONS(struct options),
    {0},
};

struct verify {
	const struct options *o;
	struct out *out;
	struct json json;
	struct ptah_workers *workers; /* what is known of the code, for the next stream */
	unsigned threads, unequal, unknown;
	uint64_t instructions;
};

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

static void put_json(struct verify *v, const struct ptah_stream_info *info,
		     const struct ptah_verify *r, int status)
{
	json_object(&v->json, NULL, false);
	json_string(&v->json, "comm", info->comm);
	json_signed(&v->json, "pid", info->pid);
	json_signed(&v->json, "tid", info->tid);
	if (status < 0) {
		json_string(&v->json, "problem", ptah_strerror(status));
	} else {
		json_bool(&v->json, "equal", r->equal);
		json_number(&v->json, "errors", r->errors);
		json_number(&v->json, "overflows", r->overflows);
		put_truth_json(&v->json, "decoded", &r->decoded);
		put_truth_json(&v->json, "recorded", &info->truth);
	}
	json_end_object(&v->json);
}

static void compare(struct out *out, const char *what, uint64_t decoded, uint64_t recorded)
{
	if (decoded != recorded)
		out_format(out, "    %s: decoded %" PRIu64 ", recorded %" PRIu64 "\n", what,
			   decoded, recorded);
}

static void put_text(struct verify *v, const struct ptah_stream_info *info,
		     const struct ptah_verify *r, int status)
{
	const struct ptah_truth *d = &r->decoded, *t = &info->truth;

	out_format(v->out, "%s %d/%d: ", info->comm[0] ? info->comm : "-", info->pid, info->tid);
	if (status == PTAH_E_MISSING) {
		out_text(v->out, "no ground truth in this recording\n");
		return;
	}
	if (status < 0) {
		out_format(v->out, "%s\n", ptah_strerror(status));
		return;
	}
	out_format(v->out,
		   "%" PRIu64 " instructions, %" PRIu64 " conditional, %" PRIu64
		   " indirect, %" PRIu64 " returns, path %016" PRIx64 ": %s\n",
		   d->instructions, d->conditional, d->indirect, d->returns, d->path_hash,
		   r->equal ? "equal" : "DIFFERS");
	if (r->overflows)
		out_format(v->out, "    %" PRIu64 " overflows: the recorder could not follow\n",
			   r->overflows);
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
			   "    %" PRIu64 " errors; the first at offset 0x%" PRIx64
			   ", ip 0x%" PRIx64 ": %s\n",
			   r->errors, r->first.offset, r->first.ip, ptah_strerror(r->first.status));
}

static void verify_stream(struct verify *v, const struct ptah_session *session, size_t i)
{
	struct ptah_stream_info info;
	const struct ptah_jobs jobs = {
	    .size = sizeof(jobs), .jobs = input_jobs(&v->o->input, 0), .workers = v->workers};
	struct ptah_verify r;
	int status;

	input_stream_info(session, i, &info);
	status = ptah_session_verify(session, i, &jobs, &r);
	v->threads++;
	v->unknown += status < 0;
	v->unequal += status >= 0 && !r.equal;
	v->instructions += r.decoded.instructions;
	if (v->o->input.format == FORMAT_JSON) {
		put_json(v, &info, &r, status);
	} else if (v->o->input.format == FORMAT_TSV) {
		out_format(v->out, "%d\t%d\t%s\t", info.pid, info.tid, info.comm);
		if (status < 0)
			out_format(v->out, "0\t0\t0\t%s\n", ptah_error_name(status));
		else
			out_format(v->out, "%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%s\n",
				   r.decoded.instructions, r.decoded.conditional, r.errors,
				   r.equal ? "equal" : "differs");
	} else if (!v->o->input.quiet || status < 0 || !r.equal || r.overflows) {
		put_text(v, &info, &r, status);
	}
}

static void put_total(const struct verify *v)
{
	out_format(v->out, "%u thread%s: ", v->threads, v->threads == 1 ? "" : "s");
	if (v->unequal)
		out_text(v->out, "the decode differs from what ran");
	else if (v->unknown || !v->threads)
		out_text(v->out, "not verified");
	else
		out_text(v->out, "decoded exactly what ran");
	if (v->threads > 1 && v->unequal)
		out_format(v->out, " in %u of them", v->unequal);
	if (v->threads > 1 && v->unknown)
		out_format(v->out, ", %u %s", v->unknown, v->unequal ? "not verified" : "of them");
	if (v->threads > 1)
		out_format(v->out, ", %" PRIu64 " instructions", v->instructions);
	out_char(v->out, '\n');
}

static int run(int argc, char **argv)
{
	struct options o = {0};
	struct verify v = {.o = &o};
	struct ptah_session *session;
	int status, first = options_parse(&command_verify, argc, argv, &o, &status);

	if (first < 0)
		return status;
	status = input_open(&command_verify, &o.input, argc - first, argv + first, true, &session);
	if (status)
		return status;
	status = output_open(&command_verify, &o.input, &v.out);
	if (status) {
		ptah_session_close(session);
		return status;
	}
	json_init(&v.json, v.out);
	if (o.input.format == FORMAT_JSON) {
		json_object(&v.json, NULL, false);
		json_array(&v.json, "threads");
	} else if (o.input.format == FORMAT_TSV) {
		out_text(v.out, "pid\ttid\tcomm\tinstructions\tconditional\terrors\tresult\n");
	}
	if (ptah_workers_new(session, &v.workers) < 0)
		v.workers = NULL; /* as well, but slower */
	for (size_t i = 0; i < ptah_session_streams(session) && !interrupted(); i++)
		if (input_wants(&o.input, session, i))
			verify_stream(&v, session, i);
	status = v.unequal || v.unknown || !v.threads ? EXIT_FAILED : EXIT_OK;
	if (o.input.format == FORMAT_JSON) {
		json_end_array(&v.json);
		json_bool(&v.json, "equal", status == EXIT_OK);
		json_end_object(&v.json);
		json_finish(&v.json);
	} else if (o.input.format == FORMAT_TEXT) {
		put_total(&v);
	}
	input_notes(&o.input, session);
	ptah_workers_free(v.workers);
	ptah_session_close(session);
	return output_close(&command_verify, v.out, status);
}

const struct command command_verify = {
    .name = "verify",
    .usage = "[OPTIONS] [FILE]",
    .summary = "decode and compare with what the recorder saw",
    .details =
	"Decodes a recording of `ptah record` and compares instructions, branches and the hash\n"
	"of the whole path with what the recorder counted while the program ran. Exits with\n"
	"0 when every thread is equal, with 1 otherwise. --quiet tells of those alone that are "
	"not,\n"
	"and the total.",
    .options = option_defs,
    .run = run,
};
