/* SPDX-License-Identifier: MIT */
/* Turns Ptah's items into libipt's struct pt_event. */
#include "pt_event.h"

#include <stddef.h>

static enum pt_exec_mode mode_from_ptah(unsigned mode)
{
	switch (mode) {
	case PTAH_EXEC_16:
		return ptem_16bit;
	case PTAH_EXEC_32:
		return ptem_32bit;
	case PTAH_EXEC_64:
		return ptem_64bit;
	default:
		return ptem_unknown;
	}
}

/* Which fields of an event an item's `ip` and `vector` go to, where it is that simple. */
#define NONE	 0
#define AT(name) offsetof(struct pt_event, variant.name)

static const struct simple {
	uint8_t type;	 /* enum pt_event_type */
	bool known;	 /* there is such an event */
	bool suppressed; /* its address may be suppressed */
	uint8_t ip;
	uint8_t vector;
} simple[PTAH_ITEM_TYPE_MAX] = {
    [PTAH_ITEM_STOP] = {ptev_stop, true, false, NONE, NONE},
    [PTAH_ITEM_EXSTOP] = {ptev_exstop, true, true, AT(exstop.ip), NONE},
    [PTAH_ITEM_OVERFLOW] = {ptev_overflow, true, true, AT(overflow.ip), NONE},
    [PTAH_ITEM_ENABLED] = {ptev_enabled, true, false, AT(enabled.ip), NONE},
    [PTAH_ITEM_IRET] = {ptev_iret, true, true, AT(iret.ip), NONE},
    [PTAH_ITEM_SMI] = {ptev_smi, true, true, AT(smi.ip), NONE},
    [PTAH_ITEM_RSM] = {ptev_rsm, true, true, NONE, NONE},
    [PTAH_ITEM_SIPI] = {ptev_sipi, true, true, NONE, AT(sipi.vector)},
    [PTAH_ITEM_INIT] = {ptev_init, true, true, AT(init.ip), NONE},
    [PTAH_ITEM_VMENTRY] = {ptev_vmentry, true, true, AT(vmentry.ip), NONE},
    [PTAH_ITEM_SHUTDOWN] = {ptev_shutdown, true, true, AT(shutdown.ip), NONE},
    [PTAH_ITEM_UINTR] = {ptev_uintr, true, true, AT(uintr.ip), AT(uintr.vector)},
    [PTAH_ITEM_UIRET] = {ptev_uiret, true, true, AT(uiret.ip), NONE},
    [PTAH_ITEM_SWINTR] = {ptev_swintr, true, true, AT(swintr.ip), AT(swintr.vector)},
    [PTAH_ITEM_SYSCALL] = {ptev_syscall, true, true, AT(syscall.ip), NONE},
    [PTAH_ITEM_TICK] = {ptev_tick, true, true, AT(tick.ip), NONE},
};

static bool make_simple(struct pt_event *event, const struct ptah_item *item)
{
	const struct simple *how = &simple[item->type];

	if (!how->known)
		return false;
	event->type = (enum pt_event_type)how->type;
	event->ip_suppressed = how->suppressed && item->flags & PTAH_ITEM_IP_SUPPRESSED;
	if (how->ip)
		memcpy((char *)event + how->ip, &item->ip, sizeof(item->ip));
	if (how->vector)
		((uint8_t *)event)[how->vector] = (uint8_t)item->vector;
	return true;
}

/* Branches, and what turns tracing on and off. */
static bool make_branch(struct pt_event *event, const struct event_state *state,
			const struct ptah_item *item)
{
	const bool suppressed = item->flags & PTAH_ITEM_IP_SUPPRESSED;

	switch (item->type) {
	case PTAH_ITEM_TIP:
		event->type = ptev_tip;
		event->variant.tip.ip = item->to;
		return state->current;
	case PTAH_ITEM_TNT:
		event->type = ptev_tnt;
		event->variant.tnt.bits = item->bits;
		event->variant.tnt.size = (uint8_t)item->count;
		return state->current;
	case PTAH_ITEM_DISABLED:
		event->type = ptev_disabled;
		event->variant.disabled.ip = item->to;
		event->ip_suppressed = suppressed;
		return true;
	case PTAH_ITEM_ASYNC_DISABLED:
		event->type = ptev_async_disabled;
		event->variant.async_disabled.at = item->ip;
		event->variant.async_disabled.ip = item->to;
		event->ip_suppressed = suppressed;
		return true;
	case PTAH_ITEM_ASYNC_BRANCH:
		event->type = ptev_async_branch;
		event->variant.async_branch.from = item->ip;
		event->variant.async_branch.to = item->to;
		return true;
	case PTAH_ITEM_PSB: /* is tracing on? */
		event->type = suppressed ? ptev_disabled : ptev_enabled;
		event->variant.enabled.ip = item->ip;
		event->ip_suppressed = suppressed;
		return state->current;
	default:
		return false;
	}
}

