/* SPDX-License-Identifier: MIT */
/*
 * A folder with what FreeBSD's hwt(4) gives a program that traces with it:
 *
 *	hwt.records	the records, as HWT_IOC_RECORD_GET returns them, one after the other
 *	hwt_CONTEXT_N	a copy of the buffer of thread or processor N, as it is mapped from the
 *			device of that name
 *	NAME0, NAME1	in their place: the packets of each in order, as `hwt -r -w NAME` writes them
 *
 * A record is a struct hwt_record_user_entry of amd64 (sys/hwt.h of FreeBSD 15):
 *
 *	0     u32	enum hwt_record_type
 *	8     char[1024]	MMAP, EXECUTABLE, KERNEL: the file
 *	1032  u64	MMAP: the address of the mapping, which is executable; EXECUTABLE: what is
 *			added to the file's addresses; KERNEL: where the file lies
 *	1040  u64	EXECUTABLE: what is added to the addresses of the file's interpreter
 *	8     i32	THREAD_CREATE, THREAD_SET_NAME, BUFFER: the number of the thread or processor
 *	12    i32, 16 u64	BUFFER: the page, and the offset in it, up to which the buffer is written
 *
 * A mapping has no file offset, and no record a time.
 */
#include "traceset/foreign.h"

#include "base/bits.h"
#include "base/path.h"
#include "perfdata/message.h"
#include "traceset/set.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORDS_FILE "hwt.records"
#define PATH_SIZE    4096
#define PAGE	     UINT64_C(4096)
#define BUFFERS_MAX  65536
#define MAPPINGS_MAX 4096
#define RECORDS_MAX  ((off_t)1 << 21) /* of hwt's 16 for each lap of a buffer: of terabytes */

enum record_layout {
	OF_PATH = 8,
	OF_NUMBER = 8,
	OF_PAGE = 12,
	OF_OFFSET = 16,
	RECORD_PATH_SIZE = 1024, /* MAXPATHLEN */
	OF_ADDRESS = OF_PATH + RECORD_PATH_SIZE,
	OF_BASE = OF_ADDRESS + 8,
	RECORD_SIZE = 1056
};

enum record_type {
	RECORD_MMAP,
	RECORD_MUNMAP, /* FreeBSD 15 never sends it */
	RECORD_EXECUTABLE,
	RECORD_KERNEL,
	RECORD_THREAD_CREATE,
	RECORD_THREAD_SET_NAME, /* has no name */
	RECORD_BUFFER
};

/* The buffer of a thread or a processor. */
struct buffer {
	uint64_t size;	   /* of the copy; 0: there is none */
	uint64_t position; /* of the last record */
	uint64_t written;  /* bytes, by all records */
};

/* A file that was mapped: its addresses lie `bias` higher than it says. */
struct mapping {
	char *path;
	uint64_t bias;
};

struct hwt {
	struct ptah_trace_set *set;
	struct ptah_message *why;
	char folder[PATH_SIZE];
	int32_t context; /* of the copies */
	bool has_copies;
	struct buffer buffers[BUFFERS_MAX]; /* by their number */
	struct mapping *mappings;
	size_t mapping_count;
	bool of_threads;
	size_t programs;	     /* that were executed */
	size_t missing, relocatable; /* files */
	char first_missing[RECORD_PATH_SIZE];
};

/* Buffers */

static int32_t parse_number(const char **text)
{
	char *end;
	unsigned long n;

	if (**text < '0' || **text > '9')
		return -1;
	n = strtoul(*text, &end, 10);
	*text = end;
	return n < INT32_MAX ? (int32_t)n : -1;
}

/* Whether the name has the form of a device's, hwt_CONTEXT_NUMBER. */
static bool parse_copy_name(const char *name, int32_t *context, int32_t *number)
{
	if (strncmp(name, "hwt_", 4) != 0)
		return false;
	name += 4;
	*context = parse_number(&name);
	if (*context < 0 || *name++ != '_')
		return false;
	*number = parse_number(&name);
	return *number >= 0 && !*name;
}

static int add_copy(struct hwt *h, const char *name, uint64_t size)
{
	int32_t context, number;

	if (!parse_copy_name(name, &context, &number))
		return 0;
	if (h->has_copies && h->context != context)
		return perfdata_message(h->why, PTAH_E_FOREIGN,
					"%s: buffers of several contexts, %d and %d: move those of "
					"one to another folder, with their records",
					h->folder, h->context, context);
	if (!size || size % PAGE)
		return perfdata_message(h->why, PTAH_E_BAD_FILE,
					"%s/%s: %" PRIu64
					" bytes: a copy of hwt's buffer has whole pages",
					h->folder, name, size);
	if (number >= BUFFERS_MAX)
		return perfdata_message(h->why, PTAH_E_LIMIT, "%s/%s: more than %d buffers",
					h->folder, name, BUFFERS_MAX);
	h->has_copies = true;
	h->context = context;
	h->buffers[number].size = size;
	return 0;
}

