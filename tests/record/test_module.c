/* SPDX-License-Identifier: MIT */
/*
 * The recorder module on a simulated kernel (kernel.h) with a simulated /dev/ptah (driver.h). What
 * arrives is compared with the numbered marks that the simulated processors wrote.
 */
#include "record/problem_of.h"
#include "driver.h"

#include "record/perf_event/hardware.h"

#include <ptah/packet.h>

#include <signal.h>
#include <sys/wait.h>

#define ROOM 65536u

/* Counts the marks that arrive of each stream, and checks that none is missing in between. */
struct arrived {
	uint64_t next[8]; /* number that follows the last mark of the stream */
	uint64_t marks[8];
	uint64_t end[8]; /* offset after its last byte */
	uint64_t gaps;	 /* jumps of the numbers */
	uint64_t jumps;	 /* jumps of the offset */
	int32_t tid[8], cpu[8];
	uint8_t part[8][MARK]; /* the beginning of a mark, from the piece before */
	size_t part_size[8];
	unsigned pieces;
	bool refuse;
};

static struct arrived arrived;

/* Looks for marks in what is left of the piece before, and this one. */
static void look(unsigned stream, const uint8_t *bytes, size_t size)
{
	struct arrived *a = &arrived;
	uint8_t *all = malloc(size + MARK);
	size_t n = a->part_size[stream], i = 0;

	assert_non_null(all);
	memcpy(all, a->part[stream], n);
	memcpy(all + n, bytes, size);
	n += size;
	while (n - i >= MARK) {
		if (!rig_is_mark(all + i)) {
			i++;
			continue;
		}
		a->gaps += a->marks[stream] && rig_number(all + i) != a->next[stream];
		a->next[stream] = rig_number(all + i) + 1;
		a->marks[stream]++;
		i += MARK;
	}
	a->part_size[stream] = n - i;
	memcpy(a->part[stream], all + i, n - i);
	free(all);
}

static int arrive(void *context, const struct ptah_record_piece *piece)
{
	struct arrived *a = context;
	const unsigned s = piece->stream;

	if (piece->kind != PTAH_RECORD_PIECE_TRACE)
		return 0;
	if (a->refuse)
		return PTAH_E_SYSTEM;
	assert_true(s < 8);
	if (a->pieces++ && a->end[s] && piece->offset != a->end[s]) {
		a->jumps++;
		a->part_size[s] = 0;
	}
	a->end[s] = piece->offset + piece->size;
	a->tid[s] = piece->tid;
	a->cpu[s] = piece->cpu;
	look(s, piece->bytes, piece->size);
	return 0;
}

static const struct ptah_record_sink to_arrived = {.take = arrive, .context = &arrived};

static struct ptah_record_config config_of(enum ptah_record_target kind,
					   enum ptah_record_buffer policy)
{
	static const int32_t ids[2] = {0, 1};

	memset(&arrived, 0, sizeof(arrived));
	reset();
	driver_begin();
	return (struct ptah_record_config){
	    .size = sizeof(struct ptah_record_config),
	    .target.kind = kind,
	    .target.ids = ids,
	    .target.id_count = kind == PTAH_RECORD_CPUS ? 1 : 0,
	    .target.no_existing = true,
	    .buffer.policy = policy,
	    .buffer.size = ROOM,
	    .buffer.sideband = 8192,
	    .output.sink = &to_arrived,
	};
}

static void end(struct ptah_recorder *r)
{
	ptah_recorder_free(r);
	driver_end();
}

/* A thread's trace arrives as it runs, and what it was still missing at the end. */
TEST(a_thread)
{
	struct ptah_record_config config = config_of(PTAH_RECORD_SELF, PTAH_RECORD_DRAIN);
	struct ptah_recorder *r = start(&config);
	const int32_t tid = gettid();

	let_run(tid, 0, 100);
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	let_run(tid, 1, 3000);
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	for (unsigned i = 0; i < 20; i++) {
		let_run(tid, i & 1, 2000);
		assert_int_equal(ptah_recorder_poll(r, 0), 1);
	}
	let_run(tid, 0, 7);
	assert_int_equal(ptah_recorder_finish(r), 0);
	assert_int_equal(arrived.marks[0], 43107);
	assert_int_equal(arrived.gaps + arrived.jumps, 0);
	assert_int_equal(arrived.tid[0], tid);
	assert_int_equal(arrived.cpu[0], -1);
	assert_int_equal(status_of(r).losses.truncated, 0);
	assert_int_equal(status_of(r).trace_bytes, arrived.end[0]);
	assert_int_equal(status_of(r).threads, 1);
	end(r);
}

