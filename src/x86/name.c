/* SPDX-License-Identifier: MIT */
/* Names an instruction in messages by its bytes and its address. Freestanding. */
#include "x86/encoding.h"

static char *put_digits(char *at, uint64_t value, unsigned digits)
{
	while (digits--)
		*at++ = "0123456789abcdef"[value >> 4 * digits & 15];
	return at;
}

void x86_name(char name[X86_NAME_MAX], const uint8_t *bytes, size_t n, uint64_t ip)
{
	unsigned digits = 1;

	for (size_t i = 0; i < n && i < X86_MAX_SIZE; i++) {
		name = put_digits(name, bytes[i], 2);
		*name++ = ' ';
	}
	for (const char *p = "at 0x"; *p; p++)
		*name++ = *p;
	while (digits < 16 && ip >> 4 * digits)
		digits++;
	*put_digits(name, ip, digits) = '\0';
}
