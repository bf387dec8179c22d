/* SPDX-License-Identifier: MIT */
/*
 * libipt.so.2's interface, served by Ptah. Programs written for libipt 2.0.5
 * to 2.3 compile and link unchanged.
 *
 * Five decoders read one trace, each giving more than the one before:
 *
 *	pt_pkt_*	packets, one by one
 *	pt_evt_*	events, with the packets that belong together joined
 *	pt_qry_*	which way a branch went; the caller walks the code
 *	pt_insn_*	instructions, from an image of the traced memory
 *	pt_blk_*	runs of instructions, the same in larger pieces
 *
 * and pt_enc_* writes packets. A decoder is used like this:
 *
 *	struct pt_config config;
 *
 *	pt_config_init(&config);
 *	config.begin = trace;
 *	config.end = trace + size;
 *	decoder = pt_blk_alloc_decoder(&config);
 *	pt_image_add_file(pt_blk_get_image(decoder), "a.out", offset, size, NULL, vaddr);
 *	status = pt_blk_sync_forward(decoder);
 *	while (status >= 0) {
 *		while (status & pts_event_pending)
 *			status = pt_blk_event(decoder, &event, sizeof(event));
 *		status = pt_blk_next(decoder, &block, sizeof(block));
 *	}
 *
 * Rules for all functions, which are not repeated below:
 * - A function that returns int returns a negative enum pt_error_code when it
 *   fails: use pt_errcode() and pt_errstr(). NULL where an object is needed
 *   gives -pte_invalid; running out of memory gives -pte_nomem.
 * - A position is an offset in bytes from pt_config's begin.
 * - A function that fills a struct gets its size from the caller and fills no
 *   more than that, so that programs built with an older header keep working.
 *   The part of a larger struct that this library does not know is zeroed.
 * - "Decoding errors" are -pte_bad_opc (unknown packet), -pte_bad_packet
 *   (impossible payload), -pte_bad_context (packet out of place), -pte_eos
 *   (the trace ends), and -pte_nosync (not synchronised: use *_sync_*).
 * - Different objects may be used by different threads; one object by one
 *   thread at a time. A section cache may be shared by all.
 */
#ifndef INTEL_PT_H
#define INTEL_PT_H

#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How exported functions are declared; may be defined before this is included. */
#ifndef pt_export
#if defined(__GNUC__)
#define pt_export __attribute__((visibility("default")))
#elif defined(_MSC_VER)
#define pt_export __declspec(dllimport)
#else
#error "how does this compiler mark a function as exported?"
#endif
#endif

/* ---- Version ---- */

/* The version of libipt whose interface this is. */
#define LIBIPT_VERSION_MAJOR 2
#define LIBIPT_VERSION_MINOR 3
#define LIBIPT_VERSION_PATCH 0

#define LIBIPT_VERSION ((LIBIPT_VERSION_MAJOR << 8) + LIBIPT_VERSION_MINOR)

struct pt_version {
	uint8_t major;
	uint8_t minor;
	uint16_t patch;
	uint32_t build;
	const char *ext; /* who built it; a static string */
};

/* The version of the library that is loaded. */
extern pt_export struct pt_version pt_library_version(void);

/* ---- Errors ---- */

enum pt_error_code {
	pte_ok,
	pte_internal,	       /* a bug in the library */
	pte_invalid,	       /* wrong argument */
	pte_nosync,	       /* not synchronised, or no PSB there */
	pte_bad_opc,	       /* unknown packet */
	pte_bad_packet,	       /* impossible payload */
	pte_bad_context,       /* packet where the SDM does not allow it */
	pte_eos,	       /* end of the trace */
	pte_bad_query,	       /* the trace has something else than was queried */
	pte_nomem,	       /* out of memory */
	pte_bad_config,	       /* pt_config */
	pte_noip,	       /* no address is known */
	pte_ip_suppressed,     /* the packet suppresses the address */
	pte_nomap,	       /* code that is not in the image */
	pte_bad_insn,	       /* bytes that are not an instruction */
	pte_no_time,	       /* no TSC so far */
	pte_no_cbr,	       /* no core:bus ratio so far */
	pte_bad_image,	       /* no such section, or its file was changed or removed */
	pte_bad_lock,	       /* a mutex failed */
	pte_not_supported,     /* not in this library */
	pte_retstack_empty,    /* a compressed return without a call before it */
	pte_bad_retcomp,       /* a compressed return that is not taken */
	pte_bad_status_update, /* a PSB+ contradicts the state */
	pte_no_enable,	       /* packets need tracing to be on */
	pte_event_ignored,     /* events must be fetched before */
	pte_overflow,	       /* a number does not fit */
	pte_bad_file,	       /* cannot be opened, read or mapped */
	pte_bad_cpu	       /* not a known processor */
};

/* The error code of a function's result; pte_ok for success. */
static inline enum pt_error_code pt_errcode(int status)
{
	return status < 0 ? (enum pt_error_code)(-status) : pte_ok;
}

/* A short static text for any number. */
extern pt_export const char *pt_errstr(enum pt_error_code code);

/* ---- Configuration ---- */

