/* SPDX-License-Identifier: MIT */
/*
 * The code of a module's file is placed and relocated as the kernel does it. The linker, told the
 * same addresses, must make the same bytes.
 */
#include "kernel_recording.h"

#include "session/module_file.h"

#include <zstd.h>

#define MODULE UINT64_C(0xffffffffc0200000)
#define COLD   (MODULE + 48)
#define EXIT   (MODULE + 56) /* 5 bytes, aligned to 8 */

/* The sections of data between those of code take no room there; .init.text is elsewhere. */
static const char source[] =
    ".text\n.globl f\nf: call work\ncall cold\njz cold\nmov data(%rip), %rax\njmp leave\n"
    "near: call near\nmissing: call unknown\n.globl traced\ntraced: call __fentry__\nret\n"
    ".data\ndata: .quad 1\n"
    ".section .init.text, \"ax\"\n.fill 100, 1, 0xcc\n"
    ".section .text.unlikely, \"ax\"\n.balign 16\ncold: jmp work + 1\n"
    ".section .rodata.x, \"a\"\n.quad f\n"
    ".section .exit.text, \"ax\"\n.balign 8\nleave: nop\njmp *%rax\n";

/* What the linker makes of it. */
static const char script[] = "SECTIONS {\n"
			     ".text 0xffffffffc0200000 : { *(.text) }\n"
			     ".text.unlikely 0xffffffffc0200030 : { *(.text.unlikely) }\n"
			     ".exit.text 0xffffffffc0200038 : { *(.exit.text) }\n"
			     ".init.text : { *(.init.text) }\n"
			     ".data : { *(.data) *(.rodata.x) }\n"
			     "}\n";

static void pack(const char *from, const char *to)
{
	static uint8_t bytes[1 << 16], packed[1 << 17];
	FILE *f = fopen(from, "r");
	size_t n = fread(bytes, 1, sizeof(bytes), f);

	assert_int_equal(fclose(f), 0);
	n = ZSTD_compress(packed, sizeof(packed), bytes, n, 3);
	assert_false(ZSTD_isError(n));
	f = fopen(to, "w");
	assert_int_equal(fwrite(packed, n, 1, f), 1);
	assert_int_equal(fclose(f), 0);
}

static int make_module(void **state)
{
	char command[2048];

	if (make_kernels(state))
		return -1;
	write_text("m.s", source);
	write_text("m.lds", script);
	snprintf(command, sizeof(command),
		 "as --generate-missing-build-notes=no -o plain.o m.s && "
		 "ld -r --build-id=0x0102030405060708090a0b0c0d0e0f1011121314 -o m.ko plain.o && "
		 "ld --build-id=none -T m.lds --defsym work=0x%" PRIx64
		 " --defsym unknown=0x%" PRIx64 " --defsym __fentry__=0x%" PRIx64
		 " -e f -o linked plain.o && "
		 "objcopy -O binary -j .text -j .text.unlikely -j .exit.text linked bytes",
		 WORK, WORK, WORK);
	if (!shell(command))
		return -1;
	pack("m.ko", "m.ko.zst");
	return 0;
}

static const struct perfdata_build_id id = {
    20, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}};

/* The address of a symbol of the linked module. */
static uint64_t linked(const char *symbol)
{
	char command[128], *text;

	snprintf(command, sizeof(command), "nm linked | grep ' %s$'", symbol);
	text = shell(command);
	assert_non_null(text);
	return strtoull(text, NULL, 16);
}

static void expect_linked_bytes(const char *path)
{
	const struct module_place place = {MODULE, 4096, &id};
	struct kernel_exports exports;
	struct ptah_image *image;
	uint8_t expected[256], is[256];
	FILE *f = fopen("bytes", "r");
	size_t n = fread(expected, 1, sizeof(expected), f);
	const uint64_t hole = linked("missing"), traced = linked("traced");

	assert_int_equal(fclose(f), 0);
	assert_int_equal(ptah_image_new(&image), 0);
	assert_int_equal(kernel_exports_read(&exports, NULL, "vmlinux", NULL, 0, SLIDE), 0);
	assert_int_equal(module_file_add(image, path, &place, &exports), 1);
	memset(expected + 19, 0, 4); /* the address of data is of no use */
	/* Up to the branch to nowhere; from there to the call that is not made; the other sections.
	 */
	assert_int_equal(ptah_image_read(image, MODULE, is, sizeof(is), NULL), hole - MODULE);
	assert_memory_equal(is, expected, hole - MODULE);
	assert_int_equal(ptah_image_read(image, hole + 4, is, 1, NULL), 0);
	assert_int_equal(ptah_image_read(image, traced, is, 6, NULL), 6);
	assert_memory_equal(is, "\x0f\x1f\x44\0\0\xc3", 6);
	assert_int_equal(ptah_image_read(image, COLD, is, 5, NULL), 5);
	assert_memory_equal(is, expected + (COLD - MODULE), 5);
	assert_int_equal(ptah_image_read(image, EXIT, is, sizeof(is), NULL), 3);
	assert_int_equal(n, EXIT + 3 - MODULE);
	assert_memory_equal(is, expected + (EXIT - MODULE), 3);
	kernel_exports_free(&exports);
	ptah_image_free(image);
}

