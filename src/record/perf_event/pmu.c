/* SPDX-License-Identifier: MIT */
/*
 * Reads the intel_pt driver's description of itself in sysfs, and makes perf_event_attr out of a
 * configuration.
 */
#include "record/perf_event/pmu.h"

#include "base/bits.h"
#include "perfdata/format.h"
#include "record/recorder.h"

#include <ptah/engine/rtit.h>

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DEVICES "/sys/bus/event_source/devices"
#define PMU	DEVICES "/intel_pt"

#define DEFAULT_PSB_PERIOD 3 /* 16 KiB, as perf's default */
#define DEFAULT_MTC_PERIOD 3 /* every 8 crystal ticks, as perf's default */

/* Files */

bool pmu_read_file(const char *root, const char *path, char *text, size_t size)
{
	char name[4096];
	size_t n;
	FILE *f;

	if (snprintf(name, sizeof(name), "%s%s", root, path) >= (int)sizeof(name))
		return false;
	f = fopen(name, "re");
	if (!f)
		return false;
	n = fread(text, 1, size - 1, f);
	fclose(f);
	if (n && text[n - 1] == '\n')
		n--;
	text[n] = '\0';
	return n > 0;
}

static uint64_t read_value(const char *root, const char *folder, const char *name, int base)
{
	char path[512], text[64], *end;
	uint64_t value;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	if (!pmu_read_file(root, path, text, sizeof(text)))
		return 0;
	value = strtoull(text, &end, base);
	return end != text && !*end ? value : 0;
}

/* The bits of "config:14-17", or of several such ranges with commas between them. 0: other text. */
static uint64_t parse_format(const char *text)
{
	uint64_t bits = 0;
	char *end;

	if (strncmp(text, "config:", 7) != 0)
		return 0;
	text += 7;
	do {
		unsigned long first = strtoul(text, &end, 10), last = first;

		if (end == text)
			return 0;
		if (*end == '-') {
			text = end + 1;
			last = strtoul(text, &end, 10);
			if (end == text)
				return 0;
		}
		if (first > last || last > 63)
			return 0;
		bits |= (UINT64_MAX >> (63 - last)) & (UINT64_MAX << first);
		text = end + 1;
	} while (*end == ',');
	return *end ? 0 : bits;
}

static void read_terms(const char *root, struct pmu *pmu)
{
	char path[4096], text[128];
	struct dirent *entry;
	DIR *folder;

	snprintf(path, sizeof(path), "%s" PMU "/format", root);
	folder = opendir(path);
	while (folder && (entry = readdir(folder)) && pmu->term_count < PMU_TERMS) {
		struct pmu_term *term = &pmu->terms[pmu->term_count];

		if (entry->d_name[0] == '.' || strlen(entry->d_name) >= sizeof(term->name))
			continue;
		snprintf(path, sizeof(path), PMU "/format/%s", entry->d_name);
		if (!pmu_read_file(root, path, text, sizeof(text)))
			continue;
		term->bits = parse_format(text);
		memcpy(term->name, entry->d_name, strlen(entry->d_name) + 1);
		pmu->term_count += term->bits != 0;
	}
	if (folder)
		closedir(folder);
}

