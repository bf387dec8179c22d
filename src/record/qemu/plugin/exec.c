/* SPDX-License-Identifier: MIT */
/*
 * execve. QEMU would let the system run the new program natively, outside of QEMU. So before that
 * happens, the plugin finds the program that the system would run, and starts QEMU with it. If that
 * fails, QEMU's own call follows, which then fails or succeeds as it would have alone. A program
 * that can run but cannot be recorded is reported.
 */
#include "record/qemu/plugin/plugin.h"

#include "record/qemu/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#define MAX_STRING (128u << 10) /* the kernel's MAX_ARG_STRLEN */
#define MAX_WORDS  (1u << 20)
#define PAGE	   4096u
#define ONLY_CHECK 0x10000 /* AT_EXECVE_CHECK, since Linux 6.14 */

struct request {
	char *path;
	char **argv, **environment;
};

/* Reading the program's memory */

static char *read_exec_string(uint64_t address)
{
	char *text = NULL;
	size_t n = 0;

	while (n < MAX_STRING) {
		size_t more = PAGE - (address + n) % PAGE;
		char *bigger = realloc(text, n + more);

		if (bigger)
			text = bigger;
		if (!bigger || !plugin_read(address + n, text + n, more))
			break;
		if (memchr(text + n, '\0', more))
			return text;
		n += more;
	}
	free(text);
	return NULL;
}

static void free_strings(char **list)
{
	for (char **s = list; s && *s; s++)
		free(*s);
	free(list);
}

/* A NULL list counts as an empty one. */
static char **read_strings(uint64_t address)
{
	char **list = calloc(1, sizeof(*list));
	size_t n = 0;

	while (list && address && n < MAX_WORDS) {
		uint64_t word;
		char **bigger;

		if (!plugin_read(address + 8 * n, &word, 8))
			break;
		if (!word)
			return list;
		bigger = realloc(list, (n + 2) * sizeof(*list));
		if (!bigger)
			break;
		list = bigger;
		list[n + 1] = NULL;
		list[n] = read_exec_string(word);
		if (!list[n++])
			break;
	}
	if (list && !address)
		return list;
	free_strings(list);
	return NULL;
}

static bool read_request(struct request *r, uint64_t path, uint64_t argv, uint64_t environment)
{
	r->path = read_exec_string(path);
	r->argv = r->path ? read_strings(argv) : NULL;
	r->environment = r->argv ? read_strings(environment) : NULL;
	return r->environment;
}

static void free_request(struct request *r)
{
	free(r->path);
	free_strings(r->argv);
	free_strings(r->environment);
}

/* What the system would run */

/* Whether the system would run it. Systems without AT_EXECVE_CHECK leave it to the checks below. */
static bool is_allowed(const struct request *r)
{
	return !syscall(SYS_execveat, AT_FDCWD, r->path, r->argv, r->environment, ONLY_CHECK) ||
	       errno == EINVAL || errno == ENOSYS;
}

/*
 * The path under which a new QEMU finds the same file. Under /proc/self it would find itself, and a
 * descriptor may be closed by then. NULL: there is no such path.
 */
static char *lasting_path(const char *path)
{
	char own[64], *real;
	struct stat a, b;

	snprintf(own, sizeof(own), "/proc/%d/exe", getpid());
	if (!strcmp(path, "/proc/self/exe") || !strcmp(path, "/proc/thread-self/exe") ||
	    !strcmp(path, own))
		return plugin.program ? strdup(plugin.program) : NULL;
	if (strncmp(path, "/proc/", 6) != 0 && strncmp(path, "/dev/fd/", 8) != 0)
		return strdup(path);
	real = realpath(path, NULL);
	if (real && !stat(path, &a) && !stat(real, &b) && a.st_dev == b.st_dev &&
	    a.st_ino == b.st_ino)
		return real;
	free(real);
	return NULL;
}

/* Whether the program would run with other rights than this process. */
static bool changes_rights(const char *program)
{
	struct stat st;

	if (stat(program, &st))
		return false;
	return (st.st_mode & S_ISUID && st.st_uid != geteuid()) ||
	       ((st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) &&
		st.st_gid != getegid()) ||
	       (geteuid() && getxattr(program, "security.capability", NULL, 0) > 0);
}

/* What the process can still open by name. It may have another root or other rights by now. */
struct reach {
	bool emulator, plugin, memory;
};

static struct reach find_reach(void)
{
	const struct shared_header *h = plugin.shared;

	return (struct reach){
	    .emulator = !faccessat(AT_FDCWD, h->qemu, X_OK, AT_EACCESS),
	    .plugin = !faccessat(AT_FDCWD, h->plugin, R_OK, AT_EACCESS),
	    .memory = !faccessat(AT_FDCWD, h->memory, R_OK | W_OK, AT_EACCESS),
	};
}

/*
 * The same with the rights that remain after the execve (capabilities(7)): a user other than root
 * loses all capabilities but the ambient ones, which are ignored here. Capabilities are per thread,
 * so this changes no other thread's.
 */
