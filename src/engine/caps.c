/* SPDX-License-Identifier: MIT */
/*
 * Finds out what a processor's Intel PT can do, from CPUID and the few MSRs that add to it. A leaf
 * beyond the highest one is not read, because CPUID returns the values of another leaf there (SDM
 * volume 2, "CPUID").
 */
#include <ptah/engine/caps.h>

#include "base/compiler.h"

#include <string.h>

enum {
	EAX,
	EBX,
	ECX,
	EDX
};

#define LEAF_EXTENDED UINT32_C(0x80000000)

struct probe {
	const struct ptah_hal *hal;
	void *port;
	uint32_t highest, highest_extended;
};

static bool bit(uint32_t word, unsigned n)
{
	return word >> n & 1;
}

/* All 0 when there is no such leaf. Whether the sub-leaf exists is for the caller to check. */
static void read_leaf(const struct probe *p, uint32_t leaf, uint32_t subleaf, uint32_t r[4])
{
	uint32_t highest = leaf >= LEAF_EXTENDED ? p->highest_extended : p->highest;

	memset(r, 0, 4 * sizeof(*r));
	if (leaf <= highest)
		p->hal->cpuid(p->port, leaf, subleaf, r);
}

/* False when the read raised #GP, or the HAL cannot read MSRs. */
static bool read_msr(const struct probe *p, uint32_t msr, uint64_t *value)
{
	return p->hal->rdmsr && p->hal->rdmsr(p->port, msr, value) == PTAH_OK;
}

/* EBX, EDX, ECX hold the vendor: "Genu" "ineI" "ntel". */
static bool is_intel(const uint32_t r[4])
{
	return r[EBX] == 0x756e6547 && r[EDX] == 0x49656e69 && r[ECX] == 0x6c65746e;
}

/* SDM volume 2, "CPUID", leaf 01H: only some families use the extended fields. */
static void take_version(struct ptah_caps *caps, uint32_t eax)
{
	unsigned family = eax >> 8 & 0xf, model = eax >> 4 & 0xf;

	if (family == 6 || family == 15)
		model |= (eax >> 16 & 0xf) << 4;
	if (family == 15)
		family += eax >> 20 & 0xff;
	caps->cpu = (struct ptah_cpu){(uint16_t)family, (uint8_t)model, eax & 0xf};
}

/*
 * Leaf 80000008H. Without it a processor has 36 physical address bits. 52 is the limit, because
 * page tables hold no more.
 */
static void take_address_widths(struct ptah_caps *caps, const struct probe *p)
{
	uint32_t r[4];
	unsigned physical;

	read_leaf(p, LEAF_EXTENDED + 8, 0, r);
	physical = r[EAX] & 0xff;
	caps->physical_bits = physical < 32 ? 36 : physical > 52 ? 52 : (uint8_t)physical;
	caps->linear_bits = (r[EAX] >> 8 & 0xff) >= 57 ? 57 : 48;
}

/*
 * Whether XSAVES can save Intel PT's state, component 8 of IA32_XSS. Leaf 0DH says so; it exists
 * when XSAVE does (leaf 01H:ECX[26]).
 */
static bool has_xsaves(const struct probe *p, uint32_t features)
{
	uint32_t r[4];

	if (!bit(features, 26))
		return false;
	read_leaf(p, 0xd, 1, r);
	return bit(r[EAX], 3) && (r[ECX] & PTAH_XSTATE_PT);
}

/* What follows from the model, because CPUID does not report it. */
enum {
	BRANCH_REQUIRED = 1,	/* BDM106 */
	LBR_EXCLUSIVE = 2,	/* SDM volume 3, "Last Branch Records and Intel PT" */
	SINGLE_RANGE_4K = 4,	/* TGL052, ADL037, RPL017 */
	CRYSTAL_24_MHZ = 8,	/* this and below: SDM volume 3, */
	CRYSTAL_25_MHZ = 0x10,	/* "Determining the Processor Base Frequency", */
	CRYSTAL_19_2_MHZ = 0x20 /* where leaf 15H leaves ECX 0 */
};

static const struct {
	uint8_t model; /* of family 6 */
	uint8_t facts;
} models[] = {
    {0x3d, BRANCH_REQUIRED | LBR_EXCLUSIVE},
    {0x47, BRANCH_REQUIRED | LBR_EXCLUSIVE},
    {0x4f, BRANCH_REQUIRED | LBR_EXCLUSIVE},
    {0x56, BRANCH_REQUIRED | LBR_EXCLUSIVE},
    {0x4e, LBR_EXCLUSIVE | CRYSTAL_24_MHZ},
    {0x5e, LBR_EXCLUSIVE | CRYSTAL_24_MHZ},
    {0x8e, CRYSTAL_24_MHZ},
    {0x9e, CRYSTAL_24_MHZ},
    {0x55, CRYSTAL_25_MHZ},
    {0x5c, CRYSTAL_19_2_MHZ},
    {0x8c, SINGLE_RANGE_4K},
    {0x8d, SINGLE_RANGE_4K},
    {0x97, SINGLE_RANGE_4K},
    {0x9a, SINGLE_RANGE_4K},
    {0xb7, SINGLE_RANGE_4K},
    {0xba, SINGLE_RANGE_4K},
    {0xbf, SINGLE_RANGE_4K},
};

