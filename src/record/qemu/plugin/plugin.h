/* SPDX-License-Identifier: MIT */
/* What the plugin's files share with each other. */
#ifndef PTAH_RECORD_QEMU_PLUGIN_PLUGIN_H
#define PTAH_RECORD_QEMU_PLUGIN_PLUGIN_H

#include "record/qemu/plugin/api.h"
#include "record/qemu/shared.h"

/* A translated block. Lives as long as the process: QEMU may run it at any time. */
struct block {
	uint64_t start;
	uint64_t end;	 /* behind its last instruction */
	uint64_t target; /* of its direct branch; of KIND_REP: its rep instruction */
	uint64_t change; /* BLOCK_CHANGED: time of the change it belongs to */
	uint32_t slow;	 /* enum block_flags: 0 on the hot path */
	uint16_t ninsn;
	uint8_t kind;
	uint8_t last_size;
	struct block *next; /* of the same bucket */
	uint8_t sizes[];    /* of its instructions */
};

enum block_flags {
	BLOCK_SENTINEL = 1, /* no block: tracing is off or has not begun */
	BLOCK_HANDLER = 2,  /* a signal handler begins here */
	BLOCK_STEP = 4,	    /* one instruction that ends no block by itself */
	BLOCK_CHANGED = 8,  /* its bytes are not what they once were */
	BLOCK_VSYSCALL = 16,
	BLOCK_FAR = 32, /* ends with a far transfer */
	BLOCK_INT = 64, /* ends with INT n, INT3, INTO or INT1 */
};

struct plugin {
	struct shared_header *shared;
	uint64_t buffer; /* shared->buffer */
	int api;
	/* qemu_plugin_insn_data() as API 3 has it: copies up to n bytes. */
	size_t (*copy_insn)(const struct qemu_plugin_insn *insn, void *bytes, size_t n);
	bool recorder_gone;
	uint64_t guest_base;
	_Atomic uint64_t map_time; /* when a file was mapped last, to run code of it */
	/* When the process began with what it runs: by fork or by execve. 0: the command. What is
	 * told of the memory it has had ever since bears this time. */
	uint64_t birth;
	char *program; /* path of the file that runs; NULL: not known */
};

/* One process, one plugin: QEMU's interface passes no context along. */
extern struct plugin plugin;

/* messages.c: to the recorder */
void plugin_send(const struct shared_message *message, const void *payload);
void plugin_note(const char *text);
/* A message of this process. */
void plugin_send_text(unsigned type, int32_t tid, const char *text);
void plugin_wait(_Atomic uint64_t *word, uint64_t old);
/* A moment, n-th in a row. Sets plugin.recorder_gone when nobody is there to wait for. */
void plugin_doze(unsigned n);

/* blocks.c: what was translated, and where signal handlers are */
struct block *plugin_block(const struct qemu_plugin_tb *tb);
void plugin_add_handler(uint64_t address, uint64_t restorer);
bool plugin_is_handler(uint64_t address);
bool plugin_is_restorer(uint64_t address);

/* guest_maps.c: what is mapped, and what of it the recording has */
void plugin_forget_maps(uint64_t address, uint64_t size);
/* The program has mapped code of a file, or made it executable. */
void plugin_add_map(uint64_t address, uint64_t size, uint64_t file_offset);
void plugin_add_executable(uint64_t address, uint64_t size);
/*
 * Makes sure that a decoder will know these bytes. Returns the time from which on
 * it does; 0: always. The caller holds the lock of the code.
 */
uint64_t plugin_account_for(uint64_t address, const uint8_t *bytes, size_t n);

/* thread_output.c: the engine between a thread's processor and its trace buffer */
bool plugin_output_begin(struct shared_thread *t, uint64_t time);
void plugin_output_end(struct shared_thread *t);
/* Between two blocks of a thread that is in the kernel, as the processor sees it. */
void plugin_output_pause(struct shared_thread *t, bool on);
/* Address ranges that have become known since. */
void plugin_output_refresh(struct shared_thread *t);
/* A file has been mapped, in which code of a filter may lie. */
void plugin_output_map(const char *path, uint64_t start, uint64_t end, uint64_t file_offset);

/* What the plugin knows of code and filters. fork holds both, so that the child finds them whole.
 */
void plugin_code_lock(void);
void plugin_code_unlock(bool in_child);
void plugin_output_lock(void);
void plugin_output_unlock(bool in_child);

/* exec.c: another program in this process */
void plugin_before_exec(unsigned vcpu, uint64_t path, uint64_t argv, uint64_t environment);
/* It has begun in this one. */
void plugin_after_exec(const char *name);

/* block_trace.c: threads and their traces */
void plugin_trace_init(void);
qemu_exec_fn plugin_on_block;
void plugin_on_exit(qemu_plugin_id_t id, unsigned vcpu);
void plugin_before_syscall(unsigned vcpu);
void plugin_after_syscall(unsigned vcpu);
/* Of a call that maps, until it returns; NULL where nothing is traced. */
struct shared_mapping *plugin_mapping(unsigned vcpu);
int32_t plugin_thread_id(unsigned vcpu);

/* Stops recording for good; the program runs on. */
void plugin_stop(void);

static inline struct shared_thread *plugin_slot(unsigned i)
{
	return shared_slot(plugin.shared, plugin.buffer, i);
}

/* A time that is later than whatever any thread has run; for changes of code. */
uint64_t plugin_change_time(void);
uint64_t plugin_exec_time(void);

/* Reads guest memory that may not be there. */
bool plugin_read(uint64_t address, void *bytes, size_t n);

#endif
