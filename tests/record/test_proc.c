/* SPDX-License-Identifier: MIT */
/* Records of what existed before a recording, made from files of /proc. */
#include "machine.h"

#include "record/perf_event/proc.h"

#include <ptah/base.h>

#include <linux/perf_event.h>
#include <sys/auxv.h>
#include <sys/utsname.h>

/* The records as text, one per line. */
static char told[8192];

static uint64_t word(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static int32_t number(const uint8_t *p)
{
	int32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static int take(void *context, const uint8_t *r, size_t size)
{
	char *to = told + strlen(told);
	size_t left = sizeof(told) - strlen(told);
	uint16_t misc, length;

	(void)context;
	memcpy(&misc, r + 4, 2);
	memcpy(&length, r + 6, 2);
	assert_int_equal(size, length);
	assert_int_equal(size % 8, 0);
	/* The sample id: time 0, no processor, the event's id. */
	assert_int_equal(word(r + size - 24), 0);
	assert_int_equal(word(r + size - 16), 0);
	assert_int_equal(word(r + size - 8), 77);
	switch (number(r)) {
	case PERF_RECORD_COMM:
		snprintf(to, left, "comm %d/%d %s\n", number(r + 8), number(r + 12), r + 16);
		break;
	case PERF_RECORD_FORK: /* pid, ppid, tid, ptid */
		snprintf(to, left, "fork %d/%d of %d/%d\n", number(r + 8), number(r + 16),
			 number(r + 12), number(r + 20));
		break;
	case PERF_RECORD_MMAP2:
		assert_int_equal(misc, PERF_RECORD_MISC_USER);
		snprintf(to, left, "mmap2 %d %llx %llx @%llx %x:%x %llu prot %d flags %d %s\n",
			 number(r + 8), (unsigned long long)word(r + 16),
			 (unsigned long long)word(r + 24), (unsigned long long)word(r + 32),
			 number(r + 40), number(r + 44), (unsigned long long)word(r + 48),
			 number(r + 64), number(r + 68), r + 72);
		break;
	case PERF_RECORD_MMAP:
		assert_int_equal(misc, PERF_RECORD_MISC_KERNEL);
		snprintf(to, left, "mmap %d/%d %llx %llx @%llx %s\n", number(r + 8), number(r + 12),
			 (unsigned long long)word(r + 16), (unsigned long long)word(r + 24),
			 (unsigned long long)word(r + 32), r + 40);
		break;
	default:
		fail_msg("record of type %d", number(r));
	}
	return 0;
}

static const struct proc_reporter reporter = {
    .root = root, .id = 77, .build_ids = true, .take = take};

static void put_process(void)
{
	put_file("/proc/120/status", "Name:\tx\nTgid:\t120\nPid:\t120\nPPid:\t7\n");
	put_file("/proc/121/status", "Name:\tx\nTgid:\t120\nPid:\t121\nPPid:\t7\n");
	put_file("/proc/120/task/120/comm", "prog ram\n");
	put_file("/proc/120/task/121/comm", "worker\n");
	put_file("/proc/120/maps",
		 "00400000-00401000 r--p 00000000 fe:00 99 /opt/pro\\012gram\n"
		 "00401000-00403000 r-xp 00001000 fe:00 99 /opt/pro\\012gram\n"
		 "7f0000000000-7f0000001000 rwxp 00000000 00:00 0 \n"
		 "7f0000002000-7f0000004000 --xs 00000000 fe:10 3  /lib/with space (deleted)\n"
		 "nonsense\n"
		 "7ffc00000000-7ffc00002000 r-xp 00000000 00:00 0          [vdso]\n"
		 "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0  [vsyscall]\n");
}

#define MAPS                                                                                       \
	"mmap2 120 401000 2000 @1000 fe:0 99 prot 5 flags 2 /opt/pro\ngram\n"                      \
	"mmap2 120 7f0000000000 1000 @0 0:0 0 prot 7 flags 2 //anon\n"                             \
	"mmap2 120 7f0000002000 2000 @0 fe:10 3 prot 4 flags 1 /lib/with space (deleted)\n"        \
	"mmap2 120 7ffc00000000 2000 @0 0:0 0 prot 5 flags 2 [vdso]\n"                             \
	"mmap2 120 ffffffffff600000 1000 @0 0:0 0 prot 4 flags 2 [vsyscall]\n"

TEST(a_process)
{
	put_process();
	told[0] = '\0';
	assert_int_equal(proc_report(&reporter, 120, 0), 0);
	assert_string_equal(told, "fork 120/120 of 7/7\ncomm 120/120 prog ram\n"
				  "fork 120/121 of 120/120\ncomm 120/121 worker\n" MAPS);
	told[0] = '\0';
	assert_int_equal(proc_report_all(&reporter), 0);
	assert_non_null(strstr(told, "comm 120/120 prog ram\n"));
	told[0] = '\0';
	assert_int_equal(proc_process_of(root, 121), 120);
	assert_int_equal(proc_process_of(root, 122), 0);
	assert_int_equal(proc_report(&reporter, 122, 0), PTAH_E_MISSING);
	assert_string_equal(told, "");
}

static int refuse(void *context, const uint8_t *record, size_t size)
{
	(void)record;
	(void)size;
	return ++*(int *)context == 2 ? PTAH_E_NOSPACE : 0;
}

TEST(what_is_refused_is_the_end)
{
	int n = 0;
	const struct proc_reporter refusing = {
	    .root = root, .id = 77, .take = refuse, .context = &n};

	put_process();
	assert_int_equal(proc_report(&refusing, 120, 0), PTAH_E_NOSPACE);
	assert_int_equal(n, 2);
}

TEST(the_kernel)
{
	struct utsname system;
	char path[256], expected[512];

	assert_int_equal(uname(&system), 0);
	put_file("/proc/kallsyms", "0000000000000000 A fixed\n"
				   "0000000000000000 T _text\n");
	told[0] = '\0';
	assert_int_equal(proc_report_kernel(&reporter), PTAH_E_MISSING);
	put_file("/proc/kallsyms", "0000000000000000 A fixed\n"
				   "ffffffff9a000000 T _text\n"
				   "ffffffff9a000100 t _text_of_something\n"
				   "ffffffff9aa01234 T _etext\n"
				   "ffffffffc0000000 t init\t[ext4]\n");
	put_file("/proc/modules", "ext4 1048576 1 - Live 0xffffffffc0000000\n"
				  "snd_pcm 4096 2 snd_a,snd_b, Live 0xffffffffc0200000 (E)\n"
				  "hidden 4096 0 - Live 0x0000000000000000\n"
				  "out_of_tree 8192 0 - Live 0xffffffffc0300000\n");
	snprintf(path, sizeof(path), "/lib/modules/%s/modules.dep", system.release);
	put_file(path, "kernel/fs/ext4/ext4.ko.xz: kernel/fs/jbd2/jbd2.ko.xz\n"
		       "kernel/sound/snd-pcm-dmaengine.ko:\n"
		       "kernel/sound/snd-pcm.ko: kernel/sound/snd.ko\n");
	assert_int_equal(proc_report_kernel(&reporter), 0);
	snprintf(expected, sizeof(expected),
		 "mmap -1/0 ffffffff9a000000 a01234 @ffffffff9a000000 [kernel.kallsyms]_text\n"
		 "mmap -1/0 ffffffffc0000000 100000 @0 /lib/modules/%s/kernel/fs/ext4/ext4.ko.xz\n"
		 "mmap -1/0 ffffffffc0200000 1000 @0 /lib/modules/%s/kernel/sound/snd-pcm.ko\n"
		 "mmap -1/0 ffffffffc0300000 2000 @0 [out_of_tree]\n",
		 system.release, system.release);
	assert_string_equal(told, expected);
}

TEST(processors)
{
	static const int32_t expected[] = {0, 1, 2, 5, 8, 9};
	int32_t *cpus;

	put_file("/sys/devices/system/cpu/online", "0-2,5,8-9\n");
	assert_int_equal(proc_cpus(root, &cpus), 6);
	assert_memory_equal(cpus, expected, sizeof(expected));
	free(cpus);
	put_file("/sys/devices/system/cpu/possible", "0-2,5,8-9\n");
	put_file("/sys/devices/system/cpu/online", "what\n");
	assert_int_equal(proc_possible_cpus(root, &cpus), 6);
	assert_memory_equal(cpus, expected, sizeof(expected));
	free(cpus);
	assert_int_equal(proc_cpus(root, &cpus), 0);
	free(cpus);
}

TEST(the_code_of_the_vdso)
{
	uint64_t start = 0, end = 0;

	assert_true(proc_own_vdso("", &start, &end));
	assert_int_equal(start, getauxval(AT_SYSINFO_EHDR));
	assert_true(end > start && end - start < 65536);
	assert_memory_equal((const void *)(uintptr_t)start, "\177ELF", 4);
}

TEST_GROUP(make_root, remove_root)
