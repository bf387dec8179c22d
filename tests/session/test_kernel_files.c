/* SPDX-License-Identifier: MIT */
/*
 * The kernel's code and names are found in vmlinux, /proc/kcore and kallsyms, moved to where the
 * kernel was. What does not fit is refused.
 */
#include "kernel_recording.h"

#include <ptah/symbol.h>

#include <elf.h>

/* One visit of the kernel. */
static const char path_of_visit[] = "ffffffffad000040\n" /* entry */
				    "ffffffffad000041\n"
				    "ffffffffad000048\n" /* work */
				    "ffffffffad000049\n"
				    "ffffffffad00004a\n" /* site */
				    "ffffffffad00004f\n"
				    "ffffffffad000046\n";

static struct perfdata_build_id id_of(const char *path)
{
	struct perfdata_build_id id;

	assert_int_equal(perfdata_build_id_read(path, &id), 0);
	assert_int_equal(id.size, 20);
	return id;
}

static void record(const char *path, const struct perfdata_build_id *id)
{
	struct recorded r;

	begin_recording(&r, path);
	put_kernel(&r, id);
	visit(&r, 200);
	end_recording(&r);
}

TEST(moved_vmlinux)
{
	const struct perfdata_build_id id = id_of("vmlinux");
	const char *perf;
	struct ptah_session *s;
	struct ptah_kernel kernel;
	struct ptah_map map;

	record("k.data", &id);
	s = open_with("k.data", (struct ptah_session_config){.vmlinux = "vmlinux"});
	assert_string_equal(decoded(s), path_of_visit);
	ptah_session_kernel(s, &kernel);
	assert_string_equal(kernel.vmlinux, "vmlinux");
	assert_int_equal(kernel.slide, SLIDE);
	assert_true(ptah_session_find_map(s, 7, WORK, 0, &map));
	assert_string_equal(map.path, "[kernel.kallsyms]");
	assert_int_equal(map.file_offset + (WORK - map.address), WORK - TEXT);
	assert_false(ptah_session_find_map(s, 7, ETEXT, 0, &map));
	assert_false(ptah_session_find_map(s, 7, WORK & UINT32_MAX, 0, &map));
	ptah_session_close(s);
	perf = decoded_by_perf("-i k.data -k vmlinux");
	if (perf)
		assert_string_equal(perf, path_of_visit);
}

TEST(other_vmlinux_is_refused)
{
	const struct perfdata_build_id id = id_of("vmlinux");
	struct ptah_session_config config = {.size = sizeof(config), .vmlinux = "other"};
	struct ptah_session *s = NULL;
	struct ptah_message why;

	record("k.data", &id);
	assert_int_equal(ptah_session_open("k.data", &config, &s, &why), PTAH_E_CHANGED);
	assert_non_null(strstr(why.text, "other is not the kernel that ran"));
	config.ignore_build_ids = true;
	assert_int_equal(ptah_session_open("k.data", &config, &s, &why), 0);
	assert_string_equal(decoded(s), path_of_visit);
	ptah_session_close(s);
	config.vmlinux = "none";
	assert_int_equal(ptah_session_open("k.data", &config, &s, &why), PTAH_E_SYSTEM);
	config.vmlinux = "kernel.s";
	assert_int_equal(ptah_session_open("k.data", &config, &s, &why), PTAH_E_BAD_FILE);
	assert_non_null(strstr(why.text, "symbol _text"));
}

/* Copies FROM to TO, whose folders are made. */
static void install(const char *from, const char *to)
{
	char command[1024];

	assert_true(snprintf(command, sizeof(command), "mkdir -p $(dirname %s) && cp %s %s", to,
			     from, to) < (int)sizeof(command));
	assert_non_null(shell(command));
}

static void remove_root(void)
{
	assert_non_null(shell("rm -rf root cache"));
}

