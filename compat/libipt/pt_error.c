/* SPDX-License-Identifier: MIT */
/* libipt's error texts, and Ptah's status codes as libipt's. */
#include "pt_error.h"

#include <ptah/base.h>

/* The texts are part of the interface: programs' expected outputs hold them. */
const char *pt_errstr(enum pt_error_code code)
{
	static const char *const texts[] = {
	    [pte_ok] = "OK",
	    [pte_internal] = "internal error",
	    [pte_invalid] = "invalid argument",
	    [pte_nosync] = "decoder out of sync",
	    [pte_bad_opc] = "unknown opcode",
	    [pte_bad_packet] = "unknown packet",
	    [pte_bad_context] = "unexpected packet context",
	    [pte_eos] = "reached end of trace stream",
	    [pte_bad_query] = "trace stream does not match query",
	    [pte_nomem] = "out of memory",
	    [pte_bad_config] = "bad configuration",
	    [pte_noip] = "no ip",
	    [pte_ip_suppressed] = "ip has been suppressed",
	    [pte_nomap] = "no memory mapped at this address",
	    [pte_bad_insn] = "unknown instruction",
	    [pte_no_time] = "no timing information",
	    [pte_no_cbr] = "no core:bus ratio",
	    [pte_bad_image] = "bad image",
	    [pte_bad_lock] = "locking error",
	    [pte_not_supported] = "not supported",
	    [pte_retstack_empty] = "compressed return without call",
	    [pte_bad_retcomp] = "bad compressed return",
	    [pte_bad_status_update] = "bad status update",
	    [pte_no_enable] = "expected tracing enabled event",
	    [pte_event_ignored] = "event ignored",
	    [pte_overflow] = "overflow",
	    [pte_bad_file] = "bad file",
	    [pte_bad_cpu] = "unknown cpu",
	};

	/* An enum may hold any int. */
	if ((unsigned)code >= sizeof(texts) / sizeof(texts[0]))
		return "internal error.";
	return texts[code];
}

int error_from_ptah(int status)
{
	if (status >= 0)
		return 0;
	switch (status) {
	case PTAH_E_NOMEM:
	case PTAH_E_LIMIT:
		return -pte_nomem;
	case PTAH_E_INVAL:
		return -pte_invalid;
	case PTAH_E_UNSUPPORTED:
		return -pte_not_supported;
	case PTAH_E_MORE:
	case PTAH_E_TRUNCATED:
	case PTAH_E_NOSPACE:
	case PTAH_E_END:
		return -pte_eos;
	case PTAH_E_BAD_OPCODE:
		return -pte_bad_opc;
	case PTAH_E_BAD_PACKET:
		return -pte_bad_packet;
	case PTAH_E_NO_SYNC:
		return -pte_nosync;
	case PTAH_E_BAD_CONTEXT:
		return -pte_bad_context;
	case PTAH_E_NO_IP:
		return -pte_noip;
	case PTAH_E_LOST:
		return -pte_overflow;
	case PTAH_E_MISMATCH:
	case PTAH_E_NO_PROGRESS:
		return -pte_bad_query;
	case PTAH_E_NO_CODE:
	case PTAH_E_NO_THREAD:
		return -pte_nomap;
	case PTAH_E_BAD_INSN:
		return -pte_bad_insn;
	case PTAH_E_BAD_RETCOMP:
		return -pte_bad_retcomp;
	case PTAH_E_SYSTEM:
	case PTAH_E_BAD_FILE:
	case PTAH_E_BAD_MAGIC:
	case PTAH_E_FOREIGN:
	case PTAH_E_CHANGED:
	case PTAH_E_MISSING:
	case PTAH_E_EMPTY:
		return -pte_bad_file;
	default:
		return -pte_internal;
	}
}
