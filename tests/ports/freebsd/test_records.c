/* SPDX-License-Identifier: MIT */
/*
 * From the driver to the calls: simulated processors execute a program with a library, the backend
 * traces them, and ptah-hwt writes what hwt's records and buffers say to a folder. Ptah opens it, and
 * finds the calls and instructions that were executed.
 */
#include "devices.h"

#include <ptah/event.h>

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER	     ((size_t)16 * PAGE_SIZE)
#define PROGRAM_BIAS UINT64_C(0x1000000)
#define LIBRARY_BIAS UINT64_C(0x800200000)
#define RTLD_BIAS    UINT64_C(0x820000000)
#define EXEC_BIAS    UINT64_C(0x10000000) /* added by a second program of the process */

/* Where the linker is told to put the code. The library's code is not its lowest segment. */
#define PROGRAM_TEXT UINT64_C(0x2000)
#define LIBRARY_TEXT UINT64_C(0x3000)
#define KERNEL_TEXT  UINT64_C(0xffffffff80200000)

static char top[] = "/tmp/ptah-records-XXXXXX";
static char root[sizeof(top) + 5], folder[sizeof(top) + 7]; /* top/root, top/folder */

static const struct pt_cpu_config plain = {.rtit_ctl = PTAH_RTIT_CTL_USER | PTAH_RTIT_CTL_OS |
						       PTAH_RTIT_CTL_BRANCH_EN};

/* The code, by the offset of each instruction. */
static const char program_source[] = ".globl main, local\n"
				     "main: call *%rax\n" /* 0 */
				     "call local\n"	  /* 2 */
				     "jmp main\n"	  /* 7 */
				     ".org 16\n"
				     "local: ret\n"
				     ".type main, @function\n.type local, @function\n"
				     ".size main, 9\n.size local, 1\n";
static const char kernel_source[] = ".globl main, local, work\n"
				    "main: call *%rax\n"
				    "call local\n"
				    "jmp main\n"
				    "work: jne 1f\n"
				    "nop\n"
				    "1: ret\n"
				    ".org 16\n"
				    "local: ret\n"
				    ".type main, @function\n.type local, @function\n"
				    ".type work, @function\n.size main, 9\n.size work, 4\n"
				    ".size local, 1\n";
static const char library_source[] = ".globl work\n"
				     "work: jne 1f\n" /* 0 */
				     "nop\n"	      /* 2 */
				     "1: ret\n"	      /* 3 */
				     ".type work, @function\n.size work, 4\n";

static int run_command(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int run_command(const char *format, ...)
{
	char command[2048];
	va_list arguments;

	va_start(arguments, format);
	assert_true(vsnprintf(command, sizeof(command), format, arguments) < (int)sizeof(command));
	va_end(arguments);
	return system(command);
}

static FILE *create(const char *name)
{
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "ab");
	assert_non_null(f);
	return f;
}

static void build(const char *path, const char *source, uint64_t text, const char *options)
{
	FILE *f;

	snprintf(folder, sizeof(folder), "%s", top);
	f = create("source.s");
	fputs(source, f);
	assert_int_equal(fclose(f), 0);
	assert_int_equal(
	    run_command("cd %s && mkdir -p $(dirname root/%s) && ${CC:-cc} -nostdlib %s "
			"-Wl,-z,separate-code,-Ttext=%#llx -o root/%s source.s && rm "
			"source.s",
			top, path, options, (unsigned long long)text, path),
	    0);
}

/* The traced machine's files. */
static int make_root(void **state)
{
	(void)state;
	strcpy(top + strlen(top) - 6, "XXXXXX");
	if (!mkdtemp(top))
		return -1;
	build("usr/bin/program", program_source, PROGRAM_TEXT,
	      "-pie -Wl,-e,main,--dynamic-linker=/libexec/ld-elf.so.1");
	build("lib/libwork.so.7", library_source, LIBRARY_TEXT, "-shared");
	build("libexec/ld-elf.so.1", library_source, LIBRARY_TEXT, "-shared");
	build("boot/kernel/kernel", kernel_source, KERNEL_TEXT, "-static -no-pie -Wl,-e,main");
	snprintf(root, sizeof(root), "%s/root", top);
	snprintf(folder, sizeof(folder), "%s/folder", top);
	return 0;
}

static int remove_root(void **state)
{
	(void)state;
	return run_command("rm -rf %s", top);
}

