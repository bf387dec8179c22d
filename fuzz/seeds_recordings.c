/* SPDX-License-Identifier: MIT */
/* Seeds of recordings: perf.data, the kernel's records and maps, calls of the writer. */
#include "seeds.h"

#include <stdio.h>
#include <string.h>

/* A record of perf.data: type, misc, then u64 words. */
static void put_record(struct buffer *b, uint32_t type, uint16_t misc, const uint64_t *words,
		       size_t n)
{
	const uint16_t tail[] = {misc, (uint16_t)(8 + 8 * n)};

	put_bytes(b, &type, sizeof(type));
	put_bytes(b, tail, sizeof(tail));
	put_bytes(b, words, 8 * n);
}

#define RECORD(b, type, misc, ...)                                                                 \
	put_record((b), (type), (misc), (const uint64_t[]){__VA_ARGS__},                           \
		   sizeof((const uint64_t[]){__VA_ARGS__}) / 8)
#define SAMPLE_ID(time) PAIR(7, 7), (time)

static void put_trace(struct buffer *b, uint64_t at, uint64_t tsc, bool first)
{
	struct buffer trace = {.size = 0};

	PUT(&trace, PSB);
	PUT(&trace, TSC, .u.tsc.tsc = tsc);
	PUT(&trace, MODE_EXEC, .u.exec.mode = PTAH_EXEC_64);
	if (!first)
		IP(&trace, FUP, 0x401000);
	PUT(&trace, PSBEND);
	if (first)
		IP(&trace, TIP_PGE, 0x401000);
	IP(&trace, TIP, 0x401000);
	while (trace.size % 8)
		trace.bytes[trace.size++] = 0;
	RECORD(b, 71, 0, trace.size, at, 1, PAIR(0, 7), PAIR(-1, 0));
	put_bytes(b, trace.bytes, trace.size);
}

/* A recording as `ptah record` writes it, of one thread whose code changes once. */
static void make_recording(struct buffer *b)
{
	/* Sizes of header and attribute; attributes, data: offset, size. */
	static const uint64_t head[] = {104, 136, 112, 136, 248};
	static const uint64_t ptah = PAIR(0x48415450, 1); /* "PTAH", version 1 */
	uint64_t size;

	put_bytes(b, "PERFILE2", 8);
	put_bytes(b, head, sizeof(head));
	b->size = 248;
	b->bytes[72] = 1 << 6;	 /* the architecture */
	b->bytes[112 + 4] = 120; /* attr: size, sample type, sample_id_all */
	b->bytes[112 + 24] = 2 | 4;
	b->bytes[112 + 42] = 1 << 2;
	RECORD(b, 70, 0, 1, 8, 3, 2, 1000, 1, 1 << 10, 1 << 11, 0, 0, 0, 0, 0, 0, 0, 0, 20, 0);
	RECORD(b, 3, 1 << 13, PAIR(7, 7), 0x676f7270, SAMPLE_ID(0));
	RECORD(b, 10, 2, PAIR(7, 7), 0x401000, 0x1000, 0, 0, 0, 0, PAIR(5, 2), 0x612f /* "/a" */,
	       SAMPLE_ID(0));
	RECORD(b, 10, 2 | 1 << 14, PAIR(7, 7), 0x500000, 0x1000, 0, PAIR(20, 0), 0, 0, PAIR(5, 2),
	       0x6e6f6e612f2f /* "//anon" */, SAMPLE_ID(0));
	RECORD(b, 7, 0, PAIR(8, 7), PAIR(8, 7), 1001, SAMPLE_ID(1001));
	RECORD(b, 12, 0, PAIR(7, 7), SAMPLE_ID(1001));
	RECORD(b, 65, 0, ptah, PAIR(2, 27), PAIR(7, 3), 0, 0x401000, 0xe0ff90);
	RECORD(b, 65, 0, ptah, PAIR(2, 26), PAIR(7, 2), 0x2000, 0x401000, 0xe0ff);
	put_trace(b, 0, 0x1000, true);
	put_trace(b, 48, 0x2000, false);
	put_trace(b, 4096, 0x3000, false); /* after a gap */
	RECORD(b, 11, 0, 0, 4096, 1, SAMPLE_ID(1002));
	RECORD(b, 2, 0, 0, 3, SAMPLE_ID(1002));
	RECORD(b, 65, 0, ptah, PAIR(1, 64), PAIR(0, 7), 7, 4, 0, 4, 0, 0x1234, 0);
	RECORD(b, 65, 0, ptah, PAIR(3, 4), 0x65746f6e);
	RECORD(b, 4, 0, PAIR(7, 7), PAIR(7, 7), 1003, SAMPLE_ID(1003));
	size = b->size - 248;
	memcpy(b->bytes + 48, &size, sizeof(size));
	size = b->size + 16;
	put_bytes(b, &size, sizeof(size));
	size = 12;
	put_bytes(b, &size, sizeof(size));
	put_bytes(b, "\x08\0\0\0x86_64\0", 12);
}

