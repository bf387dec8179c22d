/* SPDX-License-Identifier: MIT */
/*
 * The engine as a whole: finds out what each processor can do, keeps the list of captures, releases
 * those of an owner, and acts when a processor goes offline or online, or enters or leaves VMX
 * operation.
 */
#include "engine/internal.h"

/* The callbacks that a port needs: always, or (`with`) where it has that other one. */
#define AT(name) offsetof(struct ptah_hal, name)
#define ALWAYS(name)                                                                               \
	{                                                                                          \
#name, AT(name), 0                                                                 \
	}
#define WITH(name, other)                                                                          \
	{                                                                                          \
#name, AT(name), AT(other)                                                         \
	}

static const struct {
	char name[12]; /* no pointer: a table of the kernel's read-only data */
	uint16_t at, with;
} callbacks[] = {
    ALWAYS(rdmsr),
    ALWAYS(wrmsr),
    ALWAYS(cpuid),
    ALWAYS(fence),
    ALWAYS(cpu),
    ALWAYS(cpus),
    ALWAYS(irq_save),
    ALWAYS(irq_restore),
    ALWAYS(lock),
    ALWAYS(unlock),
    ALWAYS(alloc),
    ALWAYS(release),
    ALWAYS(run_on),
    WITH(pmi_enable, pmi_unmask),
    WITH(pmi_unmask, pmi_enable),
    WITH(xsaves, xrstors),
    WITH(xrstors, xsaves),
    WITH(user_map, user_unmap),
    WITH(user_unmap, user_map),
};

static bool has_callback(const struct ptah_hal *hal, size_t at)
{
	void (*callback)(void);

	memcpy(&callback, (const uint8_t *)hal + at, sizeof(callback));
	return callback;
}

const char *ptah_hal_missing(const struct ptah_hal *hal)
{
	if (!hal)
		return "hal";
	if (hal->size < sizeof(*hal))
		return "size";
	for (size_t i = 0; i < ARRAY_SIZE(callbacks); i++) {
		if (!has_callback(hal, callbacks[i].at) &&
		    (!callbacks[i].with || has_callback(hal, callbacks[i].with)))
			return callbacks[i].name;
	}
	return NULL;
}

static void discover(const struct ptah_engine *engine, struct engine_cpu *cpu)
{
	const struct ptah_caps *shown = &cpu->caps;

	ptah_caps_discover(engine->hal, engine->port, &cpu->caps);
	cpu->caps_in_vmx = cpu->caps_in_use = cpu->caps;
	cpu->caps_in_vmx.obstacle = PTAH_CAPS_VMX;
	cpu->caps_in_use.obstacle = PTAH_CAPS_IN_USE;
	if (cpu->caps.obstacle == PTAH_CAPS_VMX)
		shown = &cpu->caps_in_vmx;
	if (cpu->caps.obstacle == PTAH_CAPS_IN_USE)
		shown = &cpu->caps_in_use;
	if (shown != &cpu->caps)
		cpu->caps.obstacle = PTAH_CAPS_NONE;
	atomic_store(&cpu->shown, shown);
}

/* PINNED, on the processor. The first time: what it can do. Later: whether an obstacle that may
 * pass has passed. */
static void look(void *argument)
{
	struct ptah_engine *engine = argument;
	const struct ptah_caps *shown;
	struct engine_cpu *cpu;
	unsigned number;

	cpu = engine_here(engine, &number);
	if (!cpu)
		return;
	shown = atomic_load(&cpu->shown);
	if (!shown) {
		discover(engine, cpu);
	} else if (shown != &cpu->caps) {
		/* No capture is traced here: its start would have removed the obstacle. */
		engine_hold(cpu);
		hardware_obstacle(engine, cpu);
		engine_release(engine, cpu, number);
	}
}

void engine_look(struct ptah_engine *engine, unsigned cpu)
{
	if (cpu < engine->cpus && atomic_load(&engine->cpu[cpu].shown) != &engine->cpu[cpu].caps)
		engine->hal->run_on(engine->port, cpu, look, engine);
}

