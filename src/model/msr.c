/* SPDX-License-Identifier: MIT */
/*
 * The registers, and every #GP that writing one can raise. SDM "Trace
 * Configuration MSRs", its subsections on each MSR, and "General Rules of the
 * Intel PT Configuration MSRs". Freestanding.
 */
#include "model/processor.h"

#define X2APIC_LVT_PMI 0x834u
#define LVT_MASKED     (UINT64_C(1) << 16)
#define LVT_NMI	       UINT64_C(0x400) /* delivery mode 100b */
#define LVT_FIELDS     (LVT_MASKED | UINT64_C(0x17ff))
#define DEBUGCTL_BITS  UINT64_C(0xffc3)
/* Fixed and general counters, and the flags of other features. */
#define GLOBAL_BITS UINT64_C(0xe0000007000000ff)

/* CPUID.14H.0:EBX */
enum {
	EBX_CR3 = 0,
	EBX_PSB_CYC = 1,
	EBX_MTC = 3,
	EBX_PTW = 4,
	EBX_PWR = 5,
	EBX_PSB_PMI = 6,
	EBX_EVENT = 7,
	EBX_TNT = 8,
	/* CPUID.14H.0:ECX */
	ECX_TOPA = 0,
	ECX_SINGLE = 2,
	ECX_FABRIC = 3,
};

static bool offers(const struct ptah_model *m, unsigned bit)
{
	return m->is->leaf_14_0[1] >> bit & 1;
}

static bool outputs(const struct ptah_model *m, unsigned bit)
{
	return m->is->leaf_14_0[2] >> bit & 1;
}

/* Sub-leaf 1 exists only if CPUID.14H.0:EAX says so. */
static uint32_t sub_leaf_1(const struct ptah_model *m, unsigned reg)
{
	return m->is->leaf_14_0[0] >= 1 ? m->is->leaf_14_1[reg] : 0;
}

/* CPUID.14H.1:EAX[2:0]; at most as many as there are registers. */
static unsigned ranges(const struct ptah_model *m)
{
	unsigned n = sub_leaf_1(m, 0) & 7;

	return n < PTAH_RANGES ? n : PTAH_RANGES;
}

static bool is_canonical(const struct ptah_model *m, uint64_t address)
{
	const unsigned unused = 64u - m->is->linear_bits;

	return (uint64_t)((int64_t)(address << unused) >> unused) == address;
}

/* Bits of IA32_RTIT_CTL that this processor does not have. SDM "IA32_RTIT_CTL MSR". */
static uint64_t ctl_reserved(const struct ptah_model *m)
{
	static const struct {
		uint8_t bit;
		uint64_t bits;
	} optional[] = {
	    {EBX_CR3, PTAH_RTIT_CTL_CR3_FILTER},
	    {EBX_PSB_CYC, PTAH_RTIT_CTL_CYC_EN | UINT64_C(15) << PTAH_RTIT_CTL_CYC_THRESH |
			      UINT64_C(15) << PTAH_RTIT_CTL_PSB_FREQ},
	    {EBX_MTC, PTAH_RTIT_CTL_MTC_EN | UINT64_C(15) << PTAH_RTIT_CTL_MTC_FREQ},
	    {EBX_PTW, PTAH_RTIT_CTL_PTW_EN | PTAH_RTIT_CTL_FUP_ON_PTW},
	    {EBX_PWR, PTAH_RTIT_CTL_PWR_EVT_EN},
	    {EBX_PSB_PMI, PTAH_RTIT_CTL_INJECT_PSBPMI},
	    {EBX_EVENT, PTAH_RTIT_CTL_EVENT_EN},
	    {EBX_TNT, PTAH_RTIT_CTL_DIS_TNT},
	};
	/* 18, 23, 30:28, 54:48, 63:57 */
	uint64_t reserved = UINT64_C(0xfe7f000070840000);

	for (unsigned i = 0; i < ARRAY_SIZE(optional); i++)
		if (!offers(m, optional[i].bit))
			reserved |= optional[i].bits;
	for (unsigned i = ranges(m); i < PTAH_RANGES; i++)
		reserved |= UINT64_C(15) << PTAH_RTIT_CTL_ADDR_CFG(i);
	if (!outputs(m, ECX_TOPA))
		reserved |= PTAH_RTIT_CTL_TOPA;
	if (!outputs(m, ECX_FABRIC))
		reserved |= PTAH_RTIT_CTL_FABRIC_EN;
	return reserved;
}