enum pt_cpu_vendor {
	pcv_unknown,
	pcv_intel
};

/* The processor's identity as in CPUID.01H: display family and display model. */
struct pt_cpu {
	enum pt_cpu_vendor vendor;
	uint16_t family;
	uint8_t model;
	uint8_t stepping;
};

/* Errata of processors that decoding must allow for. Fill this with pt_cpu_errata(). */
struct pt_errata {
	uint32_t bdm70 : 1;  /* PSB+ before TIP.PGE holds a FUP and a MODE.Exec too many */
	uint32_t bdm64 : 1;  /* a wrong target is traced when a branch is followed by an abort */
	uint32_t skd007 : 1; /* an OVF cuts a CYC after its first byte */
	uint32_t skd022 : 1; /* VM entry that disables tracing: a FUP before the TIP.PGD */
	uint32_t skd010 : 1; /* the FUP or TIP.PGE after an OVF is missing */
	uint32_t skl014 : 1; /* TIP.PGD on leaving the filter by a direct branch lacks its IP */
	uint32_t apl12 : 1;  /* a FUP after an OVF although the filter keeps tracing off */
	uint32_t apl11 : 1;  /* a TIP.PGD after an OVF */
	uint32_t skl168 : 1; /* a CYC, and its MTC, right before a PSB is lost */
	uint32_t skz84 : 1;  /* under TSC scaling a TMA is wrong and one byte too long */

	uint32_t reserved[15]; /* 0 */
};

/* Options of decoders; a member for each kind of decoder. */
struct pt_conf_flags {
	union {
		struct {
			uint32_t end_on_call : 1;	 /* calls end blocks */
			uint32_t enable_tick_events : 1; /* report ptev_tick */
			uint32_t end_on_jump : 1;	 /* jumps end blocks */
			uint32_t
			    keep_tcal_on_ovf : 1; /* keep the time calibration across an overflow */
			uint32_t
			    enable_iflags_events : 1; /* report ptev_iflags; needs event tracing */
		} block;

		struct {
			uint32_t enable_tick_events : 1;
			uint32_t keep_tcal_on_ovf : 1;
			uint32_t enable_iflags_events : 1;
		} insn;

		struct {
			uint32_t keep_tcal_on_ovf : 1;
			uint32_t enable_iflags_events : 1;
		} query;

		struct {
			uint32_t keep_tcal_on_ovf : 1;
			uint32_t enable_iflags_events : 1;
		} event;

		uint32_t reserved[4]; /* 0 */
	} variant;
};

/* IA32_RTIT_CTL.ADDRn_CFG and the ranges IA32_RTIT_ADDRn_A to _B, both inclusive. */
struct pt_conf_addr_filter {
	union {
		uint64_t addr_cfg;

		struct {
			uint32_t addr0_cfg : 4; /* 0: off, 1: filter, 2: stop */
			uint32_t addr1_cfg : 4;
			uint32_t addr2_cfg : 4;
			uint32_t addr3_cfg : 4;
		} ctl;
	} config;

	uint64_t addr0_a;
	uint64_t addr0_b;
	uint64_t addr1_a;
	uint64_t addr1_b;
	uint64_t addr2_a;
	uint64_t addr2_b;
	uint64_t addr3_a;
	uint64_t addr3_b;

	uint64_t reserved[8]; /* 0 */
};

struct pt_packet_unknown;

/* Call pt_config_init() first; only begin and end must be set then. */
struct pt_config {
	size_t size; /* of this struct as the caller knows it */

	uint8_t *begin; /* the trace: owned by the caller, must outlive the decoder */
	uint8_t *end;	/* after its last byte */

	/*
	 * Called for packets that the library does not know. The callback returns the packet's size
	 * in bytes, at most 255, or an error code, and may fill in `unknown`. NULL: such packets
	 * are -pte_bad_opc.
	 */
	struct {
		int (*callback)(struct pt_packet_unknown *unknown, const struct pt_config *config,
				const uint8_t *pos, void *context);
		void *context; /* passed to the callback */
	} decode;

	struct pt_cpu cpu; /* the processor that was traced */
	struct pt_errata errata;

	uint32_t cpuid_0x15_eax, cpuid_0x15_ebx; /* TSC:crystal ratio; for MTC */
	uint8_t mtc_freq;			 /* IA32_RTIT_CTL.MTCFreq; for MTC */
	uint8_t nom_freq;			 /* MSR_PLATFORM_INFO[15:8]; for CYC; 0: unknown */

	struct pt_conf_flags flags;
	struct pt_conf_addr_filter addr_filter;
};

static inline void pt_config_init(struct pt_config *config)
{
	memset(config, 0, sizeof(*config));
	config->size = sizeof(*config);
}

/* Sets `errata` to those of `cpu`. -pte_bad_cpu: a processor without known errata. */
extern pt_export int pt_cpu_errata(struct pt_errata *errata, const struct pt_cpu *cpu);

/* ---- Packets (SDM vol. 3, "Packet Definitions") ---- */

enum pt_packet_type {
	ppt_invalid,
	ppt_unknown, /* a packet that the callback knows */

