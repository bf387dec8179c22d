/* SPDX-License-Identifier: MIT */
/*
 * The bounds of functions are those that an assembler source has, with the addresses that nm of
 * binutils prints for its labels: pieces of functions, labels, aliases, symbols without size,
 * linkage tables, and files without symbols.
 */
#include "folder.h"

#include <ptah/symbol.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* FUNCTION(name, size in bytes): code with a frame of its own. */
#define FUNCTION(name, size)                                                                       \
	".type " name ",@function\n" name ": .cfi_startproc\n .skip " size ",0x90\n"               \
	" .cfi_endproc\n .size " name ",.-" name "\n"

/* A piece that begins in the middle of its function, after a push and a "sub $16, %rsp". */
#define PIECE(name)                                                                                \
	".type " name ",@function\n" name ": .cfi_startproc\n .cfi_def_cfa_offset 32\n"            \
	" .skip 8,0x90\n .cfi_endproc\n .size " name ",.-" name "\n"

static const char first[] = ".file \"first.c\"\n.text\n" FUNCTION("twin", "16") PIECE("twin.cold")
    /* The visible function, whose piece is local, and a piece without a function. */
    ".globl shown\n" FUNCTION("shown", "24") PIECE("shown.cold.7") PIECE("orphan.cold")
    /* Clones are functions. */
    FUNCTION("shown.part.0", "16") PIECE(
	"shown.part.0.cold") ".globl alias\n.set alias, shown\n"
			     /* A label, with a name that nm prints, in the middle of a function. */
			     ".type outer,@function\nouter: .skip 8,0x90\n"
			     ".globl inner\ninner: .skip 8,0x90\n.size outer,.-outer\n"
			     /* A function within another one, and code after it that belongs to the
				outer one. */
			     ".type around,@function\naround: .skip 8,0x90\n"
			     ".type within,@function\nwithin: .skip 4,0x90\n.size within,.-within\n"
			     ".skip 4,0x90\n.size around,.-around\n"
			     /* Assembly: functions without a size. */
			     ".type bare,@function\nbare: .skip 12,0x90\n"
			     ".type bare2,@function\nbare2: .skip 6,0x90\n"
			     ".globl last\n.type last,@function\nlast: call extern_one@PLT\n jmp "
			     "extern_two@PLT\n"
			     ".size last,.-last\n"
			     /* Code that no symbol of the stripped file and no frame has. */
			     "gap: .skip 32,0x90\n.size gap,.-gap\n"
			     ".section .note.GNU-stack,\"\",@progbits\n";

static const char second[] = ".file \"second.c\"\n.text\n" FUNCTION("twin", "16") PIECE("twin.cold")
    FUNCTION("_dl_runtime_resolve_xsavec", "16") ".section .note.GNU-stack,\"\",@progbits\n";

/* The dynamic linker's resolver begins with two words more on the stack than a function. */
static const char linker[] =
    ".text\nresolver: .cfi_startproc\n .cfi_def_cfa_offset 24\n .skip 16,0x90\n .cfi_endproc\n"
    ".size resolver,.-resolver\n" FUNCTION("plain",
					   "16") ".section .note.GNU-stack,\"\",@progbits\n";

/* Functions that are left in ways of their own, by their names; and some that only sound so. */
static const char special[] = ".text\n" FUNCTION("swapcontext", "16") FUNCTION("__sigsetjmp", "16")
    FUNCTION("_Unwind_Resume", "16") FUNCTION("_Unwind_Resume_or_Rethrow", "16")
	FUNCTION("setjmp_1", "16") FUNCTION("runtime.gogo.abi0", "16") FUNCTION("_", "16")
    /* An indirect function, whose address in the program is that of its entry in the table. */
    ".globl chosen\n.type chosen,@gnu_indirect_function\nchosen: ret\n.size chosen,.-chosen\n"
    ".globl _start\n_start: call *table\n call chosen\n call shown\n call alias\n"
    ".data\ntable: .quad chosen\n"
    ".section .note.GNU-stack,\"\",@progbits\n";

static int run(const char *command)
{
	return system(command) == 0 ? 0 : -1;
}

static int make_files(void **state)
{
	if (make_folder(state))
		return -1;
	write_text("first.s", first);
	write_text("second.s", second);
	write_text("linker.s", linker);
	write_text("special.s", special);
	return run(
	    "cc -shared -nostdlib -Wl,--build-id=none,-Ttext-segment=0x400000,-z,lazy "
	    "-o all.so first.s second.s && strip -s -o stripped.so all.so && "
	    "cc -shared -nostdlib -Wl,--build-id=none,-soname,ld-linux-x86-64.so.2 "
	    "-o linker.so linker.s && strip -s -o ld.so linker.so && "
	    "cc -nostdlib -no-pie -Wl,--build-id=none,-z,lazy,-E,--unresolved-symbols=ignore-all "
	    "-o special special.s all.so");
}

