/* SPDX-License-Identifier: MIT */
/*
 * The guest's time. The packets' TSC is what RDTSC returns in the guest. With -icount QEMU can
 * read its clock only outside of translated code; there the plugin counts instructions since the
 * last such place.
 */
#include "record/system/system.h"

uint64_t system_now(const struct system_vcpu *v)
{
	return *host.icount ? v->settled_ticks + v->since_settled : host.tsc(v->general);
}

void system_clock_settle(struct system_vcpu *v)
{
	uint64_t now;

	if (!*host.icount)
		return;
	now = host.tsc(v->general);
	if (now > v->settled_ticks)
		v->settled_ticks = now;
	v->since_settled = 0;
}

void system_pass_time(struct system_vcpu *v)
{
	const uint64_t now = system_now(v), before = ptah_model_tsc(v->model);

	if (now > before)
		ptah_model_pass(v->model, now - before);
}
