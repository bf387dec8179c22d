/* SPDX-License-Identifier: MIT */
/*
 * Reads the fields of each type of record: into struct perfdata_record, or into struct
 * perfdata_file where the record describes the whole recording.
 */
#include "perfdata/file.h"
#include "support/list.h"

#include <string.h>

/* Reads the sample id at a record's end: fields of eight bytes, in this order. */
static void read_sample_id(struct perfdata_file *f, struct reader body,
			   struct perfdata_record *record)
{
	const struct perfdata_attr *attr = perfdata_attr_of(f, &body);
	uint64_t bits = attr ? perfdata_sample_bits(attr) : 0;
	size_t size = 8u * (size_t)__builtin_popcountll(bits);

	if ((size_t)(body.end - body.p) < size)
		return;
	body.p = body.end - size;
	if (bits & PERFDATA_SAMPLE_TID) {
		int32_t pid = (int32_t)reader_u32(&body), tid = (int32_t)reader_u32(&body);

		/* pid -1 in a mapping is the kernel's, and stays. */
		if (record->pid < 0 && record->type != PERFDATA_MMAP &&
		    record->type != PERFDATA_MMAP2) {
			record->pid = pid;
			record->tid = tid;
		}
	}
	if (bits & PERFDATA_SAMPLE_TIME)
		record->time = reader_u64(&body);
	if (bits & PERFDATA_SAMPLE_ID)
		record->event = reader_u64(&body);
	if (bits & PERFDATA_SAMPLE_STREAM_ID)
		reader_u64(&body);
	if (bits & PERFDATA_SAMPLE_CPU)
		record->cpu = (int32_t)reader_u64(&body);
	if (bits & PERFDATA_SAMPLE_IDENTIFIER)
		record->event = reader_u64(&body);
}

static void read_ids(struct reader *r, struct perfdata_record *record)
{
	record->pid = (int32_t)reader_u32(r);
	record->tid = (int32_t)reader_u32(r);
}

static void read_field_map(struct reader *r, struct perfdata_record *record, uint16_t misc,
			   bool two)
{
	read_ids(r, record);
	record->address = reader_u64(r);
	record->size = reader_u64(r);
	record->file_offset = reader_u64(r);
	record->executable = !(misc & PERFDATA_MISC_MMAP_DATA);
	if (two) {
		const uint8_t *who = reader_bytes(r, 24);

		if (who && misc & PERFDATA_MISC_MMAP_BUILD_ID && who[0] <= PERFDATA_BUILD_ID_MAX) {
			record->id.size = who[0];
			memcpy(record->id.bytes, who + 4, who[0]);
		}
		record->executable = reader_u32(r) & 4;
		reader_u32(r);
	}
	/* perf writes the kernel's own without a protection. */
	if (record->pid == -1)
		record->executable = true;
	record->text = reader_string(r, &record->text_size);
}

static void read_field_task(struct reader *r, struct perfdata_record *record)
{
	record->pid = (int32_t)reader_u32(r);
	record->ppid = (int32_t)reader_u32(r);
	record->tid = (int32_t)reader_u32(r);
	record->ptid = (int32_t)reader_u32(r);
	record->time = reader_u64(r);
}

/* attr.config of the Intel PT event; 0: there is none. */
static uint64_t pt_config(const struct perfdata_file *f, uint64_t pmu_type)
{
	for (size_t i = 0; i < f->attr_count; i++)
		if (f->attrs[i].type == pmu_type)
			return f->attrs[i].config;
	return 0;
}

static bool traces_kernel(const struct perfdata_file *f, uint64_t pmu_type)
{
	for (size_t i = 0; i < f->attr_count; i++)
		if (f->attrs[i].type == pmu_type &&
		    !(f->attrs[i].flags & PERFDATA_ATTR_EXCLUDE_KERNEL))
			return true;
	return false;
}

/* The value of the field that consists of these bits of config. */
static uint8_t field(uint64_t config, uint64_t bits)
{
	return bits ? (uint8_t)((config & bits) / (bits & -bits)) : 0;
}

