/* SPDX-License-Identifier: MIT */
/*
 * pt_image_*: a ptah_image, and beside it a list of its sections with what Ptah does not keep:
 * isids, and how many sections there are. In libipt, sections whose address spaces match do not
 * overlap: what a new one covers is cut out of all others with matching spaces.
 *
 * Better than libipt: in a copy of an image, a section that was cut has the same bytes as in the
 * original (libipt starts again at the section's first byte). Different from libipt: of several
 * sections at one address whose spaces do not match, a lookup without a space finds the one added
 * last; libipt finds the one used last.
 */
#include "pt_image.h"

#include "pt_error.h"
#include "iscache.h"

#include <stdlib.h>

/* A section, or what is left of it after cuts. */
struct section {
	struct piece piece; /* of this part; the section owns the name */
	bool cut;	    /* there was more of it, and piece.id includes that */
	struct ptah_space space;
	struct store *store;
	int isid;
	uint32_t number; /* its id in the ptah_image */
};

struct pt_image {
	char *name;
	struct ptah_image *ptah;
	struct section *sections; /* sorted by number */
	size_t count, capacity;
	struct image_user *users;
	read_memory_callback_t *callback;
	void *callback_context;
	int callback_error;
	unsigned asking;	 /* calls of the callback that have not returned */
	const uint8_t *answered; /* the address in the reader's buffer up to which the callback has
				    answered; see read_by_callback() */
};

/* Images and their users */

struct pt_image *pt_image_alloc(const char *name)
{
	struct pt_image *image = calloc(1, sizeof(*image));

	if (!image)
		return NULL;
	if (name)
		image->name = strdup(name);
	if ((name && !image->name) || ptah_image_new(&image->ptah) < 0) {
		free(image->name);
		free(image);
		return NULL;
	}
	return image;
}

static void section_fini(struct section *s)
{
	free(s->piece.filename);
	store_put(s->store);
}

void pt_image_free(struct pt_image *image)
{
	if (!image)
		return;
	while (image->users) {
		struct image_user *user = image->users;

		image_remove_user(user);
		if (user->gone)
			user->gone(user);
	}
	ptah_image_free(image->ptah);
	for (size_t i = 0; i < image->count; i++)
		section_fini(&image->sections[i]);
	free(image->sections);
	free(image->name);
	free(image);
}

const char *pt_image_name(const struct pt_image *image)
{
	return image ? image->name : NULL;
}

struct ptah_image *image_ptah(struct pt_image *image)
{
	return image->ptah;
}

void image_add_user(struct pt_image *image, struct image_user *user)
{
	user->next = image->users;
	user->link = &image->users;
	if (user->next)
		user->next->link = &user->next;
	image->users = user;
}

void image_remove_user(struct image_user *user)
{
	if (!user->link)
		return;
	*user->link = user->next;
	if (user->next)
		user->next->link = user->link;
	user->next = NULL;
	user->link = NULL;
}

static void will_change(struct pt_image *image)
{
	for (struct image_user *user = image->users, *next; user; user = next) {
		next = user->next;
		user->step_back(user);
	}
}

/* Address spaces */

/* The caller's struct may be older and shorter. NULL: any space. */
static struct ptah_space space_from_user(const struct pt_asid *user)
{
	struct pt_asid asid;

	pt_asid_init(&asid);
	if (user)
		memcpy(&asid, user, user->size < sizeof(asid) ? user->size : sizeof(asid));
	return (struct ptah_space){asid.cr3, asid.vmcs};
}

static bool space_matches(const struct ptah_space *a, const struct ptah_space *b)
{
	return (a->cr3 == b->cr3 || a->cr3 == PTAH_SPACE_ANY || b->cr3 == PTAH_SPACE_ANY) &&
	       (a->vmcs == b->vmcs || a->vmcs == PTAH_SPACE_ANY || b->vmcs == PTAH_SPACE_ANY);
}

/* Adding */

/* The address of the last byte. Not for an empty section. */
static uint64_t piece_last(const struct piece *p)
{
	return p->size - 1 > UINT64_MAX - p->vaddr ? UINT64_MAX : p->vaddr + (p->size - 1);
}

static bool pieces_overlap(const struct piece *a, const struct piece *b)
{
	return a->size && b->size && a->vaddr <= piece_last(b) && b->vaddr <= piece_last(a);
}

static int make_room(struct pt_image *image, size_t more)
{
	size_t capacity = image->capacity ? image->capacity : 8;
	struct section *sections;

	while (capacity < image->count + more)
		capacity *= 2;
	if (capacity == image->capacity)
		return 0;
	sections = realloc(image->sections, capacity * sizeof(*sections));
	if (!sections)
		return -pte_nomem;
	image->sections = sections;
	image->capacity = capacity;
	return 0;
}

static void erase_section(struct pt_image *image, size_t i)
{
	section_fini(&image->sections[i]);
	image->count--;
	memmove(image->sections + i, image->sections + i + 1,
		(image->count - i) * sizeof(*image->sections));
}

