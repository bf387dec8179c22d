/* SPDX-License-Identifier: MIT */
/*
 * The captures in a dump of a machine's memory: what the engine was tracing when the machine
 * crashed, or when its memory was dumped. The engine's notes (crash_note.h) say where the trace is;
 * it stays in the dump's file, and so does the code, which is found by page tables: those of the
 * kernel, and of each address space that the trace names.
 */
#include "traceset/foreign.h"
#include "traceset/memory_dump.h"

#include "base/bits.h"
#include "base/compiler.h"
#include "perfdata/message.h"
#include "support/list.h"

#include <ptah/engine/crash_note.h>
#include <ptah/engine/rtit.h>
#include <ptah/packet.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PAGE	     4096u
#define CAPTURES_MAX 16384u
#define BLOCKS_MAX   ((uint64_t)1 << 20) /* the engine has no more regions */
#define BUFFER_MAX   ((uint64_t)1 << 40)
#define PIECES_MAX   ((size_t)1 << 18)	/* of all traces together */
#define CODE_MAX     ((size_t)24 << 10) /* a session takes 32768 pieces */
#define STEPS_MAX    ((size_t)1 << 24)
#define SPACES_MAX   64u

#define SHAPE_SINGLE 3u	 /* PTAH_SHAPE_SINGLE of capture_page.h */
#define COVERED	     64u /* the newest bytes of a single range, while it is traced */

/* A capture's note, and the engine's variables at the time of the dump. */
struct capture {
	struct ptah_crash_capture note;
	uint64_t position, floor, fills, ctl, cr3, owner;
	int32_t cpu, holder;
	uint32_t blocks;
	bool running;
};

struct block {
	uint64_t physical, size;
};

struct crash {
	struct memory_dump dump;
	struct ptah_trace_set *set;
	struct ptah_message *why;
	struct capture *captures;
	size_t capture_count;
	size_t seen;			      /* notes and captures, of all engines */
	struct ptah_space spaces[SPACES_MAX]; /* of the trace, the newest last */
	size_t space_count;
	struct ptah_space space; /* of the code that is being added */
	size_t code_left;
	bool too_much; /* code that is left out */
};

/* The notes */

static bool read_note(const struct crash *t, uint64_t physical, struct ptah_crash_note *note)
{
	return dump_read(&t->dump, physical, note, sizeof(*note)) &&
	       !memcmp(note->magic, PTAH_CRASH_MAGIC, sizeof(note->magic)) &&
	       note->physical == physical && note->version == PTAH_CRASH_VERSION &&
	       note->size >= sizeof(*note);
}

/* Searches all memory, in the order of addresses, for the next engine's note. */
static bool find_note(const struct crash *t, size_t *segment, uint64_t *physical,
		      struct ptah_crash_note *note)
{
	for (; *segment < t->dump.count; ++*segment, *physical = 0) {
		const struct dump_segment *s = &t->dump.segments[*segment];
		uint64_t at = *physical > s->physical ? *physical : s->physical;

		for (at = (at + PAGE - 1) & ~(uint64_t)(PAGE - 1);
		     at >= s->physical && at - s->physical < s->size;
		     at = dump_next(&t->dump, s, at + PAGE)) {
			if (!read_note(t, at, note))
				continue;
			*physical = at + PAGE;
			return true;
		}
	}
	return false;
}

static uint64_t variable(const struct crash *t, const struct ptah_crash_capture *n, uint32_t at,
			 size_t size)
{
	uint8_t bytes[8] = {0};

	return dump_read(&t->dump, n->physical + at, bytes, size) ? load_le64(bytes) : 0;
}

static struct capture read_variables(const struct crash *t, const struct ptah_crash_capture *n)
{
	return (struct capture){
	    .note = *n,
	    .position = variable(t, n, n->position_at, 8),
	    .floor = variable(t, n, n->floor_at, 8),
	    .fills = variable(t, n, n->fills_at, 8),
	    .ctl = variable(t, n, n->ctl_at, 8),
	    .cr3 = variable(t, n, n->cr3_at, 8),
	    .owner = variable(t, n, n->owner_at, 8),
	    .cpu = (int32_t)variable(t, n, n->cpu_at, 4),
	    .holder = (int32_t)variable(t, n, n->holder_at, 4),
	    .blocks = (uint32_t)variable(t, n, n->blocks_at, 4),
	    .running = variable(t, n, n->running_at, 1) != 0,
	};
}

