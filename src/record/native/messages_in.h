/* SPDX-License-Identifier: MIT */
/*
 * The recorder's side of the message ring. What stands there may have been written by anybody: a
 * message is copied, checked, and given on only if it is one that the runtime could have sent.
 */
#ifndef PTAH_RECORD_NATIVE_MESSAGES_IN_H
#define PTAH_RECORD_NATIVE_MESSAGES_IN_H

#include "record/native/layout.h"

#include <stdbool.h>
#include <stdint.h>

struct native_messages {
	struct native_header *shared;
	/* `payload` has m->bytes bytes, and a NUL behind them. */
	void (*take)(void *context, const struct native_message *m, const char *payload);
	void *context;
	uint64_t tail; /* our own: what stands in the shared memory is for programs */
	bool damaged;  /* something was there that no runtime writes */
	char payload[NATIVE_MESSAGE_MAX + 1];
};

/*
 * Takes the messages that have been sent when it is called; a question is answered behind take().
 * False: they are so many that some are left for the next time.
 */
bool native_messages_drain(struct native_messages *in);

#endif
