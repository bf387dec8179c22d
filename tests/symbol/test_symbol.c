/* SPDX-License-Identifier: MIT */
/*
 * Names against independent judges: nm and objdump of binutils, over a small
 * library that this test has the compiler make; and no crash over what a
 * hostile file may hold.
 */
#include "../test.h"

#include <ptah/symbol.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/ptah-symbol-XXXXXX";

static const char source[] =
    "#include <stdio.h>\n"
    "#include <stdlib.h>\n"
    "static __attribute__((noinline)) int hidden(int x) { return puts(getenv(\"A\")) * x; }\n"
    "int shown(int x); int shown(int x) { return hidden(x) + rand() + 1; }\n"
    "int alias(int x) __attribute__((alias(\"shown\")));\n"
    "int other(void); int other(void) { return hidden(4) + alias(3); }\n";

static char *shell(const char *command)
{
	static char text[65536];
	FILE *f = popen(command, "r");
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	text[n] = '\0';
	return f && pclose(f) == 0 ? text : NULL;
}

static int make_library(void **state)
{
	const char *compiler = getenv("CC");
	char command[1024], path[256];
	FILE *f;

	(void)state;
	if (!mkdtemp(folder) || chdir(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/lib.c", folder);
	f = fopen(path, "w");
	if (!f || fputs(source, f) < 0 || fclose(f))
		return -1;
	/* The text segment where address and offset differ, so that mixing them up shows. */
	snprintf(command, sizeof(command),
		 "%s -shared -fPIC -O1 -g0 -Wl,--build-id,-Ttext-segment=0x400000,-z,lazy "
		 "-o lib.so lib.c && objcopy --only-keep-debug lib.so lib.debug && "
		 "strip -s -o stripped.so lib.so && "
		 "objcopy --add-gnu-debuglink=lib.debug stripped.so linked.so",
		 compiler && *compiler ? compiler : "cc");
	return shell(command) ? 0 : -1;
}

static int remove_library(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return chdir("/") || !shell(command) ? -1 : 0;
}

/* The file offset of an address, from readelf's list of segments. */
static uint64_t offset_of(uint64_t address)
{
	char *list = shell("readelf -lW lib.so | grep LOAD");

	assert_non_null(list);
	for (char *line = strtok(list, "\n"); line; line = strtok(NULL, "\n")) {
		unsigned long long offset, start, physical, size;

		assert_int_equal(
		    sscanf(line, " LOAD %llx %llx %llx %llx", &offset, &start, &physical, &size),
		    4);
		if (address - start < size)
			return offset + (address - start);
	}
	fail_msg("no segment holds 0x%llx", (unsigned long long)address);
	return 0;
}

static uint64_t nm_address(const char *name, uint64_t *size)
{
	unsigned long long address, bytes;
	char command[128], *line;

	snprintf(command, sizeof(command), "nm -S lib.so | grep ' [tT] %s$'", name);
	line = shell(command);
	assert_non_null(line);
	assert_int_equal(sscanf(line, "%llx %llx", &address, &bytes), 2);
	*size = bytes;
	return address;
}

static bool look_up(const char *symfs, const char *path, uint64_t offset, char *name,
		    struct ptah_symbol *symbol)
{
	struct ptah_symbols *symbols;
	bool found;

	assert_int_equal(ptah_symbols_new(symfs, &symbols), 0);
	found = ptah_symbols_lookup(symbols, path, offset, symbol);
	if (found)
		snprintf(name, 256, "%s", symbol->name);
	ptah_symbols_free(symbols);
	return found;
}

static void expect_name(const char *symfs, const char *path, const char *function,
			const char *expected, bool named)
{
	struct ptah_symbol symbol;
	uint64_t size, offset = offset_of(nm_address(function, &size));
	char name[256];

	for (uint64_t i = 0; i < size; i++) {
		assert_true(look_up(symfs, path, offset + i, name, &symbol));
		assert_string_equal(name, expected);
		assert_int_equal(symbol.start, offset);
		assert_int_equal(symbol.size, size);
		assert_int_equal(symbol.named, named);
	}
}

static void functions_have_the_names_nm_gives(void **state)
{
	(void)state;
	expect_name(NULL, "lib.so", "hidden", "hidden", true);
	expect_name(NULL, "lib.so", "other", "other", true);
}

static void stripped_functions_have_their_frames(void **state)
{
	char expected[64];
	uint64_t size, address = nm_address("hidden", &size);

	(void)state;
	snprintf(expected, sizeof(expected), "fn_%llx", (unsigned long long)address);
	expect_name(NULL, "stripped.so", "hidden", expected, false);
	/* Exported names survive strip. */
	expect_name(NULL, "stripped.so", "other", "other", true);
}

static void plt_entries_are_named_as_objdump_does(void **state)
{
	char *list = shell("objdump -d lib.so | grep '@plt>:$'"), *rest = NULL;
	unsigned count = 0;

	(void)state;
	assert_non_null(list);
	list = strdup(list);
	for (char *line = strtok_r(list, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		struct ptah_symbol symbol;
		unsigned long long address;
		char expected[128], name[256];

		assert_int_equal(sscanf(line, "%llx <%127[^>]>", &address, expected), 2);
		assert_true(look_up(NULL, "stripped.so", offset_of(address) + 2, name, &symbol));
		assert_string_equal(name, expected);
		count++;
	}
	free(list);
	/* puts, getenv and rand at least. */
	assert_true(count >= 3);
}

static void debug_files_are_found_by_build_id(void **state)
{
	char command[512], symfs[64], id[128], *text;

	(void)state;
	text = shell("readelf -n lib.so | sed -n 's/.*Build ID: //p' | tr -d '\\n'");
	assert_non_null(text);
	snprintf(id, sizeof(id), "%s", text);
	assert_true(strlen(id) > 8);
	snprintf(symfs, sizeof(symfs), "%s/symfs", folder);
	snprintf(command, sizeof(command),
		 "mkdir -p symfs/usr/lib/debug/.build-id/%.2s symfs/lib && "
		 "cp stripped.so symfs/lib && "
		 "cp lib.debug symfs/usr/lib/debug/.build-id/%.2s/%.60s.debug",
		 id, id, id + 2);
	assert_non_null(shell(command));
	expect_name(symfs, "/lib/stripped.so", "hidden", "hidden", true);
}

static void debug_files_are_found_by_link_if_the_build_id_agrees(void **state)
{
	(void)state;
	expect_name(NULL, "./linked.so", "hidden", "hidden", true);
	/* The same name, but of another build. */
	assert_non_null(shell("mkdir -p foreign && cp linked.so foreign && "
			      "objcopy --remove-section .note.gnu.build-id lib.debug "
			      "foreign/lib.debug"));
	struct ptah_symbol symbol;
	uint64_t size, offset = offset_of(nm_address("hidden", &size));
	char name[256];

	assert_true(look_up(NULL, "./foreign/linked.so", offset, name, &symbol));
	assert_false(symbol.named);
}

static void what_is_no_code_has_no_name(void **state)
{
	struct ptah_symbol symbol;
	char name[256];

	(void)state;
	assert_false(look_up(NULL, "lib.so", 0, name, &symbol));
	assert_false(look_up(NULL, "lib.so", UINT64_MAX, name, &symbol));
	assert_false(look_up(NULL, "lib.c", 8, name, &symbol));
	assert_false(look_up(NULL, "absent.so", 8, name, &symbol));
	assert_false(look_up(NULL, "/dev/null", 8, name, &symbol));
	assert_false(look_up("/nowhere", "/lib/stripped.so", 8, name, &symbol));
	assert_false(look_up(NULL, "[vdso]", 8, name, &symbol));
}

/* Damaged copies: anything may be said, nothing may break (sanitizers watch). */
static void damaged_files_do_no_harm(void **state)
{
	static uint8_t bytes[1 << 18], damaged[1 << 18];
	FILE *f = fopen("lib.so", "rb");
	unsigned seed = 7;
	size_t n;

	(void)state;
	assert_non_null(f);
	n = fread(bytes, 1, sizeof(bytes), f);
	fclose(f);
	for (unsigned round = 0; round < 400; round++) {
		struct ptah_symbols *symbols;
		struct ptah_symbol symbol;
		size_t size = round % 4 ? n : (size_t)rand_r(&seed) % n;

		memcpy(damaged, bytes, n);
		for (unsigned k = 0; k < 1 + round % 32; k++) {
			/* Headers at both ends are where damage matters most. */
			size_t at = (size_t)rand_r(&seed) % n;

			if (k % 2)
				at = k % 4 == 1 ? at % 512 : n - 1 - at % (n < 4096 ? n : 4096);
			damaged[at] = (uint8_t)rand_r(&seed);
		}
		f = fopen("damaged.so", "wb");
		assert_non_null(f);
		fwrite(damaged, 1, size, f);
		fclose(f);
		assert_int_equal(ptah_symbols_new(NULL, &symbols), 0);
		for (uint64_t offset = 0; offset < n; offset += 64)
			if (ptah_symbols_lookup(symbols, "damaged.so", offset, &symbol))
				assert_true(strlen(symbol.name) < 4096);
		ptah_symbols_free(symbols);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(functions_have_the_names_nm_gives),
	    cmocka_unit_test(stripped_functions_have_their_frames),
	    cmocka_unit_test(plt_entries_are_named_as_objdump_does),
	    cmocka_unit_test(debug_files_are_found_by_build_id),
	    cmocka_unit_test(debug_files_are_found_by_link_if_the_build_id_agrees),
	    cmocka_unit_test(what_is_no_code_has_no_name),
	    cmocka_unit_test(damaged_files_do_no_harm),
	};

	if (system("objcopy --version >/dev/null 2>&1 && nm --version >/dev/null 2>&1")) {
		puts("SKIP: no binutils");
		return 77;
	}
	return cmocka_run_group_tests(tests, make_library, remove_library);
}
