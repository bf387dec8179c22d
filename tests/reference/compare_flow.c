/* SPDX-License-Identifier: MIT */
/*
 * Runs the library's flow and writes down what it reports in the reference
 * decoder's form, so that the two can be compared entry by entry.
 */
#include "compare_flow.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The most instructions in a block. */
#define BLOCK_MAX 256

static void add(struct reference *out, struct ptah_item item)
{
	if (out->limit && out->count == out->limit) {
		out->cut = true;
		return;
	}
	if (out->count == out->capacity) {
		out->capacity = out->capacity ? 2 * out->capacity : 1024;
		out->items = realloc(out->items, out->capacity * sizeof(*out->items));
		if (!out->items)
			abort();
	}
	item.tsc = 0;
	item.tsc_error = 0;
	if (item.type == PTAH_ITEM_ERROR)
		item.code.space = 0; /* the reference does not number spaces */
	out->items[out->count++] = item;
}

static void add_block(struct reference *out, const struct ptah_flow *flow,
		      const struct ptah_item *block)
{
	struct ptah_insn insns[BLOCK_MAX];
	int n = ptah_flow_insns(flow, block, insns, BLOCK_MAX);

	if (n != block->ninsn)
		abort();
	for (int i = 0; i < n; i++) {
		struct ptah_item item = *block;

		item.value = 0; /* section and space, which the reference does not have */
		item.ninsn = 1;
		item.flags &=
		    PTAH_ITEM_SPECULATIVE | (i == n - 1 ? PTAH_ITEM_TAKEN | PTAH_ITEM_UNKNOWN : 0);
		item.insn_class = insns[i].insn_class;
		item.mode = insns[i].mode;
		item.last_size = insns[i].size;
		item.ip = insns[i].ip;
		item.end = insns[i].ip + insns[i].size;
		add(out, item);
	}
}

static void read_all(struct ptah_flow *flow, struct reference *out)
{
	struct ptah_item items[64];
	int n;

	while (!out->cut && (n = ptah_flow_read(flow, items, 64)) > 0) {
		for (int i = 0; i < n; i++) {
			if (items[i].type == PTAH_ITEM_BLOCK)
				add_block(out, flow, &items[i]);
			else
				add(out, items[i]);
		}
	}
}

void flow_decode(const uint8_t *trace, size_t size, size_t chunk, const struct ptah_image *image,
		 const struct reference_config *config, struct reference *result)
{
	struct ptah_flow_config flow_config = {.size = sizeof(flow_config)};
	struct ptah_flow *flow;
	size_t at = 0;
	bool last;

	flow_config.resync = config->resync;
	flow_config.events.size = sizeof(flow_config.events);
	flow_config.events.no_bdm70 = config->no_bdm70;
	flow_config.events.trace.event_trace = config->iflags;
	flow_config.events.no_iflags = !config->iflags;
	memcpy(flow_config.events.trace.ranges, config->ranges,
	       sizeof(flow_config.events.trace.ranges));
	*result = (struct reference){.limit = config->limit};
	if (ptah_flow_new(image, &flow_config, &flow))
		abort();
	do {
		size_t n = chunk && size - at > chunk ? chunk : size - at;
		uint8_t *bytes = malloc(n ? n : 1);

		if (!bytes)
			abort();
		if (n)
			memcpy(bytes, trace + at, n);
		at += n;
		last = at == size;
		if (ptah_flow_feed(flow, bytes, n, last))
			abort();
		read_all(flow, result);
		free(bytes);
	} while (!last && !result->cut);
	ptah_flow_free(flow);
}

size_t read_image(void *context, const struct ptah_space *space, uint64_t address, void *bytes,
		  size_t n)
{
	return ptah_image_read(context, address, bytes, n, space);
}

static void print(const char *who, const struct reference *r, size_t i)
{
	const struct ptah_item *item = &r->items[i];

	if (i >= r->count) {
		fprintf(stderr, "%s: the end%s\n", who, r->cut ? " (cut)" : "");
		return;
	}
	fprintf(stderr,
		"%s: %s offset %#" PRIx64 " ip %#" PRIx64 " to %#" PRIx64 " value %#" PRIx64
		" flags %#x mode %u class %u count %d size %u\n",
		who, ptah_item_name(item->type), item->offset, item->ip, item->to, item->value,
		item->flags, item->mode, item->insn_class, item->status, item->last_size);
}

bool same_answer(const struct reference *flow, const struct reference *reference)
{
	size_t n = flow->count < reference->count ? flow->count : reference->count;
	size_t i = 0;

	while (i < n && !memcmp(&flow->items[i], &reference->items[i], sizeof(*flow->items)))
		i++;
	if (i == n &&
	    ((flow->cut || i == flow->count) && (reference->cut || i == reference->count)))
		return true;
	fprintf(stderr, "difference at %zu:\n", i);
	for (size_t k = i < 3 ? 0 : i - 3; k < i; k++)
		print("both", flow, k);
	for (size_t k = i; k < i + 3; k++)
		print("flow", flow, k);
	for (size_t k = i; k < i + 3; k++)
		print("reference", reference, k);
	return false;
}