/* The caller has made room. */
static void insert_section(struct pt_image *image, size_t i, const struct section *section)
{
	memmove(image->sections + i + 1, image->sections + i,
		(image->count - i) * sizeof(*image->sections));
	image->sections[i] = *section;
	image->count++;
}

/* Removes the part of a section before `vaddr`. */
static void cut_front(struct piece *p, uint64_t vaddr)
{
	uint64_t cut = vaddr - p->vaddr;

	p->vaddr = vaddr;
	p->offset += cut;
	p->size -= cut;
}

/*
 * Cuts what `piece` covers out of section i. The ptah_image has no other section with a matching
 * space there that would be cut as well. Returns how many sections remain of it.
 */
static int cut_section(struct pt_image *image, size_t i, const struct piece *piece)
{
	struct section *s = &image->sections[i], tail = *s;
	uint64_t first = piece->vaddr, last = piece_last(piece), s_last = piece_last(&s->piece);
	bool has_front = s->piece.vaddr<first, has_tail = s_last> last;
	int status;

	s->cut = tail.cut = true;
	first = has_front ? first : s->piece.vaddr;
	last = has_tail ? last : s_last;
	if (has_front && has_tail) {
		tail.piece.filename = strdup(s->piece.filename);
		if (!tail.piece.filename)
			return -pte_nomem;
	}
	status = ptah_image_remove(image->ptah, first, last - first + 1, &s->space);
	if (status < 0) {
		if (has_front && has_tail)
			free(tail.piece.filename);
		return error_from_ptah(status);
	}
	if (has_tail)
		cut_front(has_front ? &tail.piece : &s->piece, last + 1);
	if (has_front)
		s->piece.size = first - s->piece.vaddr;
	if (has_front && has_tail) {
		store_get(tail.store);
		insert_section(image, i + 1, &tail);
		return 2;
	}
	if (has_front || has_tail)
		return 1;
	erase_section(image, i);
	return 0;
}

/* Cuts what the section will cover out of all others. */
static int cut_others(struct pt_image *image, const struct section *section)
{
	size_t i = 0;

	while (i < image->count) {
		const struct section *s = &image->sections[i];
		int n = 1;

		if (space_matches(&s->space, &section->space) &&
		    pieces_overlap(&s->piece, &section->piece)) {
			/* The cut section may become two, and the new one needs room as well. */
			n = make_room(image, 2);
			if (n >= 0)
				n = cut_section(image, i, &section->piece);
			if (n < 0)
				return n;
		}
		i += (size_t)n;
	}
	return 0;
}

/* Adds a section that is not cut. Takes ownership of its name and store. */
static int add_section(struct pt_image *image, struct section *section)
{
	struct ptah_section seen;
	int status;

	will_change(image);
	status = make_room(image, 1);
	if (status >= 0)
		status = cut_others(image, section);
	if (status >= 0 && section->piece.id)
		status = error_from_ptah(ptah_image_add_cached(image->ptah, section->store->cache,
							       section->piece.id, &section->space));
	if (status < 0) {
		section_fini(section);
		return status;
	}
	/* The section just added is the last one. */
	section->number = image->count ? image->sections[image->count - 1].number : 0;
	if (section->piece.id &&
	    !ptah_image_find(image->ptah, section->piece.vaddr, &section->space, &seen))
		section->number = seen.id;
	insert_section(image, image->count, section);
	return 0;
}

int pt_image_add_file(struct pt_image *image, const char *filename, uint64_t offset, uint64_t size,
		      const struct pt_asid *asid, uint64_t vaddr)
{
	struct section section = {.piece = {NULL, offset, size, vaddr, 0}};
	int status = -pte_nomem;

	if (!image || !filename)
		return -pte_invalid;
	section.space = space_from_user(asid);
	section.piece.filename = strdup(filename);
	/*
	 * A cache of its own maps the file when it is needed, and checks that the file has not
	 * changed.
	 */
	section.store = store_new();
	if (section.piece.filename && section.store)
		status = piece_add(&section.piece, section.store);
	if (status < 0) {
		section_fini(&section);
		return status;
	}
	return add_section(image, &section);
}

int pt_image_add_cached(struct pt_image *image, struct pt_image_section_cache *iscache, int isid,
			const struct pt_asid *asid)
{
	struct section section = {.isid = isid};
	int status;

	if (!image || !iscache)
		return -pte_invalid;
	status = iscache_lookup(iscache, isid, &section.piece, &section.store);
	if (status < 0)
		return status;
	section.space = space_from_user(asid);
	return add_section(image, &section);
}

/* Copies a section of another image; of a section that was cut, only the remaining part. */
static int copy_section(struct pt_image *image, const struct section *from)
{
	struct section section = *from;
	uint64_t size = from->piece.size;
	int status = 0;

	section.piece.filename = strdup(from->piece.filename);
	if (!section.piece.filename)
		return -pte_nomem;
	store_get(section.store);
	if (from->cut)
		status = piece_add(&section.piece, section.store);
	section.cut = false;
	if (status < 0 || section.piece.size != size) {
		section_fini(&section);
		return -pte_bad_image;
	}
	return add_section(image, &section);
}

