/* SPDX-License-Identifier: MIT */
/*
 * The model of Zircon. A VMO lives as long as a handle, a child, a pin or a mapping of it; one that
 * ends while a processor traces fails the test, for the processor would write into memory that
 * belongs to somebody else by then.
 */
#include "insntrace.h"
#include "model.h"

#include "pages.h"
#include "test.h"

#include <stdlib.h>

#define ARENA	 ((size_t)64 << 20)
#define HANDLES	 4096
#define PHYSICAL UINT64_C(0x80000000)

struct vmo {
	unsigned uses; /* handles, children, pins, mappings */
	uint64_t offset, size;
	struct vmo *parent;
	struct ptah_hal_memory memory; /* without a parent */
};

struct handle {
	enum {
		NONE = 0,
		VMO,
		PMT,
		THREAD,
	} type;
	struct vmo *vmo;
	zx_koid_t koid;
};

static struct {
	struct ptah_machine *machine;
	struct ptah_hal hal;
	void *arena;
	unsigned cpus, mappings;
	bool connected;
	size_t most; /* bytes of a block; 0: as many as there are */
	struct handle handles[HANDLES];
} zircon;

static zx_handle_t new_handle(int type, struct vmo *vmo, zx_koid_t koid)
{
	zx_handle_t h = MODEL_VMAR + 1;

	while (zircon.handles[h].type != NONE)
		assert_true(++h < HANDLES);
	zircon.handles[h].type = type;
	zircon.handles[h].vmo = vmo;
	zircon.handles[h].koid = koid;
	if (vmo)
		vmo->uses++;
	return h;
}

static struct handle *look_up(zx_handle_t h, int type)
{
	assert_true(h < HANDLES && zircon.handles[h].type == (unsigned)type);
	return &zircon.handles[h];
}

static void release_vmo(struct vmo *vmo)
{
	uint64_t ctl = 0;
	unsigned i;

	if (--vmo->uses)
		return;
	for (i = 0; !vmo->parent && i < zircon.cpus; i++) {
		ptah_model_rdmsr(ptah_machine_model(zircon.machine, i), PTAH_IA32_RTIT_CTL, &ctl);
		assert_false(ctl & PTAH_RTIT_CTL_TRACE_EN);
	}
	if (vmo->parent)
		release_vmo(vmo->parent);
	else
		zircon.hal.release(zircon.machine, &vmo->memory);
	free(vmo);
}

static uint8_t *bytes_of(struct vmo *vmo)
{
	return vmo->parent ? bytes_of(vmo->parent) + vmo->offset : vmo->memory.address;
}

void model_start(unsigned cpus, const struct ptah_model_processor *processor)
{
	struct ptah_machine_config config = {.size = sizeof(config),
					     .cpus = cpus,
					     .processor = processor,
					     .arena_size = ARENA,
					     .physical = PHYSICAL};

	memset(&zircon, 0, sizeof(zircon));
	zircon.cpus = cpus;
	zircon.machine = calloc(1, ptah_machine_size(cpus));
	zircon.arena = pages_new(ARENA);
	assert_non_null(zircon.machine);
	config.arena = zircon.arena;
	assert_int_equal(ptah_machine_init(zircon.machine, &config), PTAH_OK);
	ptah_machine_hal(zircon.machine, &zircon.hal);
}

void model_stop(void)
{
	const char *violation = ptah_machine_violation(zircon.machine);

	if (violation)
		fail_msg("%s", violation);
	assert_int_equal(model_handles(), 0);
	assert_int_equal(zircon.mappings, 0);
	assert_int_equal(ptah_machine_allocated(zircon.machine), 0);
	free(zircon.machine);
	pages_free(zircon.arena, ARENA);
}

struct ptah_machine *model_machine(void)
{
	return zircon.machine;
}

const struct ptah_hal *model_hal(void)
{
	return &zircon.hal;
}

void model_fragment(size_t most)
{
	zircon.most = most;
}

zx_status_t model_connect(void)
{
	zx_status_t status = insntrace_opened();

	if (status == ZX_OK)
		zircon.connected = true;
	return status;
}

void model_disconnect(void)
{
	zircon.connected = false;
	insntrace_closed();
}

void model_expect_connection(void)
{
	assert_true(zircon.connected);
}

/* The driver's are those of whole VMOs, and pins. */
static void close_clients(void)
{
	zx_handle_t h;

	for (h = 0; h < HANDLES; h++) {
		const struct handle *at = &zircon.handles[h];

		if (at->type == THREAD || (at->type == VMO && at->vmo->parent))
			zx_handle_close(h);
	}
}

void model_client_dies(bool handles_first)
{
	if (handles_first)
		close_clients();
	model_disconnect();
	close_clients();
}

zx_handle_t model_thread(zx_koid_t koid)
{
	return new_handle(THREAD, NULL, koid);
}

