/* SPDX-License-Identifier: MIT */
/*
 * Offsets of struct members from BTF, the type information that Linux keeps in its own memory
 * (between __start_BTF and __stop_BTF). The bytes come from a guest: nothing in them is believed.
 */
#ifndef PTAH_RECORD_SYSTEM_BTF_H
#define PTAH_RECORD_SYSTEM_BTF_H

#include <stddef.h>
#include <stdint.h>

/*
 * The offset in bytes of a member of the struct `type`; members of anonymous structs and unions
 * inside it are found too. `size` bytes at `btf` begin with the header. PTAH_E_MISSING when there
 * is no such struct or member, or it is a bit field; PTAH_E_BAD_MAGIC or PTAH_E_BAD_FILE when the
 * bytes are no BTF; PTAH_E_NOMEM.
 */
int btf_member(const uint8_t *btf, size_t size, const char *type, const char *member,
	       uint32_t *offset);

#endif
