/* SPDX-License-Identifier: MIT */
/* What the plugin's files share. */
#ifndef PTAH_RECORD_QEMU_PLUGIN_PLUGIN_H
#define PTAH_RECORD_QEMU_PLUGIN_PLUGIN_H

#include "record/qemu/plugin/qemu_api.h"
#include "record/qemu/shared.h"

/* A translated block. It is never freed, because QEMU may run it at any time. */
struct block {
	uint64_t start;
	uint64_t end;	 /* address after its last instruction */
	uint64_t target; /* target of its direct branch; KIND_REP: address of the rep instruction */
	uint64_t change; /* BLOCK_CHANGED: time of the change that brought this code */
	uint32_t slow;	 /* enum block_flags; 0: the block takes the hot path */
	uint16_t ninsn;
	uint8_t kind;
	uint8_t last_size;
	struct block *next; /* in the same hash bucket */
	uint8_t sizes[];    /* size of each instruction */
};

enum block_flags {
	BLOCK_SENTINEL = 1, /* not a block: the thread is in the kernel or has not begun */
	BLOCK_HANDLER = 2,  /* a signal handler begins here */
	BLOCK_STEP = 4,	    /* one instruction that would not end a block */
	BLOCK_CHANGED = 8,  /* its bytes have replaced others */
	BLOCK_VSYSCALL = 16,
	BLOCK_FAR = 32, /* ends with a far transfer */
	BLOCK_INT = 64, /* ends with INT n, INT3, INTO or INT1 */
};

struct plugin {
	struct shared_header *shared;
	uint64_t buffer; /* shared->buffer */
	uint64_t guard;	 /* shared->guard */
	bool recorder_gone;
	uint64_t guest_base;
	_Atomic uint64_t map_time; /* time at which a file was last mapped for execution */
	/*
	 * When the process began its program, by fork or by execve; 0: the command itself. Memory
	 * that it has had since then is reported with this time.
	 */
	uint64_t birth;
	char *program; /* path of the program's file; NULL: not known */
};

/* A global, because QEMU's interface passes no context. Each process has one plugin. */
extern struct plugin plugin;

/* messages.c: messages to the recorder */
void plugin_send(const struct shared_message *message, const void *payload);
void plugin_note(const char *text);
/* Sends a message that consists of text. */
void plugin_send_text(unsigned type, int32_t tid, const char *text);
void plugin_send_text_at(unsigned type, int32_t tid, const char *text, uint64_t time);
void plugin_wait(_Atomic uint64_t *word, uint64_t old);
/* Sleeps a short while. Sets plugin.recorder_gone when the recorder has ended. */
void plugin_doze(void);

/* blocks.c: translated blocks, and the addresses of signal handlers */
struct block *plugin_block(const struct qemu_plugin_tb *tb);
void plugin_add_handler(uint64_t address, uint64_t restorer);
bool plugin_is_handler(uint64_t address);
bool plugin_is_restorer(uint64_t address);

/* guest_maps.c: what is mapped, and which part of it the recording has */
void plugin_forget_maps(uint64_t address, uint64_t size);
/* Called when the program has mapped code of the file m->fd, or made it executable. */
void plugin_add_map(const struct shared_mapping *mapping);
void plugin_add_protection(const struct shared_mapping *mapping);
/*
 * Makes sure that a decoder of the recording will know these bytes. Returns the time from which on
 * it does; 0: from the beginning. The caller holds plugin_code_lock().
 */
uint64_t plugin_account_for(uint64_t address, const uint8_t *bytes, size_t n);

/*
 * aliases.c: memory that is mapped twice, to be written and to be executed. The caller holds
 * plugin_code_lock(). Called when the program has mapped a file, changed a protection, and before
 * it unmaps [address, end).
 */
void plugin_add_alias(const struct shared_mapping *mapping);
void plugin_protect_alias(const struct shared_mapping *mapping);
void plugin_drop_alias(uint64_t address, uint64_t end);

/* request.c */
/*
 * Gets descriptors from the recorder, for a process that cannot open these files. They are closed
 * by execve. False: the recorder has ended, or cannot be reached.
 */
bool plugin_request(int descriptors[PASSED_MAX]);

/* thread_output.c: the engine between a thread's processor and its trace buffer */
bool plugin_output_begin(struct shared_thread *t, uint64_t time);
void plugin_output_end(struct shared_thread *t);
/*
 * Pauses or resumes the capture. Called between two blocks, while the thread's processor is in the
 * kernel.
 */
void plugin_output_pause(struct shared_thread *t, bool on);
/* Passes address ranges that have become known since the last call on to the processor. */
void plugin_output_refresh(struct shared_thread *t);
/* Called when a file has been mapped: its code may belong to a filter. */
void plugin_output_map(const char *path, uint64_t start, uint64_t end, uint64_t file_offset);

/*
 * Locks of what the plugin knows of code and of filters. fork takes both, so that the child finds
 * them consistent.
 */
void plugin_code_lock(void);
void plugin_code_unlock(bool in_child);
void plugin_output_lock(void);
void plugin_output_unlock(bool in_child);

/*
 * stack_limit.c: the limit of the stack's size. QEMU does not pass a new one on to the system.
 * `limit`: address of the program's struct rlimit.
 */
void plugin_before_stack_limit(uint64_t limit);
void plugin_after_stack_limit(int64_t result);

/* exec.c: execve */
void plugin_before_exec(unsigned vcpu, uint64_t path, uint64_t argv, uint64_t environment);
/* Called when the program that execve started has begun. */
void plugin_after_exec(const char *name);

/* fatal_signal.c: lets the plugin know of a signal that ends the process */
void plugin_watch_end(void);

/* threads.c, block_trace.c, crossings.c: threads and their traces */
void plugin_trace_init(void);
qemu_exec_fn plugin_on_block;
void plugin_on_exit(qemu_plugin_id_t id, unsigned vcpu);
void plugin_before_syscall(unsigned vcpu);
void plugin_after_syscall(unsigned vcpu);
void plugin_stamp_name(unsigned vcpu, uint64_t time);
/* What the current system call maps, until it returns. NULL: the thread is not traced. */
struct shared_mapping *plugin_mapping(unsigned vcpu);
int32_t plugin_thread_id(unsigned vcpu);

/* log_calls.c: system calls, unless they are not recorded */
void plugin_log_call(unsigned vcpu, int64_t number, const uint64_t args[6]);
void plugin_log_return(unsigned vcpu, int64_t number, int64_t result);
/* A thread, child or program begins, as if it returned from this call. */
void plugin_log_begin(int32_t tid, int64_t number, uint64_t ip);

/* Stops the recording of this process for good; the program runs on. */
void plugin_stop(void);

static inline struct shared_thread *plugin_slot(unsigned i)
{
	return shared_slot(plugin.shared, plugin.buffer, i);
}

/* A time for a change of code: later than everything that any thread has executed. */
uint64_t plugin_change_time(void);
uint64_t plugin_exec_time(void);

/* Reads guest memory. False: it is not mapped. */
bool plugin_read(uint64_t address, void *bytes, size_t n);

#endif
