/* SPDX-License-Identifier: MIT */
/* `ptah caps` for programs: TSV and JSON. */
#include "caps_view.h"

#include <inttypes.h>

void caps_put_tsv(void *view)
{
	struct out *out = ((struct caps_view *)view)->out;
	const struct caps_subject *s = ((struct caps_view *)view)->subject;
	const struct ptah_caps *c = s->caps;

	out_text(out, "name\tvalue\tmeaning\n");
	out_format(out, "possible\t%d\t%s\n", s->possible, s->advice);
	out_format(out, "obstacle\t%s\t\n", s->obstacle ? s->obstacle : "");
	out_format(out, "family\t%u\t\nmodel\t%u\t\nstepping\t%u\t\n", c->cpu.family, c->cpu.model,
		   c->cpu.stepping);
	out_format(out, "physical_bits\t%u\t\nlinear_bits\t%u\t\n", c->physical_bits,
		   c->linear_bits);
	for (size_t i = 0; caps_features[i].name; i++)
		out_format(out, "%s\t%s\t%s\n", caps_features[i].name,
			   caps_unknown(s, caps_features[i].at) ? ""
			   : caps_has(c, caps_features[i].at)	? "1"
								: "0",
			   caps_features[i].meaning);
	for (size_t i = 0; caps_limits[i].name; i++)
		out_format(out, "%s\t%d\t%s\n", caps_limits[i].name, caps_has(c, caps_limits[i].at),
			   caps_limits[i].meaning);
	out_format(out, "ranges\t%u\taddress ranges, each a filter or a stop\n", c->ranges);
	out_format(out, "triggers\t%u\ttriggers, which no driver programs yet\n", c->triggers);
	for (size_t i = 0; i < CAPS_ENCODINGS; i++)
		for (unsigned n = 0; n < 16; n++)
			if (caps_bitmap(c, &caps_encodings[i]) >> n & 1)
				out_format(out, "%s\t%u\t%" PRIu64 " %s\n", caps_encodings[i].name,
					   n, caps_encodings[i].meaning(n), caps_encodings[i].unit);
	out_format(out,
		   "tsc_n\t%" PRIu32 "\tTSC ticks in\ntsc_d\t%" PRIu32
		   "\tso many crystal ticks\ncrystal_hz\t%" PRIu32 "\t\n",
		   c->tsc_n, c->tsc_d, c->crystal_hz);
	out_format(out, "max_nonturbo_ratio\t%u\t\n", c->nominal_ratio);
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
	for (size_t i = 0; i < CAPS_ENCODINGS; i++) {
		json_array(j, caps_encodings[i].list);
		for (unsigned n = 0; n < 16; n++) {
			if (!(caps_bitmap(caps, &caps_encodings[i]) >> n & 1))
				continue;
			json_object(j, NULL, true);
			json_number(j, "value", n);
			json_number(j, caps_encodings[i].unit, caps_encodings[i].meaning(n));
			if (caps_encodings[i].crystal && caps->crystal_hz)
				json_real(j, "nanoseconds",
					  caps_nanoseconds(caps, caps_encodings[i].meaning(n)));
			json_end_object(j);
		}
		json_end_array(j);
	}
}

static void put_features_json(struct json *j, const struct caps_subject *s)
{
	json_object(j, "features", false);
	for (size_t i = 0; caps_features[i].name; i++) {
		if (caps_unknown(s, caps_features[i].at))
			json_string(j, caps_features[i].name, NULL);
		else
			json_bool(j, caps_features[i].name, caps_has(s->caps, caps_features[i].at));
	}
	json_end_object(j);
}

static void put_caps_json(struct json *j, const struct caps_subject *s)
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
	for (size_t i = 0; caps_limits[i].name; i++)
		json_bool(j, caps_limits[i].name, caps_has(c, caps_limits[i].at));
	json_end_object(j);
	json_number(j, "ranges", c->ranges);
	json_number(j, "triggers", c->triggers);
	put_encodings_json(j, c);
	json_number(j, "tsc_n", c->tsc_n);
	json_number(j, "tsc_d", c->tsc_d);
	json_number(j, "crystal_hz", c->crystal_hz);
	json_number(j, "max_nonturbo_ratio", c->nominal_ratio);
	json_array(j, "errata");
	for (unsigned i = 0; i < PTAH_ERRATUM_MAX; i++)
		if (caps_errata(c) >> i & 1)
			json_string(j, NULL, ptah_erratum_name(i, NULL));
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

void caps_put_json(void *view)
{
	const struct caps_view *v = view;
	const struct caps_subject *s = v->subject;
	struct json j;

	json_init(&j, v->out);
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
