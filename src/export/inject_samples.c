/* SPDX-License-Identifier: MIT */
/*
 * Goes through the items of a stream, keeps the return addresses and the last branches of each
 * thread, and writes samples. Where perf's decoder has a rule of its own (which branches a call
 * chain follows, what a branch to outside of the trace looks like), it is followed, so that perf's
 * tools show the same.
 */
#include "export/inject_samples.h"

#include "base/bits.h"
#include "export/branches.h"
#include "export/row_ids.h"
#include "perfdata/format.h"
#include "support/list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH	   256
#define MOST_INSNS 255
/* A stack forgets its oldest frames beyond this; a return is looked for among the newest. */
#define MOST_FRAMES (1u << 16)
#define MOST_LOOKED 4096u

/* perf's marks in call chains (perf_event.h): what follows is code of the kernel, or of a process.
 */
#define CONTEXT_KERNEL ((uint64_t)-128)
#define CONTEXT_USER   ((uint64_t)-512)
#define KERNEL_START   (UINT64_C(1) << 63)

/* AUXTRACE_ERROR: struct perf_record_auxtrace_error of perf. */
#define RECORD_ERROR_SIZE 112
#define RECORD_ERROR_TEXT 64

struct return_site {
	uint64_t address;
	bool trace_end; /* the call left the trace */
};

struct last_branch {
	uint64_t from, to;
};

struct sampled_thread {
	int32_t pid, tid;
	struct return_site *sites; /* the oldest first */
	size_t count, room;
	struct last_branch *last; /* a ring of itrace.branch_stack; NULL: none */
	size_t last_count, last_at;
};

struct sampler {
	struct sample_output *output;
	const struct itrace *itrace;
	struct pair_ids ids; /* pid and tid -> index of its thread + 1 */
	struct sampled_thread *threads;
	size_t thread_count;
	struct ptah_reader *reader; /* of the current stream */
	struct ptah_stream_info stream;
	struct sampled_thread *thread;
	struct branches branches;
	uint64_t instructions; /* since the last sample */
	uint64_t last;	       /* time of the last sample, in units of the period; 0: none */
	uint8_t record[65536];
	size_t size;
};

/* Threads */

static struct sampled_thread *thread_of(struct sampler *s, const struct ptah_thread *who)
{
	int64_t *slot = pair_ids_at(&s->ids, (uint32_t)who->pid, (uint32_t)who->tid);
	struct sampled_thread *t;

	if (!slot)
		return NULL;
	if (*slot > 0)
		return &s->threads[*slot - 1];
	if (!LIST_ADD(s->threads, s->thread_count))
		return NULL;
	*slot = (int64_t)s->thread_count;
	t = &s->threads[s->thread_count - 1];
	t->pid = who->pid;
	t->tid = who->tid;
	return t;
}

static void forget_threads(struct sampler *s)
{
	for (size_t i = 0; i < s->thread_count; i++) {
		free(s->threads[i].sites);
		free(s->threads[i].last);
	}
	s->thread_count = 0;
	pair_ids_clear(&s->ids);
}

/* Return addresses */

static bool push_site(struct sampled_thread *t, uint64_t address, bool trace_end)
{
	if (t->count == MOST_FRAMES) {
		t->count /= 2;
		memmove(t->sites, t->sites + t->count, t->count * sizeof(*t->sites));
	}
	if (!LIST_ROOM(t->sites, t->count, t->room))
		return false;
	t->sites[t->count++] = (struct return_site){address, trace_end};
	return true;
}

/* Calls that did not return were left by a jump; a return to an unknown place changes nothing. */
static void pop_site(struct sampled_thread *t, uint64_t address)
{
	const size_t least = t->count > MOST_LOOKED ? t->count - MOST_LOOKED : 0;

	for (size_t i = t->count; i-- > least;)
		if (t->sites[i].address == address) {
			t->count = i;
			return;
		}
}

static bool follow_branch(struct sampled_thread *t, const struct branch *b)
{
	const uint64_t site = b->from + b->size;

	if (b->flags & BRANCH_CALL)
		return site == b->to || push_site(t, site, b->flags & BRANCH_END);
	if (b->flags & (BRANCH_BEGIN | BRANCH_RETURN) && b->to)
		pop_site(t, b->to);
	/* A call that left the trace is not expected to return. */
	while (b->flags & BRANCH_BEGIN && t->count && t->sites[t->count - 1].trace_end)
		t->count--;
	return true;
}

static bool keep_branch(struct sampler *s, uint64_t from, uint64_t to)
{
	struct sampled_thread *t = s->thread;
	const size_t room = s->itrace->branch_stack;

	if (!room)
		return true;
	if (!t->last)
		t->last = calloc(room, sizeof(*t->last));
	if (!t->last)
		return false;
	t->last[t->last_at] = (struct last_branch){from, to};
	t->last_at = (t->last_at + 1) % room;
	t->last_count += t->last_count < room;
	return true;
}

/* Writing samples */

static void put32(struct sampler *s, uint32_t value)
{
	store_le32(s->record + s->size, value);
	s->size += 4;
}

