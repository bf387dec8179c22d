/* SPDX-License-Identifier: MIT */
/*
 * Between which instructions events are reported that libipt 2.0 does not know, and instructions
 * that it does not know. The places are those that Intel's engineers expect in the tests of libipt
 * 2.3 (test/src/: ptet-*, *-trig, *-eretu, *-jmpabs), for other code.
 */
#include "test.h"

#include "event/story.h"

#include "judged.h"

#include <inttypes.h>

#define CODE 0x401000

struct example {
	const char *trace; /* after the PSB+, at CODE */
	uint8_t code[32];
	/* The number of instructions between the events, and the events with their addresses. */
	const char *expected;
};

#define LEFT " FUP 0x401010; TIP.PGD"

static const struct example examples[] = {
    {"CFE type 2 vector 0 ip; FUP 0x401001; TIP 0x40100f;" LEFT,
     {0x90, 0x48, 0xcf, [15] = 0x90},
     "2 iret 1 off"},
    {"CFE type 2 vector 0; TIP 0x40100f;" LEFT, {0x90, 0x48, 0xcf, [15] = 0x90}, "2 iret 1 off"},
    {"CFE type 13 vector 0; TIP 0x40100f;" LEFT,
     {0xf3, 0x0f, 0x01, 0xec, [15] = 0x90},
     "1 uiret 1 off"},
    {"CFE type 7 vector 0 ip; FUP 0x401001; PIP cr3 0xb000 nr; TIP 0x40100f;" LEFT,
     {0x90, 0x0f, 0x01, 0xc3, [15] = 0x90},
     "2 vmentry paging 1 off"},
    {"CFE type 7 vector 0; PIP cr3 0xb000 nr; TIP 0x40100f;" LEFT,
     {0x90, 0x0f, 0x01, 0xc3, [15] = 0x90},
     "2 vmentry paging 1 off"},
    {"CFE type 2 vector 0; TIP 0x40100f;" LEFT,
     {0xf3, 0x0f, 0x01, 0xca, [15] = 0x90},
     "1 iret 1 off"},								  /* ERETU */
    {"TIP 0x40100f;" LEFT, {0xd5, 0x00, 0xa1, [15] = 0x90}, "2 off"},		  /* JMPABS */
    {"TIP 0x40100f;" LEFT, {0x90, 0xd5, 0x10, 0xff, 0xd0, [15] = 0x90}, "3 off"}, /* CALL R16 */
    /* VSHA512MSG1; ADD of three operands. */
    {"TIP 0x40100f;" LEFT, {0x90, 0xc4, 0xe2, 0x7f, 0xcc, 0xc1, 0xff, 0xe0, [15] = 0x90}, "4 off"},
    {"TIP 0x40100f;" LEFT,
     {0x90, 0x62, 0xf4, 0x7c, 0x18, 0x01, 0xd8, 0xff, 0xe0, [15] = 0x90},
     "4 off"},
    {"TRIG trbv 1 icnt 2; FUP 0x401004; TIP.PGD", {0x90, 0x90, 0x90, 0x90}, "2 trig=401002 2 off"},
    {"TRIG trbv 1 icnt 1; TRIG trbv 2 icnt 0; TRIG trbv 4 icnt 2; FUP 0x401004; TIP.PGD",
     {0x90, 0x90, 0x90, 0x90},
     "1 trig=401001 trig=401001 2 trig=401003 1 off"},
    {"TIP 0x40100c; TRIG trbv 1 icnt 1;" LEFT,
     {0x90, 0xff, 0xe0, [12] = 0x90, 0x90, 0x90, 0x90},
     "3 trig=40100d 3 off"},
    {"TRIG trbv 1 icnt 0 ip; FUP 0x401002; FUP 0x401003; TIP.PGD",
     {0x90, 0x90, 0x90},
     "2 trig=401002 1 off"},
    /* Counts more instructions than the code has; libipt 2.3 then runs past its end. */
    {"TRIG trbv 1 icnt 9; FUP 0x401002; TIP.PGD", {0x90, 0x90, 0x90}, "2 trig off"},
    {"TRIG trbv 1; FUP 0x401003; TIP.PGD", {0x90, 0x90, 0x90}, "trig 3 off"},
    /* There is no code on the way to the interrupt. */
    {"FUP 0x408000; TIP 0x401005;" LEFT, {0xe9, 0xfb, 0x4f}, "1 nomap"},
};

struct listing {
	char text[512];
	size_t length;
	unsigned ninsn;
};

__attribute__((format(printf, 2, 3))) static void say(struct listing *l, const char *format, ...)
{
	va_list list;

	if (l->ninsn)
		l->length += (size_t)snprintf(l->text + l->length, sizeof(l->text) - l->length,
					      "%s%u", l->length ? " " : "", l->ninsn);
	l->ninsn = 0;
	l->length += (size_t)snprintf(l->text + l->length, sizeof(l->text) - l->length, "%s",
				      l->length ? " " : "");
	va_start(list, format);
	l->length +=
	    (size_t)vsnprintf(l->text + l->length, sizeof(l->text) - l->length, format, list);
	va_end(list);
	assert_true(l->length < sizeof(l->text));
}

