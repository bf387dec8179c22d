/* SPDX-License-Identifier: MIT */
#include "cli.h"

#include <ptah/caps.h>
#include <ptah/host.h>
#include <ptah/model.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct options {
	struct input input; /* format and output alone */
	const char *model;
	bool check;
};

static const struct option_def option_defs[] = {
    {"model", 'm', OPTION_TEXT, offsetof(struct options, model), "NAME",
     "of a simulated processor instead of this one; 'list' names them", NULL},
    {"check", 0, OPTION_FLAG, offsetof(struct options, check), NULL,
     "exit with 1 when tracing is not possible", NULL},
    INPUT_OPTION("output", 'o', OPTION_TEXT, struct options, output, "FILE",
		 "write to FILE instead of standard output", NULL),
    INPUT_OPTION("format", 0, OPTION_CHOICE, struct options, format, "FORMAT",
		 "text, json or tsv (default: text)", format_choices),
    {"help", 'h', OPTION_HELP, 0, NULL, "show this help", NULL},
    {0},
};

/* What is told of: this machine's processor or a simulated one. */
struct subject {
	const struct ptah_caps *caps;
	const struct ptah_host *host; /* NULL: simulated */
	const char *name, *product;   /* of a simulated one */
	const char *obstacle, *advice;
	bool possible;
};

/* What is there or not, by the name that configurations have for it. */
static const struct {
	const char *name;
	size_t at;
	const char *meaning;
} features[] = {
#define FEATURE(name, meaning)                                                                     \
	{                                                                                          \
#name, offsetof(struct ptah_caps, name), meaning                                   \
	}
    FEATURE(cr3_filter, "trace one address space, by its CR3"),
    FEATURE(ip_filter, "filter by address ranges, and stop in them"),
    FEATURE(mtc, "MTC packets: the crystal's ticks between two TSC packets"),
    FEATURE(psb_cyc, "CYC packets: core cycles; and a choice of PSB periods"),
    FEATURE(ptwrite, "PTWRITE packets: values that a program writes into its trace"),
    FEATURE(power_events, "power packets: C-states entered and left"),
    FEATURE(event_trace, "Event Trace packets: interrupts and exceptions by name"),
    FEATURE(tnt_disable, "leave TNT packets out: calls and returns without their branches"),
    FEATURE(trigger_tracing, "trigger tracing"),
    FEATURE(psb_pmi_preserve, "a PSB or PMI that is due is kept over a pause"),
    FEATURE(topa, "output to regions of memory that a table names (ToPA)"),
    FEATURE(topa_multi, "ToPA tables of more than one region"),
    FEATURE(single_range, "output to one contiguous range of memory"),
    FEATURE(fabric, "output to a trace port"),
    FEATURE(lip, "addresses in packets include the base of CS"),
    FEATURE(xsaves, "XSAVES keeps a thread's trace state"),
    FEATURE(vmx_pt, "tracing goes on in VMX operation"),
#undef FEATURE
};

/* Model-specific limits: only where they hold is there anything to tell. */
static const struct {
	const char *name;
	size_t at;
	const char *meaning;
} limits[] = {
#define LIMIT(name, meaning)                                                                       \
	{                                                                                          \
#name, offsetof(struct ptah_caps, name), meaning                                   \
	}
    LIMIT(branch_required, "branch packets cannot be left out (erratum BDM106)"),
    LIMIT(lbr_exclusive, "tracing resets the last branch records (LBR)"),
    LIMIT(single_range_4k_only,
	  "a single range of more than 4 KB gets wrong data (errata TGL052, ADL037, RPL017)"),
#undef LIMIT
};

static bool has(const struct ptah_caps *caps, size_t at)
{
	return *(const bool *)((const char *)caps + at);
}

/* An MSR tells it, and those are out of reach in user mode. */
static bool is_unknown(const struct subject *s, size_t at)
{
	return s->host && at == offsetof(struct ptah_caps, vmx_pt) && s->caps->vmx;
}

static uint64_t mtc_ticks(unsigned n)
{
	return UINT64_C(1) << n;
}

static uint64_t cyc_cycles(unsigned n)
{
	return n ? UINT64_C(1) << (n - 1) : 0;
}

static uint64_t psb_bytes(unsigned n)
{
	return UINT64_C(2048) << n;
}

