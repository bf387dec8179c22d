/* SPDX-License-Identifier: MIT */
/*
 * Where the packets go: a table of regions, a single range, or nowhere. SDM
 * "Trace Output", "Table of Physical Addresses (ToPA)", "ToPA Errors", "ToPA
 * STOP", "ToPA PMI", "Operational Errors". Freestanding.
 *
 * An entry is read when the region before it is full, not when the first byte for
 * its own region comes. So an error shows, and an END is followed, as early as
 * the SDM allows, and the registers never point beyond a region unless it has
 * STOP.
 */
#include "model/processor.h"

#define TABLE_ALIGN    UINT64_C(4096)
#define SMALLEST       UINT64_C(4096)
#define LAST_INDEX     0xffffff80u     /* 25 bits at MASK_PTRS[31:7] */
#define ENTRY_RESERVED UINT64_C(0xc2a) /* bits 1, 3, 5, 10, 11 */

static bool is_topa(const struct ptah_model *m)
{
	return m->ctl & PTAH_RTIT_CTL_TOPA;
}

static bool is_fabric(const struct ptah_model *m)
{
	return m->ctl & PTAH_RTIT_CTL_FABRIC_EN;
}

uint64_t model_psb_period(const struct ptah_model *m)
{
	return UINT64_C(2048) << (m->ctl >> PTAH_RTIT_CTL_PSB_FREQ & 15);
}

/* Operational errors, and ToPA STOP */

static void lose_trigger(struct ptah_model *m, uint64_t status)
{
	m->status |= status;
	if (!m->faults.silent)
		model_trace_lost(m);
}

static void show_error(struct ptah_model *m)
{
	lose_trigger(m, PTAH_RTIT_STATUS_ERROR);
}

/* SDM "Operational Errors": the processor chooses when to set Error; from now on all bytes are
 * lost.
 */
static void meet_error(struct ptah_model *m)
{
	m->dead = true;
	m->dead_at = m->dropped;
	m->region_known = false;
	if (!m->faults.error_delay)
		show_error(m);
}

/* Memory */

/* Where there is no memory, or SMM hides it, loads give ones. */
static uint64_t load_entry(const struct ptah_model *m, uint64_t physical)
{
	uint64_t bytes = 0;
	const uint8_t *host = m->memory ? m->memory(m->port, physical, &bytes) : NULL;

	return host && bytes >= 8 ? load_le64(host) : UINT64_MAX;
}

static void map_region(struct ptah_model *m)
{
	struct model_region *r = &m->region;
	uint64_t bytes = 0;

	r->host = m->memory ? m->memory(m->port, r->base + m->offset, &bytes) : NULL;
	if (!r->host)
		bytes = SMALLEST - (m->offset & (SMALLEST - 1));
	r->first = m->offset;
	r->end = m->offset + bytes < r->size ? m->offset + bytes : r->size;
}

static void store(struct ptah_model *m, const uint8_t *from, uint64_t n)
{
	struct model_region *r = &m->region;
	const bool spoilt = m->faults.single_range_4k_only && !is_topa(m) && m->offset >= SMALLEST;
	uint8_t *to = r->host ? r->host + (m->offset - r->first) : NULL;

	if (to && !spoilt)
		memcpy(to, from, (size_t)n);
	else if (to)
		memset(to, 0xff, (size_t)n);
}

/* Tables and ranges */

/* SDM "ToPA Errors". Reads the entry that `index` names in the table at `base`, and follows it if
 * it is END. */
static bool is_malformed(const struct ptah_model *m, uint64_t entry, bool first, bool single)
{
	if (entry & ENTRY_RESERVED || entry >> m->is->physical_bits)
		return true;
	if (!(entry & PTAH_TOPA_END)) {
		uint64_t size = SMALLEST << (entry >> PTAH_TOPA_SIZE & 15);

		/* With single-entry tables the second entry must be END. */
		return (single && !first) || (entry & ~UINT64_C(0xfff) & (size - 1));
	}
	if (entry & (PTAH_TOPA_INT | PTAH_TOPA_STOP) || first)
		return true;
	return single && (entry & ~UINT64_C(0xfff)) != m->base;
}

static uint64_t next_entry(struct ptah_model *m)
{
	const bool cached = m->next_cached;

	m->next_cached = false;
	return cached ? m->next_entry : load_entry(m, m->base + (m->index >> 7) * UINT64_C(8));
}

