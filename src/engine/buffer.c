/* SPDX-License-Identifier: MIT */
/*
 * Makes the buffer of a new capture: checks the request, plans regions and tables, and allocates
 * them.
 */
#include "engine/internal.h"

#define DEFAULT_BUFFER	(UINT64_C(4) << 20)
#define DEFAULT_RECORDS 64u
#define MAX_RECORDS	65536u
#define MAX_PAGES	65536u
#define DRAIN_PMIS	16u

int buffer_refuse(struct ptah_trace_problem *problem, const char *field, const char *reason,
		  unsigned kind, uint64_t value, uint64_t valid)
{
	if (problem) {
		*problem = (struct ptah_trace_problem){
		    .field = field,
		    .reason = reason,
		    .kind = (uint8_t)kind,
		    .value = value,
		    .valid = valid,
		};
	}
	return PTAH_E_INVAL;
}

int buffer_refuse_call(struct ptah_trace_problem *problem)
{
	return buffer_refuse(problem, "size", "an argument is NULL, or a struct of an older size",
			     PTAH_PROBLEM_NONE, 0, 0);
}

int buffer_explain(int status, struct ptah_trace_problem *problem)
{
	const char *field = "cpu", *reason = "the processor or its port failed";

	if (status >= 0 || !problem || problem->field)
		return status;
	if (status == PTAH_E_OFFLINE) {
		reason = "no such processor, or it is offline";
	} else if (status == PTAH_E_UNSUPPORTED) {
		reason = "the processor cannot be traced: ptah_engine_caps() has why";
	} else if (status == PTAH_E_NOMEM) {
		field = "buffer", reason = "out of memory";
	} else if (status == PTAH_E_PORT) {
		field = "alloc", reason = "the port returned memory that breaks a rule of hal.h";
	} else if (status == PTAH_E_BUSY) {
		field = "capture", reason = "it is mapped, or traces a guest";
	} else if (status == PTAH_E_INVAL) {
		field = "capture", reason = "its tables in memory were overwritten";
	}
	buffer_refuse(problem, field, reason, PTAH_PROBLEM_NONE, 0, 0);
	return status;
}

/* Checks what hal->alloc() returned: see hal.h. *memory says for which processor, and what for. */
static int allocate_within(const struct ptah_hal *hal, void *port, unsigned physical_bits,
			   uint64_t size, uint64_t align, struct ptah_hal_memory *memory)
{
	uint64_t limit = UINT64_C(1) << (physical_bits < 63 ? physical_bits : 63);
	const struct ptah_hal_memory none = {.cpu = memory->cpu, .purpose = memory->purpose};
	int status;

	size = (size + TOPA_PAGE - 1) & ~(uint64_t)(TOPA_PAGE - 1);
	if (size > SIZE_MAX)
		return PTAH_E_NOMEM;
	status = hal->alloc(port, (size_t)size, (size_t)align, memory);
	memory->cpu = none.cpu;
	memory->purpose = none.purpose;
	if (status >= 0 && memory->address && memory->size >= size &&
	    !(memory->physical & (align - 1)) && memory->physical < limit &&
	    memory->size <= limit - memory->physical)
		return PTAH_OK;
	if (status >= 0) {
		log_port(hal, port, LOG_BAD_MEMORY, memory->physical);
		hal->release(port, memory);
		status = PTAH_E_PORT;
	}
	*memory = none;
	return status;
}

int buffer_alloc(const struct ptah_hal *hal, void *port, int cpu, unsigned purpose, uint64_t size,
		 struct ptah_hal_memory *memory)
{
	*memory = (struct ptah_hal_memory){.cpu = cpu, .purpose = (uint8_t)purpose};
	return allocate_within(hal, port, 52, size, TOPA_PAGE, memory);
}

