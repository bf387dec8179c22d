/* SPDX-License-Identifier: MIT */
/* Ways out of the bare image: text on the serial line, bytes and an exit status for QEMU. */
#include "port.h"

#define COM1	      0x3f8u
#define LINE_STATUS   (COM1 + 5u)
#define ROOM	      0x20u /* in LINE_STATUS: the next byte can be written */
#define DEBUG_CONSOLE 0xe9u
#define DEBUG_PRESENT 0xe9u /* what an isa-debugcon answers */
#define DEBUG_EXIT    0xf4u

void bare_serial_begin(void)
{
	bare_out8(COM1 + 1, 0);	   /* no interrupts */
	bare_out8(COM1 + 3, 0x80); /* the next two set the speed */
	bare_out8(COM1 + 0, 1);	   /* 115200 baud */
	bare_out8(COM1 + 1, 0);
	bare_out8(COM1 + 3, 3); /* 8 bits, no parity */
	bare_out8(COM1 + 2, 7); /* queues on */
}

static void put(char c)
{
	while (!(bare_in8(LINE_STATUS) & ROOM))
		;
	bare_out8(COM1, (uint8_t)c);
}

void bare_print(const char *text)
{
	for (; *text; text++) {
		if (*text == '\n')
			put('\r');
		put(*text);
	}
}

static void print_digits(uint64_t number, unsigned base)
{
	char digits[21]; /* of 2^64 in decimal, and a NUL */
	char *p = digits + sizeof(digits) - 1;

	*p = '\0';
	do
		*--p = "0123456789abcdef"[number % base];
	while (number /= base);
	bare_print(p);
}

void bare_print_number(uint64_t number)
{
	print_digits(number, 10);
}

void bare_print_hex(uint64_t number)
{
	bare_print("0x");
	print_digits(number, 16);
}

void bare_export(const void *bytes, size_t n)
{
	const uint8_t *p = bytes;

	if (bare_in8(DEBUG_CONSOLE) != DEBUG_PRESENT)
		return;
	while (n--)
		bare_out8(DEBUG_CONSOLE, *p++);
}

_Noreturn void bare_exit(unsigned value)
{
	bare_out32(DEBUG_EXIT, value);
	for (;;)
		__asm__ volatile("cli\n\thlt");
}
