/* SPDX-License-Identifier: MIT */
/*
 * PE files: what is mapped of files written here byte by byte after Microsoft's "PE Format", of
 * damaged ones, and of one that the linker has made, for which objdump says where its code lies.
 */
#include "test.h"

#include "base/bits.h"
#include "image/image_access.h"

#include <ptah/image.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PATH "test_image_pe.exe"
#define SIZE 0x600

/* The parts of a small file. */
#define AT_PE	    0x80
#define AT_OPTIONAL (AT_PE + 24)
#define AT_SECTIONS (AT_OPTIONAL + 0xf0)

static void put16(uint8_t *p, uint16_t v)
{
	memcpy(p, &v, sizeof(v));
}

static void put32(uint8_t *p, uint32_t v)
{
	memcpy(p, &v, sizeof(v));
}

static void put64(uint8_t *p, uint64_t v)
{
	memcpy(p, &v, sizeof(v));
}

static void put_section(uint8_t *file, unsigned i, uint32_t in_memory, uint32_t address,
			uint32_t in_file, uint32_t offset, uint32_t flags)
{
	uint8_t *p = file + AT_SECTIONS + 40 * i;

	put32(p + 8, in_memory);
	put32(p + 12, address);
	put32(p + 16, in_file);
	put32(p + 20, offset);
	put32(p + 36, flags);
}

/* .text at 0x1000 with 0x123 bytes of code in 0x200 of file, then data, then code of 0x100 bytes.
 */
static void make(uint8_t *file)
{
	memset(file, 0, SIZE);
	for (unsigned i = 0x200; i < SIZE; i++)
		file[i] = (uint8_t)(i ^ i >> 8);
	memcpy(file, "MZ", 2);
	put32(file + 60, AT_PE);
	memcpy(file + AT_PE, "PE\0\0", 4);
	put16(file + AT_PE + 4, 0x8664);
	put16(file + AT_PE + 6, 3);
	put16(file + AT_PE + 20, 0xf0);
	put16(file + AT_OPTIONAL, 0x20b);
	put64(file + AT_OPTIONAL + 24, UINT64_C(0x140000000));
	put_section(file, 0, 0x123, 0x1000, 0x200, 0x200, 0x60000020);
	put_section(file, 1, 0x100, 0x2000, 0x100, 0x400, 0xc0000040);
	put_section(file, 2, 0x1000, 0x3000, 0x100, 0x500, 0xe0000020);
}

static int add(const uint8_t *file, size_t size, uint64_t base, struct ptah_image **image)
{
	FILE *f = fopen(PATH, "wb");

	assert_non_null(f);
	assert_true(fwrite(file, 1, size, f) == size);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(ptah_image_new(image), 0);
	return image_add_pe(*image, PATH, base, NULL);
}

static void sections(void **state)
{
	uint8_t file[SIZE], bytes[SIZE];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		const uint64_t base = i ? UINT64_C(0x7ff712340000) : UINT64_C(0x140000000);
		struct ptah_image *image;

		make(file);
		assert_int_equal(add(file, SIZE, i ? base : 0, &image), 0);
		assert_int_equal(ptah_image_read(image, base + 0x1000, bytes, SIZE, NULL), 0x123);
		assert_memory_equal(bytes, file + 0x200, 0x123);
		assert_int_equal(ptah_image_read(image, base + 0x2000, bytes, SIZE, NULL), 0);
		assert_int_equal(ptah_image_read(image, base + 0x3000, bytes, SIZE, NULL), 0x100);
		assert_memory_equal(bytes, file + 0x500, 0x100);
		assert_int_equal(ptah_image_read(image, base, bytes, 16, NULL), 0);
		ptah_image_free(image);
	}
}

/* A program of 32 bits has its base at another place of the header. */
static void of_32_bits(void **state)
{
	uint8_t file[SIZE], bytes[16];
	struct ptah_image *image;

	(void)state;
	make(file);
	put16(file + AT_OPTIONAL, 0x10b);
	put32(file + AT_OPTIONAL + 24, 0x5000);
	put32(file + AT_OPTIONAL + 28, 0x400000);
	assert_int_equal(add(file, SIZE, 0, &image), 0);
	assert_int_equal(ptah_image_read(image, 0x401000, bytes, 16, NULL), 16);
	assert_memory_equal(bytes, file + 0x200, 16);
	ptah_image_free(image);
}

static void expect_refusal(const uint8_t *file, size_t size, uint64_t base, int status)
{
	struct ptah_image *image;

	assert_int_equal(add(file, size, base, &image), status);
	ptah_image_free(image);
}

static void damaged(void **state)
{
	uint8_t file[SIZE];

	(void)state;
	make(file);
	expect_refusal(file, 63, 0, PTAH_E_BAD_MAGIC);
	expect_refusal(file, AT_SECTIONS + 100, 0, PTAH_E_BAD_FILE); /* in the third section */
	expect_refusal(file, SIZE, UINT64_MAX - 0x1800, PTAH_E_BAD_FILE);
	file[0] = 0x7f;
	expect_refusal(file, SIZE, 0, PTAH_E_BAD_MAGIC);
	make(file);
	put32(file + 60, 0xffffffff);
	expect_refusal(file, SIZE, 0, PTAH_E_BAD_MAGIC);
	make(file);
	put16(file + AT_OPTIONAL, 0x107); /* a ROM image */
	expect_refusal(file, SIZE, 0, PTAH_E_BAD_FILE);
	make(file);
	put16(file + AT_PE + 6, 0xffff);
	expect_refusal(file, SIZE, 0, PTAH_E_BAD_FILE);
	make(file);
	put_section(file, 0, 0, 0x1000, 0, 0, 0x60000020);
	put_section(file, 2, 0x1000, 0x3000, 0x100, 0x500, 0x40000040);
	expect_refusal(file, SIZE, 0, PTAH_E_BAD_FILE); /* no code */
}

static void linked(void **state)
{
	unsigned long long size, address, offset;
	struct ptah_image *image;
	uint8_t bytes[64], expected[64];
	FILE *f;

	(void)state;
	if (system("printf '.globl start\\n.rept 40\\nnop\\n.endr\\nstart: jmp start\\nret\\n' | "
		   "as -o test_image_pe.o - 2>/dev/null && "
		   "ld -m i386pep --image-base 0x180000000 -e start -o " PATH
		   " test_image_pe.o 2>/dev/null")) {
		print_message("SKIP: ld makes no PE files here\n");
		return;
	}
	f = popen("objdump -h " PATH " | awk '$2 == \".text\" { print $3, $4, $6 }'", "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%llx %llx %llx", &size, &address, &offset), 3);
	pclose(f);
	f = fopen(PATH, "rb");
	assert_non_null(f);
	assert_int_equal(fseek(f, (long)offset, SEEK_SET), 0);
	assert_true(fread(expected, 1, 43, f) == 43);
	fclose(f);
	assert_int_equal(expected[0], 0x90);
	assert_int_equal(expected[42], 0xc3);
	assert_int_equal(ptah_image_new(&image), 0);
	assert_int_equal(image_add_pe(image, PATH, 0, NULL), 0);
	assert_int_equal(ptah_image_read(image, address, bytes, 43, NULL), 43);
	assert_memory_equal(bytes, expected, 43);
	assert_int_equal(ptah_image_read(image, address - 1, bytes, 1, NULL), 0);
	ptah_image_free(image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(sections),
	    cmocka_unit_test(of_32_bits),
	    cmocka_unit_test(damaged),
	    cmocka_unit_test(linked),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	unlink(PATH);
	unlink("test_image_pe.o");
	return failed;
}