TEST(usual_places)
{
	const struct perfdata_build_id id = id_of("vmlinux");
	const struct ptah_session_config config = {.symfs = "root", .build_id_cache = "cache"};
	char places[4][256], text[2 * PERFDATA_BUILD_ID_MAX + 1], *release;
	struct ptah_session *s;

	release = shell("uname -r | tr -d '\\n'");
	perfdata_build_id_text(&id, text);
	snprintf(places[0], sizeof(places[0]), "root/boot/vmlinux-%s", release);
	snprintf(places[1], sizeof(places[1]), "root/lib/modules/%s/build/vmlinux", release);
	snprintf(places[2], sizeof(places[2]), "root/usr/lib/debug/.build-id/%.2s/%s.debug", text,
		 text + 2);
	snprintf(places[3], sizeof(places[3]), "cache/.build-id/%.2s/%s/elf", text, text + 2);
	record("k.data", &id);
	for (unsigned i = 0; i < 4; i++) {
		install("vmlinux", places[i]);
		s = open_with("k.data", config);
		assert_string_equal(decoded(s), path_of_visit);
		assert_true(has_note(s, "patches its code"));
		ptah_session_close(s);
		/* Another build in the same place. */
		install("other", places[i]);
		s = open_with("k.data", config);
		assert_non_null(strstr(decoded(s), "error"));
		assert_true(has_note(s, i == 3 ? "no vmlinux with build id" : "is not used"));
		assert_true(has_note(s, text));
		ptah_session_close(s);
		remove_root();
	}
}

TEST(no_build_id_recorded)
{
	const struct ptah_session_config config = {.symfs = "root"};
	char place[256], *release = shell("uname -r | tr -d '\\n'");
	struct ptah_session *s;

	snprintf(place, sizeof(place), "root/boot/vmlinux-%s", release);
	record("k.data", NULL);
	s = open_with("k.data", config);
	assert_true(has_note(s, "no vmlinux of its release"));
	ptah_session_close(s);
	install("other", place);
	s = open_with("k.data", config);
	assert_string_equal(decoded(s), path_of_visit);
	ptah_session_close(s);
	remove_root();
}

TEST(hidden_while_recording)
{
	struct ptah_session *s;
	struct recorded r;

	begin_recording(&r, "k.data");
	visit(&r, 200);
	end_recording(&r);
	s = open_with("k.data", (struct ptah_session_config){.symfs = "root"});
	assert_true(has_note(s, "kernel.kptr_restrict"));
	ptah_session_close(s);
	s = open_with("k.data", (struct ptah_session_config){.vmlinux = "vmlinux"});
	assert_true(has_note(s, "vmlinux is not used"));
	ptah_session_close(s);
}

/* The running kernel below root/: kcore with the code, kallsyms, modules and the build id. */
static void run_kernel(uint64_t text, const char *notes_of)
{
	const Elf64_Ehdr head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1},
				 .e_type = ET_CORE,
				 .e_machine = EM_X86_64,
				 .e_version = 1,
				 .e_phoff = sizeof(head),
				 .e_ehsize = sizeof(head),
				 .e_phentsize = sizeof(Elf64_Phdr),
				 .e_phnum = 1};
	const Elf64_Phdr load = {.p_type = PT_LOAD,
				 .p_flags = PF_R | PF_W | PF_X,
				 .p_offset = 4096,
				 .p_vaddr = text,
				 .p_filesz = 8192,
				 .p_memsz = 8192};
	char command[512], line[256];
	FILE *f;

	assert_non_null(shell("mkdir -p root/proc root/sys/kernel"));
	f = fopen("root/proc/kcore", "w");
	assert_int_equal(fwrite(&head, sizeof(head), 1, f), 1);
	assert_int_equal(fwrite(&load, sizeof(load), 1, f), 1);
	assert_int_equal(fclose(f), 0);
	snprintf(command, sizeof(command),
		 "truncate -s 4096 root/proc/kcore && objcopy -O binary -j .text vmlinux text && "
		 "cat text text >> root/proc/kcore && "
		 "objcopy -O binary -j .note.gnu.build-id %s root/sys/kernel/notes",
		 notes_of);
	assert_non_null(shell(command));
	snprintf(line, sizeof(line),
		 "%016" PRIx64 " T _text\n%016" PRIx64 " T entry\n%016" PRIx64 " t work\n"
		 "%016" PRIx64 " t load\t[m_o]\n",
		 text, text + 64, text + 72, text + 4096);
	write_text("root/proc/kallsyms", line);
	snprintf(line, sizeof(line), "m_o 4096 0 - Live 0x%016" PRIx64 "\n", text + 4096);
	write_text("root/proc/modules", line);
}

