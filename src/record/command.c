/* SPDX-License-Identifier: MIT */
/*
 * Finds the program that a command runs, as a shell and the kernel do, and checks that QEMU can run
 * it.
 */
#include "record/command.h"

#include <ptah/record.h>

#include "perfdata/message.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_INTERPRETERS 4   /* as the kernel's BINPRM_MAX_RECURSION */
#define HEAD_BYTES	 256 /* that the kernel looks at: BINPRM_BUF_SIZE */
#define MAX_SEGMENTS	 (65536 / sizeof(Elf64_Phdr))

/* Checks with the effective user and group ids, as execve(2) does. */
static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
	       faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == 0;
}

char *command_find(const char *name)
{
	const char *folders = getenv("PATH");

	if (strchr(name, '/'))
		return strdup(name);
	if (!folders)
		folders = "/usr/local/bin:/usr/bin:/bin";
	while (*folders) {
		size_t n = strcspn(folders, ":");
		char *path = NULL;

		if (asprintf(&path, "%.*s/%s", n ? (int)n : 1, n ? folders : ".", name) < 0)
			return NULL;
		if (is_program(path))
			return path;
		free(path);
		folders += n + (folders[n] == ':');
	}
	return NULL;
}

void command_free(struct command *command)
{
	free(command->program);
	for (char **arg = command->argv; arg && *arg; arg++)
		free(*arg);
	free(command->argv);
	*command = (struct command){0};
}

/* Replaces argv[0] by `first` and, where it is not NULL, `second`. Both are copied. */
static int prepend(struct command *command, const char *first, const char *second,
		   const char *script)
{
	size_t n = 0, k = 0;
	char **argv;

	while (command->argv[n])
		n++;
	argv = calloc(n + 3, sizeof(*argv));
	if (!argv)
		return PTAH_E_NOMEM;
	argv[k++] = strdup(first);
	if (second)
		argv[k++] = strdup(second);
	argv[k++] = strdup(script);
	free(command->argv[0]);
	memcpy(argv + k, command->argv + 1, (n - 1) * sizeof(*argv));
	free(command->argv);
	command->argv = argv;
	return 0;
}

/* "#! interpreter [argument]": one argument at most, which may hold spaces (execve(2)). */
static int use_interpreter(struct command *command, char *line, struct ptah_message *why)
{
	char *interpreter = line + 2 + strspn(line + 2, " \t");
	char *argument, *end;
	int status;

	if (strlen(line) == HEAD_BYTES && !interpreter[strcspn(interpreter, " \t\n")])
		return perfdata_message(why, PTAH_E_BAD_FILE, "%s: its #! line is too long",
					command->program);
	interpreter[strcspn(interpreter, "\n")] = '\0';
	end = interpreter + strlen(interpreter);
	while (end > interpreter && (end[-1] == ' ' || end[-1] == '\t'))
		*--end = '\0';
	argument = interpreter + strcspn(interpreter, " \t");
	if (*argument) {
		*argument++ = '\0';
		argument += strspn(argument, " \t");
	}
	if (!*interpreter)
		return perfdata_message(why, PTAH_E_BAD_FILE,
					"%s: its #! line names no interpreter", command->program);
	status = prepend(command, interpreter, *argument ? argument : NULL, command->program);
	if (status < 0)
		return status;
	free(command->program);
	command->program = strdup(interpreter);
	return command->program ? 0 : PTAH_E_NOMEM;
}

/* The ELF interpreter (the dynamic linker). The kernel opens it before execve() succeeds. */
static int check_interpreter(const char *path, int fd, const Elf64_Phdr *segment,
			     struct ptah_message *why)
{
	char interpreter[4096];
	ssize_t n = segment->p_filesz <= sizeof(interpreter)
			? pread(fd, interpreter, segment->p_filesz, (off_t)segment->p_offset)
			: -1;

	if (n < 2 || (size_t)n != segment->p_filesz || interpreter[n - 1])
		return perfdata_message(why, PTAH_E_BAD_FILE, "%s is a damaged ELF program", path);
	if (!is_program(interpreter))
		return perfdata_message(why, PTAH_E_MISSING,
					"%s: its interpreter %s is not there, or not executable",
					path, interpreter);
	return 0;
}

static int check_segments(const char *path, int fd, struct ptah_message *why)
{
	Elf64_Ehdr e;
	Elf64_Phdr segment;

	if (pread(fd, &e, sizeof(e), 0) != sizeof(e) ||
	    (e.e_type != ET_EXEC && e.e_type != ET_DYN) || e.e_phentsize != sizeof(segment) ||
	    !e.e_phnum || e.e_phnum > MAX_SEGMENTS)
		return perfdata_message(why, PTAH_E_BAD_FILE,
					"%s is an ELF file, but no program that can run", path);
	for (unsigned i = 0; i < e.e_phnum; i++) {
		if (pread(fd, &segment, sizeof(segment),
			  (off_t)(e.e_phoff + i * sizeof(segment))) != sizeof(segment))
			return perfdata_message(why, PTAH_E_BAD_FILE, "%s is a damaged ELF program",
						path);
		if (segment.p_type == PT_INTERP)
			return check_interpreter(path, fd, &segment, why);
	}
	return 0;
}

