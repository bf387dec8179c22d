/* SPDX-License-Identifier: MIT */
/*
 * Delivers the model's PMI through the guest's local APIC: as the entry LVTPC of its local vector
 * table says. QEMU has no function for this entry, so the plugin sends the interrupt to the CPU as
 * a message (MSI), and sets the entry's mask as the APIC would.
 */
#include "record/system/system.h"

#define APIC		UINT64_C(0xfee00000)
#define APIC_LVTPC	(APIC + 0x340)
#define APIC_SVR	(APIC + 0xf0)
#define SVR_ENABLED	0x100u
#define LVT_MASKED	0x10000u
#define LVT_MESSAGE	0x7ffu /* vector and delivery mode */
#define X2APIC_LVT	0x834u /* the entry's number as an MSR, by which the model knows it */
#define DESTINATION(id) ((uint64_t)(id) << 12)

/* Both are called in the CPU's own thread: QEMU answers for the CPU that runs there. */
static uint32_t load_pmi_register(uint64_t address)
{
	return host.load32(host.memory, address, HOST_NO_ATTRIBUTES, NULL);
}

static void store_pmi_register(uint64_t address, uint32_t value)
{
	host.store32(host.memory, address, value, HOST_NO_ATTRIBUTES, NULL);
}

/* CPUID has the same number in xAPIC and x2APIC mode; the APIC's own register has not. */
static uint32_t apic_id(struct system_vcpu *v)
{
	uint32_t eax, ebx, ecx, edx;

	host.cpuid(v->general, 1, 0, &eax, &ebx, &ecx, &edx);
	return ebx >> 24;
}

static void send(void *cpu, union host_data data)
{
	const uint32_t id = apic_id(system_vcpu_of(cpu));

	store_pmi_register(APIC | DESTINATION(id), (uint32_t)data.word);
}

void system_pmi(void *port, unsigned cpu)
{
	struct system_vcpu *v = port;
	const bool locked = host.is_locked();
	union host_data message;

	(void)cpu;
	v->truth.pmis++;
	if (!locked)
		host.lock(__FILE__, __LINE__);
	message.word = load_pmi_register(APIC_LVTPC) & LVT_MESSAGE;
	store_pmi_register(APIC_LVTPC, (uint32_t)message.word | LVT_MASKED);
	/* With -icount no interrupt may be raised while translated code runs. */
	if (*host.icount)
		host.run_on(v->cpu, send, message);
	else
		send(v->cpu, message);
	if (!locked)
		host.unlock();
	system_debug("processor %u: PMI, message %lx", v->index, message.word);
}

/*
 * The entry as the model's processor has it. SDM "Local APIC State After It Has Been Software
 * Disabled": all entries are masked then.
 */
static uint32_t entry(void)
{
	const uint32_t lvt = load_pmi_register(APIC_LVTPC) & (LVT_MASKED | LVT_MESSAGE);

	return load_pmi_register(APIC_SVR) & SVR_ENABLED ? lvt : lvt | LVT_MASKED;
}

void system_poll_pmi(struct system_vcpu *v)
{
	ptah_model_wrmsr(v->model, X2APIC_LVT, entry());
	ptah_model_boundary(v->model);
	v->pmi_waits = v->model->pmi_pending;
}
