/* SPDX-License-Identifier: MIT */
/*
 * A process with a capture's page and buffer mapped. It has the addresses of its own
 * address space and uses nothing but capture_page.h. It works in small steps, between
 * which anything may happen: a view of the page, a copy of some bytes, a second view,
 * and, once it is known which bytes are certain, their release.
 */
#ifndef PTAH_TESTS_ENGINE_COMPANION_H
#define PTAH_TESTS_ENGINE_COMPANION_H

#include "engine/rig.h"

#include <ptah/engine/capture_page.h>

enum companion_step {
	COMPANION_VIEW,
	COMPANION_COPY,
	COMPANION_AFTER,
	COMPANION_SURE,
};

struct companion {
	struct ptah_machine *machine;
	uint64_t owner, page_address, buffer_address;
	struct ptah_capture_page *page;
	uint64_t page_bytes;
	struct ptah_capture_reader r;
	unsigned step; /* enum companion_step: the next */
	struct ptah_capture_view view, after;
	uint64_t from, to, at; /* to copy [from, to); copied up to `at` */
	uint8_t *copy;
	uint64_t next; /* the first byte that was not released yet */
	uint64_t lost;
	bool sync; /* the page asks for ptah_capture_page_sync() */
	/* Gets the bytes that are certain, in order, and each loss. */
	void (*read)(void *argument, uint64_t from, const uint8_t *bytes, uint64_t n);
	void *argument;
};

static inline void companion_open(struct companion *m, struct ptah_machine *machine,
				  struct ptah_capture *c, uint64_t owner)
{
	size_t bytes;

	memset(m, 0, sizeof(*m));
	m->machine = machine;
	m->owner = owner;
	assert_int_equal(ptah_capture_map(c, owner, false, &m->buffer_address), PTAH_OK);
	assert_int_equal(ptah_capture_map_page(c, owner, true, &m->page_address), PTAH_OK);
	m->page = (struct ptah_capture_page *)(void *)ptah_machine_user(machine, owner,
									m->page_address, &bytes);
	assert_non_null(m->page);
	assert_true(bytes >= m->page->bytes && bytes - m->page->bytes < 4096);
	m->page_bytes = bytes;
	assert_true(ptah_capture_reader_init(&m->r, m->page, (void *)(uintptr_t)m->buffer_address));
	assert_true(ptah_capture_reader_view(&m->r, &m->view));
	m->next = m->view.tail;
}

static inline void companion_close(struct companion *m, struct ptah_capture *c)
{
	free(m->copy);
	m->copy = NULL;
	assert_int_equal(ptah_capture_unmap(c, m->owner, m->page_address), PTAH_OK);
	assert_int_equal(ptah_capture_unmap(c, m->owner, m->buffer_address), PTAH_OK);
}

/* Reads memory that another processor's trace is written to meanwhile, as hardware does.
 * ThreadSanitizer does not see it. */
__attribute__((noinline, no_sanitize("thread"))) static void companion_memory(
    uint8_t *to, const volatile uint8_t *from, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		to[i] = from[i];
}

/* Copies at most n bytes; 0: there are none, or the next one was overwritten. */
static inline uint64_t companion_copy(struct companion *m, uint64_t n)
{
	const void *address;
	uint64_t to = m->to - m->at < n ? m->to : m->at + n;
	uint64_t size = ptah_capture_reader_bytes(&m->r, m->at, to, &address), done, part;
	size_t there;

	assert_true(size <= to - m->at);
	/* In the process the bytes are contiguous; here the mapping's pieces may not be. */
	for (done = 0; done < size; done += part) {
		const uint8_t *from =
		    ptah_machine_user(m->machine, m->owner, (uintptr_t)address + done, &there);

		assert_non_null(from);
		part = there < size - done ? there : size - done;
		companion_memory(m->copy + (m->at - m->from) + done, from, (size_t)part);
	}
	m->at += size;
	return size;
}

static inline void companion_begin(struct companion *m)
{
	/* No engine writes the page for as long as this: it is preempted. */
	if (!ptah_capture_reader_view(&m->r, &m->view))
		return;
	assert_true(m->view.end <= m->view.position && m->view.tail <= m->view.position);
	/* All of it is of one moment. */
	if (!m->r.starts) {
		assert_int_equal(m->view.laps, m->view.position / m->r.size);
		assert_int_equal(m->view.oldest,
				 m->view.position < m->r.size ? 0 : m->view.position - m->r.size);
	}
	m->from = m->view.oldest > m->next ? m->view.oldest : m->next;
	m->to = m->view.end > m->from ? m->view.end : m->from;
	m->at = m->from;
	m->copy = realloc(m->copy, (size_t)(m->to - m->from) + 1);
	assert_non_null(m->copy);
	m->step = COMPANION_COPY;
}

/* What was copied of [first, last) is certain; what was overwritten before it was copied is lost.
 */
static inline void companion_finish(struct companion *m, uint64_t first, uint64_t last)
{
	if (last > m->at)
		last = m->at;
	if (last < m->from)
		last = m->from;
	if (first < m->from)
		first = m->from;
	if (first > last)
		first = last;
	m->lost += first - m->next;
	m->read(m->argument, first, m->copy + (first - m->from), last - first);
	m->next = last;
	m->sync = ptah_capture_reader_release(&m->r, m->next);
	m->step = COMPANION_VIEW;
}

/* Copies at most n bytes in this step. */
static inline void companion_step(struct companion *m, uint64_t n)
{
	uint64_t first, last;

	switch (m->step) {
	case COMPANION_VIEW:
		companion_begin(m);
		break;
	case COMPANION_COPY:
		if (!companion_copy(m, n) || m->at == m->to)
			m->step = COMPANION_AFTER;
		break;
	case COMPANION_AFTER:
		if (ptah_capture_reader_view(&m->r, &m->after))
			m->step = COMPANION_SURE;
		break;
	default:
		if (ptah_capture_reader_sure(&m->r, &m->view, &m->after, &first, &last))
			companion_finish(m, first, last);
	}
}

#endif
