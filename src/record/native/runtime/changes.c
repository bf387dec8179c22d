/* SPDX-License-Identifier: MIT */
/* Code that changes: see changes.h. */
#include "record/native/runtime/changes.h"

#include "base/hash.h"
#include "record/native/runtime/proc_maps.h"
#include "record/native/runtime/signals.h"
#include "record/native/runtime/sys.h"

#include <linux/mman.h>
#include <linux/uio.h>

#define PAGE	       UINT64_C(4096)
#define USER_END       (UINT64_C(1) << 47) /* beyond is the page of vsyscall, which no list has */
#define FIRST_PAGES    NATIVE_LIMIT(1024u, 2u) /* room of the table, a power of two */
#define FIRST_ROOM     NATIVE_LIMIT(256u, 1u)  /* of the list of mappings */
#define ARGUMENT_LEAST 4096u /* the kernel writes so many bytes at most where no size is given */
#define ARGUMENT_MOST  (UINT64_C(1) << 32)
#define VECTORS_MOST   NATIVE_LIMIT(64u, 1u)
#define MIXED_AFTER    NATIVE_LIMIT(16, 2) /* stores to a page with units */
#define FILES	       NATIVE_LIMIT(16, 1)

/* A page of code that may change, or one by which code elsewhere is written. */
struct page {
	uint64_t address; /* 0: this row is free */
	uint64_t inode, offset;
	uint32_t device;
	uint8_t protection; /* as the program believes it to be */
	bool shared;	    /* is_shared(): inode, device and offset say what it is */
	bool held;	    /* the right to write was taken away */
	bool watched;	    /* it may have units, and cannot change */
	bool known;	    /* the recording has `bytes` */
	bool mixed;	    /* changes_is_mixed() */
	uint8_t faults;	    /* stores that took units with them */
	uint8_t *bytes;
};

/* One that the process executes and may write to. */
struct written_file {
	uint64_t inode;
	bool written; /* since it was noted */
};

struct changes {
	struct native_mapping *mappings; /* what is executable or shared */
	uint32_t mapping_count, mapping_room;
	bool complete;	    /* no shared mapping is missing in the list */
	bool cut_shared;    /* what was cut out of it last was shared */
	uint64_t nothing;   /* a page that cannot be executed, asked for last */
	struct page *pages; /* a hash table */
	uint32_t page_count, page_room;
	uint32_t held;
	uint64_t low, high;		  /* all pages that are held lie in here */
	uint32_t version;		  /* counts what was sent */
	struct written_file files[FILES]; /* changes_file() */
	uint32_t file_count;
	bool all_files;	  /* all of them, and all memory */
	bool all_written; /* of these, since then */
	bool many_files;  /* more than have room */
	bool others;	  /* other processes may write to the files: changes_forked() */
	const char *refusal;
	uint8_t buffer[PROC_MAPS_BUFFER];
};

static const char no_memory[] = "there is no memory for code that changes";

static struct changes *changes_of(struct context *c)
{
	struct runtime *rt = c->runtime;

	if (!rt->changes)
		rt->changes = memory_take(rt, sizeof(*rt->changes));
	return rt->changes;
}

/* A bigger copy of an array. NULL: there is no memory. */
static void *grow(struct runtime *rt, void *old, size_t n, size_t size)
{
	void *array = memory_map(rt, size);

	if (array && old) {
		__builtin_memcpy(array, old, n);
		memory_unmap(rt, old, n);
	}
	return array;
}

/* ---- Mappings that are executable or shared ------------------------------------ */

static bool add_mapping(struct runtime *rt, struct changes *s, const struct native_mapping *m)
{
	if (s->mapping_count == s->mapping_room) {
		const uint32_t room = s->mapping_room ? 2 * s->mapping_room : FIRST_ROOM;
		struct native_mapping *list =
		    grow(rt, s->mappings, s->mapping_room * sizeof(*list), room * sizeof(*list));

		if (!list) {
			s->refusal = no_memory;
			return false;
		}
		s->mappings = list;
		s->mapping_room = room;
	}
	s->mappings[s->mapping_count++] = *m;
	return true;
}

