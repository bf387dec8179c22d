/* SPDX-License-Identifier: MIT */
/* Names of waits, from the functions on their stacks. */
#include "output/wait_names.h"

#include "base/compiler.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A stack is looked at so far: what is of interest is at its inner end. */
#define FRAMES 64

/* The functions that wait at futexes, and what these are then. */
static const char *futex_of(const char *symbol)
{
	static const struct {
		const char *part, *cause;
	} causes[] = {
	    {"cond_", "condition variable"},
	    {"cnd_", "condition variable"},
	    {"sem_", "semaphore"},
	    {"rwlock", "rwlock"},
	    {"barrier", "barrier"},
	    {"lll_lock", "mutex"},
	    {"mutex", "mutex"},
	    {"mtx_", "mutex"},
	    {"join", "end of thread"},
	    {"once", "once"},
	};

	for (size_t i = 0; symbol && i < ARRAY_SIZE(causes); i++)
		if (strstr(symbol, causes[i].part))
			return causes[i].cause;
	return NULL;
}

/*
 * Whether the function is one of the C library, the loader or a stub, which says nothing of the
 * program. In a static program only its name says so: those that begin with two underscores are
 * reserved.
 */
static bool is_of_library(const struct name *name)
{
	static const char *const objects[] = {"libc.", "libc-", "libpthread", "libstdc++",
					      "ld-",   "ld.so", "[vdso]"};
	static const char *const symbols[] = {"__",   "pthread_", "futex_", "sem_",
					      ".plt", "_start",	  "_IO_"};

	for (size_t i = 0; i < ARRAY_SIZE(objects); i++)
		if (!strncmp(name->dso, objects[i], strlen(objects[i])))
			return true;
	for (size_t i = 0; name->symbol && i < ARRAY_SIZE(symbols); i++)
		if (!strncmp(name->symbol, symbols[i], strlen(symbols[i])))
			return true;
	return name->symbol && strstr(name->symbol, "@plt");
}

static const struct name *name_of(const struct wait_names *w, const struct ptah_wait_frame *frame)
{
	return names_find(w->names, frame->space, frame->function);
}

static bool is_call(const struct wait_names *w, size_t i, const char *name)
{
	struct ptah_syscall call = {.size = sizeof(call)};
	const char *found = NULL;

	if (ptah_syscalls_get(ptah_waits_syscalls(w->waits), i, &call) >= 0)
		found = ptah_syscall_name(call.number);
	return found && !strcmp(found, name);
}

const char *wait_cause(const struct wait_names *w, size_t i, const struct ptah_wait *wait)
{
	struct ptah_wait_frame frames[FRAMES];
	struct ptah_syscall call = {.size = sizeof(call)};
	const char *cause = NULL, *name = NULL;
	size_t n;

	if (wait->kind == PTAH_WAIT_CALL || wait->kind == PTAH_WAIT_FILE) {
		if (ptah_syscalls_get(ptah_waits_syscalls(w->waits), wait->call, &call) >= 0)
			name = ptah_syscall_name(call.number);
		return name ? name : ptah_wait_kind_name(wait->kind);
	}
	/* A read of a timerfd. */
	if (wait->kind == PTAH_WAIT_SLEEP && is_call(w, wait->call, "read"))
		return "timer";
	if (wait->kind == PTAH_WAIT_MESSAGE &&
	    (is_call(w, wait->call, "semop") || is_call(w, wait->call, "semtimedop")))
		return "semaphore";
	if (wait->kind != PTAH_WAIT_FUTEX)
		return ptah_wait_kind_name(wait->kind);
	n = ptah_waits_stack(w->waits, i, PTAH_WAIT_STACK_OWN, frames, FRAMES);
	for (size_t k = 0; k < n && k < FRAMES && !cause; k++) {
		const struct name *of = name_of(w, &frames[k]);

		if (k && !is_of_library(of))
			break;
		cause = futex_of(of->symbol);
	}
	return cause ? cause : ptah_wait_kind_name(wait->kind);
}

const char *wait_functions(const struct wait_names *w, size_t i, enum ptah_wait_stack which,
			   unsigned most, char text[WAIT_TEXT])
{
	struct ptah_wait_frame frames[FRAMES];
	const size_t n = ptah_waits_stack(w->waits, i, which, frames, FRAMES);
	size_t length = 0;

	text[0] = '\0';
	for (size_t k = 0; k < n && k < FRAMES && most; k++) {
		const struct name *name = name_of(w, &frames[k]);

		if (is_of_library(name) || !name->symbol)
			continue;
		length += (size_t)snprintf(text + length, WAIT_TEXT - length, "%s%.200s",
					   length ? " < " : "", name->symbol);
		most--;
		if (length >= WAIT_TEXT - 1)
			break;
	}
	return text;
}

