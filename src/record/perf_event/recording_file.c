/* SPDX-License-Identifier: MIT */
/*
 * The output of the recorder hardware: its folder, its header, and the notes about how it was
 * recorded.
 */
#include "record/perf_event/hardware.h"
#include "record/perf_event/proc.h"

#include "perfdata/message.h"
#include "record/perf_event/kcore.h"

#include <ptah/record.h>

#include <cpuid.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int hardware_make_folder(struct hardware *h)
{
	struct ptah_recorder *r = h->r;
	const char *output = r->config.output.path ? r->config.output.path : "perf.data";
	struct ptah_message why = {""};
	struct stat st;

	h->folder = strdup(output);
	if (!h->folder || asprintf(&h->file, "%s/data", output) < 0) {
		h->file = NULL;
		return PTAH_E_NOMEM;
	}
	if (asprintf(&h->old_folder, "%s.old", output) < 0) {
		h->old_folder = NULL;
		return PTAH_E_NOMEM;
	}
	if (stat(output, &st) != 0) {
		free(h->old_folder); /* there is no old recording to restore */
		h->old_folder = NULL;
	} else if (rename(output, h->old_folder)) {
		perfdata_system_message(&why, errno, output, "rename the old recording");
		free(h->old_folder);
		h->old_folder = NULL;
		return recorder_fail(r, PTAH_RECORD_OUTPUT, PTAH_E_SYSTEM, "%s", why.text);
	}
	if (mkdir(output, 0700)) {
		perfdata_system_message(&why, errno, output, "create");
		return recorder_fail(r, PTAH_RECORD_OUTPUT, PTAH_E_SYSTEM, "%s", why.text);
	}
	h->made_folder = true;
	r->config.output.path = h->file;
	return 0;
}

void hardware_remove_folder(struct hardware *h)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/kcore_dir", h->folder);
	kcore_remove(path);
	unlink(h->file);
	rmdir(h->folder);
	if (h->old_folder && rename(h->old_folder, h->folder))
		return; /* the old recording stays as OUTPUT.old */
}

static int pass_file(void *context, const struct kcore_piece *piece, struct ptah_message *why)
{
	const struct ptah_recorder *r = context;
	const struct ptah_record_sink *sink = r->config.output.sink;
	char name[64];
	const struct ptah_record_piece to = {
	    .kind = PTAH_RECORD_PIECE_FILE,
	    .tid = -1,
	    .cpu = -1,
	    .offset = piece->offset,
	    .bytes = piece->bytes,
	    .size = piece->size,
	    .name = name,
	};
	int status;

	snprintf(name, sizeof(name), "kcore_dir/%s", piece->name);
	status = sink->take(sink->context, &to);
	return status < 0
		   ? perfdata_message(why, status, "the caller's sink refused a piece of %s: %s",
				      name, ptah_strerror(status))
		   : 0;
}

int hardware_copy_kernel(struct hardware *h)
{
	const struct ptah_record_config *config = &h->r->config;
	const struct kcore_sink sink = {pass_file, h->r};
	struct ptah_message why = {""};
	char path[4096];
	int status = 0;

	if (h->made_folder) {
		snprintf(path, sizeof(path), "%s/kcore_dir", h->folder);
		status = kcore_copy("", path, &why);
	} else if (config->output.kcore && config->output.sink && config->output.sink->take)
		status = kcore_send("", &sink, &why);
	return status < 0 ? recorder_fail(h->r, PTAH_RECORD_OUTPUT, status, "%s",
					  why.text[0] ? why.text : ptah_strerror(status))
			  : 0;
}