static void read_entry(struct ptah_model *m)
{
	const bool single = !(m->is->leaf_14_0[2] & 2); /* CPUID.14H.0:ECX.MENTRY */

	for (;;) {
		uint64_t entry;

		if (m->base & (TABLE_ALIGN - 1)) {
			meet_error(m);
			return;
		}
		entry = next_entry(m);
		if (is_malformed(m, entry, m->index >> 7 == 0, single)) {
			meet_error(m);
			return;
		}
		if (!(entry & PTAH_TOPA_END)) {
			m->region.base = entry & ~UINT64_C(0xfff);
			m->region.size = SMALLEST << (entry >> PTAH_TOPA_SIZE & 15);
			m->region.stop = entry & PTAH_TOPA_STOP;
			m->region.interrupt = entry & PTAH_TOPA_INT;
			break;
		}
		/* The loop runs at most twice, because END in entry 0 is an error. */
		m->base = entry & ~UINT64_C(0xfff);
		m->index = 0x7f;
		m->offset = 0;
	}
	if (m->offset >= m->region.size) {
		meet_error(m);
		return;
	}
	m->region_known = true;
	m->region.first = m->region.end = m->offset;
	m->early_pmi = false;
	if (m->faults.cache_next) {
		m->next_entry = load_entry(m, m->base + ((m->index >> 7) + 1) * UINT64_C(8));
		m->next_cached = m->index < LAST_INDEX;
	}
}

/* SDM "Single-Range Output": mask not contiguous, base inside the mask, offset beyond it. */
static void read_range(struct ptah_model *m)
{
	const uint64_t mask = m->index | 0x7f;

	if (mask & (mask + 1) || m->base & mask || m->offset > mask) {
		meet_error(m);
		return;
	}
	m->region.base = m->base;
	m->region.size = mask + 1;
	m->region.stop = m->region.interrupt = false;
	m->region_known = true;
	m->region.first = m->region.end = m->offset;
}

static void take_region(struct ptah_model *m)
{
	if (is_topa(m))
		read_entry(m);
	else
		read_range(m);
}

/* The last byte of the region is written. */
static void leave_region(struct ptah_model *m)
{
	const bool interrupt = m->region.interrupt && !m->early_pmi;

	if (m->region.stop) { /* the registers stay as they are, with an offset equal to the
				 region's size */
		m->region_known = false;
		lose_trigger(m, PTAH_RTIT_STATUS_STOPPED);
		if (interrupt)
			model_pmi_raise(m);
		return;
	}
	if (interrupt)
		model_pmi_raise(m);
	m->offset = 0;
	if (!is_topa(m)) {
		m->region.first = m->region.end = 0;
		return;
	}
	m->index += 0x80; /* after the last entry it is 0 again, in the same table */
	take_region(m);
}

/* Bytes that can be written before the region needs attention. */
static uint64_t region_room(const struct ptah_model *m)
{
	uint64_t room = m->region.size - m->offset;

	/* SDM "Single Output Region ToPA Implementation": the PMI comes before the region is full.
	 */
	if (m->region.interrupt && !m->early_pmi && m->is->pmi_margin && room > m->is->pmi_margin)
		room -= m->is->pmi_margin;
	return room;
}

static void count_bytes(struct ptah_model *m, uint64_t n)
{
	const uint64_t period = model_psb_period(m);

	m->bytes += n;
	m->psb_count += n;
	if (m->psb_count < period)
		return;
	m->psb_count %= period;
	m->psb_due = true;
	if (m->ctl & PTAH_RTIT_CTL_INJECT_PSBPMI)
		m->status |= PTAH_RTIT_STATUS_PEND_PSB;
}

