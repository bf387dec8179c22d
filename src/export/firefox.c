/* SPDX-License-Identifier: MIT */
/*
 * The Firefox Profiler's processed profile, version 48: newer profilers upgrade it when they load
 * it.
 *
 * A sample is a stack and the time from which on it was the thread's; it counts with the time up to
 * the next one (the weight type "tracing-ms"). So each beginning and end of a call is a sample, and
 * the stack chart shows every call. Stacks are a tree, of each thread: memory is in proportion to
 * the different stacks, while the columns of samples and markers lie in a file (spill.h) until the
 * end.
 */
#include "export/formats.h"
#include "support/table.h"
#include "export/spill.h"

#include "base/compiler.h"
#include "output/json.h"
#include "support/index.h"
#include "support/list.h"

#include <ptah/base.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum column {
	SAMPLE_STACK,
	SAMPLE_TIME,
	SAMPLE_WEIGHT,
	MARKER_NAME,
	MARKER_START,
	MARKER_END,
	MARKER_PHASE,
	MARKER_DATA,
	COLUMNS
};

/* The categories, in the order of the profile. */
enum category {
	CATEGORY_OTHER,
	CATEGORY_USER,
	CATEGORY_KERNEL
};

/* A stack: a function, and the stack of its caller. */
struct node {
	uint32_t prefix; /* the number of the caller's stack + 1; 0: there is none */
	uint32_t frame;
};

struct open_call {
	uint32_t stack;		       /* its number + 1 */
	bool noted;		       /* there are details of its beginning */
	struct timeline_detail detail; /* the first of them */
	uint64_t begin;
};

/* Numbers for things, and the things by their numbers. */
struct list {
	struct table numbers;
	const void **things;
	size_t room;
};

struct thread {
	bool begun;
	int32_t pid, tid;
	char *comm;
	struct spill_text columns[COLUMNS];
	uint64_t samples, markers;
	uint64_t last; /* the time of the last sample */
	struct node *nodes;
	struct index index; /* of nodes by prefix and frame */
	size_t node_count, node_room;
	struct list functions, objects, names; /* frames are functions; names of markers */
	struct open_call *calls;
	size_t depth, call_room;
	uint64_t away; /* when tracing was switched off */
};

struct firefox {
	struct out *out;
	struct spill *spill;
	char *command; /* or NULL */
	bool instructions;
	struct thread *threads;
	size_t thread_count;
};

/* The number of a thing, from 1 on. 0: out of memory. */
static uint32_t number_of(struct list *list, const void *thing)
{
	bool is_new;
	const uint32_t number =
	    table_number(&list->numbers, (uintptr_t)thing, UINT32_MAX - 1, &is_new);

	if (!is_new)
		return number;
	if (!LIST_ROOM(list->things, number - 1, list->room))
		return 0;
	list->things[number - 1] = thing;
	return number;
}

static void free_list(struct list *list)
{
	table_free(&list->numbers);
	free(list->things);
}

/* Stacks */

/* The number of the stack that has `frame` above the stack `prefix`. 0: out of memory. */
static uint32_t stack_of(struct thread *t, uint32_t prefix, uint32_t frame)
{
	uint32_t hash, n;

	if (!index_reserve(&t->index))
		return 0;
	hash = index_hash(&t->index, prefix, frame);
	INDEX_FIND(n, &t->index, hash,
		   t->nodes[n - 1].prefix == prefix && t->nodes[n - 1].frame == frame);
	if (n)
		return n;
	if (t->node_count >= UINT32_MAX || !LIST_ROOM(t->nodes, t->node_count, t->node_room))
		return 0;
	t->nodes[t->node_count++] = (struct node){prefix, frame};
	index_add(&t->index, hash, (uint32_t)t->node_count);
	return (uint32_t)t->node_count;
}

/* Columns */

static void put_column(struct firefox *f, struct spill_text *text, const char *bytes)
{
	spill_bytes(f->spill, text, bytes, strlen(bytes));
}

/* Begins the next value of a column. */
static struct spill_text *next_value(struct firefox *f, struct thread *t, enum column column)
{
	struct spill_text *text = &t->columns[column];

	if (text->size)
		put_column(f, text, ",");
	return text;
}