void hardware_fill_metadata(struct hardware *h)
{
	struct ptah_record_metadata *m = &h->r->metadata;
	const bool here = h->r->config.target.kind == PTAH_RECORD_SELF;
	struct ptah_host host = {.size = sizeof(host)};
	struct ptah_caps caps;
	uint32_t r[4] = {0};

	if (here)
		hardware_caps(&caps);
	ptah_host_look(here ? &caps : NULL, NULL, &host);
	__cpuid(0, r[0], r[1], r[2], r[3]);
	memcpy(m->vendor, &r[1], 4);
	memcpy(m->vendor + 4, &r[3], 4);
	memcpy(m->vendor + 8, &r[2], 4);
	m->cpu = host.caps.cpu;
	memcpy(m->cpuid_14[0], host.caps.leaf_14_0, sizeof(m->cpuid_14[0]));
	memcpy(m->cpuid_14[1], host.caps.leaf_14_1, sizeof(m->cpuid_14[1]));
	memcpy(m->cpuid_15, host.caps.leaf_15, sizeof(m->cpuid_15));
	m->nominal_ratio = h->pmu.nominal_ratio ? h->pmu.nominal_ratio : host.caps.nominal_ratio;
	if (!hardware_has_trace(h))
		return;
	m->pmu_type = h->pmu.type;
	m->rtit_ctl = pmu_rtit_ctl(&h->pmu, &h->events.trace_attr);
	if (!h->pmu.tsc_art_n || !h->pmu.tsc_art_d) {
		h->pmu.tsc_art_n = host.caps.tsc_n;
		h->pmu.tsc_art_d = host.caps.tsc_d;
	}
}

/* The id of an event that the kernel does not have. The kernel counts its own from 1 on. */
#define MADE_ID (UINT64_C(1) << 62)

/* The ids of events; the caller frees them. */
static uint64_t *ids_of(const struct event *events, size_t count)
{
	uint64_t *ids = calloc(count ? count : 1, sizeof(*ids));

	for (size_t i = 0; ids && i < count; i++)
		ids[i] = events[i].id;
	return ids;
}

static const char *event_name(const struct ptah_record_config *config, bool trace)
{
	if (!config->trace.os)
		return trace ? "intel_pt//u" : "dummy:u";
	if (!trace)
		return "dummy";
	return config->trace.user ? "intel_pt//" : "intel_pt//k";
}

static void fill_driver(const struct hardware *h, struct perfdata_driver *driver)
{
	const bool per_cpu = h->source ? !h->source->by_thread : h->events.layout.per_cpu;

	/*
	 * Only where a buffer holds several threads. Elsewhere perf would wait for switches that do
	 * not come.
	 */
	if (per_cpu && h->events.sideband_attr.context_switch)
		driver->sched_switch = h->events.layout.system ? 3 : 2;
	driver->snapshot = h->events.layout.snapshot;
	driver->per_cpu = per_cpu;
	if (!hardware_has_trace(h))
		return;
	driver->pmu_type = h->pmu.type;
	driver->tsc_bit = pmu_bits(&h->pmu, "tsc");
	driver->noretcomp_bit = pmu_bits(&h->pmu, "noretcomp");
	driver->mtc_bit = pmu_bits(&h->pmu, "mtc");
	driver->mtc_freq_bits = pmu_bits(&h->pmu, "mtc_period");
	driver->cyc_bit = pmu_bits(&h->pmu, "cyc");
}

struct event_list {
	struct perfdata_event events[3 + PTAH_RECORD_EVENTS];
	size_t count;
	bool failed;
};

static void list_event(struct event_list *list, const char *name,
		       const struct perf_event_attr *attr, const struct event *events, size_t count,
		       size_t room)
{
	uint64_t *ids = ids_of(events, count);

	list->failed |= !ids;
	list->events[list->count++] = (struct perfdata_event){name, attr, ids, count, room};
}

