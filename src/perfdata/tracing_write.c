/* SPDX-License-Identifier: MIT */
/* Writes tracing data as tools/perf/util/trace-event-info.c does, there from tracefs. */
#include "perfdata/tracing_data.h"

#include "perfdata/byte_buffer.h"

#include <string.h>

#define PAGE_SIZE 4096

/* perf refuses data without a header page; it does not look at what is in it. */
static const char header_page[] = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
				  "\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n"
				  "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
				  "\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";

static void put_tracing_text(struct perfdata_buffer *b, const char *text, size_t size)
{
	perfdata_put64(b, size);
	perfdata_put(b, text, size);
}

/* How many of the texts from the first on are of its system. */
static size_t count_system(const struct tracing_text *texts, size_t count)
{
	size_t n = 1;

	while (n < count && !strcmp(texts[n].system, texts[0].system))
		n++;
	return n;
}

static void put_systems(struct perfdata_buffer *b, const struct tracing_text *texts, size_t count)
{
	uint32_t systems = 0;

	for (size_t i = 0; i < count; i += count_system(texts + i, count - i))
		systems++;
	perfdata_put32(b, systems);
	for (size_t i = 0, n; i < count; i += n) {
		n = count_system(texts + i, count - i);
		perfdata_put_string(b, texts[i].system, 1);
		perfdata_put32(b, (uint32_t)n);
		for (size_t k = i; k < i + n; k++)
			put_tracing_text(b, texts[k].text, texts[k].size);
	}
}

void tracing_put_formats(struct perfdata_buffer *b, const struct tracing_text *texts, size_t count)
{
	static const uint8_t magic[] = {23, 8, 68};
	static const uint8_t little_endian_and_long[] = {0, 8};

	perfdata_put(b, magic, sizeof(magic));
	perfdata_put(b, "tracing", 7);
	perfdata_put_string(b, "0.6", 1);
	perfdata_put(b, little_endian_and_long, sizeof(little_endian_and_long));
	perfdata_put32(b, PAGE_SIZE);
	perfdata_put_string(b, "header_page", 1);
	put_tracing_text(b, header_page, sizeof(header_page) - 1);
	perfdata_put_string(b, "header_event", 1);
	perfdata_put64(b, 0);
	perfdata_put32(b, 0); /* formats of ftrace itself */
	put_systems(b, texts, count);
	perfdata_put32(b, 0); /* kallsyms */
	perfdata_put32(b, 0); /* formats of printk */
	perfdata_put64(b, 0); /* saved command lines: perf reads them from version 0.6 on */
}
