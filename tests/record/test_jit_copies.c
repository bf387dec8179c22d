/* SPDX-License-Identifier: MIT */
/*
 * Whose lists of generated code are copied: those of processes of the recording, of their own
 * users, also of processes that have numbers and a /tmp of their own.
 */
#include "test.h"
#include "perfdata/jit_folder.h"
#include "record/jit_copies.h"

#include <signal.h>
#include <stdint.h>

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/ptah-copies-XXXXXX";

static struct ptah_recorder recorder(const char *name)
{
	static struct recorder_backend backend = {.kind = PTAH_RECORDER_PTRACE};
	static char path[256];
	struct perfdata_writer_config config = {.path = path, .clock = {.mult = 1}};
	struct ptah_recorder r = {.backend = &backend};

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	assert_int_equal(perfdata_writer_open(&config, &r.writer, NULL), 0);
	return r;
}

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	if (!f || fputs(text, f) < 0 || fclose(f))
		_exit(1);
}

/* What the copy of the process has; "" if there is none. */
static const char *copied(const char *name, const char *kind, int pid)
{
	static char text[64];
	char path[256];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s.jit/", folder, name);
	snprintf(path + strlen(path), sizeof(path) - strlen(path), kind, pid);
	f = fopen(path, "r");
	text[f ? fread(text, 1, sizeof(text) - 1, f) : 0] = '\0';
	if (f)
		fclose(f);
	return text;
}

/* In a container: process 1 with a /tmp of its own, and a jitdump elsewhere. Ends by a signal. */
static void contained(int ready)
{
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/tmp", "tmpfs", 0, NULL) || getpid() != 1)
		_exit(1);
	write_file("/tmp/perf-1.map", "10 20 inside\n");
	mkdir("/tmp/app", 0755);
	write_file("/tmp/app/jit-1.dump", "dump");
	if (write(ready, "r", 1) == 1)
		pause();
	_exit(0);
}

/* Returns the process's number outside; 0: not allowed. */
static pid_t start_container(void)
{
	int ready[2];
	char byte = 0;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0);
	if (!pid)
		contained(ready[1]);
	close(ready[1]);
	if (pid > 0 && read(ready[0], &byte, 1) != 1) {
		waitpid(pid, NULL, 0);
		pid = 0;
	}
	close(ready[0]);
	return pid > 0 ? pid : 0;
}

TEST(processes_of_another_namespace)
{
	const struct perfdata_mapping mapping = {.address = 4096, .size = 4096};
	struct ptah_recorder r = recorder("inside");
	pid_t pid;

	jit_copies_begin(&r);
	pid = start_container();
	if (pid) {
		perfdata_write_comm(r.writer, pid, pid, 1, true, "app");
		perfdata_write_mmap2(r.writer, pid, pid, 1, &mapping, "/tmp/app/jit-1.dump");
		jit_copies_make(&r);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		assert_string_equal(copied("inside", "perf-%d.map", pid), "10 20 inside\n");
		assert_string_equal(copied("inside", "jit-%d.dump", pid), "dump");
		assert_int_equal(r.status.jit_copies, 2);
	}
	perfdata_writer_abort(r.writer);
	assert_string_equal(copied("inside", "perf-%d.map", pid), "");
	if (!pid)
		skip();
}

/* A process that writes its map, and one whose map an earlier process has left. */
static pid_t start_process(bool writes)
{
	int ready[2];
	char byte, path[64];
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		const struct timespec old[2] = {{1000, 0}, {1000, 0}};

		snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
		write_file(path, "10 20 f\n");
		if (!writes)
			utimensat(AT_FDCWD, path, old, 0);
		if (write(ready[1], "r", 1) == 1)
			pause();
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void end_process(pid_t pid)
{
	char path[64];

	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)pid);
	unlink(path);
}

