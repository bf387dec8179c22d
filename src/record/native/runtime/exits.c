/* SPDX-License-Identifier: MIT */
/*
 * The second log: which exits were taken. It has nothing in common with the packets, so that the
 * recorder can compute from it what ran, and compare (docs/native-recorder.md).
 */
#include "record/native/runtime/runtime.h"
#include "record/native/runtime/units.h"

struct description {
	struct native_exit exit;
	struct native_block block;
	uint8_t bytes[NATIVE_BLOCK_MAX];
};

uint32_t exits_describe(struct context *c, uint64_t start, uint64_t end, unsigned kind,
			uint64_t next)
{
	const uint32_t number =
	    1 + __atomic_fetch_add(&c->runtime->shared->exits, 1, __ATOMIC_RELAXED);
	struct description d = {.exit = {.blocks = 1, .kind = kind, .next = next},
				.block = {start, end}};
	const struct native_message m = {
	    .type = NATIVE_MESSAGE_EXITS,
	    .bytes = (uint32_t)(sizeof(d) - sizeof(d.bytes) + ((end - start + 7) & ~UINT64_C(7))),
	    .pid = c->pid,
	    .tid = c->tid,
	    .value = number,
	};

	if (end - start > sizeof(d.bytes))
		leave_broken(c, "a unit is too long to be described");
	for (uint64_t i = 0; i < end - start; i++)
		d.bytes[i] = ((const uint8_t *)(uintptr_t)start)[i];
	message_send(c, &m, &d);
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
