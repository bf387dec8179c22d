/* SPDX-License-Identifier: MIT */
/*
 * The kernel's functions have their names in every command: those of kallsyms or vmlinux, at the
 * addresses where the kernel lay. Expected are the names that nm prints for vmlinux; perf, if there
 * is one, prints the same.
 */
#include "../session/kernel_recording.h"

#include "output/names.h"

#define JIT UINT64_C(0xffffffffc0100000)

static void record(const char *path)
{
	struct perfdata_build_id id;
	struct recorded r;

	assert_int_equal(perfdata_build_id_read("vmlinux", &id), 0);
	begin_recording(&r, path);
	put_kernel(&r, &id);
	put_kernel_map(&r, "/lib/modules/1/m.ko", ETEXT, 4096, 0, NULL);
	put_ksymbol(&r, 0, JIT, 64, false, "bpf_prog_1_a");
	visit(&r, 200);
	end_recording(&r);
}

/* Lists of symbols as the kernel has them: where it was, and where it is after another start. */
static void write_kallsyms(void)
{
	char command[512];

	snprintf(command, sizeof(command),
		 "nm -n vmlinux | grep -E ' (_text|entry|work|site)$' > here && "
		 "sed 's/^ffffffff81/ffffffffad/' here > there && "
		 "echo 'ffffffffad001000 t in_module\t[m]' >> there && "
		 "printf '%%s\\n' 'ffffffff81001000 t in_module\t[m]' >> here");
	assert_non_null(shell(command));
}

static void expect(struct names *names, uint64_t ip, const char *label, const char *dso)
{
	char text[256];

	assert_string_equal(names_label(names, 7, ip, text, sizeof(text)), label);
	assert_string_equal(names_find(names, 7, ip)->dso, dso);
}

static void names_of(const char *kallsyms, const char *vmlinux, bool modules)
{
	struct ptah_session *s = open_with(
	    "k.data", (struct ptah_session_config){.vmlinux = vmlinux, .kallsyms = kallsyms});
	struct names *names;

	assert_int_equal(names_new(s, NULL, &names), 0);
	expect(names, ENTRY, "entry", "[kernel.kallsyms]");
	expect(names, WORK, "work", "[kernel.kallsyms]");
	expect(names, SITE + 5, "site+0x5", "[kernel.kallsyms]");
	expect(names, ETEXT + 1, modules ? "in_module+0x1" : "0xffffffffad001001", "m.ko");
	expect(names, JIT, "bpf_prog_1_a", "bpf_prog_1_a");
	expect(names, JIT + 63, "bpf_prog_1_a+0x3f", "bpf_prog_1_a");
	expect(names, 0xffffffffc0000000, "0xffffffffc0000000", "[unknown]");
	names_free(names);
	ptah_session_close(s);
}

TEST(by_address)
{
	record("k.data");
	write_kallsyms();
	names_of("there", NULL, true);
	names_of("here", NULL, false);
	names_of(NULL, "vmlinux", false);
}

/* Runs the command on k.data and requires that all these words are in its output. */
static void expect_output(const char *arguments, const char *const words[])
{
	char command[1024], *text;

	snprintf(command, sizeof(command), "HOME=/nonexistent %s %s 2>&1", getenv("PTAH"),
		 arguments);
	text = shell(command);
	if (!text)
		fail_msg("%s failed", command);
	for (; *words; words++)
		if (!strstr(text, *words))
			fail_msg("%s: no \"%s\" in:\n%s", command, *words, text);
}

TEST(in_every_command)
{
	static const char *const functions[] = {"entry", "work", NULL};
	static const char *const hot[] = {"entry", "work", "kernel.kallsyms", NULL};

	record("k.data");
	write_kallsyms();
	expect_output("report -k vmlinux k.data", hot);
	expect_output("report -k vmlinux --kallsyms=here k.data", hot);
	expect_output("script -k vmlinux k.data", functions);
	expect_output("script --calls -k vmlinux k.data", (const char *const[]){"work", NULL});
	expect_output("profile --by=functions -k vmlinux k.data", hot);
	expect_output("cover --format=blocks -k vmlinux k.data", functions);
	/* Saved counts have no names: they are those of another start of the kernel. */
	expect_output("profile --save=k.counts -k vmlinux k.data", functions + 2);
	expect_output("profile --by=functions --kallsyms=here k.counts", hot);
}

#define FLAGS                                                                                      \
	"-nostdlib -static -Wl,-Ttext=0xffffffff81000000,-e,_text,"                                \
	"--build-id=0x$(echo vmlinux | md5sum | cut -c 1-32)00112233 "

