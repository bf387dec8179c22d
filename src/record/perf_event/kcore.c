/* SPDX-License-Identifier: MIT */
/* Copies the kernel's code out of /proc/kcore, with the symbols and modules that belong to it. */
#include "record/perf_event/kcore.h"

#include "base/compiler.h"
#include "perfdata/message.h"
#include "record/perf_event/proc.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_HEADERS 4096 /* program headers of /proc/kcore, which has a few */
#define MAX_PIECES  1024
#define MAX_CODE    (UINT64_C(1) << 30) /* no kernel has a gigabyte of code */
#define PAGE	    UINT64_C(4096)

/* A piece of the kernel's address space that is copied. */
struct piece {
	uint64_t start, end, offset; /* offset: in the source */
};

struct kcore {
	int fd;
	Elf64_Phdr *headers;
	size_t header_count;
	struct piece pieces[MAX_PIECES];
	size_t count;
	uint64_t total;
};

static bool read_at(int fd, void *bytes, size_t n, uint64_t offset)
{
	uint8_t *to = bytes;

	while (n) {
		ssize_t k = pread(fd, to, n, (off_t)offset);

		if (k < 0 && errno == EINTR)
			continue;
		if (k <= 0) {
			if (!k)
				errno = EIO;
			return false;
		}
		to += k;
		offset += (uint64_t)k;
		n -= (size_t)k;
	}
	return true;
}

static int open_kcore(struct kcore *k, const char *root, struct ptah_message *why)
{
	Elf64_Ehdr head;
	char path[4096];

	snprintf(path, sizeof(path), "%s/proc/kcore", root);
	k->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (k->fd < 0 || !read_at(k->fd, &head, sizeof(head), 0)) {
		int status = errno == ENOENT ? PTAH_E_MISSING : PTAH_E_SYSTEM;

		return perfdata_message(
		    why, status,
		    status == PTAH_E_MISSING
			? "%s: not there: this kernel has no CONFIG_PROC_KCORE, so its code "
			  "cannot be copied; leave --kcore out"
			: "%s: cannot be read: --kcore wants root (CAP_SYS_RAWIO) and a kernel "
			  "that "
			  "is not locked down",
		    path);
	}
	if (memcmp(head.e_ident, ELFMAG, SELFMAG) || head.e_ident[EI_CLASS] != ELFCLASS64 ||
	    head.e_phentsize != sizeof(Elf64_Phdr) || !head.e_phnum || head.e_phnum > MAX_HEADERS)
		return perfdata_message(why, PTAH_E_BAD_FILE, "%s: not an ELF core file", path);
	k->header_count = head.e_phnum;
	k->headers = calloc(k->header_count, sizeof(*k->headers));
	if (!k->headers)
		return PTAH_E_NOMEM;
	if (!read_at(k->fd, k->headers, k->header_count * sizeof(*k->headers), head.e_phoff))
		return perfdata_message(why, PTAH_E_BAD_FILE, "%s: its program headers are missing",
					path);
	return 0;
}

/*
 * Adds the parts of [start, end) that /proc/kcore has. Parts that were added before are left out.
 */
static void add_kcore_range(struct kcore *k, uint64_t start, uint64_t end)
{
	start &= ~(PAGE - 1);
	end = (end + PAGE - 1) & ~(PAGE - 1);
	for (size_t i = 0; i < k->header_count; i++) {
		const Elf64_Phdr *h = &k->headers[i];
		uint64_t from = start > h->p_vaddr ? start : h->p_vaddr;
		uint64_t to = h->p_vaddr + h->p_filesz;

		to = to < h->p_vaddr ? UINT64_MAX : to; /* to the end of the address space */
		to = end < to ? end : to;
		if (h->p_type != PT_LOAD || from >= to || k->count == MAX_PIECES)
			continue;
		for (size_t p = 0; p < k->count; p++)
			if (from >= k->pieces[p].start && from < k->pieces[p].end)
				from = k->pieces[p].end;
		if (from >= to || k->total > MAX_CODE - (to - from))
			continue;
		k->pieces[k->count++] = (struct piece){from, to, h->p_offset + (from - h->p_vaddr)};
		k->total += to - from;
	}
}

