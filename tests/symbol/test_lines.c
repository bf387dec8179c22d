/* SPDX-License-Identifier: MIT */
/*
 * Lines and inlined functions are compared with addr2line of binutils, for each instruction of a
 * program that the test compiles in many ways. addr2line is asked about the build with DWARF 4,
 * which it reads best; the code of the others is the same.
 */
#include "folder.h"

#include <ptah/symbol.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char output[1 << 20];

/* Runs a command in the folder of the test; its output is in `output`. */
static bool shell(const char *command)
{
	FILE *f = popen(command, "r");
	size_t n = f ? fread(output, 1, sizeof(output) - 1, f) : 0;

	output[n] = '\0';
	return f && pclose(f) == 0;
}

static const char source[] = "#include <stdio.h>\n"
			     "#include <stdlib.h>\n"
			     "#include \"a.h\"\n"
			     "static inline __attribute__((always_inline)) int twice(int x) { "
			     "return sum(x) + x * rand(); }\n"
			     "static inline __attribute__((always_inline)) int inner(int x)\n"
			     "{\n"
			     "	if (x > 3)\n"
			     "		return twice(x) + 1;\n"
			     "	return x * getchar();\n"
			     "}\n"
			     "__attribute__((noinline)) int work(int n)\n"
			     "{\n"
			     "	int s = 0;\n"
			     "	for (int i = 0; i < n; i++)\n"
			     "		s += inner(i) ^ twice(s);\n"
			     "	if (s == 77)\n"
			     "		abort();\n"
			     "	return s;\n"
			     "}\n"
			     "int main(int argc, char **argv)\n"
			     "{\n"
			     "	printf(\"%d\\n\", work(argc) + inner(atoi(argv[0])));\n"
			     "	return 0;\n"
			     "}\n";

static const char header[] = "static inline int sum(int x)\n"
			     "{\n"
			     "	int s = 0;\n"
			     "	for (int i = 0; i < x; i++)\n"
			     "		s += rand() % (i + 1);\n"
			     "	return s;\n"
			     "}\n";

static int make_sources(void **state)
{
	if (make_folder(state))
		return -1;
	write_text("a.c", source);
	write_text("a.h", header);
	return 0;
}

/* What addr2line says of each instruction. The discriminators that it adds are of no line. */
static char *judge(const char *program)
{
	char command[1024];

	snprintf(
	    command, sizeof(command),
	    "for f in main work work.cold sum; do objdump -d --no-show-raw-insn "
	    "--disassemble=$f %s; done | sed -n 's/^ *\\([0-9a-f]*\\):\\t.*/\\1/p' >addresses; "
	    "addr2line -a -f -i -e %s <addresses | sed 's/ (discriminator .*//; s/:?$/:0/'",
	    program, program);
	assert_true(shell(command));
	assert_true(strlen(output) > 5000);
	return strdup(output);
}

static uint64_t offset_of(const char *program, uint64_t address)
{
	struct ptah_elf_segment *segments;
	uint64_t offset = UINT64_MAX;
	int n = ptah_elf_segments(program, 0, &segments);

	for (int i = 0; i < n; i++)
		if (address - segments[i].address < segments[i].size)
			offset = segments[i].offset + (address - segments[i].address);
	free(segments);
	return offset;
}

/* Writes the same text as judge(). */
static char *ask(const char *program)
{
	FILE *addresses = fopen("addresses", "r"), *f;
	struct ptah_inline frames[PTAH_INLINES_MAX], function;
	struct ptah_symbols *symbols;
	char path[128], *text;
	uint64_t address;
	size_t size;

	snprintf(path, sizeof(path), "%s/%s", folder, program);
	f = open_memstream(&text, &size);
	assert_int_equal(ptah_symbols_new(NULL, &symbols), 0);
	assert_true(addresses && f);
	while (fscanf(addresses, "%" SCNx64, &address) == 1) {
		uint64_t offset = offset_of(path, address);
		size_t n = ptah_symbols_inlines(symbols, path, offset, frames, PTAH_INLINES_MAX);
		struct ptah_line line = {0};
		const char *file;

		if (!ptah_symbols_line(symbols, path, offset, &line))
			fail_msg("no line at %" PRIx64, address);
		assert_true(offset - line.start < line.size);
		assert_true(ptah_symbols_function(symbols, path, offset, &function));
		fprintf(f, "0x%016" PRIx64 "\n", address);
		file = line.file;
		for (size_t i = 0; i <= n; i++) {
			fprintf(f, "%s\n%s:%u\n", i < n ? frames[i].name : function.name, file,
				line.line);
			file = frames[i < n ? i : 0].call_file;
			line.line = frames[i < n ? i : 0].call_line;
		}
	}
	ptah_symbols_free(symbols);
	fclose(addresses);
	fclose(f);
	return text;
}

