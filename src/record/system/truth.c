/* SPDX-License-Identifier: MIT */
/* Counts and reports the ground truth (truth.h). */
#include "record/system/system.h"

#include <errno.h>
#include <stdio.h>

static FILE *file;

bool system_truth_open(const char *path)
{
	file = path ? fopen(path, "a") : stderr;
	if (!file)
		system_say("truth=%s: %s", path, strerror(errno));
	return file;
}

void system_truth_count(struct system_truth *t, const struct ptah_model *m, uint64_t start,
			uint64_t end, unsigned n)
{
	(void)start, (void)end;
	if (m->packet_en)
		t->insns[m->program.cpl == 3] += n;
}

void system_truth_branch(struct system_truth *t, const struct ptah_model *m, unsigned kind,
			 bool taken)
{
	(void)t, (void)m, (void)kind, (void)taken;
}

void system_truth_event(struct system_truth *t, const struct ptah_model *m, unsigned kind)
{
	(void)kind;
	if (m->packet_en)
		t->events++;
}

enum system_access system_truth_rdmsr(struct system_truth *t, struct ptah_model *m, uint32_t msr,
				      uint64_t *value)
{
	(void)t, (void)m, (void)msr, (void)value;
	return SYSTEM_NOT_OURS;
}

/* Runs while all CPUs stand still. */
static void report(void *cpu, union host_data tag)
{
	(void)cpu;
	for (unsigned i = 0; i < system_plugin.max_vcpus; i++) {
		struct system_vcpu *v = system_plugin.vcpus[i];

		if (!v)
			continue;
		fprintf(file,
			"tag %lu cpu %u insns %" PRIu64 " kernel %" PRIu64 " user %" PRIu64
			" bytes %" PRIu64 " events %" PRIu64 " pmis %" PRIu64 " lost %" PRIu64 "\n",
			tag.word, i, v->truth.insns[0] + v->truth.insns[1], v->truth.insns[0],
			v->truth.insns[1], ptah_model_output_bytes(v->model, NULL), v->truth.events,
			v->truth.pmis, v->truth.lost);
		memset(&v->truth, 0, sizeof(v->truth));
	}
	fflush(file);
}

enum system_access system_truth_wrmsr(void *cpu, uint32_t msr, uint64_t value)
{
	if (msr != SYSTEM_MSR_REPORT)
		return SYSTEM_NOT_OURS;
	host.run_alone(cpu, report, (union host_data){.word = value});
	return SYSTEM_DONE;
}