/* The same, by a recorder that was killed while it wrote. */
static void make_killed_recording(struct buffer *b)
{
	make_recording(b);
	memset(b->bytes + 48, 0, 8);
	b->bytes[72] = 0;
	b->size -= 60;
}

/* Trace in a sample, whose buffer ID_INDEX names; and namespaces, and a control group. */
static void put_sampled_trace(struct buffer *b, const struct buffer *trace)
{
	const uint32_t type = 9;
	const uint16_t tail[] = {2, (uint16_t)(8 + 4 * 8 + trace->size)};
	const uint64_t body[] = {PAIR(7, 7), 9000, 0, trace->size};

	RECORD(b, 69, 0, 1, 0, 0, 0, -1);
	RECORD(b, 16, 0, PAIR(7, 7), 2, 4, 0xf0000075, 4, 0xeffffffe, PAIR(7, 7), 0, 0);
	RECORD(b, 19, 0, 1, '/', PAIR(7, 7), 0, 0);
	put_bytes(b, &type, sizeof(type));
	put_bytes(b, tail, sizeof(tail));
	put_bytes(b, body, sizeof(body));
	put_bytes(b, trace->bytes, trace->size);
}

/* Two processes on CPU 0, which switches between them while tracing is disabled. */
static void put_cpu_recording(struct buffer *b, bool sampled)
{
	static const uint64_t ptah = PAIR(0x48415450, 1);
	struct buffer one = {.size = 0}, trace = {.size = 0};
	uint64_t size;

	make_recording(&one);
	put_bytes(b, one.bytes, 248);
	b->bytes[112 + 24] = 2 | 4 | 128;	       /* tid, time, cpu */
	b->bytes[112 + 24 + 2] = sampled ? 1 << 4 : 0; /* trace */
	RECORD(b, 70, 0, 1, 8, 3, 2, 1000, 1, 1 << 10, 1 << 11, 3, 0, 1, 0, 0, 0, 0, 0, 20, 0);
	for (uint32_t pid = 7; pid < 9; pid++) {
		RECORD(b, 3, 1 << 13, PAIR(pid, pid), 0x676f7270, PAIR(pid, pid), 0, 0);
		RECORD(b, 10, 2, PAIR(pid, pid), 0x500000, 0x1000, 0, 0, 0, 0, PAIR(5, 2),
		       0x6e6f6e612f2f /* "//anon" */, PAIR(pid, pid), 0, 0);
		RECORD(b, 65, 0, ptah, PAIR(2, 27), PAIR(pid, 3), 0, 0x401000, 0xe0ff90);
	}
	RECORD(b, 15, 1 << 13, PAIR(8, 8), PAIR(7, 7), 1000 + 0x1800 / 4, 0);
	RECORD(b, 15, 0, PAIR(7, 7), PAIR(8, 8), 1000 + 0x1800 / 4, 0);
	RECORD(b, 14, 1 << 13, PAIR(8, 8), 1000 + 0x2800 / 4, 0);
	RECORD(b, 14, 0, PAIR(7, 7), 1000 + 0x2900 / 4, 0);
	for (uint64_t tsc = 0x1000; tsc <= 0x4000; tsc += 0x1000) {
		PUT(&trace, PSB);
		PUT(&trace, TSC, .u.tsc.tsc = tsc);
		PUT(&trace, MODE_EXEC, .u.exec.mode = PTAH_EXEC_64);
		PUT(&trace, PSBEND);
		IP(&trace, TIP_PGE, 0x401000);
		PUT(&trace, TSC, .u.tsc.tsc = tsc + 0x100);
		IP(&trace, TIP, 0x401000);
		IP(&trace, FUP, 0x401000);
		PUT(&trace, TIP_PGD, .u.ip.ipc = 0);
	}
	while (trace.size % 8)
		trace.bytes[trace.size++] = 0;
	if (sampled) {
		put_sampled_trace(b, &trace);
	} else {
		RECORD(b, 71, 0, trace.size, 0, 1, PAIR(0, -1), PAIR(0, 0));
		put_bytes(b, trace.bytes, trace.size);
	}
	size = b->size - 248;
	memcpy(b->bytes + 48, &size, sizeof(size));
	size = b->size + 16;
	put_bytes(b, &size, sizeof(size));
	size = 12;
	put_bytes(b, &size, sizeof(size));
	put_bytes(b, "\x08\0\0\0x86_64\0", 12);
}

