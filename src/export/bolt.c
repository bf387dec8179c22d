/* SPDX-License-Identifier: MIT */
/* Writes the profile that `perf2bolt -pa` reads (bolt.h). */
#include "export/bolt.h"

static void put_address(struct out *out, uint64_t address)
{
	if (address == ADDRESS_ELSEWHERE)
		out_text(out, "X:0");
	else
		out_hex(out, address);
	out_char(out, ' ');
}

int bolt_write(struct out *out, const struct address_profile *profile)
{
	for (size_t i = 0; i < profile->branch_count; i++) {
		const struct address_branch *b = &profile->branches[i];

		out_text(out, "B ");
		put_address(out, b->from);
		put_address(out, b->to);
		out_decimal(out, b->count);
		out_char(out, ' ');
		out_decimal(out, b->missed);
		out_char(out, '\n');
	}
	for (size_t i = 0; i < profile->runs.count; i++) {
		const struct straight_run *r = &profile->runs.run[i];

		out_text(out, r->by_call ? "f " : "F ");
		put_address(out, r->start);
		put_address(out, r->last);
		out_decimal(out, r->count);
		out_char(out, '\n');
	}
	return 0;
}
