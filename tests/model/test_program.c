/* SPDX-License-Identifier: MIT */
/*
 * Random programs run on the simulated processor, and their traces decoded:
 * every traced instruction and every event is reported, in order, and nothing
 * else. Around an overflow, the path may end some instructions before it and
 * must continue exactly where the processor resumed. Events are compared in
 * order with those of the same class, and their times with the bound that the
 * decoder gives.
 */
#include "program.h"

struct reader {
	const struct program *p;
	bool ranges;	 /* the decoder knows the ranges */
	size_t ran, cut; /* the next instruction; the next loss */
	size_t seen[CLASS_MAX];
	uint64_t instructions;
};

static void read_insn(struct reader *r, const struct ptah_insn *insn, bool in_tx)
{
	const struct program *p = r->p;
	const struct program_ran *ran = &p->ran[r->ran];
	size_t end = r->cut < p->cut_count ? p->cuts[r->cut].begin : p->ran_count;

	if (r->ran >= end)
		fail_msg("instruction at %llx behind what ran", (unsigned long long)insn->ip);
	if (insn->ip != ran->ip || insn->size != ran->size || insn->mode != ran->mode ||
	    in_tx != ran->in_tx)
		fail_msg("instruction %zu: %llx mode %u tx %d, but %llx mode %u tx %d ran", r->ran,
			 (unsigned long long)insn->ip, insn->mode, in_tx,
			 (unsigned long long)ran->ip, ran->mode, ran->in_tx);
	r->ran++;
	r->instructions++;
}

/* Whether the last instruction, a conditional branch, was taken. */
static void read_outcome(const struct reader *r, const struct ptah_item *item)
{
	const struct program_ran *ran = &r->p->ran[r->ran - 1];
	const bool taken = item->flags & PTAH_ITEM_TAKEN, unknown = item->flags & PTAH_ITEM_UNKNOWN;

	if (unknown != (ran->bare && !r->ranges) || taken != (ran->taken && !unknown))
		fail_msg("branch at %llx: taken %d unknown %d, but taken %d bare %d",
			 (unsigned long long)ran->ip, taken, unknown, ran->taken, ran->bare);
}

static void read_block(struct reader *r, const struct ptah_flow *flow, const struct ptah_item *item)
{
	struct ptah_insn insns[512];
	int n = ptah_flow_insns(flow, item, insns, 512);

	assert_int_equal(n, item->ninsn);
	for (int i = 0; i < n; i++)
		read_insn(r, &insns[i], item->flags & PTAH_ITEM_SPECULATIVE);
	if (item->insn_class == PTAH_INSN_COND)
		read_outcome(r, item);
}

static void read_event(struct reader *r, enum program_class insn_class,
		       const struct ptah_item *item, unsigned type, uint64_t ip, uint64_t to,
		       uint64_t value)
{
	const struct program_event *e = &r->p->events[insn_class][r->seen[insn_class]];

	if (r->seen[insn_class] >= r->p->event_count[insn_class])
		fail_msg("%s at offset %llx: not expected", ptah_item_name(item->type),
			 (unsigned long long)item->offset);
	if (e->type != type || e->ip != ip || e->to != to || e->value != value)
		fail_msg(
		    "%s %zu at offset %llx: ip %llx to %llx value %llx, but %s ip %llx to %llx "
		    "value %llx",
		    ptah_item_name(type), r->seen[insn_class], (unsigned long long)item->offset,
		    (unsigned long long)ip, (unsigned long long)to, (unsigned long long)value,
		    ptah_item_name(e->type), (unsigned long long)e->ip, (unsigned long long)e->to,
		    (unsigned long long)e->value);
	r->seen[insn_class]++;
	/* These packets come without a CYC, so their reported time is later than the true one. */
	if (type == PTAH_ITEM_OVERFLOW) /* a change of the frequency may be lost */
		return;
	if (type == PTAH_ITEM_PWRE || type == PTAH_ITEM_PWRX || type == PTAH_ITEM_STOP ||
	    insn_class == CLASS_EVENT)
		return;
	if (item->tsc_error != PTAH_TSC_UNBOUNDED && item->tsc_error < 63) {
		uint64_t off = item->tsc > e->tsc ? item->tsc - e->tsc : e->tsc - item->tsc;

		if (off >> item->tsc_error)
			fail_msg("%s at offset %llx: TSC %llu, true %llu, error 2^%u",
				 ptah_item_name(type), (unsigned long long)item->offset,
				 (unsigned long long)item->tsc, (unsigned long long)e->tsc,
				 item->tsc_error);
	}
}

