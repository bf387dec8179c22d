/* SPDX-License-Identifier: MIT */
/*
 * The second log: which exits were taken. It has nothing in common with the packets, so that the
 * recorder can compute from it what ran, and compare (docs/native-recorder.md).
 */
#include "record/native/runtime/runtime.h"
#include "record/native/runtime/units.h"

/* Puts code [start, end) behind a description of n bytes. Returns its new size. */
static size_t add_block(struct context *c, size_t n, uint64_t start, uint64_t end)
{
	uint8_t *at = c->description + n;
	const size_t size = (end - start + 7) & ~UINT64_C(7);

	if (start == end)
		return n;
	if (end - start > NATIVE_BLOCK_MAX ||
	    n + sizeof(struct native_block) + size > NATIVE_MESSAGE_MAX)
		leave_broken(c, "a unit is too long to be described");
	*(struct native_block *)(void *)at = (struct native_block){start, end};
	at += sizeof(struct native_block);
	for (size_t i = 0; i < size; i++)
		at[i] = i < end - start ? ((const uint8_t *)(uintptr_t)start)[i] : 0;
	return n + sizeof(struct native_block) + size;
}

uint32_t exits_describe(struct context *c, const struct unit *u, unsigned n, uint64_t start,
			uint64_t end)
{
	const uint32_t number =
	    1 + __atomic_fetch_add(&c->runtime->shared->exits, 1, __ATOMIC_RELAXED);
	struct native_message m = {
	    .type = NATIVE_MESSAGE_EXITS, .pid = c->pid, .tid = c->tid, .value = number};
	size_t size = sizeof(struct native_exit);

	if (!c->description)
		c->description = memory_take(c->runtime, NATIVE_MESSAGE_MAX);
	if (!c->description)
		leave_broken(c, "there is no memory to describe a unit");
	for (unsigned i = 0; i < n; i++)
		size = add_block(c, size, u->pieces[i].start, u->pieces[i].end);
	size = add_block(c, size, start, end);
	*(struct native_exit *)(void *)c->description =
	    (struct native_exit){.blocks = n + (start != end)};
	m.bytes = (uint32_t)size;
	message_send(c, &m, c->description);
	return number;
}

void exits_log(struct context *c, uint32_t number)
{
	if (ring_is_guard(c, NATIVE_LOG_EXITS, c->exits_log + sizeof(number) - 1))
		c->exits_log = (uintptr_t)ring_next(c, NATIVE_LOG_EXITS,
						    (const uint8_t *)(uintptr_t)c->exits_log);
	*(uint32_t *)(uintptr_t)c->exits_log = number;
	c->exits_log += sizeof(number);
}
