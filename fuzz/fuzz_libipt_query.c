/* SPDX-License-Identifier: MIT */
/*
 * Proves of libipt.so.2's query and event decoders, for any bytes and any
 * calls: no crash, no read outside of the trace, positions inside of it; and a
 * caller that makes the calls which the status announces reaches the end.
 *
 * Input: a byte of configuration, a byte that seeds the calls, the trace.
 */
#include "fuzz.h"

#include <intel-pt.h>

/* No packet leads to more results than this. */
#define ANSWERS_PER_BYTE 80

static int unknown(struct pt_packet_unknown *packet, const struct pt_config *config,
		   const uint8_t *pos, void *context)
{
	(void)packet;
	(void)context;
	CHECK(pos >= config->begin && pos < config->end);
	return *pos & 7; /* 0: an error */
}

static void set_config(struct pt_config *config, uint8_t *trace, size_t size, unsigned bits)
{
	pt_config_init(config);
	config->begin = trace;
	config->end = trace + size;
	config->flags.variant.query.enable_iflags_events = bits >> 1 & 1;
	config->decode.callback = bits & 2 ? unknown : NULL;
	if (bits & 4)
		memset(&config->errata, 0xff, sizeof(config->errata));
	if (bits & 8) {
		config->mtc_freq = 3;
		config->nom_freq = 20;
		config->cpuid_0x15_eax = 2;
		config->cpuid_0x15_ebx = 168;
	}
}

static int ask(struct pt_query_decoder *q, unsigned which, uint64_t offset, size_t size)
{
	struct pt_event event;
	uint32_t mtc, cyc;
	uint64_t value = 0;
	int taken, status;

	switch (which) {
	case 0:
		return pt_qry_event(q, &event, sizeof(event));
	case 1:
		return pt_qry_cond_branch(q, &taken);
	case 2:
		return pt_qry_indirect_branch(q, &value);
	case 3:
		return pt_qry_sync_forward(q, &value);
	case 4:
		return pt_qry_sync_backward(q, NULL);
	case 5:
		return pt_qry_sync_set(q, &value, offset);
	case 6:
		status = pt_qry_get_offset(q, &value);
		CHECK(status < 0 || value <= size);
		return status;
	case 7:
		status = pt_qry_get_sync_offset(q, &value);
		CHECK(status < 0 || value < size);
		return status;
	case 8:
		return pt_qry_time(q, &value, &mtc, &cyc);
	default:
		return pt_qry_core_bus_ratio(q, &cyc);
	}
}

/* Makes the calls that the status announces, up to an error; then synchronises at the next PSB. */
static void ask_all(struct pt_query_decoder *q, size_t size)
{
	uint64_t ip;
	size_t n = 0;
	int status;

	while ((status = pt_qry_sync_forward(q, &ip)) != -pte_eos)
		for (;; n++) {
			CHECK(n <= ANSWERS_PER_BYTE * (size + 1));
			if (status < 0 || status & pts_eos)
				break;
			if (status & pts_event_pending) {
				status = ask(q, 0, 0, size);
				continue;
			}
			status = ask(q, 1, 0, size);
			if (status == -pte_bad_query)
				status = ask(q, 2, 0, size);
		}
}

static void ask_events(struct pt_event_decoder *d, size_t size)
{
	struct pt_event event;
	uint64_t offset;
	size_t n = 0;

	while (pt_evt_sync_forward(d) != -pte_eos) {
		while (!pt_evt_next(d, &event, sizeof(event)))
			CHECK(n++ <= ANSWERS_PER_BYTE * (size + 1));
		CHECK(!pt_evt_get_offset(d, &offset) && offset <= size);
		CHECK(!pt_evt_get_sync_offset(d, &offset) && offset < size);
	}
	(void)pt_evt_sync_backward(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pt_query_decoder *q;
	struct pt_event_decoder *d;
	struct pt_config config;
	uint8_t *trace;
	uint64_t seed;

	if (size < 2)
		return 0;
	seed = data[1];
	trace = fuzz_copy(data + 2, size - 2);
	set_config(&config, trace, size - 2, data[0]);
	q = pt_qry_alloc_decoder(&config);
	d = pt_evt_alloc_decoder(&config);
	CHECK(q && d);
	for (unsigned i = 0; i < 200; i++)
		(void)ask(q, fuzz_random(&seed) % 10, fuzz_random(&seed) % size, size - 2);
	pt_qry_free_decoder(q);
	q = pt_qry_alloc_decoder(&config);
	CHECK(q);
	ask_all(q, size - 2);
	ask_events(d, size - 2);
	pt_evt_free_decoder(d);
	pt_qry_free_decoder(q);
	free(trace);
	return 0;
}