static void branch(struct ptah_model *m, enum ptah_insn_class kind, uint64_t ip, unsigned size,
		   uint64_t to, bool taken)
{
	const struct ptah_model_branch b = {
	    .ip = ip, .end = ip + size, .to = to, .kind = (uint8_t)kind, .taken = taken};

	ptah_model_branch(m, &b);
}

/* What was executed. */
struct count {
	uint64_t rounds, instructions;
};

/* The program's loop, whose every third round does not take the library's branch. */
static void execute(unsigned cpu, uint64_t main_at, uint64_t work_at, unsigned rounds,
		    struct count *count)
{
	struct ptah_model *m = ptah_machine_model(rig.machine, cpu);

	while (rounds--) {
		const bool taken = count->rounds++ % 3 != 0;

		branch(m, PTAH_INSN_CALL_IND, main_at, 2, work_at, true);
		branch(m, PTAH_INSN_COND, work_at, 2, work_at + 3, taken);
		branch(m, PTAH_INSN_RETURN, work_at + 3, 1, main_at + 2, true);
		branch(m, PTAH_INSN_CALL, main_at + 2, 5, main_at + 16, true);
		branch(m, PTAH_INSN_RETURN, main_at + 16, 1, main_at + 7, true);
		branch(m, PTAH_INSN_JUMP, main_at + 7, 2, main_at, true);
		count->instructions += taken ? 6 : 7;
	}
}

static const uint64_t main_at = PROGRAM_BIAS + PROGRAM_TEXT, work_at = LIBRARY_BIAS + LIBRARY_TEXT;

static void run_thread(struct thread *td, int cpu, uint64_t bias, unsigned rounds,
		       struct count *count)
{
	const struct ptah_model_context context = {
	    .cpl = 3, .mode = PTAH_EXEC_64, .interrupts = true};

	ptah_model_begin(ptah_machine_model(rig.machine, (unsigned)cpu), bias + main_at, &context);
	hwt_switch_in(td, cpu);
	execute((unsigned)cpu, bias + main_at, bias + work_at, rounds, count);
	hwt_switch_out(td);
}

/* A process with two threads, which move between processors. */
struct run {
	struct proc proc;
	struct thread threads[2];
	struct thread *list[2];
	unsigned switches, rounds, n;
	unsigned
	    execs; /* after so many switches the first thread alone executes a program; 0: never */
	uint64_t bias; /* of all that is mapped */
	struct count *counts;
};

static void prepare_run(struct run *r, unsigned switches, unsigned rounds, struct count counts[2])
{
	*r = (struct run){.switches = switches, .rounds = rounds, .counts = counts};
	for (unsigned i = 0; i < 2; i++) {
		r->threads[i] = (struct thread){.proc = &r->proc, .cpu = -1};
		r->list[i] = &r->threads[i];
	}
	kernel_boot("skylake");
	assert_int_equal(kernel_load(), 0);
}

static void map_files(const struct run *r)
{
	hwt_record_path(r->proc.ctx, HWT_RECORD_EXECUTABLE, "/usr/bin/program",
			r->bias + PROGRAM_BIAS, r->bias + RTLD_BIAS);
	/* Of a mapping hwt leaves the base address as it was on the stack. */
	hwt_record_path(r->proc.ctx, HWT_RECORD_MMAP, "/lib/libwork.so.7", r->bias + work_at,
			0x5aa5);
	hwt_record_path(r->proc.ctx, HWT_RECORD_MMAP, "/lib/libmissing.so", r->bias + 0x840000000,
			0);
}

static bool run_threads(void *argument)
{
	struct run *r = argument;

	if (r->n == 0)
		map_files(r);
	if (r->execs && r->n == r->execs) {
		r->bias = EXEC_BIAS;
		map_files(r);
	}
	for (unsigned i = 0; i < 2 && !(i && r->bias); i++)
		run_thread(&r->threads[i], (int)(r->n + i) % 2, r->bias, r->rounds + r->n % 5 + i,
			   &r->counts[i]);
	return ++r->n < r->switches;
}

static uint64_t written[2]; /* what the backend says at the end */

static void end_run(struct run *r)
{
	vm_offset_t offset;
	int page;

	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(hwt_bufptr_get(r->threads[i].thr->vm, &page, &offset, &written[i]),
				 0);
	hwt_close(r->proc.ctx);
	kernel_run_tasks();
	assert_string_equal(kernel_log(), "");
	assert_int_equal(kernel_unload(), 0);
	kernel_halt();
}