static void read_overflow(struct reader *r, const struct ptah_item *item, uint64_t ip)
{
	const struct program *p = r->p;

	read_event(r, CLASS_ENABLE, item, PTAH_ITEM_OVERFLOW, ip, 0, 0);
	assert_true(r->cut < p->cut_count);
	assert_true(r->ran <= p->cuts[r->cut].begin);
	r->ran = p->cuts[r->cut++].resume;
}

static void read_item(struct reader *r, const struct ptah_flow *flow, const struct ptah_item *item)
{
	bool no_ip = item->flags & PTAH_ITEM_IP_SUPPRESSED;
	uint64_t ip = no_ip ? NO_ADDRESS : item->ip, to = no_ip ? NO_ADDRESS : item->to;

	if (item->flags & PTAH_ITEM_STATUS)
		return;
	switch (item->type) {
	case PTAH_ITEM_BLOCK:
		read_block(r, flow, item);
		break;
	case PTAH_ITEM_ENABLED:
		read_event(r, CLASS_ENABLE, item, item->type, ip, 0, 0);
		break;
	case PTAH_ITEM_DISABLED:
		read_event(r, CLASS_ENABLE, item, item->type, 0, to, 0);
		break;
	case PTAH_ITEM_ASYNC_DISABLED:
		read_event(r, CLASS_ENABLE, item, item->type, item->ip, to, 0);
		break;
	case PTAH_ITEM_ASYNC_BRANCH:
		read_event(r, CLASS_ENABLE, item, item->type, item->ip, item->to, 0);
		break;
	case PTAH_ITEM_OVERFLOW:
		read_overflow(r, item, ip);
		break;
	case PTAH_ITEM_STOP:
		read_event(r, CLASS_ENABLE, item, item->type, 0, 0, 0);
		break;
	case PTAH_ITEM_PAGING:
	case PTAH_ITEM_ASYNC_PAGING:
		read_event(r, CLASS_PAGING, item, PTAH_ITEM_PAGING, 0, 0, item->cr3);
		break;
	case PTAH_ITEM_TSX:
		read_event(r, CLASS_TSX, item, item->type, ip, 0,
			   item->flags & (PTAH_ITEM_SPECULATIVE | PTAH_ITEM_ABORTED));
		break;
	case PTAH_ITEM_PTWRITE:
		read_event(r, CLASS_PTWRITE, item, item->type, ip, 0, item->payload);
		break;
	case PTAH_ITEM_EXSTOP:
		read_event(r, CLASS_POWER, item, item->type, ip, 0, 0);
		break;
	case PTAH_ITEM_MWAIT:
	case PTAH_ITEM_PWRE:
	case PTAH_ITEM_PWRX:
		read_event(r, CLASS_POWER, item, item->type, 0, 0, item->value);
		break;
	case PTAH_ITEM_INTERRUPT:
		read_event(r, CLASS_EVENT, item, item->type, ip, 0, item->vector);
		break;
	case PTAH_ITEM_IRET:
		read_event(r, CLASS_EVENT, item, item->type, ip, 0, 0);
		break;
	case PTAH_ITEM_PSB:
	case PTAH_ITEM_CBR:
	case PTAH_ITEM_EXEC_MODE:
	case PTAH_ITEM_IFLAGS:
		break;
	default:
		fail_msg("%s at offset %llx: status %d", ptah_item_name(item->type),
			 (unsigned long long)item->offset, item->status);
	}
}

static struct ptah_flow_config config_of(const struct program *p)
{
	const struct ptah_clock *c = &p->m->clock;
	const struct ptah_flow_config config = {.size = sizeof(config),
						.events = {.size = sizeof(config.events),
							   .trace.mtc_period = c->mtc_freq,
							   .nominal_ratio = c->nominal_ratio,
							   .tsc_n = c->n,
							   .tsc_d = c->d,
							   .trace.cyc_threshold = c->cyc_thresh}};

	return config;
}

/* Copies the processor's ranges. True when it has any. */
static bool tell_ranges(const struct program *p, struct ptah_flow_config *config)
{
	bool any = false;

	for (unsigned n = 0; n < PTAH_RANGES; n++) {
		const uint8_t mode = p->rig->ctl >> PTAH_RTIT_CTL_ADDR_CFG(n) & 0xf;

		if (mode == PTAH_RANGE_OFF)
			continue;
		any = true;
		config->events.trace.ranges[n] = (struct ptah_range){
		    .first = p->m->addr[2 * n], .last = p->m->addr[2 * n + 1], .mode = mode};
	}
	return any;
}

