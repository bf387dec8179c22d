/* SPDX-License-Identifier: MIT */
/*
 * The kernel over time: where it and its modules lay, which code it loaded and changed while it was
 * recorded (records KSYMBOL, BPF_EVENT and TEXT_POKE of perf_event.h).
 *
 * The kernel changes its code everywhere at once, so there is one list of changes for all streams.
 * Its beginning, with time 0, is in the session's image of the kernel; each stream applies the rest
 * as time passes.
 */
#include "session/records.h"

#include "base/bits.h"

#include <string.h>

/*
 * The kernel itself is "[kernel.kallsyms]_text": its name, and a symbol whose address is in the
 * place of the file offset (tools/perf/util/synthetic-events.c, "kernel mmap").
 */
int session_on_kernel_map(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc)
{
	static const char name[] = "[kernel.kallsyms]";
	const size_t n = sizeof(name) - 1;
	struct change change = {
	    .type = CHANGE_MAP, .tsc = tsc, .address = r->address, .size = r->size, .id = r->id};

	if (r->address < KERNEL_HALF || r->pid != -1)
		return 0;
	if (r->text_size < n || memcmp(r->text, name, n) != 0) {
		change.path = strings_keep(&s->paths, r->text, r->text_size);
		return change.path ? session_append_change(&s->kernel.maps, &change) : PTAH_E_NOMEM;
	}
	/* An offset from the symbol is the same whenever this kernel runs, wherever it lies. */
	change.file_offset = r->address >= r->file_offset ? r->address - r->file_offset : 0;
	change.path = strings_keep(&s->paths, name, n);
	if (r->text_size - n < sizeof(s->kernel.symbol) && r->file_offset >= KERNEL_HALF) {
		memset(s->kernel.symbol, 0, sizeof(s->kernel.symbol));
		memcpy(s->kernel.symbol, r->text + n, r->text_size - n);
		s->kernel.address = r->file_offset;
		s->kernel.id = r->id;
	}
	return change.path ? session_append_change(&s->kernel.maps, &change) : PTAH_E_NOMEM;
}

int session_on_ksymbol(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc)
{
	const struct change change = {
	    .type = r->removed ? CHANGE_GONE : CHANGE_MAP,
	    .tsc = tsc,
	    .address = r->address,
	    .size = r->size,
	    .path = strings_keep(&s->paths, r->text, r->text_size),
	};

	if (!change.path)
		return PTAH_E_NOMEM;
	if (r->address < KERNEL_HALF || !session_is_range(r->address, r->size) || !*change.path)
		return 0;
	return session_append_change(&s->kernel.functions, &change);
}

/* These records are of the whole system, also in a recording of user code alone. */
static bool is_used(const struct ptah_session *s)
{
	return perfdata_has_kernel(s->file) && !s->config.no_images;
}

int session_on_poke(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc)
{
	const struct change change = {
	    .type = CHANGE_POKE,
	    .tsc = tsc,
	    .address = r->address,
	    .size = r->size,
	    .old_size = (uint16_t)r->old_size,
	    .bytes = r->bytes + r->old_size,
	};

	if (!is_used(s) || r->address < KERNEL_HALF ||
	    r->address > UINT64_MAX - 2 * (uint64_t)UINT16_MAX)
		return 0;
	return session_append_change(&s->kernel.code, &change);
}

/* Programs of BPF */

/* A recording may repeat the events of a large program: more functions than this are not used. */
#define FUNCTIONS_MAX ((size_t)1 << 20)

static int list_programs(struct ptah_session *s)
{
	struct perfdata_program p;
	size_t at = 0, from = 0;
	int status = 0;

	s->kernel.has_programs = true;
	while (status >= 0 && perfdata_next_program(s->file, &at, &p)) {
		status = table_set(&s->kernel.programs, p.id, from);
		from = at;
	}
	return status;
}

/* The code of a program appears, or vanishes. */
static int add_functions(struct ptah_session *s, const struct perfdata_program *p, bool removed,
			 uint64_t tsc)
{
	const uint8_t *code = p->code;
	size_t left = p->code_size;
	int status = 0;

	for (size_t i = 0; i < p->count && status >= 0; i++) {
		const size_t size = p->sizes ? load_le32(p->sizes + 4 * i) : left;
		const struct change change = {
		    .type = removed ? CHANGE_GONE : CHANGE_CODE,
		    .tsc = tsc,
		    .address = load_le64(p->addresses + 8 * i),
		    .size = size,
		    .bytes = code,
		};

		if (size > left || s->kernel.code.count >= FUNCTIONS_MAX)
			break;
		code += size;
		left -= size;
		if (change.address >= KERNEL_HALF && session_is_range(change.address, size))
			status = session_append_change(&s->kernel.code, &change);
	}
	return status;
}

int session_on_bpf(struct ptah_session *s, const struct perfdata_record *r, uint64_t tsc)
{
	struct perfdata_program p;
	size_t at;
	int status = 0;

	if (!is_used(s))
		return 0;
	if (!s->kernel.has_programs)
		status = list_programs(s);
	if (status < 0)
		return status;
	at = table_get(&s->kernel.programs, r->program);
	if (at == SESSION_NONE || !perfdata_next_program(s->file, &at, &p))
		return 0;
	return add_functions(s, &p, r->removed, tsc);
}

/* The image */

/* Puts bytes in the place of `was` bytes. */
static int replace(struct ptah_image *image, uint64_t address, uint64_t was, const uint8_t *bytes,
		   size_t n)
{
	int status = 0;

	if (was > n)
		status = ptah_image_remove(image, address + n, was - n, NULL);
	if (n && status >= 0)
		status = ptah_image_add_bytes(image, bytes, n, address, NULL);
	return status;
}

int kernel_apply(struct ptah_image *image, const struct change *c)
{
	switch (c->type) {
	case CHANGE_POKE:
		return replace(image, c->address, c->old_size, c->bytes, (size_t)c->size);
	case CHANGE_CODE:
		return ptah_image_add_bytes(image, c->bytes, (size_t)c->size, c->address, NULL);
	default:
		return ptah_image_remove(image, c->address, c->size, NULL);
	}
}

void kernel_find_later(struct kernel *k)
{
	while (k->later < k->code.count && !k->code.changes[k->later].tsc)
		k->later++;
}

/*
 * What changed later was the old bytes at first, whatever the file has: vmlinux lacks what was
 * changed before the recording, and the running kernel has all of it. So the changes are undone
 * from the last to the first.
 */
int kernel_begin(struct kernel *k)
{
	int status = 0;

	if (!k->code.count)
		return 0;
	if (!k->image)
		status = ptah_image_new(&k->image);
	for (size_t i = k->code.count; i-- > 0 && status >= 0;) {
		const struct change *c = &k->code.changes[i];

		if (c->type == CHANGE_POKE)
			status = replace(k->image, c->address, c->size, c->bytes - c->old_size,
					 c->old_size);
	}
	for (size_t i = 0; i < k->later && status >= 0; i++)
		status = kernel_apply(k->image, &k->code.changes[i]);
	return status;
}
