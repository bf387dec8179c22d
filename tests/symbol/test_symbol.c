/* SPDX-License-Identifier: MIT */
/*
 * Names are compared with those of independent judges, nm and objdump of binutils,
 * for a small library that the test compiles. Damaged and hostile files must do no
 * harm.
 */
#include "folder.h"

#include <ptah/symbol.h>

#include <elf.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
	char command[1024];

	if (make_folder(state))
		return -1;
	write_text("lib.c", source);
	/* The text segment has different addresses and offsets, so that confusing them is noticed.
	 */
	snprintf(command, sizeof(command),
		 "%s -shared -fPIC -O1 -g0 -Wl,--build-id,-Ttext-segment=0x400000,-z,lazy "
		 "-o lib.so lib.c && objcopy --only-keep-debug lib.so lib.debug && "
		 "strip -s -o stripped.so lib.so && "
		 "objcopy --add-gnu-debuglink=lib.debug stripped.so linked.so",
		 compiler && *compiler ? compiler : "cc");
	return shell(command) ? 0 : -1;
}

/* Converts an address to a file offset, by readelf's list of segments. */
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

static void expect_place(const char *path, const char *function)
{
	struct ptah_symbols *symbols;
	struct ptah_symbol symbol;
	uint64_t size, offset = offset_of(nm_address(function, &size));

	assert_int_equal(ptah_symbols_new(NULL, &symbols), 0);
	assert_int_equal(ptah_symbols_find(symbols, path, function, 0, &symbol), 1);
	assert_int_equal(symbol.start, offset);
	assert_int_equal(symbol.size, size);
	ptah_symbols_free(symbols);
}

/* The mangled names are of f(int) and f(char) in the namespace n, and of n::g(). */
TEST(mangled_functions_are_found_by_what_they_are_called)
{
	static const char mangled[] =
	    "int a(void) __asm__(\"_ZN1n1fEi\"); int a(void) { return 1; }\n"
	    "int b(void) __asm__(\"_ZN1n1fEc\"); int b(void) { return 2; }\n"
	    "int c(void) __asm__(\"_ZN1n1gEv\"); int c(void) { return 3; }\n"
	    "int f(void); int f(void) { return 4; }\n";
	static const struct {
		const char *name;
		int count;
	} wanted[] = {
	    {"n::f", 2}, {"n::f(int)", 1}, {"n::g", 1}, {"n::g()", 1}, {"_ZN1n1gEv", 1},
	    {"f", 1},	 {"g", 0},	   {"n", 0},	{"n::f()", 0},
	};
	struct ptah_symbols *symbols;
	struct ptah_symbol symbol;
	FILE *f = fopen("mangled.c", "w");

	assert_true(f && fputs(mangled, f) >= 0 && !fclose(f));
	assert_non_null(shell("${CC:-cc} -shared -fPIC -o mangled.so mangled.c"));
	assert_int_equal(ptah_symbols_new(NULL, &symbols), 0);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++)
		assert_int_equal(
		    ptah_symbols_find(symbols, "mangled.so", wanted[i].name, 0, &symbol),
		    wanted[i].count);
	ptah_symbols_free(symbols);
}

TEST(names_are_found_where_nm_has_them)
{
	struct ptah_symbols *symbols;
	struct ptah_symbol symbol;

	expect_place("lib.so", "hidden");
	expect_place("lib.so", "shown");
	expect_place("lib.so", "alias");
	expect_place("stripped.so", "other");
	expect_place("./linked.so", "hidden"); /* named by its debug file */
	assert_int_equal(ptah_symbols_new(NULL, &symbols), 0);
	assert_int_equal(ptah_symbols_find(symbols, "lib.so", "puts", 0, &symbol), 0);
	assert_int_equal(ptah_symbols_find(symbols, "lib.so", "hidden", 1, &symbol), 1);
	assert_int_equal(ptah_symbols_find(symbols, "lib.c", "hidden", 0, &symbol),
			 PTAH_E_BAD_MAGIC);
	assert_int_equal(ptah_symbols_find(symbols, "nowhere", "hidden", 0, &symbol),
			 PTAH_E_BAD_MAGIC);
	ptah_symbols_free(symbols);
}

