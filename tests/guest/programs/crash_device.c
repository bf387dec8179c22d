/* SPDX-License-Identifier: MIT */
/* Traces the kernel on the processor where it runs, into a buffer that wraps, and crashes it. */
#include "ptah_ioctl.h"

#include <ptah/engine/capture_page.h>

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

int main(void)
{
	struct ptah_ioc_trace trace = {.size = sizeof(trace),
				       .flags = PTAH_IOC_TRACE_OS | PTAH_IOC_TRACE_USER |
						PTAH_IOC_TRACE_BRANCH};
	struct ptah_ioc_capture want = {.size = sizeof(want),
					.trace = (uintptr_t)&trace,
					.cpu = 0,
					.policy = PTAH_POLICY_WRAP,
					.buffer = 256 << 10};
	cpu_set_t one;
	int device = open("/dev/ptah", O_RDWR), sysrq = open("/proc/sysrq-trigger", O_WRONLY), c;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	c = sched_setaffinity(0, sizeof(one), &one) ? -1 : ioctl(device, PTAH_IOC_CAPTURE, &want);
	if (sysrq < 0 || c < 0 || ioctl(c, PTAH_IOC_START, NULL) < 0) {
		perror("crash_device");
		return 1;
	}
	return write(sysrq, "c", 1) != 1;
}
