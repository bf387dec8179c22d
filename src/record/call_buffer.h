/* SPDX-License-Identifier: MIT */
/*
 * Makes the entries of system calls (call_entry.h) for recorders that send them as messages. What
 * includes this defines call_data_read() first (call_data.h), whose context is the buffer.
 */
#ifndef PTAH_RECORD_CALL_BUFFER_H
#define PTAH_RECORD_CALL_BUFFER_H

#include "record/call_data.h"
#include "record/call_entry.h"

#include <stddef.h>
#include <string.h>

struct call_buffer {
	void *reader; /* for call_data_read() */
	size_t data;  /* where what an argument points to begins */
	uint8_t bytes[CALL_ENTRY_MAX];
};

/* A call, as the registers have it. */
struct call_registers {
	uint64_t tsc, ip; /* ip: behind the SYSCALL instruction */
	uint64_t number, args[6];
};

static void call_data_put(void *context, uint64_t place, const void *bytes, uint64_t n)
{
	struct call_buffer *b = context;

	memcpy(b->bytes + b->data + place, bytes, n);
}

static inline size_t call_buffer_finish(struct call_buffer *b, struct call_entry *e, uint64_t data)
{
	const size_t padded = (data + 7) & ~(size_t)7;

	e->data = (uint16_t)data;
	memcpy(b->bytes, e, sizeof(*e));
	memset(b->bytes + b->data + data, 0, padded - data);
	return b->data + padded;
}

static inline struct call_entry call_buffer_entry(const struct call_registers *r, uint8_t kind)
{
	return (struct call_entry){
	    .tsc = r->tsc, .ip = r->ip, .number = (uint32_t)r->number, .kind = kind};
}

/* The call begins. Returns how many bytes the entry has. */
static inline size_t call_buffer_call(struct call_buffer *b, const struct call_registers *r)
{
	struct call_entry e = call_buffer_entry(r, CALL_ENTRY_CALL);

	memcpy(b->bytes + sizeof(e), r->args, sizeof(r->args));
	b->data = sizeof(e) + sizeof(r->args);
	return call_buffer_finish(b, &e, call_data_before(b, r->number, r->args, &e.argument));
}

/* It has returned. */
static inline size_t call_buffer_return(struct call_buffer *b, const struct call_registers *r,
					int64_t result)
{
	struct call_entry e = call_buffer_entry(r, CALL_ENTRY_RETURN);
	uint64_t n = 0;

	memcpy(b->bytes + sizeof(e), &result, sizeof(result));
	b->data = sizeof(e) + sizeof(result);
	if (result >= 0 || result < -4095)
		n = call_data_after(b, r->number, r->args, result, &e.argument);
	return call_buffer_finish(b, &e, n);
}

#endif
