/* SPDX-License-Identifier: MIT */
/* Writes the ground truth of all processors to the file of the argument truth=FILE. */
#include "record/system/system.h"

#include <errno.h>

static FILE *file;

bool system_report_open(const char *path)
{
	file = path ? fopen(path, "a") : stderr;
	if (!file)
		system_say("truth=%s: %s", path, strerror(errno));
	return file;
}

/* Runs while all CPUs stand still. */
static void report(void *cpu, union host_data tag)
{
	(void)cpu;
	for (unsigned i = 0; i < system_plugin.max_vcpus; i++) {
		struct system_vcpu *v = system_plugin.vcpus[i];

		if (!v)
			continue;
		system_truth_print(file, tag.word, i, &v->truth, v->model);
		system_truth_reset(&v->truth, v->model);
	}
	fflush(file);
}

void system_report(struct system_vcpu *v, uint64_t tag)
{
	host.run_alone(v->cpu, report, (union host_data){.word = tag});
}