static size_t read_library(uint8_t *bytes, size_t room)
{
	FILE *f = fopen("lib.so", "rb");
	size_t n = f ? fread(bytes, 1, room, f) : 0;

	assert_non_null(f);
	fclose(f);
	assert_true(n > sizeof(Elf64_Ehdr) && n < room);
	return n;
}

TEST(functions_have_the_names_nm_gives)
{
	expect_name(NULL, "lib.so", "hidden", "hidden", true);
	expect_name(NULL, "lib.so", "other", "other", true);
}

TEST(stripped_functions_have_their_frames)
{
	char expected[64];
	uint64_t size, address = nm_address("hidden", &size);

	snprintf(expected, sizeof(expected), "fn_%llx", (unsigned long long)address);
	expect_name(NULL, "stripped.so", "hidden", expected, false);
	/* strip keeps exported names. */
	expect_name(NULL, "stripped.so", "other", "other", true);
}

TEST(plt_entries_are_named_as_objdump_does)
{
	char *list = shell("objdump -d lib.so | grep '@plt>:$'"), *rest = NULL;
	unsigned count = 0;

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
	/* At least puts, getenv and rand. */
	assert_true(count >= 3);
}

/* ld wrote .plt.got for years with entries of 8 bytes and sh_entsize 0. */
TEST(plt_entries_are_found_where_the_linker_gave_no_size)
{
	static uint8_t bytes[1 << 18];
	size_t n = read_library(bytes, sizeof(bytes));
	unsigned long long address;
	struct ptah_symbol symbol;
	char name[256], *line;
	Elf64_Ehdr header;

	line = shell("objdump -d -j .plt.got lib.so | grep '<__cxa_finalize@plt>:$'");
	if (!line)
		skip();
	assert_int_equal(sscanf(line, "%llx", &address), 1);
	memcpy(&header, bytes, sizeof(header));
	for (size_t i = 0; i < header.e_shnum; i++) {
		uint8_t *place = bytes + header.e_shoff + i * sizeof(Elf64_Shdr);

		if (place[offsetof(Elf64_Shdr, sh_type)] == SHT_PROGBITS)
			memset(place + offsetof(Elf64_Shdr, sh_entsize), 0, 8);
	}
	write_file("old.so", bytes, n);
	assert_true(look_up(NULL, "old.so", offset_of(address), name, &symbol));
	assert_string_equal(name, "__cxa_finalize@plt");
}

TEST(debug_files_are_found_by_build_id)
{
	char command[512], symfs[64], id[128], *text;

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

TEST(debug_files_are_found_by_link_if_the_build_id_agrees)
{
	expect_name(NULL, "./linked.so", "hidden", "hidden", true);
	/* A file of the same name from another build. */
	assert_non_null(shell("mkdir -p foreign && cp linked.so foreign && "
			      "objcopy --remove-section .note.gnu.build-id lib.debug "
			      "foreign/lib.debug"));
	struct ptah_symbol symbol;
	uint64_t size, offset = offset_of(nm_address("hidden", &size));
	char name[256];

	assert_true(look_up(NULL, "./foreign/linked.so", offset, name, &symbol));
	assert_false(symbol.named);
}

/* Looks up hidden() of lib.so in `path`: is it named, or made up? */
static void expect_hidden(const char *path, bool named)
{
	struct ptah_symbol symbol;
	uint64_t size, offset = offset_of(nm_address("hidden", &size));
	char name[256];

	assert_true(look_up(NULL, path, offset, name, &symbol));
	assert_int_equal(symbol.named, named);
	if (named)
		assert_string_equal(name, "hidden");
	assert_int_equal(symbol.start, offset);
	assert_int_equal(symbol.size, size);
}

TEST(debug_links_of_bare_names_are_followed)
{
	expect_hidden("linked.so", true);
}

TEST(a_debug_link_to_the_own_name_does_not_find_the_file_itself)
{
	assert_non_null(shell("mkdir -p own/.debug && cp lib.debug own/.debug/x.so && "
			      "cd own/.debug && "
			      "objcopy --add-gnu-debuglink=x.so ../../stripped.so ../x.so"));
	expect_hidden("own/x.so", true);
}

TEST(without_a_build_id_the_checksum_decides)
{
	assert_non_null(
	    shell("mkdir -p plain && cd plain && "
		  "objcopy --remove-section .note.gnu.build-id ../lib.so lib.so && "
		  "objcopy --only-keep-debug lib.so lib.debug && "
		  "strip -s --remove-section .note.gnu.build-id -o bare.so ../lib.so && "
		  "objcopy --add-gnu-debuglink=lib.debug bare.so linked.so"));
	expect_hidden("plain/linked.so", true);
	assert_non_null(shell("printf x >> plain/lib.debug"));
	expect_hidden("plain/linked.so", false);
}

/* Converts an address of this program to a file offset, by the kernel's list of mappings. */
static bool own_place(uintptr_t address, char *path, uint64_t *offset)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long long start, end, file;
	char line[1024];
	bool found = false;

	assert_non_null(f);
	while (!found && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%llx-%llx %*s %llx %*s %*s %511s", &start, &end, &file, path) !=
		    4)
			continue;
		found = start <= address && address < end;
		*offset = file + (address - start);
	}
	fclose(f);
	return found;
}