	ppt_pad,
	ppt_psb,
	ppt_psbend,

	ppt_fup,
	ppt_tip,
	ppt_tip_pge,
	ppt_tip_pgd,

	ppt_tnt_8,
	ppt_tnt_64,

	ppt_mode,
	ppt_pip,
	ppt_vmcs,

	ppt_cbr,
	ppt_tsc,
	ppt_tma,
	ppt_mtc,
	ppt_cyc,

	ppt_stop,
	ppt_ovf,
	ppt_mnt,

	ppt_exstop,
	ppt_mwait,
	ppt_pwre,
	ppt_pwrx,

	ppt_ptw,

	ppt_cfe,
	ppt_evd,

	ppt_trig
};

/* IPBytes: which part of the address a packet has. */
enum pt_ip_compression {
	pt_ipc_suppressed = 0,
	pt_ipc_update_16 = 1, /* the low 16 bits; the others are those of the last IP */
	pt_ipc_update_32 = 2,
	pt_ipc_sext_48 = 3, /* 48 bits, sign extended */
	pt_ipc_update_48 = 4,
	pt_ipc_full = 6
};

/* FUP, TIP, TIP.PGE, TIP.PGD */
struct pt_packet_ip {
	enum pt_ip_compression ipc;
	uint64_t ip; /* as in the packet; bits that `ipc` leaves out are 0 */
};

struct pt_packet_tnt {
	uint8_t bit_size;
	uint64_t payload; /* the oldest branch is bit `bit_size` - 1 */
};

enum pt_exec_mode {
	ptem_unknown,
	ptem_16bit,
	ptem_32bit,
	ptem_64bit
};

enum pt_mode_leaf {
	pt_mol_exec = 0x00,
	pt_mol_tsx = 0x20
};

struct pt_packet_mode_exec {
	uint32_t csl : 1;   /* CS.L and IA32_EFER.LMA */
	uint32_t csd : 1;   /* CS.D */
	uint32_t iflag : 1; /* RFLAGS.IF; needs event tracing */
};

static inline enum pt_exec_mode pt_get_exec_mode(const struct pt_packet_mode_exec *packet)
{
	if (packet->csl && packet->csd)
		return ptem_unknown;
	if (packet->csl)
		return ptem_64bit;
	return packet->csd ? ptem_32bit : ptem_16bit;
}

static inline struct pt_packet_mode_exec pt_set_exec_mode(enum pt_exec_mode mode)
{
	struct pt_packet_mode_exec packet;

	memset(&packet, 0, sizeof(packet));
	packet.csl = mode != ptem_16bit && mode != ptem_32bit;
	packet.csd = mode != ptem_16bit && mode != ptem_64bit;
	return packet;
}

struct pt_packet_mode_tsx {
	uint32_t intx : 1;
	uint32_t abrt : 1;
};

struct pt_packet_mode {
	enum pt_mode_leaf leaf; /* which member of `bits` is used */
	union {
		struct pt_packet_mode_exec exec;
		struct pt_packet_mode_tsx tsx;
	} bits;
};

struct pt_packet_pip {
	uint64_t cr3;
	uint32_t nr : 1; /* VMX non-root operation */
};

struct pt_packet_vmcs {
	uint64_t base; /* address of the VMCS */
};

struct pt_packet_cbr {
	uint8_t ratio;
};

struct pt_packet_tsc {
	uint64_t tsc; /* 56 bits */
};

struct pt_packet_tma {
	uint16_t ctc;
	uint16_t fc; /* 9 bits */
};

struct pt_packet_mtc {
	uint8_t ctc;
};

struct pt_packet_cyc {
	uint64_t value;
};

struct pt_packet_mnt {
	uint64_t payload;
};

struct pt_packet_exstop {
	uint32_t ip : 1; /* a FUP follows */
};

struct pt_packet_mwait {
	uint32_t hints; /* EAX */
	uint32_t ext;	/* ECX */
};

struct pt_packet_pwre {
	uint8_t state;
	uint8_t sub_state;
	uint32_t hw : 1; /* entered by the hardware */
};

struct pt_packet_pwrx {
	uint8_t last;
	uint8_t deepest;
	uint32_t interrupt : 1;	 /* woken by: an interrupt, */
	uint32_t store : 1;	 /* a store to the monitored address, */
	uint32_t autonomous : 1; /* the hardware */
};

struct pt_packet_ptw {
	uint64_t payload;
	uint8_t plc;	 /* PayloadBytes: see pt_ptw_size() */
	uint32_t ip : 1; /* a FUP follows */
};

/* The payload's size in bytes for its code; -pte_bad_packet for reserved codes. */
static inline int pt_ptw_size(uint8_t plc)
{
	if (plc > 3)
		return -pte_internal;
	if (plc > 1)
		return -pte_bad_packet;
	return plc ? 8 : 4;
}

