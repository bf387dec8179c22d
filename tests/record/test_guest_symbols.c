/* SPDX-License-Identifier: MIT */
/*
 * The symbols of a guest's kernel, from the format of /proc/kallsyms and from a program's symbol
 * table: this program has symbols of these names itself.
 */
#include "record/system/channel.h"
#include "record/vm/guest_symbols.h"

#include "test.h"

#include <ptah/base.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#if defined(__x86_64__)
__asm__(".globl _text\n.set _text, 0xffffffff81000000\n"
	".globl entry_SYSCALL_64\n.set entry_SYSCALL_64, 0xffffffff82000040\n"
	".globl current_task\n.set current_task, 0x1fbc0\n"
	".globl __start_BTF\n.set __start_BTF, 0xffffffff82600000\n"
	/* Not global: it is another one. */
	".local __stop_BTF\n.set __stop_BTF, 0x123\n");
#endif

static void write_file(const char *path, const char *bytes, size_t n)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

static void check(struct guest_symbols *s)
{
	assert_true(guest_symbol(s, "_text") == 0xffffffff81000000);
	assert_true(guest_symbol(s, "entry_SYSCALL_64") == 0xffffffff82000040);
	assert_true(guest_symbol(s, "current_task") == 0x1fbc0);
	assert_true(guest_symbol(s, "__start_BTF") == 0xffffffff82600000);
	assert_true(guest_symbol(s, "__stop_BTF") == CHANNEL_NONE);
	assert_true(guest_symbol(s, "pcpu_hot") == CHANNEL_NONE);
	assert_true(guest_symbol(s, "main") == CHANNEL_NONE);
	guest_symbols_free(s);
}

TEST(lines)
{
	static const char text[] = "ffffffff81000000 T _text\n"
				   "000000000001fbc0 A current_task\n"
				   "ffffffff82000040 T entry_SYSCALL_64\n"
				   "no symbol\n"
				   "ffffffff82600000 R __start_BTF\n"
				   "ffffffffc0000000 t entry_SYSCALL_64_other\t[module]\n";
	struct ptah_message why = {""};
	struct guest_symbols *s;

	write_file("kallsyms", text, sizeof(text) - 1);
	assert_int_equal(guest_symbols_read("kallsyms", &s, &why), 0);
	check(s);
	/* As /proc/kallsyms is for those who may not see the addresses. */
	write_file("kallsyms", "0000000000000000 T _text\n", 25);
	assert_int_equal(guest_symbols_read("kallsyms", &s, &why), PTAH_E_BAD_FILE);
	assert_non_null(strstr(why.text, "hidden"));
	assert_int_equal(unlink("kallsyms"), 0);
	assert_int_equal(guest_symbols_read("kallsyms", &s, &why), PTAH_E_SYSTEM);
	assert_non_null(strstr(why.text, "kallsyms"));
}

TEST(program)
{
	struct ptah_message why = {""};
	struct guest_symbols *s;

#if !defined(__x86_64__)
	skip();
#endif
	assert_int_equal(guest_symbols_read("/proc/self/exe", &s, &why), 0);
	check(s);
}

/* A program that is cut off, or has other bytes in its headers, is refused or read. */
TEST(damaged)
{
	const size_t most = 8 << 20;
	char *bytes = malloc(most);
	FILE *f = fopen("/proc/self/exe", "r");
	uint64_t seed = 1;
	size_t n;
	int i;

	assert_non_null(bytes);
	assert_non_null(f);
	n = fread(bytes, 1, most, f);
	fclose(f);
	for (i = 0; i < 60; i++) {
		const size_t size = i < 20 ? n - n / 20 * (size_t)i : n;
		struct ptah_message why = {""};
		struct guest_symbols *s = NULL;
		char *copy = malloc(n);
		int k;

		memcpy(copy, bytes, n);
		for (k = 0; i >= 20 && k < 40; k++) {
			const size_t headers = 64 * 40; /* of sections, at the end */

			seed = seed * 6364136223846793005u + 1442695040888963407u;
			copy[k & 1 ? n - 1 - (seed >> 33) % headers : (seed >> 33) % 64] ^=
			    (char)(seed >> 20);
		}
		write_file("damaged", copy, size);
		free(copy);
		if (guest_symbols_read("damaged", &s, &why) < 0)
			assert_true(why.text[0]);
		else
			guest_symbols_free(s);
	}
	unlink("damaged");
	free(bytes);
}
