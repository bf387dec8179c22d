/* SPDX-License-Identifier: MIT */
/*
 * Finds the files that the pages of a virtual machine's programs come from, below the folder that
 * the caller names as the guest's root (symfs): a page of code is in memory as it is in its file,
 * so that its content is enough, and nothing need be known of what the guest mapped.
 */
#include "session/guest.h"

#include "base/hash.h"
#include "base/order.h"
#include "session/trace_set.h"
#include "support/list.h"

#include <ptah/symbol.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE	  UINT64_C(4096)
#define DEPTH_MAX 32
#define FILES_MAX 200000

/* The pages of files in a session that grows; of those with the same content the first is kept. */
struct guest_files {
	struct table by_hash;
	struct file_page {
		const char *path; /* without symfs */
		uint64_t offset;
		size_t next; /* with the same hash; SESSION_NONE: none */
	} * pages;
	size_t count, capacity;
};

/* So many pages of files are known, and so many that have one hash. */
#define PAGES_MAX ((size_t)1 << 22)
#define ALIKE_MAX 4

struct search {
	struct ptah_session *session;
	struct guest_files *files_of; /* the pages of files are listed there; NULL: looked up */
	struct table by_hash;	      /* of pages: the first with this hash */
	size_t *next;		      /* the next one; SESSION_NONE: none */
	size_t files;
};

static uint32_t hash_of(const uint8_t *bytes)
{
	uint64_t hash = 0, word;

	for (size_t i = 0; i < PAGE; i += sizeof(word)) {
		memcpy(&word, bytes + i, sizeof(word));
		hash = hash_number(hash ^ word);
		hash ^= hash >> 29;
	}
	return (uint32_t)(hash >> 16);
}

/* Lists a page of a file. */
static int list_file_page(struct search *search, uint32_t hash, const char *path, uint64_t offset)
{
	struct guest_files *f = search->files_of;
	const size_t first = table_get(&f->by_hash, hash);
	size_t alike = 0, last = first;

	for (size_t i = first; i != SESSION_NONE; i = f->pages[i].next, alike++)
		last = i;
	if (alike == ALIKE_MAX || f->count == PAGES_MAX)
		return 0;
	if (!LIST_ROOM(f->pages, f->count, f->capacity))
		return PTAH_E_NOMEM;
	f->pages[f->count] = (struct file_page){
	    strings_keep(&search->session->paths, path, strlen(path)), offset, SESSION_NONE};
	if (!f->pages[f->count].path)
		return PTAH_E_NOMEM;
	if (first == SESSION_NONE)
		return table_set(&f->by_hash, hash, f->count++);
	f->pages[last].next = f->count++;
	return 0;
}

static int take_file_page(struct search *search, const uint8_t *bytes, const char *path,
			  uint64_t offset)
{
	struct ptah_session *s = search->session;
	const uint32_t hash = hash_of(bytes);
	size_t i;

	if (search->files_of)
		return list_file_page(search, hash, path, offset);
	i = table_get(&search->by_hash, hash);
	for (; i != SESSION_NONE; i = search->next[i]) {
		struct guest_page *page = &s->guest.pages[i];

		if (page->path || memcmp(page->bytes, bytes, PAGE) != 0)
			continue;
		page->path = strings_keep(&s->paths, path, strlen(path));
		page->file_offset = offset;
		s->guest.has_files = true;
		if (!page->path)
			return PTAH_E_NOMEM;
	}
	return 0;
}

/* The kernel maps whole pages of a file, and fills its last one with zeros. */
static int take_segment(struct search *search, const uint8_t *file, uint64_t size,
			const struct ptah_elf_segment *segment, const char *path)
{
	uint64_t end = segment->size < size ? segment->offset + segment->size : size;
	int status = 0;

	end = end < size ? end : size;
	for (uint64_t at = segment->offset & ~(PAGE - 1); at < end && status >= 0; at += PAGE) {
		uint8_t last[PAGE] = {0};

		if (size - at < PAGE)
			memcpy(last, file + at, (size_t)(size - at));
		status = take_file_page(search, size - at < PAGE ? last : file + at, path, at);
	}
	return status;
}

static int take_file(struct search *search, const char *full, const char *path)
{
	struct ptah_elf_segment *segments = NULL;
	const int n = ptah_elf_segments(full, 0, &segments);
	int fd = n > 0 ? open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1, status = 0;
	struct stat st;
	void *bytes = MAP_FAILED;

	if (fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0)
		bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (fd >= 0)
		close(fd);
	for (int i = 0; bytes != MAP_FAILED && i < n && status >= 0; i++)
		status = take_segment(search, bytes, (uint64_t)st.st_size, &segments[i], path);
	if (bytes != MAP_FAILED)
		munmap(bytes, (size_t)st.st_size);
	free(segments);
	return status;
}

