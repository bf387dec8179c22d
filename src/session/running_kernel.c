/* SPDX-License-Identifier: MIT */
/*
 * The kernel that runs on this machine. If it is the one that was recorded, its memory
 * (/proc/kcore) is the code that ran, with everything that the kernel patches into itself when it
 * starts, and with its modules.
 */
#include "session/session.h"

#include "base/reader.h"
#include "symbol/kallsyms.h"

#include <fcntl.h>
#include <gelf.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* More than any kernel has; the files may be anything below --symfs. */
#define MODULES_MAX 4096
#define HEADERS_MAX 4096
#define NOTES_MAX   65536
#define CODE_MAX    ((uint64_t)1 << 29)

/* Opens a file below symfs for reading. -1: it cannot be opened. */
static int open_below(const struct ptah_session *s, const char *path)
{
	char *full = session_path(s, path);
	int fd = full ? open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;

	free(full);
	return fd;
}

static size_t read_start(const struct ptah_session *s, const char *path, uint8_t *bytes,
			 size_t size)
{
	int fd = open_below(s, path);
	ssize_t n = fd < 0 ? -1 : read(fd, bytes, size);

	if (fd >= 0)
		close(fd);
	return n < 0 ? 0 : (size_t)n;
}

/* Notes as in an ELF file: u32 name's size, u32 size, u32 type, both padded to 4. */
static bool find_note_id(struct reader r, struct perfdata_build_id *id)
{
	while (!r.failed && r.p < r.end) {
		uint32_t name_size = reader_u32(&r), size = reader_u32(&r), type = reader_u32(&r);
		const uint8_t *name = reader_bytes(&r, (name_size + UINT64_C(3)) & ~UINT64_C(3));
		const uint8_t *bytes = reader_bytes(&r, (size + UINT64_C(3)) & ~UINT64_C(3));

		if (!name || !bytes || type != NT_GNU_BUILD_ID || name_size != 4 ||
		    memcmp(name, "GNU", 4) != 0 || size > sizeof(id->bytes))
			continue;
		id->size = (uint8_t)size;
		memcpy(id->bytes, bytes, size);
		return size;
	}
	return false;
}

bool running_kernel_fits(const struct ptah_session *s)
{
	const struct perfdata_build_id *was = &s->kernel.id;
	const char *release = perfdata_osrelease(s->file);
	struct perfdata_build_id is;
	uint8_t bytes[NOTES_MAX];
	size_t n;

	if (was->size) {
		n = read_start(s, "/sys/kernel/notes", bytes, sizeof(bytes));
		return find_note_id((struct reader){bytes, bytes + n, false}, &is) &&
		       is.size == was->size && !memcmp(is.bytes, was->bytes, is.size);
	}
	n = read_start(s, "/proc/sys/kernel/osrelease", bytes, sizeof(bytes));
	return *release && n == strlen(release) + 1 && bytes[n - 1] == '\n' &&
	       !memcmp(bytes, release, n - 1);
}

struct module {
	char name[64];
	uint64_t address;
};

static size_t read_modules(const struct ptah_session *s, struct module *modules)
{
	int fd = open_below(s, "/proc/modules");
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	char line[4096];
	size_t n = 0;

	if (!f) {
		if (fd >= 0)
			close(fd);
		return 0;
	}
	/* name, size, references, users, state, address */
	while (n < MODULES_MAX && fgets(line, sizeof(line), f))
		n += sscanf(line, "%63s %*s %*s %*s %*s %" SCNx64, modules[n].name,
			    &modules[n].address) == 2;
	fclose(f);
	return n;
}

/* Is the module `name` the one of this path: "/lib/.../x-y.ko.xz" or "[x_y]" for x_y? */
static bool is_module(const char *path, const char *name)
{
	const char *slash = strrchr(path, '/');
	size_t i = 0;

	path = slash ? slash + 1 : path + (*path == '[');
	for (; name[i]; i++)
		if ((path[i] == '-' ? '_' : path[i]) != name[i])
			return false;
	return !strncmp(path + i, ".ko", 3) || !strcmp(path + i, "]");
}

static bool is_core(const struct change *c)
{
	return !strcmp(c->path, "[kernel.kallsyms]");
}