/*
 * Is the encoding in the bitmap of CPUID.14H.1? Every known processor has bit 0
 * set. Where it is not set, 0 is accepted as long as nothing uses the field,
 * because IA32_RTIT_CTL can always be cleared.
 */
static bool encoding_valid(uint64_t ctl, unsigned field, uint32_t bitmap, uint64_t user)
{
	unsigned value = ctl >> field & 15;

	return bitmap >> value & 1 || (value == 0 && !(ctl & user));
}

static bool ctl_encodings_valid(const struct ptah_model *m, uint64_t ctl)
{
	for (unsigned i = 0; i < PTAH_RANGES; i++)
		if ((ctl >> PTAH_RTIT_CTL_ADDR_CFG(i) & 15) > PTAH_RANGE_STOP)
			return false;
	if (offers(m, EBX_MTC) && !encoding_valid(ctl, PTAH_RTIT_CTL_MTC_FREQ,
						  sub_leaf_1(m, 0) >> 16, PTAH_RTIT_CTL_MTC_EN))
		return false;
	if (!offers(m, EBX_PSB_CYC))
		return true;
	return encoding_valid(ctl, PTAH_RTIT_CTL_CYC_THRESH, sub_leaf_1(m, 1) & 0xffff,
			      PTAH_RTIT_CTL_CYC_EN) &&
	       encoding_valid(ctl, PTAH_RTIT_CTL_PSB_FREQ, sub_leaf_1(m, 1) >> 16,
			      PTAH_RTIT_CTL_TRACE_EN);
}

static bool ctl_faults(const struct ptah_model *m, uint64_t ctl)
{
	/* While TraceEn is 1, only the same value or one with TraceEn 0 may be written. */
	if (model_trace_en(m) && ctl & PTAH_RTIT_CTL_TRACE_EN)
		return ctl != m->ctl;
	if (ctl & ctl_reserved(m) || !ctl_encodings_valid(m, ctl))
		return true;
	if (!(ctl & PTAH_RTIT_CTL_TRACE_EN))
		return false;
	if (!(ctl & (PTAH_RTIT_CTL_TOPA | PTAH_RTIT_CTL_FABRIC_EN)) && !outputs(m, ECX_SINGLE))
		return true;
	/* Erratum BDM106 */
	if (m->is->branch_required && !(ctl & PTAH_RTIT_CTL_BRANCH_EN))
		return true;
	/* SDM "Intel PT and VMX": IA32_VMX_MISC[14] */
	return m->program.vmx != MODEL_VMX_OFF && !m->is->vmx_pt;
}

/* SDM "IA32_RTIT_STATUS MSR" */
static bool status_faults(const struct ptah_model *m, uint64_t status)
{
	uint64_t allowed = PTAH_RTIT_STATUS_FILTER_EN | PTAH_RTIT_STATUS_CONTEXT_EN |
			   PTAH_RTIT_STATUS_TRIGGER_EN | PTAH_RTIT_STATUS_ERROR |
			   PTAH_RTIT_STATUS_STOPPED;

	if (offers(m, EBX_PSB_PMI))
		allowed |= PTAH_RTIT_STATUS_PEND_PSB | PTAH_RTIT_STATUS_PEND_TOPA_PMI;
	if (offers(m, EBX_PSB_CYC))
		allowed |= PTAH_RTIT_STATUS_BYTECNT_MASK;
	return status & ~allowed;
}

