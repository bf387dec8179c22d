/* SPDX-License-Identifier: MIT */
/*
 * The clients of libipt's interface: which calls each makes, and the comparison of the two sides
 * after every call.
 */
#include "twin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXT 8      /* calls printed before a difference */
#define JOINED	10000  /* the most blocks that are joined */
#define ALONE	100000 /* the most calls of one side alone until its error */

const struct twin_client twin_clients[] = {
    {.name = "packet", .decoder = TWIN_PACKET},
    {.name = "packet-backward", .decoder = TWIN_PACKET, .walk = TWIN_BACKWARD},
    {.name = "packet-set", .decoder = TWIN_PACKET, .walk = TWIN_SET},
    {.name = "packet-wild", .decoder = TWIN_PACKET, .walk = TWIN_WILD},
    {.name = "query", .decoder = TWIN_QUERY},
    {.name = "query-backward", .decoder = TWIN_QUERY, .walk = TWIN_BACKWARD},
    {.name = "query-set", .decoder = TWIN_QUERY, .walk = TWIN_SET},
    {.name = "query-wild", .decoder = TWIN_QUERY, .walk = TWIN_WILD},
    {.name = "event", .decoder = TWIN_EVENTS, .since_2_1 = true},
    {.name = "event-iflags",
     .decoder = TWIN_EVENTS,
     .flags.variant.event = {.enable_iflags_events = 1, .keep_tcal_on_ovf = 1},
     .since_2_1 = true},
    {.name = "event-set", .decoder = TWIN_EVENTS, .walk = TWIN_SET, .since_2_1 = true},
    {.name = "event-wild", .decoder = TWIN_EVENTS, .walk = TWIN_WILD, .since_2_1 = true},
    {.name = "insn", .decoder = TWIN_INSN},
    {.name = "insn-ticks",
     .decoder = TWIN_INSN,
     .memory = TWIN_CACHED,
     .flags.variant.insn.enable_tick_events = 1},
    {.name = "insn-callback", .decoder = TWIN_INSN, .memory = TWIN_CALLBACK},
    {.name = "insn-strict", .decoder = TWIN_INSN, .memory = TWIN_STRICT},
    {.name = "insn-quiet", .decoder = TWIN_INSN, .memory = TWIN_CACHED, .quiet = true},
    {.name = "insn-backward", .decoder = TWIN_INSN, .memory = TWIN_CACHED, .walk = TWIN_BACKWARD},
    {.name = "insn-set", .decoder = TWIN_INSN, .memory = TWIN_CACHED, .walk = TWIN_SET},
    {.name = "insn-wild", .decoder = TWIN_INSN, .memory = TWIN_CACHED, .walk = TWIN_WILD},
    {.name = "insn-after",
     .decoder = TWIN_INSN,
     .memory = TWIN_CACHED,
     .flags.variant.insn = {.enable_iflags_events = 1, .keep_tcal_on_ovf = 1},
     .walk = TWIN_AFTER,
     .since_2_1 = true},
    {.name = "block", .decoder = TWIN_BLOCK, .memory = TWIN_CACHED},
    {.name = "block-files", .decoder = TWIN_BLOCK},
    {.name = "block-call",
     .decoder = TWIN_BLOCK,
     .memory = TWIN_CACHED,
     .flags.variant.block.end_on_call = 1},
    {.name = "block-jump",
     .decoder = TWIN_BLOCK,
     .memory = TWIN_CACHED,
     .flags.variant.block.end_on_jump = 1},
    {.name = "block-both-ticks",
     .decoder = TWIN_BLOCK,
     .memory = TWIN_CACHED,
     .flags.variant.block = {.end_on_call = 1, .end_on_jump = 1, .enable_tick_events = 1}},
    {.name = "block-callback", .decoder = TWIN_BLOCK, .memory = TWIN_CALLBACK},
    {.name = "block-strict", .decoder = TWIN_BLOCK, .memory = TWIN_STRICT},
    {.name = "block-quiet", .decoder = TWIN_BLOCK, .memory = TWIN_CACHED, .quiet = true},
    {.name = "block-quiet-jump",
     .decoder = TWIN_BLOCK,
     .flags.variant.block.end_on_jump = 1,
     .quiet = true},
    {.name = "block-backward", .decoder = TWIN_BLOCK, .memory = TWIN_CACHED, .walk = TWIN_BACKWARD},
    {.name = "block-set", .decoder = TWIN_BLOCK, .memory = TWIN_CACHED, .walk = TWIN_SET},
    {.name = "block-wild", .decoder = TWIN_BLOCK, .memory = TWIN_CACHED, .walk = TWIN_WILD},
    {.name = "block-after",
     .decoder = TWIN_BLOCK,
     .memory = TWIN_CACHED,
     .flags.variant.block = {.enable_iflags_events = 1, .keep_tcal_on_ovf = 1},
     .walk = TWIN_AFTER,
     .since_2_1 = true},
};
const unsigned twin_client_count = sizeof(twin_clients) / sizeof(*twin_clients);

