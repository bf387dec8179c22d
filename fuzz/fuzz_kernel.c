/* SPDX-License-Identifier: MIT */
/*
 * Proves of the files that describe the running kernel, which may be anything below --symfs: a
 * recording of a kernel is opened and decoded over any of them, or without them.
 *
 * Input: a byte that chooses which file below proc/ and sys/ gets the rest; the others are those
 * that fit the recording.
 */
#include "fuzz.h"

#include <ptah/session.h>

#include "base/bits.h"
#include "perfdata/byte_buffer.h"
#include "perfdata/format.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT UINT64_C(0xffffffff81000000)

static const char *const files[] = {"sys/kernel/notes", "proc/kallsyms", "proc/modules",
				    "proc/kcore"};
static const char notes[] = "\4\0\0\0\4\0\0\0\3\0\0\0GNU\0abcd";
static const char kallsyms[] = "ffffffff81000000 T _text\n";
static const char modules[] = "m 4096 0 - Live 0xffffffffc0000000\n";
static char root[] = "/tmp/ptah-fuzz-kernel-XXXXXX";

static void put_file(unsigned i, const void *bytes, size_t n)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", root, files[i]);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
	close(fd);
}

static void put_map(struct perfdata_buffer *b, const char *name, uint64_t address, uint64_t offset)
{
	static const uint8_t id[20] = "abcd";

	perfdata_put32(b, PERFDATA_MMAP2);
	perfdata_put16(b, PERFDATA_MISC_KERNEL | PERFDATA_MISC_MMAP_BUILD_ID);
	perfdata_put16(b, (uint16_t)(8 + 64 + ((strlen(name) + 8) & ~(size_t)7)));
	perfdata_put32(b, UINT32_MAX);
	perfdata_put32(b, 0);
	perfdata_put64(b, address);
	perfdata_put64(b, 4096);
	perfdata_put64(b, offset);
	perfdata_put32(b, 4); /* size of the build id */
	perfdata_put(b, id, sizeof(id));
	perfdata_put64(b, 0);
	perfdata_put_string(b, name, 8);
}

/* A recording with the kernel, a module, and a trace that begins in the kernel. */
static void put_recording(void)
{
	static const uint8_t trace[] = {0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82,
					0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x99, 0x01, 0x02, 0x23,
					0x71, 0,    0,	  0,	0x81, 0xff, 0xff, 0x06};
	struct perfdata_buffer b = {0};
	uint8_t head[104 + 136] = "PERFILE2";
	uint64_t info[PERFDATA_INFO_MAX] = {[PERFDATA_INFO_PMU_TYPE] = 8};
	char path[128];
	FILE *f;

	store_le64(head + 8, 104);
	store_le64(head + 16, 136);
	store_le64(head + 24, 104);
	store_le64(head + 32, 136);
	store_le64(head + 40, sizeof(head));
	store_le32(head + 104, 8);
	store_le32(head + 108, 120);
	perfdata_put(&b, head, sizeof(head));
	perfdata_put32(&b, PERFDATA_AUXTRACE_INFO);
	perfdata_put32(&b, (uint32_t)(16 + sizeof(info)) << 16);
	perfdata_put64(&b, PERFDATA_AUXTRACE_INTEL_PT);
	perfdata_put(&b, info, sizeof(info));
	put_map(&b, "[kernel.kallsyms]_text", TEXT, TEXT);
	put_map(&b, "[m]", UINT64_C(0xffffffffc0000000), 0);
	perfdata_put32(&b, PERFDATA_AUXTRACE);
	perfdata_put32(&b, 48u << 16);
	perfdata_put64(&b, sizeof(trace) + 4);
	perfdata_put64(&b, 0);
	perfdata_put64(&b, 0);
	perfdata_put64(&b, UINT64_C(7) << 32);
	perfdata_put64(&b, UINT32_MAX);
	perfdata_put(&b, trace, sizeof(trace));
	perfdata_put32(&b, 0);
	store_le64(b.bytes + 48, b.size - sizeof(head));
	snprintf(path, sizeof(path), "%s/k.data", root);
	f = fopen(path, "w");
	CHECK(f && !b.failed && fwrite(b.bytes, b.size, 1, f) == 1);
	fclose(f);
	perfdata_buffer_free(&b);
}

static void clean(void)
{
	static const char *const all[] = {"k.data",
					  "sys/kernel/notes",
					  "proc/kallsyms",
					  "proc/modules",
					  "proc/kcore",
					  "sys/kernel",
					  "sys",
					  "proc",
					  ""};
	char path[128];

	for (unsigned i = 0; i < sizeof(all) / sizeof(*all); i++) {
		snprintf(path, sizeof(path), "%s/%s", root, all[i]);
		remove(path);
	}
}

static void begin(void)
{
	char path[128];

	CHECK(mkdtemp(root));
	atexit(clean);
	snprintf(path, sizeof(path), "%s/proc", root);
	CHECK(!mkdir(path, 0700));
	snprintf(path, sizeof(path), "%s/sys", root);
	CHECK(!mkdir(path, 0700));
	snprintf(path, sizeof(path), "%s/sys/kernel", root);
	CHECK(!mkdir(path, 0700));
	put_recording();
}

/* An ELF core file with a page of `jmp .` for the kernel, and the module after it. */
static void put_kcore(void)
{
	uint8_t elf[64 + 2 * 56 + 2] = "\x7f"
				       "ELF\2\1\1";

	store_le16(elf + 16, 4);
	store_le16(elf + 18, 62);
	store_le32(elf + 20, 1);
	store_le64(elf + 32, 64);
	store_le16(elf + 52, 64);
	store_le16(elf + 54, 56);
	store_le16(elf + 56, 2);
	for (unsigned i = 0; i < 2; i++) {
		uint8_t *ph = elf + 64 + 56 * i;

		store_le64(ph, UINT64_C(7) << 32 | 1);
		store_le64(ph + 8, sizeof(elf) - 2);
		store_le64(ph + 16, i ? UINT64_C(0xffffffffc0000000) : TEXT);
		store_le64(ph + 32, 2);
		store_le64(ph + 40, 2);
	}
	elf[sizeof(elf) - 2] = 0xeb;
	elf[sizeof(elf) - 1] = 0xfe;
	put_file(3, elf, sizeof(elf));
}

static void decode(const struct ptah_session *s)
{
	struct ptah_item items[64];
	struct ptah_reader *stream;
	uint64_t count = 0;
	int n;

	CHECK(ptah_session_streams(s) == 1 && !ptah_reader_new(s, 0, NULL, &stream));
	while ((n = ptah_reader_read(stream, items, 64)) > 0 && count < 4096)
		count += (uint64_t)n;
	CHECK(n >= 0);
	ptah_reader_free(stream);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct ptah_session_config config = {.size = sizeof(config), .symfs = root};
	struct ptah_message why = {""};
	struct ptah_session *s;
	char path[128];

	if (!size)
		return 0;
	if (strstr(root, "XXXXXX"))
		begin();
	put_file(0, notes, sizeof(notes) - 1);
	put_file(1, kallsyms, sizeof(kallsyms) - 1);
	put_file(2, modules, sizeof(modules) - 1);
	put_kcore();
	put_file(data[0] % 4, data + 1, size - 1);
	snprintf(path, sizeof(path), "%s/k.data", root);
	CHECK(!ptah_session_open(path, &config, &s, &why));
	decode(s);
	ptah_session_close(s);
	return 0;
}
