/* SPDX-License-Identifier: MIT */
/*
 * A long trace made of short ones of real processors, as one CPU records it that runs several
 * processes in turns.
 *
 * Each trace is cut where tracing is off at a PSB: so a piece needs nothing of the one before it,
 * and ends like one that was recorded. The next piece is always of the trace that has
 * contributed the fewest bytes, and a trace that is used up begins again. The code of each is
 * found by the CR3 values in its own PIP packets, because programs may lie at the same addresses.
 * The same traces always give the same bytes.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_TRACES 16u
#define MOST_SPACES 32u

/* Shorter pieces are joined: what one process does in a time slice is longer. */
#define PIECE 4096u

struct source {
	struct bench_trace trace;
	size_t *cuts; /* offsets of PSBs at which tracing is off */
	size_t cut_count, next;
	uint64_t contributed;
	uint64_t spaces[MOST_SPACES]; /* values of CR3 */
	unsigned space_count;
};

static void note_space(struct source *source, uint64_t cr3)
{
	for (unsigned i = 0; i < source->space_count; i++)
		if (source->spaces[i] == cr3)
			return;
	if (source->space_count == MOST_SPACES)
		bench_die(source->trace.label, "too many values of CR3");
	source->spaces[source->space_count++] = cr3;
}

static void note_cut(struct source *source, size_t offset)
{
	if (source->cut_count && offset - source->cuts[source->cut_count - 1] < PIECE)
		return;
	source->cuts = realloc(source->cuts, (source->cut_count + 1) * sizeof(*source->cuts));
	if (!source->cuts)
		bench_die(source->trace.label, "out of memory");
	source->cuts[source->cut_count++] = offset;
}

/* Tracing is off where a PSB+ has no FUP, unless it is on by the packets before. */
static void find_cuts(struct source *source)
{
	const uint8_t *bytes = source->trace.bytes, *end = bytes + source->trace.size, *p = bytes;
	bool is_on = false, is_in_header = false, has_fup = false;
	struct ptah_packet packet;
	size_t header = 0;
	int n;

	for (; (n = ptah_packet_decode(&packet, p, (size_t)(end - p), 0)) > 0; p += n) {
		switch (packet.type) {
		case PTAH_PACKET_PSB:
			is_in_header = true;
			has_fup = false;
			header = (size_t)(p - bytes);
			break;
		case PTAH_PACKET_PSBEND:
			is_in_header = false;
			if (!is_on && !has_fup)
				note_cut(source, header);
			break;
		case PTAH_PACKET_FUP:
			has_fup = true;
			is_on |= is_in_header && !header;
			break;
		case PTAH_PACKET_PIP:
			note_space(source, packet.u.pip.cr3);
			break;
		case PTAH_PACKET_TIP_PGE:
		case PTAH_PACKET_OVF:
			is_on = true;
			break;
		case PTAH_PACKET_TIP_PGD:
			is_on = false;
			break;
		default:
			break;
		}
	}
	if (!is_on)
		note_cut(source, (size_t)(p - bytes));
	if (source->cut_count < 2)
		bench_die(source->trace.label, "tracing is not off at two of its PSBs");
}

static void load_source(struct source *source, const char *prefix)
{
	const char *slash = strrchr(prefix, '/');
	char pt[4096];

	snprintf(pt, sizeof(pt), "%s.pt", prefix);
	bench_load_pages(&source->trace, slash ? slash + 1 : prefix, pt, prefix);
	find_cuts(source);
}

/* A piece, from one cut to the next. */
static void add_piece(struct bench_trace *mix, size_t room, struct source *source)
{
	size_t from, n;

	if (source->next + 1 == source->cut_count)
		source->next = 0;
	from = source->cuts[source->next];
	n = source->cuts[++source->next] - from;
	if (n > room - mix->size)
		bench_die(source->trace.label, "has a piece of more than 1 MB");
	memcpy(mix->bytes + mix->size, source->trace.bytes + from, n);
	mix->size += n;
	source->contributed += n;
}

static void add_code(struct bench_trace *mix, const struct source *source)
{
	for (unsigned i = 0; i < source->space_count; i++)
		for (size_t k = 0; k < source->trace.section_count; k++)
			bench_add_section(mix, &source->trace.sections[k], source->spaces[i]);
}

static void make(struct bench_trace *mix, size_t size, struct source *sources, unsigned count)
{
	const size_t room = size + (1u << 20);

	memset(mix, 0, sizeof(*mix));
	mix->label = "mix";
	mix->bytes = malloc(room + 1);
	if (!mix->bytes || ptah_image_new(&mix->image) < 0)
		bench_die(mix->label, "out of memory");
	for (unsigned i = 0; i < count; i++)
		add_code(mix, &sources[i]);
	while (mix->size < size) {
		struct source *least = &sources[0];

		for (unsigned i = 1; i < count; i++)
			if (sources[i].contributed < least->contributed)
				least = &sources[i];
		add_piece(mix, room, least);
	}
}

void bench_load_mix(struct bench_trace *mix, size_t size, char **prefixes, unsigned count)
{
	static struct source sources[MOST_TRACES];

	if (count > MOST_TRACES)
		bench_die("mix", "too many traces");
	memset(sources, 0, sizeof(sources));
	for (unsigned i = 0; i < count; i++)
		load_source(&sources[i], prefixes[i]);
	make(mix, size, sources, count);
	for (unsigned i = 0; i < count; i++) {
		printf("%-10s %8.1f MB in pieces of %.0f bytes\n", sources[i].trace.label,
		       (double)sources[i].contributed / 1e6,
		       (double)(sources[i].cuts[sources[i].cut_count - 1] - sources[i].cuts[0]) /
			   (double)(sources[i].cut_count - 1));
		free(sources[i].cuts);
		bench_trace_free(&sources[i].trace);
	}
}
