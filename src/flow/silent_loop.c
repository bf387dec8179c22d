/* SPDX-License-Identifier: MIT */
/* Walks through the code to find out whether it is a silent loop (silent_loop.h). */
#include "flow/silent_loop.h"

#include "x86/x86.h"

#define MOST_INSTRUCTIONS 4096

/* Closes the run that began at `start`. False: the loop has too many. */
static bool add_run(struct silent_loop *loop, uint64_t start, uint64_t end)
{
	if (start == end)
		return true;
	if (loop->run_count == SILENT_LOOP_RUNS)
		return false;
	loop->runs[loop->run_count].start = start;
	loop->runs[loop->run_count++].end = end;
	return true;
}

bool silent_loop_find(const struct ptah_image *image, const struct ptah_space *space, uint64_t ip,
		      unsigned mode, struct silent_loop *loop)
{
	uint64_t at = ip, start = ip;

	loop->instructions = 0;
	loop->run_count = 0;
	do {
		uint8_t bytes[X86_MAX_SIZE] = {0};
		const size_t n = ptah_image_read(image, at, bytes, sizeof(bytes), space);
		struct x86_insn insn;

		if (!n || loop->instructions == MOST_INSTRUCTIONS ||
		    x86_decode(bytes, n, at, mode, &insn) < 0)
			return false;
		loop->instructions++;
		at += insn.size;
		switch (insn.insn_class) {
		case PTAH_INSN_OTHER:
			break;
		case PTAH_INSN_JUMP:
		case PTAH_INSN_CALL:
			if (insn.target == at) /* the run continues */
				break;
			if (!add_run(loop, start, at))
				return false;
			at = start = insn.target;
			break;
		default:
			return false;
		}
	} while (at != ip);
	return add_run(loop, start, at);
}