static int record(char *options[], bool (*run)(void *argument), void *argument)
{
	char *arguments[16] = {"ptah-hwt", "-o", folder, "-s", "64"};
	int n = 5;

	while (*options)
		arguments[n++] = *options++;
	optind = 1;
	devices.root = root;
	devices.output = folder;
	devices.run = run;
	devices.argument = argument;
	return ptah_hwt_main(n, arguments);
}

static void trace_threads(unsigned switches, unsigned rounds, unsigned execs,
			  struct count counts[2])
{
	char *options[] = {"-k", "program", NULL};
	struct run r;

	prepare_run(&r, switches, rounds, counts);
	r.execs = execs;
	devices.proc = &r.proc;
	devices.threads = r.list;
	devices.thread_count = 2;
	assert_int_equal(record(options, run_threads, &r), 3); /* the program's status */
	end_run(&r);
}

static uint64_t copied[2];

/* What a record says is new, as `hwt -r -w` writes it. */
static void write_packets(const struct hwt_vm *vm, const struct hwt_record_user_entry *entry)
{
	const uint8_t *bytes = kernel_user_map(vm);
	const uint64_t position = (uint64_t)entry->curpage * PAGE_SIZE + entry->offset;
	uint64_t *at = &copied[entry->buf_id];
	char name[32];
	FILE *f;

	snprintf(name, sizeof(name), "trace.out%d", entry->buf_id);
	f = create(name);
	for (; *at % BUFFER != position % BUFFER; (*at)++)
		fputc(bytes[*at % BUFFER], f);
	assert_int_equal(fclose(f), 0);
}

static void write_records(const struct run *r)
{
	struct hwt_record_user_entry entry;
	FILE *f = create("hwt.records");

	kernel_swi_wait();
	while (hwt_record_get_user(r->proc.ctx, &entry)) {
		assert_int_equal(fwrite(&entry, sizeof(entry), 1, f), 1);
		if (entry.record_type == HWT_RECORD_BUFFER)
			write_packets(r->threads[entry.buf_id].thr->vm, &entry);
	}
	assert_int_equal(fclose(f), 0);
}

/* What awk's program `count` adds up in n, of what ptah prints of the folder. */
static uint64_t ask(const char *command, const char *count)
{
	char text[1024], line[64] = "";
	FILE *f;

	assert_true(snprintf(text, sizeof(text),
			     "cd %s && \"$PTAH\" %s 2>notes | awk '%s END {printf \"%%d\", n}'",
			     folder, command, count) < (int)sizeof(text));
	f = popen(text, "r");
	assert_non_null(f);
	assert_non_null(fgets(line, sizeof(line), f));
	assert_int_equal(pclose(f), 0);
	return strtoull(line, NULL, 10);
}

/* "hwt 0 1 800203000 work+0x0 (libwork.so.7) ...": hwt's thread 0 has the number 1. */
static void check_threads(const struct count counts[2])
{
	const uint64_t rounds = counts[0].rounds + counts[1].rounds;
	const char *command = "script .";
	char count[128];
	int i;

	for (i = 0; i < 2; i++) {
		snprintf(count, sizeof(count), "$2 == %d && $3 == %d {n++}", i, i + 1);
		assert_int_equal(ask(command, count), counts[i].instructions);
		snprintf(count, sizeof(count), "$3 == %d && /work.0x2/ {n++}", i + 1);
		assert_int_equal(ask(command, count), (counts[i].rounds + 2) / 3);
	}
	assert_int_equal(ask(command, "/error/ {n++}"), 0);
	assert_int_equal(
	    run_command("grep -q '^note: [12] mapping.*/lib/libmissing.so' %s/notes", folder), 0);
	assert_int_equal(ask("calls -n 0 --format=tsv -i .", "$0 ~ \"work\" {n = $1}"), rounds);
	assert_int_equal(ask("calls -n 0 --format=tsv -i .", "/local/ {n = $1}"), rounds);
}

TEST_WITH(threads_become_calls, make_root, remove_root)
{
	struct count counts[2] = {{0}};

	trace_threads(20, 30, 0, counts);
	check_threads(counts);
}

/* The process executes a program: its other thread ends, and the code lies elsewhere. */
TEST_WITH(a_process_executes_another_program, make_root, remove_root)
{
	struct count counts[2] = {{0}};
	uint64_t second;

	trace_threads(20, 30, 10, counts);
	check_threads(counts);
	second = ask("script .", "$3 == 1 && $4 ~ /^11002000$/ {n++}");
	assert_true(second > 200 && second < counts[0].rounds);
}