/* Writes at least one of n bytes, and returns how many. */
static uint64_t put(struct ptah_model *m, const uint8_t *from, uint64_t n)
{
	uint64_t room;

	if (is_fabric(m) && model_trigger_en(m)) {
		count_bytes(m, n);
		return n;
	}
	if (!m->region_known) {
		m->dropped += n;
		if (m->dead && !(m->status & PTAH_RTIT_STATUS_ERROR) &&
		    m->dropped - m->dead_at >= m->faults.error_delay)
			show_error(m);
		return n;
	}
	if (m->offset >= m->region.end)
		map_region(m);
	room = m->region.end - m->offset;
	if (room > region_room(m))
		room = region_room(m);
	if (n > room)
		n = room;
	store(m, from, n);
	m->offset += (uint32_t)n;
	count_bytes(m, n);
	if (m->offset == m->region.size) {
		leave_region(m);
	} else if (m->region.interrupt && !m->early_pmi && m->is->pmi_margin &&
		   m->region.size - m->offset <= m->is->pmi_margin) {
		m->early_pmi = true;
		model_pmi_raise(m);
	}
	return n;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void set_limit(struct ptah_model *m)
{
	uint64_t room = m->staging_size - GENERATOR_BURST;

	m->g.out = m->staging;
	if (m->region_known) {
		room = least(room, region_room(m));
		room = least(room, model_psb_period(m) - m->psb_count);
		if (m->pmi_pending && m->pmi_bytes > m->bytes)
			room = least(room, m->pmi_bytes - m->bytes);
	} else if (is_fabric(m)) {
		room = least(room, model_psb_period(m) - m->psb_count);
	} else if (m->dead && !(m->status & PTAH_RTIT_STATUS_ERROR)) {
		room = least(room, m->faults.error_delay - (m->dropped - m->dead_at));
	}
	m->limit = m->staging + room;
}

static void show_registers(struct ptah_model *m)
{
	m->seen_at = m->bytes;
	m->seen_status = model_status(m);
	m->seen_base = m->base;
	m->seen_ptrs = model_mask_ptrs(m);
}

void model_output_settle(struct ptah_model *m)
{
	const uint8_t *from = m->staging;

	while (from < m->g.out)
		from += put(m, from, (uint64_t)(m->g.out - from));
	if (m->bytes - m->seen_at >= m->faults.stale_bytes)
		show_registers(m);
	set_limit(m);
}

void model_output_start(struct ptah_model *m)
{
	model_output_fence(m);
	m->dead = false;
	m->region_known = false;
	m->next_cached = false;
	m->early_pmi = false;
	m->started_at = m->bytes;
	show_registers(m);
	if (model_trigger_en(m) && !is_fabric(m))
		take_region(m);
	set_limit(m);
}

/* The last bytes are not visible yet: memory has other bytes in their place. */
static void withhold(struct ptah_model *m)
{
	uint64_t n = least(least(m->faults.withhold, MODEL_WITHHOLD), m->bytes - m->started_at);
	uint64_t bytes = 0;
	uint8_t *host;

	n = least(n, m->offset);
	if (!n || !m->memory)
		return;
	m->held_at = m->region.base + m->offset - n;
	host = m->memory(m->port, m->held_at, &bytes);
	if (!host || bytes < n)
		return;
	m->held = (uint32_t)n;
	for (uint64_t i = 0; i < n; i++) {
		m->held_bytes[i] = host[i];
		host[i] = (uint8_t)~host[i];
	}
}

void model_output_fence(struct ptah_model *m)
{
	uint64_t bytes = 0;
	uint8_t *host = m->held ? m->memory(m->port, m->held_at, &bytes) : NULL;

	if (host && bytes >= m->held)
		memcpy(host, m->held_bytes, m->held);
	m->held = 0;
}

/* From now on nothing is output. An error that has been met is reported here at the latest. */
static void close_output(struct ptah_model *m)
{
	if (m->dead)
		m->status |= PTAH_RTIT_STATUS_ERROR;
	/* SDM "IA32_RTIT_STATUS MSR", PendTopaPMI: a disable does not lose the PMI: it waits. */
	if (m->ctl & PTAH_RTIT_CTL_INJECT_PSBPMI && m->pmi_pending &&
	    (m->bytes < m->pmi_bytes || m->pmi_boundaries)) {
		m->pmi_pending = false;
		m->global_status &= ~PTAH_PERF_GLOBAL_TRACE_TOPA_PMI;
		m->status |= PTAH_RTIT_STATUS_PEND_TOPA_PMI;
	}
	m->dead = false;
	m->region_known = false;
	set_limit(m);
}

void model_output_stop(struct ptah_model *m)
{
	model_output_settle(m);
	if (m->faults.withhold && m->region_known)
		withhold(m);
	close_output(m);
}

void model_output_discard(struct ptah_model *m)
{
	m->dropped += (uint64_t)(m->g.out - m->staging);
	close_output(m);
}
