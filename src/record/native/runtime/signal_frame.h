/* SPDX-License-Identifier: MIT */
/*
 * What Linux puts on a program's stack for a signal handler, and its other structures for signals,
 * as x86-64 programs see them. signal_frame.c builds the frame; it makes no system calls.
 */
#ifndef PTAH_RECORD_NATIVE_RUNTIME_SIGNAL_FRAME_H
#define PTAH_RECORD_NATIVE_RUNTIME_SIGNAL_FRAME_H

#include "record/native/runtime/runtime.h"

#define SIGNALS		64
#define SIGNAL_BIT(n)	(UINT64_C(1) << ((n)-1))
#define SIGNAL_SET_SIZE 8u

enum {
	SIGNAL_ILL = 4,
	SIGNAL_TRAP = 5,
	SIGNAL_SYS = 31,
	SIGNAL_BUS = 7,
	SIGNAL_FPE = 8,
	SIGNAL_KILL = 9,
	SIGNAL_SEGV = 11,
	SIGNAL_STOP = 19
};

#define SIGNAL_DEFAULT UINT64_C(0)
#define SIGNAL_IGNORE  UINT64_C(1)

/* action.flags */
#define ACTION_NOCLDSTOP   0x00000001u
#define ACTION_NOCLDWAIT   0x00000002u
#define ACTION_SIGINFO	   0x00000004u
#define ACTION_EXPOSE_TAGS 0x00000800u
#define ACTION_RESTORER	   0x04000000u
#define ACTION_ONSTACK	   0x08000000u
#define ACTION_RESTART	   0x10000000u
#define ACTION_NODEFER	   0x40000000u
#define ACTION_RESETHAND   0x80000000u
/* What Linux 5.11 and later keep of the flags; it clears all others. */
#define ACTION_FLAGS_KNOWN                                                                         \
	(ACTION_NOCLDSTOP | ACTION_NOCLDWAIT | ACTION_SIGINFO | ACTION_EXPOSE_TAGS |               \
	 ACTION_RESTORER | ACTION_ONSTACK | ACTION_RESTART | ACTION_NODEFER | ACTION_RESETHAND)

/* What rt_sigaction() takes. */
struct action {
	uint64_t handler, flags, restorer, mask;
};

struct signal_info {
	int32_t number, error, code, zero;
	uint64_t address; /* of faults; others have something else here */
	uint8_t rest[104];
};

/* siginfo.si_code */
#define INFO_KERNEL  0x80 /* from the processor, without an address */
#define INFO_SECCOMP 1	  /* SYS_SECCOMP, of SIGSYS */

/* stack_t */
struct alternate_stack {
	uint64_t address;
	int32_t flags, unused;
	uint64_t size;
};

#define STACK_ON	 1
#define STACK_DISABLE	 2
#define STACK_AUTODISARM INT32_MIN /* bit 31 */

/* struct sigcontext. */
struct machine_context {
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
	uint64_t rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, rflags;
	uint16_t cs, gs, fs, ss;
	uint64_t error, trap, old_mask, cr2;
	uint64_t fp;
	uint64_t reserved[8];
};

/* ucontext_t.uc_flags */
#define USER_CONTEXT_FP_XSTATE 1u
#define USER_CONTEXT_STRICT_SS 4u

struct user_context {
	uint64_t flags, link;
	struct alternate_stack stack;
	struct machine_context machine;
	uint64_t mask;
};

struct signal_frame {
	uint64_t restorer; /* the handler's return address */
	struct user_context context;
	struct signal_info info;
};

_Static_assert(sizeof(struct signal_info) == 128, "");
_Static_assert(sizeof(struct machine_context) == 256, "");
_Static_assert(sizeof(struct user_context) == 304, "");
_Static_assert(sizeof(struct signal_frame) == 440, "");

/*
 * The kernel's part of an XSAVE area: where FXSAVE leaves room. At the end of the area is the
 * second magic number.
 */
