/* SPDX-License-Identifier: MIT */
#include "cli.h"
#include "output/disasm.h"
#include "output/items.h"
#include "output/names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct options {
	struct input input;
	bool branches, blocks, calls, events, time, att, no_symbols;
};

static const struct option_def option_defs[] = {
    {"branches", 0, OPTION_FLAG, offsetof(struct options, branches), NULL,
     "taken branches, from => to, instead of instructions", NULL},
    {"blocks", 0, OPTION_FLAG, offsetof(struct options, blocks), NULL,
     "blocks instead of instructions", NULL},
    {"calls", 0, OPTION_FLAG, offsetof(struct options, calls), NULL,
     "calls and returns, indented, instead of instructions", NULL},
    {"events", 0, OPTION_FLAG, offsetof(struct options, events), NULL,
     "show events (tracing on, off, PSB, ...) at their places", NULL},
    {"time", 0, OPTION_FLAG, offsetof(struct options, time), NULL,
     "show perf's time, as far as the trace tells it", NULL},
    {"att", 0, OPTION_FLAG, offsetof(struct options, att), NULL, "AT&T syntax", NULL},
    {"no-symbols", 0, OPTION_FLAG, offsetof(struct options, no_symbols), NULL,
     "addresses only: quicker", NULL},
    INPUT_ORDERED_JOBS_OPTION(struct options),
    INPUT_OPTIONS(struct options),
    {0},
};

/* The end of an instruction's line, made once per address: most instructions run often. */
struct line {
	uint64_t ip;
	int32_t pid;
	uint8_t size; /* of the instruction; 0: free */
	uint8_t bytes[15];
	uint32_t length;
	uint32_t code; /* where the instruction begins in it */
	uint32_t text; /* place in the pool */
};

#define LINES	  (1u << 17)
#define POOL_SIZE (16u << 20)

struct script {
	const struct options *o;
	struct out *out;
	struct json json;
	struct names *names;
	struct ptah_reader *reader;
	struct ptah_workers *workers; /* what is known of the code, for the next stream */
	struct ptah_stream_info info;
	char prefix[96]; /* comm, tid, time */
	size_t prefix_length, thread_length;
	uint64_t tsc; /* that the prefix shows */
	const struct ptah_session *session;
	/* A branch that waits for where it went. */
	bool has_branch;
	uint64_t from;
	const char *kind;
	unsigned depth;
	uint8_t before;
	uint64_t errors;
	struct line *lines;
	char *pool;
	size_t pool_used;
};

/* Addresses */

static void put_name(struct script *s, uint64_t ip)
{
	const struct name *name;

	if (s->o->no_symbols)
		return;
	name = names_find(s->names, s->info.space, ip);
	out_char(s->out, ' ');
	if (name->symbol) {
		out_text(s->out, name->symbol);
		if (name->offset) {
			out_text(s->out, "+0x");
			out_hex(s->out, name->offset);
		}
		out_char(s->out, ' ');
	}
	out_char(s->out, '(');
	out_text(s->out, name->dso);
	out_char(s->out, ')');
}

/* perf's seconds.nanoseconds; a dash while the trace has not told the time. */
static void set_time(struct script *s, uint64_t tsc)
{
	uint64_t ns = ptah_session_time(s->session, tsc);
	char *at = s->prefix + s->thread_length;
	size_t room = sizeof(s->prefix) - s->thread_length;

	s->tsc = tsc;
	s->prefix_length = s->thread_length +
			   (size_t)(tsc && ns ? snprintf(at, room, "%" PRIu64 ".%09" PRIu64 ": ",
							 ns / 1000000000, ns % 1000000000)
					      : snprintf(at, room, "-: "));
}

static void put_prefix(struct script *s)
{
	out_bytes(s->out, s->prefix, s->prefix_length);
}

static void put_thread_json(struct script *s)
{
	json_signed(&s->json, "tid", s->info.tid);
	if (s->o->time)
		json_number(&s->json, "time", ptah_session_time(s->session, s->tsc));
}

static void put_name_json(struct script *s, const char *key, uint64_t ip)
{
	const struct name *name;
	char text[512];

	if (s->o->no_symbols)
		return;
	name = names_find(s->names, s->info.space, ip);
	if (name->symbol && name->offset)
		snprintf(text, sizeof(text), "%s+0x%" PRIx64, name->symbol, name->offset);
	else
		snprintf(text, sizeof(text), "%s", name->symbol ? name->symbol : "");
	json_string(&s->json, key, name->symbol ? text : NULL);
}

