/* SPDX-License-Identifier: MIT */
/*
 * A process's code: which file each piece comes from, which bytes are in no
 * file, and which are not what they were before.
 *
 * Shadow pages hold the bytes that a decoder will see: a mapped file's own, or
 * what was sent. Each instruction is compared with them when it is first met,
 * and again when its bytes are not those it had last time. Bytes at places never
 * seen before are simply told; bytes that differ are a change, which gets a time
 * of its own.
 */
#include "record/ptrace/tracer.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE	 UINT64_C(4096)
#define BUCKETS	 4096
#define INSNS	 16384
#define MAX_MAPS 65536
#define RUN_MAX	 4096

struct shadow {
	uint64_t page;
	uint64_t change; /* the last change of its bytes; 0: none */
	struct shadow *next;
	uint8_t known[4096 / 8]; /* a bit for each byte */
	uint8_t bytes[4096];
};

/* An instruction that was met, with the bytes that it had. */
struct cached {
	uint16_t run; /* bytes from it to behind the next branch; 0: not used */
	struct insn insn;
};

static size_t bucket(uint64_t key, size_t n)
{
	return (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) % n;
}

/* Memory */

static int memory_of(struct process *p)
{
	char path[64];

	if (p->memory < 0) {
		snprintf(path, sizeof(path), "/proc/%d/mem", p->pid);
		p->memory = open(path, O_RDONLY | O_CLOEXEC);
	}
	return p->memory;
}

/* As many of the n bytes as there are; 0: none. */
static size_t read_some(struct process *p, uint64_t address, void *bytes, size_t n)
{
	ssize_t got = pread(memory_of(p), bytes, n, (off_t)address);

	return got > 0 ? (size_t)got : 0;
}

bool code_read(struct process *p, uint64_t address, void *bytes, size_t n)
{
	return read_some(p, address, bytes, n) == n;
}

/* Shadow pages */

static void free_shadows(struct process *p)
{
	for (size_t i = 0; p->shadows && i < BUCKETS; i++) {
		while (p->shadows[i]) {
			struct shadow *s = p->shadows[i];

			p->shadows[i] = s->next;
			free(s);
		}
	}
	free(p->shadows);
	p->shadows = NULL;
}

/* What was known of [start, end) is of no use any more. */
static void drop_shadows(struct process *p, uint64_t start, uint64_t end)
{
	for (size_t i = 0; p->shadows && i < BUCKETS; i++) {
		struct shadow **link = &p->shadows[i];

		while (*link) {
			struct shadow *s = *link;

			if (s->page + PAGE <= start || s->page >= end) {
				link = &s->next;
				continue;
			}
			*link = s->next;
			free(s);
		}
	}
}