static const struct way {
	const char *needs, *reference, *compile;
} ways[] = {
    {"gcc", "-O2 -gdwarf-4", "gcc -O2 -gdwarf-4 -o p a.c"},
    {"gcc", "-O2 -gdwarf-4", "gcc -O2 -gdwarf-3 -gstrict-dwarf -o p a.c"},
    {"gcc", "-O2 -gdwarf-4", "gcc -O2 -gdwarf-5 -gz -o p a.c"},
    {"gcc", "-O2 -gdwarf-4", "gcc -O2 -gdwarf-5 -gsplit-dwarf -o p a.c"},
    {"gcc", "-O2 -gdwarf-4", "gcc -O2 -gdwarf-4 -gsplit-dwarf -o p a.c"},
    {"gcc", "-O2 -gdwarf-4",
     "gcc -O2 -g -o q a.c && objcopy --compress-debug-sections=zlib-gnu q p"},
    {"gcc", "-O2 -gdwarf-4",
     "gcc -O2 -g -o q a.c && objcopy --only-keep-debug q q.debug && strip -s q && "
     "objcopy --add-gnu-debuglink=q.debug q p"},
    {"dwz", "-O2 -gdwarf-4", "gcc -O2 -g -o p a.c && cp p q && dwz -m common p q"},
    {"gcc", "-O0 -gdwarf-4", "gcc -O0 -gdwarf-4 -o p a.c"},
    {"gcc", "-O0 -gdwarf-4", "gcc -O0 -gdwarf-5 -o p a.c"},
    {"clang", "-O2 -gdwarf-4", "clang -O2 -gdwarf-4 -o p a.c"},
    {"clang", "-O2 -gdwarf-4", "clang -O2 -gdwarf-5 -o p a.c"},
    {"clang", "-O2 -gdwarf-4", "clang -O2 -gdwarf-5 -gsplit-dwarf -o p a.c"},
};

TEST(lines_are_those_of_addr2line)
{
	char *expected = NULL, *found, command[256], known[256] = "";

	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		snprintf(command, sizeof(command), "command -v %s", ways[i].needs);
		if (!shell(command))
			continue;
		snprintf(command, sizeof(command), "%s %s -o reference a.c",
			 strcmp(ways[i].needs, "clang") ? "gcc" : "clang", ways[i].reference);
		if (strcmp(command, known) != 0) {
			strcpy(known, command);
			assert_true(shell(command));
			free(expected);
			expected = judge("reference");
		}
		assert_true(shell("rm -f p q *.debug *.dwo"));
		assert_true(shell(ways[i].compile));
		found = ask("p");
		if (strcmp(found, expected) != 0) {
			write_text("expected", expected);
			write_text("found", found);
			shell("diff -U2 expected found | head -n 20");
			fail_msg("%s:\n%s", ways[i].compile, output);
		}
		free(found);
	}
	free(expected);
}

/* Rows */

struct rows {
	struct ptah_line items[4096];
	size_t count, most;
};

static bool take_row(void *context, const struct ptah_line *line)
{
	struct rows *r = context;

	assert_true(r->count < sizeof(r->items) / sizeof(*r->items));
	r->items[r->count++] = *line;
	return r->count < r->most;
}

static struct rows rows;

