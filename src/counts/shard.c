/* SPDX-License-Identifier: MIT */
/* Adds up counted parts of recordings, and makes counts of them when all are there. */
#include "counts/shard_internal.h"

#include "base/order.h"
#include "perfdata/message.h"
#include "session/session.h"
#include "support/list.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int shard_new(struct ptah_shard **shard, uint32_t parts, uint32_t planned, uint64_t plan)
{
	struct ptah_shard *s = calloc(1, sizeof(*s));

	if (!s)
		return PTAH_E_NOMEM;
	s->parts = parts;
	s->planned = planned;
	s->plan = plan;
	s->bits = calloc(1, shard_bitmap_size(parts));
	if (!s->bits) {
		free(s);
		return PTAH_E_NOMEM;
	}
	*shard = s;
	return 0;
}

void shard_forget_counts(struct shard_recording *r)
{
	ptah_counts_free(r->plus);
	ptah_counts_free(r->minus);
	free(r->ranges);
	r->plus = r->minus = NULL;
	r->ranges = NULL;
	r->range_count = r->range_capacity = 0;
}

void ptah_shard_free(struct ptah_shard *shard)
{
	if (!shard)
		return;
	for (size_t i = 0; i < shard->count; i++) {
		shard_forget_counts(&shard->recordings[i]);
		free(shard->recordings[i].name);
	}
	free(shard->recordings);
	free(shard->bits);
	free(shard);
}

struct shard_recording *shard_add_recording(struct ptah_shard *shard, uint32_t index,
					    const char *name, size_t length)
{
	struct shard_recording *r;

	if (!LIST_ROOM(shard->recordings, shard->count, shard->capacity))
		return NULL;
	r = &shard->recordings[shard->count++];
	*r = (struct shard_recording){.index = index};
	r->name = strndup(name, length);
	if (!r->name || ptah_counts_new(&r->plus) < 0 || ptah_counts_new(&r->minus) < 0)
		return NULL;
	return r;
}

struct shard_range *shard_add_range(struct shard_recording *r)
{
	if (!LIST_ROOM(r->ranges, r->range_count, r->range_capacity))
		return NULL;
	memset(&r->ranges[r->range_count], 0, sizeof(*r->ranges));
	return &r->ranges[r->range_count++];
}

int shard_compare_ranges(const void *a, const void *b)
{
	const struct shard_range *x = a, *y = b;

	return COMPARE_THEN(x->stream, y->stream, COMPARE(x->from, y->from));
}

/* Counts to be added and to be subtracted */

/* The process of `counts` that is `p` of the same session; NULL: there is none. */
static struct counts_process *find_shard_program(const struct ptah_counts *counts,
						 const struct counts_process *p)
{
	for (size_t i = counts_first_of_pid(counts, counts->count, p->pid);
	     i < counts->count && counts->processes[i].pid == p->pid; i++)
		if (counts_same_program(&counts->processes[i], p))
			return &counts->processes[i];
	return NULL;
}

/* Takes what both have counted away from both, and finds the files of the rest of `plus`. */
static int cancel_process(struct ptah_counts *counts, struct counts_process *plus,
			  struct counts_process *minus)
{
	int status = counts_cancel(plus, minus);

	return status < 0 || !plus->wholes ? status : counts_locate_in(counts, plus, plus, plus);
}

static void drop_empty(struct ptah_counts *counts)
{
	size_t kept = 0;

	for (size_t i = 0; i < counts->count; i++) {
		struct counts_process *p = &counts->processes[i];

		if (counts_is_empty(p) && !p->permanent)
			counts_free_process(p);
		else
			counts->processes[kept++] = *p;
	}
	counts->count = kept;
}

int shard_cancel(struct shard_recording *r)
{
	int status = 0;

	for (size_t i = 0; i < r->minus->count && status >= 0; i++) {
		struct counts_process *minus = &r->minus->processes[i],
				      *plus = find_shard_program(r->plus, minus);

		minus->permanent = false;
		if (plus)
			status = cancel_process(r->plus, plus, minus);
	}
	drop_empty(r->minus);
	return status;
}

/* Joining */

