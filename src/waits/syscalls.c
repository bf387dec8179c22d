/* SPDX-License-Identifier: MIT */
/* Makes system calls of the samples of their beginnings, their ends, and their data. */
#include "waits/syscalls.h"

#include "base/bits.h"
#include "base/order.h"
#include "session/session.h"
#include "session/samples.h"
#include "support/list.h"

#include <stdlib.h>
#include <string.h>

/* What the samples of an event are of a system call. */
enum role {
	ROLE_NONE,
	ROLE_ENTER,
	ROLE_EXIT,
	ROLE_DATA
};

static enum role role_of(const char *name)
{
	if (!strcmp(name, "raw_syscalls:sys_enter") || !strncmp(name, "syscalls:sys_enter_", 19))
		return ROLE_ENTER;
	if (!strcmp(name, "raw_syscalls:sys_exit") || !strncmp(name, "syscalls:sys_exit_", 18))
		return ROLE_EXIT;
	return strcmp(name, "ptah:sys_data") ? ROLE_NONE : ROLE_DATA;
}

static int list_roles(struct ptah_syscalls *s)
{
	struct ptah_sample_event event = {.size = sizeof(event)};

	s->event_count = session_events(s->session);
	s->roles = calloc(s->event_count + 1, 1);
	if (!s->roles)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < s->event_count; i++) {
		ptah_session_event(s->session, i, &event);
		s->roles[i] = (uint8_t)role_of(event.name);
	}
	return 0;
}

/* A field of a sample; 0 if it has none of that name. */
static uint64_t number_in(const struct ptah_syscalls *s, const struct ptah_sample *sample,
			  const char *name, const char *other)
{
	struct ptah_sample_field field = {.size = sizeof(field)};

	if (sample_find_field(s->session, sample, name, &field) < 0 &&
	    (!other || sample_find_field(s->session, sample, other, &field) < 0))
		return 0;
	return field.number;
}

/* raw_syscalls has an array of arguments, the events of single calls have a field for each. */
static void read_arguments(const struct ptah_syscalls *s, const struct ptah_sample *sample,
			   uint64_t args[6])
{
	struct ptah_sample_field field = {.size = sizeof(field)};

	if (sample_find_field(s->session, sample, "args", &field) >= 0) {
		for (size_t i = 0; i < 6 && field.element == 8 && 8 * (i + 1) <= field.count; i++)
			args[i] = load_le64(field.bytes + 8 * i);
		return;
	}
	for (size_t i = 0; i < 6 && ptah_sample_field(s->session, sample, i + 1, &field) >= 0; i++)
		args[i] = field.number;
}

/* While the samples are read: the last call of each thread. */
struct pairing {
	struct ptah_syscalls *calls;
	struct descriptors *descriptors;
	struct table last;
	uint32_t sample;
};

static struct system_call *last_of(struct pairing *p, int32_t tid)
{
	const size_t i = table_get(&p->last, (uint32_t)tid);

	return i == SIZE_MAX ? NULL : &p->calls->calls[i];
}

/* A new call. NULL: out of memory. */
static struct system_call *add_call(struct pairing *p, const struct ptah_sample *sample)
{
	struct ptah_syscalls *s = p->calls;
	struct system_call *last = last_of(p, sample->tid);

	if (last && !(last->flags & PTAH_SYSCALL_RETURNED))
		last->end = sample->time;
	if (!LIST_ROOM(s->calls, s->count, s->capacity))
		return NULL;
	if (table_set(&p->last, (uint32_t)sample->tid, s->count) < 0)
		return NULL;
	s->calls[s->count] = (struct system_call){.pid = sample->pid,
						  .tid = sample->tid,
						  .number = -1,
						  .ip = sample->ip,
						  .sample = p->sample};
	return &s->calls[s->count++];
}

static int enter_call(struct pairing *p, const struct ptah_sample *sample)
{
	struct system_call *call = add_call(p, sample);

	if (!call)
		return PTAH_E_NOMEM;
	call->flags = PTAH_SYSCALL_ENTERED;
	call->number = (int64_t)number_in(p->calls, sample, "id", "__syscall_nr");
	call->begin = sample->time;
	read_arguments(p->calls, sample, call->args);
	return descriptors_enter(p->descriptors, call);
}

