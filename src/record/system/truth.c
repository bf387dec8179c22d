/* SPDX-License-Identifier: MIT */
/* The ground truth: counting, the guest's registers, the text form (truth.h). */
#include "record/system/truth.h"

#include "base/hash.h"
#include "model/processor.h"
#include "record/simulated/insn.h"

#include <inttypes.h>
#include <stdlib.h>

#define PAGE_BITS UINT64_C(0xfff)
#define ANY_SPACE UINT64_MAX
#define KERNEL	  1u
#define USER	  2u

bool system_truth_init(struct system_truth *t)
{
	memset(t, 0, sizeof(*t));
	t->paths = calloc(SYSTEM_PATHS + 1, sizeof(*t->paths));
	t->space = ANY_SPACE;
	t->level = KERNEL | USER;
	return t->paths;
}

void system_truth_reset(struct system_truth *t, struct ptah_model *m)
{
	memset(&t->all, 0, sizeof(t->all));
	memset(t->paths, 0, (SYSTEM_PATHS + 1) * sizeof(*t->paths));
	t->last = NULL;
	t->used = 0;
	t->pmis = t->lost = 0;
	t->bytes = ptah_model_output_bytes(m, &t->dropped);
}

/* The place of a pair in the table; all places may be taken, and then it is that of "other". */
static struct system_path *find_system_path(struct system_truth *t, uint64_t cr3, bool user)
{
	size_t i = (size_t)(hash_number(cr3 | user) >> 40) % SYSTEM_PATHS;
	struct system_path *path = &t->paths[i];

	while (path->used && (path->cr3 != cr3 || path->user != user)) {
		i = (i + 1) % SYSTEM_PATHS;
		path = &t->paths[i];
	}
	if (path->used)
		return path;
	if (t->used >= SYSTEM_PATHS - SYSTEM_PATHS / 8)
		return &t->paths[SYSTEM_PATHS];
	t->used++;
	*path = (struct system_path){.cr3 = cr3, .used = true, .user = user};
	return path;
}

static struct system_path *current(struct system_truth *t, const struct ptah_model *m)
{
	const uint64_t cr3 = m->program.cr3 & ~PAGE_BITS;
	const bool user = m->program.cpl == 3;

	if (!t->last || t->last->cr3 != cr3 || t->last->user != user)
		t->last = find_system_path(t, cr3, user);
	return t->last;
}

static enum system_count count_of(unsigned kind, bool taken)
{
	switch (kind) {
	case PTAH_INSN_COND:
		return taken ? SYSTEM_TAKEN : SYSTEM_NOT_TAKEN;
	case PTAH_INSN_JUMP:
		return SYSTEM_JUMPS;
	case PTAH_INSN_CALL:
	case KIND_ZERO_CALL:
		return SYSTEM_CALLS;
	case PTAH_INSN_JUMP_IND:
		return SYSTEM_JUMPS_IND;
	case PTAH_INSN_CALL_IND:
		return SYSTEM_CALLS_IND;
	case PTAH_INSN_RETURN:
		return SYSTEM_RETURNS;
	case PTAH_INSN_FAR_CALL:
	case PTAH_INSN_FAR_JUMP:
	case PTAH_INSN_FAR_RETURN:
		return SYSTEM_FAR;
	default:
		return SYSTEM_COUNT_MAX;
	}
}

static void add_path_run(struct system_path *p, uint64_t start, uint64_t end, unsigned n,
			 enum system_count branch)
{
	p->counts[SYSTEM_INSNS] += n;
	if (branch < SYSTEM_COUNT_MAX)
		p->counts[branch]++;
	path_hash_add(&p->hash, start, end);
}

void system_truth_run(struct system_truth *t, const struct ptah_model *m, uint64_t start,
		      uint64_t end, unsigned n, unsigned kind, bool taken)
{
	const enum system_count branch = count_of(kind, taken);

	if (!m->packet_en || start == end)
		return;
	add_path_run(&t->all, start, end, n, branch);
	add_path_run(current(t, m), start, end, n, branch);
}

void system_truth_event(struct system_truth *t, const struct ptah_model *m, unsigned kind)
{
	const enum system_count count =
	    kind == PTAH_MODEL_INTERRUPT ? SYSTEM_INTERRUPTS : SYSTEM_EXCEPTIONS;

	if (!m->packet_en)
		return;
	t->all.counts[count]++;
	current(t, m)->counts[count]++;
}

/* What the guest has selected */

static uint64_t value_of(const struct system_path *p, enum system_count which)
{
	return which == SYSTEM_HASH ? path_hash_value(&p->hash) : p->counts[which];
}

