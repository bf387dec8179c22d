/* SPDX-License-Identifier: MIT */
/* Opens and completes a recording whose trace others have captured. */
#include "record/recording.h"

#include "perfdata/format.h"
#include "perfdata/message.h"

#include <ptah/engine/rtit.h>

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENT_ID 1

/* The options of IA32_RTIT_CTL that attr.config of intel_pt has, at the same bits. */
#define OPTIONS                                                                                    \
	(PTAH_RTIT_CTL_CYC_EN | PTAH_RTIT_CTL_PWR_EVT_EN | PTAH_RTIT_CTL_FUP_ON_PTW |              \
	 PTAH_RTIT_CTL_MTC_EN | PTAH_RTIT_CTL_TSC_EN | PTAH_RTIT_CTL_DIS_RETC |                    \
	 PTAH_RTIT_CTL_PTW_EN | PTAH_RTIT_CTL_BRANCH_EN | UINT64_C(15) << PTAH_RTIT_CTL_MTC_FREQ | \
	 UINT64_C(15) << PTAH_RTIT_CTL_CYC_THRESH | UINT64_C(15) << PTAH_RTIT_CTL_PSB_FREQ |       \
	 PTAH_RTIT_CTL_EVENT_EN | PTAH_RTIT_CTL_DIS_TNT)

/* Failures */

int recording_refuse(struct ptah_recording *r, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(r->why.text, sizeof(r->why.text), format, args);
	va_end(args);
	return PTAH_E_INVAL;
}

int recording_wrote(struct ptah_recording *r, int status)
{
	const char *why = status < 0 ? perfdata_writer_why(r->writer) : NULL;

	if (why)
		snprintf(r->why.text, sizeof(r->why.text), "%s", why);
	return status;
}

int recording_no_memory(struct ptah_recording *r)
{
	snprintf(r->why.text, sizeof(r->why.text), "out of memory");
	return PTAH_E_NOMEM;
}

void recording_reach(struct ptah_recording *r, uint64_t tsc)
{
	if (r->now < tsc)
		r->now = tsc;
}

int recording_check(struct ptah_recording *r)
{
	if (!r)
		return PTAH_E_INVAL;
	if (!r->writer)
		return recording_refuse(r, "the recording is finished already");
	return recording_wrote(r, perfdata_writer_status(r->writer));
}

const char *ptah_recording_why(const struct ptah_recording *r)
{
	return r ? r->why.text : "";
}

/* The configuration */

static int check_recording_trace(const struct ptah_trace_config *trace, struct ptah_message *why)
{
	if (trace->size < sizeof(*trace))
		return perfdata_message(why, PTAH_E_INVAL, "trace.size is not set");
	if (trace->mtc_period > 15 || trace->cyc_threshold > 15 || trace->psb_period > 15)
		return perfdata_message(why, PTAH_E_INVAL,
					"trace: mtc_period, cyc_threshold and psb_period are "
					"fields of 4 bits");
	for (unsigned i = 0; i < PTAH_RANGES; i++)
		if (trace->ranges[i].mode > PTAH_RANGE_STOP ||
		    (trace->ranges[i].mode && trace->ranges[i].first > trace->ranges[i].last))
			return perfdata_message(why, PTAH_E_INVAL,
						"trace.ranges[%u]: not a range, or no mode of one",
						i);
	if (!trace->os && !trace->user)
		return perfdata_message(why, PTAH_E_INVAL,
					"trace: neither os nor user is set, so nothing was traced");
	return 0;
}

static int check_config(const struct ptah_recording_config *config, struct ptah_message *why)
{
	if (config->size < sizeof(*config))
		return perfdata_message(why, PTAH_E_INVAL, "config.size is not set");
	if (config->kind >= PTAH_RECORDING_KIND_MAX)
		return perfdata_message(why, PTAH_E_INVAL, "config.kind: %u is none", config->kind);
	if (config->path && !*config->path)
		return perfdata_message(why, PTAH_E_INVAL, "config.path is empty");
	if (!config->path && config->fd < 0)
		return perfdata_message(why, PTAH_E_INVAL,
					"neither config.path nor config.fd is an output");
	if (config->caps && config->caps->size < sizeof(*config->caps))
		return perfdata_message(why, PTAH_E_INVAL, "caps.size is not set");
	if (config->clock.shift > 63)
		return perfdata_message(why, PTAH_E_INVAL, "clock.shift: %u is more than 63",
					config->clock.shift);
	if (config->trace)
		return check_recording_trace(config->trace, why);
	if (!(config->rtit_ctl & (PTAH_RTIT_CTL_OS | PTAH_RTIT_CTL_USER)))
		return perfdata_message(why, PTAH_E_INVAL,
					"neither config.trace nor config.rtit_ctl says what was "
					"traced");
	return 0;
}

