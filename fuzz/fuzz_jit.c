/* SPDX-License-Identifier: MIT */
/*
 * Proves of what runtimes write about the code that they generate: any map for perf and any jitdump
 * is read or refused. What is found at an address has a name and contains the address. In a map the
 * last line that has the address is found, as a plain loop over the lines finds it. A file that is
 * read while it grows gives the same answers as the whole one.
 *
 * Input: a byte, odd for a jitdump, which says where the file is cut while it grows; then the file.
 */
#include "fuzz.h"

#include "symbol/jit.h"

#include <ptah/base.h>

#include <sys/mman.h>
#include <unistd.h>

/* The name on the last line that has the address, as sscanf() reads it; NULL: none. */
static const char *plain_search(const char *text, uint64_t address, char name[64])
{
	const char *found = NULL;
	char line[128];

	for (const char *p = text; *p;) {
		size_t n = strcspn(p, "\n");
		unsigned long long start, size;
		char one[64];

		snprintf(line, sizeof(line), "%.*s", (int)n, p);
		p += n + (p[n] == '\n');
		if (sscanf(line, "%llx %llx %63s", &start, &size, one) != 3 ||
		    address - start >= size || size > UINT64_MAX - start)
			continue;
		strcpy(name, one);
		found = name;
	}
	return found;
}

/* Takes a word of 1 to `most` of these characters. False when there is none. */
static bool take_word(const char **p, const char *characters, size_t most)
{
	size_t n = strspn(*p, characters);

	*p += n;
	return n && n <= most;
}

/* Whether the lines are so plain that sscanf() reads them as the format says. */
static bool is_plain(const char *p)
{
	static const char hex[] = "0123456789abcdef";

	while (*p)
		if (!take_word(&p, hex, 16) || *p++ != ' ' || !take_word(&p, hex, 16) ||
		    *p++ != ' ' || !take_word(&p, "ghijklmnopqrstuvwxyz", 32) || *p++ != '\n')
			return false;
	return true;
}

static void look_up(const struct symbol_jit *jit, uint64_t address, uint64_t tsc, const char *text)
{
	const struct symbol_jit_code *code;
	const char *file, *expected = NULL;
	uint64_t low, high;
	unsigned line;
	char name[64];

	code = symbol_jit_find(jit, address, tsc, &low, &high);
	if (text) {
		expected = plain_search(text, address, name);
		CHECK(!code == !expected);
	}
	if (!code)
		return;
	CHECK(low <= address && address < high);
	CHECK(code->head <= low && high - code->head <= code->size);
	CHECK(*symbol_jit_name(jit, code));
	if (expected)
		CHECK(!strcmp(symbol_jit_name(jit, code), expected));
	if (symbol_jit_line(jit, code, address - code->head, &file, &line))
		CHECK(strlen(file) < code->debug_size);
	if (code->bytes)
		CHECK(code->bytes >= jit->file &&
		      code->bytes + code->size <= jit->file + jit->file_size);
}

static void compare(const struct symbol_jit *a, const struct symbol_jit *b, uint64_t address,
		    uint64_t tsc)
{
	uint64_t low[2], high[2];
	const struct symbol_jit_code *x = symbol_jit_find(a, address, tsc, &low[0], &high[0]);
	const struct symbol_jit_code *y = symbol_jit_find(b, address, tsc, &low[1], &high[1]);
	const char *file[2];
	unsigned line[2];
	bool known;

	CHECK(!x == !y);
	if (!x)
		return;
	CHECK(!strcmp(x->name, y->name) && low[0] == low[1] && high[0] == high[1]);
	CHECK(x->head == y->head && x->size == y->size && x->from == y->from);
	CHECK(!x->bytes == !y->bytes && (!x->bytes || !memcmp(x->bytes, y->bytes, x->size)));
	known = symbol_jit_line(a, x, address - x->head, &file[0], &line[0]);
	CHECK(known == symbol_jit_line(b, y, address - y->head, &file[1], &line[1]));
	CHECK(!known || (line[0] == line[1] && !strcmp(file[0], file[1])));
}

/* Reads the file while it grows by `step` bytes at a time, and compares. */
static void grow(const struct symbol_jit *whole, int status, const uint8_t *data, size_t size,
		 bool dump, size_t step)
{
	const int fd = memfd_create("list", MFD_CLOEXEC);
	struct symbol_jit_file file;
	struct symbol_jit jit = {0};
	int64_t n = 0;

	CHECK(fd >= 0);
	symbol_jit_file_init(&file, fd, dump, true);
	for (size_t done = 0; done < size && n >= 0;) {
		const size_t part = step < size - done ? step : size - done;

		CHECK(pwrite(fd, data + done, part, (off_t)done) == (ssize_t)part);
		done += part;
		n = symbol_jit_file_more(&file, &jit, 1 << 20, done == size);
		CHECK(n != PTAH_E_SYSTEM && symbol_jit_index(&jit) >= 0);
	}
	/* A header that is longer than the file is none of a whole file. */
	if (status < 0)
		CHECK(n < 0 || !jit.count);
	else
		CHECK(n >= 0);
	for (size_t i = 0; i < whole->count && i < 64 && status >= 0; i++) {
		const struct symbol_jit_code *c = &whole->codes[i];

		compare(whole, &jit, c->start, c->from);
		compare(whole, &jit, c->end - 1, 0);
		compare(whole, &jit, c->end, c->from);
		CHECK(symbol_jit_until(whole, c->start, c->from) ==
		      symbol_jit_until(&jit, c->start, c->from));
	}
	symbol_jit_file_close(&file);
	symbol_jit_free(&jit);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct symbol_jit jit;
	char path[64], *text;
	int fd, status;
	size_t step;
	bool dump;

	if (!size)
		return 0;
	step = 1 + (size_t)(*data >> 1) * 4;
	dump = *data++ & 1;
	size--;
	fd = memfd_create("jit", 0);
	CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	text = calloc(1, size + 1);
	CHECK(text);
	memcpy(text, data, size);
	status = dump ? symbol_jitdump_read(path, &jit) : symbol_perf_map_read(path, false, &jit);
	CHECK(status >= 0 || dump);
	close(fd);
	grow(&jit, status, data, size, dump, step);
	if (status < 0) {
		free(text);
		return 0;
	}
	for (size_t i = 0; i < jit.count && i < 64; i++) {
		const struct symbol_jit_code *c = &jit.codes[i];
		const char *judge = !dump && strlen(text) == size && is_plain(text) ? text : NULL;
		const uint64_t at[] = {c->start, c->end - 1, c->start - 1, c->end, c->head};

		for (size_t k = 0; k < sizeof(at) / sizeof(*at); k++) {
			look_up(&jit, at[k], 0, judge);
			look_up(&jit, at[k], c->from, judge);
		}
	}
	symbol_jit_free(&jit);
	free(text);
	return 0;
}