static int note(struct crash *t, const char *text, uint64_t number)
{
	char full[256];

	snprintf(full, sizeof(full), text, number);
	return trace_set_note(t->set, full);
}

static bool is_known(const struct crash *t, uint64_t physical)
{
	for (size_t i = 0; i < t->capture_count; i++)
		if (t->captures[i].note.physical == physical)
			return true;
	return false;
}

static int add_capture(struct crash *t, const struct ptah_crash_capture *n)
{
	const struct capture c = read_variables(t, n);

	if (!c.position)
		return 0;
	if (n->sequence & 1)
		return trace_set_note(t->set,
				      "a capture's buffer was being exchanged: its trace is lost");
	if (!LIST_ADD(t->captures, t->capture_count))
		return PTAH_E_NOMEM;
	t->captures[t->capture_count - 1] = c;
	return 0;
}

static int read_captures(struct crash *t, uint64_t first)
{
	struct ptah_crash_capture n;
	int status = 0;

	for (uint64_t at = first; at && status >= 0; at = n.next) {
		if (t->seen++ >= CAPTURES_MAX || is_known(t, at) ||
		    !dump_read(&t->dump, at, &n, sizeof(n)) || n.physical != at ||
		    n.size < sizeof(n))
			return note(t,
				    "the engine's list of captures is damaged at %" PRIx64
				    ": captures behind it are missing",
				    at);
		status = add_capture(t, &n);
	}
	return status;
}

static int read_engines(struct crash *t)
{
	struct ptah_crash_note found;
	uint64_t physical = 0;
	size_t segment = 0, engines = 0;
	int status = 0;

	if (t->dump.note && read_note(t, t->dump.note, &found))
		return read_captures(t, found.first);
	for (; status >= 0 && t->seen < CAPTURES_MAX && find_note(t, &segment, &physical, &found);
	     engines++) {
		t->seen++;
		status = read_captures(t, found.first);
	}
	if (status >= 0 && !engines)
		return perfdata_message(t->why, PTAH_E_EMPTY,
					"%s: a core file without the note of a capture engine: no "
					"memory of a machine on which Ptah's engine traced, or a "
					"dump without the kernel's pages",
					t->dump.path);
	return status;
}

/* The trace */

static int read_crash_block(const struct crash *t, const struct capture *c, uint64_t i,
			    struct block *b)
{
	const struct ptah_crash_capture *n = &c->note;
	const uint64_t entry = n->blocks + i * n->block_step;
	uint8_t bytes[8];

	if (!dump_read(&t->dump, entry + n->block_address, bytes, 8))
		return PTAH_E_MISSING;
	b->physical = load_le64(bytes);
	if (!dump_read(&t->dump, entry + n->block_size, bytes, 8))
		return PTAH_E_MISSING;
	b->size = load_le64(bytes);
	return b->size && b->size % PAGE == 0 ? 0 : PTAH_E_BAD_FILE;
}

/* What is known of a capture's buffer. */
struct buffer {
	struct block *blocks;
	size_t count;
	uint64_t lost; /* bytes before the next piece that the dump does not have */
	struct ptah_trace_stream stream;
};

static int read_crash_blocks(const struct crash *t, const struct capture *c, struct buffer *b)
{
	uint64_t size = 0;

	if (!c->blocks || c->blocks > BLOCKS_MAX || !c->note.buffer || c->note.buffer > BUFFER_MAX)
		return PTAH_E_BAD_FILE;
	b->blocks = calloc(c->blocks, sizeof(*b->blocks));
	if (!b->blocks)
		return PTAH_E_NOMEM;
	for (; b->count < c->blocks && size < c->note.buffer; b->count++) {
		struct block *block = &b->blocks[b->count];
		int status = read_crash_block(t, c, b->count, block);

		if (status < 0)
			return status;
		if (block->size > c->note.buffer - size)
			block->size = c->note.buffer - size;
		size += block->size;
	}
	return size == c->note.buffer ? 0 : PTAH_E_BAD_FILE;
}

