/* SPDX-License-Identifier: MIT */
/*
 * The code that runs: which file each piece comes from, which bytes are in no
 * file, and which bytes are not what they were before.
 *
 * Shadow pages hold the bytes that a decoder will see: a mapped file's own, or
 * what was sent. Each translated block is compared with them. Bytes at places
 * never seen before are simply told; bytes that differ are a change, which
 * gets a time of its own (see plugin_change_time).
 *
 * QEMU calls in here with its translation lock held, but signal handlers and
 * maps are also told from system calls, so there is a lock of our own.
 */
#include "record/qemu/plugin/plugin.h"
#include "record/simulated/insn.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE		UINT64_C(4096)
#define BUCKETS		65536
#define MAX_HANDLERS	256
#define VSYSCALL_PAGE	UINT64_C(0xffffffffff600000)
#define MAX_BLOCK_BYTES 8192

struct map {
	uint64_t start, end, file_offset;
	uint64_t time;	 /* when it came; 0: before anybody ran */
	uint64_t change; /* the same, if it took the place of another; 0: it did not */
	char *path;	 /* NULL: no file that can be read again */
	uint64_t inode;
	bool live; /* false: unmapped since */
	bool told; /* once code of it is translated */
};

struct shadow {
	uint64_t page;
	uint64_t change; /* the last change of its bytes; 0: none */
	struct shadow *next;
	uint8_t known[4096 / 8]; /* a bit for each byte */
	uint8_t bytes[4096];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct map *maps;
static size_t map_count, map_capacity;
static struct shadow *shadows[BUCKETS];
static struct block *blocks[BUCKETS];
static uint64_t handlers[MAX_HANDLERS], restorers[MAX_HANDLERS];
static size_t handler_count, restorer_count;

static size_t bucket(uint64_t key)
{
	return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 48) % BUCKETS;
}

/* fork */

void plugin_code_lock(void)
{
	pthread_mutex_lock(&lock);
}

void plugin_code_unlock(bool in_child)
{
	if (in_child)
		pthread_mutex_init(&lock, NULL);
	else
		pthread_mutex_unlock(&lock);
}

/* What is told with time 0 has been so since the process began. */
static uint64_t time_to_tell(uint64_t change)
{
	return change > plugin.birth ? change : plugin.birth;
}

/* Signal handlers */

static bool contains(const uint64_t *list, size_t n, uint64_t value)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] == value)
			return true;
	return false;
}

void plugin_add_handler(uint64_t address, uint64_t restorer)
{
	pthread_mutex_lock(&lock);
	if (!contains(handlers, handler_count, address) && handler_count < MAX_HANDLERS) {
		handlers[handler_count++] = address;
		for (struct block *b = blocks[bucket(address)]; b; b = b->next)
			if (b->start == address)
				b->slow |= BLOCK_HANDLER;
	}
	if (!contains(restorers, restorer_count, restorer) && restorer_count < MAX_HANDLERS)
		restorers[restorer_count++] = restorer;
	pthread_mutex_unlock(&lock);
}

bool plugin_is_handler(uint64_t address)
{
	return contains(handlers, handler_count, address);
}

bool plugin_is_restorer(uint64_t address)
{
	return contains(restorers, restorer_count, address);
}

/* Maps */

void plugin_forget_maps(uint64_t address, uint64_t size)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < map_count; i++)
		if (maps[i].start < address + size && address < maps[i].end)
			maps[i].live = false;
	pthread_mutex_unlock(&lock);
}

static struct map *find_map(uint64_t address)
{
	for (size_t i = map_count; i-- > 0;)
		if (maps[i].live && address >= maps[i].start && address < maps[i].end)
			return &maps[i];
	return NULL;
}

/* Is this what the path leads to now? Deleted and replaced files cannot be read again. */
static bool leads_to(const char *path, uint64_t inode)
{
	struct stat st;

	return path[0] == '/' && inode && !stat(path, &st) && st.st_ino == inode;
}

