/* SPDX-License-Identifier: MIT */
/*
 * The running task of a guest's Linux, from memory that is laid out here by hand: page tables with
 * pages of 4 KB, 2 MB and 1 GB, type information, a per-CPU area and two tasks. The offsets that
 * must be found are those with which the tasks were written. tests/guest/ does the same with a real
 * kernel.
 */
#include "record/system/btf.h"
#include "record/system/linux_tasks.h"

#include "base/bits.h"
#include "test.h"

#include <ptah/base.h>

#include <stdlib.h>

#define MEMORY (1u << 20)

/* Type information */

static struct {
	uint8_t bytes[4096];
	size_t types, strings; /* bytes so far, of each */
	char text[1024];
} b;

static void put32(uint32_t v)
{
	memcpy(b.bytes + 24 + b.types, &v, 4);
	b.types += 4;
}

static uint32_t text(const char *s)
{
	uint32_t at = (uint32_t)b.strings;

	strcpy(b.text + at, s);
	b.strings += strlen(s) + 1;
	return at;
}

static void type(const char *name, unsigned kind, bool flag, unsigned members, uint32_t reference)
{
	put32(*name ? text(name) : 0);
	put32((uint32_t)flag << 31 | kind << 24 | members);
	put32(reference);
}

static void member(const char *name, uint32_t number, uint32_t bits)
{
	put32(*name ? text(name) : 0);
	put32(number);
	put32(bits);
}

static size_t finish(void)
{
	const uint32_t sizes[4] = {0, (uint32_t)b.types, (uint32_t)b.types, (uint32_t)b.strings};
	const uint8_t start[8] = {0x9f, 0xeb, 1, 0, 24, 0, 0, 0};

	memcpy(b.bytes, start, 8);
	memcpy(b.bytes + 8, sizes, 16);
	memcpy(b.bytes + 24 + b.types, b.text, b.strings);
	return 24 + b.types + b.strings;
}

/*
 *	struct task_struct {
 *		int state, flags : 3;		// the bit field makes kind_flag 1
 *		union { struct { int tgid, pid; }; long both; };	// at 200
 *		const name comm;		// at 300
 *	};
 *	struct pcpu_hot { union { struct { void *current_task; }; char pad[64]; }; };
 */
static size_t make_types(void)
{
	memset(&b, 0, sizeof(b));
	b.strings = 1;
	type("int", 1, false, 0, 4); /* 1 */
	put32(0x01000020);
	type("", 3, false, 0, 0); /* 2: char [16] */
	put32(1);
	put32(1);
	put32(16);
	type("", 4, false, 2, 8); /* 3 */
	member("tgid", 1, 0);
	member("pid", 1, 32);
	type("", 5, false, 2, 8); /* 4 */
	member("", 3, 0);
	member("both", 1, 0);
	type("enumeration", 6, false, 1, 4); /* 5 */
	put32(text("ONE"));
	put32(1);
	type("task_struct", 7, false, 0, 0);  /* 6: a forward declaration */
	type("task_struct", 4, true, 4, 400); /* 7 */
	member("state", 1, 0);
	member("flags", 1, 3u << 24 | 32);
	member("", 8, 200 * 8);
	member("comm", 2, 300 * 8);
	type("alias", 8, false, 0, 4); /* 8: a typedef of the union */
	type("", 2, false, 0, 0);      /* 9 */
	type("", 4, false, 1, 8);      /* 10 */
	member("current_task", 9, 0);
	type("", 5, false, 1, 64); /* 11 */
	member("", 10, 0);
	type("pcpu_hot", 4, false, 1, 128); /* 12 */
	member("", 11, 64 * 8);
	return finish();
}

TEST(members)
{
	uint32_t at;
	size_t size = make_types(), n;

	assert_int_equal(btf_member(b.bytes, size, "task_struct", "tgid", &at), 0);
	assert_int_equal(at, 200);
	assert_int_equal(btf_member(b.bytes, size, "task_struct", "pid", &at), 0);
	assert_int_equal(at, 204);
	assert_int_equal(btf_member(b.bytes, size, "task_struct", "comm", &at), 0);
	assert_int_equal(at, 300);
	assert_int_equal(btf_member(b.bytes, size, "task_struct", "state", &at), 0);
	assert_int_equal(at, 0);
	assert_int_equal(btf_member(b.bytes, size, "task_struct", "flags", &at), PTAH_E_MISSING);
	assert_int_equal(btf_member(b.bytes, size, "task_struct", "mm", &at), PTAH_E_MISSING);
	assert_int_equal(btf_member(b.bytes, size, "alias", "tgid", &at), PTAH_E_MISSING);
	assert_int_equal(btf_member(b.bytes, 1, "task_struct", "pid", &at), PTAH_E_BAD_MAGIC);
	for (n = 2; n < size; n++) {
		uint8_t *part = malloc(n);

		memcpy(part, b.bytes, n);
		assert_int_equal(btf_member(part, n, "task_struct", "pid", &at), PTAH_E_BAD_FILE);
		free(part);
	}
}

