/* SPDX-License-Identifier: MIT */
/* The loops with libipt, called as its documentation says: synchronise, drain the events, next. */
#include "bench.h"

#include <intel-pt.h>

#include <stdio.h>

const char *bench_libipt_version(void)
{
	static char text[48];
	struct pt_version v = pt_library_version();

	snprintf(text, sizeof(text), "%u.%u.%u", v.major, v.minor, v.build);
	return text;
}

static struct pt_config configure(const struct bench_trace *trace, size_t size)
{
	struct pt_config config;

	pt_config_init(&config);
	config.begin = trace->bytes;
	config.end = trace->bytes + size;
	config.mtc_freq = trace->flow.events.trace.mtc_period;
	config.nom_freq = trace->flow.events.nominal_ratio;
	config.cpuid_0x15_eax = trace->flow.events.tsc_d;
	config.cpuid_0x15_ebx = trace->flow.events.tsc_n;
	return config;
}

/*
 * Adds sections through a section cache, as libipt's own tools do: without it
 * they are mapped and decoded many times.
 */
static struct pt_image_section_cache *fill_image(struct pt_image *image,
						 const struct bench_trace *trace)
{
	struct pt_image_section_cache *cache = pt_iscache_alloc(NULL);

	if (!cache)
		bench_die(trace->label, "libipt: no section cache");
	pt_iscache_set_limit(cache, UINT64_C(1) << 30);
	for (size_t i = 0; i < trace->section_count; i++) {
		const struct bench_section *s = &trace->sections[i];
		int isid = pt_iscache_add_file(cache, s->path, s->offset, s->size, s->address);
		struct pt_asid space;

		pt_asid_init(&space);
		space.cr3 = s->cr3; /* both libraries have all ones for any */
		if (isid < 0 || pt_image_add_cached(image, cache, isid, &space) < 0)
			bench_die(s->path, "libipt cannot add it to its image");
	}
	return cache;
}

/* In the form of Ptah's records. */
static uint64_t payload_of(const struct pt_packet *packet)
{
	switch (packet->type) {
	case ppt_tnt_8:
	case ppt_tnt_64:
		return packet->payload.tnt.payload;
	case ppt_tip:
	case ppt_tip_pge:
	case ppt_tip_pgd:
	case ppt_fup:
		return packet->payload.ip.ip;
	case ppt_cyc:
		return packet->payload.cyc.value;
	case ppt_mtc:
		return packet->payload.mtc.ctc;
	case ppt_tsc:
		return packet->payload.tsc.tsc;
	case ppt_tma:
		return packet->payload.tma.ctc | (uint64_t)packet->payload.tma.fc << 16;
	case ppt_cbr:
		return packet->payload.cbr.ratio;
	case ppt_pip:
		return packet->payload.pip.cr3;
	case ppt_vmcs:
		return packet->payload.vmcs.base;
	case ppt_ptw:
		return packet->payload.ptw.payload;
	case ppt_mode:
		if (packet->payload.mode.leaf != pt_mol_tsx)
			return 0;
		return packet->payload.mode.bits.tsx.intx |
		       (uint64_t)packet->payload.mode.bits.tsx.abrt << 1;
	default:
		return 0;
	}
}

struct bench_result bench_libipt_packets(const struct bench_trace *trace, size_t size)
{
	struct pt_config config = configure(trace, size);
	struct pt_packet_decoder *decoder = pt_pkt_alloc_decoder(&config);
	struct bench_result result = {0};
	struct pt_packet packet;

	if (!decoder)
		bench_die(trace->label, "libipt: no packet decoder");
	while (pt_pkt_sync_forward(decoder) >= 0) {
		int status;

		while ((status = pt_pkt_next(decoder, &packet, sizeof(packet))) >= 0) {
			result.count++;
			result.sum += packet.size + payload_of(&packet);
		}
		if (status == -pte_eos)
			break;
		result.errors++;
	}
	pt_pkt_free_decoder(decoder);
	return result;
}

bool bench_libipt_find_psb(const struct bench_trace *trace)
{
	struct pt_config config = configure(trace, trace->size);
	struct pt_packet_decoder *decoder = pt_pkt_alloc_decoder(&config);
	bool found;

	if (!decoder)
		bench_die(trace->label, "libipt: no packet decoder");
	found = pt_pkt_sync_forward(decoder) >= 0;
	pt_pkt_free_decoder(decoder);
	return found;
}

static int drain_block_events(struct pt_block_decoder *decoder, int status)
{
	struct pt_event event;

	while (status >= 0 && (status & pts_event_pending))
		status = pt_blk_event(decoder, &event, sizeof(event));
	return status;
}