void changes_begin(struct runtime *rt, const struct native_handover *h)
{
	struct changes *s = h->mapping_count ? memory_take(rt, sizeof(*s)) : NULL;

	rt->changes = s;
	for (uint32_t i = 0; s && i < h->mapping_count; i++)
		add_mapping(rt, s, &h->mappings[i]);
	if (s)
		s->complete = true;
}

static void read_mappings(struct runtime *rt, struct changes *s)
{
	struct proc_maps in;
	struct native_mapping m;

	if (!proc_maps_open(rt, &in, s->buffer)) {
		s->refusal = "the list of the program's mappings cannot be read";
		return;
	}
	s->mapping_count = 0;
	s->nothing = 0;
	s->complete = true;
	while (proc_maps_next(&in, &m))
		if ((m.shared || m.protection & PROT_EXEC) && !add_mapping(rt, s, &m))
			break;
	proc_maps_close(&in);
}

static struct native_mapping *find_mapping(const struct changes *s, uint64_t page)
{
	for (uint32_t i = 0; i < s->mapping_count; i++)
		if (page >= s->mappings[i].start && page < s->mappings[i].end)
			return &s->mappings[i];
	return NULL;
}

static struct written_file *find_file(struct changes *s, uint64_t inode)
{
	for (uint32_t i = 0; i < s->file_count && inode; i++)
		if (s->files[i].inode == inode)
			return &s->files[i];
	return NULL;
}

/* Whether another process may write to it, because it had the file before a fork(). */
static bool is_of_others(struct changes *s, uint64_t inode)
{
	return s->others && inode && (s->many_files || find_file(s, inode));
}

/* Whether its bytes may change by what happens elsewhere. A private mapping has its file's. */
static bool is_shared(struct changes *s, const struct native_mapping *m)
{
	return m->shared || s->all_files || find_file(s, m->inode);
}

/* Takes [start, end) out of the list. */
static void cut_mappings(struct runtime *rt, struct changes *s, uint64_t start, uint64_t end)
{
	for (uint32_t i = 0; i < s->mapping_count;) {
		struct native_mapping *m = &s->mappings[i];
		struct native_mapping behind = *m;

		if (start >= m->end || end <= m->start) {
			i++;
			continue;
		}
		s->cut_shared |= m->shared;
		if (m->start < start)
			m->end = start, i++;
		else
			*m = s->mappings[--s->mapping_count];
		if (behind.end <= end)
			continue;
		behind.offset += end - behind.start;
		behind.start = end;
		add_mapping(rt, s, &behind);
	}
}

/* ---- Pages -------------------------------------------------------------------- */

/* The row of the page, or the free one where it would be. */
static struct page *row_of(const struct changes *s, uint64_t address)
{
	const uint32_t last = s->page_room - 1;
	uint32_t i = (uint32_t)(hash_number(address / PAGE) >> 32) & last;

	while (s->pages[i].address && s->pages[i].address != address)
		i = (i + 1) & last;
	return &s->pages[i];
}

static struct page *find_page(const struct changes *s, uint64_t address)
{
	struct page *p = s->page_room ? row_of(s, address & -PAGE) : NULL;

	return p && p->address ? p : NULL;
}

/* Rows are never removed. */
static bool make_room(struct runtime *rt, struct changes *s)
{
	const uint32_t room = s->page_room ? 2 * s->page_room : FIRST_PAGES;
	const uint32_t old_room = s->page_room;
	struct page *old = s->pages, *pages;

	if (2 * (s->page_count + 1) <= s->page_room)
		return true;
	pages = memory_map(rt, room * sizeof(*pages));
	if (!pages)
		return false;
	s->pages = pages;
	s->page_room = room;
	for (uint32_t i = 0; i < old_room; i++)
		if (old[i].address)
			*row_of(s, old[i].address) = old[i];
	if (old)
		memory_unmap(rt, old, old_room * sizeof(*old));
	return true;
}