/* The address of the which-th symbol of this name, in ascending order. */
static uint64_t address_of(const char *path, const char *name, unsigned which)
{
	unsigned long long address = 0;
	char command[160];
	FILE *f;

	snprintf(command, sizeof(command), "nm -n %s | grep ' %s$' | sed -n %up", path, name,
		 which + 1);
	f = popen(command, "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%llx", &address), 1);
	pclose(f);
	return address;
}

/* Where the file was put in memory: its addresses are moved up by so much. */
#define SLIDE UINT64_C(0x7f1200000000)

/* The text segment, by its addresses. */
static struct ptah_elf_segment text_of(const char *path)
{
	struct ptah_elf_segment *segments, text = {0};
	int n = ptah_elf_segments(path, 0, &segments);

	assert_true(n > 0);
	text = segments[n - 1];
	for (int i = 0; i < n; i++)
		if (segments[i].size > text.size)
			text = segments[i];
	free(segments);
	return text;
}

static struct ptah_function bounds(const char *path, uint64_t address)
{
	const struct ptah_elf_segment text = text_of(path);
	struct ptah_function f = {0};
	struct ptah_symbols *symbols;

	assert_true(address - text.address < text.size);
	assert_int_equal(ptah_symbols_new(NULL, &symbols), 0);
	assert_true(ptah_symbols_bounds(symbols, path, address - text.address + text.offset,
					address + SLIDE, &f));
	ptah_symbols_free(symbols);
	f.low -= SLIDE;
	f.high -= SLIDE;
	f.start -= SLIDE;
	assert_true(f.low <= address && address < f.high);
	return f;
}

static struct ptah_function piece(uint64_t low, uint64_t high, uint64_t start, uint32_t flags)
{
	return (struct ptah_function){.low = low, .high = high, .start = start, .flags = flags};
}

static void expect(const char *path, uint64_t address, struct ptah_function expected)
{
	const struct ptah_function f = bounds(path, address);

	assert_int_equal(f.low, expected.low);
	assert_int_equal(f.high, expected.high);
	assert_int_equal(f.start, expected.start);
	assert_int_equal(f.flags, expected.flags);
}

TEST(a_cold_piece_belongs_to_the_function_of_its_source_file)
{
	for (unsigned i = 0; i < 2; i++) {
		const uint64_t twin = address_of("all.so", "twin", i);
		const uint64_t cold = address_of("all.so", "twin.cold", i);

		expect("all.so", twin + 3, piece(twin, twin + 16, twin, 0));
		expect("all.so", cold + 3, piece(cold, cold + 8, twin, PTAH_FUNCTION_FRAGMENT));
	}
}

TEST(a_cold_piece_belongs_to_a_visible_function)
{
	const uint64_t shown = address_of("all.so", "shown", 0);
	const uint64_t cold = address_of("all.so", "shown.cold.7", 0);
	const uint64_t part = address_of("all.so", "shown.part.0", 0);
	const uint64_t part_cold = address_of("all.so", "shown.part.0.cold", 0);

	expect("all.so", shown, piece(shown, shown + 24, shown, 0));
	expect("all.so", cold, piece(cold, cold + 8, shown, PTAH_FUNCTION_FRAGMENT));
	expect("all.so", part, piece(part, part + 16, part, 0));
	expect("all.so", part_cold, piece(part_cold, part_cold + 8, part, PTAH_FUNCTION_FRAGMENT));
}

TEST(a_cold_piece_without_a_function_says_so)
{
	const uint64_t cold = address_of("all.so", "orphan.cold", 0);

	expect("all.so", cold,
	       piece(cold, cold + 8, cold, PTAH_FUNCTION_FRAGMENT | PTAH_FUNCTION_NO_PARENT));
}

TEST(a_label_belongs_to_the_function_around_it)
{
	const uint64_t outer = address_of("all.so", "outer", 0);

	assert_int_equal(address_of("all.so", "inner", 0), outer + 8);
	expect("all.so", outer, piece(outer, outer + 8, outer, 0));
	expect("all.so", outer + 9, piece(outer + 8, outer + 16, outer, 0));
}

TEST(a_function_in_another_one_divides_it)
{
	const uint64_t around = address_of("all.so", "around", 0), within = around + 8;

	assert_int_equal(address_of("all.so", "within", 0), within);
	expect("all.so", around, piece(around, within, around, 0));
	expect("all.so", within, piece(within, within + 4, within, 0));
	expect("all.so", within + 4, piece(within + 4, within + 8, around, 0));
}