TEST(this_program_finds_its_own_functions)
{
	uint64_t offset, start;
	char path[512], name[256];
	struct ptah_symbol symbol;

	assert_true(own_place((uintptr_t)expect_hidden, path, &start));
	for (offset = start; offset < start + 4; offset++) {
		assert_true(look_up(NULL, path, offset, name, &symbol));
		assert_string_equal(name, "expect_hidden");
		assert_int_equal(symbol.start, start);
	}
	assert_true(own_place((uintptr_t)ptah_symbols_lookup, path, &start));
	assert_true(look_up(NULL, path, start, name, &symbol));
	assert_string_equal(name, "ptah_symbols_lookup");
}

TEST(names_live_as_long_as_the_resolver)
{
	struct ptah_symbols *symbols;
	struct ptah_symbol first, again, other;
	uint64_t size, offset = offset_of(nm_address("hidden", &size));
	bool still_known, still_absent;

	assert_int_equal(ptah_symbols_new(NULL, &symbols), 0);
	assert_true(ptah_symbols_lookup(symbols, "lib.so", offset, &first));
	assert_true(ptah_symbols_lookup(symbols, "./stripped.so", offset, &other));
	assert_false(ptah_symbols_lookup(symbols, "absent.so", offset, &other));
	/* A file is read once; that it does not exist is remembered too. */
	assert_non_null(shell("cp lib.so absent.so && mv lib.so gone.so"));
	still_absent = !ptah_symbols_lookup(symbols, "absent.so", offset, &other);
	still_known = ptah_symbols_lookup(symbols, "lib.so", offset, &again);
	assert_non_null(shell("mv gone.so lib.so && rm absent.so"));
	assert_true(still_absent);
	assert_true(still_known);
	assert_ptr_equal(first.name, again.name);
	assert_string_equal(first.name, "hidden");
	ptah_symbols_free(symbols);
}

TEST(what_is_no_code_has_no_name)
{
	struct ptah_symbol symbol;
	char name[256];

	assert_false(look_up(NULL, "lib.so", 0, name, &symbol));
	assert_false(look_up(NULL, "lib.so", UINT64_MAX, name, &symbol));
	assert_false(look_up(NULL, "lib.c", 8, name, &symbol));
	assert_false(look_up(NULL, "absent.so", 8, name, &symbol));
	assert_false(look_up(NULL, "/dev/null", 8, name, &symbol));
	assert_false(look_up("/nowhere", "/lib/stripped.so", 8, name, &symbol));
	assert_false(look_up(NULL, "[vdso]", 8, name, &symbol));
	assert_int_equal(mkfifo("fifo", 0600), 0);
	assert_false(look_up(NULL, "fifo", 8, name, &symbol));
	assert_false(look_up(NULL, ".", 8, name, &symbol));
}

/* Looks up places all over a file, whose contents may be arbitrary. */
static void probe(const char *path, size_t n)
{
	struct ptah_symbols *symbols;
	struct ptah_symbol symbol;

	assert_int_equal(ptah_symbols_new(NULL, &symbols), 0);
	for (uint64_t offset = 0; offset < n; offset += 64)
		if (ptah_symbols_lookup(symbols, path, offset, &symbol))
			assert_true(strlen(symbol.name) < 4096);
	ptah_symbols_free(symbols);
}