/* Nanoseconds as milliseconds. */
static void put_ms(struct firefox *f, struct spill_text *text, uint64_t ns)
{
	uint64_t rest = ns % 1000000;
	char digits[8] = ".000000";

	spill_decimal(f->spill, text, ns / 1000000);
	if (!rest)
		return;
	for (unsigned i = 6; i; i--, rest /= 10)
		digits[i] = (char)('0' + rest % 10);
	put_column(f, text, digits);
}

/* From now on the thread has this stack; 0: none. */
static void put_sample(struct firefox *f, struct thread *t, uint64_t at, uint32_t stack)
{
	if (t->samples++)
		put_ms(f, next_value(f, t, SAMPLE_WEIGHT), at - t->last);
	if (stack)
		spill_decimal(f->spill, next_value(f, t, SAMPLE_STACK), stack - 1);
	else
		put_column(f, next_value(f, t, SAMPLE_STACK), "null");
	put_ms(f, next_value(f, t, SAMPLE_TIME), at);
	t->last = at;
}

/* Valid UTF-8 inside of a JSON string. */
static void put_inside(struct firefox *f, struct spill_text *text, const char *value)
{
	char escape[8];
	size_t n;

	for (; *value; value += n) {
		for (n = 0; (unsigned char)value[n] >= 0x20 && value[n] != '"' && value[n] != '\\';)
			n++;
		spill_bytes(f->spill, text, value, n);
		if (n)
			continue;
		n = 1;
		snprintf(escape, sizeof(escape), "\\u%04x", (unsigned char)*value);
		put_column(f, text, escape);
	}
}

static void put_detail(struct firefox *f, struct spill_text *text,
		       const struct timeline_detail *detail, bool *filled)
{
	if (*filled)
		put_column(f, text, ", ");
	*filled = true;
	put_inside(f, text, detail->name);
	put_column(f, text, ": ");
	if (detail->text)
		put_inside(f, text, detail->text);
	else
		spill_decimal(f->spill, text, detail->number);
}

/* Begins a marker; its data follows, up to end_marker(). */
static struct spill_text *begin_marker(struct firefox *f, struct thread *t, const char *name,
				       uint64_t begin, const uint64_t *end)
{
	struct spill_text *data;

	t->markers++;
	spill_decimal(f->spill, next_value(f, t, MARKER_NAME), number_of(&t->names, name));
	put_ms(f, next_value(f, t, MARKER_START), begin);
	if (end)
		put_ms(f, next_value(f, t, MARKER_END), *end);
	else
		put_column(f, next_value(f, t, MARKER_END), "null");
	put_column(f, next_value(f, t, MARKER_PHASE), end ? "1" : "0");
	data = next_value(f, t, MARKER_DATA);
	put_column(f, data, "{\"type\":\"ptah\",\"details\":\"");
	return data;
}

static void end_marker(struct firefox *f, struct spill_text *data)
{
	put_column(f, data, "\"}");
}

static void put_details(struct firefox *f, struct spill_text *text,
			const struct timeline_detail *details, size_t count, bool *filled)
{
	for (size_t i = 0; i < count; i++)
		put_detail(f, text, &details[i], filled);
}

/* `end` is NULL for an instant. */
static void put_marker(struct firefox *f, struct thread *t, const struct timeline_event *e,
		       uint64_t begin, const uint64_t *end)
{
	struct spill_text *data = begin_marker(f, t, e->name, begin, end);
	bool filled = false;

	put_details(f, data, e->details, e->detail_count, &filled);
	end_marker(f, data);
}

/* A marker over a call of which something is missing: samples cannot say so. */
static void put_noted(struct firefox *f, struct thread *t, const struct open_call *call,
		      const struct timeline_event *e)
{
	const struct timeline_detail function = {"function", e->function->name, 0};
	struct spill_text *data = begin_marker(f, t, "incomplete call", call->begin, &e->at);
	bool filled = false;

	put_detail(f, data, &function, &filled);
	put_details(f, data, &call->detail, call->noted, &filled);
	put_details(f, data, e->details, e->noted ? e->detail_count : 0, &filled);
	end_marker(f, data);
}

/* The writer */

static int firefox_begin(struct out *out, const struct timeline_recording *recording, void **writer)
{
	struct firefox *f = calloc(1, sizeof(*f));

	*writer = f;
	if (!f)
		return PTAH_E_NOMEM;
	f->out = out;
	f->instructions = recording->instructions;
	f->command = recording->command ? strdup(recording->command) : NULL;
	return spill_new(&f->spill);
}

