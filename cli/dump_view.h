/* SPDX-License-Identifier: MIT */
/* What `ptah dump` prints with: where in which stream it is, and its renderers. */
#ifndef PTAH_CLI_DUMP_VIEW_H
#define PTAH_CLI_DUMP_VIEW_H

#include "output/json.h"
#include "progress.h"
#include "render.h"
#include "stream_packets.h"

#include <ptah/packet_clock.h>

struct dump {
	const struct input *input;
	const struct renderer *renderer;
	bool bytes, time; /* to be shown */
	bool sync;	  /* begin at the first PSB */
	struct out *out;
	struct json json;
	struct progress progress;
	struct ptah_event_config timing; /* what packets are counted in */
	struct ptah_packet_clock *clock;
	struct ptah_time now;
	uint64_t shown_time;
	uint64_t from, to; /* offsets to be shown */
	bool shown[PTAH_PACKET_TYPE_MAX], bad_shown;
	bool synced;  /* in this stream */
	bool no_psb;  /* in all of a stream */
	uint64_t bad; /* places */
	unsigned count;
};

/* A stream, for begin_stream. */
struct dump_stream {
	size_t number;
	const struct ptah_stream_info *info;
};

extern const struct renderer dump_renderers[FORMAT_MAX];

#endif
