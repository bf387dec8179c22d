/* SPDX-License-Identifier: MIT */
/* Reads build ids from ELF files made by hand, intact and malformed. */
#include "perfdata/build.h"

#include "perfdata/build_id.h"

#include <elf.h>

struct image {
	Elf64_Ehdr header;
	Elf64_Phdr segments[2];
	Elf64_Nhdr other;
	char other_name[4];
	uint32_t other_bytes;
	Elf64_Nhdr note;
	char name[4];
	uint8_t id[32];
};

static struct image make(uint32_t id_size)
{
	struct image f;

	memset(&f, 0, sizeof(f));
	memcpy(f.header.e_ident, ELFMAG, SELFMAG);
	f.header.e_ident[EI_CLASS] = ELFCLASS64;
	f.header.e_ident[EI_DATA] = ELFDATA2LSB;
	f.header.e_ident[EI_VERSION] = EV_CURRENT;
	f.header.e_type = ET_EXEC;
	f.header.e_machine = EM_X86_64;
	f.header.e_version = EV_CURRENT;
	f.header.e_ehsize = sizeof(f.header);
	f.header.e_phoff = offsetof(struct image, segments);
	f.header.e_phentsize = sizeof(f.segments[0]);
	f.header.e_phnum = 2;
	f.segments[0].p_type = PT_LOAD;
	f.segments[1] = (Elf64_Phdr){
	    .p_type = PT_NOTE,
	    .p_offset = offsetof(struct image, other),
	    .p_filesz = sizeof(f) - sizeof(f.id) + id_size - offsetof(struct image, other),
	    .p_align = 4,
	};
	f.other = (Elf64_Nhdr){4, 4, 1}; /* NT_GNU_ABI_TAG */
	memcpy(f.other_name, "GNU", 4);
	f.note = (Elf64_Nhdr){4, id_size, NT_GNU_BUILD_ID};
	memcpy(f.name, "GNU", 4);
	for (unsigned i = 0; i < sizeof(f.id); i++)
		f.id[i] = (uint8_t)(0xf0 + i);
	return f;
}

static int read_back(const void *bytes, size_t n, struct perfdata_build_id *id)
{
	char path[32];
	int status;

	build_file(path, bytes, n);
	status = perfdata_build_id_read(path, id);
	unlink(path);
	return status;
}

TEST(id_of_a_file)
{
	char text[2 * PERFDATA_BUILD_ID_MAX + 1];
	struct perfdata_build_id id;
	struct image f = make(8);

	assert_int_equal(read_back(&f, sizeof(f), &id), 0);
	assert_int_equal(id.size, 8);
	assert_string_equal(perfdata_build_id_text(&id, text), "f0f1f2f3f4f5f6f7");
	f = make(32); /* cut to 20, as perf does */
	assert_int_equal(read_back(&f, sizeof(f), &id), 0);
	assert_int_equal(id.size, 20);
	f.note.n_type = NT_GNU_GOLD_VERSION;
	assert_int_equal(read_back(&f, sizeof(f), &id), 0);
	assert_int_equal(id.size, 0);
}

TEST(files_without)
{
	struct perfdata_build_id id;

	assert_int_equal(read_back("", 0, &id), 0);
	assert_int_equal(id.size, 0);
	assert_int_equal(read_back("#!/bin/sh\n", 10, &id), 0);
	assert_int_equal(id.size, 0);
	assert_int_equal(perfdata_build_id_read("/", &id), 0);
	assert_int_equal(id.size, 0);
	assert_int_equal(perfdata_build_id_read("/no/such/file", &id), PTAH_E_SYSTEM);
}

/* Each prefix of the file, and each changed byte: an id or none, but never more than 20 bytes. */
TEST(broken_files)
{
	struct perfdata_build_id id;
	struct image f = make(20);
	uint8_t bytes[sizeof(f)];

	for (size_t n = 0; n < sizeof(f); n++) {
		assert_int_equal(read_back(&f, n, &id), 0);
		assert_true(id.size <= PERFDATA_BUILD_ID_MAX);
	}
	for (size_t i = 0; i < 4 * sizeof(f); i++) {
		static const uint8_t values[] = {0xff, 0x80, 0x01, 0x00};

		memcpy(bytes, &f, sizeof(f));
		bytes[i / 4] = values[i % 4];
		assert_int_equal(read_back(bytes, sizeof(bytes), &id), 0);
		assert_true(id.size <= PERFDATA_BUILD_ID_MAX);
	}
}