static void fill_from_file(struct shadow *s, const struct traced_map *map)
{
	uint64_t offset = map->offset + (s->page - map->start);
	int fd = open(map->path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return;
	n = pread(fd, s->bytes, sizeof(s->bytes), (off_t)offset);
	close(fd);
	for (ssize_t i = 0; i < n; i++)
		s->known[i / 8] |= (uint8_t)(1 << i % 8);
}

/* NULL: out of memory. */
static struct shadow *shadow_page(struct process *p, uint64_t page, const struct traced_map *map)
{
	struct shadow **link, *s;

	if (!p->shadows)
		p->shadows = calloc(BUCKETS, sizeof(struct shadow *));
	if (!p->shadows)
		return NULL;
	link = &p->shadows[bucket(page, BUCKETS)];
	for (s = *link; s; s = s->next)
		if (s->page == page)
			return s;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	s->page = page;
	s->next = *link;
	s->change = map->change;
	*link = s;
	if (map->path && map->path[0] == '/' && map->start <= page && page < map->end)
		fill_from_file(s, map);
	return s;
}

/* Maps */

static void free_maps(struct traced_map *maps, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(maps[i].path);
	free(maps);
}

/* Is this what the path leads to now? Deleted and replaced files cannot be read again. */
static bool leads_to(const char *path, unsigned long long inode)
{
	struct stat st;

	return path[0] == '/' && inode && !stat(path, &st) && st.st_ino == inode;
}

/* A line of /proc/PID/maps. False when nothing can run there. */
static bool parse_map(char *line, struct traced_map *map)
{
	unsigned long long start, end, offset, inode;
	char access[5] = "";
	int path = 0;

	if (sscanf(line, "%llx-%llx %4s %llx %*s %llu %n", &start, &end, access, &offset, &inode,
		   &path) < 5 ||
	    access[2] != 'x')
		return false;
	line[strcspn(line, "\n")] = '\0';
	*map = (struct traced_map){.start = start, .end = end, .offset = offset, .inode = inode};
	if (path && (leads_to(line + path, inode) || !strcmp(line + path, "[vdso]")))
		map->path = strdup(line + path);
	return true;
}

static bool same_map(const struct traced_map *a, const struct traced_map *b)
{
	return a->start == b->start && a->end == b->end && a->offset == b->offset &&
	       !a->path == !b->path && (!a->path || !strcmp(a->path, b->path));
}

static void note_filters(struct process *p, const struct traced_map *map)
{
	const struct ptah_record_config *config = p->r->config;

	for (size_t i = 0; i < config->filter_count; i++) {
		const struct ptah_record_filter *f = &config->filters[i];
		uint64_t first, last;

		if (!f->path || strcmp(f->path, map->path) ||
		    !output_shown(f->start, f->size, map->start, map->end, map->offset, &first,
				  &last))
			continue;
		p->ranges[i].first = first;
		p->ranges[i].last = last;
		p->ranges_known++;
	}
}

/* A range where no code is, so that nothing is traced until there is some. */
void code_init_ranges(struct process *p)
{
	const struct ptah_record_config *config = p->r->config;

	memset(p->ranges, 0, sizeof(p->ranges));
	for (size_t i = 0; i < config->filter_count; i++) {
		const struct ptah_record_filter *f = &config->filters[i];

		p->ranges[i].mode =
		    f->action == PTAH_RECORD_STOP ? PTAH_RTIT_ADDR_STOP : PTAH_RTIT_ADDR_FILTER;
		if (f->path)
			continue;
		p->ranges[i].first = f->start;
		p->ranges[i].last = output_last(f->start, f->size);
	}
	p->ranges_known++;
}

/* Remembers where decoders know of something. */
static void keep_told(struct process *p, uint64_t start, uint64_t end)
{
	struct traced_map *told = p->told;

	if (p->told_count == p->told_capacity) {
		size_t capacity = p->told_capacity ? 2 * p->told_capacity : 64;

		told = realloc(told, capacity * sizeof(*told));
		if (!told)
			return;
		p->told = told;
		p->told_capacity = capacity;
	}
	told[p->told_count++] = (struct traced_map){.start = start, .end = end};
}

static bool was_told(const struct process *p, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < p->told_count; i++)
		if (p->told[i].start < end && start < p->told[i].end)
			return true;
	return false;
}

/* A map that was not there before. */
static void add_map(struct process *p, struct traced_map *map, uint64_t time)
{
	drop_shadows(p, map->start, map->end);
	if (was_told(p, map->start, map->end))
		map->change = p->changed = time;
	if (map->path)
		note_filters(p, map);
}

/*
 * Code runs in the map for the first time. What has been deleted or replaced
 * since it was mapped is as if it were in no file.
 */
static void tell_map(struct process *p, struct traced_map *map)
{
	struct tracer_message message = {
	    .type = TRACER_MAP,
	    .pid = p->pid,
	    .tid = p->pid,
	    .address = map->start,
	    .length = map->end - map->start,
	    .value = map->offset,
	};

	map->told = true;
	if (map->path && map->path[0] == '/' && !leads_to(map->path, map->inode)) {
		free(map->path);
		map->path = NULL;
	}
	if (!map->path)
		return;
	message.size = (uint32_t)strlen(map->path);
	message.tsc = p->changed = tracer_change_time(p->r);
	if (was_told(p, map->start, map->end))
		map->change = message.tsc;
	tracer_send(p->r, &message, map->path);
	keep_told(p, map->start, map->end);
}

/* Takes over what is already known of the map. False: it is new. */
static bool keep_known(const struct process *p, struct traced_map *map)
{
	for (size_t i = 0; i < p->map_count; i++) {
		if (same_map(&p->maps[i], map)) {
			map->change = p->maps[i].change;
			map->told = p->maps[i].told;
			return true;
		}
	}
	return false;
}

