/* SPDX-License-Identifier: MIT */
/* The state of `ptah dump`: its options, its position in the trace, the clock; and its renderers.
 */
#ifndef PTAH_CLI_DUMP_VIEW_H
#define PTAH_CLI_DUMP_VIEW_H

#include "output/json.h"
#include "progress.h"
#include "render.h"
#include "stream_packets.h"

#include <ptah/event.h>

/* The line of text of a packet, without its offset and its address. */
struct dump_line {
	uint64_t bytes; /* of the packet */
	uint16_t length;
	uint8_t size; /* 0: free */
	uint8_t type;
	char text[244];
};

#define DUMP_LINES 1024

struct dump {
	const struct input *input;
	const struct renderer *renderer;
	bool bytes, time; /* show them */
	bool sync;	  /* begin at the first PSB */
	struct out *out;
	struct json json;
	struct progress progress;
	struct ptah_event_config timing; /* the units of MTC, CYC and CBR packets */
	struct ptah_packet_clock *clock;
	struct ptah_time now;
	uint64_t shown_time;
	uint64_t from, to; /* the range of offsets to show; `to` is not in it */
	uint64_t end;	   /* of the window in this stream */
	bool shown[PTAH_PACKET_TYPE_MAX], bad_shown;
	bool synced;  /* a packet was found in this stream */
	bool no_psb;  /* one of the streams had no PSB at all */
	uint64_t bad; /* stretches of bytes that are no packets */
	unsigned count;
	uint64_t offset;			   /* that was written last, in a batch, */
	char offset_text[16];			   /* and its digits; NUL: none was */
	struct dump_line lines[DUMP_LINES], other; /* other: of packets that are not kept */
};

/* What begin_stream gets. */
struct dump_stream {
	size_t number, count;
	const struct ptah_stream_info *info;
};

/* Prints the packets that are shown, as text without times. */
void dump_text_batch(struct dump *d, const struct packet_batch *batch);

/* Takes a packet, or bytes that are none; or a batch of them. False: the dump is to end. */
bool dump_each(void *dump, const struct packet_place *place);
bool dump_many(void *dump, const struct packet_batch *batch);

/* Whether dump_text_batch() is enough. */
bool dump_is_plain_text(const struct dump *d);

/*
 * dump_jobs.c: prints the packets of a stream of so many bytes with the jobs of --jobs. False:
 * nothing is printed, because one thread has to do it.
 */
#define DUMP_JOBS 64
bool dump_with_jobs(struct dump *d, const struct ptah_session *session, size_t stream,
		    const struct packet_walk *start, uint64_t bytes);

extern const struct renderer dump_renderers[FORMAT_MAX];

#endif
