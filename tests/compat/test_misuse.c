/* SPDX-License-Identifier: MIT */
/*
 * What no program should do: wrong arguments and their documented error codes, structs of all
 * sizes, callbacks that return anything, traces of a few bytes. Debian's library must return the
 * same, unless it lacks the function.
 */
#include "test.h"

#include "judged.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

#define BASE UINT64_C(0x401000)

static char path[64];

/* 401000: jnz 401000; 401002: jmp rax; 401004: ud2 */
static const uint8_t code[] = {0x75, 0xfe, 0xff, 0xe0, 0x0f, 0x0b};

/* PSB, MODE.Exec, FUP, PSBEND; taken, not taken; TIP; a byte that is no packet. */
static const uint8_t whole[] = {
    0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82,
    0x02, 0x82, 0x99, 0x01, 0x5d, 0x00, 0x10, 0x40, 0x00, 0x02, 0x23, 0x0c, 0x2d, 0x02,
    0x10, 0x05, 0x05, 0x05, 0x05, 0x05, 0x05, 0x05, 0x05, 0x05, 0x05, 0x05, 0x05,
};

/* Bytes before the one that is no packet. */
#define WHOLE 29

static int make_file(void **state)
{
	FILE *f;

	(void)state;
	snprintf(path, sizeof(path), "test_misuse.%d", (int)getpid());
	f = fopen(path, "wb");
	return !f || fwrite(code, sizeof(code), 1, f) != 1 || fclose(f);
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(path);
}

static void init_config(struct pt_config *config, const uint8_t *bytes, size_t size)
{
	pt_config_init(config);
	config->begin = (uint8_t *)(uintptr_t)bytes;
	config->end = config->begin + size;
}

/* A decoder of each kind over one trace and one image. */
struct all {
	const struct twin_api *api;
	struct pt_config config;
	struct pt_image *image;
	struct pt_packet_decoder *pkt;
	struct pt_query_decoder *qry;
	struct pt_event_decoder *evt; /* NULL: Debian's library does not have it */
	struct pt_insn_decoder *insn;
	struct pt_block_decoder *blk;
};

static struct all all_new(const struct twin_api *a, const struct pt_config *config)
{
	struct all all = {.api = a, .config = *config};

	all.image = a->pt_image_alloc("image");
	all.pkt = a->pt_pkt_alloc_decoder(config);
	all.qry = a->pt_qry_alloc_decoder(config);
	all.evt = a->pt_evt_alloc_decoder ? a->pt_evt_alloc_decoder(config) : NULL;
	all.insn = a->pt_insn_alloc_decoder(config);
	all.blk = a->pt_blk_alloc_decoder(config);
	assert_true(all.image && all.pkt && all.qry && all.insn && all.blk);
	assert_int_equal(a->pt_image_add_file(all.image, path, 0, UINT64_MAX, NULL, BASE), 0);
	assert_int_equal(a->pt_insn_set_image(all.insn, all.image), 0);
	assert_int_equal(a->pt_blk_set_image(all.blk, all.image), 0);
	return all;
}

static void all_free(struct all *all)
{
	/* The image first: freeing it while decoders use it must work. */
	all->api->pt_image_free(all->image);
	all->api->pt_pkt_free_decoder(all->pkt);
	all->api->pt_qry_free_decoder(all->qry);
	if (all->evt)
		all->api->pt_evt_free_decoder(all->evt);
	all->api->pt_insn_free_decoder(all->insn);
	all->api->pt_blk_free_decoder(all->blk);
}

#define IS(code, call) assert_int_equal((call), -(code))

