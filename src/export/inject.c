/* SPDX-License-Identifier: MIT */
/*
 * ptah inject: copies a recording without its trace and appends samples made of the trace. The
 * output has the events of the recording, one for instruction samples and one for branches.
 */
#include "export/inject_samples.h"
#include "perfdata/format.h"
#include "perfdata/reader.h"

#include "base/bits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* perf's ids of events that it synthesises begin here, above that of the trace's event. */
#define SYNTHETIC_ID UINT64_C(1000000000)

#define MOST_EVENTS 4096

/* perf_event_attr of the events for samples. */
#define TYPE_HARDWARE	      0
#define HARDWARE_INSTRUCTIONS 1
#define HARDWARE_BRANCHES     4
/*
 * Any branch, of user and kernel. Without PERF_SAMPLE_BRANCH_HW_INDEX, which perf inject sets and
 * create_llvm_prof 0.19 cannot read.
 */
#define BRANCH_STACK_ANY (UINT64_C(1) << 3 | UINT64_C(3))
#define ATTR_EXCLUDES	 (UINT64_C(0xf) << 4 | UINT64_C(3) << 19)

/* Fields of samples that are taken over from the trace's event, if it has them. */
#define KEPT_FIELDS                                                                                \
	(PERFDATA_SAMPLE_TIME | PERFDATA_SAMPLE_ID | PERFDATA_SAMPLE_CPU |                         \
	 PERFDATA_SAMPLE_STREAM_ID | PERFDATA_SAMPLE_IDENTIFIER)

/* What is known of the recording after its records were read once. */
struct recording {
	struct perfdata_file *file;
	struct perfdata_event *events; /* and after them those for samples */
	struct perfdata_event_info *infos;
	size_t count, trace; /* trace: index of the first event of Intel PT */
	uint64_t last_time;
	bool per_cpu;
	uint32_t pmu_type;
};

static int refuse_inject(struct ptah_message *why, const char *path, const char *text)
{
	snprintf(why->text, sizeof(why->text), "%s: %s", path, text);
	return PTAH_E_UNSUPPORTED;
}

/* Reads all records: those of a pipe name its events, and times are needed for what has none. */
static int read_once(struct inject *inject, struct recording *r, struct ptah_message *why)
{
	struct perfdata_record record;
	int status = perfdata_open(inject->input, &r->file, why);

	if (status < 0)
		return status;
	while ((status = perfdata_next(r->file, &record, why)) > 0) {
		if (record.time > r->last_time)
			r->last_time = record.time;
		if (record.type == PERFDATA_AUXTRACE && record.cpu >= 0)
			r->per_cpu = true;
	}
	if (status >= 0 && perfdata_auxtrace(r->file) != PERFDATA_AUXTRACE_INTEL_PT)
		status =
		    refuse_inject(why, inject->input,
				  "there is no trace of Intel PT that samples could be made of");
	return status;
}

/* The event whose trace it is. */
static size_t find_trace_event(const struct recording *r)
{
	for (size_t i = 0; i < r->count; i++)
		if (!strncmp(r->infos[i].name, "intel_pt", 8))
			return i;
	/* Without names: types of PMUs that the kernel numbers as they come. */
	for (size_t i = 0; i < r->count; i++)
		if (r->infos[i].type > PERFDATA_TYPE_BREAKPOINT)
			return i;
	return 0;
}

/* The attribute, name and id of an event for samples. */
struct synthetic {
	uint8_t attr[PERFDATA_ATTR_SIZE];
	char name[32];
	uint64_t id;
};

static uint64_t base_fields(const struct recording *r)
{
	uint64_t fields = r->infos[r->trace].sample_type & KEPT_FIELDS;

	if (!r->per_cpu)
		fields &= ~(uint64_t)PERFDATA_SAMPLE_CPU;
	return fields | PERFDATA_SAMPLE_IP | PERFDATA_SAMPLE_TID | PERFDATA_SAMPLE_PERIOD;
}