struct side {
	const struct twin_api *api;
	void *decoder;
	struct pt_image *image;
	struct pt_image_section_cache *cache;
};

struct twin {
	const struct twin_run *run;
	struct side side[2];
	struct twin_call calls[CONTEXT]; /* a ring of the last ones */
	uint64_t random;
	uint64_t made; /* number of calls */
	unsigned found;
	bool since_2_1;
	int last_class;
	bool over;		 /* there is nothing more to compare */
	bool astray;		 /* the positions differ, and an error must follow for that */
	struct twin_call parted; /* the call after which they differed */
};

/* Makes the same call in any of the families. */
#define BY_FAMILY(s, result, decoder_type, function, ...)                                          \
	do {                                                                                       \
		switch (decoder_type) {                                                            \
		case TWIN_PACKET:                                                                  \
			(result) = (s)->api->pt_pkt_##function(__VA_ARGS__);                       \
			break;                                                                     \
		case TWIN_EVENTS:                                                                  \
			(result) = (s)->api->pt_evt_##function(__VA_ARGS__);                       \
			break;                                                                     \
		case TWIN_QUERY:                                                                   \
			(result) = (s)->api->pt_qry_##function(__VA_ARGS__);                       \
			break;                                                                     \
		case TWIN_INSN:                                                                    \
			(result) = (s)->api->pt_insn_##function(__VA_ARGS__);                      \
			break;                                                                     \
		case TWIN_BLOCK:                                                                   \
			(result) = (s)->api->pt_blk_##function(__VA_ARGS__);                       \
			break;                                                                     \
		}                                                                                  \
	} while (0)

static int read_section(uint8_t *buffer, size_t size, const struct pt_asid *asid, uint64_t ip,
			void *context)
{
	const struct twin_input *input = context;

	for (size_t i = input->nsections; i-- > 0;) {
		const struct twin_section *s = &input->sections[i];
		uint64_t at = ip - s->address;

		if (ip < s->address || at >= s->size)
			continue;
		if ((s->asid.cr3 != pt_asid_no_cr3 && asid->cr3 != pt_asid_no_cr3 &&
		     s->asid.cr3 != asid->cr3) ||
		    (s->asid.vmcs != pt_asid_no_vmcs && asid->vmcs != pt_asid_no_vmcs &&
		     s->asid.vmcs != asid->vmcs))
			continue;
		if (size > s->size - at)
			size = (size_t)(s->size - at);
		memcpy(buffer, s->bytes + at, size);
		return (int)size;
	}
	return -pte_nomap;
}

static int read_all_of_it(uint8_t *buffer, size_t size, const struct pt_asid *asid, uint64_t ip,
			  void *context)
{
	int n = read_section(buffer, size, asid, ip, context);

	return n < 0 || (size_t)n == size ? n : -pte_nomap;
}

static int add_section(struct side *s, const struct twin_section *section)
{
	int isid;

	if (!s->cache)
		return s->api->pt_image_add_file(s->image, section->path, section->offset,
						 section->size, &section->asid, section->address);
	isid = s->api->pt_iscache_add_file(s->cache, section->path, section->offset, section->size,
					   section->address);
	return isid < 0 ? isid
			: s->api->pt_image_add_cached(s->image, s->cache, isid, &section->asid);
}