int pt_image_copy(struct pt_image *image, const struct pt_image *src)
{
	int ignored = 0;

	if (!image || !src)
		return -pte_invalid;
	if (image == src)
		return 0;
	for (size_t i = 0; i < src->count; i++)
		ignored += copy_section(image, &src->sections[i]) < 0;
	return ignored;
}

/* Removing */

/* Removes the sections with matching spaces, from one file or all (NULL). Returns how many. */
static int remove_sections(struct pt_image *image, const char *filename, const struct pt_asid *asid)
{
	struct ptah_space space = space_from_user(asid);
	size_t kept = 0, i;
	int status = 0;

	will_change(image);
	for (i = 0; i < image->count; i++) {
		struct section *s = &image->sections[i];

		if (!space_matches(&s->space, &space) ||
		    (filename && strcmp(s->piece.filename, filename))) {
			image->sections[kept++] = *s;
			continue;
		}
		if (s->piece.size)
			status = ptah_image_remove(image->ptah, s->piece.vaddr,
						   piece_last(&s->piece) - s->piece.vaddr + 1,
						   &s->space);
		if (status < 0)
			break;
		section_fini(s);
	}
	/*
	 * In one pass, as an image may have thousands of sections. On an error the later ones stay.
	 */
	if (kept < i)
		memmove(image->sections + kept, image->sections + i,
			(image->count - i) * sizeof(*image->sections));
	image->count -= i - kept;
	return status < 0 ? error_from_ptah(status) : (int)(i - kept);
}

int pt_image_remove_by_filename(struct pt_image *image, const char *filename,
				const struct pt_asid *asid)
{
	return image && filename ? remove_sections(image, filename, asid) : -pte_invalid;
}

int pt_image_remove_by_asid(struct pt_image *image, const struct pt_asid *asid)
{
	return image ? remove_sections(image, NULL, asid) : -pte_invalid;
}

/* Reading */

/*
 * Calls the callback as libipt does: for one instruction. Some callbacks return all or nothing, or
 * do not check where their memory ends. Ptah would then also ask for the bytes after those, for the
 * same buffer: after a complete answer it gets none.
 */
static size_t read_by_callback(void *context, const struct ptah_space *space, uint64_t address,
			       void *bytes, size_t n)
{
	const size_t want = n < pt_max_insn_size ? n : pt_max_insn_size;
	struct pt_image *image = context;
	const uint8_t *answered = image->answered;
	struct pt_asid asid;
	int got;

	image->answered = NULL;
	if (answered == bytes)
		return 0;
	pt_asid_init(&asid);
	asid.cr3 = space->cr3;
	asid.vmcs = space->vmcs;
	image->asking++;
	got = image->callback(bytes, want, &asid, address, image->callback_context);
	image->asking--;
	if (got < 0)
		image->callback_error = got;
	if (got <= 0)
		return 0;
	if ((size_t)got < want)
		return (size_t)got;
	/* The reader has room for more, and its next call asks for that: refuse it. */
	if (want < n)
		image->answered = (const uint8_t *)bytes + want;
	return want;
}

int pt_image_set_callback(struct pt_image *image, read_memory_callback_t *callback, void *context)
{
	if (!image)
		return -pte_invalid;
	will_change(image);
	image->callback = callback;
	image->callback_context = context;
	image->callback_error = 0;
	image_read_again(image);
	return 0;
}

void image_read_again(struct pt_image *image)
{
	ptah_image_set_reader(image->ptah, image->callback ? read_by_callback : NULL, image);
}

bool image_has_callback(const struct pt_image *image)
{
	return image->callback;
}

bool image_is_asking(const struct pt_image *image)
{
	return image->asking;
}

int image_missing(struct pt_image *image, uint64_t ip, const struct ptah_space *space)
{
	struct ptah_section section;
	uint8_t bytes[pt_max_insn_size];

	if (ptah_image_find(image->ptah, ip, space, &section) >= 0)
		return ptah_image_read(image->ptah, ip, bytes, 1, space) ? -pte_nomap
									 : -pte_bad_image;
	image->callback_error = 0;
	if (image->callback)
		ptah_image_read(image->ptah, ip, bytes, sizeof(bytes), space);
	return image->callback_error ? image->callback_error : -pte_nomap;
}

int image_isid(const struct pt_image *image, uint32_t section)
{
	size_t low = 0, high = image->count;

	/*
	 * The first section whose number is not less; empty sections have the number of another
	 * one.
	 */
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (image->sections[middle].number < section)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < image->count && image->sections[low].number == section; low++)
		if (image->sections[low].piece.size)
			return image->sections[low].isid;
	return 0;
}
