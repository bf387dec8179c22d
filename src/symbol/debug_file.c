/* SPDX-License-Identifier: MIT */
/*
 * Finds separate debug files, as Debian's -dbgsym packages install them: by build
 * id below /usr/lib/debug/.build-id, or by the name in .gnu_debuglink; and in perf's
 * cache. What servers have is fetched elsewhere (debuginfod.c).
 */
#include "base/bits.h"
#include "symbol/elf.h"

#include <ptah/base.h>

#include <elfutils/libdwelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* .gnu_debuglink holds a file name, padding and a checksum of four bytes. */
#define LINK_MAX_BYTES 512

/* A debug file larger than this is not read to the end for its checksum. */
#define CHECKSUM_MAX ((size_t)1 << 30)

/* What proves that a debug file belongs to a file: the build id or, without one, the checksum. */
struct identity {
	const void *id;
	ssize_t id_size; /* 0 or less: none */
	uint32_t checksum;
};

/* Computes the CRC-32 (as in zlib) of the whole file. */
static bool file_checksum(int fd, uint32_t *checksum)
{
	uint32_t table[256], crc = UINT32_MAX;
	uint8_t bytes[65536];
	size_t at = 0;
	ssize_t n;

	for (uint32_t i = 0; i < 256; i++) {
		table[i] = i;
		for (unsigned bit = 0; bit < 8; bit++)
			table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320 : 0);
	}
	while ((n = pread(fd, bytes, sizeof(bytes), (off_t)at)) > 0 && at < CHECKSUM_MAX) {
		for (ssize_t i = 0; i < n; i++)
			crc = table[(uint8_t)crc ^ bytes[i]] ^ crc >> 8;
		at += (size_t)n;
	}
	*checksum = ~crc;
	return n == 0;
}

/*
 * Whether the file has what is searched for: symbols, or debug information. Symbols, or debug
 * information.
 */
typedef bool is_wanted(Elf *elf);

/* A debug link may point to the file itself, or to another stripped copy. */
static bool has_symbols(Elf *elf)
{
	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
		GElf_Shdr header;

		if (gelf_getshdr(section, &header) && header.sh_type == SHT_SYMTAB)
			return true;
	}
	return false;
}

static bool has_dwarf(Elf *elf)
{
	Elf_Data *strings = symbol_section_names(elf);

	for (Elf_Scn *section = NULL; (section = elf_nextscn(elf, section));) {
		GElf_Shdr header;
		char name[32];

		if (!gelf_getshdr(section, &header) || header.sh_type == SHT_NOBITS)
			continue;
		symbol_string(strings, header.sh_name, name, sizeof(name));
		if (!strcmp(name, ".debug_info") || !strcmp(name, ".zdebug_info"))
			return true;
	}
	return false;
}

/* What is searched, and for which file. */
struct search {
	const char *path;
	const struct symbol_folders *folders;
	struct identity of;
	is_wanted *wanted;
	bool map; /* the file that is found, instead of reading it */
	struct symbol_elf *found;
	char *found_path; /* the caller's to free */
};

static bool belongs(const struct symbol_elf *debug, const struct identity *to)
{
	const void *id;
	uint32_t checksum;

	if (to->id_size <= 0)
		return file_checksum(debug->fd, &checksum) && checksum == to->checksum;
	return dwelf_elf_gnu_build_id(debug->elf, &id) == to->id_size &&
	       memcmp(id, to->id, (size_t)to->id_size) == 0;
}

/* Opens `path` if it is the debug file. Frees `path`, which may be NULL, unless it is found. */
static bool try_open(struct search *s, char *path)
{
	struct symbol_elf *debug = s->found;

	if (path && (s->map ? symbol_elf_map(path, debug) : symbol_elf_open(path, debug))) {
		if (s->wanted(debug->elf) && belongs(debug, &s->of)) {
			s->found_path = path;
			return true;
		}
		symbol_elf_close(debug);
	}
	free(path);
	return false;
}

/* The i-th path that may have the file with a build id; NULL when it is not used. */
static char *build_id_path(unsigned i, const struct search *s)
{
	static const char *const forms[] = {
	    "%s/usr/lib/debug/.build-id/%.2s/%s.debug", "%s/usr/lib/debug/.build-id/%.2s/%s.debug",
	    "%s/.build-id/%.2s/%s/debug", "%s/.build-id/%.2s/%s/elf", "%s/.build-id/%.2s/%s"};
	const char *const folders[] = {s->folders->root, *s->folders->root ? "" : NULL,
				       s->folders->cache, s->folders->cache, s->folders->cache};
	const uint8_t *id = s->of.id;
	char hex[2 * 64 + 1], *path;

	if (!folders[i] || s->of.id_size < 2 || s->of.id_size > 64)
		return NULL;
	for (ssize_t k = 0; k < s->of.id_size; k++)
		snprintf(hex + 2 * k, 3, "%02x", id[k]);
	return asprintf(&path, forms[i], folders[i], hex, hex + 2) < 0 ? NULL : path;
}
#define BUILD_ID_PATHS 5