static void make_image(struct side *s, const struct twin_run *run)
{
	const struct twin_input *input = run->input;

	s->image = s->api->pt_image_alloc(NULL);
	if (!s->image)
		twin_die(s->api->path, "no image");
	if (run->client->memory == TWIN_CALLBACK || run->client->memory == TWIN_STRICT) {
		if (s->api->pt_image_set_callback(
			s->image,
			run->client->memory == TWIN_STRICT ? read_all_of_it : read_section,
			(void *)input) < 0)
			twin_die(s->api->path, "no callback");
		return;
	}
	if (run->client->memory == TWIN_CACHED) {
		s->cache = s->api->pt_iscache_alloc(NULL);
		if (!s->cache)
			twin_die(s->api->path, "no section cache");
		s->api->pt_iscache_set_limit(s->cache, UINT64_C(1) << 30);
	}
	for (size_t i = 0; i < input->nsections; i++)
		if (add_section(s, &input->sections[i]) < 0)
			twin_die(input->sections[i].path, "a library cannot add it to its image");
}

static void make_side(struct side *s, const struct twin_run *run)
{
	const enum twin_decoder d = run->client->decoder;
	struct pt_config config = run->input->config;
	int status = 0;

	config.begin = run->input->bytes;
	config.end = run->input->bytes + run->input->size;
	config.flags = run->client->flags;
	BY_FAMILY(s, s->decoder, d, alloc_decoder, &config);
	if (!s->decoder)
		twin_die(s->api->path, "no decoder");
	if (d < TWIN_INSN)
		return;
	make_image(s, run);
	if (d == TWIN_INSN)
		status = s->api->pt_insn_set_image(s->decoder, s->image);
	else
		status = s->api->pt_blk_set_image(s->decoder, s->image);
	if (status < 0)
		twin_die(s->api->path, "the decoder does not take the image");
}

static void end_side(struct side *s, enum twin_decoder d)
{
	switch (d) {
	case TWIN_PACKET:
		s->api->pt_pkt_free_decoder(s->decoder);
		break;
	case TWIN_EVENTS:
		s->api->pt_evt_free_decoder(s->decoder);
		break;
	case TWIN_QUERY:
		s->api->pt_qry_free_decoder(s->decoder);
		break;
	case TWIN_INSN:
		s->api->pt_insn_free_decoder(s->decoder);
		break;
	case TWIN_BLOCK:
		s->api->pt_blk_free_decoder(s->decoder);
		break;
	}
	if (s->image)
		s->api->pt_image_free(s->image);
	if (s->cache)
		s->api->pt_iscache_free(s->cache);
}

static int synchronise(const struct side *s, const struct twin_call *call, struct twin_seen *seen)
{
	int status = 0;

	if (call->decoder == TWIN_QUERY) {
		uint64_t *ip = &seen->out.ip;

		if (call->op == TWIN_SYNC_FORWARD)
			return s->api->pt_qry_sync_forward(s->decoder, ip);
		if (call->op == TWIN_SYNC_BACKWARD)
			return s->api->pt_qry_sync_backward(s->decoder, ip);
		return s->api->pt_qry_sync_set(s->decoder, ip, call->argument);
	}
#define pt_qry_sync_forward(decoder)	 pt_qry_sync_forward(decoder, NULL)
#define pt_qry_sync_backward(decoder)	 pt_qry_sync_backward(decoder, NULL)
#define pt_qry_sync_set(decoder, offset) pt_qry_sync_set(decoder, NULL, offset)
	if (call->op == TWIN_SYNC_FORWARD)
		BY_FAMILY(s, status, call->decoder, sync_forward, s->decoder);
	else if (call->op == TWIN_SYNC_BACKWARD)
		BY_FAMILY(s, status, call->decoder, sync_backward, s->decoder);
	else
		BY_FAMILY(s, status, call->decoder, sync_set, s->decoder, call->argument);
#undef pt_qry_sync_forward
#undef pt_qry_sync_backward
#undef pt_qry_sync_set
	return status;
}

