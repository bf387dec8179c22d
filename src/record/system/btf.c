/* SPDX-License-Identifier: MIT */
/*
 * Reads BTF (Documentation/bpf/btf.rst of Linux): a header, types one after another that refer to
 * each other by number, and strings.
 */
#include "record/system/btf.h"

#include "base/reader.h"

#include <ptah/base.h>

#include <stdlib.h>

#define BTF_MAGIC 0xeb9f
/* Anonymous structs inside each other: Linux has 5. */
#define BTF_DEPTH 16
/* A type that refers to another one: typedef, const and so on. */
#define BTF_ALIASES 16

enum btf_kind {
	BTF_INT = 1,
	BTF_PTR,
	BTF_ARRAY,
	BTF_STRUCT,
	BTF_UNION,
	BTF_ENUM,
	BTF_FWD,
	BTF_TYPEDEF,
	BTF_VOLATILE,
	BTF_CONST,
	BTF_RESTRICT,
	BTF_FUNC,
	BTF_FUNC_PROTO,
	BTF_VAR,
	BTF_DATASEC,
	BTF_FLOAT,
	BTF_DECL_TAG,
	BTF_TYPE_TAG,
	BTF_ENUM64,
	BTF_KINDS
};

/* How many bytes follow the 12 of each type: `fixed`, and `each` for each of its members. */
static const struct {
	uint8_t fixed, each;
} kinds[BTF_KINDS] = {
    [BTF_INT] = {4, 0},	    [BTF_ARRAY] = {12, 0},   [BTF_STRUCT] = {0, 12},
    [BTF_UNION] = {0, 12},  [BTF_ENUM] = {0, 8},     [BTF_FUNC_PROTO] = {0, 8},
    [BTF_VAR] = {4, 0},	    [BTF_DATASEC] = {0, 12}, [BTF_DECL_TAG] = {4, 0},
    [BTF_ENUM64] = {0, 12},
};

struct type {
	uint32_t name, info, reference; /* reference: a size, or the number of another type */
	const uint8_t *members;
};

struct btf {
	const uint8_t *types;
	size_t types_size;
	const char *strings;
	size_t strings_size; /* with a NUL at the end */
	uint32_t *at;	     /* of type n (from 1): its offset in `types` */
	uint32_t count;	     /* types, and one for number 0, which is void */
	uint32_t visits;     /* of members, while one is searched for */
};

static unsigned kind_of(const struct type *t)
{
	return t->info >> 24 & 31;
}

static unsigned members_of(const struct type *t)
{
	return t->info & 0xffff;
}

/* The next type of r. False at the end, or with r->failed where it is not whole. */
static bool read_type(struct reader *r, struct type *t)
{
	unsigned kind;

	if (r->p == r->end)
		return false;
	*t =
	    (struct type){.name = reader_u32(r), .info = reader_u32(r), .reference = reader_u32(r)};
	kind = kind_of(t);
	if (kind == 0 || kind >= BTF_KINDS) {
		r->failed = true;
		return false;
	}
	t->members =
	    reader_bytes(r, kinds[kind].fixed + (uint64_t)kinds[kind].each * members_of(t));
	return t->members != NULL;
}

static bool get_type(const struct btf *b, uint32_t number, struct type *t)
{
	struct reader r;

	if (number == 0 || number >= b->count)
		return false;
	r = (struct reader){.p = b->types + b->at[number], .end = b->types + b->types_size};
	return read_type(&r, t);
}

static const char *string_at(const struct btf *b, uint32_t offset)
{
	return offset < b->strings_size ? b->strings + offset : "";
}