static void make_cpu_recording(struct buffer *b)
{
	put_cpu_recording(b, false);
}

/* A virtual machine's processor 0, which runs one page in two address spaces. */
static void make_guest_recording(struct buffer *b)
{
	static const uint64_t ptah = PAIR(0x48415450, 1);
	struct buffer one = {.size = 0}, trace = {.size = 0};
	uint64_t page[3 + 4096 / 8] = {ptah, PAIR(5, 8 + 4096), PAIR(9, 4096), 0xe0ff90};
	uint64_t size;

	make_recording(&one);
	put_bytes(b, one.bytes, 248);
	RECORD(b, 70, 0, 1, 8, 3, 2, 1000, 1, 1 << 10, 1 << 11, 0, 0, 1, 0, 0, 0, 0, 0, 20, 0);
	put_record(b, 65, 0, page, sizeof(page) / sizeof(*page));
	RECORD(b, 65, 0, ptah, PAIR(6, 32), PAIR(0, 9), 0, 0x401000, 0x5000);
	RECORD(b, 65, 0, ptah, PAIR(6, 32), PAIR(0, 9), 0x2000, 0x401000, 0x5000);
	RECORD(b, 65, 0, ptah, PAIR(6, 32), PAIR(0, 9), 0, 0x401000, -1);
	RECORD(b, 65, 0, ptah, PAIR(6, 32), PAIR(1, 8), 0, 0x401000, 0x6000);
	RECORD(b, 65, 0, ptah, PAIR(7, 32), 0x5000, 0x1000, 0x74696e69, 0);
	for (uint64_t tsc = 0x1000; tsc <= 0x3000; tsc += 0x1000) {
		PUT(&trace, PSB);
		PUT(&trace, TSC, .u.tsc.tsc = tsc);
		PUT(&trace, PIP, .u.pip.cr3 = tsc < 0x3000 ? 0x5000 : 0x6000);
		PUT(&trace, MODE_EXEC, .u.exec.mode = PTAH_EXEC_64);
		PUT(&trace, PSBEND);
		IP(&trace, TIP_PGE, 0x401000);
		IP(&trace, TIP, 0x401000);
		PUT(&trace, TIP_PGD, .u.ip.ipc = 0);
	}
	while (trace.size % 8)
		trace.bytes[trace.size++] = 0;
	RECORD(b, 71, 0, trace.size, 0, 1, PAIR(0, -1), PAIR(0, 0));
	put_bytes(b, trace.bytes, trace.size);
	RECORD(b, 65, 0, ptah, PAIR(1, 64), PAIR(0, -1), (uint32_t)-1, 9, 0, 6, 0, 0x1234, 0);
	size = b->size - 248;
	memcpy(b->bytes + 48, &size, sizeof(size));
	size = b->size + 16;
	put_bytes(b, &size, sizeof(size));
	size = 12;
	put_bytes(b, &size, sizeof(size));
	put_bytes(b, "\x08\0\0\0x86_64\0", 12);
}

