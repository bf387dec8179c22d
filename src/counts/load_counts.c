/* SPDX-License-Identifier: MIT */
/*
 * Reads saved counts. The file may come from anyone: nothing in it is used before it has been
 * checked.
 */
#include "counts/load.h"
#include "perfdata/message.h"
#include "counts/counts_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int load_refuse(const struct load *l, const uint8_t *at, const char *reason)
{
	return perfdata_message(l->why, PTAH_E_BAD_FILE, "offset 0x%zx: %s",
				(size_t)(at - l->begin), reason);
}

/*
 * Allocates memory for `count` items that take at least `size` bytes each in the file and
 * `in_memory` bytes here, but not for more items than the file can hold. NULL: *status says why.
 */
static void *items(const struct load *l, uint64_t count, size_t size, size_t in_memory, int *status)
{
	void *list;

	if (count > (size_t)(l->r.end - l->r.p) / size) {
		*status = load_refuse(l, l->r.p, "the file is shorter than its lists");
		return NULL;
	}
	list = calloc((size_t)count + 1, in_memory);
	*status = list ? 0 : PTAH_E_NOMEM;
	return list;
}

bool load_all_zero(const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (bytes[i])
			return false;
	return true;
}

static int load_spaces(struct load *l, struct counts_process *p, uint64_t count)
{
	int status;

	if (count > (uint64_t)UINT16_MAX + 1)
		return load_refuse(l, l->r.p, "more address spaces than there can be");
	p->spaces = items(l, count, COUNTS_SPACE, sizeof(*p->spaces), &status);
	if (!p->spaces)
		return status;
	for (; p->space_count < count; p->space_count++) {
		struct ptah_space *s = &p->spaces[p->space_count];
		const uint8_t *at = reader_bytes(&l->r, COUNTS_SPACE);

		s->cr3 = load_le64(at);
		s->vmcs = load_le64(at + 8);
		if (p->space_count && counts_compare_spaces(s - 1, s) >= 0)
			return load_refuse(l, at, "address spaces are not in order");
	}
	return 0;
}

static const char *wrong_with_file(const struct counts_process *p, const struct ptah_counts_file *f)
{
	if (!f->size || counts_last(f) < f->address)
		return "a mapping without an end";
	if (p->file_count && (f->version < f[-1].version ||
			      (f->version == f[-1].version && f->address <= counts_last(f - 1))))
		return "mappings overlap or are not in order";
	return NULL;
}

/* Reads the path after a file's fixed part. */
static int load_path(struct load *l, struct ptah_counts_file *f, uint32_t length)
{
	const uint8_t *at = l->r.p, *text = reader_bytes(&l->r, length);
	const size_t padding = (8 - length % 8) % 8;
	const uint8_t *rest = text ? reader_bytes(&l->r, padding) : NULL;

	if (!rest)
		return load_refuse(l, at, "the file ends inside a path");
	if (!length || memchr(text, 0, length) || !load_all_zero(rest, padding))
		return load_refuse(l, at, "malformed path");
	f->path = strings_keep(&l->counts->paths, (const char *)text, length);
	return f->path ? 0 : PTAH_E_NOMEM;
}

/* The bytes of versions of code, of which an entry has so many. */
static size_t versions_size(const struct load *l, size_t count)
{
	return l->version > 3 ? count * COUNTS_CODE : 0;
}

/* The versions at the end of a block or an edge. */
static void load_versions(const struct load *l, const uint8_t *at, uint64_t *version,
			  uint64_t *target)
{
	if (!versions_size(l, 2))
		return;
	*version = load_le64(at);
	*target = load_le64(at + COUNTS_CODE);
}

static int load_files(struct load *l, struct counts_process *p, uint64_t count)
{
	const size_t more = versions_size(l, 1);
	int status;

	p->files = items(l, count, COUNTS_FILE + more, sizeof(*p->files), &status);
	if (!p->files)
		return status;
	for (; p->file_count < count; p->file_count++) {
		struct ptah_counts_file *f = &p->files[p->file_count];
		const uint8_t *place = l->r.p, *at = reader_bytes(&l->r, COUNTS_FILE + more);
		const char *wrong;

		if (!at)
			return load_refuse(l, place, "the file ends inside a mapping");
		f->address = load_le64(at);
		f->size = load_le64(at + 8);
		f->file_offset = load_le64(at + 16);
		if (load_le32(at + 28) > PTAH_BUILD_ID_MAX)
			return load_refuse(l, at, "a build id that is too long");
		f->build_id_size = at[28];
		memcpy(f->build_id, at + 32, f->build_id_size);
		f->version = more ? load_le64(at + COUNTS_FILE) : 0;
		wrong = wrong_with_file(p, f);
		if (!wrong &&
		    !load_all_zero(at + 32 + f->build_id_size, 24 - (size_t)f->build_id_size))
			wrong = "malformed build id";
		if (wrong)
			return load_refuse(l, at, wrong);
		status = load_path(l, f, load_le32(at + 24));
		if (status < 0)
			return status;
	}
	return 0;
}