static struct thread *thread_of(struct firefox *f, size_t number)
{
	return LIST_REACH(f->threads, f->thread_count, number) ? &f->threads[number] : NULL;
}

static int firefox_thread(void *writer, const struct timeline_thread *thread)
{
	struct thread *t = thread_of(writer, thread->number);

	if (!t)
		return PTAH_E_NOMEM;
	t->begun = true;
	t->pid = thread->pid;
	t->tid = thread->tid;
	free(t->comm);
	t->comm = strdup(thread->comm);
	return t->comm ? 0 : PTAH_E_NOMEM;
}

static int begin_call(struct firefox *f, struct thread *t, const struct timeline_event *e)
{
	const uint32_t frame = number_of(&t->functions, e->function);
	struct open_call call = {.begin = e->at, .noted = e->noted};

	if (frame && number_of(&t->objects, e->function->object))
		call.stack = stack_of(t, t->depth ? t->calls[t->depth - 1].stack : 0, frame - 1);
	if (!call.stack || !LIST_ROOM(t->calls, t->depth, t->call_room))
		return PTAH_E_NOMEM;
	if (e->noted)
		call.detail = e->details[0];
	t->calls[t->depth++] = call;
	put_sample(f, t, e->at, call.stack);
	return 0;
}

static int firefox_event(void *writer, const struct timeline_event *e)
{
	struct firefox *f = writer;
	struct thread *t = &f->threads[e->thread->number];
	const struct open_call *call;

	if (e->kind == TIMELINE_INSTANT) {
		put_marker(f, t, e, e->at, NULL);
		return 0;
	}
	if (!e->function) {
		if (e->kind == TIMELINE_BEGIN)
			t->away = e->at;
		else
			put_marker(f, t, e, t->away, &e->at);
		return 0;
	}
	if (e->kind == TIMELINE_BEGIN)
		return begin_call(f, t, e);
	call = &t->calls[--t->depth];
	if (call->noted || e->noted)
		put_noted(f, t, call, e);
	put_sample(f, t, e->at, t->depth ? call[-1].stack : 0);
	return 0;
}

/* The file */

static int put_spilled(struct firefox *f, struct thread *t, const char *key, enum column column)
{
	int status;

	out_char(f->out, '"');
	out_text(f->out, key);
	out_text(f->out, "\":[");
	status = spill_write(f->spill, &t->columns[column], f->out);
	out_text(f->out, "],");
	return status;
}

static void put_length(struct firefox *f, uint64_t length)
{
	out_text(f->out, "\"length\":");
	out_decimal(f->out, length);
	out_text(f->out, "}");
}

static int put_samples(struct firefox *f, struct thread *t)
{
	int status;

	out_text(f->out, ",\"samples\":{\"weightType\":\"tracing-ms\",");
	status = put_spilled(f, t, "stack", SAMPLE_STACK);
	if (status >= 0)
		status = put_spilled(f, t, "time", SAMPLE_TIME);
	if (status >= 0 && t->samples)
		put_column(f, next_value(f, t, SAMPLE_WEIGHT), "0");
	if (status >= 0)
		status = put_spilled(f, t, "weight", SAMPLE_WEIGHT);
	put_length(f, t->samples);
	return status;
}

/* A column of one value. */
static void put_same(struct firefox *f, const char *key, const char *value, uint64_t count)
{
	out_char(f->out, '"');
	out_text(f->out, key);
	out_text(f->out, "\":[");
	for (uint64_t i = 0; i < count; i++) {
		if (i)
			out_char(f->out, ',');
		out_text(f->out, value);
	}
	out_text(f->out, "],");
}

static int put_markers(struct firefox *f, struct thread *t)
{
	static const struct {
		const char *key;
		enum column column;
	} columns[] = {{"startTime", MARKER_START},
		       {"endTime", MARKER_END},
		       {"phase", MARKER_PHASE},
		       {"data", MARKER_DATA},
		       {"name", MARKER_NAME}};
	int status = 0;

	out_text(f->out, ",\"markers\":{");
	for (size_t i = 0; i < ARRAY_SIZE(columns) && status >= 0; i++)
		status = put_spilled(f, t, columns[i].key, columns[i].column);
	put_same(f, "category", "0", t->markers);
	put_length(f, t->markers);
	return status;
}

