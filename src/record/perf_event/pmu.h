/* SPDX-License-Identifier: MIT */
/*
 * What Linux' intel_pt driver describes in sysfs, and the perf event that a configuration becomes
 * with it. Reads files, opens no event.
 *
 * The files: Documentation/ABI/testing/sysfs-bus-event_source-devices-format and -caps of the
 * kernel, perf-intel-pt(1).
 */
#ifndef PTAH_RECORD_PERF_EVENT_PMU_H
#define PTAH_RECORD_PERF_EVENT_PMU_H

#include <ptah/record.h>

#include <linux/perf_event.h>

#define PMU_TERMS 32

/* A term of the event: a field of attr.config. */
struct pmu_term {
	char name[24];
	uint64_t bits;
};

struct pmu {
	uint32_t type; /* perf_event_attr.type */
	struct pmu_term terms[PMU_TERMS];
	size_t term_count;
	/* The files in caps/; false or 0 where the driver has no such file. */
	bool psb_cyc, mtc, ip_filtering, ptwrite, power_event_trace, event_trace, tnt_disable;
	bool topa_output;
	/* Bit n: the value n is valid. */
	uint64_t psb_periods, cycle_thresholds, mtc_periods;
	uint32_t num_address_ranges;
	uint8_t nominal_ratio;
	uint32_t tsc_art_n, tsc_art_d; /* TSC ticks per crystal tick; 0: unknown */
};

/* Reads it all. root: prefix of /sys, "" outside tests. PTAH_E_MISSING without the driver. */
int pmu_read(const char *root, struct pmu *pmu);

/* The bits of a term; 0: the driver does not know it. */
uint64_t pmu_bits(const struct pmu *pmu, const char *term);

/*
 * Makes attr.config for exactly what the configuration asks for, and chooses the PSB period if that
 * is open. Otherwise a problem, and a sentence with the values that would be valid.
 */
enum ptah_record_problem pmu_config(const struct pmu *pmu, const struct ptah_record_config *config,
				    uint64_t *word, struct ptah_message *why);

/* The IA32_RTIT_CTL that the driver will set for this event, without address ranges. */
uint64_t pmu_rtit_ctl(const struct pmu *pmu, const struct perf_event_attr *attr);

/* How the events of a recording are distributed over threads and processors. */
struct pmu_layout {
	bool per_cpu;  /* an event and a buffer for each processor; else for each thread */
	bool system;   /* everything that runs there; no thread is named */
	bool inherit;  /* also threads and children that begin later */
	bool on_exec;  /* the events are switched on by the next execve() */
	bool paused;   /* the trace is not: the caller starts it */
	bool snapshot; /* the oldest trace is overwritten */
};

/* Makes the event of the trace. aux_size: bytes of the buffer. */
void pmu_trace_attr(const struct pmu *pmu, const struct ptah_record_config *config,
		    const struct pmu_layout *layout, uint64_t word, uint64_t aux_size,
		    struct perf_event_attr *attr);

/*
 * Makes the event of the records around it, with every kind of record that the newest kernels have.
 */
void pmu_sideband_attr(const struct ptah_record_config *config, const struct pmu_layout *layout,
		       uint64_t data_size, struct perf_event_attr *attr);

/*
 * Takes the newest of these kinds away and returns its name, for kernels that answer EINVAL. NULL:
 * none is left.
 */
const char *pmu_sideband_less(struct perf_event_attr *attr);

/*
 * The address filters as text for the kernel (PERF_EVENT_IOC_SET_FILTER). The caller frees *text,
 * which is NULL without filters.
 */
enum ptah_record_problem pmu_filters(const struct pmu *pmu, const struct ptah_record_config *config,
				     char **text, struct ptah_message *why);

/* "TYPE NAME\n" for every PMU of the machine; the caller frees it. NULL: none could be read. */
char *pmu_list(const char *root);

/*
 * Reads a small file: at most size - 1 bytes of it, without the last newline. False: it is empty or
 * cannot be read.
 */
bool pmu_read_file(const char *root, const char *path, char *text, size_t size);

#endif
