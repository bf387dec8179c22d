/* SPDX-License-Identifier: MIT */
/*
 * Whether Linux lets this user record with this machine's Intel PT. The levels of
 * perf_event_paranoid are those of perf_event_open(2); the levels 3 and 4, which Debian and Ubuntu
 * added, permit nothing to users without privileges.
 */
#include <ptah/record.h>

#include "record/perf_event/hardware.h"

#include <cpuid.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PMU "/sys/bus/event_source/devices/intel_pt"

/* Bits of CapEff in /proc/self/status: capabilities(7). */
#define CAP_SYS_ADMIN_BIT 21
#define CAP_PERFMON_BIT	  38

static void host_cpuid(void *port, uint32_t leaf, uint32_t subleaf, uint32_t r[4])
{
	(void)port;
	__cpuid_count(leaf, subleaf, r[0], r[1], r[2], r[3]);
}

/* What can be found out in user mode, without reading MSRs. */
static const struct ptah_hal host_hal = {.size = sizeof(host_hal), .cpuid = host_cpuid};

void hardware_caps(struct ptah_caps *caps)
{
	ptah_caps_discover(&host_hal, NULL, caps);
}

/*
 * A hybrid machine has processors of several kinds. Only what PT offers is compared: a different
 * model number makes no difference here.
 */
static bool is_alike(const struct ptah_caps *a, const struct ptah_caps *b)
{
	return a->obstacle == b->obstacle &&
	       !memcmp(a->leaf_14_0, b->leaf_14_0, sizeof(a->leaf_14_0)) &&
	       !memcmp(a->leaf_14_1, b->leaf_14_1, sizeof(a->leaf_14_1));
}

static void visit(struct ptah_host *host)
{
	struct ptah_caps caps;
	cpu_set_t before, one;

	CPU_ZERO(&before); /* more processors than the set can hold: visit none */
	sched_getaffinity(0, sizeof(before), &before);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &before))
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		if (sched_setaffinity(0, sizeof(one), &one) < 0)
			continue; /* the processor has gone offline */
		ptah_caps_discover(&host_hal, NULL, &caps);
		if (!host->cpus++)
			host->caps = caps;
		else
			host->differs += !is_alike(&host->caps, &caps);
	}
	if (host->cpus) {
		sched_setaffinity(0, sizeof(before), &before);
		return;
	}
	ptah_caps_discover(&host_hal, NULL, &host->caps);
	host->cpus = 1;
}

static bool read_host_number(const char *root, const char *path, long *value)
{
	char text[64], *end;

	if (!pmu_read_file(root, path, text, sizeof(text)))
		return false;
	*value = strtol(text, &end, 10);
	return end != text && *value >= INT32_MIN && *value <= INT32_MAX;
}

static bool is_privileged(const char *root)
{
	const uint64_t wanted = UINT64_C(1) << CAP_SYS_ADMIN_BIT | UINT64_C(1) << CAP_PERFMON_BIT;
	char text[4096];
	const char *line;

	if (!pmu_read_file(root, "/proc/self/status", text, sizeof(text)))
		return false;
	line = strstr(text, "\nCapEff:");
	return line && (strtoull(line + strlen("\nCapEff:"), NULL, 16) & wanted);
}

static void look_at_driver(struct ptah_host *host, const char *root)
{
	long value;

	host->driver = read_host_number(root, PMU "/type", &value);
	host->pmu_type = host->driver && value > 0 ? (uint32_t)value : 0;
	/* MSR_PLATFORM_INFO[15:8], which the driver shows in sysfs. */
	if (!host->caps.nominal_ratio &&
	    read_host_number(root, PMU "/max_nonturbo_ratio", &value) && value > 0 && value < 256)
		host->caps.nominal_ratio = (uint8_t)value;
}

static void look_at_permissions(struct ptah_host *host, const char *root)
{
	long value;
	int paranoid;

	host->paranoid = INT32_MIN;
	if (read_host_number(root, "/proc/sys/kernel/perf_event_paranoid", &value))
		host->paranoid = (int)value;
	host->privileged = is_privileged(root);
	paranoid = host->privileged ? -1 : host->paranoid == INT32_MIN ? INT32_MAX : host->paranoid;
	host->may_user = paranoid <= 2;
	host->may_kernel = paranoid <= 1;
	host->may_cpu = paranoid <= 0;
}

static unsigned first_obstacle(const struct ptah_host *host)
{
	if (host->caps.obstacle)
		return PTAH_HOST_PROCESSOR;
	if (!host->driver)
		return PTAH_HOST_DRIVER;
	return host->may_user ? PTAH_HOST_NONE : PTAH_HOST_PERMISSION;
}

int ptah_host_look(const struct ptah_caps *caps, const char *root, struct ptah_host *host)
{
	if (!host || host->size < sizeof(*host) || (caps && caps->size < sizeof(*caps)))
		return PTAH_E_INVAL;
	memset(host, 0, sizeof(*host));
	host->size = sizeof(*host);
	if (caps) {
		host->caps = *caps;
		host->cpus = 1;
	} else {
		visit(host);
	}
	look_at_driver(host, root ? root : "");
	look_at_permissions(host, root ? root : "");
	host->obstacle = (uint8_t)first_obstacle(host);
	return host->obstacle ? PTAH_E_UNSUPPORTED : PTAH_OK;
}

const char *ptah_host_advice(const struct ptah_host *host, const char **obstacle)
{
	static const char *const names[PTAH_HOST_OBSTACLE_MAX] = {"NONE", "PROCESSOR", "DRIVER",
								  "PERMISSION"};

	if (obstacle)
		*obstacle =
		    host->obstacle < PTAH_HOST_OBSTACLE_MAX ? names[host->obstacle] : "UNKNOWN";
	switch (host->obstacle) {
	case PTAH_HOST_NONE:
		return "This machine can record with its Intel PT: perf record -e intel_pt//u "
		       "COMMAND.";
	case PTAH_HOST_PROCESSOR:
		return ptah_caps_advice(host->caps.obstacle);
	case PTAH_HOST_DRIVER:
		return "The processor has Intel PT, but the kernel offers no intel_pt. It is left "
		       "out "
		       "of kernels without perf events for Intel processors, of containers that "
		       "hide "
		       "/sys, and where something else was tracing when the kernel came up: look "
		       "for "
		       "\"PT\" in dmesg.";
	default:
		return "The kernel keeps Intel PT from this user. Lower the limit with 'sysctl "
		       "kernel.perf_event_paranoid=2' (1: the kernel's part too; 0: whole "
		       "processors), or run as root or with CAP_PERFMON.";
	}
}