static int next(const struct side *s, const struct twin_call *call, struct twin_seen *seen)
{
	const size_t size = call->argument;

	switch (call->decoder) {
	case TWIN_PACKET:
		return s->api->pt_pkt_next(s->decoder, &seen->out.packet, size);
	case TWIN_EVENTS:
		return s->api->pt_evt_next(s->decoder, &seen->out.event, size);
	case TWIN_INSN:
		return s->api->pt_insn_next(s->decoder, &seen->out.insn, size);
	case TWIN_BLOCK:
		return s->api->pt_blk_next(s->decoder, &seen->out.block, size);
	default:
		return -pte_invalid;
	}
}

static int event(const struct side *s, const struct twin_call *call, struct twin_seen *seen)
{
	const size_t size = call->argument;

	switch (call->decoder) {
	case TWIN_QUERY:
		return s->api->pt_qry_event(s->decoder, &seen->out.event, size);
	case TWIN_INSN:
		return s->api->pt_insn_event(s->decoder, &seen->out.event, size);
	case TWIN_BLOCK:
		return s->api->pt_blk_event(s->decoder, &seen->out.event, size);
	default:
		return -pte_invalid;
	}
}

static int invoke(const struct side *s, const struct twin_call *call, struct twin_seen *seen)
{
	switch (call->op) {
	case TWIN_SYNC_FORWARD:
	case TWIN_SYNC_BACKWARD:
	case TWIN_SYNC_SET:
		return synchronise(s, call, seen);
	case TWIN_RESYNC:
		return call->decoder == TWIN_INSN ? s->api->pt_insn_resync(s->decoder)
						  : s->api->pt_blk_resync(s->decoder);
	case TWIN_NEXT:
		return next(s, call, seen);
	case TWIN_EVENT:
		return event(s, call, seen);
	case TWIN_COND:
		return s->api->pt_qry_cond_branch(s->decoder, &seen->out.taken);
	case TWIN_INDIRECT:
		return s->api->pt_qry_indirect_branch(s->decoder, &seen->out.ip);
	}
	return -pte_internal;
}

/* Calls the getters of one side and keeps what they return. */
static void look(const struct side *s, enum twin_decoder d, struct twin_seen *seen)
{
	struct pt_asid asid;

	BY_FAMILY(s, seen->offset_status, d, get_offset, s->decoder, &seen->offset);
	BY_FAMILY(s, seen->sync_status, d, get_sync_offset, s->decoder, &seen->sync);
	if (d < TWIN_QUERY)
		return;
#define LOOK(p)                                                                                    \
	seen->time_status =                                                                        \
	    s->api->pt_##p##_time(s->decoder, &seen->tsc, &seen->lost_mtc, &seen->lost_cyc);       \
	seen->cbr_status = s->api->pt_##p##_core_bus_ratio(s->decoder, &seen->cbr)
	if (d == TWIN_QUERY) {
		LOOK(qry);
		return;
	}
	pt_asid_init(&asid);
	if (d == TWIN_INSN) {
		LOOK(insn);
		seen->asid_status = s->api->pt_insn_asid(s->decoder, &asid, sizeof(asid));
	} else {
		LOOK(blk);
		seen->asid_status = s->api->pt_blk_asid(s->decoder, &asid, sizeof(asid));
	}
#undef LOOK
	seen->cr3 = asid.cr3;
	seen->vmcs = asid.vmcs;
}

static void print_call(const struct twin_call *call, bool both)
{
	char text[1024];

	printf("  #%" PRIu64 " %s", call->number, twin_call_name(call));
	if (call->op == TWIN_SYNC_SET)
		printf("(%" PRIx64 ")", call->argument);
	else if (call->op >= TWIN_NEXT && call->argument)
		printf("(%" PRIu64 ")", call->argument);
	if (!both) {
		printf(": %s\n", twin_words(call, 0, text, sizeof(text)));
		return;
	}
	printf("\n    judged: %s\n", twin_words(call, 0, text, sizeof(text)));
	printf("    judge:  %s\n", twin_words(call, 1, text, sizeof(text)));
}

/*
 * Prints the input as in tests/compat/libipt-2.3: its name, and a checksum that shows whether the
 * trace is still the same.
 */