/* The page's row, with what the list of mappings says of it. Pointers to other rows end here. */
static struct page *take_page(struct runtime *rt, struct changes *s, uint64_t address,
			      const struct native_mapping *m)
{
	struct page *p = find_page(s, address);

	if (!p) {
		if (!make_room(rt, s)) {
			s->refusal = no_memory;
			return NULL;
		}
		p = row_of(s, address);
		p->address = address;
		s->page_count++;
	}
	/* Where the right was taken away, the kernel's list does not have it. */
	p->protection |= m->protection;
	p->shared = is_shared(s, m);
	p->mixed |= is_of_others(s, m->inode);
	p->inode = m->inode;
	p->device = m->device;
	p->offset = m->offset + (address - m->start);
	return p;
}

static int64_t protect(const struct page *p, uint64_t protection)
{
	return sys_call(__NR_mprotect, p->address, PAGE, protection, 0, 0, 0);
}

static void hold(struct changes *s, struct page *p)
{
	if (p->held || !(p->protection & PROT_WRITE))
		return;
	if (protect(p, p->protection & ~(uint64_t)PROT_WRITE)) {
		s->refusal = "the program's code can change unnoticed";
		return;
	}
	p->held = true;
	if (!s->held++) {
		s->low = p->address;
		s->high = p->address + PAGE;
	}
	s->low = p->address < s->low ? p->address : s->low;
	s->high = p->address + PAGE > s->high ? p->address + PAGE : s->high;
}

static void unwatch(struct context *c, struct page *p)
{
	if (!p->watched)
		return;
	p->watched = false;
	unit_forget(c, p->address, p->address + PAGE);
}

static bool is_same_memory(const struct page *a, const struct page *b)
{
	return a->shared && b->shared && a->offset == b->offset && a->inode == b->inode &&
	       a->device == b->device;
}

/* The program may write to it from now on. */
static void give_back(struct context *c, struct page *p)
{
	struct changes *s = c->runtime->changes;

	if (!p->held)
		return;
	protect(p, p->protection);
	if (p->watched && !p->shared && ++p->faults >= MIXED_AFTER)
		p->mixed = true;
	p->held = false;
	s->held--;
	unwatch(c, p);
	for (uint32_t i = 0; p->shared && i < s->page_room; i++)
		if (is_same_memory(p, &s->pages[i]))
			unwatch(c, &s->pages[i]);
}

/* ---- Watching -------------------------------------------------------------------- */

/* Sends those bytes of the page that the recording does not have. may_differ: from the mapping's. */
static void report(struct context *c, struct changes *s, struct page *p, bool may_differ)
{
	const uint8_t *now = (const uint8_t *)p->address;
	uint32_t first = 0, end = PAGE;
	struct native_message m = {.type = NATIVE_MESSAGE_CODE};

	if (!p->bytes && !(p->bytes = memory_take(c->runtime, PAGE))) {
		s->refusal = no_memory;
		return;
	}
	if (!p->known && !may_differ) {
		__builtin_memcpy(p->bytes, now, PAGE);
		p->known = true;
	}
	while (p->known && first < end && p->bytes[first] == now[first])
		first++;
	while (p->known && end > first && p->bytes[end - 1] == now[end - 1])
		end--;
	if (first == end)
		return;
	for (uint32_t i = first; i < end; i++)
		p->bytes[i] = now[i];
	/* Units of it were not looked at since. */
	if (p->known && p->mixed)
		unit_forget(c, p->address + first, p->address + end);
	p->known = true;
	m.address = p->address + first;
	m.size = m.bytes = end - first;
	message_send(c, &m, p->bytes + first);
	s->version++;
}

/*
 * Takes the right to write away where the same memory is mapped elsewhere. False: nothing has it,
 * and the page is what it was when the recorder was told of the mapping.
 */
static bool hold_aliases(struct runtime *rt, struct changes *s, const struct page *code)
{
	const struct written_file *file = find_file(s, code->inode);
	const struct page p = *code;
	bool may_differ = p.protection & PROT_WRITE || !p.inode ||
			  (file ? file->written : s->all_written || !s->all_files);

	for (uint32_t i = 0; i < s->mapping_count; i++) {
		const struct native_mapping *m = &s->mappings[i];
		struct page *alias;

		if (!m->shared || m->inode != p.inode || m->device != p.device ||
		    p.offset < m->offset || p.offset - m->offset >= m->end - m->start)
			continue;
		may_differ = true;
		alias = take_page(rt, s, m->start + (p.offset - m->offset), m);
		if (alias)
			hold(s, alias);
	}
	return may_differ;
}

