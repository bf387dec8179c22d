/* SPDX-License-Identifier: MIT */
/*
 * Can this machine record with its own Intel PT, through Linux' intel_pt driver?
 * If not, why not, and what can be done?
 *
 *	struct ptah_host host = {.size = sizeof(host)};
 *
 *	if (ptah_host_look(NULL, NULL, &host) < 0)
 *		puts(ptah_host_advice(&host));
 *
 * Reads CPUID and a few files of /proc and /sys, and changes nothing. Any
 * thread.
 */
#ifndef PTAH_HOST_H
#define PTAH_HOST_H

#include <ptah/caps.h>

PTAH_BEGIN_DECLS

enum ptah_host_obstacle {
	PTAH_HOST_NONE = 0,
	PTAH_HOST_PROCESSOR,  /* caps.obstacle says more */
	PTAH_HOST_DRIVER,     /* the kernel offers no intel_pt */
	PTAH_HOST_PERMISSION, /* not for this user: perf_event_paranoid, CAP_PERFMON */
	PTAH_HOST_OBSTACLE_MAX
};

struct ptah_host {
	size_t size; /* sizeof(struct ptah_host) */
	/* The processor. Its MSRs cannot be read here; what sysfs has of them is filled in. */
	struct ptah_caps caps;
	unsigned cpus;	   /* processors that were looked at: those this thread may run on */
	unsigned differs;  /* how many of them differ from what `caps` says */
	uint8_t obstacle;  /* enum ptah_host_obstacle, the first that was found */
	bool driver;	   /* /sys/bus/event_source/devices/intel_pt is there */
	uint32_t pmu_type; /* what perf_event_attr.type must be; 0: not known */
	int paranoid;	   /* kernel.perf_event_paranoid; INT32_MIN: could not be read */
	bool privileged;   /* CAP_PERFMON or CAP_SYS_ADMIN: perf_event_paranoid does not apply */
	/* What this user may trace, if there are processor and driver. */
	bool may_user;	 /* user code of their own processes */
	bool may_kernel; /* the kernel's part of them */
	bool may_cpu;	 /* everything that runs on a processor, other users' processes too */
};

/*
 * caps: pretend that the processor has these capabilities; NULL: ask this
 * machine's processors, for which the calling thread moves to each one that it
 * may run on, and back. root: a prefix for /proc and /sys; NULL: none. PTAH_OK;
 * PTAH_E_UNSUPPORTED when there is an obstacle; PTAH_E_INVAL.
 */
PTAH_API int ptah_host_look(const struct ptah_caps *caps, const char *root, struct ptah_host *host);

/* "DRIVER": the enumerator's last part. Never NULL. */
PTAH_API const char *ptah_host_obstacle_name(unsigned obstacle);

/* A sentence or two on the obstacle and what to do about it. Never NULL. */
PTAH_API const char *ptah_host_advice(const struct ptah_host *host);

PTAH_END_DECLS

#endif
