/* SPDX-License-Identifier: MIT */
/*
 * The memory format of XSAVES, XSAVEC and XRSTORS (SDM volume 1, "Compacted Format of Extended
 * Region"), and copies between it and the standard format, which QEMU has. Without QEMU, so that
 * it can be tested.
 */
#ifndef PTAH_RECORD_SYSTEM_XSAVE_AREA_H
#define PTAH_RECORD_SYSTEM_XSAVE_AREA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define XSAVE_HEADER	 512
#define XSAVE_EXTENDED	 576
#define XSAVE_COMPONENTS 63
#define XSAVE_AREA_MAX	 4096
#define XSAVE_COMPACTED	 (UINT64_C(1) << 63)
#define XSAVE_X87	 UINT64_C(1)
#define XSAVE_SSE	 UINT64_C(2)
#define XSAVE_PT	 UINT64_C(0x100)
#define XSAVE_PT_BYTES	 128u

/* What CPUID leaf 0DH says: size and offset of each component in the standard format. */
struct xsave_layout {
	uint64_t user;	     /* components that XCR0 can have: those that QEMU has */
	uint64_t supervisor; /* that IA32_XSS can have */
	struct {
		uint32_t size, offset;
		bool aligned; /* to 64 bytes in the compacted format */
	} component[XSAVE_COMPONENTS];
};

/* The offset of a component from 2 on in the compacted format of the components `bits`. */
size_t xsave_offset(const struct xsave_layout *l, uint64_t bits, unsigned component);
/* Bytes of an area with these components, header included. */
size_t xsave_size(const struct xsave_layout *l, uint64_t bits);

/*
 * Copies the user components of `saved` from the standard format to the compacted format of the
 * components `bits`, and makes its header, with XSTATE_BV `in_use`. What belongs to other
 * components does not change.
 */
void xsave_compact(const struct xsave_layout *l, uint8_t *compacted, uint64_t bits, uint64_t saved,
		   uint64_t in_use, const uint8_t *standard);

/* Whether XRSTORS would raise #GP for this area. `enabled`: XCR0 | IA32_XSS. */
bool xsave_faults(const uint8_t *compacted, uint64_t enabled, uint64_t restored);
/*
 * Copies the user components of `restored` to the standard format; those that XSTATE_BV does not
 * have get their initial values.
 */
void xsave_expand(const struct xsave_layout *l, uint8_t *standard, uint64_t restored,
		  const uint8_t *compacted);

#endif
