/* SPDX-License-Identifier: MIT */
/*
 * Events: what packets mean together.
 *
 * Packets come in groups (a FUP and the TIP that belongs to it, a PSB+ header
 * with its state). This layer combines each group into one item; it needs no code
 * image. Its stream is ordered and complete: branches (TNT, TIP) and events in
 * one sequence, each with the offset of its first packet and an estimated time.
 *
 *	ptah_event_decoder_new(NULL, &d);
 *	ptah_event_feed(d, bytes, n, true);
 *	while ((k = ptah_event_read(d, items, 64)) > 0)
 *		use(items, k);
 *	ptah_event_decoder_free(d);
 *
 * Chunks: feed() lends the decoder n bytes, which must stay unchanged until
 * read() returns 0 (the chunk is used up) or the decoder is freed. The items do
 * not depend on where the trace is cut into chunks. After the last chunk
 * (`last`), 0 from read() is the end of the trace.
 *
 * A decoder belongs to one thread at a time. Errors in the trace are items
 * (PTAH_ITEM_ERROR), after which the decoder continues at the next PSB.
 *
 * Programs with an instruction decoder of their own (debuggers, emulators, binary
 * translators) walk through the code and use an item wherever the code alone does
 * not say where execution went (tests/flow/test_item_walk.c is such a program):
 *   PTAH_ITEM_TNT  `count` outcomes of conditional branches, the oldest in bit `count` - 1
 *   PTAH_ITEM_TIP  the target of an indirect branch or a return. It may come after
 *                  the outcomes of conditional branches that follow the branch (SDM
 *                  "Deferred TIPs").
 *   any other      an event: it is handled when the walk is at its `ip`, if it has one
 * Returns may be compressed (SDM "Indirect Transfer Compression for Returns"): where
 * the next item is an outcome, it is taken, and the return goes to the address on
 * top of a stack of the 64 last return addresses. Near calls push onto it, except direct calls
 * to the next instruction, and every return pops; PTAH_ITEM_PSB, ENABLED and
 * OVERFLOW empty it.
 */
#ifndef PTAH_EVENT_H
#define PTAH_EVENT_H

#include <ptah/base.h>
#include <ptah/engine/trace_config.h>
#include <ptah/packet.h>

PTAH_BEGIN_DECLS

enum ptah_item_type {
#define PTAH_ITEM(name, ...) PTAH_ITEM_##name,
#include <ptah/events.def>
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
	PTAH_ITEM_IP_SUPPRESSED = 1 << 0, /* the trace does not give the address */
	PTAH_ITEM_STATUS = 1 << 1,	  /* state repeated by a PSB+, not a change */
	PTAH_ITEM_TRUNCATED = 1 << 2,	  /* block: an event cut it before its branch */
	PTAH_ITEM_TAKEN =
	    1 << 3, /* block: its branch was taken; error BAD_RETCOMP: the outcome was "taken" */
	PTAH_ITEM_SPECULATIVE = 1 << 4, /* inside a transaction */
	PTAH_ITEM_ABORTED = 1 << 5,	/* tsx: aborted */
	PTAH_ITEM_NON_ROOT = 1 << 6,	/* paging: VMX non-root operation */
	PTAH_ITEM_UNKNOWN = 1 << 7,	/* block: no packet says where its branch went */
};

/* `detail` of an event: which of its members are known, and how it came about. */
enum ptah_item_detail {
	PTAH_DETAIL_VECTOR = 1 << 0,	    /* vmexit: `vector` is known */
	PTAH_DETAIL_CR2 = 1 << 1,	    /* interrupt: `cr2` is known */
	PTAH_DETAIL_QUALIFICATION = 1 << 1, /* vmexit: `qualification` is known */
	PTAH_DETAIL_REASON = 1 << 2,	    /* vmexit: `reason` is known */
	PTAH_DETAIL_ICNT = 1 << 0,	    /* trigger: `icnt` is known */
	PTAH_DETAIL_MULT = 1 << 1,	    /* trigger: several triggers hit the instruction */
	PTAH_DETAIL_HW = 1 << 0,	    /* pwre: entered by the hardware */
	PTAH_DETAIL_INTERRUPT = 1 << 0,	    /* pwrx: woken by an interrupt */
	PTAH_DETAIL_STORE = 1 << 1,	    /* pwrx: woken by a store to the monitored address */
	PTAH_DETAIL_AUTONOMOUS = 1 << 2,    /* pwrx: woken by the hardware on its own */
};

/* `tsc_error` where no bound can be given: there are only TSC packets, or packets were lost since
 * the last one.
 */
#define PTAH_TSC_UNBOUNDED 255

/* Where the code of a block is looked up. */
struct ptah_item_code {
	uint32_t
	    section;	/* of the image, where the block begins; 0: bytes from a reader callback */
	uint32_t space; /* number of an address space: see ptah_flow_space() */
};

