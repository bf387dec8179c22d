/* SPDX-License-Identifier: MIT */
/*
 * Records into memory instead of a file: each thread's packets, ready to be decoded, and
 * the number of records about maps and names. With arguments it records that command by
 * the best recorder; without, this thread itself, which needs PT hardware.
 */
#include <ptah/packet.h>
#include <ptah/record.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 64

struct memory {
	struct thread {
		int32_t tid;
		uint8_t *bytes;
		size_t size;
	} threads[THREADS];
	unsigned count, records;
};

/* The sink. A piece is valid until this returns; a jump in the offsets means a loss. */
static int take(void *context, const struct ptah_record_piece *piece)
{
	struct memory *m = context;
	struct thread *t;

	m->records += piece->kind == PTAH_RECORD_PIECE_RECORD;
	if (piece->kind != PTAH_RECORD_PIECE_TRACE)
		return 0;
	if (piece->stream >= THREADS)
		return PTAH_E_LIMIT;
	if (piece->stream >= m->count)
		m->count = piece->stream + 1;
	t = &m->threads[piece->stream];
	t->tid = piece->tid;
	t->bytes = realloc(t->bytes, t->size + piece->size);
	if (!t->bytes)
		return PTAH_E_NOMEM;
	memcpy(t->bytes + t->size, piece->bytes, piece->size);
	t->size += piece->size;
	return 0;
}

static void work(void)
{
	for (volatile int i = 0; i < 100000; i++)
		;
}

int main(int argc, char **argv)
{
	struct memory m = {.count = 0};
	const struct ptah_record_sink sink = {.take = take, .context = &m};
	struct ptah_record_config config = {.size = sizeof(config), .output.sink = &sink};
	struct ptah_record_metadata metadata = {.size = sizeof(metadata)};
	struct ptah_record_status status = {.size = sizeof(status)};
	enum ptah_record_problem problem;
	struct ptah_message why;
	struct ptah_recorder *r;
	int result;

	config.target.kind = argc > 1 ? PTAH_RECORD_COMMAND : PTAH_RECORD_SELF;
	config.target.argv = argc > 1 ? argv + 1 : NULL;
	if (ptah_recorder_new(&config, &r, &problem, &why) < 0) {
		const char *name, *advice = ptah_record_advice(problem, &name);

		fprintf(stderr, "%s: %s\n%s\n", name, why.text, advice);
		return 1;
	}
	if (ptah_recorder_start(r) >= 0 && argc > 1)
		while (ptah_recorder_poll(r, 100) > 0)
			;
	else
		work();
	result = ptah_recorder_finish(r); /* stops, and takes what is left in the buffers */
	ptah_recorder_metadata(r, &metadata);
	ptah_recorder_status(r, &status);
	if (result < 0)
		fprintf(stderr, "%s\n", ptah_recorder_why(r, NULL));
	printf("recorder %s, family %u model %u, %u records, %" PRIu64 " times trace was lost\n",
	       ptah_recorder_name(ptah_recorder_kind(r, NULL)), metadata.cpu.family,
	       metadata.cpu.model, m.records, status.losses.truncated);
	for (unsigned i = 0; i < m.count; i++) {
		const uint8_t *bytes = m.threads[i].bytes, *end = bytes + m.threads[i].size;
		bool ready = ptah_packet_find_psb(bytes, end) == bytes;

		printf("thread %d: %zu bytes, %s with a PSB\n", m.threads[i].tid, m.threads[i].size,
		       ready ? "beginning" : "not beginning");
		free(m.threads[i].bytes);
	}
	printf("%" PRIu64 " bytes\n", status.trace_bytes);
	ptah_recorder_free(r);
	return result < 0;
}