/* The types of CFE (SDM vol. 3, "Control Flow Event (CFE)"). */
enum pt_cfe_type {
	pt_cfe_intr = 1,
	pt_cfe_iret = 2,
	pt_cfe_smi = 3,
	pt_cfe_rsm = 4,
	pt_cfe_sipi = 5,
	pt_cfe_init = 6,
	pt_cfe_vmentry = 7,
	pt_cfe_vmexit = 8,
	pt_cfe_vmexit_intr = 9,
	pt_cfe_shutdown = 10,
	pt_cfe_uintr = 12,
	pt_cfe_uiret = 13,
	pt_cfe_swintr = 14,
	pt_cfe_syscall = 15
};

/* Vectors of exceptions. */
enum pt_cfe_intr {
	pt_cfe_intr_de = 0,
	pt_cfe_intr_db = 1,
	pt_cfe_intr_nmi = 2,
	pt_cfe_intr_bp = 3,
	pt_cfe_intr_of = 4,
	pt_cfe_intr_br = 5,
	pt_cfe_intr_ud = 6,
	pt_cfe_intr_nm = 7,
	pt_cfe_intr_df = 8,
	pt_cfe_intr_ts = 10,
	pt_cfe_intr_np = 11,
	pt_cfe_intr_ss = 12,
	pt_cfe_intr_gp = 13,
	pt_cfe_intr_pf = 14,
	pt_cfe_intr_mf = 16,
	pt_cfe_intr_ac = 17,
	pt_cfe_intr_mc = 18,
	pt_cfe_intr_xm = 19,
	pt_cfe_intr_ve = 20,
	pt_cfe_intr_cp = 21
};

struct pt_packet_cfe {
	enum pt_cfe_type type;
	uint8_t vector;	 /* of the types that have one */
	uint32_t ip : 1; /* a FUP follows */
};

/* The data that an EVD adds to the CFE after it. */
enum pt_evd_type {
	pt_evd_cr2 = 0,	 /* the address of a page fault */
	pt_evd_vmxq = 1, /* VM-exit qualification */
	pt_evd_vmxr = 2	 /* VM-exit reason */
};

struct pt_packet_evd {
	enum pt_evd_type type;
	uint64_t payload;
};

struct pt_packet_trig {
	uint8_t trbv;	    /* which triggers fired, a bit each */
	uint16_t icnt;	    /* instructions since the last branch */
	uint32_t ip : 1;    /* a FUP follows */
	uint32_t icntv : 1; /* icnt is valid */
	uint32_t mult : 1;  /* several triggers in one packet */
};

/* A packet as the callback described it. */
struct pt_packet_unknown {
	const uint8_t *packet; /* set by the library */
	void *priv;	       /* for the callback */
};

struct pt_packet {
	enum pt_packet_type type;
	uint8_t size; /* in bytes; set by the decoder, ignored by the encoder */

	/* Named after the type. No payload: pad, psb, psbend, stop, ovf. */
	union {
		struct pt_packet_tnt tnt;
		struct pt_packet_ip ip;
		struct pt_packet_mode mode;
		struct pt_packet_pip pip;
		struct pt_packet_tsc tsc;
		struct pt_packet_cbr cbr;
		struct pt_packet_tma tma;
		struct pt_packet_mtc mtc;
		struct pt_packet_cyc cyc;
		struct pt_packet_vmcs vmcs;
		struct pt_packet_mnt mnt;
		struct pt_packet_exstop exstop;
		struct pt_packet_mwait mwait;
		struct pt_packet_pwre pwre;
		struct pt_packet_pwrx pwrx;
		struct pt_packet_ptw ptw;
		struct pt_packet_cfe cfe;
		struct pt_packet_evd evd;
		struct pt_packet_trig trig;
		struct pt_packet_unknown unknown;
	} payload;
};

/* ---- Writing packets ---- */

struct pt_encoder;

/*
 * Writes to the buffer of the configuration, from its beginning. NULL: bad configuration or out of
 * memory.
 */
extern pt_export struct pt_encoder *pt_alloc_encoder(const struct pt_config *config);
extern pt_export void pt_free_encoder(struct pt_encoder *encoder);

/* The encoder's own copy; NULL for NULL. */
extern pt_export const struct pt_config *pt_enc_get_config(const struct pt_encoder *encoder);

/* The position of the next packet. Setting it outside of the buffer is -pte_eos. */
extern pt_export int pt_enc_sync_set(struct pt_encoder *encoder, uint64_t offset);
extern pt_export int pt_enc_get_offset(const struct pt_encoder *encoder, uint64_t *offset);

/*
 * Writes a packet and returns its size in bytes. Nothing is written on an
 * error: -pte_eos (no room), -pte_bad_opc (type), -pte_bad_packet (payload).
 */
extern pt_export int pt_enc_next(struct pt_encoder *encoder, const struct pt_packet *packet);

/* ---- Reading packets ---- */

struct pt_packet_decoder;

/* NULL: bad configuration or out of memory. */
extern pt_export struct pt_packet_decoder *pt_pkt_alloc_decoder(const struct pt_config *config);
extern pt_export void pt_pkt_free_decoder(struct pt_packet_decoder *decoder);

/* The decoder's own copy; NULL for NULL. */
extern pt_export const struct pt_config *pt_pkt_get_config(const struct pt_packet_decoder *decoder);

