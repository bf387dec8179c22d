/* SPDX-License-Identifier: MIT */
/* Reads what a thread ran from text, runs a machine over it, and writes what it finds (thread.h).
 */
#include "thread.h"

#include "test.h"
#include "mark_list.h"
#include "calls/calls.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_ITEMS 512
#define INSN	  2
#define PART	  0x100 /* bytes of a function, and of its cold part */
#define COLD	  0x8000
#define KERNEL	  UINT64_C(0xffffffff81000000)

/* Actions that are no items. */
enum {
	ACTION_EXEC = PTAH_ITEM_TYPE_MAX,
	ACTION_LOST
};

static uint64_t base_of(unsigned letter)
{
	if (letter == 'K')
		return base_of('J') + PART;
	return (letter >= 'U' ? KERNEL : 0) + 0x10000 * (uint64_t)(letter - 'A' + 1);
}

static unsigned letter_of(uint64_t ip, bool *cold)
{
	const unsigned letter = 'A' + (unsigned)((ip - (ip >> 63 ? KERNEL : 0)) >> 16) - 1;

	*cold = (ip & 0xffff) >= COLD;
	return letter == 'J' && (ip & 0x7fff) >= PART ? 'K' : letter;
}

bool thread_find(void *context, unsigned space, uint64_t ip, uint64_t tsc, struct ptah_function *f)
{
	bool cold;
	const unsigned letter = letter_of(ip, &cold);

	(void)context;
	(void)space;
	(void)tsc;
	if ((letter >= 'M' && letter <= 'O') || letter < 'A' || letter > 'Z' ||
	    ip - base_of(letter) - (cold ? COLD : 0) >= PART)
		return false;
	f->start = base_of(letter);
	f->low = f->start + (cold ? COLD : 0);
	f->high = f->low + PART;
	f->flags = cold ? PTAH_FUNCTION_FRAGMENT : 0;
	if (letter == 'L') {
		f->flags = PTAH_FUNCTION_FRAGMENT | PTAH_FUNCTION_NO_PARENT;
		f->start = f->low;
	} else if (letter == 'P' || letter == 'Q') {
		f->flags |= PTAH_FUNCTION_STUB;
	} else if (letter == 'R') {
		f->flags |= PTAH_FUNCTION_SWITCH;
	} else if (letter == 'S') {
		f->flags |= PTAH_FUNCTION_UNWINDS;
	} else if (letter == 'T') {
		f->flags |= PTAH_FUNCTION_TWICE;
	} else if (letter >= 'U') {
		f->flags |= PTAH_FUNCTION_KERNEL;
	}
	return true;
}

/* Reading */

static uint64_t read_place(const char **p)
{
	const char letter = *(*p)++;
	char *end;
	const unsigned long i = strtoul(*p, &end, 10);

	assert_true(end != *p);
	*p = end;
	return letter >= 'a' ? base_of((unsigned)(letter - 'a' + 'A')) + COLD + INSN * i
			     : base_of((unsigned)letter) + INSN * i;
}

static void read_block(const char *p, struct ptah_item *item)
{
	static const char letters[] = ".cCrjJbsS";
	static const uint8_t classes[] = {
	    PTAH_INSN_OTHER,  PTAH_INSN_CALL,	  PTAH_INSN_CALL_IND,
	    PTAH_INSN_RETURN, PTAH_INSN_JUMP,	  PTAH_INSN_JUMP_IND,
	    PTAH_INSN_COND,   PTAH_INSN_FAR_CALL, PTAH_INSN_FAR_RETURN,
	};
	char *end;

	item->type = PTAH_ITEM_BLOCK;
	item->ip = read_place(&p);
	assert_true(*p == '+');
	item->ninsn = (uint16_t)strtoul(p + 1, &end, 10);
	assert_true(strchr(letters, *end) && *end);
	item->insn_class = classes[strchr(letters, *end) - letters];
	item->end = item->ip + INSN * item->ninsn;
	item->last_size = INSN;
}

