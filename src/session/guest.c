/* SPDX-License-Identifier: MIT */
/*
 * The code of a virtual machine that was recorded from outside (docs/perf-data.md, tags 5 to 7).
 *
 * Each processor's stream has a list of changes of its own: what the processor ran, as it was then.
 * So no change has to be placed on the time lines of several processors. A map without a time is
 * valid from the beginning, because nothing ran at its addresses before; one with a time replaces
 * another, and the trace has a PSB with that time.
 */
#include "session/guest.h"

#include "perfdata/message.h"
#include "session/grow.h"
#include "session/records.h"
#include "session/trace_set.h"

#include "base/hash.h"
#include "image/image_access.h"
#include "support/index.h"
#include "support/list.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define PAGE	UINT64_C(4096)
#define CPU_MAX 65536

/* A session that grows has no more, because it may have to look through all of them. */
#define SPACES_MAX 65536

_Static_assert(PAGE == PERFDATA_PAGE, "pages are those of the processor");

/* No process of a recording has such a pid: the changes of a processor are kept under it. */
static int32_t pid_of(int32_t cpu)
{
	return INT32_MIN + cpu;
}

size_t guest_processor(const struct ptah_session *s, int32_t cpu)
{
	return cpu < 0 || cpu >= CPU_MAX ? SESSION_NONE
					 : table_get(&s->processes_by_pid, (uint32_t)pid_of(cpu));
}

/* First pass */

static int take_page(struct ptah_session *s, const struct perfdata_record *r)
{
	int status;

	if (r->size != PAGE)
		return 0;
	if (!LIST_ROOM(s->guest.pages, s->guest.page_count, s->guest.page_capacity))
		return PTAH_E_NOMEM;
	s->guest.pages[s->guest.page_count] = (struct guest_page){.bytes = r->bytes};
	status = s->growth ? guest_find_file(s, &s->guest.pages[s->guest.page_count]) : 0;
	if (status < 0)
		return status;
	return table_set(&s->guest.pages_by_number, r->index, s->guest.page_count++);
}

/* Maps of one address space mostly follow each other. */
static int note_space(struct ptah_session *s, uint64_t cr3)
{
	const size_t n = s->guest.space_count;

	if (cr3 == PTAH_SPACE_ANY || (n && s->guest.spaces[n - 1].cr3 == cr3))
		return 0;
	if (!LIST_ROOM(s->guest.spaces, n, s->guest.space_capacity))
		return PTAH_E_NOMEM;
	s->guest.spaces[s->guest.space_count++] = (struct ptah_space){cr3, PTAH_SPACE_ANY};
	return 0;
}

int guest_take(struct ptah_session *s, const struct perfdata_record *r)
{
	s->is_guest = true;
	return r->tag == PERFDATA_PTAH_PAGE ? take_page(s, r) : note_space(s, r->number);
}

static uint32_t key_of(uint64_t cr3)
{
	return (uint32_t)(hash_number(cr3) >> 32);
}

/* The table has the last space with a key; that it has none says that the space is new. */
size_t guest_find_space(const struct ptah_session *s, uint64_t cr3)
{
	const size_t last = table_get(&s->guest.by_cr3, key_of(cr3));

	if (last == SESSION_NONE || s->spaces[last].cr3 == cr3)
		return last;
	for (size_t i = 0; i < s->space_count; i++)
		if (s->spaces[i].cr3 == cr3)
			return i;
	return SESSION_NONE;
}

/* Gives an address space the next number, if it has none. */
static int add_space(struct ptah_session *s, uint64_t cr3, struct ptah_message *why)
{
	const struct ptah_space space = {cr3, PTAH_SPACE_ANY};
	const size_t n = s->space_count;

	if (cr3 == PTAH_SPACE_ANY || guest_find_space(s, cr3) != SESSION_NONE)
		return 0;
	if (n == SPACES_MAX)
		return perfdata_message(why, PTAH_E_LIMIT,
					"more than %d address spaces: decode the recording when "
					"it is complete",
					SPACES_MAX);
	/* They are numbered together. */
	if (s->program_count != n)
		return perfdata_message(why, PTAH_E_BAD_FILE,
					"programs of Linux in the recording of a virtual machine");
	if (!LIST_ROOM(s->programs, n, s->program_capacity))
		return PTAH_E_NOMEM;
	if (!LIST_ROOM(s->spaces, n, s->guest.space_capacity))
		return PTAH_E_NOMEM;
	s->spaces[n] = space;
	s->programs[n] = (struct program){.process = SESSION_NONE, .last = SESSION_NONE};
	session_name_space(&space, s->programs[n].comm);
	s->program_count = ++s->space_count;
	return table_set(&s->guest.by_cr3, key_of(cr3), n);
}

int guest_grow(struct ptah_session *s, const struct perfdata_record *r, struct ptah_message *why)
{
	int status;

	if (!s->is_guest && s->growth->begun)
		return perfdata_message(why, PTAH_E_BAD_FILE,
					"code of a virtual machine after trace of something else");
	s->is_guest = true;
	if (r->tag == PERFDATA_PTAH_PAGE)
		return take_page(s, r);
	status = add_space(s, r->number, why);
	return status < 0 ? status : 1;
}

