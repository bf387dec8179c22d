/* SPDX-License-Identifier: MIT */
/* Buffered output to a file, a pipe, a pager, standard output or memory (out.h). */
#include "output/out.h"

#include "base/text.h"
#include "output/pager.h"
#include "output/temporary.h"
#include "support/list.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER (256u << 10)

struct out {
	int fd;
	int error;
	char *path;	 /* NULL: standard output */
	char *temporary; /* NULL: standard output, a pipe or a device */
	struct out_look look;
	const char *pager_command; /* NULL: none, or it was started already */
	struct pager *pager;
	bool (*given_up)(bool pager); /* NULL: never */
	bool in_memory;
	char *kept; /* in memory: what was written before `bytes` */
	size_t kept_size, kept_room;
	size_t n;
	char bytes[BUFFER];
};

/*
 * Whether the name stands for standard output: /dev/stdout, /proc/self/fd/1, or its file itself. A
 * file that a shell has opened is not replaced by another one of its name.
 */
static bool is_standard_output(const struct stat *st)
{
	struct stat ours;

	return !fstat(STDOUT_FILENO, &ours) && ours.st_dev == st->st_dev &&
	       ours.st_ino == st->st_ino;
}

/* Opens what the path names. 0, or -1 with errno. */
static int open_file(struct out *o, const char *path)
{
	struct stat st;
	const bool exists = !stat(path, &st);

	if (exists && is_standard_output(&st))
		return 0;
	if (exists && !S_ISREG(st.st_mode)) {
		o->path = strdup(path);
		o->fd = o->path ? open(path, O_WRONLY | O_CLOEXEC) : -1;
	} else { /* only a regular file gets a temporary one first */
		o->path = temporary_target(path);
		o->fd = o->path ? temporary_open(o->path, &o->temporary) : -1;
	}
	if (o->fd >= 0)
		return 0;
	o->fd = STDOUT_FILENO;
	o->temporary = NULL;
	return -1;
}

int out_open(const char *path, struct out **out, struct ptah_message *why)
{
	struct out *o = malloc(sizeof(*o));

	if (!o)
		return PTAH_E_NOMEM;
	memset(o, 0, offsetof(struct out, bytes));
	o->fd = STDOUT_FILENO;
	if (path && strcmp(path, "-") != 0 && open_file(o, path)) {
		const int status = ptah_system_message(why, errno, path, "create");

		out_abort(o);
		return status;
	}
	*out = o;
	return 0;
}

int out_open_memory(struct out **out)
{
	struct out *o = malloc(sizeof(*o));

	if (!o)
		return PTAH_E_NOMEM;
	memset(o, 0, offsetof(struct out, bytes));
	o->fd = STDOUT_FILENO;
	o->in_memory = true;
	*out = o;
	return 0;
}

void out_set_look(struct out *o, const struct out_look *look)
{
	o->look = *look;
}

const struct out_look *out_look(const struct out *o)
{
	return &o->look;
}

void out_set_pager(struct out *o, const char *command)
{
	o->pager_command = command;
}

void out_set_given_up(struct out *o, bool (*given_up)(bool pager))
{
	o->given_up = given_up;
}

static void start_pager(struct out *o)
{
	const char *command = o->pager_command;

	o->pager_command = NULL;
	o->pager = pager_start(command, &o->fd);
}

static void close_file(struct out *o)
{
	if (o->fd == STDOUT_FILENO)
		return;
	if (close(o->fd) && !o->error)
		o->error = errno;
	o->fd = STDOUT_FILENO;
	pager_wait(o->pager, o->given_up);
	o->pager = NULL;
}

/* Moves what waits to the bytes that are kept. */
static void keep_bytes(struct out *o)
{
	if (!o->error && !LIST_ROOM_FOR(o->kept, o->kept_size, o->n, o->kept_room))
		o->error = ENOMEM;
	if (!o->error) {
		memcpy(o->kept + o->kept_size, o->bytes, o->n);
		o->kept_size += o->n;
	}
	o->n = 0;
}

/* A signal ended a write. A pager that is given up is ended, so that writing to it fails. */
static bool is_given_up(const struct out *o)
{
	const bool given_up = o->given_up && o->given_up(o->pager);

	if (given_up && o->pager)
		pager_end(o->pager);
	return given_up && !o->pager;
}

static void write_all(struct out *o, const char *bytes, size_t n)
{
	size_t done = 0;

	while (!o->error && done < n) {
		ssize_t k = write(o->fd, bytes + done, n - done);

		if (k < 0 && errno == EINTR && !is_given_up(o))
			continue;
		if (k < 0)
			o->error = errno;
		else
			done += (size_t)k;
	}
}

/* Writes the first `n` of the bytes that wait. */
static void write_bytes(struct out *o, size_t n)
{
	if (o->in_memory) {
		if (n)
			keep_bytes(o);
		return;
	}
	if (o->pager_command && n)
		start_pager(o);
	write_all(o, o->bytes, n);
	o->n -= n;
	memmove(o->bytes, o->bytes + n, o->n);
}

void out_flush(struct out *o)
{
	write_bytes(o, o->n);
}

/* Makes room. A pager gets whole lines, because messages on standard error go to it as well. */
static void write_full(struct out *o)
{
	const char *end = o->pager || o->pager_command ? memrchr(o->bytes, '\n', o->n) : NULL;

	write_bytes(o, end ? (size_t)(end + 1 - o->bytes) : o->n);
}