static bool is_code(const struct native_mapping *m)
{
	const uint8_t both = PROT_READ | PROT_EXEC;

	return m && (m->protection & both) == both;
}

/* A mapping may be longer than its file. */
static bool has_memory(uint64_t page)
{
	uint8_t byte;

	return signals_copy(&byte, (const void *)page, 1);
}

bool changes_watch(struct context *c, uint64_t address)
{
	struct runtime *rt = c->runtime;
	struct changes *s = changes_of(c);
	struct page *p = s ? find_page(s, address) : NULL;
	const struct native_mapping *m;
	bool may_differ = true;

	if (!s || s->refusal || address >= USER_END)
		return false;
	if (p && (p->watched || p->mixed) && !has_memory(address))
		return false;
	if (p && p->watched)
		return true;
	if (p && p->mixed) {
		report(c, s, p, true);
		return !s->refusal;
	}
	m = find_mapping(s, address);
	if (!is_code(m) || ((m->shared || changes_has_files(c)) && !s->complete)) {
		if (address == s->nothing)
			return false;
		read_mappings(rt, s);
		m = find_mapping(s, address);
	}
	if (!is_code(m)) {
		s->nothing = address;
		return false;
	}
	if (!has_memory(address))
		return false;
	if ((!is_shared(s, m) && !(m->protection & PROT_WRITE) &&
	     !(p && p->protection & PROT_WRITE)) ||
	    memory_is_ours(rt, address, PAGE))
		return true;
	p = take_page(rt, s, address, m);
	if (p && p->mixed) {
		report(c, s, p, true);
		return !s->refusal;
	}
	if (p)
		hold(s, p);
	if (p && p->shared) {
		may_differ = hold_aliases(rt, s, p);
		p = find_page(s, address);
	}
	if (p && !s->refusal)
		report(c, s, p, may_differ);
	if (s->refusal)
		return false;
	p->watched = true;
	return true;
}

bool changes_is_mixed(const struct context *c, uint64_t address)
{
	const struct changes *s = c->runtime->changes;
	const struct page *p = s ? find_page(s, address) : NULL;

	return p && p->mixed;
}

bool changes_is_same(const struct context *c, uint64_t start, uint64_t end)
{
	for (uint64_t at = start; at < end;) {
		const struct page *p = find_page(c->runtime->changes, at);
		const uint64_t stop = (at & -PAGE) + PAGE;

		for (; at < end && at < stop; at++)
			if (p && p->mixed && *(const uint8_t *)at != p->bytes[at % PAGE])
				return false;
	}
	return true;
}

const uint8_t *changes_bytes(const struct context *c, uint64_t start, uint64_t end)
{
	const struct page *p = find_page(c->runtime->changes, start);

	return p && p->mixed && p->known && end > start && (end - 1) / PAGE == start / PAGE
		   ? p->bytes + start % PAGE
		   : NULL;
}

void changes_mark(struct context *c, uint64_t head)
{
	struct changes *s = c->runtime->changes;
	uint8_t *at = (uint8_t *)c->log;
	const uint8_t *end = c->logs[NATIVE_LOG_TRACE].chunk + c->runtime->chunk_bytes;
	bool full;

	if (!s || c->changes_seen == s->version)
		return;
	c->changes_seen = s->version;
	/*
	 * FUP leads the decoder to the head while it has the old bytes, and comes before every
	 * time: so a new chunk does not begin with a PSB+, which has one.
	 */
	full = end - at < PACKETS_MAX;
	if (full)
		at = ring_next(c, NATIVE_LOG_TRACE, at);
	at = packets_mark(c, at, head);
	c->log = (uint64_t)(full ? packets_psb(c, at, head) : at);
}

uint32_t changes_version(const struct context *c)
{
	return c->runtime->changes ? c->runtime->changes->version : 0;
}

