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
	PTAH_ITEM_TAKEN = 1 << 3,	  /* block: its branch was taken; BAD_RETCOMP: so it said */
	PTAH_ITEM_SPECULATIVE = 1 << 4,	  /* inside a transaction */
	PTAH_ITEM_ABORTED = 1 << 5,	  /* tsx: aborted */
	PTAH_ITEM_NON_ROOT = 1 << 6,	  /* paging: VMX non-root operation */
	PTAH_ITEM_UNKNOWN = 1 << 7,	  /* block: where its branch went is in no packet */
};

/* `detail` of an event: which of its fields say something, and how it came. */
enum ptah_item_detail {
	PTAH_DETAIL_VECTOR = 1 << 0,	    /* vmexit: `count` is the vector */
	PTAH_DETAIL_CR2 = 1 << 1,	    /* interrupt: `value` is the page fault's address */
	PTAH_DETAIL_QUALIFICATION = 1 << 1, /* vmexit: `value` is the exit qualification */
	PTAH_DETAIL_REASON = 1 << 2,	    /* vmexit: `to` is the exit reason */
	PTAH_DETAIL_ICNT = 1 << 0,	    /* trigger: `count` is the instruction count */
	PTAH_DETAIL_MULT = 1 << 1,	    /* trigger: more than one hit the instruction */
	PTAH_DETAIL_HW = 1 << 0,	    /* pwre: entered by the hardware */
	PTAH_DETAIL_INTERRUPT = 1 << 0,	    /* pwrx: woken by an interrupt */
	PTAH_DETAIL_STORE = 1 << 1,	    /* pwrx: woken by a store to the monitored address */
	PTAH_DETAIL_AUTONOMOUS = 1 << 2,    /* pwrx: woken by the hardware on its own */
};

/* `tsc_error` where no bound can be given: TSC packets alone, or packets lost since the last one.
 */
#define PTAH_TSC_UNBOUNDED 255

/*
 * One item of the stream, the same for events and flow. Which fields mean
 * something is said in events.def; others are 0. 48 bytes.
 */
struct ptah_item {
	uint8_t type;  /* enum ptah_item_type */
	uint8_t flags; /* enum ptah_item_flags */
	uint8_t mode;  /* enum ptah_exec_mode */
	union {
		uint8_t insn_class; /* block: class of the last instruction */
		uint8_t detail;	    /* events: enum ptah_item_detail */
	};
	union {
		uint16_t ninsn; /* block: instructions in it, 1 or more */
		uint16_t count; /* tnt: outcomes; ptwrite, PEBS: bytes; others: see events.def */
		int16_t status; /* error: enum ptah_error */
	};
	uint8_t last_size; /* block: bytes of its last instruction */
	/* The true TSC is less than 2^tsc_error ticks from `tsc`, or PTAH_TSC_UNBOUNDED. */
	uint8_t tsc_error;
	uint64_t ip;
	union {
		uint64_t to;  /* where a branch went */
		uint64_t end; /* block: address behind its last instruction */
	};
	union {
		uint64_t value; /* payload of the event */
		struct {
			uint32_t section; /* block: of the image, where it began; 0: a reader's */
			uint32_t space;	  /* block: see ptah_flow_space() */
		};
	};
	uint64_t tsc;	 /* estimated TSC, 0 while not known */
	uint64_t offset; /* stream offset of the packet that began this */
};

/*
 * Called for an opcode that is in no table (SDM: reserved), and for a malformed
 * packet: n bytes from there (at least 16 unless the trace ends), `status` says
 * why. Returns how many bytes to skip, 1 or more (it may be more than n), after
 * which decoding goes on as if they had not been; 0 or less: an error item, and
 * on to the next PSB.
 */
typedef int64_t ptah_event_unknown(void *context, const uint8_t *bytes, size_t n, uint64_t offset,
				   int status);

struct ptah_event_config {
	size_t size;   /* sizeof(struct ptah_event_config) */
	bool no_bdm70; /* report a PSB+ FUP that a TIP.PGE contradicts (default: see errata.def) */
	/*
	 * What MTC, CYC and CBR packets need to become time. 0: not known, and
	 * those packets are left out; TSC packets need nothing.
	 */
	uint8_t mtc_freq;      /* IA32_RTIT_CTL.MTCFreq */
	uint8_t nominal_ratio; /* maximum non-turbo ratio: MSR_PLATFORM_INFO[15:8] */
	uint32_t tsc_ctc_n;    /* CPUID.15H EBX: TSC ticks ... */
	uint32_t tsc_ctc_d;    /* CPUID.15H EAX: ... per so many crystal ticks */
	uint8_t cyc_thresh;    /* IA32_RTIT_CTL.CycThresh, for the error bound */

	bool iflags;	 /* report changes of RFLAGS.IF (needs IA32_RTIT_CTL.EventEn) */
	bool ticks;	 /* report every packet that moves the time, with the cycles so far */
	uint32_t errata; /* 1 << enum ptah_erratum: what to work around; see cpu.h */
	ptah_event_unknown *unknown;
	void *unknown_context;

	/*
	 * Report MODE.Exec (with `iflags`: both of what it says) and CBR also where they
	 * change nothing, and a PSB+ packet by packet: behind its PSB item what MODE, PIP, VMCS,
	 * CBR and MNT in it say, in their order, each with PTAH_ITEM_STATUS. One that an OVF cuts
	 * has no PSB item. Report each OVF of several. The `value` of OVERFLOW and of asynchronous
	 * branches is the time of the packet at their offset.
	 */
	bool unchanged;
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

/*
 * Forgets everything but the configuration: the next bytes to be fed are those
 * at `offset` of the stream, and decoding begins at the first PSB in them. To
 * go forward or backward, find the PSB in the bytes (ptah_packet_find_psb,
 * ptah_packet_find_last_psb), seek there and feed from there.
 */
PTAH_API void ptah_event_seek(struct ptah_event_decoder *decoder, uint64_t offset);

/* Stream offset of the last PSB that was decoded; PTAH_E_NO_SYNC before the first. */
PTAH_API int ptah_event_sync_offset(const struct ptah_event_decoder *decoder, uint64_t *offset);

/* The clocks where the decoder stands now. */
struct ptah_time {
	uint64_t tsc;	 /* estimate; 0 while not known */
	uint64_t error;	 /* |tsc - truth| at most; UINT64_MAX: no bound */
	uint64_t cycles; /* core cycles told by CYC packets since the beginning */
	uint32_t ratio;	 /* core:bus ratio of the last CBR, 0 while not known */
};

PTAH_API void ptah_event_time(const struct ptah_event_decoder *decoder, struct ptah_time *time);

/* Name of an item type ("async-branch"), of an instruction class ("call"); NULL when out of range.
 */
PTAH_API const char *ptah_item_name(unsigned type);
PTAH_API const char *ptah_insn_class_name(unsigned insn_class);

#endif