/* The two operands of MWAIT: EAX and ECX. */
struct ptah_item_mwait {
	uint32_t hints, ext;
};

/*
 * One item of the stream, the same for events and flow. 48 bytes.
 *
 * The type decides which members of the unions mean something. All items have
 * type, flags, mode, tsc, tsc_error and offset; besides these:
 *
 *	block                            ip, end, ninsn, insn_class, last_size, code
 *	tnt                              count, bits
 *	tip                              to
 *	enabled, psb                     ip
 *	disabled                         to
 *	async-disabled                   ip, to, packet_tsc
 *	async-branch                     ip, to, packet_tsc
 *	overflow                         ip, packet_tsc
 *	exec-mode, tsx, stop, exstop     ip (the new mode is in `mode`)
 *	paging, async-paging             ip, cr3
 *	vmcs, async-vmcs                 ip, vmcs
 *	cbr                              ratio
 *	ptwrite                          ip, size, payload
 *	mnt                              payload
 *	mwait                            ip, mwait
 *	pwre                             state, sub_state, detail
 *	pwrx                             last, deepest, detail
 *	error                            status; from a flow also ip, code.space
 *	iflags                           ip, interrupts
 *	interrupt                        ip, vector, cr2, detail
 *	sipi, uintr, swintr              ip, vector
 *	vmexit                           ip, vector, qualification, reason, detail
 *	iret, smi, rsm, init, vmentry,
 *	shutdown, uiret, syscall         ip
 *	trigger                          ip, trbv, icnt, detail
 *	pebs-begin                       size, pebs_type
 *	pebs-item                        size, payload, pebs_id
 *	pebs-end                         ip
 *	tick                             ip (flow), cycles
 *	gap                              ip, to
 *
 * An `ip` that the trace leaves out is 0, with PTAH_ITEM_IP_SUPPRESSED; where
 * tracing stops, that flag is about `to`. What an item does not have is 0. Code
 * that copies items or goes through them by a table may use `count`, `to` and
 * `value` for whatever their unions hold.
 */
struct ptah_item {
	uint8_t type;  /* enum ptah_item_type */
	uint8_t flags; /* enum ptah_item_flags */
	uint8_t mode;  /* enum ptah_exec_mode */
	union {
		uint8_t insn_class; /* enum ptah_insn_class of the last instruction */
		uint8_t detail;	    /* enum ptah_item_detail */
	};
	union {
		uint16_t count;	    /* branch outcomes, 1 to 47 */
		uint16_t ninsn;	    /* instructions, 1 or more */
		uint16_t size;	    /* of the payload, or of each PEBS item: 4 or 8 bytes */
		uint16_t vector;    /* of the interrupt or exception */
		uint16_t sub_state; /* of the thread C-state that was entered */
		uint16_t deepest;   /* core C-state while the core slept */
		uint16_t icnt;	    /* instructions since the last packet with an address */
		int16_t status;	    /* enum ptah_error */
	};
	uint8_t last_size; /* bytes of the last instruction */
	/* The true TSC is less than 2^tsc_error ticks from `tsc`, or PTAH_TSC_UNBOUNDED. */
	uint8_t tsc_error;
	uint64_t ip;
	union {
		uint64_t to;	  /* where execution went */
		uint64_t end;	  /* address of the byte after the last instruction */
		uint64_t reason;  /* VM exit reason */
		uint64_t pebs_id; /* which register or field the PEBS item is */
	};
	union {
		uint64_t value;
		struct ptah_item_code code;
		struct ptah_item_mwait mwait;
		uint64_t bits; /* branch outcomes: the oldest is bit count - 1 */
		uint64_t cr3;
		uint64_t vmcs;		/* VMCS pointer */
		uint64_t ratio;		/* core:bus */
		uint64_t payload;	/* operand of PTWRITE, PEBS item, maintenance data */
		uint64_t state;		/* thread C-state that was entered */
		uint64_t last;		/* core C-state that was left */
		uint64_t interrupts;	/* RFLAGS.IF: 0 or 1 */
		uint64_t cr2;		/* address of the page fault */
		uint64_t qualification; /* VM exit qualification */
		uint64_t trbv;		/* trigger bit vector */
		uint64_t pebs_type;
		uint64_t cycles;     /* core cycles so far */
		uint64_t packet_tsc; /* with ptah_event_config.unchanged: time at `offset` */
	};
	uint64_t tsc;	 /* estimated TSC, 0 while not known */
	uint64_t offset; /* stream offset of the packet that began this */
};

/*
 * Called for an opcode that is in no table (SDM: reserved), and for a malformed
 * packet. `bytes` are the n bytes from there on (at least 16 unless the trace
 * ends), and `status` says what is wrong. A result of 1 or more is a number of
 * bytes to skip (perhaps more than n): decoding continues after them as if they
 * had not been there. 0 or less: the decoder reports an error item and continues
 * at the next PSB.
 */