TEST(whose_lists)
{
	const pid_t early = start_process(true), stranger = start_process(true),
		    stale = start_process(false);
	struct ptah_recorder r = recorder("whose");

	/* The process had written its map before the recording began. */
	jit_copies_begin(&r);
	r.began.tv_sec += 100;
	perfdata_write_comm(r.writer, early, early, 1, true, "early");
	perfdata_write_comm(r.writer, stale, stale, 1, true, "stale");
	jit_copies_make(&r);
	end_process(early);
	end_process(stranger);
	end_process(stale);
	assert_string_equal(copied("whose", "perf-%d.map", early), "10 20 f\n");
	assert_string_equal(copied("whose", "perf-%d.map", stranger), "");
	assert_string_equal(copied("whose", "perf-%d.map", stale), "");
	assert_int_equal(r.status.jit_copies, 1);
	perfdata_writer_abort(r.writer);
}

/* The kernel's own records name processes too; nonsense in them does no harm. */
TEST(records_as_the_kernel_writes_them)
{
	const pid_t pid = start_process(true);
	struct ptah_recorder r = recorder("raw");
	uint32_t comm[6] = {3, 24 << 16, (uint32_t)pid, (uint32_t)pid, 0x61, 0};
	const uint32_t hostile[][4] = {{3, 16 << 16, UINT32_MAX, 0}, {7, 16 << 16, 1u << 22, 0}};

	for (size_t i = 0; i < 2; i++)
		assert_int_equal(perfdata_write_raw(r.writer, hostile[i], 16), 0);
	assert_false(perfdata_has_process(r.writer, pid));
	assert_int_equal(perfdata_write_raw(r.writer, comm, sizeof(comm)), 0);
	assert_true(perfdata_has_process(r.writer, pid));
	assert_false(perfdata_has_process(r.writer, -1));
	assert_false(perfdata_has_process(r.writer, 1 << 22));
	jit_copies_make(&r);
	end_process(pid);
	assert_string_equal(copied("raw", "perf-%d.map", pid), "10 20 f\n");
	perfdata_writer_abort(r.writer);
}

TEST(which_names_are_lists)
{
	static const struct {
		const char *path;
		enum perfdata_jit_kind kind;
		int32_t pid;
	} names[] = {
	    {"/tmp/perf-12.map", PERFDATA_JIT_MAP, 12},
	    {"jit-7.dump", PERFDATA_JIT_DUMP, 7},
	    {"jit-99999999999.dump", PERFDATA_JIT_DUMP, -1},
	    {"perf-.map", PERFDATA_JIT_NONE, 0},
	    {"perf-1.map/", PERFDATA_JIT_NONE, 0},
	    {"perf-1.dump", PERFDATA_JIT_NONE, 0},
	    {"xperf-1.map", PERFDATA_JIT_NONE, 0},
	    {"jit-1a.dump", PERFDATA_JIT_NONE, 0},
	    {"", PERFDATA_JIT_NONE, 0},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		int32_t pid = 0;

		assert_int_equal(perfdata_jit_kind(names[i].path, strlen(names[i].path), &pid),
				 names[i].kind);
		assert_int_equal(pid, names[i].pid);
	}
}

/* A link in place of the folder does not lead the recorder to other files. */
TEST(a_link_is_left_alone)
{
	const pid_t pid = start_process(true);
	struct ptah_recorder r;
	char link[256], map[64];

	snprintf(map, sizeof(map), "/tmp/perf-%d.map", (int)pid);
	snprintf(link, sizeof(link), "%s/link.jit", folder);
	assert_int_equal(symlink("/tmp", link), 0);
	r = recorder("link");
	assert_int_equal(access(map, F_OK), 0);
	perfdata_write_comm(r.writer, pid, pid, 1, true, "app");
	jit_copies_make(&r);
	assert_int_equal(r.status.jit_copies, 0);
	perfdata_writer_abort(r.writer);
	assert_int_equal(access(map, F_OK), 0);
	unlink(link);
	end_process(pid);
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
	(void)state;
	return rmdir(folder);
}

TEST_GROUP(make_folder, remove_folder)
