/* SPDX-License-Identifier: MIT */
/*
 * The guest's threads: their slots in the memory that is shared with the recorder, how they begin
 * and end, and fork.
 */
#include "record/qemu/plugin/block_trace.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

const struct block plugin_sentinel = {.slow = BLOCK_SENTINEL};
struct shared_thread plugin_untraced;
struct shared_thread *plugin_threads[PLUGIN_VCPUS];
static bool env_checked, stopped;

void plugin_stop(void)
{
	stopped = true;
	for (unsigned i = 0; i < PLUGIN_VCPUS; i++)
		plugin_threads[i] = &plugin_untraced;
}

/* Takes a free slot. Other processes look for one at the same time. */
static struct shared_thread *take_slot(unsigned *number)
{
	for (unsigned i = 0; i < SHARED_THREADS; i++) {
		struct shared_thread *t = plugin_slot(i);
		uint32_t free_slot = THREAD_FREE;

		if (atomic_load(&t->state) == THREAD_FREE &&
		    atomic_compare_exchange_strong(&t->state, &free_slot, THREAD_TAKEN)) {
			memset((uint8_t *)t + sizeof(t->state), 0, sizeof(*t) - sizeof(t->state));
			t->guard = plugin.guard;
			t->live.first_guard = t->live.last_guard = plugin.guard;
			t->pid = getpid();
			*number = i;
			return t;
		}
	}
	return NULL;
}

/* Called at the first block of the process, which begins at `ip`. */
static void begin_process(const uint64_t *env, uint64_t ip)
{
	const char *(*path)(void);

	env_checked = true;
	plugin_check_end(env, ip, plugin_check_registers(env));
	*(void **)&path = dlsym(RTLD_DEFAULT, "qemu_plugin_path_to_binary");
	plugin.program = path ? realpath(path(), NULL) : NULL;
}

/* Sent once for all threads and children. */
static void report_left_out(void)
{
	if (!atomic_exchange(&plugin.shared->left_out, true))
		plugin_note("children and threads of the command were left out, as was asked");
}

void plugin_begin_thread(unsigned vcpu, const uint64_t *env, uint64_t ip)
{
	struct shared_message message = {.type = MESSAGE_THREAD};
	const struct shared_header *h = plugin.shared;
	const bool is_program = !env_checked;
	struct shared_thread *t;
	unsigned slot = 0;

	if (!env_checked)
		begin_process(env, ip);
	plugin_own_thread(vcpu, env);
	plugin_threads[vcpu % PLUGIN_VCPUS] = &plugin_untraced;
	if (atomic_load(&h->stop))
		return;
	if (h->flags & SHARED_NO_INHERIT && syscall(SYS_gettid) != getpid()) {
		report_left_out();
		return;
	}
	t = take_slot(&slot);
	if (!t) {
		if (!atomic_exchange(&plugin.shared->crowded, true))
			plugin_note("more than 512 threads at a time: some were not recorded");
		return;
	}
	t->tid = (int32_t)syscall(SYS_gettid);
	t->prev = &plugin_sentinel;
	t->timed = h->trace.mtc || h->trace.cyc;
	t->general = plugin_is_general(t);
	plugin_lift_clock(t, atomic_load(&plugin.shared->clock));
	t->told = plugin_clock(t);
	if (t->told < plugin.birth) /* the host's clock may lag by a tick or two */
		t->told = plugin.birth;
	t->before = t->told;
	if (!plugin_output_begin(t, t->told)) {
		t->pid = 0;
		atomic_store(&t->state, THREAD_FREE);
		return;
	}
	t->checkpoint = t->live;
	atomic_store(&t->state, THREAD_ACTIVE);
	message.pid = t->pid;
	message.tid = t->tid;
	message.tsc = t->told; /* the time of the first PSB+: nothing in the trace is earlier */
	message.value = slot;
	plugin_send(&message, "");
	plugin_threads[vcpu % PLUGIN_VCPUS] = t;
	if (is_program)
		plugin_log_begin(t->tid, SYS_execve, ip);
	else if (t->tid != t->pid)
		plugin_log_begin(t->tid, SYS_clone, ip);
}

