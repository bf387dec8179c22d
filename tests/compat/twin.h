/* SPDX-License-Identifier: MIT */
/*
 * One client of libipt's interface against two libraries at once.
 *
 * Every call is made on both sides, and after every call everything that a
 * client can see is compared: what was returned, what was written, where the
 * decoder says it stands, and its clock. Side 0 is the one that is judged.
 */
#ifndef PTAH_TESTS_COMPAT_TWIN_H
#define PTAH_TESTS_COMPAT_TWIN_H

#include <intel-pt.h>

#include <stdbool.h>

/* Of the decoders; each line is a family's prefix and what only some have. */
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

/* A library: its functions by name, NULL where it has none of that name. */
struct twin_api {
#define TWIN_MEMBER(name) __typeof__(&(name)) name;
	TWIN_FUNCTIONS(TWIN_MEMBER)
#undef TWIN_MEMBER
	const char *path;
};

/* clock.c: what the packets about time have said so far. */
struct twin_clock {
	uint64_t psb, at; /* looked at: from, to */
	unsigned block;
	bool known, awaits_tma, aligned, mtc;
	uint64_t tsc, most;	 /* of TSC packets */
	uint64_t anchor, before; /* TSC or MTC; the one before the last */
	uint64_t high;		 /* of the anchors, and what was possible up to them */
	uint64_t base, base_ctc, ticks, cycles;
	uint8_t ratio, slowest;
	uint64_t lows[16]; /* `before` at the last packets that are not about time, around */
	unsigned others;   /* how many there were */
};

/* What is decoded: one stream and the memory it ran over. */
struct twin_section {
	char *path;
	uint64_t offset, size, address;
	struct pt_asid asid;
	const uint8_t *bytes; /* the same, mapped */
};

struct twin_input {
	char name[1100];
	uint8_t *bytes;
	size_t size;
	struct twin_section *sections;
	size_t nsections;
	struct pt_config config;  /* but begin, end and the client's flags */
	bool newer;		  /* damage may be a packet that came with libipt 2.1 or later */
	struct twin_clock *clock; /* of a run */
	bool damaged;		  /* by twin_mutate() */
	int file;		  /* what sections without a file of their own lie in, or -1 */
};

/* They exit with a sentence when the input cannot be read. */
void twin_load_case(struct twin_input *input, const char *path);
void twin_load_session(struct twin_input *input, const char *path);
/* `pages` NULL: no memory. */
void twin_load_pt(struct twin_input *input, const char *pt, const char *pages, bool timed);
void twin_load_raw(struct twin_input *input, const char *pt, const char *code, uint64_t address);
void twin_input_free(struct twin_input *input);

/* Damages a window of `from`; the same for the same seed. Shares its sections. */
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

/* What a call left behind on one side. */
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
	uint64_t argument; /* sync_set's offset; of the others, the struct's size */
	bool since_2_1;	   /* both sides are of libipt 2.1 or later */
	bool blind;	   /* to get_offset() */
	int last_class;	   /* iclass of the last instruction or block; 0: unknown */
	bool quiet;	   /* the getters are asked only where something is to be told */
	struct twin_seen side[2];
};

/* In words; what compares equal has the same words. Returns `text`. */
const char *twin_words(const struct twin_call *call, unsigned side, char *text, size_t room);
bool twin_equal(const struct twin_call *call);
/* sizeof of what its next() writes; 0: has none. */
size_t twin_size_of_next(enum twin_decoder decoder);
const char *twin_call_name(const struct twin_call *call);

/*
 * A deliberate difference. `applies` sees a call whose sides differ and what is
 * decoded, and says whether this is why.
 */
struct twin_rule {
	const char *name;
	const char *why; /* the SDM's section, or the erratum */
	bool (*applies)(const struct twin_input *input, const struct twin_call *call);
	/* The sides may go on side by side; otherwise both go to the next PSB. */
	bool go_on;
	/* The judge has failed already: the judged one must fail as well, before the next PSB. */
	bool to_error;
	/* The other way round: it is the judge that must. */
	bool judge_to_error;
};

extern const struct twin_rule twin_rules[], twin_walk_rules[], twin_last_rules[];
extern const unsigned twin_rule_count, twin_walk_rule_count, twin_last_rule_count;

/*
 * A copy to be made equal in more: what was lost for the time is equal, and the
 * time where it is an estimate.
 */
struct twin_call twin_comparable(const struct twin_input *input, const struct twin_call *call);

/* All of them in the order in which they are asked. */
unsigned twin_rule_total(void);
const struct twin_rule *twin_rule_at(unsigned i);

/* How a client goes about it. */
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
		TWIN_WILD,     /* calls that no sensible client makes among the others */
		TWIN_AFTER     /* resync after each error */
	} walk;
	bool quiet;	/* asks for places and times at errors and events only, and now and then */
	bool since_2_1; /* wants libipt 2.1 or later on both sides */
};

