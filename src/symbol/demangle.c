/* SPDX-License-Identifier: MIT */
/*
 * Demangling by GNU's libiberty, whose demanglers gdb, perf and binutils use as well. They refuse
 * names that nest too deeply; what they write is not bounded, as a part of a name may refer to
 * earlier parts twice and so double at each step. So their text is taken piece by piece, and left
 * off by a jump when it becomes too long.
 */
#include <ptah/symbol.h>

#include "base/text.h"

#include <ctype.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <string.h>

/* libiberty refuses names of more than half its limit of nesting (2048), which are longer. */
#define NAME_MAX_BYTES 4096
#define WHOLE_MAX      16384
/* A function pointer has a lifetime or two of its own. */
#define LIFETIMES_MAX 1000

/* Template parameters with arguments, in a name with a conversion operator. */
#define CONVERSIONS_MAX 12

struct output {
	char *text;
	size_t used, size;
	bool rust;
	jmp_buf too_long;
};

/*
 * libiberty's demangler for C++ owns no memory here. That for Rust does while it writes an
 * identifier that is not ASCII, which begins with no punctuation; so it is left at the next
 * punctuation.
 */
static bool may_leave(const struct output *o, const char *piece)
{
	return !o->rust || (*piece && strchr("<>()[]{},:;&*!= ", *piece));
}

static void append_demangled(const char *piece, size_t n, void *context)
{
	struct output *o = context;

	if (!n)
		return;
	if (n >= o->size - o->used) {
		o->used = o->size;
		if (may_leave(o, piece))
			longjmp(o->too_long, 1);
		return;
	}
	memcpy(o->text + o->used, piece, n);
	o->used += n;
}

typedef int demangler(const char *mangled, int options, demangle_callbackref callback,
		      void *context);

/* Writes the demangled name into `text`. False: it is not of this kind, or too long. */
static bool demangle_as(demangler *demangle, const char *name, int options, char *text, size_t size)
{
	struct output o = {.text = text, .size = size, .rust = demangle == rust_demangle_callback};

	if (setjmp(o.too_long) || !demangle(name, options, append_demangled, &o) ||
	    o.used >= o.size)
		return false;
	text[o.used] = '\0';
	return o.used > 0;
}

static unsigned base62(char digit)
{
	if (digit >= '0' && digit <= '9')
		return (unsigned)(digit - '0');
	return digit >= 'a' ? (unsigned)(digit - 'a' + 10) : (unsigned)(digit - 'A' + 36);
}

/*
 * A function pointer or trait object in a name of Rust may declare any number of lifetimes: "FG",
 * a number in base 62, "_". libiberty counts them out one by one, also in parts of the name that it
 * does not write, where nothing could stop it. Their sum, because a name may have many such parts.
 */
static bool few_lifetimes(const char *name)
{
	uint64_t sum = 0;

	for (const char *p = name; (p = strchr(p, 'G')); p++) {
		uint64_t number = 0;
		const char *digit = p + 1;

		if (p == name || (p[-1] != 'F' && p[-1] != 'D'))
			continue;
		for (; isalnum((unsigned char)*digit) && number <= LIFETIMES_MAX; digit++)
			number = number * 62 + base62(*digit);
		sum += *digit == '_' && digit == p + 1 ? 1 : number + 2;
		if (sum > LIFETIMES_MAX)
			return false;
	}
	return true;
}

/*
 * After a conversion operator ("cv"), libiberty reads the template arguments of a template
 * parameter ("T_I", "T0_I") twice, because they may be the operator's own: those that are nested in
 * n others 2^n times. A name of 100 characters would take longer than anybody waits.
 */
static bool few_conversions(const char *name)
{
	const char *p = strstr(name, "cv");
	unsigned n = 0;

	if (!p)
		return true;
	while ((p = strchr(p, 'T'))) {
		p += strspn(p, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
		n += p[0] == '_' && p[1] == 'I';
	}
	return n <= CONVERSIONS_MAX;
}

static bool demangle_name(const char *name, unsigned flags, char *text, size_t size)
{
	const bool parameters = flags & PTAH_DEMANGLE_PARAMETERS;
	char whole[WHOLE_MAX];
	const char *clone;

	if (!few_conversions(name))
		return false;
	/* The old names of Rust are names of C++ as well, with a hash at the end. */
	if ((name[1] != 'R' || few_lifetimes(name)) &&
	    demangle_as(rust_demangle_callback, name, DMGL_NO_OPTS, text, size))
		return true;
	if (parameters)
		return demangle_as(cplus_demangle_v3_callback, name, DMGL_PARAMS | DMGL_ANSI, text,
				   size);
	/* Without parameters, what follows the name is not looked at: it could be anything. */
	if (!demangle_as(cplus_demangle_v3_callback, name, DMGL_PARAMS | DMGL_ANSI, whole,
			 sizeof(whole)) ||
	    !demangle_as(cplus_demangle_v3_callback, name, DMGL_NO_OPTS, text, size))
		return false;
	/* It is left out as well, which would make "f.cold" and "f" the same. */
	clone = strstr(whole, " [clone ");
	if (!clone || strstr(text, " [clone "))
		return true;
	if (strlen(clone) >= size - strlen(text))
		return false;
	strcat(text, clone);
	return true;
}

const char *ptah_symbol_demangle(const char *name, unsigned flags, char *text, size_t size)
{
	char bare[NAME_MAX_BYTES];
	const char *version;
	size_t n, used;

	if (!name || !text || !size || name[0] != '_' || (name[1] != 'Z' && name[1] != 'R'))
		return name;
	version = strchr(name, '@');
	n = version ? (size_t)(version - name) : strlen(name);
	if (n >= sizeof(bare))
		return name;
	memcpy(bare, name, n);
	bare[n] = '\0';
	if (!demangle_name(bare, flags, text, size))
		return name;
	used = strlen(text);
	if (strlen(name + n) >= size - used)
		return name;
	strcpy(text + used, name + n);
	return text_is_clean(text) ? text : name;
}

bool ptah_symbol_matches(const char *name, const char *wanted)
{
	char text[WHOLE_MAX];

	if (!name || !wanted)
		return false;
	return !strcmp(name, wanted) ||
	       !strcmp(ptah_symbol_demangle(name, 0, text, sizeof(text)), wanted) ||
	       !strcmp(ptah_symbol_demangle(name, PTAH_DEMANGLE_PARAMETERS, text, sizeof(text)),
		       wanted);
}
