/* SPDX-License-Identifier: MIT */
/*
 * Compares which changes of memory must wait, and what is found at an address, with plain loops
 * over all changes.
 */
#include "random.h"
#include "test.h"

#include "session/session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHANGES 60
#define ROUNDS	300

static uint64_t seed = 88172645463325252u;

static uint64_t chance(uint64_t n)
{
	return random_next(&seed) % n;
}

/* Uses few addresses, so that much overlaps, sometimes at the end of the address space. */
static struct change random_change(uint64_t tsc)
{
	static const char *const paths[] = {"/bin/a", "/lib/b", "//anon", "[vdso]"};
	struct change c = {
	    .type = (uint8_t)(chance(20) ? chance(2) : CHANGE_EXEC),
	    .tsc = tsc,
	    .address = chance(200) + (chance(10) ? 0 : UINT64_MAX - 300),
	    .size = 1 + chance(chance(4) ? 10 : 90),
	    .path = paths[chance(4)],
	};

	if (c.type == CHANGE_EXEC) {
		c.address = 0;
		c.size = UINT64_MAX;
	}
	return c;
}

static bool overlap(const struct change *a, const struct change *b)
{
	return a->address - b->address < b->size || b->address - a->address < a->size;
}

static bool counts(const struct change *c)
{
	return c->type == CHANGE_CODE ||
	       (c->type == CHANGE_MAP && c->path[0] == '/' && c->path[1] != '/');
}

/* The rule, literally: a change waits if it replaces code, or something that replaced code. */
static void expect_waits(const struct change *const *changes, size_t n, bool *waits)
{
	bool takes[2 * CHANGES];

	for (size_t i = 0; i < n; i++) {
		bool taken = false;

		for (size_t k = 0; k < i; k++)
			taken = taken || (takes[k] && overlap(changes[i], changes[k]));
		takes[i] = taken || counts(changes[i]);
		waits[i] = taken && changes[i]->tsc;
	}
}

static void fill_process(struct process *p)
{
	uint64_t tsc = 0;

	p->count = 1 + chance(CHANGES);
	p->changes = calloc(p->count, sizeof(*p->changes));
	assert_non_null(p->changes);
	for (size_t i = 0; i < p->count; i++) {
		if (chance(2))
			tsc += chance(3) * CHANGE_SAME_TICKS;
		p->changes[i] = random_change(tsc);
	}
}

/* Code at the time of a file's mapping there is called by the file. */
static const struct change *named(const struct change *const *changes, size_t n,
				  const struct change *found)
{
	const struct change *file = NULL;

	if (found->type != CHANGE_CODE)
		return found;
	for (size_t i = 0; i < n && changes[i] != found; i++)
		if (changes[i]->type == CHANGE_EXEC)
			file = NULL;
		else if (changes[i]->tsc == found->tsc && changes[i]->type == CHANGE_MAP &&
			 counts(changes[i]) &&
			 found->address - changes[i]->address < changes[i]->size)
			file = changes[i];
	return file ? file : found;
}

/* What comes to an address first counts before its time, too, but not what an execve brings. */
static const struct change *coming(const struct change *const *changes, size_t n, uint64_t tsc,
				   uint64_t address)
{
	for (size_t i = 0; i < n; i++) {
		if (!tsc || changes[i]->tsc <= tsc)
			continue;
		if (changes[i]->type == CHANGE_EXEC)
			return NULL;
		if (address - changes[i]->address < changes[i]->size)
			return changes[i];
	}
	return NULL;
}

