/* SPDX-License-Identifier: MIT */
/* `ptah caps` as text. */
#include "caps_view.h"

#include <inttypes.h>
#include <string.h>

/* Whether CPUID leaf 14H contains anything. */
static bool has_pt(const struct ptah_caps *caps)
{
	return caps->leaf_14_0[1] || caps->leaf_14_0[2];
}

/* The text in lines of at most 80 columns. */
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
			      const struct caps_encoding *e)
{
	unsigned valid = caps_bitmap(caps, e);

	if (!valid)
		return;
	out_format(out, "\n%s: %s\n", e->name, e->title);
	for (unsigned n = 0; n < 16; n++) {
		if (!(valid >> n & 1))
			continue;
		out_format(out, "  %2u %9" PRIu64, n, e->meaning(n));
		if (e->crystal && caps->crystal_hz)
			out_format(out, " %13.1f ns", caps_nanoseconds(caps, e->meaning(n)));
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
	if (caps->nominal_ratio)
		out_format(out, "  base frequency  %u times the bus clock\n", caps->nominal_ratio);
}

static void put_errata_text(struct out *out, const struct ptah_caps *caps)
{
	uint32_t errata = caps_errata(caps);

	for (unsigned i = 0; i < PTAH_ERRATUM_MAX; i++) {
		const char *symptom, *name = ptah_erratum_name(i, &symptom);

		if (errata >> i & 1)
			out_format(out, "  %-8s %s\n", name, symptom);
	}
}

static void put_caps_text(struct out *out, const struct caps_subject *s)
{
	const struct ptah_caps *caps = s->caps;

	for (size_t i = 0; caps_features[i].name; i++)
		out_format(out, "  %-3s  %-20s  %s\n",
			   caps_unknown(s, caps_features[i].at)	 ? "?"
			   : caps_has(caps, caps_features[i].at) ? "yes"
								 : "no",
			   caps_features[i].name, caps_features[i].meaning);
	out_format(out, "  %-3u  %-20s  %s\n", caps->ranges, "ranges",
		   "address ranges, each a filter or a stop");
	out_format(out, "  %-3u  %-20s  %s\n", caps->triggers, "triggers",
		   "triggers, which no driver programs yet");
	for (size_t i = 0; i < CAPS_ENCODINGS; i++)
		put_encoding_text(out, caps, &caps_encodings[i]);
	if (caps->tsc_n || caps->crystal_hz || caps->nominal_ratio) {
		out_text(out, "\ntime\n");
		put_time_text(out, caps);
	}
	if (caps->branch_required || caps->lbr_exclusive || caps->single_range_4k_only)
		out_text(out, "\nlimits of this model\n");
	for (size_t i = 0; caps_limits[i].name; i++)
		if (caps_has(caps, caps_limits[i].at))
			out_format(out, "  %s\n", caps_limits[i].meaning);
	if (caps_errata(caps)) {
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

void caps_put_text(void *view)
{
	struct out *out = ((struct caps_view *)view)->out;
	const struct caps_subject *s = ((struct caps_view *)view)->subject;
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