/*
 * Moves to the next PSB, to the previous one, or to any offset. The first search begins at the
 * trace's end from which it leads away. -pte_eos: there is no such PSB, or the offset is outside.
 */
extern pt_export int pt_pkt_sync_forward(struct pt_packet_decoder *decoder);
extern pt_export int pt_pkt_sync_backward(struct pt_packet_decoder *decoder);
extern pt_export int pt_pkt_sync_set(struct pt_packet_decoder *decoder, uint64_t offset);

/* The offset of the next packet, and that of the last synchronisation. */
extern pt_export int pt_pkt_get_offset(const struct pt_packet_decoder *decoder, uint64_t *offset);
extern pt_export int pt_pkt_get_sync_offset(const struct pt_packet_decoder *decoder,
					    uint64_t *offset);

/* Reads a packet and moves past it. Returns its size, or a decoding error without moving. */
extern pt_export int pt_pkt_next(struct pt_packet_decoder *decoder, struct pt_packet *packet,
				 size_t size);

/* ---- Events ---- */

enum pt_event_type {
	ptev_enabled,	     /* tracing was turned on */
	ptev_disabled,	     /* tracing was turned off, at a branch */
	ptev_async_disabled, /* tracing was turned off, at any instruction */
	ptev_async_branch,   /* interrupt, exception, abort, ... */
	ptev_paging,	     /* CR3, by the current instruction */
	ptev_async_paging,   /* CR3, at an address */
	ptev_overflow,	     /* packets were lost */
	ptev_exec_mode,
	ptev_tsx,
	ptev_stop, /* TraceStop */
	ptev_vmcs,
	ptev_async_vmcs,
	ptev_exstop, /* execution stopped */
	ptev_mwait,
	ptev_pwre, /* power state entered */
	ptev_pwrx, /* power state left */
	ptev_ptwrite,
	ptev_tick, /* the time changed */
	ptev_cbr,
	ptev_mnt,
	ptev_tip, /* pt_evt_* alone: an indirect branch */
	ptev_tnt, /* pt_evt_* alone: conditional branches */
	ptev_iflags,
	/* Event tracing: CFE and EVD. */
	ptev_interrupt,
	ptev_iret,
	ptev_smi,
	ptev_rsm,
	ptev_sipi,
	ptev_init,
	ptev_vmentry,
	ptev_vmexit,
	ptev_shutdown,
	ptev_uintr,
	ptev_uiret,
	ptev_trig,
	ptev_swintr,
	ptev_syscall
};

struct pt_event {
	enum pt_event_type type;

	uint32_t ip_suppressed : 1; /* the variant's ip (of a branch: to) is unknown */
	uint32_t status_update : 1; /* no change: a PSB+ repeats the state */
	uint32_t has_tsc : 1;	    /* tsc is TSC time; otherwise it counts from the PSB */

	uint64_t tsc;	   /* in TSC ticks */
	uint32_t lost_mtc; /* packets about time that were not used */
	uint32_t lost_cyc;

	uint64_t reserved[2];

	/*
	 * Named after the type; stop has none. `ip` is the address at which the event takes effect.
	 */
	union {
		struct {
			uint64_t ip;
			uint32_t resumed : 1; /* at the address where tracing was turned off */
		} enabled;

		struct {
			uint64_t ip; /* the branch's target */
		} disabled;

		struct {
			uint64_t at; /* the instruction before which it happened */
			uint64_t ip;
		} async_disabled;

		struct {
			uint64_t from;
			uint64_t to;
		} async_branch;

		struct {
			uint64_t cr3;
			uint32_t non_root : 1;
		} paging;

		struct {
			uint64_t cr3;
			uint32_t non_root : 1;
			uint64_t ip;
		} async_paging;

		struct {
			uint64_t ip; /* the first instruction after it */
		} overflow;

		struct {
			enum pt_exec_mode mode;
			uint64_t ip;
		} exec_mode;

		struct {
			uint64_t ip;
			uint32_t speculative : 1; /* inside a transaction from here on */
			uint32_t aborted : 1;
		} tsx;

		struct {
			uint64_t base;
		} vmcs;

		struct {
			uint64_t base;
			uint64_t ip;
		} async_vmcs;

		struct {
			uint64_t ip;
		} exstop;

		struct {
			uint64_t ip;
			uint32_t hints; /* EAX */
			uint32_t ext;	/* ECX */
		} mwait;

		struct {
			uint8_t state;
			uint8_t sub_state;
			uint32_t hw : 1;
		} pwre;

		struct {
			uint8_t last;
			uint8_t deepest;
			uint32_t interrupt : 1;
			uint32_t store : 1;
			uint32_t autonomous : 1;
		} pwrx;

		struct {
			uint64_t ip;
			uint8_t size; /* of the payload: 4 or 8 bytes */
			uint64_t payload;
		} ptwrite;

		struct {
			uint64_t ip;
		} tick;

		struct {
			uint16_t ratio;
		} cbr;

		struct {
			uint64_t payload;
		} mnt;

		struct {
			uint64_t ip;
		} tip;

		struct {
			uint64_t bits; /* the oldest branch is bit `size` - 1 */
			uint8_t size;
		} tnt;

