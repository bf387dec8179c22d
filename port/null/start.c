/* SPDX-License-Identifier: MIT */
/*
 * What a kernel does when its driver is loaded, on the null port. This file also has
 * the two functions of a C library that the engine needs to link.
 */
#include "port.h"

#include <ptah/engine/engine.h>

void *memcpy(void *to, const void *from, size_t n);
void *memset(void *to, int byte, size_t n);
int ptah_start(void);

void *memcpy(void *to, const void *from, size_t n)
{
	unsigned char *t = to;
	const unsigned char *f = from;

	while (n--)
		*t++ = *f++;
	return to;
}

void *memset(void *to, int byte, size_t n)
{
	unsigned char *t = to;

	while (n--)
		*t++ = (unsigned char)byte;
	return to;
}

/* Fails with PTAH_E_NOMEM: this port has no memory for an engine. */
int ptah_start(void)
{
	struct ptah_engine *engine;
	const struct ptah_caps *caps;
	int status = ptah_engine_new(&null_port, NULL, &engine);

	if (status < 0)
		return status;
	caps = ptah_engine_caps(engine, 0);
	if (caps && caps->obstacle && null_port.log)
		null_port.log(NULL, ptah_caps_advice(caps->obstacle));
	return ptah_engine_free(engine);
}
