/* SPDX-License-Identifier: MIT */
/* Brings the trace and the code of a trace set into a session. */
#include "session/trace_set.h"

#include "base/bits.h"
#include "base/order.h"
#include "image/pe.h"
#include "perfdata/message.h"
#include "session/guest.h"
#include "session/records.h"
#include "image/image_access.h"
#include "support/list.h"

#include <ptah/symbol.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Files */

/* Where a file of code is: see session_map_path(). The caller frees it. */
static char *given_path(const struct ptah_session *s, const char *path)
{
	return session_map_path(s, &(const struct change){.path = path, .given = true});
}

static uint32_t hash_path(const char *path)
{
	uint64_t hash = 0;

	while (*path)
		hash = (hash ^ (uint8_t)*path++) * UINT64_C(0x100000001b3);
	return (uint32_t)(hash >> 16);
}

/* Opens a regular file and sets its size. A negative value is the error. */
static int open_file(const char *path, uint64_t *size, struct ptah_message *why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return perfdata_system_message(why, errno, path, "open");
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return perfdata_message(why, PTAH_E_EMPTY, "%s: not a regular file", path);
	}
	*size = (uint64_t)st.st_size;
	return fd;
}

static int map_bytes(struct set_file *file, struct ptah_message *why)
{
	int fd = open_file(file->path, &file->size, why);

	if (fd < 0)
		return fd;
	if (file->size) {
		void *bytes = mmap(NULL, (size_t)file->size, PROT_READ, MAP_PRIVATE, fd, 0);

		file->bytes = bytes == MAP_FAILED ? NULL : bytes;
	}
	if (file->size && !file->bytes) {
		perfdata_system_message(why, errno, file->path, "map");
		close(fd);
		return PTAH_E_SYSTEM;
	}
	close(fd);
	return 0;
}

/* Maps the file with this path, which has no symbolic links, once for all of its pieces. */
static int map_real_file(struct ptah_session *s, const char *path, size_t *file,
			 struct ptah_message *why)
{
	const uint32_t hash = hash_path(path);
	const size_t first = table_get(&s->files_by_path, hash);
	struct set_file new = {.next = first};
	int status;

	for (*file = first; *file != SESSION_NONE; *file = s->files[*file].next)
		if (!strcmp(s->files[*file].path, path))
			return 0;
	if (!LIST_ROOM(s->files, s->file_count, s->file_capacity))
		return PTAH_E_NOMEM;
	new.path = strings_keep(&s->paths, path, strlen(path));
	status = new.path ? map_bytes(&new, why) : PTAH_E_NOMEM;
	if (status < 0)
		return status;
	*file = s->file_count;
	s->files[s->file_count++] = new;
	return table_set(&s->files_by_path, hash, *file);
}

static int map_file(struct ptah_session *s, const char *path, size_t *file,
		    struct ptah_message *why)
{
	/* A file without a name, as of memfd_create(2), has a path in /proc that leads nowhere. */
	char *real = realpath(path, NULL);
	int status = map_real_file(s, real ? real : path, file, why);

	free(real);
	return status;
}

/*
 * So often the bytes of a file may be named, all pieces together. More is no trace that anybody
 * recorded, and a small text could name a terabyte.
 */
#define NAMED_MAX 64

static int count_named(struct set_file *file, uint64_t size, struct ptah_message *why)
{
	if (size > NAMED_MAX * file->size - file->named)
		return perfdata_message(why, PTAH_E_LIMIT,
					"%s: its bytes are named more than %d times", file->path,
					NAMED_MAX);
	file->named += size;
	return 0;
}

/* Checks that a piece lies in its file, and sets its end where it is that of the file. */
static int check_piece(struct ptah_trace_file *piece, uint64_t size, struct ptah_message *why)
{
	if (piece->from > size || piece->to > size)
		return perfdata_message(
		    why, PTAH_E_BAD_FILE,
		    "%s: its bytes from %" PRIu64 " to %" PRIu64
		    " are named, but the file has %" PRIu64 ": copy it again, or name fewer",
		    piece->path, piece->from, piece->to ? piece->to : size, size);
	piece->to = piece->to ? piece->to : size;
	return 0;
}

