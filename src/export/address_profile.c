/* SPDX-License-Identifier: MIT */
/* Takes one file's branches and straight runs out of the counts of all processes. */
#include "export/address_profile.h"

#include "base/order.h"
#include "support/list.h"

#include <ptah/symbol.h>
#include <stdlib.h>
#include <string.h>

/* Objects */

static bool is_object(const struct address_object *o, const struct ptah_counts_file *file)
{
	return !strcmp(o->path, file->path) && o->build_id_size == file->build_id_size &&
	       !memcmp(o->build_id, file->build_id, file->build_id_size);
}

struct object_list {
	struct address_object *object;
	size_t count, capacity, last;
};

static struct address_object *find_object(struct object_list *l,
					  const struct ptah_counts_file *file)
{
	struct address_object *more;

	if (l->last < l->count && is_object(&l->object[l->last], file))
		return &l->object[l->last];
	for (l->last = 0; l->last < l->count; l->last++)
		if (is_object(&l->object[l->last], file))
			return &l->object[l->last];
	if (!LIST_ROOM(l->object, l->count, l->capacity))
		return NULL;
	more = &l->object[l->count++];
	*more = (struct address_object){.path = file->path, .build_id_size = file->build_id_size};
	memcpy(more->build_id, file->build_id, sizeof(more->build_id));
	return more;
}

/*
 * Whether a process is called like the file. The kernel takes the last part of the path, and cuts
 * it.
 */
static bool has_name_of(const struct ptah_counts_process *p, const char *path)
{
	const char *slash = strrchr(path, '/');

	return *p->comm && slash && !strncmp(slash + 1, p->comm, strlen(p->comm));
}

static int by_instructions(const void *a, const void *b)
{
	const struct address_object *x = a, *y = b;

	return COMPARE_THEN(y->instructions, x->instructions, strcmp(x->path, y->path));
}

int address_objects_list(const struct ptah_counts *counts, struct address_object **objects,
			 size_t *count, uint64_t *instructions_of_all)
{
	struct object_list list = {0};
	struct ptah_counts_process p;

	*instructions_of_all = 0;
	for (size_t i = 0; ptah_counts_process(counts, i, &p); i++) {
		for (size_t k = 0; k < p.block_count; k++) {
			const struct ptah_profile_block *b = &p.blocks[k];
			const struct ptah_counts_file *file =
			    ptah_counts_find(counts, i, b->ip, b->version);
			struct address_object *object;

			*instructions_of_all += b->count * b->ninsn;
			if (!file || !outcomes_is_file(file->path, b->ip))
				continue;
			object = find_object(&list, file);
			if (!object) {
				free(list.object);
				return PTAH_E_NOMEM;
			}
			object->instructions += b->count * b->ninsn;
			if (!object->is_program)
				object->is_program = has_name_of(&p, file->path);
		}
	}
	if (list.count)
		qsort(list.object, list.count, sizeof(*list.object), by_instructions);
	*objects = list.object;
	*count = list.count;
	return 0;
}

/* Addresses */

struct segments {
	struct ptah_elf_segment *list;
	int count;
};

/* The address that the file itself gives to one of its bytes. */
static uint64_t address_of(const struct segments *s, uint64_t file_offset)
{
	for (int i = 0; i < s->count; i++)
		if (file_offset - s->list[i].offset < s->list[i].size)
			return s->list[i].address + (file_offset - s->list[i].offset);
	return ADDRESS_ELSEWHERE;
}

struct making {
	const struct ptah_counts *counts;
	const struct address_object *object;
	struct address_profile *profile;
	struct segments segments;
	size_t process;
	struct ptah_counts_file last; /* mapping of the object that was used last; size 0: none */
	uint64_t version;	      /* for addresses of this one */
	struct run_block *blocks;
	struct run_entry *entries;
	size_t block_count, block_capacity, entry_count, entry_capacity, branch_capacity;
};

/* Where an address of the process lies in the object. */
static uint64_t place(struct making *m, uint64_t ip, uint64_t version)
{
	const struct ptah_counts_file *file;

	if (ip - m->last.address >= m->last.size || version != m->version) {
		file = ptah_counts_find(m->counts, m->process, ip, version);
		if (!file || !is_object(m->object, file) || !outcomes_is_file(file->path, ip))
			return ADDRESS_ELSEWHERE;
		m->last = *file;
		m->version = version;
	}
	return address_of(&m->segments, ip - m->last.address + m->last.file_offset);
}