static const char *wrong_with_block(const struct counts_process *p, const uint8_t *at,
				    const struct ptah_profile_block *b)
{
	if (b->space >= p->space_count)
		return "a block of an address space that is not there";
	if (b->insn_class >= PTAH_INSN_CLASS_MAX || b->mode > PTAH_EXEC_64 || !b->ninsn ||
	    b->last_size > 15 || at[57] > 1 || !load_all_zero(at + 58, 6))
		return "malformed block";
	if (!b->count || b->taken > b->count || b->unknown > b->count - b->taken)
		return "a block's counts contradict each other";
	if (p->block_count && counts_compare_blocks(b - 1, b) >= 0)
		return "blocks are not in order";
	return NULL;
}

static int load_blocks(struct load *l, struct counts_process *p, uint64_t count)
{
	const size_t size = COUNTS_BLOCK + versions_size(l, 2);
	int status;

	p->blocks = items(l, count, size, sizeof(*p->blocks), &status);
	if (!p->blocks)
		return status;
	for (; p->block_count < count; p->block_count++) {
		struct ptah_profile_block *b = &p->blocks[p->block_count];
		const uint8_t *at = reader_bytes(&l->r, size);
		const char *wrong;

		b->ip = load_le64(at);
		b->end = load_le64(at + 8);
		b->target = load_le64(at + 16);
		b->count = load_le64(at + 24);
		b->taken = load_le64(at + 32);
		b->unknown = load_le64(at + 40);
		b->space = load_le32(at + 48);
		b->ninsn = load_le16(at + 52);
		b->mode = at[54];
		b->insn_class = at[55];
		b->last_size = at[56];
		b->truncated = at[57];
		load_versions(l, at + COUNTS_BLOCK, &b->version, &b->target_version);
		wrong = wrong_with_block(p, at, b);
		if (wrong)
			return load_refuse(l, at, wrong);
	}
	return 0;
}

static const char *wrong_with_edge(const struct counts_process *p, const uint8_t *at,
				   const struct ptah_profile_edge *e)
{
	if (e->space >= p->space_count)
		return "an edge of an address space that is not there";
	if (!e->count || e->insn_class >= PTAH_INSN_CLASS_MAX || e->mode > PTAH_EXEC_64 ||
	    !load_all_zero(at + 30, 2))
		return "malformed edge";
	if (p->edge_count && counts_compare_edges(e - 1, e) >= 0)
		return "edges are not in order";
	return NULL;
}

static int load_edges(struct load *l, struct counts_process *p, uint64_t count)
{
	const size_t size = COUNTS_EDGE + versions_size(l, 2);
	int status;

	p->edges = items(l, count, size, sizeof(*p->edges), &status);
	if (!p->edges)
		return status;
	for (; p->edge_count < count; p->edge_count++) {
		struct ptah_profile_edge *e = &p->edges[p->edge_count];
		const uint8_t *at = reader_bytes(&l->r, size);
		const char *wrong;

		e->from = load_le64(at);
		e->to = load_le64(at + 8);
		e->count = load_le64(at + 16);
		e->space = load_le32(at + 24);
		e->mode = at[28];
		e->insn_class = at[29];
		load_versions(l, at + COUNTS_EDGE, &e->version, &e->target_version);
		wrong = wrong_with_edge(p, at, e);
		if (wrong)
			return load_refuse(l, at, wrong);
	}
	return 0;
}

static int load_events(const struct load *l, struct counts_process *p, const uint8_t *at)
{
	struct ptah_profile_totals *t = &p->events;

	t->errors = load_le64(at);
	t->overflows = load_le64(at + 8);
	t->gaps = load_le64(at + 16);
	memcpy(&t->first_error, at + 24, sizeof(t->first_error));
	if (t->errors ? t->first_error.type != COUNTS_IS_ERROR
		      : !load_all_zero(at + 24, sizeof(t->first_error)))
		return load_refuse(l, at + 24, "the first error is none");
	if (t->errors)
		t->first_error.type = PTAH_ITEM_ERROR;
	return 0;
}