static bool selected(const struct system_truth *t, const struct system_path *p)
{
	return p->used && t->level & (p->user ? USER : KERNEL) &&
	       (t->space == ANY_SPACE || p->cr3 == (t->space & ~PAGE_BITS));
}

/* The hash of several paths is their exclusive or: a number that does not depend on their order. */
static uint64_t read_selected_truth(const struct system_truth *t, enum system_count which)
{
	uint64_t value = 0;

	if (t->space == ANY_SPACE && t->level == (KERNEL | USER))
		return value_of(&t->all, which);
	for (size_t i = 0; i < SYSTEM_PATHS; i++) {
		if (!selected(t, &t->paths[i]))
			continue;
		if (which == SYSTEM_HASH)
			value ^= value_of(&t->paths[i], which);
		else
			value += value_of(&t->paths[i], which);
	}
	return value;
}

static uint64_t read_count(const struct system_truth *t, struct ptah_model *m,
			   enum system_count which)
{
	uint64_t dropped, bytes;

	if (which <= SYSTEM_HASH)
		return read_selected_truth(t, which);
	bytes = ptah_model_output_bytes(m, &dropped);
	switch (which) {
	case SYSTEM_BYTES:
		return bytes - t->bytes;
	case SYSTEM_DROPPED:
		return dropped - t->dropped;
	case SYSTEM_PMIS:
		return t->pmis;
	default:
		return t->lost;
	}
}

enum system_access system_truth_rdmsr(const struct system_truth *t, struct ptah_model *m,
				      uint32_t msr, uint64_t *value)
{
	switch (msr) {
	case SYSTEM_MSR_REPORT:
		*value = SYSTEM_TRUTH_IDENTITY;
		return SYSTEM_DONE;
	case SYSTEM_MSR_RESET:
		*value = 0;
		return SYSTEM_DONE;
	case SYSTEM_MSR_SPACE:
		*value = t->space;
		return SYSTEM_DONE;
	case SYSTEM_MSR_LEVEL:
		*value = t->level;
		return SYSTEM_DONE;
	default:
		break;
	}
	if (msr < SYSTEM_MSR_COUNT || msr % 8 || (msr - SYSTEM_MSR_COUNT) / 8 >= SYSTEM_VALUE_MAX)
		return SYSTEM_NOT_OURS;
	*value = read_count(t, m, (enum system_count)((msr - SYSTEM_MSR_COUNT) / 8));
	return SYSTEM_DONE;
}

enum system_access system_truth_wrmsr(struct system_truth *t, struct ptah_model *m, uint32_t msr,
				      uint64_t value)
{
	switch (msr) {
	case SYSTEM_MSR_RESET:
		system_truth_reset(t, m);
		return SYSTEM_DONE;
	case SYSTEM_MSR_SPACE:
		t->space = value;
		return SYSTEM_DONE;
	case SYSTEM_MSR_LEVEL:
		if (!value || value > (KERNEL | USER))
			return SYSTEM_FAULTS;
		t->level = value;
		return SYSTEM_DONE;
	default:
		return SYSTEM_NOT_OURS;
	}
}

/* The text form */

static void print_path(FILE *file, const struct system_path *p)
{
	static const char *const words[] = {
#define X(name, word) word,
	    SYSTEM_COUNTS(X)
#undef X
	};

	for (size_t i = 0; i < SYSTEM_COUNT_MAX; i++)
		fprintf(file, " %s %" PRIu64, words[i], p->counts[i]);
	fprintf(file, " hash %016" PRIx64, path_hash_value(&p->hash));
}

void system_truth_print(FILE *file, uint64_t tag, unsigned cpu, const struct system_truth *t,
			struct ptah_model *m)
{
	fprintf(file, "truth %" PRIu64 " cpu %u cr3 all level all", tag, cpu);
	print_path(file, &t->all);
	fprintf(file, " bytes %" PRIu64 " dropped %" PRIu64 " pmis %" PRIu64 " lost %" PRIu64 "\n",
		read_count(t, m, SYSTEM_BYTES), read_count(t, m, SYSTEM_DROPPED), t->pmis, t->lost);
	for (size_t i = 0; i <= SYSTEM_PATHS; i++) {
		const struct system_path *p = &t->paths[i];

		if (!p->used && !p->counts[SYSTEM_INSNS])
			continue;
		if (p->used)
			fprintf(file, "truth %" PRIu64 " cpu %u cr3 %" PRIx64 " level %s", tag, cpu,
				p->cr3, p->user ? "user" : "kernel");
		else
			fprintf(file, "truth %" PRIu64 " cpu %u cr3 other level all", tag, cpu);
		print_path(file, p);
		fprintf(file, "\n");
	}
}