		struct {
			uint32_t iflag : 1;
			uint64_t ip;
		} iflags;

		struct {
			uint32_t has_cr2 : 1;
			uint8_t vector;
			uint64_t cr2;
			uint64_t ip;
		} interrupt;

		struct {
			uint64_t ip;
		} iret;

		struct {
			uint64_t ip;
		} smi;

		struct {
			uint64_t ip;
		} rsm;

		struct {
			uint8_t vector;
		} sipi;

		struct {
			uint64_t ip;
		} init;

		struct {
			uint64_t ip;
		} vmentry;

		struct {
			uint32_t has_vector : 1;
			uint32_t has_vmxr : 1;
			uint32_t has_vmxq : 1;
			uint8_t vector;
			uint64_t vmxr; /* reason */
			uint64_t vmxq; /* qualification */
			uint64_t ip;
		} vmexit;

		struct {
			uint64_t ip;
		} shutdown;

		struct {
			uint8_t vector;
			uint64_t ip;
		} uintr;

		struct {
			uint64_t ip;
		} uiret;

		struct {
			uint8_t trbv;
			uint16_t icnt; /* instructions from here to the event */
			uint64_t ip;
			uint32_t mult : 1;
		} trig;

		struct {
			uint8_t vector;
			uint64_t ip;
		} swintr;

		struct {
			uint64_t ip;
		} syscall;
	} variant;
};

/* ---- Reading events ---- */

struct pt_event_decoder;

/* NULL: bad configuration or out of memory. */
extern pt_export struct pt_event_decoder *pt_evt_alloc_decoder(const struct pt_config *config);
extern pt_export void pt_evt_free_decoder(struct pt_event_decoder *decoder);
extern pt_export const struct pt_config *pt_evt_get_config(const struct pt_event_decoder *decoder);

/* Like pt_pkt_sync_*, but there must be a PSB at `offset`; otherwise -pte_nosync. */
extern pt_export int pt_evt_sync_forward(struct pt_event_decoder *decoder);
extern pt_export int pt_evt_sync_backward(struct pt_event_decoder *decoder);
extern pt_export int pt_evt_sync_set(struct pt_event_decoder *decoder, uint64_t offset);

extern pt_export int pt_evt_get_offset(const struct pt_event_decoder *decoder, uint64_t *offset);
extern pt_export int pt_evt_get_sync_offset(const struct pt_event_decoder *decoder,
					    uint64_t *offset);

/* Reads an event. Returns 0 or more, or a decoding error. */
extern pt_export int pt_evt_next(struct pt_event_decoder *decoder, struct pt_event *event,
				 size_t size);

/* ---- Querying the trace ---- */

/* What the functions below return on success, or'ed together. */
enum pt_status_flag {
	pts_event_pending = 1 << 0, /* fetch the event before continuing */
	pts_ip_suppressed = 1 << 1, /* the address is unknown */
	pts_eos = 1 << 2	    /* nothing more follows */
};

struct pt_query_decoder;

/* NULL: bad configuration or out of memory. */
extern pt_export struct pt_query_decoder *pt_qry_alloc_decoder(const struct pt_config *config);
extern pt_export void pt_qry_free_decoder(struct pt_query_decoder *decoder);
extern pt_export const struct pt_config *pt_qry_get_config(const struct pt_query_decoder *decoder);

/*
 * Like pt_evt_sync_*. `ip` (may be NULL) receives the current address, unless pts_ip_suppressed is
 * set.
 */
extern pt_export int pt_qry_sync_forward(struct pt_query_decoder *decoder, uint64_t *ip);
extern pt_export int pt_qry_sync_backward(struct pt_query_decoder *decoder, uint64_t *ip);
extern pt_export int pt_qry_sync_set(struct pt_query_decoder *decoder, uint64_t *ip,
				     uint64_t offset);

extern pt_export int pt_qry_get_offset(const struct pt_query_decoder *decoder, uint64_t *offset);
extern pt_export int pt_qry_get_sync_offset(const struct pt_query_decoder *decoder,
					    uint64_t *offset);

/*
 * The next conditional branch (1: taken), the next indirect branch's target, the next event: call
 * them in the trace's order. -pte_bad_query: something else comes next. Otherwise pt_status_flag or
 * a decoding error.
 */
extern pt_export int pt_qry_cond_branch(struct pt_query_decoder *decoder, int *taken);
extern pt_export int pt_qry_indirect_branch(struct pt_query_decoder *decoder, uint64_t *ip);
extern pt_export int pt_qry_event(struct pt_query_decoder *decoder, struct pt_event *event,
				  size_t size);

/*
 * The time in TSC ticks, and how many MTC and CYC packets were not used (each may be NULL).
 * -pte_no_time: there was no TSC yet, and `time` counts from the PSB.
 */
extern pt_export int pt_qry_time(struct pt_query_decoder *decoder, uint64_t *time,
				 uint32_t *lost_mtc, uint32_t *lost_cyc);

/* The ratio of the last CBR. -pte_no_cbr: there was none yet. */
extern pt_export int pt_qry_core_bus_ratio(struct pt_query_decoder *decoder, uint32_t *cbr);

