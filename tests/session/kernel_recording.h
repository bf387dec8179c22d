/* SPDX-License-Identifier: MIT */
/*
 * A small kernel, and recordings of it as perf makes them. The kernel is assembled into vmlinux, at
 * the addresses of Linux; in a recording it lies SLIDE higher. Its code:
 *
 *	_text:  64 bytes
 *	entry:  nop; call work; jmp *%rax
 *	work:   nop; nop; site: a nop of five bytes; ret
 *
 * The expected paths follow from this code and the packets, and perf, if there is one, must print
 * the same.
 */
#ifndef PTAH_TESTS_SESSION_KERNEL_RECORDING_H
#define PTAH_TESTS_SESSION_KERNEL_RECORDING_H

#include "test.h"

#include "base/bits.h"
#include "model/generator.h"
#include "perfdata/build_id.h"
#include "perfdata/byte_buffer.h"
#include "perfdata/format.h"
#include "perfdata/writer.h"

#include <ptah/session.h>

#include <inttypes.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKED UINT64_C(0xffffffff81000000)
#define SLIDE  UINT64_C(0x2c000000)
#define TEXT   (LINKED + SLIDE)
#define ENTRY  (TEXT + 64)
#define AFTER  (ENTRY + 6) /* the jump, to which the call returns */
#define WORK   (ENTRY + 8)
#define SITE   (WORK + 2)
#define RETURN (SITE + 5)
#define ETEXT  (TEXT + 4096)

static char kernel_folder[] = "/tmp/ptah-kernel-XXXXXX";

static inline char *shell(const char *command)
{
	static char text[65536];
	FILE *f = popen(command, "r");
	size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;

	text[n] = '\0';
	return f && pclose(f) == 0 ? text : NULL;
}

static inline void write_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* Makes vmlinux, and `other`, a different build, in a new current folder. */
static inline int make_kernels(void **state)
{
	static const char source[] = ".globl _text, _stext, entry, work, site, _etext\n"
				     ".text\n_text: _stext: .fill 64, 1, 0x90\n"
				     ".type entry, @function\nentry: nop; call work; jmp *%rax\n"
				     ".type work, @function\nwork: nop; nop\n"
				     "site: .byte 0x0f, 0x1f, 0x44, 0, 0\nret\n"
				     ".fill 4096 - (. - _text), 1, 0xcc\n_etext:\n";
	const char *compiler = getenv("CC");
	char command[1024];

	(void)state;
	if (!mkdtemp(kernel_folder) || chdir(kernel_folder))
		return -1;
	write_text("kernel.s", source);
	snprintf(command, sizeof(command),
		 "CC='%s'; for k in vmlinux other; do "
		 "id=$(echo $k | md5sum | cut -c 1-32)00112233; "
		 "$CC -nostdlib -static -Wl,-Ttext=0x%" PRIx64 ",-e,_text,--build-id=0x$id "
		 "-o $k kernel.s || exit 1; done",
		 compiler && *compiler ? compiler : "cc", LINKED);
	return shell(command) ? 0 : -1;
}

static inline int remove_kernels(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", kernel_folder);
	return chdir("/") || !shell(command) ? -1 : 0;
}

/* A recording of one thread, 7, of which only the kernel is traced. */
struct recorded {
	struct perfdata_writer *w;
	struct ptah_generator g;
	uint8_t trace[4096];
};