static bool find_by_build_id(struct search *s)
{
	for (unsigned i = 0; i < BUILD_ID_PATHS; i++)
		if (try_open(s, build_id_path(i, s)))
			return true;
	return false;
}

/* Reads the file name in .gnu_debuglink and the checksum after it. False when there is none. */
static bool read_link(Elf *elf, char *link, size_t n, uint32_t *checksum)
{
	Elf_Data *strings = symbol_section_names(elf), *data = NULL;
	size_t length;

	for (Elf_Scn *section = NULL; !data && (section = elf_nextscn(elf, section));) {
		GElf_Shdr header;
		char name[64];

		if (!gelf_getshdr(section, &header) || header.sh_type != SHT_PROGBITS ||
		    header.sh_size > LINK_MAX_BYTES)
			continue;
		symbol_string(strings, header.sh_name, name, sizeof(name));
		if (strcmp(name, ".gnu_debuglink") == 0)
			data = elf_rawdata(section, NULL);
	}
	if (!data || !data->d_buf)
		return false;
	symbol_string(data, 0, link, n);
	length = (strlen(link) + 4) & ~(size_t)3;
	if (!*link || strchr(link, '/') || data->d_size < 4 || length > data->d_size - 4)
		return false;
	*checksum = load_le32((const uint8_t *)data->d_buf + length);
	return true;
}

/* The i-th path that the debug link of the file `path` may mean. The caller frees it. */
static char *link_path(unsigned i, const char *root, const char *path, const char *link)
{
	const char *slash = strrchr(path, '/');
	int folder = slash ? (int)(slash - path) : 1, n;
	size_t inside = strlen(root);
	char *place;

	if (!slash)
		path = ".";
	if (!slash || strncmp(path, root, inside) != 0)
		inside = 0;
	if (i == 0)
		n = asprintf(&place, "%.*s/%s", folder, path, link);
	else if (i == 1)
		n = asprintf(&place, "%.*s/.debug/%s", folder, path, link);
	else
		n = asprintf(&place, "%s/usr/lib/debug/%.*s/%s", root, folder - (int)inside,
			     path + inside, link);
	return n < 0 ? NULL : place;
}

/* Finds the debug file of an open file. */
static bool find_debug_file(struct search *s, Elf *elf)
{
	char link[256];

	s->of.id_size = dwelf_elf_gnu_build_id(elf, &s->of.id);
	if ((s->folders->fetched && try_open(s, strdup(s->folders->fetched))) ||
	    find_by_build_id(s))
		return true;
	if (!read_link(elf, link, sizeof(link), &s->of.checksum))
		return false;
	for (unsigned i = 0; i < 3; i++)
		if (try_open(s, link_path(i, s->folders->root, s->path, link)))
			return true;
	return false;
}

bool symbol_debug_open(Elf *elf, const char *path, const struct symbol_folders *folders,
		       struct symbol_elf *debug)
{
	struct search s = {.path = path, .folders = folders, .wanted = has_symbols, .found = debug};
	bool found = find_debug_file(&s, elf);

	free(s.found_path);
	return found;
}

int symbol_dwarf_open(const char *path, const struct symbol_folders *folders,
		      struct symbol_elf *elf, char **found)
{
	struct search s = {
	    .path = path, .folders = folders, .wanted = has_dwarf, .map = true, .found = elf};
	struct symbol_elf program;
	bool is_found;

	if (!symbol_elf_map(path, &program))
		return PTAH_E_BAD_MAGIC;
	if (has_dwarf(program.elf)) {
		s.found_path = strdup(path);
		*elf = program;
	} else {
		is_found = find_debug_file(&s, program.elf);
		symbol_elf_close(&program);
		if (!is_found)
			return PTAH_E_MISSING;
	}
	*found = s.found_path;
	if (s.found_path && symbol_dwarf_is_bounded(elf))
		return 0;
	symbol_elf_close(elf);
	return s.found_path ? PTAH_E_LIMIT : PTAH_E_NOMEM;
}

bool symbol_alt_open(const char *path, const struct symbol_folders *folders, const char *name,
		     const void *id, size_t id_size, struct symbol_elf *elf)
{
	struct search s = {.path = path,
			   .folders = folders,
			   .of = {.id = id, .id_size = (ssize_t)id_size},
			   .wanted = has_dwarf,
			   .map = true,
			   .found = elf};
	const char *slash = strrchr(path, '/');
	char *place = NULL;
	bool found;

	if (*name == '/' && asprintf(&place, "%s%s", folders->root, name) < 0)
		place = NULL;
	if (*name != '/' &&
	    asprintf(&place, "%.*s%s", slash ? (int)(slash - path) + 1 : 0, path, name) < 0)
		place = NULL;
	found = try_open(&s, place) || find_by_build_id(&s) ||
		(*folders->root && *name == '/' && try_open(&s, strdup(name)));
	if (!found && folders->servers)
		found = try_open(&s, symbol_debuginfod_get(folders->servers, DEBUGINFOD_DEBUGINFO,
							   id, id_size, name));
	free(s.found_path);
	if (found && !symbol_dwarf_is_bounded(elf)) {
		symbol_elf_close(elf);
		found = false;
	}
	return found;
}
