/* SPDX-License-Identifier: MIT */
/* Reads maps that runtimes write for perf, /tmp/perf-PID.map (jit.h). */
#include "symbol/jit.h"

#include <ptah/base.h>

#include <stdlib.h>
#include <string.h>

/* Reads a hexadecimal number. False when there is none, or one of more than 64 bits. */
static bool read_hex(const char **p, const char *end, uint64_t *value)
{
	const char *begin;

	if (end - *p > 2 && (*p)[0] == '0' && ((*p)[1] == 'x' || (*p)[1] == 'X'))
		*p += 2;
	begin = *p;
	*value = 0;
	for (; *p < end; ++*p) {
		const char c = **p;
		unsigned digit;

		if (c >= '0' && c <= '9')
			digit = (unsigned)(c - '0');
		else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
			digit = (unsigned)((c | 0x20) - 'a') + 10;
		else
			break;
		if (*value >> 60)
			return false;
		*value = *value << 4 | digit;
	}
	return *p > begin;
}

static bool skip_blanks(const char **p, const char *end)
{
	const char *begin = *p;

	while (*p < end && (**p == ' ' || **p == '\t'))
		++*p;
	return *p > begin;
}

static void read_perf_map_line(struct symbol_jit *jit, const char *p, const char *end)
{
	const size_t order = jit->order++;
	uint64_t start, size;

	skip_blanks(&p, end);
	if (!read_hex(&p, end, &start) || !skip_blanks(&p, end) || !read_hex(&p, end, &size) ||
	    !skip_blanks(&p, end))
		return;
	while (end > p && (end[-1] == '\r' || end[-1] == ' '))
		end--;
	if (end == p || !size || size > UINT64_MAX - start)
		return;
	symbol_jit_add(jit, (struct symbol_jit_code){
				.start = start,
				.end = start + size,
				.head = start,
				.size = size,
				.name = symbol_jit_keep_name(jit, p, (size_t)(end - p)),
				.order = order,
			    });
}

size_t symbol_perf_map_take(struct symbol_jit *jit, const uint8_t *bytes, size_t n, bool last)
{
	const char *const begin = (const char *)bytes, *const end = begin + n;
	const char *p = begin;

	jit->no_times = true;
	while (p < end) {
		const char *stop = memchr(p, '\n', (size_t)(end - p));

		if (!stop && !last)
			break;
		stop = stop ? stop : end;
		read_perf_map_line(jit, p, stop);
		p = stop < end ? stop + 1 : end;
	}
	return (size_t)(p - begin);
}

int symbol_perf_map_read(const char *path, bool owner, struct symbol_jit *jit)
{
	uint8_t *bytes;
	size_t size;
	int status = symbol_read_file(path, owner, &bytes, &size);

	*jit = (struct symbol_jit){0};
	if (status < 0)
		return status;
	symbol_perf_map_take(jit, bytes, size, true);
	free(bytes);
	status = symbol_jit_index(jit);
	if (status < 0)
		symbol_jit_free(jit);
	return status;
}