/* Encodings: SDM "IA32_RTIT_CTL MSR", fields MTCFreq, CycThresh and PSBFreq. */
static const struct encoding {
	const char *name, *list, *unit, *title;
	size_t at;
	uint64_t (*meaning)(unsigned n);
} encodings[] = {
    {"mtc_period", "mtc_periods", "crystal_ticks", "an MTC packet each so many crystal ticks",
     offsetof(struct ptah_caps, mtc_periods), mtc_ticks},
    {"cyc_threshold", "cyc_thresholds", "cycles",
     "a CYC packet after no less than so many core cycles (perf: cyc_thresh)",
     offsetof(struct ptah_caps, cyc_thresholds), cyc_cycles},
    {"psb_period", "psb_periods", "bytes", "a PSB each so many bytes of trace",
     offsetof(struct ptah_caps, psb_periods), psb_bytes},
};

static unsigned bitmap(const struct ptah_caps *caps, const struct encoding *e)
{
	return *(const uint16_t *)(const void *)((const char *)caps + e->at);
}

/* Did the processor tell anything about its PT? */
static bool has_pt(const struct ptah_caps *caps)
{
	return caps->leaf_14_0[1] || caps->leaf_14_0[2];
}

static double nanoseconds(const struct ptah_caps *caps, uint64_t ticks)
{
	return (double)ticks * 1e9 / caps->crystal_hz;
}

static uint32_t errata_of(const struct ptah_caps *caps)
{
	return caps->obstacle == PTAH_CAPS_NOT_INTEL ? 0 : ptah_cpu_errata(&caps->cpu);
}

/* Text: lines of at most 80 columns. */
static void put_paragraph(struct out *out, const char *text)
{
	unsigned column = 0;

	while (*text) {
		size_t n = strcspn(text, " ");

		if (column && column + 1 + n > 80) {
			out_char(out, '\n');
			column = 0;
		} else if (column) {
			out_char(out, ' ');
			column++;
		}
		out_bytes(out, text, n);
		column += (unsigned)n;
		text += n;
		text += strspn(text, " ");
	}
	out_char(out, '\n');
}

static void put_encoding_text(struct out *out, const struct ptah_caps *caps,
			      const struct encoding *e)
{
	unsigned valid = bitmap(caps, e);

	if (!valid)
		return;
	out_format(out, "\n%s: %s\n", e->name, e->title);
	for (unsigned n = 0; n < 16; n++) {
		if (!(valid >> n & 1))
			continue;
		out_format(out, "  %2u %9" PRIu64, n, e->meaning(n));
		if (e->meaning == mtc_ticks && caps->crystal_hz)
			out_format(out, " %13.1f ns", nanoseconds(caps, e->meaning(n)));
		out_char(out, '\n');
	}
}

static void put_time_text(struct out *out, const struct ptah_caps *caps)
{
	if (caps->crystal_hz)
		out_format(out, "  crystal clock   %.3f MHz\n", caps->crystal_hz / 1e6);
	if (caps->tsc_n)
		out_format(out,
			   "  TSC             %" PRIu32 "/%" PRIu32 " ticks per crystal tick\n",
			   caps->tsc_n, caps->tsc_d);
	if (caps->tsc_n && caps->crystal_hz)
		out_format(out, "                  %.3f MHz\n",
			   caps->crystal_hz / 1e6 * caps->tsc_n / caps->tsc_d);
	if (caps->max_nonturbo_ratio)
		out_format(out, "  base frequency  %u times the bus clock\n",
			   caps->max_nonturbo_ratio);
}

static void put_errata_text(struct out *out, const struct ptah_caps *caps)
{
	uint32_t errata = errata_of(caps);

	for (unsigned i = 0; i < PTAH_ERRATUM_MAX; i++)
		if (errata >> i & 1)
			out_format(out, "  %-8s %s\n", ptah_erratum_name(i),
				   ptah_erratum_symptom(i));
}

static void put_caps_text(struct out *out, const struct subject *s)
{
	const struct ptah_caps *caps = s->caps;

	for (size_t i = 0; i < ARRAY_SIZE(features); i++)
		out_format(out, "  %-3s  %-16s  %s\n",
			   is_unknown(s, features[i].at) ? "?"
			   : has(caps, features[i].at)	 ? "yes"
							 : "no",
			   features[i].name, features[i].meaning);
	out_format(out, "  %-3u  %-16s  %s\n", caps->ranges, "ranges",
		   "address ranges, each a filter or a stop");
	for (size_t i = 0; i < ARRAY_SIZE(encodings); i++)
		put_encoding_text(out, caps, &encodings[i]);
	if (caps->tsc_n || caps->crystal_hz || caps->max_nonturbo_ratio) {
		out_text(out, "\ntime\n");
		put_time_text(out, caps);
	}
	if (caps->branch_required || caps->lbr_exclusive || caps->single_range_4k_only)
		out_text(out, "\nlimits of this model\n");
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		if (has(caps, limits[i].at))
			out_format(out, "  %s\n", limits[i].meaning);
	if (errata_of(caps)) {
		out_text(out, "\nerrata that decoding works around\n");
		put_errata_text(out, caps);
	}
	out_char(out, '\n');
}

