/* SPDX-License-Identifier: MIT */
/*
 * The packets of one stream anew, with the same meaning and in fewer bytes: outcomes are joined
 * into full TNT packets, addresses are compressed against the one before, and returns to their
 * calls become TNT bits. Everything else is copied, at the same place among the branches.
 *
 * Two readers of the same stream run side by side: the packets, in their order, and the decoded
 * blocks, which say what kind of branch each outcome and each address belongs to. Where the two do
 * not agree, because the trace has an error, an overflow or lost bytes, the bytes are copied as
 * they are, from the last PSB to the next.
 */
#ifndef PTAH_EXPORT_REPACK_TRACE_H
#define PTAH_EXPORT_REPACK_TRACE_H

#include <ptah/session.h>

struct repack_trace;

/* Takes the new bytes. After `rewind` the bytes from position `to` on are written anew. */
struct repack_sink {
	int (*put)(void *context, const uint8_t *bytes, size_t n);
	int (*rewind)(void *context, uint64_t to);
	void *context;
};

/* A piece of the stream as the recording has it, ending with a whole packet. */
struct repack_piece {
	const uint8_t *bytes;
	uint64_t size;
	/* Results: bytes of the new stream up to the end of this piece, and whether these end as
	 * the old ones did, which may be inside a packet. */
	uint64_t end;
	bool raw_end;
};

struct repack_config {
	const struct ptah_session *session;
	size_t stream;
	bool retcomp;
	/* A PSB+ at the first TSC packet after so many bytes without one; 0: none is added. Only for
	 * traces without MTC and CYC packets, whose clocks a PSB+ would have to give, too. */
	uint64_t psb_period;
	struct repack_sink sink;
	/* Called now and then with the bytes done since; false: stop. May be NULL. */
	bool (*step)(void *context, uint64_t bytes);
	void *step_context;
};

/*
 * Writes the pieces anew. *copied: bytes that were copied because the readers did not agree. 1:
 * step() stopped it. PTAH_E_BAD_FILE: a packet lies in two pieces.
 */
int repack_trace(const struct repack_config *config, struct repack_piece *pieces, size_t count,
		 uint64_t *copied);

#endif
