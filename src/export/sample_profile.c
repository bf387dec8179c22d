/* SPDX-License-Identifier: MIT */
/* Writes profiles for AutoFDO's tools and for llvm-profgen (sample_profile.h). */
#include "export/sample_profile.h"

/* A line of two addresses. */
static void put_address_count(struct out *out, uint64_t a, const char *between, uint64_t b,
			      uint64_t count)
{
	out_hex(out, a);
	out_text(out, between);
	out_hex(out, b);
	out_char(out, ':');
	out_decimal(out, count);
	out_char(out, '\n');
}

static void put_length(struct out *out, size_t length)
{
	out_decimal(out, length);
	out_char(out, '\n');
}

/* The same run is two where it was entered in two ways: these tools add them up. */
static void put_runs(struct out *out, const struct straight_runs *runs, uint64_t base)
{
	size_t lines = 0;

	for (size_t i = 0; i < runs->count; i++)
		lines += !i || runs->run[i].start != runs->run[i - 1].start ||
			 runs->run[i].last != runs->run[i - 1].last;
	put_length(out, lines);
	for (size_t i = 0; i < runs->count; i++) {
		const struct straight_run *r = &runs->run[i];
		uint64_t count = r->count;

		if (i + 1 < runs->count && r[1].start == r->start && r[1].last == r->last) {
			count += r[1].count;
			i++;
		}
		put_address_count(out, r->start - base, "-", r->last - base, count);
	}
}

/* Branches inside the file: the tools know no others. */
static void put_branches(struct out *out, const struct address_profile *profile, uint64_t base)
{
	size_t lines = 0;

	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = 0; i < profile->branch_count; i++) {
			const struct address_branch *b = &profile->branches[i];

			if (b->from == ADDRESS_ELSEWHERE || b->to == ADDRESS_ELSEWHERE)
				continue;
			if (pass)
				put_address_count(out, b->from - base, "->", b->to - base,
						  b->count);
			else
				lines++;
		}
		if (!pass)
			put_length(out, lines);
	}
}

int autofdo_write(struct out *out, const struct address_profile *profile)
{
	put_runs(out, &profile->runs, profile->first_address);
	put_length(out, 0); /* single addresses */
	put_branches(out, profile, profile->first_address);
	return 0;
}

int llvm_profgen_write(struct out *out, const struct address_profile *profile)
{
	put_runs(out, &profile->runs, profile->first_code);
	put_branches(out, profile, profile->first_code);
	return 0;
}
