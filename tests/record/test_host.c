/* SPDX-License-Identifier: MIT */
/* What prevents recording on simulated machines, by the rules of perf_event_open(2). */
#include "machine.h"

#include <ptah/record.h>

#include <sched.h>

static const struct ptah_caps traceable = {.size = sizeof(traceable), .topa = true};

#define PARANOID "/proc/sys/kernel/perf_event_paranoid"
#define STATUS	 "/proc/self/status"

static void put_machine(const char *paranoid, const char *capabilities)
{
	char text[256];

	put_file(PMU "/type", "8\n");
	put_file(PMU "/max_nonturbo_ratio", "36\n");
	put_file(PARANOID, paranoid);
	snprintf(text, sizeof(text),
		 "Name:\tx\nCapPrm:\t000001ffffffffff\nCapEff:\t%s\nSeccomp:\t0\n", capabilities);
	put_file(STATUS, text);
}

TEST(permissions_are_those_of_perf_event_open)
{
	static const struct {
		const char *paranoid, *capabilities;
		bool user, kernel, cpu;
	} cases[] = {
	    {"-1\n", "0000000000000000", true, true, true},
	    {"0\n", "0000000000000000", true, true, true},
	    {"1\n", "0000000000000000", true, true, false},
	    {"2\n", "0000000000000000", true, false, false},
	    {"3\n", "0000000000000000", false, false, false},
	    {"4\n", "0000000000000000", false, false, false},
	    {"4\n", "0000004000000000", true, true, true},    /* CAP_PERFMON */
	    {"4\n", "0000000000200000", true, true, true},    /* CAP_SYS_ADMIN */
	    {"4\n", "00000000a80425fb", false, false, false}, /* root in a container */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ptah_host host = {.size = sizeof(host)};
		int status;

		put_machine(cases[i].paranoid, cases[i].capabilities);
		status = ptah_host_look(&traceable, root, &host);
		assert_int_equal(status, cases[i].user ? PTAH_OK : PTAH_E_UNSUPPORTED);
		assert_int_equal(host.obstacle,
				 cases[i].user ? PTAH_HOST_NONE : PTAH_HOST_PERMISSION);
		assert_int_equal(host.may_user, cases[i].user);
		assert_int_equal(host.may_kernel, cases[i].kernel);
		assert_int_equal(host.may_cpu, cases[i].cpu);
		assert_int_equal(host.pmu_type, 8);
		assert_int_equal(host.caps.nominal_ratio, 36);
		assert_int_equal(host.paranoid, atoi(cases[i].paranoid));
	}
}

TEST(what_is_missing_is_named_in_order)
{
	struct ptah_host host = {.size = sizeof(host)};
	struct ptah_caps none = traceable;
	const char *obstacle;

	none.obstacle = PTAH_CAPS_NO_PT;
	put_machine("4\n", "0000000000000000");
	remove_file(PMU "/type");
	assert_int_equal(ptah_host_look(&none, root, &host), PTAH_E_UNSUPPORTED);
	assert_int_equal(host.obstacle, PTAH_HOST_PROCESSOR);
	assert_string_equal(ptah_host_advice(&host, NULL), ptah_caps_advice(PTAH_CAPS_NO_PT));
	assert_int_equal(ptah_host_look(&traceable, root, &host), PTAH_E_UNSUPPORTED);
	assert_int_equal(host.obstacle, PTAH_HOST_DRIVER);
	assert_non_null(strstr(ptah_host_advice(&host, &obstacle), "kernel"));
	assert_string_equal(obstacle, "DRIVER");

	/* Files that cannot be read, or contain nonsense, permit nothing. */
	put_machine("what\n", "0000000000000000");
	assert_int_equal(ptah_host_look(&traceable, root, &host), PTAH_E_UNSUPPORTED);
	assert_int_equal(host.obstacle, PTAH_HOST_PERMISSION);
	assert_int_equal(host.paranoid, INT32_MIN);
	remove_file(PARANOID);
	remove_file(STATUS);
	assert_int_equal(ptah_host_look(&traceable, root, &host), PTAH_E_UNSUPPORTED);
	assert_int_equal(host.obstacle, PTAH_HOST_PERMISSION);
	assert_non_null(strstr(ptah_host_advice(&host, NULL), "perf_event_paranoid"));
	host.obstacle = 99;
	ptah_host_advice(&host, &obstacle);
	assert_string_equal(obstacle, "UNKNOWN");
}

/*
 * On this machine, whatever it is: there is an answer, and the thread may run on the same
 * processors as before.
 */
TEST(this_machine)
{
	struct ptah_host host = {.size = sizeof(host)};
	cpu_set_t before, after;
	int status;

	sched_getaffinity(0, sizeof(before), &before);
	status = ptah_host_look(NULL, NULL, &host);
	assert_int_equal(status, host.obstacle ? PTAH_E_UNSUPPORTED : PTAH_OK);
	sched_getaffinity(0, sizeof(after), &after);
	assert_true(CPU_EQUAL(&before, &after));
	assert_true(host.cpus >= 1 && host.differs < host.cpus);
	assert_true(host.caps.cpu.family >= 6 && host.caps.physical_bits >= 32);
	assert_int_equal(host.size, sizeof(host));

	host.size = 0;
	assert_int_equal(ptah_host_look(NULL, NULL, &host), PTAH_E_INVAL);
	assert_int_equal(ptah_host_look(NULL, NULL, NULL), PTAH_E_INVAL);
}

TEST_GROUP(make_root, remove_root)
