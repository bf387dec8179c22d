/* SPDX-License-Identifier: MIT */
/*
 * Traces as packet text, items as text: "PSB; PSBEND; TIP.PGE 0x401000" is
 * decoded whole and in chunks of 1 and 7 bytes, and each time gives the items
 * that the test expects, one a line:
 *
 *	psb noip status;
 *	enabled ip=401000;
 *
 * Fields that are 0 are left out, and so are the clocks. Lines of traces and
 * of items end with ';'.
 */
#ifndef PTAH_TESTS_EVENT_STORY_H
#define PTAH_TESTS_EVENT_STORY_H

#include "test.h"

#include <ptah/base.h>
#include <ptah/event.h>

#include <stdio.h>
#include <string.h>

/* A PSB+ while tracing is off, and one while it is on at an address, without other state. */
#define OFF "PSB; PSBEND; "
#define ON  "PSB; FUP 0x401000; PSBEND; "

/* The items of these two. ON: as the first PSB+ of a trace. */
#define IS_OFF "psb noip status; "
#define IS_ON  "psb status ip=401000; "

struct story {
	uint8_t bytes[8192];
	size_t size;
	char text[16384];
	size_t length;
};

/* Makes the bytes of a trace; "? 0c 0d" stands for those bytes. */
static inline void story_assemble(struct story *story, const char *trace)
{
	struct ptah_packet_parser parser = {0};

	story->size = 0;
	while (*trace) {
		char line[256];
		size_t n = strcspn(trace, ";");
		int size;

		assert_true(n < sizeof(line));
		memcpy(line, trace, n);
		line[n] = '\0';
		trace += n + (trace[n] == ';');
		size = ptah_packet_parse(&parser, line, story->bytes + story->size,
					 sizeof(story->bytes) - story->size);
		if (size < 0)
			fail_msg("\"%s\": %s, not %s", line, parser.expected, line + parser.at);
		story->size += (size_t)size;
	}
}

static inline void story_put(struct story *story, const char *name, uint64_t value)
{
	if (value)
		story->length += (size_t)snprintf(story->text + story->length,
						  sizeof(story->text) - story->length, " %s=%llx",
						  name, (unsigned long long)value);
}

static inline void story_word(struct story *story, const char *word)
{
	story->length += (size_t)snprintf(story->text + story->length,
					  sizeof(story->text) - story->length, "%s", word);
	assert_true(story->length < sizeof(story->text) - 256);
}

static inline void story_item(struct story *story, const struct ptah_item *item)
{
	static const struct {
		uint8_t flag;
		const char *word;
	} flags[] = {
	    {PTAH_ITEM_IP_SUPPRESSED, " noip"}, {PTAH_ITEM_STATUS, " status"},
	    {PTAH_ITEM_TRUNCATED, " cut"},	{PTAH_ITEM_TAKEN, " taken"},
	    {PTAH_ITEM_SPECULATIVE, " spec"},	{PTAH_ITEM_ABORTED, " aborted"},
	    {PTAH_ITEM_NON_ROOT, " nr"},
	};
	static const char *const modes[] = {" ?", " 16-bit", " 32-bit", " 64-bit"};

	story_word(story, ptah_item_name(item->type));
	if (item->type == PTAH_ITEM_EXEC_MODE)
		story_word(story, modes[item->mode]);
	if (item->type == PTAH_ITEM_ERROR) {
		story_word(story, " ");
		story_word(story, ptah_error_name(item->status));
	}
	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
		if (item->flags & flags[i].flag)
			story_word(story, flags[i].word);
	story_put(story, "ip", item->ip);
	story_put(story, "to", item->to);
	if (item->type != PTAH_ITEM_BLOCK && item->type != PTAH_ITEM_ERROR) /* a space */
		story_put(story, "value", item->value);
	if (item->type != PTAH_ITEM_ERROR)
		story_put(story, "count", item->count);
	if (item->type != PTAH_ITEM_BLOCK)
		story_put(story, "detail", item->detail);
	story_word(story, "; ");
}

static inline void story_decode(struct story *story, const struct ptah_event_config *config,
				size_t chunk)
{
	struct ptah_event_decoder *d;
	struct ptah_item items[3];
	size_t at = 0;
	int n;

	story->length = 0;
	story->text[0] = '\0';
	assert_int_equal(ptah_event_decoder_new(config, &d), 0);
	for (;;) {
		size_t left = story->size - at, size = left < chunk ? left : chunk;
		uint8_t copy[sizeof(story->bytes)];

		memcpy(copy, story->bytes + at, size);
		assert_int_equal(ptah_event_feed(d, copy, size, size == left), 0);
		while ((n = ptah_event_read(d, items, 3)) > 0)
			for (int i = 0; i < n; i++)
				story_item(story, &items[i]);
		assert_int_equal(n, 0);
		memset(copy, 0xa5, size); /* the decoder must not read there any more */
		if (size == left)
			break;
		at += size;
	}
	ptah_event_decoder_free(d);
}

/* Expects the same items however the trace is cut. `config` may be NULL. */
static inline void story_check(const struct ptah_event_config *config, const char *trace,
			       const char *expected)
{
	static const size_t chunks[] = {8192, 1, 7};
	static struct story story;

	story_assemble(&story, trace);
	for (size_t i = 0; i < sizeof(chunks) / sizeof(*chunks); i++) {
		story_decode(&story, config, chunks[i]);
		assert_string_equal(story.text, expected);
	}
}

#endif
