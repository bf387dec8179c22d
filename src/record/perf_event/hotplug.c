/* SPDX-License-Identifier: MIT */
/*
 * Follows processors that come online and go offline while everything that runs on processors is
 * recorded: the events of a processor end with it, and one that comes (back) online has none.
 *
 * The kernel does not report such changes to a recorder, so /sys/devices/system/cpu/online is read
 * again and again.
 */
#include "record/perf_event/hardware.h"

#include "support/monotonic.h"
#include "record/perf_event/proc.h"

#include <stdlib.h>

/* Room in the file for the events of processors that come back: each time is a new event. */
#define COMEBACKS 256
/* So often a processor may refuse its event as not online, although the list has it. */
#define ATTEMPTS 20

static bool contains(const int32_t *cpus, size_t n, int32_t cpu)
{
	for (size_t i = 0; i < n; i++)
		if (cpus[i] == cpu)
			return true;
	return false;
}

bool hardware_follows_cpus(const struct hardware *h)
{
	return h->events.layout.per_cpu;
}

int hardware_prepare_cpus(struct hardware *h)
{
	int32_t *possible;
	size_t n;

	if (!hardware_follows_cpus(h))
		return 0;
	h->attempts = calloc(HARDWARE_CPUS, sizeof(*h->attempts));
	if (!h->attempts)
		return PTAH_E_NOMEM;
	if (!h->events.layout.system)
		return 0;
	n = proc_possible_cpus("", &possible);
	free(possible);
	/* Of chosen processors, none can be new. */
	if (!h->r->config.target.id_count && n > h->cpu_count)
		h->late_cpus = n - h->cpu_count;
	h->late_events = h->late_cpus + COMEBACKS;
	return 0;
}

static double seconds(const struct hardware *h)
{
	return (double)(h->looked - h->began) / 1000;
}

static void go_offline(struct hardware *h, size_t place)
{
	struct pollfd *polled = &hardware_polled_records(h)[place];

	hardware_read_rest(h, place);
	events_close_cpu(&h->events, place);
	h->left -= polled->fd >= 0;
	polled->fd = -1;
	recorder_note(h->r,
		      "processor %d went offline %.1f s after the beginning: it is recorded up to "
		      "there",
		      h->events.rings[place].cpu, seconds(h));
}

/* Adds the ids of the events to the file. */
static int add_ids(struct hardware *h, size_t place)
{
	int status = 0;

	if (h->events.has_trace)
		status = perfdata_add_id(h->r->writer, 0, h->events.traces[place].id);
	if (status >= 0)
		status = perfdata_add_id(h->r->writer, hardware_has_trace(h) ? 1 : 0,
					 h->events.sidebands[place].id);
	return status;
}

static bool record_cpu(struct hardware *h, size_t place, struct ptah_message *why)
{
	const int status = add_ids(h, place);

	if (status == PTAH_E_LIMIT)
		recorder_refuse(why, PTAH_RECORD_OUTPUT, "the file has no room for more events");
	else if (status < 0)
		recorder_wrote(h->r, status);
	else if (!events_start_cpu(&h->events, place, !h->r->status.paused))
		recorder_refuse(why, PTAH_RECORD_BROKEN,
				"the kernel does not switch the events on");
	else
		return true;
	events_close_cpu(&h->events, place);
	return false;
}

static void come_online(struct hardware *h, int32_t cpu)
{
	const size_t known = h->events.ring_count;
	struct ptah_message why = {""};
	enum ptah_record_problem problem;
	bool recorded = false;
	size_t place;

	problem = events_open_cpu(&h->events, cpu, &h->sizes, h->filters, &place, &why);
	/* The list has a processor a little earlier than perf_event_open() accepts it. */
	if (problem == PTAH_RECORD_NO_TARGET && ++h->attempts[cpu] < ATTEMPTS)
		return;
	h->attempts[cpu] = ATTEMPTS;
	if (!problem) {
		hardware_polled_records(h)[place] = (struct pollfd){.fd = -1, .events = POLLIN};
		recorded = record_cpu(h, place, &why);
	}
	if (recorded) {
		hardware_polled_records(h)[place].fd = h->events.sidebands[place].fd;
		h->left++;
		recorder_note(
		    h->r,
		    "processor %d came %sonline %.1f s after the beginning and is recorded "
		    "from there: what it ran until this was noticed is missing, new names "
		    "and mappings too%s",
		    cpu, place < known ? "back " : "", seconds(h),
		    h->beside_count ? ", and all events beside Intel PT" : "");
	} else if (h->r->error >= 0) {
		recorder_note(h->r,
			      "processor %d came online %.1f s after the beginning and is not "
			      "recorded: %s",
			      cpu, seconds(h), why.text);
	}
}

/* Whether the processor has its events, or was given up. */
static bool is_settled(const struct hardware *h, int32_t cpu)
{
	for (size_t i = 0; i < h->events.ring_count; i++)
		if (h->events.rings[i].cpu == cpu && events_cpu_is_open(&h->events, i))
			return true;
	return h->attempts[cpu] == ATTEMPTS;
}

static void follow_all(struct hardware *h, const int32_t *online, size_t n)
{
	const bool chosen = h->r->config.target.id_count != 0;

	for (size_t i = 0; i < h->events.ring_count && h->r->error >= 0; i++)
		if (events_cpu_is_open(&h->events, i) &&
		    !contains(online, n, h->events.rings[i].cpu))
			go_offline(h, i);
	for (int32_t cpu = 0; cpu < HARDWARE_CPUS; cpu++)
		if (h->attempts[cpu] && !contains(online, n, cpu))
			h->attempts[cpu] = 0;
	for (size_t i = 0; i < n && h->r->error >= 0; i++)
		if (online[i] < HARDWARE_CPUS && !is_settled(h, online[i]) &&
		    (!chosen || contains(h->cpus, h->cpu_count, online[i])))
			come_online(h, online[i]);
}

/*
 * Threads have an event for each processor that was online when the recording began, and their
 * children inherit these. A processor that goes offline and comes back keeps them.
 */
static void note_new(struct hardware *h, const int32_t *online, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (online[i] >= HARDWARE_CPUS || h->attempts[online[i]] ||
		    contains(h->cpus, h->cpu_count, online[i]))
			continue;
		h->attempts[online[i]] = ATTEMPTS;
		recorder_note(
		    h->r,
		    "processor %d came online %.1f s after the beginning: what ran there is "
		    "not in the recording",
		    online[i], seconds(h));
	}
}

void hardware_follow_cpus(struct hardware *h)
{
	const int64_t now = monotonic_ms();
	int32_t *online;
	size_t n;

	if (!hardware_follows_cpus(h) || (h->began && now - h->looked < HARDWARE_LOOK_MS))
		return;
	h->began = h->began ? h->began : now;
	h->looked = now;
	n = proc_cpus("", &online);
	if (n && h->events.layout.system)
		follow_all(h, online, n);
	else if (n)
		note_new(h, online, n);
	free(online);
}