/* Whether the last process is in the order of pids. */
static const char *wrong_with_process(const struct counts_process *p, size_t before, size_t *same)
{
	if (before && p[-1].pid > p->pid)
		return "processes are not in order";
	*same = before && p[-1].pid == p->pid ? *same + 1 : 1;
	return *same > COUNTS_SAME_PID ? "too many processes of one pid" : NULL;
}

/* The name must end within its bytes and be followed by zeros only. */
static bool load_comm(struct counts_process *p, const uint8_t *at)
{
	const size_t n = strnlen((const char *)at, sizeof(p->comm));

	if (n == sizeof(p->comm) || !load_all_zero(at + n, sizeof(p->comm) - n))
		return false;
	memcpy(p->comm, at, n);
	return true;
}

static int load_process(struct load *l, size_t *same)
{
	static const size_t sizes[] = {0, COUNTS_PROCESS_1, COUNTS_PROCESS_2, COUNTS_PROCESS,
				       COUNTS_PROCESS};
	const size_t size = sizes[l->version];
	const uint8_t *place = l->r.p, *at = reader_bytes(&l->r, size);
	struct counts_process *p;
	const char *wrong;
	int status;

	if (!at)
		return load_refuse(l, place, "the file ends inside a process");
	p = counts_append(l->counts);
	if (!p)
		return PTAH_E_NOMEM;
	p->pid = p->space = (int32_t)load_le32(at);
	if (l->version > 1 && !load_comm(p, at + COUNTS_PROCESS_1))
		return load_refuse(l, at + COUNTS_PROCESS_1, "malformed name");
	wrong = load_le32(at + 4) >= PTAH_COUNTS_TIMES_MAX
		    ? "malformed process"
		    : wrong_with_process(p, l->counts->count - 1, same);
	if (wrong)
		return load_refuse(l, at, wrong);
	if (l->version > 2 && load_le64(at + COUNTS_PROCESS_2) > 1)
		return load_refuse(l, at + COUNTS_PROCESS_2, "malformed process");
	l->counts->times |= load_le32(at + 4);
	status = load_events(l, p, at + 40);
	if (status >= 0)
		status = load_spaces(l, p, load_le64(at + 8));
	if (status >= 0)
		status = load_files(l, p, load_le64(at + 16));
	if (status >= 0)
		status = load_blocks(l, p, load_le64(at + 24));
	if (status >= 0)
		status = load_edges(l, p, load_le64(at + 32));
	if (status >= 0 && l->version > 2 && load_le64(at + COUNTS_PROCESS_2))
		status = load_calls(l, &p->calls);
	if (status >= 0 && !counts_sum(&l->counts->sums, p))
		status = load_refuse(l, at, "the counts do not fit in 64 bits");
	return status;
}

int load_file_header(struct load *l, const char *magic, const char *other, uint32_t newest,
		     size_t n)
{
	const uint8_t *const bytes = l->begin;
	uint64_t size;

	if (n < 8 || memcmp(bytes, magic, 8) != 0)
		return perfdata_message(l->why, PTAH_E_BAD_MAGIC, "offset 0x0: %s", other);
	if (n < COUNTS_HEADER)
		return load_refuse(l, bytes + n, "the file ends inside its header");
	l->version = load_le32(bytes + COUNTS_AT_VERSION);
	if (!l->version || l->version > newest)
		return perfdata_message(l->why, PTAH_E_UNSUPPORTED,
					newest > 1
					    ? "offset 0x%x: version %" PRIu32
					      " of the format; this Ptah reads versions 1 to "
					      "%" PRIu32
					    : "offset 0x%x: version %" PRIu32
					      " of the format; this Ptah reads version "
					      "%" PRIu32,
					COUNTS_AT_VERSION, l->version, newest);
	size = load_le64(bytes + COUNTS_AT_SIZE);
	if (size > n)
		return perfdata_message(
		    l->why, PTAH_E_BAD_FILE,
		    "offset 0x%zx: the file was cut short: it had %" PRIu64 " bytes", n, size);
	if (size < n)
		return load_refuse(l, bytes + COUNTS_AT_SIZE,
				   "there are more bytes than the header says");
	if (load_le32(bytes + COUNTS_AT_VERSION + 4))
		return load_refuse(l, bytes + COUNTS_AT_VERSION + 4, "malformed header");
	if (load_le64(bytes + COUNTS_AT_CHECKSUM) !=
	    counts_checksum(bytes + COUNTS_HEADER, n - COUNTS_HEADER))
		return load_refuse(l, bytes + COUNTS_AT_CHECKSUM,
				   "the checksum is not that of the file, which is damaged");
	l->r.p = bytes + COUNTS_HEADER;
	return 0;
}