static uint64_t control_of(const struct ptah_recording_config *config)
{
	return config->trace ? ptah_trace_config_ctl(config->trace) : config->rtit_ctl;
}

static const char *event_name(uint64_t ctl)
{
	if (!(ctl & PTAH_RTIT_CTL_OS))
		return "intel_pt//u";
	return ctl & PTAH_RTIT_CTL_USER ? "intel_pt//" : "intel_pt//k";
}

static void build_attr(uint8_t *attr, uint64_t ctl)
{
	uint64_t flags =
	    PERFDATA_ATTR_CONTEXT_SWITCH | PERFDATA_ATTR_KSYMBOL | PERFDATA_ATTR_TEXT_POKE;

	if (!(ctl & PTAH_RTIT_CTL_OS))
		flags |= PERFDATA_ATTR_EXCLUDE_KERNEL | PERFDATA_ATTR_EXCLUDE_HV;
	if (!(ctl & PTAH_RTIT_CTL_USER))
		flags |= PERFDATA_ATTR_EXCLUDE_USER;
	perfdata_build_attr(attr, (ctl & OPTIONS) | PERFDATA_PT_PT, flags);
}

/* Address ranges in perf's syntax; "": none, or one that is no restriction. */
static void format_ranges(const struct ptah_trace_config *trace, char *text, size_t size)
{
	size_t n = 0;

	*text = '\0';
	for (unsigned i = 0; trace && i < PTAH_RANGES; i++) {
		const struct ptah_range *range = &trace->ranges[i];
		const uint64_t bytes = range->last - range->first + 1;

		if (range->mode && bytes)
			n += (size_t)snprintf(text + n, size - n, "%s%s 0x%" PRIx64 "/0x%" PRIx64,
					      n ? "," : "",
					      range->mode == PTAH_RANGE_STOP ? "stop" : "filter",
					      range->first, bytes);
	}
}

/* TSC ticks per second; 0: not known. SDM "Determining the Processor Base Frequency". */
static uint64_t tsc_frequency(const struct ptah_caps *caps)
{
	if (!caps)
		return 0;
	if (caps->crystal_hz && caps->tsc_n && caps->tsc_d)
		return (uint64_t)caps->crystal_hz * caps->tsc_n / caps->tsc_d;
	return caps->nominal_ratio * UINT64_C(100000000);
}

static struct perfdata_clock clock_of(const struct ptah_recording_config *config)
{
	struct perfdata_clock clock = {
	    .shift = config->clock.shift, .mult = config->clock.mult, .zero = config->clock.zero};
	uint64_t hz = tsc_frequency(config->caps);

	if (clock.mult)
		return clock;
	clock = (struct perfdata_clock){.mult = 1};
	/* As precise as 32 bits allow. */
	while (hz && clock.shift < 31 &&
	       (UINT64_C(1000000000) << (clock.shift + 1)) / hz <= UINT32_MAX)
		clock.shift++;
	if (hz)
		clock.mult = (uint32_t)((UINT64_C(1000000000) << clock.shift) / hz);
	if (!clock.mult)
		clock = (struct perfdata_clock){.mult = 1};
	return clock;
}

static int open_recording_writer(struct ptah_recording *r,
				 const struct ptah_recording_config *config,
				 struct ptah_message *why)
{
	static const uint64_t id = EVENT_ID;
	const struct ptah_caps *caps = config->caps;
	const uint64_t ctl = control_of(config);
	const bool cpus = config->kind == PTAH_RECORDING_CPUS;
	uint8_t attr[PERFDATA_ATTR_SIZE] = {0};
	char cpuid[64], ranges[256], output[32];
	const struct perfdata_event event = {event_name(ctl), attr, &id, 1, 0};
	const struct perfdata_driver driver = {
	    .events = &event,
	    .event_count = 1,
	    .pmu_type = PERFDATA_PMU_TYPE,
	    .cpuid = caps && caps->cpu.family ? cpuid : NULL,
	    .tsc_bit = PERFDATA_PT_TSC,
	    .noretcomp_bit = PERFDATA_PT_NORETCOMP,
	    .mtc_bit = PERFDATA_PT_MTC,
	    .mtc_freq_bits = PERFDATA_PT_MTC_PERIOD,
	    .cyc_bit = PERFDATA_PT_CYC,
	    .sched_switch = cpus ? 3 : 0,
	    .snapshot = config->snapshot,
	    .per_cpu = cpus,
	    .time_zero = ctl & PTAH_RTIT_CTL_TSC_EN,
	    .no_index = true,
	};
	struct perfdata_writer_config writer = {
	    .path = config->path ? config->path : output,
	    .to_fd = !config->path,
	    .fd = config->fd,
	    .command = config->command,
	    .bare_command = true,
	    .clock = clock_of(config),
	    .filter = ranges,
	    .osrelease = config->osrelease ? config->osrelease : "",
	    .driver = &driver,
	};

