/* SPDX-License-Identifier: MIT */
/*
 * XSAVES and XRSTORS of the state components of this processor: AVX, whose values
 * are not simulated, and Intel PT. SDM volume 1, "Operation of XSAVES" and
 * "Operation of XRSTORS"; volume 3, "Context Switch Consideration" and "Intel PT
 * and XSAVES/XRSTORS". Freestanding.
 */
#include "model/processor.h"

#define HEADER	    512
#define FIRST	    576 /* of the components in a compacted image */
#define AVX_BYTES   256
#define PT_BYTES    128
#define XCR0	    UINT64_C(7) /* x87, SSE, AVX */
#define COMPACTED   (UINT64_C(1) << 63)
#define AVX	    UINT64_C(4)
#define PT_MSRS	    9
#define INITIAL_PTR UINT64_C(0x7f) /* OUTPUT_MASK_PTRS after reset */

/* In the order of the image. */
static const uint32_t pt_msrs[PT_MSRS] = {
    PTAH_IA32_RTIT_CTL,		PTAH_IA32_RTIT_OUTPUT_BASE, PTAH_IA32_RTIT_OUTPUT_MASK_PTRS,
    PTAH_IA32_RTIT_STATUS,	PTAH_IA32_RTIT_CR3_MATCH,   PTAH_IA32_RTIT_ADDR(0),
    PTAH_IA32_RTIT_ADDR(0) + 1, PTAH_IA32_RTIT_ADDR(1),	    PTAH_IA32_RTIT_ADDR(1) + 1,
};

static uint64_t components_of(const struct ptah_model *m)
{
	return XCR0 | m->xss;
}

/* The offset of component 8 in an image with these components. */
static size_t pt_offset(uint64_t xcomp)
{
	return FIRST + (xcomp & AVX ? AVX_BYTES : 0);
}

/* Registers that the processor does not have are 0 in an image. */
static void read_pt(struct ptah_model *m, uint64_t values[PT_MSRS])
{
	for (unsigned i = 0; i < PT_MSRS; i++)
		ptah_model_rdmsr(m, pt_msrs[i], &values[i]);
}

/* Whether the values differ from the initial configuration. */
static bool in_use(const uint64_t values[PT_MSRS])
{
	for (unsigned i = 0; i < PT_MSRS; i++)
		if (values[i] && !(i == 2 && values[i] == INITIAL_PTR))
			return true;
	return false;
}

/*
 * IA32_RTIT_CTL is saved first, then TraceEn is cleared, then the rest is saved;
 * so the position in the image is exact.
 */
static bool save_pt(struct ptah_model *m, uint8_t *to)
{
	uint64_t values[PT_MSRS];
	const uint64_t ctl = m->ctl;

	model_set_ctl(m, ctl & ~PTAH_RTIT_CTL_TRACE_EN);
	read_pt(m, values);
	values[0] = ctl;
	if (!in_use(values))
		return false;
	memset(to, 0, PT_BYTES);
	for (unsigned i = 0; i < PT_MSRS; i++)
		store_le64(to + 8 * i, values[i]);
	return true;
}

int ptah_model_xsaves(struct ptah_model *m, void *area, uint64_t components)
{
	const uint64_t asked = components & components_of(m);
	uint8_t *image = area;
	uint64_t present = asked & XCR0;

	if (!m->is->xsaves || !area || (uintptr_t)area & 63)
		return PTAH_E_UNSUPPORTED;
	if (asked & PTAH_XSTATE_PT && save_pt(m, image + pt_offset(asked)))
		present |= PTAH_XSTATE_PT;
	store_le64(image + HEADER, present);
	store_le64(image + HEADER + 8, asked | COMPACTED);
	memset(image + HEADER + 16, 0, 48);
	return PTAH_OK;
}

/*
 * Makes the same checks as WRMSR, all of them before anything changes. A register
 * that does not exist accepts only 0.
 */
static bool pt_faults(const struct ptah_model *m, const uint64_t values[PT_MSRS])
{
	for (unsigned i = 0; i < PT_MSRS; i++)
		if (values[i] && model_msr_faults(m, pt_msrs[i], values[i]))
			return true;
	return false;
}

static int restore_pt(struct ptah_model *m, const uint64_t values[PT_MSRS])
{
	if (pt_faults(m, values))
		return PTAH_E_UNSUPPORTED;
	for (unsigned i = 1; i < PT_MSRS; i++)
		if (!model_msr_faults(m, pt_msrs[i], values[i]))
			ptah_model_wrmsr(m, pt_msrs[i], values[i]);
	model_set_ctl(m,
		      values[0]); /* last, because once TraceEn is set the other registers apply */
	return PTAH_OK;
}

static bool header_faults(const struct ptah_model *m, const uint8_t *image)
{
	const uint64_t xstate = load_le64(image + HEADER), xcomp = load_le64(image + HEADER + 8);

	if (!(xcomp & COMPACTED) || (xcomp & ~COMPACTED & ~components_of(m)) || xstate & ~xcomp)
		return true;
	for (unsigned i = 16; i < 64; i++)
		if (image[HEADER + i])
			return true;
	return false;
}

int ptah_model_xrstors(struct ptah_model *m, const void *area, uint64_t components)
{
	const uint64_t asked = components & components_of(m);
	const uint8_t *image = area;
	uint64_t values[PT_MSRS] = {0};

	if (!m->is->xsaves || !area || (uintptr_t)area & 63 || header_faults(m, image))
		return PTAH_E_UNSUPPORTED;
	if (!(asked & PTAH_XSTATE_PT))
		return PTAH_OK;
	if (model_trace_en(m))
		return PTAH_E_UNSUPPORTED;
	if (load_le64(image + HEADER) & PTAH_XSTATE_PT) {
		const uint8_t *from = image + pt_offset(load_le64(image + HEADER + 8));

		for (unsigned i = 0; i < PT_MSRS; i++)
			values[i] = load_le64(from + 8 * i);
	}
	return restore_pt(m, values);
}