/* The lines of what ran are those of addr2line for the places in vmlinux. */
TEST(lines_of_source)
{
	static char wanted[65536];
	const char *text;

	if (!shell("command -v addr2line"))
		skip();
	record("k.data");
	assert_non_null(shell("${CC:-cc} -g " FLAGS "-o vmlinux.lines kernel.s"));
	text = shell("$PTAH script -k vmlinux.lines --format=tsv k.data | awk -F '\t' 'NR > 1 { "
		     "sub(/^0xffffffffad/, \"0xffffffff81\", $2); print $2 }' | addr2line -s -e "
		     "vmlinux.lines");
	assert_non_null(text);
	assert_non_null(strstr(text, "kernel.s:"));
	snprintf(wanted, sizeof(wanted), "%s", text);
	text = shell("$PTAH script --srcline -k vmlinux.lines --format=tsv k.data | awk -F '\t' "
		     "'NR > 1 { sub(\".*/\", \"\", $5); print $5 }'");
	assert_non_null(text);
	assert_string_equal(text, wanted);
	expect_output("report -g --sort=line -k vmlinux.lines k.data",
		      (const char *const[]){"kernel.s:", NULL});
	expect_output("annotate -k vmlinux.lines -i k.data work",
		      (const char *const[]){"work: nop; nop", NULL});
	/* Without debug information only the title is in the column. */
	text = shell("$PTAH script --srcline -k vmlinux --format=tsv k.data | cut -f 5 | grep .");
	assert_string_equal(text ? text : "", "line\n");
}

/*
 * Inlined functions of a kernel of C, of all its places, as addr2line -i prints them. By gcc, since
 * binutils 2.40 overlooks inlined functions of several ranges as clang describes them (rnglistx).
 */
TEST(inlined_functions)
{
	static const char source[] =
	    "static inline __attribute__((always_inline)) int inner(int n)\n{\n"
	    "\treturn n * n + 3;\n}\n"
	    "static inline __attribute__((always_inline)) int outer(int n)\n{\n"
	    "\tint m = inner(n) / 7;\n\treturn m + inner(m);\n}\n"
	    "__attribute__((noinline)) int work(int n)\n{\n\treturn outer(n) - outer(n + 5);\n}\n"
	    "int _text(int n)\n{\n\treturn work(n) + work(n + 1);\n}\n";
	static char wanted[65536], got[65536];
	struct ptah_symbols *symbols;
	size_t n = 0;
	const char *text;

	if (!shell("command -v addr2line && command -v objdump && command -v gcc"))
		skip();
	write_text("kernel.c", source);
	assert_non_null(shell("gcc -g -O2 -ffreestanding -fno-pie -mcmodel=kernel " FLAGS
			      "-o vmlinux.c kernel.c && objdump -d --no-show-raw-insn vmlinux.c | "
			      "sed -n '/nop/d; s/^ *\\(ffffffff[0-9a-f]*\\):.*/\\1/p' >places"));
	text = shell("addr2line -e vmlinux.c -i -f -s <places");
	assert_non_null(text);
	snprintf(wanted, sizeof(wanted), "%s", text);
	assert_non_null(strstr(wanted, "inner"));
	assert_int_equal(ptah_symbols_new("/nowhere", &symbols), 0);
	assert_int_equal(ptah_symbols_add_vmlinux(symbols, "vmlinux.c", SLIDE, PTAH_VMLINUX_LINES),
			 0);
	text = shell("cat places");
	for (char *end; *text; text = end + (*end == '\n')) {
		const uint64_t at = strtoull(text, &end, 16) + SLIDE;
		struct ptah_inline frames[8], function;
		const size_t count = ptah_symbols_inlines(symbols, PTAH_KERNEL_CODE, at, frames, 8);
		struct ptah_line line;
		uint32_t number;

		assert_true(ptah_symbols_line(symbols, PTAH_KERNEL_CODE, at, &line));
		assert_true(ptah_symbols_function(symbols, PTAH_KERNEL_CODE, at, &function));
		assert_true(line.start <= at && at < line.start + line.size);
		number = line.line;
		for (size_t i = 0; i <= count; i++) {
			n += (size_t)snprintf(got + n, sizeof(got) - n, "%s\nkernel.c:%u\n",
					      i < count ? frames[i].name : function.name, number);
			number = i < count ? frames[i].call_line : 0;
		}
	}
	ptah_symbols_free(symbols);
	for (char *d; (d = strstr(wanted, " (discriminator"));)
		memmove(d, strchr(d, ')') + 1, strlen(strchr(d, ')') + 1) + 1);
	assert_string_equal(got, wanted);
}

TEST(as_perf_names_them)
{
	const char *text;

	if (!shell("perf --version 2>/dev/null"))
		skip();
	record("k.data");
	text = shell("HOME=/nonexistent perf script -i k.data -k vmlinux --itrace=i0ns -F ip,sym "
		     "2>/dev/null | awk '{ print $2 }' | tr '\\n' ' '");
	assert_string_equal(text, "entry entry work work site site entry ");
	text =
	    shell("$PTAH script -k vmlinux k.data | awk '{ sub(/[+].*/, \"\", $4); print $4 }' | "
		  "tr '\\n' ' '");
	assert_string_equal(text, "entry entry work work site site entry ");
}

TEST_GROUP(make_kernels, remove_kernels)