/* Branches */

static void put_branch(struct script *s, uint64_t from, uint64_t to, const char *kind)
{
	if (s->o->input.format == FORMAT_JSON) {
		json_object(&s->json, NULL, true);
		put_thread_json(s);
		json_string(&s->json, "kind", kind);
		json_address(&s->json, "from", from);
		put_name_json(s, "from_symbol", from);
		json_address(&s->json, "to", to);
		put_name_json(s, "to_symbol", to);
		json_end_object(&s->json);
		return;
	}
	if (s->o->input.format == FORMAT_TSV) {
		out_format(s->out, "%d\t%s\t0x%" PRIx64 "\t0x%" PRIx64 "\n", s->info.tid, kind,
			   from, to);
		return;
	}
	put_prefix(s);
	out_format(s->out, "%-14s ", kind);
	out_hex(s->out, from);
	if (from)
		put_name(s, from);
	out_text(s->out, " => ");
	out_hex(s->out, to);
	if (to)
		put_name(s, to);
	out_char(s->out, '\n');
}

static bool is_taken(const struct ptah_item *block)
{
	if (block->flags & (PTAH_ITEM_TRUNCATED | PTAH_ITEM_UNKNOWN))
		return false;
	if (block->insn_class == PTAH_INSN_COND)
		return block->flags & PTAH_ITEM_TAKEN;
	return block->insn_class != PTAH_INSN_OTHER && block->insn_class != PTAH_INSN_PTWRITE;
}

/* Part of the path is missing here. */
static bool is_loss(const struct ptah_item *item)
{
	return item->type == PTAH_ITEM_ERROR || item->type == PTAH_ITEM_OVERFLOW ||
	       item->type == PTAH_ITEM_GAP;
}

static void resolve_branch(struct script *s, uint64_t to)
{
	if (s->has_branch)
		put_branch(s, s->from, to, s->kind);
	s->has_branch = false;
}

static void on_branches(struct script *s, const struct ptah_item *item)
{
	switch (item->type) {
	case PTAH_ITEM_BLOCK:
		resolve_branch(s, item->ip);
		s->has_branch = is_taken(item);
		s->from = item->end - item->last_size;
		s->kind = ptah_insn_class_name(item->insn_class);
		break;
	case PTAH_ITEM_ENABLED:
		put_branch(s, 0, item->ip, "trace-begin");
		break;
	case PTAH_ITEM_DISABLED:
		resolve_branch(s, item->flags & PTAH_ITEM_IP_SUPPRESSED ? 0 : item->to);
		break;
	case PTAH_ITEM_ASYNC_DISABLED:
		resolve_branch(s, item->ip);
		put_branch(s, item->ip, 0, "async");
		break;
	case PTAH_ITEM_ASYNC_BRANCH:
		resolve_branch(s, item->ip);
		put_branch(s, item->ip, item->to, "async");
		break;
	case PTAH_ITEM_GAP:
	case PTAH_ITEM_ERROR:
	case PTAH_ITEM_OVERFLOW:
		s->has_branch = false;
		break;
	default:
		break;
	}
}

/* Calls */

static void on_calls(struct script *s, const struct ptah_item *item)
{
	if (item->type == PTAH_ITEM_BLOCK) {
		if (s->before == PTAH_INSN_CALL || s->before == PTAH_INSN_CALL_IND) {
			if (s->o->input.format == FORMAT_JSON) {
				json_object(&s->json, NULL, true);
				put_thread_json(s);
				json_number(&s->json, "depth", s->depth);
				json_address(&s->json, "ip", item->ip);
				put_name_json(s, "symbol", item->ip);
				json_end_object(&s->json);
			} else {
				put_prefix(s);
				for (unsigned i = 0; i < s->depth && i < 64; i++)
					out_text(s->out, "  ");
				out_hex(s->out, item->ip);
				put_name(s, item->ip);
				out_char(s->out, '\n');
			}
			s->depth++;
		} else if (s->before == PTAH_INSN_RETURN && s->depth) {
			s->depth--;
		}
		s->before = item->insn_class;
	} else if (is_loss(item)) {
		s->before = PTAH_INSN_OTHER;
	}
}

/* Blocks */