static void make_synthetic(const struct recording *r, struct synthetic *s, uint64_t config,
			   const char *name, uint64_t period, uint64_t fields)
{
	const struct perfdata_event_info *trace = &r->infos[r->trace];
	const bool user = trace->flags & PERFDATA_ATTR_EXCLUDE_KERNEL;

	memcpy(s->attr, trace->attr, sizeof(s->attr));
	memset(s->attr + PERFDATA_ATTR_AT_READ_FORMAT + 16, 0,
	       sizeof(s->attr) - PERFDATA_ATTR_AT_READ_FORMAT - 16);
	store_le32(s->attr + PERFDATA_ATTR_AT_TYPE, TYPE_HARDWARE);
	store_le32(s->attr + PERFDATA_ATTR_AT_SIZE, PERFDATA_ATTR_SIZE);
	store_le64(s->attr + PERFDATA_ATTR_AT_CONFIG, config);
	store_le64(s->attr + PERFDATA_ATTR_AT_PERIOD, period ? period : 1);
	store_le64(s->attr + PERFDATA_ATTR_AT_SAMPLE_TYPE, fields);
	store_le64(s->attr + PERFDATA_ATTR_AT_FLAGS,
		   (trace->flags & (ATTR_EXCLUDES | PERFDATA_ATTR_SAMPLE_ID_ALL)));
	if (fields & PERFDATA_SAMPLE_BRANCH_STACK)
		store_le64(s->attr + PERFDATA_ATTR_AT_BRANCH_TYPE, BRANCH_STACK_ANY);
	snprintf(s->name, sizeof(s->name), "%s%s", name, user ? ":u" : "");
}

/* Adds the events for samples. */
static size_t add_synthetic(const struct inject *inject, struct recording *r,
			    struct sample_output *output, struct synthetic made[2])
{
	const struct itrace *t = &inject->itrace;
	uint64_t first = 0, fields = base_fields(r);
	size_t n = 0;

	perfdata_event_ids(r->file, r->trace, &first, 1);
	output->sample_type = fields;
	if (t->branches || t->calls || t->returns) {
		make_synthetic(r, &made[n], HARDWARE_BRANCHES, "branches", 1,
			       fields | PERFDATA_SAMPLE_ADDR);
		output->branches_id = made[n].id = first + SYNTHETIC_ID + n;
		n++;
	}
	if (t->call_chain)
		fields |= PERFDATA_SAMPLE_CALLCHAIN;
	if (t->branch_stack)
		fields |= PERFDATA_SAMPLE_BRANCH_STACK;
	if (t->instructions) {
		make_synthetic(r, &made[n], HARDWARE_INSTRUCTIONS, "instructions", t->period,
			       fields);
		output->instructions_id = made[n].id = first + SYNTHETIC_ID + n;
		n++;
	}
	for (size_t i = 0; i < n; i++)
		r->events[r->count + i] = (struct perfdata_event){
		    .name = made[i].name, .attr = made[i].attr, .ids = &made[i].id, .id_count = 1};
	return n;
}

static int read_events(struct inject *inject, struct recording *r, struct ptah_message *why)
{
	struct perfdata_event_info info;
	uint64_t *ids;

	while (r->count < MOST_EVENTS && perfdata_event(r->file, r->count, &info))
		r->count++;
	if (!r->count)
		return refuse_inject(why, inject->input, "its header has no events");
	r->infos = calloc(r->count, sizeof(*r->infos));
	r->events = calloc(r->count + 2, sizeof(*r->events));
	if (!r->infos || !r->events)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < r->count; i++) {
		struct perfdata_event_info *e = &r->infos[i];

		perfdata_event(r->file, i, e);
		ids = calloc(e->id_count + 1, sizeof(*ids));
		if (!ids)
			return PTAH_E_NOMEM;
		r->events[i] = (struct perfdata_event){
		    .name = *e->name ? e->name : "event",
		    .attr = e->attr,
		    .ids = ids,
		    .id_count = perfdata_event_ids(r->file, i, ids, e->id_count)};
	}
	r->trace = find_trace_event(r);
	r->pmu_type = r->infos[r->trace].type;
	if (!*r->infos[r->trace].name)
		r->events[r->trace].name = "intel_pt//";
	return 0;
}

static void free_recording(struct recording *r)
{
	for (size_t i = 0; r->events && i < r->count; i++)
		free((void *)(uintptr_t)r->events[i].ids);
	free(r->events);
	free(r->infos);
	perfdata_close(r->file);
}

/* Records */

