/* SPDX-License-Identifier: MIT */
/*
 * The running task of a guest whose memory is the input: type information anywhere in it, page
 * tables and tasks of nonsense. The first 32 bytes are addresses.
 */
#include "fuzz.h"

#include "base/bits.h"
#include "record/system/linux_tasks.h"

#include <string.h>

struct guest {
	const uint8_t *bytes;
	size_t size;
};

static bool read_memory(void *port, uint64_t physical, void *to, size_t n)
{
	const struct guest *g = port;

	/* Addresses behind the end are the same memory again, so that most page walks succeed. */
	if (!g->size)
		return false;
	for (size_t i = 0; i < n; i++)
		((uint8_t *)to)[i] = g->bytes[(physical + i) % g->size];
	return true;
}

static uint64_t symbol(void *port, const char *name)
{
	const struct guest *g = port;
	uint64_t start = load_le64(g->bytes);

	if (!strcmp(name, "__start_BTF"))
		return start;
	if (!strcmp(name, "__stop_BTF"))
		return start + load_le16(g->bytes + 8);
	return strcmp(name, "current_task") != 0 || (g->bytes[10] & 1) ? load_le32(g->bytes + 12)
								       : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct guest g = {data, size};
	const struct linux_tasks_config config = {
	    .read = read_memory, .symbol = symbol, .port = &g};
	struct linux_processor p = {0};
	struct linux_tasks *tasks;
	struct linux_task task;
	const char *what;
	uint64_t cr3;

	if (size < 32)
		return 0;
	cr3 = load_le64(data + 16);
	if (linux_tasks_new(&config, cr3, data[10] & 2, &tasks, &what) < 0)
		return 0;
	if (linux_tasks_current(tasks, &p, cr3, load_le64(data + 24), &task) == 1)
		CHECK(strlen(task.comm) < sizeof(task.comm));
	linux_tasks_free(tasks);
	return 0;
}
