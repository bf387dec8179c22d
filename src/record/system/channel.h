/* SPDX-License-Identifier: MIT */
/*
 * What passes between the recorder vm and the plugin ptah-system.so inside of QEMU: one socket.
 * The recorder sends a struct channel_setup and then orders of one byte each; the plugin sends
 * frames. A frame that cannot be sent makes the virtual CPU wait, so that no trace is lost.
 */
#ifndef PTAH_RECORD_SYSTEM_CHANNEL_H
#define PTAH_RECORD_SYSTEM_CHANNEL_H

#include <ptah/engine/trace_config.h>

#include <stdbool.h>
#include <stdint.h>

#define CHANNEL_MAGIC	  0x4d565450u
#define CHANNEL_FRAME_MAX (8u << 20)
#define CHANNEL_NONE	  UINT64_MAX /* no such address or symbol */

struct channel_setup {
	uint32_t magic;
	uint32_t size;	  /* sizeof(struct channel_setup) */
	uint64_t control; /* IA32_RTIT_CTL, without the modes of the ranges */
	uint64_t cr3;	  /* to be traced alone, with CR3Filter in `control` */
	struct ptah_range ranges[PTAH_RANGES];
	uint64_t start, stop; /* trace from when this instruction runs, and until then */
	bool paused;
	bool host_clock;
	/* The values of channel_symbol() in the guest's Linux; CHANNEL_NONE: not known. */
	uint64_t symbols[5];
};

/* The symbols that the plugin needs, in order. The first is where system calls lead. */
#define CHANNEL_SYMBOLS 5
static inline const char *channel_symbol(unsigned i)
{
	static const char *const names[CHANNEL_SYMBOLS] = {"entry_SYSCALL_64", "current_task",
							   "pcpu_hot", "__start_BTF", "__stop_BTF"};

	return names[i];
}

enum channel_order {
	ORDER_PAUSE = 'p',
	ORDER_RESUME = 'r',
	ORDER_END = 'e', /* the guest runs on untraced */
};

enum channel_type {
	FRAME_TRACE = 1, /* packets of processor `cpu`; value: the offset of the first byte */
	FRAME_PAGE,	 /* a page of code; value: its number */
	FRAME_MAP,	 /* a struct perfdata_guest_map; value: the page */
	FRAME_SPACE,	 /* cr3, tsc; text: the name of its process */
	FRAME_KERNEL,	 /* value: how far the kernel lies above its symbols' addresses */
	FRAME_TRUTH,	 /* struct channel_truth; value: places that could not be followed */
	FRAME_PROGRESS,	 /* value: instructions of this processor so far */
	FRAME_PAUSED,	 /* value: whether this processor has paused */
	FRAME_NOTE,	 /* text */
};

/* Followed by `bytes` bytes. */
struct channel_frame {
	uint32_t type;
	uint32_t bytes;
	int32_t cpu;
	uint32_t reserved;
	uint64_t tsc, address, cr3, value;
};

/* As struct ptah_truth. */
struct channel_truth {
	uint64_t instructions, conditional, indirect, returns, path_hash;
};

#endif
