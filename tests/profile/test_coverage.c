/* SPDX-License-Identifier: MIT */
/*
 * Coverage of random programs and of hardware traces, many executions with one
 * object: equal to what the items of a flow add up to.
 */
#include "test.h"

#include "../flow/random_machine.h"
#include "../flow/world.h"
#include "compare_coverage.h"
#include "profile/profile_internal.h"

#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define RUNS 4

static struct ptah_image *image_of(const uint8_t *code, size_t size)
{
	struct ptah_image *image;

	assert_int_equal(ptah_image_new(&image), 0);
	assert_int_equal(ptah_image_add_bytes(image, code, size, BASE, NULL), 0);
	return image;
}

/*
 * The variants that a random program is tried with: all of them, or every other in builds with
 * sanitizers (test.h). Which half depends on all bits of the seed, so that each variant meets every
 * kind of program.
 */
#define VARIANT_STEP RANDOM_PROGRAMS(1, 2)

static unsigned first_variant(unsigned seed)
{
	return (seed ^ seed >> 1 ^ seed >> 2) % VARIANT_STEP;
}

static void same_from(unsigned first, unsigned step, const struct ptah_image *image,
		      const struct ptah_flow_config *config, const struct execution *executions,
		      size_t n, size_t chunk)
{
	for (unsigned variant = first; variant < COVERAGE_VARIANTS; variant += step)
		assert_true(
		    coverage_equals_flow(image, image, config, executions, n, chunk, variant));
}

static void same(const struct ptah_image *image, const struct ptah_flow_config *config,
		 const struct execution *executions, size_t n, size_t chunk)
{
	same_from(0, 1, image, config, executions, n, chunk);
}

/* The same program with its whole trace, its trace cut short, and its trace from the middle on. */
static void parts(struct execution *e, const uint8_t *trace, size_t size)
{
	e[0] = (struct execution){trace, size};
	e[1] = (struct execution){trace, size / 3};
	e[2] = (struct execution){trace + size / 2, size - size / 2};
	e[3] = (struct execution){trace, 0};
}

TEST(machines)
{
	static const size_t chunks[] = {0, 1, 100, 4096};

	for (unsigned seed = 1; seed <= 8; seed++) {
		struct execution e[RUNS];
		size_t size;
		struct machine *m = machine_new(seed, seed & 1, seed & 2, seed & 4, &size);
		struct ptah_image *image = image_of(m->code, sizeof(m->code));

		parts(e, m->trace, size);
		same_from(first_variant(seed), VARIANT_STEP, image, NULL, e, RUNS,
			  chunks[seed % 4]);
		ptah_image_free(image);
		machine_free(m);
	}
}

TEST(worlds)
{
	for (unsigned seed = 1; seed <= 8; seed++) {
		const struct ptah_flow_config config = {.size = sizeof(config),
							.events.trace.no_tnt = seed % 8 == 0,
							.events.trace.no_retcomp = seed == 5};
		struct execution e[RUNS];
		size_t size;
		struct world *w = world_new(seed, seed & 1, seed & 2, seed & 4, &size);
		struct ptah_image *image = image_of(w->code, sizeof(w->code));

		parts(e, w->trace, size);
		same_from(first_variant(seed), VARIANT_STEP, image, &config, e, RUNS,
			  seed & 2 ? 0 : 37);
		ptah_image_free(image);
		world_free(w);
	}
}

/* Whole, damaged, whole, damaged: a damaged execution has no effect on the next. */
TEST(damage)
{
	for (unsigned seed = 1; seed <= 4; seed++) {
		struct execution e[RUNS];
		size_t size;
		struct world *w = world_new(seed % 7 + 1, seed & 1, seed & 2, false, &size);
		struct ptah_image *image = image_of(w->code, sizeof(w->code));
		uint8_t *traces = malloc(RUNS * size);

		assert_non_null(traces);
		for (unsigned i = 0; i < RUNS; i++) {
			memcpy(traces + i * size, w->trace, size);
			e[i] = (struct execution){traces + i * size, size};
			for (unsigned k = 0; k < 10 * (i % 2); k++)
				traces[i * size + world_pick(w, (unsigned)size)] ^=
				    (uint8_t)(1 << world_pick(w, 8));
		}
		same_from(first_variant(seed), VARIANT_STEP, image, NULL, e, RUNS,
			  seed & 4 ? 0 : 501);
		free(traces);
		ptah_image_free(image);
		world_free(w);
	}
}

/* Pages on demand */

struct store {
	struct ptah_image *full, *image;
	uint64_t page;
	unsigned asked;
};

