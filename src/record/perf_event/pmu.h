/* SPDX-License-Identifier: MIT */
/*
 * What Linux' intel_pt driver tells of itself in sysfs, and the event that a
 * configuration becomes with it. Reads files, opens no event.
 *
 * The files: Documentation/ABI/testing/sysfs-bus-event_source-devices-format
 * and -caps of the kernel, perf-intel-pt(1).
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
	/* caps/: what is not there the driver does not know, so it is false or 0. */
	bool psb_cyc, mtc, ip_filtering, ptwrite, power_event_trace, event_trace, tnt_disable;
	bool topa_output;
	/* Bit n: the value n is valid. */
	uint64_t psb_periods, cycle_thresholds, mtc_periods;
	uint32_t num_address_ranges;
	uint8_t nominal_ratio;
	uint32_t tsc_art_n, tsc_art_d; /* TSC ticks per crystal tick; 0: not told */
};

/* root: what stands before /sys. PTAH_E_MISSING when the driver is not there. */
int pmu_read(const char *root, struct pmu *pmu);

/* The bits of a term; 0: the driver does not know it. */
uint64_t pmu_bits(const struct pmu *pmu, const char *term);

/*
 * attr.config for what is asked: exactly that, with the period of PSBs chosen
 * where it is left open, or a problem and a sentence with what would be valid.
 */
enum ptah_record_problem pmu_config(const struct pmu *pmu, const struct ptah_record_config *config,
				    uint64_t *word, struct ptah_message *why);

/* What IA32_RTIT_CTL becomes with it: as the driver sets it, address ranges apart. */
uint64_t pmu_rtit_ctl(const struct pmu *pmu, const struct perf_event_attr *attr);

/* How the events of a recording lie over threads and processors. */
struct pmu_layout {
	bool per_cpu;  /* an event and a buffer on each processor, else one for each thread */
	bool system;   /* whatever runs there: no thread is named */
	bool inherit;  /* threads and children that begin later */
	bool on_exec;  /* what the event counts begins with the next execve() */
	bool paused;   /* the trace does not: it is started by hand */
	bool snapshot; /* the buffer is overwritten */
};

/* The event of the trace. aux_size: bytes of the buffer. */
void pmu_trace_attr(const struct pmu *pmu, const struct ptah_record_config *config,
		    const struct pmu_layout *layout, uint64_t word, uint64_t aux_size,
		    struct perf_event_attr *attr);

/* The event of the records around it, with all that a new kernel can tell. */
void pmu_sideband_attr(const struct ptah_record_config *config, const struct pmu_layout *layout,
		       uint64_t data_size, struct perf_event_attr *attr);

/*
 * The same with the newest of its wishes less; its name, or NULL when there is
 * none left: for kernels that answer EINVAL.
 */
const char *pmu_sideband_less(struct perf_event_attr *attr);

/*
 * The filters in the kernel's words (PERF_EVENT_IOC_SET_FILTER). The caller's
 * to free; *text is NULL without filters.
 */
enum ptah_record_problem pmu_filters(const struct pmu *pmu, const struct ptah_record_config *config,
				     char **text, struct ptah_message *why);

/* "TYPE NAME\n" of every PMU of the machine, the caller's to free; NULL: none could be read. */
char *pmu_list(const char *root);

/* A small file: its text, shorter than size and without its last newline. False: none. */
bool pmu_read_file(const char *root, const char *path, char *text, size_t size);

#endif