/* A full buffer is reported, with the place; afterwards the trace continues. */
TEST(a_full_buffer)
{
	struct ptah_record_config config = config_of(PTAH_RECORD_SELF, PTAH_RECORD_DRAIN);
	struct ptah_recorder *r = start(&config);
	const int32_t tid = gettid();

	let_run(tid, 0, 10000);
	assert_true(arrived.end[0] == 0);
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	assert_in_range(arrived.marks[0], ROOM / 2 / MARK, ROOM / MARK);
	assert_in_range(status_of(r).losses.truncated, 1, 2);
	let_run(tid, 0, 100);
	assert_int_equal(ptah_recorder_finish(r), 0);
	assert_int_equal(arrived.next[0], 10100);
	assert_int_equal(arrived.gaps, 1);
	end(r);
}

TEST(pausing)
{
	struct ptah_record_config config = config_of(PTAH_RECORD_SELF, PTAH_RECORD_DRAIN);
	const int32_t tid = gettid();
	struct ptah_recorder *r;

	config.target.start_paused = true;
	r = start(&config);
	let_run(tid, 0, 5);
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	assert_int_equal(arrived.marks[0], 0);
	assert_int_equal(ptah_recorder_pause(r, false), 0);
	let_run(tid, 0, 7);
	assert_int_equal(ptah_recorder_pause(r, true), 0);
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	assert_int_equal(arrived.marks[0], 7);
	let_run(tid, 1, 9);
	assert_int_equal(ptah_recorder_pause(r, false), 0);
	let_run(tid, 1, 3);
	assert_int_equal(ptah_recorder_finish(r), 0);
	assert_int_equal(arrived.marks[0], 10);
	end(r);
}

/* Whether the recorder would be woken by the capture of this thread. */
static bool is_readable(int32_t tid)
{
	struct pollfd polled = {.fd = thread(tid)->fd, .events = POLLIN};

	return poll(&polled, 1, 0) > 0;
}

/* Each snapshot has what is new since the one before, at most a buffer. */
TEST(snapshots)
{
	struct ptah_record_config config = config_of(PTAH_RECORD_SELF, PTAH_RECORD_SNAPSHOT);
	struct ptah_recorder *r = start(&config);
	const int32_t tid = gettid();

	let_run(tid, 0, 1000);
	assert_true(is_readable(tid));
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	/* Otherwise it would poll without a pause until the first snapshot. */
	assert_false(is_readable(tid));
	assert_int_equal(arrived.marks[0], 0);
	assert_int_equal(ptah_recorder_snapshot(r), 0);
	assert_int_equal(arrived.marks[0], 1000);
	let_run(tid, 1, 500);
	assert_int_equal(ptah_recorder_snapshot(r), 0);
	assert_int_equal(arrived.marks[0], 1500);
	assert_int_equal(arrived.gaps + arrived.jumps, 0);
	/* The newest part of what has filled the buffer several times. */
	let_run(tid, 0, 20000);
	assert_int_equal(ptah_recorder_snapshot(r), 0);
	assert_int_equal(arrived.next[0], 21500);
	assert_in_range(arrived.marks[0] - 1500, ROOM / 2 / MARK, ROOM / MARK);
	assert_int_equal(arrived.gaps, 1);
	/* What comes after the last snapshot is not kept. */
	let_run(tid, 0, 100);
	assert_int_equal(ptah_recorder_finish(r), 0);
	assert_int_equal(arrived.next[0], 21500);
	assert_int_equal(status_of(r).snapshots, 3);
	end(r);

	/* Without a snapshot, the end is kept. */
	config = config_of(PTAH_RECORD_SELF, PTAH_RECORD_SNAPSHOT);
	r = start(&config);
	let_run(tid, 0, 20000);
	assert_int_equal(ptah_recorder_finish(r), 0);
	assert_int_equal(arrived.next[0], 20000);
	assert_int_equal(arrived.gaps, 0);
	assert_in_range(arrived.marks[0], ROOM / 2 / MARK, ROOM / MARK);
	end(r);
}

