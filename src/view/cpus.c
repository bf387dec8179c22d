/* SPDX-License-Identifier: MIT */
/* Which thread ran on which CPU, and when: as far as the traces of CPUs say (the answer "turns").
 */
#include "base/order.h"
#include "view/answers.h"
#include "view/bars.h"

#include <stdlib.h>

static int compare_cpus(const void *a, const void *b)
{
	const struct view_cpu *x = *(struct view_cpu *const *)a, *y = *(struct view_cpu *const *)b;

	return COMPARE(x->number, y->number);
}

static struct view_cpu *find_view_cpu(struct view_model *m, int32_t number)
{
	for (size_t i = 0; i < m->cpu_count; i++)
		if (m->cpus[i]->number == number)
			return m->cpus[i];
	return NULL;
}

int view_cpus_new(struct view_model *m)
{
	const struct view_recording *r = &m->config.recordings[VIEW_SHOWN];
	const size_t streams = ptah_session_streams(r->session);
	struct ptah_stream_info info;

	m->cpus = calloc(streams + 1, sizeof(*m->cpus));
	if (!m->cpus)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < streams && m->has_time; i++) {
		struct view_cpu *cpu;

		if ((r->wants && !r->wants(r->context, i)) ||
		    ptah_session_stream_info(r->session, i, &info) < 0 || info.cpu < 0 ||
		    find_view_cpu(m, info.cpu))
			continue;
		cpu = calloc(1, sizeof(*cpu));
		if (!cpu || view_lock_init(&cpu->lock) < 0) {
			free(cpu);
			return PTAH_E_NOMEM;
		}
		cpu->number = info.cpu;
		levels_init(&cpu->turns, LEVEL_FIRST);
		m->cpus[m->cpu_count++] = cpu;
	}
	qsort(m->cpus, m->cpu_count, sizeof(*m->cpus), compare_cpus);
	return 0;
}

void view_cpus_free(struct view_model *m)
{
	for (size_t i = 0; i < m->cpu_count; i++) {
		levels_fini(&m->cpus[i]->turns);
		view_lock_fini(&m->cpus[i]->lock);
		free(m->cpus[i]);
	}
	free(m->cpus);
}

struct view_cpu *view_cpu_get(struct view_model *m, size_t i)
{
	return i < m->cpu_count ? m->cpus[i] : NULL;
}

bool view_cpu_number(struct view_model *m, size_t i, int32_t *number)
{
	const struct view_cpu *cpu = view_cpu_get(m, i);

	if (cpu)
		*number = cpu->number;
	return cpu;
}

/* The turn that has not ended ends. */
static int end_turn(struct view_cpu *cpu)
{
	struct bar bar = cpu->now;

	cpu->now.calls = 0;
	bar.longest = bar.end - bar.begin;
	return bar.calls ? levels_add(&cpu->turns, 0, &bar) : 0;
}

int view_cpu_add(struct view_model *m, int32_t number, size_t thread, uint64_t from, uint64_t to)
{
	struct view_cpu *cpu = number < 0 ? NULL : find_view_cpu(m, number);
	int status = 0;

	if (!cpu)
		return 0;
	view_lock_write(&cpu->lock);
	if (cpu->now.calls && cpu->now.function != thread)
		status = end_turn(cpu);
	if (!cpu->now.calls)
		cpu->now = (struct bar){.begin = from, .function = (uint32_t)thread, .calls = 1};
	cpu->now.end = to;
	view_unlock_write(&cpu->lock);
	return status;
}

int view_cpus_finish(struct view_model *m)
{
	int status = 0;

	for (size_t i = 0; i < m->cpu_count && status >= 0; i++) {
		view_lock_write(&m->cpus[i]->lock);
		status = end_turn(m->cpus[i]);
		if (status >= 0)
			status = levels_finish(&m->cpus[i]->turns);
		view_unlock_write(&m->cpus[i]->lock);
	}
	return status;
}

/* The answer */

int view_answer_turns(struct view_model *m, const struct view_query *query,
		      struct view_reply *reply)
{
	struct bars bars = {.state = view_calls_are_read(m) ? 0 : BARS_INCOMPLETE};
	struct view_cpu *cpu;
	uint64_t number, from, to;
	double unit = 1;
	int status = view_get_window(query, reply, &from, &to);

	if (status)
		return status;
	if (!view_query_number(query, "cpu", INT32_MAX, &number) ||
	    !(cpu = find_view_cpu(m, (int32_t)number)))
		return view_refuse(reply, 404, "There is no trace of such a CPU with times.");
	if (view_query_text(query, "unit") &&
	    (!view_query_real(query, "unit", &unit) || unit < 0 || unit > 9e15))
		return view_refuse(reply, 400, "unit is a length on the axis.");
	view_lock_read(&cpu->lock);
	status = view_bars_of_row(&cpu->turns, from, to, unit < 1 ? 1 : (uint64_t)unit, &cpu->now,
				  &bars);
	view_unlock_read(&cpu->lock);
	if (!status)
		view_put_bars(reply->out, &bars);
	free(bars.list);
	return status;
}