/* A thread in a system call comes back by way of cache_unit(), and thus of changes_mark(). */
bool changes_seen_by_all(const struct context *c, uint32_t version)
{
	for (const struct context *at = c->runtime->contexts; at; at = at->next)
		if (__atomic_load_n(&at->state, __ATOMIC_SEQ_CST) == CONTEXT_RUNNING &&
		    !__atomic_load_n(&at->in_call, __ATOMIC_SEQ_CST) &&
		    (int32_t)(at->changes_seen - version) < 0)
			return false;
	return true;
}

/* ---- Giving back ------------------------------------------------------------------ */

bool changes_give_back(struct context *c, uint64_t address)
{
	struct changes *s = c->runtime->changes;
	struct page *p;
	bool held;

	cache_lock(c);
	p = s ? find_page(s, address) : NULL;
	held = p && p->protection & PROT_WRITE;
	if (held)
		give_back(c, p); /* another thread may have done it meanwhile */
	cache_unlock(c);
	return held;
}

static void give_back_range(struct context *c, struct changes *s, uint64_t start, uint64_t end)
{
	if (!s->held || start >= s->high || end <= s->low)
		return;
	for (uint32_t i = 0; i < s->page_room; i++)
		if (s->pages[i].held && s->pages[i].address < end &&
		    s->pages[i].address + PAGE > start)
			give_back(c, &s->pages[i]);
}

bool changes_give_back_all(struct context *c)
{
	struct changes *s = c->runtime->changes;

	if (!s || !s->held)
		return false;
	cache_lock(c);
	give_back_range(c, s, 0, UINT64_MAX);
	cache_unlock(c);
	return true;
}

static uint64_t end_of(uint64_t start, uint64_t n)
{
	return start + n < start ? UINT64_MAX : start + n;
}

static void give_back_vectors(struct context *c, struct changes *s, uint64_t vectors, uint64_t n)
{
	struct iovec v;

	if (n > VECTORS_MOST) {
		changes_give_back_all(c);
		return;
	}
	for (uint64_t i = 0;
	     i < n && signals_copy(&v, (const void *)(vectors + i * sizeof(v)), sizeof(v)); i++)
		give_back_range(c, s, (uintptr_t)v.iov_base,
				end_of((uintptr_t)v.iov_base, v.iov_len));
}

static void give_back_arguments(struct context *c, struct changes *s, const uint64_t *words)
{
	uint64_t message[7]; /* struct msghdr */

	/* An argument may be an address, and the next one the size of what is there. */
	for (unsigned i = 1; i <= 6; i++) {
		uint64_t n = i < 6 ? words[i + 1] : 0;

		if (n < ARGUMENT_LEAST || n > ARGUMENT_MOST)
			n = ARGUMENT_LEAST;
		give_back_range(c, s, words[i], end_of(words[i], n));
	}
	if (words[0] == __NR_readv || words[0] == __NR_preadv || words[0] == __NR_preadv2 ||
	    words[0] == __NR_process_vm_readv) {
		give_back_vectors(c, s, words[2], words[3]);
	} else if (words[0] == __NR_recvmsg) {
		if (!signals_copy(message, (const void *)words[2], sizeof(message)))
			return;
		give_back_range(c, s, message[0], end_of(message[0], (uint32_t)message[1]));
		give_back_vectors(c, s, message[2], message[3]);
		give_back_range(c, s, message[4], end_of(message[4], message[5]));
	} else if (words[0] == __NR_recvmmsg || words[0] == __NR_io_submit ||
		   words[0] == __NR_io_uring_enter) {
		changes_give_back_all(c); /* the addresses are in lists */
	}
}

void changes_before_call(struct context *c, const uint64_t *words)
{
	struct changes *s = c->runtime->changes;

	if (!s || !s->held)
		return;
	cache_lock(c);
	give_back_arguments(c, s, words);
	cache_unlock(c);
}

/* ---- Mappings --------------------------------------------------------------------- */

void changes_before_mapping(struct context *c, uint64_t start, uint64_t end)
{
	struct changes *s = c->runtime->changes;

	if (!s || start >= end)
		return;
	give_back_range(c, s, start, end);
	for (uint32_t i = 0; i < s->page_room; i++) {
		struct page *p = &s->pages[i];

		if (!p->address || p->address >= end || p->address < start)
			continue;
		unwatch(c, p);
		p->known = p->shared = p->mixed = false;
		p->protection = p->faults = 0;
	}
	s->nothing = 0;
	cut_mappings(c->runtime, s, start, end);
}