TEST(rows_of_a_range_are_those_of_its_bytes)
{
	struct ptah_symbols *symbols;
	struct ptah_symbol symbol;
	struct ptah_line line;
	char path[128];

	assert_true(shell("gcc -O2 -g -o rows a.c"));
	snprintf(path, sizeof(path), "%s/rows", folder);
	assert_int_equal(ptah_symbols_new(NULL, &symbols), 0);
	assert_int_equal(ptah_symbols_find(symbols, path, "work", 0, &symbol), 1);
	rows.count = 0;
	rows.most = SIZE_MAX;
	assert_int_equal(
	    ptah_symbols_lines(symbols, path, symbol.start + 1, symbol.size - 2, take_row, &rows),
	    0);
	assert_true(rows.count > 10);
	assert_int_equal(rows.items[0].start, symbol.start + 1);
	for (size_t i = 0; i < rows.count; i++) {
		const struct ptah_line *r = &rows.items[i];

		assert_true(!i || r->start >= r[-1].start + r[-1].size);
		assert_true(r->start + r->size <= symbol.start + symbol.size - 1);
		assert_true(ptah_symbols_line(symbols, path, r->start, &line));
		assert_ptr_equal(line.file, r->file);
		assert_int_equal(line.line, r->line);
		assert_true(ptah_symbols_line(symbols, path, r->start + r->size - 1, &line));
		assert_int_equal(line.line, r->line);
	}
	rows.count = 0;
	rows.most = 3;
	assert_int_equal(ptah_symbols_lines(symbols, path, 0, UINT64_MAX, take_row, &rows), 0);
	assert_int_equal(rows.count, 3);
	ptah_symbols_free(symbols);
}

TEST(a_line_is_found)
{
	struct ptah_symbols *symbols;
	struct ptah_symbol symbol;
	char path[128];

	assert_true(shell("gcc -O0 -g -o find a.c"));
	snprintf(path, sizeof(path), "%s/find", folder);
	assert_int_equal(ptah_symbols_new(NULL, &symbols), 0);
	assert_int_equal(ptah_symbols_find(symbols, path, "work", 0, &symbol), 1);
	rows.count = 0;
	rows.most = SIZE_MAX;
	/* Line 12 is the "{" of work(), where its code begins; line 11 has none. */
	assert_int_equal(ptah_symbols_find_line(symbols, path, "a.c", 11, take_row, &rows), 12);
	assert_true(rows.count >= 1);
	assert_int_equal(rows.items[0].start, symbol.start);
	assert_int_equal(ptah_symbols_find_line(symbols, path, "a.h", 2, take_row, &rows), 2);
	assert_int_equal(ptah_symbols_find_line(symbols, path, ".c", 11, take_row, &rows), 0);
	assert_int_equal(ptah_symbols_find_line(symbols, path, "b.c", 11, take_row, &rows), 0);
	assert_int_equal(ptah_symbols_find_line(symbols, path, "a.c", 1000, take_row, &rows), 0);
	ptah_symbols_free(symbols);
}

/* A unit of DWARF 2 has one range of addresses, although main() is not beside work(). */
TEST(lines_of_dwarf_2_are_found_by_aranges)
{
	struct ptah_symbols *symbols;
	struct ptah_symbol symbol;
	struct ptah_line line;
	char path[128];

	assert_true(shell("gcc -O2 -gdwarf-2 -gstrict-dwarf -o old a.c"));
	snprintf(path, sizeof(path), "%s/old", folder);
	assert_int_equal(ptah_symbols_new(NULL, &symbols), 0);
	assert_int_equal(ptah_symbols_find(symbols, path, "main", 0, &symbol), 1);
	assert_true(ptah_symbols_line(symbols, path, symbol.start, &line));
	assert_int_equal(line.line, 21);
	ptah_symbols_free(symbols);
}

/* The line table of the second unit has an unknown version: that of the first is not affected. */
TEST(a_malformed_table_leaves_the_others_alone)
{
	struct ptah_symbols *symbols;
	struct ptah_symbol first, second;
	struct ptah_line line;
	char path[128];

	write_text("b.c", "int other(int x);\nint other(int x)\n{\n\treturn x * 3;\n}\n");
	assert_true(
	    shell("gcc -O1 -g -c a.c && gcc -O1 -g -c b.c && gcc -o units a.o b.o && "
		  "objcopy --dump-section .debug_line=table units && "
		  "at=$(($(readelf --debug-dump=info units | sed -n 's/.*DW_AT_stmt_list *: //p' | "
		  "sed -n '/^0$/!p' | tail -n 1))) && "
		  "printf '\\377' | dd of=table bs=1 seek=$((at + 4)) conv=notrunc 2>dd.err && "
		  "objcopy --update-section .debug_line=table units"));
	snprintf(path, sizeof(path), "%s/units", folder);
	assert_int_equal(ptah_symbols_new(NULL, &symbols), 0);
	assert_int_equal(ptah_symbols_find(symbols, path, "work", 0, &first), 1);
	assert_int_equal(ptah_symbols_find(symbols, path, "other", 0, &second), 1);
	assert_true(ptah_symbols_line(symbols, path, first.start, &line));
	assert_int_equal(line.line, 12);
	assert_false(ptah_symbols_line(symbols, path, second.start, &line));
	rows.count = 0;
	rows.most = SIZE_MAX;
	assert_int_equal(ptah_symbols_lines(symbols, path, 0, UINT64_MAX, take_row, &rows),
			 PTAH_E_BAD_FILE);
	assert_true(rows.count > 20);
	ptah_symbols_free(symbols);
}