static int list_copies(struct hwt *h)
{
	DIR *d = opendir(h->folder);
	struct dirent *entry;
	int status = 0;

	if (!d)
		return perfdata_system_message(h->why, errno, h->folder, "read the folder");
	while (!status && (entry = readdir(d))) {
		struct stat st;

		if (!fstatat(dirfd(d), entry->d_name, &st, 0) && S_ISREG(st.st_mode))
			status = add_copy(h, entry->d_name, (uint64_t)st.st_size);
	}
	closedir(d);
	return status;
}

/* The end of the last byte of [from, to) that is not 0; `from`: there is none. */
static uint64_t find_end_of_piece(int fd, uint64_t from, uint64_t to)
{
	uint8_t bytes[16 * PAGE];

	while (to > from) {
		const size_t n = to - from < sizeof(bytes) ? (size_t)(to - from) : sizeof(bytes);
		size_t i = n;

		if (pread(fd, bytes, n, (off_t)(to - n)) != (ssize_t)n)
			return to;
		while (i && !bytes[i - 1])
			i--;
		if (i)
			return to - n + i;
		to -= n;
	}
	return from;
}

/* The same of a file that may be larger than what is stored of it: its holes are not read. */
static uint64_t find_end(int fd, uint64_t from, uint64_t to)
{
	uint64_t end = from;
	off_t data = (off_t)from, hole;

	while ((data = lseek(fd, data, SEEK_DATA)) >= 0 && (uint64_t)data < to) {
		uint64_t piece_end;

		hole = lseek(fd, data, SEEK_HOLE);
		piece_end = hole < 0 || (uint64_t)hole > to ? to : (uint64_t)hole;
		piece_end = find_end_of_piece(fd, (uint64_t)data, piece_end);
		if (piece_end > (uint64_t)data)
			end = piece_end;
		if (hole <= data)
			break;
		data = hole;
	}
	return end;
}

static int add_piece(struct hwt *h, int32_t number, const char *path, uint64_t from, uint64_t to)
{
	const struct buffer *b = &h->buffers[number];
	struct ptah_trace_stream stream = {
	    .size = sizeof(stream),
	    .file = {.path = path, .from = from, .to = to},
	    .cpu = h->of_threads ? -1 : number,
	    .tid = h->of_threads ? number + 1 : -1,
	    .lost = from == b->position && b->written > b->size ? b->written - b->size : 0};

	return from < to ? ptah_trace_set_add_stream(h->set, &stream) : 0;
}

/*
 * A buffer that was not written to its end is zero behind its packets, and those after the last
 * record are taken, too. In one that was, only the position says which bytes are the oldest.
 */
static int add_buffer(struct hwt *h, int32_t number)
{
	const struct buffer *b = &h->buffers[number];
	char path[PATH_SIZE + 64];
	uint64_t end;
	int status, fd;

	snprintf(path, sizeof(path), "%s/hwt_%d_%d", h->folder, h->context, number);
	if (b->written >= b->size) {
		status = add_piece(h, number, path, b->position, b->size);
		return status < 0 || !b->position ? status
						  : add_piece(h, number, path, 0, b->position);
	}
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return perfdata_system_message(h->why, errno, path, "open");
	end = find_end(fd, b->position, b->size);
	close(fd);
	return add_piece(h, number, path, 0, end);
}

/* Threads have hwt's numbers, but from 1 on: 0 is no thread of any system. */
static int add_name(struct hwt *h, int32_t number)
{
	struct ptah_trace_thread thread = {.size = sizeof(thread), .pid = -1, .tid = number + 1};

	snprintf(thread.comm, sizeof(thread.comm), "hwt %d", number);
	return ptah_trace_set_add_thread(h->set, &thread);
}

static int add_streams(struct hwt *h)
{
	int status = 0;

	if (!h->has_copies)
		return dumps_add_streams(h->folder, h->set, h->of_threads, h->why);
	for (int32_t i = 0; i < BUFFERS_MAX && status >= 0; i++)
		if (h->buffers[i].size)
			status = add_buffer(h, i);
	if (status >= 0 && !h->set->stream_count)
		status =
		    perfdata_message(h->why, PTAH_E_EMPTY, "%s: nothing was traced", h->folder);
	return status;
}