static bool is_address_msr(uint32_t msr)
{
	return msr >= PTAH_IA32_RTIT_ADDR0_A && msr < PTAH_IA32_RTIT_ADDR(PTAH_RANGES);
}

/* An MSR of Intel PT that this processor has. */
static bool is_rtit_msr(const struct ptah_model *m, uint32_t msr)
{
	if (!m->is->pt)
		return false;
	switch (msr) {
	case PTAH_IA32_RTIT_CTL:
	case PTAH_IA32_RTIT_STATUS:
		return true;
	case PTAH_IA32_RTIT_OUTPUT_BASE:
	case PTAH_IA32_RTIT_OUTPUT_MASK_PTRS:
		return outputs(m, ECX_TOPA) || outputs(m, ECX_SINGLE);
	case PTAH_IA32_RTIT_CR3_MATCH:
		return offers(m, EBX_CR3);
	default:
		return is_address_msr(msr) && (msr - PTAH_IA32_RTIT_ADDR0_A) / 2 < ranges(m);
	}
}

static bool rtit_faults(const struct ptah_model *m, uint32_t msr, uint64_t value)
{
	if (msr == PTAH_IA32_RTIT_CTL)
		return ctl_faults(m, value);
	if (model_trace_en(m))
		return true;
	switch (msr) {
	case PTAH_IA32_RTIT_STATUS:
		return status_faults(m, value);
	case PTAH_IA32_RTIT_OUTPUT_BASE:
		return value & 0x7f || value >> m->is->physical_bits;
	case PTAH_IA32_RTIT_OUTPUT_MASK_PTRS:
		return false;
	case PTAH_IA32_RTIT_CR3_MATCH:
		return value & 0x1f;
	default:
		return !is_canonical(m, value);
	}
}

static uint64_t global_status_bits(const struct ptah_model *m)
{
	return GLOBAL_BITS |
	       (m->is->pt && outputs(m, ECX_TOPA) ? PTAH_PERF_GLOBAL_TRACE_TOPA_PMI : 0);
}

bool model_msr_faults(const struct ptah_model *m, uint32_t msr, uint64_t value)
{
	uint64_t allowed = 0;

	if (is_rtit_msr(m, msr))
		return rtit_faults(m, msr, value);
	switch (msr) {
	case PTAH_IA32_PERF_GLOBAL_STATUS_RESET:
		if (m->is->perfmon < 2)
			return true;
		allowed = global_status_bits(m);
		if (m->faults.ack_needs_topa && !(m->ctl & PTAH_RTIT_CTL_TOPA))
			allowed &= ~PTAH_PERF_GLOBAL_TRACE_TOPA_PMI;
		break;
	case PTAH_IA32_PERF_GLOBAL_STATUS_SET:
		if (m->is->perfmon < 4)
			return true;
		allowed = global_status_bits(m);
		break;
	case PTAH_IA32_XSS:
		if (!m->is->xsaves)
			return true;
		allowed = m->is->pt ? PTAH_XSTATE_PT : 0;
		break;
	case PTAH_IA32_TIME_STAMP_COUNTER:
		return false;
	case PTAH_IA32_DEBUGCTL:
		allowed = DEBUGCTL_BITS;
		break;
	case X2APIC_LVT_PMI:
		allowed = LVT_FIELDS;
		break;
	default: /* read-only, or does not exist */
		return true;
	}
	return value & ~allowed;
}

uint64_t model_mask_ptrs(const struct ptah_model *m)
{
	return (uint64_t)m->offset << PTAH_RTIT_MASK_PTRS_OFFSET | m->index | 0x7f;
}

/*
 * PacketByteCnt has 17 bits, and a PSB period up to 26: with a long period it
 * counts in larger steps. 0 means that a PSB is next, so that no other count may
 * read as 0.
 */