static void read_timing(struct perfdata_file *f, const uint64_t *info)
{
	uint64_t config = pt_config(f, info[PERFDATA_INFO_PMU_TYPE]);
	uint64_t n = info[PERFDATA_INFO_TSC_CTC_N], d = info[PERFDATA_INFO_TSC_CTC_D];

	f->has_timing = f->auxtrace == PERFDATA_AUXTRACE_INTEL_PT;
	if (!f->has_timing)
		return;
	if (info[PERFDATA_INFO_MAX_NONTURBO] <= UINT8_MAX)
		f->timing.nominal_ratio = (uint8_t)info[PERFDATA_INFO_MAX_NONTURBO];
	f->timing.tsc = config & info[PERFDATA_INFO_TSC_BIT];
	f->timing.mtc = config & info[PERFDATA_INFO_MTC_BIT];
	f->timing.cyc = config & info[PERFDATA_INFO_CYC_BIT];
	if (f->timing.cyc)
		f->timing.cyc_thresh = field(config, PERFDATA_PT_CYC_THRESH);
	f->timing.event_trace = config & PERFDATA_PT_EVENT;
	f->timing.no_tnt = config & PERFDATA_PT_NOTNT;
	f->timing.no_retcomp = config & PERFDATA_PT_NORETCOMP;
	if (!f->timing.mtc || n > UINT32_MAX || d > UINT32_MAX)
		return;
	f->timing.mtc_freq = field(config, info[PERFDATA_INFO_MTC_FREQ_BITS]) & 15;
	f->timing.tsc_n = (uint32_t)n;
	f->timing.tsc_d = (uint32_t)d;
}

static void read_info(struct perfdata_file *f, struct reader *r)
{
	uint64_t info[PERFDATA_INFO_MAX] = {0};
	uint32_t source;

	f->auxtrace = reader_u32(r);
	source = reader_u32(r);
	f->time_source = (source & PERFDATA_TIME_MARK_MASK) == PERFDATA_TIME_MARK
			     ? source & ~PERFDATA_TIME_MARK_MASK
			     : PERFDATA_TIME_NOT_SAID;
	for (unsigned i = 0; i < PERFDATA_INFO_MAX && (size_t)(r->end - r->p) >= 8; i++)
		info[i] = reader_u64(r);
	f->snapshot = info[PERFDATA_INFO_SNAPSHOT];
	f->per_cpu = info[PERFDATA_INFO_PER_CPU];
	f->kernel = traces_kernel(f, info[PERFDATA_INFO_PMU_TYPE]);
	read_timing(f, info);
	f->filter = r->p;
	f->filter_size = info[PERFDATA_INFO_FILTER_LENGTH] <= (size_t)(r->end - r->p)
			     ? (size_t)info[PERFDATA_INFO_FILTER_LENGTH]
			     : 0;
	f->has_clock =
	    f->auxtrace == PERFDATA_AUXTRACE_INTEL_PT && info[PERFDATA_INFO_CAP_TIME_ZERO] &&
	    (uint32_t)info[PERFDATA_INFO_TIME_MULT] && info[PERFDATA_INFO_TIME_SHIFT] < 64;
	if (!f->has_clock)
		return;
	f->clock = (struct perfdata_clock){
	    .shift = (uint16_t)info[PERFDATA_INFO_TIME_SHIFT],
	    .mult = (uint32_t)info[PERFDATA_INFO_TIME_MULT],
	    .zero = info[PERFDATA_INFO_TIME_ZERO],
	};
}

static void read_auxtrace(struct reader *r, struct perfdata_record *record)
{
	record->trace_size = reader_u64(r);
	record->trace_offset = reader_u64(r);
	reader_u64(r);
	record->index = reader_u32(r);
	record->tid = (int32_t)reader_u32(r);
	record->cpu = (int32_t)reader_u32(r);
}