/* Files */

static bool is_regular_file(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode);
}

/* Programs of other systems lie at the same paths. */
static bool is_of_freebsd(const char *path)
{
	uint8_t head[EI_NIDENT];
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool is = fd >= 0 && read(fd, head, sizeof(head)) == (ssize_t)sizeof(head) &&
		  !memcmp(head, ELFMAG, SELFMAG) && head[EI_OSABI] == ELFOSABI_FREEBSD;

	if (fd >= 0)
		close(fd);
	return is;
}

/* A file of the traced machine: below the folder, of its name in it, or of this machine. */
static bool find_file_of(const struct hwt *h, const char *path, char found[PATH_SIZE])
{
	const char *name = strrchr(path, '/');

	if (*path == '/' &&
	    (size_t)snprintf(found, PATH_SIZE, "%s%s", h->folder, path) < PATH_SIZE &&
	    is_regular_file(found))
		return true;
	name = name ? name + 1 : path;
	if (*name && (size_t)snprintf(found, PATH_SIZE, "%s/%s", h->folder, name) < PATH_SIZE &&
	    is_regular_file(found))
		return true;
	snprintf(found, PATH_SIZE, "%s", path);
	return *path == '/' && is_regular_file(found) && is_of_freebsd(found);
}

/* What the program headers of a file say. */
struct layout {
	uint16_t type;	  /* ET_EXEC, ET_DYN, ET_REL */
	uint64_t lowest;  /* address of a segment */
	uint64_t code[8]; /* pages at which executable segments begin */
	size_t code_count;
	char interpreter[RECORD_PATH_SIZE]; /* "": none */
};

static void read_interpreter(int fd, const GElf_Phdr *p, struct layout *l)
{
	const size_t n = sizeof(l->interpreter);

	if (!p->p_filesz || p->p_filesz > n || p->p_offset > INT64_MAX ||
	    pread(fd, l->interpreter, p->p_filesz, (off_t)p->p_offset) != (ssize_t)p->p_filesz ||
	    !memchr(l->interpreter, '\0', p->p_filesz))
		l->interpreter[0] = '\0';
}

static void read_segments(Elf *elf, int fd, struct layout *l)
{
	bool found = false;
	size_t n;

	if (elf_getphdrnum(elf, &n) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		GElf_Phdr p;

		if (!gelf_getphdr(elf, (int)i, &p))
			continue;
		if (p.p_type == PT_INTERP)
			read_interpreter(fd, &p, l);
		if (p.p_type != PT_LOAD)
			continue;
		if (!found || p.p_vaddr < l->lowest)
			l->lowest = p.p_vaddr;
		found = true;
		if (p.p_flags & PF_X && l->code_count < sizeof(l->code) / sizeof(*l->code))
			l->code[l->code_count++] = p.p_vaddr & ~(PAGE - 1);
	}
}

/* False: it is no ELF file with code. */
static bool read_layout(const char *path, struct layout *l)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	Elf *elf = NULL;
	GElf_Ehdr head;

	*l = (struct layout){0};
	if (fd < 0)
		return false;
	if (elf_version(EV_CURRENT) != EV_NONE)
		elf = elf_begin(fd, ELF_C_READ, NULL);
	if (elf && gelf_getehdr(elf, &head)) {
		l->type = head.e_type;
		read_segments(elf, fd, l);
	}
	elf_end(elf);
	close(fd);
	return l->code_count > 0 || l->type == ET_REL;
}

/* Whether one of the file's executable segments is mapped there by a mapping that is known. */
static bool is_known(const struct hwt *h, const char *path, const struct layout *l,
		     uint64_t address)
{
	for (size_t i = 0; i < h->mapping_count; i++) {
		const struct mapping *m = &h->mappings[i];

		for (size_t k = 0; k < l->code_count && !strcmp(m->path, path); k++)
			if (m->bias + l->code[k] == address)
				return true;
	}
	return false;
}

static int keep_mapping(struct hwt *h, const char *recorded, uint64_t bias)
{
	struct mapping *bigger, m = {strdup(recorded), bias};

	if (h->mapping_count == MAPPINGS_MAX) {
		free(m.path);
		return perfdata_message(h->why, PTAH_E_LIMIT,
					"%s/" RECORDS_FILE ": more than %d mappings", h->folder,
					MAPPINGS_MAX);
	}
	bigger = m.path ? reallocarray(h->mappings, h->mapping_count + 1, sizeof(m)) : NULL;
	if (!bigger) {
		free(m.path);
		return PTAH_E_NOMEM;
	}
	h->mappings = bigger;
	h->mappings[h->mapping_count++] = m;
	return 0;
}