int pmu_read(const char *root, struct pmu *pmu)
{
	char text[64];
	uint64_t ratio;

	memset(pmu, 0, sizeof(*pmu));
	pmu->type = (uint32_t)read_value(root, PMU, "type", 10);
	if (!pmu->type)
		return PTAH_E_MISSING;
	read_terms(root, pmu);
	/* The driver shows capabilities in hexadecimal. */
	pmu->psb_cyc = read_value(root, PMU "/caps", "psb_cyc", 16);
	pmu->mtc = read_value(root, PMU "/caps", "mtc", 16);
	pmu->ip_filtering = read_value(root, PMU "/caps", "ip_filtering", 16);
	pmu->ptwrite = read_value(root, PMU "/caps", "ptwrite", 16);
	pmu->power_event_trace = read_value(root, PMU "/caps", "power_event_trace", 16);
	pmu->event_trace = read_value(root, PMU "/caps", "event_trace", 16);
	pmu->tnt_disable = read_value(root, PMU "/caps", "tnt_disable", 16);
	pmu->topa_output = read_value(root, PMU "/caps", "topa_output", 16);
	pmu->psb_periods = read_value(root, PMU "/caps", "psb_periods", 16);
	pmu->cycle_thresholds = read_value(root, PMU "/caps", "cycle_thresholds", 16);
	pmu->mtc_periods = read_value(root, PMU "/caps", "mtc_periods", 16);
	pmu->num_address_ranges = (uint32_t)read_value(root, PMU "/caps", "num_address_ranges", 16);
	ratio = read_value(root, PMU, "max_nonturbo_ratio", 10);
	pmu->nominal_ratio = ratio <= UINT8_MAX ? (uint8_t)ratio : 0;
	if (pmu_read_file(root, PMU "/tsc_art_ratio", text, sizeof(text)) &&
	    sscanf(text, "%" SCNu32 ":%" SCNu32, &pmu->tsc_art_n, &pmu->tsc_art_d) != 2)
		pmu->tsc_art_n = pmu->tsc_art_d = 0;
	return 0;
}

uint64_t pmu_bits(const struct pmu *pmu, const char *term)
{
	for (size_t i = 0; i < pmu->term_count; i++)
		if (!strcmp(pmu->terms[i].name, term))
			return pmu->terms[i].bits;
	return 0;
}

char *pmu_list(const char *root)
{
	char path[4096], text[64], *list = NULL;
	size_t size = 0;
	struct dirent *entry;
	DIR *folder;
	FILE *f;

	snprintf(path, sizeof(path), "%s" DEVICES, root);
	folder = opendir(path);
	f = folder ? open_memstream(&list, &size) : NULL;
	while (f && (entry = readdir(folder))) {
		snprintf(path, sizeof(path), DEVICES "/%s/type", entry->d_name);
		if (entry->d_name[0] != '.' && pmu_read_file(root, path, text, sizeof(text)))
			fprintf(f, "%lu %s\n", strtoul(text, NULL, 10), entry->d_name);
	}
	if (folder)
		closedir(folder);
	if (f && fclose(f)) {
		free(list);
		return NULL;
	}
	return list;
}

/* attr.config */

/* "0,3,6,9" */
static void list_values(uint64_t valid, char *text, size_t size)
{
	size_t n = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < 64 && n < size; i++)
		if (valid >> i & 1)
			n += (size_t)snprintf(text + n, size - n, "%s%u", n ? "," : "", i);
}

static uint64_t place(uint64_t bits, uint64_t value)
{
	return bits ? value * (bits & -bits) & bits : 0;
}

/* A term that is on or off. */
struct wish {
	const char *term;
	bool on;
	bool able; /* the processor can do it */
};

static enum ptah_record_problem take_wish(const struct pmu *pmu, const struct wish *wish,
					  uint64_t *word, struct ptah_message *why)
{
	uint64_t bits = pmu_bits(pmu, wish->term);

	if (!wish->on)
		return PTAH_RECORD_FINE;
	if (!bits)
		return recorder_refuse(why, PTAH_RECORD_BAD_OPTION,
				       "%s=1: this kernel's intel_pt has no such term", wish->term);
	if (!wish->able)
		return recorder_refuse(why, PTAH_RECORD_BAD_OPTION,
				       "%s=1: this processor cannot do it; the valid value is 0",
				       wish->term);
	*word |= bits;
	return PTAH_RECORD_FINE;
}

static enum ptah_record_problem take_value(const struct pmu *pmu, const char *term, uint64_t value,
					   uint64_t valid, uint64_t *word, struct ptah_message *why)
{
	uint64_t bits = pmu_bits(pmu, term);
	char values[256];

	if (value < 64 && valid >> value & 1 &&
	    place(bits, value) / (bits ? bits & -bits : 1) == value) {
		*word |= place(bits, value);
		return PTAH_RECORD_FINE;
	}
	list_values(bits ? valid : 1, values, sizeof(values));
	return recorder_refuse(why, PTAH_RECORD_BAD_OPTION,
			       "%s=%" PRIu64 " is not for this processor: valid values are %s",
			       term, value, values[0] ? values : "none");
}