/* Decodes from a synchronised position. */
static struct bench_result count_blocks(struct pt_block_decoder *decoder, int status)
{
	struct bench_result result = {0};
	struct pt_block block;

	while (status >= 0) {
		do {
			status = drain_block_events(decoder, status);
			if (status < 0)
				break;
			block.ninsn = 0;
			status = pt_blk_next(decoder, &block, sizeof(block));
			result.count += block.ninsn;
		} while (status >= 0);
		if (status == -pte_eos)
			break;
		result.errors++;
		status = pt_blk_sync_forward(decoder);
	}
	return result;
}

/* libipt keeps decoded blocks in the sections of its cache. */
static struct {
	struct pt_block_decoder *decoder;
	struct pt_image_section_cache *cache;
	uint64_t first_psb;
} warm;

static void open_blocks(const struct bench_trace *trace, size_t size)
{
	struct pt_config config = configure(trace, size);

	warm.decoder = pt_blk_alloc_decoder(&config);
	if (!warm.decoder)
		bench_die(trace->label, "libipt: no block decoder");
	warm.cache = fill_image(pt_blk_get_image(warm.decoder), trace);
}

void bench_libipt_cool(void)
{
	pt_blk_free_decoder(warm.decoder);
	pt_iscache_free(warm.cache);
	warm.decoder = NULL;
	warm.cache = NULL;
}

struct bench_result bench_libipt_blocks(const struct bench_trace *trace, size_t size)
{
	struct bench_result result;

	open_blocks(trace, size);
	result = count_blocks(warm.decoder, pt_blk_sync_forward(warm.decoder));
	bench_libipt_cool();
	return result;
}

struct bench_result bench_libipt_blocks_warm(const struct bench_trace *trace, size_t size)
{
	if (!warm.decoder) {
		int status;

		open_blocks(trace, size);
		status = pt_blk_sync_forward(warm.decoder);
		pt_blk_get_sync_offset(warm.decoder, &warm.first_psb);
		count_blocks(warm.decoder, status);
	}
	return count_blocks(warm.decoder, pt_blk_sync_set(warm.decoder, warm.first_psb));
}

static int drain_insn_events(struct pt_insn_decoder *decoder, int status)
{
	struct pt_event event;

	while (status >= 0 && (status & pts_event_pending))
		status = pt_insn_event(decoder, &event, sizeof(event));
	return status;
}

unsigned bench_libipt_class(unsigned insn_class)
{
	static const uint8_t classes[PTAH_INSN_CLASS_MAX] = {
	    [PTAH_INSN_OTHER] = ptic_other,
	    [PTAH_INSN_COND] = ptic_cond_jump,
	    [PTAH_INSN_JUMP] = ptic_jump,
	    [PTAH_INSN_CALL] = ptic_call,
	    [PTAH_INSN_JUMP_IND] = ptic_jump,
	    [PTAH_INSN_CALL_IND] = ptic_call,
	    [PTAH_INSN_RETURN] = ptic_return,
	    [PTAH_INSN_FAR_CALL] = ptic_far_call,
	    [PTAH_INSN_FAR_RETURN] = ptic_far_return,
	    [PTAH_INSN_FAR_JUMP] = ptic_far_jump,
	    [PTAH_INSN_PTWRITE] = ptic_ptwrite,
	};

	return classes[insn_class];
}

struct bench_result bench_libipt_insns(const struct bench_trace *trace, size_t size)
{
	struct pt_config config = configure(trace, size);
	struct pt_insn_decoder *decoder = pt_insn_alloc_decoder(&config);
	struct bench_result result = {0};
	struct pt_image_section_cache *cache;
	struct pt_insn insn;
	int status;

	if (!decoder)
		bench_die(trace->label, "libipt: no instruction decoder");
	cache = fill_image(pt_insn_get_image(decoder), trace);
	while ((status = pt_insn_sync_forward(decoder)) >= 0) {
		do {
			status = drain_insn_events(decoder, status);
			if (status < 0)
				break;
			insn.iclass = ptic_error;
			status = pt_insn_next(decoder, &insn, sizeof(insn));
			/* As in libipt's own tools: an instruction may come with an error. */
			if (insn.iclass == ptic_error)
				continue;
			result.count++;
			result.sum = bench_add_insn(result.sum, insn.ip, insn.size);
			result.hash =
			    bench_hash_insn(result.hash, insn.ip, insn.size, (unsigned)insn.iclass);
		} while (status >= 0);
		if (status == -pte_eos)
			break;
		result.errors++;
	}
	pt_insn_free_decoder(decoder);
	pt_iscache_free(cache);
	return result;
}