/* Checks that code ends where the addresses end, which a set does not know of all of a file. */
static int check_end(const char *path, uint64_t address, uint64_t size, struct ptah_message *why)
{
	if (!size || session_is_range(address, size))
		return 0;
	return perfdata_message(why, PTAH_E_BAD_FILE,
				"%s: its %" PRIu64
				" bytes do not fit between the address 0x%" PRIx64
				" and the last one",
				path, size, address);
}

void session_free_set(struct ptah_session *s)
{
	for (size_t i = 0; i < s->file_count; i++)
		if (s->files[i].bytes)
			munmap(s->files[i].bytes, (size_t)s->files[i].size);
	free(s->files);
	free(s->spaces);
	free(s->code);
	table_free(&s->files_by_path);
}

/* Streams */

/* An entry of the set: its place in the set, and whose trace it is. */
struct entry {
	size_t at;
	int32_t cpu, tid;
	size_t first; /* the place of the first entry with the same CPU and thread */
};

static int by_stream(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return COMPARE_THEN(x->cpu, y->cpu, COMPARE_THEN(x->tid, y->tid, COMPARE(x->at, y->at)));
}

static int by_place(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return COMPARE(x->at, y->at);
}

/* Lists the entries in the order of the set, each with the first one of its stream. */
static struct entry *group_entries(const struct ptah_trace_set *set)
{
	struct entry *entries = calloc(set->stream_count + 1, sizeof(*entries));

	for (size_t i = 0; entries && i < set->stream_count; i++)
		entries[i] = (struct entry){i, set->streams[i].cpu, set->streams[i].tid, i};
	if (!entries)
		return NULL;
	qsort(entries, set->stream_count, sizeof(*entries), by_stream);
	for (size_t i = 1; i < set->stream_count; i++) {
		struct entry *e = &entries[i];

		if (e->cpu == e[-1].cpu && e->tid == e[-1].tid && (e->cpu >= 0 || e->tid >= 0))
			e->first = e[-1].first;
	}
	qsort(entries, set->stream_count, sizeof(*entries), by_place);
	return entries;
}

static int add_stream_entry(struct ptah_session *s, const struct ptah_trace_stream *entry,
			    size_t first, struct set_file *file, struct ptah_message *why)
{
	const size_t known = table_get(&s->streams_by_index, (uint32_t)first);
	struct ptah_trace_file piece = entry->file;
	struct stream *stream;
	int status = check_piece(&piece, file->size, why);

	if (status >= 0)
		status = count_named(file, piece.to - piece.from, why);
	if (status < 0)
		return status;
	stream =
	    known == SESSION_NONE ? session_new_stream(s, (uint32_t)first) : &s->streams[known];
	if (!stream)
		return PTAH_E_NOMEM;
	stream->info.cpu = entry->cpu;
	stream->info.tid = entry->tid;
	if (entry->pid >= 0)
		stream->info.pid = entry->pid;
	stream->info.lost += entry->lost;
	if (entry->pid >= 0 && entry->tid >= 0 && !session_thread_of(s, entry->pid, entry->tid))
		return PTAH_E_NOMEM;
	return session_add_pieces(stream, file->bytes ? file->bytes + piece.from : NULL,
				  piece.to - piece.from,
				  !stream->count    ? JOINT_NONE
				  : entry->gap	    ? JOINT_GAP
				  : entry->separate ? JOINT_SEPARATE
						    : JOINT_NONE);
}

int session_add_set_streams(struct ptah_session *s, const struct ptah_trace_set *set,
			    struct ptah_message *why)
{
	struct entry *entries = set->stream_count < UINT32_MAX ? group_entries(set) : NULL;
	int status = entries ? 0 : PTAH_E_NOMEM;
	size_t file = SESSION_NONE;