static inline void begin_recording(struct recorded *r, const char *path)
{
	static const uint64_t id = 1;
	uint8_t attr[PERFDATA_ATTR_SIZE] = {0};
	const struct perfdata_event event = {"intel_pt//k", attr, &id, 1, 0};
	const struct perfdata_driver driver = {.events = &event,
					       .event_count = 1,
					       .pmu_type = 8,
					       .tsc_bit = PERFDATA_PT_TSC,
					       .noretcomp_bit = PERFDATA_PT_NORETCOMP,
					       .time_zero = true};
	static char *const command[] = {(char *)"x", NULL};
	const struct perfdata_writer_config config = {.path = path,
						      .command = command,
						      .clock = {.mult = 1},
						      .tsc = true,
						      .nominal_ratio = 20,
						      .driver = &driver};
	struct ptah_message why = {""};

	memset(r, 0, sizeof(*r));
	store_le32(attr + PERFDATA_ATTR_AT_TYPE, 8);
	store_le32(attr + PERFDATA_ATTR_AT_SIZE, PERFDATA_ATTR_SIZE);
	store_le64(attr + PERFDATA_ATTR_AT_CONFIG,
		   PERFDATA_PT_PT | PERFDATA_PT_BRANCH | PERFDATA_PT_TSC | PERFDATA_PT_NORETCOMP);
	store_le64(attr + PERFDATA_ATTR_AT_PERIOD, 1);
	store_le64(attr + PERFDATA_ATTR_AT_SAMPLE_TYPE,
		   PERFDATA_SAMPLE_IP | PERFDATA_SAMPLE_TID | PERFDATA_SAMPLE_TIME |
		       PERFDATA_SAMPLE_CPU | PERFDATA_SAMPLE_IDENTIFIER);
	store_le64(attr + PERFDATA_ATTR_AT_READ_FORMAT, PERFDATA_READ_FORMAT_ID);
	store_le64(attr + PERFDATA_ATTR_AT_FLAGS,
		   PERFDATA_ATTR_MMAP | PERFDATA_ATTR_COMM | PERFDATA_ATTR_TASK |
		       PERFDATA_ATTR_SAMPLE_ID_ALL | PERFDATA_ATTR_MMAP2);
	if (perfdata_writer_open(&config, &r->w, &why) < 0)
		fail_msg("%s", why.text);
	assert_int_equal(perfdata_write_comm(r->w, 7, 7, 1, false, "seven"), 0);
	generator_init(&r->g, r->trace, false, false);
	generator_psb(&r->g, 100, 20, false, 0);
}

/* A record as the kernel writes it: its body, and the sample id. */
static inline void put_record(struct recorded *r, uint32_t type, uint16_t misc,
			      const struct perfdata_buffer *body, uint64_t tsc)
{
	struct perfdata_buffer b = {0};
	const size_t padded = (body->size + 7) & ~(size_t)7;

	perfdata_put32(&b, type);
	perfdata_put16(&b, misc);
	perfdata_put16(&b, (uint16_t)(8 + padded + 32));
	perfdata_put(&b, body->bytes, body->size);
	perfdata_put(&b, NULL, padded - body->size);
	perfdata_put64(&b, 0); /* pid, tid */
	perfdata_put64(&b, tsc);
	perfdata_put64(&b, 0); /* cpu */
	perfdata_put64(&b, 1);
	assert_int_equal(perfdata_write_raw(r->w, b.bytes, b.size), 0);
	perfdata_buffer_free(&b);
}

/* A mapping of the kernel's, as perf writes it: without a protection. id NULL: no build id. */
static inline void put_kernel_map(struct recorded *r, const char *name, uint64_t address,
				  uint64_t size, uint64_t offset,
				  const struct perfdata_build_id *id)
{
	struct perfdata_buffer body = {0};

	perfdata_put32(&body, UINT32_MAX);
	perfdata_put32(&body, 0);
	perfdata_put64(&body, address);
	perfdata_put64(&body, size);
	perfdata_put64(&body, offset);
	if (id) {
		perfdata_put32(&body, id->size);
		perfdata_put(&body, id->bytes, sizeof(id->bytes));
		perfdata_put64(&body, 0); /* protection, flags */
	}
	perfdata_put_string(&body, name, 8);
	put_record(r, id ? PERFDATA_MMAP2 : PERFDATA_MMAP,
		   (uint16_t)(PERFDATA_MISC_KERNEL | (id ? PERFDATA_MISC_MMAP_BUILD_ID : 0)), &body,
		   0);
	perfdata_buffer_free(&body);
}

static inline void put_kernel(struct recorded *r, const struct perfdata_build_id *id)
{
	put_kernel_map(r, "[kernel.kallsyms]_text", TEXT, 4096, TEXT, id);
}

