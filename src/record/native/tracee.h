/* SPDX-License-Identifier: MIT */
/*
 * A process, or one thread of it, that this thread traces and holds: it can be told to make system
 * calls. For inject.c and attach.c.
 */
#ifndef PTAH_RECORD_NATIVE_TRACEE_H
#define PTAH_RECORD_NATIVE_TRACEE_H

#include "record/native/inject.h"
#include "record/native/layout.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/user.h>

#define CODE_SELECTOR  0x33 /* CS of 64-bit code: __USER_CS */
#define SYSCALL_OPCODE UINT64_C(0x050f)
#define SYSCALL_STOP   (SIGTRAP | 0x80) /* PTRACE_O_TRACESYSGOOD */
#define GROUP_STOP     PTRACE_EVENT_STOP
#define ALL_SIGNALS    (~UINT64_C(0))

/* Whether the thread, which may be nobody's child, has stopped or ended; as waitpid(). */
pid_t tracee_look(pid_t pid, int *status);

#ifdef __x86_64__

/* A process that is held, while the runtime is put into it. */
struct tracee {
	pid_t pid;     /* the thread */
	pid_t process; /* its process */
	bool runs;     /* it has run before: for messages */
	struct ptah_message *why;
	struct user_regs_struct program; /* as at its first instruction */
	uint64_t site;			 /* of the SYSCALL, and what is there otherwise */
	uint64_t word;
	bool poked; /* the SYSCALL is there instead of what belongs there */
	/* Memory of the vDSO that is filled with zeros otherwise, and has a stub now; 0: none. */
	uint64_t room;
	uint64_t mask;	     /* of signals */
	const int64_t *late; /* haste.h: it is given up, wherever it is */
	bool stopped;	     /* SIGSTOP came meanwhile */
	bool ended;
	/* Guard page, blob, stub, guard page, stack, guard page. */
	uint64_t base, bytes, blob_bytes, stack;
	uint64_t shared, shared_bytes;
	uint64_t replaced;	/* where `shared` goes; 0: anywhere */
	bool held;		/* it can be told to make calls */
	bool names;		/* paths lead it to the same files as the recorder */
	int32_t descriptors[3]; /* that are open in it for now; -1: none */
};

/* Puts a sentence into *h->why, of errno. Returns its status. */
int tracee_fail(struct tracee *h, const char *what);
/* Lets the process go on to its next entry of a system call, or return from one. */
bool tracee_to_call(struct tracee *h);
/* Has the process make a system call. A negative result: an error; errno is set. */
int64_t tracee_call(struct tracee *h, uint64_t number, uint64_t a, uint64_t b, uint64_t c,
		    uint64_t d, uint64_t e, uint64_t f);
/*
 * Makes calls come from a stub: a SYSCALL, and behind it code that lets the program go on as it was,
 * in case the recorder is killed meanwhile. It is in the padding of the vDSO until the runtime has
 * memory. False: there is no room, and nothing has changed.
 */
bool tracee_lend_room(struct tracee *h);
bool tracee_give_room_back(struct tracee *h);
/* The two halves of it. more: bytes before the room that are free, too. */
bool tracee_find_room(struct tracee *h, size_t more);
bool tracee_put_room(struct tracee *h);
/* Where the program goes on from the stub as it was. */
uint64_t tracee_tail(const struct tracee *h);
/* False: there is none. */
bool tracee_find_vdso(pid_t pid, uint64_t *start, uint64_t *end);
/* Into memory that the program itself may not write to. n: a multiple of 8. */
bool tracee_poke(const struct tracee *h, uint64_t to, const void *from, size_t n);
bool tracee_write(const struct tracee *h, uint64_t to, const void *from, size_t n);
bool tracee_read(const struct tracee *h, void *to, uint64_t from, size_t n);
/* At a random place where nothing is. flags: MAP_SHARED or MAP_PRIVATE. 0: there is none. */
uint64_t tracee_map(struct tracee *h, uint64_t bytes, int protection, int flags, int fd);
const uint8_t *tracee_blob(const struct inject_memory *m);
size_t tracee_blob_size(const struct inject_memory *m);
/* Sizes of what is mapped; `stack` is an offset until `base` is known. */
#define TRACEE_STACK (128u << 10) /* bytes, of the runtime's first thread */
void tracee_lay_out(struct tracee *h, const struct inject_memory *m);
/*
 * at_once.c: does what the next two functions do, from the stop of execve on, with two stops
 * instead of some twenty-five. Negative: it has failed.
 */
enum {
	TRACEE_UNTOUCHED = 0, /* it cannot be done; nothing has changed */
	TRACEE_HELD,	      /* likewise, but the program is held, with the stub in the vDSO */
	TRACEE_DONE,
};
int tracee_map_at_once(struct tracee *h, const struct inject_memory *m);
int tracee_map_blob(struct tracee *h, const struct inject_memory *m);
/* One more that tracee_close() closes, or the stub, if the recorder is killed. */
void tracee_note_descriptor(struct tracee *h, unsigned i, int32_t fd);
int tracee_map_memory(struct tracee *h, const struct inject_memory *m);
bool tracee_close(struct tracee *h);
bool tracee_clear_stack(const struct tracee *h);
/* Where the handover goes: RDI of start(), and RSP behind its return address. */
uint64_t tracee_top(const struct tracee *h);
void tracee_handover(const struct tracee *h, const struct inject_memory *m,
		     struct native_handover *o);

#endif

#endif