/* The line of /proc/self/maps that holds the host address. */
static bool read_map(uint64_t host, struct map *map)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char *line = NULL;
	size_t size = 0;
	bool found = false;

	if (!file)
		return false;
	while (!found && getline(&line, &size, file) > 0) {
		unsigned long long start, end, offset, inode;
		int path = 0;

		if (sscanf(line, "%llx-%llx %*s %llx %*s %llu %n", &start, &end, &offset, &inode,
			   &path) < 4)
			continue;
		if (host < start || host >= end)
			continue;
		line[strcspn(line, "\n")] = '\0';
		*map = (struct map){.start = start - plugin.guest_base,
				    .end = end - plugin.guest_base,
				    .file_offset = offset,
				    .inode = inode,
				    .live = true};
		if (path && leads_to(line + path, inode))
			map->path = strdup(line + path);
		found = true;
	}
	free(line);
	fclose(file);
	return found;
}

/* Not before its code is translated: until then the file may be deleted, and is none. */
static void tell_map(struct map *map)
{
	struct shared_message message = {
	    .type = MESSAGE_MAP,
	    .pid = getpid(),
	    .tsc = time_to_tell(map->time),
	    .address = map->start,
	    .size = map->end - map->start,
	    .value = map->file_offset,
	};

	if (map->told)
		return;
	map->told = true;
	if (map->path && !leads_to(map->path, map->inode)) {
		free(map->path);
		map->path = NULL;
	}
	if (!map->path)
		return;
	message.bytes = (uint32_t)strlen(map->path);
	plugin_send(&message, map->path);
}

static struct map *keep_map(const struct map *map)
{
	if (map_count == map_capacity) {
		size_t capacity = map_capacity ? 2 * map_capacity : 64;
		struct map *more = realloc(maps, capacity * sizeof(*maps));

		if (!more)
			return NULL;
		maps = more;
		map_capacity = capacity;
	}
	maps[map_count] = *map;
	return &maps[map_count++];
}

/* Notes a map that came at `time`. Takes over map->path. NULL: no memory. */
static struct map *add_map(struct map *fresh, uint64_t time)
{
	struct map *map;
	bool again = false;

	for (size_t i = map_count; i-- > 0;) {
		struct map *old = &maps[i];

		if (old->live || old->start >= fresh->end || fresh->start >= old->end)
			continue;
		again = true;
		if (fresh->start <= old->start && old->end <= fresh->end) { /* for good */
			free(old->path);
			*old = maps[--map_count];
		}
	}
	if (again && fresh->path) {
		if (!time)
			time = plugin_change_time();
		fresh->change = time;
	}
	fresh->time = time;
	if (fresh->path)
		plugin_output_map(fresh->path, fresh->start, fresh->end, fresh->file_offset);
	map = keep_map(fresh);
	if (!map)
		free(fresh->path);
	return map;
}

/* The map around a block, which is told when its first code is translated. */
static struct map *require_map(uint64_t address)
{
	struct map *map = find_map(address);
	struct map fresh = {0};

	if (!map && read_map(address + plugin.guest_base, &fresh))
		map = add_map(&fresh, 0);
	if (map)
		tell_map(map);
	return map;
}

/* Reads and notes the file's map at `address`, or what of it lies in [address, end). */
static uint64_t add_mapped(uint64_t address, uint64_t end, const uint64_t *file_offset)
{
	struct map fresh = {0};
	uint64_t time;

	if (find_map(address) || !read_map(address + plugin.guest_base, &fresh) || !fresh.path) {
		free(fresh.path);
		return fresh.end;
	}
	/* The system may show it together with its neighbours, which QEMU maps alike. */
	if (file_offset) {
		fresh.start = address;
		fresh.end = end;
		fresh.file_offset = *file_offset;
	}
	time = plugin_change_time();
	end = fresh.end;
	if (add_map(&fresh, time))
		atomic_store_explicit(&plugin.map_time, time, memory_order_release);
	return end;
}

