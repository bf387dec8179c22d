/* SPDX-License-Identifier: MIT */
/* Reads the running task of a guest's Linux: page walks, per-CPU memory, struct task_struct. */
#include "record/system/linux_tasks.h"

#include "base/bits.h"
#include "record/system/btf.h"

#include <ptah/base.h>

#include <stdlib.h>

/* Debian's kernel has 5 MB of BTF. */
#define BTF_MOST ((uint64_t)64 << 20)
#define PAGE	 4096u

#define KERNEL_IMAGE UINT64_C(0xffffffff80000000) /* __START_KERNEL_map */

#define PTE_PRESENT UINT64_C(1)
#define PTE_LARGE   UINT64_C(0x80)
#define PTE_ADDRESS UINT64_C(0x000ffffffffff000)

struct linux_tasks {
	struct linux_tasks_config config;
	bool la57;
	uint64_t current; /* offset of the pointer to the current task in a processor's memory */
	uint32_t pid, tgid, comm; /* in struct task_struct */
};

/* One page walk. `left`: bytes from the address to the end of its page. */
static bool walk(const struct linux_tasks *t, uint64_t cr3, uint64_t address, uint64_t *physical,
		 uint64_t *left)
{
	uint64_t entry = cr3;
	int level;

	for (level = t->la57 ? 4 : 3; level >= 0; level--) {
		unsigned shift = 12 + 9 * (unsigned)level;
		uint64_t at = (entry & PTE_ADDRESS) + 8 * (address >> shift & 511), size;

		if (!t->config.read(t->config.port, at, &entry, sizeof(entry)) ||
		    !(entry & PTE_PRESENT))
			return false;
		if (level && !(level <= 2 && (entry & PTE_LARGE)))
			continue;
		size = UINT64_C(1) << shift;
		*physical = (entry & PTE_ADDRESS & ~(size - 1)) | (address & (size - 1));
		*left = size - (address & (size - 1));
		return true;
	}
	return false;
}

/*
 * Page-table isolation: the tables of user mode, which lack almost all of the kernel, are those of
 * the kernel plus 4096 (arch/x86/include/asm/pgtable.h, kernel_to_user_pgdp()).
 */
static bool translate(const struct linux_tasks *t, uint64_t cr3, uint64_t address,
		      uint64_t *physical, uint64_t *left)
{
	return walk(t, cr3, address, physical, left) ||
	       ((cr3 & PAGE) && walk(t, cr3 & ~(uint64_t)PAGE, address, physical, left));
}

static bool read_virtual(const struct linux_tasks *t, uint64_t cr3, uint64_t address, void *to,
			 uint64_t n)
{
	uint8_t *p = to;

	while (n) {
		uint64_t physical, part;

		if (!translate(t, cr3, address, &physical, &part))
			return false;
		if (part > n)
			part = n;
		/* One call may cross no boundary of what the guest's memory is made of. */
		if (part > PAGE - physical % PAGE)
			part = PAGE - physical % PAGE;
		if (!t->config.read(t->config.port, physical, p, (size_t)part))
			return false;
		p += part;
		address += part;
		n -= part;
	}
	return true;
}

/* Where each processor's memory has the pointer: in a variable of its own, or from Linux 6.2 to
 * 6.14 in struct pcpu_hot. */
static bool find_current(struct linux_tasks *t, const uint8_t *btf, size_t size, const char **what)
{
	uint64_t (*symbol)(void *port, const char *name) = t->config.symbol;
	uint32_t offset;

	*what = "current_task";
	t->current = symbol(t->config.port, "current_task");
	/* From Linux 6.15 on it is an address in the kernel, from which GS base leads further. */
	if (t->current >= KERNEL_IMAGE)
		t->current += t->config.slide;
	if (t->current)
		return true;
	t->current = symbol(t->config.port, "pcpu_hot");
	if (!t->current || btf_member(btf, size, "pcpu_hot", "current_task", &offset) < 0)
		return false;
	t->current += offset;
	return true;
}

static int find_offsets(struct linux_tasks *t, const uint8_t *btf, size_t size, const char **what)
{
	const struct {
		const char *name, *what;
		uint32_t *to;
	} members[] = {
	    {"tgid", "task_struct.tgid", &t->tgid},
	    {"pid", "task_struct.pid", &t->pid},
	    {"comm", "task_struct.comm", &t->comm},
	};
	size_t i;

	for (i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		int status;

		*what = members[i].what;
		status = btf_member(btf, size, "task_struct", members[i].name, members[i].to);
		if (status < 0)
			return status;
	}
	return find_current(t, btf, size, what) ? PTAH_OK : PTAH_E_MISSING;
}

static int read_btf(struct linux_tasks *t, uint64_t cr3, const char **what)
{
	uint64_t start = t->config.symbol(t->config.port, "__start_BTF");
	uint64_t stop = t->config.symbol(t->config.port, "__stop_BTF");
	uint8_t *btf;
	int status = PTAH_E_NO_CODE;

	*what = "__start_BTF";
	if (!start || stop <= start || stop - start > BTF_MOST)
		return PTAH_E_MISSING;
	btf = malloc((size_t)(stop - start));
	if (!btf)
		return PTAH_E_NOMEM;
	if (read_virtual(t, cr3, start + t->config.slide, btf, stop - start))
		status = find_offsets(t, btf, (size_t)(stop - start), what);
	free(btf);
	return status;
}

int linux_tasks_new(const struct linux_tasks_config *config, uint64_t cr3, bool la57,
		    struct linux_tasks **tasks, const char **what)
{
	struct linux_tasks *t = calloc(1, sizeof(*t));
	int status;

	*tasks = NULL;
	*what = "";
	if (!t)
		return PTAH_E_NOMEM;
	t->config = *config;
	t->la57 = la57;
	status = read_btf(t, cr3, what);
	if (status < 0)
		free(t);
	else
		*tasks = t;
	return status;
}

void linux_tasks_free(struct linux_tasks *t)
{
	free(t);
}

static int read_task(const struct linux_tasks *t, uint64_t cr3, uint64_t at,
		     struct linux_task *task)
{
	size_t n;

	if (!read_virtual(t, cr3, at + t->tgid, &task->pid, sizeof(task->pid)) ||
	    !read_virtual(t, cr3, at + t->pid, &task->tid, sizeof(task->tid)) ||
	    !read_virtual(t, cr3, at + t->comm, task->comm, sizeof(task->comm)))
		return PTAH_E_NO_CODE;
	task->comm[LINUX_COMM - 1] = 0;
	/* It goes into files and onto terminals. */
	for (n = 0; task->comm[n]; n++) {
		if ((unsigned char)task->comm[n] < ' ' || task->comm[n] == 127)
			task->comm[n] = '?';
	}
	memset(task->comm + n, 0, LINUX_COMM - n);
	return 1;
}

int linux_tasks_current(struct linux_tasks *t, struct linux_processor *p, uint64_t cr3,
			uint64_t gs_base, struct linux_task *task)
{
	uint64_t at, left;
	int status;

	if (!p->known || p->gs_base != gs_base) {
		*p = (struct linux_processor){.gs_base = gs_base};
		if (!translate(t, cr3, gs_base + t->current, &p->slot, &left) || left < sizeof(at))
			return PTAH_E_NO_CODE;
	}
	if (!t->config.read(t->config.port, p->slot, &at, sizeof(at)))
		return PTAH_E_NO_CODE;
	if (p->known && p->task == at && p->cr3 == cr3)
		return 0;
	status = read_task(t, cr3, at, task);
	p->known = status > 0;
	p->task = at;
	p->cr3 = cr3;
	return status;
}
