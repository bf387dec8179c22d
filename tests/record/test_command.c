/* SPDX-License-Identifier: MIT */
/* Commands are found as a shell finds them, and scripts run as the kernel runs them. */
#include "test.h"

#include "record/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/ptah-test-command-XXXXXX";

static void write_file(const char *name, const char *text, mode_t mode)
{
	FILE *file = fopen(name, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	assert_int_equal(chmod(name, mode), 0);
}

static void expect(char *const *argv, const char *program, const char *const *expected)
{
	struct ptah_message why = {""};
	struct command command;
	size_t n = 0;

	assert_int_equal(command_resolve(argv, &command, &why), 0);
	assert_string_equal(command.program, program);
	for (; expected[n]; n++) {
		assert_non_null(command.argv[n]);
		assert_string_equal(command.argv[n], expected[n]);
	}
	assert_null(command.argv[n]);
	command_free(&command);
}

static void expect_failure(const char *name, int expected, const char *text)
{
	char *argv[] = {(char *)(uintptr_t)name, NULL};
	struct ptah_message why = {""};
	struct command command;

	assert_int_equal(command_resolve(argv, &command, &why), expected);
	assert_non_null(strstr(why.text, text));
	assert_null(command.program);
	assert_null(command.argv);
}

TEST(a_name_is_looked_up_in_path)
{
	char *argv[] = {"sh", "-c", "", NULL};
	char *path;

	setenv("PATH", "/nonexistent:/bin", 1);
	path = command_find("sh");
	assert_string_equal(path, "/bin/sh");
	free(path);
	assert_null(command_find("no-such-command"));
	expect(argv, "/bin/sh", (const char *const[]){"sh", "-c", "", NULL});
	/* An empty part of PATH is the current folder; files that cannot run are passed over. */
	write_file("tool", "#!/bin/sh\n", 0755);
	write_file("plain", "", 0644);
	setenv("PATH", "/nonexistent::/bin", 1);
	path = command_find("tool");
	assert_string_equal(path, "./tool");
	free(path);
	assert_null(command_find("plain"));
	setenv("PATH", "/bin", 1);
}

/* execve(2): the rest of the line is one argument; the script's path replaces argv[0]. */
TEST(a_script_runs_its_interpreter)
{
	char *one[] = {"./one", "a", "b c", NULL}, *two[] = {"./two", NULL};
	char *plain[] = {"./three", "x", NULL};

	write_file("one", "#! /bin/sh  -e -x \t\nexit\n", 0755);
	expect(one, "/bin/sh",
	       (const char *const[]){"/bin/sh", "-e -x", "./one", "a", "b c", NULL});
	write_file("two", "#!./one -v\n", 0755);
	expect(two, "/bin/sh",
	       (const char *const[]){"/bin/sh", "-e -x", "./one", "-v", "./two", NULL});
	write_file("three", "#!/bin/sh", 0755);
	expect(plain, "/bin/sh", (const char *const[]){"/bin/sh", "./three", "x", NULL});
}

TEST(what_cannot_run_is_refused)
{
	write_file("plain", "text", 0755);
	write_file("empty", "", 0755);
	write_file("nameless", "#! \n", 0755);
	write_file("circle", "#!./circle\n", 0755);
	write_file("locked", "#!/bin/sh\n", 0644);
	expect_failure("./none", PTAH_E_MISSING, "./none: no such program");
	expect_failure("none", PTAH_E_MISSING, "none: command not found");
	expect_failure("./plain", PTAH_E_BAD_MAGIC, "neither an ELF program nor a script");
	expect_failure("./empty", PTAH_E_BAD_MAGIC, "neither an ELF program nor a script");
	expect_failure("./nameless", PTAH_E_BAD_FILE, "names no interpreter");
	expect_failure("./circle", PTAH_E_LIMIT, "too many interpreters");
	expect_failure("./locked", PTAH_E_SYSTEM, "not an executable file");
	expect_failure("", PTAH_E_MISSING, "command not found");
}

/* As execve(2): nothing is looked up, and argv[0] is arbitrary or missing. */
TEST(execve_takes_the_path_as_it_is)
{
	char *other[] = {"other", "x", NULL}, *none[] = {NULL};
	struct ptah_message why = {""};
	struct command command;

	assert_int_equal(command_resolve_exec("sh", other, &command, &why), PTAH_E_MISSING);
	assert_int_equal(command_resolve_exec("/bin/sh", other, &command, &why), 0);
	assert_string_equal(command.program, "/bin/sh");
	assert_string_equal(command.argv[0], "other");
	assert_string_equal(command.argv[1], "x");
	assert_null(command.argv[2]);
	command_free(&command);
	assert_int_equal(command_resolve_exec("/bin/sh", none, &command, &why), 0);
	assert_string_equal(command.argv[0], "");
	assert_null(command.argv[1]);
	command_free(&command);
	/* The argv[0] of a script is replaced, even if it is missing. */
	write_file("-script", "#!/bin/sh -e\n", 0755);
	assert_int_equal(command_resolve_exec("-script", none, &command, &why), 0);
	assert_string_equal(command.argv[1], "-e");
	assert_string_equal(command.argv[2], "-script");
	assert_null(command.argv[3]);
	command_free(&command);
	/* A file that begins like a program but is none. */
	write_file("plain", "\177ELF\2\1\1", 0755);
	assert_int_equal(command_resolve_exec("plain", none, &command, &why), PTAH_E_BAD_MAGIC);
}

static int enter_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? chdir(folder) : -1;
}

static int leave_folder(void **state)
{
	static const char *const names[] = {"tool",    "plain", "one",	    "two",    "three",
					    "-script", "empty", "nameless", "circle", "locked"};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		unlink(names[i]);
	return chdir("/") || rmdir(folder);
}

TEST_GROUP(enter_folder, leave_folder)