/* The capabilities that all processors have on which the capture may run; false: no processor. */
static bool common_caps(const struct ptah_engine *engine, int cpu, struct ptah_caps *common)
{
	unsigned n, from = cpu < 0 ? 0 : (unsigned)cpu;
	unsigned to = cpu < 0 ? engine->cpus : (unsigned)cpu + 1;
	bool any = false;

	for (n = from; n < to; n++) {
		const struct ptah_caps *caps = engine_caps_of(engine, n);

		if (!caps)
			continue;
		if (!any) {
			*common = *caps;
			any = true;
			continue;
		}
		common->topa = common->topa && caps->topa;
		common->topa_multi = common->topa_multi && caps->topa_multi;
		common->single_range = common->single_range && caps->single_range;
		common->single_range_4k_only |= caps->single_range_4k_only;
		common->xsaves = common->xsaves && caps->xsaves;
		if (caps->physical_bits < common->physical_bits)
			common->physical_bits = caps->physical_bits;
		if (!common->obstacle)
			common->obstacle = caps->obstacle;
	}
	return any;
}

int buffer_check_trace(const struct ptah_engine *engine, int cpu, bool xsaves,
		       const struct ptah_trace_config *trace, struct ptah_trace_problem *problem)
{
	unsigned n, from = cpu < 0 ? 0 : (unsigned)cpu;
	unsigned to = cpu < 0 ? engine->cpus : (unsigned)cpu + 1;
	int status = PTAH_OK;

	for (n = from; n < to && status >= 0; n++) {
		const struct ptah_caps *caps = engine_caps_of(engine, n);

		if (caps)
			status = ptah_trace_config_check(caps, trace, xsaves, problem);
	}
	return status;
}

static bool is_power(uint64_t n)
{
	return n && !(n & (n - 1));
}

/* The possible sizes of a region as a mask: powers of two from 4 KB to 128 MB. */
#define REGION_MASK (TOPA_REGION_MAX * 2 - TOPA_PAGE)

static int choose_shape(struct buffer *c, const struct ptah_capture_config *config,
			const struct ptah_caps *caps, struct ptah_trace_problem *problem)
{
	c->shape = config->shape;
	if (c->shape == PTAH_SHAPE_AUTO)
		c->shape = caps->topa ? PTAH_SHAPE_RING : PTAH_SHAPE_SINGLE;
	if (c->shape == PTAH_SHAPE_RING && !caps->topa)
		return buffer_refuse(problem, "shape", "this processor has no ToPA",
				     PTAH_PROBLEM_MASK, c->shape, 1u << PTAH_SHAPE_SINGLE);
	if (c->shape == PTAH_SHAPE_OVERFLOW && !(caps->topa && caps->topa_multi))
		return buffer_refuse(problem, "shape",
				     "an overflow page needs tables of several entries",
				     PTAH_PROBLEM_MASK, c->shape,
				     1u << (caps->topa ? PTAH_SHAPE_RING : PTAH_SHAPE_SINGLE));
	if (c->shape == PTAH_SHAPE_SINGLE && !caps->single_range)
		return buffer_refuse(problem, "shape", "this processor has no single range output",
				     PTAH_PROBLEM_MASK, c->shape, 1u << PTAH_SHAPE_RING);
	if (c->shape == PTAH_SHAPE_SINGLE && config->policy != PTAH_POLICY_WRAP)
		return buffer_refuse(problem, "policy",
				     "a single range wraps: nothing can stop it when it is full",
				     PTAH_PROBLEM_BITMAP, config->policy, 1u << PTAH_POLICY_WRAP);
	c->swap = c->shape == PTAH_SHAPE_RING && !caps->topa_multi;
	return PTAH_OK;
}

/* Shapes SINGLE and OVERFLOW: one region, whose size is a power of two. */
static int choose_one(struct buffer *c, uint64_t buffer, const struct ptah_caps *caps,
		      struct ptah_trace_problem *problem)
{
	uint64_t most = c->shape == PTAH_SHAPE_SINGLE && caps->single_range_4k_only
			    ? TOPA_PAGE
			    : TOPA_REGION_MAX;

	if (!is_power(buffer) || buffer < TOPA_PAGE || buffer > most)
		return buffer_refuse(problem, "buffer",
				     most == TOPA_PAGE
					 ? "errata of this processor allow 4 KB only"
					 : "one region is a power of two, 4 KB to 128 MB",
				     PTAH_PROBLEM_MASK, buffer, most * 2 - TOPA_PAGE);
	c->topa.region = buffer;
	c->topa.last = c->shape == PTAH_SHAPE_OVERFLOW ? TOPA_PAGE : buffer;
	c->topa.regions = c->shape == PTAH_SHAPE_OVERFLOW ? 2 : 1;
	return PTAH_OK;
}

