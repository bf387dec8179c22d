/* SPDX-License-Identifier: MIT */
/*
 * Proves of libipt.so.2's instruction and block decoders, images and section
 * caches, for any trace, any code, any calls and any behaviour of callbacks: no
 * crash, no read outside of the trace, every call returns; the bytes of
 * reported instructions are those of the image; and a caller that makes the
 * calls which the status announces reaches the end, also one that resynchronises
 * after each error.
 *
 * Input: a byte of configuration, a byte that seeds the calls, a byte with the
 * code's size, the code, the trace.
 */
#include "fuzz.h"

#include <intel-pt.h>

#include <sys/mman.h>
#include <unistd.h>

#define BASE  UINT64_C(0x401000)
#define CALLS 300

/* The bound on results: some for each byte of the trace and each byte of the code. */
#define ANSWERS_PER_BYTE 80

/* The bound on resynchronisations: each passes an error, and no packet has more than two. */
#define RESYNCS_PER_BYTE 4

/* The input of both decoders. All sections have the same bytes at an address: those of `code`. */
struct world {
	struct pt_insn_decoder *insn;
	struct pt_block_decoder *block;
	struct pt_image *images[2];
	struct pt_image_section_cache *cache;
	const char *path; /* of the code */
	const uint8_t *code;
	size_t code_size, size;
	uint64_t seed;
	bool lies; /* the callback returns other bytes than the code's */
	unsigned manner;
	unsigned depth; /* of callbacks that change the image they are called for */
};

/* The byte at an address: every source of code that does not lie returns it. */
static int code_at(const struct world *w, uint64_t address)
{
	return address - BASE < w->code_size ? w->code[address - BASE] : -1;
}

static void change_image(struct world *w, struct pt_image *image);

static int read_memory(uint8_t *buffer, size_t size, const struct pt_asid *asid, uint64_t ip,
		       void *context)
{
	struct world *w = context;
	size_t n = 0;

	CHECK(size && asid->size == sizeof(*asid));
	switch (w->manner) {
	case 0:
		return -pte_nomap;
	case 1: /* any status */
		return -(int)(fuzz_random(&w->seed) % 40);
	case 2: /* fails now and then */
		if (fuzz_random(&w->seed) & 1)
			return -pte_bad_image;
		break;
	case 3: /* lies: random bytes of the code, and random sizes */
		w->lies = true;
		for (n = 0; n < size; n++)
			buffer[n] =
			    w->code_size ? w->code[fuzz_random(&w->seed) % w->code_size] : 0x90;
		return fuzz_random(&w->seed) & 1 ? (int)(fuzz_random(&w->seed) % (size + 1))
						 : INT32_MAX;
	case 4: /* changes the image meanwhile */
		if (w->depth++ < 4)
			change_image(w, w->images[fuzz_random(&w->seed) & 1]);
		break;
	case 5: /* one byte at a time */
		size = 1;
		break;
	default:
		break;
	}
	for (; n < size && code_at(w, ip + n) >= 0; n++)
		buffer[n] = (uint8_t)code_at(w, ip + n);
	return n ? (int)n : -pte_nomap;
}

/* Adds, removes, or sets the callback. */
static void change_image(struct world *w, struct pt_image *image)
{
	struct pt_asid asid;
	uint64_t offset = fuzz_random(&w->seed) % (w->code_size + 2);
	uint64_t size = fuzz_random(&w->seed) % (w->code_size + 2);
	int isid;

	pt_asid_init(&asid);
	if (fuzz_random(&w->seed) & 1)
		asid.cr3 = 0x1000 * (fuzz_random(&w->seed) % 3);
	switch (fuzz_random(&w->seed) % 8) {
	case 0:
	case 1:
		(void)pt_image_add_file(image, w->path, offset, size, &asid, BASE + offset);
		break;
	case 2:
	case 3:
		isid = pt_iscache_add_file(w->cache, w->path, offset, size, BASE + offset);
		(void)pt_image_add_cached(image, w->cache, isid, &asid);
		break;
	case 4:
		(void)pt_image_remove_by_filename(image, w->path, &asid);
		break;
	case 5:
		(void)pt_image_remove_by_asid(image, &asid);
		break;
	case 6:
		(void)pt_image_copy(image, w->images[fuzz_random(&w->seed) & 1]);
		break;
	default:
		if (w->depth) /* not from inside of the callback */
			break;
		w->manner = fuzz_random(&w->seed) % 7;
		(void)pt_image_set_callback(image, w->seed & 1 ? read_memory : NULL, w);
		break;
	}
}