/* As perf record --aux-sample makes it. */
static void make_sampled_recording(struct buffer *b)
{
	put_cpu_recording(b, true);
}

/* The feature BPF_PROG_INFO: program 5 with `nop; jmp *%rax` at JIT_ADDRESS. */
#define JIT_ADDRESS 0xffffffffc0100000

static void put_programs(struct buffer *b)
{
	const uint64_t head[] = {PAIR(128, 24), 1 | 8 | 16};
	const uint64_t info[16] = {PAIR(0, 5), 0, 3, 0, 0, 0,	       0, 0,
				   0,	       0, 0, 0, 0, PAIR(1, 1), 8, 16};

	put_bytes(b, "\1\0\0\0", 4);
	put_bytes(b, head, sizeof(head));
	put_bytes(b, info, sizeof(info));
	put_bytes(b, (const uint64_t[]){0xe0ff90, JIT_ADDRESS, 3}, 24);
}

/* The kernel's code, which comes from BPF and is poked at last. */
static void make_kernel_recording(struct buffer *b)
{
	struct buffer one = {.size = 0}, trace = {.size = 0}, programs = {.size = 0};
	uint64_t sizes[4];

	make_recording(&one);
	put_bytes(b, one.bytes, 248);
	b->bytes[72 + 3] = 1 << 1; /* the programs */
	b->bytes[112] = 8;	   /* attr: type */
	RECORD(b, 70, 0, 1, 8, 3, 2, 1000, 1, 1 << 10, 1 << 11, 0, 0, 0, 0, 0, 0, 0, 0, 20, 0);
	RECORD(b, 3, 0, PAIR(7, 7), 0x676f7270, SAMPLE_ID(0));
	RECORD(b, 1, 1, PAIR(-1, 0), 0xffffffff81000000, 0x1000, 0xffffffff81000000,
	       0x6c656e72656b5b /* "[kernel" */ | UINT64_C(0x2e) << 56, 0x736d79736c6c616b,
	       0x747865745f5d /* "]_text" */, SAMPLE_ID(0));
	RECORD(b, 17, 1, JIT_ADDRESS, PAIR(3, 1), 0x616263, SAMPLE_ID(0));
	RECORD(b, 18, 1, PAIR(1, 5), 0, SAMPLE_ID(0));
	RECORD(b, 20, 1, JIT_ADDRESS, PAIR(1 | 1 << 16, 0x6690), SAMPLE_ID(1000 + 0x1800 / 4));
	RECORD(b, 18, 1, PAIR(2, 5), 0, SAMPLE_ID(1000 + 0x2800 / 4));
	RECORD(b, 17, 1, JIT_ADDRESS, PAIR(3, 1 | 1 << 16), 0x616263, SAMPLE_ID(1000 + 0x2800 / 4));
	for (uint64_t tsc = 0x1000; tsc <= 0x3000; tsc += 0x1000) {
		PUT(&trace, PSB);
		PUT(&trace, TSC, .u.tsc.tsc = tsc);
		PUT(&trace, MODE_EXEC, .u.exec.mode = PTAH_EXEC_64);
		PUT(&trace, PSBEND);
		IP(&trace, TIP_PGE, JIT_ADDRESS & 0xffffffffffff);
		IP(&trace, TIP, JIT_ADDRESS & 0xffffffffffff);
		PUT(&trace, TIP_PGD, .u.ip.ipc = 0);
	}
	while (trace.size % 8)
		trace.bytes[trace.size++] = 0;
	RECORD(b, 71, 0, trace.size, 0, 1, PAIR(0, 7), PAIR(-1, 0));
	put_bytes(b, trace.bytes, trace.size);
	sizes[0] = b->size - 248;
	memcpy(b->bytes + 48, sizes, 8);
	put_programs(&programs);
	sizes[0] = b->size + 32;
	sizes[1] = 12;
	sizes[2] = sizes[0] + 12;
	sizes[3] = programs.size;
	put_bytes(b, sizes, sizeof(sizes));
	put_bytes(b, "\x08\0\0\0x86_64\0", 12);
	put_bytes(b, programs.bytes, programs.size);
}