static int load_all(struct load *l, size_t n)
{
	uint64_t processes;
	size_t same = 0;
	bool versions;
	int status = load_file_header(l, COUNTS_MAGIC, "not saved counts", COUNTS_VERSION, n);

	if (status < 0)
		return status;
	processes = reader_u64(&l->r);
	if (l->r.failed)
		return load_refuse(l, l->r.end, "the file ends inside its header");
	for (uint64_t i = 0; i < processes && status >= 0; i++)
		status = load_process(l, &same);
	versions = l->version <= 3;
	for (size_t i = 0; i < l->counts->count && !versions; i++)
		versions = counts_have_versions(&l->counts->processes[i]);
	if (status >= 0 && !versions)
		status = load_refuse(l, l->begin + COUNTS_AT_VERSION, "it has no versions of code");
	if (status >= 0 && l->r.p < l->r.end)
		status = load_refuse(l, l->r.p, "bytes after the last process");
	return status;
}

static int load_counts_bytes(const void *bytes, size_t n, struct ptah_counts **counts,
			     struct ptah_message *why)
{
	const uint8_t *begin = bytes;
	struct load l = {.begin = begin, .why = why};
	int status;

	if ((!bytes && n) || !counts)
		return PTAH_E_INVAL;
	l.r = (struct reader){.p = begin, .end = n ? begin + n : begin};
	status = ptah_counts_new(&l.counts);
	if (status >= 0)
		status = load_all(&l, n);
	if (status < 0) {
		ptah_counts_free(l.counts);
		return status == PTAH_E_NOMEM ? perfdata_message(why, status, "out of memory")
					      : status;
	}
	*counts = l.counts;
	return 0;
}

int counts_load(const void *bytes, size_t n, struct ptah_counts **counts, struct ptah_message *why)
{
	perfdata_message_begin(why);
	return perfdata_message_end(why, load_counts_bytes(bytes, n, counts, why));
}

/* Opening and closing */

static int read_all(int fd, uint8_t **bytes, size_t *n)
{
	size_t capacity = 0;
	struct stat st;

	*bytes = NULL;
	*n = 0;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0)
		capacity = (size_t)st.st_size;
	for (;;) {
		uint8_t *more = *bytes;
		ssize_t k;

		if (!more || *n == capacity) {
			capacity = more || !capacity ? 2 * capacity + 65536 : capacity + 1;
			more = realloc(*bytes, capacity);
			if (!more) {
				errno = ENOMEM;
				return -1;
			}
			*bytes = more;
		}
		k = read(fd, *bytes + *n, capacity - *n);
		if (k <= 0) /* EINTR as well: a pipe may never deliver anything */
			return (int)k;
		*n += (size_t)k;
	}
}

int load_from_file(const char *path,
		   int (*load)(void *context, const void *bytes, size_t n,
			       struct ptah_message *why),
		   void *context, struct ptah_message *why)
{
	struct ptah_message reason = {""};
	uint8_t *bytes = NULL;
	size_t n = 0;
	int status = 0, fd;

	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read_all(fd, &bytes, &n) < 0)
		status = perfdata_system_message(why, errno, path, fd < 0 ? "open" : "read");
	if (fd >= 0)
		close(fd);
	if (status >= 0) {
		status = load(context, bytes, n, &reason);
		if (status < 0)
			perfdata_message(why, status, "%s: %s", path, reason.text);
	}
	free(bytes);
	return status;
}

bool load_recognise(const char *path, const char *magic)
{
	char begin[8] = "";
	struct stat st;
	int fd;
	bool is = false;

	/* Reading from a pipe would lose its bytes. */
	if (stat(path, &st) || !S_ISREG(st.st_mode))
		return false;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		is = read(fd, begin, 8) == 8 && !memcmp(begin, magic, 8);
		close(fd);
	}
	return is;
}

static int load_it(void *counts, const void *bytes, size_t n, struct ptah_message *why)
{
	return counts_load(bytes, n, counts, why);
}

static int open_counts_file(const char *path, struct ptah_counts **counts, struct ptah_message *why)
{
	return path && counts ? load_from_file(path, load_it, counts, why) : PTAH_E_INVAL;
}

int ptah_counts_open(const char *path, struct ptah_counts **counts, struct ptah_message *why)
{
	perfdata_message_begin(why);
	return perfdata_message_end(why, open_counts_file(path, counts, why));
}

enum ptah_counts_kind ptah_counts_recognise(const char *path)
{
	if (path && load_recognise(path, COUNTS_MAGIC))
		return PTAH_COUNTS_SUM;
	return path && load_recognise(path, SHARD_MAGIC) ? PTAH_COUNTS_SHARD : PTAH_COUNTS_NONE;
}