/* Whether every recorded module is where it was. */
static bool has_same_modules(const struct ptah_session *s)
{
	const struct process *maps = &s->kernel.maps;
	struct module *modules = calloc(MODULES_MAX, sizeof(*modules));
	size_t n = modules ? read_modules(s, modules) : 0;
	bool same = modules && maps->count <= MODULES_MAX;

	for (size_t i = 0; same && i < maps->count; i++) {
		const struct change *c = &maps->changes[i];
		size_t k = 0;

		if (is_core(c) || (c->path[0] != '/' && c->path[0] != '['))
			continue;
		while (k < n &&
		       !(modules[k].address == c->address && is_module(c->path, modules[k].name)))
			k++;
		same = k < n;
	}
	free(modules);
	return same;
}

/* Whether it has not been started again since: KASLR moves it, and modules, each time. */
static bool is_unmoved(const struct ptah_session *s)
{
	char *path = session_path(s, "/proc/kallsyms");
	uint64_t address = 0;
	bool same = path && symbol_kallsyms_find(path, s->kernel.symbol, &address) >= 0 &&
		    address == s->kernel.address;

	free(path);
	return same && has_same_modules(s);
}

/* Adds the bytes [start, end) that lie at `offset` of the file. */
static int add_bytes(struct ptah_image *image, int fd, uint64_t start, uint64_t end,
		     uint64_t offset)
{
	const size_t size = (size_t)(end - start);
	uint8_t *bytes = malloc(size);
	size_t n = 0;
	ssize_t got = 1;
	int status;

	if (!bytes)
		return PTAH_E_NOMEM;
	while (n < size && got > 0) {
		got = pread(fd, bytes + n, size - n, (off_t)(offset + n));
		n += got > 0 ? (size_t)got : 0;
	}
	status = n ? ptah_image_add_bytes(image, bytes, n, start, NULL) : PTAH_E_BAD_FILE;
	free(bytes);
	return status;
}

/* Adds the part of one mapping that a segment of /proc/kcore has. 1, 0 (none), or an error. */
static int add_part(struct ptah_image *image, int fd, const GElf_Phdr *ph, const struct change *c,
		    uint64_t *left)
{
	const uint64_t last = c->address + (c->size - 1);
	const uint64_t ph_last = ph->p_vaddr + (ph->p_filesz - 1);
	uint64_t start = c->address > ph->p_vaddr ? c->address : ph->p_vaddr;
	uint64_t end = last < ph_last ? last : ph_last;
	int status;

	if (ph->p_type != PT_LOAD || !ph->p_filesz || ph_last < ph->p_vaddr || start > end ||
	    end == UINT64_MAX || end - start >= *left || ph->p_offset > INT64_MAX)
		return 0;
	*left -= end - start + 1;
	status = add_bytes(image, fd, start, end + 1, ph->p_offset + (start - ph->p_vaddr));
	return status == PTAH_E_BAD_FILE ? 0 : status < 0 ? status : 1;
}

static int add_maps(const struct ptah_session *s, struct ptah_image *image, int fd, Elf *elf)
{
	const struct process *maps = &s->kernel.maps;
	uint64_t left = CODE_MAX;
	size_t headers;
	int added = 0;

	if (elf_kind(elf) != ELF_K_ELF || elf_getphdrnum(elf, &headers) < 0 ||
	    headers > HEADERS_MAX)
		return PTAH_E_BAD_MAGIC;
	for (size_t i = 0; i < maps->count; i++) {
		for (size_t k = 0; k < headers; k++) {
			GElf_Phdr ph;
			int n = gelf_getphdr(elf, (int)k, &ph)
				    ? add_part(image, fd, &ph, &maps->changes[i], &left)
				    : 0;

			if (n < 0)
				return n;
			added += n;
		}
	}
	return added;
}

int running_kernel_add_code(const struct ptah_session *s, struct ptah_image *image)
{
	int fd, status = PTAH_E_MISSING;
	Elf *elf;

	if (!s->kernel.address || !running_kernel_fits(s) || !is_unmoved(s))
		return PTAH_E_MISSING;
	fd = open_below(s, "/proc/kcore");
	elf = fd < 0 || elf_version(EV_CURRENT) == EV_NONE ? NULL : elf_begin(fd, ELF_C_READ, NULL);
	if (elf)
		status = add_maps(s, image, fd, elf);
	elf_end(elf);
	if (fd >= 0)
		close(fd);
	return status;
}