#define FP_SOFTWARE_AT	  464
#define FP_SOFTWARE_BYTES 48
#define FP_HEADER_AT	  512 /* XSTATE_BV, XCOMP_BV, and reserved bytes */
#define FP_HEADER_BYTES	  64
#define FP_LEAST	  (FP_HEADER_AT + FP_HEADER_BYTES)
#define FP_MXCSR_AT	  24
#define FP_MXCSR_INITIAL  0x1f80u
#define FP_MAGIC1	  UINT32_C(0x46505853)
#define FP_MAGIC2	  UINT32_C(0x46505845)
#define FP_X87_AND_SSE	  UINT64_C(3)
#define FP_PKRU		  (UINT64_C(1) << 9)
#define FP_ALIGNMENT	  64
#define RED_ZONE	  128
#define FLAG_TRAP	  (UINT64_C(1) << 8)
#define FLAG_DIRECTION	  (UINT64_C(1) << 10)
#define FLAG_RESUME	  (UINT64_C(1) << 16)
#define FLAG_ALIGNMENT	  (UINT64_C(1) << 18)
#define FLAGS_INITIAL	  UINT64_C(0x202)
/* Flags that sigreturn takes from the frame: AC, OF, DF, TF, SF, ZF, AF, PF, CF, RF. */
#define FLAGS_FROM_FRAME UINT64_C(0x50dd5)
#define SEGMENT_CODE	 0x33
#define SEGMENT_STACK	 0x2b

struct fp_software {
	uint32_t magic1;
	uint32_t extended_size; /* of the area with the second magic number */
	uint64_t features;	/* that the area has */
	uint32_t size;		/* of the area */
	uint32_t padding[7];
};

_Static_assert(sizeof(struct fp_software) == FP_SOFTWARE_BYTES, "");

/* What differs between kernels and processors, and is learnt from the kernel's own frames. */
struct frame_model {
	struct fp_software fp;
	uint64_t flags;		 /* user_context.flags */
	uint16_t cs, gs, fs, ss; /* machine_context's */
};

/* Where a frame goes. */
struct frame_place {
	uint64_t frame; /* address of struct signal_frame: RSP of the handler */
	uint64_t fp;	/* address of the XSAVE area */
	uint64_t end;	/* where the area ends */
};

/* Whether rsp is on the alternate stack, as sigaltstack() reports it. */
bool frame_on_stack(const struct alternate_stack *stack, uint64_t rsp);

/*
 * Finds the place of a frame below rsp or on the alternate stack. False: it does not fit on the
 * alternate stack, which the kernel answers with SIGSEGV.
 */
bool frame_find_place(const struct alternate_stack *stack, uint64_t action_flags, uint64_t rsp,
		      uint64_t fp_size, struct frame_place *place);

/* What a frame is made of. */
struct frame_contents {
	const struct registers *registers;
	const struct action *action;
	const struct signal_info *info;
	const struct alternate_stack *stack;
	const struct frame_model *model;
	uint64_t mask; /* to be restored when the handler returns */
	/* Of the thread's last fault, also if this signal is none. */
	uint64_t error, trap, cr2;
};

/* Fills in the frame, `info` only if the handler wants it. The reserved words become 0. */
void frame_fill(struct signal_frame *f, const struct frame_contents *contents, uint64_t fp);

/*
 * Makes an XSAVE area, as XSAVE has left it, what the kernel puts on the stack. Bytes: model's
 * extended_size.
 */
void frame_finish_fp(uint8_t *area, const struct frame_model *model);

/* Registers between the two forms. *r keeps the flags that a frame cannot change. */
void frame_get_registers(const struct machine_context *m, struct registers *r);
void frame_set_registers(struct machine_context *m, const struct registers *r);

/*
 * What the kernel does with the frame of rt_sigreturn: *r as the program goes on. False: it needs
 * what the runtime does not do (another code segment, single steps).
 */
bool frame_return(const struct user_context *u, struct registers *r);

/*
 * sigaltstack(): checks the new one, and changes *stack. Returns 0 or a negative error number.
 * rsp: the program's.
 */
int64_t frame_set_stack(struct alternate_stack *stack, const struct alternate_stack *wanted,
			uint64_t rsp);
/* What sigaltstack() reports. */
void frame_get_stack(const struct alternate_stack *stack, uint64_t rsp,
		     struct alternate_stack *reported);

#endif
