/* SPDX-License-Identifier: MIT */
/* The forms in which a processor's identity is written, and texts that are none of them. */
#include "test.h"

#include <stdint.h>
#include <stdlib.h>

#include <ptah/base.h>

TEST(names_of_processors)
{
	static const char *const wrong[] = {"",	      "6",	    "6/",	 "/6",
					    "6/158/", "6/256",	    "70000/1",	 "6/-1",
					    "6/ 158", "6/158/10/1", "6/0x",	 "six/1",
					    "6-158",  "6/0xg",	    "6/158/10x", "99999999999/1"};
	struct ptah_cpu cpu;

	assert_int_equal(ptah_cpu_parse("6/158/10", &cpu), 0);
	assert_true(cpu.family == 6 && cpu.model == 158 && cpu.stepping == 10);
	assert_int_equal(ptah_cpu_parse("0x13/0x1", &cpu), 0);
	assert_true(cpu.family == 0x13 && cpu.model == 1 && cpu.stepping == 0);
	assert_int_equal(ptah_cpu_parse("GenuineIntel,6,85,7", &cpu), 0);
	assert_true(cpu.family == 6 && cpu.model == 85 && cpu.stepping == 7);
	assert_int_equal(ptah_cpu_parse("AuthenticAMD,25,33,0", &cpu), PTAH_E_FOREIGN);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		if (ptah_cpu_parse(wrong[i], &cpu) != PTAH_E_INVAL)
			fail_msg("\"%s\" is taken", wrong[i]);
	assert_int_equal(ptah_cpu_parse(NULL, &cpu), PTAH_E_INVAL);
}