static void list_events(const struct hardware *h, struct event_list *list)
{
	static const struct event made = {.id = MADE_ID};
	const struct events *e = &h->events, *elsewhere = &h->elsewhere;
	const char *records = event_name(&h->r->config, false);

	if (h->source)
		list_event(list, event_name(&h->r->config, true), &e->trace_attr, &made, 1, 0);
	else if (hardware_has_trace(h))
		list_event(list, event_name(&h->r->config, true), &e->trace_attr, e->traces,
			   e->trace_count, h->late_events);
	list_event(list, records, &e->sideband_attr, e->sidebands, e->sideband_count,
		   h->late_events);
	if (elsewhere->sideband_count)
		list_event(list, records, &elsewhere->sideband_attr, elsewhere->sidebands,
			   elsewhere->sideband_count, 0);
	for (size_t i = 0; i < h->beside_count; i++) {
		const struct events *beside = &h->beside[i].events;

		list_event(list, h->beside[i].name, &beside->sideband_attr, beside->sidebands,
			   beside->sideband_count, 0);
	}
}

int hardware_open_writer(struct hardware *h)
{
	struct ptah_record_metadata *m = &h->r->metadata;
	struct event_list list = {.count = 0};
	struct perfdata_buffer formats = {.bytes = NULL};
	char *pmus = pmu_list(""), cpuid[64];
	struct perfdata_driver driver = {.events = list.events, .pmus = pmus, .cpuid = cpuid};
	struct perfdata_writer_config writer = {
	    .driver = &driver,
	    .filter = h->filters,
	    .tsc_n = h->pmu.tsc_art_n,
	    .tsc_d = h->pmu.tsc_art_d,
	    .nominal_ratio = m->nominal_ratio,
	};
	int status = PTAH_E_NOMEM;

	list_events(h, &list);
	driver.event_count = list.count;
	beside_put_formats(h->beside, h->beside_count, &formats);
	writer.tracing = formats.bytes;
	writer.tracing_size = formats.size;
	fill_driver(h, &driver);
	driver.time_zero = events_clock(&h->events, &m->time_shift, &m->time_mult, &m->time_zero);
	writer.clock = (struct perfdata_clock){
	    .shift = m->time_shift, .mult = m->time_mult, .zero = m->time_zero};
	snprintf(cpuid, sizeof(cpuid), "%s,%u,%u,%u", m->vendor, m->cpu.family, m->cpu.model,
		 m->cpu.stepping);
	if (!list.failed && !formats.failed)
		status = recorder_open_writer(h->r, &writer);
	for (size_t i = 0; i < list.count; i++)
		free((uint64_t *)(uintptr_t)list.events[i].ids);
	perfdata_buffer_free(&formats);
	free(pmus);
	return status;
}

/* The kernel maps the same code into every 64-bit process, this one included. */
void hardware_write_vdso(struct hardware *h)
{
	const struct ptah_record_config *config = &h->r->config;
	uint64_t start, end;

	if (h->events.has_trace && config->trace.user && !config->target.no_existing &&
	    proc_own_vdso("", &start, &end))
		recorder_wrote(h->r, perfdata_add_vdso(h->r->writer, (const void *)(uintptr_t)start,
						       (size_t)(end - start)));
}

void hardware_write_notes(struct hardware *h, bool small)
{
	if (small)
		recorder_note(h->r,
			      "this user may not lock much memory: buffers of %" PRIu64
			      " KiB of trace and %" PRIu64 " KiB of records for each %s",
			      h->events.has_trace ? h->events.rings[0].ring.aux_size >> 10 : 0,
			      h->events.rings[0].ring.data_size >> 10,
			      h->events.layout.per_cpu ? "processor" : "thread");
	if (h->elsewhere_missing)
		recorder_note(h->r, "programs that begin on other processors are not known");
	for (size_t i = 0; i < h->beside_count; i++)
		if (h->beside[i].narrowed)
			recorder_note(
			    h->r, "-e %s: only user code, as this user may not record the kernel",
			    h->beside[i].name);
	for (size_t i = 0; i < h->events.less_count; i++)
		recorder_note(h->r, "this kernel does not tell of %s", h->events.less[i]);
	if (h->r->metadata.pmu_type && !h->r->metadata.time_mult)
		recorder_note(h->r, "this kernel does not tell how TSC becomes time");
}
