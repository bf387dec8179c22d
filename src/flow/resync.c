/* SPDX-License-Identifier: MIT */
/*
 * Continuing after code that could not be followed, without waiting for the next PSB: packets are
 * understood all the time, and some of them carry the address that the program had reached. The
 * caller asks for it after each error (ptah_flow_resync()), or the flow does it by itself
 * (`resync`). Then it continues only where there is code: a kernel that is not in the
 * image is one gap from its entry to its exit, however many addresses it leaves in the trace.
 */
#include "flow/move.h"

/* Whether the event carries an address that the program had reached. */
static bool tells_ip(const struct ptah_item *event)
{
	switch (event->type) {
	case PTAH_ITEM_ASYNC_DISABLED: /* its suppressed address is the one execution went to */
		return true;
	case PTAH_ITEM_PSB: /* these three set the place themselves, */
	case PTAH_ITEM_ENABLED:
	case PTAH_ITEM_OVERFLOW:
	case PTAH_ITEM_TIP: /* these two carry a target: see flow_find_target(), */
	case PTAH_ITEM_EXEC_MODE:
	case PTAH_ITEM_DISABLED: /* these have no address, */
	case PTAH_ITEM_ERROR:
	case PTAH_ITEM_CBR:
	case PTAH_ITEM_MNT:
	case PTAH_ITEM_STOP:
	case PTAH_ITEM_TICK:
	case PTAH_ITEM_TRIGGER: /* and this one's address is that of an earlier instruction */
		return false;
	default:
		return !(event->flags & (PTAH_ITEM_IP_SUPPRESSED | PTAH_ITEM_STATUS));
	}
}

bool flow_is_place(struct ptah_flow *f, uint64_t ip)
{
	int status = 0;

	return !f->resync || code_find(&f->code, ip, f->mode, &status) || status != PTAH_E_NO_CODE;
}

/*
 * A system call or an interrupt that led into missing code has returned when the program continues
 * where it was: its calls are still open. (A kernel returns from its own calls, so the processor's
 * return address stack has the program's calls on top again. What the kernel does to that stack
 * besides makes returns uncompressed.) Anywhere else the calls are not known.
 */
static bool has_come_back(const struct ptah_flow *f, uint64_t ip)
{
	return f->keeps_stack && ip == f->far_back && f->code.space == f->far_space;
}

static bool continue_at(struct ptah_flow *f, uint64_t ip)
{
	if (!flow_is_place(f, ip))
		return false;
	flow_stand_at(f, ip);
	f->stack_depth = has_come_back(f, ip) ? f->kept_depth : 0;
	f->keeps_stack = false;
	return true;
}

bool flow_find_place(struct ptah_flow *f)
{
	return tells_ip(&f->event) && continue_at(f, f->event.ip);
}

/*
 * The target of a branch is looked up in the address space and mode that hold after it. The address
 * of a PSB+ is looked up again in the address space that the PSB+ names: nothing is lost in
 * between, and the return address stack was emptied by the PSB.
 */
bool flow_find_target(struct ptah_flow *f)
{
	const struct ptah_item *event = &f->event;
	const bool has_ip = !(event->flags & PTAH_ITEM_IP_SUPPRESSED);

	switch (event->type) {
	case PTAH_ITEM_TIP:
	case PTAH_ITEM_ASYNC_BRANCH:
		return continue_at(f, event->to);
	case PTAH_ITEM_EXEC_MODE:
		return has_ip && continue_at(f, event->ip);
	case PTAH_ITEM_PAGING:
	case PTAH_ITEM_VMCS:
		if (!has_ip || !(event->flags & PTAH_ITEM_STATUS) || !flow_is_place(f, event->ip))
			return false;
		flow_stand_at(f, event->ip);
		return true;
	default:
		return false;
	}
}

bool flow_can_resync(const struct ptah_item *item)
{
	if (item->type != PTAH_ITEM_ERROR)
		return false;
	switch (item->status) {
	case PTAH_E_NO_CODE:
	case PTAH_E_BAD_INSN:
	case PTAH_E_MISMATCH:
	case PTAH_E_BAD_RETCOMP:
	case PTAH_E_NO_PROGRESS:
		return true;
	default:
		return false;
	}
}

int ptah_flow_resync(struct ptah_flow *f)
{
	if (!f || !f->at_error)
		return PTAH_E_INVAL;
	f->at_error = false;
	if (f->positioned || f->seeks_place) /* the flow continues by itself */
		return 0;
	f->seeks_place = !f->tip_lost;
	if (f->tip_lost) /* the error came before the branch that the TIP belongs to */
		flow_stand_at(f, f->event.to);
	return 0;
}
