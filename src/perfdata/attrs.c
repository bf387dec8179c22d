/* SPDX-License-Identifier: MIT */
/* The perf events of a recording, and which of them a record belongs to. */
#include "perfdata/file.h"

#include "base/bits.h"
#include "base/order.h"
#include "support/list.h"

#include <stdio.h>
#include <stdlib.h>

static int add_id(struct perfdata_file *f, uint64_t id, size_t attr)
{
	if (!LIST_ROOM(f->ids, f->id_count, f->id_capacity))
		return PTAH_E_NOMEM;
	f->ids[f->id_count++] = (struct perfdata_id){id, (uint32_t)attr};
	f->attrs[attr].id_count++;
	f->ids_sorted = false;
	return 0;
}

uint64_t perfdata_sample_bits(const struct perfdata_attr *attr)
{
	if (!(attr->flags & PERFDATA_ATTR_SAMPLE_ID_ALL))
		return 0;
	return attr->sample_type &
	       (PERFDATA_SAMPLE_TID | PERFDATA_SAMPLE_TIME | PERFDATA_SAMPLE_ID |
		PERFDATA_SAMPLE_CPU | PERFDATA_SAMPLE_STREAM_ID | PERFDATA_SAMPLE_IDENTIFIER);
}

/* A field that older and shorter attributes lack. */
static uint64_t late_field(const uint8_t *attr, size_t room, size_t at)
{
	const size_t size = load_le32(attr + PERFDATA_ATTR_AT_SIZE);

	return at + 8 <= room && at + 8 <= size ? load_le64(attr + at) : 0;
}

static int append_attr(struct perfdata_file *f, const struct perfdata_attr *attr)
{
	if (!LIST_ROOM(f->attrs, f->attr_count, f->attr_capacity))
		return PTAH_E_NOMEM;
	f->attrs[f->attr_count++] = *attr;
	f->same_sample_ids = (f->attr_count == 1 || f->same_sample_ids) &&
			     perfdata_sample_bits(attr) == perfdata_sample_bits(f->attrs);
	return 0;
}

/* `room`: bytes at `attr`, PERFDATA_ATTR_SIZE_MIN at least. */
static int add_attr(struct perfdata_file *f, const uint8_t *attr, size_t room)
{
	const struct perfdata_attr a = {
	    .type = load_le32(attr + PERFDATA_ATTR_AT_TYPE),
	    .config = load_le64(attr + PERFDATA_ATTR_AT_CONFIG),
	    .sample_type = load_le64(attr + PERFDATA_ATTR_AT_SAMPLE_TYPE),
	    .read_format = load_le64(attr + PERFDATA_ATTR_AT_READ_FORMAT),
	    .flags = load_le64(attr + PERFDATA_ATTR_AT_FLAGS),
	    .branch_type = late_field(attr, room, PERFDATA_ATTR_AT_BRANCH_TYPE),
	    .regs_user = late_field(attr, room, PERFDATA_ATTR_AT_REGS_USER),
	    .regs_intr = late_field(attr, room, PERFDATA_ATTR_AT_REGS_INTR),
	    .bytes = attr,
	    .size = room,
	};

	return append_attr(f, &a);
}

int perfdata_add_bare_attr(struct perfdata_file *f, uint64_t sample_type, const uint64_t *id)
{
	const struct perfdata_attr attr = {.sample_type = sample_type,
					   .flags = PERFDATA_ATTR_SAMPLE_ID_ALL};
	int status = append_attr(f, &attr);

	return status < 0 || !id ? status : add_id(f, *id, f->attr_count - 1);
}

int perfdata_add_attr(struct perfdata_file *f, struct reader r)
{
	uint32_t size =
	    r.end - r.p >= PERFDATA_ATTR_SIZE_MIN ? load_le32(r.p + PERFDATA_ATTR_AT_SIZE) : 0;
	const uint8_t *attr;
	int status;

	if (size < PERFDATA_ATTR_SIZE_MIN || !(attr = reader_bytes(&r, size)))
		return PTAH_E_BAD_FILE;
	status = add_attr(f, attr, size);
	while (status >= 0 && r.end - r.p >= 8)
		status = add_id(f, reader_u64(&r), f->attr_count - 1);
	return status;
}

int perfdata_read_attrs(struct perfdata_file *f, struct ptah_message *why)
{
	const struct perfdata_part *part = f->parts;
	uint64_t offset = load_le64(part->bytes + PERFDATA_AT_ATTRS);
	uint64_t size = load_le64(part->bytes + PERFDATA_AT_ATTRS + 8);
	uint64_t entry = load_le64(part->bytes + PERFDATA_AT_ATTR_SIZE);
	int status = 0;

	if (!perfdata_in(part, offset, size))
		return perfdata_bad(f, why, PERFDATA_AT_ATTRS,
				    "the header's attributes lie outside the file,");
	if (entry < PERFDATA_ATTR_SIZE_MIN + PERFDATA_SECTION_SIZE || entry > 4096 || size < entry)
		return perfdata_bad(f, why, PERFDATA_AT_ATTR_SIZE,
				    "the header has no usable attributes,");
	for (uint64_t i = 0; i < size / entry && status >= 0; i++) {
		const uint8_t *attr = part->bytes + offset + i * entry;
		const uint8_t *section = attr + entry - PERFDATA_SECTION_SIZE;
		uint64_t ids = load_le64(section), n = load_le64(section + 8) / 8;

		status = add_attr(f, attr, (size_t)(section - attr));
		if (!perfdata_in(part, ids, 8 * n))
			continue;
		/* Sections may overlap, but must not make the list of ids larger than the file. */
		if (n > part->size / 8 - f->id_count)
			return perfdata_bad(f, why, (uint64_t)(section - part->bytes),
					    "the header's ids do not fit in the file,");
		for (uint64_t k = 0; k < n && status >= 0; k++)
			status = add_id(f, load_le64(part->bytes + ids + 8 * k), (size_t)i);
	}
	return status;
}