static void read_ptah(struct reader *r, struct perfdata_record *record)
{
	uint32_t n;

	if (reader_u32(r) != PERFDATA_PTAH_MAGIC || reader_u32(r) != PERFDATA_PTAH_VERSION) {
		r->failed = false; /* not a record of Ptah's: tag 0 */
		return;
	}
	record->tag = reader_u32(r);
	n = reader_u32(r);
	if (record->tag == PERFDATA_PTAH_TRUTH) {
		record->index = reader_u32(r);
		read_ids(r, record);
		reader_u32(r);
		record->truth.instructions = reader_u64(r);
		record->truth.conditional = reader_u64(r);
		record->truth.indirect = reader_u64(r);
		record->truth.returns = reader_u64(r);
		record->truth.path_hash = reader_u64(r);
		record->lost = reader_u64(r);
	} else if (record->tag == PERFDATA_PTAH_CODE) {
		record->pid = (int32_t)reader_u32(r);
		record->size = reader_u32(r);
		record->tsc = reader_u64(r);
		record->address = reader_u64(r);
		record->bytes = reader_bytes(r, record->size);
	} else if (record->tag == PERFDATA_PTAH_VDSO) {
		record->number = reader_u32(r);
		record->size = reader_u32(r);
		record->bytes = reader_bytes(r, record->size);
	} else if (record->tag == PERFDATA_PTAH_PAGE) {
		record->index = reader_u32(r);
		record->size = reader_u32(r);
		record->bytes = reader_bytes(r, record->size);
	} else if (record->tag == PERFDATA_PTAH_GUEST_MAP) {
		record->cpu = (int32_t)reader_u32(r);
		record->index = reader_u32(r);
		record->tsc = reader_u64(r);
		record->address = reader_u64(r);
		record->number = reader_u64(r);
	} else if (record->tag == PERFDATA_PTAH_SPACE) {
		record->number = reader_u64(r);
		record->tsc = reader_u64(r);
		record->text = (const char *)reader_bytes(r, PERFDATA_PTAH_SPACE_SIZE - 16);
		record->text_size = record->text ? strnlen(record->text, 15) : 0;
	} else if (record->tag == PERFDATA_PTAH_NOTE) {
		record->text = (const char *)reader_bytes(r, n);
		record->text_size = n;
	} else if (record->tag == PERFDATA_PTAH_HIT && n > PERFDATA_PTAH_HIT_HEADER) {
		record->hit_time = reader_u64(r);
		record->hit_since = reader_u64(r);
		read_ids(r, record);
		record->text_size = n - PERFDATA_PTAH_HIT_HEADER;
		record->text = (const char *)reader_bytes(r, record->text_size);
	} else if (record->tag == PERFDATA_PTAH_HIT) {
		record->tag = 0;
	}
}

/*
 * SWITCH: the sample id says which thread. SWITCH_CPU_WIDE, of a whole CPU, also has the thread
 * that comes next, or that was there before.
 */
static void read_switch(struct reader *r, struct perfdata_record *record, uint16_t misc, bool wide)
{
	record->out = misc & PERFDATA_MISC_SWITCH_OUT;
	record->preempted = record->out && misc & PERFDATA_MISC_PREEMPTED;
	record->ppid = record->ptid = -1;
	if (!wide)
		return;
	record->ppid = (int32_t)reader_u32(r);
	record->ptid = (int32_t)reader_u32(r);
}

int perfdata_read_piped(struct perfdata_file *f, struct reader *r, const uint8_t *begin,
			uint32_t type, struct ptah_message *why)
{
	uint64_t id;

	switch (type) {
	case PERFDATA_HEADER_ATTR:
		return perfdata_add_attr(f, *r);
	case PERFDATA_HEADER_FEATURE:
		id = reader_u64(r);
		return id < PERFDATA_FEATURE_MAX
			   ? perfdata_read_feature(f, (unsigned)id,
						   (struct reader){r->p, r->end, false}, why)
			   : 0;
	case PERFDATA_EVENT_UPDATE:
		id = reader_u64(r) == PERFDATA_EVENT_UPDATE_NAME ? reader_u64(r) : 0;
		if (id)
			perfdata_name_event(f, id, r->p, (size_t)(r->end - r->p));
		return 0;
	case PERFDATA_HEADER_BUILD_ID:
		if (!LIST_ROOM(f->more_build_ids, f->build_id_count, f->build_id_capacity))
			return PTAH_E_NOMEM;
		f->more_build_ids[f->build_id_count++] = (struct reader){begin, r->end, false};
		return 0;
	default:
		return 0;
	}
}

static void read_ksymbol(struct reader *r, struct perfdata_record *record)
{
	record->address = reader_u64(r);
	record->size = reader_u32(r);
	reader_u16(r); /* the kind: BPF, or code that the kernel has copied elsewhere */
	record->removed = reader_u16(r) & PERFDATA_KSYMBOL_UNREGISTER;
	record->text = reader_string(r, &record->text_size);
}