TEST(stop_when_full)
{
	struct ptah_record_config config = config_of(PTAH_RECORD_SELF, PTAH_RECORD_STOP_WHEN_FULL);
	struct ptah_recorder *r = start(&config);

	let_run(gettid(), 0, 3000);
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	assert_int_equal(arrived.marks[0], 0);
	let_run(gettid(), 0, 3000);
	assert_int_equal(ptah_recorder_finish(r), 0);
	assert_int_equal(arrived.next[0], arrived.marks[0]);
	assert_in_range(arrived.marks[0], ROOM / 2 / MARK, ROOM / MARK);
	end(r);
}

/* New threads have streams of their own; those that have ended give their buffer back. */
TEST(new_threads)
{
	struct ptah_record_config config = config_of(PTAH_RECORD_PROCESSES, PTAH_RECORD_DRAIN);
	const int32_t pid = getpid();
	struct ptah_recorder *r;
	unsigned begun = 0;

	config.target.ids = &pid;
	config.target.id_count = 1;
	own_processors = true;
	put_file(PROCESSORS "online", "0-1\n");
	r = start(&config);
	let_run(pid, 0, 10);
	assert_true(begin_thread(pid, 1000001));
	let_run(1000001, 1, 20);
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	assert_int_equal(arrived.marks[0], 10);
	assert_int_equal(arrived.marks[1], 20);
	assert_int_equal(arrived.tid[1], 1000001);
	let_run(1000001, 0, 30);
	end_thread(1000001);
	/* One that has ended before anybody has asked for it. */
	assert_true(begin_thread(pid, 1000002));
	let_run(1000002, 1, 5);
	end_thread(1000002);
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	assert_int_equal(arrived.marks[1], 50);
	assert_int_equal(arrived.marks[2], 5);
	assert_null(thread(1000001));
	assert_null(thread(1000002));
	/* More than there are buffers for. */
	while (begin_thread(pid, 1000003 + (int32_t)begun))
		begun++;
	assert_in_range(begun, 8, 40);
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	/* A pause is also that of threads that begin meanwhile. */
	end_thread(1000003);
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	assert_int_equal(ptah_recorder_pause(r, true), 0);
	assert_true(begin_thread(pid, 2000000));
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	let_run(2000000, 0, 100);
	assert_int_equal(ptah_recorder_pause(r, false), 0);
	assert_int_equal(ptah_recorder_finish(r), 0);
	assert_int_equal(arrived.gaps, 0);
	assert_int_equal(status_of(r).notes, 1);
	for (unsigned i = 3; i < 8; i++)
		assert_int_equal(arrived.marks[i], 0);
	end(r);
}

TEST(processors)
{
	struct ptah_record_config config = config_of(PTAH_RECORD_CPUS, PTAH_RECORD_DRAIN);
	struct ptah_recorder *r;

	own_processors = true;
	put_file(PROCESSORS "online", "0-1\n");
	put_file(PROCESSORS "possible", "0-1\n");
	config.target.id_count = 0;
	r = start(&config);
	leave_marks(0, 10);
	leave_marks(1, 20);
	leave_marks(0, 10);
	assert_int_equal(ptah_recorder_pause(r, true), 0);
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	leave_marks(1, 20);
	assert_int_equal(arrived.marks[0], 20);
	assert_int_equal(arrived.marks[1], 20);
	assert_int_equal(arrived.cpu[0], 0);
	assert_int_equal(arrived.cpu[1], 1);
	assert_int_equal(arrived.tid[1], -1);
	assert_int_equal(ptah_recorder_pause(r, false), 0);
	leave_marks(1, 2);
	assert_int_equal(ptah_recorder_finish(r), 0);
	assert_int_equal(arrived.marks[1], 22);
	assert_int_equal(status_of(r).threads, 2);
	end(r);

	/* Only one of them. */
	config = config_of(PTAH_RECORD_CPUS, PTAH_RECORD_DRAIN);
	config.target.ids = (const int32_t[]){1};
	r = start(&config);
	leave_marks(0, 10);
	leave_marks(1, 20);
	assert_int_equal(ptah_recorder_finish(r), 0);
	assert_int_equal(arrived.marks[0], 20);
	assert_int_equal(arrived.cpu[0], 1);
	end(r);
}