static bool bring(void *context, uint64_t address, const struct ptah_space *space)
{
	struct store *store = context;
	const uint64_t first = address / store->page * store->page;
	uint8_t bytes[4096];
	size_t n = ptah_image_read(store->full, first, bytes, (size_t)store->page, space);

	store->asked++;
	return first + n > address &&
	       ptah_image_add_bytes(store->image, bytes, n, first, NULL) >= 0;
}

/* Starts with an empty image; `page` bytes are added on each request. */
static void on_demand(unsigned first, unsigned step, struct ptah_image *full,
		      const struct execution *e, size_t n, uint64_t page)
{
	for (unsigned variant = first; variant < COVERAGE_VARIANTS; variant += step) {
		struct store store = {.full = full, .page = page};
		const struct ptah_flow_config config = {
		    .size = sizeof(config), .on_missing = bring, .missing_context = &store};

		assert_int_equal(ptah_image_new(&store.image), 0);
		assert_true(coverage_equals_flow(full, store.image, &config, e, n, 0, variant));
		assert_true(store.asked > 0);
		ptah_image_free(store.image);
	}
}

TEST(pages_on_demand)
{
	static const uint64_t pages[] = {1, 16, 512, 4096};

	for (unsigned seed = 1; seed <= 4; seed++) {
		struct execution e[RUNS];
		size_t size;
		struct world *w = world_new(seed, seed & 1, seed & 2, false, &size);
		struct ptah_image *full = image_of(w->code, sizeof(w->code));

		parts(e, w->trace, size);
		on_demand(first_variant(seed), VARIANT_STEP, full, e, RUNS, pages[seed - 1]);
		ptah_image_free(full);
		world_free(w);
	}
}

/* Hardware */

/*
 * A trace's segments, from one PSB to the next, as executions of their own: at most `most`, and
 * always the last, where mruby's trace ends in an overflow.
 */
static size_t segments(struct execution *e, size_t most, const uint8_t *trace, size_t size)
{
	const uint8_t *end = trace + size, *next = end, *p;
	size_t n = 0;

	for (; n < most && (p = ptah_packet_find_last_psb(trace, next)); next = p)
		e[n++] = (struct execution){p, (size_t)(next - p)};
	return n;
}

TEST(hardware)
{
	static const char *const names[] = {"foo", "unzip", "mruby"};
	static uint8_t bytes[1 << 20];
	const char *shared = getenv("PTAH_SHARED");
	struct execution e[16];
	char path[4096];

	if (!shared || !*shared)
		skip(); /* no hardware traces here */
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct ptah_image *image;
		size_t n, size;
		FILE *f;

		snprintf(path, sizeof(path), "%s/traces/%s.pt", shared, names[i]);
		f = fopen(path, "r");
		if (!f)
			continue;
		size = fread(bytes, 1, sizeof(bytes), f);
		fclose(f);
		snprintf(path, sizeof(path), "%s/traces/%s", shared, names[i]);
		assert_int_equal(ptah_image_new(&image), 0);
		assert_int_equal(ptah_image_add_pages(image, path, NULL), 0);
		n = segments(e, 15, bytes, size);
		if (size < 100000) /* more would take too long with memory checkers */
			e[n++] = (struct execution){bytes, size};
		same(image, NULL, e, n, 0);
		on_demand(0, 1, image, e, n, 4096);
		ptah_image_free(image);
	}
}

/* Traces written by hand */

/* dec eax; jnz -4; ret */
static const uint8_t loop[] = {0xff, 0xc8, 0x75, 0xfc, 0xc3};

/* TIP.PGE to BASE, n times taken in TNT-8 packets of one outcome, TIP.PGD; a PSB+ before. */
static size_t make_loop(uint8_t *trace, unsigned n)
{
	struct ptah_packet packet = {.type = PTAH_PACKET_PSB};
	size_t size = 0;

	size += (size_t)ptah_packet_encode(&packet, trace, 16);
	packet = (struct ptah_packet){.type = PTAH_PACKET_MODE_EXEC};
	packet.u.exec.mode = PTAH_EXEC_64;
	size += (size_t)ptah_packet_encode(&packet, trace + size, 16);
	packet = (struct ptah_packet){.type = PTAH_PACKET_PSBEND};
	size += (size_t)ptah_packet_encode(&packet, trace + size, 16);
	packet = (struct ptah_packet){.type = PTAH_PACKET_TIP_PGE};
	packet.u.ip.ipc = PTAH_IPC_FULL;
	packet.u.ip.ip = BASE;
	size += (size_t)ptah_packet_encode(&packet, trace + size, 16);
	memset(trace + size, 0x06, n); /* TNT: taken */
	size += n;
	packet = (struct ptah_packet){.type = PTAH_PACKET_TIP_PGD};
	return size + (size_t)ptah_packet_encode(&packet, trace + size, 16);
}

