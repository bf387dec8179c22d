/* SPDX-License-Identifier: MIT */
/* Describes calls, and what they returned and wrote, in words. */
#include "twin.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct words {
	char *text;
	size_t room, length;
};

__attribute__((format(printf, 2, 3))) static void say(struct words *w, const char *format, ...)
{
	va_list list;

	if (w->length >= w->room)
		return;
	va_start(list, format);
	w->length += (size_t)vsnprintf(w->text + w->length, w->room - w->length, format, list);
	va_end(list);
}

const char *twin_call_name(const struct twin_call *call)
{
	static const char *const ops[] = {
	    [TWIN_SYNC_FORWARD] = "sync_forward",
	    [TWIN_SYNC_BACKWARD] = "sync_backward",
	    [TWIN_SYNC_SET] = "sync_set",
	    [TWIN_RESYNC] = "resync",
	    [TWIN_NEXT] = "next",
	    [TWIN_EVENT] = "event",
	    [TWIN_COND] = "cond_branch",
	    [TWIN_INDIRECT] = "indirect_branch",
	};

	return ops[call->op];
}

static void say_status(struct words *w, int status)
{
	static const char *const errors[] = {"ok",
					     "internal",
					     "invalid",
					     "nosync",
					     "bad_opc",
					     "bad_packet",
					     "bad_context",
					     "eos",
					     "bad_query",
					     "nomem",
					     "bad_config",
					     "noip",
					     "ip_suppressed",
					     "nomap",
					     "bad_insn",
					     "no_time",
					     "no_cbr",
					     "bad_image",
					     "bad_lock",
					     "not_supported",
					     "retstack_empty",
					     "bad_retcomp",
					     "bad_status",
					     "no_enable",
					     "event_ignored",
					     "overflow",
					     "bad_file",
					     "bad_cpu"};

	if (status < 0 && (size_t)-status < sizeof(errors) / sizeof(*errors))
		say(w, "-%s", errors[-status]);
	else if (status < 0)
		say(w, "%d", status);
	else
		say(w, "ok%s%s%s", status & pts_event_pending ? "+event" : "",
		    status & pts_ip_suppressed ? "+noip" : "", status & pts_eos ? "+eos" : "");
}

static void say_packet(struct words *w, const struct twin_call *call, const struct pt_packet *p)
{
	static const uint8_t ip_types[] = {ppt_tip, ppt_fup, ppt_tip_pge, ppt_tip_pgd};

	say(w, " type=%d size=%u", p->type, p->size);
	if (memchr(ip_types, p->type, sizeof(ip_types))) {
		say(w, " ipc=%d ip=%" PRIx64, p->payload.ip.ipc, p->payload.ip.ip);
		return;
	}
	switch (p->type) {
	case ppt_tnt_8:
	case ppt_tnt_64:
		say(w, " bits=%u tnt=%" PRIx64, p->payload.tnt.bit_size, p->payload.tnt.payload);
		break;
	case ppt_mode:
		say(w, " leaf=%d", p->payload.mode.leaf);
		if (p->payload.mode.leaf == pt_mol_exec)
			/* libipt 2.0 does not write IF. */
			say(w, " csl=%u csd=%u if=%u", p->payload.mode.bits.exec.csl,
			    p->payload.mode.bits.exec.csd,
			    call->since_2_1 ? p->payload.mode.bits.exec.iflag : 0);
		else
			say(w, " intx=%u abrt=%u", p->payload.mode.bits.tsx.intx,
			    p->payload.mode.bits.tsx.abrt);
		break;
	case ppt_pip:
		say(w, " cr3=%" PRIx64 " nr=%u", p->payload.pip.cr3, p->payload.pip.nr);
		break;
	case ppt_tsc:
		say(w, " tsc=%" PRIx64, p->payload.tsc.tsc);
		break;
	case ppt_cbr:
		say(w, " ratio=%u", p->payload.cbr.ratio);
		break;
	case ppt_tma:
		say(w, " ctc=%x fc=%x", p->payload.tma.ctc, p->payload.tma.fc);
		break;
	case ppt_mtc:
		say(w, " ctc=%x", p->payload.mtc.ctc);
		break;
	case ppt_cyc:
		say(w, " cyc=%" PRIx64, p->payload.cyc.value);
		break;
	case ppt_vmcs:
		say(w, " base=%" PRIx64, p->payload.vmcs.base);
		break;
	case ppt_mnt:
		say(w, " mnt=%" PRIx64, p->payload.mnt.payload);
		break;
	case ppt_exstop:
		say(w, " ip=%u", p->payload.exstop.ip);
		break;
	case ppt_mwait:
		say(w, " hints=%x ext=%x", p->payload.mwait.hints, p->payload.mwait.ext);
		break;
	case ppt_pwre:
		say(w, " state=%u sub=%u hw=%u", p->payload.pwre.state, p->payload.pwre.sub_state,
		    p->payload.pwre.hw);
		break;
	case ppt_pwrx:
		say(w, " last=%u deepest=%u int=%u store=%u auto=%u", p->payload.pwrx.last,
		    p->payload.pwrx.deepest, p->payload.pwrx.interrupt, p->payload.pwrx.store,
		    p->payload.pwrx.autonomous);
		break;
	case ppt_ptw:
		say(w, " ptw=%" PRIx64 " plc=%u ip=%u", p->payload.ptw.payload, p->payload.ptw.plc,
		    p->payload.ptw.ip);
		break;
	case ppt_cfe:
		say(w, " cfe=%d vector=%u ip=%u", p->payload.cfe.type, p->payload.cfe.vector,
		    p->payload.cfe.ip);
		break;
	case ppt_evd:
		say(w, " evd=%d payload=%" PRIx64, p->payload.evd.type, p->payload.evd.payload);
		break;
	case ppt_trig:
		say(w, " trbv=%u icnt=%u ip=%u icntv=%u mult=%u", p->payload.trig.trbv,
		    p->payload.trig.icnt, p->payload.trig.ip, p->payload.trig.icntv,
		    p->payload.trig.mult);
		break;
	default:
		break;
	}
}