static bool make_mode(struct pt_event *event, struct event_state *state,
		      const struct ptah_item *item)
{
	const bool same = state->has_mode && state->mode == item->mode;

	event->type = ptev_exec_mode;
	event->variant.exec_mode.mode = mode_from_ptah(item->mode);
	event->variant.exec_mode.ip = item->ip;
	event->ip_suppressed = !!(item->flags & PTAH_ITEM_IP_SUPPRESSED);
	state->has_mode = true;
	state->mode = item->mode;
	return !state->current || !same || item->flags & PTAH_ITEM_STATUS;
}

/* Reports changes only: libipt 2.0 has no such event, so no caller expects repetitions. */
static bool make_iflag(struct pt_event *event, struct event_state *state,
		       const struct ptah_item *item)
{
	const bool set = item->interrupts & 1, same = state->has_iflag && state->iflag == set;

	event->type = ptev_iflags;
	event->variant.iflags.iflag = set;
	event->variant.iflags.ip = item->ip;
	event->ip_suppressed = !!(item->flags & PTAH_ITEM_IP_SUPPRESSED);
	state->has_iflag = true;
	state->iflag = set;
	return !same || item->flags & PTAH_ITEM_STATUS;
}

/* The processor's state. */
static bool make_state(struct pt_event *event, struct event_state *state,
		       const struct ptah_item *item)
{
	const bool suppressed = item->flags & PTAH_ITEM_IP_SUPPRESSED;
	/* libipt treats state in a PSB+ as if a branch to its address had brought it. */
	const bool status = item->flags & PTAH_ITEM_STATUS;

	switch (item->type) {
	case PTAH_ITEM_EXEC_MODE:
		return make_mode(event, state, item);
	case PTAH_ITEM_IFLAGS:
		return make_iflag(event, state, item);
	case PTAH_ITEM_TSX:
		event->type = ptev_tsx;
		event->variant.tsx.ip = item->ip;
		event->variant.tsx.speculative = !!(item->flags & PTAH_ITEM_SPECULATIVE);
		event->variant.tsx.aborted = !!(item->flags & PTAH_ITEM_ABORTED);
		event->ip_suppressed = suppressed;
		return true;
	case PTAH_ITEM_PAGING:
	case PTAH_ITEM_ASYNC_PAGING:
		/* The first two fields of both structs are the same. */
		event->type = ptev_paging;
		event->variant.paging.cr3 = item->cr3;
		event->variant.paging.non_root = !!(item->flags & PTAH_ITEM_NON_ROOT);
		if (item->type == PTAH_ITEM_ASYNC_PAGING || status) {
			event->type = ptev_async_paging;
			event->variant.async_paging.ip = item->ip;
			event->ip_suppressed = suppressed;
		}
		return true;
	case PTAH_ITEM_VMCS:
	case PTAH_ITEM_ASYNC_VMCS:
		event->type = ptev_vmcs;
		event->variant.vmcs.base = item->vmcs;
		if (item->type == PTAH_ITEM_ASYNC_VMCS || status) {
			event->type = ptev_async_vmcs;
			event->variant.async_vmcs.ip = item->ip;
			event->ip_suppressed = suppressed;
		}
		return true;
	default:
		return false;
	}
}

/* Power events, and what programs and the processor write into the trace. */
static bool make_report(struct pt_event *event, const struct ptah_item *item)
{
	const bool suppressed = item->flags & PTAH_ITEM_IP_SUPPRESSED;

	switch (item->type) {
	case PTAH_ITEM_CBR:
		event->type = ptev_cbr;
		event->variant.cbr.ratio = (uint16_t)item->ratio;
		return true;
	case PTAH_ITEM_MNT:
		event->type = ptev_mnt;
		event->variant.mnt.payload = item->payload;
		return true;
	case PTAH_ITEM_MWAIT:
		event->type = ptev_mwait;
		event->variant.mwait.ip = item->ip;
		event->variant.mwait.hints = item->mwait.hints;
		event->variant.mwait.ext = item->mwait.ext;
		event->ip_suppressed = suppressed;
		return true;
	case PTAH_ITEM_PWRE:
		event->type = ptev_pwre;
		event->variant.pwre.state = (uint8_t)item->state;
		event->variant.pwre.sub_state = (uint8_t)item->sub_state;
		event->variant.pwre.hw = !!(item->detail & PTAH_DETAIL_HW);
		return true;
	case PTAH_ITEM_PWRX:
		event->type = ptev_pwrx;
		event->variant.pwrx.last = (uint8_t)item->last;
		event->variant.pwrx.deepest = (uint8_t)item->deepest;
		event->variant.pwrx.interrupt = !!(item->detail & PTAH_DETAIL_INTERRUPT);
		event->variant.pwrx.store = !!(item->detail & PTAH_DETAIL_STORE);
		event->variant.pwrx.autonomous = !!(item->detail & PTAH_DETAIL_AUTONOMOUS);
		return true;
	case PTAH_ITEM_PTWRITE:
		event->type = ptev_ptwrite;
		event->variant.ptwrite.ip = item->ip;
		event->variant.ptwrite.size = (uint8_t)item->size;
		event->variant.ptwrite.payload = item->payload;
		event->ip_suppressed = suppressed;
		return true;
	default:
		return false;
	}
}