static int add_crash_piece(struct crash *t, struct buffer *b, uint64_t offset, uint64_t size)
{
	struct ptah_trace_stream *last =
	    t->set->stream_count ? &t->set->streams[t->set->stream_count - 1] : NULL;
	int status;

	/* In one piece with what was added before it. */
	if (!b->stream.gap && !b->lost && last && last->file.to == offset) {
		last->file.to += size;
		return 0;
	}
	if (t->set->stream_count >= PIECES_MAX)
		return perfdata_message(t->why, PTAH_E_LIMIT,
					"%s: the traces are in more than %zu pieces", t->dump.path,
					PIECES_MAX);
	b->stream.file =
	    (struct ptah_trace_file){.path = t->dump.path, .from = offset, .to = offset + size};
	b->stream.lost = b->lost;
	status = ptah_trace_set_add_stream(t->set, &b->stream);
	b->stream.gap = false;
	b->lost = 0;
	return status;
}

/* `size` bytes of the buffer from `at` on, which do not go beyond its end. */
static int add_crash_bytes(struct crash *t, struct buffer *b, uint64_t at, uint64_t size)
{
	int status = 0;

	for (size_t i = 0; i < b->count && size && status >= 0; i++) {
		const struct block *block = &b->blocks[i];
		uint64_t left;

		if (at >= block->size) {
			at -= block->size;
			continue;
		}
		left = block->size - at < size ? block->size - at : size;
		size -= left;
		while (left && status >= 0) {
			uint64_t offset,
			    n = dump_find(&t->dump, block->physical + at, left, &offset);

			if (n)
				status = add_crash_piece(t, b, offset, n);
			else
				b->lost += n = dump_missing(&t->dump, block->physical + at, left);
			at += n;
			left -= n;
		}
		at = 0;
	}
	return status;
}

static int add_ring(struct crash *t, const struct capture *c, struct buffer *b, uint64_t end)
{
	const uint64_t size = c->note.buffer;
	uint64_t from = c->position > size ? c->position - size : 0;
	uint64_t at, first;
	int status;

	if (from < c->floor)
		from = c->floor;
	if (from >= end || end - from > size)
		return 0;
	at = from % size;
	first = end - from < size - at ? end - from : size - at;
	status = add_crash_bytes(t, b, at, first);
	return status < 0 ? status : add_crash_bytes(t, b, 0, end - from - first);
}

/* Single-entry ToPA: each region has as many bytes as there are up to the beginning of the next. */
static int add_regions(struct crash *t, const struct capture *c, struct buffer *b)
{
	const struct ptah_crash_capture *n = &c->note;
	uint64_t q, end, next;
	int status = 0;

	if (!n->regions || !n->region || n->buffer / n->region < n->regions ||
	    c->fills == UINT64_MAX)
		return PTAH_E_BAD_FILE;
	q = c->fills >= n->regions ? c->fills - n->regions + 1 : 0;
	for (; q <= c->fills && status >= 0; q++) {
		uint8_t bytes[8];
		uint64_t begin, skip;

		if (!dump_read(&t->dump, n->starts + 8 * (q % n->regions), bytes, 8))
			return PTAH_E_MISSING;
		begin = load_le64(bytes);
		end = c->position;
		next = (q + 1) % n->regions;
		if (q < c->fills && dump_read(&t->dump, n->starts + 8 * next, bytes, 8))
			end = load_le64(bytes);
		/* The oldest one may be just becoming the newest. */
		if (begin > end && q + n->regions == c->fills + 1)
			continue;
		if (begin > end || end - begin > n->region || end > c->position)
			return PTAH_E_BAD_FILE;
		skip = c->floor <= begin ? 0 : c->floor < end ? c->floor - begin : end - begin;
		status =
		    add_crash_bytes(t, b, q % n->regions * n->region + skip, end - begin - skip);
	}
	return status;
}

/* A thread's number is what the driver has chosen as owner, if it can be one. */
static struct ptah_trace_stream stream_of(const struct crash *t, const struct capture *c)
{
	struct ptah_trace_stream stream = {
	    .size = sizeof(stream), .cpu = c->cpu, .pid = -1, .tid = -1, .gap = true};

	if (c->cpu >= 0)
		return stream;
	stream.cpu = -1;
	stream.tid =
	    c->owner && c->owner <= INT32_MAX ? (int32_t)c->owner : (int32_t)(c - t->captures) + 1;
	return stream;
}

