/* SPDX-License-Identifier: MIT */
/*
 * The errata: which processor has which, and the handling of those that show in the
 * bytes of a single packet. The others are handled where they show: BDM70 in header.c; SKD010,
 * APL11 and APL12 in overflow.c; SKL168 in time.c; BDM64, SKD022 and SKL014,
 * which need the code, in flow/flow_errata.c.
 */
#include "event/errata.h"

#include "event/input.h"

#include <string.h>
#include <strings.h>

#define BIT(name) (UINT32_C(1) << PTAH_ERRATUM_##name)

/* Groups of processors that share their errata, from Intel's specification updates. */
#define BROADWELL      (BIT(BDM70) | BIT(BDM64))
#define SKYLAKE	       (BIT(BDM70) | BIT(SKD007) | BIT(SKD022) | BIT(SKD010) | BIT(SKL014) | BIT(SKL168))
#define SKYLAKE_SERVER (BIT(BDM70) | BIT(SKL014) | BIT(SKD022) | BIT(SKZ84))
#define SERVER	       (BIT(BDM70) | BIT(SKD022) | BIT(SKZ84))
#define ICE_LAKE       (BIT(BDM70) | BIT(SKL014) | BIT(SKD022))
#define ALDER_LAKE     (BIT(BDM70) | BIT(SKD022) | BIT(APL11))
#define GOLDMONT       (BIT(APL12) | BIT(APL11))
#define GOLDMONT_PLUS  BIT(APL11)

static const struct {
	uint16_t family;
	uint8_t model;
	uint32_t errata;
} cpus[] = {
    {6, 0x3d, BROADWELL},      {6, 0x47, BROADWELL},	  {6, 0x4f, BROADWELL},
    {6, 0x56, BROADWELL},      {6, 0x4e, SKYLAKE},	  {6, 0x5e, SKYLAKE},
    {6, 0x8e, SKYLAKE},	       {6, 0x9e, SKYLAKE},	  {6, 0xa5, SKYLAKE},
    {6, 0xa6, SKYLAKE},	       {6, 0x55, SKYLAKE_SERVER}, {6, 0x6a, SKYLAKE_SERVER},
    {6, 0x6c, SKYLAKE_SERVER}, {6, 0x8f, SERVER},	  {6, 0xcf, SERVER},
    {6, 0xad, SERVER},	       {6, 0xae, SERVER},	  {0x13, 0x01, SERVER},
    {6, 0x66, ICE_LAKE},       {6, 0x7d, ICE_LAKE},	  {6, 0x7e, ICE_LAKE},
    {6, 0x8c, ICE_LAKE},       {6, 0x8d, ICE_LAKE},	  {6, 0xa7, ICE_LAKE},
    {6, 0xa8, ICE_LAKE},       {6, 0x97, ALDER_LAKE},	  {6, 0x9a, ALDER_LAKE},
    {6, 0xba, ALDER_LAKE},     {6, 0xb7, ALDER_LAKE},	  {6, 0xbf, ALDER_LAKE},
    {6, 0xc5, ALDER_LAKE},     {6, 0xc6, ALDER_LAKE},	  {6, 0xb5, ALDER_LAKE},
    {6, 0xaa, ALDER_LAKE},     {6, 0xac, ALDER_LAKE},	  {6, 0xbd, ALDER_LAKE},
    {6, 0xcc, ALDER_LAKE},     {6, 0xd5, ALDER_LAKE},	  {0x12, 0x01, ALDER_LAKE},
    {0x12, 0x03, ALDER_LAKE},  {6, 0x5c, GOLDMONT},	  {6, 0x5f, GOLDMONT},
    {6, 0x7a, GOLDMONT_PLUS},  {6, 0x86, GOLDMONT_PLUS},  {6, 0x96, GOLDMONT_PLUS},
    {6, 0x9c, GOLDMONT_PLUS},  {6, 0xb6, GOLDMONT_PLUS},  {6, 0xaf, GOLDMONT_PLUS},
    {6, 0xdd, GOLDMONT_PLUS},
};

static const struct {
	const char *name, *symptom, *handling;
} errata[] = {
#define PTAH_ERRATUM(name, text, symptom, handling) {text, symptom, handling},
#include <ptah/errata.def>
#undef PTAH_ERRATUM
};

uint32_t ptah_cpu_errata(const struct ptah_cpu *cpu)
{
	for (size_t i = 0; cpu && i < ARRAY_SIZE(cpus); i++)
		if (cpus[i].family == cpu->family && cpus[i].model == cpu->model)
			return cpus[i].errata;
	return 0;
}

const char *ptah_erratum_name(unsigned erratum, const char **symptom)
{
	const bool exists = erratum < ARRAY_SIZE(errata);

	if (symptom)
		*symptom = exists ? errata[erratum].symptom : NULL;
	return exists ? errata[erratum].name : NULL;
}

static int find_erratum(const char *name, size_t n)
{
	for (unsigned i = 0; i < ARRAY_SIZE(errata); i++)
		if (strlen(errata[i].name) == n && !strncasecmp(errata[i].name, name, n))
			return (int)i;
	return PTAH_E_INVAL;
}

int ptah_errata_parse(const char *text, uint32_t *mask)
{
	if (!text || !mask)
		return PTAH_E_INVAL;
	*mask = 0;
	if (!strcmp(text, "none"))
		return 0;
	if (!strcmp(text, "all")) {
		*mask = (UINT32_C(1) << PTAH_ERRATUM_MAX) - 1;
		return 0;
	}
	for (;;) {
		size_t n = strcspn(text, ",");
		int erratum = find_erratum(text, n);

		if (erratum < 0)
			return erratum;
		*mask |= UINT32_C(1) << erratum;
		if (!text[n])
			return 0;
		text += n + 1;
	}
}

/*
 * SKD007: an OVF (02 F3) has overwritten the second byte of a two-byte CYC. The 02 then
 * looks like the last byte of the CYC, with the value 1 << 5.
 */
static int skd007(struct ptah_event_decoder *d, struct ptah_packet *packet, int size)
{
	if (size != 2 || d->pos[1] != OPCODE_EXT)
		return size;
	if (!event_input_have(d, 3))
		return PTAH_E_MORE;
	if (d->end - d->pos < 3 || d->pos[2] != EXT_OVF)
		return size;
	packet->type = PTAH_PACKET_PAD;
	return 1;
}

/* SKZ84: while the TSC is offset or scaled, a TMA is corrupt and has one byte too many. */
static int skz84(struct ptah_event_decoder *d, struct ptah_packet *packet, int size)
{
	if (!d->pos[4] && !(d->pos[6] & 0xfe)) /* bits that the SDM reserves */
		return size;
	if (!event_input_have(d, (size_t)size + 1))
		return PTAH_E_MORE;
	packet->type = PTAH_PACKET_PAD;
	return d->end - d->pos > size ? size + 1 : size;
}

int errata_packet(struct ptah_event_decoder *d, struct ptah_packet *packet, int size)
{
	if (packet->type == PTAH_PACKET_CYC && event_has_erratum(d, PTAH_ERRATUM_SKD007))
		return skd007(d, packet, size);
	if (packet->type == PTAH_PACKET_TMA && event_has_erratum(d, PTAH_ERRATUM_SKZ84))
		return skz84(d, packet, size);
	return size;
}
