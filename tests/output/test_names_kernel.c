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

static void by_address(void **state)
{
	(void)state;
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

static void in_every_command(void **state)
{
	static const char *const functions[] = {"entry", "work", NULL};
	static const char *const hot[] = {"entry", "work", "kernel.kallsyms", NULL};

	(void)state;
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

static void as_perf_names_them(void **state)
{
	const char *text;

	(void)state;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(by_address),
	    cmocka_unit_test(in_every_command),
	    cmocka_unit_test(as_perf_names_them),
	};

	return cmocka_run_group_tests(tests, make_kernels, remove_kernels);
}