/* Event Trace and triggers, with their data. */
static bool make_traced(struct pt_event *event, const struct ptah_item *item)
{
	const bool suppressed = item->flags & PTAH_ITEM_IP_SUPPRESSED;

	switch (item->type) {
	case PTAH_ITEM_INTERRUPT:
		event->type = ptev_interrupt;
		event->variant.interrupt.vector = (uint8_t)item->vector;
		event->variant.interrupt.has_cr2 = !!(item->detail & PTAH_DETAIL_CR2);
		event->variant.interrupt.cr2 = item->cr2;
		event->variant.interrupt.ip = item->ip;
		event->ip_suppressed = suppressed;
		return true;
	case PTAH_ITEM_VMEXIT:
		event->type = ptev_vmexit;
		event->variant.vmexit.vector = (uint8_t)item->vector;
		event->variant.vmexit.has_vector = !!(item->detail & PTAH_DETAIL_VECTOR);
		event->variant.vmexit.vmxr = item->reason;
		event->variant.vmexit.has_vmxr = !!(item->detail & PTAH_DETAIL_REASON);
		event->variant.vmexit.vmxq = item->qualification;
		event->variant.vmexit.has_vmxq = !!(item->detail & PTAH_DETAIL_QUALIFICATION);
		event->variant.vmexit.ip = item->ip;
		event->ip_suppressed = suppressed;
		return true;
	case PTAH_ITEM_TRIGGER:
		event->type = ptev_trig;
		event->variant.trig.trbv = (uint8_t)item->trbv;
		event->variant.trig.mult = !!(item->detail & PTAH_DETAIL_MULT);
		event->variant.trig.ip = item->ip;
		event->variant.trig.icnt = suppressed ? item->icnt : 0;
		/*
		 * libipt finds the trigger's address by counting instructions from the last address
		 * in the trace. So the address is not suppressed, although it is unknown here.
		 */
		event->ip_suppressed = suppressed && !(item->detail & PTAH_DETAIL_ICNT);
		return true;
	default:
		return false;
	}
}

/* Events to which libipt 2.0 gives no time. */
static bool is_timeless(unsigned type)
{
	return type == PTAH_ITEM_EXSTOP || type == PTAH_ITEM_MWAIT || type == PTAH_ITEM_PWRE ||
	       type == PTAH_ITEM_PWRX || type == PTAH_ITEM_PTWRITE;
}

/* Events whose time in libipt is that of their first packet. */
static bool tells_first(const struct event_state *state, const struct ptah_item *item)
{
	return item->type == PTAH_ITEM_OVERFLOW ||
	       (!state->current &&
		(item->type == PTAH_ITEM_ASYNC_BRANCH || item->type == PTAH_ITEM_ASYNC_DISABLED));
}

bool event_make(struct pt_event *event, struct event_state *state, const struct ptah_item *item)
{
	memset(event, 0, sizeof(*event));
	if (item->type >= PTAH_ITEM_TYPE_MAX ||
	    (!make_simple(event, item) && !make_branch(event, state, item) &&
	     !make_state(event, state, item) && !make_report(event, item) &&
	     !make_traced(event, item)))
		return false;
	if (item->type == PTAH_ITEM_OVERFLOW)
		state->has_mode = state->has_iflag = false; /* may have changed in between */
	/* SDM "Maintenance (MNT) Packet": not state, not even in a PSB+. */
	event->status_update = item->flags & PTAH_ITEM_STATUS && item->type != PTAH_ITEM_MNT;
	if (state->current || !is_timeless(item->type)) {
		event->tsc = tells_first(state, item) ? item->packet_tsc : item->tsc;
		event->has_tsc = event->tsc != 0;
	}
	return true;
}

void event_copy_out(struct pt_event *to, size_t size, const struct pt_event *event)
{
	if (size > sizeof(*event)) {
		memset((char *)to + sizeof(*event), 0, size - sizeof(*event));
		size = sizeof(*event);
	}
	memcpy(to, event, size);
}
