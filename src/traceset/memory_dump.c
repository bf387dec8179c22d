/* SPDX-License-Identifier: MIT */
/*
 * Dumps of physical memory: the ELF file, its notes, and page tables.
 *
 * Source: System V ABI, "Object Files"; Linux, Documentation/admin-guide/kdump/vmcoreinfo.rst; QEMU,
 * the notes of dump-guest-memory (QEMUCPUState); SDM volume 3, "4-Level Paging and 5-Level Paging".
 */
#include "traceset/memory_dump.h"

#include "base/bits.h"
#include "base/order.h"
#include "base/reader.h"
#include "perfdata/message.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE	     4096u
#define SEGMENTS_MAX 65536u
#define NOTES_MAX    ((uint64_t)64 << 20) /* bytes of notes that are read */

static bool read_at(const struct memory_dump *d, uint64_t offset, void *bytes, size_t n)
{
	return offset <= d->bytes && n <= d->bytes - offset &&
	       pread(d->fd, bytes, n, (off_t)offset) == (ssize_t)n;
}

static bool is_core(const Elf64_Ehdr *e)
{
	return !memcmp(e->e_ident, ELFMAG, SELFMAG) && e->e_ident[EI_CLASS] == ELFCLASS64 &&
	       e->e_ident[EI_DATA] == ELFDATA2LSB && e->e_type == ET_CORE &&
	       e->e_machine == EM_X86_64;
}

bool dump_is(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;
	Elf64_Ehdr e;
	bool is = fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) &&
		  pread(fd, &e, sizeof(e), 0) == sizeof(e) && is_core(&e);

	if (fd >= 0)
		close(fd);
	return is;
}

uint64_t dump_find(const struct memory_dump *d, uint64_t physical, uint64_t n, uint64_t *offset)
{
	size_t low = 0, high = d->count;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		const struct dump_segment *s = &d->segments[middle];

		if (physical < s->physical) {
			high = middle;
		} else if (physical - s->physical >= s->size) {
			low = middle + 1;
		} else {
			const uint64_t at = physical - s->physical;

			*offset = s->offset + at;
			return n < s->size - at ? n : s->size - at;
		}
	}
	return 0;
}

bool dump_read(const struct memory_dump *d, uint64_t physical, void *bytes, size_t n)
{
	uint8_t *to = bytes;

	while (n) {
		uint64_t offset, part = dump_find(d, physical, n, &offset);

		if (!part || !read_at(d, offset, to, (size_t)part))
			return false;
		to += part;
		physical += part;
		n -= (size_t)part;
	}
	return true;
}

/* Notes */

/* The number that follows NAME in a text of lines; false: there is none. */
static bool find_memory_number(const char *text, const char *name, int base, uint64_t *number)
{
	const char *at = text;
	const size_t n = strlen(name);

	/* The last one counts: a driver that was loaded again has added another line. */
	for (bool found = false;; found = true) {
		while ((at = strstr(at, name)) && at != text && at[-1] != '\n')
			at++;
		if (!at)
			return found;
		at += n;
		*number = strtoull(at, NULL, base);
	}
}

#define KERNEL_TEXT UINT64_C(0xffffffff80000000) /* __START_KERNEL_map */

static void read_vmcoreinfo(struct memory_dump *d, const uint8_t *bytes, uint64_t n)
{
	char *text = malloc(n + 1);
	uint64_t base = 0, directory = 0, levels = 0;

	if (!text)
		return;
	memcpy(text, bytes, n);
	text[n] = '\0';
	find_memory_number(text, "PTAH_CRASH=", 16, &d->note);
	if (find_memory_number(text, "SYMBOL(swapper_pg_dir)=", 16, &directory) &&
	    directory >= KERNEL_TEXT) {
		find_memory_number(text, "NUMBER(phys_base)=", 10, &base);
		d->kernel_cr3 = directory - KERNEL_TEXT + base;
	}
	if (find_memory_number(text, "NUMBER(pgtable_l5_enabled)=", 10, &levels))
		d->five_levels = levels != 0;
	free(text);
}

/* Of QEMUCPUState, version 1: two u32, 18 u64, ten segments of 24 bytes, CR0 to CR4. */
#define QEMU_CR	    (8u + 18 * 8 + 10 * 24)
#define QEMU_CR4    (QEMU_CR + 4 * 8)
#define CR4_LA57    (UINT64_C(1) << 12)
#define CR3_ADDRESS UINT64_C(0x000ffffffffff000)