/* The largest size of a region by which the buffer has at least `least` regions. */
static uint64_t best_region(uint64_t buffer, uint64_t least, uint64_t most)
{
	uint64_t region = TOPA_PAGE;

	while (region * 2 <= most && buffer % (region * 2) == 0 && buffer / (region * 2) >= least)
		region *= 2;
	return region;
}

static int choose_ring(struct buffer *c, const struct ptah_capture_config *config, uint64_t buffer,
		       uint64_t most, struct ptah_trace_problem *problem)
{
	uint64_t region = config->region;

	if (!buffer || buffer % TOPA_PAGE)
		return buffer_refuse(problem, "buffer", "a multiple of 4096", PTAH_PROBLEM_MASK,
				     buffer, ~(uint64_t)(TOPA_PAGE - 1));
	if (!region && config->no_memory)
		region = TOPA_PAGE;
	if (!region)
		region = best_region(buffer, config->policy == PTAH_POLICY_WRAP ? 4 : 16, most);
	if (config->memory && !config->region)
		region = lent_region(config->memory, config->memories, region);
	if (!is_power(region) || !(region & REGION_MASK) || buffer % region)
		return buffer_refuse(problem, "region",
				     "a power of two from 4 KB to 128 MB that divides the buffer",
				     PTAH_PROBLEM_MASK, region, REGION_MASK);
	if (buffer / region > TOPA_MAX_REGIONS)
		return buffer_refuse(problem, "region", "so many regions: take larger ones",
				     PTAH_PROBLEM_MASK, region, REGION_MASK & ~(region * 2 - 1));
	c->topa.region = c->topa.last = region;
	c->topa.regions = (uint32_t)(buffer / region);
	if (c->swap && c->topa.regions < 2)
		return buffer_refuse(problem, "region",
				     "with single-entry ToPA two regions take turns",
				     PTAH_PROBLEM_MASK, region, REGION_MASK & (region - 1));
	return PTAH_OK;
}

static int choose_tables(struct buffer *c, const struct ptah_capture_config *config,
			 struct ptah_trace_problem *problem)
{
	struct topa *t = &c->topa;

	t->multi = !c->swap;
	t->pmi = c->pmi;
	if (config->pmis > t->regions)
		return buffer_refuse(problem, "pmis", "at most one per region", PTAH_PROBLEM_MAX,
				     config->pmis, t->regions);
	if (config->pmis && !c->pmi)
		return buffer_refuse(problem, "pmis", "there are none: no_pmi, or the port's",
				     PTAH_PROBLEM_MAX, config->pmis, 0);
	if (c->shape == PTAH_SHAPE_SINGLE) {
		t->lap = t->cycle = t->region;
		t->laps = 1;
		return PTAH_OK;
	}
	t->pmis = config->pmis;
	if (!t->pmis && config->policy == PTAH_POLICY_DRAIN)
		t->pmis = t->regions < DRAIN_PMIS ? t->regions : DRAIN_PMIS;
	if (config->pages > MAX_PAGES || !topa_size(t, config->pages))
		return buffer_refuse(problem, "pages", "one lap does not fit, or more than 65536",
				     PTAH_PROBLEM_MAX, config->pages, MAX_PAGES);
	return PTAH_OK;
}

static int check_rest(const struct ptah_capture_config *config, struct ptah_trace_problem *problem)
{
	if (config->shape >= PTAH_SHAPE_MAX)
		return buffer_refuse(problem, "shape", "no such shape", PTAH_PROBLEM_MAX,
				     config->shape, PTAH_SHAPE_MAX - 1);
	if (config->policy >= PTAH_POLICY_MAX)
		return buffer_refuse(problem, "policy", "no such policy", PTAH_PROBLEM_MAX,
				     config->policy, PTAH_POLICY_MAX - 1);
	if (config->records && (!is_power(config->records) || config->records > MAX_RECORDS))
		return buffer_refuse(problem, "records", "a power of two up to 65536",
				     PTAH_PROBLEM_MASK, config->records, MAX_RECORDS * 2 - 1);
	if (config->drain && config->policy != PTAH_POLICY_DRAIN)
		return buffer_refuse(problem, "drain", "needs the policy DRAIN", PTAH_PROBLEM_NEEDS,
				     1, 0);
	if (!config->trace || config->trace->size < sizeof(*config->trace))
		return buffer_refuse(problem, "trace", "missing, or of an older size",
				     PTAH_PROBLEM_NEEDS, 0, sizeof(*config->trace));
	return PTAH_OK;
}