/* The valid period nearest to `liked`; of two equally near the smaller. */
static unsigned choose_period(uint64_t valid, unsigned liked)
{
	for (unsigned away = 0; away < 16; away++) {
		if (away <= liked && valid >> (liked - away) & 1)
			return liked - away;
		if (valid >> (liked + away) & 1)
			return liked + away;
	}
	return 0;
}

/*
 * MTC packets are on unless they are declined, as with perf. TSC packets alone come with PSBs,
 * which is too seldom to give the switches and new maps of a busy thread their place in the trace.
 */
static bool wants_mtc(const struct pmu *pmu, const struct ptah_record_config *config)
{
	const struct ptah_trace_config *trace = &config->trace;

	if (!trace->mtc || trace->mtc_period != PTAH_RECORD_CHOOSE)
		return trace->mtc;
	return trace->tsc && pmu->mtc && pmu->mtc_periods && pmu_bits(pmu, "mtc") &&
	       pmu_bits(pmu, "mtc_period");
}

static enum ptah_record_problem take_mtc_period(const struct pmu *pmu,
						const struct ptah_record_config *config,
						uint64_t *word, struct ptah_message *why)
{
	uint64_t value = config->trace.mtc_period;

	if (!wants_mtc(pmu, config))
		return PTAH_RECORD_FINE;
	if (value == PTAH_RECORD_CHOOSE)
		value = choose_period(pmu->mtc_periods, DEFAULT_MTC_PERIOD);
	return take_value(pmu, "mtc_period", value, pmu->mtc_periods, word, why);
}

static enum ptah_record_problem take_psb_period(const struct pmu *pmu,
						const struct ptah_record_config *config,
						uint64_t *word, struct ptah_message *why)
{
	const unsigned value = config->trace.psb_period;

	if (value == PTAH_RECORD_CHOOSE) {
		*word |= pmu->psb_cyc ? place(pmu_bits(pmu, "psb_period"),
					      choose_period(pmu->psb_periods, DEFAULT_PSB_PERIOD))
				      : 0;
		return PTAH_RECORD_FINE;
	}
	if (!pmu->psb_cyc)
		return recorder_refuse(
		    why, PTAH_RECORD_BAD_OPTION,
		    "psb_period=%u: this processor has a period of its own, which "
		    "cannot be set",
		    value);
	/* 0 means the driver's default, which is always valid (pt_event_valid()). */
	return take_value(pmu, "psb_period", value, pmu->psb_periods | 1, word, why);
}

enum ptah_record_problem pmu_config(const struct pmu *pmu, const struct ptah_record_config *config,
				    uint64_t *word, struct ptah_message *why)
{
	const struct wish wishes[] = {
	    /*
	     * Without "pt" the driver sets BranchEn whatever else is asked for. Drivers before 4.19
	     * know neither term and always trace branches.
	     */
	    {"pt", pmu_bits(pmu, "pt") != 0, true},
	    {"branch", config->trace.branch && pmu_bits(pmu, "branch"), true},
	    {"tsc", config->trace.tsc, true},
	    {"noretcomp", config->trace.no_retcomp, true},
	    {"mtc", wants_mtc(pmu, config), pmu->mtc},
	    {"cyc", config->trace.cyc, pmu->psb_cyc},
	    {"ptw", config->trace.ptwrite, pmu->ptwrite},
	    {"fup_on_ptw", config->trace.fup_on_ptwrite, pmu->ptwrite},
	    {"pwr_evt", config->trace.power_events, pmu->power_event_trace},
	    {"event", config->trace.event_trace, pmu->event_trace},
	    {"notnt", config->trace.no_tnt, pmu->tnt_disable},
	};
	enum ptah_record_problem problem = PTAH_RECORD_FINE;
	uint64_t known = 0;

	*word = 0;
	for (size_t i = 0; i < ARRAY_SIZE(wishes) && !problem; i++)
		problem = take_wish(pmu, &wishes[i], word, why);
	if (!problem && config->trace.fup_on_ptwrite && !config->trace.ptwrite)
		problem = recorder_refuse(why, PTAH_RECORD_BAD_OPTION,
					  "fup_on_ptw=1 makes no sense without ptw=1");
	if (!problem && !config->trace.branch && !pmu_bits(pmu, "branch"))
		problem = recorder_refuse(why, PTAH_RECORD_BAD_OPTION,
					  "branch=0: this kernel's intel_pt has no such term");
	if (!problem)
		problem = take_mtc_period(pmu, config, word, why);
	if (!problem && config->trace.cyc)
		problem = take_value(pmu, "cyc_thresh", config->trace.cyc_threshold,
				     pmu->cycle_thresholds | 1, word, why);
	if (!problem)
		problem = take_psb_period(pmu, config, word, why);
	for (size_t i = 0; i < pmu->term_count; i++)
		known |= pmu->terms[i].bits;
	if (!problem && config->backend.pmu_config & ~known)
		problem =
		    recorder_refuse(why, PTAH_RECORD_BAD_OPTION,
				    "config=0x%" PRIx64 ": this kernel's intel_pt knows the bits "
				    "0x%" PRIx64,
				    config->backend.pmu_config, known);
	*word |= config->backend.pmu_config;
	return problem;
}