/* A column of numbers, and "null" where there is none. */
#define PUT_COLUMN(f, key, count, known, value)                                                    \
	do {                                                                                       \
		out_text((f)->out, "\"" key "\":[");                                               \
		for (size_t i = 0; i < (count); i++) {                                             \
			if (i)                                                                     \
				out_char((f)->out, ',');                                           \
			if (known)                                                                 \
				out_decimal((f)->out, (value));                                    \
			else                                                                       \
				out_text((f)->out, "null");                                        \
		}                                                                                  \
		out_text((f)->out, "],");                                                          \
	} while (0)

static enum category category_of(const struct timeline_function *function)
{
	return function->kernel ? CATEGORY_KERNEL : CATEGORY_USER;
}

static const struct timeline_function *function_of(const struct thread *t, size_t frame)
{
	return t->functions.things[frame];
}

static void put_stacks(struct firefox *f, const struct thread *t)
{
	const size_t n = t->node_count;

	out_text(f->out, ",\"stackTable\":{");
	PUT_COLUMN(f, "prefix", n, t->nodes[i].prefix, t->nodes[i].prefix - 1);
	PUT_COLUMN(f, "frame", n, true, t->nodes[i].frame);
	PUT_COLUMN(f, "category", n, true, category_of(function_of(t, t->nodes[i].frame)));
	put_same(f, "subcategory", "0", n);
	put_length(f, n);
}

/*
 * Strings: those of markers come first, because their numbers are in a column that is written
 * before the others are known; then the objects, the functions' names, and their files.
 */
static void put_functions(struct firefox *f, struct thread *t)
{
	const size_t n = t->functions.numbers.count;
	const size_t objects = t->names.numbers.count + 1,
		     names = objects + t->objects.numbers.count, files = names + n;

	out_text(f->out, ",\"frameTable\":{");
	put_same(f, "address", "-1", n);
	put_same(f, "inlineDepth", "0", n);
	PUT_COLUMN(f, "category", n, true, category_of(function_of(t, i)));
	put_same(f, "subcategory", "0", n);
	PUT_COLUMN(f, "func", n, true, i);
	put_same(f, "nativeSymbol", "null", n);
	put_same(f, "innerWindowID", "0", n);
	put_same(f, "implementation", "null", n);
	put_same(f, "line", "null", n);
	put_same(f, "column", "null", n);
	put_length(f, n);
	out_text(f->out, ",\"funcTable\":{");
	PUT_COLUMN(f, "name", n, true, names + i);
	put_same(f, "isJS", "false", n);
	put_same(f, "relevantForJS", "false", n);
	PUT_COLUMN(f, "resource", n, true, number_of(&t->objects, function_of(t, i)->object) - 1);
	PUT_COLUMN(f, "fileName", n, function_of(t, i)->file, files + i);
	PUT_COLUMN(f, "lineNumber", n, function_of(t, i)->file && function_of(t, i)->line,
		   function_of(t, i)->line);
	put_same(f, "columnNumber", "null", n);
	put_length(f, n);
	out_text(f->out, ",\"resourceTable\":{");
	put_same(f, "lib", "null", t->objects.numbers.count);
	PUT_COLUMN(f, "name", t->objects.numbers.count, true, objects + i);
	put_same(f, "host", "null", t->objects.numbers.count);
	put_same(f, "type", "1", t->objects.numbers.count);
	put_length(f, t->objects.numbers.count);
	out_text(f->out, ",\"nativeSymbols\":{\"libIndex\":[],\"address\":[],\"name\":[],"
			 "\"functionSize\":[],\"length\":0}");
}

static void put_strings(struct firefox *f, const struct thread *t)
{
	out_text(f->out, ",\"stringArray\":[\"\"");
	for (size_t i = 0; i < t->names.numbers.count; i++) {
		out_char(f->out, ',');
		json_text(f->out, t->names.things[i]);
	}
	for (size_t i = 0; i < t->objects.numbers.count; i++) {
		out_char(f->out, ',');
		json_text(f->out, t->objects.things[i]);
	}
	for (size_t i = 0; i < t->functions.numbers.count; i++) {
		out_char(f->out, ',');
		json_text(f->out, function_of(t, i)->name);
	}
	for (size_t i = 0; i < t->functions.numbers.count; i++) {
		out_char(f->out, ',');
		json_text(f->out, function_of(t, i)->file ? function_of(t, i)->file : "");
	}
	out_char(f->out, ']');
}