static void on_blocks(struct script *s, const struct ptah_item *item)
{
	if (item->type != PTAH_ITEM_BLOCK)
		return;
	if (s->o->input.format == FORMAT_JSON) {
		json_object(&s->json, NULL, true);
		put_thread_json(s);
		json_address(&s->json, "ip", item->ip);
		json_address(&s->json, "end", item->end);
		json_number(&s->json, "instructions", item->ninsn);
		json_string(&s->json, "class", ptah_insn_class_name(item->insn_class));
		put_name_json(s, "symbol", item->ip);
		json_end_object(&s->json);
		return;
	}
	if (s->o->input.format == FORMAT_TSV) {
		out_format(s->out, "%d\t0x%" PRIx64 "\t0x%" PRIx64 "\t%u\t%s\n", s->info.tid,
			   item->ip, item->end, item->ninsn,
			   ptah_insn_class_name(item->insn_class));
		return;
	}
	put_prefix(s);
	out_hex(s->out, item->ip);
	out_char(s->out, '-');
	out_hex(s->out, item->end);
	out_char(s->out, ' ');
	out_decimal(s->out, item->ninsn);
	out_char(s->out, ' ');
	out_text(s->out, ptah_insn_class_name(item->insn_class));
	put_name(s, item->ip);
	out_char(s->out, '\n');
}

/* Instructions */

/* The text of an instruction's line; *code is where the instruction begins in it. */
static void render_line(struct script *s, const struct ptah_insn *insn, char *text, size_t n,
			size_t *code)
{
	const struct name *name = NULL;
	char assembly[128];
	int k = 0;

	disasm(insn, s->o->att, assembly, sizeof(assembly));
	if (!s->o->no_symbols)
		name = names_find(s->names, s->info.space, insn->ip);
	if (!name)
		k = snprintf(text, n, "%" PRIx64, insn->ip);
	else if (name->symbol)
		k = snprintf(text, n, "%" PRIx64 " %.200s+0x%" PRIx64 " (%.100s)", insn->ip,
			     name->symbol, name->offset, name->dso);
	else
		k = snprintf(text, n, "%" PRIx64 " (%.100s)", insn->ip, name->dso);
	*code = (size_t)k + 1;
	snprintf(text + k, n - (size_t)k, "\t%s\n", assembly);
}

/* The line of an instruction, from the cache if it is there. */
static const struct line *find_line(struct script *s, const struct ptah_insn *insn)
{
	size_t i = (size_t)(insn->ip * UINT64_C(0x9e3779b97f4a7c15) >> 40) % LINES;
	struct line *line = &s->lines[i];
	char text[512];
	size_t code;

	if (line->size == insn->size && line->ip == insn->ip && line->pid == s->info.pid &&
	    !memcmp(line->bytes, insn->bytes, insn->size))
		return line;
	render_line(s, insn, text, sizeof(text), &code);
	if (s->pool_used + sizeof(text) > POOL_SIZE) {
		s->pool_used = 0;
		memset(s->lines, 0, LINES * sizeof(*s->lines));
	}
	line->ip = insn->ip;
	line->pid = s->info.pid;
	line->size = insn->size;
	memcpy(line->bytes, insn->bytes, insn->size);
	line->length = (uint32_t)strlen(text);
	line->code = (uint32_t)code;
	line->text = (uint32_t)s->pool_used;
	memcpy(s->pool + s->pool_used, text, line->length);
	s->pool_used += line->length;
	return line;
}

static void put_insn(struct script *s, const struct ptah_insn *insn)
{
	const struct line *line = find_line(s, insn);

	put_prefix(s);
	out_bytes(s->out, s->pool + line->text, line->length);
}

static void put_insn_structured(struct script *s, const struct ptah_insn *insn)
{
	const struct line *line = find_line(s, insn);
	char code[512];
	size_t n = line->length - line->code - 1; /* without the newline */

	memcpy(code, s->pool + line->text + line->code, n);
	code[n] = '\0';
	if (s->o->input.format == FORMAT_TSV) {
		out_format(s->out, "%d\t0x", s->info.tid);
		out_hex(s->out, insn->ip);
		out_char(s->out, '\t');
		out_decimal(s->out, insn->size);
		out_char(s->out, '\t');
		out_bytes(s->out, code, n);
		out_char(s->out, '\n');
		return;
	}
	json_object(&s->json, NULL, true);
	put_thread_json(s);
	json_address(&s->json, "ip", insn->ip);
	put_name_json(s, "symbol", insn->ip);
	json_string(&s->json, "instruction", code);
	json_end_object(&s->json);
}