const char *wait_object(const struct ptah_wait *wait, char text[WAIT_TEXT])
{
	text[0] = '\0';
	if (wait->kind == PTAH_WAIT_THREAD || wait->kind == PTAH_WAIT_CHILD) {
		const int32_t whose =
		    wait->kind == PTAH_WAIT_CHILD ? wait->waker_pid : wait->holder;

		if (whose > 0)
			snprintf(text, WAIT_TEXT, "%d", whose);
	} else if (wait->address) {
		snprintf(text, WAIT_TEXT, "0x%" PRIx64, wait->address);
	} else if (wait->descriptor >= 0) {
		snprintf(text, WAIT_TEXT, "descriptor %d", wait->descriptor);
	} else if (wait->object) {
		snprintf(text, WAIT_TEXT, "[%u]", wait->object);
	}
	return text;
}

/* The variable of the file in which a function lies. */
static bool find_variable(const struct wait_names *w, const struct ptah_wait_frame *frame,
			  uint64_t address, char *text, size_t size)
{
	struct ptah_elf_extent extent;
	struct ptah_map map;
	uint64_t offset, bias;
	char name[80];
	char *path;
	bool changed, found;

	if (!names_find_place(w->names, frame->space, frame->function, 0, &map, &changed) ||
	    changed || !ptah_path_is_file(map.path))
		return false;
	path = names_local_path(w->names, map.path);
	found = path && ptah_elf_extent(path, map.file_offset, &extent);
	bias = found ? map.address - extent.at : 0;
	found = found && address - bias >= extent.address && address - bias < extent.end &&
		ptah_elf_variable(path, address - bias, name, sizeof(name), &offset);
	free(path);
	if (found && offset)
		snprintf(text, size, "%s+0x%" PRIx64, name, offset);
	else if (found)
		snprintf(text, size, "%s", name);
	return found;
}

/* The variable of any file that has a function on the stack. */
static void look_up_variable(struct wait_names *w, size_t i, struct wait_variable *variable)
{
	struct ptah_wait_frame frames[FRAMES];
	const size_t n = ptah_waits_stack(w->waits, i, PTAH_WAIT_STACK_OWN, frames, FRAMES);
	const char *dso = "";

	for (size_t k = 0; k < n && k < FRAMES; k++) {
		const struct name *name = name_of(w, &frames[k]);

		if (is_of_library(name) || !strcmp(name->dso, dso))
			continue;
		dso = name->dso;
		if (find_variable(w, &frames[k], variable->address, variable->text,
				  sizeof(variable->text)))
			return;
	}
}

const char *wait_object_name(struct wait_names *w, size_t i, const struct ptah_wait *wait,
			     char text[WAIT_TEXT])
{
	struct wait_variable *found = NULL;

	if (!wait->address || wait->kind != PTAH_WAIT_FUTEX)
		return wait_object(wait, text);
	for (size_t k = 0; k < w->variable_count && k < WAIT_VARIABLES && !found; k++)
		if (w->variables[k].pid == wait->pid && w->variables[k].address == wait->address)
			found = &w->variables[k];
	if (!found) {
		found = &w->variables[w->variable_count++ % WAIT_VARIABLES];
		*found = (struct wait_variable){.pid = wait->pid, .address = wait->address};
		look_up_variable(w, i, found);
	}
	if (!*found->text)
		return wait_object(wait, text);
	snprintf(text, WAIT_TEXT, "%s (0x%" PRIx64 ")", found->text, wait->address);
	return text;
}

const char *wait_name(struct wait_names *w, size_t i, const struct ptah_wait *wait,
		      char text[WAIT_NAME])
{
	char object[WAIT_TEXT];

	wait_object_name(w, i, wait, object);
	snprintf(text, WAIT_NAME, "%s%s%.64s", wait_cause(w, i, wait), *object ? " " : "", object);
	return text;
}