/* The command stops at its execve(), where its capture is made, and then runs to its end. */
TEST(a_command)
{
	char *command[] = {"sh", "-c", "exit 7", NULL}, *none[] = {"./is-no-program", NULL};
	struct ptah_record_config config = config_of(PTAH_RECORD_COMMAND, PTAH_RECORD_DRAIN);
	struct ptah_recorder *r;
	int32_t pid;

	config.target.argv = command;
	config.target.no_inherit = true;
	r = start(&config);
	pid = status_of(r).pid;
	assert_true(pid > 0);
	assert_non_null(thread(pid));
	let_run(pid, 0, 10);
	while (ptah_recorder_poll(r, 100) > 0)
		;
	if (ptah_recorder_finish(r) < 0)
		fail_msg("%s", ptah_recorder_why(r, NULL));
	assert_int_equal(arrived.marks[0], 10);
	assert_true(WIFEXITED(status_of(r).wait_status));
	assert_int_equal(WEXITSTATUS(status_of(r).wait_status), 7);
	end(r);

	/* One that cannot be executed. */
	config = config_of(PTAH_RECORD_COMMAND, PTAH_RECORD_DRAIN);
	config.target.argv = none;
	assert_int_equal(open_recorder(&config, &r, NULL, NULL), 0);
	assert_int_equal(ptah_recorder_start(r), PTAH_E_MISSING);
	assert_int_equal(problem_of(r), PTAH_RECORD_NO_TARGET);
	assert_int_equal(status_of(r).pid, 0);
	end(r);

	/* One whose capture is refused does not run. */
	config = config_of(PTAH_RECORD_COMMAND, PTAH_RECORD_DRAIN);
	config.target.argv = (char *[]){"touch", "it-ran", NULL};
	assert_int_equal(open_recorder(&config, &r, NULL, NULL), 0);
	driver.refuse = EBUSY;
	driver.refuse_call = PTAH_IOC_POOL;
	assert_int_equal(ptah_recorder_start(r), PTAH_E_BUSY);
	assert_int_equal(status_of(r).pid, 0);
	assert_int_not_equal(access("it-ran", F_OK), 0);
	end(r);
}

/* A file's code is filtered where the program has it. */
TEST(filters)
{
	struct ptah_record_filter filter = {
	    .mode = PTAH_RANGE_FILTER, .start = 0x40, .size = 0x100};
	struct ptah_record_config config = config_of(PTAH_RECORD_PROCESSES, PTAH_RECORD_DRAIN);
	const int32_t pid = getpid();
	struct ptah_recorder *r;
	char path[256];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
	uint64_t offset, address;
	char line[512], perms[5];
	FILE *maps = fopen("/proc/self/maps", "r");
	bool found = false;

	assert_true(n > 0);
	path[n] = '\0';
	while (!found && fgets(line, sizeof(line), maps))
		found = strstr(line, path) &&
			sscanf(line, "%lx-%*x %4s %lx", &address, perms, &offset) == 3 &&
			perms[2] == 'x';
	fclose(maps);
	assert_true(found);
	filter.path = path;
	filter.start = offset + 0x40;
	config.target.ids = &pid;
	config.target.id_count = 1;
	config.target.no_inherit = true;
	config.filters = &filter;
	config.filter_count = 1;
	r = start(&config);
	assert_int_equal(driver.trace.ranges[0].mode, PTAH_RANGE_FILTER);
	assert_int_equal(driver.trace.ranges[0].first, address + 0x40);
	assert_int_equal(driver.trace.ranges[0].last, address + 0x13f);
	end(r);

	/* A file that is not mapped. */
	config = config_of(PTAH_RECORD_PROCESSES, PTAH_RECORD_DRAIN);
	config.target.ids = &pid;
	config.target.id_count = 1;
	config.filters = &filter;
	config.filter_count = 1;
	filter.path = "/etc/passwd";
	filter.start = 0;
	assert_int_equal(open_recorder(&config, &r, NULL, NULL), 0);
	assert_int_equal(ptah_recorder_start(r), PTAH_E_UNSUPPORTED);
	assert_non_null(strstr(ptah_recorder_why(r, NULL), "/etc/passwd is not mapped"));
	end(r);
}