static int check_elf(const char *path, const uint8_t *head, size_t n, struct ptah_message *why)
{
	unsigned machine = n >= 20 ? head[18] | (unsigned)head[19] << 8 : 0;

	if (n < 20 || memcmp(head, ELFMAG, SELFMAG))
		return perfdata_message(why, PTAH_E_BAD_MAGIC,
					"%s is neither an ELF program nor a script with a #! line",
					path);
	if (machine == EM_386)
		return perfdata_message(why, PTAH_E_FOREIGN,
					"%s is a 32-bit program; the recorder runs 64-bit x86 "
					"programs only",
					path);
	if (machine != EM_X86_64)
		return perfdata_message(why, PTAH_E_FOREIGN,
					"%s is made for another processor (ELF machine %u); the "
					"recorder runs x86-64 programs only",
					path, machine);
	if (head[EI_CLASS] != ELFCLASS64)
		return perfdata_message(
		    why, PTAH_E_FOREIGN,
		    "%s uses the x32 ABI; the recorder runs 64-bit programs only", path);
	return 0;
}

/*
 * Looks at the program's first bytes. Returns 1 for a script: command->program is its interpreter
 * now, which the caller looks at next.
 */
static int look_at(struct command *command, struct ptah_message *why)
{
	uint8_t head[HEAD_BYTES + 1] = {0};
	ssize_t n;
	int fd, status;

	if (access(command->program, F_OK))
		return perfdata_message(why, PTAH_E_MISSING, "%s: no such program",
					command->program);
	if (!is_program(command->program))
		return perfdata_message(why, PTAH_E_SYSTEM, "%s: not an executable file",
					command->program);
	fd = open(command->program, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, head, sizeof(head) - 1);
	if (n < 0) {
		int error = errno;

		if (fd >= 0)
			close(fd);
		if (error == EACCES)
			return perfdata_message(why, PTAH_E_SYSTEM, "%s" COMMAND_UNREADABLE,
						command->program);
		return perfdata_system_message(why, error, command->program, "read");
	}
	if (n >= 2 && head[0] == '#' && head[1] == '!') {
		close(fd);
		status = use_interpreter(command, (char *)head, why);
		return status < 0 ? status : 1;
	}
	status = check_elf(command->program, head, (size_t)n, why);
	if (status >= 0)
		status = check_segments(command->program, fd, why);
	close(fd);
	return status;
}

/*
 * Makes the path of a program whose name begins with "-" begin with "./", so that QEMU does not
 * take it for an option.
 */
static int keep_from_options(struct command *command)
{
	char *path;

	if (command->program[0] != '-')
		return 0;
	if (asprintf(&path, "./%s", command->program) < 0)
		return PTAH_E_NOMEM;
	free(command->program);
	command->program = path;
	return 0;
}

/* Fills in the rest of *command; its program is set already, and NULL where none was found. */
static int resolve(char *const *argv, struct command *command, struct ptah_message *why)
{
	static char nothing[] = "";
	char *const none[] = {nothing, NULL};
	size_t n = 0;
	int status = command->program ? 1 : PTAH_E_NOMEM;

	if (!argv[0])
		argv = none; /* as Linux does since 5.18 */
	while (argv[n])
		n++;
	command->argv = calloc(n + 1, sizeof(char *));
	for (size_t i = 0; command->argv && i < n; i++)
		if (!(command->argv[i] = strdup(argv[i])))
			status = PTAH_E_NOMEM;
	if (!command->argv)
		status = PTAH_E_NOMEM;
	for (unsigned i = 0; i < MAX_INTERPRETERS && status == 1; i++)
		status = look_at(command, why);
	if (status == 1)
		status = perfdata_message(why, PTAH_E_LIMIT, "%s: too many interpreters in a row",
					  argv[0]);
	if (status >= 0)
		status = keep_from_options(command);
	if (status < 0)
		command_free(command);
	return status;
}

int command_resolve(char *const *argv, struct command *command, struct ptah_message *why)
{
	*command = (struct command){.program = command_find(argv[0])};
	if (!command->program)
		return perfdata_message(why, PTAH_E_MISSING, "%s: command not found", argv[0]);
	return resolve(argv, command, why);
}

int command_resolve_exec(const char *path, char *const *argv, struct command *command,
			 struct ptah_message *why)
{
	*command = (struct command){.program = strdup(path)};
	return resolve(argv, command, why);
}

int ptah_record_program(char *const *argv, char *path, size_t size)
{
	struct command command = {0};
	char *real;
	int status;

	if (!argv || !argv[0] || !path || !size)
		return PTAH_E_INVAL;
	*path = '\0';
	status = command_resolve(argv, &command, NULL);
	if (status >= 0) {
		real = realpath(command.program, NULL);
		if (!real)
			status = PTAH_E_MISSING;
		else if (strlen(real) >= size)
			status = PTAH_E_NOSPACE;
		else
			memcpy(path, real, strlen(real) + 1);
		free(real);
	}
	command_free(&command);
	return status;
}