/* A new process that is the sum of two parts of it; `b` may be NULL. */
static int sum_process(struct ptah_counts *counts, struct counts_process *sum,
		       const struct counts_process *a, const struct counts_process *b)
{
	int status;

	*sum = (struct counts_process){.pid = a->pid, .space = a->space, .order = a->order};
	memcpy(sum->comm, a->comm, sizeof(sum->comm));
	status = counts_join(sum, a);
	if (status >= 0 && b)
		status = counts_join(sum, b);
	if (status >= 0 && (a->wholes || (b && b->wholes)))
		status = counts_locate_in(counts, sum, a, b ? b : a);
	if (status < 0)
		counts_free_process(sum);
	return status;
}

/* Adds a process of another part of the recording. */
static int join_process(struct ptah_counts *into, const struct counts_process *from)
{
	struct counts_process *same = find_shard_program(into, from), sum;
	size_t at = 0;
	int status =
	    same ? sum_process(into, &sum, same, from) : sum_process(into, &sum, from, NULL);

	if (status < 0)
		return status;
	if (same) {
		counts_free_process(same);
	} else {
		at = counts_first_of_pid(into, into->count, from->pid);
		same = counts_insert(into, at);
	}
	if (!same) {
		counts_free_process(&sum);
		return PTAH_E_NOMEM;
	}
	*same = sum;
	return 0;
}

static int join_counts(struct ptah_counts *into, const struct ptah_counts *from)
{
	int status = 0;

	if (!counts_add_sums(&into->sums, &from->sums))
		return PTAH_E_LIMIT;
	for (size_t i = 0; i < from->count && status >= 0; i++)
		status = join_process(into, &from->processes[i]);
	return status;
}

static int join_ranges(struct shard_recording *into, const struct shard_recording *from)
{
	for (size_t i = 0; i < from->range_count; i++) {
		struct shard_range *range = shard_add_range(into);

		if (!range)
			return PTAH_E_NOMEM;
		*range = from->ranges[i];
	}
	if (into->range_count)
		qsort(into->ranges, into->range_count, sizeof(*into->ranges), shard_compare_ranges);
	return 0;
}

static int join_recording(struct shard_recording *into, const struct shard_recording *from)
{
	int status;

	if (from->unread) {
		into->unread = true;
		shard_forget_counts(into);
	}
	if (into->unread)
		return 0;
	into->digest = from->digest;
	status = join_counts(into->plus, from->plus);
	if (status >= 0)
		status = join_counts(into->minus, from->minus);
	if (status >= 0)
		status = join_ranges(into, from);
	return status < 0 ? status : shard_cancel(into);
}

static int by_index(const void *a, const void *b)
{
	const struct shard_recording *x = a, *y = b;

	return COMPARE(x->index, y->index);
}

static struct shard_recording *find_recording(const struct ptah_shard *shard, uint32_t index)
{
	const struct shard_recording key = {.index = index};

	return shard->count ? bsearch(&key, shard->recordings, shard->count, sizeof(key), by_index)
			    : NULL;
}

/* Adds the recordings that are not there yet, without their counts. */
static int add_shard_missing(struct ptah_shard *into, const struct ptah_shard *from)
{
	const size_t count = into->count;

	for (size_t i = 0; i < from->count; i++) {
		const struct shard_recording *r = &from->recordings[i];
		const struct shard_recording key = {.index = r->index};

		if ((!count || !bsearch(&key, into->recordings, count, sizeof(key), by_index)) &&
		    !shard_add_recording(into, r->index, r->name, strlen(r->name)))
			return PTAH_E_NOMEM;
	}
	if (into->count)
		qsort(into->recordings, into->count, sizeof(*into->recordings), by_index);
	return 0;
}

/* The recording of `shard` of which both have counts, or NULL. */
static const struct shard_recording *common_recording(const struct ptah_shard *shard,
						      const struct shard_recording *other)
{
	const struct shard_recording *r = find_recording(shard, other->index);

	return r && !r->unread && !other->unread ? r : NULL;
}

