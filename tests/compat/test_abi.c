/* SPDX-License-Identifier: MIT */
/*
 * Ptah's intel-pt.h compared with Debian's: every size, offset and value of 2.0.5's is the same for
 * a compiler, except for struct pt_event, which has grown. What was added later is compared with
 * numbers measured with 2.3's header.
 */
#include "test.h"

#include "abi/facts.h"

#include <intel-pt.h>

#include <string.h>

#define ROOM 1000

/* 72 bytes since 2.1; older programs pass 64 as the size. */
static const struct abi_fact grown[] = {{"pt_event", 72}};

static long expected(const struct abi_fact *fact)
{
	for (size_t i = 0; i < sizeof(grown) / sizeof(grown[0]); i++)
		if (!strcmp(fact->name, grown[i].name))
			return grown[i].value;
	return fact->value;
}

TEST(same_as_debian)
{
	static struct abi_fact theirs[ROOM], ours[ROOM];
	size_t n = abi_of_debian(theirs, ROOM);

	assert_int_equal(abi_of_ptah(ours, ROOM), n);
	assert_in_range(n, 300, ROOM);
	for (size_t i = 0; i < n; i++) {
		assert_string_equal(ours[i].name, theirs[i].name);
		if (ours[i].value != expected(&theirs[i]))
			fail_msg("%s: %ld, with Debian's header %ld", ours[i].name, ours[i].value,
				 theirs[i].value);
	}
}

/* Whether exactly the bit at `place` is set. */
static int is_bit(const void *object, size_t size, size_t place)
{
	const unsigned char *bytes = object;

	for (size_t i = 0; i < 8 * size; i++)
		if ((bytes[i / 8] >> i % 8 & 1) != (i == place))
			return 0;
	return 1;
}

#define SIZE(type, n)		assert_int_equal(sizeof(struct type), n);
#define OFFSET(type, member, n) assert_int_equal(offsetof(struct type, member), n);
#define VALUE(name, n)		assert_int_equal(name, n);
#define BITS(type, member, n)                                                                      \
	{                                                                                          \
		struct type object;                                                                \
		memset(&object, 0, sizeof(object));                                                \
		object.member = ones;                                                              \
		assert_true(is_bit(&object, sizeof(object), n));                                   \
	}

TEST(additions)
{
	const volatile unsigned ones = ~0u;

#include "abi/additions.h"
}

TEST(helpers)
{
	struct pt_packet_mode_exec mode;
	struct pt_config config;
	struct pt_asid asid;

	assert_int_equal(LIBIPT_VERSION, 0x203);
	assert_int_equal(pt_errcode(-pte_bad_cpu), pte_bad_cpu);
	assert_int_equal(pt_errcode(7), pte_ok);
	for (unsigned i = ptem_unknown; i <= ptem_64bit; i++) {
		mode = pt_set_exec_mode((enum pt_exec_mode)i);
		assert_int_equal(pt_get_exec_mode(&mode), i);
	}
	assert_int_equal(pt_ptw_size(0), 4);
	assert_int_equal(pt_ptw_size(1), 8);
	assert_int_equal(pt_ptw_size(2), -pte_bad_packet);
	assert_int_equal(pt_ptw_size(3), -pte_bad_packet);
	assert_int_equal(pt_ptw_size(4), -pte_internal);
	memset(&config, 0xff, sizeof(config));
	pt_config_init(&config);
	assert_int_equal(config.size, sizeof(config));
	assert_null(config.begin);
	assert_int_equal(config.addr_filter.addr3_b, 0);
	pt_asid_init(&asid);
	assert_int_equal(asid.size, sizeof(asid));
	assert_true(asid.cr3 == pt_asid_no_cr3 && asid.vmcs == pt_asid_no_vmcs);
}