static void read_event(const char *p, struct ptah_item *item)
{
	static const struct {
		const char *word;
		unsigned type;
	} words[] = {
	    {"off", PTAH_ITEM_DISABLED},
	    {"on", PTAH_ITEM_ENABLED},
	    {"async", PTAH_ITEM_ASYNC_DISABLED},
	    {"irq", PTAH_ITEM_ASYNC_BRANCH},
	    {"abort", PTAH_ITEM_ASYNC_BRANCH},
	    {"ovf", PTAH_ITEM_OVERFLOW},
	    {"err", PTAH_ITEM_ERROR},
	    {"guest", PTAH_ITEM_PAGING},
	    {"host", PTAH_ITEM_ASYNC_PAGING},
	    {"gap", PTAH_ITEM_GAP},
	    {"exec", ACTION_EXEC},
	    {"lost", ACTION_LOST},
	};
	size_t i = 0;

	while (i < sizeof(words) / sizeof(*words) &&
	       strncmp(p, words[i].word, strlen(words[i].word)))
		i++;
	assert_true(i < sizeof(words) / sizeof(*words));
	item->type = (uint8_t)words[i].type;
	p += strlen(words[i].word);
	if (item->type == PTAH_ITEM_DISABLED && *p != '>')
		item->flags = PTAH_ITEM_IP_SUPPRESSED;
	if (item->type == PTAH_ITEM_PAGING)
		item->flags = PTAH_ITEM_NON_ROOT;
	if (item->type == PTAH_ITEM_ERROR)
		item->status = *p ? PTAH_E_NO_CODE : PTAH_E_BAD_PACKET;
	if (*p == '@') {
		p++;
		item->ip = read_place(&p);
	}
	if (*p == '>') {
		p++;
		item->to = read_place(&p);
	}
	assert_true(!*p);
}