/* bytes: the old ones, then the new ones. */
static inline void put_poke(struct recorded *r, uint64_t tsc, uint64_t address, uint16_t old_size,
			    uint16_t new_size, const void *bytes)
{
	struct perfdata_buffer body = {0};

	perfdata_put64(&body, address);
	perfdata_put16(&body, old_size);
	perfdata_put16(&body, new_size);
	perfdata_put(&body, bytes, (size_t)old_size + new_size);
	put_record(r, PERFDATA_TEXT_POKE, PERFDATA_MISC_KERNEL, &body, tsc);
	perfdata_buffer_free(&body);
}

static inline void put_ksymbol(struct recorded *r, uint64_t tsc, uint64_t address, uint32_t size,
			       bool removed, const char *name)
{
	struct perfdata_buffer body = {0};

	perfdata_put64(&body, address);
	perfdata_put32(&body, size);
	perfdata_put16(&body, 1); /* PERF_RECORD_KSYMBOL_TYPE_BPF */
	perfdata_put16(&body, removed);
	perfdata_put_string(&body, name, 8);
	put_record(r, PERFDATA_KSYMBOL, PERFDATA_MISC_KERNEL, &body, tsc);
	perfdata_buffer_free(&body);
}

static inline void put_bpf_event(struct recorded *r, uint64_t tsc, uint32_t id, bool removed)
{
	struct perfdata_buffer body = {0};

	perfdata_put16(&body, removed ? 2 : 1);
	perfdata_put16(&body, 0);
	perfdata_put32(&body, id);
	perfdata_put64(&body, UINT64_C(0x1122334455667788)); /* tag */
	put_record(r, PERFDATA_BPF_EVENT, PERFDATA_MISC_KERNEL, &body, tsc);
	perfdata_buffer_free(&body);
}

/* Adds a header feature to a file that has been written. */
static inline void add_feature(const char *path, unsigned feature,
			       const struct perfdata_buffer *content)
{
	static uint8_t bytes[1 << 16];
	struct perfdata_buffer out = {0};
	FILE *f = fopen(path, "r");
	size_t n = f ? fread(bytes, 1, sizeof(bytes), f) : 0;
	uint64_t table = load_le64(bytes + 40) + load_le64(bytes + 48);
	unsigned count = 0, before = 0;

	assert_int_equal(fclose(f), 0);
	assert_in_range(n, 104, sizeof(bytes) - 1);
	for (unsigned i = 0; i < 256; i++) {
		count += bytes[72 + i / 8] >> i % 8 & 1;
		before += i < feature && bytes[72 + i / 8] >> i % 8 & 1;
	}
	bytes[72 + feature / 8] |= (uint8_t)(1 << feature % 8);
	perfdata_put(&out, bytes, table);
	for (unsigned i = 0; i <= count; i++) {
		if (i == before) {
			perfdata_put64(&out, n + 16);
			perfdata_put64(&out, content->size);
		}
		if (i < count) {
			perfdata_put64(&out, load_le64(bytes + table + (size_t)16 * i) + 16);
			perfdata_put64(&out, load_le64(bytes + table + (size_t)16 * i + 8));
		}
	}
	perfdata_put(&out, bytes + table + (size_t)16 * count, n - table - (size_t)16 * count);
	perfdata_put(&out, content->bytes, content->size);
	f = fopen(path, "w");
	assert_int_equal(fwrite(out.bytes, out.size, 1, f), 1);
	assert_int_equal(fclose(f), 0);
	perfdata_buffer_free(&out);
}

/*
 * A program of BPF as the feature BPF_PROG_INFO has it, by struct bpf_prog_info of linux/bpf.h and
 * struct perf_bpil of perf: its functions lie at `addresses`.
 */