static struct ptah_flow *open_flow(const struct program *p, const struct ptah_flow_config *config,
				   struct ptah_image **image)
{
	struct ptah_flow *flow;

	assert_int_equal(ptah_image_new(image), 0);
	assert_int_equal(
	    ptah_image_add_bytes(*image, p->w->code, sizeof(p->w->code), WORLD_BASE, NULL), 0);
	assert_int_equal(ptah_flow_new(*image, config, &flow), 0);
	assert_int_equal(ptah_flow_feed(flow, p->rig->memory, rig_bytes(p->rig), true), 0);
	return flow;
}

static void decode(const struct program *p, bool ranges)
{
	struct ptah_flow_config config = config_of(p);
	struct reader r = {.p = p, .ranges = ranges && tell_ranges(p, &config)};
	struct ptah_image *image;
	struct ptah_flow *flow = open_flow(p, &config, &image);
	struct ptah_item items[64];
	int n;

	while ((n = ptah_flow_read(flow, items, 64)) > 0)
		for (int i = 0; i < n; i++)
			read_item(&r, flow, &items[i]);
	assert_int_equal(n, 0);
	assert_int_equal(r.cut, p->cut_count);
	assert_int_equal(r.ran, p->ran_count);
	for (unsigned i = 0; i < CLASS_MAX; i++)
		assert_int_equal(r.seen[i], p->event_count[i]);
	ptah_flow_free(flow);
	ptah_image_free(image);
}

/*
 * PROGRAM_SEEDS: the number of programs, instead of the default.
 * PROGRAM_VERBOSE: prints which one runs.
 */
static void run(bool lossy, unsigned seeds)
{
	const char *more = getenv("PROGRAM_SEEDS");
	const struct ptah_model_processor *is;

	seeds = more ? (unsigned)atoi(more) : seeds;
	for (size_t i = 0; (is = ptah_model_named(i)); i++) {
		if (!is->pt || !(is->leaf_14_0[2] & 1))
			continue;
		for (unsigned seed = 0; seed < seeds; seed++) {
			unsigned number = seed + (unsigned)i * 37;
			struct program_options o = program_options(is, number);
			struct program *p;

			o.lossy = lossy;
			if (getenv("PROGRAM_VERBOSE"))
				fprintf(stderr, "%s %u\n", is->name, number);
			p = program_new(number, &o);
			decode(p, false);
			if (o.filter)
				decode(p, true);
			program_free(p);
		}
	}
}

TEST(every_processor)
{
	run(false, 32);
}

TEST(overflows)
{
	run(true, 16);
}

/*
 * The instructions of the trace are among those that ran, in order, with gaps.
 * Moves *at after the last one.
 */
static void expect_among(const struct program *p, const struct ptah_flow *flow,
			 const struct ptah_item *block, size_t *at)
{
	struct ptah_insn insns[512];

	assert_int_equal(ptah_flow_insns(flow, block, insns, 512), block->ninsn);
	for (unsigned k = 0; k < block->ninsn; k++) {
		while (*at < p->ran_count && p->ran[*at].ip != insns[k].ip)
			(*at)++;
		assert_true(*at < p->ran_count);
		(*at)++;
	}
}

static void decode_with_gaps(const struct program *p)
{
	struct ptah_flow_config config = config_of(p);
	struct ptah_image *image;
	struct ptah_flow *flow;
	struct ptah_item items[64];
	size_t at = 0, seen = 0;
	int n;

	config.events.trace.no_tnt = config.events.trace.no_retcomp = true;
	flow = open_flow(p, &config, &image);
	while ((n = ptah_flow_read(flow, items, 64)) > 0) {
		for (int i = 0; i < n; i++) {
			assert_int_not_equal(items[i].type, PTAH_ITEM_ERROR);
			if (items[i].type != PTAH_ITEM_BLOCK)
				continue;
			expect_among(p, flow, &items[i], &at);
			seen += items[i].ninsn;
		}
	}
	assert_true(seen > p->ran_count / 2);
	ptah_flow_free(flow);
	ptah_image_free(image);
}

/* DisTNT: the path is unknown where no packet with an address follows. */
TEST(without_outcomes)
{
	const struct ptah_model_processor *is = ptah_model_find("maximal");

	for (unsigned seed = 0; seed < 24; seed++) {
		struct program_options o = program_options(is, seed);
		struct program *p;

		o.ctl |= PTAH_RTIT_CTL_DIS_TNT | PTAH_RTIT_CTL_DIS_RETC;
		p = program_new(seed, &o);
		decode_with_gaps(p);
		program_free(p);
	}
}
