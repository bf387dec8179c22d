/* SPDX-License-Identifier: MIT */
/* Reads the few symbols of guest_symbols.h from lines "ADDRESS TYPE NAME". */
#include "record/vm/guest_symbols.h"

#include "base/compiler.h"
#include "perfdata/message.h"
#include "record/system/channel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct guest_symbols {
	uint64_t text;
	uint64_t values[CHANNEL_SYMBOLS];
};

static void take_line(struct guest_symbols *s, const char *line)
{
	unsigned long long address;
	char type, name[64];

	if (sscanf(line, "%llx %c %63s", &address, &type, name) != 3)
		return;
	if (!strcmp(name, "_text"))
		s->text = address;
	for (unsigned i = 0; i < CHANNEL_SYMBOLS; i++)
		if (!strcmp(name, channel_symbol(i)))
			s->values[i] = address;
}

int guest_symbols_read(const char *path, struct guest_symbols **symbols, struct ptah_message *why)
{
	struct guest_symbols *s = malloc(sizeof(*s));
	FILE *f = fopen(path, "re");
	char line[1024];

	if (!s || !f) {
		const int error = errno;

		free(s);
		if (f)
			fclose(f);
		return s ? perfdata_system_message(why, error, path, "open") : PTAH_E_NOMEM;
	}
	s->text = CHANNEL_NONE;
	for (unsigned i = 0; i < CHANNEL_SYMBOLS; i++)
		s->values[i] = CHANNEL_NONE;
	while (fgets(line, sizeof(line), f))
		take_line(s, line);
	fclose(f);
	if (s->text == CHANNEL_NONE || !s->text) {
		free(s);
		return perfdata_message(why, PTAH_E_BAD_FILE,
					"%s: not in the format of /proc/kallsyms and System.map, "
					"without the symbol _text, or its addresses are hidden",
					path);
	}
	*symbols = s;
	return 0;
}

void guest_symbols_free(struct guest_symbols *symbols)
{
	free(symbols);
}

uint64_t guest_symbol(const struct guest_symbols *s, const char *name)
{
	if (s && !strcmp(name, "_text"))
		return s->text;
	for (unsigned i = 0; s && i < CHANNEL_SYMBOLS; i++)
		if (!strcmp(name, channel_symbol(i)))
			return s->values[i];
	return CHANNEL_NONE;
}