int ptah_engine_new(const struct ptah_hal *hal, void *port, struct ptah_engine **engine)
{
	struct ptah_hal_memory memory;
	struct ptah_engine *e;
	unsigned n, cpus;
	int status;

	if (ptah_hal_missing(hal) || !engine)
		return PTAH_E_INVAL;
	cpus = hal->cpus(port);
	if (!cpus || cpus > MAX_CPUS)
		return PTAH_E_LIMIT;
	status = buffer_alloc(hal, port, NOBODY, PTAH_MEMORY_ENGINE,
			      sizeof(*e) + cpus * sizeof(e->cpu[0]), &memory);
	if (status < 0)
		return status;
	e = memory.address;
	e->hal = hal;
	e->port = port;
	e->memory = memory;
	e->cpus = cpus;
	crash_begin(e);
	for (n = 0; n < cpus; n++)
		engine_look(e, n);
	log_obstacles(e);
	/* If the port cannot deliver PMIs now, the engine works without them. */
	e->pmi = hal->pmi_enable && hal->pmi_enable(port, true) >= 0;
	if (hal->pmi_enable && !e->pmi)
		log_port(hal, port, LOG_NO_PMI, 0);
	*engine = e;
	return PTAH_OK;
}

int ptah_engine_free(struct ptah_engine *engine)
{
	struct ptah_hal_memory memory;
	const struct ptah_hal *hal;
	void *port;
	bool busy;

	if (!engine)
		return PTAH_OK;
	hal = engine->hal;
	port = engine->port;
	hal->lock(port);
	busy = engine->captures || engine->sets;
	hal->unlock(port);
	if (busy)
		return PTAH_E_BUSY;
	if (engine->pmi)
		hal->pmi_enable(port, false);
	memory = engine->memory;
	memset(&engine->crash, 0, sizeof(engine->crash)); /* a reader would find the freed memory */
	hal->release(port, &memory);
	return PTAH_OK;
}

const struct ptah_caps *ptah_engine_caps(const struct ptah_engine *engine, unsigned cpu)
{
	return engine && cpu < engine->cpus ? atomic_load(&engine->cpu[cpu].shown) : NULL;
}

const struct ptah_caps *engine_caps_of(const struct ptah_engine *engine, unsigned cpu)
{
	return ptah_engine_caps(engine, cpu) ? &engine->cpu[cpu].caps : NULL;
}

void engine_link(struct ptah_capture *c)
{
	struct ptah_engine *engine = c->engine;

	engine->hal->lock(engine->port);
	c->next = engine->captures;
	crash_link(engine, c, c->next);
	engine->captures = c;
	crash_link(engine, NULL, c);
	engine->hal->unlock(engine->port);
}

/* Under the lock: removes the capture after `before` (NULL: the first) from the list. */
static void unlink_after(struct ptah_engine *engine, struct ptah_capture *before)
{
	struct ptah_capture **at = before ? &before->next : &engine->captures;

	*at = (*at)->next;
	crash_link(engine, before, *at);
}

bool engine_unlink(struct ptah_capture *c)
{
	struct ptah_engine *engine = c->engine;
	struct ptah_capture *at, *before = NULL;

	engine->hal->lock(engine->port);
	for (at = engine->captures; at && at != c; at = at->next)
		before = at;
	if (at)
		unlink_after(engine, before);
	engine->hal->unlock(engine->port);
	return at;
}

/*
 * Whether the capture belongs to this owner. One of a pool that is not in use belongs to nobody,
 * and one that is does not any more after this call.
 */
static bool take(struct ptah_capture *c, uint64_t owner)
{
	unsigned used = POOLED_USED;
	bool is;

	if (!c->pool)
		return c->owner == owner;
	if (!atomic_compare_exchange_strong(&c->pooled, &used, POOLED_LOOKED))
		return false;
	is = c->owner == owner;
	atomic_store(&c->pooled, is ? POOLED_CHANGING : POOLED_USED);
	return is;
}

