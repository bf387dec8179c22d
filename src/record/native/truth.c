/* SPDX-License-Identifier: MIT */
/* Counts what ran by the log of exits (truth.h). */
#include "record/native/truth.h"

#include "x86/x86.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 64
#define SKIPPED	   (1u << 16) /* numbers in a row whose threads may have been killed */

/* NULL: it is not described. */
static struct native_truth_exit *find_exit(const struct native_truth *t, uint32_t number)
{
	const unsigned memory = number / NATIVE_EXITS_MAX;
	const uint32_t index = number % NATIVE_EXITS_MAX;
	struct native_truth_page *page =
	    memory < NATIVE_MEMORIES ? t->exits[memory].pages[index / NATIVE_TRUTH_PAGE] : NULL;
	struct native_truth_exit *exit = page ? &page->list[index % NATIVE_TRUTH_PAGE] : NULL;

	return exit && exit->instructions ? exit : NULL;
}

/* NULL: the number makes no sense, or there is no memory. */
static struct native_truth_exit *add_exit(struct native_truth_exits *exits, uint64_t index)
{
	struct native_truth_page **page;

	if (!index || index >= NATIVE_EXITS_MAX || index >= exits->end + SKIPPED)
		return NULL;
	page = &exits->pages[index / NATIVE_TRUTH_PAGE];
	if (!*page)
		*page = calloc(1, sizeof(**page));
	if (!*page)
		return NULL;
	if (index >= exits->end)
		exits->end = index + 1;
	(*page)->count++;
	return &(*page)->list[index % NATIVE_TRUTH_PAGE];
}

static void count(struct native_truth_exit *exit, const struct x86_insn *insn)
{
	exit->instructions++;
	exit->conditional += insn->insn_class == PTAH_INSN_COND;
	exit->indirect +=
	    insn->insn_class == PTAH_INSN_JUMP_IND || insn->insn_class == PTAH_INSN_CALL_IND;
	exit->returns += insn->insn_class == PTAH_INSN_RETURN;
}

/* Decodes the code of a block, which must be whole instructions. */
static bool decode(struct native_truth_exit *exit, const struct native_block *block,
		   const uint8_t *bytes)
{
	const size_t size = (size_t)(block->end - block->start);
	struct x86_insn insn;

	for (size_t at = 0; at < size; at += insn.size) {
		uint8_t window[X86_MAX_SIZE] = {0};
		const size_t n = size - at < sizeof(window) ? size - at : sizeof(window);

		memcpy(window, bytes + at, n);
		if (x86_decode(window, sizeof(window), block->start + at, PTAH_EXEC_64, &insn) <
			0 ||
		    insn.size > n)
			return false;
		count(exit, &insn);
	}
	return true;
}

/* Takes the next block of a description: its bytes, or 0 if it makes no sense. */
static size_t take_block(struct native_truth_exit *exit, const uint8_t *payload, size_t n)
{
	struct native_block *block = &exit->blocks[exit->block_count];
	size_t size;

	if (n < sizeof(*block))
		return 0;
	memcpy(block, payload, sizeof(*block));
	if (block->end <= block->start || block->end - block->start > NATIVE_BLOCK_MAX)
		return 0;
	size = (size_t)(block->end - block->start + 7) & ~(size_t)7;
	if (size > n - sizeof(*block) || !decode(exit, block, payload + sizeof(*block)))
		return 0;
	exit->block_count++;
	return sizeof(*block) + size;
}

static bool describe(struct native_truth_exit *exit, const uint8_t *payload, size_t n)
{
	struct native_exit head;
	size_t at = sizeof(head);

	memcpy(&head, payload, sizeof(head));
	if (!head.blocks || head.blocks > NATIVE_EXIT_BLOCKS || exit->blocks)
		return false;
	exit->blocks = malloc(head.blocks * sizeof(*exit->blocks));
	if (!exit->blocks)
		return false;
	while (exit->block_count < head.blocks) {
		const size_t taken = take_block(exit, payload + at, n - at);

		if (!taken)
			return false;
		at += taken;
	}
	return true;
}