static void say_event(struct listing *l, const struct pt_event *event)
{
	if (event->status_update)
		return;
	switch (event->type) {
	case ptev_iret:
		say(l, "iret");
		break;
	case ptev_uiret:
		say(l, "uiret");
		break;
	case ptev_vmentry:
		say(l, "vmentry");
		break;
	case ptev_paging:
		say(l, "paging");
		break;
	case ptev_ptwrite:
		assert_int_equal(event->variant.ptwrite.payload, 0x12345678);
		say(l, "ptwrite");
		break;
	case ptev_enabled:
		say(l, "on");
		break;
	case ptev_async_disabled:
		say(l, "off");
		break;
	case ptev_trig:
		assert_int_equal(event->variant.trig.icnt, 0);
		if (event->ip_suppressed)
			say(l, "trig");
		else
			say(l, "trig=%" PRIx64, event->variant.trig.ip);
		break;
	default:
		fail_msg("event %d", (int)event->type);
	}
}

static int read_code(uint8_t *buffer, size_t size, const struct pt_asid *asid, uint64_t ip,
		     void *context)
{
	const struct example *e = context;
	size_t n = 0;

	(void)asid;
	for (; n < size && ip - CODE < sizeof(e->code); n++, ip++)
		buffer[n] = e->code[ip - CODE];
	return n ? (int)n : -pte_nomap;
}

static void end(struct listing *l, int status)
{
	assert_int_not_equal(status, -pte_no_enable);
	if (status == -pte_nomap)
		say(l, "nomap");
	else
		assert_int_equal(status, -pte_eos);
}

static void by_insn(const struct pt_config *config, const struct example *e, struct listing *l)
{
	struct pt_insn_decoder *decoder = ours.pt_insn_alloc_decoder(config);
	int status;

	assert_non_null(decoder);
	ours.pt_image_set_callback(ours.pt_insn_get_image(decoder), read_code, (void *)e);
	for (status = ours.pt_insn_sync_forward(decoder); status >= 0 && !(status & pts_eos);) {
		struct pt_event event;
		struct pt_insn insn;

		if (status & pts_event_pending) {
			status = ours.pt_insn_event(decoder, &event, sizeof(event));
			if (status >= 0)
				say_event(l, &event);
			continue;
		}
		status = ours.pt_insn_next(decoder, &insn, sizeof(insn));
		l->ninsn += insn.iclass != ptic_error;
	}
	end(l, status < 0 ? status : -pte_eos);
	ours.pt_insn_free_decoder(decoder);
}

static void by_block(const struct pt_config *config, const struct example *e, struct listing *l)
{
	struct pt_block_decoder *decoder = ours.pt_blk_alloc_decoder(config);
	int status;

	assert_non_null(decoder);
	ours.pt_image_set_callback(ours.pt_blk_get_image(decoder), read_code, (void *)e);
	for (status = ours.pt_blk_sync_forward(decoder); status >= 0 && !(status & pts_eos);) {
		struct pt_event event;
		struct pt_block block = {0};

		if (status & pts_event_pending) {
			status = ours.pt_blk_event(decoder, &event, sizeof(event));
			if (status >= 0)
				say_event(l, &event);
			continue;
		}
		status = ours.pt_blk_next(decoder, &block, sizeof(block));
		l->ninsn += block.ninsn;
	}
	end(l, status < 0 ? status : -pte_eos);
	ours.pt_blk_free_decoder(decoder);
}

static void places(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(examples) / sizeof(*examples); i++) {
		const struct example *e = &examples[i];
		struct listing insns = {0}, blocks = {0};
		struct pt_config config;
		struct story story;
		char trace[512];

		snprintf(trace, sizeof(trace), "PSB; MODE.Exec 64-bit; FUP 0x%x; PSBEND; %s", CODE,
			 e->trace);
		story_assemble(&story, trace);
		pt_config_init(&config);
		config.begin = story.bytes;
		config.end = story.bytes + story.size;
		by_insn(&config, e, &insns);
		by_block(&config, e, &blocks);
		assert_string_equal(insns.text, e->expected);
		assert_string_equal(blocks.text, e->expected);
	}
}

/*
 * After resyncing at an overflow, tracing is on until the overflow is reported
 * (test/src/ptxed-resync-bad_query-ovf).
 */
static void resync_at_overflow(void **state)
{
	static const struct example e = {.code = {0x75, 0x03}};
	struct pt_insn_decoder *decoder;
	struct pt_config config;
	struct pt_event event;
	struct pt_insn insn;
	struct story story;
	int status;

	(void)state;
	story_assemble(&story, "PSB; MODE.Exec 64-bit; FUP 0x401000; PSBEND; TIP 0x401006; OVF");
	pt_config_init(&config);
	config.begin = story.bytes;
	config.end = story.bytes + story.size;
	decoder = ours.pt_insn_alloc_decoder(&config);
	assert_non_null(decoder);
	ours.pt_image_set_callback(ours.pt_insn_get_image(decoder), read_code, (void *)&e);
	status = ours.pt_insn_sync_forward(decoder);
	while (status & pts_event_pending)
		status = ours.pt_insn_event(decoder, &event, sizeof(event));
	assert_int_equal(ours.pt_insn_next(decoder, &insn, sizeof(insn)), -pte_bad_query);
	assert_int_equal(ours.pt_insn_resync(decoder), pts_event_pending);
	status = ours.pt_insn_event(decoder, &event, sizeof(event));
	assert_int_equal(status, pts_ip_suppressed | pts_eos);
	assert_int_equal(event.type, ptev_overflow);
	assert_true(event.ip_suppressed);
	ours.pt_insn_free_decoder(decoder);
}