static void read_maps(struct process *p)
{
	struct traced_map *maps = NULL;
	size_t count = 0, capacity = 0, n = 0;
	uint64_t time = 0;
	char path[64], *line = NULL;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", p->pid);
	file = fopen(path, "re");
	p->stale = false;
	if (!file)
		return;
	while (getline(&line, &n, file) > 0) {
		maps =
		    count == capacity && count < MAX_MAPS
			? realloc(maps, (capacity = capacity ? 2 * capacity : 32) * sizeof(*maps))
			: maps;
		if (!maps || count == MAX_MAPS)
			break;
		if (parse_map(line, &maps[count]))
			count++;
	}
	for (size_t i = 0; i < count; i++) {
		if (keep_known(p, &maps[i]))
			continue;
		if (!time)
			time = tracer_change_time(p->r);
		add_map(p, &maps[i], time);
	}
	free(line);
	fclose(file);
	free_maps(p->maps, p->map_count);
	p->maps = maps;
	p->map_count = count;
	if (time && p->cache)
		memset(p->cache, 0, INSNS * sizeof(*p->cache));
}

static struct traced_map *find_map(struct process *p, uint64_t address)
{
	for (size_t i = 0; i < p->map_count; i++)
		if (address >= p->maps[i].start && address < p->maps[i].end)
			return &p->maps[i];
	return &p->nowhere;
}

/* Bytes */

struct comparison {
	bool fresh;	 /* bytes at places never seen */
	bool changed;	 /* bytes that were others before */
	uint64_t change; /* the last change these pages saw */
};

static struct comparison compare(struct process *p, uint64_t ip, const uint8_t *bytes, size_t n,
				 const struct traced_map *map)
{
	struct comparison c = {.change = map->change};

	for (size_t i = 0; i < n;) {
		struct shadow *s = shadow_page(p, (ip + i) & ~(PAGE - 1), map);

		if (s && s->change > c.change)
			c.change = s->change;
		do {
			size_t at = (ip + i) % PAGE;

			if (!s || !(s->known[at / 8] >> at % 8 & 1))
				c.fresh = true;
			else if (s->bytes[at] != bytes[i])
				c.changed = true;
			i++;
		} while (i < n && (ip + i) % PAGE);
	}
	return c;
}

static void remember(struct process *p, uint64_t ip, const uint8_t *bytes, size_t n,
		     const struct traced_map *map, uint64_t change)
{
	for (size_t i = 0; i < n; i++) {
		struct shadow *s = shadow_page(p, (ip + i) & ~(PAGE - 1), map);
		size_t at = (ip + i) % PAGE;

		if (!s)
			return;
		s->bytes[at] = bytes[i];
		s->known[at / 8] |= (uint8_t)(1 << at % 8);
		if (change)
			s->change = change;
	}
}

/* Makes sure that the decoder will know these bytes. */
static void account_for(struct process *p, uint64_t ip, const uint8_t *bytes, size_t n)
{
	struct traced_map *map = find_map(p, ip);
	struct tracer_message message = {
	    .type = TRACER_CODE, .pid = p->pid, .size = (uint32_t)n, .address = ip, .tsc = p->born};
	struct comparison c;

	if (!map->told)
		tell_map(p, map);
	c = compare(p, ip, bytes, n, map);
	if (!c.fresh && !c.changed)
		return;
	if (c.changed)
		c.change = p->changed = tracer_change_time(p->r);
	if (c.change)
		message.tsc = c.change;
	tracer_send(p->r, &message, bytes);
	remember(p, ip, bytes, n, map, c.changed ? c.change : 0);
	keep_told(p, ip, ip + n);
}

/* Instructions */

static const uint8_t *behind_prefixes(const struct insn *insn)
{
	const uint8_t *byte = insn->bytes;

	while (byte < insn->bytes + insn->size - 1 &&
	       (*byte == 0x66 || *byte == 0x67 || *byte == 0xf2 || *byte == 0xf3 || *byte == 0x2e ||
		*byte == 0x36 || *byte == 0x3e || *byte == 0x26 || *byte == 0x64 || *byte == 0x65 ||
		(*byte & 0xf0) == 0x40))
		byte++;
	return byte;
}