extern const struct twin_client twin_clients[];
extern const unsigned twin_client_count;

struct twin_run {
	const struct twin_api *api[2];
	const struct twin_input *input;
	const struct twin_client *client;
	uint64_t seed;	  /* of the choices that a client makes */
	uint64_t limit;	  /* calls */
	bool blind;	  /* where the decoder stands is not compared */
	bool print;	  /* every call */
	const char *show; /* a rule whose calls are printed, or NULL */
	unsigned keep;	  /* go on at the next PSB after so many differences */
	struct twin_result *result;
};

#define TWIN_RULES 128

/* Lies in shared memory: it is left when a library crashes. */
struct twin_result {
	uint64_t runs, calls;
	uint64_t next;	/* run of an input */
	uint64_t begin; /* calls before this run */
	bool saved;
	unsigned found; /* differences that no rule explains */
	uint64_t by_rule[TWIN_RULES];
	unsigned side;	  /* that is in a call */
	uint64_t crashes; /* of the judge */
	uint64_t joined;  /* blocks that were cut differently */
	uint64_t ticks;	  /* that one side alone has */
	uint64_t astray;  /* positions that differ up to an error */
};

/* Adds to the result, and prints each difference. */
void twin_run(const struct twin_run *run);

static inline uint64_t twin_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* Behind the PSB+ at `psb`, or what of it there is. */
uint64_t twin_header_end(const struct twin_input *input, uint64_t psb);
/*
 * The first packet behind the PSB at `psb` that the SDM does not let be where it
 * is, or that is none; where the packets begin that others should have followed;
 * UINT64_MAX.
 */
uint64_t twin_contradiction(const struct twin_input *input, uint64_t psb);

/* What stands between the PSB at `psb` and `end`. */
enum {
	TWIN_MODE_FUP = 1,	 /* MODE.Exec and a FUP that is no branch's */
	TWIN_OVERFLOW_MNT = 128, /* MNT between a packet and the address that it waits for */
	TWIN_OVERFLOW_IP = 64,	 /* a compressed IP behind OVF, before any FUP */
	TWIN_OVERFLOW_MODE = 2,	 /* MODE.Exec between OVF and what settles it */
	TWIN_LOST_ADDRESS = 4,	 /* a packet whose FUP is lost in an overflow, or that has none */
	TWIN_MODE_PGD = 16,	 /* MODE.Exec and a TIP.PGD without FUP */
	TWIN_TMA_RESERVED = 32,	 /* a TMA with reserved bits set */
	TWIN_OVERFLOW_PSB = 8,	 /* PSB between OVF and what settles it */
	TWIN_SHARED_FUP = 256,	 /* packets that have nothing to do with each other have one FUP */
	TWIN_LOST_MODE = 512,	 /* OVF between MODE.Exec and its branch */
	TWIN_DOUBT = 1024,	 /* OVF and FUP, and what says nothing of either (erratum APL12) */
	TWIN_CBR_ZERO = 2048,	 /* a CBR whose ratio is 0 */
	TWIN_ABORT_MODE = 1 << 12,  /* MODE.Exec and a transaction's end before one FUP */
	TWIN_EVD_WIDE = 1 << 13,    /* an EVD whose type has the sixth bit */
	TWIN_MODE_TWICE = 1 << 14,  /* two MODE.Exec before one TIP */
	TWIN_ENTRY_ALONE = 1 << 15, /* PWRE without PWRX */
	TWIN_TIME_BACK = 1 << 16,   /* a TSC that is behind the one before */
	TWIN_WAIT_TOGETHER =
	    1 << 17 /* two packets for one FUP, or an MWAIT that goes without EXSTOP */
};
/* Was there an OVF in a transaction, and at most one MODE.TSX behind it, before `end`? */
bool twin_is_lost_in_tx(const struct twin_input *input, uint64_t psb, uint64_t end);
unsigned twin_facts(const struct twin_input *input, uint64_t psb, uint64_t end);

/*
 * What the packets of time up to `end` let the time be, of a decoder that was
 * synchronised at `psb`. Up to where the next MTC, or the cycles since, put it;
 * from the anchor before the last on, as it was some packets ago that are not
 * about time: those in between are read ahead. False: there is no TSC.
 */
struct twin_times {
	uint64_t low, high;
	uint64_t last, most; /* of TSC packets */
};
bool twin_time_limits(const struct twin_input *input, uint64_t psb, uint64_t end,
		      struct twin_times *times);

/* From `at` on; SIZE_MAX: none. */
size_t twin_find_psb(const struct twin_input *input, size_t at);

_Noreturn void twin_die(const char *what, const char *why);

/* Has the functions that came with libipt 2.1 and 2.2. */
static inline bool twin_is_2_1(const struct twin_api *api)
{
	return api->pt_evt_next && api->pt_blk_resync;
}

#endif