/* Checks */

static enum ptah_record_problem check(const struct ptah_record_config *config, const char *says)
{
	struct ptah_message why = {""};
	enum ptah_record_problem problem = recorder_module.check(config, &why);

	if (says && !strstr(why.text, says))
		fail_msg("\"%s\" instead of \"%s\"", why.text, says);
	return problem;
}

TEST(checks)
{
	struct ptah_record_config config = config_of(PTAH_RECORD_SELF, PTAH_RECORD_DRAIN);

	put_driver();
	ptah_record_trace_default(&config.trace);
	assert_int_equal(check(&config, NULL), PTAH_RECORD_FINE);
	driver.refuse_open = ENOENT;
	assert_int_equal(check(&config, "module is not loaded"), PTAH_RECORD_NO_DRIVER);
	driver.refuse_open = EACCES;
	assert_int_equal(check(&config, "CAP_PERFMON"), PTAH_RECORD_PERMISSION);
	driver.refuse_open = EMFILE;
	assert_int_equal(check(&config, "too many open files"), PTAH_RECORD_NO_MEMORY);
	driver.refuse_open = 0;
	driver.version = 9;
	assert_int_equal(check(&config, "version 9"), PTAH_RECORD_NO_DRIVER);
	driver.version = 0;
	driver.obstacle = PTAH_CAPS_NO_PT;
	assert_int_equal(check(&config, "no Intel PT"), PTAH_RECORD_NO_PROCESSOR);
	driver.obstacle = PTAH_CAPS_NO_MSR;
	assert_int_equal(check(&config, NULL), PTAH_RECORD_NO_PROCESSOR);
	driver.obstacle = 0;
	driver.refuse = ENOTTY;
	driver.refuse_call = PTAH_IOC_INFO;
	assert_int_equal(check(&config, "is not the device"), PTAH_RECORD_NO_DRIVER);
	driver.refuse = ENODEV;
	driver.refuse_call = PTAH_IOC_CAPS;
	assert_int_equal(check(&config, "no processor's capabilities"), PTAH_RECORD_BROKEN);
	driver.refuse = 0;
	/* skylake: no PTWRITE; MTC periods 0, 3, 6, 9 */
	config.trace.ptwrite = true;
	assert_int_equal(check(&config, "ptw=1"), PTAH_RECORD_BAD_OPTION);
	config.trace.ptwrite = false;
	config.trace.mtc_period = 5;
	assert_int_equal(check(&config, "mtc_period=5"), PTAH_RECORD_BAD_OPTION);
	config.trace.mtc_period = PTAH_RECORD_CHOOSE;
	config.buffer.size = 12345;
	assert_int_equal(check(&config, "power of two"), PTAH_RECORD_BAD_OPTION);
	driver_end();
}

/* Failures of each call are reported, and nothing is left. */
TEST(refusals)
{
	static const struct {
		unsigned long call;
		int error;
		enum ptah_record_problem problem;
	} cases[] = {
	    {PTAH_IOC_POOL, EPERM, PTAH_RECORD_PERMISSION},
	    {PTAH_IOC_POOL, EBUSY, PTAH_RECORD_BUSY},
	    {PTAH_IOC_POOL, ENOMEM, PTAH_RECORD_NO_MEMORY},
	    {PTAH_IOC_POOL, EINVAL, PTAH_RECORD_BAD_OPTION},
	    {PTAH_IOC_TAKE, ESRCH, PTAH_RECORD_NO_TARGET},
	    {PTAH_IOC_TAKE, EMFILE, PTAH_RECORD_NO_MEMORY},
	    {PTAH_IOC_STATUS, EIO, PTAH_RECORD_BROKEN},
	    {PTAH_IOC_START, EOPNOTSUPP, PTAH_RECORD_NO_PROCESSOR},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ptah_record_config config = config_of(PTAH_RECORD_SELF, PTAH_RECORD_DRAIN);
		struct ptah_recorder *r;

		assert_int_equal(open_recorder(&config, &r, NULL, NULL), 0);
		driver.refuse = cases[i].error;
		driver.refuse_call = cases[i].call;
		assert_true(ptah_recorder_start(r) < 0);
		assert_int_equal(problem_of(r), cases[i].problem);
		assert_true(strlen(ptah_recorder_why(r, NULL)) > 10);
		if (cases[i].call == PTAH_IOC_STATUS) /* the engine still has it */
			driver.refuse = 0;
		end(r);
	}
}