static void put64(struct sampler *s, uint64_t value)
{
	store_le64(s->record + s->size, value);
	s->size += 8;
}

static uint64_t context_of(uint64_t ip)
{
	return ip >= KERNEL_START ? CONTEXT_KERNEL : CONTEXT_USER;
}

/* The callers, the innermost first, with a mark wherever kernel and process change. */
static void put_call_chain(struct sampler *s, uint64_t ip)
{
	const struct sampled_thread *t = s->thread;
	const size_t most = s->itrace->call_chain + 1;
	const size_t begin = s->size;
	uint64_t context = context_of(ip);
	size_t n = 2;

	put64(s, 0);
	put64(s, context);
	put64(s, ip);
	for (size_t i = t->count; i-- > 0 && n < most; n++) {
		const uint64_t site = t->sites[i].address;

		if (context_of(site) != context) {
			if (n + 1 >= most)
				break;
			context = context_of(site);
			put64(s, context);
			n++;
		}
		put64(s, site);
	}
	store_le64(s->record + begin, n);
}

static void put_last_branches(struct sampler *s)
{
	struct sampled_thread *t = s->thread;
	const size_t room = s->itrace->branch_stack;

	put64(s, t->last_count);
	for (size_t i = 1; i <= t->last_count; i++) {
		const struct last_branch *b = &t->last[(t->last_at + room - i) % room];

		put64(s, b->from);
		put64(s, b->to);
		put64(s, 0); /* predictions are not in a trace */
	}
	t->last_count = 0;
}

struct sample {
	uint64_t id, ip, address, period, tsc;
	bool instruction; /* with call chain and branches */
};

static uint64_t time_of(const struct sampler *s, uint64_t tsc)
{
	const uint64_t time = tsc ? ptah_session_time(s->output->inject->session, tsc) : 0;

	return time ? time : s->output->no_time;
}

static int write_sample(struct sampler *s, const struct sample *a)
{
	struct inject *inject = s->output->inject;
	const uint64_t type = s->output->sample_type;

	if (inject->skipped < s->itrace->skip) {
		inject->skipped++;
		return 0;
	}
	s->size = 0;
	put32(s, PERFDATA_SAMPLE);
	put32(s, (a->ip ? a->ip : a->address) >= KERNEL_START ? PERFDATA_MISC_KERNEL
							      : PERFDATA_MISC_USER);
	if (type & PERFDATA_SAMPLE_IDENTIFIER)
		put64(s, a->id);
	put64(s, a->ip);
	put32(s, (uint32_t)s->thread->pid);
	put32(s, (uint32_t)s->thread->tid);
	if (type & PERFDATA_SAMPLE_TIME)
		put64(s, time_of(s, a->tsc));
	if (!a->instruction)
		put64(s, a->address);
	if (type & PERFDATA_SAMPLE_ID)
		put64(s, a->id);
	if (type & PERFDATA_SAMPLE_STREAM_ID)
		put64(s, a->id);
	if (type & PERFDATA_SAMPLE_CPU) {
		put32(s, (uint32_t)s->stream.cpu);
		put32(s, 0);
	}
	put64(s, a->period);
	if (a->instruction && s->itrace->call_chain)
		put_call_chain(s, a->ip);
	if (a->instruction && s->itrace->branch_stack)
		put_last_branches(s);
	store_le16(s->record + 6, (uint16_t)s->size);
	inject->samples++;
	return perfdata_write_raw(s->output->writer, s->record, s->size);
}

/* Losses and errors become the records by which perf counts them. */
static int write_error(struct sampler *s, const struct ptah_item *item)
{
	const bool overflow = item->type == PTAH_ITEM_OVERFLOW;
	const char *text = overflow ? "Overflow packet" : ptah_strerror(item->status);

	if (!s->itrace->errors || (overflow && s->itrace->no_overflows))
		return 0;
	memset(s->record, 0, RECORD_ERROR_SIZE);
	s->size = 0;
	put32(s, PERFDATA_AUXTRACE_ERROR);
	put32(s, RECORD_ERROR_SIZE << 16);
	put32(s, 1); /* of instruction tracing */
	put32(s, overflow ? 8 : item->status == PTAH_E_NO_CODE ? 5 : 6);
	put32(s, (uint32_t)s->stream.cpu);
	put32(s, (uint32_t)(s->thread ? s->thread->pid : -1));
	put32(s, (uint32_t)(s->thread ? s->thread->tid : -1));
	put32(s, 1); /* the format: with a time */
	put64(s, item->ip);
	put64(s, time_of(s, item->tsc));
	snprintf((char *)s->record + s->size, RECORD_ERROR_TEXT, "%s", text);
	return perfdata_write_raw(s->output->writer, s->record, RECORD_ERROR_SIZE);
}

/* Branches */

static bool wants_branch(const struct itrace *t, unsigned kind)
{
	if (!t->calls && !t->returns)
		return t->branches;
	return (t->calls && kind & (BRANCH_CALL | BRANCH_ASYNC | BRANCH_END)) ||
	       (t->returns && kind & (BRANCH_RETURN | BRANCH_BEGIN));
}