static unsigned bytecnt_shift(const struct ptah_model *m)
{
	unsigned freq = m->ctl >> PTAH_RTIT_CTL_PSB_FREQ & 15;

	return freq > 6 ? freq - 6 : 0;
}

static uint64_t bytecnt(const struct ptah_model *m)
{
	uint64_t count = m->psb_count >> bytecnt_shift(m);

	if (!offers(m, EBX_PSB_CYC) || m->psb_due || !m->psb_count)
		return 0;
	return (count ? count : 1) << PTAH_RTIT_STATUS_PACKET_BYTECNT;
}

uint64_t model_status(const struct ptah_model *m)
{
	uint64_t status = m->status;

	if (!model_trace_en(m))
		return status;
	status &= ~PTAH_RTIT_STATUS_BYTECNT_MASK;
	status |= bytecnt(m);
	if (!model_trigger_en(m))
		return status;
	return status | PTAH_RTIT_STATUS_TRIGGER_EN |
	       (m->context_en ? PTAH_RTIT_STATUS_CONTEXT_EN : 0) |
	       (m->filter_en ? PTAH_RTIT_STATUS_FILTER_EN : 0);
}

static void start(struct ptah_model *m)
{
	m->psb_count =
	    ((m->status & PTAH_RTIT_STATUS_BYTECNT_MASK) >> PTAH_RTIT_STATUS_PACKET_BYTECNT)
	    << bytecnt_shift(m);
	m->psb_count %= model_psb_period(m);
	m->psb_due = false;
	model_output_start(m);
	/* SDM "IA32_RTIT_STATUS MSR", PendTopaPMI: a PMI that the disable prevented comes now. */
	if (m->ctl & PTAH_RTIT_CTL_INJECT_PSBPMI && m->status & PTAH_RTIT_STATUS_PEND_TOPA_PMI) {
		m->status &= ~PTAH_RTIT_STATUS_PEND_TOPA_PMI;
		model_pmi_raise(m);
	}
	if (!m->faults.silent)
		model_trace_started(m);
}

static void stop(struct ptah_model *m)
{
	if (model_trigger_en(m) && !m->faults.silent)
		model_trace_stopping(m);
	model_output_stop(m);
	m->status &= ~PTAH_RTIT_STATUS_BYTECNT_MASK;
	m->status |= bytecnt(m);
}

void model_set_ctl(struct ptah_model *m, uint64_t value)
{
	const bool was = model_trace_en(m);

	if (was && !(value & PTAH_RTIT_CTL_TRACE_EN))
		stop(m);
	m->ctl = value;
	if (!was && value & PTAH_RTIT_CTL_TRACE_EN)
		start(m);
}

static void write_rtit(struct ptah_model *m, uint32_t msr, uint64_t value)
{
	switch (msr) {
	case PTAH_IA32_RTIT_CTL:
		model_set_ctl(m, value);
		break;
	case PTAH_IA32_RTIT_STATUS: /* bits that only the processor writes stay 0 */
		m->status = value & ~(PTAH_RTIT_STATUS_FILTER_EN | PTAH_RTIT_STATUS_CONTEXT_EN |
				      PTAH_RTIT_STATUS_TRIGGER_EN);
		break;
	case PTAH_IA32_RTIT_OUTPUT_BASE:
		m->base = value;
		break;
	case PTAH_IA32_RTIT_OUTPUT_MASK_PTRS:
		m->index = (uint32_t)value | 0x7f;
		m->offset = (uint32_t)(value >> PTAH_RTIT_MASK_PTRS_OFFSET);
		break;
	case PTAH_IA32_RTIT_CR3_MATCH:
		m->cr3_match = value;
		break;
	default:
		m->addr[msr - PTAH_IA32_RTIT_ADDR0_A] = value;
	}
}