static int add_crash_trace(struct crash *t, const struct capture *c)
{
	struct buffer b = {.stream = stream_of(t, c)};
	uint64_t end = c->position;
	int status = read_crash_blocks(t, c, &b);

	if (c->running && c->note.shape == SHAPE_SINGLE)
		end -= end < COVERED ? end : COVERED;
	if (status >= 0)
		status = c->note.layout == PTAH_CRASH_REGIONS ? add_regions(t, c, &b)
							      : add_ring(t, c, &b, end);
	free(b.blocks);
	if (status == PTAH_E_MISSING || status == PTAH_E_BAD_FILE)
		status = note(t,
			      "what the dump says of the buffer of the capture at %" PRIx64
			      " cannot be: its trace is lost",
			      c->note.physical);
	if (status >= 0 && c->running)
		status = note(t,
			      "the capture at %" PRIx64
			      " was still running: what it wrote after the engine's last look "
			      "at it is not decoded, and may have replaced its oldest bytes",
			      c->note.physical);
	return status;
}

static void set_processor(struct crash *t)
{
	const struct capture *c = &t->captures[0];
	const struct ptah_crash_capture *n = &c->note;
	struct ptah_trace_processor p = {
	    .size = sizeof(p),
	    .cpu = {.family = n->family, .model = n->model, .stepping = n->stepping},
	    .tsc_n = n->tsc_n,
	    .tsc_d = n->tsc_d,
	    .nominal_ratio = n->nominal_ratio,
	};

	p.trace = (struct ptah_trace_config){
	    .size = sizeof(p.trace),
	    .os = c->ctl & PTAH_RTIT_CTL_OS,
	    .user = c->ctl & PTAH_RTIT_CTL_USER,
	    .branch = c->ctl & PTAH_RTIT_CTL_BRANCH_EN,
	    .mtc_period = c->ctl >> PTAH_RTIT_CTL_MTC_FREQ & 15,
	    .cyc_threshold = c->ctl >> PTAH_RTIT_CTL_CYC_THRESH & 15,
	    .no_retcomp = c->ctl & PTAH_RTIT_CTL_DIS_RETC,
	    .event_trace = c->ctl & PTAH_RTIT_CTL_EVENT_EN,
	    .no_tnt = c->ctl & PTAH_RTIT_CTL_DIS_TNT,
	};
	for (unsigned i = 0; i < PTAH_RANGES; i++) {
		const uint64_t at = n->ranges_at + (uint64_t)i * n->range_step;
		struct ptah_range *range = &p.trace.ranges[i];

		range->mode = c->ctl >> PTAH_RTIT_CTL_ADDR_CFG(i) & 15;
		if (at > UINT32_MAX - 8 || range->mode > PTAH_RANGE_STOP)
			range->mode = PTAH_RANGE_OFF;
		if (range->mode == PTAH_RANGE_OFF)
			continue;
		range->first = variable(t, n, (uint32_t)at, 8);
		range->last = variable(t, n, (uint32_t)at + 8, 8);
	}
	ptah_trace_set_processor(t->set, &p);
}

/* The code */

static int on_code(void *argument, const struct dump_code *code)
{
	struct crash *t = argument;
	struct ptah_trace_code c = {
	    .size = sizeof(c),
	    .kind = PTAH_TRACE_CODE_RAW,
	    .file = {t->dump.path, code->offset, code->offset + code->size},
	    .address = code->address,
	    .space = t->space,
	    .pid = -1,
	};

	if (!t->code_left) {
		t->too_much = true;
		return 0;
	}
	t->code_left--;
	return ptah_trace_set_add_code(t->set, &c);
}

/* Moves the space to the end of the list, which keeps the newest. */
static void see_space(struct crash *t, uint64_t cr3)
{
	size_t i = 0;

	if (t->space_count && t->spaces[t->space_count - 1].cr3 == cr3)
		return;
	while (i < t->space_count && t->spaces[i].cr3 != cr3)
		i++;
	if (i == t->space_count && i < SPACES_MAX)
		t->space_count++;
	else if (i == t->space_count)
		i = 0;
	memmove(&t->spaces[i], &t->spaces[i + 1], (t->space_count - 1 - i) * sizeof(*t->spaces));
	t->spaces[t->space_count - 1] = (struct ptah_space){.cr3 = cr3, .vmcs = PTAH_SPACE_ANY};
}

#define WINDOW ((size_t)1 << 20)