/* ---- Traced memory ---- */

/* An address space, as far as the trace identifies it. */
struct pt_asid {
	size_t size; /* of this struct as the caller knows it */
	uint64_t cr3;
	uint64_t vmcs;
};

/* Matches any value. */
static const uint64_t pt_asid_no_cr3 = ~(uint64_t)0;
static const uint64_t pt_asid_no_vmcs = ~(uint64_t)0;

/* Matches any address space. */
static inline void pt_asid_init(struct pt_asid *asid)
{
	asid->size = sizeof(*asid);
	asid->cr3 = pt_asid_no_cr3;
	asid->vmcs = pt_asid_no_vmcs;
}

/*
 * A cache of sections: pieces of files, each at an address. Images share them by number (isid),
 * from 1 on. The cache may be freed while images still use its sections.
 */
struct pt_image_section_cache;

/* The name is copied and may be NULL. */
extern pt_export struct pt_image_section_cache *pt_iscache_alloc(const char *name);
extern pt_export void pt_iscache_free(struct pt_image_section_cache *iscache);
extern pt_export const char *pt_iscache_name(const struct pt_image_section_cache *iscache);

/* How many bytes of sections stay in memory when they are not used, about. */
extern pt_export int pt_iscache_set_limit(struct pt_image_section_cache *iscache, uint64_t limit);

/*
 * Adds `size` bytes at `offset` of a file, or as many as it has, at `vaddr`. Returns the isid,
 * which is the same for the same section. -pte_invalid: no such file, or the offset is after its
 * end.
 */
extern pt_export int pt_iscache_add_file(struct pt_image_section_cache *iscache,
					 const char *filename, uint64_t offset, uint64_t size,
					 uint64_t vaddr);

/*
 * Copies memory of one section at `vaddr`. Returns the number of bytes, which may be less than
 * `size`. -pte_bad_image (no such isid), -pte_nomap.
 */
extern pt_export int pt_iscache_read(struct pt_image_section_cache *iscache, uint8_t *buffer,
				     uint64_t size, int isid, uint64_t vaddr);

/* Sections in address spaces: the memory of the traced program. */
struct pt_image;

/* The name is copied and may be NULL. */
extern pt_export struct pt_image *pt_image_alloc(const char *name);
extern pt_export void pt_image_free(struct pt_image *image);
extern pt_export const char *pt_image_name(const struct pt_image *image);

/*
 * Adds a section: of a file, as in pt_iscache_add_file(), or of a cache. Where it covers other
 * sections, these are cut. NULL for `asid`: visible in any address space.
 */
extern pt_export int pt_image_add_file(struct pt_image *image, const char *filename,
				       uint64_t offset, uint64_t size, const struct pt_asid *asid,
				       uint64_t vaddr);
extern pt_export int pt_image_add_cached(struct pt_image *image,
					 struct pt_image_section_cache *iscache, int isid,
					 const struct pt_asid *asid);

/* Adds all sections of `src`. Returns how many could not be added. */
extern pt_export int pt_image_copy(struct pt_image *image, const struct pt_image *src);

/* Removes the sections from one file, or all, in matching address spaces. Returns how many. */
extern pt_export int pt_image_remove_by_filename(struct pt_image *image, const char *filename,
						 const struct pt_asid *asid);
extern pt_export int pt_image_remove_by_asid(struct pt_image *image, const struct pt_asid *asid);

/*
 * Reads memory that no section has: up to `size` bytes at `ip` of `asid`. Returns the number of
 * bytes or an error. Must not change the image.
 */
typedef int(read_memory_callback_t)(uint8_t *buffer, size_t size, const struct pt_asid *asid,
				    uint64_t ip, void *context);

/* An image has one callback; NULL: none. */
extern pt_export int pt_image_set_callback(struct pt_image *image, read_memory_callback_t *callback,
					   void *context);

/* ---- Instructions ---- */

enum pt_insn_class {
	ptic_unknown,
	ptic_error = ptic_unknown, /* its name before 2.1 */
	ptic_other,
	ptic_call,
	ptic_return,
	ptic_jump,
	ptic_cond_jump,
	ptic_far_call, /* INT, SYSCALL, VMCALL, ... */
	ptic_far_return,
	ptic_far_jump,
	ptic_ptwrite,
	ptic_indirect /* a branch of unknown class */
};

enum {
	pt_max_insn_size = 15
};

struct pt_insn {
	uint64_t ip;
	int isid; /* of the section with its first byte; 0: it is not in a cache */
	enum pt_exec_mode mode;
	enum pt_insn_class iclass;
	uint8_t raw[pt_max_insn_size];
	uint8_t size;		  /* bytes in raw */
	uint32_t speculative : 1; /* in a transaction */
	uint32_t truncated : 1;	  /* continues in another section */
};

struct pt_insn_decoder;

/* The decoder has an image of its own. NULL: bad configuration or out of memory. */
extern pt_export struct pt_insn_decoder *pt_insn_alloc_decoder(const struct pt_config *config);
extern pt_export void pt_insn_free_decoder(struct pt_insn_decoder *decoder);
extern pt_export const struct pt_config *pt_insn_get_config(const struct pt_insn_decoder *decoder);