static unsigned facts_of(const struct ptah_caps *caps)
{
	for (size_t i = 0; caps->cpu.family == 6 && i < ARRAY_SIZE(models); i++)
		if (models[i].model == caps->cpu.model)
			return models[i].facts;
	return 0;
}

static void take_facts(struct ptah_caps *caps)
{
	unsigned facts = facts_of(caps);

	caps->branch_required = facts & BRANCH_REQUIRED;
	caps->lbr_exclusive = facts & LBR_EXCLUSIVE;
	caps->single_range_4k_only = facts & SINGLE_RANGE_4K;
	if (caps->crystal_hz || !caps->tsc_n)
		return;
	caps->crystal_hz = facts & CRYSTAL_24_MHZ     ? 24000000
			   : facts & CRYSTAL_25_MHZ   ? 25000000
			   : facts & CRYSTAL_19_2_MHZ ? 19200000
						      : 0;
}

/* SDM volume 3, "Enumeration of Intel PT": leaf 14H, its main leaf. */
static void take_main_leaf(struct ptah_caps *caps)
{
	uint32_t ebx = caps->leaf_14_0[EBX], ecx = caps->leaf_14_0[ECX];

	caps->cr3_filter = bit(ebx, 0);
	caps->psb_cyc = bit(ebx, 1);
	caps->ip_filter = bit(ebx, 2);
	caps->mtc = bit(ebx, 3);
	caps->ptwrite = bit(ebx, 4);
	caps->power_events = bit(ebx, 5);
	caps->psb_pmi_preserve = bit(ebx, 6);
	caps->event_trace = bit(ebx, 7);
	caps->tnt_disable = bit(ebx, 8);
	caps->trigger_tracing = bit(ebx, 9);
	caps->topa = bit(ecx, 0);
	caps->topa_multi = caps->topa && bit(ecx, 1);
	caps->single_range = bit(ecx, 2);
	caps->fabric = bit(ecx, 3);
	caps->lip = bit(ecx, 31);
}

/* The same, sub-leaf 1. Values of features that the main leaf does not announce stay 0. */
static void take_encodings(struct ptah_caps *caps)
{
	uint32_t eax = caps->leaf_14_1[EAX], ebx = caps->leaf_14_1[EBX];
	uint32_t ecx = caps->leaf_14_1[ECX];

	if (caps->ip_filter)
		caps->ranges = (eax & 7) > PTAH_RANGES ? PTAH_RANGES : eax & 7;
	if (caps->mtc)
		caps->mtc_periods = (uint16_t)(eax >> 16);
	if (caps->trigger_tracing) {
		caps->triggers = (uint8_t)(4 * (eax >> 8 & 7));
		caps->trigger_attribution = bit(ecx, 0);
		caps->trigger_pause_resume = bit(ecx, 1);
		caps->trigger_dr_match = bit(ecx, 15);
	}
	if (caps->psb_cyc) {
		caps->cyc_thresholds = (uint16_t)ebx;
		caps->psb_periods = (uint16_t)(ebx >> 16);
	}
}

/*
 * A processor that announces a feature checks the feature's field at every write of IA32_RTIT_CTL.
 * If the bitmap of valid values were empty, every write would raise #GP.
 */
static bool contradicts_itself(const struct ptah_caps *caps)
{
	return (caps->mtc && !caps->mtc_periods) ||
	       (caps->psb_cyc && (!caps->cyc_thresholds || !caps->psb_periods));
}

static void take_leaves(struct ptah_caps *caps, const struct probe *p)
{
	read_leaf(p, 0x14, 0, caps->leaf_14_0);
	take_main_leaf(caps);
	if (caps->leaf_14_0[EAX] >= 1)
		read_leaf(p, 0x14, 1, caps->leaf_14_1);
	take_encodings(caps);
	read_leaf(p, 0x15, 0, caps->leaf_15);
	if (caps->leaf_15[EAX] && caps->leaf_15[EBX]) {
		caps->tsc_d = caps->leaf_15[EAX];
		caps->tsc_n = caps->leaf_15[EBX];
	}
	caps->crystal_hz = caps->leaf_15[ECX];
	take_facts(caps);
}

/* Reads what only MSRs hold. Returns the obstacle, if they cannot be read or tracing is on. */
static unsigned look_at_msrs(struct ptah_caps *caps, const struct probe *p)
{
	uint64_t value;

	if (!p->hal->rdmsr)
		return PTAH_CAPS_NONE;
	if (read_msr(p, PTAH_MSR_PLATFORM_INFO, &value))
		caps->nominal_ratio = (uint8_t)(value >> 8);
	if (caps->vmx && read_msr(p, PTAH_IA32_VMX_MISC, &value))
		caps->vmx_pt = value & PTAH_VMX_MISC_PT;
	if (!read_msr(p, PTAH_IA32_RTIT_CTL, &value))
		return PTAH_CAPS_NO_MSR;
	if (!caps->vmx_pt && p->hal->in_vmx && p->hal->in_vmx(p->port))
		return PTAH_CAPS_VMX;
	return value & PTAH_RTIT_CTL_TRACE_EN ? PTAH_CAPS_IN_USE : PTAH_CAPS_NONE;
}