static struct reach reach_after_exec(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct before[2], fewer[2];
	struct reach reach;

	if (!getuid() || !geteuid() || syscall(SYS_capget, &header, before))
		return find_reach();
	memcpy(fewer, before, sizeof(fewer));
	fewer[0].effective = fewer[1].effective = 0;
	if (syscall(SYS_capset, &header, fewer))
		return find_reach();
	reach = find_reach();
	syscall(SYS_capset, &header, before);
	return reach;
}

static void report_native(unsigned vcpu, const char *path, const char *why)
{
	char text[2048];

	snprintf(text, sizeof(text), "%.1024s, which was not recorded: %s", path, why);
	plugin_send_text(MESSAGE_NATIVE, plugin_thread_id(vcpu), text);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/*
 * QEMU's option for the plugin. passed: descriptors for what cannot be opened by name; -1: not
 * needed.
 */
static char *plugin_option(const char *name, const int passed[PASSED_MAX])
{
	const struct shared_header *h = plugin.shared;
	char *file = launch_quote(h->plugin), *program = launch_quote(name), *option = NULL;
	char descriptor[32], memory[80];

	snprintf(descriptor, sizeof(descriptor), "/proc/self/fd/%d", passed[PASSED_PLUGIN]);
	if (passed[PASSED_MEMORY] < 0)
		snprintf(memory, sizeof(memory), "memory=%s", h->memory);
	else
		snprintf(memory, sizeof(memory), "fd=%d", passed[PASSED_MEMORY]);
	if (file && program &&
	    asprintf(&option, "file=%s,%s,close=%d,name=%s",
		     passed[PASSED_PLUGIN] < 0 ? file : descriptor, memory, passed[PASSED_PLUGIN],
		     program) < 0)
		option = NULL;
	free(file);
	free(program);
	return option;
}

/* Does not return when it succeeds. */
static void exec_command(const struct request *r, const struct command *command,
			 const int passed[PASSED_MAX])
{
	const struct shared_header *h = plugin.shared;
	char *option = plugin_option(base_name(r->path), passed);
	char **argv = NULL, **environment = launch_environment(r->environment);

	if (option && environment)
		argv = launch_arguments(h->qemu, option, command, r->environment,
					!(h->flags & SHARED_CLOCK_HOST));
	for (unsigned i = 0; i < PASSED_MAX; i++)
		if (passed[i] >= 0)
			fcntl(passed[i], F_SETFD, 0);
	if (argv)
		execve(h->qemu, argv, environment);
	else
		errno = ENOMEM;
	free(argv);
	free(environment);
	free(option);
}

static void close_passed(int passed[PASSED_MAX])
{
	for (unsigned i = 0; i < PASSED_MAX; i++) {
		if (passed[i] >= 0)
			close(passed[i]);
		passed[i] = -1;
	}
}

/*
 * Gets descriptors for what the process cannot open by name. Returns why it cannot be recorded any
 * further; NULL: it can.
 */
static const char *get_passed(int passed[PASSED_MAX])
{
	const struct reach reach = reach_after_exec();

	if (!reach.emulator)
		return "the emulator cannot be reached from there";
	if (reach.plugin && reach.memory)
		return NULL;
	if (!plugin_request(passed))
		return "the recorder cannot be reached from there";
	return NULL;
}

static void try_to_start(unsigned vcpu, const struct request *r)
{
	char *path = lasting_path(r->path), text[128];
	struct ptah_message why = {""};
	struct command command = {0};
	int passed[PASSED_MAX] = {-1, -1};
	const char *unreachable;

	if (!path) {
		report_native(vcpu, r->path, "its file has no name");
	} else if (command_resolve_exec(path, r->argv, &command, &why) < 0) {
		report_native(vcpu, r->path, why.text);
	} else if (changes_rights(command.program)) {
		report_native(vcpu, r->path,
			      "it runs with other rights (set-user-ID and the like)");
	} else if ((unreachable = get_passed(passed))) {
		report_native(vcpu, r->path, unreachable);
	} else {
		exec_command(r, &command, passed);
		report_native(vcpu, r->path, strerror_r(errno, text, sizeof(text)));
	}
	close_passed(passed);
	command_free(&command);
	free(path);
}

void plugin_before_exec(unsigned vcpu, uint64_t path, uint64_t argv, uint64_t environment)
{
	struct request r = {0};

	if (read_request(&r, path, argv, environment) && is_allowed(&r))
		try_to_start(vcpu, &r);
	free_request(&r);
}

void plugin_after_exec(const char *name)
{
	struct shared_message message = {
	    .type = MESSAGE_EXEC, .bytes = (uint32_t)strlen(name), .pid = getpid()};

	prctl(PR_SET_NAME, name);
	/* All threads of the program before have ended. */
	plugin.birth = message.tsc = plugin_exec_time();
	message.tid = message.pid;
	plugin_send(&message, name);
}