static int add_mapping(struct hwt *h, const char *recorded, const char *path,
		       const struct layout *l, uint64_t bias)
{
	const struct ptah_trace_code code = {.size = sizeof(code),
					     .kind = PTAH_TRACE_CODE_ELF,
					     .file.path = path,
					     .address = bias ? bias + l->lowest : 0,
					     .recorded_path = recorded};
	int status = keep_mapping(h, recorded, bias);

	return status < 0 ? status : ptah_trace_set_add_code(h->set, &code);
}

/* 1: the file is here, and has code; 0: not. */
static int open_file(struct hwt *h, const char *recorded, char found[PATH_SIZE], struct layout *l)
{
	if (!*recorded || !find_file_of(h, recorded, found) || !read_layout(found, l)) {
		if (!h->missing++)
			snprintf(h->first_missing, sizeof(h->first_missing), "%s",
				 *recorded ? recorded : "a file without a path");
		return 0;
	}
	if (l->type == ET_REL) {
		h->relocatable++;
		return 0;
	}
	return 1;
}

/* Records */

static int on_executable(struct hwt *h, const char *recorded, const uint8_t *record)
{
	const uint64_t base = load_le64(record + OF_BASE);
	char path[PATH_SIZE], interpreter[RECORD_PATH_SIZE];
	struct layout l;
	int status;

	h->programs++;
	if (!open_file(h, recorded, path, &l))
		return 0;
	snprintf(interpreter, sizeof(interpreter), "%s", l.interpreter);
	path_resolve(interpreter);
	status = add_mapping(h, recorded, path, &l,
			     l.type == ET_EXEC ? 0 : load_le64(record + OF_ADDRESS));
	if (status < 0 || !*interpreter || !base || !open_file(h, interpreter, path, &l))
		return status;
	return add_mapping(h, interpreter, path, &l, base);
}

static int on_mmap(struct hwt *h, const char *recorded, uint64_t address)
{
	char path[PATH_SIZE];
	struct layout l;

	if (!open_file(h, recorded, path, &l) || is_known(h, recorded, &l, address))
		return 0;
	return add_mapping(h, recorded, path, &l, address - l.code[0]);
}

static int on_kernel(struct hwt *h, const char *recorded, uint64_t address)
{
	char path[PATH_SIZE];
	struct layout l;

	if (!open_file(h, recorded, path, &l))
		return 0;
	return add_mapping(h, recorded, path, &l, l.type == ET_EXEC ? 0 : address - l.lowest);
}

static int on_buffer(struct hwt *h, const uint8_t *record, uint64_t offset)
{
	const int32_t number = (int32_t)load_le32(record + OF_NUMBER);
	const int32_t page = (int32_t)load_le32(record + OF_PAGE);
	const uint64_t in_page = load_le64(record + OF_OFFSET);
	struct buffer *b;
	uint64_t position;

	if (number < 0 || number >= BUFFERS_MAX)
		return perfdata_message(h->why, PTAH_E_BAD_FILE,
					"%s/" RECORDS_FILE ": offset %" PRIu64
					": buffer %d: there is no such number",
					h->folder, offset, number);
	b = &h->buffers[number];
	position = (uint64_t)(uint32_t)page * PAGE + in_page;
	if (page < 0 || in_page > PAGE || (b->size && position > b->size))
		return perfdata_message(h->why, PTAH_E_BAD_FILE,
					"%s/" RECORDS_FILE ": offset %" PRIu64
					": page %d, offset %#" PRIx64
					": there is no such place in the buffer",
					h->folder, offset, page, in_page);
	if (!b->size)
		return 0;
	position %= b->size;
	b->written += (position + b->size - b->position) % b->size;
	b->position = position;
	return 0;
}

static int on_thread(struct hwt *h, int32_t number)
{
	h->of_threads = true;
	return number >= 0 && number < BUFFERS_MAX ? add_name(h, number) : 0;
}