/*
 * The image that the decoder reads. Setting NULL restores its own; another one is owned by the
 * caller.
 */
extern pt_export struct pt_image *pt_insn_get_image(struct pt_insn_decoder *decoder);
extern pt_export int pt_insn_set_image(struct pt_insn_decoder *decoder, struct pt_image *image);

/* Like pt_evt_sync_*, but these return pt_status_flag. */
extern pt_export int pt_insn_sync_forward(struct pt_insn_decoder *decoder);
extern pt_export int pt_insn_sync_backward(struct pt_insn_decoder *decoder);
extern pt_export int pt_insn_sync_set(struct pt_insn_decoder *decoder, uint64_t offset);

/*
 * After an error: continues at the next address in the trace, with time and modes kept.
 * pts_ip_suppressed: tracing is off there. -pte_event_ignored: fetch the event, then call again.
 */
extern pt_export int pt_insn_resync(struct pt_insn_decoder *decoder);

extern pt_export int pt_insn_get_offset(const struct pt_insn_decoder *decoder, uint64_t *offset);
extern pt_export int pt_insn_get_sync_offset(const struct pt_insn_decoder *decoder,
					     uint64_t *offset);

/* Like pt_qry_time() and pt_qry_core_bus_ratio(). */
extern pt_export int pt_insn_time(struct pt_insn_decoder *decoder, uint64_t *time,
				  uint32_t *lost_mtc, uint32_t *lost_cyc);
extern pt_export int pt_insn_core_bus_ratio(struct pt_insn_decoder *decoder, uint32_t *cbr);

/* The current address space. */
extern pt_export int pt_insn_asid(const struct pt_insn_decoder *decoder, struct pt_asid *asid,
				  size_t size);

/*
 * Reads the next instruction: pt_status_flag, or a decoding error, or -pte_nomap, -pte_bad_insn,
 * -pte_bad_query (the code is not what ran), and -pte_event_ignored. After an error the struct may
 * have the address.
 */
extern pt_export int pt_insn_next(struct pt_insn_decoder *decoder, struct pt_insn *insn,
				  size_t size);

/* Reads the next event, at the current address. -pte_bad_query: there is none. */
extern pt_export int pt_insn_event(struct pt_insn_decoder *decoder, struct pt_event *event,
				   size_t size);

/* ---- Blocks ---- */

/* Instructions that ran one after another, including direct branches. */
struct pt_block {
	uint64_t ip;	 /* of the first */
	uint64_t end_ip; /* of the last: the address of its first byte */
	int isid;	 /* of the section that has all of them; 0: it is not in a cache */
	enum pt_exec_mode mode;
	enum pt_insn_class iclass; /* of the last; ptic_unknown: not known */
	uint16_t ninsn;
	uint8_t raw[pt_max_insn_size]; /* bytes of the last one, if truncated */
	uint8_t size;
	uint32_t speculative : 1; /* in a transaction */
	uint32_t truncated : 1;	  /* the last one continues in another section */
};

struct pt_block_decoder;

/* Like the pt_insn_* functions of the same name. */
extern pt_export struct pt_block_decoder *pt_blk_alloc_decoder(const struct pt_config *config);
extern pt_export void pt_blk_free_decoder(struct pt_block_decoder *decoder);
extern pt_export const struct pt_config *pt_blk_get_config(const struct pt_block_decoder *decoder);
extern pt_export struct pt_image *pt_blk_get_image(struct pt_block_decoder *decoder);
extern pt_export int pt_blk_set_image(struct pt_block_decoder *decoder, struct pt_image *image);
extern pt_export int pt_blk_sync_forward(struct pt_block_decoder *decoder);
extern pt_export int pt_blk_sync_backward(struct pt_block_decoder *decoder);
extern pt_export int pt_blk_sync_set(struct pt_block_decoder *decoder, uint64_t offset);
extern pt_export int pt_blk_resync(struct pt_block_decoder *decoder);
extern pt_export int pt_blk_get_offset(const struct pt_block_decoder *decoder, uint64_t *offset);
extern pt_export int pt_blk_get_sync_offset(const struct pt_block_decoder *decoder,
					    uint64_t *offset);
extern pt_export int pt_blk_time(struct pt_block_decoder *decoder, uint64_t *time,
				 uint32_t *lost_mtc, uint32_t *lost_cyc);
extern pt_export int pt_blk_core_bus_ratio(struct pt_block_decoder *decoder, uint32_t *cbr);
extern pt_export int pt_blk_asid(const struct pt_block_decoder *decoder, struct pt_asid *asid,
				 size_t size);

/*
 * Reads the next block; see pt_insn_next(). After an error the block has the instructions that ran
 * before it.
 */
extern pt_export int pt_blk_next(struct pt_block_decoder *decoder, struct pt_block *block,
				 size_t size);
extern pt_export int pt_blk_event(struct pt_block_decoder *decoder, struct pt_event *event,
				  size_t size);

#ifdef __cplusplus
}
#endif

#endif