/* Memory that is executed somewhere may be written to by a new mapping of it. */
static void unwatch_shared(struct context *c, struct changes *s)
{
	s->complete = false;
	for (uint32_t i = 0; i < s->page_room; i++)
		if (s->pages[i].shared)
			unwatch(c, &s->pages[i]);
}

void changes_after_mapping(struct context *c, uint64_t start, uint64_t end, uint64_t protection,
			   bool shared)
{
	struct changes *s = c->runtime->changes;
	const struct native_mapping m = {
	    .start = start, .end = end, .protection = (uint8_t)(protection & 7)};

	if (!s || start >= end)
		return;
	s->nothing = 0;
	shared |= s->cut_shared;
	s->cut_shared = false;
	/* The recorder is told of it next. This thread's time comes with TIP.PGE. */
	if (protection & PROT_EXEC)
		c->changes_seen = ++s->version;
	/* While shared mappings are missing in the list, what mprotect() changes may be one. */
	if (shared)
		unwatch_shared(c, s);
	else if (protection & PROT_EXEC && changes_has_files(c))
		s->complete = false;
	else if (protection & PROT_EXEC && s->complete)
		add_mapping(c->runtime, s, &m);
}

/* ---- Files ------------------------------------------------------------------------ */

bool changes_has_files(const struct context *c)
{
	const struct changes *s = c->runtime->changes;

	return s && (s->file_count || s->all_files);
}

bool changes_executes(const struct context *c, uint64_t inode)
{
	const struct changes *s = c->runtime->changes;

	for (uint32_t i = 0; s && i < s->mapping_count; i++)
		if (s->mappings[i].inode == inode && s->mappings[i].protection & PROT_EXEC)
			return true;
	return false;
}

/* Where code was read of what was not watched, it is read again. */
static void forget_shared_code(struct context *c, struct changes *s)
{
	read_mappings(c->runtime, s);
	for (uint32_t i = 0; i < s->mapping_count; i++)
		if (is_code(&s->mappings[i]) && is_shared(s, &s->mappings[i]))
			unit_forget(c, s->mappings[i].start, s->mappings[i].end);
}

void changes_file(struct context *c, uint64_t inode)
{
	struct changes *s;

	cache_lock(c);
	s = changes_of(c);
	if (s && !find_file(s, inode)) {
		const bool all = s->all_files;

		if (inode && s->file_count < FILES) {
			s->files[s->file_count++] =
			    (struct written_file){inode, all && s->all_written};
		} else {
			s->all_files = true;
			s->many_files |= inode != 0;
		}
		if (!all)
			forget_shared_code(c, s);
	}
	cache_unlock(c);
}

void changes_forked(struct context *c)
{
	struct changes *s = c->runtime->changes;

	cache_lock(c);
	if (s && s->file_count)
		s->others = true;
	for (uint32_t i = 0; s && s->others && i < s->page_room; i++) {
		struct page *p = &s->pages[i];

		if (!p->shared || p->mixed || !is_of_others(s, p->inode))
			continue;
		p->mixed = true;
		unwatch(c, p);
	}
	cache_unlock(c);
}

void changes_written(struct context *c, uint64_t inode)
{
	struct changes *s = c->runtime->changes;
	struct written_file *file;

	cache_lock(c);
	file = s ? find_file(s, inode) : NULL;
	if (file)
		file->written = true;
	for (uint32_t i = 0; s && !inode && i < s->file_count; i++)
		s->files[i].written = true;
	if (s && !inode)
		s->all_written = true;
	for (uint32_t i = 0; s && i < s->page_room; i++)
		if (s->pages[i].shared && (!inode || s->pages[i].inode == inode))
			unwatch(c, &s->pages[i]);
	cache_unlock(c);
}

const char *changes_refusal(const struct context *c)
{
	return c->runtime->changes ? c->runtime->changes->refusal : NULL;
}
