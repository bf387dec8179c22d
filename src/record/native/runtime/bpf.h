/* SPDX-License-Identifier: MIT */
/*
 * What a filter of system calls (seccomp) answers: an interpreter of the classic BPF programs that
 * the kernel takes for it. Words of the call may be unknown; then it says all that the filter may
 * answer. The program is a stranger's: each step is checked, and their number is limited.
 */
#ifndef PTAH_RECORD_NATIVE_RUNTIME_BPF_H
#define PTAH_RECORD_NATIVE_RUNTIME_BPF_H

#include <linux/filter.h>
#include <stdint.h>

#define BPF_WORDS 16 /* of struct seccomp_data: number, architecture, RIP, six arguments */

struct bpf_call {
	uint32_t words[BPF_WORDS];
	uint16_t known; /* bit n: words[n] is known; the others may be anything */
};

/* What a filter may answer: bits. */
enum bpf_answer {
	BPF_ALLOWS = 1,	      /* perhaps with a line in the kernel's log */
	BPF_FAILS = 2,	      /* with an error of its own */
	BPF_FAILS_NOSYS = 4,  /* with ENOSYS */
	BPF_KILLS = 8,	      /* the process */
	BPF_INTERFERES = 16,  /* SIGSYS, the end of one thread, or a call that seems to succeed */
	BPF_ASKS = 32,	      /* another process decides, and may let the kernel carry it out */
	BPF_CANNOT_TELL = 64, /* no filter that the kernel takes, or too many ways through it */
};

uint32_t bpf_answers(const struct sock_filter *program, uint32_t length,
		     const struct bpf_call *call);

#endif
