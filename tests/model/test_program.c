/* SPDX-License-Identifier: MIT */
/*
 * Random programs on the simulated processor, decoded: every instruction that
 * ran while it was traced, and every event, in their order, and nothing else.
 * With overflows: up to somewhere before each of them, and exactly from where
 * the processor resumed.
 */
#include "program.h"

struct reader {
	const struct program *p;
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

static void read_block(struct reader *r, const struct ptah_flow *flow, const struct ptah_item *item)
{
	struct ptah_insn insns[512];
	int n = ptah_flow_insns(flow, item, insns, 512);

	assert_int_equal(n, item->ninsn);
	for (int i = 0; i < n; i++)
		read_insn(r, &insns[i], item->flags & PTAH_ITEM_SPECULATIVE);
}

static void read_event(struct reader *r, enum program_class class, const struct ptah_item *item,
		       unsigned type, uint64_t ip, uint64_t to, uint64_t value)
{
	const struct program_event *e = &r->p->events[class][r->seen[class]];

	if (r->seen[class] >= r->p->event_count[class])
		fail_msg("%s at offset %llx: not expected", ptah_item_name(item->type),
			 (unsigned long long)item->offset);
	if (getenv("PROGRAM_DUMP"))
		fprintf(stderr, "%llx %s %llx %llx %llx\n", (unsigned long long)item->offset,
			ptah_item_name(type), (unsigned long long)ip, (unsigned long long)to,
			(unsigned long long)value);
	if (e->type != type || e->ip != ip || e->to != to || e->value != value)
		fail_msg(
		    "%s %zu at offset %llx: ip %llx to %llx value %llx, but %s ip %llx to %llx "
		    "value %llx",
		    ptah_item_name(type), r->seen[class], (unsigned long long)item->offset,
		    (unsigned long long)ip, (unsigned long long)to, (unsigned long long)value,
		    ptah_item_name(e->type), (unsigned long long)e->ip, (unsigned long long)e->to,
		    (unsigned long long)e->value);
	r->seen[class]++;
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
		read_event(r, CLASS_PAGING, item, PTAH_ITEM_PAGING, 0, 0, item->value);
		break;
	case PTAH_ITEM_TSX:
		read_event(r, CLASS_TSX, item, item->type, ip, 0,
			   item->flags & (PTAH_ITEM_SPECULATIVE | PTAH_ITEM_ABORTED));
		break;
	case PTAH_ITEM_PTWRITE:
		read_event(r, CLASS_PTWRITE, item, item->type, ip, 0, item->value);
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
		read_event(r, CLASS_EVENT, item, item->type, ip, 0, item->count);
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
							   .mtc_freq = c->mtc_freq,
							   .nominal_ratio = c->nominal,
							   .tsc_ctc_n = c->n,
							   .tsc_ctc_d = c->d,
							   .cyc_thresh = c->cyc_thresh}};

	return config;
}

static void dump(const struct program *p) { if (getenv("PROGRAM_DUMP")) for (int i=0;i<8;i++) fprintf(stderr,"expect %s %llx %llx\n", ptah_item_name(p->events[0][i].type),(long long)p->events[0][i].ip,(long long)p->events[0][i].to); if (getenv("PROGRAM_DUMP")) rig_dump(p->rig->memory, rig_bytes(p->rig)); }
static void decode(const struct program *p)
{
	const struct ptah_flow_config config = (dump(p), config_of(p));
	struct reader r = {.p = p};
	struct ptah_image *image;
	struct ptah_flow *flow;
	struct ptah_item items[64];
	int n;

	assert_int_equal(ptah_image_new(&image), 0);
	assert_int_equal(
	    ptah_image_add_bytes(image, p->w->code, sizeof(p->w->code), WORLD_BASE, NULL), 0);
	assert_int_equal(ptah_flow_new(image, &config, &flow), 0);
	assert_int_equal(ptah_flow_feed(flow, p->rig->memory, rig_bytes(p->rig), true), 0);
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

/* A value whose bit is set in the bitmap of CPUID.14H.1. */
static uint64_t pick_encoding(unsigned seed, uint32_t bitmap)
{
	unsigned value = seed % 16;

	while (!(bitmap >> value & 1))
		value = (value + 1) % 16;
	return value;
}

/* What this processor offers, as chance has it. */
static struct program_options options_of(const struct ptah_model_processor *is, unsigned seed)
{
	static const uint64_t flags[10] = {
	    [4] = PTAH_RTIT_CTL_PTW_EN,
	    [5] = PTAH_RTIT_CTL_PWR_EVT_EN,
	    [7] = PTAH_RTIT_CTL_EVENT_EN,
	};
	const uint32_t ebx = is->leaf_14_0[1];
	const unsigned ranges = is->leaf_14_1[0] & 7;
	struct program_options o = {.processor = is->name,
				    .os = seed % 3 != 1,
				    .user = seed % 3 != 2,
				    .cr3_filter = ebx & 1 && seed & 8,
				    .filter = ranges >= 2 && seed & 4,
				    .slices = true};

	o.one_mode = ranges < 4 && o.filter;
	o.choices.long_tnt = seed & 16;
	o.choices.deferred_tips = seed & 32 ? 3 : 0;
	o.choices.conditional_ip = true;
	for (unsigned i = 0; i < 10; i++)
		if (ebx >> i & 1 && seed >> (i % 5) & 1)
			o.ctl |= flags[i];
	if (o.ctl & PTAH_RTIT_CTL_PTW_EN && seed & 2)
		o.ctl |= PTAH_RTIT_CTL_FUP_ON_PTW;
	if (seed & 1)
		o.ctl |= PTAH_RTIT_CTL_TSC_EN;
	if (seed & 2)
		o.ctl |= PTAH_RTIT_CTL_DIS_RETC;
	if (ebx >> 3 & 1 && seed % 5 == 0)
		o.ctl |= PTAH_RTIT_CTL_MTC_EN | PTAH_RTIT_CTL_TSC_EN |
			 pick_encoding(seed / 5, is->leaf_14_1[0] >> 16) << PTAH_RTIT_CTL_MTC_FREQ;
	if (ebx >> 1 & 1 && seed % 7 == 0)
		o.ctl |= PTAH_RTIT_CTL_CYC_EN | PTAH_RTIT_CTL_TSC_EN |
			 pick_encoding(seed / 7, is->leaf_14_1[1] & 0xffff)
			     << PTAH_RTIT_CTL_CYC_THRESH;
	if (ebx >> 1 & 1)
		o.ctl |= pick_encoding(seed, is->leaf_14_1[1] >> 16 & 0x3f)
			 << PTAH_RTIT_CTL_PSB_FREQ;
	return o;
}

static void run(bool lossy, unsigned seeds)
{
	const struct ptah_model_processor *is;

	for (size_t i = 0; (is = ptah_model_named(i)); i++) {
		if (!is->pt || !(is->leaf_14_0[2] & 1))
			continue;
		for (unsigned seed = 0; seed < seeds; seed++) {
			unsigned number = seed + (unsigned)i * 37;
			struct program_options o = options_of(is, number);
			struct program *p;

			o.lossy = lossy;
			if (getenv("PROGRAM_VERBOSE"))
				fprintf(stderr, "%s %u\n", is->name, number);
			p = program_new(number, &o);
			decode(p);
			program_free(p);
		}
	}
}

static void every_processor(void **state)
{
	(void)state;
	run(false, 32);
}

static void overflows(void **state)
{
	(void)state;
	run(true, 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_processor),
	    cmocka_unit_test(overflows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