/* The size of the buffer, without the page of the shape OVERFLOW. */
static int choose_size(const struct buffer *c, const struct ptah_capture_config *config,
		       const struct ptah_caps *caps, uint64_t *size,
		       struct ptah_trace_problem *problem)
{
	int status;

	*size = config->buffer ? config->buffer : DEFAULT_BUFFER;
	if (c->shape == PTAH_SHAPE_SINGLE && !config->buffer && caps->single_range_4k_only)
		*size = TOPA_PAGE;
	if (!config->memory && !config->memories)
		return PTAH_OK;
	status = lent_check(config->memory, config->memories, c->physical_bits, size, problem);
	if (status < 0)
		return status;
	if (c->shape == PTAH_SHAPE_OVERFLOW)
		*size -= TOPA_PAGE;
	if (config->buffer && config->buffer != *size)
		return buffer_refuse(problem, "buffer",
				     "not what the memory has: 0 takes all of it",
				     config->buffer < *size ? PTAH_PROBLEM_MIN : PTAH_PROBLEM_MAX,
				     config->buffer, *size);
	return PTAH_OK;
}

/* `most`: the largest size of a region, if it is chosen here and not by the caller. */
static int make_plan(const struct ptah_engine *engine, const struct ptah_capture_config *config,
		     const struct ptah_caps *caps, uint64_t most, struct buffer *c,
		     struct ptah_trace_problem *problem)
{
	uint64_t buffer;
	int status = choose_shape(c, config, caps, problem);

	if (status == PTAH_OK)
		status = choose_size(c, config, caps, &buffer, problem);
	if (status < 0)
		return status;
	c->pmi = engine->pmi && !config->no_pmi && c->shape != PTAH_SHAPE_SINGLE;
	c->caged = config->policy == PTAH_POLICY_WRAP && !c->pmi;
	if (c->shape == PTAH_SHAPE_RING)
		status = choose_ring(c, config, buffer, most, problem);
	else if (config->region && config->region != buffer)
		status = buffer_refuse(problem, "region", "there is one, the buffer",
				       PTAH_PROBLEM_MASK, config->region, buffer);
	else
		status = choose_one(c, buffer, caps, problem);
	return status < 0 ? status : choose_tables(c, config, problem);
}

static int allocate_lists(const struct ptah_engine *engine, struct buffer *b)
{
	uint64_t blocks = b->topa.regions, tables = b->topa.pages;
	uint64_t starts = b->swap ? b->topa.regions : 0;
	int status;

	status = buffer_alloc(engine->hal, engine->port, b->cpu, PTAH_MEMORY_LIST,
			      starts * sizeof(uint64_t) +
				  (blocks + tables) * sizeof(struct ptah_hal_memory),
			      &b->lists);
	if (status < 0)
		return status;
	b->starts_of = b->lists.address;
	b->topa.blocks = (struct ptah_hal_memory *)(b->starts_of + starts);
	b->topa.tables = b->topa.blocks + blocks;
	return PTAH_OK;
}

static int allocate_block(const struct ptah_engine *engine, const struct buffer *b,
			  struct ptah_hal_memory *block, uint64_t size)
{
	*block = (struct ptah_hal_memory){.cpu = b->cpu, .purpose = PTAH_MEMORY_REGION};
	return allocate_within(engine->hal, engine->port, b->physical_bits, size,
			       size < b->topa.region ? size : b->topa.region, block);
}

/* Allocates the buffer in one block if there is one as large; otherwise a block for each region. */
static int allocate_regions(const struct ptah_engine *engine, struct buffer *b)
{
	struct ptah_hal_memory *blocks = (struct ptah_hal_memory *)(uintptr_t)b->topa.blocks;
	uint32_t n;
	int status = allocate_block(engine, b, &blocks[0], b->topa.lap);

	b->topa.nblocks = status == PTAH_OK;
	if (status == PTAH_OK || b->topa.regions == 1)
		return status;
	for (n = 0; n < b->topa.regions; n++) {
		status = allocate_block(engine, b, &blocks[n], topa_bytes(&b->topa, n));
		if (status < 0)
			return status;
		b->topa.nblocks = n + 1;
	}
	return PTAH_OK;
}

