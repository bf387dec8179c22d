/* SPDX-License-Identifier: MIT */
/*
 * The memory of a simulated machine on which the engine traces, written as a core file: the pieces
 * that are found there are the last bytes of the processor's output, in every shape of buffers, and
 * the code is what the page tables lead to.
 */
#include "engine/stream.h"

#include "traceset/foreign.h"

#include <ptah/engine/crash_note.h>
#include <ptah/trace_set.h>

#include <elf.h>
#include <stdio.h>
#include <unistd.h>

#define PHYSICAL 0x10000000u
#define TABLE	 (PHYSICAL + RIG_ARENA - 0x10000) /* the machine allocates from the beginning */

struct scene {
	struct rig rig;
	struct stream stream;
	struct ptah_trace_config trace;
	struct ptah_capture_config config;
	struct ptah_model_faults faults;
	struct ptah_trace_set *set;
	char path[32];
};

static void open_scene(struct scene *s, const char *processor)
{
	memset(s, 0, sizeof(*s));
	rig_open_at(&s->rig, ptah_model_find(processor), 1, RIG_ARENA, PHYSICAL);
	rig_silence(&s->rig, 0, &s->faults);
	s->config = rig_config(&s->rig, &s->trace);
	strcpy(s->path, "/tmp/ptah-crash-XXXXXX");
}

static void close_scene(struct scene *s)
{
	ptah_trace_set_free(s->set);
	unlink(s->path);
	stream_free(&s->stream);
	rig_close(&s->rig);
}

static void write_at(FILE *f, uint64_t offset, const void *bytes, size_t n)
{
	assert_int_equal(fseek(f, (long)offset, SEEK_SET), 0);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
}

/*
 * Kdump's way: all memory in parts, here in the wrong order, and the beginning once more. Only the
 * first 4 MB and the last 64 KB are used.
 */
static void write_core(struct scene *s, uint64_t missing)
{
	const uint64_t used = 4 << 20, cut = missing ? missing - PHYSICAL : 0x7000;
	const uint64_t last = RIG_ARENA - 0x10000;
	const struct {
		uint64_t from, to;
	} parts[] = {{last, RIG_ARENA},
		     {missing ? cut + 4096 : cut, used},
		     {0, cut},
		     {0, cut < 0x2000 ? cut : 0x2000}};
	Elf64_Ehdr e = {.e_ident = ELFMAG "\2\1\1",
			.e_type = ET_CORE,
			.e_machine = EM_X86_64,
			.e_version = 1,
			.e_phoff = sizeof(e),
			.e_phentsize = sizeof(Elf64_Phdr),
			.e_phnum = 4};
	uint64_t offset = 0x1000;
	int fd = mkstemp(s->path);
	FILE *f = fdopen(fd, "wb");

	assert_non_null(f);
	write_at(f, 0, &e, sizeof(e));
	for (size_t i = 0; i < 4; i++) {
		const uint64_t n = parts[i].to - parts[i].from;
		const Elf64_Phdr p = {.p_type = PT_LOAD,
				      .p_offset = offset,
				      .p_paddr = PHYSICAL + parts[i].from,
				      .p_filesz = n,
				      .p_memsz = n};

		write_at(f, sizeof(e) + i * sizeof(p), &p, sizeof(p));
		write_at(f, offset, (uint8_t *)s->rig.arena + parts[i].from, n);
		offset += n;
	}
	assert_int_equal(fclose(f), 0);
}

static int read_core(struct scene *s, uint64_t missing)
{
	struct ptah_message why = {""};
	int status;

	write_core(s, missing);
	assert_true(foreign_crash_dump.is(s->path));
	status = ptah_trace_set_open(s->path, &s->set, &why);
	assert_true(status == 0 || why.text[0]);
	return status;
}

/* The pieces, one after another, are the output's bytes from `from` on, but for those that are
 * said to be lost; returns how many. */