static bool is_call(uint8_t insn_class)
{
	return insn_class == PTAH_INSN_CALL || insn_class == PTAH_INSN_CALL_IND ||
	       insn_class == PTAH_INSN_RETURN;
}

/* Into the kernel and back. For the code of a file it is as if nothing had happened in between. */
static bool is_far(uint8_t insn_class)
{
	return insn_class > PTAH_INSN_RETURN;
}

static int add_branch(struct making *m, uint64_t from, uint64_t to, uint64_t count,
		      uint8_t insn_class)
{
	struct address_profile *p = m->profile;

	if (!count || (from == ADDRESS_ELSEWHERE && to == ADDRESS_ELSEWHERE))
		return 0;
	if (!LIST_ROOM(p->branches, p->branch_count, m->branch_capacity) ||
	    !LIST_ROOM(m->entries, m->entry_count, m->entry_capacity))
		return PTAH_E_NOMEM;
	p->branches[p->branch_count++] = (struct address_branch){from, to, count, 0};
	if (to != ADDRESS_ELSEWHERE)
		m->entries[m->entry_count++] = (struct run_entry){to, count, is_call(insn_class)};
	return 0;
}

static int add_block(struct making *m, const struct ptah_profile_block *b)
{
	const uint64_t last = b->end - b->last_size, ip = place(m, b->ip, b->version);
	const bool direct = b->insn_class == PTAH_INSN_JUMP || b->insn_class == PTAH_INSN_CALL;
	const bool conditional = b->insn_class == PTAH_INSN_COND;
	const bool cut = b->truncated || b->insn_class == PTAH_INSN_OTHER || is_far(b->insn_class);
	uint64_t left = cut ? 0 : b->count;

	if (!cut && conditional) {
		const uint64_t gone = b->taken + b->unknown;

		left = gone < b->count ? gone : b->count;
	}
	if (ip != ADDRESS_ELSEWHERE && b->count && last - b->ip < b->end - b->ip) {
		if (!LIST_ROOM(m->blocks, m->block_count, m->block_capacity))
			return PTAH_E_NOMEM;
		m->blocks[m->block_count++] = (struct run_block){.ip = ip,
								 .last = ip + (last - b->ip),
								 .end = ip + (b->end - b->ip),
								 .count = b->count,
								 .left = left,
								 .cut = cut};
		m->profile->unknown += conditional ? b->unknown : 0;
	}
	if (cut || !(direct || conditional))
		return 0;
	return add_branch(m, place(m, last, b->version), place(m, b->target, b->target_version),
			  conditional ? b->taken : b->count, b->insn_class);
}

static int add_process(struct making *m, const struct ptah_counts_process *p)
{
	int status = 0;

	m->last.size = 0;
	for (size_t i = 0; i < p->block_count && status >= 0; i++)
		status = add_block(m, &p->blocks[i]);
	for (size_t i = 0; i < p->edge_count && status >= 0; i++) {
		const struct ptah_profile_edge *e = &p->edges[i];

		if (!is_far(e->insn_class))
			status =
			    add_branch(m, place(m, e->from, e->version),
				       place(m, e->to, e->target_version), e->count, e->insn_class);
	}
	return status;
}

static int by_address(const void *a, const void *b)
{
	const struct address_branch *x = a, *y = b;

	return COMPARE_THEN(x->from, y->from, COMPARE(x->to, y->to));
}

static void sum_branches(struct address_profile *p)
{
	size_t last = 0;

	if (!p->branch_count)
		return;
	qsort(p->branches, p->branch_count, sizeof(*p->branches), by_address);
	for (size_t i = 1; i < p->branch_count; i++) {
		if (by_address(&p->branches[last], &p->branches[i]))
			p->branches[++last] = p->branches[i];
		else
			p->branches[last].count += p->branches[i].count;
	}
	p->branch_count = last + 1;
}

