/* SPDX-License-Identifier: MIT */
/* Splits sets of blocks by what each process reached (cover_sets.h). */
#include "export/cover_sets.h"

#include <stdlib.h>
#include <string.h>

int cover_sets_init(struct cover_sets *s, uint32_t block_count)
{
	/* One set for each block, one for each of them that has just been split, and that of all
	 * others. */
	const size_t room = 2 * (size_t)block_count + 2;

	*s = (struct cover_sets){
	    .block_count = block_count,
	    .set_count = 1,
	    .set_of = calloc((size_t)block_count + 1, sizeof(*s->set_of)),
	    .size = calloc(room, sizeof(*s->size)),
	    .split = calloc(room, sizeof(*s->split)),
	    .touched = calloc(room, sizeof(*s->touched)),
	    .unused = calloc(room, sizeof(*s->unused)),
	};
	if (!s->set_of || !s->size || !s->split || !s->touched || !s->unused) {
		cover_sets_free(s);
		return PTAH_E_NOMEM;
	}
	s->size[0] = block_count;
	return 0;
}

void cover_sets_free(struct cover_sets *s)
{
	free(s->set_of);
	free(s->size);
	free(s->split);
	free(s->touched);
	free(s->unused);
	memset(s, 0, sizeof(*s));
}

void cover_sets_add(struct cover_sets *s, const struct cover_reached *reached, size_t n)
{
	s->touched_count = 0;
	for (size_t i = 0; i < n; i++) {
		const uint32_t block = reached[i].block, old = s->set_of[block];

		if (!s->split[old]) {
			s->split[old] = s->unused_count ? s->unused[--s->unused_count]
							: (uint32_t)s->set_count++;
			s->touched[s->touched_count++] = old;
		}
		s->set_of[block] = s->split[old];
		s->size[old]--;
		s->size[s->split[old]]++;
	}
	for (size_t i = 0; i < s->touched_count; i++) {
		const uint32_t old = s->touched[i];

		s->split[old] = 0;
		if (old && !s->size[old])
			s->unused[s->unused_count++] = old;
	}
}

void cover_sets_finish(struct cover_sets *s)
{
	uint32_t count = 0;

	for (uint32_t i = 1; i <= s->block_count; i++) {
		const uint32_t set = s->set_of[i];

		if (set && !s->split[set])
			s->split[set] = ++count;
		s->set_of[i] = set ? s->split[set] : 0;
	}
	s->set_count = count;
	memset(s->split, 0, (2 * (size_t)s->block_count + 2) * sizeof(*s->split));
}

void cover_sets_of(struct cover_sets *s, const struct cover_reached *reached, size_t n)
{
	s->touched_count = 0;
	for (size_t i = 0; i < n; i++) {
		const uint32_t set = s->set_of[reached[i].block];

		if (s->split[set])
			continue;
		s->split[set] = 1;
		s->touched[s->touched_count++] = set;
	}
	for (size_t i = 0; i < s->touched_count; i++)
		s->split[s->touched[i]] = 0;
}