static void put_pipe_head(struct buffer *b, const struct buffer *file)
{
	static const uint64_t head[] = {16};

	put_bytes(b, "PERFILE2", 8);
	put_bytes(b, head, sizeof(head));
	put_record(b, 64, 0, (const uint64_t *)(file->bytes + 112), 15);
	RECORD(b, 80, 0, 6, PAIR(8, 0x5f363878), 0x3436); /* the architecture */
	RECORD(b, 80, 0, 27, PAIR(1, 1), PAIR(3, 1), 4096);
	RECORD(b, 66, 0, 3);
	put_bytes(b, "abc\0\0\0\0\0", 8);
}

/* `perf record -o -` */
static void make_pipe(struct buffer *b)
{
	struct buffer file = {.size = 0};

	make_cpu_recording(&file);
	put_pipe_head(b, &file);
	put_bytes(b, file.bytes + 248, file.size - 248 - 28);
	RECORD(b, 68, 0, 0);
}

/* Part of a zstd frame (RFC 8878): a block that is not compressed. */
static void put_piece(struct buffer *b, struct buffer *waiting, size_t n, bool first, uint32_t type)
{
	static const uint8_t frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0, 0x58}, padding[7];
	const uint8_t block[] = {(uint8_t)(n << 3), (uint8_t)(n >> 5), 0};
	const uint64_t size = (first ? sizeof(frame) : 0) + sizeof(block) + n;
	const bool padded = type == 83;
	const uint16_t tail[] = {0, (uint16_t)(8 + size + (padded ? 8 + (-size & 7) : 0))};

	put_bytes(b, &type, sizeof(type));
	put_bytes(b, tail, sizeof(tail));
	put_bytes(b, &size, padded ? sizeof(size) : 0);
	put_bytes(b, frame, first ? sizeof(frame) : 0);
	put_bytes(b, block, sizeof(block));
	put_bytes(b, waiting->bytes, n);
	put_bytes(b, padding, padded ? -size & 7 : 0);
	memmove(waiting->bytes, waiting->bytes + n, waiting->size - n);
	waiting->size -= n;
}

/* `perf record -z -o -`: the last bytes of a record are in the next part. */
static void put_packed_pipe(struct buffer *b, uint32_t type)
{
	struct buffer file = {.size = 0}, waiting = {.size = 0};
	bool first = true;

	make_cpu_recording(&file);
	put_pipe_head(b, &file);
	for (size_t at = 248; at < file.size - 28;) {
		const uint8_t *record = file.bytes + at;
		const bool kernel = record[0] < 64;
		size_t size = (size_t)(record[6] | record[7] << 8);

		if (record[0] == 71)
			size += record[8] | (size_t)record[9] << 8;
		if (kernel)
			put_bytes(&waiting, record, size);
		if (waiting.size) {
			put_piece(b, &waiting, waiting.size - (kernel ? 5 : 0), first, type);
			first = false;
		}
		if (!kernel)
			put_bytes(b, record, size);
		at += size;
	}
}

static void make_packed_pipe(struct buffer *b)
{
	put_packed_pipe(b, 81);
}

/* As perf 6.16 writes it: the parts are padded to 8 bytes, and begin with their size. */
static void make_padded_pipe(struct buffer *b)
{
	put_packed_pipe(b, 83);
}

/* The records of a recording as they were in perf's buffer. */
static void make_bare_records(struct buffer *b)
{
	struct buffer file = {.size = 0};

	make_cpu_recording(&file);
	/* tid, time and CPU; the event 7 has no CPU. */
	put_bytes(b, (const uint64_t[]){0x86, 7, 6}, 24);
	put_bytes(b, "\200", 1);
	put_bytes(b, file.bytes + 248, file.size - 28 - 248);
}

/*
 * A text and a file: CPU 0's trace in two pieces, the loop that ran, in two processes or two
 * address spaces, and perf's records.
 */
