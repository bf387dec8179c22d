/* SPDX-License-Identifier: MIT */
/*
 * Each erratum on a stream that shows it, with its bit set and clear. The symptoms are those
 * of Intel's specification updates. The errata of each processor are compared with libipt's
 * list (pt_cpu_errata), in its order.
 */
#include "story.h"

#include <ptah/flow.h>

#define BIT(name) (UINT32_C(1) << PTAH_ERRATUM_##name)

static struct ptah_event_config with(uint32_t errata)
{
	return (struct ptah_event_config){.size = sizeof(struct ptah_event_config),
					  .errata = errata};
}

static void check(uint32_t errata, const char *trace, const char *handled, const char *otherwise)
{
	const struct ptah_event_config config = with(errata);

	story_check(&config, trace, handled);
	if (otherwise)
		story_check(NULL, trace, otherwise);
}

/* BDM70 is worked around on every processor; test_header.c has its cases. */
TEST(bdm70)
{
	const struct ptah_event_config strict = {.size = sizeof(strict), .no_bdm70 = true};
	const char *trace = ON "TIP.PGE 0x401000";

	check(BIT(BDM70), trace, IS_OFF "enabled ip=401000; ", IS_OFF "enabled ip=401000; ");
	story_check(&strict, trace, IS_ON "error BAD_CONTEXT; enabled ip=401000; ");
}

TEST(skd007)
{
	/* Without the bit they are two CYCs, and the FUP after them is an interrupt's. */
	check(BIT(SKD007), ON ".bytes 0f 02 f3; FUP 6: 0000000000402000; TNT T",
	      IS_ON "overflow ip=402000; tnt value=1 count=1; ", IS_ON "error BAD_CONTEXT; ");
	/* A true CYC of the same bytes, and one of three bytes. */
	check(BIT(SKD007), ON ".bytes 0f 02; TNT T; .bytes 0f 03 02; OVF",
	      IS_ON "tnt value=1 count=1; overflow noip; ",
	      IS_ON "tnt value=1 count=1; overflow noip; ");
	check(BIT(SKD007), ON ".bytes 0f 02; PTW 1", IS_ON "ptwrite noip value=1 count=4; ",
	      IS_ON "ptwrite noip value=1 count=4; ");
	check(BIT(SKD007), ON ".bytes 0f 02", IS_ON, IS_ON);
}

TEST(skz84)
{
	/* Reserved bits in bytes 4 and 6. */
	check(BIT(SKZ84), "PSB; .bytes 02 73 34 12 5a 10 00 c9; FUP 0x401000; PSBEND", IS_ON,
	      "error BAD_OPCODE; ");
	check(BIT(SKZ84), ON ".bytes 02 73 34 12 00 10 02 c9; TNT T", IS_ON "tnt value=1 count=1; ",
	      IS_ON "error BAD_OPCODE; ");
	check(BIT(SKZ84), ON "TMA ctc 0x1234 fc 0x110; TNT T", IS_ON "tnt value=1 count=1; ",
	      IS_ON "tnt value=1 count=1; ");
	check(BIT(SKZ84), ON ".bytes 02 73 34 12 5a 10 00", IS_ON, NULL);
}

