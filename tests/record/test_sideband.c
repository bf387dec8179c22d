/* SPDX-License-Identifier: MIT */
/*
 * The recorder hardware without trace, on the real kernel: its records of what existed before and
 * of what happens are compared with perf record, /proc, and what the test itself did.
 */
#include "record/problem_of.h"
#include "test.h"

#include "base/bits.h"
#include "perfdata/reader.h"
#include "record/perf_event/perf_event.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/ptah-test-sideband-XXXXXX";

static struct ptah_recorder *open_recorder(const struct ptah_record_config *config)
{
	struct ptah_message why = {""};
	struct ptah_recorder *r = NULL;

	if (recorder_new(&recorder_sideband, config, &r, NULL, &why) < 0)
		fail_msg("%s", why.text);
	return r;
}

static void run_to_end(struct ptah_recorder *r)
{
	int status;

	while ((status = ptah_recorder_poll(r, 100)) > 0)
		;
	if (status >= 0)
		status = ptah_recorder_finish(r);
	if (status < 0)
		fail_msg("%s", ptah_recorder_why(r, NULL));
}

static void record(const struct ptah_record_config *config, struct ptah_record_status *result)
{
	struct ptah_recorder *r = open_recorder(config);

	if (ptah_recorder_start(r) < 0)
		fail_msg("%s", ptah_recorder_why(r, NULL));
	run_to_end(r);
	result->size = sizeof(*result);
	assert_int_equal(ptah_recorder_status(r, result), 0);
	ptah_recorder_free(r);
}

/* How many records of a type the predicate accepts. */
static unsigned count_records(const char *path, uint32_t type,
			      bool (*is)(const struct perfdata_record *, const void *),
			      const void *what)
{
	struct ptah_message why = {""};
	struct perfdata_file *f;
	struct perfdata_record r;
	unsigned n = 0;
	int status;

	if (perfdata_open(path, &f, &why) < 0)
		fail_msg("%s", why.text);
	perfdata_want_samples(f);
	while ((status = perfdata_next(f, &r, &why)) > 0)
		n += r.type == type && (!is || is(&r, what));
	if (status < 0)
		fail_msg("%s", why.text);
	assert_false(perfdata_unfinished(f));
	perfdata_close(f);
	return n;
}

static bool has_text(const struct perfdata_record *r, const void *text)
{
	return r->text_size == strlen(text) && !memcmp(r->text, text, r->text_size);
}

static bool is_of_thread(const struct perfdata_record *r, const void *tid)
{
	return r->tid == *(const int32_t *)tid;
}

static unsigned lines_of(const char *command)
{
	FILE *f = popen(command, "r");
	unsigned n = 0;
	int c;

	assert_non_null(f);
	while ((c = fgetc(f)) != EOF)
		n += c == '\n';
	pclose(f);
	return n;
}

static void need_perf(void)
{
	if (system("command -v perf >/dev/null") != 0) {
		print_message("SKIP: perf is not installed\n");
		skip();
	}
}

/* What perf script prints for a recording, without the numbers that differ from run to run. */
#define SHOWN                                                                                      \
	"perf script -i %s --show-task-events --show-mmap-events 2>&1 | "                          \
	"sed -n -e 's/.*RECORD_COMM exec: \\([^:]*\\):.*/comm \\1/p' "                             \
	"-e 's/.*RECORD_MMAP2 .*\\[0x[0-9a-f]*(\\(0x[0-9a-f]*\\) @ \\([0-9a-fx]*\\) .*\\]: /mmap " \
	"\\1 \\2 /p' -e 's/.*RECORD_FORK.*/fork/p' -e 's/.*RECORD_EXIT.*/exit/p' | sort >%s"