	for (size_t i = 0; i < set->stream_count && status >= 0; i++) {
		const struct ptah_trace_stream *entry = &set->streams[i];

		/* The pieces of one file mostly follow each other, and share its path. */
		if (!i || entry->file.path != entry[-1].file.path)
			status = map_file(s, entry->file.path, &file, why);
		if (status >= 0)
			status = add_stream_entry(s, entry, entries[i].first, &s->files[file], why);
	}
	free(entries);
	return status;
}

int session_check_sideband(struct ptah_session *s, const struct ptah_trace_set *set,
			   struct ptah_message *why)
{
	size_t file = SESSION_NONE;
	int status = 0;

	for (size_t i = 0; i < set->sideband_count && status >= 0; i++) {
		const struct ptah_trace_file *piece = &set->sideband[i].file;
		uint64_t end;

		if (!i || piece->path != set->sideband[i - 1].file.path)
			status = map_file(s, piece->path, &file, why);
		if (status < 0)
			return status;
		end = s->files[file].size;
		end = piece->to && piece->to < end ? piece->to : end;
		if (piece->from < end)
			status = count_named(&s->files[file], end - piece->from, why);
	}
	return status;
}

/* Code */

/*
 * Each piece of code is mapped by itself, and a process can have some 65000 mappings (Linux'
 * vm.max_map_count). The pieces of processes are mapped when their streams are decoded.
 */
#define PIECES_MAX 32768
#define MAPS_MAX   (1 << 18)

static int refuse_piece(const struct ptah_trace_code *code, size_t most, struct ptah_message *why)
{
	return perfdata_message(why, PTAH_E_LIMIT,
				"%s: more than %zu pieces of code in one set; put pieces together "
				"(\"pages\" takes any number of them in one file)",
				code->file.path, most);
}

static int add_set_map(struct set_maps *maps, const struct ptah_trace_code *code,
		       const struct change *change, struct ptah_message *why)
{
	if (maps->count == MAPS_MAX)
		return refuse_piece(code, MAPS_MAX, why);
	if (!LIST_ROOM(maps->maps, maps->count, maps->capacity))
		return PTAH_E_NOMEM;
	maps->maps[maps->count++] = (struct set_map){code->pid, *change};
	return 0;
}

/*
 * A file of code that cannot be used: an error, or with ignore_build_ids (--force) a note, as for a
 * recording.
 */
static int code_failed(struct ptah_session *s, int status, struct ptah_message *why,
		       const char *text, const char *path)
{
	if (status == PTAH_E_NOMEM)
		return status;
	if (s->config.ignore_build_ids)
		return session_note_format(s, "%.150s is not used: %s", path, text);
	return perfdata_message(why, status, "%s: %s", path, text);
}

static const char *file_problem(uint8_t kind, int status, const char *path)
{
	if (access(path, R_OK) < 0)
		return strerror(errno);
	if (status != PTAH_E_BAD_MAGIC)
		return ptah_strerror(status);
	return kind == PTAH_TRACE_CODE_PE ? "it is no PE file" : "it is no ELF file of x86-64";
}

/* Lists the executable parts of an ELF or PE file in *parts, which the caller frees. */
static int list_parts(const struct ptah_trace_code *code, const char *path,
		      struct ptah_elf_segment **parts)
{
	struct pe_section *sections;
	int n;

	if (code->kind == PTAH_TRACE_CODE_ELF)
		return ptah_elf_segments(path, code->address, parts);
	n = pe_sections(path, code->address, &sections);
	if (n < 0)
		return n;
	*parts = calloc((size_t)n, sizeof(**parts));
	for (int i = 0; i < n && *parts; i++)
		(*parts)[i] = (struct ptah_elf_segment){.offset = sections[i].offset,
							.address = sections[i].address,
							.size = sections[i].size};
	free(sections);
	return *parts ? n : PTAH_E_NOMEM;
}

/* An ELF or a PE file. */
static int list_program(struct ptah_session *s, struct set_maps *maps,
			const struct ptah_trace_code *code, struct change change,
			struct ptah_message *why)
{
	struct ptah_elf_segment *parts = NULL;
	char *path = given_path(s, code->file.path);
	int n = path ? list_parts(code, path, &parts) : PTAH_E_NOMEM;
	int status = n;