static size_t read_text(const char *text, struct ptah_item *items)
{
	size_t n = 0;
	char word[32];

	memset(items, 0, sizeof(*items));
	if (strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
		items[n++].type = PTAH_ITEM_ENABLED;
	for (int used; sscanf(text, " %31s%n", word, &used) == 1; text += used) {
		struct ptah_item *item = &items[n];

		assert_true(n + 2 < MAX_ITEMS);
		memset(item, 0, 2 * sizeof(*item));
		if (!strncmp(word, "abort", 5)) {
			item->type = PTAH_ITEM_TSX;
			item->flags = PTAH_ITEM_ABORTED;
			item++;
		}
		if (strchr(word, '+'))
			read_block(word, item);
		else
			read_event(word, item);
		n = (size_t)(item - items) + 1;
	}
	for (size_t i = 0; i < n; i++) {
		items[i].tsc = 1000 + 10 * i;
		items[i].offset = i;
	}
	return n;
}

/* Running */

static void take(struct calls_marks *calls, const struct ptah_item *items, size_t n,
		 size_t capacity, struct list *l)
{
	struct ptah_call_mark marks[64];
	size_t count;
	int used;

	for (size_t k = 0; k < n; k += (size_t)used) {
		used = calls_marks_take(calls, items + k, n - k, marks, capacity, &count);
		assert_true(used >= 0 && count <= capacity);
		append(l, marks, count);
	}
}

static void run(const struct calls_config *config, const struct ptah_item *items, size_t n,
		size_t batch, size_t capacity, struct list *l)
{
	struct ptah_call_mark marks[64];
	struct calls_marks *calls;
	size_t end;
	int k;

	memset(l, 0, sizeof(*l));
	assert_int_equal(calls_marks_new(config, &calls), 0);
	for (size_t at = 0; at < n; at = end) {
		for (end = at; end < n && end < at + batch && items[end].type < ACTION_EXEC; end++)
			;
		take(calls, items + at, end - at, capacity, l);
		if (end < n && items[end].type >= ACTION_EXEC) {
			if (items[end].type == ACTION_EXEC)
				assert_int_equal(calls_marks_exec(calls, items[end].tsc), 0);
			else
				assert_int_equal(calls_marks_lost(calls), 0);
			end++;
		}
	}
	while ((k = calls_marks_finish(calls, marks, capacity)) > 0)
		append(l, marks, (size_t)k);
	assert_int_equal(k, 0);
	calls_marks_free(calls);
}

/* What is true of all lists. */
static void check_marks(const struct list *l, uint64_t instructions, uint64_t ticks)
{
	uint64_t *ids = calloc(l->count + 1, sizeof(*ids)), sum = 0, time = 0;
	size_t depth = 0;

	assert_non_null(ids);
	for (size_t i = 0; i < l->count; i++) {
		const struct ptah_call_mark *mark = &l->marks[i];

		assert_true(mark->how < (mark->end ? PTAH_CALL_END_MAX : PTAH_CALL_BEGIN_MAX));
		assert_true(!i || mark->thread.instructions >= mark[-1].thread.instructions);
		assert_true(!i || mark->thread.ticks >= mark[-1].thread.ticks);
		if (!mark->end) {
			assert_int_equal(mark->depth, depth);
			ids[depth++] = mark->id;
			continue;
		}
		assert_true(depth > 0);
		assert_int_equal(mark->depth, --depth);
		assert_true(mark->id == ids[depth]);
		assert_true(mark->self.instructions <= mark->total.instructions);
		assert_true(mark->self.ticks <= mark->total.ticks);
		assert_true(mark->self.off_ticks <= mark->self.ticks);
		sum += mark->self.instructions;
		time += mark->self.ticks;
	}
	assert_int_equal(depth, 0);
	assert_true(sum == instructions);
	assert_true(time <= ticks);
	free(ids);
}

static void check_all(const struct calls_config *config, const struct ptah_item *items, size_t n,
		      struct list *whole)
{
	static const struct {
		size_t batch, capacity;
	} cuts[] = {{1, 1}, {3, 64}, {512, 1}, {7, 2}};
	uint64_t instructions = 0, first = 0, last = 0;

	for (size_t i = 0; i < n; i++) {
		instructions += items[i].type == PTAH_ITEM_BLOCK ? items[i].ninsn : 0;
		first = first ? first : items[i].tsc;
		last = items[i].tsc > last ? items[i].tsc : last;
	}
	run(config, items, n, n + 1, 64, whole);
	check_marks(whole, instructions, last - first);
	for (size_t i = 0; i < sizeof(cuts) / sizeof(*cuts); i++) {
		struct list cut;

		run(config, items, n, cuts[i].batch, cuts[i].capacity, &cut);
		assert_int_equal(cut.count, whole->count);
		if (cut.count)
			assert_memory_equal(cut.marks, whole->marks,
					    cut.count * sizeof(*cut.marks));
		free(cut.marks);
	}
}

static void write_mark(const struct ptah_call_mark *mark, char *text, size_t size)
{
	static const struct {
		unsigned flag;
		char letter;
	} letters[] = {{PTAH_CALL_NO_BEGIN, '~'},
		       {PTAH_CALL_HAS_LOSS, '!'},
		       {PTAH_CALL_UNSURE, '?'},
		       {PTAH_CALL_FOLDED, 'f'},
		       {PTAH_CALL_RESTORER, 'r'}};
	bool cold;
	unsigned letter = letter_of(mark->function, &cold);
	size_t n = (size_t)snprintf(
	    text, size, "%s%c%s%s", text[0] ? " " : "", (char)(cold ? letter - 'A' + 'a' : letter),
	    mark->end ? "-" : "+", ptah_call_how_name(mark->end, mark->how));

	for (size_t i = 0; i < sizeof(letters) / sizeof(*letters); i++)
		if (mark->flags & letters[i].flag)
			text[n++] = letters[i].letter;
	text[n] = '\0';
}

void thread_expect(const struct calls_config *config, const char *text, const char *expected)
{
	const struct calls_config defaults = {.size = sizeof(defaults), .find = thread_find};
	struct ptah_item items[MAX_ITEMS];
	const size_t n = read_text(text, items);
	struct list l;
	char *found;

	check_all(config ? config : &defaults, items, n, &l);
	found = calloc(l.count + 1, 40);
	assert_non_null(found);
	for (size_t i = 0, at = 0; i < l.count; i++) {
		/* A word before it makes write_mark() begin with a space. */
		found[at] = i ? ' ' : '\0';
		write_mark(&l.marks[i], found + at, 40);
		at += strlen(found + at);
	}
	assert_string_equal(found, expected);
	free(found);
	free(l.marks);
}

size_t thread_check(const struct calls_config *config, const struct ptah_item *items, size_t count)
{
	struct list l;

	check_all(config, items, count, &l);
	free(l.marks);
	return l.count;
}
