/* SPDX-License-Identifier: MIT */
/* A block of memory is a VMO, pinned so that it has a physical address, and mapped here. */
#include "memory.h"

/* A chunk that is asked for while the engine lists a capture's memory. */
struct chunk_request {
	uint64_t offset, size;
	zx_handle_t vmo;
};

static zx_handle_t bti, vmar;
static struct chunk_request *wanted;

static void *block_cookie(zx_handle_t vmo, zx_handle_t pmt)
{
	return (void *)(uintptr_t)((uint64_t)pmt << 32 | vmo);
}

static zx_handle_t block_vmo(const struct ptah_hal_memory *block)
{
	return (zx_handle_t)(uintptr_t)block->port;
}

static zx_handle_t block_pmt(const struct ptah_hal_memory *block)
{
	return (zx_handle_t)((uint64_t)(uintptr_t)block->port >> 32);
}

static int fuchsia_alloc(void *port, size_t size, size_t align, struct ptah_hal_memory *memory)
{
	zx_handle_t vmo, pmt;
	zx_vaddr_t address;
	uint32_t log2 = 0;

	(void)port;
	size = (size + 4095) & ~(size_t)4095;
	while (align >> log2 > 1)
		log2++;
	if (zx_vmo_create_contiguous(bti, size, log2, &vmo) != ZX_OK)
		return PTAH_E_NOMEM;
	if (zx_bti_pin(bti, ZX_BTI_PERM_READ | ZX_BTI_PERM_WRITE | ZX_BTI_CONTIGUOUS, vmo, 0, size,
		       &memory->physical, 1, &pmt) != ZX_OK) {
		zx_handle_close(vmo);
		return PTAH_E_NOMEM;
	}
	if (zx_vmar_map(vmar, ZX_VM_PERM_READ | ZX_VM_PERM_WRITE, 0, vmo, 0, size, &address) !=
	    ZX_OK) {
		zx_pmt_unpin(pmt);
		zx_handle_close(vmo);
		return PTAH_E_NOMEM;
	}
	memory->address = (void *)address;
	memory->size = size;
	memory->port = block_cookie(vmo, pmt);
	return PTAH_OK;
}

static void fuchsia_release(void *port, const struct ptah_hal_memory *memory)
{
	(void)port;
	zx_vmar_unmap(vmar, (zx_vaddr_t)memory->address, memory->size);
	zx_pmt_unpin(block_pmt(memory));
	zx_handle_close(block_vmo(memory));
}

/* The engine lists the buffer's blocks, as for a mapping: the chunk is a slice of one of them. */
static int fuchsia_user_map(void *port, uint64_t owner, const struct ptah_hal_memory *pieces,
			    size_t n, bool writable, uint64_t *address)
{
	struct chunk_request *r = wanted;
	uint64_t at = r->offset;
	size_t i;

	(void)port, (void)owner, (void)writable;
	for (i = 0; i < n && at >= pieces[i].size; i++)
		at -= pieces[i].size;
	if (i == n || pieces[i].size - at < r->size ||
	    zx_vmo_create_child(block_vmo(&pieces[i]), ZX_VMO_CHILD_SLICE | ZX_VMO_CHILD_NO_WRITE,
				at, r->size, &r->vmo) != ZX_OK)
		return PTAH_E_NOMEM;
	*address = MEMORY_OWNER;
	return PTAH_OK;
}

static void fuchsia_user_unmap(void *port, uint64_t owner, uint64_t address, size_t size)
{
	(void)port, (void)owner, (void)address, (void)size;
}

void memory_init(struct ptah_hal *hal, zx_handle_t pins, zx_handle_t region)
{
	bti = pins;
	vmar = region;
	hal->alloc = fuchsia_alloc;
	hal->release = fuchsia_release;
	hal->user_map = fuchsia_user_map;
	hal->user_unmap = fuchsia_user_unmap;
}

bool memory_take_chunk(struct ptah_capture *capture, uint32_t chunk, uint64_t size,
		       zx_handle_t *vmo)
{
	struct chunk_request request = {.offset = chunk * size, .size = size};
	uint64_t address;

	wanted = &request;
	if (ptah_capture_map(capture, MEMORY_OWNER, false, &address) < 0)
		return false;
	ptah_capture_unmap(capture, MEMORY_OWNER, address);
	*vmo = request.vmo;
	return true;
}
