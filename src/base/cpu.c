/* SPDX-License-Identifier: MIT */
/* Reads a processor's identity from text. Freestanding. */
#include <ptah/base.h>

#include <stddef.h>
#include <string.h>

static int digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return 16;
}

/* A number up to `max`, decimal or 0x...; returns what follows it, NULL when there is none. */
static const char *parse_number(const char *text, uint32_t max, uint32_t *value)
{
	const int base = text[0] == '0' && (text[1] == 'x' || text[1] == 'X') ? 16 : 10;

	if (base == 16)
		text += 2;
	if (digit_value(*text) >= base)
		return NULL;
	for (*value = 0; digit_value(*text) < base; text++) {
		*value = *value * (uint32_t)base + (uint32_t)digit_value(*text);
		if (*value > max)
			return NULL;
	}
	return text;
}

/* The text after perf's vendor, NULL when that is not Intel; text without a vendor as it is. */
static const char *skip_vendor(const char *text, char *separator)
{
	static const char intel[] = "GenuineIntel,";
	size_t comma = 0;

	*separator = '/';
	while (text[comma] && text[comma] != ',')
		comma++;
	if (!text[comma])
		return text;
	*separator = ',';
	return comma + 2 == sizeof(intel) && !memcmp(text, intel, comma + 1) ? text + comma + 1
									     : NULL;
}

int ptah_cpu_parse(const char *text, struct ptah_cpu *cpu)
{
	uint32_t family, model, stepping = 0;
	char separator;

	if (!text || !cpu)
		return PTAH_E_INVAL;
	text = skip_vendor(text, &separator);
	if (!text)
		return PTAH_E_FOREIGN;
	text = parse_number(text, UINT16_MAX, &family);
	if (!text || *text != separator)
		return PTAH_E_INVAL;
	text = parse_number(text + 1, UINT8_MAX, &model);
	if (text && *text == separator)
		text = parse_number(text + 1, UINT8_MAX, &stepping);
	if (!text || *text)
		return PTAH_E_INVAL;
	*cpu = (struct ptah_cpu){(uint16_t)family, (uint8_t)model, (uint8_t)stepping};
	return 0;
}