static uint64_t check_pieces(struct scene *s, uint64_t from)
{
	FILE *f = fopen(s->path, "rb");
	uint64_t at = from, lost = 0;

	assert_non_null(f);
	for (size_t i = 0; i < s->set->stream_count; i++) {
		const struct ptah_trace_stream *piece = &s->set->streams[i];
		const size_t n = (size_t)(piece->file.to - piece->file.from);
		uint8_t *bytes = malloc(n);

		assert_int_equal(piece->cpu, s->config.cpu);
		assert_true(piece->gap || i > 0);
		lost += piece->lost;
		at += piece->lost;
		assert_int_equal(fseek(f, (long)piece->file.from, SEEK_SET), 0);
		assert_int_equal(fread(bytes, 1, n, f), n);
		assert_true(at + n <= s->stream.n);
		assert_memory_equal(bytes, s->stream.bytes + at, n);
		free(bytes);
		at += n;
	}
	fclose(f);
	return at - from - lost;
}

TEST(every_shape)
{
	static const struct {
		const char *processor;
		uint8_t shape;
		uint64_t bytes;
	} kinds[] = {
	    {"skylake", PTAH_SHAPE_RING, 5000},	    {"skylake", PTAH_SHAPE_RING, 200000},
	    {"skylake", PTAH_SHAPE_SINGLE, 100000}, {"skylake", PTAH_SHAPE_OVERFLOW, 180000},
	    {"minimal", PTAH_SHAPE_RING, 300000},   {"minimal", PTAH_SHAPE_RING, 20000},
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		struct ptah_capture_status status;
		struct ptah_capture *c;
		struct scene s;

		open_scene(&s, kinds[i].processor);
		s.config.shape = kinds[i].shape;
		c = rig_capture(&s.rig, &s.config);
		assert_int_equal(ptah_capture_start(c), PTAH_OK);
		stream_put(&s.stream, &s.rig, 0, kinds[i].bytes);
		assert_int_equal(ptah_engine_stop_here(s.rig.engine), PTAH_OK);
		assert_int_equal(read_core(&s, 0), PTAH_OK);
		status = rig_status(c);
		assert_int_equal(status.position, kinds[i].bytes);
		assert_int_equal(check_pieces(&s, status.oldest), status.position - status.oldest);
		assert_int_equal(s.set->processor.cpu.family, 6);
		assert_true(s.set->processor.trace.os);
		/* There are no page tables, and so no code. */
		assert_int_equal(s.set->note_count, 1);
		ptah_engine_continue_here(s.rig.engine);
		assert_int_equal(ptah_capture_free(c), PTAH_OK);
		close_scene(&s);
	}
}

/* What the dump does not have is lost, and what was traced after the last look is said to be. */
TEST(a_page_is_missing)
{
	struct ptah_hal_memory memory;
	struct ptah_capture *c;
	struct scene s;

	open_scene(&s, "skylake");
	c = rig_capture(&s.rig, &s.config);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	stream_put(&s.stream, &s.rig, 0, 30000);
	assert_int_equal(ptah_capture_flush(c, NULL), PTAH_OK);
	assert_int_equal(ptah_capture_memory(c, 0, &memory, 1), 1);
	assert_int_equal(read_core(&s, memory.physical + 8192), PTAH_OK);
	assert_int_equal(check_pieces(&s, 0), 30000 - 4096);
	assert_int_equal(s.set->stream_count, 2);
	assert_int_equal(s.set->streams[1].lost, 4096);
	assert_int_equal(s.set->note_count, 2);
	assert_non_null(strstr(s.set->notes[0], "was still running"));
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	close_scene(&s);
}

static void put_entry(struct scene *s, unsigned table, unsigned index, uint64_t entry)
{
	store_le64((uint8_t *)s->rig.arena + (TABLE - PHYSICAL) + (size_t)table * 4096 +
		       (size_t)index * 8,
		   entry);
}

/*
 * Two address spaces with one kernel: each has its code in the lower half, and pages that are not
 * executable, not present, or large. SDM "4-Level Paging": present is bit 0, a page of 2 MB has bit
 * 7, and no execution bit 63.
 */