/* The FUP or TIP.PGE after the OVF is missing. */
TEST(skd010)
{
	const char *lost = IS_ON "overflow noip; error BAD_CONTEXT; ";

	check(BIT(SKD010), ON "OVF; TIP 0x402000; TNT T",
	      IS_ON "overflow ip=402000; tnt value=1 count=1; ", lost);
	check(BIT(SKD010), ON "OVF; TIP.PGD; TIP.PGE 0x402000",
	      IS_ON "overflow noip; enabled ip=402000; ", lost);
	check(BIT(SKD010), ON "OVF; TNT T", lost, lost);
	/* The FUP of a transaction; changes of state before the next address. */
	check(BIT(SKD010), ON "OVF; MODE.TSX begin; FUP 0x402000; TNT T",
	      IS_ON "overflow ip=402000; tsx spec ip=402000; tnt spec value=1 count=1; ", NULL);
	check(BIT(SKD010), ON "OVF; MODE.TSX abort; FUP 0x402000; TIP 0x403000",
	      IS_ON "overflow ip=402000; tsx aborted ip=402000; "
		    "async-branch ip=402000 to=403000; ",
	      NULL);
	check(BIT(SKD010), ON "OVF; MODE.TSX begin; TIP.PGE 0x402000",
	      IS_ON "overflow noip; tsx noip spec; enabled spec ip=402000; ", NULL);
	check(BIT(SKD010), ON "OVF; MODE.TSX begin; MODE.TSX commit; TIP.PGE 0x402000",
	      IS_ON "overflow noip; tsx noip spec; tsx noip; enabled ip=402000; ", NULL);
	check(BIT(SKD010), ON "OVF; MODE.TSX begin; OVF; FUP 0x402000",
	      IS_ON "overflow noip; tsx noip spec; overflow spec ip=402000; ", NULL);
	check(BIT(SKD010),
	      ON "OVF; MODE.TSX commit; PIP cr3 0x1000; PSB; MODE.TSX begin; "
		 "FUP 0x402000; PSBEND; TNT T",
	      IS_ON "overflow ip=402000; paging ip=402000 value=1000; tsx ip=402000; "
		    "psb status spec ip=402000; tnt spec value=1 count=1; ",
	      NULL);
	check(BIT(SKD010), ON "OVF; PIP cr3 0x1000; VMCS base 0x2000; TIP.PGE 0x402000",
	      IS_ON "overflow noip; paging noip value=1000; vmcs noip value=2000; "
		    "enabled ip=402000; ",
	      NULL);
	check(BIT(SKD010), ON "OVF; PIP cr3 0x1000; VMCS base 0x2000; TIP 0x402000",
	      IS_ON "overflow ip=402000; vmcs ip=402000 value=2000; paging ip=402000 value=1000; ",
	      IS_ON "overflow noip; paging noip value=1000; vmcs noip value=2000; "
		    "error BAD_CONTEXT; ");
	check(BIT(SKD010), ON "OVF; PSB; FUP 0x402000; PSBEND; TNT T",
	      IS_ON "overflow ip=402000; psb status ip=402000; tnt value=1 count=1; ",
	      IS_ON "overflow ip=402000; psb status ip=402000; tnt value=1 count=1; ");
	check(BIT(SKD010), ON "OVF; TIP.PGE 0x402000", IS_ON "overflow noip; enabled ip=402000; ",
	      IS_ON "overflow noip; enabled ip=402000; ");
}

TEST(apl11)
{
	check(BIT(APL11), ON "OVF; TIP.PGD; TIP.PGE 0x402000",
	      IS_ON "overflow noip; enabled ip=402000; ",
	      IS_ON "overflow noip; error BAD_CONTEXT; ");
	check(BIT(APL11), ON "OVF; TSC 5; TIP.PGD 0x500000; TIP.PGE 0x402000",
	      IS_ON "overflow noip; enabled ip=402000; ", NULL);
	check(BIT(APL11), ON "OVF; FUP 0x402000; TIP.PGD 0x500000",
	      IS_ON "overflow ip=402000; disabled to=500000; ",
	      IS_ON "overflow ip=402000; disabled to=500000; ");
}