uint64_t pmu_rtit_ctl(const struct pmu *pmu, const struct perf_event_attr *attr)
{
	/*
	 * Bit 0 of the word is the driver's own ("pt"): with it, the driver does not add BranchEn
	 * by itself.
	 */
	uint64_t ctl = attr->config & ~PTAH_RTIT_CTL_TRACE_EN;

	if (!(attr->config & 1))
		ctl |= PTAH_RTIT_CTL_BRANCH_EN;
	return ctl | PTAH_RTIT_CTL_TRACE_EN | (pmu->topa_output ? PTAH_RTIT_CTL_TOPA : 0) |
	       (attr->exclude_user ? 0 : PTAH_RTIT_CTL_USER) |
	       (attr->exclude_kernel ? 0 : PTAH_RTIT_CTL_OS);
}

/* Events */

/* The members that both events have in common. */
static void common_attr(const struct pmu_layout *layout, struct perf_event_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->size = PERFDATA_ATTR_SIZE;
	attr->sample_period = 1;
	attr->sample_type =
	    PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER;
	attr->read_format = PERF_FORMAT_ID;
	attr->sample_id_all = 1;
	attr->disabled = 1;
	attr->inherit = layout->inherit;
	attr->exclude_hv = 1;
}

void pmu_trace_attr(const struct pmu *pmu, const struct ptah_record_config *config,
		    const struct pmu_layout *layout, uint64_t word, uint64_t aux_size,
		    struct perf_event_attr *attr)
{
	common_attr(layout, attr);
	attr->type = pmu->type;
	attr->config = word;
	/* Without this flag perf refuses to print the addresses that it decodes. */
	attr->sample_type |= PERF_SAMPLE_IP;
	attr->exclude_user = config->trace.os && !config->trace.user;
	attr->exclude_kernel = !config->trace.os;
	attr->enable_on_exec = layout->on_exec && !layout->paused;
	/* The recorder is woken when a quarter is full, and drains while the other three fill. */
	attr->aux_watermark = layout->snapshot ? 0 : (uint32_t)(aux_size / 4);
}

void pmu_sideband_attr(const struct ptah_record_config *config, const struct pmu_layout *layout,
		       uint64_t data_size, struct perf_event_attr *attr)
{
	common_attr(layout, attr);
	attr->type = PERF_TYPE_SOFTWARE;
	attr->config = PERF_COUNT_SW_DUMMY;
	attr->exclude_kernel = !config->trace.os;
	attr->enable_on_exec = layout->on_exec;
	attr->mmap = attr->mmap2 = attr->build_id = 1;
	attr->comm = attr->comm_exec = attr->task = 1;
	attr->context_switch = 1;
	/* Records of code that is added to the kernel while it runs. */
	attr->ksymbol = attr->bpf_event = attr->text_poke = config->trace.os && layout->per_cpu;
	attr->watermark = 1;
	attr->wakeup_watermark = (uint32_t)(data_size / 4);
}