static void put_rights_text(struct out *out, const struct ptah_host *host)
{
	out_format(out, "This user may trace: %s.\n",
		   host->may_cpu      ? "user code, the kernel, whole processors"
		   : host->may_kernel ? "user code and the kernel in their own processes"
		   : host->may_user   ? "user code in their own processes"
				      : "nothing");
	if (host->paranoid != INT32_MIN && !host->privileged)
		out_format(out, "(kernel.perf_event_paranoid is %d.)\n", host->paranoid);
	if (host->differs)
		out_format(out,
			   "Of %u processors %u offer something else than the first, which is "
			   "shown ('taskset -c N ptah caps' tells of another).\n",
			   host->cpus, host->differs);
}

static void put_text(struct out *out, const struct subject *s)
{
	const struct ptah_caps *c = s->caps;
	const char *whose = s->host ? "this processor" : s->name;

	if (!s->host)
		out_format(out, "%s: %s, simulated\n", s->name, s->product);
	if (has_pt(c))
		out_format(out, "Intel PT of %s, family %u, model 0x%x, stepping %u:\n\n", whose,
			   c->cpu.family, c->cpu.model, c->cpu.stepping);
	if (has_pt(c))
		put_caps_text(out, s);
	if (s->possible && !s->host)
		return;
	if (!s->possible)
		out_format(out, "Tracing is not possible %s.\n", s->host ? "here" : "on it");
	put_paragraph(out, s->advice);
	if (!s->host)
		return;
	if (c->hypervisor && c->obstacle == PTAH_CAPS_NO_PT)
		out_text(out, "There is a hypervisor: this is what it shows.\n");
	if (s->host->driver && !c->obstacle)
		put_rights_text(out, s->host);
	if (!s->possible)
		out_text(out,
			 "\n'ptah record' works all the same: it has a processor of its own, a "
			 "simulated one.\n");
}

static void put_tsv(struct out *out, const struct subject *s)
{
	const struct ptah_caps *c = s->caps;

	out_text(out, "name\tvalue\tmeaning\n");
	out_format(out, "possible\t%d\t%s\n", s->possible, s->advice);
	out_format(out, "obstacle\t%s\t\n", s->obstacle ? s->obstacle : "");
	out_format(out, "family\t%u\t\nmodel\t%u\t\nstepping\t%u\t\n", c->cpu.family, c->cpu.model,
		   c->cpu.stepping);
	out_format(out, "physical_bits\t%u\t\nlinear_bits\t%u\t\n", c->physical_bits,
		   c->linear_bits);
	for (size_t i = 0; i < ARRAY_SIZE(features); i++)
		out_format(out, "%s\t%s\t%s\n", features[i].name,
			   is_unknown(s, features[i].at) ? ""
			   : has(c, features[i].at)	 ? "1"
							 : "0",
			   features[i].meaning);
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		out_format(out, "%s\t%d\t%s\n", limits[i].name, has(c, limits[i].at),
			   limits[i].meaning);
	out_format(out, "ranges\t%u\taddress ranges, each a filter or a stop\n", c->ranges);
	for (size_t i = 0; i < ARRAY_SIZE(encodings); i++)
		for (unsigned n = 0; n < 16; n++)
			if (bitmap(c, &encodings[i]) >> n & 1)
				out_format(out, "%s\t%u\t%" PRIu64 " %s\n", encodings[i].name, n,
					   encodings[i].meaning(n), encodings[i].unit);
	out_format(out,
		   "tsc_n\t%" PRIu32 "\tTSC ticks in\ntsc_d\t%" PRIu32
		   "\tso many crystal ticks\ncrystal_hz\t%" PRIu32 "\t\n",
		   c->tsc_n, c->tsc_d, c->crystal_hz);
	out_format(out, "max_nonturbo_ratio\t%u\t\n", c->max_nonturbo_ratio);
}