static inline void put_program(struct perfdata_buffer *b, uint32_t id, unsigned count,
			       const uint64_t *addresses, const uint32_t *sizes, const void *code)
{
	struct bpf_prog_info info = {.id = id};
	struct perfdata_buffer data = {0};

	for (unsigned i = 0; i < count; i++)
		info.jited_prog_len += sizes[i];
	perfdata_put(&data, code, info.jited_prog_len);
	perfdata_put(&data, NULL, -data.size & 7);
	info.nr_jited_ksyms = info.nr_jited_func_lens = count;
	info.jited_ksyms = data.size;
	for (unsigned i = 0; i < count; i++)
		perfdata_put64(&data, addresses[i]);
	info.jited_func_lens = data.size;
	for (unsigned i = 0; i < count; i++)
		perfdata_put32(&data, sizes[i]);
	perfdata_put(&data, NULL, -data.size & 7);
	perfdata_put32(b, sizeof(info));
	perfdata_put32(b, (uint32_t)data.size);
	perfdata_put64(b, 1u << 0 | 1u << 3 | 1u << 4);
	perfdata_put(b, &info, sizeof(info));
	perfdata_put(b, data.bytes, data.size);
	perfdata_buffer_free(&data);
}

/* Code is entered at `address` and left before the next deciding branch, at the time `tsc`. */
static inline void visit_at(struct recorded *r, uint64_t tsc, uint64_t address)
{
	generator_tsc(&r->g, tsc);
	generator_enable(&r->g, address);
	generator_disable(&r->g);
}

/* The kernel is entered, and left by the jump, at the time `tsc`. */
static inline void visit(struct recorded *r, uint64_t tsc)
{
	generator_tsc(&r->g, tsc);
	generator_enable(&r->g, ENTRY);
	generator_tip(&r->g, AFTER);
	generator_disable(&r->g);
}

static inline void end_recording(struct recorded *r)
{
	const struct perfdata_aux aux = {/* perf finds no time in a trace without a reference. */
					 .tid = 7,
					 .cpu = -1,
					 .reference = 1,
					 .bytes = r->trace,
					 .size = (size_t)(r->g.out - r->trace)};
	struct ptah_message why = {""};

	assert_int_equal(perfdata_write_itrace_start(r->w, 7, 7, 50), 0);
	assert_int_equal(perfdata_write_aux(r->w, &aux), 0);
	if (perfdata_writer_finish(r->w, NULL, &why) < 0)
		fail_msg("%s", why.text);
}

/* The addresses of the instructions that ran, one a line; "error" for an error. */
static inline const char *decoded(const struct ptah_session *s)
{
	static char text[65536];
	struct ptah_reader *stream;
	struct ptah_item items[16];
	struct ptah_insn insns[256];
	size_t at = 0;
	int n;

	text[0] = '\0';
	assert_int_equal(ptah_session_streams(s), 1);
	assert_int_equal(ptah_reader_new(s, 0, NULL, &stream), 0);
	/* One item at a time: the image may change after it. */
	while ((n = ptah_reader_read(stream, items, 1)) > 0) {
		if (items->type == PTAH_ITEM_ERROR)
			at += (size_t)sprintf(text + at, "error\n");
		if (items->type != PTAH_ITEM_BLOCK)
			continue;
		n = ptah_reader_insns(stream, items, insns, 256);
		for (int i = 0; i < n; i++)
			at += (size_t)sprintf(text + at, "%" PRIx64 "\n", insns[i].ip);
	}
	assert_int_equal(n, 0);
	ptah_reader_free(stream);
	return text;
}

/* What perf decodes, in the same form. NULL: there is no perf. */
static inline const char *decoded_by_perf(const char *arguments)
{
	char command[512];

	if (!shell("perf --version 2>/dev/null"))
		return NULL;
	snprintf(command, sizeof(command),
		 "HOME=/nonexistent perf script --itrace=i0ns -F ip %s 2>/dev/null | "
		 "sed 's/^ *//; /^$/d'",
		 arguments);
	return shell(command);
}

static inline bool has_note(const struct ptah_session *s, const char *part)
{
	const char *note;

	for (size_t i = 0; (note = ptah_session_note(s, i)); i++)
		if (strstr(note, part))
			return true;
	return false;
}

static inline struct ptah_session *open_with(const char *path, struct ptah_session_config config)
{
	struct ptah_session *s = NULL;
	struct ptah_message why = {""};

	config.size = sizeof(config);
	if (ptah_session_open(path, &config, &s, &why) < 0)
		fail_msg("%s", why.text);
	return s;
}

#endif