static void read_qemu(struct memory_dump *d, const uint8_t *bytes, uint64_t n)
{
	uint64_t cr3;

	if (n < QEMU_CR4 + 8 || load_le32(bytes) != 1)
		return;
	cr3 = load_le64(bytes + QEMU_CR + 3 * 8) & CR3_ADDRESS;
	d->five_levels = d->five_levels || load_le64(bytes + QEMU_CR4) & CR4_LA57;
	for (size_t i = 0; i < d->cr3_count; i++)
		if (d->cr3[i] == cr3)
			return;
	if (cr3 && d->cr3_count < DUMP_CPUS)
		d->cr3[d->cr3_count++] = cr3;
}

static void read_notes(struct memory_dump *d, const uint8_t *bytes, uint64_t n)
{
	struct reader r = {bytes, bytes + n, false};

	while (r.p < r.end) {
		const uint32_t name_size = reader_u32(&r), size = reader_u32(&r);
		const uint8_t *name, *content;

		reader_u32(&r);
		name = reader_bytes(&r, ((uint64_t)name_size + 3) & ~UINT64_C(3));
		content = reader_bytes(&r, ((uint64_t)size + 3) & ~UINT64_C(3));
		if (r.failed)
			return;
		if (name_size == sizeof("VMCOREINFO") && !memcmp(name, "VMCOREINFO", name_size))
			read_vmcoreinfo(d, content, size);
		if (name_size == sizeof("QEMU") && !memcmp(name, "QEMU", name_size))
			read_qemu(d, content, size);
	}
}

/* The file */

static int by_memory_address(const void *a, const void *b)
{
	const struct dump_segment *x = a, *y = b;

	return COMPARE(x->physical, y->physical);
}

/* A kernel's dump has its text twice, by its own address and as a part of all memory. */
static void remove_overlaps(struct memory_dump *d)
{
	uint64_t end = 0;
	size_t n = 0;

	if (d->count)
		qsort(d->segments, d->count, sizeof(*d->segments), by_memory_address);
	for (size_t i = 0; i < d->count; i++) {
		struct dump_segment s = d->segments[i];
		const uint64_t covered = end > s.physical ? end - s.physical : 0;

		if (covered >= s.size)
			continue;
		s.physical += covered;
		s.offset += covered;
		s.size -= covered;
		end = s.physical + s.size;
		d->segments[n++] = s;
	}
	d->count = n;
}

static int add_segment(struct memory_dump *d, const Elf64_Phdr *p)
{
	struct dump_segment s = {p->p_paddr, p->p_filesz, p->p_offset};
	uint8_t *notes;

	/* A dump that was cut keeps what is there. */
	if (s.offset >= d->bytes)
		return 0;
	if (s.size > d->bytes - s.offset)
		s.size = d->bytes - s.offset;
	if (p->p_type == PT_LOAD && s.size <= UINT64_MAX - s.physical) {
		if (s.size)
			d->segments[d->count++] = s;
	} else if (p->p_type == PT_NOTE && s.size <= NOTES_MAX - d->notes) {
		d->notes += s.size;
		notes = malloc(s.size + 1);
		if (!notes)
			return PTAH_E_NOMEM;
		if (read_at(d, s.offset, notes, s.size))
			read_notes(d, notes, s.size);
		free(notes);
	}
	return 0;
}

static int read_memory_segments(struct memory_dump *d, const Elf64_Ehdr *e,
				struct ptah_message *why)
{
	uint64_t n = e->e_phnum;
	Elf64_Shdr section;
	Elf64_Phdr p;
	int status = 0;

	if (n == PN_XNUM && read_at(d, e->e_shoff, &section, sizeof(section)))
		n = section.sh_info;
	if (n > SEGMENTS_MAX || e->e_phentsize != sizeof(p))
		return perfdata_message(why, PTAH_E_BAD_FILE,
					"%s: more than %u segments, or of "
					"another size than ELF's",
					d->path, SEGMENTS_MAX);
	d->segments = calloc(n + 1, sizeof(*d->segments));
	if (!d->segments)
		return PTAH_E_NOMEM;
	for (uint64_t i = 0; i < n && status >= 0; i++) {
		if (!read_at(d, e->e_phoff + i * sizeof(p), &p, sizeof(p)))
			return perfdata_message(why, PTAH_E_BAD_FILE,
						"%s: it ends before its program headers", d->path);
		status = add_segment(d, &p);
	}
	remove_overlaps(d);
	return status;
}

int dump_open(struct memory_dump *d, const char *path, struct ptah_message *why)
{
	struct stat st;
	Elf64_Ehdr e;
	int status;

	*d = (struct memory_dump){.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC)};
	if (d->fd < 0 || fstat(d->fd, &st) < 0)
		return perfdata_system_message(why, errno, path, "open");
	d->bytes = (uint64_t)st.st_size;
	if (!read_at(d, 0, &e, sizeof(e)) || !is_core(&e))
		return perfdata_message(why, PTAH_E_BAD_MAGIC, "%s: no core file of x86-64", path);
	status = read_memory_segments(d, &e, why);
	if (!d->kernel_cr3 && d->cr3_count)
		d->kernel_cr3 = d->cr3[0];
	return status;
}

