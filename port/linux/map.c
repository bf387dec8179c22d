/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * Mappings of a capture's buffer and page into a process.
 *
 * Pages are inserted with remap_pfn_range(): then nobody can take a reference to them
 * (get_user_pages() fails), so that they can be freed, or cleared for another owner, when the
 * mapping is gone. The mapping keeps the file, and the file the capture. It is not inherited by
 * fork(), and it can be moved (mremap) but not divided.
 */
#include "module.h"

#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/version.h>

/* Its address is what the engine knows as the owner of the mapping. */
struct mapping {
	struct port_capture *capture;
	struct vm_area_struct *vma; /* while it is made; NULL: port_page_size() asks for the size */
	u64 bytes;
	u64 address; /* under which the engine knows it */
	refcount_t vmas;
};

/* hal->user_map(): called by ptah_capture_map() and ptah_capture_map_page() below. */
int port_map_pieces(u64 owner, const struct ptah_hal_memory *pieces, size_t n, u64 *address)
{
	struct mapping *m = (struct mapping *)(uintptr_t)owner;
	unsigned long at;
	size_t i;

	m->bytes = 0;
	for (i = 0; i < n; i++)
		m->bytes += pieces[i].size;
	*address = 1;
	if (!m->vma)
		return PTAH_OK;
	if (m->bytes != m->vma->vm_end - m->vma->vm_start)
		return PTAH_E_INVAL;
	at = m->vma->vm_start;
	for (i = 0; i < n; i++) {
		if (remap_pfn_range(m->vma, at, pieces[i].physical >> PAGE_SHIFT, pieces[i].size,
				    m->vma->vm_page_prot))
			return PTAH_E_NOMEM;
		at += pieces[i].size;
	}
	return PTAH_OK;
}

u64 port_page_size(struct port_capture *c)
{
	struct mapping m = {.capture = c};
	u64 address;

	if (!c->page &&
	    ptah_capture_map_page(c->capture, (uintptr_t)&m, false, &address) == PTAH_OK) {
		c->page = m.bytes;
		ptah_capture_unmap(c->capture, (uintptr_t)&m, address);
	}
	return c->page;
}

/* mremap() has made a second VMA, and will remove the first. */
static void mapping_open(struct vm_area_struct *vma)
{
	struct mapping *m = vma->vm_private_data;

	refcount_inc(&m->vmas);
}

/* The pages cannot be reached any more. */
static void mapping_close(struct vm_area_struct *vma)
{
	struct mapping *m = vma->vm_private_data;
	struct port_capture *c = m->capture;

	if (!refcount_dec_and_test(&m->vmas))
		return;
	down_read(&c->shape);
	ptah_capture_unmap(c->capture, (uintptr_t)m, m->address);
	up_read(&c->shape);
	kfree(m);
}

static int mapping_may_split(struct vm_area_struct *vma, unsigned long address)
{
	return -EINVAL;
}

/* All pages are there from the beginning. */
static vm_fault_t mapping_fault(struct vm_fault *fault)
{
	return VM_FAULT_SIGBUS;
}

static const struct vm_operations_struct mapping_ops = {
    .open = mapping_open,
    .close = mapping_close,
    .may_split = mapping_may_split,
    .fault = mapping_fault,
};

static void change_flags(struct vm_area_struct *vma, unsigned long set, unsigned long clear)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_mod(vma, set, clear);
#else
	vma->vm_flags = (vma->vm_flags | set) & ~clear;
#endif
}

int port_capture_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct port_capture *c = file->private_data;
	const u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
	const bool writable = vma->vm_flags & VM_WRITE;
	struct mapping *m;
	int status;

	if (!(vma->vm_flags & VM_SHARED) || vma->vm_flags & VM_EXEC)
		return -EINVAL;
	if (offset != PTAH_IOC_MAP_BUFFER && offset != PTAH_IOC_MAP_PAGE)
		return -EINVAL;
	if (writable && offset == PTAH_IOC_MAP_BUFFER)
		return -EACCES;
	m = kzalloc(sizeof(*m), GFP_KERNEL_ACCOUNT);
	if (!m)
		return -ENOMEM;
	m->capture = c;
	m->vma = vma;
	refcount_set(&m->vmas, 1);
	change_flags(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP,
		     VM_MAYEXEC | (writable ? 0 : VM_MAYWRITE));
	down_read(&c->shape);
	if (offset == PTAH_IOC_MAP_BUFFER)
		status = ptah_capture_map(c->capture, (uintptr_t)m, false, &m->address);
	else
		status = ptah_capture_map_page(c->capture, (uintptr_t)m, writable, &m->address);
	up_read(&c->shape);
	if (status < 0) {
		kfree(m);
		return port_errno(status);
	}
	m->vma = NULL;
	vma->vm_private_data = m;
	vma->vm_ops = &mapping_ops;
	return 0;
}