	build_attr(attr, ctl);
	format_ranges(config->trace, ranges, sizeof(ranges));
	snprintf(output, sizeof(output), "descriptor %d", config->fd);
	if (caps) {
		snprintf(cpuid, sizeof(cpuid), "GenuineIntel,%u,%u,%u", caps->cpu.family,
			 caps->cpu.model, caps->cpu.stepping);
		writer.tsc_n = caps->tsc_n;
		writer.tsc_d = caps->tsc_d;
		writer.nominal_ratio = caps->nominal_ratio;
	}
	return perfdata_writer_open(&writer, &r->writer, why);
}

/* The format has no place for it. */
static int note_cr3(struct ptah_recording *r, const struct ptah_trace_config *trace,
		    struct ptah_message *why)
{
	char text[80];
	int status;

	if (!trace || !trace->cr3_filter)
		return 0;
	snprintf(text, sizeof(text), "only the address space of CR3 0x%" PRIx64 " was traced",
		 trace->cr3);
	status = perfdata_add_note(r->writer, text);
	if (status < 0)
		perfdata_message(why, status, "%s", perfdata_writer_why(r->writer));
	return status;
}

static int make_recording(const struct ptah_recording_config *config, struct ptah_recording **out,
			  struct ptah_message *why)
{
	struct ptah_recording *r;
	int status;

	if (!config || !out)
		return PTAH_E_INVAL;
	status = check_config(config, why);
	r = status < 0 ? NULL : calloc(1, sizeof(*r));
	if (status >= 0 && !r)
		status = perfdata_message(why, PTAH_E_NOMEM, "out of memory");
	if (status < 0)
		return status;
	r->kind = config->kind;
	r->snapshot = config->snapshot;
	status = open_recording_writer(r, config, why);
	if (status >= 0)
		status = note_cr3(r, config->trace, why);
	if (status < 0) {
		ptah_recording_free(r);
		return status;
	}
	*out = r;
	return 0;
}

int ptah_recording_new(const struct ptah_recording_config *config, struct ptah_recording **out,
		       struct ptah_message *why)
{
	perfdata_message_begin(why);
	return perfdata_message_end(why, make_recording(config, out, why));
}

struct ptah_recording *recording_lend(struct perfdata_writer *writer, uint8_t kind, bool snapshot)
{
	struct ptah_recording *r = calloc(1, sizeof(*r));

	if (r) {
		r->writer = writer;
		r->kind = kind;
		r->snapshot = snapshot;
	}
	return r;
}

void recording_give_back(struct ptah_recording *r)
{
	if (r)
		r->writer = NULL;
	ptah_recording_free(r);
}

int ptah_recording_flush(struct ptah_recording *r)
{
	int status = recording_check(r);

	return status < 0 ? status : recording_wrote(r, perfdata_writer_flush(r->writer));
}

uint64_t ptah_recording_bytes(const struct ptah_recording *r)
{
	return r ? r->bytes : 0;
}

/* Without any trace there is nothing to decode, and no reader would open the file. */
static int leave_nothing(struct ptah_recording *r)
{
	perfdata_writer_abort(r->writer);
	r->writer = NULL;
	snprintf(r->why.text, sizeof(r->why.text), "no trace was added: no file is left");
	return PTAH_E_EMPTY;
}

int ptah_recording_finish(struct ptah_recording *r)
{
	struct ptah_message why = {""};
	int status = recording_check(r);

	if (!r || !r->writer)
		return status;
	if (status >= 0 && !r->bytes)
		return leave_nothing(r);
	if (status >= 0)
		recording_end_streams(r); /* if this fails, so does the next call */
	status = perfdata_writer_finish(r->writer, NULL, &why);
	r->writer = NULL;
	if (status < 0)
		r->why = why;
	return status;
}

void ptah_recording_free(struct ptah_recording *r)
{
	if (!r)
		return;
	if (r->writer)
		perfdata_writer_abort(r->writer);
	free(r->streams);
	free(r->cpus);
	free(r);
}