/* False: neither loaded nor unloaded. */
static bool read_bpf_event(struct reader *r, struct perfdata_record *record)
{
	const uint16_t type = reader_u16(r);

	reader_u16(r);
	record->program = reader_u32(r);
	record->removed = type == PERFDATA_BPF_UNLOAD;
	return type == PERFDATA_BPF_LOAD || type == PERFDATA_BPF_UNLOAD;
}

static void read_text_poke(struct reader *r, struct perfdata_record *record)
{
	record->address = reader_u64(r);
	record->old_size = reader_u16(r);
	record->size = reader_u16(r);
	record->bytes = reader_bytes(r, record->old_size + record->size);
}

/*
 * Whether a record is about a virtual machine: whose processes, memory and kernel are others, with
 * the same numbers. "perf inject --guest-data" marks its records by the CPU mode and by ID_INDEX. A
 * sample's mode is only where its CPU was: the trace in it is of the CPU, which has run both.
 */
static bool is_of_guest(struct perfdata_file *f, uint16_t misc,
			const struct perfdata_record *record)
{
	const struct perfdata_place *place;

	if (record->type >= PERFDATA_USER)
		return false;
	if (record->type != PERFDATA_SAMPLE && perfdata_is_guest_mode(misc))
		return true;
	place = f->has_guests ? perfdata_find_place(f, record->event) : NULL;
	return place && place->guest;
}

static bool read_fields(struct perfdata_file *f, struct reader *r, uint16_t misc,
			struct perfdata_record *record)
{
	struct reader body = *r;

	switch (record->type) {
	case PERFDATA_MMAP:
	case PERFDATA_MMAP2:
		read_field_map(r, record, misc, record->type == PERFDATA_MMAP2);
		break;
	case PERFDATA_COMM:
		read_ids(r, record);
		record->exec = misc & PERFDATA_MISC_COMM_EXEC;
		record->text = reader_string(r, &record->text_size);
		break;
	case PERFDATA_FORK:
	case PERFDATA_EXIT:
		read_field_task(r, record);
		break;
	case PERFDATA_ITRACE_START:
		read_ids(r, record);
		break;
	case PERFDATA_SWITCH:
	case PERFDATA_SWITCH_CPU_WIDE:
		read_switch(r, record, misc, record->type == PERFDATA_SWITCH_CPU_WIDE);
		break;
	case PERFDATA_SAMPLE:
		return perfdata_read_sample(f, r, record);
	case PERFDATA_ID_INDEX:
		perfdata_read_id_index(f, r);
		return false;
	case PERFDATA_NAMESPACES:
		read_ids(r, record);
		record->number = reader_u64(r);
		record->bytes = reader_bytes(r, record->number <= UINT16_MAX ? 16 * record->number
									     : UINT64_MAX);
		break;
	case PERFDATA_CGROUP:
		record->number = reader_u64(r);
		record->text = reader_string(r, &record->text_size);
		break;
	case PERFDATA_KSYMBOL:
		read_ksymbol(r, record);
		break;
	case PERFDATA_BPF_EVENT:
		if (!read_bpf_event(r, record))
			return false;
		break;
	case PERFDATA_TEXT_POKE:
		read_text_poke(r, record);
		break;
	case PERFDATA_AUX:
		record->trace_offset = reader_u64(r);
		record->size = reader_u64(r);
		record->lost = reader_u64(r) & (PERFDATA_AUX_TRUNCATED | PERFDATA_AUX_PARTIAL |
						PERFDATA_AUX_COLLISION);
		break;
	case PERFDATA_LOST:
		reader_u64(r);
		record->lost = reader_u64(r);
		break;
	case PERFDATA_LOST_SAMPLES:
		record->lost = reader_u64(r);
		break;
	case PERFDATA_AUXTRACE_INFO:
		read_info(f, r);
		return false;
	case PERFDATA_AUXTRACE:
		read_auxtrace(r, record);
		return true;
	case PERFDATA_HEADER_EVENT_TYPE:
		read_ptah(r, record);
		return record->tag != 0;
	default:
		return false;
	}
	read_sample_id(f, body, record);
	return true;
}

bool perfdata_read_record(struct perfdata_file *f, struct reader *r, uint16_t misc,
			  struct perfdata_record *record)
{
	return read_fields(f, r, misc, record) && !is_of_guest(f, misc, record);
}
