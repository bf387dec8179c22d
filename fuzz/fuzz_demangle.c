/* SPDX-License-Identifier: MIT */
/*
 * Proves of mangled names: whatever they are, the readable form is the name itself, or text that
 * ends within the space that was given for it; in bounded time. With more space it is the same. A
 * name matches itself and its readable forms.
 */
#include "fuzz.h"

#include <ptah/symbol.h>

static void check(const char *name, unsigned flags)
{
	static char text[4096];
	char small[64];
	const char *full = ptah_symbol_demangle(name, flags, text, sizeof(text));
	const char *part = ptah_symbol_demangle(name, flags, small, sizeof(small));

	CHECK(full == name || (full == text && memchr(text, 0, sizeof(text))));
	CHECK(part == name || (part == small && !strcmp(small, full)));
	CHECK(full == name || part == small || strlen(full) >= sizeof(small));
	CHECK(ptah_symbol_matches(name, full));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *name = malloc(size + 1);

	CHECK(name);
	memcpy(name, data, size);
	name[size] = '\0';
	check(name, 0);
	check(name, PTAH_DEMANGLE_PARAMETERS);
	free(name);
	return 0;
}
