/* SPDX-License-Identifier: MIT */
/* Places the guest's kernel, and asks linux_tasks.c who runs. */
#include "record/system/guest_names.h"

#include "record/system/system.h"

#define KERNEL_ALIGN UINT64_C(0x200000) /* CONFIG_PHYSICAL_ALIGN */

bool guest_names_place(struct guest_names *names, uint64_t entry)
{
	const uint64_t symbol = names->symbols[0], slide = entry - symbol;

	if (symbol == CHANNEL_NONE || entry < symbol || slide % KERNEL_ALIGN)
		return false;
	names->slide = slide;
	names->placed = true;
	return true;
}

static bool read_physical(void *port, uint64_t physical, void *to, size_t n)
{
	uint8_t *bytes = to;

	(void)port;
	while (n) {
		uint64_t size = 0;
		const uint8_t *from = system_memory(NULL, physical, &size);

		if (!from || !size)
			return false;
		size = size < n ? size : n;
		memcpy(bytes, from, (size_t)size);
		bytes += size;
		physical += size;
		n -= (size_t)size;
	}
	return true;
}

static uint64_t find_symbol(void *port, const char *name)
{
	const struct guest_names *names = port;

	for (unsigned i = 0; i < CHANNEL_SYMBOLS; i++)
		if (!strcmp(name, channel_symbol(i)))
			return names->symbols[i] == CHANNEL_NONE ? 0 : names->symbols[i];
	return 0;
}

static void begin_guest_names(struct guest_names *names, uint64_t cr3, bool la57)
{
	const struct linux_tasks_config config = {
	    .read = read_physical, .symbol = find_symbol, .port = names, .slide = names->slide};
	const char *what = "";

	if (linux_tasks_new(&config, cr3, la57, &names->tasks, &what) >= 0)
		return;
	names->failed = true;
	system_say("the guest's processes have no names: its kernel's %s was not found", what);
}

bool guest_names_task(struct guest_names *names, uint64_t cr3, uint64_t kernel_gs, bool la57,
		      struct linux_task *task)
{
	if (!names->placed || names->failed)
		return false;
	if (!names->tasks)
		begin_guest_names(names, cr3, la57);
	return !names->failed &&
	       linux_tasks_current(names->tasks, &names->processor, cr3, kernel_gs, task) > 0;
}
