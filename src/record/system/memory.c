/* SPDX-License-Identifier: MIT */
/* The guest's physical memory, which the model reads ToPA tables from and writes trace to. */
#include "record/system/system.h"

#define AT_ONCE (UINT64_C(1) << 20)

uint8_t *system_memory(void *port, uint64_t physical, uint64_t *bytes)
{
	uint64_t size = AT_ONCE;
	uint8_t *host_address = host.map(physical, &size, true);

	(void)port;
	if (!host_address)
		return NULL;
	/* RAM stays where it is. */
	host.unmap(host_address, size, true, 0);
	*bytes = size;
	return host_address;
}
