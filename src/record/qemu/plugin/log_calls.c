/* SPDX-License-Identifier: MIT */
/* Sends the program's system calls to the recorder. */
#include "record/qemu/plugin/block_trace.h"

static bool call_data_read(void *context, void *to, uint64_t from, uint64_t n);

#include "record/call_buffer.h"

#include <unistd.h>

static bool call_data_read(void *context, void *to, uint64_t from, uint64_t n)
{
	(void)context;
	return plugin_read(from, to, n);
}

static bool are_recorded(void)
{
	const struct shared_header *h = plugin.shared;

	return !plugin.recorder_gone && !(h->flags & SHARED_NO_CALLS) &&
	       !atomic_load_explicit(&h->paused, memory_order_relaxed);
}

static void send_entry(int32_t tid, const struct call_buffer *b, size_t n, uint64_t time)
{
	const struct shared_message message = {
	    .type = MESSAGE_CALL, .bytes = (uint32_t)n, .pid = getpid(), .tid = tid, .tsc = time};

	plugin_send(&message, b->bytes);
}

/* Other threads' effects may be seen from here on: the thread's own clock follows when it runs. */
static uint64_t time_of_return(const struct shared_thread *t)
{
	const uint64_t shared = atomic_load(&plugin.shared->clock);
	const uint64_t own = t ? plugin_clock(t) : 0;

	return own > shared ? own : shared;
}

void plugin_log_call(unsigned vcpu, int64_t number, const uint64_t args[6])
{
	struct shared_thread *t = plugin_thread(vcpu);
	struct call_registers r = {.number = (uint64_t)number};
	struct call_buffer b = {0};

	if (!t || t == &plugin_untraced)
		return;
	t->logged = are_recorded();
	if (!t->logged)
		return;
	memcpy(t->args, args, sizeof(t->args));
	memcpy(r.args, args, sizeof(r.args));
	r.ip = t->prev ? ((const struct block *)t->prev)->end : 0;
	r.tsc = plugin_clock(t);
	send_entry(t->tid, &b, call_buffer_call(&b, &r), r.tsc);
}

/* A child, thread or program begins: it returns from the call that has made it. */
void plugin_log_begin(int32_t tid, int64_t number, uint64_t ip)
{
	const struct call_registers r = {
	    .number = (uint64_t)number, .ip = ip, .tsc = time_of_return(NULL)};
	struct call_buffer b = {0};

	if (are_recorded())
		send_entry(tid, &b, call_buffer_return(&b, &r, 0), r.tsc);
}

void plugin_log_return(unsigned vcpu, int64_t number, int64_t result)
{
	struct shared_thread *t = plugin_thread(vcpu);
	struct call_registers r = {.number = (uint64_t)number, .tsc = time_of_return(t)};
	struct call_buffer b = {0};

	if (!t && !result && (number == SYS_fork || number == SYS_vfork || number == SYS_clone))
		plugin_log_begin(getpid(), number, 0);
	if (!t || t == &plugin_untraced || !t->logged || !are_recorded())
		return;
	t->logged = false;
	if (number == SYS_rt_sigreturn) /* goes on elsewhere */
		return;
	memcpy(r.args, t->args, sizeof(r.args));
	r.ip = t->prev ? ((const struct block *)t->prev)->end : 0;
	send_entry(t->tid, &b, call_buffer_return(&b, &r, result), r.tsc);
}
