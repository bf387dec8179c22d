/* SPDX-License-Identifier: MIT */
/* What `ptah stat` counts, and the renderers that print it. */
#ifndef PTAH_CLI_STAT_VIEW_H
#define PTAH_CLI_STAT_VIEW_H

#include "input.h"
#include "output/json.h"
#include "process_shares.h"
#include "render.h"

struct stat_counts {
	uint64_t bytes, packets[PTAH_PACKET_TYPE_MAX], bad_bytes;
	uint64_t blocks, instructions, classes[PTAH_INSN_CLASS_MAX];
	uint64_t errors, overflows, gaps, lost_bytes;
	struct ptah_item first_error;
	double seconds;
	bool part; /* of a window, of which neither bytes nor packets are known */
};

/* A row: a stream and its counts. */
struct stat_row {
	const struct ptah_stream_info *info;
	const struct stat_counts *counts;
	const struct process_share *shares; /* of a CPU that several processes share */
	size_t share_count;
};

/* A copy of a row, with the shares after it in memory. */
struct stat_kept;

struct stat_view {
	const struct input *input;
	const struct renderer *renderer;
	bool per_thread; /* text shows each stream, after the summary */
	const struct ptah_session *session;
	struct out *out;
	struct json json;
	struct stat_counts sum;
	struct ptah_stream_info first_bad; /* the stream of sum.first_error */
	struct stat_kept **kept;	   /* text is printed at the end: the summary comes first */
	size_t kept_count;
	int status; /* negative: a row could not be kept */
	unsigned streams;
	double since; /* when the last stream was finished */
};

extern const struct renderer stat_renderers[FORMAT_MAX];

void stat_view_free(struct stat_view *s);

/* stat_samples.c: samples of other events, and system calls by name. */
void stat_put_samples_text(struct out *out, const struct ptah_session *session);
void stat_put_samples_json(struct json *json, const struct ptah_session *session);

#endif