static void expect_name(const struct ptah_session *s, uint64_t address, const char *name,
			const char *module)
{
	struct ptah_kernel_symbol symbol;
	struct ptah_symbols *symbols;
	struct ptah_kernel kernel;

	ptah_session_kernel(s, &kernel);
	assert_non_null(kernel.kallsyms);
	assert_int_equal(ptah_symbols_new(NULL, &symbols), 0);
	assert_int_equal(
	    ptah_symbols_add_kallsyms(symbols, kernel.kallsyms, kernel.symbol, &kernel.address), 0);
	assert_int_equal(ptah_symbols_lookup_kernel(symbols, address, &symbol), name != NULL);
	if (name) {
		assert_string_equal(symbol.name, name);
		assert_string_equal(symbol.module, module);
	}
	ptah_symbols_free(symbols);
}

TEST(running_kernel)
{
	const struct ptah_session_config config = {.symfs = "root"};
	const struct perfdata_build_id id = id_of("vmlinux");
	struct ptah_session *s;
	struct recorded r;

	begin_recording(&r, "k.data");
	put_kernel(&r, &id);
	put_kernel_map(&r, "/lib/modules/1/m-o.ko.xz", ETEXT, 4096, 0, NULL);
	visit(&r, 200);
	/* The same code again, as the module's. */
	generator_enable(&r.g, ENTRY + 4096);
	generator_tip(&r.g, AFTER + 4096);
	generator_disable(&r.g);
	end_recording(&r);
	run_kernel(TEXT, "vmlinux");
	s = open_with("k.data", config);
	assert_null(strstr(decoded(s), "error"));
	assert_non_null(strstr(decoded(s), "ffffffffad001048\n"));
	expect_name(s, WORK + 3, "work", "");
	expect_name(s, ETEXT + 10, "load", "[m_o]");
	ptah_session_close(s);
	/* The module is elsewhere: another start of the same kernel. */
	write_text("root/proc/modules", "m_o 4096 0 - Live 0xffffffffc0000000\n");
	s = open_with("k.data", config);
	assert_non_null(strstr(decoded(s), "error"));
	ptah_session_close(s);
	/* Another start, at another address: names are moved, those of modules are not used. */
	run_kernel(LINKED, "vmlinux");
	s = open_with("k.data", config);
	assert_non_null(strstr(decoded(s), "error"));
	expect_name(s, WORK + 3, "work", "");
	expect_name(s, ETEXT + 10, NULL, NULL);
	ptah_session_close(s);
	/* Another kernel. */
	run_kernel(TEXT, "other");
	s = open_with("k.data", config);
	assert_non_null(strstr(decoded(s), "error"));
	assert_true(has_note(s, "is not decoded"));
	ptah_session_close(s);
	remove_root();
}

/* perf record --kcore copies kallsyms beside the recording: the first to be used. */
TEST(names_beside_the_recording)
{
	const struct perfdata_build_id id = id_of("vmlinux");
	struct ptah_session *s;

	record("k.data", &id);
	run_kernel(TEXT, "vmlinux");
	install("k.data", "root/folder/data");
	install("root/proc/kallsyms", "root/folder/kcore_dir/kallsyms");
	install("root/proc/kcore", "root/folder/kcore_dir/kcore");
	s = open_with("root/folder", (struct ptah_session_config){.symfs = "missing"});
	assert_string_equal(decoded(s), path_of_visit);
	expect_name(s, WORK, "work", "");
	ptah_session_close(s);
	remove_root();
}

TEST(kallsyms)
{
	const struct perfdata_build_id id = id_of("vmlinux");
	struct ptah_session_config config = {.size = sizeof(config),
					     .kallsyms = "root/proc/kallsyms"};
	struct ptah_session *s;
	struct ptah_message why;

	record("k.data", &id);
	run_kernel(TEXT, "vmlinux");
	s = open_with("k.data", config);
	expect_name(s, WORK, "work", "");
	expect_name(s, WORK - 1, "entry", "");
	expect_name(s, TEXT - 1, NULL, NULL);
	ptah_session_close(s);
	write_text("root/proc/kallsyms", "0000000000000000 T _text\n0000000000000000 T work\n");
	s = open_with("k.data", config);
	assert_true(has_note(s, "hides the kernel's addresses"));
	ptah_session_close(s);
	write_text("root/proc/kallsyms", "not kallsyms\n");
	assert_int_equal(ptah_session_open("k.data", &config, &s, &why), PTAH_E_BAD_FILE);
	assert_non_null(strstr(why.text, "/proc/kallsyms"));
	config.kallsyms = "missing";
	assert_int_equal(ptah_session_open("k.data", &config, &s, &why), PTAH_E_SYSTEM);
	remove_root();
}

TEST_GROUP(make_kernels, remove_kernels)