/* For the prefixes pkt, qry, insn, blk, evt. */
#define NULLS_OF_DECODER(a, p, d)                                                                  \
	do {                                                                                       \
		uint64_t offset_;                                                                  \
                                                                                                   \
		assert_null((a)->pt_##p##_alloc_decoder(NULL));                                    \
		(a)->pt_##p##_free_decoder(NULL);                                                  \
		assert_null((a)->pt_##p##_get_config(NULL));                                       \
		IS(pte_invalid, (a)->pt_##p##_sync_set(NULL, SYNC_IP 0));                          \
		IS(pte_invalid, (a)->pt_##p##_get_offset(NULL, &offset_));                         \
		IS(pte_invalid, (a)->pt_##p##_get_offset(d, NULL));                                \
		IS(pte_invalid, (a)->pt_##p##_get_sync_offset(NULL, &offset_));                    \
		IS(pte_invalid, (a)->pt_##p##_get_sync_offset(d, NULL));                           \
		IS(pte_nosync, (a)->pt_##p##_get_offset(d, &offset_));                             \
		IS(pte_nosync, (a)->pt_##p##_get_sync_offset(d, &offset_));                        \
	} while (0)

#define NULLS_OF_WALKER(a, p, d, what)                                                             \
	do {                                                                                       \
		struct pt_event event_;                                                            \
		struct pt_asid asid_;                                                              \
		uint64_t time_;                                                                    \
		uint32_t ratio_;                                                                   \
                                                                                                   \
		NULLS_OF_DECODER(a, p, d);                                                         \
		IS(pte_invalid, (a)->pt_##p##_sync_forward(NULL));                                 \
		IS(pte_invalid, (a)->pt_##p##_sync_backward(NULL));                                \
		IS(pte_invalid, (a)->pt_##p##_next(NULL, &(what), sizeof(what)));                  \
		IS(pte_invalid, (a)->pt_##p##_next(d, NULL, sizeof(what)));                        \
		IS(pte_invalid, (a)->pt_##p##_event(NULL, &event_, sizeof(event_)));               \
		IS(pte_invalid, (a)->pt_##p##_event(d, NULL, sizeof(event_)));                     \
		IS(pte_invalid, (a)->pt_##p##_time(NULL, &time_, NULL, NULL));                     \
		IS(pte_invalid, (a)->pt_##p##_time(d, NULL, NULL, NULL));                          \
		IS(pte_no_time, (a)->pt_##p##_time(d, &time_, NULL, NULL));                        \
		IS(pte_invalid, (a)->pt_##p##_core_bus_ratio(NULL, &ratio_));                      \
		IS(pte_invalid, (a)->pt_##p##_core_bus_ratio(d, NULL));                            \
		IS(pte_no_cbr, (a)->pt_##p##_core_bus_ratio(d, &ratio_));                          \
		IS(pte_invalid, (a)->pt_##p##_asid(NULL, &asid_, sizeof(asid_)));                  \
		IS(pte_invalid, (a)->pt_##p##_asid(d, NULL, sizeof(asid_)));                       \
		IS(pte_invalid, (a)->pt_##p##_set_image(NULL, NULL));                              \
		assert_null((a)->pt_##p##_get_image(NULL));                                        \
		if ((a)->pt_##p##_resync) {                                                        \
			IS(pte_invalid, (a)->pt_##p##_resync(NULL));                               \
			IS(pte_nosync, (a)->pt_##p##_resync(d));                                   \
		}                                                                                  \
	} while (0)

static void nulls_of_queries(const struct twin_api *a, struct pt_query_decoder *d)
{
	struct pt_event event;
	uint64_t ip;
	uint32_t ratio;
	int taken;

#define SYNC_IP NULL,
	NULLS_OF_DECODER(a, qry, d);
#undef SYNC_IP
	IS(pte_invalid, a->pt_qry_sync_forward(NULL, &ip));
	IS(pte_invalid, a->pt_qry_sync_backward(NULL, &ip));
	IS(pte_invalid, a->pt_qry_cond_branch(NULL, &taken));
	IS(pte_invalid, a->pt_qry_cond_branch(d, NULL));
	IS(pte_invalid, a->pt_qry_indirect_branch(NULL, &ip));
	IS(pte_invalid, a->pt_qry_indirect_branch(d, NULL));
	IS(pte_invalid, a->pt_qry_event(NULL, &event, sizeof(event)));
	IS(pte_invalid, a->pt_qry_event(d, NULL, sizeof(event)));
	IS(pte_invalid, a->pt_qry_event(d, &event, 0));
	IS(pte_invalid, a->pt_qry_event(d, &event, offsetof(struct pt_event, variant) - 1));
	IS(pte_invalid, a->pt_qry_time(NULL, &ip, NULL, NULL));
	IS(pte_invalid, a->pt_qry_time(d, NULL, NULL, NULL));
	IS(pte_invalid, a->pt_qry_core_bus_ratio(NULL, &ratio));
	IS(pte_invalid, a->pt_qry_core_bus_ratio(d, NULL));
	IS(pte_nosync, a->pt_qry_cond_branch(d, &taken));
	IS(pte_nosync, a->pt_qry_indirect_branch(d, &ip));
	IS(pte_nosync, a->pt_qry_event(d, &event, sizeof(event)));
	IS(pte_no_time, a->pt_qry_time(d, &ip, NULL, NULL));
	IS(pte_no_cbr, a->pt_qry_core_bus_ratio(d, &ratio));
}

static void nulls_of(const struct twin_api *a)
{
	struct pt_config config;
	struct pt_packet packet;
	struct pt_event event;
	struct pt_block block;
	struct pt_insn insn;
	struct all all;

	init_config(&config, whole, sizeof(whole));
	all = all_new(a, &config);
#define SYNC_IP
	NULLS_OF_DECODER(a, pkt, all.pkt);
	IS(pte_invalid, a->pt_pkt_sync_forward(NULL));
	IS(pte_invalid, a->pt_pkt_sync_backward(NULL));
	IS(pte_invalid, a->pt_pkt_next(NULL, &packet, sizeof(packet)));
	IS(pte_invalid, a->pt_pkt_next(all.pkt, NULL, sizeof(packet)));
	IS(pte_nosync, a->pt_pkt_next(all.pkt, &packet, sizeof(packet)));
	NULLS_OF_WALKER(a, insn, all.insn, insn);
	NULLS_OF_WALKER(a, blk, all.blk, block);
	if (all.evt) {
		NULLS_OF_DECODER(a, evt, all.evt);
		IS(pte_invalid, a->pt_evt_sync_forward(NULL));
		IS(pte_invalid, a->pt_evt_sync_backward(NULL));
		IS(pte_invalid, a->pt_evt_next(NULL, &event, sizeof(event)));
		IS(pte_invalid, a->pt_evt_next(all.evt, NULL, sizeof(event)));
		IS(pte_nosync, a->pt_evt_next(all.evt, &event, sizeof(event)));
	}
#undef SYNC_IP
	nulls_of_queries(a, all.qry);
	all_free(&all);
}

static void nulls_of_images(const struct twin_api *a)
{
	struct pt_image *image = a->pt_image_alloc(NULL);
	struct pt_image_section_cache *cache = a->pt_iscache_alloc(NULL);
	uint8_t byte;

	assert_true(image && cache);
	assert_null(a->pt_image_name(image));
	assert_null(a->pt_image_name(NULL));
	assert_null(a->pt_iscache_name(cache));
	assert_null(a->pt_iscache_name(NULL));
	a->pt_image_free(NULL);
	a->pt_iscache_free(NULL);
	IS(pte_invalid, a->pt_image_add_file(NULL, path, 0, 1, NULL, BASE));
	IS(pte_invalid, a->pt_image_add_file(image, NULL, 0, 1, NULL, BASE));
	IS(pte_invalid, a->pt_image_add_file(image, "", 0, 1, NULL, BASE));
	IS(pte_invalid, a->pt_image_add_file(image, "/no such file", 0, 1, NULL, BASE));
	IS(pte_invalid, a->pt_image_add_file(image, path, sizeof(code), 1, NULL, BASE));
	IS(pte_invalid, a->pt_image_add_file(image, path, UINT64_MAX, 1, NULL, BASE));
	IS(pte_invalid, a->pt_image_add_cached(NULL, cache, 1, NULL));
	IS(pte_invalid, a->pt_image_add_cached(image, NULL, 1, NULL));
	for (int i = -1; i < 3; i++)
		IS(pte_bad_image, a->pt_image_add_cached(image, cache, i, NULL));
	IS(pte_bad_image, a->pt_image_add_cached(image, cache, INT_MIN, NULL));
	IS(pte_invalid, a->pt_image_copy(NULL, image));
	IS(pte_invalid, a->pt_image_copy(image, NULL));
	IS(0, a->pt_image_copy(image, image));
	IS(pte_invalid, a->pt_image_remove_by_filename(NULL, path, NULL));
	IS(pte_invalid, a->pt_image_remove_by_filename(image, NULL, NULL));
	IS(0, a->pt_image_remove_by_filename(image, path, NULL));
	IS(pte_invalid, a->pt_image_remove_by_asid(NULL, NULL));
	IS(0, a->pt_image_remove_by_asid(image, NULL));
	IS(pte_invalid, a->pt_image_set_callback(NULL, NULL, NULL));
	IS(0, a->pt_image_set_callback(image, NULL, NULL));
	IS(pte_invalid, a->pt_iscache_set_limit(NULL, 0));
	IS(pte_invalid, a->pt_iscache_add_file(NULL, path, 0, 1, BASE));
	IS(pte_invalid, a->pt_iscache_add_file(cache, NULL, 0, 1, BASE));
	IS(pte_invalid, a->pt_iscache_add_file(cache, "/no such file", 0, 1, BASE));
	IS(pte_invalid, a->pt_iscache_read(NULL, &byte, 1, 1, BASE));
	IS(pte_invalid, a->pt_iscache_read(cache, NULL, 1, 1, BASE));
	IS(pte_invalid, a->pt_iscache_read(cache, &byte, 0, 1, BASE));
	IS(pte_bad_image, a->pt_iscache_read(cache, &byte, 1, 1, BASE));
	IS(pte_bad_image, a->pt_iscache_read(cache, &byte, 1, INT_MIN, BASE));
	a->pt_iscache_free(cache);
	a->pt_image_free(image);
}

static void nulls_of_encoders(const struct twin_api *a)
{
	struct pt_packet packet = {.type = ppt_pad};
	struct pt_config config;
	struct pt_encoder *encoder;
	uint8_t bytes[1];
	uint64_t offset;

	init_config(&config, bytes, sizeof(bytes));
	encoder = a->pt_alloc_encoder(&config);
	assert_non_null(encoder);
	IS(pte_invalid, a->pt_enc_next(NULL, &packet));
	IS(pte_invalid, a->pt_enc_next(encoder, NULL));
	IS(pte_invalid, a->pt_enc_get_offset(NULL, &offset));
	IS(pte_invalid, a->pt_enc_get_offset(encoder, NULL));
	IS(pte_invalid, a->pt_enc_sync_set(NULL, 0));
	IS(pte_eos, a->pt_enc_sync_set(encoder, 2));
	IS(pte_eos, a->pt_enc_sync_set(encoder, UINT64_MAX));
	assert_int_equal(a->pt_enc_next(encoder, &packet), 1);
	IS(pte_eos, a->pt_enc_next(encoder, &packet));
	packet.type = (enum pt_packet_type)99;
	IS(pte_bad_opc, a->pt_enc_next(encoder, &packet));
	a->pt_free_encoder(encoder);
}

static void nulls(void **state)
{
	const struct twin_api *both[] = {&ours, &theirs};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		nulls_of(both[i]);
		nulls_of_images(both[i]);
		nulls_of_encoders(both[i]);
	}
}

/* Checks what a call wrote into a struct of `size` bytes, whose type has `known` bytes. */
static void check_written(const uint8_t *bytes, size_t size, size_t known, size_t all)
{
	for (size_t i = known; i < size; i++)
		assert_int_equal(bytes[i], 0);
	for (size_t i = size; i < all; i++)
		assert_int_equal(bytes[i], 0xcc);
}

#define ROOM 300

/*
 * For Debian's library only up to the size of each struct: beyond that it writes too far, as if it
 * counted structs instead of bytes.
 */
static void sizes_of(const struct twin_api *a)
{
	uint8_t bytes[ROOM];
	struct pt_config config;

	init_config(&config, whole, sizeof(whole));
	for (size_t size = 0; size < ROOM - 20; size++) {
		struct pt_event event;
		struct all all;
		uint64_t ip;

		if (a == &theirs && size > sizeof(struct pt_packet))
			break;
		all = all_new(a, &config);
		memset(bytes, 0xcc, ROOM);
		IS(0, a->pt_pkt_sync_forward(all.pkt));
		assert_int_equal(a->pt_pkt_next(all.pkt, (struct pt_packet *)(void *)bytes, size),
				 16);
		check_written(bytes, size, sizeof(struct pt_packet), ROOM);
		memset(bytes, 0xcc, ROOM);
		assert_int_equal(a->pt_qry_sync_forward(all.qry, &ip), pts_event_pending);
		if (a->pt_qry_event(all.qry, (struct pt_event *)(void *)bytes, size) >= 0)
			check_written(bytes, size, sizeof(struct pt_event), ROOM);
		else
			check_written(bytes, 0, 0, ROOM);
		memset(bytes, 0xcc, ROOM);
		assert_int_equal(a->pt_insn_sync_forward(all.insn), pts_event_pending);
		if (a->pt_insn_event(all.insn, (struct pt_event *)(void *)bytes, size) >= 0)
			check_written(bytes, size, sizeof(struct pt_event), ROOM);
		else
			IS(0, a->pt_insn_event(all.insn, &event, sizeof(event)));
		memset(bytes, 0xcc, ROOM);
		IS(0, a->pt_insn_next(all.insn, (struct pt_insn *)(void *)bytes, size));
		check_written(bytes, size, sizeof(struct pt_insn), ROOM);
		assert_int_equal(a->pt_blk_sync_forward(all.blk), pts_event_pending);
		IS(0, a->pt_blk_event(all.blk, &event, sizeof(event)));
		memset(bytes, 0xcc, ROOM);
		IS(0, a->pt_blk_next(all.blk, (struct pt_block *)(void *)bytes, size));
		check_written(bytes, size, sizeof(struct pt_block), ROOM);
		memset(bytes, 0xcc, ROOM);
		if (a->pt_blk_asid(all.blk, (struct pt_asid *)(void *)bytes, size) >= 0)
			assert_true(size >= sizeof(size_t));
		for (size_t i = size; i < ROOM; i++)
			assert_int_equal(bytes[i], 0xcc);
		if (all.evt) {
			memset(bytes, 0xcc, ROOM);
			IS(0, a->pt_evt_sync_forward(all.evt));
			if (a->pt_evt_next(all.evt, (struct pt_event *)(void *)bytes, size) >= 0)
				check_written(bytes, size, sizeof(struct pt_event), ROOM);
		}
		all_free(&all);
	}
}

static void sizes(void **state)
{
	(void)state;
	sizes_of(&ours);
	sizes_of(&theirs);
}

/* What a client receives. */
struct log {
	uint64_t values[4096];
	unsigned count;
};

static void note(struct log *log, int64_t value)
{
	assert_true(log->count < sizeof(log->values) / sizeof(*log->values));
	log->values[log->count++] = (uint64_t)value;
}

static void compare(const struct log *a, const struct log *b, const char *what, int64_t detail)
{
	for (unsigned i = 0; i < a->count && i < b->count; i++)
		if (a->values[i] != b->values[i])
			fail_msg("%s %lld: answer %u is %lld, not %lld", what, (long long)detail, i,
				 (long long)a->values[i], (long long)b->values[i]);
	assert_int_equal(a->count, b->count);
}

/* Repeats queries in whatever state. */
static void stubborn(struct all *all, struct log *log)
{
	const struct twin_api *a = all->api;
	struct pt_packet packet;
	struct pt_event event;
	uint64_t ip;
	int taken;

	for (unsigned i = 0; i < 6; i++) {
		note(log, a->pt_pkt_next(all->pkt, &packet, sizeof(packet)));
		note(log, a->pt_qry_event(all->qry, &event, sizeof(event)));
		note(log, a->pt_qry_cond_branch(all->qry, &taken));
		note(log, a->pt_qry_indirect_branch(all->qry, &ip));
	}
}

/*
 * Follows the status, up to an error. What comes after that is a guess in Debian's library, and the
 * same error again in Ptah's.
 */
static void walk(struct all *all, int insn, int blk, struct log *log)
{
	const struct twin_api *a = all->api;
	struct pt_event event;
	struct pt_block block;
	struct pt_insn to;

	note(log, insn);
	note(log, blk);
	for (unsigned i = 0; i < 10; i++) {
		if (insn >= 0) {
			insn = insn & pts_event_pending
				   ? a->pt_insn_event(all->insn, &event, sizeof(event))
				   : a->pt_insn_next(all->insn, &to, sizeof(to));
			note(log, insn);
		}
		if (blk >= 0) {
			blk = blk & pts_event_pending
				  ? a->pt_blk_event(all->blk, &event, sizeof(event))
				  : a->pt_blk_next(all->blk, &block, sizeof(block));
			note(log, blk);
		}
		if (a == &ours && insn < 0)
			assert_true(a->pt_insn_next(all->insn, &to, sizeof(to)) < 0);
		if (a == &ours && blk < 0)
			assert_true(a->pt_blk_next(all->blk, &block, sizeof(block)) < 0);
	}
}

static void log_whole(const struct twin_api *a, const struct pt_config *config, bool walks,
		      struct log *log)
{
	struct all all = all_new(a, config);
	uint64_t ip;

	log->count = 0;
	stubborn(&all, log);
	for (unsigned i = 0; i < 2; i++) {
		note(log, a->pt_pkt_sync_forward(all.pkt));
		note(log, a->pt_qry_sync_forward(all.qry, &ip));
		stubborn(&all, log);
	}
	if (walks)
		walk(&all, a->pt_insn_sync_forward(all.insn), a->pt_blk_sync_forward(all.blk), log);
	all_free(&all);
}

/* The trace, cut at each of its bytes. */
static void short_traces(void **state)
{
	static struct log a, b;

	(void)state;
	for (size_t size = 0; size <= WHOLE; size++) {
		uint8_t *trace = malloc(size ? size : 1);
		struct pt_config config;

		assert_non_null(trace);
		memcpy(trace, whole, size);
		init_config(&config, trace, size);
		log_whole(&ours, &config, true, &a);
		log_whole(&theirs, &config, true, &b);
		compare(&a, &b, "size", (int64_t)size);
		free(trace);
	}
}

/* Synchronises anywhere, after any call. */
static void log_syncs(const struct twin_api *a, const struct pt_config *config, struct log *log)
{
	static const uint64_t far[] = {UINT64_MAX, UINT64_MAX - 1, UINT64_C(1) << 63,
				       UINT64_MAX - 15, 0};
	struct all all = all_new(a, config);
	struct pt_event event;
	uint64_t ip;

	log->count = 0;
	for (uint64_t i = 0; i < sizeof(whole) + 20; i++) {
		const uint64_t offset = i < 5 ? far[i] : i - 5;

		note(log, a->pt_pkt_sync_set(all.pkt, offset));
		note(log, a->pt_qry_sync_set(all.qry, &ip, offset));
		note(log, a->pt_insn_sync_set(all.insn, offset));
		note(log, a->pt_blk_sync_set(all.blk, offset));
		note(log, a->pt_insn_event(all.insn, &event, sizeof(event)));
	}
	all_free(&all);
}

static void syncs(void **state)
{
	static struct log a, b;
	struct pt_config config;

	(void)state;
	init_config(&config, whole, sizeof(whole));
	log_syncs(&ours, &config, &a);
	log_syncs(&theirs, &config, &b);
	compare(&a, &b, "sync", 0);
}

static const int answers[] = {INT_MIN, -4096, -255, -28, -27, -26, -14, -13, -12,  -9,
			      -7,      -4,    -2,   -1,	 0,   1,   2,	5,   8,	   9,
			      10,      11,    15,   16,	 17,  255, 256, 257, 4096, INT_MAX};

static int answer(struct pt_packet_unknown *packet, const struct pt_config *config,
		  const uint8_t *pos, void *context)
{
	(void)packet;
	assert_true(pos >= config->begin && pos < config->end);
	return *(const int *)context;
}

/*
 * Debian's instruction and block decoders lose the branch before an error (twin's rule
 * error-early).
 */
static void unknown_packets(void **state)
{
	static struct log a, b;

	(void)state;
	for (unsigned i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
		const bool is_size = answers[i] > 0 && answers[i] <= UINT8_MAX;
		struct pt_config config;

		init_config(&config, whole, sizeof(whole));
		config.decode.callback = answer;
		config.decode.context = (void *)(uintptr_t)&answers[i];
		log_whole(&ours, &config, true, &a);
		if (answers[i] < 0) /* the callback's answer ends the walk */
			assert_int_equal(a.values[a.count - 1], answers[i]);
		log_whole(&ours, &config, is_size, &a);
		/* With a packet of 0 bytes Debian's library never returns. */
		if (!answers[i])
			continue;
		log_whole(&theirs, &config, is_size, &b);
		compare(&a, &b, "callback", answers[i]);
	}
}

/* Returns so many bytes, or an error. Not 0: Debian's library calls that an internal error. */
static int read_memory(uint8_t *buffer, size_t size, const struct pt_asid *asid, uint64_t ip,
		       void *context)
{
	const int most = *(const int *)context;

	(void)asid;
	if (most <= 0)
		return most;
	if (ip - BASE >= sizeof(code))
		return -pte_nomap;
	size = size < (size_t)most ? size : (size_t)most;
	size = size < sizeof(code) - (ip - BASE) ? size : sizeof(code) - (size_t)(ip - BASE);
	memcpy(buffer, code + (ip - BASE), size);
	return (int)size;
}

static void log_memory(const struct twin_api *a, const int *most, struct log *log)
{
	struct pt_config config;
	struct pt_event event;
	struct pt_block block;
	struct pt_insn insn;
	struct all all;
	int status = 0;

	init_config(&config, whole, WHOLE);
	all = all_new(a, &config);
	log->count = 0;
	note(log, a->pt_image_remove_by_filename(all.image, path, NULL));
	note(log, a->pt_image_set_callback(all.image, read_memory, (void *)(uintptr_t)most));
	note(log, a->pt_insn_sync_forward(all.insn));
	note(log, a->pt_insn_event(all.insn, &event, sizeof(event)));
	note(log, a->pt_blk_sync_forward(all.blk));
	note(log, a->pt_blk_event(all.blk, &event, sizeof(event)));
	for (unsigned i = 0; i < 6 && status >= 0; i++) {
		memset(&insn, 0, sizeof(insn));
		status = a->pt_insn_next(all.insn, &insn, sizeof(insn));
		note(log, status);
		note(log, (int64_t)insn.ip);
	}
	status = 0;
	for (unsigned i = 0; i < 6 && status >= 0; i++) {
		memset(&block, 0, sizeof(block));
		status = a->pt_blk_next(all.blk, &block, sizeof(block));
		note(log, status);
		note(log, (int64_t)block.ip);
	}
	all_free(&all);
}

static void memory(void **state)
{
	static struct log a, b;
	static const int most[] = {INT_MIN, -4096, -28, -27, -26, -17, -14, -13, -12, -9,
				   -7,	    -6,	   -4,	-3,  -2,  -1,  1,   2,	 15};

	(void)state;
	for (unsigned i = 0; i < sizeof(most) / sizeof(*most); i++) {
		log_memory(&ours, &most[i], &a);
		log_memory(&theirs, &most[i], &b);
		compare(&a, &b, "memory", most[i]);
	}
}

/* PSB+ after PSB+ with nothing between: each step backward is one PSB+, whatever was read ahead. */
static void backward(void **state)
{
	enum {
		COUNT = 30,
		SIZE = 25
	};
	uint8_t trace[COUNT * SIZE];
	struct pt_config config;
	struct pt_event event;
	struct all all;

	(void)state;
	for (unsigned i = 0; i < COUNT; i++)
		memcpy(trace + SIZE * i, whole, SIZE);
	init_config(&config, trace, sizeof(trace));
	all = all_new(&ours, &config);
	for (unsigned i = COUNT; i > 0; i--) {
		int insn = ours.pt_insn_sync_backward(all.insn);
		int blk = ours.pt_blk_sync_backward(all.blk);
		uint64_t a, b;

		assert_true(insn >= 0 && blk >= 0);
		IS(0, ours.pt_insn_get_sync_offset(all.insn, &a));
		IS(0, ours.pt_blk_get_sync_offset(all.blk, &b));
		assert_int_equal(a, SIZE * (i - 1));
		assert_int_equal(b, a);
		if (i & 1)
			(void)ours.pt_insn_event(all.insn, &event, sizeof(event));
	}
	IS(pte_eos, ours.pt_insn_sync_backward(all.insn));
	IS(pte_eos, ours.pt_blk_sync_backward(all.blk));
	all_free(&all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(nulls),	       cmocka_unit_test(sizes),
	    cmocka_unit_test(short_traces),    cmocka_unit_test(syncs),
	    cmocka_unit_test(unknown_packets), cmocka_unit_test(memory),
	    cmocka_unit_test(backward),
	};

	load_both();
	return cmocka_run_group_tests(tests, make_file, remove_file);
}