/* An anonymous struct that contains itself twice ends soon. */
TEST(endless)
{
	uint32_t at;
	unsigned n;

	memset(&b, 0, sizeof(b));
	b.strings = 1;
	type("task_struct", 4, false, 60, 8);
	for (n = 0; n < 60; n++)
		member("", 1, 0);
	assert_int_equal(btf_member(b.bytes, finish(), "task_struct", "pid", &at), PTAH_E_MISSING);
}

/* Memory */

static struct {
	uint8_t bytes[MEMORY];
	const char *without; /* a symbol that there is not */
	size_t btf;
	bool hot; /* the pointer is in struct pcpu_hot */
	unsigned reads;
} m;

#define KERNEL UINT64_C(0xffffffff81000000)
#define DIRECT UINT64_C(0xffff888000000000)
#define PERCPU UINT64_C(0xffff88807dc00000)
#define SLIDE  UINT64_C(0x12000000)

enum {
	ROOT = 0x2000, /* of the kernel; of user mode: 0x3000 */
	TYPES = 0x40000,
	AREA = 0x60000,
	TASKS = 0x70000,
};

static bool read_memory(void *port, uint64_t physical, void *to, size_t n)
{
	(void)port;
	m.reads++;
	if (physical > MEMORY || n > MEMORY - physical)
		return false;
	memcpy(to, m.bytes + physical, n);
	return true;
}

static uint64_t symbol(void *port, const char *name)
{
	(void)port;
	if (m.without && !strcmp(name, m.without))
		return 0;
	if (!strcmp(name, "__start_BTF"))
		return KERNEL + 0xf80;
	if (!strcmp(name, "__stop_BTF"))
		return KERNEL + 0xf80 + m.btf;
	if (!strcmp(name, "current_task"))
		return m.hot ? 0 : 0x1fbc0;
	if (!strcmp(name, "pcpu_hot"))
		return m.hot ? 0x1fbc0 - 64 : 0;
	fail_msg("who wants to know %s?", name);
	return 0;
}

static void entry(uint64_t table, uint64_t address, unsigned level, uint64_t value)
{
	memcpy(m.bytes + table + 8 * (address >> (12 + 9 * level) & 511), &value, 8);
}

/* Three tables for the way to one page of 4 KB; `table` is the first of them. */
static void map(uint64_t address, uint64_t table, uint64_t physical)
{
	entry(ROOT, address, 3, table | 0x8000000000000063);
	entry(table, address, 2, (table + 0x1000) | 0x63);
	entry(table + 0x1000, address, 1, (table + 0x2000) | 0x63);
	entry(table + 0x2000, address, 0, physical | 0x8000000000000163);
}

static void put_task(unsigned n, int32_t pid, int32_t tid, const char *comm)
{
	uint8_t *task = m.bytes + TASKS + 0x400 * n;

	memcpy(task + 200, &pid, 4);
	memcpy(task + 204, &tid, 4);
	memset(task + 300, 'x', 16);
	memcpy(task + 300, comm, strlen(comm) + 1);
}

static void run_task(unsigned n)
{
	uint64_t address = DIRECT + TASKS + 0x400 * n;

	memcpy(m.bytes + AREA + 0xbc0, &address, 8);
}

static void open_memory(void)
{
	uint64_t types = KERNEL + SLIDE;

	memset(&m, 0, sizeof(m));
	m.btf = make_types();
	/* The types go over two pages that are not neighbours in memory. */
	assert_in_range(m.btf, 0x81, 0x1000);
	memcpy(m.bytes + TYPES + 0xf80, b.bytes, 0x80);
	memcpy(m.bytes + TYPES + 0x2000, b.bytes + 0x80, m.btf - 0x80);
	map(types, 0x4000, TYPES);
	entry(0x6000, types + 0x1000, 0, (TYPES + 0x2000) | 0x63);
	map(PERCPU + 0x1f000, 0x8000, AREA);
	/* The direct map in a page of 1 GB, which shares the first table with the per-CPU area. */
	entry(0x8000, DIRECT, 2, 0xe3);
	put_task(0, 4711, 4712, "sh");
	put_task(1, 1, 1, "a name\n of 15 b");
	run_task(0);
}