/* Counts stay at 255, and what was touched is 0 in the next execution. */
TEST(saturation)
{
	static const unsigned counts[] = {1, 254, 255, 256, 1000, 3, 0};
	const size_t entry = ptah_coverage_index(BASE + 2, BASE, 65536);
	struct ptah_image *image = image_of(loop, sizeof(loop));
	struct ptah_coverage *coverage;
	uint8_t trace[2048];

	assert_int_equal(ptah_coverage_new(image, NULL, &coverage), 0);
	for (unsigned i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
		const size_t size = make_loop(trace, counts[i]);
		struct ptah_coverage_result r;
		size_t length;
		const uint8_t *bitmap = ptah_coverage_bitmap(coverage, &length);

		assert_int_equal(ptah_coverage_run(coverage, trace, size, &r), 0);
		assert_int_equal(length, 65536);
		assert_int_equal(bitmap[entry], counts[i] < 255 ? counts[i] : 255);
		assert_int_equal(r.entries, counts[i] > 0);
		assert_int_equal(r.new_edges, i == 0);
		for (size_t k = 0; k < length; k++)
			assert_true(k == entry || !bitmap[k]);
	}
	ptah_coverage_free(coverage);
	ptah_image_free(image);
}

/*
 * The TIP.PGD after the loop has no address: the branch was taken out of the filter's range, or its
 * outcome is unknown.
 */
TEST(left_without_address)
{
	struct ptah_image *image = image_of(loop, sizeof(loop));
	const size_t entry = ptah_coverage_index(BASE + 2, BASE, 65536);
	uint8_t trace[2048];
	const struct execution e = {trace, make_loop(trace, 3)};

	for (unsigned known = 0; known < 2; known++) {
		const struct ptah_flow_config flow = {
		    .size = sizeof(flow),
		    .events.trace.ranges = {{.first = BASE + 1,
					     .last = BASE + 4,
					     .mode = known ? PTAH_RANGE_FILTER : PTAH_RANGE_OFF}}};
		const struct ptah_coverage_config config = {.size = sizeof(config), .flow = flow};
		struct ptah_coverage *coverage;
		struct ptah_coverage_result r;

		assert_int_equal(ptah_coverage_new(image, &config, &coverage), 0);
		assert_int_equal(ptah_coverage_run(coverage, trace, e.size, &r), 0);
		assert_int_equal(r.errors, 0);
		assert_int_equal(ptah_coverage_bitmap(coverage, NULL)[entry], 3 + known);
		ptah_coverage_free(coverage);
		same(image, &flow, &e, 1, 0);
	}
	ptah_image_free(image);
}

/* After a reset everything counts as new, from 0 on. */
TEST(reset)
{
	struct ptah_image *image = image_of(loop, sizeof(loop));
	struct ptah_coverage *coverage;
	struct ptah_profile_edge *edges;
	uint8_t trace[2048];
	size_t n;

	assert_int_equal(ptah_coverage_new(image, NULL, &coverage), 0);
	for (unsigned i = 0; i < 3; i++) {
		const size_t size = make_loop(trace, 100);
		struct ptah_coverage_result r;

		assert_int_equal(ptah_coverage_run(coverage, trace, size, &r), 0);
		assert_int_equal(r.new_edges, 1);
		assert_true(r.new_blocks > 0);
		assert_int_equal(ptah_coverage_run(coverage, trace, size, &r), 0);
		assert_int_equal(r.new_edges + r.new_blocks, 0);
		assert_int_equal(ptah_profile_edges(ptah_coverage_profile(coverage), &edges, &n),
				 0);
		assert_int_equal(n, 1);
		assert_true(edges[0].count == 200 && edges[0].from == BASE + 2 &&
			    edges[0].to == BASE);
		free(edges);
		assert_int_equal(coverage_reset(coverage), 0);
		assert_int_equal(ptah_profile_edges(ptah_coverage_profile(coverage), &edges, &n),
				 0);
		assert_int_equal(n, 0);
		free(edges);
	}
	ptah_coverage_free(coverage);
	ptah_image_free(image);
}

/* Little address space */

#define JUMPS  2500
#define ENOUGH 13						  /* MB */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) /* which need far more */
#define MOST 0
#else
#define MOST ENOUGH
#endif

static const uint8_t jump[] = {0xff, 0xe0}; /* jmp *rax */

