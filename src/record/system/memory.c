/* SPDX-License-Identifier: MIT */
/* The guest's physical memory, which the model reads ToPA tables from and writes trace to. */
#include "record/system/system.h"

#define AT_ONCE (UINT64_C(1) << 20)

/*
 * QEMU maps RAM as it is. For everything else (devices, ROM) it lends a buffer, which must not be
 * used once it is unmapped: for the model there is no memory then, so that stores are dropped.
 */
uint8_t *system_memory(void *port, uint64_t physical, uint64_t *bytes)
{
	uint64_t size = AT_ONCE, offset;
	uint8_t *host_address = host.map(physical, &size, true);
	bool is_ram;

	(void)port;
	if (!host_address)
		return NULL;
	is_ram = host.ram_block(host_address, false, &offset);
	host.unmap(host_address, size, true, 0);
	if (!is_ram)
		return NULL;
	*bytes = size;
	return host_address;
}