/* full: the folder's path, of which the guest's part begins at `root`. */
static int take_folder(struct search *search, const char *full, size_t root, unsigned depth)
{
	DIR *folder = depth < DEPTH_MAX ? opendir(full) : NULL;
	struct dirent *entry;
	int status = 0;

	while (folder && status >= 0 && (entry = readdir(folder))) {
		struct stat st;
		char *path;

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (asprintf(&path, "%s/%s", full, entry->d_name) < 0) {
			status = PTAH_E_NOMEM;
			break;
		}
		if (!lstat(path, &st) && S_ISDIR(st.st_mode))
			status = take_folder(search, path, root, depth + 1);
		else if (S_ISREG(st.st_mode) && st.st_size >= (off_t)PAGE / 16 &&
			 search->files++ < FILES_MAX)
			status = take_file(search, path, path + root);
		free(path);
	}
	if (folder)
		closedir(folder);
	return status;
}

static int list_pages(struct search *search)
{
	struct ptah_session *s = search->session;

	search->next = calloc(s->guest.page_count + 1, sizeof(*search->next));
	if (!search->next)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < s->guest.page_count; i++) {
		const uint32_t hash = hash_of(s->guest.pages[i].bytes);

		search->next[i] = table_get(&search->by_hash, hash);
		if (table_set(&search->by_hash, hash, i) < 0)
			return PTAH_E_NOMEM;
	}
	return 0;
}

int guest_find_files(struct ptah_session *s)
{
	struct search search = {.session = s};
	int status;

	if (!s->symfs || !*s->symfs || s->config.no_images)
		return 0;
	status = list_pages(&search);
	if (status >= 0)
		status = take_folder(&search, s->symfs, strlen(s->symfs), 0);
	table_free(&search.by_hash);
	free(search.next);
	return status;
}

static int list_files(struct ptah_session *s)
{
	struct search search = {.session = s};

	s->guest.files = search.files_of = calloc(1, sizeof(*s->guest.files));
	if (!s->guest.files)
		return PTAH_E_NOMEM;
	return take_folder(&search, s->symfs, strlen(s->symfs), 0);
}

/* Whether a page of a file is this one. */
static bool is_page(const struct ptah_session *s, const struct file_page *file,
		    const uint8_t *bytes)
{
	uint8_t page[PAGE] = {0};
	char *full;
	ssize_t n = 0;
	int fd;

	if (asprintf(&full, "%s%s", s->symfs, file->path) < 0)
		return false;
	fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	free(full);
	if (fd >= 0) {
		n = pread(fd, page, PAGE, (off_t)file->offset);
		close(fd);
	}
	return n > 0 && !memcmp(page, bytes, PAGE);
}

int guest_find_file(struct ptah_session *s, struct guest_page *page)
{
	int status = 0;

	if (!s->symfs || !*s->symfs || s->config.no_images)
		return 0;
	if (!s->guest.files)
		status = list_files(s);
	if (status < 0)
		return status;
	for (size_t i = table_get(&s->guest.files->by_hash, hash_of(page->bytes));
	     i != SESSION_NONE && !page->path; i = s->guest.files->pages[i].next) {
		const struct file_page *file = &s->guest.files->pages[i];

		if (!is_page(s, file, page->bytes))
			continue;
		page->path = file->path;
		page->file_offset = file->offset;
		s->guest.has_files = true;
	}
	return 0;
}

void guest_files_free(struct guest_files *files)
{
	if (!files)
		return;
	table_free(&files->by_hash);
	free(files->pages);
	free(files);
}

/* The last page that a processor had there by `tsc` (0: at the end). NULL: none. */
static const struct change *last_page(const struct process *p, uint64_t page, uint64_t cr3,
				      uint64_t tsc)
{
	const struct change *found = NULL;
	size_t at;

	BISECT(at, 0, p->indexed, p->changes[p->by_address[at]].address < page);
	for (; at < p->indexed && p->changes[p->by_address[at]].address == page; at++) {
		const struct change *c = &p->changes[p->by_address[at]];

		if (c->space == cr3 && (!tsc || c->tsc <= tsc))
			found = c;
	}
	return found;
}

bool guest_find_map(const struct ptah_session *s, int32_t space, uint64_t address, uint64_t tsc,
		    struct ptah_map *map)
{
	const uint64_t page = address & ~(PAGE - 1);
	const size_t number = (size_t)(-2 - (int64_t)space);
	const uint64_t cr3 = address >= KERNEL_HALF || space >= -1 || number >= s->space_count
				 ? PTAH_SPACE_ANY
				 : s->spaces[number].cr3;

	if (!s->is_guest)
		return false;
	*map = (struct ptah_map){page, PAGE, page, "[code]"};
	for (size_t i = 0; s->guest.has_files && i < s->process_count; i++) {
		const struct change *c =
		    s->processes[i].pid < 0 ? last_page(&s->processes[i], page, cr3, tsc) : NULL;

		if (c && c->path) {
			map->file_offset = c->file_offset;
			map->path = c->path;
			return true;
		}
	}
	return true;
}