void dump_close(struct memory_dump *d)
{
	free(d->segments);
	if (d->fd >= 0)
		close(d->fd);
}

/* Page tables */

#define ENTRIES	    512u
#define TABLE_STEPS 64u
#define PRESENT	    UINT64_C(1)
#define LARGE	    (UINT64_C(1) << 7)
#define NO_EXECUTE  (UINT64_C(1) << 63)

struct walk {
	const struct memory_dump *dump;
	size_t *steps;
	int (*use)(void *argument, const struct dump_code *code);
	void *argument;
	struct dump_code run; /* what has not been passed on yet */
};

static int end_run(struct walk *w)
{
	const struct dump_code code = w->run;

	w->run.size = 0;
	return code.size ? w->use(w->argument, &code) : 0;
}

uint64_t dump_next(const struct memory_dump *d, const struct dump_segment *s, uint64_t physical)
{
	const off_t at = (off_t)(s->offset + (physical - s->physical));
	const off_t next = lseek(d->fd, at, SEEK_DATA);

	if (next < 0 && errno == ENXIO && physical - s->physical < s->size)
		return s->physical + s->size;
	if (next < at)
		return physical;
	return physical + ((uint64_t)(next - at) & ~UINT64_C(0xfff));
}

uint64_t dump_missing(const struct memory_dump *d, uint64_t physical, uint64_t n)
{
	size_t at;

	BISECT(at, 0, d->count, d->segments[at].physical <= physical);
	if (at == d->count || d->segments[at].physical - physical > n)
		return n;
	return d->segments[at].physical - physical;
}

static bool spend(struct walk *w, size_t steps)
{
	const bool enough = *w->steps >= steps;

	*w->steps = enough ? *w->steps - steps : 0;
	return enough;
}

static int add_memory(struct walk *w, uint64_t address, uint64_t physical, uint64_t size)
{
	int status = 0;

	while (size && status >= 0 && spend(w, 1)) {
		uint64_t offset, part = dump_find(w->dump, physical, size, &offset);

		if (!part) {
			part = dump_missing(w->dump, physical, size);
		} else if (w->run.size && w->run.address + w->run.size == address &&
			   w->run.offset + w->run.size == offset) {
			w->run.size += part;
		} else {
			status = end_run(w);
			w->run = (struct dump_code){address, part, offset};
		}
		address += part;
		physical += part;
		size -= part;
	}
	return status;
}

/* `level`: 1 for a table whose entries are pages of 4 KB. `address`: what its first entry maps. */
static int walk_table(struct walk *w, uint64_t table, unsigned level, uint64_t address,
		      unsigned from, unsigned to)
{
	const unsigned shift = 12 + 9 * (level - 1);
	uint8_t entries[ENTRIES * 8];
	int status = 0;

	if (!spend(w, TABLE_STEPS) || !dump_read(w->dump, table, entries, sizeof(entries)))
		return 0;
	for (unsigned i = from; i < to && status >= 0; i++) {
		const uint64_t entry = load_le64(entries + 8 * (size_t)i);
		const uint64_t at = address + ((uint64_t)i << shift);
		const uint64_t physical = entry & CR3_ADDRESS;

		if (!(entry & PRESENT) || entry & NO_EXECUTE)
			continue;
		if (level == 1 || (level <= 3 && entry & LARGE))
			status = add_memory(w, at, physical & ~((UINT64_C(1) << shift) - 1),
					    UINT64_C(1) << shift);
		else
			status = walk_table(w, physical, level - 1, at, 0, ENTRIES);
	}
	return status;
}

int dump_walk(const struct memory_dump *dump, uint64_t cr3, bool upper, size_t *steps,
	      int (*use)(void *argument, const struct dump_code *code), void *argument)
{
	struct walk w = {.dump = dump, .steps = steps, .use = use, .argument = argument};
	const unsigned levels = dump->five_levels ? 5 : 4;
	/* Addresses are sign-extended from the bit that chooses the half. */
	const uint64_t sign = upper ? ~UINT64_C(0) << (12 + 9 * levels) : 0;
	int status;

	status = walk_table(&w, cr3 & CR3_ADDRESS, levels, sign, upper ? ENTRIES / 2 : 0,
			    upper ? ENTRIES : ENTRIES / 2);
	return status < 0 ? status : end_run(&w);
}