static void change(struct world *w)
{
	uint8_t bytes[64];
	uint64_t at = BASE + fuzz_random(&w->seed) % (w->code_size + 2);
	unsigned i = fuzz_random(&w->seed) & 1;
	int n;

	w->depth = 0;
	switch (fuzz_random(&w->seed) % 8) {
	case 0:
		(void)pt_insn_set_image(w->insn, i ? w->images[w->seed & 1] : NULL);
		break;
	case 1:
		(void)pt_blk_set_image(w->block, i ? w->images[w->seed & 1] : NULL);
		break;
	case 2:
		(void)pt_iscache_set_limit(w->cache, fuzz_random(&w->seed) % 300);
		break;
	case 3:
		n = pt_iscache_read(w->cache, bytes, 1 + fuzz_random(&w->seed) % sizeof(bytes),
				    (int)(fuzz_random(&w->seed) % 5) - 1, at);
		for (int k = 0; k < n; k++)
			CHECK(bytes[k] == code_at(w, at + (unsigned)k));
		break;
	case 4: /* freed while in use */
		if (fuzz_random(&w->seed) % 8)
			break;
		pt_image_free(w->images[i]);
		w->images[i] = pt_image_alloc(NULL);
		CHECK(w->images[i]);
		break;
	default:
		change_image(w, w->images[i]);
		break;
	}
}

static void check_insn(const struct world *w, const struct pt_insn *insn)
{
	CHECK(insn->size > 0 && insn->size <= pt_max_insn_size);
	CHECK(insn->iclass <= ptic_indirect);
	for (unsigned i = 0; i < insn->size && !w->lies; i++)
		CHECK(insn->raw[i] == code_at(w, insn->ip + i));
}

/* Without a callback that lies, instructions are those of the code. */
static void check_block(const struct world *w, const struct pt_block *block, int status)
{
	CHECK(block->ninsn || status & pts_event_pending);
	if (!block->ninsn || w->lies)
		return;
	CHECK(block->isid >= 0);
	CHECK(code_at(w, block->ip) >= 0 && code_at(w, block->end_ip) >= 0);
	for (unsigned i = 0; block->truncated && i < block->size; i++)
		CHECK(block->raw[i] == code_at(w, block->end_ip + i));
}

static int next_insn(struct world *w)
{
	struct pt_insn insn;
	int status;

	w->depth = 0;
	memset(&insn, 0xcc, sizeof(insn));
	status = pt_insn_next(w->insn, &insn, sizeof(insn));
	if (status >= 0)
		check_insn(w, &insn);
	return status;
}

static int next_block(struct world *w)
{
	struct pt_block block;
	int status;

	w->depth = 0;
	memset(&block, 0xcc, sizeof(block));
	status = pt_blk_next(w->block, &block, sizeof(block));
	if (status >= 0)
		check_block(w, &block, status);
	return status;
}

static void ask_insn(struct world *w)
{
	struct pt_event event;
	struct pt_asid asid;
	uint64_t value = fuzz_random(&w->seed) % (w->size + 2);
	uint8_t part[sizeof(struct pt_insn)];
	uint32_t ratio, lost;

	w->depth = 0;
	switch (fuzz_random(&w->seed) % 16) {
	case 0:
		(void)pt_insn_sync_forward(w->insn);
		break;
	case 1:
		(void)pt_insn_sync_backward(w->insn);
		break;
	case 2:
		(void)pt_insn_sync_set(w->insn, value);
		break;
	case 3:
		(void)pt_insn_resync(w->insn);
		break;
	case 4:
		CHECK(pt_insn_get_offset(w->insn, &value) < 0 || value <= w->size);
		break;
	case 5:
		CHECK(pt_insn_get_sync_offset(w->insn, &value) < 0 || value < w->size);
		break;
	case 6:
		(void)pt_insn_time(w->insn, &value, &lost, &lost);
		(void)pt_insn_core_bus_ratio(w->insn, &ratio);
		(void)pt_insn_asid(w->insn, &asid, sizeof(asid));
		break;
	case 7:
		(void)pt_insn_next(w->insn, (struct pt_insn *)(void *)part, value % sizeof(part));
		break;
	case 8:
	case 9:
		(void)pt_insn_event(w->insn, &event, sizeof(event));
		break;
	default:
		(void)next_insn(w);
		break;
	}
}