/* Finds one of the owner's captures and returns it, removed from the list unless it is a pool's;
 * NULL: none is left. */
static struct ptah_capture *take_of(struct ptah_engine *engine, uint64_t owner)
{
	struct ptah_capture *at, *before = NULL;

	engine->hal->lock(engine->port);
	for (at = engine->captures; at && !take(at, owner); at = at->next)
		before = at;
	if (at && !at->pool)
		unlink_after(engine, before);
	engine->hal->unlock(engine->port);
	return at;
}

int ptah_engine_release_owner(struct ptah_engine *engine, uint64_t owner)
{
	struct ptah_capture *c;
	int n = 0;

	if (!engine)
		return 0;
	sets_release_owner(engine, owner);
	while ((c = take_of(engine, owner)) != NULL) {
		/* Before all else, so that the processor does not write to freed memory. */
		ptah_capture_stop(c);
		map_remove_and_free(c);
		n++;
	}
	/* The owner's mappings of other captures. Each call searches the list again, because no
	 * lock is held while the port unmaps. */
	while (map_remove_anywhere(engine, owner))
		;
	return n;
}

/* PINNED. A reason (BLOCKED_...) why this processor cannot trace begins or ends. */
static void block(struct ptah_engine *engine, unsigned why, bool on)
{
	struct ptah_capture *c;
	struct engine_cpu *cpu;
	unsigned number;

	cpu = engine_here(engine, &number);
	if (!cpu)
		return;
	c = atomic_load(&cpu->target);
	if (on && c) {
		atomic_store(&c->gap, true);
		log_capture(c, why == BLOCKED_VMX ? LOG_VMX : LOG_OFFLINE, 0);
	}
	engine_hold(cpu);
	if (on)
		atomic_fetch_or(&cpu->blocked, why);
	else
		atomic_fetch_and(&cpu->blocked, ~why);
	engine_note(cpu);
	engine_release(engine, cpu, number);
}

void ptah_engine_cpu_offline(struct ptah_engine *engine)
{
	struct ptah_capture *c;
	struct engine_cpu *cpu;
	unsigned number;

	block(engine, BLOCKED_OFFLINE, true);
	cpu = engine_here(engine, &number);
	c = cpu ? atomic_load(&cpu->target) : NULL;
	if (!c)
		return;
	/* Nobody holds it now: other processors may change it, or continue it if it follows a
	 * thread. */
	if (c->cpu < 0)
		atomic_store(&cpu->target, NULL);
	engine_show(engine, c);
	atomic_store(&c->holder, NOBODY);
}

void ptah_engine_cpu_online(struct ptah_engine *engine)
{
	struct ptah_capture *c;
	struct engine_cpu *cpu;
	unsigned number;

	look(engine);
	cpu = engine_here(engine, &number);
	c = cpu ? atomic_load(&cpu->target) : NULL;
	if (c && !capture_take(c, (int)number))
		atomic_store(&cpu->target, NULL);
	/* The local APIC was reset: the entry for PMIs is masked, and a PMI on its way was dropped.
	 */
	if (cpu && engine->pmi) {
		atomic_store(&cpu->late, 0);
		engine->hal->pmi_unmask(engine->port);
	}
	block(engine, BLOCKED_OFFLINE, false);
}

void ptah_engine_vmxon(struct ptah_engine *engine)
{
	struct engine_cpu *cpu;
	unsigned number;

	cpu = engine_here(engine, &number);
	if (cpu && !cpu->caps.vmx_pt)
		block(engine, BLOCKED_VMX, true);
}

void ptah_engine_vmxoff(struct ptah_engine *engine)
{
	struct engine_cpu *cpu;
	unsigned number;

	cpu = engine_here(engine, &number);
	if (cpu && atomic_load(&cpu->blocked) & BLOCKED_VMX)
		block(engine, BLOCKED_VMX, false);
	look(engine);
}