/* Its files are those of longer traces: here each buffer is written more than twice. */
TEST_WITH(packets_of_the_tool_become_calls, make_root, remove_root)
{
	struct count counts[2] = {{0}};
	struct run r;

	assert_int_equal(run_command("cp -r %s %s", root, folder), 0);
	prepare_run(&r, 50, 800, counts);
	assert_int_equal(hwt_alloc_thread_mode(&r.proc, r.list, 2, BUFFER), 0);
	assert_int_equal(hwt_set_config(r.proc.ctx, &plain, sizeof(plain)), 0);
	assert_int_equal(hwt_start(r.proc.ctx), 0);
	while (run_threads(&r))
		write_records(&r);
	ptah_machine_set_cpu(rig.machine, 0);
	assert_int_equal(hwt_stop(r.proc.ctx, NULL, NULL), 0);
	write_records(&r);
	end_run(&r);
	assert_true(copied[0] > 2 * BUFFER && copied[1] > 2 * BUFFER);
	check_threads(counts);
}

/* Of a buffer that has wrapped, the last bytes are there, in order. */
TEST_WITH(the_end_of_a_long_trace, make_root, remove_root)
{
	struct count counts[2] = {{0}};
	uint64_t calls;

	trace_threads(50, 800, 0, counts);
	assert_int_equal(ask("script .", "/error/ {n++}"), 0);
	calls = ask("calls -n 0 --format=tsv -i .", "/local/ {n = $1}");
	/* A round takes some four bytes. */
	assert_true(calls > BUFFER / 4 && calls < counts[0].rounds);
	assert_int_equal(ask("script --last=1 .", "/main.0x7/ {n++}"), 2);
	assert_int_equal(ask("stat --format=json .", "/^  .lost_bytes/ {n = $2 + 0}"),
			 written[0] + written[1] - 2 * BUFFER);
}

static bool run_processors(void *argument)
{
	struct count *counts = argument;

	hwt_record_path(devices.ctx, HWT_RECORD_KERNEL, "/boot/kernel/kernel", KERNEL_TEXT, 0);
	for (unsigned i = 0; i < CPUS; i++) {
		ptah_machine_set_cpu(rig.machine, i);
		execute(i, KERNEL_TEXT, KERNEL_TEXT + 9, 500 + 100 * i, &counts[i]);
	}
	return false;
}

static int trace_processors(struct count counts[CPUS])
{
	const struct ptah_model_context kernel = {.mode = PTAH_EXEC_64, .interrupts = true};
	char *options[] = {"-c", "0", "-c", "1", "program", NULL};
	int status;

	for (unsigned i = 0; i < CPUS; i++)
		ptah_model_begin(ptah_machine_model(rig.machine, i), KERNEL_TEXT, &kernel);
	status = record(options, run_processors, counts);
	hwt_close(devices.ctx);
	assert_int_equal(kernel_unload(), 0);
	return status;
}

/* Processors, and the kernel; its symbols are in its file. */
TEST_WITH(processors_become_calls, make_root, remove_root)
{
	struct count counts[CPUS] = {{0}};

	kernel_boot("skylake");
	assert_int_equal(kernel_load(), 0);
	assert_int_equal(trace_processors(counts), 3);
	kernel_halt();
	for (unsigned i = 0; i < CPUS; i++)
		assert_int_equal(ask(i ? "script -C 1 ." : "script -C 0 .", "{n++}"),
				 counts[i].instructions);
	assert_int_equal(ask("calls -n 0 --format=tsv -i .", "$0 ~ \"work\" {n = $1}"), 1100);
}

/* hwt says that it has started, and the backend has logged why it has not. */
TEST_WITH(the_recorder_says_that_nothing_was_traced, make_root, remove_root)
{
	struct ptah_model *m;
	struct count counts[CPUS] = {{0}};

	kernel_boot("skylake");
	assert_int_equal(kernel_load(), 0);
	m = ptah_machine_model(rig.machine, 1);
	ptah_model_wrmsr(m, PTAH_IA32_RTIT_CTL, PTAH_RTIT_CTL_TRACE_EN);
	assert_int_equal(trace_processors(counts), 2);
	assert_non_null(strstr(kernel_log(), "cpu 1 is not traced"));
	ptah_model_wrmsr(m, PTAH_IA32_RTIT_CTL, 0);
	kernel_halt();
}