static int compare_shards(const struct ptah_shard *a, const struct ptah_shard *b,
			  struct ptah_message *why)
{
	if (!a || !b || a == b)
		return PTAH_E_INVAL;
	if (a->parts != b->parts)
		return perfdata_message(why, PTAH_E_BAD_FILE,
					"one is of %" PRIu32 " shards, the other one of %" PRIu32,
					a->parts, b->parts);
	if (a->plan != b->plan || a->planned != b->planned)
		return perfdata_message(why, PTAH_E_BAD_FILE,
					"they are of other recordings, or were counted with other "
					"options");
	for (size_t i = 0; i < b->count; i++) {
		const struct shard_recording *r = common_recording(a, &b->recordings[i]);

		if (r && r->digest != b->recordings[i].digest)
			return perfdata_message(why, PTAH_E_BAD_FILE,
						"they were counted from different recordings %s",
						r->name);
	}
	/* Not before: parts of different plans have nothing in common but their numbers. */
	for (uint32_t i = 1; i <= a->parts; i++)
		if (ptah_shard_has(a, i) > 0 && ptah_shard_has(b, i) > 0)
			return perfdata_message(
			    why, 1, "shard %" PRIu32 " of %" PRIu32 " is in both", i, a->parts);
	for (size_t i = 0; i < b->count; i++) {
		const struct shard_recording *r = common_recording(a, &b->recordings[i]);
		struct counts_sums sums;

		if (!r)
			continue;
		sums = r->plus->sums;
		if (!counts_add_sums(&sums, &b->recordings[i].plus->sums))
			return perfdata_message(why, PTAH_E_LIMIT, "%s: sums do not fit in 64 bits",
						r->name);
	}
	return 0;
}

static int join_shards(struct ptah_shard *into, const struct ptah_shard *from,
		       struct ptah_message *why)
{
	int status = compare_shards(into, from, why);

	if (status)
		return status < 0 ? status : PTAH_E_BAD_FILE;
	status = add_shard_missing(into, from);
	for (size_t i = 0; i < from->count && status >= 0; i++)
		status = join_recording(find_recording(into, from->recordings[i].index),
					&from->recordings[i]);
	if (status < 0)
		return perfdata_message(why, status, "%s", ptah_strerror(status));
	for (size_t i = 0; i < shard_bitmap_size(into->parts); i++)
		into->bits[i] |= from->bits[i];
	into->present += from->present;
	return 0;
}

int ptah_shard_join(struct ptah_shard *into, const struct ptah_shard *from, bool check,
		    struct ptah_message *why)
{
	perfdata_message_begin(why);
	return perfdata_message_end(why, check ? compare_shards(into, from, why)
					       : join_shards(into, from, why));
}

/* What callers read */

uint32_t shard_present(const struct ptah_shard *shard)
{
	return shard ? shard->present : 0;
}

int ptah_shard_has(const struct ptah_shard *shard, uint32_t part)
{
	if (!shard || !part || part > shard->parts)
		return PTAH_E_MISSING;
	return shard->bits[(part - 1) / 8] >> (part - 1) % 8 & 1;
}

const char *ptah_shard_unread(const struct ptah_shard *shard, size_t i)
{
	for (size_t k = 0; shard && k < shard->count; k++)
		if (shard->recordings[k].unread && !i--)
			return shard->recordings[k].name;
	return NULL;
}

/* Finishing */

/* Whether each range begins where and as the one before it ended. */
static int check_shard_ranges(const struct shard_recording *r, struct ptah_message *why)
{
	for (size_t i = 0; i < r->range_count; i++) {
		const struct shard_range *range = &r->ranges[i], *before = range - 1;
		const bool first = !i || before->stream != range->stream;
		const bool last = i + 1 == r->range_count || range[1].stream != range->stream;

		if ((first ? range->from != 0
			   : before->to != range->from || before->end != range->begin) ||
		    (last && range->to != UINT64_MAX))
			return perfdata_message(
			    why, PTAH_E_BAD_FILE,
			    "%s: the shards do not meet in stream %" PRIu64 " at offset 0x%" PRIx64
			    ": they were counted by different versions, or with different binaries",
			    r->name, range->stream, first || !last ? range->from : range->to);
	}
	return 0;
}

/* The first error of a stream, whose ranges begin with `range`; NULL: there is none. */
static const struct ptah_item *first_in_stream(const struct shard_range *range,
					       const struct shard_range *end)
{
	const uint64_t stream = range->stream;

	for (; range < end && range->stream == stream; range++) {
		if (range->flags & RANGE_HAS_ERROR)
			return &range->first_error;
		if (range->flags & RANGE_SETTLED)
			return NULL;
	}
	return NULL;
}