static void make_trace_session(struct buffer *b, bool by_cr3)
{
	struct buffer trace = {.size = 0}, records = {.size = 0};
	const char *const processes = "raw 100 from=%zu to=%zu address=0x401000 pid=7\n"
				      "raw 100 from=%zu to=%zu address=0x401000 pid=8 tsc=5\n"
				      "switch cpu=0 tsc=0 pid=7 tid=7\n"
				      "switch cpu=0 tsc=0x1800 pid=8 tid=8\n"
				      "thread tid=8 pid=8 comm=eight\n";
	const char *const spaces = "raw 100 from=%zu to=%zu address=0x401000 cr3=0x1000\n"
				   "raw 100 from=%zu to=%zu address=0x401000 cr3=0x2000\n";
	size_t half, size;
	int n;

	for (uint64_t tsc = 0x1000; tsc <= 0x4000; tsc += 0x1000) {
		PUT(&trace, PSB);
		PUT(&trace, TSC, .u.tsc.tsc = tsc);
		PUT(&trace, MODE_EXEC, .u.exec.mode = PTAH_EXEC_64);
		if (by_cr3)
			PUT(&trace, PIP, .u.pip.cr3 = tsc & 0x3000);
		PUT(&trace, PSBEND);
		IP(&trace, TIP_PGE, 0x401000);
		PUT(&trace, TSC, .u.tsc.tsc = tsc + 0x100);
		IP(&trace, TIP, 0x401000);
		IP(&trace, FUP, 0x401000);
		PUT(&trace, TIP_PGD, .u.ip.ipc = 0);
	}
	size = trace.size;
	half = size / 2 + 3;
	n = snprintf((char *)b->bytes, sizeof(b->bytes),
		     "ptah-trace 1\nclock shift=3 mult=2 zero=1000\n"
		     "stream 100 to=%zu cpu=0\nstream 100 from=%zu to=%zu cpu=0\n"
		     "sideband 100 from=%zu sample-type=0x86 cpu=0\n",
		     half, half, size, size + 3);
	b->size = (size_t)n;
	n = snprintf((char *)b->bytes + b->size, sizeof(b->bytes) - b->size,
		     by_cr3 ? spaces : processes, size, size + 3, size, size + 3);
	b->size += (size_t)n + 1; /* with its NUL */
	put_bytes(b, trace.bytes, size);
	put_bytes(b, "\x90\xff\xe0", 3);
	make_bare_records(&records);
	if (!by_cr3)
		put_bytes(b, records.bytes + 25, records.size - 25);
}

static void make_session_of_processes(struct buffer *b)
{
	make_trace_session(b, false);
}

static void make_session_of_spaces(struct buffer *b)
{
	make_trace_session(b, true);
}

/* Records of the kernel: AUX, LOST, LOST_SAMPLES, and then one with names. */
static void make_ring(struct buffer *b)
{
	static const uint64_t records[] = {
	    11 | UINT64_C(32) << 48,
	    0,
	    4096,
	    15, /* every flag */
	    2 | UINT64_C(24) << 48,
	    1,
	    5,
	    13 | UINT64_C(16) << 48,
	    7,
	    3 | UINT64_C(24) << 48,
	    0x200000001,
	    0x656d616e,
	};
	/* Across the end of the ring. */
	const uint8_t start[2] = {124, 0};

	put_bytes(b, start, sizeof(start));
	put_bytes(b, records, sizeof(records));
}

static void make_ring_of_nothing(struct buffer *b)
{
	make_ring(b);
	put_bytes(b, "\3\0\0\0\0\0\0\0", 8); /* of size 0 */
}

static void make_maps(struct buffer *b)
{
	static const char text[] =
	    "\005name\n"
	    "00401000-00403000 r-xp 00001000 fe:00 99 /opt/pro\\012gram (deleted)\n"
	    "7f0000000000-7f0000001000 rwxp 00000000 00:00 0 \n"
	    "7f0000002000-7f0000003000 r--s 00000000 fe:00 7 /etc/passwd\n"
	    "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0  [vsyscall]\n";

	put_bytes(b, text, sizeof(text) - 1);
}

