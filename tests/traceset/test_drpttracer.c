/* SPDX-License-Identifier: MIT */
/*
 * Folders as DynamoRIO's tracers leave them, made by the test from the layout in DynamoRIO's
 * sources. How many instructions a system call has follows from its code, which is written out
 * below; that of the program that QEMU runs is the recorder's count.
 */
#include "drmemtrace.h"
#include "folder.h"

#include "traceset/set.h"

#include <ptah/record.h>
#include <ptah/trace_set.h>

#include <elf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static FILE *create(const char *path)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	return f;
}

static void put_bytes(const char *path, const void *bytes, size_t n)
{
	FILE *f = create(path);

	assert_int_equal(fwrite(bytes, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

/* The kernel */

#define ENTRY UINT64_C(0xffffffff81000000)

static const uint8_t code[] = {
    0x48, 0x31, 0xc0,		  /* 00 xor rax, rax */
    0xff, 0xc8,			  /* 03 dec eax */
    0x75, 0xfc,			  /* 05 jne 03 */
    0xe8, 0x04, 0x00, 0x00, 0x00, /* 07 call 10 */
    0x48, 0x0f, 0x07,		  /* 0c sysret */
    0x90,			  /* 0f nop */
    0x90,			  /* 10 nop */
    0xc3,			  /* 11 ret */
};

/* As kcore_copy.cpp writes it: segments that begin anywhere, without sections and alignment. */
static void put_kernel(const char *log)
{
	const Elf64_Ehdr head = {
	    .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
	    .e_type = ET_CORE,
	    .e_machine = EM_X86_64,
	    .e_version = EV_CURRENT,
	    .e_phoff = sizeof(head),
	    .e_ehsize = sizeof(head),
	    .e_phentsize = sizeof(Elf64_Phdr),
	    .e_phnum = 2,
	};
	const Elf64_Phdr load[2] = {
	    {.p_type = PT_LOAD,
	     .p_flags = PF_R | PF_X,
	     .p_vaddr = ENTRY,
	     .p_offset = sizeof(head) + sizeof(load) + 3,
	     .p_filesz = sizeof(code),
	     .p_memsz = sizeof(code)},
	    {.p_type = PT_LOAD,
	     .p_flags = PF_R | PF_X,
	     .p_vaddr = UINT64_C(0xffffffffc0000000),
	     .p_offset = sizeof(head) + sizeof(load),
	     .p_filesz = 3,
	     .p_memsz = 3},
	};
	char path[300];
	FILE *f;

	snprintf(path, sizeof(path), "%s/kcore", log);
	f = create(path);
	fwrite(&head, sizeof(head), 1, f);
	fwrite(load, sizeof(load), 1, f);
	fwrite("\x90\x90\xc3", 3, 1, f);
	fwrite(code, sizeof(code), 1, f);
	assert_int_equal(fclose(f), 0);
	snprintf(path, sizeof(path), "%s/kallsyms", log);
	f = create(path);
	fprintf(f, "ffffffff81000000 T _text\nffffffff81000000 T _stext\n"
		   "ffffffff81000000 T do_syscall\n"
		   "ffffffff81000010 t helper\nffffffff81000012 T _etext\n");
	assert_int_equal(fclose(f), 0);
}

/* System calls */

/* The packets of a call that passes the loop so many times, 1 to 6. Returns their size. */
static size_t call_packets(uint8_t *to, unsigned passes)
{
	static const uint8_t begin[] = {
	    2,	  0x82, 2,    0x82, 2,	  0x82, 2,    0x82, 2,
	    0x82, 2,	0x82, 2,    0x82, 2,	0x82, 2,    0x23, /* PSB, PSBEND */
	    0x99, 0x01,						  /* MODE.Exec: 64-bit */
	    0x71, 0x00, 0x00, 0x00, 0x81, 0xff, 0xff,		  /* TIP.PGE: ENTRY */
	};
	static const uint8_t end[] = {
	    0x6d, 0x0c, 0x00, 0x00, 0x81, 0xff, 0xff, /* TIP: where ret goes */
	    0x01,				      /* TIP.PGD, no address */
	};
	size_t n = sizeof(begin);

	memcpy(to, begin, n);
	/* TNT: taken but for the last one, below a stop bit and above bit 0. */
	to[n++] = (uint8_t)((1u << passes | ((1u << passes) - 2)) << 1);
	memcpy(to + n, end, sizeof(end));
	return n + sizeof(end);
}

/* xor, the loop's two, call, nop, ret, sysret */
static uint64_t call_instructions(unsigned passes)
{
	return 1 + 2 * passes + 4;
}

#define PID 4000

/* As pt_metadata_t: family, model, stepping, shift, mult, zero. */
static const uint8_t metadata[18] = {6, 0, 85, 4, 31, 0, 5, 0xcd, 0xa1, 0x22, 9, 8, 7};

static void put_call(FILE *f, int32_t tid, uint64_t index, unsigned passes, bool old,
		     uint64_t arguments)
{
	static const uint64_t values[6] = {1, 2, 3, 4, 5, 6};
	uint8_t packets[64];
	const size_t n = call_packets(packets, passes);

	drmemtrace_put_syscall(f, &(struct drmemtrace_syscall){PID, tid, 39, index, values,
							       arguments, packets, n, old});
}

/* Calls of 1, 2, ... passes. Returns their instructions. */
static uint64_t put_thread(const char *log, int32_t tid, unsigned calls, bool old,
			   uint64_t arguments)
{
	uint64_t sum = 0;
	char path[300];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%d.raw.pt", log, tid);
	f = create(path);
	drmemtrace_put_metadata(f, PID, tid, metadata, sizeof(metadata));
	for (unsigned i = 0; i < calls; i++) {
		put_call(f, tid, i, 1 + i % 6, old, arguments);
		sum += call_instructions(1 + i % 6);
	}
	assert_int_equal(fclose(f), 0);
	return sum;
}

static void make_log(const char *path)
{
	char command[400];

	snprintf(command, sizeof(command), "rm -rf '%s' && mkdir -p '%s'", path, path);
	assert_int_equal(system(command), 0);
}

/* Decoding */

struct sums {
	uint64_t instructions, errors;
};

static int add_up(void *context, size_t stream, struct ptah_profile *profile)
{
	struct ptah_profile_totals totals;
	struct sums *sums = context;

	(void)stream;
	assert_int_equal(ptah_profile_totals(profile, &totals), 0);
	sums->instructions += totals.instructions;
	sums->errors += totals.errors + totals.overflows;
	return 0;
}

static struct ptah_session *open_path(const char *path)
{
	struct ptah_session *session;
	struct ptah_message why = {""};

	if (ptah_session_open(path, NULL, &session, &why) < 0)
		fail_msg("%s", why.text);
	return session;
}

/* Reads the path, and counts with one and with several threads, in segments. */
static struct sums decode(const struct ptah_session *session)
{
	struct sums read = {0};

	for (size_t i = 0; i < ptah_session_streams(session); i++) {
		struct ptah_reader *stream;
		struct ptah_item items[64];
		int n;

		assert_int_equal(ptah_reader_new(session, i, NULL, &stream), 0);
		while ((n = ptah_reader_read(stream, items, 64)) > 0)
			for (int k = 0; k < n; k++) {
				if (items[k].type == PTAH_ITEM_BLOCK)
					read.instructions += items[k].ninsn;
				read.errors += items[k].type == PTAH_ITEM_ERROR ||
					       items[k].type == PTAH_ITEM_OVERFLOW;
			}
		assert_int_equal(n, 0);
		ptah_reader_free(stream);
	}
	for (unsigned jobs = 0; jobs <= 2; jobs += 2) {
		const struct ptah_jobs j = {.size = sizeof(j), .jobs = jobs, .segment = 4096};
		struct sums counted = {0};

		assert_int_equal(ptah_session_count(session, &j, NULL, add_up, &counted), 0);
		assert_int_equal(counted.instructions, read.instructions);
		assert_int_equal(counted.errors, read.errors);
	}
	return read;
}

static bool has_note(const struct ptah_session *session, const char *words)
{
	const char *note;

	for (size_t i = 0; (note = ptah_session_note(session, i)); i++)
		if (strstr(note, words))
			return true;
	return false;
}

/* Saves the set as a ptah.trace in its folder, which then decodes to the same. */
static void save(const char *path, const char *to)
{
	struct ptah_trace_set *set;
	struct ptah_message why = {""};

	if (ptah_trace_set_open(path, &set, &why) < 0 || ptah_trace_set_save(set, to, &why) < 0)
		fail_msg("%s", why.text);
	ptah_trace_set_free(set);
}

static void expect(const char *path, size_t streams, uint64_t instructions)
{
	struct ptah_session *session = open_path(path);
	struct sums sums;

	assert_int_equal(ptah_session_streams(session), streams);
	sums = decode(session);
	assert_int_equal(sums.errors, 0);
	assert_int_equal(sums.instructions, instructions);
	ptah_session_close(session);
}

/* Two threads; opened by the folder, by its kernel.raw, and one of them by its file. */
TEST(threads)
{
	struct ptah_stream_info info;
	struct ptah_trace_set *set;
	struct ptah_session *session;
	struct ptah_kernel kernel;
	struct ptah_map map;
	uint64_t first, second;

	make_log("log/kernel.raw");
	make_log("log/raw");
	put_kernel("log/kernel.raw");
	first = put_thread("log/kernel.raw", 900, 3, false, 0);
	second = put_thread("log/kernel.raw", 1000, 400, false, 0);
	expect("log", 2, first + second);
	expect("log/", 2, first + second);
	expect("log/kernel.raw", 2, first + second);
	expect("log/kernel.raw/900.raw.pt", 1, first);
	assert_int_equal(chdir("log/kernel.raw"), 0);
	expect("900.raw.pt", 1, first);
	expect(".", 2, first + second);
	assert_int_equal(chdir(folder), 0);

	session = open_path("log");
	assert_int_equal(ptah_session_stream_info(session, 0, &info), 0);
	assert_int_equal(info.pid, PID);
	assert_int_equal(info.tid, 900);
	assert_int_equal(info.cpu, -1);
	assert_int_equal(info.lost, 0);
	assert_int_equal(ptah_session_stream_info(session, 1, &info), 0);
	assert_int_equal(info.tid, 1000);
	/* The processor and its clock: 2^31 ticks are 0x22a1cd05 ns. */
	if (ptah_trace_set_open("log", &set, NULL) < 0)
		fail();
	assert_int_equal(set->processor.cpu.family, 6);
	assert_int_equal(set->processor.cpu.model, 85);
	assert_int_equal(set->processor.cpu.stepping, 4);
	ptah_trace_set_free(set);
	assert_int_equal(ptah_session_time(session, UINT64_C(1) << 31), 0x22a1cd05 + 0x70809);
	assert_true(ptah_session_find_map(session, PID, ENTRY + 5, 0, &map));
	assert_string_equal(map.path, "[kernel.kallsyms]");
	ptah_session_kernel(session, &kernel);
	assert_non_null(kernel.kallsyms);
	assert_true(has_note(session, "403 system calls"));
	assert_false(has_note(session, "not copied"));
	ptah_session_close(session);
	save("log", "log/ptah.trace");
	assert_int_equal(rename("log", "moved"), 0);
	expect("moved", 2, first + second);
}

/* Sizes as they were counted until October 2023, and arguments, which the layout allows. */
TEST(other_sizes)
{
	for (unsigned calls = 1; calls <= 4; calls += 3)
		for (uint64_t arguments = 0; arguments <= 6; arguments += 3)
			for (unsigned old = 0; old < 2; old++) {
				uint64_t sum;

				make_log("sizes");
				put_kernel("sizes");
				sum = put_thread("sizes", 7, calls, old, arguments);
				expect("sizes", 1, sum);
			}
}

/* A file for each system call, as before May 2023. */
TEST(a_file_for_each_call)
{
	struct ptah_session *session;
	struct ptah_stream_info info;
	uint64_t sum = 0;

	make_log("calls");
	put_kernel("calls");
	for (unsigned i = 0; i < 12; i++) {
		uint8_t packets[64];
		char path[64];

		snprintf(path, sizeof(path), "calls/%u.%u.pt", 70 + i % 2, i / 2);
		put_bytes(path, packets, call_packets(packets, 1 + i % 6));
		strcat(path, ".metadata");
		put_bytes(path, metadata, sizeof(metadata));
		sum += call_instructions(1 + i % 6);
	}
	expect("calls", 2, sum);
	session = open_path("calls");
	assert_int_equal(ptah_session_stream_info(session, 1, &info), 0);
	assert_int_equal(info.tid, 71);
	ptah_session_close(session);
	put_bytes("calls/70.3.pt.metadata", metadata, 17);
	{
		struct ptah_message why = {""};

		assert_int_equal(ptah_session_open("calls", NULL, &session, &why), PTAH_E_BAD_FILE);
		assert_non_null(strstr(why.text, "calls/70.3.pt.metadata: "));
	}
}

/*
 * A call's packets may continue those of the one before, if its client used one handle for all of
 * them: then there is no PSB.
 */
TEST(one_trace_in_pieces)
{
	uint8_t packets[64];
	size_t n;
	FILE *f;

	make_log("pieces");
	put_kernel("pieces");
	f = create("pieces/5.raw.pt");
	drmemtrace_put_metadata(f, PID, 5, metadata, sizeof(metadata));
	put_call(f, 5, 0, 2, false, 0);
	n = call_packets(packets, 3);
	drmemtrace_put_syscall(
	    f, &(struct drmemtrace_syscall){PID, 5, 1, 1, NULL, 0, packets + 18, n - 18, false});
	/* Cut after the TNT: the next one begins anew, and the call has no end. */
	n = call_packets(packets, 4);
	drmemtrace_put_syscall(
	    f, &(struct drmemtrace_syscall){PID, 5, 1, 2, NULL, 0, packets, n - 5, false});
	put_call(f, 5, 3, 1, false, 0);
	drmemtrace_put_syscall(
	    f, &(struct drmemtrace_syscall){PID, 5, 1, 4, NULL, 0, packets, 0, false});
	assert_int_equal(fclose(f), 0);
	{
		struct ptah_session *session = open_path("pieces");
		struct sums sums = decode(session);

		/* Of the third call, all up to the last outcome: nothing shows that the call
		 * followed. */
		assert_true(sums.errors <= 1);
		assert_int_equal(sums.instructions, call_instructions(2) + call_instructions(3) +
							call_instructions(4) - 4 +
							call_instructions(1));
		ptah_session_close(session);
	}
}

TEST(without_kernel)
{
	struct ptah_session *session;

	make_log("bare");
	put_thread("bare", 6, 2, false, 0);
	session = open_path("bare");
	assert_true(has_note(session, "not copied"));
	ptah_session_close(session);
}

/* The recorder of the traced program was killed: what there is, is decoded. */
TEST(a_file_that_is_cut)
{
	struct stat st;

	make_log("cut");
	put_kernel("cut");
	put_thread("cut", 6, 3, false, 0);
	assert_int_equal(stat("cut/6.raw.pt", &st), 0);
	for (off_t size = st.st_size - 1; size >= 42; size--) {
		struct ptah_message why = {""};
		struct ptah_session *session;
		struct sums sums;
		int status;

		assert_int_equal(truncate("cut/6.raw.pt", size), 0);
		status = ptah_session_open("cut", NULL, &session, &why);
		if (status < 0) {
			/* Nothing but the processor, and the entries of a call. */
			assert_true(size <= 42 + 48);
			continue;
		}
		assert_true(size > 42 + 48);
		sums = decode(session);
		assert_true(sums.instructions <
			    call_instructions(1) + call_instructions(2) + call_instructions(3) + 1);
		if (size > 42 + 2 * (48 + 36))
			assert_true(sums.instructions >=
				    call_instructions(1) + call_instructions(2));
		if (size != 42 + 48 + 36 && size != 42 + 2 * (48 + 36))
			assert_true(has_note(session, "6.raw.pt ends in the middle"));
		ptah_session_close(session);
	}
}

static void refuse(const char *words)
{
	struct ptah_session *session;
	struct ptah_message why = {""};

	assert_true(ptah_session_open("bad", NULL, &session, &why) < 0);
	if (!strstr(why.text, words))
		fail_msg("\"%s\" is not in \"%s\"", words, why.text);
}

static void change_byte(long offset, uint8_t value)
{
	FILE *f = fopen("bad/6.raw.pt", "r+");

	assert_non_null(f);
	assert_int_equal(fseek(f, offset, SEEK_SET), 0);
	fputc(value, f);
	assert_int_equal(fclose(f), 0);
}

TEST(what_is_malformed)
{
	make_log("bad");
	put_kernel("bad");
	refuse("bad: ");
	put_thread("bad", 6, 3, false, 0);
	change_byte(42 + 84 + 31, 0xff); /* the second call's number has no such type */
	refuse("bad/6.raw.pt: there is no system call's trace at offset 126");
	put_thread("bad", 6, 3, false, 0);
	change_byte(42 + 16, 3); /* the first call is shorter than its entries */
	refuse("bad/6.raw.pt: there is no system call's trace at offset 42");
	put_thread("bad", 6, 3, false, 0);
	change_byte(42 + 40 + 1, 0x10); /* 4096 arguments */
	refuse("bad/6.raw.pt: there is no system call's trace at offset 42");
	/* Another processor in a second file. */
	put_thread("bad", 6, 3, false, 0);
	put_thread("bad", 9, 3, false, 0);
	change_byte(24 + 2, 86);
	{
		struct ptah_session *session = open_path("bad");

		assert_true(has_note(session, "different processors"));
		ptah_session_close(session);
	}
	/* Neither of these names is one of the traces. */
	put_bytes("bad/6.raw.pt", "x", 1);
	put_bytes("bad/9.raw.pt", "", 0);
	refuse("bad: ");
}

/* The folders of drpt2trace's tests */

struct recording {
	FILE *packets, *records;
	struct ptah_record_status status;
	struct ptah_record_metadata metadata;
};

static int take(void *context, const struct ptah_record_piece *piece)
{
	struct recording *r = context;
	uint32_t type = 0;

	if (piece->kind == PTAH_RECORD_PIECE_TRACE) {
		fwrite(piece->bytes, piece->size, 1, r->packets);
		return 0;
	}
	memcpy(&type, piece->bytes, sizeof(type));
	if (type < 64)
		fwrite(piece->bytes, piece->size, 1, r->records);
	return 0;
}

/* False: QEMU or its plugin is missing. */
static bool record_program(struct recording *r)
{
	char *argv[] = {"/bin/true", NULL};
	const struct ptah_record_sink sink = {.take = take, .context = r};
	const struct ptah_record_config config = {.size = sizeof(config),
						  .target.argv = argv,
						  .backend.kind = PTAH_RECORDER_QEMU,
						  .backend.no_syscalls = true, /* no samples */
						  .output.sink = &sink};
	struct ptah_message why = {""};
	int status;

	make_log("records");
	r->packets = create("records/pt.bin");
	r->records = create("records/primary.sideband.pevent");
	r->status.size = sizeof(r->status);
	status = ptah_record(&config, &r->status, &why);
	assert_int_equal(fclose(r->packets), 0);
	assert_int_equal(fclose(r->records), 0);
	if (status == PTAH_E_MISSING)
		print_message("SKIP: %s\n", why.text);
	else
		assert_int_equal(status, 0);
	return status >= 0;
}

/* perf's own record of the clock: a nanosecond is a tick. */
static void put_clock(void)
{
	const uint64_t record[4] = {79 | UINT64_C(32) << 48, 0, 1, 0};

	put_bytes("records/secondary.sideband.pevent", record, sizeof(record));
}

/* How many of the files whose code was executed lie below the folder. */
static unsigned files_below(const char *log)
{
	struct ptah_session *session = open_path(log);
	const char *seen[64] = {NULL};
	struct ptah_stream_info info;
	struct ptah_reader *stream;
	struct ptah_item items[64];
	unsigned count = 0, below = 0;
	char prefix[200];
	int n;

	snprintf(prefix, sizeof(prefix), "%s/%s/", folder, log);
	assert_int_equal(ptah_session_stream_info(session, 0, &info), 0);
	assert_int_equal(ptah_reader_new(session, 0, NULL, &stream), 0);
	while ((n = ptah_reader_read(stream, items, 64)) > 0)
		for (int i = 0; i < n; i++) {
			struct ptah_map map = {0};
			unsigned k = 0;

			if (items[i].type != PTAH_ITEM_BLOCK ||
			    !ptah_session_find_map(session, info.space, items[i].ip, items[i].tsc,
						   &map))
				continue;
			while (k < count && strcmp(seen[k], map.path) != 0)
				k++;
			if (k < count)
				continue;
			assert_true(count < 64);
			seen[count++] = map.path;
			below += !strncmp(map.path, prefix, strlen(prefix));
		}
	assert_true(count >= 2);
	ptah_reader_free(stream);
	ptah_session_close(session);
	return below;
}

TEST(packets_and_records)
{
	struct recording r = {0};
	struct ptah_message why = {""};
	struct ptah_session *session;
	struct ptah_trace_set *set;
	uint64_t damaged[8] = {PERF_RECORD_COMM | UINT64_C(64) << 48};

	if (!record_program(&r))
		skip();
	put_clock();
	assert_true(r.status.instructions > 1000);
	expect("records", 1, r.status.instructions);
	assert_int_equal(files_below("records"), 0);
	/* Files that lie in the folder as they did on the machine are taken instead of the
	 * machine's.
	 */
	assert_int_equal(
	    system("cp --parents \"$(readlink -f /lib64/ld-linux-x86-64.so.2)\" records"), 0);
	expect("records", 1, r.status.instructions);
	assert_int_equal(files_below("records"), 1);
	save("records", "records/ptah.trace");
	assert_int_equal(rename("records", "elsewhere"), 0);
	expect("elsewhere", 1, r.status.instructions);
	assert_int_equal(files_below("elsewhere"), 1);
	assert_int_equal(rename("elsewhere", "records") | unlink("records/ptah.trace"), 0);
	/* A trace with the kernel's part. */
	assert_int_equal(ptah_trace_set_open("records", &set, &why), 0);
	assert_true(!set->processor.trace.os && set->processor.has_clock);
	ptah_trace_set_free(set);
	put_kernel("records");
	assert_int_equal(ptah_trace_set_open("records", &set, &why), 0);
	assert_true(set->processor.trace.os && set->processor.has_clock && set->kallsyms);
	ptah_trace_set_free(set);
	expect("records", 1, r.status.instructions);
	/* Records that end in another way. */
	damaged[6] = UINT64_MAX;
	put_bytes("records/secondary.sideband.pevent", damaged, sizeof(damaged));
	assert_int_equal(ptah_session_open("records", NULL, &session, &why), PTAH_E_UNSUPPORTED);
	assert_non_null(strstr(why.text, "secondary.sideband.pevent: the record at offset 0 "));
}

TEST_GROUP(make_folder, remove_folder)