unsigned native_truth_begin(struct native_truth *t)
{
	if (t->program_count == t->program_room) {
		const size_t room = t->program_room ? 2 * t->program_room : FIRST_ROOM;
		uint32_t *programs = reallocarray(t->programs, room, sizeof(*programs));

		if (!programs) {
			t->failed = true;
			return 0;
		}
		t->programs = programs;
		t->program_room = room;
	}
	t->programs[t->program_count] = 0;
	return (unsigned)t->program_count++;
}

void native_truth_describe(struct native_truth *t, unsigned program, unsigned memory,
			   uint64_t number, const void *payload, size_t n)
{
	struct native_truth_exit *exit = NULL;

	if (program < t->program_count && n >= sizeof(struct native_exit))
		exit = add_exit(&t->exits[memory], number - native_exits_from(memory));
	if (!exit || !describe(exit, payload, n)) {
		t->failed = true;
		return;
	}
	exit->next = t->programs[program];
	t->programs[program] = (uint32_t)number;
}

void native_truth_forget(struct native_truth *t, unsigned program)
{
	uint32_t number = program < t->program_count ? t->programs[program] : 0;

	while (number) {
		struct native_truth_exit *exit = find_exit(t, number);
		struct native_truth_page **page =
		    &t->exits[number / NATIVE_EXITS_MAX]
			 .pages[number % NATIVE_EXITS_MAX / NATIVE_TRUTH_PAGE];

		number = exit->next;
		free(exit->blocks);
		*exit = (struct native_truth_exit){.blocks = NULL};
		if (--(*page)->count)
			continue;
		free(*page);
		*page = NULL;
	}
	if (program < t->program_count)
		t->programs[program] = 0;
}

void native_truth_keep(struct native_truth *t, struct native_truth_thread *thread,
		       const uint8_t *bytes, size_t n)
{
	uint8_t *pending = realloc(thread->pending, thread->pending_size + n);

	if (!pending) {
		t->failed = true;
		return;
	}
	memcpy(pending + thread->pending_size, bytes, n);
	thread->pending = pending;
	thread->pending_size += n;
}

static bool count_exit(const struct native_truth *t, struct native_truth_thread *thread,
		       uint32_t number)
{
	const struct native_truth_exit *exit = find_exit(t, number);

	if (!exit)
		return false;
	for (uint32_t i = 0; i < exit->block_count; i++)
		path_hash_add(&thread->path, exit->blocks[i].start, exit->blocks[i].end);
	thread->instructions += exit->instructions;
	thread->conditional += exit->conditional;
	thread->indirect += exit->indirect;
	thread->returns += exit->returns;
	return true;
}

void native_truth_count(struct native_truth *t, struct native_truth_thread *thread)
{
	uint32_t number;

	for (size_t at = 0; at + sizeof(number) <= thread->pending_size; at += sizeof(number)) {
		memcpy(&number, thread->pending + at, sizeof(number));
		if (!count_exit(t, thread, number))
			t->failed = true;
	}
	free(thread->pending);
	thread->pending = NULL;
	thread->pending_size = 0;
}

bool native_truth_get(const struct native_truth *t, const struct native_truth_thread *thread,
		      struct ptah_truth *truth)
{
	*truth = (struct ptah_truth){.instructions = thread->instructions,
				     .conditional = thread->conditional,
				     .indirect = thread->indirect,
				     .returns = thread->returns,
				     .path_hash = path_hash_value(&thread->path)};
	return !t->failed && !thread->pending_size;
}

static void free_page(struct native_truth_page *page)
{
	for (size_t i = 0; page && i < NATIVE_TRUTH_PAGE; i++)
		free(page->list[i].blocks);
	free(page);
}

void native_truth_free(struct native_truth *t)
{
	for (unsigned memory = 0; memory < NATIVE_MEMORIES; memory++)
		for (size_t i = 0; i * NATIVE_TRUTH_PAGE < t->exits[memory].end; i++)
			free_page(t->exits[memory].pages[i]);
	free(t->programs);
	*t = (struct native_truth){0};
}