static int compare_attr_ids(const void *a, const void *b)
{
	const struct perfdata_id *x = a, *y = b;

	return COMPARE_THEN(x->id, y->id, COMPARE(x->attr, y->attr));
}

static struct perfdata_attr *find_attr_of_id(struct perfdata_file *f, uint64_t id)
{
	const struct perfdata_id key = {id, 0};
	size_t at;

	if (!f->ids_sorted && f->id_count)
		qsort(f->ids, f->id_count, sizeof(*f->ids), compare_attr_ids);
	f->ids_sorted = true;
	/* Finds the first that is not smaller. */
	BISECT(at, 0, f->id_count, compare_attr_ids(&f->ids[at], &key) < 0);
	return at < f->id_count && f->ids[at].id == id ? &f->attrs[f->ids[at].attr] : NULL;
}

void perfdata_name_event(struct perfdata_file *f, uint64_t id, const uint8_t *name, size_t n)
{
	static const char sched_switch[] = "sched:sched_switch";
	struct perfdata_attr *attr = find_attr_of_id(f, id);

	if (attr) {
		attr->name = name;
		attr->name_size = n;
	}
	if (attr && attr->type == PERFDATA_TYPE_TRACEPOINT && n > strlen(sched_switch) &&
	    !memcmp(name, sched_switch, sizeof(sched_switch)))
		attr->sched_switch = true;
}

bool perfdata_event(const struct perfdata_file *f, size_t i, struct perfdata_event_info *info)
{
	const struct perfdata_attr *attr = i < f->attr_count ? &f->attrs[i] : NULL;
	size_t size;

	if (!attr || !attr->bytes)
		return false;
	*info = (struct perfdata_event_info){.type = attr->type,
					     .config = attr->config,
					     .sample_type = attr->sample_type,
					     .flags = attr->flags,
					     .id_count = attr->id_count};
	size = attr->size < sizeof(info->attr) ? attr->size : sizeof(info->attr);
	memcpy(info->attr, attr->bytes, size);
	store_le32(info->attr + PERFDATA_ATTR_AT_SIZE, (uint32_t)size);
	if (attr->name)
		snprintf(info->name, sizeof(info->name), "%.*s",
			 (int)strnlen((const char *)attr->name, attr->name_size), attr->name);
	return true;
}

size_t perfdata_event_ids(const struct perfdata_file *f, size_t i, uint64_t *ids, size_t room)
{
	size_t n = 0;

	for (size_t k = 0; k < f->id_count; k++)
		if (f->ids[k].attr == i && n++ < room)
			ids[n - 1] = f->ids[k].id;
	return n < room ? n : room;
}

/*
 * The distance of a record's id from the record's end, in words of eight bytes; 0: it has none. The
 * fields after it are in the order of perf_event.h, "struct sample_id".
 */
static unsigned id_from_end(uint64_t bits)
{
	if (bits & PERFDATA_SAMPLE_IDENTIFIER)
		return 1;
	if (!(bits & PERFDATA_SAMPLE_ID))
		return 0;
	return 1 + !!(bits & PERFDATA_SAMPLE_CPU) + !!(bits & PERFDATA_SAMPLE_STREAM_ID);
}

/* The same from the beginning of a sample's body: "PERF_RECORD_SAMPLE" there. */
static unsigned id_from_begin(uint64_t type)
{
	if (type & PERFDATA_SAMPLE_IDENTIFIER)
		return 1;
	if (!(type & PERFDATA_SAMPLE_ID))
		return 0;
	return 1 +
	       (unsigned)__builtin_popcountll(type & (PERFDATA_SAMPLE_IP | PERFDATA_SAMPLE_TID |
						      PERFDATA_SAMPLE_TIME | PERFDATA_SAMPLE_ADDR));
}

/*
 * The id is looked for where the first event has it: one that has it elsewhere could not be
 * recognised. A record that perf made up itself has the id 0, or none, and ends as those of the
 * first event do.
 */
const struct perfdata_attr *perfdata_attr_of(struct perfdata_file *f, const struct reader *body)
{
	const struct perfdata_attr *attr, *first;
	unsigned words;

	if (!f->attr_count)
		return NULL;
	first = &f->attrs[f->first_attr];
	if (f->same_sample_ids)
		return first;
	words = id_from_end(perfdata_sample_bits(first));
	if (!words || (size_t)(body->end - body->p) < 8 * words)
		return first;
	attr = find_attr_of_id(f, load_le64(body->end - 8 * words));
	return attr && id_from_end(perfdata_sample_bits(attr)) == words ? attr : first;
}

const struct perfdata_attr *perfdata_attr_of_sample(struct perfdata_file *f,
						    const struct reader *body)
{
	const struct perfdata_attr *attr;
	unsigned words;

	if (f->attr_count < 2)
		return f->attr_count ? f->attrs : NULL;
	words = id_from_begin(f->attrs->sample_type);
	if (!words || (size_t)(body->end - body->p) < 8 * words)
		return NULL;
	attr = find_attr_of_id(f, load_le64(body->p + 8 * (words - 1)));
	return attr && id_from_begin(attr->sample_type) == words ? attr : NULL;
}
