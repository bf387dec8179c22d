/* SPDX-License-Identifier: MIT */
/*
 * Proves of the interpreter of filters of system calls (src/record/native/runtime/bpf.c): it ends
 * for any program, without an access outside of it, and what a filter answers to a call is among
 * what it may answer to one of which less is known.
 *
 * Input: which words are known (two bytes), 16 words, and a program, 8 bytes an instruction.
 */
#include "fuzz.h"

#include "record/native/runtime/bpf.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct sock_filter program[BPF_MAXINSNS];
	struct bpf_call call = {.known = UINT16_MAX};
	uint32_t length, answers, more;
	uint16_t known;

	if (size < sizeof(known) + sizeof(call.words))
		return 0;
	memcpy(&known, data, sizeof(known));
	memcpy(call.words, data + sizeof(known), sizeof(call.words));
	data += sizeof(known) + sizeof(call.words);
	size -= sizeof(known) + sizeof(call.words);
	length = (uint32_t)(size / sizeof(*program) < BPF_MAXINSNS ? size / sizeof(*program)
								   : BPF_MAXINSNS);
	memcpy(program, data, length * sizeof(*program));
	answers = bpf_answers(program, length, &call);
	call.known = known;
	more = bpf_answers(program, length, &call);
	CHECK(answers && ((more & answers) == answers || more & BPF_CANNOT_TELL));
	return 0;
}
