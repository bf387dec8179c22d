/* SPDX-License-Identifier: MIT */
/*
 * What signals.c (the kernel's handler, delivery) and signal_calls.c (system calls about signals)
 * share.
 *
 * The kernel's mask is the program's, with three exceptions: FAULTS are never blocked, because the
 * runtime's own stores fault; while an ordinary signal is kept, all others are blocked, so that
 * they wait in the kernel, in its order; and a system call may set another mask while it waits.
 */
#ifndef PTAH_RECORD_NATIVE_RUNTIME_SIGNALS_H
#define PTAH_RECORD_NATIVE_RUNTIME_SIGNALS_H

#include "record/native/runtime/signal_frame.h"

/* The signals by which the processor's exceptions arrive. The runtime always handles them. */
#define FAULTS                                                                                     \
	(SIGNAL_BIT(SIGNAL_ILL) | SIGNAL_BIT(SIGNAL_TRAP) | SIGNAL_BIT(SIGNAL_BUS) |               \
	 SIGNAL_BIT(SIGNAL_FPE) | SIGNAL_BIT(SIGNAL_SEGV))
#define FAULT_SLOTS    12 /* by number; the largest is SIGSEGV, 11 */
#define NEVER_BLOCKED  (SIGNAL_BIT(SIGNAL_KILL) | SIGNAL_BIT(SIGNAL_STOP))
#define ALL_BUT_FAULTS (~FAULTS)

/* The program's handlers: of a process, or of threads that share them. */
struct handlers {
	uint32_t lock; /* taken with all signals blocked */
	struct action actions[SIGNALS + 1];
};

/* A signal that has arrived and is to be delivered at a head. info.number 0: none. */
struct kept {
	struct signal_info info;
	struct action action; /* the program's, when the signal arrived */
};

/* Of a thread. */
struct signals {
	struct handlers *handlers;
	uint64_t blocked; /* the program's mask */
	/* The mask of the system call that a signal has just interrupted, if `suspended`. */
	uint64_t temporary;
	bool suspended;
	struct alternate_stack stack; /* the program's */
	struct alternate_stack own;   /* the kernel's: where the runtime's handler runs */
	struct kept ordinary;
	struct kept sent[FAULT_SLOTS]; /* FAULTS that were sent by kill() and the like */
	/* sigcontext has these of the thread's last fault, whatever the signal. */
	uint64_t error, trap, cr2;
	struct frame_model model;
	uint32_t handler_pkru; /* of a handler's first instruction */

	/* What the code on the runtime's stack goes on with when the handler has returned. */
	struct registers registers;
	struct kept fault;
	uint64_t fault_code; /* cache address, or 0 */
	uint64_t fault_ip;   /* the program's instruction: that of FUP */
	bool fault_is_trap;  /* it was carried out */
	bool stepping;	     /* natively at one instruction: step_begin() */
	bool no_code;	     /* natively at an address without code: signals_no_code() */

	struct signal_frame frame; /* to be copied to the program, or to be loaded */
	uint8_t *fp;		   /* an XSAVE area */
	uint64_t sets[3];	   /* for the kernel: masks of system calls */
};

/* signals.c */
/* Whether there is a signal that the mask lets through. */
bool signals_are_deliverable(const struct signals *s);
/* Whether a signal may now be delivered; sets c->pending. */
void signals_update(struct context *c);
/* Gives the kernel the mask that is due. */
void signals_apply_mask(struct context *c);
/* What the kernel is given for the program's action. */
struct action signals_real_action(int number, const struct action *a);
void signals_lock(struct handlers *h);
void signals_unlock(struct handlers *h);
/*
 * Delivers SIGSEGV as the kernel does where it finds something wrong with the program's stack or
 * frame. Tracing is disabled.
 */
void signals_force_segv(struct context *c, struct registers *r);
_Noreturn void signals_go_on(struct context *c);

/* signal_entry.S */
#pragma GCC visibility push(hidden)
void signals_restorer(void);
bool signals_window(const uint64_t call[7], int64_t *result, const bool *pending);
void signals_learn(void);
_Noreturn void signals_learned(void);
bool signals_copy(void *to, const void *from, size_t n);
void signals_save_fp(void *area, uint64_t features);
void signals_load_fp(const void *area, uint64_t features);
uint32_t signals_get_pkru(void);
void signals_set_pkru(uint32_t value);
_Noreturn void signals_load(const struct signal_frame *frame, bool leave);
void signals_returned(void);
extern const uint8_t signals_window_start[];
extern const uint8_t signals_window_call[];
extern const uint8_t signals_window_not_made[];
extern const uint8_t signals_learn_faults[];
extern const uint8_t signals_copy_faults[];
extern const uint8_t signals_copy_failed[];
#pragma GCC visibility pop

#define ERROR_INTERRUPTED 4
#define ERROR_FAULT	  14
#define ERROR_INVALID	  22

static inline uint64_t signals_current_mask(const struct signals *s)
{
	return s->suspended ? s->temporary : s->blocked;
}

#endif
