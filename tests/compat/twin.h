/* SPDX-License-Identifier: MIT */
/*
 * One client of libipt's interface with two libraries at once.
 *
 * Every call is made on both sides, and after every call everything that a client can see is
 * compared: what was returned and written, the decoder's position, and its time. Side 0 is the
 * library that is tested, side 1 the reference.
 */
#ifndef PTAH_TESTS_COMPAT_TWIN_H
#define PTAH_TESTS_COMPAT_TWIN_H

#include <intel-pt.h>

#include <stdbool.h>

/* Functions of the decoders; each line is a family's prefix and what only some families have. */
#define TWIN_DECODER(X, p)                                                                         \
	X(pt_##p##_alloc_decoder)                                                                  \
	X(pt_##p##_free_decoder)                                                                   \
	X(pt_##p##_sync_forward)                                                                   \
	X(pt_##p##_sync_backward)                                                                  \
	X(pt_##p##_sync_set)                                                                       \
	X(pt_##p##_get_offset)                                                                     \
	X(pt_##p##_get_sync_offset)                                                                \
	X(pt_##p##_get_config)
#define TWIN_WALKER(X, p)                                                                          \
	TWIN_DECODER(X, p)                                                                         \
	X(pt_##p##_next)                                                                           \
	X(pt_##p##_event)                                                                          \
	X(pt_##p##_resync)                                                                         \
	X(pt_##p##_time)                                                                           \
	X(pt_##p##_core_bus_ratio)                                                                 \
	X(pt_##p##_asid)                                                                           \
	X(pt_##p##_get_image)                                                                      \
	X(pt_##p##_set_image)
#define TWIN_FUNCTIONS(X)                                                                          \
	X(pt_library_version)                                                                      \
	X(pt_errstr)                                                                               \
	X(pt_cpu_errata)                                                                           \
	TWIN_DECODER(X, pkt)                                                                       \
	X(pt_pkt_next)                                                                             \
	TWIN_DECODER(X, evt)                                                                       \
	X(pt_evt_next)                                                                             \
	TWIN_DECODER(X, qry)                                                                       \
	X(pt_qry_cond_branch)                                                                      \
	X(pt_qry_indirect_branch)                                                                  \
	X(pt_qry_event)                                                                            \
	X(pt_qry_time)                                                                             \
	X(pt_qry_core_bus_ratio)                                                                   \
	TWIN_WALKER(X, insn)                                                                       \
	TWIN_WALKER(X, blk)                                                                        \
	X(pt_alloc_encoder)                                                                        \
	X(pt_free_encoder)                                                                         \
	X(pt_enc_next)                                                                             \
	X(pt_enc_sync_set)                                                                         \
	X(pt_enc_get_offset)                                                                       \
	X(pt_enc_get_config)                                                                       \
	X(pt_image_alloc)                                                                          \
	X(pt_image_free)                                                                           \
	X(pt_image_name)                                                                           \
	X(pt_image_add_file)                                                                       \
	X(pt_image_add_cached)                                                                     \
	X(pt_image_copy)                                                                           \
	X(pt_image_remove_by_filename)                                                             \
	X(pt_image_remove_by_asid)                                                                 \
	X(pt_image_set_callback)                                                                   \
	X(pt_iscache_alloc)                                                                        \
	X(pt_iscache_free)                                                                         \
	X(pt_iscache_set_limit)                                                                    \
	X(pt_iscache_name)                                                                         \
	X(pt_iscache_add_file)                                                                     \
	X(pt_iscache_read)

/* A library: its functions by name, NULL where it does not have one. */
struct twin_api {
#define TWIN_MEMBER(name) __typeof__(&(name)) name;
	TWIN_FUNCTIONS(TWIN_MEMBER)
#undef TWIN_MEMBER
	const char *path;
};

/* clock.c: what the packets about time have said up to some packet. */
struct twin_clock {
	uint64_t psb, at; /* the packets looked at: from, to */
	unsigned block;
	bool known, awaits_tma, aligned, mtc;
	uint64_t tsc, most;	 /* of TSC packets */
	uint64_t anchor, before; /* the last TSC or MTC; the one before the last */
	uint64_t high;		 /* the highest anchor, or what was possible up to it */
	uint64_t base, base_ctc, ticks, cycles;
	uint8_t ratio, slowest;
	uint64_t lows[16]; /* a ring: `before` at the last packets that are not about time */
	unsigned others;   /* how many there were */
};

/* What is decoded: a stream and the memory that it ran over. */
struct twin_section {
	char *path;
	uint64_t offset, size, address;
	struct pt_asid asid;
	const uint8_t *bytes; /* the same bytes, mapped */
};

struct twin_input {
	char name[1100];
	uint8_t *bytes;
	size_t size;
	struct twin_section *sections;
	size_t nsections;
	struct pt_config config;  /* without begin, end and the client's flags */
	bool newer;		  /* damage may insert packets that came with libipt 2.1 or later */
	struct twin_clock *clock; /* state of clock.c during a run */
	bool damaged;		  /* by twin_mutate() */
	int file;		  /* holds the sections that have no file of their own; or -1 */
};

/* These exit with a message when the input cannot be read. */
void twin_load_case(struct twin_input *input, const char *path);
void twin_load_session(struct twin_input *input, const char *path);
/* `pages` NULL: without memory. */
void twin_load_pt(struct twin_input *input, const char *pt, const char *pages, bool timed);
void twin_load_raw(struct twin_input *input, const char *pt, const char *code, uint64_t address);
void twin_input_free(struct twin_input *input);

/* Damages a window of `from`, in the same way for the same seed. Shares the sections of `from`. */
void twin_mutate(struct twin_input *to, const struct twin_input *from, uint64_t seed);

enum twin_op {
	TWIN_SYNC_FORWARD,
	TWIN_SYNC_BACKWARD,
	TWIN_SYNC_SET,
	TWIN_RESYNC,
	TWIN_NEXT,
	TWIN_EVENT,
	TWIN_COND,
	TWIN_INDIRECT
};

enum twin_decoder {
	TWIN_PACKET,
	TWIN_EVENTS,
	TWIN_QUERY,
	TWIN_INSN,
	TWIN_BLOCK
};

/* What one side returned and wrote in a call. */
struct twin_seen {
	int status;
	union {
		struct pt_packet packet;
		struct pt_event event;
		struct pt_insn insn;
		struct pt_block block;
		int taken;
		uint64_t ip;
		uint8_t bytes[128];
	} out; /* filled with 0xa5 before the call */
	int offset_status, sync_status, time_status, cbr_status, asid_status;
	uint64_t offset, sync, tsc, cr3, vmcs;
	uint32_t lost_mtc, lost_cyc, cbr;
};

struct twin_call {
	uint64_t number;
	enum twin_decoder decoder;
	enum twin_op op;
	uint64_t argument; /* of sync_set: the offset; of others: the size of the struct */
	bool since_2_1;	   /* both libraries are 2.1 or later */
	bool blind;	   /* get_offset() is not compared */
	int last_class;	   /* iclass of the last instruction or block; 0: unknown */
	bool quiet;	   /* the getters are called only where something may have changed */
	struct twin_seen side[2];
};

/* Describes the call in words; calls that compare as equal have the same words. Returns `text`. */
const char *twin_words(const struct twin_call *call, unsigned side, char *text, size_t room);
bool twin_equal(const struct twin_call *call);
/* The size of the struct that next() fills; 0: it has none. */
size_t twin_size_of_next(enum twin_decoder decoder);
const char *twin_call_name(const struct twin_call *call);

/*
 * A deliberate difference. `applies` gets a call whose sides differ and the input, and decides
 * whether this rule explains the difference.
 */
struct twin_rule {
	const char *name;
	const char *why; /* the SDM's section, or the erratum */
	bool (*applies)(const struct twin_input *input, const struct twin_call *call);
	/* Both sides may continue; otherwise both go to the next PSB. */
	bool go_on;
	/* The reference has failed already: this library must fail as well before the next PSB. */
	bool to_error;
	/* The other way round: the reference must fail. */
	bool judge_to_error;
};

extern const struct twin_rule twin_rules[], twin_walk_rules[], twin_last_rules[];
extern const unsigned twin_rule_count, twin_walk_rule_count, twin_last_rule_count;

/* A copy in which more is equal: the lost counters are, and the time where it is an estimate. */
struct twin_call twin_comparable(const struct twin_input *input, const struct twin_call *call);

/* The number of rules, and each of them in the order in which they are tried. */
unsigned twin_rule_total(void);
const struct twin_rule *twin_rule_at(unsigned i);

/* How a client behaves. */
struct twin_client {
	const char *name;
	enum twin_decoder decoder;
	enum twin_memory {
		TWIN_FILES,
		TWIN_CACHED,
		TWIN_CALLBACK,
		TWIN_STRICT /* a callback that reads all or nothing, as gdb's does */
	} memory;
	struct pt_conf_flags flags;
	enum twin_walk {
		TWIN_FORWARD,
		TWIN_BACKWARD, /* sync_backward from the end, a few steps from each */
		TWIN_SET,      /* sync_set here and there, a few steps from each */
		TWIN_WILD,     /* mixes in calls that no sensible client makes */
		TWIN_AFTER     /* resync after each error */
	} walk;
	bool quiet;	/* asks for position and time only at errors and events, and sometimes */
	bool since_2_1; /* needs libipt 2.1 or later on both sides */
};

extern const struct twin_client twin_clients[];
extern const unsigned twin_client_count;

struct twin_run {
	const struct twin_api *api[2];
	const struct twin_input *input;
	const struct twin_client *client;
	uint64_t seed;	  /* for the client's choices */
	uint64_t limit;	  /* most calls */
	bool blind;	  /* positions are not compared */
	bool print;	  /* prints every call */
	const char *show; /* a rule whose calls are printed, or NULL */
	unsigned keep;	  /* continue at the next PSB after so many differences */
	struct twin_result *result;
};

#define TWIN_RULES 128

/* In shared memory, so that it survives when a library crashes. */
struct twin_result {
	uint64_t runs, calls;
	uint64_t next;	/* the next run of the input */
	uint64_t begin; /* calls before this run */
	bool saved;
	unsigned found; /* differences that no rule explains */
	uint64_t by_rule[TWIN_RULES];
	unsigned side;	  /* the side that is being called */
	uint64_t crashes; /* of the reference */
	uint64_t joined;  /* blocks that ended at different places */
	uint64_t ticks;	  /* ticks that only one side has */
	uint64_t astray;  /* positions that differed before an error */
};

/* Adds to the result and prints each difference. */
void twin_run(const struct twin_run *run);

static inline uint64_t twin_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* The offset after the PSB+ at `psb`, or after what there is of it. */
uint64_t twin_header_end(const struct twin_input *input, uint64_t psb);
/*
 * The offset of the first packet after the PSB at `psb` that is malformed or that the SDM does not
 * allow there. If packets are missing that others need, the offset of those. UINT64_MAX: there is
 * none.
 */
uint64_t twin_contradiction(const struct twin_input *input, uint64_t psb);

/* What is found between the PSB at `psb` and `end`. */
enum {
	TWIN_MODE_FUP = 1,	 /* MODE.Exec and a FUP that belongs to no branch */
	TWIN_OVERFLOW_MNT = 128, /* MNT between a packet and the address that it waits for */
	TWIN_OVERFLOW_IP = 64,	 /* a compressed IP after OVF, before any FUP */
	TWIN_OVERFLOW_MODE = 2,	 /* MODE.Exec between OVF and the packet that resolves it */
	TWIN_LOST_ADDRESS = 4,	 /* a packet whose FUP is lost in an overflow, or that has none */
	TWIN_MODE_PGD = 16,	 /* MODE.Exec and a TIP.PGD without FUP */
	TWIN_TMA_RESERVED = 32,	 /* a TMA with reserved bits set */
	TWIN_OVERFLOW_PSB = 8,	 /* PSB between OVF and the packet that resolves it */
	TWIN_SHARED_FUP = 256,	 /* unrelated packets that share one FUP */
	TWIN_LOST_MODE = 512,	 /* OVF between MODE.Exec and its branch */
	TWIN_DOUBT = 1024, /* OVF and FUP, and then nothing that confirms either (erratum APL12) */
	TWIN_CBR_ZERO = 2048,	     /* a CBR whose ratio is 0 */
	TWIN_ABORT_MODE = 1 << 12,   /* MODE.Exec and the end of a transaction before one FUP */
	TWIN_EVD_WIDE = 1 << 13,     /* an EVD whose type has the sixth bit */
	TWIN_MODE_TWICE = 1 << 14,   /* two MODE.Exec before one TIP */
	TWIN_ENTRY_ALONE = 1 << 15,  /* PWRE without PWRX */
	TWIN_TIME_BACK = 1 << 16,    /* a TSC that is less than the one before */
	TWIN_WAIT_TOGETHER = 1 << 17 /* two packets for one FUP, or an MWAIT without its EXSTOP */
};
/* Was there an OVF in a transaction before `end`, and at most one MODE.TSX after it? */
bool twin_is_lost_in_tx(const struct twin_input *input, uint64_t psb, uint64_t end);
unsigned twin_facts(const struct twin_input *input, uint64_t psb, uint64_t end);

/*
 * Which times the packets up to `end` allow, for a decoder that was synchronised at `psb`: from the
 * time of some packets ago (those in between may have been read ahead), up to where the next MTC or
 * the cycles since then put it. False: there is no TSC.
 */
struct twin_times {
	uint64_t low, high;
	uint64_t last, most; /* of TSC packets */
};
bool twin_time_limits(const struct twin_input *input, uint64_t psb, uint64_t end,
		      struct twin_times *times);

/* The first PSB at `at` or later; SIZE_MAX: there is none. */
size_t twin_find_psb(const struct twin_input *input, size_t at);

_Noreturn void twin_die(const char *what, const char *why);

/* Does it have the functions that came with libipt 2.1 and 2.2? */
static inline bool twin_is_2_1(const struct twin_api *api)
{
	return api->pt_evt_next && api->pt_blk_resync;
}

#endif