static void print_input(const struct twin_run *run)
{
	const char *name = strrchr(run->input->name, '/');
	uint32_t sum = 0;

	for (size_t i = 0; i < run->input->size; i++)
		sum = sum * 31 + run->input->bytes[i];
	printf("%s %s %" PRIx32 "\n", name ? name + 1 : run->input->name, run->client->name, sum);
}

static void print_answer(const struct twin_call *call)
{
	char text[1024];

	printf("%s %s\n", twin_call_name(call), twin_words(call, 0, text, sizeof(text)));
}

static void print_difference(const struct twin *t, const struct twin_call *call, const char *what)
{
	printf("%s: %s: %s\n", t->run->input->name, t->run->client->name, what);
	for (uint64_t n = call->number > CONTEXT ? call->number - CONTEXT + 1 : 1; n < call->number;
	     n++)
		print_call(&t->calls[n % CONTEXT], false);
	print_call(call, true);
}

static void make_side_call(struct twin *t, struct twin_call *call, unsigned i)
{
	struct twin_seen *seen = &call->side[i];

	t->run->result->side = i;
	memset(seen, 0, sizeof(*seen));
	memset(&seen->out, 0xa5, sizeof(seen->out));
	seen->status = invoke(&t->side[i], call, seen);
	if (!call->quiet)
		look(&t->side[i], call->decoder, seen);
}

static struct twin_call *make_call(struct twin *t, enum twin_op op, uint64_t argument)
{
	const uint64_t number = ++t->made;
	struct twin_call *call = &t->calls[number % CONTEXT];

	memset(call, 0, sizeof(*call));
	call->number = number;
	call->decoder = t->run->client->decoder;
	call->op = op;
	call->argument = argument;
	call->since_2_1 = t->since_2_1;
	call->blind = t->run->blind;
	call->last_class = t->last_class;
	call->quiet = t->run->client->quiet && op == TWIN_NEXT && number / 1000 % 2 == 0;
	for (unsigned i = 0; i < 2; i++)
		make_side_call(t, call, i);
	t->run->result->calls++;
	if (t->run->print)
		print_answer(call);
	if (number >= t->run->limit)
		t->over = true;
	return call;
}

/*
 * Moves both sides to the next PSB after the positions of both. Returns the status, negative at the
 * end.
 */
static int meet(struct twin *t, const struct twin_call *call)
{
	uint64_t at = 0;

	if (call->side[0].status < 0 || call->side[1].status < 0)
		t->astray = false; /* the error that was expected */
	if (t->run->client->walk == TWIN_BACKWARD) {
		/* This PSB has been here before: going on would never end. */
		call = make_call(t, TWIN_SYNC_SET, call->side[1].sync);
		if (twin_equal(call))
			return call->side[0].status;
		t->over = true;
		return -pte_eos;
	}
	for (unsigned i = 0; i < 2; i++) {
		const struct twin_seen *s = &call->side[i];

		if (!s->offset_status && s->offset > at)
			at = s->offset;
		if (!s->sync_status && s->sync + 1 > at)
			at = s->sync + 1;
	}
	while ((at = twin_find_psb(t->run->input, at)) != SIZE_MAX) {
		call = make_call(t, TWIN_SYNC_SET, at);
		if (twin_equal(call) && call->side[0].status >= 0)
			return call->side[0].status;
		at++;
	}
	t->over = true;
	return -pte_eos;
}

/*
 * One side has failed. The other continues alone: it must fail, too, before it reaches a PSB after
 * the position of the first.
 */
static bool comes_to_error(struct twin *t, const struct twin_call *failed, unsigned side)
{
	const uint64_t psb = twin_find_psb(t->run->input, failed->side[!side].offset + 1);
	struct twin_call call = *failed;
	const struct twin_seen *seen = &call.side[side];

	for (unsigned i = 0; i < ALONE && seen->status >= 0 && seen->sync < psb; i++) {
		const bool event = seen->status & pts_event_pending;

		call.op = event ? TWIN_EVENT : TWIN_NEXT;
		call.argument = event ? sizeof(struct pt_event) : twin_size_of_next(call.decoder);
		make_side_call(t, &call, side);
	}
	return seen->status < 0;
}

