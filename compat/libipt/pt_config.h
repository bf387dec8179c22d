/* SPDX-License-Identifier: MIT */
/* A decoder's configuration: the caller's struct, whatever its size, and what Ptah needs of it. */
#ifndef PTAH_LIBIPT_PT_CONFIG_H
#define PTAH_LIBIPT_PT_CONFIG_H

#include <ptah/event.h>
#include <ptah/flow.h>

#include <intel-pt.h>

/* Bytes of a PSB. */
#define PSB_SIZE 16

/*
 * What a decoder keeps: a copy of the configuration, with what the caller's
 * struct was too small for set to 0, and what its callback last failed with.
 */
struct config {
	struct pt_config user;
	int callback_error; /* negative enum pt_error_code; 0: none */
};

/* -pte_invalid, -pte_bad_config as pt_config's documentation says. */
int config_copy(struct config *to, const struct pt_config *from);

/*
 * What the caller's callback says of the packet at `pos`, which is in no table:
 * its size, 0 included, or a negative error code, -pte_bad_opc without one.
 */
int config_unknown(struct config *config, const uint8_t *pos, struct pt_packet_unknown *unknown);

/*
 * `config` must live as long as the decoder, which calls back with it. What
 * the flags ask for is left out: which ones there are is the decoder's matter.
 */
void config_to_events(struct ptah_event_config *events, struct config *config);

/* For flows: events, and the address filter. */
void config_to_flow(struct ptah_flow_config *flow, struct config *config);

/* What an error item's status is to libipt: of bytes that are no packet what the callback said. */
int config_error(const struct config *config, int status);

/* 0: a PSB is at `offset`; otherwise why none is, -pte_eos where there is no room for one. */
int config_check_psb(const struct config *config, uint64_t offset);

static inline size_t config_size(const struct config *config)
{
	return (size_t)(config->user.end - config->user.begin);
}

#endif