static void ask_block(struct world *w)
{
	struct pt_event event;
	struct pt_asid asid;
	uint64_t value = fuzz_random(&w->seed) % (w->size + 2);
	uint8_t part[sizeof(struct pt_block)];
	uint32_t ratio, lost;

	w->depth = 0;
	switch (fuzz_random(&w->seed) % 16) {
	case 0:
		(void)pt_blk_sync_forward(w->block);
		break;
	case 1:
		(void)pt_blk_sync_backward(w->block);
		break;
	case 2:
		(void)pt_blk_sync_set(w->block, value);
		break;
	case 3:
		(void)pt_blk_resync(w->block);
		break;
	case 4:
		CHECK(pt_blk_get_offset(w->block, &value) < 0 || value <= w->size);
		break;
	case 5:
		CHECK(pt_blk_get_sync_offset(w->block, &value) < 0 || value < w->size);
		break;
	case 6:
		(void)pt_blk_time(w->block, &value, &lost, &lost);
		(void)pt_blk_core_bus_ratio(w->block, &ratio);
		(void)pt_blk_asid(w->block, &asid, sizeof(asid));
		break;
	case 7:
		(void)pt_blk_next(w->block, (struct pt_block *)(void *)part, value % sizeof(part));
		break;
	case 8:
	case 9:
		(void)pt_blk_event(w->block, &event, sizeof(event));
		break;
	default:
		(void)next_block(w);
		break;
	}
}

/*
 * As tools do: makes the calls that the status announces, up to an error; then resynchronises, if
 * asked to and as long as that succeeds, or synchronises at the next PSB.
 */
static void run_insns(struct world *w, bool resync)
{
	size_t n = 0, most = (w->size + 1) * (w->code_size + 2) * ANSWERS_PER_BYTE;
	size_t resyncs = 0, most_resyncs = (w->size + 1) * RESYNCS_PER_BYTE;
	struct pt_event event;
	int status;

	w->depth = 0;
	while ((status = pt_insn_sync_forward(w->insn)) != -pte_eos)
		while (status >= 0 && !(status & pts_eos && !(status & pts_event_pending))) {
			CHECK(n++ <= most);
			if (status & pts_event_pending)
				status = pt_insn_event(w->insn, &event, sizeof(event));
			else
				status = next_insn(w);
			if (status < 0 && resync) {
				CHECK(resyncs++ <= most_resyncs);
				status = pt_insn_resync(w->insn);
			}
		}
}

static void run_blocks(struct world *w, bool resync)
{
	size_t n = 0, most = (w->size + 1) * (w->code_size + 2) * ANSWERS_PER_BYTE;
	size_t resyncs = 0, most_resyncs = (w->size + 1) * RESYNCS_PER_BYTE;
	struct pt_event event;
	int status;

	w->depth = 0;
	while ((status = pt_blk_sync_forward(w->block)) != -pte_eos)
		while (status >= 0 && !(status & pts_eos && !(status & pts_event_pending))) {
			CHECK(n++ <= most);
			if (status & pts_event_pending)
				status = pt_blk_event(w->block, &event, sizeof(event));
			else
				status = next_block(w);
			if (status < 0 && resync) {
				CHECK(resyncs++ <= most_resyncs);
				status = pt_blk_resync(w->block);
			}
		}
}

/* Synchronises backward from its position, PSB by PSB. */
static void run_back(struct world *w)
{
	const size_t most = w->size / 16 + 2;
	size_t n;

	for (n = 0; pt_insn_sync_backward(w->insn) != -pte_eos; n++)
		CHECK(n <= most);
	for (n = 0; pt_blk_sync_backward(w->block) != -pte_eos; n++)
		CHECK(n <= most);
}