static int take_branch(void *sampler, const struct branch *b)
{
	struct sampler *s = sampler;
	const struct sample sample = {.id = s->output->branches_id,
				      .ip = b->from,
				      .address = b->to,
				      .period = 1,
				      .tsc = b->tsc};

	if (!follow_branch(s->thread, b) || !keep_branch(s, b->from, b->to))
		return PTAH_E_NOMEM;
	return wants_branch(s->itrace, b->flags) ? write_sample(s, &sample) : 0;
}

/* Instructions */

/* How many instructions of this block run until the next sample; 0: it is not in this block. */
static uint64_t next_sample(struct sampler *s, const struct ptah_item *block, uint64_t done)
{
	const struct itrace *t = s->itrace;
	const uint64_t left = block->ninsn - done;
	uint64_t now;

	if (t->unit == ITRACE_INSTRUCTIONS || !t->period) {
		const uint64_t period = t->period ? t->period : 1;

		return period - s->instructions <= left ? period - s->instructions : 0;
	}
	/* By time there is one sample in a block at most: within it, no time is known. */
	now = t->unit == ITRACE_TICKS ? block->tsc
				      : ptah_session_time(s->output->inject->session, block->tsc);
	if (!s->last)
		s->last = now;
	if (!left || !now || now - s->last < t->period)
		return 0;
	s->last = now;
	return left;
}

/* The address of instruction k of a block. */
static uint64_t address_of(struct sampler *s, const struct ptah_item *block, uint64_t k,
			   struct ptah_insn *insns, int *known)
{
	if (k + 1 == block->ninsn && block->last_size)
		return block->end - block->last_size;
	if (!k)
		return block->ip;
	if (*known < 0)
		*known = ptah_reader_insns(s->reader, block, insns, MOST_INSNS);
	return (int64_t)k < *known ? insns[k].ip : block->ip;
}

static int sample_block(struct sampler *s, const struct ptah_item *block)
{
	struct ptah_insn insns[MOST_INSNS];
	int known = -1, status = 0;
	uint64_t done = 0, n;

	while (s->itrace->instructions && status >= 0 && (n = next_sample(s, block, done)) > 0) {
		const struct sample sample = {.id = s->output->instructions_id,
					      .ip =
						  address_of(s, block, done + n - 1, insns, &known),
					      .period = s->instructions + n,
					      .tsc = block->tsc,
					      .instruction = true};

		done += n;
		s->instructions = 0;
		status = write_sample(s, &sample);
		s->output->inject->instructions += sample.period;
	}
	s->instructions += block->ninsn - done;
	return status;
}

static int take_item(struct sampler *s, const struct ptah_item *item)
{
	int status = branches_take(&s->branches, item);

	if (status < 0)
		return status;
	s->output->inject->errors += item->type == PTAH_ITEM_ERROR;
	if (item->type == PTAH_ITEM_ERROR || item->type == PTAH_ITEM_OVERFLOW)
		return write_error(s, item);
	return item->type == PTAH_ITEM_BLOCK ? sample_block(s, item) : 0;
}

static int take_items(struct sampler *s, const struct ptah_item *items, size_t n)
{
	struct ptah_thread who;
	int status = 0;

	if (ptah_reader_thread(s->reader, &who) < 0)
		who = (struct ptah_thread){.pid = s->stream.pid, .tid = s->stream.tid};
	/* What one thread did last is not followed by what the next one does. */
	if (s->thread && s->thread->tid != who.tid)
		branches_cut(&s->branches);
	s->thread = thread_of(s, &who);
	if (!s->thread)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < n && status >= 0; i++)
		status = take_item(s, &items[i]);
	return status;
}

int sampler_read(struct sampler *s, size_t stream)
{
	struct inject *inject = s->output->inject;
	const struct ptah_jobs jobs = {.size = sizeof(jobs), .jobs = inject->jobs};
	struct ptah_item items[BATCH];
	int n, status = ptah_session_stream_info(inject->session, stream, &s->stream);

	if (status >= 0)
		status = ptah_reader_new(inject->session, stream, &jobs, &s->reader);
	if (status < 0)
		return status;
	s->thread = NULL;
	s->branches = (struct branches){.reader = s->reader, .take = take_branch, .context = s};
	s->instructions = s->last = 0;
	while (status >= 0 && (n = ptah_reader_read(s->reader, items, BATCH)) != 0) {
		status = n < 0 ? n : take_items(s, items, (size_t)n);
		inject->stopped = !inject->step(inject->context, ptah_reader_offset(s->reader));
		if (inject->stopped)
			break;
	}
	ptah_reader_free(s->reader);
	s->reader = NULL;
	forget_threads(s);
	return status < 0 ? status : 0;
}

int sampler_new(struct sample_output *output, struct sampler **sampler)
{
	struct sampler *s = calloc(1, sizeof(*s));

	if (!s)
		return PTAH_E_NOMEM;
	s->output = output;
	s->itrace = &output->inject->itrace;
	*sampler = s;
	return 0;
}

void sampler_free(struct sampler *s)
{
	if (!s)
		return;
	forget_threads(s);
	free(s->threads);
	pair_ids_free(&s->ids);
	free(s);
}