/* The byte of the file at one of its own addresses. UINT64_MAX: none. */
static uint64_t offset_of(const struct segments *s, uint64_t address)
{
	for (int i = 0; i < s->count; i++)
		if (address - s->list[i].address < s->list[i].size)
			return s->list[i].offset + (address - s->list[i].address);
	return UINT64_MAX;
}

/* Leaves out runs in stubs of the linkage table: BOLT has no blocks for them, and warns that the
 * profile may be of another binary where they are more than a tenth. */
static int drop_stubs(const char *path, const struct segments *segments, struct straight_runs *runs)
{
	struct ptah_function function = {0};
	struct ptah_symbols *symbols;
	size_t kept = 0;
	int status = ptah_symbols_new(NULL, &symbols);

	if (status < 0)
		return status;
	for (size_t i = 0; i < runs->count; i++) {
		const uint64_t start = runs->run[i].start;

		if (start - function.low >= function.high - function.low &&
		    !ptah_symbols_bounds(symbols, path, offset_of(segments, start), start,
					 &function))
			function = (struct ptah_function){0};
		if (!(function.flags & PTAH_FUNCTION_STUB))
			runs->run[kept++] = runs->run[i];
	}
	runs->count = kept;
	ptah_symbols_free(symbols);
	return 0;
}

/* Reads where the file has its code. */
static int read_segments(const char *path, struct segments *s)
{
	s->list = NULL;
	s->count = ptah_elf_segments(path, 0, &s->list);
	return s->count < 0 ? s->count : s->count ? 0 : PTAH_E_BAD_MAGIC;
}

static int find_bases(const char *path, const struct segments *s, struct address_profile *p)
{
	struct ptah_elf_extent extent;

	p->first_code = UINT64_MAX;
	for (int i = 0; i < s->count; i++)
		if (s->list[i].address < p->first_code)
			p->first_code = s->list[i].address;
	p->first_code &= ~UINT64_C(4095);
	if (!ptah_elf_extent(path, s->list[0].offset, &extent))
		return PTAH_E_BAD_MAGIC;
	p->first_address = extent.address;
	return 0;
}

int address_profile_make(const struct ptah_counts *counts, const struct address_object *object,
			 const char *path, struct address_profile *profile)
{
	struct making m = {.counts = counts, .object = object, .profile = profile};
	struct ptah_counts_process p;
	int status = read_segments(path, &m.segments);

	*profile = (struct address_profile){0};
	if (status >= 0)
		status = find_bases(path, &m.segments, profile);
	for (; status >= 0 && ptah_counts_process(counts, m.process, &p); m.process++)
		status = add_process(&m, &p);
	if (status >= 0) {
		sum_branches(profile);
		status = straight_runs_make(m.blocks, m.block_count, m.entries, m.entry_count,
					    &profile->runs);
	}
	if (status >= 0)
		status = drop_stubs(path, &m.segments, &profile->runs);
	free(m.segments.list);
	free(m.blocks);
	free(m.entries);
	if (status < 0)
		address_profile_free(profile);
	return status;
}

/* Mispredictions */

/* A conditional branch has one target: its taken executions are all of one element. */
static struct address_branch *find_branch(struct address_profile *p, uint64_t from)
{
	size_t at;

	BISECT(at, 0, p->branch_count, p->branches[at].from < from);
	return at < p->branch_count && p->branches[at].from == from ? &p->branches[at] : NULL;
}

int address_profile_predict(struct address_profile *profile, const struct address_object *object,
			    const char *path, const struct ptah_session *session,
			    const struct outcomes *outcomes)
{
	struct segments segments;
	int status = read_segments(path, &segments);

	for (size_t i = 0; i < outcomes->branch_count && status >= 0; i++) {
		const struct outcome *o = &outcomes->branches[i];
		struct address_branch *branch;
		struct ptah_map map;

		if (!ptah_session_find_map(session, o->space, o->ip, ptah_version_time(o->version),
					   &map) ||
		    strcmp(map.path, object->path) != 0)
			continue;
		branch = find_branch(profile,
				     address_of(&segments, o->ip - map.address + map.file_offset));
		if (branch)
			branch->missed += o->missed_taken;
	}
	free(segments.list);
	return status;
}

void address_profile_free(struct address_profile *profile)
{
	free(profile->branches);
	straight_runs_free(&profile->runs);
	*profile = (struct address_profile){0};
}