int32_t plugin_thread_id(unsigned vcpu)
{
	const struct shared_thread *t = plugin_thread(vcpu);

	return t ? t->tid : 0;
}

/*
 * Takes the thread's state back from the recorder, if it had claimed it. False: the recorder has
 * ended the trace, or has ended itself.
 */
bool plugin_unpark(struct shared_thread *t)
{
	for (;;) {
		uint32_t parked = PARK_PARKED;

		if (atomic_compare_exchange_strong(&t->park, &parked, PARK_RUNS) ||
		    parked == PARK_RUNS)
			return true;
		if (atomic_load(&plugin.shared->stop) || plugin.recorder_gone)
			return false;
		plugin_doze();
	}
}

void plugin_on_exit(qemu_plugin_id_t id, unsigned vcpu)
{
	struct shared_thread *t = plugin_thread(vcpu);

	(void)id;
	if (t && t != &plugin_untraced && plugin_unpark(t)) {
		t->checkpoint = t->live;
		t->busy = 1;
		atomic_signal_fence(memory_order_seq_cst);
		plugin_output_end(t);
		atomic_signal_fence(memory_order_seq_cst);
		t->busy = 0;
		atomic_store(&t->state, THREAD_ENDED);
	}
	if (!stopped)
		plugin_threads[vcpu % PLUGIN_VCPUS] = NULL;
}

/*
 * fork. What the plugin knows of the process's memory must be what the child gets, and
 * `forking.time` must separate the changes that the child has from those that the parent makes
 * later. So both locks are held, and nothing changes in between.
 */
static struct {
	int32_t pid, tid;
	uint64_t time;
} forking;

static void before_fork(void)
{
	plugin_code_lock();
	plugin_output_lock();
	if (plugin.recorder_gone)
		return;
	forking.pid = getpid();
	forking.tid = (int32_t)syscall(SYS_gettid);
	forking.time = plugin_change_time();
}

static void in_parent(void)
{
	plugin_output_unlock(false);
	plugin_code_unlock(false);
}

/*
 * Whether the recorder sees this process under the same pid. Not so in a PID namespace of its own.
 */
static bool has_own_number(void)
{
	char text[32];
	ssize_t n = readlink("/proc/self", text, sizeof(text) - 1);

	text[n < 0 ? 0 : n] = '\0';
	return n < 0 ? getpid() > 1 : atoi(text) == getpid();
}

/* The process runs on unrecorded, and programs that it starts run outside the emulator. */
static void run_unrecorded(void)
{
	plugin.recorder_gone = true;
	plugin_stop();
}

/*
 * The threads and their slots belong to the parent. The child's thread begins with its next block.
 */
static void in_child(void)
{
	struct shared_message message = {.type = MESSAGE_FORK};

	plugin_output_unlock(true);
	plugin_code_unlock(true);
	if (plugin.recorder_gone)
		return;
	for (unsigned i = 0; i < PLUGIN_VCPUS; i++)
		if (plugin_threads[i])
			plugin_threads[i] = NULL;
	if (plugin.shared->flags & SHARED_NO_INHERIT) {
		report_left_out();
		run_unrecorded();
		return;
	}
	if (!has_own_number()) {
		plugin_note("a child in a PID namespace of its own was not recorded");
		run_unrecorded();
		return;
	}
	plugin.birth = forking.time;
	message.pid = message.tid = getpid();
	message.tsc = forking.time;
	message.value = (uint64_t)forking.pid;
	message.address = (uint64_t)forking.tid;
	plugin_send(&message, "");
}

void plugin_trace_init(void)
{
	plugin_untraced.prev = &plugin_sentinel;
	pthread_atfork(before_fork, in_parent, in_child);
}

void plugin_end_trace(struct shared_thread *t, unsigned vcpu)
{
	plugin_threads[vcpu % PLUGIN_VCPUS] = &plugin_untraced;
	t->busy = 0;
	if (plugin.recorder_gone)
		plugin_stop();
}

struct shared_mapping *plugin_mapping(unsigned vcpu)
{
	struct shared_thread *t = plugin_thread(vcpu);

	return t && t != &plugin_untraced ? &t->mapping : NULL;
}