static const struct twin_rule *find_rule(struct twin *t, const struct twin_call *call)
{
	for (unsigned i = 0; i < twin_rule_total(); i++) {
		const struct twin_rule *rule = twin_rule_at(i);

		if (!rule->applies(t->run->input, call) ||
		    (rule->to_error && !comes_to_error(t, call, 0)) ||
		    (rule->judge_to_error && !comes_to_error(t, call, 1)))
			continue;
		t->run->result->by_rule[i]++;
		if (t->run->show && !strcmp(t->run->show, rule->name))
			print_difference(t, call, rule->name);
		return rule;
	}
	return NULL;
}

/* Only the position of an instruction or block decoder differs: allowed if an error follows. */
static bool stands_apart(const struct twin *t, const struct twin_call *call)
{
	struct twin_call same = twin_comparable(t->run->input, call);

	same.blind = true;
	/* As in the rule class-from-cache. */
	if (call->decoder == TWIN_BLOCK && call->op == TWIN_NEXT &&
	    same.side[1].out.block.iclass == ptic_error)
		same.side[1].out.block.iclass = same.side[0].out.block.iclass;
	/* As in the rule isid-of-error. */
	if (call->decoder == TWIN_INSN && call->op == TWIN_NEXT && call->side[0].status < 0)
		same.side[1].out.insn.isid = same.side[0].out.insn.isid;
	return call->decoder >= TWIN_INSN && (call->op >= TWIN_NEXT || call->side[0].status < 0) &&
	       twin_equal(&same);
}

/* There is a difference that no rule explains. */
static int differ(struct twin *t, const struct twin_call *call)
{
	print_difference(t, call, "a difference");
	t->run->result->found++;
	if (++t->found <= t->run->keep && t->run->client->walk != TWIN_BACKWARD)
		return meet(t, call);
	t->over = true;
	return -pte_eos;
}

static int disagree(struct twin *t, const struct twin_call *call)
{
	const struct twin_rule *rule = find_rule(t, call);

	if (rule)
		return rule->go_on ? call->side[0].status : meet(t, call);
	if (!stands_apart(t, call))
		return differ(t, call);
	t->run->result->astray++;
	if (!t->astray && call->side[0].status >= 0) {
		t->astray = true;
		t->parted = *call;
	}
	return call->side[0].status;
}

/* Both agree again: was there an error in between? */
static int agree(struct twin *t, const struct twin_call *call)
{
	const bool apart = t->astray;

	t->astray = false;
	if (apart && call->side[0].status >= 0) {
		print_difference(t, &t->parted, "a difference");
		return differ(t, call);
	}
	return call->side[0].status;
}

/*
 * libipt's blocks end where its cache happened to end them: the same walk over a cache with other
 * contents has other blocks. So the side that has reported fewer instructions continues until both
 * have reported the same number, all of one kind and nothing else. Then `call` has what they
 * reported together.
 */
static void join_blocks(struct twin *t, struct twin_call *call)
{
	uint64_t told[2] = {call->side[0].out.block.ninsn, call->side[1].out.block.ninsn};

	if (call->side[0].out.block.ip != call->side[1].out.block.ip)
		return;
	for (unsigned steps = 0; steps < JOINED; steps++) {
		const unsigned i = told[0] > told[1] || call->side[0].status < 0;
		const struct pt_block before = call->side[i].out.block;
		struct pt_block *block = &call->side[i].out.block;

		if (told[0] == told[1] && (call->side[0].status < 0) == (call->side[1].status < 0))
			return;
		if (call->side[i].status & ~pts_eos)
			return;
		make_side_call(t, call, i);
		if (block->ninsn && (block->isid != before.isid || block->mode != before.mode ||
				     block->speculative != before.speculative))
			return;
		told[i] += block->ninsn;
		if (!block->ninsn)
			*block = before;
		block->ip = before.ip;
		block->ninsn = (uint16_t)told[i];
	}
}

static bool wants_ticks(const struct twin *t)
{
	const struct twin_client *client = t->run->client;

	return (client->decoder == TWIN_INSN && client->flags.variant.insn.enable_tick_events) ||
	       (client->decoder == TWIN_BLOCK && client->flags.variant.block.enable_tick_events);
}

