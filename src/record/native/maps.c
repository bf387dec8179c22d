/* SPDX-License-Identifier: MIT */
/*
 * The code that a process can execute: which files are mapped where, the vDSO, and what is in no
 * file, or no longer what the file has.
 */
#include "record/native/native.h"

#include "record/simulated/code_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define CODE_PIECE 32768		/* bytes of code that are written at once */
#define NEW_CODE   (UINT64_C(32) << 20) /* and in all of files that are new */
/* Of memory that has no file, so much is read in all: a mapping may be larger than all memory. */
#define BARE_CODE (UINT64_C(512) << 20)

void native_take_time(struct recording *r)
{
#ifdef __x86_64__
	const uint64_t now = __builtin_ia32_rdtsc();

	if (now > r->last_tsc)
		r->last_tsc = now;
#else
	(void)r;
#endif
}

/* The vDSO has no file: its code is that of this process, which has the same kernel. */
static void write_vdso(struct recording *r, const struct code_map *map)
{
	const size_t size = (size_t)(map->end - map->start);
	void *own = (void *)(uintptr_t)getauxval(AT_SYSINFO_EHDR);
	unsigned char pages[64];

	if (r->has_vdso || !own || size > sizeof(pages) * NATIVE_PAGE || mincore(own, size, pages))
		return;
	native_wrote(r, perfdata_add_vdso(native_writer(r), own, size));
	r->has_vdso = true; /* all processes have the same */
}

static void write_map(struct recording *r, int32_t pid, uint64_t tsc, const struct code_map *map,
		      const char *name)
{
	const struct perfdata_mapping mapping = code_map_record(map);

	if (!strcmp(name, "[vdso]"))
		write_vdso(r, map);
	native_wrote(r, perfdata_write_mmap2(native_writer(r), pid, pid, tsc, &mapping, name));
}

/* Nobody executes zeros, and there may be many. */
static bool is_zero(const uint8_t *bytes, size_t n)
{
	return !n || (!bytes[0] && !memcmp(bytes, bytes + 1, n - 1));
}

/* Whether more of memory that has no file is read. */
static bool may_read(struct recording *r)
{
	if (r->bare_code < BARE_CODE)
		return !recorder_is_late(r->r);
	if (!r->bare_noted)
		recorder_note(r->r, "programs have mapped more code that is in no file than is "
				    "read: some of it is missing");
	r->bare_noted = true;
	return false;
}

/* Code that is in no file. The kernel makes pages for what is read, and there may be holes. */
static void write_bytes(struct recording *r, int32_t pid, uint64_t tsc, uint64_t start,
			uint64_t end)
{
	uint8_t bytes[CODE_PIECE];

	while (start < end && may_read(r)) {
		const uint64_t n = end - start < sizeof(bytes) ? end - start : sizeof(bytes);
		struct iovec to = {bytes, n}, from = {(void *)(uintptr_t)start, n};
		const ssize_t got = process_vm_readv(pid, &to, 1, &from, 1, 0);
		const uint64_t step = got > 0 ? (uint64_t)got : NATIVE_PAGE;

		if (got < 0 && errno != EFAULT)
			return;
		if (got > 0 && !is_zero(bytes, (size_t)got))
			native_wrote(r, perfdata_add_code(native_writer(r), pid, tsc, start, bytes,
							  (size_t)got));
		r->bare_code += step;
		start += step;
	}
}

/*
 * Files that were made since the recording began are often gone at its end: libraries that programs
 * unpack and delete at once, tests of configure. Of those the recording has the code, too, as long
 * as it is not much: tests of what was just built may run a large program a thousand times.
 */
static bool is_new(struct recording *r, const char *path, uint64_t bytes)
{
	struct stat st;

	if (bytes > NEW_CODE - r->new_code || stat(path, &st) ||
	    (st.st_ctim.tv_sec != r->began.tv_sec ? st.st_ctim.tv_sec < r->began.tv_sec
						  : st.st_ctim.tv_nsec < r->began.tv_nsec))
		return false;
	r->new_code += bytes;
	return true;
}

/*
 * A mapping of a file, or of memory without a name, and its code in [start, end). What is shared
 * may change, and the runtime sends it, as it does what can be written to: but only as it is
 * executed, and a reader needs the file if it has nothing of it from the beginning on.
 */