static int leave_call(struct pairing *p, const struct ptah_sample *sample)
{
	const int64_t number = (int64_t)number_in(p->calls, sample, "id", "__syscall_nr");
	struct system_call *call = last_of(p, sample->tid);

	/* The first return of a thread or a program has no beginning of its own. */
	if (!call || call->flags & PTAH_SYSCALL_RETURNED || call->number != number)
		call = add_call(p, sample);
	if (!call)
		return PTAH_E_NOMEM;
	call->flags |= PTAH_SYSCALL_RETURNED;
	call->number = number;
	call->result = (int64_t)number_in(p->calls, sample, "ret", NULL);
	call->end = sample->time;
	return descriptors_leave(p->descriptors, call);
}

static int take_data(struct pairing *p, const struct ptah_sample *sample)
{
	struct ptah_sample_field field = {.size = sizeof(field)};
	struct system_call *call = last_of(p, sample->tid);
	const uint64_t arg = number_in(p->calls, sample, "arg", NULL);

	if (!call || arg > 5 || call->number != (int64_t)number_in(p->calls, sample, "nr", NULL) ||
	    sample_find_field(p->calls->session, sample, "data", &field) < 0)
		return 0;
	call->data = field.bytes;
	call->data_size = (uint32_t)field.count;
	call->data_arg = (uint8_t)arg;
	if (number_in(p->calls, sample, "when", NULL))
		return descriptors_written(p->descriptors, call);
	descriptors_read(p->descriptors, call);
	return 0;
}

static int pair_samples(struct ptah_syscalls *s)
{
	struct ptah_sample sample = {.size = sizeof(sample)};
	struct pairing p = {.calls = s};
	int status = descriptors_new(s, &p.descriptors);

	for (size_t i = 0; status >= 0 && i < ptah_session_samples(s->session); i++) {
		ptah_session_sample(s->session, i, &sample);
		p.sample = (uint32_t)i;
		switch (sample.event < s->event_count ? s->roles[sample.event] : ROLE_NONE) {
		case ROLE_ENTER:
			status = enter_call(&p, &sample);
			break;
		case ROLE_EXIT:
			status = leave_call(&p, &sample);
			break;
		case ROLE_DATA:
			status = take_data(&p, &sample);
			break;
		default:
			break;
		}
	}
	table_free(&p.last);
	descriptors_free(p.descriptors);
	return status;
}

int ptah_syscalls_new(const struct ptah_session *session, struct ptah_syscalls **calls)
{
	struct ptah_syscalls *s;
	int status;

	if (!session || !calls)
		return PTAH_E_INVAL;
	s = calloc(1, sizeof(*s));
	if (!s)
		return PTAH_E_NOMEM;
	s->session = session;
	status = list_roles(s);
	if (status >= 0)
		status = pair_samples(s);
	if (status < 0) {
		ptah_syscalls_free(s);
		return status;
	}
	*calls = s;
	return 0;
}

void ptah_syscalls_free(struct ptah_syscalls *s)
{
	if (!s)
		return;
	free(s->calls);
	free(s->objects);
	free(s->members);
	free(s->roles);
	free(s);
}

size_t ptah_syscalls_count(const struct ptah_syscalls *s)
{
	return s->count;
}

int ptah_syscalls_get(const struct ptah_syscalls *s, size_t i, struct ptah_syscall *call)
{
	const struct system_call *c;

	if (!s || !call || call->size < sizeof(*call))
		return PTAH_E_INVAL;
	if (i >= s->count)
		return PTAH_E_MISSING;
	c = &s->calls[i];
	*call = (struct ptah_syscall){.size = sizeof(*call),
				      .flags = c->flags,
				      .pid = c->pid,
				      .tid = c->tid,
				      .number = c->number,
				      .result = c->result,
				      .begin = c->begin,
				      .end = c->flags & PTAH_SYSCALL_RETURNED ? c->end : 0,
				      .ip = c->ip,
				      .data = c->data,
				      .data_size = c->data_size,
				      .data_arg = c->data_arg,
				      .descriptor = s->objects[c->object].kind,
				      .object = c->object};
	memcpy(call->args, c->args, sizeof(call->args));
	return 0;
}

size_t ptah_syscalls_find(const struct ptah_syscalls *s, size_t i, bool *part)
{
	struct ptah_sample sample = {.size = sizeof(sample)};
	size_t at;

	if (part)
		*part = ptah_session_sample(s->session, i, &sample) >= 0 &&
			sample.event < s->event_count && s->roles[sample.event];
	/* Finds the first that is not smaller. */
	BISECT(at, 0, s->count, s->calls[at].sample < i);
	return at < s->count && s->calls[at].sample == i ? at : SIZE_MAX;
}