static void say_ip(struct words *w, const struct pt_event *e, const char *name, uint64_t ip)
{
	if (!e->ip_suppressed)
		say(w, " %s=%" PRIx64, name, ip);
}

/* Events about context, power and time. */
static void say_state_event(struct words *w, const struct pt_event *e)
{
	switch (e->type) {
	case ptev_paging:
		say(w, " cr3=%" PRIx64 " nr=%u", e->variant.paging.cr3, e->variant.paging.non_root);
		break;
	case ptev_async_paging:
		say(w, " cr3=%" PRIx64 " nr=%u", e->variant.async_paging.cr3,
		    e->variant.async_paging.non_root);
		say_ip(w, e, "ip", e->variant.async_paging.ip);
		break;
	case ptev_vmcs:
		say(w, " base=%" PRIx64, e->variant.vmcs.base);
		break;
	case ptev_async_vmcs:
		say(w, " base=%" PRIx64, e->variant.async_vmcs.base);
		say_ip(w, e, "ip", e->variant.async_vmcs.ip);
		break;
	case ptev_exstop:
		say_ip(w, e, "ip", e->variant.exstop.ip);
		break;
	case ptev_mwait:
		say(w, " hints=%x ext=%x", e->variant.mwait.hints, e->variant.mwait.ext);
		say_ip(w, e, "ip", e->variant.mwait.ip);
		break;
	case ptev_pwre:
		say(w, " state=%u sub=%u hw=%u", e->variant.pwre.state, e->variant.pwre.sub_state,
		    e->variant.pwre.hw);
		break;
	case ptev_pwrx:
		say(w, " last=%u deepest=%u int=%u store=%u auto=%u", e->variant.pwrx.last,
		    e->variant.pwrx.deepest, e->variant.pwrx.interrupt, e->variant.pwrx.store,
		    e->variant.pwrx.autonomous);
		break;
	case ptev_ptwrite:
		say(w, " size=%u payload=%" PRIx64, e->variant.ptwrite.size,
		    e->variant.ptwrite.payload);
		say_ip(w, e, "ip", e->variant.ptwrite.ip);
		break;
	case ptev_tick:
		say_ip(w, e, "ip", e->variant.tick.ip);
		break;
	case ptev_cbr:
		say(w, " ratio=%u", e->variant.cbr.ratio);
		break;
	case ptev_mnt:
		say(w, " payload=%" PRIx64, e->variant.mnt.payload);
		break;
	default:
		break;
	}
}

