/* SPDX-License-Identifier: MIT */
/*
 * Events: what packets mean together.
 *
 * Packets come in groups (a FUP and the TIP that belongs to it, a PSB+ header
 * with its state); this layer puts them together and needs no code image. Its
 * stream is ordered and complete: branches (TNT, TIP) and events in one
 * sequence, each with the offset of the packet that began it and an estimated
 * time.
 *
 *	ptah_event_decoder_new(NULL, &d);
 *	ptah_event_feed(d, bytes, n, true);
 *	while ((k = ptah_event_read(d, items, 64)) > 0)
 *		use(items, k);
 *	ptah_event_decoder_free(d);
 *
 * Chunks: feed() lends the decoder n bytes, which must stay unchanged until
 * read() returns 0 ("all of it is used, feed me") or the decoder is freed. Any
 * cut gives the same items. After the last chunk (`last`), read() returning 0
 * is the end of the trace.
 *
 * A decoder belongs to one thread at a time. Errors in the trace are items
 * (PTAH_ITEM_ERROR), after which the decoder goes on at the next PSB.
 */
#ifndef PTAH_EVENT_H
#define PTAH_EVENT_H

#include <ptah/api.h>
#include <ptah/error.h>
#include <ptah/packet.h>

enum ptah_item_type {
#define PTAH_ITEM(name, text, what) PTAH_ITEM_##name,
#include <ptah/events.def>
#undef PTAH_ITEM
	PTAH_ITEM_TYPE_MAX
};

/* The branch class of a block's last instruction. */
enum ptah_insn_class {
	PTAH_INSN_OTHER = 0,  /* not a branch */
	PTAH_INSN_COND,	      /* Jcc, JrCXZ, LOOPcc */
	PTAH_INSN_JUMP,	      /* direct near jump */
	PTAH_INSN_CALL,	      /* direct near call */
	PTAH_INSN_JUMP_IND,   /* indirect near jump */
	PTAH_INSN_CALL_IND,   /* indirect near call */
	PTAH_INSN_RETURN,     /* near return */
	PTAH_INSN_FAR_CALL,   /* far call, INT n, SYSCALL, SYSENTER, VMCALL ... */
	PTAH_INSN_FAR_RETURN, /* far return, IRET, SYSRET, SYSEXIT, VMLAUNCH ... */
	PTAH_INSN_FAR_JUMP,   /* far jump */
	PTAH_INSN_PTWRITE,    /* PTWRITE: not a branch, binds PTW packets */
	PTAH_INSN_CLASS_MAX
};

enum ptah_item_flags {
	PTAH_ITEM_IP_SUPPRESSED = 1 << 0, /* the trace does not say the address */
	PTAH_ITEM_STATUS = 1 << 1,	  /* state repeated by a PSB+, not a change */
	PTAH_ITEM_TRUNCATED = 1 << 2,	  /* block: cut by an event before its branch */
	PTAH_ITEM_TAKEN = 1 << 3,	  /* block: its conditional branch was taken */
	PTAH_ITEM_SPECULATIVE = 1 << 4,	  /* inside a transaction */
	PTAH_ITEM_ABORTED = 1 << 5,	  /* tsx: aborted */
	PTAH_ITEM_NON_ROOT = 1 << 6,	  /* paging: VMX non-root operation */
};

/*
 * One item of the stream, the same for events and flow. Which fields mean
 * something is said in events.def; others are 0. 48 bytes.
 */
struct ptah_item {
	uint8_t type;  /* enum ptah_item_type */
	uint8_t flags; /* enum ptah_item_flags */
	uint8_t mode;  /* enum ptah_exec_mode */
	uint8_t class; /* block: class of the last instruction */
	union {
		struct {
			uint16_t ninsn;	   /* block: instructions in it, 1 or more */
			uint8_t last_size; /* block: bytes of its last instruction */
			uint8_t reserved;
		};
		int32_t status; /* error: enum ptah_error */
		uint32_t count; /* tnt: outcomes; ptwrite: operand bytes */
	};
	uint64_t ip;
	union {
		uint64_t to;  /* block: address behind its last instruction */
		uint64_t end; /* the same */
	};
	uint64_t value;	 /* payload of the event */
	uint64_t tsc;	 /* estimated TSC, 0 while not known */
	uint64_t offset; /* stream offset of the packet that began this */
};

struct ptah_event_config {
	size_t size;   /* sizeof(struct ptah_event_config) */
	bool no_bdm70; /* trust a PSB+ FUP although TIP.PGE follows (default: erratum BDM70 handled)
			*/
	/*
	 * What MTC, CYC and CBR packets need to become time. 0: not known, and
	 * those packets are left out; TSC packets need nothing.
	 */
	uint8_t mtc_freq;      /* IA32_RTIT_CTL.MTCFreq */
	uint8_t nominal_ratio; /* maximum non-turbo ratio: MSR_PLATFORM_INFO[15:8] */
	uint32_t tsc_ctc_n;    /* CPUID.15H EBX: TSC ticks ... */
	uint32_t tsc_ctc_d;    /* CPUID.15H EAX: ... per so many crystal ticks */
};

struct ptah_event_decoder;

/* `config` may be NULL for the defaults. */
PTAH_API int ptah_event_decoder_new(const struct ptah_event_config *config,
				    struct ptah_event_decoder **decoder);
PTAH_API void ptah_event_decoder_free(struct ptah_event_decoder *decoder);

/* PTAH_E_BUSY while the previous chunk is not used up. */
PTAH_API int ptah_event_feed(struct ptah_event_decoder *decoder, const void *bytes, size_t n,
			     bool last);

/* Fills up to `capacity` items. Returns how many; 0 when more bytes are needed or none will come.
 */
PTAH_API int ptah_event_read(struct ptah_event_decoder *decoder, struct ptah_item *items,
			     size_t capacity);

/* Name of an item type ("async-branch"), of an instruction class ("call"); NULL when out of range.
 */
PTAH_API const char *ptah_item_name(unsigned type);
PTAH_API const char *ptah_insn_class_name(unsigned class);

#endif