static int put_thread(struct firefox *f, struct thread *t)
{
	int status;

	out_text(f->out, "{\"processType\":\"default\",\"processStartupTime\":0,"
			 "\"processShutdownTime\":null,\"registerTime\":0,\"unregisterTime\":null,"
			 "\"pausedRanges\":[],\"name\":");
	json_text(f->out, t->comm);
	out_text(f->out, ",\"processName\":");
	json_text(f->out, t->comm);
	out_text(f->out, t->pid == t->tid ? ",\"isMainThread\":true" : ",\"isMainThread\":false");
	out_format(f->out, ",\"pid\":\"%d\",\"tid\":%d", t->pid, t->tid);
	status = put_samples(f, t);
	if (status >= 0)
		status = put_markers(f, t);
	put_stacks(f, t);
	put_functions(f, t);
	put_strings(f, t);
	out_char(f->out, '}');
	return status;
}

static void put_meta(struct firefox *f)
{
	out_text(f->out,
		 "{\"meta\":{\"interval\":1,\"startTime\":0,\"abi\":\"x86_64\",\"oscpu\":\"\","
		 "\"platform\":\"Linux\",\"processType\":0,\"product\":");
	json_text(f->out, f->command ? f->command : "ptah");
	out_text(f->out, ",\"importedFrom\":");
	json_text(f->out, f->instructions ? "ptah: 1 ns is an instruction" : "ptah");
	out_text(
	    f->out,
	    ",\"extensions\":{\"id\":[],\"name\":[],\"baseURL\":[],\"length\":0},"
	    "\"categories\":[{\"name\":\"Other\",\"color\":\"grey\",\"subcategories\":[\"Other\"]},"
	    "{\"name\":\"User\",\"color\":\"blue\",\"subcategories\":[\"Other\"]},"
	    "{\"name\":\"Kernel\",\"color\":\"orange\",\"subcategories\":[\"Other\"]}],"
	    "\"stackwalk\":0,\"toolkit\":\"\",\"version\":29,\"preprocessedProfileVersion\":48,"
	    "\"appBuildID\":\"\",\"sourceURL\":\"\",\"physicalCPUs\":0,\"logicalCPUs\":0,"
	    "\"symbolicated\":true,\"markerSchema\":[{\"name\":\"ptah\",\"display\":"
	    "[\"marker-chart\",\"marker-table\",\"timeline-overview\"],"
	    "\"tableLabel\":\"{marker.data.details}\",\"data\":[{\"key\":\"details\","
	    "\"label\":\"Details\",\"format\":\"string\",\"searchable\":true}]}]},"
	    "\"libs\":[],\"pages\":[],\"threads\":[");
}

static int firefox_end(void *writer)
{
	struct firefox *f = writer;
	bool filled = false;
	int status = 0;

	put_meta(f);
	for (size_t i = 0; i < f->thread_count && status >= 0; i++) {
		if (!f->threads[i].samples && !f->threads[i].markers)
			continue;
		out_text(f->out, filled ? ",\n" : "\n");
		filled = true;
		status = put_thread(f, &f->threads[i]);
	}
	out_text(f->out, "]}\n");
	return status;
}

static void free_thread(struct thread *t)
{
	for (size_t i = 0; i < COLUMNS; i++)
		spill_text_free(&t->columns[i]);
	free_list(&t->functions);
	free_list(&t->objects);
	free_list(&t->names);
	free(t->nodes);
	index_free(&t->index);
	free(t->calls);
	free(t->comm);
}

static void firefox_free(void *writer)
{
	struct firefox *f = writer;

	for (size_t i = 0; i < f->thread_count; i++)
		free_thread(&f->threads[i]);
	free(f->threads);
	spill_free(f->spill);
	free(f->command);
	free(f);
}

const struct timeline_format export_firefox = {
    .begin = firefox_begin,
    .thread = firefox_thread,
    .event = firefox_event,
    .end = firefox_end,
    .free = firefox_free,
};
