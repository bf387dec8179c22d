/* SPDX-License-Identifier: MIT */
/*
 * Proves of the text of trace sets (ptah.trace): any text is read or refused with a message that
 * names the line; what was read and written is read again; and what is written of that is the same
 * text.
 *
 * Input: the text.
 */
#include "fuzz.h"

#include "traceset/text.h"

/* The set of a text; NULL: it is refused. */
static struct ptah_trace_set *read_text(const void *text, size_t n, struct ptah_message *why)
{
	char *copy = malloc(n + 1);
	struct ptah_trace_set *set;
	int status;

	CHECK(copy && !ptah_trace_set_new(&set) && !traceset_set_folder(set, "/folder"));
	memcpy(copy, text, n);
	status = traceset_parse_text("NAME", copy, n, set, why);
	CHECK(status <= 0);
	free(copy);
	if (!status)
		return set;
	ptah_trace_set_free(set);
	return NULL;
}

static char *write_text(const struct ptah_trace_set *set, size_t *n)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, n);

	CHECK(f);
	traceset_write_text(set, "/folder", f);
	CHECK(!fclose(f) && text);
	return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ptah_message why = {""};
	struct ptah_trace_set *set = read_text(data, size, &why), *again;
	char *text, *same;
	size_t n, n_same;

	if (!set) {
		CHECK(!strncmp(why.text, "NAME:", 5) && strlen(why.text) > 10);
		return 0;
	}
	text = write_text(set, &n);
	again = read_text(text, n, &why);
	CHECK(again);
	same = write_text(again, &n_same);
	CHECK(n == n_same && !memcmp(text, same, n));
	CHECK(set->stream_count == again->stream_count && set->code_count == again->code_count &&
	      set->switch_count == again->switch_count && set->note_count == again->note_count);
	ptah_trace_set_free(set);
	ptah_trace_set_free(again);
	free(text);
	free(same);
	return 0;
}