/*
 * Ticks are reported where the time changes, and times are estimates of either library. A tick that
 * only one side has is skipped there.
 */
static void skip_ticks(struct twin *t, struct twin_call *call)
{
	for (unsigned i = 0; i < 2; i++) {
		const int mine = call->side[i].status, other = call->side[!i].status;
		struct twin_call tick = *call;

		/* Both have an event: is one a tick, and the other the event that follows it? */
		if (mine >= 0 && mine & other & pts_event_pending)
			call->blind = true;
		if (call->op == TWIN_EVENT && mine >= 0 && mine & pts_event_pending && other >= 0 &&
		    call->side[i].out.event.type == ptev_tick &&
		    call->side[!i].out.event.type != ptev_tick) {
			t->run->result->ticks++;
			make_side_call(t, call, i);
			return;
		}
		if (mine < 0 || other < 0 || !(mine & ~other & pts_event_pending))
			continue;
		tick.op = TWIN_EVENT;
		tick.argument = sizeof(struct pt_event);
		make_side_call(t, &tick, i);
		if (tick.side[i].status < 0 || tick.side[i].out.event.type != ptev_tick)
			continue;
		t->run->result->ticks++;
		memcpy(&tick.side[i].out, &call->side[i].out, sizeof(tick.side[i].out));
		call->side[i] = tick.side[i];
	}
}

/*
 * Makes one call on both sides and compares. Returns the status with which a client would continue.
 */
static int step(struct twin *t, enum twin_op op, uint64_t argument)
{
	struct twin_call *call;

	if (t->over)
		return -pte_eos;
	if (op < TWIN_NEXT)
		t->astray = false;
	call = make_call(t, op, argument);
	if (t->run->client->decoder == TWIN_BLOCK && op == TWIN_NEXT &&
	    (call->side[0].out.block.ninsn != call->side[1].out.block.ninsn ||
	     (call->side[0].status < 0) != (call->side[1].status < 0))) {
		t->run->result->joined++;
		join_blocks(t, call);
	}
	if (op >= TWIN_NEXT && wants_ticks(t) &&
	    (t->run->input->config.mtc_freq || t->run->input->config.nom_freq))
		skip_ticks(t, call);
	if (op == TWIN_NEXT && call->decoder == TWIN_INSN)
		t->last_class = (int)call->side[0].out.insn.iclass;
	else if (op == TWIN_NEXT && call->decoder == TWIN_BLOCK)
		t->last_class = (int)call->side[0].out.block.iclass;
	if (twin_equal(call))
		return call->quiet ? call->side[0].status : agree(t, call);
	if (call->quiet)
		/*
		 * The reason for a difference may be found in the packets at the positions of both
		 * sides.
		 */
		for (unsigned i = 0; i < 2; i++)
			look(&t->side[i], call->decoder, &call->side[i]);
	call->quiet = false;
	return disagree(t, call);
}

size_t twin_size_of_next(enum twin_decoder d)
{
	static const size_t sizes[] = {sizeof(struct pt_packet), sizeof(struct pt_event), 0,
				       sizeof(struct pt_insn), sizeof(struct pt_block)};

	return sizes[d];
}

/* Queries as a client with code would: what one query does not answer, the other may. */
static int ask(struct twin *t)
{
	enum twin_op op = twin_random(&t->random) & 1 ? TWIN_COND : TWIN_INDIRECT;
	int status = step(t, op, 0);

	if (status == -pte_bad_query)
		status = step(t, op == TWIN_COND ? TWIN_INDIRECT : TWIN_COND, 0);
	return status;
}

static int advance(struct twin *t, int status)
{
	const enum twin_decoder d = t->run->client->decoder;

	if (d >= TWIN_QUERY && status & pts_event_pending)
		return step(t, TWIN_EVENT, sizeof(struct pt_event));
	return d == TWIN_QUERY ? ask(t) : step(t, TWIN_NEXT, twin_size_of_next(d));
}

