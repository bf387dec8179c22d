/* SPDX-License-Identifier: MIT */
/* Lines of /proc/PID/maps are read, and mappings narrowed to the segment that the kernel maps. */
#include "test.h"

#include "record/simulated/code_map.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BASE UINT64_C(0x7000000)

static void test_a_line_is_read(void **state)
{
	char line[] = "7000-9000 r-xs 00003000 fe:1a 4711    /some where/file\n";
	char anonymous[] = "7000-9000 rw-p 00000000 00:00 0 \n";
	char damaged[] = "7000-9000 r-xp\n";
	struct code_map map;

	(void)state;
	assert_string_equal(code_map_parse(line, &map), "/some where/file");
	assert_true(map.start == 0x7000 && map.end == 0x9000 && map.offset == 0x3000);
	assert_true(map.inode == 4711 && map.major == 0xfe && map.minor == 0x1a);
	assert_int_equal(map.prot, PROT_READ | PROT_EXEC);
	assert_int_equal(map.flags, MAP_SHARED);
	assert_string_equal(code_map_parse(anonymous, &map), "");
	assert_int_equal(map.prot, PROT_READ | PROT_WRITE);
	assert_int_equal(map.flags, MAP_PRIVATE);
	assert_null(code_map_parse(damaged, &map));
}

/* An ELF file with these segments, mapped at BASE from `offset` on. */
static struct code_map mapped(char *path, const Elf64_Phdr *segments, uint16_t n, uint64_t offset)
{
	Elf64_Ehdr e = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64},
			.e_phoff = sizeof(e),
			.e_phentsize = sizeof(*segments),
			.e_phnum = n};
	int fd = mkstemp(path);

	assert_true(fd >= 0 && write(fd, &e, sizeof(e)) == sizeof(e));
	assert_true(write(fd, segments, n * sizeof(*segments)) == (ssize_t)(n * sizeof(*segments)));
	close(fd);
	return (struct code_map){.start = BASE,
				 .end = BASE + 0x10000 - offset,
				 .offset = offset,
				 .prot = PROT_READ,
				 .path = path};
}

static void assert_narrowed(const struct code_map *map, uint64_t address, uint64_t start,
			    uint64_t end, uint64_t offset)
{
	struct code_map m = *map;

	code_map_narrow(&m, BASE + address);
	assert_int_equal(m.start, BASE + start);
	assert_int_equal(m.end, BASE + end);
	assert_int_equal(m.offset, offset);
}

/* From the page with the first byte to the page with the last one; two segments of code. */
static void test_a_mapping_is_narrowed_to_its_segment(void **state)
{
	static const Elf64_Phdr segments[] = {
	    {.p_type = PT_LOAD, .p_flags = PF_R, .p_filesz = 0x900},
	    {.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = 0x1234, .p_filesz = 0x1000},
	    {.p_type = PT_NOTE, .p_flags = PF_R | PF_X, .p_offset = 0, .p_filesz = 0x10000},
	    {.p_type = PT_LOAD,
	     .p_flags = PF_R | PF_W | PF_X,
	     .p_offset = 0x5000,
	     .p_filesz = 0x800,
	     .p_memsz = 0x8000},
	};
	char whole[] = "/tmp/ptah-map-XXXXXX", part[] = "/tmp/ptah-map-XXXXXX";
	struct code_map map = mapped(whole, segments, 4, 0);

	(void)state;
	assert_narrowed(&map, 0x1000, 0x1000, 0x3000, 0x1000);
	assert_narrowed(&map, 0x2fff, 0x1000, 0x3000, 0x1000);
	assert_narrowed(&map, 0x5400, 0x5000, 0x6000, 0x5000);
	assert_narrowed(&map, 0x3000, 0, 0x10000, 0); /* no code of the file */
	map = mapped(part, segments, 4, 0x2000);
	assert_narrowed(&map, 0x800, 0, 0x1000, 0x2000);
	assert_narrowed(&map, 0x3800, 0x3000, 0x4000, 0x5000);
	unlink(whole);
	unlink(part);
}

static void test_damaged_files_leave_the_mapping(void **state)
{
	static const Elf64_Phdr segments[] = {
	    {.p_type = PT_LOAD, .p_flags = PF_X, .p_offset = UINT64_MAX, .p_filesz = UINT64_MAX},
	    {.p_type = PT_LOAD, .p_flags = PF_X, .p_offset = 0x2000, .p_filesz = 0},
	};
	char damaged[] = "/tmp/ptah-map-XXXXXX", empty[] = "/tmp/ptah-map-XXXXXX";
	struct code_map map = mapped(damaged, segments, 2, 0);

	(void)state;
	assert_narrowed(&map, 0x2000, 0, 0x10000, 0);
	map = mapped(empty, segments, 0, 0);
	assert_narrowed(&map, 0x2000, 0, 0x10000, 0);
	unlink(damaged);
	unlink(empty);
	assert_narrowed(&map, 0x2000, 0, 0x10000, 0); /* no file any more */
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_a_line_is_read),
	    cmocka_unit_test(test_a_mapping_is_narrowed_to_its_segment),
	    cmocka_unit_test(test_damaged_files_leave_the_mapping),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