/* What the waker has done. */
static const char *ending_of(const struct wait_names *w, size_t i, const struct ptah_wait *wait)
{
	struct ptah_syscall call = {.size = sizeof(call)};
	const char *name = NULL;

	if (ptah_syscalls_get(ptah_waits_syscalls(w->waits), wait->waker_call, &call) >= 0)
		name = ptah_syscall_name(call.number);
	if (name && (!strcmp(name, "exit") || !strcmp(name, "exit_group")))
		return "ended";
	if (name && (strstr(name, "write") || strstr(name, "send")))
		return "wrote";
	if (name && (strstr(name, "read") || strstr(name, "recv")) &&
	    (wait->kind == PTAH_WAIT_PIPE || wait->kind == PTAH_WAIT_SOCKET ||
	     wait->kind == PTAH_WAIT_POLL))
		return "read";
	if (name && !strcmp(name, "connect"))
		return "connected";
	return strcmp(wait_cause(w, i, wait), "mutex") && wait->kind != PTAH_WAIT_LOCK
		   ? "woke it"
		   : "gave it back";
}

const char *wait_or_others(const struct ptah_wait *wait)
{
	return wait->flags & PTAH_WAIT_SEVERAL ? WAIT_OR_OTHERS : "";
}

const char *wait_end(const struct wait_names *names, size_t i, const struct ptah_wait *wait,
		     char text[WAIT_END])
{
	char functions[WAIT_TEXT];

	switch (wait->how) {
	case PTAH_WAIT_END_WOKEN:
		wait_functions(names, i, PTAH_WAIT_STACK_WAKER, 3, functions);
		snprintf(text, WAIT_END, "until %d %s%s%s%s", wait->waker_tid,
			 ending_of(names, i, wait), *functions ? " in " : "", functions,
			 wait_or_others(wait));
		return text;
	case PTAH_WAIT_END_TIME:
		return "until the time was over";
	case PTAH_WAIT_END_SIGNAL:
		if (wait->waker_tid <= 0)
			return "until a signal came";
		wait_functions(names, i, PTAH_WAIT_STACK_WAKER, 3, functions);
		snprintf(text, WAIT_END, "until a signal of %d came%s%s%s", wait->waker_tid,
			 *functions ? ", sent in " : "", functions, wait_or_others(wait));
		return text;
	case PTAH_WAIT_END_NEVER:
		return "and did not end";
	default:
		return wait->kind == PTAH_WAIT_PREEMPTED
			   ? "while other threads ran"
			   : "until the kernel, or what is not recorded, ended it";
	}
}

bool wait_is_in(const struct wait_names *w, size_t i, const char *function)
{
	struct ptah_wait_frame frames[4 * FRAMES];
	const size_t n =
	    ptah_waits_stack(w->waits, i, PTAH_WAIT_STACK_OWN, frames, ARRAY_SIZE(frames));

	for (size_t k = 0; k < n && k < ARRAY_SIZE(frames); k++)
		if (names_is(w->names, name_of(w, &frames[k]), function))
			return true;
	return false;
}

/* The call of a library that the program made, as its number in the thread. 0: none is known. */
static uint64_t library_call(const struct wait_names *w, size_t i)
{
	struct ptah_wait_frame frames[FRAMES];
	const size_t n = ptah_waits_stack(w->waits, i, PTAH_WAIT_STACK_OWN, frames, FRAMES);
	uint64_t call = 0;

	for (size_t k = 0; k < n && k < FRAMES; k++) {
		if (!is_of_library(name_of(w, &frames[k])))
			return call;
		call = frames[k].call;
	}
	return 0;
}

bool wait_continues(const struct wait_names *w, size_t i, size_t before)
{
	struct ptah_wait wait = {.size = sizeof(wait)}, first = {.size = sizeof(first)};

	if (ptah_waits_get(w->waits, i, &wait) < 0 ||
	    ptah_waits_get(w->waits, before, &first) < 0 || wait.kind != PTAH_WAIT_FUTEX ||
	    first.kind != PTAH_WAIT_FUTEX || wait.tid != first.tid || wait.address == first.address)
		return false;
	return library_call(w, i) && library_call(w, i) == library_call(w, before);
}

uint64_t wait_end_of_thread(const struct ptah_waits *waits, const struct ptah_session *session,
			    const struct ptah_call_thread *thread, uint64_t tsc)
{
	struct ptah_wait wait = {.size = sizeof(wait)};
	struct ptah_window window = {.size = sizeof(window)};
	const uint64_t time = ptah_session_time(session, tsc);
	const size_t i =
	    thread->tid > 0 ? ptah_waits_of_thread(waits, thread->tid, time) : SIZE_MAX;
	uint64_t end;

	if (ptah_waits_get(waits, i, &wait) < 0 || wait.pid != thread->pid)
		return 0;
	end = ptah_session_tsc(session, wait.end, true);
	if (ptah_session_get_window(session, &window) && window.until && end > window.until)
		return wait.begin <= time ? window.until : 0;
	return wait.how == PTAH_WAIT_END_NEVER ? end : 0;
}