/* The packets after the FUP decide whether it is true. */
TEST(apl12)
{
	check(BIT(APL12), ON "OVF; FUP 0x402000; TIP.PGE 0x403000",
	      IS_ON "overflow noip; enabled ip=403000; ",
	      IS_ON "overflow ip=402000; error BAD_CONTEXT; enabled ip=403000; ");
	check(BIT(APL12), ON "OVF; FUP 0x402000; TraceStop; TIP.PGE 0x403000",
	      IS_ON "overflow noip; stop; enabled ip=403000; ", NULL);
	check(BIT(APL12), ON "OVF; FUP 0x402000; PSB; PSBEND; TIP.PGE 0x403000",
	      IS_ON "overflow noip; psb noip status; enabled ip=403000; ", NULL);
	/* As without the FUP: VMPTRLD and MOV CR3 ran while tracing was off. */
	check(BIT(APL12),
	      ON "OVF; FUP 0x402000; VMCS base 0x2000; PIP cr3 0x1000; "
		 "TIP.PGE 0x403000",
	      IS_ON "overflow noip; vmcs noip value=2000; paging noip value=1000; "
		    "enabled ip=403000; ",
	      NULL);
	check(BIT(APL12),
	      ON "OVF; FUP 0x402000; PIP cr3 0x1000; PSB; PIP cr3 0x3000; PSBEND; "
		 "TIP.PGE 0x403000",
	      IS_ON "overflow noip; paging noip value=1000; psb noip status; "
		    "paging noip status value=3000; enabled ip=403000; ",
	      NULL);
	check(BIT(APL12), ON "OVF; FUP 0x402000; PIP cr3 0x1000; TNT T",
	      IS_ON "overflow ip=402000; paging noip value=1000; tnt value=1 count=1; ",
	      IS_ON "overflow ip=402000; paging noip value=1000; tnt value=1 count=1; ");
	/* The FUP is true. */
	check(BIT(APL12), ON "OVF; FUP 0x402000; TNT T",
	      IS_ON "overflow ip=402000; tnt value=1 count=1; ",
	      IS_ON "overflow ip=402000; tnt value=1 count=1; ");
	check(BIT(APL12), ON "OVF; FUP 0x402000; TIP.PGD",
	      IS_ON "overflow ip=402000; disabled noip; ", NULL);
	check(BIT(APL12), ON "OVF; FUP 0x402000; PSB; FUP 0x402000; PSBEND; TNT T",
	      IS_ON "overflow ip=402000; psb status ip=402000; tnt value=1 count=1; ", NULL);
	/* Packets between OVF and the decision are reported after the overflow, either way. */
	check(BIT(APL12), ON "OVF; FUP 0x402000; CBR ratio 4; PWRE state 1 sub 2; TNT T",
	      IS_ON
	      "overflow ip=402000; cbr value=4; pwre noip value=1 count=2; tnt value=1 count=1; ",
	      NULL);
	check(BIT(APL12), ON "OVF; FUP 0x402000; PWRE state 1 sub 2; PSB; PSBEND; TIP.PGE 0x403000",
	      IS_ON "overflow noip; pwre noip value=1 count=2; psb noip status; "
		    "enabled ip=403000; ",
	      NULL);
	check(BIT(APL12), ON "OVF; FUP 0x402000; PWRE state 1 sub 2; PSB; OVF; TIP.PGE 0x403000",
	      IS_ON "overflow ip=402000; pwre noip value=1 count=2; overflow noip; "
		    "enabled ip=403000; ",
	      NULL);
	check(BIT(APL12), ON "OVF; FUP 0x402000", IS_ON "overflow ip=402000; ", NULL);
	/* The MODE.Exec belongs to a branch that has not come, with and without doubt. */
	check(BIT(APL12), ON "OVF; FUP 0x402000; MODE.Exec 32-bit", IS_ON "overflow ip=402000; ",
	      NULL);
	check(0, ON "OVF; FUP 0x402000; MODE.Exec 32-bit", IS_ON "overflow ip=402000; ", NULL);
}

/* SKL168: the estimated TSC at the last item, 100 cycles after an MTC at 1320. */
static uint64_t skl168_tsc(uint32_t errata)
{
	static struct story story;
	struct ptah_event_config config = {.size = sizeof(config),
					   .errata = errata,
					   .nominal_ratio = 20,
					   .trace.mtc_period = 4,
					   .tsc_n = 10,
					   .tsc_d = 1};
	struct ptah_event_decoder *d;
	struct ptah_item items[16];
	int n;

	/* One crystal tick is 10 TSC ticks, an MTC comes every 160; of the 160 cycles between
	 * the MTCs CYC packets report only 10. */
	story_assemble(&story, "PSB; TSC 1000; TMA ctc 0 fc 0; CBR ratio 20; FUP 0x401000; PSBEND; "
			       "MTC 1; CYC 10; PSB; FUP 0x401000; PSBEND; MTC 2; CYC 100; TNT T");
	assert_int_equal(ptah_event_decoder_new(&config, &d), 0);
	assert_int_equal(ptah_event_feed(d, story.bytes, story.size, true), 0);
	n = ptah_event_read(d, items, 16);
	assert_in_range(n, 1, 15);
	ptah_event_decoder_free(d);
	return items[n - 1].tsc;
}

TEST(skl168)
{
	assert_true(skl168_tsc(BIT(SKL168)) == 1420); /* at the ratio of CBR, the nominal one */
	assert_true(skl168_tsc(0) != 1420);
}

/* Errata that need the code. */