static int allocate_tables(const struct ptah_engine *engine, struct buffer *b)
{
	struct ptah_hal_memory *tables = (struct ptah_hal_memory *)(uintptr_t)b->topa.tables;
	uint32_t n;
	int status = PTAH_OK;

	for (n = 0; n < b->topa.pages && status == PTAH_OK; n++) {
		tables[n] = (struct ptah_hal_memory){.cpu = b->cpu, .purpose = PTAH_MEMORY_TABLE};
		status = allocate_within(engine->hal, engine->port, b->physical_bits, TOPA_PAGE,
					 TOPA_PAGE, &tables[n]);
	}
	return status;
}

static int allocate(const struct ptah_engine *engine, const struct ptah_capture_config *config,
		    struct buffer *b, struct ptah_trace_problem *problem)
{
	int status = allocate_lists(engine, b);

	if (status < 0)
		return status;
	if (config->memory)
		status = lent_place(&b->topa, b->cpu, config->memory, config->memories, problem);
	else if (!b->lent)
		status = allocate_regions(engine, b);
	if (status == PTAH_OK)
		status = allocate_tables(engine, b);
	if (status < 0)
		buffer_unmake(engine, b);
	else if (b->shape != PTAH_SHAPE_SINGLE)
		topa_build(&b->topa);
	return status;
}

void buffer_unmake(const struct ptah_engine *engine, const struct buffer *b)
{
	const struct ptah_hal *hal = engine->hal;
	void *port = engine->port;
	uint32_t n;

	for (n = 0; n < b->topa.pages; n++) {
		if (b->topa.tables[n].address)
			hal->release(port, &b->topa.tables[n]);
	}
	for (n = 0; n < b->topa.nblocks && !b->lent; n++)
		hal->release(port, &b->topa.blocks[n]);
	hal->release(port, &b->lists);
}

int buffer_make(const struct ptah_engine *engine, const struct ptah_capture_config *config,
		struct buffer *b, struct ptah_trace_problem *problem)
{
	struct ptah_caps caps = {0};
	uint64_t most;
	int status = PTAH_OK;

	if (!common_caps(engine, config->cpu, &caps))
		return PTAH_E_OFFLINE;
	/* There may be no large blocks of memory: try smaller regions, unless the caller chose. */
	for (most = TOPA_REGION_MAX; status >= 0; most = b->topa.region / 2) {
		*b = (struct buffer){
		    .lent = config->memory || config->no_memory,
		    .cpu = config->cpu,
		    .physical_bits = caps.physical_bits,
		};
		status = make_plan(engine, config, &caps, most, b, problem);
		if (status < 0)
			break;
		status = allocate(engine, config, b, problem);
		if (status != PTAH_E_NOMEM || config->region || b->lent ||
		    b->shape != PTAH_SHAPE_RING || b->topa.region == TOPA_PAGE)
			break;
		status = PTAH_OK;
	}
	return status;
}

struct buffer buffer_of(const struct ptah_capture *c)
{
	return (struct buffer){
	    .shape = c->shape,
	    .swap = c->swap,
	    .pmi = c->pmi,
	    .caged = c->caged,
	    .lent = c->lent,
	    .cpu = c->cpu,
	    .physical_bits = c->physical_bits,
	    .topa = c->topa,
	    .starts_of = c->starts_of,
	    .lists = c->lists,
	};
}

void buffer_set(struct ptah_capture *c, const struct buffer *b)
{
	c->shape = b->shape;
	c->swap = b->swap;
	c->pmi = b->pmi;
	c->caged = b->caged;
	c->lent = b->lent;
	c->physical_bits = b->physical_bits;
	c->topa = b->topa;
	c->starts_of = b->starts_of;
	c->lists = b->lists;
}