void out_abort(struct out *o)
{
	if (!o)
		return;
	close_file(o);
	if (o->temporary)
		unlink(o->temporary);
	free(o->path);
	free(o->temporary);
	free(o->kept);
	free(o);
}

const char *out_written(struct out *o, size_t *n)
{
	const char *bytes = o->bytes;

	*n = o->n;
	if (!o->kept_size)
		return bytes;
	out_flush(o);
	*n = o->kept_size;
	return o->kept;
}

void out_clear(struct out *o)
{
	o->n = o->kept_size = 0;
}

void *out_take(struct out *o, size_t *n)
{
	char *kept = NULL;

	out_char(o, '\0'); /* so that there is a byte to return, and text ends */
	out_flush(o);
	if (!o->error) {
		kept = o->kept;
		*n = o->kept_size - 1;
		o->kept = NULL;
	}
	out_abort(o);
	return kept;
}

int out_close(struct out *o, struct ptah_message *why)
{
	int status = 0;

	out_flush(o);
	close_file(o);
	if (!o->error && o->temporary && rename(o->temporary, o->path))
		o->error = errno;
	if (o->error && o->error != EPIPE)
		status = ptah_system_message(why, o->error, o->path ? o->path : "standard output",
					     "write");
	if (!o->error) {
		free(o->temporary);
		o->temporary = NULL;
	}
	out_abort(o);
	return status;
}

bool out_failed(const struct out *o)
{
	return o->error != 0;
}

void out_bytes(struct out *o, const char *bytes, size_t n)
{
	while (n) {
		size_t k = sizeof(o->bytes) - o->n;

		if (k > n)
			k = n;
		memcpy(o->bytes + o->n, bytes, k);
		o->n += k;
		bytes += k;
		n -= k;
		if (o->n == sizeof(o->bytes))
			write_full(o);
	}
}

void out_pass(struct out *o, const char *bytes, size_t n)
{
	if (o->in_memory || o->pager || o->pager_command || n < OUT_ROOM / 2) {
		out_bytes(o, bytes, n);
		return;
	}
	out_flush(o);
	write_all(o, bytes, n);
}

char *out_room(struct out *o, size_t n)
{
	if (sizeof(o->bytes) - o->n < n)
		write_full(o);
	if (sizeof(o->bytes) - o->n < n) /* the rest of a long line is left */
		out_flush(o);
	return o->bytes + o->n;
}

void out_advance(struct out *o, const char *end)
{
	o->n = (size_t)(end - o->bytes);
}

void out_text(struct out *o, const char *text)
{
	out_bytes(o, text, strlen(text));
}

void out_char(struct out *o, char c)
{
	out_bytes(o, &c, 1);
}

void out_clean(struct out *o, const char *text)
{
	size_t n;

	for (; *text; text += n) {
		if (text_is_harmful(text_character(text, &n)))
			out_char(o, '?');
		else
			out_bytes(o, text, n);
	}
}

void out_decimal(struct out *o, uint64_t value)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	out_bytes(o, digits + at, sizeof(digits) - at);
}

void out_signed(struct out *o, int64_t value)
{
	if (value < 0)
		out_char(o, '-');
	out_decimal(o, value < 0 ? -(uint64_t)value : (uint64_t)value);
}

void out_hex(struct out *o, uint64_t value)
{
	char digits[16];
	size_t at = sizeof(digits);

	do {
		digits[--at] = "0123456789abcdef"[value & 15];
		value >>= 4;
	} while (value);
	out_bytes(o, digits + at, sizeof(digits) - at);
}

/* The 8 digits of a number as bytes of a word, the first digit in the lowest. */
static uint64_t hex_digits(uint32_t value)
{
	uint64_t x = __builtin_bswap32(value), above_nine;

	x = (x | x << 16) & UINT64_C(0x0000ffff0000ffff);
	x = (x | x << 8) & UINT64_C(0x00ff00ff00ff00ff);
	x = (x >> 4 | x << 8) & UINT64_C(0x0f0f0f0f0f0f0f0f); /* the upper half of a byte first */
	above_nine = (x + UINT64_C(0x0606060606060606)) >> 4 & UINT64_C(0x0101010101010101);
	return x + UINT64_C(0x3030303030303030) + above_nine * ('a' - '0' - 10);
}

char *text_hex(char *text, uint64_t value)
{
	const uint64_t digits[] = {hex_digits((uint32_t)(value >> 32)),
				   hex_digits((uint32_t)value)};

	memcpy(text, digits, sizeof(digits));
	return text + sizeof(digits);
}

char *text_seconds(char *text, uint64_t nanoseconds)
{
	uint64_t seconds = nanoseconds / 1000000000, fraction = nanoseconds % 1000000000;
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + seconds % 10);
		seconds /= 10;
	} while (seconds);
	memcpy(text, digits + at, sizeof(digits) - at);
	text += sizeof(digits) - at;
	*text = '.';
	for (int i = 9; i; i--) {
		text[i] = (char)('0' + fraction % 10);
		fraction /= 10;
	}
	return text + 10;
}

void out_seconds(struct out *o, uint64_t nanoseconds)
{
	char text[32];

	out_bytes(o, text, (size_t)(text_seconds(text, nanoseconds) - text));
}

void out_format(struct out *o, const char *format, ...)
{
	char text[1024];
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (n > 0)
		out_bytes(o, text, (size_t)n < sizeof(text) ? (size_t)n : sizeof(text) - 1);
}