static bool decode(struct insn *insn, uint64_t ip, const uint8_t *bytes, size_t n)
{
	struct x86_insn x;
	const uint8_t *op;

	if (x86_decode(bytes, n, ip, PTAH_EXEC_64, &x) < 0)
		return false;
	*insn = (struct insn){.ip = ip, .end = ip + x.size, .size = x.size};
	memcpy(insn->bytes, bytes, x.size);
	insn->kind = (uint8_t)insn_kind(&x, bytes, insn->end);
	insn->target = x.target;
	op = behind_prefixes(insn);
	insn->interrupt = insn->kind == KIND_KERNEL && insn_is_interrupt(bytes);
	insn->syscall =
	    insn->kind == KIND_KERNEL && (!insn->interrupt || (op[0] == 0xcd && op[1] == 0x80));
	insn->icebp = insn->interrupt && op[0] == 0xf1;
	insn->pushf = insn->kind == PTAH_INSN_OTHER && op[0] == 0x9c;
	insn->sets_flags = (insn->kind == PTAH_INSN_OTHER && op[0] == 0x9d) ||
			   (insn->kind == PTAH_INSN_FAR_RETURN && op[0] == 0xcf);
	insn->covers = insn->kind == PTAH_INSN_OTHER && op[0] == 0x8e && (op[1] >> 3 & 7) == 2;
	return true;
}

static struct cached *place_of(const struct process *p, uint64_t ip)
{
	return &p->cache[bucket(ip, INSNS)];
}

/*
 * Reads the instructions from ip on up to the first branch, and accounts for all
 * of them at once: a decoder takes such a run as a whole, so it must not find a
 * part of it as it was before.
 */
static bool read_run(struct process *p, uint64_t ip, struct insn *insn)
{
	uint8_t bytes[RUN_MAX];
	size_t n = read_some(p, ip, bytes, sizeof(bytes)), size = 0, done = 0;
	struct insn one = {.kind = PTAH_INSN_OTHER};

	while (one.kind == PTAH_INSN_OTHER && decode(&one, ip + size, bytes + size, n - size)) {
		if (!size)
			*insn = one;
		size += one.size;
	}
	for (; done < size; done += one.size) {
		struct cached *c = place_of(p, ip + done);

		decode(&one, ip + done, bytes + done, n - done);
		*c = (struct cached){.run = (uint16_t)(size - done), .insn = one};
	}
	if (size)
		account_for(p, ip, bytes, size);
	return size > 0;
}

/* Are the bytes that begin at ip those that the cached run of instructions had? */
static bool is_current(struct process *p, const struct cached *c, uint64_t ip, bool begins)
{
	uint8_t bytes[RUN_MAX];
	struct comparison now;

	if (!c->run || c->insn.ip != ip || !code_read(p, ip, bytes, begins ? c->run : c->insn.size))
		return false;
	if (memcmp(bytes, c->insn.bytes, c->insn.size) != 0)
		return false;
	if (!begins)
		return true;
	now = compare(p, ip, bytes, c->run, find_map(p, ip));
	return !now.changed && !now.fresh;
}

bool code_fetch(struct process *p, uint64_t ip, bool begins, struct insn *insn)
{
	const struct cached *c;

	if (p->stale)
		read_maps(p);
	if (!p->cache)
		p->cache = calloc(INSNS, sizeof(*p->cache));
	if (!p->cache)
		return false;
	c = place_of(p, ip);
	if (!is_current(p, c, ip, begins))
		return read_run(p, ip, insn);
	*insn = c->insn;
	return true;
}

/* Processes that begin, replace themselves and end */

void code_forget_all(struct process *p)
{
	free_shadows(p);
	free_maps(p->maps, p->map_count);
	free(p->told);
	free(p->cache);
	p->maps = p->told = NULL;
	p->cache = NULL;
	p->map_count = p->told_count = p->told_capacity = 0;
	if (p->memory >= 0)
		close(p->memory);
	p->memory = -1;
	p->stale = true;
}

void code_copy(struct process *to, const struct process *from)
{
	for (size_t i = 0; i < from->told_count; i++)
		keep_told(to, from->told[i].start, from->told[i].end);
	to->maps = calloc(from->map_count + 1, sizeof(*to->maps));
	for (size_t i = 0; to->maps && i < from->map_count; i++) {
		to->maps[i] = from->maps[i];
		to->maps[i].path = from->maps[i].path ? strdup(from->maps[i].path) : NULL;
		to->map_count = i + 1;
	}
	to->shadows = calloc(BUCKETS, sizeof(struct shadow *));
	for (size_t i = 0; to->shadows && from->shadows && i < BUCKETS; i++) {
		for (const struct shadow *s = from->shadows[i]; s; s = s->next) {
			struct shadow *copy = malloc(sizeof(*copy));

			if (!copy)
				return;
			*copy = *s;
			copy->next = to->shadows[i];
			to->shadows[i] = copy;
		}
	}
	memcpy(to->ranges, from->ranges, sizeof(to->ranges));
	to->ranges_known = from->ranges_known;
	to->stale = true;
}