static void write_file(struct recording *r, int32_t pid, uint64_t tsc, const struct code_map *map,
		       const char *name, uint64_t start, uint64_t end)
{
	const bool leads = code_map_leads_to(name, map->inode);
	const bool may_change = map->flags & MAP_SHARED || map->prot & PROT_WRITE;

	if (leads)
		write_map(r, pid, tsc, map, name);
	if (*name != '/')
		return;
	start = start > map->start ? start : map->start;
	end = end < map->end ? end : map->end;
	if (leads ? is_new(r, name, end - start) : !may_change)
		write_bytes(r, pid, tsc, start, end);
}

void native_write_maps(struct recording *r, int32_t pid, uint64_t tsc, uint64_t start, uint64_t end)
{
	char path[32], *line = NULL;
	size_t room = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "re");
	while (f && getline(&line, &room, f) > 0) {
		struct code_map map;
		const char *name = code_map_parse(line, &map);

		/* The lines are in the order of addresses, and new mappings are below older ones:
		 * a program may have thousands, for each of which this is called. */
		if (name && map.start >= end)
			break;
		if (!name || !(map.prot & PROT_EXEC) || start >= map.end)
			continue;
		if (!strcmp(name, "[vdso]"))
			write_map(r, pid, tsc, &map, name);
		else
			write_file(r, pid, tsc, &map, name, start, end);
	}
	free(line);
	if (f)
		fclose(f);
}

void native_write_mapped(struct recording *r, const struct native_message *m, const char *payload)
{
	const uint64_t end = m->address + m->size;
	const char *path = payload + sizeof(struct native_mapped);
	struct native_mapped mapped;
	struct code_map map;

	memcpy(&mapped, payload, sizeof(mapped));
	map = (struct code_map){
	    .start = m->address,
	    .end = end,
	    .offset = mapped.offset,
	    .inode = mapped.inode,
	    .major = mapped.major,
	    .minor = mapped.minor,
	    .prot = mapped.protection & (PROT_READ | PROT_WRITE | PROT_EXEC),
	    .flags = mapped.flags & MAP_SHARED ? MAP_SHARED : MAP_PRIVATE,
	};
	/* The file may have been replaced since. */
	if (map.prot & PROT_EXEC && code_map_leads_to(path, map.inode))
		write_file(r, m->pid, m->tsc, &map, path, m->address, end);
	else
		native_write_maps(r, m->pid, m->tsc, m->address, end);
}

/*
 * The pages of a file's mapping that the program has changed: proc(5), pagemap. Many at a time: a
 * mapping may be larger than its file, and than all memory.
 */
static void write_changed(struct recording *r, int32_t pid, int pagemap, const struct code_map *map)
{
	const uint64_t in_memory = UINT64_C(3) << 62, is_file = UINT64_C(1) << 61;
	uint64_t entries[4096], page = map->start;
	ssize_t n = 1;

	while (page < map->end && n > 0 && may_read(r)) {
		n = pread(pagemap, entries, sizeof(entries),
			  (off_t)(page / NATIVE_PAGE * sizeof(*entries))) /
		    (ssize_t)sizeof(*entries);
		for (ssize_t i = 0; i < n && page < map->end; i++, page += NATIVE_PAGE)
			if (entries[i] & in_memory && !(entries[i] & is_file))
				write_bytes(r, pid, r->last_tsc, page, page + NATIVE_PAGE);
	}
}

void native_write_code(struct recording *r, int32_t pid)
{
	char path[32], *line = NULL;
	size_t room = 0;
	int pagemap;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", pid);
	pagemap = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	f = fopen(path, "re");
	while (f && getline(&line, &room, f) > 0) {
		struct code_map map;
		const char *name = code_map_parse(line, &map);

		if (!name || !(map.prot & PROT_EXEC) || map.prot & PROT_WRITE || *name == '[')
			continue;
		if (!code_map_leads_to(name, map.inode))
			write_bytes(r, pid, r->last_tsc, map.start, map.end);
		else if (pagemap >= 0)
			write_changed(r, pid, pagemap, &map);
	}
	free(line);
	if (f)
		fclose(f);
	if (pagemap >= 0)
		close(pagemap);
}
