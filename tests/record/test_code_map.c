/* SPDX-License-Identifier: MIT */
/* Lines of /proc/PID/maps are read, and mappings narrowed to the segment that the kernel maps. */
#include "test.h"

#include "record/simulated/code_map.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BASE UINT64_C(0x7000000)

TEST(test_a_line_is_read)
{
	char line[] = "7000-9000 r-xs 00003000 fe:1a 4711    /some where/file\n";
	char anonymous[] = "7000-9000 rw-p 00000000 00:00 0 \n";
	char damaged[] = "7000-9000 r-xp\n";
	struct code_map map;

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

/* The kernel itself writes the line, of a file whose name has a newline or what stands for it. */
TEST(test_newlines_in_names)
{
	static const char *const names[] = {"a\nb\n", "a\\012b"};
	char folder[] = "/tmp/ptah-map-XXXXXX", *line = NULL;
	size_t n = 0;

	assert_non_null(mkdtemp(folder));
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		FILE *maps = fopen("/proc/self/maps", "re");
		const char *name = NULL;
		char path[64];
		struct code_map map;
		void *mapped_at;
		int fd;

		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		assert_true(fd >= 0 && !ftruncate(fd, 4096));
		mapped_at = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
		assert_true(mapped_at != MAP_FAILED);
		close(fd);
		assert_non_null(maps);
		while (!name && getline(&line, &n, maps) > 0) {
			name = code_map_parse(line, &map);
			if (name && map.start != (uintptr_t)mapped_at)
				name = NULL;
		}
		fclose(maps);
		assert_non_null(name);
		assert_string_equal(name, path);
		munmap(mapped_at, 4096);
		unlink(path);
	}
	free(line);
	rmdir(folder);
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
TEST(test_a_mapping_is_narrowed_to_its_segment)
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

TEST(test_damaged_files_leave_the_mapping)
{
	static const Elf64_Phdr segments[] = {
	    {.p_type = PT_LOAD, .p_flags = PF_X, .p_offset = UINT64_MAX, .p_filesz = UINT64_MAX},
	    {.p_type = PT_LOAD, .p_flags = PF_X, .p_offset = 0x2000, .p_filesz = 0},
	};
	char damaged[] = "/tmp/ptah-map-XXXXXX", empty[] = "/tmp/ptah-map-XXXXXX";
	struct code_map map = mapped(damaged, segments, 2, 0);

	assert_narrowed(&map, 0x2000, 0, 0x10000, 0);
	map = mapped(empty, segments, 0, 0);
	assert_narrowed(&map, 0x2000, 0, 0x10000, 0);
	unlink(damaged);
	unlink(empty);
	assert_narrowed(&map, 0x2000, 0, 0x10000, 0); /* no file any more */
}