int ptah_model_wrmsr(struct ptah_model *m, uint32_t msr, uint64_t value)
{
	if (model_msr_faults(m, msr, value))
		return PTAH_E_UNSUPPORTED;
	switch (msr) {
	case PTAH_IA32_PERF_GLOBAL_STATUS_RESET:
		m->global_status &= ~value;
		break;
	case PTAH_IA32_PERF_GLOBAL_STATUS_SET:
		m->global_status |= value;
		break;
	case PTAH_IA32_XSS:
		m->xss = value;
		break;
	case PTAH_IA32_TIME_STAMP_COUNTER:
		ptah_model_set_tsc(m, value);
		break;
	case PTAH_IA32_DEBUGCTL:
		m->debugctl = value;
		break;
	case X2APIC_LVT_PMI:
		m->lvt_nmi = (value & UINT64_C(0x700)) == LVT_NMI;
		model_pmi_mask(m, value & LVT_MASKED);
		break;
	default:
		write_rtit(m, msr, value);
	}
	return PTAH_OK;
}

/*
 * SDM "IA32_RTIT_OUTPUT_MASK_PTRS MSR" and "ToPA Tables and Related MSRs": output
 * updates these three, and instructions do not wait for output.
 */
static uint64_t read_output_msr(struct ptah_model *m, uint32_t msr)
{
	const bool lagging = model_trace_en(m) && m->faults.stale_bytes;

	if (model_trace_en(m))
		model_output_settle(m);
	switch (msr) {
	case PTAH_IA32_RTIT_STATUS:
		return lagging ? m->seen_status : model_status(m);
	case PTAH_IA32_RTIT_OUTPUT_BASE:
		return lagging ? m->seen_base : m->base;
	default:
		return lagging ? m->seen_ptrs : model_mask_ptrs(m);
	}
}

static uint64_t read_rtit(struct ptah_model *m, uint32_t msr)
{
	switch (msr) {
	case PTAH_IA32_RTIT_CTL:
		return m->ctl;
	case PTAH_IA32_RTIT_CR3_MATCH:
		return m->cr3_match;
	default:
		return is_address_msr(msr) ? m->addr[msr - PTAH_IA32_RTIT_ADDR0_A]
					   : read_output_msr(m, msr);
	}
}

int ptah_model_rdmsr(struct ptah_model *m, uint32_t msr, uint64_t *value)
{
	bool there = true;

	*value = 0;
	if (is_rtit_msr(m, msr)) {
		*value = read_rtit(m, msr);
		return PTAH_OK;
	}
	switch (msr) {
	case PTAH_IA32_PERF_GLOBAL_STATUS:
		there = m->is->perfmon >= 2;
		*value = there ? m->global_status : 0;
		break;
	case PTAH_IA32_PERF_GLOBAL_STATUS_RESET: /* reads as 0 */
		there = m->is->perfmon >= 2;
		break;
	case PTAH_IA32_PERF_GLOBAL_STATUS_SET:
		there = m->is->perfmon >= 4;
		break;
	case PTAH_IA32_XSS:
		there = m->is->xsaves;
		*value = m->xss;
		break;
	case PTAH_IA32_VMX_MISC:
		there = m->is->vmx;
		*value = there && m->is->vmx_pt ? PTAH_VMX_MISC_PT : 0;
		break;
	case PTAH_IA32_TIME_STAMP_COUNTER:
		*value = ptah_model_tsc(m);
		break;
	case PTAH_IA32_DEBUGCTL:
		*value = m->debugctl;
		break;
	case PTAH_MSR_PLATFORM_INFO: /* hypervisors usually hide it */
		there = m->is->nominal_ratio;
		*value = (uint64_t)m->is->nominal_ratio << 8;
		break;
	case X2APIC_LVT_PMI:
		*value = (m->lvt_masked ? LVT_MASKED : 0) | (m->lvt_nmi ? LVT_NMI : 0);
		break;
	default:
		there = false;
	}
	return there ? PTAH_OK : PTAH_E_UNSUPPORTED;
}