TEST(code_is_found_by_page_tables)
{
	const uint64_t none = UINT64_C(1) << 63;
	struct ptah_packet packets[] = {
	    {.type = PTAH_PACKET_PSB},
	    {.type = PTAH_PACKET_PIP, .u.pip = {.cr3 = TABLE}},
	    {.type = PTAH_PACKET_PSBEND},
	    {.type = PTAH_PACKET_PIP, .u.pip = {.cr3 = TABLE + 0x4000}},
	};
	/* The dump is cut behind the first 0x7000 bytes. */
	static const struct {
		uint64_t address, size, cr3;
	} wanted[] = {
	    {UINT64_C(0xffffffff80000000), 0x7000, PTAH_SPACE_ANY},
	    {UINT64_C(0xffffffff80007000), 0x1f9000, PTAH_SPACE_ANY},
	    {0x401000, 0x1000, TABLE + 0x4000},
	    {0x401000, 0x2000, TABLE},
	    {0x404000, 0x1000, TABLE},
	};
	uint8_t bytes[64];
	struct ptah_capture *c;
	struct scene s;

	open_scene(&s, "skylake");
	for (unsigned first = 0; first < 8; first += 4) {
		put_entry(&s, first, 511, TABLE + 0x8000 + 1); /* the kernel's */
		for (unsigned level = 0; level < 3; level++)
			put_entry(&s, first + level, level == 2 ? 2 : 0,
				  TABLE + 0x1000 * (first + level + 1) + 1);
	}
	put_entry(&s, 8, 510, TABLE + 0x9000 + 1);
	put_entry(&s, 9, 0, PHYSICAL + 0x80 + 1);
	put_entry(&s, 9, 1, PHYSICAL + 0x200000 + 0x80); /* not present */
	put_entry(&s, 1, 1, TABLE + 0x2000 + 1 + none);	 /* nothing below it can be executed */
	put_entry(&s, 3, 1, PHYSICAL + 0x5000 + 1);
	put_entry(&s, 3, 2, PHYSICAL + 0x6000 + 1);
	put_entry(&s, 3, 3, PHYSICAL + 0x7000 + 1 + none);
	put_entry(&s, 3, 4, PHYSICAL + 0x3000 + 1);
	put_entry(&s, 7, 1, PHYSICAL + 0x9000 + 1);
	c = rig_capture(&s.rig, &s.config);
	assert_int_equal(ptah_capture_start(c), PTAH_OK);
	for (size_t i = 0; i < 4; i++) {
		int size = ptah_packet_encode(&packets[i], bytes, sizeof(bytes));

		assert_true(size > 0);
		ptah_machine_put(s.rig.machine, 0, bytes, (size_t)size);
	}
	assert_int_equal(ptah_capture_stop(c), PTAH_OK);
	assert_int_equal(read_core(&s, 0), PTAH_OK);
	assert_int_equal(s.set->code_count, sizeof(wanted) / sizeof(*wanted));
	for (size_t i = 0; i < s.set->code_count; i++) {
		const struct ptah_trace_code *code = &s.set->code[i];

		assert_int_equal(code->address, wanted[i].address);
		assert_int_equal(code->file.to - code->file.from, wanted[i].size);
		assert_int_equal(code->space.cr3, wanted[i].cr3);
	}
	assert_int_equal(ptah_capture_free(c), PTAH_OK);
	close_scene(&s);
}

TEST(nothing_to_find)
{
	struct scene s;

	open_scene(&s, "skylake");
	assert_int_equal(read_core(&s, 0), PTAH_E_EMPTY); /* an engine, and no capture */
	close_scene(&s);
	open_scene(&s, "skylake");
	assert_int_equal(ptah_engine_free(s.rig.engine), PTAH_OK);
	s.rig.engine = NULL;
	assert_int_equal(read_core(&s, 0), PTAH_E_EMPTY);
	close_scene(&s);
}