/* A sparse file can back any claim; to trust this one would cost 4 GiB. */
TEST(claims_beyond_reason_are_not_believed)
{
	static uint8_t bytes[1 << 18];
	size_t n = read_library(bytes, sizeof(bytes));
	uint64_t more = (uint64_t)24 * 178956970;
	uint64_t size, offset = offset_of(nm_address("hidden", &size));
	struct ptah_symbol symbol;
	char name[256];
	Elf64_Ehdr header;

	memcpy(&header, bytes, sizeof(header));
	for (size_t i = 0; i < header.e_shnum; i++) {
		uint8_t *place = bytes + header.e_shoff + i * sizeof(Elf64_Shdr);
		Elf64_Shdr section;

		memcpy(&section, place, sizeof(section));
		if (section.sh_type == SHT_SYMTAB)
			section.sh_size += more;
		memcpy(place, &section, sizeof(section));
	}
	write_file("sparse.so", bytes, n);
	assert_int_equal(truncate("sparse.so", (off_t)(n + more)), 0);
	assert_false(look_up(NULL, "sparse.so", offset, name, &symbol));
}

/* A number of sections that does not fit into the ELF header is in the first section header. */
TEST(section_counts_beyond_reason_are_not_believed)
{
	static uint8_t bytes[1 << 18];
	size_t n = read_library(bytes, sizeof(bytes));
	Elf64_Ehdr header;
	Elf64_Shdr first;

	memcpy(&header, bytes, sizeof(header));
	memcpy(&first, bytes + header.e_shoff, sizeof(first));
	header.e_shnum = 0;
	first.sh_size = (uint64_t)1 << 26;
	memcpy(bytes, &header, sizeof(header));
	memcpy(bytes + header.e_shoff, &first, sizeof(first));
	write_file("many.so", bytes, n);
	assert_int_equal(truncate("many.so", (off_t)(n + first.sh_size * sizeof(first))), 0);
	probe("many.so", n);
}

TEST(truncated_files_do_no_harm)
{
	static uint8_t bytes[1 << 18];
	size_t n = read_library(bytes, sizeof(bytes));

	/* Every length within the headers; beyond them, steps that reach all alignments. */
	for (size_t size = 0; size < n; size += size < 600 ? 1 : 37) {
		write_file("cut.so", bytes, size);
		probe("cut.so", n);
	}
}

/* Damaged copies: any answer is allowed, but no crash (the sanitizers watch). */
TEST(damaged_files_do_no_harm)
{
	static uint8_t bytes[1 << 18], damaged[1 << 18];
	size_t n = read_library(bytes, sizeof(bytes));
	unsigned seed = 7;

	for (unsigned round = 0; round < 400; round++) {
		size_t size = round % 4 ? n : (size_t)rand_r(&seed) % n;

		memcpy(damaged, bytes, n);
		for (unsigned k = 0; k < 1 + round % 32; k++) {
			/* The headers at both ends are damaged most often, as damage matters most
			 * there. */
			size_t at = (size_t)rand_r(&seed) % n;

			if (k % 2)
				at = k % 4 == 1 ? at % 512 : n - 1 - at % (n < 4096 ? n : 4096);
			damaged[at] = (uint8_t)rand_r(&seed);
		}
		write_file("damaged.so", damaged, size);
		probe("damaged.so", n);
	}
}

/* A good header, followed by garbage. */
TEST(garbage_does_no_harm)
{
	static uint8_t bytes[8192];
	uint8_t header[sizeof(Elf64_Ehdr)];
	unsigned seed = 11;
	FILE *f = fopen("lib.so", "rb");

	assert_non_null(f);
	assert_int_equal(fread(header, 1, sizeof(header), f), sizeof(header));
	fclose(f);
	for (unsigned round = 0; round < 100; round++) {
		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)rand_r(&seed);
		memcpy(bytes, header, round % sizeof(header));
		write_file("garbage.so", bytes, sizeof(bytes));
		probe("garbage.so", sizeof(bytes));
	}
}

TEST_GROUP(make_library, remove_folder)