TEST(a_command_as_perf_sees_it)
{
	char *command[] = {"sh", "-c",
			   "/bin/true; cat /dev/null | head -1; exec /bin/echo >/dev/null", NULL};
	const struct ptah_record_config config = {
	    .size = sizeof(config), .output.path = "x.data", .target.argv = command};
	struct ptah_record_status result;
	char text[1024];

	need_perf();
	record(&config, &result);
	assert_true(WIFEXITED(result.wait_status) && !WEXITSTATUS(result.wait_status));
	assert_int_equal(result.processes, 4); /* sh, true, cat, head */
	assert_int_equal(result.threads, 4);
	assert_int_equal(result.losses.lost_records, 0);
	assert_true(result.sideband_bytes > 1000);
	assert_int_equal(result.trace_bytes, 0);
	if (system("perf record -q -o y.data -e dummy:u --switch-events -- sh -c '/bin/true; cat "
		   "/dev/null | head -1; exec /bin/echo >/dev/null' 2>/dev/null") != 0)
		fail_msg("perf record");
	snprintf(text, sizeof(text), SHOWN, "x.data", "x.txt");
	assert_int_equal(system(text), 0);
	snprintf(text, sizeof(text), SHOWN, "y.data", "y.txt");
	assert_int_equal(system(text), 0);
	assert_int_equal(system("diff y.txt x.txt"), 0);
	assert_int_equal(lines_of("grep -x 'comm true' x.txt"), 1);
	assert_int_equal(lines_of("grep -x fork x.txt"), 3);
	assert_int_equal(lines_of("grep -x exit x.txt"), 4);
	assert_true(lines_of("perf script -i x.data --show-switch-events | grep SWITCH") > 4);
	assert_int_equal(lines_of("perf report -D -i x.data 2>&1 >/dev/null | grep -i error"), 0);
	/* perf reads the header, too. */
	assert_int_equal(lines_of("perf report --header-only -i x.data | grep -c dummy:u"), 1);
}

/* A process with two threads, which act when they read a byte. */
static int say, hear;

static atomic_bool has_name;

static void *wait_in_thread(void *context)
{
	char byte;

	prctl(PR_SET_NAME, "second");
	atomic_store(&has_name, true);
	if (read(*(int *)context, &byte, 1) < 0)
		_exit(1);
	return NULL;
}

static void map_program(void)
{
	int fd = open("/bin/true", O_RDONLY | O_CLOEXEC);

	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		_exit(2);
	close(fd);
}