	if (n < 0)
		status = code_failed(s, n, why, path ? file_problem(code->kind, n, path) : "",
				     code->file.path);
	for (int i = 0; i < n && status >= 0; i++) {
		change.address = parts[i].address;
		change.size = parts[i].size;
		change.file_offset = parts[i].offset;
		if (session_is_range(change.address, change.size))
			status = add_set_map(maps, code, &change, why);
	}
	free(parts);
	free(path);
	return status < 0 ? status : 0;
}

static int list_raw(struct ptah_session *s, struct set_maps *maps,
		    const struct ptah_trace_code *code, struct change change,
		    struct ptah_message *why)
{
	struct ptah_trace_file piece = code->file;
	char *path = given_path(s, piece.path);
	uint64_t size = 0;
	int fd = path ? open_file(path, &size, why) : PTAH_E_NOMEM;
	int status = fd;

	free(path);
	if (fd < 0)
		return fd == PTAH_E_NOMEM || !s->config.ignore_build_ids
			   ? fd
			   : code_failed(s, fd, NULL, "it cannot be opened", piece.path);
	close(fd);
	status = check_piece(&piece, size, why);
	change.address = code->address;
	change.size = piece.to - piece.from;
	change.file_offset = piece.from;
	if (status >= 0)
		status = check_end(piece.path, change.address, change.size, why);
	return status < 0 || !session_is_range(change.address, change.size)
		   ? status
		   : add_set_map(maps, code, &change, why);
}

#define PAGE 4096

/* The pages of PREFIX.dump, whose addresses are in PREFIX.addr: one map for each run of them. */
static int list_pages(struct ptah_session *s, struct set_maps *maps,
		      const struct ptah_trace_code *code, struct change change,
		      struct ptah_message *why)
{
	struct set_file addresses = {0};
	char *path = NULL, *dump = NULL;
	uint64_t run = 0;
	int status = PTAH_E_NOMEM;

	if (asprintf(&path, "%s.addr", code->file.path) < 0)
		return PTAH_E_NOMEM;
	addresses.path = given_path(s, path);
	if (addresses.path && asprintf(&dump, "%s.dump", code->file.path) >= 0) {
		change.path = strings_keep(&s->paths, dump, strlen(dump));
		status = change.path ? map_bytes(&addresses, why) : PTAH_E_NOMEM;
	}
	for (uint64_t i = 0; i < addresses.size / 8 && status >= 0; i += run) {
		const uint8_t *at = addresses.bytes + 8 * i;

		change.address = load_le64(at);
		change.file_offset = PAGE * i;
		for (run = 1; run < addresses.size / 8 - i &&
			      load_le64(at + 8 * run) == change.address + PAGE * run;
		     run++)
			;
		change.size = PAGE * run;
		if (session_is_range(change.address, change.size))
			status = add_set_map(maps, code, &change, why);
	}
	if (addresses.bytes)
		munmap(addresses.bytes, (size_t)addresses.size);
	free((char *)(uintptr_t)addresses.path);
	free(dump);
	free(path);
	return status;
}

static bool exists(const struct ptah_session *s, const char *path)
{
	char *full = given_path(s, path);
	const bool found = full && !access(full, F_OK);

	free(full);
	return found;
}

/* An entry of code whose file is, if it does not exist, the one that ran. */
static struct ptah_trace_code locate_code(const struct ptah_session *s,
					  const struct ptah_trace_code *code)
{
	struct ptah_trace_code found = *code;
	const char *recorded = code->recorded_path;

	if (code->kind != PTAH_TRACE_CODE_PAGES && recorded && *recorded == '/' &&
	    !exists(s, code->file.path) && exists(s, recorded))
		found.file.path = recorded;
	return found;
}