static void on_instructions(struct script *s, const struct ptah_item *item)
{
	struct ptah_insn insns[256];
	int n;

	if (item->type != PTAH_ITEM_BLOCK)
		return;
	n = ptah_reader_insns(s->reader, item, insns, ARRAY_SIZE(insns));
	for (int i = 0; i < n; i++) {
		if (s->o->input.format == FORMAT_TEXT)
			put_insn(s, &insns[i]);
		else
			put_insn_structured(s, &insns[i]);
	}
}

/* Events */

static void put_event_json(struct script *s, const struct ptah_item *item)
{
	json_object(&s->json, NULL, true);
	put_thread_json(s);
	json_string(&s->json, "event", ptah_item_name(item->type));
	json_number(&s->json, "offset", item->offset);
	if (item->type == PTAH_ITEM_ERROR)
		json_string(&s->json, "error", ptah_error_name(item->status));
	if (item->ip)
		json_address(&s->json, "ip", item->ip);
	item_fields_json(&s->json, item);
	if (item->tsc)
		json_number(&s->json, "tsc", item->tsc);
	json_end_object(&s->json);
}

/* "# interrupt vector 14" in the column that has words, its address in that of addresses. */
static void put_event_tsv(struct script *s, const struct ptah_item *item)
{
	bool branches = s->o->branches;

	out_format(s->out, "%d\t", s->info.tid);
	if (!branches) {
		out_format(s->out, "0x%" PRIx64 "\t", item->ip);
		out_text(s->out, s->o->blocks ? "\t\t" : "\t");
	}
	out_format(s->out, "# %s", ptah_item_name(item->type));
	if (item->type == PTAH_ITEM_ERROR)
		out_format(s->out, " %s", ptah_error_name(item->status));
	item_fields_text(s->out, item);
	if (branches)
		out_format(s->out, "\t0x%" PRIx64 "\t", item->ip);
	out_char(s->out, '\n');
}

static void put_event_text(struct script *s, const struct ptah_item *item)
{
	put_prefix(s);
	out_format(s->out, "# %s", ptah_item_name(item->type));
	if (item->type == PTAH_ITEM_ERROR)
		out_format(s->out, ": %s; last at 0x%" PRIx64, ptah_strerror(item->status),
			   item->ip);
	else if (item->ip)
		out_format(s->out, " 0x%" PRIx64, item->ip);
	item_fields_text(s->out, item);
	if (item->tsc)
		out_format(s->out, " tsc %" PRIu64, item->tsc);
	out_format(s->out, " offset 0x%" PRIx64 "\n", item->offset);
}

static void on_event(struct script *s, const struct ptah_item *item)
{
	if (item->type == PTAH_ITEM_ERROR)
		s->errors++;
	if (item->type == PTAH_ITEM_BLOCK || (!s->o->events && !is_loss(item)))
		return;
	if (s->o->input.format == FORMAT_JSON)
		put_event_json(s, item);
	else if (s->o->input.format == FORMAT_TEXT)
		put_event_text(s, item);
	else if (s->o->events) /* rows of another kind only for those who ask for them */
		put_event_tsv(s, item);
}

/* What comes now is this thread's. */
static void begin_thread(struct script *s, const struct ptah_stream_info *info)
{
	/* Lines are of one process's memory. */
	if (info->space != s->info.space)
		memset(s->lines, 0, LINES * sizeof(*s->lines));
	s->info = *info;
	s->has_branch = false;
	s->depth = 0;
	s->before = PTAH_INSN_OTHER;
	s->thread_length = s->prefix_length =
	    (size_t)snprintf(s->prefix, sizeof(s->prefix), "%.16s %d ",
			     info->comm[0] ? info->comm : "trace", info->tid);
	if (s->o->time)
		set_time(s, s->tsc);
}

/* A CPU's stream goes from thread to thread. */
static void follow_thread(struct script *s)
{
	struct ptah_stream_info info = s->info;
	struct ptah_thread thread;

	if (ptah_reader_thread(s->reader, &thread) < 0 ||
	    (thread.pid == info.pid && thread.tid == info.tid))
		return;
	info.pid = info.space = thread.pid;
	info.tid = thread.tid;
	memcpy(info.comm, thread.comm, sizeof(info.comm));
	clean_text(info.comm);
	begin_thread(s, &info);
}

