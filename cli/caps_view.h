/* SPDX-License-Identifier: MIT */
/* What `ptah caps` shows: a processor's Intel PT, and the tables of facts about it. */
#ifndef PTAH_CLI_CAPS_VIEW_H
#define PTAH_CLI_CAPS_VIEW_H

#include "input.h"
#include "output/json.h"
#include "render.h"

#include <ptah/engine/caps.h>
#include <ptah/record.h>

/* The processor that is shown: this machine's, or a simulated one. */
struct caps_subject {
	const struct ptah_caps *caps;
	const struct ptah_host *host; /* NULL: simulated */
	const char *name, *product;   /* of a simulated one */
	const char *obstacle, *advice;
	bool possible;
};

/* A fact that holds or not, by the name of its member in struct ptah_caps. */
struct caps_fact {
	const char *name;
	size_t at; /* of a bool in struct ptah_caps */
	const char *meaning;
};

/* Both end with an element without a name. Limits are model-specific: text shows those that hold.
 */
extern const struct caps_fact caps_features[];
extern const struct caps_fact caps_limits[];

/* A field of IA32_RTIT_CTL with a bitmap in CPUID of the encodings that are valid. */
struct caps_encoding {
	const char *name, *list, *unit, *title;
	size_t at; /* of the bitmap in struct ptah_caps */
	uint64_t (*meaning)(unsigned n);
	bool crystal; /* the unit is a tick of the crystal clock */
};

#define CAPS_ENCODINGS 3
extern const struct caps_encoding caps_encodings[CAPS_ENCODINGS];

struct caps_view {
	struct out *out;
	const struct caps_subject *subject;
	struct json json; /* of the list of models */
};

bool caps_has(const struct ptah_caps *caps, size_t at);
bool caps_unknown(const struct caps_subject *s, size_t at);
unsigned caps_bitmap(const struct ptah_caps *caps, const struct caps_encoding *e);
double caps_nanoseconds(const struct ptah_caps *caps, uint64_t ticks);
uint32_t caps_errata(const struct ptah_caps *caps);

void caps_put_text(void *view);
void caps_put_json(void *view);
void caps_put_tsv(void *view);

#endif