static int find_kcore_code(struct kcore *k, const char *root, struct ptah_message *why)
{
	uint64_t start = proc_symbol(root, "_stext"), end = proc_symbol(root, "_etext");
	struct proc_module module;
	char path[4096];
	FILE *f;

	if (!start || end <= start)
		return perfdata_message(why, PTAH_E_SYSTEM,
					"%s/proc/kallsyms hides the kernel's addresses: set "
					"kernel.kptr_restrict to 0 (sysctl), or be root",
					root);
	add_kcore_range(k, start, end);
	snprintf(path, sizeof(path), "%s/proc/modules", root);
	f = fopen(path, "re"); /* a kernel without modules has no such file */
	while (f && proc_next_module(f, &module))
		if (module.address + module.size > module.address)
			add_kcore_range(k, module.address, module.address + module.size);
	if (f)
		fclose(f);
	return k->count ? 0
			: perfdata_message(why, PTAH_E_BAD_FILE,
					   "%s/proc/kcore does not hold the kernel's code", root);
}

static void close_kcore(struct kcore *k)
{
	if (k->fd >= 0)
		close(k->fd);
	free(k->headers);
}

int kcore_check(const char *root, struct ptah_message *why)
{
	struct kcore *k = calloc(1, sizeof(*k));
	int status;

	if (!k)
		return PTAH_E_NOMEM;
	status = open_kcore(k, root, why);
	if (status >= 0)
		status = find_kcore_code(k, root, why);
	close_kcore(k);
	free(k);
	return status;
}

/* Passing the files on */

#define CHUNK ((size_t)64 << 10)

/* Passes the next bytes of the file to the sink. */
static int pass(const struct kcore_sink *sink, const char *name, uint64_t *offset,
		const void *bytes, size_t size, struct ptah_message *why)
{
	const struct kcore_piece piece = {name, *offset, bytes, size};

	*offset += size;
	return sink->take(sink->context, &piece, why);
}

/* The headers of an ELF core file of the pieces, each at a page of its own: *size bytes. */
static uint8_t *make_headers(const struct kcore *k, size_t *size)
{
	const Elf64_Ehdr head = {
	    .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
	    .e_type = ET_CORE,
	    .e_machine = EM_X86_64,
	    .e_version = EV_CURRENT,
	    .e_phoff = sizeof(head),
	    .e_ehsize = sizeof(head),
	    .e_phentsize = sizeof(Elf64_Phdr),
	    .e_phnum = (Elf64_Half)k->count,
	};
	uint64_t offset = (sizeof(head) + k->count * sizeof(Elf64_Phdr) + PAGE - 1) & ~(PAGE - 1);
	uint8_t *bytes = calloc(1, offset);

	*size = offset;
	if (!bytes)
		return NULL;
	memcpy(bytes, &head, sizeof(head));
	for (size_t i = 0; i < k->count; i++) {
		const struct piece *p = &k->pieces[i];
		const Elf64_Phdr h = {
		    .p_type = PT_LOAD,
		    .p_flags = PF_R | PF_W | PF_X, /* as in /proc/kcore itself */
		    .p_offset = offset,
		    .p_vaddr = p->start,
		    .p_filesz = p->end - p->start,
		    .p_memsz = p->end - p->start,
		    .p_align = PAGE,
		};

		memcpy(bytes + sizeof(head) + i * sizeof(h), &h, sizeof(h));
		offset += p->end - p->start;
	}
	return bytes;
}

