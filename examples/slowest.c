/* SPDX-License-Identifier: MIT */
/*
 * slowest FILE: the longest call of each function, in instructions with those of the functions it
 * called, the ten longest ones. Calls whose beginning or end is not in the trace are left out.
 */
#include <ptah/calls.h>
#include <ptah/session.h>
#include <ptah/symbol.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void check(int status)
{
	if (status < 0) {
		fprintf(stderr, "%s\n", ptah_strerror(status));
		exit(1);
	}
}

static struct longest {
	uint64_t function, instructions, calls;
	int32_t space, tid;
} * list;
static size_t count;

static struct longest *find_longest(int32_t space, uint64_t function)
{
	for (size_t i = 0; i < count; i++)
		if (list[i].function == function && list[i].space == space)
			return &list[i];
	list = realloc(list, (count + 1) * sizeof(*list));
	if (!list)
		check(PTAH_E_NOMEM);
	list[count] = (struct longest){.function = function, .space = space};
	return &list[count++];
}

static void take(const struct ptah_call_thread *thread, const struct ptah_call_mark *mark)
{
	const unsigned unknown = PTAH_CALL_NO_BEGIN | PTAH_CALL_NO_END | PTAH_CALL_HAS_LOSS;
	struct longest *f;

	if (!mark->end || mark->flags & unknown)
		return;
	f = find_longest(ptah_call_thread_space(thread, mark->space), mark->function);
	f->calls++;
	if (mark->total.instructions <= f->instructions)
		return;
	f->instructions = mark->total.instructions;
	f->tid = thread->tid;
}

static int by_instructions(const void *a, const void *b)
{
	const struct longest *x = a, *y = b;

	return x->instructions > y->instructions ? -1 : x->instructions < y->instructions;
}

int main(int argc, char **argv)
{
	struct ptah_call_reader_config config = {.size = sizeof(config)};
	const struct ptah_call_batch *batch;
	struct ptah_call_reader *reader;
	struct ptah_function_name name;
	struct ptah_functions *functions;
	struct ptah_session *session;
	struct ptah_message why;
	int status;

	if (argc != 2 || ptah_session_open(argv[1], NULL, &session, &why) < 0) {
		fprintf(stderr, "%s\n", argc == 2 ? why.text : "slowest FILE");
		return 1;
	}
	check(ptah_functions_new(session, &functions));
	config.functions = functions;
	check(ptah_call_reader_new(session, &config, &reader));
	while ((status = ptah_call_reader_next(reader, &batch)) > 0)
		for (size_t i = 0; i < batch->count; i++)
			take(batch->thread, &batch->marks[i]);
	check(status);
	qsort(list, count, sizeof(*list), by_instructions);
	for (size_t i = 0; i < count && i < 10; i++)
		printf("%" PRIu64 " instructions, the longest of %" PRIu64
		       " calls: %s, thread %d\n",
		       list[i].instructions, list[i].calls,
		       ptah_functions_name(functions, list[i].space, list[i].function, 0, &name) &&
			       name.name
			   ? name.name
			   : "?",
		       list[i].tid);
	ptah_call_reader_free(reader);
	ptah_functions_free(functions);
	ptah_session_close(session);
	free(list);
	return 0;
}
