/* SPDX-License-Identifier: MIT */
/*
 * What the files of the public writer (<ptah/recording.h>) share: recording.c opens and completes a
 * recording, recording_trace.c adds trace, recording_sideband.c what ran.
 */
#ifndef PTAH_RECORD_RECORDING_H
#define PTAH_RECORD_RECORDING_H

#include "base/compiler.h"
#include "perfdata/writer.h"
#include "record/packet_cut.h"

#include <ptah/recording.h>

#define RECORDING_CPUS_MAX 65536

struct recorded_stream {
	struct perfdata_turn of; /* cpu -1: a thread's; pid and tid -1: a processor's */
	bool begun;		 /* it has trace */
	bool has_truth;
	uint64_t end;	       /* its position after its last byte */
	struct packet_cut cut; /* with the bytes that are not in the file yet */
	uint64_t time;	       /* of its latest record; 0: none */
	uint64_t lost;	       /* bytes, by the engine's records */
	/* How many of the engine's records had these flags. */
	uint64_t unsure, dropped, reconfigured;
	struct ptah_truth truth;
};

/* Who runs on a processor, and since when; turn.tid -1: not known yet. */
struct recorded_cpu {
	struct perfdata_turn turn;
	uint64_t tsc;
};

struct ptah_recording {
	struct perfdata_writer *writer; /* NULL: finished */
	uint8_t kind;
	bool snapshot;
	uint64_t bytes;
	struct recorded_stream *streams;
	size_t stream_count, stream_capacity;
	struct recorded_cpu *cpus;
	size_t cpu_count;
	uint64_t now; /* the latest time that any call had */
	struct ptah_message why;
};

/*
 * A recorder that captures with the engine and has opened the writer itself adds streams and
 * records through the functions of <ptah/recording.h>, into its writer. NULL: no memory. Give it
 * back before the writer is completed, with recording_end_streams() before that.
 */
struct ptah_recording *recording_lend(struct perfdata_writer *writer, uint8_t kind, bool snapshot);
void recording_give_back(struct ptah_recording *r);

/* 0, or the status of a recording that has failed, is finished, or does not exist. */
int recording_check(struct ptah_recording *r);
/* Refuses a call: PTAH_E_INVAL with this sentence. */
int recording_refuse(struct ptah_recording *r, const char *format, ...) PRINTF_LIKE(2, 3);
/* Passes on what the writer returned, with its sentence. */
int recording_wrote(struct ptah_recording *r, int status);
int recording_no_memory(struct ptah_recording *r);
/* A call was about this time. */
void recording_reach(struct ptah_recording *r, uint64_t tsc);

/* Writes what remains of the streams: bytes held back, truth, what the engine's records add up to.
 */
int recording_end_streams(struct ptah_recording *r);

/* What a simulator counted while it wrote the stream: `ptah verify` compares a decode with it. */
int recording_add_truth(struct ptah_recording *r, uint32_t stream, const struct ptah_truth *truth);

#endif