/* Finds the sections. */
static int open_sections(struct btf *b, const uint8_t *bytes, size_t size)
{
	struct reader r = {.p = bytes, .end = bytes + size};
	uint32_t header, type_at, type_size, string_at, string_size;
	const uint8_t *rest;
	size_t left;

	if (reader_u16(&r) != BTF_MAGIC)
		return PTAH_E_BAD_MAGIC;
	reader_u16(&r); /* version, flags */
	header = reader_u32(&r);
	type_at = reader_u32(&r);
	type_size = reader_u32(&r);
	string_at = reader_u32(&r);
	string_size = reader_u32(&r);
	if (r.failed || header < 24 || header > size)
		return PTAH_E_BAD_FILE;
	rest = bytes + header;
	left = size - header;
	if (type_at > left || type_size > left - type_at || string_at > left ||
	    string_size > left - string_at || string_size == 0 ||
	    rest[string_at + string_size - 1] != 0)
		return PTAH_E_BAD_FILE;
	b->types = rest + type_at;
	b->types_size = type_size;
	b->strings = (const char *)rest + string_at;
	b->strings_size = string_size;
	return PTAH_OK;
}

/* Notes where each type is. */
static int list_types(struct btf *b)
{
	struct reader r = {.p = b->types, .end = b->types + b->types_size};
	struct type t;

	/* A type has at least 12 bytes. */
	b->at = malloc((b->types_size / 12 + 1) * sizeof(*b->at));
	if (!b->at)
		return PTAH_E_NOMEM;
	b->at[0] = 0;
	b->count = 1;
	for (;;) {
		uint32_t at = (uint32_t)(r.p - b->types);

		if (!read_type(&r, &t))
			break;
		b->at[b->count++] = at;
	}
	return r.failed ? PTAH_E_BAD_FILE : PTAH_OK;
}

/* The struct or union that type `number` is, behind typedefs and qualifiers. */
static bool get_aggregate(const struct btf *b, uint32_t number, struct type *t)
{
	unsigned n;

	for (n = 0; n < BTF_ALIASES; n++) {
		unsigned kind;

		if (!get_type(b, number, t))
			return false;
		kind = kind_of(t);
		if (kind == BTF_STRUCT || kind == BTF_UNION)
			return true;
		if (kind != BTF_TYPEDEF && kind != BTF_CONST && kind != BTF_VOLATILE &&
		    kind != BTF_TYPE_TAG)
			return false;
		number = t->reference;
	}
	return false;
}

/*
 * Searches an aggregate and the anonymous ones inside it. A malformed file may contain one in
 * several places, or itself: `visits` bounds the work.
 */
static bool find_member(struct btf *b, const struct type *t, const char *name, uint64_t base,
			unsigned depth, uint64_t *bits)
{
	bool packed = t->info >> 31;
	unsigned n;

	for (n = 0; n < members_of(t); n++) {
		const uint8_t *m = t->members + 12u * n;
		const char *own = string_at(b, load_le32(m));
		uint32_t place = load_le32(m + 8);
		uint32_t width = packed ? place >> 24 : 0;
		uint64_t at = base + (packed ? place & 0xffffff : place);
		struct type inner;

		if (b->visits++ > b->types_size)
			return false;
		if (*own && !strcmp(own, name)) {
			*bits = at;
			return width == 0;
		}
		if (!*own && depth && get_aggregate(b, load_le32(m + 4), &inner) &&
		    find_member(b, &inner, name, at, depth - 1, bits))
			return true;
	}
	return false;
}

static int find_btf_member(struct btf *b, const char *type, const char *member, uint32_t *offset)
{
	struct type t;
	uint64_t bits;
	uint32_t n;

	for (n = 1; n < b->count; n++) {
		if (!get_type(b, n, &t) || kind_of(&t) != BTF_STRUCT ||
		    strcmp(string_at(b, t.name), type) != 0)
			continue;
		if (!find_member(b, &t, member, 0, BTF_DEPTH, &bits) || bits % 8 ||
		    bits / 8 >= t.reference)
			return PTAH_E_MISSING;
		*offset = (uint32_t)(bits / 8);
		return PTAH_OK;
	}
	return PTAH_E_MISSING;
}

int btf_member(const uint8_t *btf, size_t size, const char *type, const char *member,
	       uint32_t *offset)
{
	struct btf b = {0};
	int status = open_sections(&b, btf, size);

	if (status == PTAH_OK)
		status = list_types(&b);
	if (status == PTAH_OK)
		status = find_btf_member(&b, type, member, offset);
	free(b.at);
	return status;
}