static int script_stream(struct script *s, const struct ptah_session *session, size_t i,
			 struct progress *progress)
{
	struct ptah_stream_info info;
	struct ptah_item items[256];
	const struct ptah_jobs jobs = {
	    .size = sizeof(jobs), .jobs = input_jobs(&s->o->input, 1), .workers = s->workers};
	int n, status = ptah_reader_new(session, i, &jobs, &s->reader);
	void (*on_item)(struct script *, const struct ptah_item *) = s->o->branches ? on_branches
								     : s->o->blocks ? on_blocks
								     : s->o->calls
									 ? on_calls
									 : on_instructions;

	if (status < 0)
		return status;
	input_stream_info(session, i, &info);
	s->session = session;
	s->tsc = 0;
	begin_thread(s, &info);
	while (!interrupted() && !out_failed(s->out) &&
	       (n = ptah_reader_read(s->reader, items, ARRAY_SIZE(items))) != 0) {
		if (n < 0) {
			status = n;
			break;
		}
		follow_thread(s);
		for (int k = 0; k < n; k++) {
			if (s->o->time && items[k].tsc != s->tsc)
				set_time(s, items[k].tsc);
			on_event(s, &items[k]);
			on_item(s, &items[k]);
		}
		progress_at(progress, ptah_reader_offset(s->reader));
	}
	ptah_reader_free(s->reader);
	progress_next(progress, s->info.bytes);
	return status;
}

static int begin(struct script *s, const struct ptah_session *session)
{
	int status = input_names(&s->o->input, session, &s->names);

	s->lines = calloc(LINES, sizeof(*s->lines));
	s->pool = malloc(POOL_SIZE);
	if (status >= 0 && (!s->lines || !s->pool))
		status = PTAH_E_NOMEM;
	json_init(&s->json, s->out);
	if (s->o->input.format == FORMAT_JSON) {
		json_object(&s->json, NULL, false);
		json_array(&s->json, s->o->branches ? "branches"
				     : s->o->blocks ? "blocks"
				     : s->o->calls  ? "calls"
						    : "instructions");
	} else if (s->o->input.format == FORMAT_TSV) {
		out_text(s->out, s->o->branches ? "tid\tkind\tfrom\tto\n"
				 : s->o->blocks ? "tid\tip\tend\tinstructions\tclass\n"
						: "tid\tip\tsize\tinstruction\n");
	}
	return status;
}

static int run(int argc, char **argv)
{
	struct options o = {0};
	struct script s = {.o = &o};
	struct progress progress;
	struct ptah_session *session;
	int status, first = options_parse(&command_script, argc, argv, &o, &status), problem;

	if (first < 0)
		return status;
	if (o.branches + o.blocks + o.calls > 1) {
		fail(&command_script, "one of --branches, --blocks and --calls");
		return EXIT_USAGE;
	}
	status = input_open(&command_script, &o.input, argc - first, argv + first, true, &session);
	if (status)
		return status;
	status = output_open(&command_script, &o.input, &s.out);
	if (status) {
		ptah_session_close(session);
		return status;
	}
	problem = begin(&s, session);
	if (problem >= 0)
		problem = ptah_workers_new(session, &s.workers);
	progress_begin(&progress, &o.input, session, false);
	for (size_t i = 0; i < ptah_session_streams(session) && problem >= 0 && !interrupted(); i++)
		if (input_wants(&o.input, session, i))
			problem = script_stream(&s, session, i, &progress);
	progress_end(&progress);
	if (o.input.format == FORMAT_JSON) {
		json_end_array(&s.json);
		json_number(&s.json, "errors", s.errors);
		json_end_object(&s.json);
		json_finish(&s.json);
	}
	if (problem < 0)
		status = fail(&command_script, "%s", ptah_strerror(problem));
	else if (s.errors)
		status = fail_errors(&command_script, s.errors);
	input_notes(&o.input, session);
	ptah_workers_free(s.workers);
	names_free(s.names);
	free(s.lines);
	free(s.pool);
	ptah_session_close(session);
	return output_close(&command_script, s.out, status);
}

const struct command command_script = {
    .name = "script",
    .usage = "[OPTIONS] [FILE]",
    .summary = "every instruction, branch, block or call, in order",
    .details =
	"Prints the path each thread took: comm, tid, address, symbol+offset, object and the\n"
	"instruction; or only taken branches, blocks, or calls. Errors and overflows are shown\n"
	"at their places as lines with \"#\"; the exit status is then 1.",
    .options = option_defs,
    .run = run,
};