/* What is known of a file of code without opening it. */
static int change_of(struct ptah_session *s, const struct ptah_trace_code *code,
		     struct change *change)
{
	_Static_assert(sizeof(change->id.bytes) == sizeof(code->build_id), "one copy");
	*change = (struct change){.type = CHANGE_MAP, .given = true, .tsc = code->tsc};
	change->path = strings_keep(&s->paths, code->file.path, strlen(code->file.path));
	change->id.size = code->build_id_size;
	memcpy(change->id.bytes, code->build_id, sizeof(code->build_id));
	return change->path ? 0 : PTAH_E_NOMEM;
}

/* Lists the code that belongs to processes, or the code that belongs to none. */
static int list_maps(struct ptah_session *s, const struct ptah_trace_set *set, bool of_process,
		     struct set_maps *maps, struct ptah_message *why)
{
	static int (*const list[PTAH_TRACE_CODE_MAX])(
	    struct ptah_session *, struct set_maps *, const struct ptah_trace_code *, struct change,
	    struct ptah_message *) = {list_raw, list_program, list_program, list_pages};
	int status = 0;

	for (size_t i = 0; i < set->code_count && status >= 0; i++) {
		struct ptah_trace_code code;
		struct change change;

		if ((set->code[i].pid >= 0) != of_process || s->config.no_images)
			continue;
		code = locate_code(s, &set->code[i]);
		status = change_of(s, &code, &change);
		if (status >= 0)
			status = list[code.kind](s, maps, &code, change, why);
	}
	return status;
}

int session_list_set_maps(struct ptah_session *s, const struct ptah_trace_set *set,
			  struct set_maps *maps, struct ptah_message *why)
{
	return list_maps(s, set, true, maps, why);
}

/* Keeps where code lies in files, so that filters which name files can be resolved. */
static int keep_code(struct ptah_session *s, const struct ptah_trace_set *set)
{
	struct set_maps maps = {0};
	int status = list_maps(s, set, false, &maps, NULL);

	if (status >= 0) {
		s->code = calloc(maps.count + 1, sizeof(*s->code));
		status = s->code ? 0 : PTAH_E_NOMEM;
	}
	for (size_t i = 0; i < maps.count && status >= 0; i++)
		s->code[s->code_count++] = maps.maps[i].change;
	free(maps.maps);
	return status;
}

static int keep_filter(struct ptah_session *s, const struct ptah_trace_set *set)
{
	s->filter = strings_keep(&s->paths, set->filter, strlen(set->filter));
	return s->filter ? keep_code(s, set) : PTAH_E_NOMEM;
}

static int keep_vdso(struct ptah_session *s, const struct ptah_trace_set *set)
{
	for (unsigned i = 0; i < PTAH_TRACE_VDSO_MAX; i++) {
		if (!set->vdso[i])
			continue;
		s->vdso[i] = strings_keep(&s->paths, set->vdso[i], strlen(set->vdso[i]));
		if (!s->vdso[i])
			return PTAH_E_NOMEM;
	}
	return 0;
}

/* How many sections an entry adds, in which a process's mappings are counted. */
static size_t count_pieces(const struct ptah_trace_code *code, const char *path)
{
	struct ptah_elf_segment *segments = NULL;
	int n = code->kind == PTAH_TRACE_CODE_ELF
		    ? ptah_elf_segments(path, code->address, &segments)
		    : 1;

	free(segments);
	return n < 0 ? 0 : (size_t)n;
}

static int add_to_image(struct ptah_session *s, const struct ptah_trace_code *code,
			const char *path, struct ptah_message *why)
{
	struct ptah_trace_file piece = code->file;
	uint64_t size = 0;
	int fd, status;

	if (code->kind == PTAH_TRACE_CODE_ELF)
		return ptah_image_add_elf(s->kernel.image, path, code->address, &code->space);
	if (code->kind == PTAH_TRACE_CODE_PE)
		return image_add_pe(s->kernel.image, path, code->address, &code->space);
	if (code->kind == PTAH_TRACE_CODE_PAGES)
		return ptah_image_add_pages(s->kernel.image, path, &code->space);
	fd = open_file(path, &size, why);
	if (fd < 0)
		return fd;
	close(fd);
	status = check_piece(&piece, size, why);
	size = piece.to - piece.from;
	if (status >= 0)
		status = check_end(piece.path, code->address, size, why);
	if (status < 0 || !session_is_range(code->address, size))
		return status;
	return ptah_image_add_file(s->kernel.image, path, piece.from, size, code->address,
				   &code->space);
}

