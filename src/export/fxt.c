/* SPDX-License-Identifier: MIT */
/*
 * The Fuchsia trace format: records of 64-bit words, little endian. Strings are records of their
 * own, to which events refer by a number; a file that was cut is valid up to its last record.
 */
#include "export/formats.h"
#include "support/table.h"
#include "export/utf8.h"

#include "base/bits.h"
#include "base/compiler.h"

#include <ptah/base.h>

#include <stdlib.h>
#include <string.h>

enum fxt_record {
	FXT_METADATA = 0,
	FXT_INITIALIZATION = 1,
	FXT_STRING = 2,
	FXT_THREAD = 3,
	FXT_EVENT = 4,
	FXT_KERNEL_OBJECT = 7,
};

enum fxt_event {
	FXT_INSTANT = 0,
	FXT_BEGIN = 2,
	FXT_END = 3,
};

enum fxt_argument {
	FXT_U64 = 4,
	FXT_TEXT = 6,
	FXT_KOID = 8,
};

enum fxt_object {
	FXT_PROCESS = 1,
	FXT_THREAD_OBJECT = 2,
};

#define FXT_MAGIC	 UINT64_C(0x0016547846040010)
#define FXT_INLINE	 0x8000u /* of a reference: the text follows, of the length in the other bits */
#define FXT_MOST_STRINGS 0x7fffu
#define FXT_LONGEST	 32000u /* bytes of a string */
#define FXT_LONGEST_HERE 1000u	/* of one that follows its reference: a record has several */
#define FXT_MOST_THREADS 255u
#define FXT_MOST_WORDS	 4095u

struct fxt {
	struct out *out;
	struct table strings;
	/* For each number in the table of threads, the number of the thread that has it, + 1. */
	size_t threads[FXT_MOST_THREADS + 1];
	/* The record that is being made: its words but for the first. */
	size_t n;
	uint64_t words[FXT_MOST_WORDS];
};

static void add_word(struct fxt *f, uint64_t word)
{
	f->words[f->n++] = word;
}

/* Adds text, filled up with zeros to whole words. */
static void add_text(struct fxt *f, const char *text, size_t n)
{
	const size_t words = (n + 7) / 8;

	if (!words)
		return;
	f->words[f->n + words - 1] = 0;
	memcpy(&f->words[f->n], text, n);
	f->n += words;
}

/* Writes the record. `header` has all but its type and size. */
static void put_record(struct fxt *f, enum fxt_record type, uint64_t header)
{
	uint8_t word[8];

	store_le64(word, header | type | (uint64_t)(f->n + 1) << 4);
	out_bytes(f->out, (const char *)word, sizeof(word));
	out_bytes(f->out, (const char *)f->words, f->n * sizeof(*f->words));
	f->n = 0;
}

/* A reference to text that add_text() has to add after it. */
static uint64_t refer_here(const char *text, size_t *n)
{
	*n = utf8_cut(text, strlen(text), FXT_LONGEST_HERE);
	return *n ? FXT_INLINE | *n : 0;
}

/*
 * A reference to a string that lives as long as the writer. *n: bytes that have to follow it,
 * where no numbers are left. The record that will refer to it must not have been begun.
 */
static uint64_t refer(struct fxt *f, const char *text, size_t *n)
{
	bool is_new;
	const uint64_t number =
	    *text ? table_number(&f->strings, (uintptr_t)text, FXT_MOST_STRINGS, &is_new) : 0;
	size_t length;

	*n = 0;
	if (!*text)
		return 0;
	if (!number)
		return refer_here(text, n);
	if (is_new) {
		length = utf8_cut(text, strlen(text), FXT_LONGEST);
		add_text(f, text, length);
		put_record(f, FXT_STRING, number << 16 | (uint64_t)length << 32);
	}
	return number;
}

/* A reference to a thread. */
static uint64_t refer_thread(struct fxt *f, const struct timeline_thread *thread)
{
	const size_t number = 1 + thread->number % FXT_MOST_THREADS;

	if (f->threads[number] != thread->number + 1) {
		f->threads[number] = thread->number + 1;
		add_word(f, (uint32_t)thread->pid);
		add_word(f, (uint32_t)thread->tid);
		put_record(f, FXT_THREAD, (uint64_t)number << 16);
	}
	return number;
}