static void put_words_json(struct json *j, const char *key, const uint32_t words[4])
{
	json_array(j, key);
	for (unsigned i = 0; i < 4; i++)
		json_address(j, NULL, words[i]);
	json_end_array(j);
}

static void put_encodings_json(struct json *j, const struct ptah_caps *caps)
{
	for (size_t i = 0; i < ARRAY_SIZE(encodings); i++) {
		json_array(j, encodings[i].list);
		for (unsigned n = 0; n < 16; n++) {
			if (!(bitmap(caps, &encodings[i]) >> n & 1))
				continue;
			json_object(j, NULL, true);
			json_number(j, "value", n);
			json_number(j, encodings[i].unit, encodings[i].meaning(n));
			if (encodings[i].meaning == mtc_ticks && caps->crystal_hz)
				json_real(j, "nanoseconds", nanoseconds(caps, mtc_ticks(n)));
			json_end_object(j);
		}
		json_end_array(j);
	}
}

static void put_features_json(struct json *j, const struct subject *s)
{
	json_object(j, "features", false);
	for (size_t i = 0; i < ARRAY_SIZE(features); i++) {
		if (is_unknown(s, features[i].at))
			json_string(j, features[i].name, NULL);
		else
			json_bool(j, features[i].name, has(s->caps, features[i].at));
	}
	json_end_object(j);
}

static void put_caps_json(struct json *j, const struct subject *s)
{
	const struct ptah_caps *c = s->caps;

	json_number(j, "family", c->cpu.family);
	json_number(j, "model", c->cpu.model);
	json_number(j, "stepping", c->cpu.stepping);
	json_bool(j, "hypervisor", c->hypervisor);
	json_number(j, "physical_bits", c->physical_bits);
	json_number(j, "linear_bits", c->linear_bits);
	put_features_json(j, s);
	json_object(j, "limits", false);
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		json_bool(j, limits[i].name, has(c, limits[i].at));
	json_end_object(j);
	json_number(j, "ranges", c->ranges);
	put_encodings_json(j, c);
	json_number(j, "tsc_n", c->tsc_n);
	json_number(j, "tsc_d", c->tsc_d);
	json_number(j, "crystal_hz", c->crystal_hz);
	json_number(j, "max_nonturbo_ratio", c->max_nonturbo_ratio);
	json_array(j, "errata");
	for (unsigned i = 0; i < PTAH_ERRATUM_MAX; i++)
		if (errata_of(c) >> i & 1)
			json_string(j, NULL, ptah_erratum_name(i));
	json_end_array(j);
	json_object(j, "cpuid", false);
	put_words_json(j, "14_0", c->leaf_14_0);
	put_words_json(j, "14_1", c->leaf_14_1);
	put_words_json(j, "15", c->leaf_15);
	json_end_object(j);
}

static void put_host_json(struct json *j, const struct ptah_host *host)
{
	json_object(j, "host", false);
	json_bool(j, "driver", host->driver);
	json_number(j, "pmu_type", host->pmu_type);
	if (host->paranoid == INT32_MIN)
		json_string(j, "perf_event_paranoid", NULL);
	else
		json_signed(j, "perf_event_paranoid", host->paranoid);
	json_bool(j, "privileged", host->privileged);
	json_bool(j, "may_user", host->may_user);
	json_bool(j, "may_kernel", host->may_kernel);
	json_bool(j, "may_cpu", host->may_cpu);
	json_number(j, "cpus", host->cpus);
	json_number(j, "differs", host->differs);
	json_end_object(j);
}

static void put_json(struct out *out, const struct subject *s)
{
	struct json j;

	json_init(&j, out);
	json_object(&j, NULL, false);
	json_string(&j, "simulated", s->name);
	json_bool(&j, "possible", s->possible);
	json_string(&j, "obstacle", s->obstacle);
	json_string(&j, "advice", s->advice);
	put_caps_json(&j, s);
	if (s->host)
		put_host_json(&j, s->host);
	json_end_object(&j);
	json_finish(&j);
}

static int put(const struct options *o, const struct subject *s)
{
	struct out *out;
	int status = output_open(&command_caps, &o->input, &out);

	if (status)
		return status;
	if (o->input.format == FORMAT_JSON)
		put_json(out, s);
	else if (o->input.format == FORMAT_TSV)
		put_tsv(out, s);
	else
		put_text(out, s);
	return output_close(&command_caps, out, o->check && !s->possible ? EXIT_FAILED : EXIT_OK);
}