static const struct code {
	uint64_t at;
	uint8_t bytes[8];
	size_t n;
} code[] = {
    {0x401000, {0x90, 0xe9, 0xfa, 0x0f, 0x00, 0x00}, 6}, /* NOP; JMP 0x402000 */
    {0x401100, {0xff, 0xe0}, 2},			 /* JMP *RAX */
    {0x401200, {0x90, 0x0f, 0x01, 0xc2}, 4},		 /* NOP; VMLAUNCH */
    {0x401300, {0x90, 0x90, 0xc3}, 3},			 /* NOP; NOP; RET */
    {0x402000, {0xc3}, 1},				 /* RET */
};

static void flow_decode(struct story *story, const struct ptah_flow_config *config, size_t chunk)
{
	struct ptah_image *image;
	struct ptah_flow *flow;
	struct ptah_item items[3];
	int n;

	story->length = 0;
	assert_int_equal(ptah_image_new(&image), 0);
	for (size_t i = 0; i < sizeof(code) / sizeof(*code); i++)
		assert_int_equal(
		    ptah_image_add_bytes(image, code[i].bytes, code[i].n, code[i].at, NULL), 0);
	assert_int_equal(ptah_flow_new(image, config, &flow), 0);
	for (size_t at = 0; at < story->size; at += chunk) {
		size_t left = story->size - at, size = left < chunk ? left : chunk;

		assert_int_equal(ptah_flow_feed(flow, story->bytes + at, size, size == left), 0);
		while ((n = ptah_flow_read(flow, items, 1)) > 0)
			story_item(story, &items[0]);
	}
	ptah_flow_free(flow);
	ptah_image_free(image);
}

static void flow_check(uint32_t errata, const char *trace, const char *handled,
		       const char *otherwise)
{
	const struct ptah_range range = {0x401000, 0x401fff, PTAH_RANGE_FILTER};
	struct ptah_flow_config config = {.size = sizeof(config)};
	static struct story story;

	story_assemble(&story, trace);
	for (size_t chunk = 1; chunk < 10000; chunk += 9998) {
		config.events = with(errata);
		config.events.trace.ranges[0] = range;
		flow_decode(&story, &config, chunk);
		assert_string_equal(story.text, handled);
		config.events = with(0);
		config.events.trace.ranges[0] = range;
		flow_decode(&story, &config, chunk);
		assert_string_equal(story.text, otherwise);
	}
}

#define AT(address) "PSB; MODE.Exec 64-bit; FUP " #address "; PSBEND; "

TEST(skl014)
{
	/* Without the erratum the TIP.PGD belongs to the first branch that has a packet. */
	flow_check(BIT(SKL014), AT(0x401000) "TIP.PGD",
		   IS_ON "block ip=401000 to=401006 count=2; disabled noip; ",
		   IS_ON "block ip=401000 to=401006 count=2; block ip=402000 to=402001 count=1; "
			 "disabled noip; ");
	/* A TIP.PGD with its IP leaves no doubt. */
	flow_check(BIT(SKL014), AT(0x401000) "TIP.PGD 0x402000",
		   IS_ON "block ip=401000 to=401006 count=2; disabled to=402000; ",
		   IS_ON "block ip=401000 to=401006 count=2; disabled to=402000; ");
}

TEST(bdm64)
{
	const char *trace = AT(0x401100) "TIP 0x500000; MODE.TSX abort; FUP 0x401301; "
					 "TIP 0x401300; TIP.PGD";

	flow_check(BIT(BDM64), trace,
		   "psb status ip=401100; block ip=401100 to=401102 count=1; "
		   "tsx aborted ip=401301; async-branch ip=401301 to=401300; "
		   "block ip=401300 to=401303 count=3; disabled noip; ",
		   "psb status ip=401100; block ip=401100 to=401102 count=1; "
		   "error NO_CODE ip=500000; tsx aborted ip=401301; "
		   "async-branch ip=401301 to=401300; disabled noip; ");
	/* Where the address of the abort can be reached, the branch's target was right. */
	flow_check(BIT(BDM64), AT(0x401300) "MODE.TSX abort; FUP 0x401301; TIP 0x401300",
		   "psb status ip=401300; block cut ip=401300 to=401301 count=1; "
		   "tsx aborted ip=401301; async-branch ip=401301 to=401300; ",
		   "psb status ip=401300; block cut ip=401300 to=401301 count=1; "
		   "tsx aborted ip=401301; async-branch ip=401301 to=401300; ");
}

