/* SPDX-License-Identifier: MIT */
/*
 * The guest's time. The packets' TSC must be what RDTSC returns in the guest, because perf and
 * others compare the two.
 *
 * QEMU's TSC runs at the host's frequency, while the guest's code runs some thirty times slower
 * than on a processor. Traced at this rate, most of the trace is MTC packets: one for each twenty
 * instructions. So the plugin gives the guest a slower TSC, of 100 MHz (argument tsc=MHZ): it takes
 * the place of the function by which QEMU's accelerator counts ticks. Timers are not concerned, and
 * the guest's kernel measures the frequency against them as on any processor.
 *
 * With -icount QEMU counts instructions and has such a function itself. It can be called only
 * outside of translated code; in between the plugin counts instructions since the last call.
 */
#include "record/system/system.h"

#include <dlfcn.h>
#include <malloc.h>

#define NANOSECONDS UINT64_C(1000000000)
#define HERTZ	    UINT64_C(1000000)

static __thread bool was_called;

/* In place of QEMU's. */
static int64_t count_ticks(void)
{
	const uint64_t now = (uint64_t)host.nanoseconds();
	const uint64_t rate = system_plugin.arguments.tsc_mhz * HERTZ;

	was_called = true;
	return (int64_t)(now / NANOSECONDS * rate + now % NANOSECONDS * rate / NANOSECONDS);
}

static bool is_code(const void *word)
{
	Dl_info info;

	return (uintptr_t)word >= 4096 && dladdr(word, &info) && info.dli_fname &&
	       (strstr(info.dli_fname, "accel-tcg") || strstr(info.dli_fname, "qemu-system"));
}

/*
 * The accelerator's class has a pointer for each of its functions, and that for ticks is NULL
 * because QEMU's default is used. Which one it is shows by a trial: the others that are NULL are
 * not called by host.ticks(), and for the moment of the trial any of them may point to a function
 * that has no effect.
 */
static bool replace_ticks(void)
{
	void **class = host.accelerator();
	const size_t words = malloc_usable_size(class) / sizeof(*class);
	int64_t (*const function)(void) = count_ticks;
	size_t i = 0;

	while (i < words && !is_code(class[i])) /* QEMU's part of any class */
		i++;
	for (was_called = false; i < words; i++) {
		if (class[i])
			continue;
		memcpy(&class[i], &function, sizeof(function));
		host.ticks();
		if (was_called)
			return true;
		class[i] = NULL;
	}
	return false;
}

void system_clock_init(void)
{
	static bool done;

	if (done || *host.icount || !system_plugin.arguments.tsc_mhz)
		return;
	done = true;
	if (!replace_ticks())
		system_say("this QEMU's clock was not found: the TSC runs at the host's frequency");
}

uint64_t system_now(const struct system_vcpu *v)
{
	if (v->outside)
		return outside_now(v);
	if (!*host.icount)
		return host.tsc(v->general);
	return v->settled_ticks + (uint64_t)host.icount_time((int64_t)v->since_settled);
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

/*
 * HLT and the like. A processor that sleeps sends no MTCs; when it wakes it sends its time.
 */

void system_on_idle(qemu_plugin_id_t id, unsigned index)
{
	struct system_vcpu *v = system_plugin.vcpus[index];
	struct ptah_model_sleep sleep = {.state = 1}; /* C1 */
	struct system_place place;

	(void)id;
	if (v)
		system_check_reset(v);
	if (!v || !v->traced)
		return;
	system_find_place(v, &place);
	/* An INIT or a reset, which is noticed when something runs, and is no sleep. */
	if (system_at_reset_vector(place.ip, place.base))
		return;
	system_flow_arrive(v, &place, false);
	system_pass_time(v);
	sleep.ip = place.ip;
	ptah_model_sleep(v->model, &sleep);
	v->asleep = true;
}

void system_on_resume(qemu_plugin_id_t id, unsigned index)
{
	struct system_vcpu *v = system_plugin.vcpus[index];
	struct ptah_model_wake wake = {.last = 1, .deepest = 1, .interrupt = true};
	uint64_t now, before;

	(void)id;
	if (v)
		system_check_reset(v);
	if (!v || !v->asleep)
		return;
	v->asleep = false;
	if (!v->traced)
		return;
	now = system_now(v);
	before = ptah_model_tsc(v->model);
	wake.ticks = now > before ? now - before : 0;
	ptah_model_wake(v->model, &wake);
}
