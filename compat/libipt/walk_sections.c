/* SPDX-License-Identifier: MIT */
/* Finds the section of the image that an address lies in; the last few are remembered. */
#include "walk_parts.h"

void walk_forget_sections(struct walk *w)
{
	const struct walk_section none = {.first = 1};

	w->sections.at = none;
	for (unsigned i = 0; i < WALK_SECTIONS; i++)
		w->sections.known[i] = none;
}

void walk_find_section(struct walk *w, uint64_t ip, uint32_t number)
{
	struct walk_section *known = &w->sections.known[(ip >> 12 ^ number) & (WALK_SECTIONS - 1)];
	struct ptah_space space = {PTAH_SPACE_ANY, PTAH_SPACE_ANY};
	struct ptah_section section;

	if (ip >= known->first && ip <= known->last && known->space == number) {
		w->sections.at = *known;
		return;
	}
	ptah_flow_space(w->flow, number, &space);
	w->sections.at = (struct walk_section){.first = ip, .last = ip, .space = number};
	if (ptah_image_find(image_ptah(w->image), ip, &space, &section) < 0)
		return;
	w->sections.at.first = section.address;
	w->sections.at.last = section.address + section.size - 1;
	w->sections.at.section = section.id;
	w->sections.at.isid = image_isid(w->image, section.id);
	*known = w->sections.at;
}