static int fxt_begin(struct out *out, const struct timeline_recording *recording, void **writer)
{
	struct fxt *f = calloc(1, sizeof(*f));
	uint8_t magic[8];

	(void)recording;
	*writer = f;
	if (!f)
		return PTAH_E_NOMEM;
	f->out = out;
	store_le64(magic, FXT_MAGIC);
	out_bytes(out, (const char *)magic, sizeof(magic));
	add_word(f, UINT64_C(1000000000)); /* ticks per second */
	put_record(f, FXT_INITIALIZATION, 0);
	return 0;
}

/* The name of a process or a thread: that of a kernel object. */
static void put_object(struct fxt *f, enum fxt_object kind, const struct timeline_thread *thread)
{
	const bool is_thread = kind == FXT_THREAD_OBJECT;
	size_t n;
	const uint64_t name = refer_here(thread->comm, &n);

	add_word(f, (uint32_t)(is_thread ? thread->tid : thread->pid));
	add_text(f, thread->comm, n);
	if (is_thread) {
		/* The argument "process". */
		add_word(f, FXT_KOID | UINT64_C(3) << 4 | (uint64_t)(FXT_INLINE | 7) << 16);
		add_text(f, "process", 7);
		add_word(f, (uint32_t)thread->pid);
	}
	put_record(f, FXT_KERNEL_OBJECT,
		   (uint64_t)kind << 16 | name << 24 | (uint64_t)is_thread << 40);
}

static int fxt_thread(void *writer, const struct timeline_thread *thread)
{
	struct fxt *f = writer;

	if (thread->tid == thread->pid)
		put_object(f, FXT_PROCESS, thread);
	put_object(f, FXT_THREAD_OBJECT, thread);
	return 0;
}

/* The strings of an event, which are written before it. */
struct references {
	uint64_t name[1 + TIMELINE_DETAILS], text[1 + TIMELINE_DETAILS];
	size_t name_bytes[1 + TIMELINE_DETAILS], text_bytes[1 + TIMELINE_DETAILS];
};

static void add_detail(struct fxt *f, const struct timeline_detail *d, const struct references *r,
		       size_t i)
{
	const size_t at = f->n++;
	uint64_t header = r->name[i] << 16;

	add_text(f, d->name, r->name_bytes[i]);
	if (d->text) {
		header |= FXT_TEXT | r->text[i] << 32;
		add_text(f, d->text, r->text_bytes[i]);
	} else {
		header |= FXT_U64;
		add_word(f, d->number);
	}
	f->words[at] = header | (uint64_t)(f->n - at) << 4;
}

static int fxt_event(void *writer, const struct timeline_event *e)
{
	static const uint8_t types[] = {[TIMELINE_BEGIN] = FXT_BEGIN,
					[TIMELINE_END] = FXT_END,
					[TIMELINE_INSTANT] = FXT_INSTANT};
	struct fxt *f = writer;
	const char *name = e->function ? e->function->name : e->name;
	const char *category = e->function ? e->function->object : "event";
	const uint64_t thread = refer_thread(f, e->thread);
	struct references r;

	r.name[0] = refer(f, name, &r.name_bytes[0]);
	r.text[0] = refer(f, category, &r.text_bytes[0]);
	for (size_t i = 0; i < e->detail_count; i++) {
		r.name[i + 1] = refer(f, e->details[i].name, &r.name_bytes[i + 1]);
		if (e->details[i].text)
			r.text[i + 1] = refer(f, e->details[i].text, &r.text_bytes[i + 1]);
	}
	add_word(f, e->at);
	add_text(f, category, r.text_bytes[0]);
	add_text(f, name, r.name_bytes[0]);
	for (size_t i = 0; i < e->detail_count; i++)
		add_detail(f, &e->details[i], &r, i + 1);
	put_record(f, FXT_EVENT,
		   (uint64_t)types[e->kind] << 16 | (uint64_t)e->detail_count << 20 | thread << 24 |
		       r.text[0] << 32 | r.name[0] << 48);
	return 0;
}

static int fxt_end(void *writer)
{
	(void)writer;
	return 0;
}

static void fxt_free(void *writer)
{
	struct fxt *f = writer;

	if (f)
		table_free(&f->strings);
	free(f);
}

const struct timeline_format export_fxt = {
    .max_depth = TIMELINE_PERFETTO_DEPTH,
    .begin = fxt_begin,
    .thread = fxt_thread,
    .event = fxt_event,
    .end = fxt_end,
    .free = fxt_free,
};