static void check_lookups(const struct ptah_session *s, const struct change *const *changes,
			  size_t n)
{
	for (unsigned k = 0; k < 100; k++) {
		uint64_t address = chance(300) + (chance(10) ? 0 : UINT64_MAX - 300);
		uint64_t tsc = chance(CHANGES) * CHANGE_SAME_TICKS;
		const struct change *found = NULL;
		struct ptah_map map;

		for (size_t i = 0; i < n; i++) {
			if (tsc && changes[i]->tsc > tsc)
				continue;
			if (changes[i]->type == CHANGE_EXEC)
				found = NULL;
			else if (address - changes[i]->address < changes[i]->size)
				found = changes[i];
		}
		if (!found)
			found = coming(changes, n, tsc, address);
		assert_int_equal(ptah_session_find_map(s, 2, address, tsc, &map), found != NULL);
		if (!found)
			continue;
		found = named(changes, n, found);
		assert_int_equal(map.address, found->address);
		assert_int_equal(map.size, found->size);
		assert_string_equal(map.path, found->type == CHANGE_MAP ? found->path : "[code]");
	}
}

TEST(agrees_with_plain_loops)
{
	for (unsigned round = 0; round < ROUNDS; round++) {
		struct process processes[2] = {{.pid = 1, .parent = SESSION_NONE},
					       {.pid = 2, .parent = 0}};
		struct ptah_session s = {.processes = processes, .process_count = 2};
		const struct change **changes;
		bool *waits, expected[2 * CHANGES];
		uint64_t forked;
		size_t n;

		fill_process(&processes[0]);
		fill_process(&processes[1]);
		processes[1].inherited = chance(processes[0].count + 1);
		/* The child's changes come after its birth. */
		forked = processes[0].changes[processes[0].count - 1].tsc;
		for (size_t i = 0; i < processes[1].count; i++)
			processes[1].changes[i].tsc += forked + CHANGE_SAME_TICKS;
		assert_int_equal(table_set(&s.processes_by_pid, 1, 0), 0);
		assert_int_equal(table_set(&s.processes_by_pid, 2, 1), 0);
		assert_int_equal(session_index_maps(&s), 0);

		assert_int_equal(session_memory(&s, 1, &changes, &waits, &n), 0);
		assert_int_equal(
		    n, processes[0].changes ? processes[1].inherited + processes[1].count : 0);
		for (size_t i = 0; i < n; i++)
			assert_ptr_equal(changes[i],
					 i < processes[1].inherited
					     ? &processes[0].changes[i]
					     : &processes[1].changes[i - processes[1].inherited]);
		expect_waits(changes, n, expected);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(waits[i], expected[i]);
		check_lookups(&s, changes, n);

		free(changes);
		free(waits);
		for (unsigned i = 0; i < 2; i++) {
			free(processes[i].changes);
			free(processes[i].by_address);
			change_index_free(&processes[i].index);
		}
		table_free(&s.processes_by_pid);
		session_forget_kernel(&s.kernel);
	}
}

TEST(tables_keep_what_was_set)
{
	struct table t = {0};
	struct strings strings = {0};
	const char *kept[100];
	char text[16];

	assert_int_equal(table_get(&t, 0), SIZE_MAX);
	for (uint32_t i = 0; i < 5000; i++)
		assert_int_equal(table_set(&t, i * 2654435761u, i), 0);
	for (uint32_t i = 0; i < 5000; i++)
		assert_int_equal(table_get(&t, i * 2654435761u), i);
	assert_int_equal(table_set(&t, 2654435761u, 77), 0);
	assert_int_equal(table_get(&t, 2654435761u), 77);
	assert_int_equal(t.count, 5000);
	assert_int_equal(table_get(&t, 12345), SIZE_MAX);
	table_free(&t);

	for (unsigned i = 0; i < 100; i++) {
		snprintf(text, sizeof(text), "/lib/%u", i);
		kept[i] = strings_keep(&strings, text, strlen(text));
		assert_string_equal(kept[i], text);
	}
	for (unsigned i = 0; i < 100; i++) {
		snprintf(text, sizeof(text), "/lib/%u", i);
		assert_ptr_equal(strings_keep(&strings, text, sizeof(text)), kept[i]);
	}
	assert_string_equal(strings_keep(&strings, "/lib/1234", 5), "/lib/");
	strings_free(&strings);
}