/*
 * What stays: what the kernel wrote about processes, memory and other events. What goes: the trace,
 * and what only makes sense with it; what the output's own header has; rounds, which promise an
 * order that the output does not have; and Ptah's own records, which are about the trace.
 */
static bool is_kept(const struct inject *inject, uint32_t type)
{
	switch (type) {
	case PERFDATA_AUX:
	case PERFDATA_ITRACE_START:
	case PERFDATA_AUX_OUTPUT_HW_ID:
		return false;
	case PERFDATA_SAMPLE:
		return !inject->strip;
	case PERFDATA_EVENT_UPDATE:
	case PERFDATA_ID_INDEX:
	case PERFDATA_THREAD_MAP:
	case PERFDATA_CPU_MAP:
	case PERFDATA_TIME_CONV:
		return true;
	default:
		return type < PERFDATA_USER;
	}
}

static bool list_build_id(void *writer, const struct perfdata_listed_file *file)
{
	return perfdata_list_build_id(writer, file->path, file->kernel, &file->id) >= 0;
}

static int copy_records(struct inject *inject, struct perfdata_writer *w, struct ptah_message *why)
{
	struct perfdata_file *file;
	struct perfdata_record record;
	int status = perfdata_open(inject->input, &file, why);

	if (status < 0)
		return status;
	perfdata_keep_all(file);
	while ((status = perfdata_next(file, &record, why)) > 0)
		if (is_kept(inject, record.type) && record.raw_size % 8 == 0 &&
		    (status = perfdata_write_raw(w, record.raw, record.raw_size)) < 0)
			break;
	perfdata_close(file);
	return status;
}

static int write_samples(struct inject *inject, struct sample_output *output)
{
	struct sampler *sampler;
	int status = sampler_new(output, &sampler);

	if (status < 0)
		return status;
	for (size_t i = 0; i < ptah_session_streams(inject->session) && status >= 0; i++)
		if (inject->wants(inject->context, i) && !inject->stopped)
			status = sampler_read(sampler, i);
	sampler_free(sampler);
	return status;
}

/* Finishes the output, or removes it. */
static int finish_injected_file(struct inject *inject, struct perfdata_writer *w, int status,
				struct ptah_message *why)
{
	if (status >= 0 && !inject->stopped)
		return perfdata_writer_finish(w, NULL, why);
	if (perfdata_writer_why(w))
		snprintf(why->text, sizeof(why->text), "%s", perfdata_writer_why(w));
	perfdata_writer_abort(w);
	return status;
}

static int write_output(struct inject *inject, struct recording *r, struct ptah_message *why)
{
	struct sample_output output = {.inject = inject, .no_time = r->last_time};
	struct synthetic made[2];
	const char *command = perfdata_command(r->file);
	char *arguments[] = {(char *)(uintptr_t)command, NULL};
	char pmus[64];
	struct perfdata_driver driver = {.events = r->events,
					 .pmus = pmus,
					 .cpuid = perfdata_cpuid(r->file),
					 .branch_stacks = inject->itrace.branch_stack};
	struct perfdata_writer_config config = {.path = inject->output ? inject->output
								       : "standard output",
						.to_fd = !inject->output,
						.fd = 1,
						.given_up = inject->given_up,
						.command = arguments,
						.bare_command = true,
						.osrelease = perfdata_osrelease(r->file),
						.driver = &driver};
	int status;

	config.tracing = perfdata_tracing_data(r->file, &config.tracing_size);
	driver.event_count = r->count + add_synthetic(inject, r, &output, made);
	if (!*driver.cpuid)
		driver.cpuid = NULL;
	snprintf(pmus, sizeof(pmus), "%u intel_pt\n", r->pmu_type);
	status = perfdata_writer_open(&config, &output.writer, why);
	if (status < 0)
		return status;
	perfdata_each_build_id(r->file, list_build_id, output.writer);
	status = copy_records(inject, output.writer, why);
	if (status >= 0)
		status = write_samples(inject, &output);
	return finish_injected_file(inject, output.writer, status, why);
}

int inject_run(struct inject *inject, struct ptah_message *why)
{
	struct recording r = {0};
	int status = read_once(inject, &r, why);

	if (status >= 0)
		status = read_events(inject, &r, why);
	if (status >= 0)
		status = write_output(inject, &r, why);
	free_recording(&r);
	return status;
}