static int send_piece(const struct kcore *k, const char *root, const struct piece *p,
		      const struct kcore_sink *sink, uint64_t *offset, struct ptah_message *why)
{
	uint8_t *bytes = malloc(CHUNK);
	int status = bytes ? 0 : PTAH_E_NOMEM;

	for (uint64_t at = p->start; status >= 0 && at < p->end; at += CHUNK) {
		size_t n = p->end - at < CHUNK ? p->end - at : CHUNK;

		if (!read_at(k->fd, bytes, n, p->offset + (at - p->start)))
			status = perfdata_message(why, PTAH_E_SYSTEM,
						  "%s/proc/kcore: the code at 0x%" PRIx64
						  " cannot be read; leave --kcore out",
						  root, at);
		else
			status = pass(sink, "kcore", offset, bytes, n, why);
	}
	free(bytes);
	return status;
}

static int send_kcore(const struct kcore *k, const char *root, const struct kcore_sink *sink,
		      struct ptah_message *why)
{
	uint64_t offset = 0;
	size_t size;
	uint8_t *headers = make_headers(k, &size);
	int status = headers ? pass(sink, "kcore", &offset, headers, size, why) : PTAH_E_NOMEM;

	for (size_t i = 0; status >= 0 && i < k->count; i++)
		status = send_piece(k, root, &k->pieces[i], sink, &offset, why);
	free(headers);
	return status;
}

/* A file that is empty, or that is not there, is one piece without bytes. */
static int send_text(const char *root, const char *name, const struct kcore_sink *sink,
		     struct ptah_message *why)
{
	char source[4096], bytes[8192];
	uint64_t offset = 0;
	int status = 0;
	FILE *in;
	size_t n;

	snprintf(source, sizeof(source), "%s/proc/%s", root, name);
	in = fopen(source, "re");
	while (status >= 0 && in && (n = fread(bytes, 1, sizeof(bytes), in)) > 0)
		status = pass(sink, name, &offset, bytes, n, why);
	if (in)
		fclose(in);
	return status < 0 || offset ? status : pass(sink, name, &offset, bytes, 0, why);
}

int kcore_send(const char *root, const struct kcore_sink *sink, struct ptah_message *why)
{
	struct kcore *k = calloc(1, sizeof(*k));
	int status;

	if (!k)
		return PTAH_E_NOMEM;
	status = open_kcore(k, root, why);
	if (status >= 0)
		status = find_kcore_code(k, root, why);
	if (status >= 0)
		status = send_kcore(k, root, sink, why);
	if (status >= 0)
		status = send_text(root, "kallsyms", sink, why);
	if (status >= 0)
		status = send_text(root, "modules", sink, why);
	close_kcore(k);
	free(k);
	return status;
}

/* Writing them into a folder */

struct copy {
	const char *folder;
	FILE *file; /* the one that is being written; NULL: none */
	char path[4096];
};

static int close_file(struct copy *c, struct ptah_message *why)
{
	FILE *file = c->file;

	c->file = NULL;
	return file && fclose(file) ? perfdata_system_message(why, errno, c->path, "write") : 0;
}

static int write_piece(void *context, const struct kcore_piece *piece, struct ptah_message *why)
{
	struct copy *c = context;

	if (!piece->offset) {
		int status = close_file(c, why);

		if (status < 0)
			return status;
		/* Only its owner may read the folder, as the files show the kernel's addresses. */
		if (mkdir(c->folder, 0700) && errno != EEXIST)
			return perfdata_system_message(why, errno, c->folder, "create");
		snprintf(c->path, sizeof(c->path), "%s/%s", c->folder, piece->name);
		c->file = fopen(c->path, "we");
	}
	return c->file && fwrite(piece->bytes, 1, piece->size, c->file) == piece->size
		   ? 0
		   : perfdata_system_message(why, errno, c->path, "write");
}

int kcore_copy(const char *root, const char *folder, struct ptah_message *why)
{
	struct copy copy = {.folder = folder};
	const struct kcore_sink sink = {write_piece, &copy};
	int status = kcore_send(root, &sink, why), closed = close_file(&copy, why);

	if (status >= 0)
		status = closed;
	if (status < 0)
		kcore_remove(folder);
	return status;
}

void kcore_remove(const char *folder)
{
	static const char *const names[] = {"kcore", "kallsyms", "modules"};
	char path[4096];

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		unlink(path);
	}
	rmdir(folder);
}
