/* SPDX-License-Identifier: MIT */
/*
 * BOLT's pre-aggregated profile: the input of `perf2bolt -pa`, text, a record a line.
 *
 *	B FROM TO COUNT MISPREDICTED	a taken branch; "X:0" is an address in another file
 *	F START LAST COUNT		a straight run: its first and last instruction
 *	f START LAST COUNT		the same, entered by a call or a return
 *
 * Addresses are those of the file, hexadecimal. BOLT counts the way from a call to the instruction
 * after it, where they are in two basic blocks, only for runs with `f`.
 */
#ifndef PTAH_EXPORT_BOLT_H
#define PTAH_EXPORT_BOLT_H

#include "export/address_profile.h"
#include "output/out.h"

int bolt_write(struct out *out, const struct address_profile *profile);

#endif
