/* SPDX-License-Identifier: MIT */
/*
 * Reports to the model what the guest executes. QEMU calls the plugin when a block begins; how the
 * block before it ended follows from where control is now.
 */
#include "record/system/system.h"

void system_flow_stand(struct system_vcpu *v, uint64_t ip)
{
	v->running = NULL;
	v->at = ip;
	v->known = true;
}

void system_flow_begin(struct system_vcpu *v, const struct system_block *b, uint64_t ip)
{
	struct ptah_model_context context;

	v->cr3 = system_read(v->cpu, HOST_CR3);
	context = system_context(v, b->cpl, b->mode);
	if (model_trace_en(v->model)) {
		ptah_model_stand(v->model, ip);
		return;
	}
	ptah_model_begin(v->model, ip, &context);
	ptah_model_set_tsc(v->model, system_now(v));
}

void system_flow_end(struct system_vcpu *v)
{
	v->traced = false;
	v->known = false;
}

void system_flow_count_trap(struct system_vcpu *v, const struct system_block *b)
{
	if (v->traced)
		system_truth_run(&v->truth, v->model, b->start, b->start + b->sizes[0], 1,
				 PTAH_INSN_OTHER, false);
}

void system_flow_step(struct system_vcpu *v, uint64_t ip)
{
	if (v->traced)
		ptah_model_stand(v->model, ip);
	system_flow_stand(v, ip);
}

/* The number of instructions before `ip`, if one begins there; else -1. */
static int insns_before(const struct system_block *b, uint64_t ip)
{
	uint64_t at = b->start;

	for (int i = 0; i < b->ninsn; at += b->sizes[i++])
		if (at == ip)
			return i;
	return -1;
}

/* Can b, run to its end, lead to `next`? */
static bool leads_to(const struct system_block *b, uint64_t next)
{
	switch (b->kind) {
	case PTAH_INSN_COND:
	case KIND_REP:
		return next == b->end || next == b->target;
	case PTAH_INSN_JUMP:
	case PTAH_INSN_CALL:
		return next == b->target;
	case PTAH_INSN_OTHER:
	case PTAH_INSN_PTWRITE:
		return next == b->end;
	default:
		return true;
	}
}

static void report_far(struct system_vcpu *v, const struct system_block *b, uint64_t next,
		       unsigned cpl, unsigned mode)
{
	const struct ptah_model_transfer far = {.kind = PTAH_MODEL_FAR,
						.ip = b->end - b->last_size,
						.to = next,
						.after = system_context(v, cpl, mode)};

	system_pass_time(v);
	ptah_model_transfer(v->model, &far);
}

static void report_near(struct system_vcpu *v, const struct system_block *b, uint64_t next)
{
	const struct ptah_model_branch branch = {.ip = b->end - b->last_size,
						 .end = b->end,
						 .to = next,
						 .kind = b->kind,
						 .taken = next != b->end};

	ptah_model_branch(v->model, &branch);
}

/* b has run to its end; control is at `next` now. */
static void report(struct system_vcpu *v, const struct system_block *b, uint64_t next, unsigned cpl,
		   unsigned mode)
{
	/* A rep instruction counts once, with its last iteration. */
	const unsigned again = b->kind == KIND_REP && next == b->target;

	system_truth_run(&v->truth, v->model, b->start, again ? b->target : b->end,
			 b->ninsn - again, b->kind, next != b->end);
	switch (b->kind) {
	case PTAH_INSN_FAR_CALL:
	case PTAH_INSN_FAR_JUMP:
	case PTAH_INSN_FAR_RETURN:
		report_far(v, b, next, cpl, mode);
		break;
	case PTAH_INSN_OTHER:
	case PTAH_INSN_PTWRITE:
	case KIND_REP:
		ptah_model_stand(v->model, next);
		if (b->writes_cr3) {
			v->cr3 = system_read(v->cpu, HOST_CR3);
			ptah_model_mov_cr3(v->model, next, v->cr3);
		}
		break;
	default:
		report_near(v, b, next);
	}
}

static void lost(struct system_vcpu *v, const struct system_block *b, uint64_t ip)
{
	if (v->truth.lost++ >= 20)
		return;
	if (b)
		system_say("processor %u: after block %" PRIx64 "-%" PRIx64 " kind %u at %" PRIx64,
			   v->index, b->start, b->end, b->kind, ip);
	else
		system_say("processor %u: expected at %" PRIx64 ", is at %" PRIx64, v->index, v->at,
			   ip);
}

void system_flow_arrive(struct system_vcpu *v, uint64_t ip, bool faulted, unsigned cpl,
			unsigned mode)
{
	const struct system_block *b = v->running;
	int before;

	if (!b) {
		if (v->known && v->at != ip) {
			lost(v, NULL, ip);
			ptah_model_stand(v->model, ip);
		}
		return;
	}
	before = insns_before(b, ip);
	if ((faulted && before >= 0) || !leads_to(b, ip)) {
		if (before < 0)
			lost(v, b, ip);
		else if (before)
			system_truth_run(&v->truth, v->model, b->start, ip, (unsigned)before,
					 PTAH_INSN_OTHER, false);
		ptah_model_stand(v->model, ip);
	} else {
		report(v, b, ip, cpl, mode);
	}
	system_flow_stand(v, ip);
}

void system_flow_interrupted(struct system_vcpu *v, unsigned kind, uint64_t from)
{
	struct ptah_model_transfer transfer = {
	    .kind = (uint8_t)kind, .ip = from, .to = system_read(v->cpu, HOST_RIP)};
	uint8_t cpl, mode;

	system_find_mode(v->cpu, &cpl, &mode);
	transfer.after = system_context(v, cpl, mode);
	system_truth_event(&v->truth, v->model, kind);
	system_pass_time(v);
	ptah_model_transfer(v->model, &transfer);
	system_flow_stand(v, transfer.to);
	if (v->model->pmi_pending)
		system_poll_pmi(v);
}

/* How many blocks may run until the model's clock is set, and until a pending PMI is looked at. */
#define BLOCKS_PER_TIME 64

void system_flow_block(struct system_vcpu *v, const struct system_block *b)
{
	system_flow_arrive(v, b->start, false, b->cpl, b->mode);
	v->model->program.ip = b->start;
	if (UNLIKELY(v->model->pmi_pending) && !++v->pmi_blocks)
		system_poll_pmi(v);
	if (!(v->blocks % BLOCKS_PER_TIME))
		system_pass_time(v);
}