/* Events of Event Trace, and those that only the event decoder has. */
static void say_traced_event(struct words *w, const struct pt_event *e)
{
	switch (e->type) {
	case ptev_tip:
		say_ip(w, e, "ip", e->variant.tip.ip);
		break;
	case ptev_tnt:
		say(w, " bits=%" PRIx64 "/%u", e->variant.tnt.bits, e->variant.tnt.size);
		break;
	case ptev_iflags:
		say(w, " if=%u", e->variant.iflags.iflag);
		say_ip(w, e, "ip", e->variant.iflags.ip);
		break;
	case ptev_interrupt:
		say(w, " vector=%u", e->variant.interrupt.vector);
		if (e->variant.interrupt.has_cr2)
			say(w, " cr2=%" PRIx64, e->variant.interrupt.cr2);
		say_ip(w, e, "ip", e->variant.interrupt.ip);
		break;
	case ptev_sipi:
		say(w, " vector=%u", e->variant.sipi.vector);
		break;
	case ptev_vmexit:
		if (e->variant.vmexit.has_vector)
			say(w, " vector=%u", e->variant.vmexit.vector);
		if (e->variant.vmexit.has_vmxr)
			say(w, " vmxr=%" PRIx64, e->variant.vmexit.vmxr);
		if (e->variant.vmexit.has_vmxq)
			say(w, " vmxq=%" PRIx64, e->variant.vmexit.vmxq);
		say_ip(w, e, "ip", e->variant.vmexit.ip);
		break;
	case ptev_uintr:
		say(w, " vector=%u", e->variant.uintr.vector);
		say_ip(w, e, "ip", e->variant.uintr.ip);
		break;
	case ptev_swintr:
		say(w, " vector=%u", e->variant.swintr.vector);
		say_ip(w, e, "ip", e->variant.swintr.ip);
		break;
	case ptev_trig:
		say(w, " trbv=%u icnt=%u mult=%u", e->variant.trig.trbv, e->variant.trig.icnt,
		    e->variant.trig.mult);
		say_ip(w, e, "ip", e->variant.trig.ip);
		break;
	case ptev_iret:
	case ptev_smi:
	case ptev_rsm:
	case ptev_init:
	case ptev_vmentry:
	case ptev_shutdown:
	case ptev_uiret:
	case ptev_syscall:
		/* These events have nothing but an address. */
		say_ip(w, e, "ip", e->variant.iret.ip);
		break;
	default:
		say_state_event(w, e);
	}
}

static void say_event(struct words *w, const struct pt_event *e)
{
	static const char *const names[] = {
	    "enabled",	    "disabled",	  "async_disabled", "async_branch", "paging",
	    "async_paging", "overflow",	  "mode",	    "tsx",	    "stop",
	    "vmcs",	    "async_vmcs", "exstop",	    "mwait",	    "pwre",
	    "pwrx",	    "ptw",	  "tick",	    "cbr",	    "mnt",
	    "tip",	    "tnt",	  "iflags",	    "interrupt",    "iret",
	    "smi",	    "rsm",	  "sipi",	    "init",	    "vmentry",
	    "vmexit",	    "shutdown",	  "uintr",	    "uiret",	    "trig",
	    "swintr",	    "syscall"};

	if (e->type < sizeof(names) / sizeof(*names))
		say(w, " %s", names[e->type]);
	else
		say(w, " type=%d", (int)e->type);
	say(w, "%s%s", e->ip_suppressed ? " noip" : "", e->status_update ? " status" : "");
	switch (e->type) {
	case ptev_enabled:
		say_ip(w, e, "ip", e->variant.enabled.ip);
		say(w, "%s", e->variant.enabled.resumed ? " resumed" : "");
		break;
	case ptev_disabled:
		say_ip(w, e, "ip", e->variant.disabled.ip);
		break;
	case ptev_async_disabled:
		say(w, " at=%" PRIx64, e->variant.async_disabled.at);
		say_ip(w, e, "ip", e->variant.async_disabled.ip);
		break;
	case ptev_async_branch:
		say(w, " from=%" PRIx64, e->variant.async_branch.from);
		say_ip(w, e, "to", e->variant.async_branch.to);
		break;
	case ptev_overflow:
		say_ip(w, e, "ip", e->variant.overflow.ip);
		break;
	case ptev_exec_mode:
		say(w, " mode=%d", e->variant.exec_mode.mode);
		say_ip(w, e, "ip", e->variant.exec_mode.ip);
		break;
	case ptev_tsx:
		say(w, " spec=%u aborted=%u", e->variant.tsx.speculative, e->variant.tsx.aborted);
		say_ip(w, e, "ip", e->variant.tsx.ip);
		break;
	default:
		say_traced_event(w, e);
	}
	if (e->has_tsc)
		say(w, " tsc=%" PRIx64 " lost=%u/%u", e->tsc, e->lost_mtc, e->lost_cyc);
}