const uint8_t *model_vmo(zx_handle_t vmo, uint64_t *size)
{
	struct handle *h = look_up(vmo, VMO);

	*size = h->vmo->size;
	return bytes_of(h->vmo);
}

unsigned model_handles(void)
{
	unsigned i, n = 0;

	for (i = 0; i < HANDLES; i++)
		n += zircon.handles[i].type != NONE;
	return n;
}

zx_status_t zx_vmo_create_contiguous(zx_handle_t bti, size_t size, uint32_t alignment_log2,
				     zx_handle_t *out)
{
	struct vmo *vmo = calloc(1, sizeof(*vmo));

	assert_int_equal(bti, MODEL_BTI);
	assert_int_equal(size % 4096, 0);
	assert_in_range(alignment_log2, 12, 63);
	if ((zircon.most && size > zircon.most) ||
	    zircon.hal.alloc(zircon.machine, size, (size_t)1 << alignment_log2, &vmo->memory) < 0) {
		free(vmo);
		return ZX_ERR_NO_MEMORY;
	}
	vmo->size = size;
	*out = new_handle(VMO, vmo, 0);
	return ZX_OK;
}

zx_status_t zx_vmo_create_child(zx_handle_t handle, uint32_t options, uint64_t offset,
				uint64_t size, zx_handle_t *out)
{
	struct vmo *parent = look_up(handle, VMO)->vmo, *child = calloc(1, sizeof(*child));

	assert_int_equal(options, ZX_VMO_CHILD_SLICE | ZX_VMO_CHILD_NO_WRITE);
	assert_true(offset % 4096 == 0 && offset + size <= parent->size);
	child->parent = parent;
	child->offset = offset;
	child->size = size;
	parent->uses++;
	*out = new_handle(VMO, child, 0);
	return ZX_OK;
}

zx_status_t zx_bti_pin(zx_handle_t handle, uint32_t options, zx_handle_t vmo, uint64_t offset,
		       uint64_t size, zx_paddr_t *addrs, size_t num_addrs, zx_handle_t *pmt)
{
	struct vmo *v = look_up(vmo, VMO)->vmo;

	assert_int_equal(handle, MODEL_BTI);
	assert_int_equal(options, ZX_BTI_PERM_READ | ZX_BTI_PERM_WRITE | ZX_BTI_CONTIGUOUS);
	assert_true(offset == 0 && size == v->size && num_addrs == 1);
	addrs[0] = v->memory.physical;
	*pmt = new_handle(PMT, v, 0);
	return ZX_OK;
}

static zx_status_t drop(zx_handle_t handle)
{
	struct handle h = zircon.handles[handle];

	zircon.handles[handle].type = NONE;
	if (h.vmo)
		release_vmo(h.vmo);
	return ZX_OK;
}

zx_status_t zx_pmt_unpin(zx_handle_t handle)
{
	look_up(handle, PMT);
	return drop(handle);
}

zx_status_t zx_handle_close(zx_handle_t handle)
{
	assert_true(handle > MODEL_VMAR && handle < HANDLES);
	assert_int_not_equal(zircon.handles[handle].type, PMT); /* it would stay in quarantine */
	assert_int_not_equal(zircon.handles[handle].type, NONE);
	return drop(handle);
}

zx_status_t zx_vmar_map(zx_handle_t handle, zx_vm_option_t options, uint64_t vmar_offset,
			zx_handle_t vmo, uint64_t vmo_offset, uint64_t len, zx_vaddr_t *mapped_addr)
{
	struct vmo *v = look_up(vmo, VMO)->vmo;

	assert_int_equal(handle, MODEL_VMAR);
	assert_int_equal(options, ZX_VM_PERM_READ | ZX_VM_PERM_WRITE);
	assert_true(vmar_offset == 0 && vmo_offset == 0 && len == v->size);
	zircon.mappings++;
	*mapped_addr = (zx_vaddr_t)bytes_of(v);
	return ZX_OK;
}

zx_status_t zx_vmar_unmap(zx_handle_t handle, zx_vaddr_t addr, uint64_t len)
{
	assert_int_equal(handle, MODEL_VMAR);
	assert_true(addr != 0 && len != 0);
	zircon.mappings--;
	return ZX_OK;
}

zx_status_t zx_object_get_info(zx_handle_t handle, uint32_t topic, void *buffer, size_t size,
			       size_t *actual, size_t *avail)
{
	zx_info_handle_basic_t *info = buffer;

	assert_int_equal(topic, ZX_INFO_HANDLE_BASIC);
	assert_int_equal(size, sizeof(*info));
	assert_true(!actual && !avail);
	if (handle >= HANDLES || zircon.handles[handle].type != THREAD)
		return ZX_ERR_BAD_HANDLE;
	memset(info, 0, sizeof(*info));
	info->koid = zircon.handles[handle].koid;
	return ZX_OK;
}
