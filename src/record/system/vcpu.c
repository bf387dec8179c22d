/* SPDX-License-Identifier: MIT */
/* The virtual CPUs: how they are made, and QEMU's registers. */
#include "record/system/system.h"

#include <stdio.h>
#include <stdlib.h>

uint64_t system_read(void *cpu, enum host_register which)
{
	static __thread struct host_bytes *bytes;
	uint64_t value = 0;
	int n;

	if (!bytes)
		bytes = host.bytes_new();
	host.bytes_resize(bytes, 0);
	n = host.cpu_read(cpu, bytes, (int)which);
	memcpy(&value, bytes->data, n > 8 ? 8 : (size_t)n);
	return value;
}

void system_write(void *cpu, enum host_register which, uint64_t value)
{
	host.cpu_write(cpu, (uint8_t *)&value, (int)which);
}

void system_go(struct system_vcpu *v, const struct system_block *b, uint64_t ip)
{
	system_write(v->cpu, HOST_RIP, ip - b->base);
}

struct system_vcpu *system_vcpu_of(const void *cpu)
{
	for (unsigned i = 0; i < system_plugin.max_vcpus; i++)
		if (system_plugin.vcpus[i] && system_plugin.vcpus[i]->cpu == cpu)
			return system_plugin.vcpus[i];
	return NULL;
}

static void fit_processor(const struct system_vcpu *v)
{
	uint32_t r[4];

	if (system_plugin.processor.name)
		return;
	host.cpuid(v->general, 0x80000008, 0, &r[0], &r[1], &r[2], &r[3]);
	system_plugin.processor = *system_plugin.arguments.processor;
	system_cpuid_fit(&system_plugin.processor, r[0], system_plugin.arguments.xsaves);
	system_xsave_init(v);
}

static struct system_vcpu *make_vcpu(unsigned index, uint64_t *environment)
{
	const struct ptah_model_choices choices = {.whole_ip = true};
	struct system_vcpu *v = calloc(1, sizeof(*v));
	struct ptah_model_config config = {
	    .size = sizeof(config),
	    .processor = outside_is_open() ? outside_processor() : &system_plugin.processor,
	    .cpu = index,
	    .memory = system_memory,
	    .pmi = system_pmi,
	    .port = v};

	if (v)
		v->model = malloc(ptah_model_size());
	if (!v || !v->model)
		system_no_memory();
	v->index = index;
	v->cpu = host.cpu_get((int)index);
	v->general = environment;
	v->xcr0 = 1; /* as after a reset */
	if (v->general[GENERAL_RIP] != system_read(v->cpu, HOST_RIP)) {
		system_say("this QEMU keeps the registers of its processors in another order: "
			   "Debian's 7.2 and 10.0 are known to work");
		exit(1);
	}
	fit_processor(v);
	ptah_model_init(v->model, &config);
	ptah_model_choose(v->model, &choices);
	system_registers_init(&v->registers, v->model);
	if (!system_truth_init(&v->truth))
		system_no_memory();
	system_hook_interrupts(v->cpu);
	system_reset_begin(v);
	system_clock_init();
	return v;
}

struct system_vcpu *system_vcpu(unsigned index, uint64_t *environment, const struct system_block *b)
{
	if (UNLIKELY(!system_plugin.vcpus[index])) {
		system_plugin.vcpus[index] = make_vcpu(index, environment);
		system_find_segments(system_plugin.vcpus[index], b->base);
		if (outside_is_open())
			outside_begin(system_plugin.vcpus[index], b->start);
	}
	return system_plugin.vcpus[index];
}