static int add_code(struct ptah_session *s, const struct ptah_trace_code *code, size_t *pieces,
		    struct ptah_message *why)
{
	char *path = given_path(s, code->file.path);
	struct ptah_message problem = {""};
	struct change change;
	int status = path ? change_of(s, code, &change) : PTAH_E_NOMEM;

	if (status >= 0 && !s->config.ignore_build_ids && code->build_id_size)
		status = session_check_file(s, &change, why);
	if (status >= 0) {
		*pieces += count_pieces(code, path);
		if (*pieces > PIECES_MAX)
			status = refuse_piece(code, PIECES_MAX, why);
	}
	if (status >= 0) {
		status = add_to_image(s, code, path, &problem);
		if (status < 0 && problem.text[0] && !s->config.ignore_build_ids)
			status = perfdata_message(why, status, "%s", problem.text);
		else if (status < 0)
			status = code_failed(s, status, why,
					     code->kind == PTAH_TRACE_CODE_PAGES &&
						     status == PTAH_E_MISSING
						 ? "PREFIX.addr or PREFIX.dump is missing"
						 : file_problem(code->kind, status, path),
					     code->file.path);
	}
	free(path);
	return status;
}

/* Address spaces */

static int by_value(const void *a, const void *b)
{
	const struct ptah_space *x = a, *y = b;

	return COMPARE_THEN(x->cr3, y->cr3, COMPARE(x->vmcs, y->vmcs));
}

static bool is_named(const struct ptah_space *space)
{
	return space->cr3 != PTAH_SPACE_ANY || space->vmcs != PTAH_SPACE_ANY;
}

/* A space gets a name that fits: its CR3, or its VMCS. */
void session_name_space(const struct ptah_space *space, char comm[16])
{
	const bool has_cr3 = space->cr3 != PTAH_SPACE_ANY;
	char text[32];

	snprintf(text, sizeof(text), "%s:%" PRIx64, has_cr3 ? "cr3" : "vmcs",
		 has_cr3 ? space->cr3 : space->vmcs);
	memcpy(comm, text, 15);
	comm[15] = '\0';
}

int session_number_spaces(struct ptah_session *s, const struct ptah_space *spaces, size_t n)
{
	s->spaces = calloc(n + 1, sizeof(*s->spaces));
	if (!s->spaces)
		return PTAH_E_NOMEM;
	if (n)
		memcpy(s->spaces, spaces, n * sizeof(*spaces));
	qsort(s->spaces, n, sizeof(*s->spaces), by_value);
	for (size_t i = 0; i < n; i++)
		if (!i || by_value(&s->spaces[i], &s->spaces[s->space_count - 1]))
			s->spaces[s->space_count++] = s->spaces[i];
	s->programs = calloc(s->space_count + 1, sizeof(*s->programs));
	if (!s->programs || s->space_count >= INT32_MAX - 2)
		return PTAH_E_NOMEM;
	s->program_count = s->space_count;
	s->program_capacity = s->space_count + 1;
	for (size_t i = 0; i < s->space_count; i++) {
		s->programs[i] = (struct program){.process = SESSION_NONE, .last = SESSION_NONE};
		session_name_space(&s->spaces[i], s->programs[i].comm);
	}
	return 0;
}

/* Lists the spaces that the code names. */
static int list_spaces(struct ptah_session *s, const struct ptah_trace_set *set)
{
	struct ptah_space *spaces = calloc(set->code_count + 1, sizeof(*spaces));
	int status = PTAH_E_NOMEM;
	size_t n = 0;

	for (size_t i = 0; spaces && i < set->code_count; i++)
		if (set->code[i].pid < 0 && is_named(&set->code[i].space))
			spaces[n++] = set->code[i].space;
	if (spaces)
		status = session_number_spaces(s, spaces, n);
	free(spaces);
	return status;
}

