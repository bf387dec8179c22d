/* SPDX-License-Identifier: MIT */
/*
 * The engine's side of the page that a capture shares with a consumer in another process
 * (capture_page.h). All functions that are not PASSIVE are called by the code that holds the
 * capture: busy on its processor, or in a capture_work.
 */
#ifndef PTAH_ENGINE_PAGE_H
#define PTAH_ENGINE_PAGE_H

#include <ptah/engine/engine.h>

#include <stdatomic.h>

/* What the engine keeps for itself, because the process can change all that is in the page. */
struct capture_page {
	struct ptah_hal_memory memory;
	struct ptah_capture_page *page; /* NULL until it is mapped for the first time */
	uint64_t sequence;
	uint64_t fills;	      /* swap: `starts` is written up to this region */
	uint32_t copied;      /* records that were copied into it, modulo 2^32 */
	bool waiting;	      /* as published */
	bool unused;	      /* bytes were released since room was last searched for */
	atomic_bool consumer; /* a process that has it mapped consumes the capture */
};

/* An argument of page_begin()'s work. */
struct page_request {
	struct ptah_hal_memory memory; /* of the page, if the capture has none yet */
	bool consumer;
};

/* Takes over what the page's consumer has read, if there is one. True: it has released bytes. */
bool page_adopt(struct ptah_capture *c);

/*
 * Writes that the capture is about to run. Called before TraceEn is set, so that a reader that
 * finds another state knows that nothing has been overwritten up to that moment.
 */
void page_running(struct ptah_capture *c);

/* Writes everything that has changed. True: the consumer has made room that the last search did
 * not find, and may not know that the engine waits for it. */
bool page_publish(struct ptah_capture *c);

/* PASSIVE. Before the page is mapped: allocates it, if need be, and fills it in. */
int page_begin(struct ptah_capture *c, bool consumer);
/* PASSIVE. After it was unmapped from its consumer: the consumer of engine.h is the capture's
 * again. */
void page_end(struct ptah_capture *c);
/* PASSIVE, while it is not mapped. Before the capture gets a buffer for which it would be too
 * small; the next mapping allocates another. */
int page_drop(struct ptah_capture *c);
/* PASSIVE. The same for a capture that is stopped and will be freed. */
void page_free(struct ptah_capture *c);

#endif