/* Sets the first error of a process, which is in the first of its streams that has one. */
static int set_first_error(const struct shard_recording *r, struct counts_process *p)
{
	const struct shard_range *end = r->ranges + r->range_count;

	if (!p->events.errors)
		return 0;
	for (const struct shard_range *range = r->ranges; range && range < end; range++) {
		const struct ptah_item *first;

		if (range->space != p->space || range->from)
			continue;
		first = first_in_stream(range, end);
		if (first) {
			p->events.first_error = *first;
			return 0;
		}
	}
	return PTAH_E_BAD_FILE;
}

/* Completes what was counted of a recording. */
static int finish_recording(const struct shard_recording *r, struct ptah_counts *counts,
			    struct ptah_message *why)
{
	int status = check_shard_ranges(r, why);

	if (status < 0)
		return status;
	status = join_counts(counts, r->plus);
	for (size_t i = 0; i < counts->count && status >= 0; i++)
		status = set_first_error(r, &counts->processes[i]);
	if (status == PTAH_E_BAD_FILE || (status >= 0 && r->minus->count))
		return perfdata_message(why, PTAH_E_BAD_FILE,
					"%s: what the shards counted contradicts itself", r->name);
	drop_empty(counts);
	counts_put_in_order(counts, true);
	return status < 0 ? perfdata_message(why, status, "%s", ptah_strerror(status)) : 0;
}

/* Adds a recording to those before it, as a process does that counts them all. */
static int add_shard_recording(struct ptah_counts **sum, const struct shard_recording *r,
			       struct ptah_message *why)
{
	struct ptah_counts *counts;
	int status;

	if (r->unread)
		return 0;
	if (ptah_counts_new(&counts) < 0)
		return perfdata_message(why, PTAH_E_NOMEM, "out of memory");
	status = finish_recording(r, counts, why);
	if (status >= 0 && !*sum) {
		*sum = counts;
		return 0;
	}
	if (status >= 0) {
		status = ptah_counts_merge(*sum, counts);
		if (status < 0)
			perfdata_message(why, status, "%s: %s", r->name, ptah_strerror(status));
	}
	ptah_counts_free(counts);
	return status;
}

/* Names the parts that are missing, as many as fit. */
static int name_missing(const struct ptah_shard *shard, struct ptah_message *why)
{
	char list[200] = "";
	const uint32_t missing = shard->parts - shard->present;
	size_t at = 0;
	uint32_t first = 1, last;

	for (; first <= shard->parts && at < sizeof(list) - 40; first = last + 1) {
		last = first;
		if (ptah_shard_has(shard, first) > 0)
			continue;
		while (ptah_shard_has(shard, last + 1) == 0)
			last++;
		at += (size_t)snprintf(list + at, sizeof(list) - at,
				       last > first ? "%s%" PRIu32 "-%" PRIu32 : "%s%" PRIu32,
				       at ? ", " : "", first, last);
	}
	return perfdata_message(why, PTAH_E_MISSING, "shard%s %s%s of %" PRIu32 " %s missing",
				missing > 1 ? "s" : "", list, first <= shard->parts ? ", ..." : "",
				shard->parts, missing > 1 ? "are" : "is");
}

static int finish_shard(const struct ptah_shard *shard, struct ptah_counts **counts,
			struct ptah_message *why)
{
	struct ptah_counts *sum = NULL;
	int status = 0;

	if (!shard || !counts)
		return PTAH_E_INVAL;
	if (shard->present < shard->parts)
		return name_missing(shard, why);
	if (shard->count != shard->planned)
		return perfdata_message(why, PTAH_E_BAD_FILE,
					"the shards have %zu recordings of %" PRIu32, shard->count,
					shard->planned);
	for (size_t i = 0; i < shard->count && status >= 0; i++)
		status = add_shard_recording(&sum, &shard->recordings[i], why);
	if (status >= 0 && !sum && ptah_counts_new(&sum) < 0)
		status = perfdata_message(why, PTAH_E_NOMEM, "out of memory");
	if (status < 0) {
		ptah_counts_free(sum);
		return status;
	}
	*counts = sum;
	return 0;
}

int ptah_shard_finish(const struct ptah_shard *shard, struct ptah_counts **counts,
		      struct ptah_message *why)
{
	perfdata_message_begin(why);
	return perfdata_message_end(why, finish_shard(shard, counts, why));
}