TEST(functions_without_a_size_end_where_the_next_one_begins)
{
	const uint64_t bare = address_of("all.so", "bare", 0), last = bare + 18;

	assert_int_equal(address_of("all.so", "bare2", 0), bare + 12);
	assert_int_equal(address_of("all.so", "last", 0), last);
	expect("all.so", bare + 11, piece(bare, bare + 12, bare, 0));
	expect("all.so", bare + 12, piece(bare + 12, last, bare + 12, 0));
}

TEST(linkage_tables_are_stubs)
{
	unsigned long long address, offset, size;
	struct ptah_function f;
	FILE *list = popen("readelf -SW all.so | sed -n 's/.* \\.plt  *PROGBITS//p'", "r");

	assert_non_null(list);
	assert_int_equal(fscanf(list, "%llx %llx %llx", &address, &offset, &size), 3);
	pclose(list);
	assert_true(size >= 48); /* the header, and two functions */
	for (uint64_t i = 0; i < size; i += 16) {
		f = bounds("stripped.so", address + i);
		assert_int_equal(f.flags, PTAH_FUNCTION_STUB);
		assert_int_equal(f.low, address + i);
	}
}

TEST(the_resolver_is_known_by_name_and_by_its_frame)
{
	const uint64_t named = address_of("all.so", "_dl_runtime_resolve_xsavec", 0);
	const uint64_t resolver = address_of("linker.so", "resolver", 0), plain = resolver + 16;

	expect("all.so", named, piece(named, named + 16, named, PTAH_FUNCTION_RESOLVER));
	expect("ld.so", resolver + 1,
	       piece(resolver, plain, resolver, PTAH_FUNCTION_RESOLVER | PTAH_FUNCTION_FRAME));
	expect("ld.so", plain, piece(plain, plain + 16, plain, PTAH_FUNCTION_FRAME));
}

TEST(functions_that_are_left_in_other_ways_are_known_by_name)
{
	static const struct {
		const char *name;
		uint32_t flags;
	} functions[] = {
	    {"swapcontext", PTAH_FUNCTION_SWITCH},
	    {"__sigsetjmp", PTAH_FUNCTION_TWICE},
	    {"_Unwind_Resume", PTAH_FUNCTION_UNWINDS},
	    {"_Unwind_Resume_or_Rethrow", 0},
	    {"setjmp_1", 0},
	    {"runtime.gogo.abi0", PTAH_FUNCTION_SWITCH},
	    {"_", 0},
	};

	for (size_t i = 0; i < sizeof(functions) / sizeof(*functions); i++) {
		const uint64_t start = address_of("special", functions[i].name, 0);

		expect("special", start + 3, piece(start, start + 16, start, functions[i].flags));
	}
}

TEST(a_symbol_of_a_linkage_tables_entry_is_that_of_one_entry)
{
	const uint64_t chosen = address_of("special", "chosen", 0);
	struct ptah_function f = bounds("special", chosen + 6);

	assert_int_equal(f.start, chosen);
	assert_int_equal(f.low, chosen);
	assert_int_equal(f.high, chosen + 16);
	assert_int_equal(f.flags, PTAH_FUNCTION_STUB);
	f = bounds("special", chosen + 16);
	assert_int_equal(f.start, chosen + 16);
	assert_int_equal(f.flags, PTAH_FUNCTION_STUB);
}

TEST(stripped_files_have_frames_and_pieces)
{
	const uint64_t twin = address_of("all.so", "twin", 0), cold = twin + 16;
	const uint64_t last = address_of("all.so", "last", 0);
	const uint64_t gap = address_of("all.so", "gap", 0);
	const uint64_t next = address_of("all.so", "twin", 1);
	struct ptah_function f;

	expect("stripped.so", twin + 1, piece(twin, cold, twin, PTAH_FUNCTION_FRAME));
	expect("stripped.so", cold + 1,
	       piece(cold, cold + 8, cold,
		     PTAH_FUNCTION_FRAME | PTAH_FUNCTION_FRAGMENT | PTAH_FUNCTION_NO_PARENT));
	/* strip keeps what is exported. */
	expect("stripped.so", last, piece(last, gap, last, 0));
	f = bounds("stripped.so", gap + 5);
	assert_int_equal(f.flags, PTAH_FUNCTION_SECTION);
	assert_int_equal(f.low, gap);
	assert_int_equal(f.high, next);
}

TEST_GROUP(make_files, remove_folder)