/* What a page may have instead of what the engine writes */

static unsigned round_of_chance;

static uint64_t chance(void)
{
	static uint64_t x = 88172645463325252;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

/* Overwrites some fields, most of them with numbers that are near a limit. */
static void spoil(struct ptah_capture_page *page)
{
	static const uint64_t numbers[] = {0,
					   1,
					   7,
					   8,
					   32,
					   384,
					   4096,
					   16384,
					   16383,
					   65536,
					   UINT32_MAX,
					   UINT64_MAX,
					   1 << 31,
					   UINT64_C(1) << 63,
					   UINT64_C(1) << 32,
					   65537};
	uint8_t *bytes = (uint8_t *)page;
	/* The constants, or what changes. */
	const size_t from = round_of_chance % 2 ? 12 : 128, to = round_of_chance % 2 ? 88 : 332;

	for (unsigned n = 1 + (unsigned)(chance() % 3); n; n--) {
		const size_t at = from + chance() % (to - from) / 4 * 4;
		const uint64_t value = numbers[chance() % (sizeof(numbers) / sizeof(numbers[0]))];

		memcpy(bytes + at, &value, at + 8 <= to && chance() % 2 ? 8 : 4);
	}
	page->sequence &= ~UINT64_C(1);
}

/* Sizes that the mapping does not have. */
static void small_mapping(struct ptah_ioc_status *status)
{
	status->page = 4096;
	status->buffer = 4096;
}

static void no_mapping(struct ptah_ioc_status *status)
{
	status->page = 0;
}

TEST(hostile_pages)
{
	unsigned refused = 0;

	for (round_of_chance = 0; round_of_chance < 400; round_of_chance++) {
		struct ptah_record_config config = config_of(PTAH_RECORD_SELF, PTAH_RECORD_DRAIN);
		struct ptah_recorder *r;
		int status;

		config.buffer.policy = chance() % 3;
		assert_int_equal(open_recorder(&config, &r, NULL, NULL), 0);
		driver.spoil = spoil;
		status = ptah_recorder_start(r);
		if (status >= 0)
			status = ptah_recorder_poll(r, 0);
		if (status >= 0)
			status = ptah_recorder_stop(r);
		if (status < 0) {
			refused++;
			assert_int_equal(problem_of(r), PTAH_RECORD_BROKEN);
		}
		end(r);
	}
	assert_in_range(refused, 50, 390);
}

TEST(hostile_sizes)
{
	static void (*const spoils[])(struct ptah_ioc_status *) = {small_mapping, no_mapping};

	for (size_t i = 0; i < 2; i++) {
		struct ptah_record_config config = config_of(PTAH_RECORD_SELF, PTAH_RECORD_DRAIN);
		struct ptah_recorder *r;

		assert_int_equal(open_recorder(&config, &r, NULL, NULL), 0);
		driver.spoil_status = spoils[i];
		assert_true(ptah_recorder_start(r) < 0);
		assert_int_equal(problem_of(r), PTAH_RECORD_BROKEN);
		end(r);
	}
}

/* The output fails: the recording ends with that, and the driver is released. */
TEST(a_refusing_sink)
{
	struct ptah_record_config config = config_of(PTAH_RECORD_SELF, PTAH_RECORD_DRAIN);
	struct ptah_recorder *r = start(&config);

	let_run(gettid(), 0, 1000);
	arrived.refuse = true;
	assert_int_equal(ptah_recorder_poll(r, 0), PTAH_E_SYSTEM);
	assert_int_equal(problem_of(r), PTAH_RECORD_OUTPUT);
	end(r);
}

TEST_GROUP(enter, leave)