int guest_begin_processor(struct ptah_session *s, int32_t cpu)
{
	if (cpu < 0 || cpu >= CPU_MAX)
		return 0;
	return session_process_of(s, pid_of(cpu)) ? 0 : PTAH_E_NOMEM;
}

int guest_number_spaces(struct ptah_session *s)
{
	int status;

	if (!s->is_guest)
		return 0;
	status = session_number_spaces(s, s->guest.spaces, s->guest.space_count);
	return status < 0 ? status : guest_find_files(s);
}

/* Second pass */

static int apply_map(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc)
{
	const size_t page = table_get(&s->guest.pages_by_number, r->index);
	struct change change = {.type = CHANGE_PAGE,
				.tsc = tsc,
				.address = r->address,
				.size = PAGE,
				.space = r->number};
	struct process *p;

	if (page == SESSION_NONE || r->address % PAGE || r->cpu < 0 || r->cpu >= CPU_MAX)
		return 0;
	change.bytes = s->guest.pages[page].bytes;
	change.path = s->guest.pages[page].path;
	change.file_offset = s->guest.pages[page].file_offset;
	p = session_process_of(s, pid_of(r->cpu));
	if (!p)
		return PTAH_E_NOMEM;
	return s->growth ? grow_add_change(s, p, &change) : session_append_change(p, &change);
}

static void apply_name(struct ptah_session *s, const struct perfdata_record *r)
{
	const struct ptah_space space = {r->number, PTAH_SPACE_ANY};
	const int32_t number = session_number_space(s, &space);

	if (number < -1 && r->text_size) {
		char *comm = s->programs[-2 - number].comm;

		memset(comm, 0, sizeof(s->programs->comm));
		memcpy(comm, r->text, r->text_size);
	}
}

int guest_apply(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc)
{
	if (r->tag == PERFDATA_PTAH_GUEST_MAP)
		return apply_map(s, r, tsc);
	apply_name(s, r);
	return 0;
}

void guest_forget(struct ptah_session *s)
{
	free(s->guest.pages);
	free(s->guest.spaces);
	guest_files_free(s->guest.files);
	table_free(&s->guest.pages_by_number);
	table_free(&s->guest.by_cr3);
}

/* The view: a hash table of pages */

struct entry {
	uint64_t cr3, address;
	const uint8_t *bytes; /* NULL: the entry is free */
};

struct guest_view {
	struct entry *entries;
	size_t capacity, count; /* capacity: a power of two */
	uint64_t secret[2];	/* of the hash: pages and address spaces come from strangers */
};

static struct entry *slot_of(const struct guest_view *view, uint64_t cr3, uint64_t address)
{
	const uint64_t hash = hash_with(view->secret, hash_with(view->secret, cr3) ^ address);
	size_t i = (size_t)hash & (view->capacity - 1);

	while (view->entries[i].bytes &&
	       (view->entries[i].cr3 != cr3 || view->entries[i].address != address))
		i = (i + 1) & (view->capacity - 1);
	return &view->entries[i];
}

static size_t read_page(void *context, const struct ptah_space *space, uint64_t address,
			void *bytes, size_t n)
{
	const struct guest_view *view = context;
	const size_t at = (size_t)(address % PAGE);
	const struct entry *e = slot_of(view, space->cr3, address - at);

	if (!e->bytes)
		e = slot_of(view, PTAH_SPACE_ANY, address - at);
	if (!e->bytes)
		return 0;
	n = n < PAGE - at ? n : (size_t)PAGE - at;
	memcpy(bytes, e->bytes + at, n);
	return n;
}

int guest_view_new(struct ptah_image *image, struct guest_view **view)
{
	struct guest_view *v = calloc(1, sizeof(*v));

	*view = v;
	if (!v)
		return PTAH_E_NOMEM;
	v->capacity = 64;
	make_hash_secret(v->secret);
	v->entries = calloc(v->capacity, sizeof(*v->entries));
	if (!v->entries)
		return PTAH_E_NOMEM;
	ptah_image_set_reader(image, read_page, v);
	return 0;
}

void guest_view_free(struct guest_view *view)
{
	if (view)
		free(view->entries);
	free(view);
}

static int grow(struct guest_view *view)
{
	struct guest_view bigger = *view;

	bigger.capacity *= 2;
	bigger.entries = calloc(bigger.capacity, sizeof(*bigger.entries));
	if (!bigger.entries)
		return PTAH_E_NOMEM;
	for (size_t i = 0; i < view->capacity; i++) {
		const struct entry *e = &view->entries[i];

		if (e->bytes)
			*slot_of(&bigger, e->cr3, e->address) = *e;
	}
	free(view->entries);
	*view = bigger;
	return 0;
}

bool guest_view_has(const struct guest_view *view, const struct change *change)
{
	return slot_of(view, change->space, change->address)->bytes;
}

int guest_view_change(struct guest_view *view, struct ptah_image *image,
		      const struct change *change)
{
	struct entry *e;

	if (view->count >= view->capacity / 2 && grow(view) < 0)
		return PTAH_E_NOMEM;
	e = slot_of(view, change->space, change->address);
	if (e->bytes && e->bytes != change->bytes)
		image_reader_changed(image, change->address, change->address + (PAGE - 1));
	view->count += !e->bytes;
	*e = (struct entry){change->space, change->address, change->bytes};
	return 0;
}
