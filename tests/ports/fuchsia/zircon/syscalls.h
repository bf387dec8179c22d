/* SPDX-License-Identifier: MIT */
/* What port/fuchsia needs of Zircon, by its documented names: for the model (model.c). */
#ifndef PTAH_TESTS_PORTS_FUCHSIA_ZIRCON_SYSCALLS_H
#define PTAH_TESTS_PORTS_FUCHSIA_ZIRCON_SYSCALLS_H

#include <stddef.h>
#include <stdint.h>

typedef int32_t zx_status_t;
typedef uint32_t zx_handle_t, zx_rights_t, zx_vm_option_t;
typedef uint64_t zx_paddr_t, zx_koid_t;
typedef uintptr_t zx_vaddr_t;

#define ZX_HANDLE_INVALID ((zx_handle_t)0)

#define ZX_OK		      0
#define ZX_ERR_NOT_SUPPORTED  (-2)
#define ZX_ERR_NO_MEMORY      (-4)
#define ZX_ERR_INVALID_ARGS   (-10)
#define ZX_ERR_BAD_HANDLE     (-11)
#define ZX_ERR_BAD_STATE      (-20)
#define ZX_ERR_NOT_FOUND      (-25)
#define ZX_ERR_ALREADY_EXISTS (-26)
#define ZX_ERR_ALREADY_BOUND  (-27)

#define ZX_VM_PERM_READ	      0x1u
#define ZX_VM_PERM_WRITE      0x2u
#define ZX_BTI_PERM_READ      0x1u
#define ZX_BTI_PERM_WRITE     0x2u
#define ZX_BTI_CONTIGUOUS     0x10u
#define ZX_VMO_CHILD_SLICE    0x8u
#define ZX_VMO_CHILD_NO_WRITE 0x10u
#define ZX_INFO_HANDLE_BASIC  2u

typedef struct zx_info_handle_basic {
	zx_koid_t koid;
	zx_rights_t rights;
	uint32_t type;
	zx_koid_t related_koid;
	uint32_t reserved;
	uint8_t padding1[4];
} zx_info_handle_basic_t;

zx_status_t zx_vmo_create_contiguous(zx_handle_t bti, size_t size, uint32_t alignment_log2,
				     zx_handle_t *out);
zx_status_t zx_vmo_create_child(zx_handle_t handle, uint32_t options, uint64_t offset,
				uint64_t size, zx_handle_t *out);
zx_status_t zx_bti_pin(zx_handle_t handle, uint32_t options, zx_handle_t vmo, uint64_t offset,
		       uint64_t size, zx_paddr_t *addrs, size_t num_addrs, zx_handle_t *pmt);
zx_status_t zx_pmt_unpin(zx_handle_t handle);
zx_status_t zx_vmar_map(zx_handle_t handle, zx_vm_option_t options, uint64_t vmar_offset,
			zx_handle_t vmo, uint64_t vmo_offset, uint64_t len,
			zx_vaddr_t *mapped_addr);
zx_status_t zx_vmar_unmap(zx_handle_t handle, zx_vaddr_t addr, uint64_t len);
zx_status_t zx_handle_close(zx_handle_t handle);
zx_status_t zx_object_get_info(zx_handle_t handle, uint32_t topic, void *buffer, size_t size,
			       size_t *actual, size_t *avail);

#endif