static struct linux_tasks *open_tasks(void)
{
	const struct linux_tasks_config config = {
	    .read = read_memory, .symbol = symbol, .slide = SLIDE};
	struct linux_tasks *tasks;
	const char *what;

	assert_int_equal(linux_tasks_new(&config, ROOT, false, &tasks, &what), PTAH_OK);
	return tasks;
}

TEST(current)
{
	struct linux_processor p = {0};
	struct linux_tasks *tasks;
	struct linux_task task;
	unsigned hot, reads;

	for (hot = 0; hot < 2; hot++) {
		open_memory();
		m.hot = hot;
		memset(&p, 0, sizeof(p));
		tasks = open_tasks();
		assert_int_equal(linux_tasks_current(tasks, &p, ROOT, PERCPU, &task), 1);
		assert_int_equal(task.pid, 4711);
		assert_int_equal(task.tid, 4712);
		assert_string_equal(task.comm, "sh");
		/* As long as the same task runs there is one read. */
		reads = m.reads;
		assert_int_equal(linux_tasks_current(tasks, &p, ROOT, PERCPU, &task), 0);
		assert_int_equal(m.reads, reads + 1);
		run_task(1);
		assert_int_equal(linux_tasks_current(tasks, &p, ROOT, PERCPU, &task), 1);
		assert_int_equal(task.tid, 1);
		assert_string_equal(task.comm, "a name? of 15 b");
		/* execve: the same task, other page tables. Here those of user mode, which have
		 * nothing. */
		put_task(1, 1, 1, "busybox");
		assert_int_equal(linux_tasks_current(tasks, &p, ROOT + 0x1001, PERCPU, &task), 1);
		assert_string_equal(task.comm, "busybox");
		linux_tasks_free(tasks);
	}
}

/* With 5 levels of tables, and in a page of 2 MB. */
TEST(five_levels)
{
	const struct linux_tasks_config config = {
	    .read = read_memory, .symbol = symbol, .slide = SLIDE};
	struct linux_processor p = {0};
	struct linux_tasks *tasks;
	struct linux_task task;
	const char *what;

	open_memory();
	entry(0x10000, DIRECT, 4, ROOT | 0x63);
	entry(0x10000, KERNEL + SLIDE, 4, ROOT | 0x63);
	entry(0x8000, DIRECT, 2, 0x11000 | 0x63);
	entry(0x11000, DIRECT, 1, 0xe3);
	assert_int_equal(linux_tasks_new(&config, 0x10000, true, &tasks, &what), PTAH_OK);
	assert_int_equal(linux_tasks_current(tasks, &p, 0x10000, PERCPU, &task), 1);
	assert_int_equal(task.tid, 4712);
	linux_tasks_free(tasks);
}

TEST(refused)
{
	static const char *const symbols[] = {"__start_BTF", "__stop_BTF", "current_task"};
	const struct linux_tasks_config config = {
	    .read = read_memory, .symbol = symbol, .slide = SLIDE};
	struct linux_processor p = {0};
	struct linux_tasks *tasks;
	struct linux_task task;
	const char *what;
	size_t i;

	open_memory();
	for (i = 0; i < 3; i++) {
		m.without = symbols[i];
		assert_int_equal(linux_tasks_new(&config, ROOT, false, &tasks, &what),
				 PTAH_E_MISSING);
		assert_null(tasks);
		assert_string_equal(what, i == 1 ? "__start_BTF" : symbols[i]);
	}
	m.without = NULL;
	/* Before the kernel has mapped itself. */
	assert_int_equal(linux_tasks_new(&config, 0, false, &tasks, &what), PTAH_E_NO_CODE);
	assert_int_equal(linux_tasks_new(&config, UINT64_MAX, true, &tasks, &what), PTAH_E_NO_CODE);
	tasks = open_tasks();
	assert_int_equal(linux_tasks_current(tasks, &p, ROOT, 0, &task), PTAH_E_NO_CODE);
	assert_int_equal(linux_tasks_current(tasks, &p, ROOT, PERCPU, &task), 1);
	/* A pointer to nowhere. */
	memset(m.bytes + AREA + 0xbc0, 0x55, 8);
	assert_int_equal(linux_tasks_current(tasks, &p, ROOT, PERCPU, &task), PTAH_E_NO_CODE);
	run_task(1);
	assert_int_equal(linux_tasks_current(tasks, &p, ROOT, PERCPU, &task), 1);
	linux_tasks_free(tasks);
}