void plugin_add_map(uint64_t address, uint64_t size, uint64_t file_offset)
{
	pthread_mutex_lock(&lock);
	add_mapped(address, (address + size + PAGE - 1) & ~(PAGE - 1), &file_offset);
	pthread_mutex_unlock(&lock);
}

void plugin_add_executable(uint64_t address, uint64_t size)
{
	const uint64_t end = address + size;

	pthread_mutex_lock(&lock);
	while (address < end) {
		const struct map *known = find_map(address);
		uint64_t next = known ? known->end : add_mapped(address, end, NULL);

		if (next <= address)
			break;
		address = next;
	}
	pthread_mutex_unlock(&lock);
}

/* Shadow pages */

static void fill_from_file(struct shadow *s, const struct map *map)
{
	uint64_t offset = map->file_offset + (s->page - map->start);
	int fd = open(map->path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return;
	n = pread(fd, s->bytes, sizeof(s->bytes), (off_t)offset);
	close(fd);
	for (ssize_t i = 0; i < n; i++)
		s->known[i / 8] |= (uint8_t)(1 << i % 8);
}

/* A page's shadow. A file that was mapped after it was last filled fills it anew. */
static struct shadow *shadow_page(uint64_t page, const struct map *map)
{
	struct shadow **link = &shadows[bucket(page)];
	struct shadow *s;

	for (s = *link; s; s = s->next)
		if (s->page == page)
			break;
	if (s && s->change >= map->change)
		return s;
	if (!s) {
		s = calloc(1, sizeof(*s));
		if (!s)
			return NULL;
		s->page = page;
		s->next = *link;
		*link = s;
	}
	s->change = map->change;
	if (map->path && map->start <= page && page < map->end)
		fill_from_file(s, map);
	return s;
}

static void tell_code(uint64_t address, const uint8_t *bytes, size_t n, uint64_t tsc)
{
	struct shared_message message = {
	    .type = MESSAGE_CODE,
	    .pid = getpid(),
	    .bytes = (uint32_t)n,
	    .tsc = tsc,
	    .address = address,
	    .size = n,
	};

	plugin_send(&message, bytes);
}

struct comparison {
	bool fresh;	 /* bytes at places never seen */
	bool changed;	 /* bytes that were others before */
	uint64_t change; /* the last change these pages saw */
};

static struct comparison compare(const uint8_t *bytes, size_t n, uint64_t address,
				 const struct map *map)
{
	struct comparison c = {.change = map->change};

	for (size_t i = 0; i < n;) {
		struct shadow *s = shadow_page((address + i) & ~(PAGE - 1), map);

		if (s && s->change > c.change)
			c.change = s->change;
		do {
			size_t at = (address + i) % PAGE;

			if (!s || !(s->known[at / 8] >> at % 8 & 1))
				c.fresh = true;
			else if (s->bytes[at] != bytes[i])
				c.changed = true;
			i++;
		} while (i < n && (address + i) % PAGE);
	}
	return c;
}

static void remember(const uint8_t *bytes, size_t n, uint64_t address, const struct map *map,
		     uint64_t change)
{
	for (size_t i = 0; i < n; i++) {
		struct shadow *s = shadow_page((address + i) & ~(PAGE - 1), map);
		size_t at = (address + i) % PAGE;

		if (!s)
			return;
		s->bytes[at] = bytes[i];
		s->known[at / 8] |= (uint8_t)(1 << at % 8);
		if (change)
			s->change = change;
	}
}

/*
 * Makes sure that the decoder will know these bytes. Returns the time from
 * which on it does; 0: always.
 */
static uint64_t account_for(uint64_t address, const uint8_t *bytes, size_t n)
{
	static const struct map nowhere;
	const struct map *map = require_map(address);
	struct comparison c;
	uint64_t change;

	if (!map)
		map = &nowhere;
	c = compare(bytes, n, address, map);
	change = c.changed ? plugin_change_time() : c.change;
	if (c.fresh || c.changed) {
		tell_code(address, bytes, n, time_to_tell(change));
		remember(bytes, n, address, map, c.changed ? change : 0);
	}
	return change;
}

/* Blocks */

static const uint8_t *insn_bytes(const struct qemu_plugin_insn *insn, uint8_t *buffer, size_t *n)
{
	*n = qemu_plugin_insn_size(insn);
	if (*n > X86_MAX_SIZE)
		*n = X86_MAX_SIZE;
	if (plugin.api < 3)
		return qemu_plugin_insn_data(insn);
	*n = plugin.copy_insn(insn, buffer, *n);
	return buffer;
}

/*
 * Reads the block's instructions. The last one may be cut: QEMU takes an
 * instruction that crosses a page back and begins the next block with it, and
 * stops reading at bytes it cannot execute. A prefix of an instruction is no
 * instruction, so what does not decode was not there.
 */
static void read_insns(struct block *b, const struct qemu_plugin_tb *tb, uint8_t *bytes)
{
	size_t count = qemu_plugin_tb_n_insns(tb);
	uint8_t buffer[X86_MAX_SIZE];
	struct x86_insn insn;

	for (size_t i = 0; i < count && b->end - b->start < MAX_BLOCK_BYTES - X86_MAX_SIZE; i++) {
		size_t n;
		const uint8_t *p = insn_bytes(qemu_plugin_tb_get_insn(tb, i), buffer, &n);

		if (x86_decode(p, n, b->end, PTAH_EXEC_64, &insn) < 0)
			break;
		memcpy(bytes + (b->end - b->start), p, insn.size);
		b->end += insn.size;
		b->sizes[b->ninsn++] = insn.size;
		b->last_size = insn.size;
		b->kind = (uint8_t)insn_kind(&insn, p, b->end);
		b->target = b->kind == KIND_REP ? b->end - insn.size : insn.target;
	}
}

/* `last`: its last instruction. */
static uint32_t flags_of(const struct block *b, const uint8_t *last, uint64_t change)
{
	uint32_t flags = 0;

	if (contains(handlers, handler_count, b->start))
		flags |= BLOCK_HANDLER;
	if (b->ninsn == 1 && b->kind == PTAH_INSN_OTHER && b->end % PAGE)
		flags |= BLOCK_STEP;
	if (change)
		flags |= BLOCK_CHANGED;
	if (b->kind == KIND_KERNEL && insn_is_interrupt(last))
		flags |= BLOCK_INT;
	if (b->kind == KIND_KERNEL || b->kind == PTAH_INSN_FAR_CALL ||
	    b->kind == PTAH_INSN_FAR_RETURN || b->kind == PTAH_INSN_FAR_JUMP)
		flags |= BLOCK_FAR;
	return flags;
}

static void find_guest_base(const struct qemu_plugin_tb *tb)
{
	const struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, 0);
	uint64_t host = (uint64_t)(uintptr_t)qemu_plugin_insn_haddr(insn);

	if (host)
		plugin.guest_base = host - qemu_plugin_insn_vaddr(insn);
}

struct block *plugin_block(const struct qemu_plugin_tb *tb)
{
	uint64_t start = qemu_plugin_tb_vaddr(tb);
	struct block *b = calloc(1, sizeof(*b) + qemu_plugin_tb_n_insns(tb));
	uint8_t bytes[MAX_BLOCK_BYTES];

	if (!b)
		return NULL;
	b->start = b->end = start;
	if ((start & ~(PAGE - 1)) == VSYSCALL_PAGE) {
		b->slow = BLOCK_VSYSCALL;
		return b;
	}
	pthread_mutex_lock(&lock);
	find_guest_base(tb);
	read_insns(b, tb, bytes);
	if (b->ninsn)
		b->change = account_for(start, bytes, (size_t)(b->end - start));
	b->slow = flags_of(b, bytes + (b->end - start) - b->last_size, b->change);
	b->next = blocks[bucket(start)];
	blocks[bucket(start)] = b;
	pthread_mutex_unlock(&lock);
	return b;
}
