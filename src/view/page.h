/* SPDX-License-Identifier: MIT */
/*
 * Writes the page of `ptah view -o`: one HTML file that needs neither a server nor a network. In
 * place of the lines that name style sheets and scripts it has their text, and before the scripts
 * the answers to questions of the page (query.h):
 *
 *	<script type="text/plain" id="ptah-0">base64 of gzip</script>		and so on
 *	<script type="application/json" id="ptah-index">{"answers": [{"query": "info", "type":
 *	"application/json", "id": "ptah-0", "size": 1234}, ...], "left_out": 0}</script>
 *
 * `size` is that of the answer itself. A browser executes neither element, because their types are
 * no JavaScript, and text from the recording is in the page as base64 only. A
 * Content-Security-Policy allows the scripts of the page by their hashes, and nothing else: no
 * other script and no request.
 */
#ifndef PTAH_VIEW_PAGE_H
#define PTAH_VIEW_PAGE_H

#include "output/out.h"
#include "view/query.h"

struct view_page {
	view_answerer *answer;
	/* The text of the i-th question; false: there are no more. The most important come first.
	 */
	bool (*question)(void *context, size_t i, char text[VIEW_QUERY_SIZE]);
	bool (*stopped)(void *context); /* true ends the writing with PTAH_E_END. NULL: never */
	void *context;
	uint64_t most; /* bytes of the file; 0: no limit */
};

struct view_page_result {
	uint64_t bytes;		  /* of the file */
	size_t answers, left_out; /* left out because they did not fit */
};

/*
 * Questions that differ in `from` and `to` alone and follow each other are pieces of one answer:
 * all are written or none. When one does not fit, those after it are left out that differ from it
 * in `from`, `to` and `unit` alone (they are finer), and others are still tried. Refused questions
 * (those without status 200) are not written.
 *
 * Returns 0, PTAH_E_NOMEM, PTAH_E_END, PTAH_E_NOSPACE when not even the first question fits, or
 * PTAH_E_INVAL when an answer has the status 503.
 */
int view_page_write(const struct view_page *page, struct out *out, struct view_page_result *result);

#endif