static const char *error_name(int status)
{
	switch (-status) {
	case pte_nomap:
		return "nomap";
	case pte_bad_context:
		return "bad_context";
	case pte_bad_status_update:
		return "bad_status_update";
	default:
		return ours.pt_errstr((enum pt_error_code) - status);
	}
}

/*
 * Resynchronises after each error, as ptxed --resync-on-error does, and at the next PSB where that
 * fails. Whoever does so reaches the end: two calls for each byte of the trace are more than
 * enough.
 */
#define RESYNC_CASE(name, type, prefix, count)                                                     \
	static void name(const struct pt_config *config, const struct example *e,                  \
			 struct listing *l)                                                        \
	{                                                                                          \
		struct pt_##type##_decoder *decoder = ours.pt_##prefix##_alloc_decoder(config);    \
		long calls = 2 * (config->end - config->begin);                                    \
		int status;                                                                        \
                                                                                                   \
		assert_non_null(decoder);                                                          \
		ours.pt_image_set_callback(ours.pt_##prefix##_get_image(decoder), read_code,       \
					   (void *)e);                                             \
		status = ours.pt_##prefix##_sync_forward(decoder);                                 \
		while (status >= 0 && (!(status & pts_eos) || status & pts_event_pending)) {       \
			struct pt_event event;                                                     \
			struct pt_##type what = {0};                                               \
                                                                                                   \
			assert_true(calls-- > 0);                                                  \
			if (status & pts_event_pending) {                                          \
				status = ours.pt_##prefix##_event(decoder, &event, sizeof(event)); \
				if (status >= 0)                                                   \
					say_event(l, &event);                                      \
			} else {                                                                   \
				status = ours.pt_##prefix##_next(decoder, &what, sizeof(what));    \
				l->ninsn += count;                                                 \
			}                                                                          \
			if (status >= 0)                                                           \
				continue;                                                          \
			say(l, "%s", error_name(status));                                          \
			status = ours.pt_##prefix##_resync(decoder);                               \
			if (status >= 0)                                                           \
				continue;                                                          \
			say(l, "resync:%s", error_name(status));                                   \
			if (status != -pte_eos)                                                    \
				status = ours.pt_##prefix##_sync_forward(decoder);                 \
		}                                                                                  \
		ours.pt_##prefix##_free_decoder(decoder);                                          \
	}

RESYNC_CASE(resync_by_insn, insn, insn, what.iclass != ptic_error)
RESYNC_CASE(resync_by_block, block, blk, what.ninsn)

/*
 * What libipt 2.3's engineers expect (test/src/ptxed-resync-nomap-ptw-tip, ...-psb-bad_status-psb);
 * both were endless here. And what contradicts the state: it is believed, as in 2.3.
 */
static void resync_moves(void **state)
{
	static const struct example cases[] = {
	    {"PSB; FUP 0x401000; MODE.Exec 64-bit; PSBEND; TIP 0x408000; TNT TNTTNN;"
	     "PTW 0x12345678; TIP 0x401005;" LEFT,
	     {0xff, 0xd0, [5] = 0x90},
	     "1 nomap ptwrite 6 off"},
	    {"PSB; FUP 0x401000; MODE.Exec 32-bit; PSBEND; TNT T;"
	     "PSB; FUP 0x401003; MODE.Exec 64-bit; PSBEND; TNT TNNTNT;"
	     "PSB; FUP 0x40100f; MODE.Exec 64-bit; PSBEND;" LEFT,
	     {0x7d, 0x01, [3] = 0xf4, [15] = 0x90},
	     "1 bad_status_update resync:bad_status_update 1 off"},
	    {"PSB; FUP 0x401000; MODE.Exec 64-bit; PSBEND; TIP.PGE 0x40100f;" LEFT,
	     {[15] = 0x90},
	     "bad_context on 1 off"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct listing insns = {0}, blocks = {0};
		struct pt_config config;
		struct story story;

		story_assemble(&story, cases[i].trace);
		pt_config_init(&config);
		config.begin = story.bytes;
		config.end = story.bytes + story.size;
		resync_by_insn(&config, &cases[i], &insns);
		resync_by_block(&config, &cases[i], &blocks);
		assert_string_equal(insns.text, cases[i].expected);
		assert_string_equal(blocks.text, cases[i].expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(places),
					   cmocka_unit_test(resync_at_overflow),
					   cmocka_unit_test(resync_moves)};

	load_both();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
