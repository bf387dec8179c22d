/* SPDX-License-Identifier: MIT */
/*
 * Proves of lists of a kernel's symbols (/proc/kallsyms): any file is read or refused, and a
 * function that is found has a name and contains the address that was searched for, also when the
 * kernel is moved.
 *
 * Input: eight bytes, the address of the symbol "_text" (0: as in the file), then the file.
 */
#include "fuzz.h"

#include <ptah/symbol.h>

#include <sys/mman.h>
#include <unistd.h>

static void look_up(struct ptah_symbols *symbols, uint64_t text)
{
	struct ptah_kernel_symbol symbol;
	struct ptah_function bounds;

	for (uint64_t i = 0; i < 64; i++) {
		/* Dense at first, then farther away; and the last addresses of all. */
		const uint64_t at[] = {text + i, text + (i << 6), text + (i << 12), UINT64_MAX - i};

		for (size_t k = 0; k < sizeof(at) / sizeof(*at); k++) {
			if (!ptah_symbols_lookup_kernel(symbols, at[k], &symbol))
				continue;
			CHECK(ptah_symbols_bounds(symbols, NULL, 0, at[k], &bounds));
			CHECK(at[k] >= bounds.low && at[k] < bounds.high);
			CHECK(symbol.name && strlen(symbol.name) > 0 && symbol.module);
			CHECK(at[k] >= symbol.start && at[k] - symbol.start < symbol.size);
		}
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ptah_symbols *symbols;
	uint64_t address, was;
	char path[64];
	int fd, status;

	if (size < sizeof(address))
		return 0;
	memcpy(&address, data, sizeof(address));
	was = address;
	data += sizeof(address);
	size -= sizeof(address);
	fd = memfd_create("kallsyms", 0);
	CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	CHECK(!ptah_symbols_new(NULL, &symbols));
	status = ptah_symbols_add_kallsyms(symbols, path, "_text", &address);
	CHECK(status <= 0);
	CHECK(status < 0 || !was || address == was);
	look_up(symbols, address);
	CHECK(ptah_symbols_add_vmlinux(symbols, path, address, PTAH_VMLINUX_NAMES) <= 0);
	ptah_symbols_free(symbols);
	close(fd);
	return 0;
}