static size_t put_ip(uint8_t *trace, enum ptah_packet_type type, uint64_t ip)
{
	struct ptah_packet packet = {.type = (uint8_t)type};

	packet.u.ip.ipc = PTAH_IPC_FULL;
	packet.u.ip.ip = ip;
	return (size_t)ptah_packet_encode(&packet, trace, 16);
}

/* Counts a trace that goes once over JUMPS indirect jumps. */
static int run_jumps(const struct ptah_image *image, const uint8_t *trace, size_t size)
{
	const struct ptah_coverage_config config = {.size = sizeof(config), .bitmap_size = 1024};
	struct ptah_coverage *coverage;
	struct ptah_coverage_result r;
	int status = ptah_coverage_new(image, &config, &coverage);

	if (status < 0)
		return status;
	status = ptah_coverage_run(coverage, trace, size, &r);
	if (!status)
		status = r.errors || r.new_blocks != JUMPS || r.new_edges != JUMPS;
	ptah_coverage_free(coverage);
	return status;
}

/* The same in a process that gets only `room` bytes of address space more than it has. */
static int run_jumps_within(size_t room, const struct ptah_image *image, const uint8_t *trace,
			    size_t size)
{
	const pid_t child = fork();
	struct rlimit limit;
	unsigned long pages;
	int status;
	FILE *f;

	assert_true(child >= 0);
	if (child) {
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFEXITED(status));
		return (int8_t)WEXITSTATUS(status);
	}
	f = fopen("/proc/self/statm", "r");
	if (!f || fscanf(f, "%lu", &pages) != 1)
		_exit(100);
	fclose(f);
	limit.rlim_cur = limit.rlim_max = pages * (size_t)sysconf(_SC_PAGESIZE) + room;
	if (setrlimit(RLIMIT_AS, &limit))
		_exit(101);
	_exit(run_jumps(image, trace, size));
}

/*
 * The rows of so many states have 2.7 MB, in a table that grows from 4 to 6 MB. There is no room
 * for the two side by side and a detour to an aligned address: the larger table is made without
 * them. Where even that does not fit, the answer is PTAH_E_NOMEM.
 */
TEST(little_address_space)
{
	static uint8_t code[16 * JUMPS], trace[16 * JUMPS + 64];
	struct ptah_image *image;
	size_t size = make_loop(trace, 0) - 1; /* without the TIP.PGD */

#ifdef __clang__
	if (getenv("PTAH_SANITIZE") && *getenv("PTAH_SANITIZE"))
		skip(); /* clang's AddressSanitizer does not return NULL, but aborts, and hangs */
#endif
	for (size_t i = 0; i < JUMPS; i++) {
		memcpy(code + 16 * i, jump, sizeof(jump));
		if (i)
			size += put_ip(trace + size, PTAH_PACKET_TIP, BASE + 16 * i);
	}
	size += put_ip(trace + size, PTAH_PACKET_TIP, BASE);
	image = image_of(code, sizeof(code));
	assert_int_equal(run_jumps(image, trace, size), 0);
	for (size_t room = 1; room <= MOST; room++) {
		const int status = run_jumps_within(room << 20, image, trace, size);

		assert_true(!status || (status == PTAH_E_NOMEM && room < ENOUGH));
	}
	ptah_image_free(image);
}

TEST(arguments)
{
	struct ptah_image *image = image_of(loop, sizeof(loop));
	struct ptah_coverage_config config = {.size = sizeof(config)};
	struct ptah_coverage *coverage;

	config.bitmap_size = 1000;
	assert_int_equal(ptah_coverage_new(image, &config, &coverage), PTAH_E_INVAL);
	config.bitmap_size = 4;
	assert_int_equal(ptah_coverage_new(image, &config, &coverage), PTAH_E_INVAL);
	config.bitmap_size = 2 * PTAH_COVERAGE_MAX_BITMAP;
	assert_int_equal(ptah_coverage_new(image, &config, &coverage), PTAH_E_INVAL);
	config.bitmap_size = 0;
	config.range_count = PTAH_COVERAGE_RANGES + 1;
	assert_int_equal(ptah_coverage_new(image, &config, &coverage), PTAH_E_INVAL);
	config.range_count = 0;
	config.size--;
	assert_int_equal(ptah_coverage_new(image, &config, &coverage), PTAH_E_INVAL);
	assert_int_equal(ptah_coverage_new(NULL, NULL, &coverage), PTAH_E_INVAL);
	assert_int_equal(ptah_coverage_run(NULL, NULL, 0, NULL), PTAH_E_INVAL);
	ptah_image_free(image);
}