/* Fills in *caps as far as possible, and returns the first obstacle. */
static unsigned explore(struct ptah_caps *caps, struct probe *p)
{
	uint32_t r[4], vendor[4];
	unsigned msrs;

	p->hal->cpuid(p->port, 0, 0, vendor);
	p->highest = vendor[EAX];
	p->hal->cpuid(p->port, LEAF_EXTENDED, 0, r);
	p->highest_extended = r[EAX]; /* below 80000000H where there are none */
	read_leaf(p, 1, 0, r);
	take_version(caps, r[EAX]);
	take_address_widths(caps, p);
	caps->hypervisor = bit(r[ECX], 31);
	if (!is_intel(vendor))
		return PTAH_CAPS_NOT_INTEL;
	caps->vmx = bit(r[ECX], 5);
	caps->xsaves = has_xsaves(p, r[ECX]);
	read_leaf(p, 7, 0, r);
	if (!bit(r[EBX], 25))
		return PTAH_CAPS_NO_PT;
	if (p->highest < 0x14)
		return PTAH_CAPS_NO_LEAF;
	take_leaves(caps, p);
	msrs = look_at_msrs(caps, p);
	if (contradicts_itself(caps))
		return PTAH_CAPS_BAD_LEAF;
	return caps->topa || caps->single_range ? msrs : PTAH_CAPS_NO_OUTPUT;
}

int ptah_caps_discover(const struct ptah_hal *hal, void *port, struct ptah_caps *caps)
{
	struct probe p = {.hal = hal, .port = port};

	if (!hal || hal->size < sizeof(*hal) || !hal->cpuid || !caps)
		return PTAH_E_INVAL;
	memset(caps, 0, sizeof(*caps));
	caps->size = sizeof(*caps);
	caps->obstacle = (uint8_t)explore(caps, &p);
	return caps->obstacle ? PTAH_E_UNSUPPORTED : PTAH_OK;
}

static const struct {
	const char *name, *advice;
} obstacles[PTAH_CAPS_OBSTACLE_MAX] = {
    [PTAH_CAPS_NONE] = {"NONE", "This processor can be traced."},
    [PTAH_CAPS_NOT_INTEL] =
	{"NOT_INTEL", "This is not an Intel processor, and only Intel's have Intel PT. Record "
		      "with the simulated processor, or on another machine."},
    [PTAH_CAPS_NO_PT] =
	{"NO_PT", "This processor has no Intel PT (from the fifth Core generation on they do), "
		  "or firmware or a hypervisor hides it. In a virtual machine, ask for a CPU "
		  "model with intel-pt; else look for it in the firmware's settings."},
    [PTAH_CAPS_NO_LEAF] =
	{"NO_LEAF", "CPUID announces Intel PT but has no leaf 14H to describe it. Firmware or "
		    "a hypervisor limits the highest leaf: lift that limit."},
    [PTAH_CAPS_BAD_LEAF] = {"BAD_LEAF",
			    "CPUID leaf 14H announces MTC or CYC packets without any valid period "
			    "for them. No processor does that: a hypervisor garbles it. Let it "
			    "pass the leaf and its sub-leaf 1 on as they are, or hide Intel PT."},
    [PTAH_CAPS_NO_OUTPUT] =
	{"NO_OUTPUT", "Its Intel PT can write to memory neither by ToPA nor to a single range; "
		      "only a trace port is left, which needs a debug probe."},
    [PTAH_CAPS_NO_MSR] =
	{"NO_MSR", "CPUID announces Intel PT, but its registers cannot be read: a hypervisor "
		   "keeps them. Let it pass Intel PT through to the guest."},
    [PTAH_CAPS_VMX] =
	{"VMX", "A hypervisor is active on this processor, which cannot trace in VMX operation "
		"(IA32_VMX_MISC[14] is 0). Unload it (with KVM: the module kvm_intel)."},
    [PTAH_CAPS_IN_USE] =
	{"IN_USE", "Somebody else is tracing on this processor (IA32_RTIT_CTL.TraceEn is 1): "
		   "another driver, a debugger or the firmware. Stop that first."},
};

const char *ptah_caps_obstacle_name(unsigned obstacle)
{
	return obstacle < PTAH_CAPS_OBSTACLE_MAX ? obstacles[obstacle].name : "UNKNOWN";
}

const char *ptah_caps_advice(unsigned obstacle)
{
	return obstacle < PTAH_CAPS_OBSTACLE_MAX ? obstacles[obstacle].advice
						 : "It cannot be traced, and it is not known why.";
}