const char *pmu_sideband_less(struct perf_event_attr *attr)
{
	/* The newest first, with the version of Linux that introduced it. */
	if (attr->build_id) {
		attr->build_id = 0;
		return "build ids of mapped files (Linux 5.12)";
	}
	if (attr->text_poke) {
		attr->text_poke = 0;
		return "changes of the kernel's code (Linux 5.9)";
	}
	if (attr->bpf_event || attr->ksymbol) {
		attr->bpf_event = attr->ksymbol = 0;
		return "BPF programs and other new code of the kernel (Linux 5.1)";
	}
	if (attr->context_switch) {
		attr->context_switch = 0;
		return "context switches (Linux 4.3)";
	}
	return NULL;
}

/* Address filters */

static enum ptah_record_problem check_filter(const struct pmu *pmu,
					     const struct ptah_record_config *config, size_t i,
					     struct ptah_message *why)
{
	const struct ptah_record_filter *f = &config->filters[i];

	if (!pmu->ip_filtering || config->filter_count > pmu->num_address_ranges)
		return recorder_refuse(
		    why, PTAH_RECORD_BAD_OPTION, "%zu address filters: this processor has %" PRIu32,
		    config->filter_count, pmu->ip_filtering ? pmu->num_address_ranges : 0);
	if (!f->path && !config->trace.os)
		return recorder_refuse(why, PTAH_RECORD_BAD_OPTION,
				       "filter %zu names no file: only addresses of the kernel can "
				       "do without, and the kernel is not traced",
				       i);
	if (f->path && config->target.kind == PTAH_RECORD_CPUS)
		return recorder_refuse(
		    why, PTAH_RECORD_NOT_POSSIBLE,
		    "filters of a file's code go with processes and threads, not "
		    "with whole processors (the kernel's rule)");
	if (f->path && strpbrk(f->path, " ,\n"))
		return recorder_refuse(why, PTAH_RECORD_NOT_POSSIBLE,
				       "the path of filter %zu has a space, a comma or a newline, "
				       "which the kernel cannot take",
				       i);
	return PTAH_RECORD_FINE;
}

enum ptah_record_problem pmu_filters(const struct pmu *pmu, const struct ptah_record_config *config,
				     char **text, struct ptah_message *why)
{
	enum ptah_record_problem problem = PTAH_RECORD_FINE;
	size_t n = 0;
	FILE *out;

	*text = NULL;
	if (!config->filter_count)
		return PTAH_RECORD_FINE;
	out = open_memstream(text, &n);
	if (!out)
		return recorder_refuse(why, PTAH_RECORD_NO_MEMORY, "out of memory");
	for (size_t i = 0; i < config->filter_count && !problem; i++) {
		const struct ptah_record_filter *f = &config->filters[i];
		uint64_t size = f->size;
		struct stat st;

		problem = check_filter(pmu, config, i, why);
		if (!problem && size == UINT64_MAX) {
			size -= f->start;
			if (f->path && stat(f->path, &st))
				problem = recorder_refuse(why, PTAH_RECORD_NO_TARGET,
							  "%s: no such file to filter by", f->path);
			else if (f->path)
				size = (uint64_t)st.st_size > f->start
					   ? (uint64_t)st.st_size - f->start
					   : 0;
		}
		if (!problem && !size)
			problem = recorder_refuse(why, PTAH_RECORD_BAD_OPTION,
						  "filter %zu begins behind the end of %s", i,
						  f->path ? f->path : "memory");
		fprintf(out, "%s%s 0x%" PRIx64 "/0x%" PRIx64 "%s%s", i ? "," : "",
			f->mode == PTAH_RANGE_STOP ? "stop" : "filter", f->start, size,
			f->path ? "@" : "", f->path ? f->path : "");
	}
	if (fclose(out) && !problem)
		problem = recorder_refuse(why, PTAH_RECORD_NO_MEMORY, "out of memory");
	if (problem) {
		free(*text);
		*text = NULL;
	}
	return problem;
}
