/* SPDX-License-Identifier: MIT */
/*
 * Reads lines of /proc/PID/maps, checks whether a path still leads to the file that was mapped, and
 * finds the segment of an ELF file that a mapping holds.
 */
#include "record/simulated/code_map.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE	     UINT64_C(4096)
#define MAX_SEGMENTS (65536 / sizeof(Elf64_Phdr)) /* as in the kernel's load_elf_phdrs() */

/*
 * The kernel writes a newline in a path as "\\012", and a backslash as it is, so that both
 * spellings are tried.
 */
static void restore_newlines(char *path, uint64_t inode)
{
	static const char escape[] = "\\012";
	const size_t n = sizeof(escape) - 1;
	char *text = strstr(path, escape) && !code_map_leads_to(path, inode) ? strdup(path) : NULL;
	char *to = text;

	for (const char *from = path; text && *from; to++) {
		const bool newline = !strncmp(from, escape, n);

		*to = newline ? '\n' : *from;
		from += newline ? n : 1;
	}
	if (text)
		*to = '\0';
	if (text && code_map_leads_to(text, inode))
		strcpy(path, text); /* it is shorter */
	free(text);
}

const char *code_map_parse(char *line, struct code_map *map)
{
	unsigned long long start, end, offset, inode;
	unsigned major, minor;
	char access[5] = "";
	int name = 0;

	if (sscanf(line, "%llx-%llx %4s %llx %x:%x %llu %n", &start, &end, access, &offset, &major,
		   &minor, &inode, &name) < 7)
		return NULL;
	*map = (struct code_map){
	    .start = start,
	    .end = end,
	    .offset = offset,
	    .inode = inode,
	    .major = major,
	    .minor = minor,
	    .prot = (access[0] == 'r' ? PROT_READ : 0u) | (access[1] == 'w' ? PROT_WRITE : 0u) |
		    (access[2] == 'x' ? PROT_EXEC : 0u),
	    .flags = access[3] == 's' ? MAP_SHARED : MAP_PRIVATE,
	};
	line[strcspn(line, "\n")] = '\0';
	if (!name)
		return "";
	restore_newlines(line + name, inode);
	return line + name;
}

bool code_map_leads_to(const char *path, uint64_t inode)
{
	struct stat st;

	return path[0] == '/' && inode && !stat(path, &st) && st.st_ino == inode;
}

void code_map_check_path(struct code_map *map)
{
	if (!map->path || map->path[0] != '/' || code_map_leads_to(map->path, map->inode))
		return;
	free(map->path);
	map->path = NULL;
}

struct perfdata_mapping code_map_record(const struct code_map *map)
{
	return (struct perfdata_mapping){
	    .address = map->start,
	    .size = map->end - map->start,
	    .file_offset = map->offset,
	    .inode = map->inode,
	    .major = map->major,
	    .minor = map->minor,
	    .prot = map->prot,
	    .flags = map->flags,
	};
}

size_t code_map_pack(const struct code_map *map, uint8_t *message, size_t size)
{
	const struct perfdata_mapping mapping = code_map_record(map);
	size_t n = map->path ? strlen(map->path) : 0;

	if (!n || size < sizeof(mapping) || size - sizeof(mapping) < n)
		return 0;
	memcpy(message, &mapping, sizeof(mapping));
	memcpy(message + sizeof(mapping), map->path, n);
	return sizeof(mapping) + n;
}

static uint32_t prot_of(const Elf64_Phdr *segment)
{
	return (segment->p_flags & PF_R ? PROT_READ : 0u) |
	       (segment->p_flags & PF_W ? PROT_WRITE : 0u) |
	       (segment->p_flags & PF_X ? PROT_EXEC : 0u);
}

/*
 * The pages that the kernel maps for the segment, like its elf_map(): whole pages, from the one
 * with the segment's first byte to the one with its last byte in the file. False: they do not hold
 * `address`.
 */
static bool narrow_to(struct code_map *map, const Elf64_Phdr *segment, uint64_t address)
{
	uint64_t offset = segment->p_offset & ~(PAGE - 1);
	uint64_t size = (segment->p_offset - offset + segment->p_filesz + PAGE - 1) & ~(PAGE - 1);
	uint64_t skipped = offset > map->offset ? offset - map->offset : 0;
	uint64_t before = offset < map->offset ? map->offset - offset : 0;
	uint64_t rest = map->end - map->start;

	if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) || skipped >= rest ||
	    before >= size)
		return false;
	rest -= skipped;
	size -= before;
	if (address - map->start < skipped ||
	    address - map->start - skipped >= (size < rest ? size : rest))
		return false;
	map->start += skipped;
	map->offset += skipped;
	map->prot = prot_of(segment);
	if (size < rest)
		map->end = map->start + size;
	return true;
}

static bool read_elf_header(int fd, Elf64_Ehdr *e)
{
	return pread(fd, e, sizeof(*e), 0) == sizeof(*e) && !memcmp(e->e_ident, ELFMAG, SELFMAG) &&
	       e->e_ident[EI_CLASS] == ELFCLASS64 && e->e_phentsize == sizeof(Elf64_Phdr) &&
	       e->e_phnum <= MAX_SEGMENTS;
}

void code_map_narrow(struct code_map *map, uint64_t address)
{
	int fd = map->path ? open(map->path, O_RDONLY | O_CLOEXEC) : -1;
	Elf64_Ehdr e;
	Elf64_Phdr segment;

	if (fd < 0)
		return;
	if (!read_elf_header(fd, &e))
		e.e_phnum = 0;
	for (unsigned i = 0; i < e.e_phnum; i++)
		if (pread(fd, &segment, sizeof(segment),
			  (off_t)(e.e_phoff + i * sizeof(segment))) != sizeof(segment) ||
		    narrow_to(map, &segment, address))
			break;
	close(fd);
}