static int tell_of_host(const struct options *o)
{
	struct ptah_host host = {.size = sizeof(host)};
	struct subject s = {.caps = &host.caps, .host = &host};

	s.possible = ptah_host_look(NULL, NULL, &host) >= 0;
	s.advice = ptah_host_advice(&host);
	if (host.obstacle == PTAH_HOST_PROCESSOR)
		s.obstacle = ptah_caps_obstacle_name(host.caps.obstacle);
	else if (host.obstacle)
		s.obstacle = ptah_host_obstacle_name(host.obstacle);
	return put(o, &s);
}

/* Of a HAL, what discovery uses. */
static void model_cpuid(void *port, uint32_t leaf, uint32_t subleaf, uint32_t registers[4])
{
	ptah_model_cpuid(port, leaf, subleaf, registers);
}

static int model_rdmsr(void *port, uint32_t msr, uint64_t *value)
{
	return ptah_model_rdmsr(port, msr, value);
}

static int tell_of_model(const struct options *o, const struct ptah_model_processor *processor)
{
	static const struct ptah_hal hal = {
	    .size = sizeof(hal), .rdmsr = model_rdmsr, .cpuid = model_cpuid};
	const struct ptah_model_config config = {.size = sizeof(config), .processor = processor};
	struct ptah_model *model = malloc(ptah_model_size());
	struct subject s = {.name = processor->name, .product = processor->product};
	struct ptah_caps caps;
	int status;

	if (!model)
		return fail(&command_caps, "%s", ptah_strerror(PTAH_E_NOMEM));
	status = ptah_model_init(model, &config);
	if (status < 0) {
		free(model);
		return fail(&command_caps, "%s: %s", processor->name, ptah_strerror(status));
	}
	s.possible = ptah_caps_discover(&hal, model, &caps) >= 0;
	free(model);
	s.caps = &caps;
	s.advice = ptah_caps_advice(caps.obstacle);
	if (caps.obstacle)
		s.obstacle = ptah_caps_obstacle_name(caps.obstacle);
	return put(o, &s);
}

static void put_models_json(struct out *out)
{
	const struct ptah_model_processor *p;
	struct json j;

	json_init(&j, out);
	json_object(&j, NULL, false);
	json_array(&j, "models");
	for (size_t i = 0; (p = ptah_model_named(i)); i++) {
		json_object(&j, NULL, true);
		json_string(&j, "name", p->name);
		json_string(&j, "product", p->product);
		json_end_object(&j);
	}
	json_end_array(&j);
	json_end_object(&j);
	json_finish(&j);
}

static int list_models(const struct options *o)
{
	const struct ptah_model_processor *p;
	struct out *out;
	int status = output_open(&command_caps, &o->input, &out);

	if (status)
		return status;
	if (o->input.format == FORMAT_JSON)
		put_models_json(out);
	if (o->input.format == FORMAT_TSV)
		out_text(out, "name\tproduct\n");
	for (size_t i = 0; o->input.format != FORMAT_JSON && (p = ptah_model_named(i)); i++)
		out_format(out, o->input.format == FORMAT_TSV ? "%s\t%s\n" : "%-18s %s\n", p->name,
			   p->product);
	return output_close(&command_caps, out, EXIT_OK);
}

static int run(int argc, char **argv)
{
	const struct ptah_model_processor *processor;
	struct options o = {0};
	int status, first = options_parse(&command_caps, argc, argv, &o, &status);

	if (first < 0)
		return status;
	if (first < argc) {
		fail(&command_caps, "%s: it takes no file\nTry 'ptah caps --help'.", argv[first]);
		return EXIT_USAGE;
	}
	if (!o.model)
		return tell_of_host(&o);
	if (!strcmp(o.model, "list"))
		return list_models(&o);
	processor = ptah_model_find(o.model);
	if (processor)
		return tell_of_model(&o, processor);
	fail(&command_caps,
	     "--model=%s: there is no such processor; 'ptah caps --model=list' names them",
	     o.model);
	return EXIT_USAGE;
}

const struct command command_caps = {
    .name = "caps",
    .usage = "[OPTIONS]",
    .summary = "what this processor's Intel PT offers",
    .details =
	"Tells what the Intel PT of this processor can do, with each value that may be asked\n"
	"for, or why it cannot be used here and what to do about it. Exits with 0 either way,\n"
	"unless --check is given.",
    .options = option_defs,
    .run = run,
};