/* Finds out which CR3 the packets in a window name, which begins with a PSB, or anywhere. */
static void find_spaces(struct crash *t, const uint8_t *bytes, const uint8_t *end)
{
	const uint8_t *at = ptah_packet_find_psb(bytes, end);
	struct ptah_packet packet;
	unsigned block = 0;

	while (at && at < end) {
		int n = ptah_packet_decode(&packet, at, (size_t)(end - at), block);

		if (n <= 0) {
			at = n == PTAH_E_MORE ? NULL : ptah_packet_find_psb(at + 1, end);
			block = 0;
			continue;
		}
		if (packet.type == PTAH_PACKET_PIP)
			see_space(t, packet.u.pip.cr3);
		block = ptah_packet_block_state(&packet, block);
		at += n;
	}
}

/* Windows overlap by nothing: a PIP between the last packet of one and the first PSB of the next is
 * missed, and its PSB+ repeats the CR3. */
static int find_all_spaces(struct crash *t)
{
	uint8_t *bytes = malloc(WINDOW);

	for (size_t i = 0; bytes && i < t->set->stream_count; i++) {
		const struct ptah_trace_file *f = &t->set->streams[i].file;

		for (uint64_t at = f->from; at < f->to;) {
			const size_t n = f->to - at < WINDOW ? (size_t)(f->to - at) : WINDOW;

			if (pread(t->dump.fd, bytes, n, (off_t)at) == (ssize_t)n)
				find_spaces(t, bytes, bytes + n);
			at += n;
		}
	}
	free(bytes);
	return bytes ? 0 : PTAH_E_NOMEM;
}

/* The kernel's half is the same in all address spaces; the newest of the others come first. */
static int add_crash_code(struct crash *t)
{
	const struct ptah_space any = {PTAH_SPACE_ANY, PTAH_SPACE_ANY};
	size_t steps = STEPS_MAX;
	uint64_t kernel = t->dump.kernel_cr3;
	int status = 0;

	if (!kernel && t->space_count)
		kernel = t->spaces[t->space_count - 1].cr3;
	t->code_left = CODE_MAX;
	t->space = any;
	if (kernel)
		status = dump_walk(&t->dump, kernel, true, &steps, on_code, t);
	/* A trace of user code has no PIPs. It is of the dumped address space if there is one. */
	if (status >= 0 && !t->space_count && t->dump.cr3_count == 1)
		status = dump_walk(&t->dump, t->dump.cr3[0], false, &steps, on_code, t);
	for (size_t i = t->space_count; i-- > 0 && status >= 0;) {
		t->space = t->spaces[i];
		status = dump_walk(&t->dump, t->space.cr3, false, &steps, on_code, t);
	}
	if (status >= 0 && !steps)
		status = trace_set_note(t->set, "not all of the code was found: the dump's page "
						"tables are larger than what is gone through");
	if (status >= 0 && t->too_much)
		status = note(
		    t, "not all of the code was taken over: it is in more than %" PRIu64 " pieces",
		    CODE_MAX);
	if (status >= 0 && !t->set->code_count)
		status = trace_set_note(
		    t->set, "the dump has no page tables that lead to code: name it with "
			    "--elf or --raw");
	return status;
}

static int read_crash_dump(const char *path, struct ptah_trace_set *set, struct ptah_message *why)
{
	struct crash t = {.set = set, .why = why};
	char *name = realpath(path, NULL);
	int status = name ? dump_open(&t.dump, name, why)
			  : perfdata_system_message(why, errno, path, "open");

	if (status >= 0)
		status = read_engines(&t);
	if (status >= 0 && !t.capture_count)
		status = perfdata_message(why, PTAH_E_EMPTY,
					  "%s: the capture engine had traced nothing", path);
	/* The list has the newest first. */
	for (size_t i = t.capture_count; i-- > 0 && status >= 0;)
		status = add_crash_trace(&t, &t.captures[i]);
	if (status >= 0) {
		set_processor(&t);
		status = find_all_spaces(&t);
	}
	if (status >= 0)
		status = add_crash_code(&t);
	if (name)
		dump_close(&t.dump);
	free(t.captures);
	free(name);
	return status;
}

const struct foreign_reader foreign_crash_dump = {"dump of a machine's memory", dump_is,
						  read_crash_dump};