TEST(skd022)
{
	flow_check(BIT(SKD022), AT(0x401200) "FUP 0x401201; TIP.PGD",
		   "psb status ip=401200; block cut ip=401200 to=401201 count=1; "
		   "block ip=401201 to=401204 count=1; disabled noip; ",
		   "psb status ip=401200; block cut ip=401200 to=401201 count=1; "
		   "async-disabled noip ip=401201; ");
	/* At any other instruction the FUP is an interrupt's. */
	flow_check(BIT(SKD022), AT(0x401300) "FUP 0x401301; TIP.PGD",
		   "psb status ip=401300; block cut ip=401300 to=401301 count=1; "
		   "async-disabled noip ip=401301; ",
		   "psb status ip=401300; block cut ip=401300 to=401301 count=1; "
		   "async-disabled noip ip=401301; ");
}

/* Processors */

TEST(processors)
{
	static const struct {
		const char *cpus, *errata;
	} known[] = {
	    {"6/0x3d 6/0x47 6/0x4f 6/0x56", "BDM70,BDM64"},
	    {"6/0x4e 6/0x5e 6/0x8e 6/0x9e 6/0xa5 6/0xa6",
	     "BDM70,SKD007,SKD022,SKD010,SKL014,SKL168"},
	    {"6/0x55 6/0x6a 6/0x6c", "BDM70,SKL014,SKD022,SKZ84"},
	    {"6/0x8f 6/0xcf 6/0xad 6/0xae 0x13/1", "BDM70,SKD022,SKZ84"},
	    {"6/0x66 6/0x7d 6/0x7e 6/0x8c 6/0x8d 6/0xa7 6/0xa8", "BDM70,SKL014,SKD022"},
	    {"6/0x97 6/0x9a 6/0xba 6/0xb7 6/0xbf 6/0xc5 6/0xc6 6/0xb5 6/0xaa 6/0xac 6/0xbd 6/0xcc "
	     "6/0xd5 0x12/1 0x12/3",
	     "BDM70,SKD022,APL11"},
	    {"6/0x5c 6/0x5f", "APL12,APL11"},
	    {"6/0x7a 6/0x86 6/0x96 6/0x9c 6/0xb6 6/0xaf 6/0xdd", "APL11"},
	    {"6/0x3c 6/0 15/0x4e 0x19/0x21", "none"},
	};
	char cpus[256];

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		uint32_t errata;

		assert_int_equal(ptah_errata_parse(known[i].errata, &errata), 0);
		strcpy(cpus, known[i].cpus);
		for (char *name = strtok(cpus, " "); name; name = strtok(NULL, " ")) {
			struct ptah_cpu cpu;

			assert_int_equal(ptah_cpu_parse(name, &cpu), 0);
			if (ptah_cpu_errata(&cpu) != errata)
				fail_msg("%s: 0x%x, not 0x%x", name, ptah_cpu_errata(&cpu), errata);
		}
	}
	assert_int_equal(ptah_cpu_errata(NULL), 0);
}

TEST(names_of_errata)
{
	const char *symptom;
	uint32_t errata;

	for (unsigned i = 0; i < PTAH_ERRATUM_MAX; i++) {
		assert_int_equal(ptah_errata_parse(ptah_erratum_name(i, &symptom), &errata), 0);
		assert_int_equal(errata, UINT32_C(1) << i);
		assert_non_null(symptom);
	}
	assert_null(ptah_erratum_name(PTAH_ERRATUM_MAX, &symptom));
	assert_null(symptom);
	assert_int_equal(ptah_errata_parse("skd007,SKL168", &errata), 0);
	assert_int_equal(errata, BIT(SKD007) | BIT(SKL168));
	assert_int_equal(ptah_errata_parse("all", &errata), 0);
	assert_int_equal(errata, (UINT32_C(1) << PTAH_ERRATUM_MAX) - 1);
	assert_int_equal(ptah_errata_parse("none", &errata), 0);
	assert_int_equal(errata, 0);
	assert_int_equal(ptah_errata_parse("SKD00", &errata), PTAH_E_INVAL);
	assert_int_equal(ptah_errata_parse("SKD007,", &errata), PTAH_E_INVAL);
	assert_int_equal(ptah_errata_parse("", &errata), PTAH_E_INVAL);
	assert_int_equal(ptah_errata_parse(NULL, &errata), PTAH_E_INVAL);
}