typedef int64_t ptah_event_unknown(void *context, const uint8_t *bytes, size_t n, uint64_t offset,
				   int status);

struct ptah_event_config {
	size_t size;	/* sizeof(struct ptah_event_config) */
	bool no_bdm70;	/* believe the FUP of a PSB+ that a TIP.PGE contradicts (see BDM70 in
			   errata.def) */
	bool no_iflags; /* changes of RFLAGS.IF are not reported: see trace.event_trace */
	/*
	 * What the processor was asked to trace; all 0: not known. Of it are used
	 * mtc, mtc_period and cyc_threshold (time), event_trace (RFLAGS.IF is reported from the
	 * beginning; without it, once a MODE.Exec says that it is 1); and by a flow no_tnt,
	 * no_retcomp and ranges (see flow.h).
	 */
	struct ptah_trace_config trace;
	/*
	 * What MTC, CYC and CBR packets need besides to become time. 0: not known, and
	 * those packets are left out; TSC packets need nothing.
	 */
	uint32_t tsc_n, tsc_d; /* CPUID.15H EBX, EAX: TSC ticks per crystal tick are n / d */
	uint8_t nominal_ratio; /* maximum non-turbo ratio: MSR_PLATFORM_INFO[15:8] */

	bool ticks;	 /* report every packet that moves the time, with the cycles so far */
	uint32_t errata; /* 1 << enum ptah_erratum: what to work around; see base.h */
	ptah_event_unknown *unknown;
	void *unknown_context;

	/*
	 * Report MODE.Exec (if RFLAGS.IF is reported: both of what it says) and CBR also
	 * where they change nothing, and a PSB+ packet by packet: its PSB item is
	 * followed by an item for each MODE, PIP, VMCS, CBR and MNT in it, in their
	 * order, with PTAH_ITEM_STATUS. A PSB+ that an OVF cuts has no PSB item. Of
	 * several OVFs in a row report each. OVERFLOW, ASYNC_BRANCH and ASYNC_DISABLED
	 * have packet_tsc: the time of the packet at their offset.
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
 * Forgets everything but the configuration. The next bytes to be fed are those at
 * `offset` of the stream, and decoding begins at the first PSB in them. To go
 * forward or backward, find the PSB in the bytes (ptah_packet_find_psb,
 * ptah_packet_find_last_psb), seek there and feed from there.
 */
PTAH_API void ptah_event_seek(struct ptah_event_decoder *decoder, uint64_t offset);

/* The clocks at the decoder's position. */
struct ptah_time {
	uint64_t tsc;	 /* estimate; 0 while not known */
	uint64_t error;	 /* |tsc - truth| at most; UINT64_MAX: no bound */
	uint64_t cycles; /* core cycles that CYC packets have counted since the beginning */
	uint32_t ratio;	 /* core:bus ratio of the last CBR, 0 while not known */
};

/* Name of an item type ("async-branch"), of an instruction class ("call"); NULL when out of range.
 */
PTAH_API const char *ptah_item_name(unsigned type);
PTAH_API const char *ptah_insn_class_name(unsigned insn_class);

/*
 * Packet clock: the time at each packet, for programs that read packets.
 *
 * TSC, TMA, MTC, CYC and CBR packets together give an estimate of the TSC and a
 * bound on its error. The event decoder keeps such a clock by itself
 * (the `tsc` of its items); this one is for callers that read packets, and feed it.
 *
 *	ptah_packet_clock_new(&config, &clock);
 *	while ((n = ptah_packet_decode(&packet, p, (size_t)(end - p), block)) > 0) {
 *		ptah_packet_clock_feed(clock, &packet, &time);
 *		...
 *	}
 *	ptah_packet_clock_free(clock);
 *
 * A clock belongs to one thread at a time.
 */

struct ptah_packet_clock;

/*
 * Uses from `config` what MTC, CYC and CBR packets need to become time
 * (trace.mtc, trace.mtc_period, trace.cyc_threshold, tsc_n, tsc_d, nominal_ratio), and
 * erratum SKL168. NULL: nothing of that is known, and only TSC packets move the
 * clock.
 */
PTAH_API int ptah_packet_clock_new(const struct ptah_event_config *config,
				   struct ptah_packet_clock **clock);
PTAH_API void ptah_packet_clock_free(struct ptah_packet_clock *clock);

/* Forgets everything but the configuration; the next packet is the first of another stream. */
PTAH_API void ptah_packet_clock_reset(struct ptah_packet_clock *clock);

/*
 * Gives the clock the next packet of the stream, of any type, and writes the time after it to *time,
 * unless `time` is NULL. A NULL in place of the packet says that bytes were skipped because they are
 * no packets: the error then has no bound up to the next TSC packet.
 */
PTAH_API void ptah_packet_clock_feed(struct ptah_packet_clock *clock,
				     const struct ptah_packet *packet, struct ptah_time *time);

PTAH_END_DECLS

#endif