/*
 * Calls of the public writer: fuzz_recording.c describes them. Numbers below 32 are a byte each,
 * and a string is its size and its characters.
 */
static void put_call(struct buffer *b, unsigned which, const char *text, const uint8_t *numbers,
		     size_t n)
{
	const uint8_t head[] = {(uint8_t)which, text ? (uint8_t)strlen(text) : 0};

	put_bytes(b, head, text ? 2 : 1);
	if (text)
		put_bytes(b, text, strlen(text));
	put_bytes(b, numbers, n);
}

#define CALL(b, which, text, ...)                                                                  \
	put_call(b, which, text, (const uint8_t[]){__VA_ARGS__},                                   \
		 sizeof((const uint8_t[]){__VA_ARGS__}))

static void make_calls(struct buffer *b, uint8_t options)
{
	static const uint8_t psb[] = {18,   2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2,
				      0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x23};

	CALL(b, options, NULL, 0x40);		 /* TSC packets */
	CALL(b, 0, NULL, 3, 7, 8, 0);		 /* stream: CPU 3, or thread 8 of process 7 */
	CALL(b, 11, NULL, 3, 7, 8, 0);		 /* CPU 3 runs that thread */
	CALL(b, 6, "name", 7, 8, 0);		 /* its name */
	CALL(b, 4, "/bin/x", 7, 0, 9, 31, 0, 4); /* a map, with a build id of 4 bytes */
	CALL(b, 5, "code", 0, 0x25, 1, 0x26);	 /* the kernel's, and without a name */
	for (uint8_t i = 0; i < 3; i++) {
		static const uint8_t tnt[] = {2, 0x1a, 0x1a};

		CALL(b, 1, NULL, 0, (uint8_t)(i * (i + 9))); /* at 0, 10, 22 */
		put_bytes(b, i ? tnt : psb, i ? sizeof(tnt) : sizeof(psb));
		put_bytes(b, tnt, sizeof(tnt));
		CALL(b, 0, NULL, 7, 0, 30, 0, 0); /* no third piece, and a record */
	}
	CALL(b, 11, NULL, 3, 9, 9, 20); /* another thread */
	CALL(b, 12, NULL, 9, 9, 7, 8, 1);
	CALL(b, 22, "exec", 9, 9, 25);
	CALL(b, 8, NULL, 0); /* truth */
	CALL(b, 9, "a note", 10, 13, 9, 9, 0, 0, 29);
}

static void make_calls_on_processors(struct buffer *b)
{
	make_calls(b, 8);
}

static void make_calls_on_threads(struct buffer *b)
{
	make_calls(b, 1);
}

static void make_calls_of_snapshots(struct buffer *b)
{
	make_calls(b, 2 | 8);
}

static void make_calls_through_a_pipe(struct buffer *b)
{
	make_calls(b, 4 | 8);
}

static const struct seed seeds[] = {
    {"trace_session/processes", make_session_of_processes},
    {"trace_session/spaces", make_session_of_spaces},
    {"perfdata/recording", make_recording},
    {"perfdata/killed", make_killed_recording},
    {"perfdata/cpu", make_cpu_recording},
    {"perfdata/guest", make_guest_recording},
    {"perfdata/samples", make_sampled_recording},
    {"perfdata/kernel", make_kernel_recording},
    {"perfdata/pipe", make_pipe},
    {"perfdata/packed-pipe", make_packed_pipe},
    {"perfdata/padded-pipe", make_padded_pipe},
    {"records/cpu", make_bare_records},
    {"ring/losses", make_ring},
    {"ring/nothing", make_ring_of_nothing},
    {"proc/maps", make_maps},
    {"recording/processors", make_calls_on_processors},
    {"recording/threads", make_calls_on_threads},
    {"recording/snapshots", make_calls_of_snapshots},
    {"recording/pipe", make_calls_through_a_pipe},
};

const struct seeds seeds_of_recordings = {seeds, sizeof(seeds) / sizeof(*seeds)};