int32_t session_number_space(const struct ptah_session *s, const struct ptah_space *space)
{
	const struct ptah_space keys[] = {
	    *space, {space->cr3, PTAH_SPACE_ANY}, {PTAH_SPACE_ANY, space->vmcs}};

	if (s->growth) { /* it numbers them as they come */
		const size_t found = guest_find_space(s, space->cr3);

		return found == SESSION_NONE ? -1 : -2 - (int32_t)found;
	}
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const struct ptah_space *found =
		    bsearch(&keys[i], s->spaces, s->space_count, sizeof(*s->spaces), by_value);

		if (found)
			return -2 - (int32_t)(found - s->spaces);
	}
	return -1;
}

/* The kernel's files are taken as they are, without symfs. */
static int add_kernel(struct ptah_session *s, const struct ptah_trace_set *set,
		      struct ptah_message *why)
{
	int status;

	if (set->kallsyms)
		s->kallsyms = strings_keep(&s->paths, set->kallsyms, strlen(set->kallsyms));
	if (set->kcore)
		s->kcore = strings_keep(&s->paths, set->kcore, strlen(set->kcore));
	if ((set->kallsyms && !s->kallsyms) || (set->kcore && !s->kcore))
		return PTAH_E_NOMEM;
	status = s->kcore ? ptah_image_add_elf(s->kernel.image, s->kcore, 0, NULL) : 0;
	return status < 0
		   ? code_failed(s, status, why,
				 file_problem(PTAH_TRACE_CODE_ELF, status, s->kcore), s->kcore)
		   : 0;
}

int session_add_set_code(struct ptah_session *s, const struct ptah_trace_set *set,
			 struct ptah_message *why)
{
	int status = list_spaces(s, set);
	size_t pieces = 0;

	if (status < 0 || s->config.no_images)
		return status;
	if (!s->kernel.image)
		status = ptah_image_new(&s->kernel.image);
	if (status >= 0)
		status = add_kernel(s, set, why);
	for (size_t i = 0; i < set->code_count && status >= 0; i++) {
		struct ptah_trace_code code;

		if (set->code[i].pid >= 0)
			continue;
		code = locate_code(s, &set->code[i]);
		status = add_code(s, &code, &pieces, why);
	}
	if (status >= 0 && set->filter)
		status = keep_filter(s, set);
	return status < 0 ? status : keep_vdso(s, set);
}

/* The offset of the kernel's code is that from its first symbol. */
static bool describe_kernel(const struct ptah_session *s, const struct ptah_section *section,
			    struct ptah_map *map)
{
	if (!s->kernel.address || section->address < s->kernel.address)
		return false;
	*map = (struct ptah_map){section->address, section->size,
				 section->address - s->kernel.address, "[kernel.kallsyms]"};
	return true;
}

bool session_find_set_map(const struct ptah_session *s, int32_t space, uint64_t address,
			  struct ptah_map *map)
{
	const size_t number = (size_t)(-2 - (int64_t)space);
	struct ptah_section section;
	const char *path;

	if (!s->is_set || !s->kernel.image ||
	    ptah_image_find(s->kernel.image, address,
			    space < -1 && number < s->space_count ? &s->spaces[number] : NULL,
			    &section) < 0)
		return false;
	if (s->kcore && section.path && !strcmp(section.path, s->kcore))
		return describe_kernel(s, &section, map);
	/* As recorded: names are looked up below symfs, too. */
	path = section.path;
	/* A caller's image may have a path that was relative when the file was added. */
	if (path && *path != '/')
		return false;
	if (path && s->symfs && !s->as_named && !strncmp(path, s->symfs, strlen(s->symfs)))
		path += strlen(s->symfs);
	*map =
	    (struct ptah_map){section.address, section.size,
			      path ? section.file_offset : section.address, path ? path : "[code]"};
	return true;
}