static void set_config(struct pt_config *config, uint8_t *trace, size_t size, unsigned bits)
{
	pt_config_init(config);
	config->begin = trace;
	config->end = trace + size;
	config->flags.variant.block.end_on_call = bits & 1;
	config->flags.variant.block.end_on_jump = bits >> 1 & 1;
	config->flags.variant.block.enable_tick_events = bits >> 2 & 1;
	config->flags.variant.block.enable_iflags_events = bits >> 3 & 1;
	if (bits & 16)
		memset(&config->errata, 0xff, sizeof(config->errata));
	if (bits & 32) {
		config->mtc_freq = 3;
		config->nom_freq = 20;
		config->cpuid_0x15_eax = 2;
		config->cpuid_0x15_ebx = 168;
	}
	if (bits & 64) {
		config->addr_filter.config.ctl.addr0_cfg = PTAH_RANGE_FILTER;
		config->addr_filter.addr0_a = BASE;
		config->addr_filter.addr0_b = BASE + 31;
	}
}

/* Writes the code to a file and returns its name. */
static const char *put_code(const uint8_t *code, size_t size)
{
	static char path[32];
	static int fd = -1;

	if (fd < 0) {
		fd = memfd_create("code", 0);
		CHECK(fd >= 0);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	CHECK(!ftruncate(fd, (off_t)size) && pwrite(fd, code, size, 0) == (ssize_t)size);
	return path;
}

static void make_decoders(struct world *w, const struct pt_config *config)
{
	struct pt_config other = *config;

	/* The same bits, by the names of a variant. */
	other.flags.variant.insn.enable_tick_events =
	    config->flags.variant.block.enable_tick_events;
	w->insn = pt_insn_alloc_decoder(&other);
	w->block = pt_blk_alloc_decoder(config);
	CHECK(w->insn && w->block);
}

static void free_decoders(struct world *w)
{
	pt_insn_free_decoder(w->insn);
	pt_blk_free_decoder(w->block);
}

static void make_world(struct world *w)
{
	w->cache = pt_iscache_alloc("cache");
	w->images[0] = pt_image_alloc("one");
	w->images[1] = pt_image_alloc(NULL);
	CHECK(w->cache && w->images[0] && w->images[1]);
}

static void free_world(struct world *w)
{
	/* Calls in any order. */
	if (w->seed & 1)
		pt_iscache_free(w->cache);
	if (w->seed & 2)
		pt_image_free(w->images[0]);
	pt_insn_free_decoder(w->insn);
	if (!(w->seed & 2))
		pt_image_free(w->images[0]);
	pt_blk_free_decoder(w->block);
	pt_image_free(w->images[1]);
	if (!(w->seed & 1))
		pt_iscache_free(w->cache);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pt_config config;
	struct world w = {0};
	uint8_t *trace;

	if (size < 3)
		return 0;
	w.seed = data[1] | 0x100;
	w.manner = 6;
	w.code_size = data[2] < size - 3 ? data[2] : size - 3;
	w.code = data + 3;
	w.size = size - 3 - w.code_size;
	w.path = put_code(w.code, w.code_size);
	trace = fuzz_copy(w.code + w.code_size, w.size);
	set_config(&config, trace, w.size, data[0]);
	make_world(&w);
	(void)pt_image_add_file(w.images[0], w.path, 0, UINT64_MAX, NULL, BASE);
	(void)pt_image_set_callback(w.images[1], read_memory, &w);
	for (unsigned resync = 0; resync < 2; resync++) {
		make_decoders(&w, &config);
		(void)pt_insn_set_image(w.insn, w.images[data[0] >> 7]);
		(void)pt_blk_set_image(w.block, w.images[data[0] >> 7]);
		run_insns(&w, resync);
		run_blocks(&w, resync);
		if (!resync)
			free_decoders(&w);
	}
	(void)pt_insn_sync_set(w.insn, 0);
	(void)pt_blk_sync_set(w.block, 0);
	for (unsigned i = 0; i < CALLS; i++) {
		if (!(fuzz_random(&w.seed) % 8))
			change(&w);
		ask_insn(&w);
		ask_block(&w);
	}
	run_back(&w);
	if (w.lies || w.manner < 6) { /* from here on honest, as at the start */
		w.manner = 6;
		w.lies = false;
		for (unsigned i = 0; i < 2; i++)
			(void)pt_image_set_callback(w.images[i], NULL, NULL);
		(void)pt_insn_set_image(w.insn, w.images[0]);
		(void)pt_blk_set_image(w.block, w.images[1]);
	}
	run_insns(&w, false);
	run_blocks(&w, false);
	free_world(&w);
	free(trace);
	return 0;
}
