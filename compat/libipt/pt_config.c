/* SPDX-License-Identifier: MIT */
/* Copies a caller's struct pt_config, whatever its size, and translates it for Ptah's decoders. */
#include "pt_config.h"

#include "pt_error.h"

#include <ptah/base.h>

#include <limits.h>
#include <stddef.h>

int config_copy(struct config *to, const struct pt_config *from)
{
	size_t known;

	if (!from)
		return -pte_invalid;
	if (from->size < offsetof(struct pt_config, decode))
		return -pte_bad_config;
	if (!from->begin || !from->end || from->end < from->begin)
		return -pte_bad_config;
	known = from->size < sizeof(to->user) ? from->size : sizeof(to->user);
	memset(to, 0, sizeof(*to));
	memcpy(&to->user, from, known);
	to->user.size = known;
	return 0;
}

int config_unknown(struct config *config, const uint8_t *pos, struct pt_packet_unknown *unknown)
{
	const struct pt_config *user = &config->user;
	int size;

	unknown->packet = pos;
	unknown->priv = NULL;
	if (!user->decode.callback)
		return -pte_bad_opc;
	size = user->decode.callback(unknown, user, pos, user->decode.context);
	if (size > UINT8_MAX)
		return -pte_invalid;
	if (size > 0 && size > user->end - pos)
		return -pte_eos;
	return size;
}

/* Ptah's callback for bytes that are no packet, which calls the caller's. */
static int64_t ask_about_unknown(void *context, const uint8_t *bytes, size_t n, uint64_t offset,
				 int status)
{
	struct pt_packet_unknown unknown;
	struct config *config = context;
	int size;

	(void)bytes;
	(void)n;
	/* The callback is not for packets that are known but malformed. */
	if (status != PTAH_E_BAD_OPCODE || offset > config_size(config))
		return 0;
	size = config_unknown(config, config->user.begin + offset, &unknown);
	if (size <= 0)
		config->callback_error = size ? size : -pte_bad_opc;
	return size;
}

static uint32_t errata_bits(const struct pt_errata *errata)
{
	return (uint32_t)errata->bdm70 << PTAH_ERRATUM_BDM70 |
	       (uint32_t)errata->bdm64 << PTAH_ERRATUM_BDM64 |
	       (uint32_t)errata->skd007 << PTAH_ERRATUM_SKD007 |
	       (uint32_t)errata->skd022 << PTAH_ERRATUM_SKD022 |
	       (uint32_t)errata->skd010 << PTAH_ERRATUM_SKD010 |
	       (uint32_t)errata->skl014 << PTAH_ERRATUM_SKL014 |
	       (uint32_t)errata->apl12 << PTAH_ERRATUM_APL12 |
	       (uint32_t)errata->apl11 << PTAH_ERRATUM_APL11 |
	       (uint32_t)errata->skl168 << PTAH_ERRATUM_SKL168 |
	       (uint32_t)errata->skz84 << PTAH_ERRATUM_SKZ84;
}

void config_to_events(struct ptah_event_config *events, struct config *config)
{
	const struct pt_config *user = &config->user;

	*events = (struct ptah_event_config){
	    .size = sizeof(*events),
	    .no_bdm70 = !user->errata.bdm70,
	    .trace.mtc_period = user->mtc_freq,
	    .nominal_ratio = user->nom_freq,
	    .tsc_n = user->cpuid_0x15_ebx,
	    .tsc_d = user->cpuid_0x15_eax,
	    .errata = errata_bits(&user->errata),
	    .unknown = ask_about_unknown,
	    .unknown_context = config,
	};
}

void config_to_flow(struct ptah_flow_config *flow, struct config *config)
{
	const struct pt_conf_addr_filter *filter = &config->user.addr_filter;
	const uint64_t borders[] = {filter->addr0_a, filter->addr0_b, filter->addr1_a,
				    filter->addr1_b, filter->addr2_a, filter->addr2_b,
				    filter->addr3_a, filter->addr3_b};

	*flow = (struct ptah_flow_config){.size = sizeof(*flow)};
	config_to_events(&flow->events, config);
	for (unsigned i = 0; i < PTAH_RANGES; i++) {
		uint8_t mode = filter->config.addr_cfg >> 4 * i & 0xf;

		/* Other values have no meaning in libipt. */
		if (mode != PTAH_RANGE_FILTER && mode != PTAH_RANGE_STOP)
			continue;
		flow->events.trace.ranges[i] =
		    (struct ptah_range){borders[2 * i], borders[2 * i + 1], mode};
	}
}

int config_error(const struct config *config, int status)
{
	if (status == PTAH_E_BAD_OPCODE && config->callback_error)
		return config->callback_error;
	return error_from_ptah(status);
}

int config_check_psb(const struct config *config, uint64_t offset)
{
	const size_t size = config_size(config);
	struct ptah_packet packet;
	const uint8_t *psb;

	if (offset > size || size - offset < 2)
		return -pte_eos;
	psb = config->user.begin + offset;
	if (psb[0] != 0x02 || psb[1] != 0x82)
		return -pte_nosync;
	if (size - offset < PSB_SIZE)
		return -pte_eos;
	return error_from_ptah(ptah_packet_decode(&packet, psb, size - (size_t)offset, 0));
}