static int on_record(struct hwt *h, const uint8_t *record, uint64_t offset)
{
	const uint32_t type = load_le32(record);
	char path[RECORD_PATH_SIZE];

	memcpy(path, record + OF_PATH, sizeof(path));
	path[sizeof(path) - 1] = '\0';
	path_resolve(path);
	switch (type) {
	case RECORD_MMAP:
		return on_mmap(h, path, load_le64(record + OF_ADDRESS));
	case RECORD_EXECUTABLE:
		return on_executable(h, path, record);
	case RECORD_KERNEL:
		return on_kernel(h, path, load_le64(record + OF_ADDRESS));
	case RECORD_THREAD_CREATE:
		return on_thread(h, (int32_t)load_le32(record + OF_NUMBER));
	case RECORD_BUFFER:
		return on_buffer(h, record, offset);
	case RECORD_MUNMAP:
	case RECORD_THREAD_SET_NAME:
		return 0;
	default:
		return perfdata_message(
		    h->why, PTAH_E_BAD_FILE,
		    "%s/" RECORDS_FILE ": offset %" PRIu64 ": type %" PRIu32
		    ": not a record of hwt on amd64 (FreeBSD 15: %d bytes each)",
		    h->folder, offset, type, RECORD_SIZE);
	}
}

static int read_records(struct hwt *h)
{
	char path[PATH_SIZE + 16], note[256];
	uint8_t record[RECORD_SIZE];
	uint64_t offset = 0;
	size_t n = 0;
	int status = 0;
	struct stat st;
	FILE *f;

	snprintf(path, sizeof(path), "%s/" RECORDS_FILE, h->folder);
	f = fopen(path, "re");
	if (!f || fstat(fileno(f), &st)) {
		status = perfdata_system_message(h->why, errno, path, "open");
		if (f)
			fclose(f);
		return status;
	}
	if (st.st_size / RECORD_SIZE > RECORDS_MAX) {
		fclose(f);
		return perfdata_message(h->why, PTAH_E_LIMIT, "%s: more than %jd records", path,
					(intmax_t)RECORDS_MAX);
	}
	while (status >= 0 && (n = fread(record, 1, sizeof(record), f)) == sizeof(record)) {
		status = on_record(h, record, offset);
		offset += sizeof(record);
	}
	if (status >= 0 && ferror(f))
		status = perfdata_system_message(h->why, errno, path, "read");
	fclose(f);
	if (status >= 0 && n) {
		snprintf(note, sizeof(note),
			 RECORDS_FILE ": the record at offset %" PRIu64 " is cut", offset);
		status = trace_set_note(h->set, note);
	}
	return status < 0 ? status : 0;
}

static int add_notes(struct hwt *h)
{
	char note[RECORD_PATH_SIZE + 256];
	int status = 0;

	if (h->missing) {
		snprintf(note, sizeof(note),
			 "%zu mappings of files that are not here, %s first: copy these into the "
			 "folder, at their path or beside the records",
			 h->missing, h->first_missing);
		status = trace_set_note(h->set, note);
	}
	if (h->relocatable && status >= 0) {
		snprintf(note, sizeof(note),
			 "%zu modules of the kernel are relocatable files, whose code is left out",
			 h->relocatable);
		status = trace_set_note(h->set, note);
	}
	if (h->programs > 1 && status >= 0) {
		snprintf(
		    note, sizeof(note),
		    "%zu programs were executed one after the other; hwt's records have no time, "
		    "so where their code overlaps, the last one counts",
		    h->programs);
		status = trace_set_note(h->set, note);
	}
	return status;
}

static bool is_hwt(const char *path)
{
	char records[PATH_SIZE];

	return (size_t)snprintf(records, sizeof(records), "%s/" RECORDS_FILE, path) <
		   sizeof(records) &&
	       is_regular_file(records);
}

static int read_folder(struct hwt *h, const char *path)
{
	char *full = realpath(path, NULL);
	int n = full ? snprintf(h->folder, sizeof(h->folder), "%s", full) : -1;
	int status;

	if (n < 0 || n >= PATH_SIZE)
		status = perfdata_system_message(h->why, full ? ENAMETOOLONG : errno, path, "open");
	else
		status = list_copies(h);
	free(full);
	if (status >= 0)
		status = read_records(h);
	if (status >= 0)
		status = add_streams(h);
	return status < 0 ? status : add_notes(h);
}

static int read_hwt(const char *path, struct ptah_trace_set *set, struct ptah_message *why)
{
	struct hwt *h = calloc(1, sizeof(*h));
	int status;

	if (!h)
		return PTAH_E_NOMEM;
	h->set = set;
	h->why = why;
	status = read_folder(h, path);
	for (size_t i = 0; i < h->mapping_count; i++)
		free(h->mappings[i].path);
	free(h->mappings);
	free(h);
	return status;
}

const struct foreign_reader foreign_hwt = {"FreeBSD's hwt", is_hwt, read_hwt};