TEST(as_the_linker_makes_it)
{
	expect_linked_bytes("m.ko");
	expect_linked_bytes("m.ko.zst");
}

TEST(names_of_exports)
{
	struct kernel_exports exports;

	write_text("list", "ffffffff81000000 T _text\nffffffff81000048 T work\n"
			   "ffffffff81000050 t hidden\nffffffffc0000000 T other\t[o]\n");
	assert_int_equal(kernel_exports_read(&exports, "list", NULL, "_text", TEXT, 0), 0);
	assert_int_equal(exports.count, 2); /* the kernel has been started again: no modules */
	assert_string_equal(exports.items[1].name, "work");
	assert_int_equal(exports.items[1].address, WORK);
	kernel_exports_free(&exports);
	assert_int_equal(kernel_exports_read(&exports, "list", NULL, "_text", LINKED, 0), 0);
	assert_int_equal(exports.count, 3);
	kernel_exports_free(&exports);
}

TEST(files_that_do_not_fit)
{
	static const struct perfdata_build_id other = {20, {1}};
	const struct module_place wrong = {MODULE, 4096, &other}, small = {MODULE, 58, &id};
	const struct kernel_exports none = {0};
	struct ptah_image *image;

	assert_int_equal(ptah_image_new(&image), 0);
	assert_int_equal(module_file_add(image, "m.ko", &wrong, &none), 0);
	assert_int_equal(module_file_add(image, "m.ko", &small, &none), 0);
	assert_int_equal(module_file_add(image, "missing.ko", &small, &none), 0);
	assert_int_equal(module_file_add(image, "vmlinux", &small, &none), 0);
	assert_non_null(
	    shell("cp vmlinux v.ko; head -c 300 m.ko.zst > cut.ko.zst; cp m.s s.ko.zst"));
	assert_int_equal(module_file_add(image, "v.ko", &small, &none), 0);
	assert_int_equal(module_file_add(image, "cut.ko.zst", &small, &none), 0);
	assert_int_equal(module_file_add(image, "s.ko.zst", &small, &none), 0);
	ptah_image_free(image);
}

/* A recording whose trace goes through the module and the kernel. */
TEST(traced_module)
{
	struct perfdata_build_id kernel;
	struct ptah_session *s;
	struct recorded r;
	char path[1024];

	assert_int_equal(perfdata_build_id_read("vmlinux", &kernel), 0);
	begin_recording(&r, "k.data");
	put_kernel(&r, &kernel);
	put_kernel_map(&r, "/lib/modules/1/m.ko.zst", MODULE, 4096, 0, &id);
	put_kernel_map(&r, "/lib/modules/1/x.ko", MODULE + 8192, 4096, 0, &id);
	/* f calls work, and again by way of cold; jumps to leave. */
	generator_tsc(&r.g, 200);
	generator_enable(&r.g, MODULE);
	generator_tip(&r.g, MODULE + 5);
	generator_tip(&r.g, MODULE + 10);
	generator_tnt(&r.g, false);
	generator_flush_tnt(&r.g);
	generator_disable(&r.g);
	end_recording(&r);
	assert_non_null(shell("mkdir -p root/lib/modules/1 && cp m.ko.zst root/lib/modules/1"));
	s = open_with("k.data",
		      (struct ptah_session_config){.vmlinux = "vmlinux", .symfs = "root"});
	snprintf(path, sizeof(path),
		 "ffffffffc0200000\n" /* call work */
		 "ffffffffad000048\nffffffffad000049\nffffffffad00004a\nffffffffad00004f\n"
		 "ffffffffc0200005\n" /* call cold, which jumps to the second instruction of work */
		 "ffffffffc0200030\nffffffffad000049\nffffffffad00004a\nffffffffad00004f\n"
		 "ffffffffc020000a\nffffffffc0200010\nffffffffc0200017\n" /* jz, mov, jmp leave */
		 "%" PRIx64 "\n%" PRIx64 "\n",
		 EXIT, EXIT + 1);
	assert_string_equal(decoded(s), path);
	assert_true(has_note(s, "1 of 2 modules have no code"));
	ptah_session_close(s);
}

TEST_GROUP(make_module, remove_kernels)
