/* SPDX-License-Identifier: MIT */
/*
 * Version, error texts, errata and configurations, against Debian's library.
 *
 * The errata of processors are those of libipt 2.3, which corrected 2.0.5's in
 * two ways, by Intel's specification updates: it knows more processors, and
 * Sapphire Rapids (6/0x8f), Alder Lake (6/0x97, 0x9a, 0xbf) do not have SKL014.
 */
#include "test.h"

#include "judged.h"

#include <string.h>

static void version(void **state)
{
	struct pt_version v = ours.pt_library_version();

	(void)state;
	assert_int_equal(v.major, LIBIPT_VERSION_MAJOR);
	assert_int_equal(v.minor, LIBIPT_VERSION_MINOR);
	assert_int_equal(v.patch, LIBIPT_VERSION_PATCH);
	assert_int_equal(v.build, 0);
	assert_string_equal(v.ext, "ptah");
}

static void error_texts(void **state)
{
	(void)state;
	for (int i = -2; i < 40; i++)
		assert_string_equal(ours.pt_errstr((enum pt_error_code)i),
				    theirs.pt_errstr((enum pt_error_code)i));
}

/* Changed by 2.3 for a processor that 2.0.5 knows as well. */
static bool is_corrected(const struct pt_cpu *cpu)
{
	return cpu->family == 6 && (cpu->model == 0x8f || cpu->model == 0x97 ||
				    cpu->model == 0x9a || cpu->model == 0xbf);
}

static void errata(void **state)
{
	struct pt_cpu cpu = {.vendor = pcv_intel};
	unsigned known = 0;

	(void)state;
	for (unsigned i = 0; i < 0x20 * 0x100; i++) {
		struct pt_errata a, b;
		int status;

		cpu.family = (uint16_t)(i >> 8);
		cpu.model = (uint8_t)i;
		memset(&a, 0xff, sizeof(a));
		memset(&b, 0xff, sizeof(b));
		status = ours.pt_cpu_errata(&a, &cpu);
		if (theirs.pt_cpu_errata(&b, &cpu) < 0) {
			if (status < 0)
				assert_memory_equal(&a, &b, sizeof(a));
			continue;
		}
		known++;
		assert_int_equal(status, 0);
		if (is_corrected(&cpu))
			b.skl014 = a.skl014;
		if (memcmp(&a, &b, sizeof(a)))
			fail_msg("%u/%#x", cpu.family, cpu.model);
	}
	assert_true(known > 20);
	cpu.vendor = pcv_unknown;
	assert_int_equal(ours.pt_cpu_errata(&(struct pt_errata){0}, &cpu), -pte_bad_cpu);
	assert_int_equal(ours.pt_cpu_errata(NULL, &cpu), -pte_invalid);
	assert_int_equal(ours.pt_cpu_errata(&(struct pt_errata){0}, NULL), -pte_invalid);
}

/* A decoder's copy of a configuration of any size. */
static void sizes(void **state)
{
	static uint8_t trace[16];
	uint8_t bytes[2 * sizeof(struct pt_config)];
	struct pt_config config;

	(void)state;
	for (size_t size = 0; size < sizeof(bytes); size++) {
		struct pt_packet_decoder *a, *b;

		memset(bytes, 0x5a, sizeof(bytes));
		memcpy(&config, bytes, sizeof(config));
		config.size = size;
		config.begin = trace;
		config.end = trace + sizeof(trace);
		memcpy(bytes, &config, sizeof(config));
		a = ours.pt_pkt_alloc_decoder((const struct pt_config *)bytes);
		b = theirs.pt_pkt_alloc_decoder((const struct pt_config *)bytes);
		assert_int_equal(!a, !b);
		if (a)
			assert_memory_equal(ours.pt_pkt_get_config(a), theirs.pt_pkt_get_config(b),
					    sizeof(config));
		ours.pt_pkt_free_decoder(a);
		theirs.pt_pkt_free_decoder(b);
	}
}

static void bad_borders(void **state)
{
	static uint8_t trace[16];
	struct pt_config config;

	(void)state;
	pt_config_init(&config);
	assert_null(ours.pt_pkt_alloc_decoder(NULL));
	assert_null(ours.pt_alloc_encoder(NULL));
	assert_null(ours.pt_pkt_alloc_decoder(&config));
	config.begin = trace + 1;
	config.end = trace;
	assert_null(ours.pt_pkt_alloc_decoder(&config));
	assert_null(ours.pt_alloc_encoder(&config));
	ours.pt_pkt_free_decoder(NULL);
	ours.pt_free_encoder(NULL);
	assert_null(ours.pt_pkt_get_config(NULL));
	assert_null(ours.pt_enc_get_config(NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(version), cmocka_unit_test(error_texts), cmocka_unit_test(errata),
	    cmocka_unit_test(sizes),   cmocka_unit_test(bad_borders),
	};

	load_both();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