static pid_t start_process(void)
{
	int to[2], from[2];
	pid_t pid;

	assert_int_equal(pipe2(to, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		pthread_t thread;
		char byte;

		close(to[1]);
		prctl(PR_SET_NAME, "first");
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pthread_create(&thread, NULL, wait_in_thread, &to[0]);
		while (!atomic_load(&has_name))
			sched_yield();
		if (write(from[1], "", 1) != 1 || read(to[0], &byte, 1) != 1)
			_exit(3);
		map_program();
		prctl(PR_SET_NAME, "renamed");
		_exit(0);
	}
	assert_true(pid > 0);
	close(to[0]);
	close(from[1]);
	say = to[1];
	hear = from[0];
	assert_int_equal(read(hear, to, 1), 1);
	return pid;
}

static void end_process(pid_t pid)
{
	int status;

	close(say);
	close(hear);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
}

static bool is_initial_map(const struct perfdata_record *r, const void *pid)
{
	return !r->time && r->pid == *(const int32_t *)pid && r->executable;
}

static bool is_of_process(const struct perfdata_record *r, const void *pid)
{
	return r->pid == *(const int32_t *)pid;
}

static bool is_later_map(const struct perfdata_record *r, const void *pid)
{
	return r->time && r->pid == *(const int32_t *)pid && has_text(r, "/usr/bin/true") &&
	       r->size == 4096;
}

TEST(a_running_process)
{
	int32_t pid = start_process();
	struct ptah_record_config config = {
	    .size = sizeof(config),
	    .output.path = "x.data",
	    .target.kind = PTAH_RECORD_PROCESSES,
	    .target.ids = &pid,
	    .target.id_count = 1,
	};
	struct ptah_record_status result = {.size = sizeof(result)};
	struct ptah_recorder *r = open_recorder(&config);
	char text[256];
	unsigned maps;

	assert_int_equal(ptah_recorder_start(r), 0);
	assert_int_equal(ptah_recorder_poll(r, 10), 1);
	snprintf(text, sizeof(text), "grep ' r.x\\| .-x\\| ..x' /proc/%d/maps | grep -v vsyscall",
		 pid);
	maps = lines_of(text);
	snprintf(text, sizeof(text), "grep vsyscall /proc/%d/maps", pid);
	maps += lines_of(text);
	/* Both threads read the same pipe: one byte for each. */
	assert_int_equal(write(say, "..", 2), 2);
	run_to_end(r); /* by itself: the process ends */
	ptah_recorder_status(r, &result);
	ptah_recorder_free(r);
	end_process(pid);
	assert_int_equal(result.processes, 1);
	assert_int_equal(result.threads, 2);
	assert_int_equal(result.wait_status, -1);
	assert_true(maps >= 3);
	assert_int_equal(count_records("x.data", PERFDATA_MMAP2, is_initial_map, &pid), maps);
	assert_int_equal(count_records("x.data", PERFDATA_MMAP2, is_later_map, &pid), 1);
	assert_int_equal(count_records("x.data", PERFDATA_COMM, has_text, "first"), 1);
	assert_int_equal(count_records("x.data", PERFDATA_COMM, has_text, "second"), 1);
	assert_int_equal(count_records("x.data", PERFDATA_COMM, has_text, "renamed"), 1);
	assert_int_equal(count_records("x.data", PERFDATA_FORK, is_of_process, &pid), 2);
	assert_int_equal(count_records("x.data", PERFDATA_EXIT, is_of_process, &pid), 2);
}

/* A buffer for each thread, which records only that thread. */
TEST(this_thread)
{
	const struct ptah_record_config config = {
	    .size = sizeof(config), .output.path = "x.data", .target.kind = PTAH_RECORD_SELF};
	struct ptah_recorder *r = open_recorder(&config);
	int32_t self = getpid(), tid = gettid();
	int wait_status;
	pid_t child;

	assert_int_equal(ptah_recorder_start(r), 0);
	map_program();
	child = fork();
	if (!child) {
		map_program();
		_exit(0);
	}
	waitpid(child, &wait_status, 0);
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	assert_int_equal(ptah_recorder_pause(r, true), 0);
	assert_int_equal(ptah_recorder_pause(r, false), 0);
	assert_int_equal(ptah_recorder_finish(r), 0);
	ptah_recorder_free(r);
	assert_int_equal(count_records("x.data", PERFDATA_MMAP2, is_later_map, &self), 1);
	assert_int_equal(count_records("x.data", PERFDATA_MMAP2, is_of_thread, &child), 0);
	assert_true(count_records("x.data", PERFDATA_COMM, is_of_thread, &tid) >= 1);
}

/* Samples of the system call getppid. */
static bool is_getppid(const struct perfdata_record *r, const void *unused)
{
	(void)unused;
	/* After the fields up to the period, the size of the raw data, and those that all have. */
	return r->raw_size >= 80 && load_le64(r->raw + 8 + 48 + 4 + 8) == SYS_getppid;
}

/* As many system calls as this thread makes, by Ptah's reader and by perf's. */
TEST(events_beside)
{
	static const char *const items[] = {"raw_syscalls:sys_enter", "page-faults:u"};
	const struct ptah_record_config config = {.size = sizeof(config),
						  .output.path = "e.data",
						  .target.kind = PTAH_RECORD_SELF,
						  .events.items = items,
						  .events.count = 2};
	struct ptah_recorder *r;

	if (geteuid() || access("/sys/kernel/tracing/events/raw_syscalls/sys_enter/id", R_OK)) {
		print_message("SKIP: this user may not read tracepoints\n");
		skip();
	}
	r = open_recorder(&config);
	assert_int_equal(ptah_recorder_start(r), 0);
	for (int i = 0; i < 321; i++)
		syscall(SYS_getppid);
	assert_int_equal(ptah_recorder_finish(r), 0);
	ptah_recorder_free(r);
	assert_int_equal(count_records("e.data", PERFDATA_SAMPLE, is_getppid, NULL), 321);
	need_perf();
	assert_int_equal(lines_of("perf script -i e.data | "
				  "grep 'raw_syscalls:sys_enter: NR 110 ('"),
			 321);
}

/* Everything that runs, until the command has ended. */
TEST(all_processors)
{
	char *command[] = {"/bin/true", NULL};
	const struct ptah_record_config config = {
	    .size = sizeof(config),
	    .output.path = "x.data",
	    .target.kind = PTAH_RECORD_CPUS,
	    .target.argv = command,
	    .trace = {.size = sizeof(config.trace),
		      .os = true,
		      .branch = true,
		      .tsc = true,
		      .mtc = true,
		      .mtc_period = PTAH_RECORD_CHOOSE,
		      .psb_period = PTAH_RECORD_CHOOSE},
	};
	struct ptah_record_status result;
	int32_t self = getpid();

	if (geteuid()) {
		print_message("SKIP: not root\n");
		skip();
	}
	record(&config, &result);
	assert_true(WIFEXITED(result.wait_status));
	/* The test's own, and perhaps other processes'. */
	assert_true(count_records("x.data", PERFDATA_COMM, has_text, "true") >= 1);
	/* The test existed before the recording. */
	assert_true(count_records("x.data", PERFDATA_MMAP2, is_initial_map, &self) > 3);
	if (system("command -v perf >/dev/null") == 0)
		assert_true(
		    lines_of("perf script -i x.data --show-switch-events 2>/dev/null | grep "
			     "SWITCH_CPU_WIDE") > 2);
	if (system("grep -q '^0000000000000000 ' /proc/kallsyms") != 0)
		assert_int_equal(
		    count_records("x.data", PERFDATA_MMAP, has_text, "[kernel.kallsyms]_text"), 1);
}

/* A callback receives what the kernel wrote. */
struct pieces {
	unsigned maps, comms, attributes;
};

static int take_piece(void *context, const struct ptah_record_piece *piece)
{
	struct pieces *p = context;
	uint32_t type;

	assert_int_equal(piece->kind, PTAH_RECORD_PIECE_RECORD);
	memcpy(&type, piece->bytes, sizeof(type));
	p->maps += type == PERF_RECORD_MMAP2;
	p->comms += type == PERF_RECORD_COMM;
	p->attributes += type == PERFDATA_HEADER_ATTR;
	return 0;
}

TEST(a_sink)
{
	char *command[] = {"true", NULL};
	struct pieces pieces = {0};
	const struct ptah_record_sink sink = {.take = take_piece, .context = &pieces};
	const struct ptah_record_config config = {.size = sizeof(config),
						  .output.path = "z.data",
						  .target.argv = command,
						  .output.sink = &sink};
	struct ptah_record_status result;

	record(&config, &result);
	assert_true(pieces.maps >= 3); /* program, loader, vdso, C library */
	assert_int_equal(pieces.comms, 1);
	assert_int_equal(pieces.attributes, 1);
	assert_int_equal(access("z.data", F_OK), -1);
}

/* Failures */

static void refused(const struct ptah_record_config *config, enum ptah_record_problem problem,
		    const char *word)
{
	enum ptah_record_problem found = PTAH_RECORD_FINE;
	struct ptah_message why = {""};
	struct ptah_recorder *r = NULL;
	int status = recorder_new(&recorder_sideband, config, &r, &found, &why);

	if (status >= 0) {
		status = ptah_recorder_start(r);
		found = problem_of(r);
		snprintf(why.text, sizeof(why.text), "%s", ptah_recorder_why(r, NULL));
		ptah_recorder_free(r);
	}
	if (status >= 0 || found != problem || !strstr(why.text, word))
		fail_msg("status %d, problem %d: %s", status, found, why.text);
	assert_int_equal(access("no.data", F_OK), -1);
}

/* A command that is held before its execve() ends when the recorder is killed. */
TEST(a_killed_recorder)
{
	char *command[] = {"sleep", "100", NULL};
	const struct ptah_record_config config = {
	    .size = sizeof(config), .output.path = "killed.data", .target.argv = command};
	struct ptah_recorder *r;
	struct pollfd alive;
	int pipes[2], status;
	pid_t pid;

	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	if (!pid) {
		if (recorder_new(&recorder_sideband, &config, &r, NULL, NULL) < 0)
			_exit(1);
		kill(getpid(), SIGKILL);
	}
	close(pipes[1]); /* the command has the last open end */
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	alive = (struct pollfd){.fd = pipes[0], .events = POLLIN};
	assert_int_equal(poll(&alive, 1, 600000), 1);
	assert_true(alive.revents & POLLHUP);
	close(pipes[0]);
	unlink("killed.data");
}

TEST(what_is_not_there)
{
	char *missing[] = {"/nonexistent/program", NULL}, *bad[] = {"./bad", NULL};
	int32_t nobody = 0x7ffffffe, cpu = 100000;
	struct ptah_record_config config = {
	    .size = sizeof(config), .output.path = "no.data", .target.argv = missing};
	FILE *f = fopen("bad", "w");

	refused(&config, PTAH_RECORD_NO_TARGET, "/nonexistent/program");
	/* The command is found, but its execve() fails. */
	fputs("#!/nonexistent/interpreter\n", f);
	fclose(f);
	assert_int_equal(chmod("bad", 0700), 0);
	config.target.argv = bad;
	refused(&config, PTAH_RECORD_NO_TARGET, "No such file");
	config.target.argv = NULL;
	config.target.ids = &nobody;
	config.target.id_count = 1;
	config.target.kind = PTAH_RECORD_PROCESSES;
	refused(&config, PTAH_RECORD_NO_TARGET, "2147483646");
	config.target.kind = PTAH_RECORD_THREADS;
	refused(&config, PTAH_RECORD_NO_TARGET, "2147483646");
	config.target.kind = PTAH_RECORD_CPUS;
	config.target.ids = &cpu;
	if (!geteuid())
		refused(&config, PTAH_RECORD_NO_TARGET, "100000");
}

TEST(bad_sizes)
{
	char *command[] = {"true", NULL};
	struct ptah_record_config config = {.size = sizeof(config),
					    .output.path = "no.data",
					    .target.argv = command,
					    .buffer.sideband = 12288};

	refused(&config, PTAH_RECORD_BAD_OPTION, "12288");
	config.buffer.sideband = 0;
	config.buffer.size = 2048;
	refused(&config, PTAH_RECORD_BAD_OPTION, "2048");
}

/* Runs a test as a user without privileges, in a child. */
static void as_nobody(void (*what)(void))
{
	const struct passwd *nobody = getpwnam("nobody");
	int status;
	pid_t pid;

	if (geteuid() || !nobody) {
		print_message("SKIP: not root, or there is no nobody\n");
		skip();
	}
	assert_int_equal(chmod(".", 0777), 0);
	pid = fork();
	if (!pid) {
		const struct rlimit none = {0, 0};

		if (setrlimit(RLIMIT_MEMLOCK, &none) || setgid(nobody->pw_gid) ||
		    setuid(nobody->pw_uid))
			_exit(3);
		/*
		 * Otherwise a process that has changed its user may not be inspected by its
		 * children.
		 */
		prctl(PR_SET_DUMPABLE, 1);
		what();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* cmocka does not see failures in a child: the exit status reports them. */
static void expect(const struct ptah_record_config *config, enum ptah_record_problem problem,
		   const char *word)
{
	enum ptah_record_problem found = PTAH_RECORD_FINE;
	struct ptah_message why = {""};
	struct ptah_recorder *r = NULL;
	int status = recorder_new(&recorder_sideband, config, &r, &found, &why);

	if (status >= 0 || found != problem || !strstr(why.text, word)) {
		fprintf(stderr, "status %d, problem %d: %s\n", status, found, why.text);
		_exit(1);
	}
	ptah_recorder_free(r);
}

/* The soft limit of open files is raised while that is needed, up to the hard limit. */
TEST(no_descriptors)
{
	int32_t pid = getpid();
	struct ptah_record_config config = {
	    .size = sizeof(config),
	    .output.path = "no.data",
	    .target.kind = PTAH_RECORD_PROCESSES,
	    .target.ids = &pid,
	    .target.id_count = 1,
	};
	struct rlimit old, few;
	struct ptah_recorder *r;
	int fd = dup(0), status;

	close(fd);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	few.rlim_cur = (rlim_t)fd + 1; /* one more file may be opened */
	if (lines_of("ls /sys/bus/event_source/devices/software/type") != 1 ||
	    sysconf(_SC_NPROCESSORS_ONLN) < 2) {
		print_message("SKIP: two processors are needed\n");
		skip();
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	status = recorder_new(&recorder_sideband, &config, &r, NULL, NULL);
	if (status >= 0)
		ptah_recorder_free(r);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &few), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(status, 0);
	assert_int_equal(few.rlim_cur, fd + 1);

	pid = fork();
	if (!pid) {
		few.rlim_max = few.rlim_cur;
		pid = getpid();
		setrlimit(RLIMIT_NOFILE, &few);
		expect(&config, PTAH_RECORD_NO_MEMORY, "ulimit -n");
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void record_init(void)
{
	int32_t init = 1;
	const struct ptah_record_config config = {
	    .size = sizeof(config),
	    .output.path = "no.data",
	    .target.kind = PTAH_RECORD_PROCESSES,
	    .target.ids = &init,
	    .target.id_count = 1,
	};

	expect(&config, PTAH_RECORD_PERMISSION, "thread 1");
}

static void lock_too_much(void)
{
	char *command[] = {"true", NULL};
	const struct ptah_record_config config = {.size = sizeof(config),
						  .output.path = "no.data",
						  .target.argv = command,
						  .buffer.sideband = 64 << 20,
						  .buffer.size = 4 << 20};

	expect(&config, PTAH_RECORD_MLOCK, "65536 KiB");
}

/*
 * The remaining lockable memory does not suffice for default buffers, but for smaller ones, which
 * is noted.
 */
static void record_in_little_memory(void)
{
	char *command[] = {"true", NULL};
	const struct ptah_record_config config = {
	    .size = sizeof(config), .output.path = "small.data", .target.argv = command};
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
				       .size = sizeof(attr),
				       .config = PERF_COUNT_SW_DUMMY,
				       .exclude_kernel = 1};
	struct ptah_record_status status = {.size = sizeof(status)};
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	enum ptah_record_problem problem = PTAH_RECORD_FINE;
	struct ptah_recorder *r;

	if (mmap(NULL, 33 * 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED)
		_exit(1);
	/* Other processes of the user nobody may have used up even that. */
	if (recorder_new(&recorder_sideband, &config, &r, &problem, NULL) < 0)
		_exit(problem == PTAH_RECORD_MLOCK ? 0 : 2);
	ptah_recorder_status(r, &status);
	ptah_recorder_free(r);
	_exit(status.notes == 1 ? 0 : 4);
}

TEST(without_privileges)
{
	as_nobody(record_init);
	/* Where everybody may trace everything, nothing limits what is locked. */
	if (system("test \"$(cat /proc/sys/kernel/perf_event_paranoid)\" != -1") == 0)
		as_nobody(lock_too_much);
	/*
	 * The default limit is as much as the smaller rings of records for each processor, and not
	 * a page more.
	 */
	if (system("test \"$(cat /proc/sys/kernel/perf_event_mlock_kb)\" = 516") == 0)
		as_nobody(record_in_little_memory);
}

static int enter_folder(void **state)
{
	struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
				       .size = sizeof(attr),
				       .config = PERF_COUNT_SW_DUMMY,
				       .exclude_kernel = 1};
	int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	(void)state;
	if (fd < 0) {
		printf("SKIP: this machine has no perf events for this user\n");
		exit(77);
	}
	close(fd);
	return mkdtemp(folder) ? chdir(folder) : -1;
}

static int leave_folder(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", folder);
	return chdir("/") || system(command);
}

TEST_GROUP(enter_folder, leave_folder)