/* Makes a call that a client should not make here. */
static int misbehave(struct twin *t)
{
	const enum twin_decoder d = t->run->client->decoder;
	uint64_t choice = twin_random(&t->random);

	switch (choice % 8) {
	case 0:
		return step(t, TWIN_SYNC_SET, (choice >> 8) % (t->run->input->size + 2));
	case 1:
		return step(t, TWIN_SYNC_BACKWARD, 0);
	case 2:
		return step(t, TWIN_SYNC_FORWARD, 0);
	case 3:
	case 4:
		if (d >= TWIN_QUERY)
			return step(t, TWIN_EVENT, sizeof(struct pt_event));
		break;
	case 5:
		/* A struct that is too small for what it must have. */
		if (d != TWIN_QUERY)
			return step(t, TWIN_NEXT, (choice >> 8) % (twin_size_of_next(d) + 1));
		break;
	default:
		break;
	}
	return d == TWIN_QUERY ? ask(t) : step(t, TWIN_NEXT, twin_size_of_next(d));
}

static bool misbehaves(struct twin *t)
{
	return t->run->client->walk == TWIN_WILD && twin_random(&t->random) % 16 == 0;
}

/* Up to the first error, or `steps` calls. */
static int walk(struct twin *t, int status, uint64_t steps)
{
	for (uint64_t i = 0; status >= 0 && i < steps; i++)
		status = misbehaves(t) ? misbehave(t) : advance(t, status);
	return status;
}

static int recover(struct twin *t)
{
	int status;

	if (t->run->client->walk != TWIN_AFTER)
		return step(t, TWIN_SYNC_FORWARD, 0);
	status = step(t, TWIN_RESYNC, 0);
	while (status == -pte_event_ignored) {
		status = step(t, TWIN_EVENT, sizeof(struct pt_event));
		status = status < 0 ? status : step(t, TWIN_RESYNC, 0);
	}
	return status < 0 && status != -pte_eos ? step(t, TWIN_SYNC_FORWARD, 0) : status;
}

static void walk_forward(struct twin *t)
{
	int status = step(t, TWIN_SYNC_FORWARD, 0);

	while (!t->over) {
		status = walk(t, status, UINT64_MAX);
		if (status == -pte_eos)
			break;
		status = recover(t);
		if (status == -pte_eos)
			break;
	}
	/* And after the end. */
	step(t, TWIN_SYNC_FORWARD, 0);
	advance(t, 0);
}

static void walk_backward(struct twin *t)
{
	for (unsigned i = 0; i < 1000 && !t->over; i++) {
		int status = step(t, TWIN_SYNC_BACKWARD, 0);

		if (status == -pte_eos)
			return;
		/* libipt searches from the last PSB on, wherever the walk ended. */
		walk(t, status, twin_random(&t->random) % 12);
	}
}

static void walk_set(struct twin *t)
{
	const size_t size = t->run->input->size;

	for (unsigned i = 0; i < 40 && !t->over && size; i++) {
		size_t at = twin_random(&t->random) % size;
		size_t psb = twin_find_psb(t->run->input, at);

		if (i % 8)
			at = psb == SIZE_MAX ? twin_find_psb(t->run->input, 0) : psb;
		walk(t, step(t, TWIN_SYNC_SET, at), twin_random(&t->random) % 60);
	}
}

void twin_run(const struct twin_run *asked)
{
	struct twin_clock clock = {.at = 0};
	struct twin_input input = *asked->input;
	struct twin_run with_clock = *asked, *run = &with_clock;
	struct twin t = {.run = run, .random = run->seed | 1};

	input.clock = &clock;
	run->input = &input;
	if (!run->input->size)
		return;
	if (run->print)
		print_input(run);
	for (unsigned i = 0; i < 2; i++) {
		run->result->side = i;
		t.side[i].api = run->api[i];
		make_side(&t.side[i], run);
	}
	t.since_2_1 = twin_is_2_1(run->api[0]) && twin_is_2_1(run->api[1]);
	if (run->client->walk == TWIN_BACKWARD)
		walk_backward(&t);
	else if (run->client->walk == TWIN_SET)
		walk_set(&t);
	else
		walk_forward(&t);
	for (unsigned i = 0; i < 2; i++)
		end_side(&t.side[i], run->client->decoder);
}
