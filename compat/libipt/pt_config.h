/* SPDX-License-Identifier: MIT */
/*
 * A decoder's configuration: a copy of the caller's struct, whatever its size, and what Ptah's
 * decoders need of it.
 */
#ifndef PTAH_LIBIPT_PT_CONFIG_H
#define PTAH_LIBIPT_PT_CONFIG_H

#include <ptah/event.h>
#include <ptah/flow.h>

#include <intel-pt.h>

/* The size of a PSB in bytes. */
#define PSB_SIZE 16

/*
 * What a decoder keeps: a copy of the configuration, with 0 where the caller's struct was too
 * small, and the error that its callback returned last.
 */
struct config {
	struct pt_config user;
	int callback_error; /* negative enum pt_error_code; 0: none */
};

/* -pte_invalid and -pte_bad_config, as the documentation of pt_config has it. */
int config_copy(struct config *to, const struct pt_config *from);

/*
 * Calls the caller's callback for the unknown packet at `pos`. Returns its size (which may be 0), a
 * negative error code, or -pte_bad_opc without a callback.
 */
int config_unknown(struct config *config, const uint8_t *pos, struct pt_packet_unknown *unknown);

/*
 * `config` must live as long as the decoder, whose callback uses it. Flags are left out: each kind
 * of decoder has its own.
 */
void config_to_events(struct ptah_event_config *events, struct config *config);

/* The configuration of a flow: that of events, and the address filter. */
void config_to_flow(struct ptah_flow_config *flow, struct config *config);

/*
 * libipt's code for an error item's status; for bytes that are no packet, what the callback
 * returned.
 */
int config_error(const struct config *config, int status);

/* 0 if a PSB is at `offset`, otherwise the error; -pte_eos where there is no room for one. */
int config_check_psb(const struct config *config, uint64_t offset);

static inline size_t config_size(const struct config *config)
{
	return (size_t)(config->user.end - config->user.begin);
}

#endif