static void say_raw(struct words *w, const uint8_t *raw, unsigned size)
{
	say(w, " raw=");
	for (unsigned i = 0; i < size && i < pt_max_insn_size; i++)
		say(w, "%02x", raw[i]);
}

static void say_out(struct words *w, const struct twin_call *call, const struct twin_seen *s)
{
	if (call->op == TWIN_EVENT || (call->op == TWIN_NEXT && call->decoder == TWIN_EVENTS)) {
		if (s->status >= 0)
			say_event(w, &s->out.event);
	} else if (call->op == TWIN_COND && s->status >= 0) {
		say(w, " taken=%d", s->out.taken);
	} else if (call->op != TWIN_NEXT) {
		/* A suppressed address has no meaning. */
		if (call->decoder == TWIN_QUERY && s->status >= 0 &&
		    !(s->status & pts_ip_suppressed))
			say(w, " ip=%" PRIx64, s->out.ip);
	} else if (call->decoder == TWIN_PACKET) {
		if (s->status >= 0)
			say_packet(w, call, &s->out.packet);
	} else if (call->decoder == TWIN_INSN) {
		const struct pt_insn *i = &s->out.insn;

		say(w, " %" PRIx64 " mode=%d class=%d size=%u isid=%d%s%s", i->ip, i->mode,
		    i->iclass, i->size, i->isid, i->speculative ? " spec" : "",
		    i->truncated ? " truncated" : "");
		say_raw(w, i->raw, i->size);
	} else {
		const struct pt_block *b = &s->out.block;

		say(w, " %" PRIx64 "-%" PRIx64 " n=%u mode=%d class=%d isid=%d%s%s", b->ip,
		    b->end_ip, b->ninsn, b->mode, b->iclass, b->isid, b->speculative ? " spec" : "",
		    b->truncated ? " truncated" : "");
		if (b->truncated)
			say_raw(w, b->raw, b->size);
	}
}

/* The caller passed a smaller struct: the rest of it must not be written. */
static void say_part(struct words *w, const struct twin_call *call, const struct twin_seen *s)
{
	struct twin_seen part = *s;

	memset(part.out.bytes + call->argument, 0, sizeof(part.out.bytes) - call->argument);
	say_out(w, call, &part);
	for (size_t i = call->argument; i < sizeof(s->out.bytes); i++)
		if (s->out.bytes[i] != 0xa5) {
			say(w, " writes byte %zu", i);
			return;
		}
}

static void say_getter(struct words *w, const char *name, int status, uint64_t value)
{
	say(w, " %s=", name);
	if (status < 0)
		say_status(w, status);
	else
		say(w, "%" PRIx64, value);
}

const char *twin_words(const struct twin_call *call, unsigned side, char *text, size_t room)
{
	const struct twin_seen *s = &call->side[side];
	struct words w = {.text = text, .room = room};

	if (call->decoder == TWIN_PACKET && s->status > 0)
		say(&w, "%d bytes", s->status);
	else
		say_status(&w, s->status);
	if (call->op != TWIN_NEXT || call->argument == twin_size_of_next(call->decoder))
		say_out(&w, call, s);
	else
		say_part(&w, call, s);
	if (call->blind)
		say(&w, " |");
	else
		say_getter(&w, "| at", s->offset_status, s->offset);
	say_getter(&w, "sync", s->sync_status, s->sync);
	if (call->decoder >= TWIN_QUERY) {
		say_getter(&w, "time", s->time_status, s->tsc);
		say(&w, "/%u/%u", s->lost_mtc, s->lost_cyc);
		say_getter(&w, "cbr", s->cbr_status, s->cbr);
	}
	if (call->decoder >= TWIN_INSN) {
		say_getter(&w, "cr3", s->asid_status, s->cr3);
		say_getter(&w, "vmcs", s->asid_status, s->vmcs);
	}
	return text;
}

bool twin_equal(const struct twin_call *call)
{
	char a[1024], b[1024];

	return !memcmp(&call->side[0], &call->side[1], sizeof(call->side[0])) ||
	       !strcmp(twin_words(call, 0, a, sizeof(a)), twin_words(call, 1, b, sizeof(b)));
}