void buffer_free(struct ptah_capture *c)
{
	const struct ptah_engine *engine = c->engine;
	struct buffer buffer = buffer_of(c);
	struct ptah_hal_memory memory = c->memory;

	buffer_unmake(engine, &buffer);
	page_free(c);
	engine->hal->release(engine->port, &memory);
}

static bool wants_xsaves(const struct ptah_engine *engine, const struct ptah_capture_config *config,
			 const struct ptah_caps *caps)
{
	return config->cpu < 0 && engine->hal->xsaves && caps->xsaves && !config->no_xsaves;
}

void buffer_configure(struct ptah_capture *c, const struct ptah_capture_config *config)
{
	c->config = *config;
	c->config.trace = NULL;
	c->config.memory = NULL;
	c->config.memories = 0;
	c->owner = config->owner;
	c->cookie = config->cookie;
	c->drain = config->drain;
	c->cpu = config->cpu < 0 ? PTAH_CAPTURE_THREAD : config->cpu;
	c->policy = config->policy;
	c->start_paused = config->paused;
	atomic_init(&c->holder, NOBODY);
	c->trace = *config->trace;
	c->ctl = ptah_trace_config_ctl(&c->trace) |
		 (c->shape == PTAH_SHAPE_SINGLE ? 0 : PTAH_RTIT_CTL_TOPA);
}

void buffer_reset(struct ptah_capture *c)
{
	size_t at = offsetof(struct ptah_capture, owner);
	uint32_t records = c->records.mask + 1, n;

	/* No mapping exists, and other threads may be looking for one. */
	memset((uint8_t *)c + at, 0, offsetof(struct ptah_capture, mappings) - at);
	record_init(&c->records, (struct ptah_capture_record *)(c + 1), records);
	for (n = 0; c->swap && n < c->topa.regions; n++)
		atomic_store(&c->starts_of[n], 0);
	if (c->shape != PTAH_SHAPE_SINGLE)
		topa_build(&c->topa);
}

/* Allocates the capture's own memory: the struct and its records. */
static int allocate_capture(struct ptah_engine *engine, const struct buffer *b, uint32_t records,
			    struct ptah_capture **capture)
{
	struct ptah_hal_memory memory;
	struct ptah_capture *c;
	int status;

	status = buffer_alloc(engine->hal, engine->port, b->cpu, PTAH_MEMORY_CAPTURE,
			      sizeof(*c) + records * sizeof(struct ptah_capture_record), &memory);
	if (status < 0)
		return status;
	c = memory.address;
	memset(c, 0, sizeof(*c));
	c->engine = engine;
	c->memory = memory;
	buffer_set(c, b);
	crash_describe(c, b->cpu);
	record_init(&c->records, (struct ptah_capture_record *)(c + 1), records);
	*capture = c;
	return PTAH_OK;
}

/* What prevented tracing when the engine was created may have passed since then. */
static void look_again(struct ptah_engine *engine, int cpu)
{
	unsigned n, from = cpu < 0 ? 0 : (unsigned)cpu;

	for (n = from; n < engine->cpus && (cpu < 0 || n == from); n++) {
		if (ptah_engine_caps(engine, n))
			engine_look(engine, n);
	}
}

int buffer_new(struct ptah_engine *engine, const struct ptah_capture_config *config,
	       struct ptah_capture **capture, struct ptah_trace_problem *problem)
{
	struct ptah_caps caps = {0};
	struct buffer buffer;
	int status = check_rest(config, problem);

	if (status < 0)
		return status;
	look_again(engine, config->cpu);
	if (config->cpu < PTAH_CAPTURE_THREAD || !common_caps(engine, config->cpu, &caps))
		return PTAH_E_OFFLINE;
	if (caps.obstacle)
		return PTAH_E_UNSUPPORTED;
	status = buffer_check_trace(engine, config->cpu, wants_xsaves(engine, config, &caps),
				    config->trace, problem);
	if (status >= 0)
		status = buffer_make(engine, config, &buffer, problem);
	if (status < 0)
		return status;
	status = allocate_capture(engine, &buffer,
				  config->records ? config->records : DEFAULT_RECORDS, capture);
	if (status < 0) {
		buffer_unmake(engine, &buffer);
		return status;
	}
	(*capture)->xsaves = wants_xsaves(engine, config, &caps);
	buffer_configure(*capture, config);
	return PTAH_OK;
}