/* 200,000 entries refer to one list of 200,000 empty ranges: 40,000,000,000 steps for libdw. */
TEST(ranges_that_many_entries_share_take_no_time)
{
	static const char hostile[] =
	    ".globl _start\n_start: nop\nnop\nend:\n"
	    ".section .debug_abbrev,\"\",@progbits\n"
	    ".byte 1,0x11,1, 0x11,1, 0x12,1, 0,0, 2,0x1d,0, 0x55,0x17, 0,0, 0\n"
	    ".section .debug_info,\"\",@progbits\n"
	    ".long 2f-1f\n1: .short 4\n.long 0\n.byte 8, 1\n.quad _start, end\n"
	    ".rept 200000\n.byte 2\n.long 0\n.endr\n.byte 0\n2:\n"
	    ".section .debug_ranges,\"\",@progbits\n"
	    ".rept 200000\n.quad 1, 1\n.endr\n.quad 0, 0\n";
	struct ptah_inline frames[8];
	struct ptah_symbols *symbols;
	struct ptah_symbol symbol;
	char path[128];

	write_text("hostile.s", hostile);
	assert_true(shell("gcc -nostdlib -static -o hostile hostile.s"));
	snprintf(path, sizeof(path), "%s/hostile", folder);
	assert_int_equal(ptah_symbols_new(NULL, &symbols), 0);
	assert_int_equal(ptah_symbols_find(symbols, path, "_start", 0, &symbol), 1);
	assert_int_equal(ptah_symbols_inlines(symbols, path, symbol.start, frames, 8), 0);
	ptah_symbols_free(symbols);
}

/* The debug information names its other half, which is nothing that should be opened. */
TEST(a_split_unit_that_is_a_fifo_is_not_opened)
{
	struct ptah_inline frames[8];
	struct ptah_symbols *symbols;
	struct ptah_symbol symbol;
	struct ptah_line line;
	char path[128];

	assert_true(shell("gcc -O2 -g -gsplit-dwarf -o split a.c && for f in *.dwo; do rm $f && "
			  "mkfifo $f; done"));
	snprintf(path, sizeof(path), "%s/split", folder);
	assert_int_equal(ptah_symbols_new(NULL, &symbols), 0);
	assert_int_equal(ptah_symbols_find(symbols, path, "work", 0, &symbol), 1);
	assert_true(ptah_symbols_line(symbols, path, symbol.start, &line));
	assert_int_equal(line.line, 12);
	for (uint64_t i = 0; i < symbol.size; i++)
		assert_int_equal(ptah_symbols_inlines(symbols, path, symbol.start + i, frames, 8),
				 0);
	assert_true(shell("rm *.dwo"));
	ptah_symbols_free(symbols);
}

TEST(what_has_no_lines_says_so)
{
	struct ptah_symbols *symbols;
	struct ptah_inline frame;
	struct ptah_line line;
	char path[128];
	int status;

	assert_true(shell("gcc -O2 -g -Wl,--build-id -o bare a.c && strip -s bare"));
	snprintf(path, sizeof(path), "%s/bare", folder);
	assert_int_equal(ptah_symbols_new(NULL, &symbols), 0);
	assert_false(ptah_symbols_line(symbols, path, 0x1100, &line));
	assert_int_equal(ptah_symbols_inlines(symbols, path, 0x1100, &frame, 1), 0);
	assert_null(ptah_symbols_debug_file(symbols, path, &status));
	assert_int_equal(status, PTAH_E_MISSING);
	assert_int_equal(ptah_symbols_lines(symbols, path, 0, UINT64_MAX, take_row, &rows),
			 PTAH_E_MISSING);
	assert_null(ptah_symbols_debug_file(symbols, "/etc/passwd", &status));
	assert_int_equal(status, PTAH_E_BAD_MAGIC);
	ptah_symbols_free(symbols);
}

TEST_GROUP(make_sources, remove_folder)
