/* SPDX-License-Identifier: MIT */
/*
 * Sessions that grow: records and trace are added while streams are being decoded. The same
 * functions handle the records as for a recording that is complete (records.h); what differs is
 * that decoders learn of changes of memory one by one, and that trace is given back when it has
 * been decoded.
 *
 * Of a stream per CPU, trace is added when all records have been applied that were written before
 * it was read from the CPU's buffer, in the order of time. So a switch that is not known yet is
 * later than the trace that has been added.
 *
 * While a session grows, none of its streams may be decoded: whoever uses it does both in turns.
 */
#ifndef PTAH_SESSION_GROW_H
#define PTAH_SESSION_GROW_H

#include "session/stream.h"

/* A change of a process's memory that decoders have not taken yet. */
struct fresh_change {
	size_t process;
	struct change change;
};

struct growth {
	struct fresh_change *fresh;
	size_t fresh_count, fresh_capacity;
	bool begun; /* the first stream was opened */
	bool has_high;
	/* Of recordings per CPU: */
	uint64_t known;	 /* the greatest time of records that were applied */
	uint64_t rounds; /* that have ended */
	bool complete;	 /* all records have been applied, and no more come */
	size_t only;	 /* the only process with code so far; SESSION_NONE: none, or several */
	size_t forced;	 /* this stream is decoded with what is known now; SESSION_NONE: none */
	/* Until when the trace before an offset was written: see struct limit. Its trace has not
	 * come yet. */
	struct grow_limit {
		int32_t cpu;
		uint64_t offset, tsc;
	} * limits;
	size_t limit_count, limit_capacity;
	struct table streams_by_cpu;

	struct jit_follow *jit; /* jit_follow.h */
	bool is_local;		/* what is recorded runs on this machine, now */
	uint64_t lost;		/* events that the kernel reported as lost */
	struct strings bad;	/* files that do not fit, of which a note was made */
	/* Where trace was stopped because a buffer was full: what is missing after it. */
	struct grow_cut {
		int32_t cpu, tid;
		uint64_t offset;
	} * cuts;
	size_t cut_count, cut_capacity;
};

int grow_new(const struct ptah_session_config *config, const char *name,
	     struct ptah_session **session);
void grow_forget(struct ptah_session *session);

/*
 * Takes from a record what is valid at once. 1: the rest is to be applied in the order of time, by
 * session_take_record(), *tsc being its time; 0: that was all; or an error.
 */
int grow_take(struct ptah_session *s, const struct perfdata_record *r, uint64_t *tsc,
	      struct ptah_message *why);

/* Adds a change of memory, in the order of time. */
int grow_add_change(struct ptah_session *s, struct process *p, const struct change *change);

/*
 * After records were applied: looks up whether new files fit, completes the look-up tables, and
 * finds out again whose streams these are.
 */
int grow_settle(struct ptah_session *s);

/* The stream of trace that is about to come: an existing one or a new one. SESSION_NONE: no memory.
 */
size_t grow_stream(struct ptah_session *s, uint32_t index, int32_t tid, int32_t cpu);

/*
 * Adds trace to a stream. `offset` is where the recorder places it; what of it was there already is
 * left out. The bytes must stay until grow_trim().
 */
int grow_trace(struct ptah_session *s, size_t stream, uint64_t offset, const uint8_t *bytes,
	       uint64_t size);

/* After trace was added: finds where in it the limits are. */
int grow_place_limits(struct ptah_session *s);

/*
 * Forgets the pieces of a stream before `offset`, which all its decoders have used. Returns how
 * many these were: decoders subtract that from next_piece.
 */
size_t grow_trim(struct stream *stream, uint64_t offset);
/* The same for limits, of which so many have been used, and for the turns of its CPU before one. */
void grow_trim_limits(struct stream *stream, size_t count);
void grow_trim_turns(struct ptah_session *s, const struct stream *stream, size_t turn);

/*
 * Before the first stream is opened: checks that this is a trace that can be followed, and finds
 * the kernel's code.
 */
int grow_begin(struct ptah_session *s, struct ptah_message *why);

/* Gives a stream its process. To be called once, before it is opened. 0, or PTAH_E_NOMEM. */
int grow_name(struct ptah_session *s, size_t stream);

/*
 * Whether a change of this process is one of the memory that the stream runs over. Each is, if
 * several processes share it.
 */
bool grow_concerns(const struct ptah_session *s, size_t stream, size_t process);

#endif
