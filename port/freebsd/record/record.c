/* SPDX-License-Identifier: MIT */
/*
 * ptah-hwt: traces a program, or processors while a program runs, by FreeBSD's hwt(4). It leaves a
 * folder that `ptah script FOLDER` reads on another machine: hwt's records, a copy of each buffer,
 * and the files that the records name (docs/foreign-traces.md).
 */
#include <hwt_system.h>

#include <ptah/engine/rtit.h>

#include <elf.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define KIB		1024
#define RECORDS_AT_ONCE 64
#define WAIT_US		10000 /* between two looks for records */

#define PACKETS	    (PTAH_RTIT_CTL_BRANCH_EN | PTAH_RTIT_CTL_TSC_EN)
#define KERNEL_ONLY (PACKETS | PTAH_RTIT_CTL_OS)

/* The buffer of a thread or a processor. */
struct buffer {
	int number;
	int device;
	void *bytes;
};

struct recorder {
	const char *folder;
	size_t size; /* of each buffer */
	int mode;
	cpuset_t cpus;
	pid_t pid;
	struct pt_cpu_config config;
	int context; /* hwt's number of it */
	FILE *records;
	struct buffer *buffers;
	size_t count;
	struct hwt_record_user_entry entries[RECORDS_AT_ONCE];
};

static void make_path(char path[PATH_MAX], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void make_path(char path[PATH_MAX], const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	if (vsnprintf(path, PATH_MAX, format, arguments) >= PATH_MAX)
		errx(2, "%s: the path is too long", path);
	va_end(arguments);
}

/* Files of the traced machine */

/* Makes the folders above a file, which has a path below r->folder. */
static void make_parents(const struct recorder *r, char *path)
{
	for (char *p = path + strlen(r->folder) + 1; (p = strchr(p, '/')); p++) {
		*p = '\0';
		mkdir(path, 0777);
		*p = '/';
	}
}

/* False: there was nothing to copy. */
static bool copy_file(const struct recorder *r, const char *path)
{
	char copy[PATH_MAX];
	int from, to;
	ssize_t n;

	if (*path != '/' || strstr(path, "/../"))
		return false;
	make_path(copy, "%s%s", r->folder, path);
	make_parents(r, copy);
	from = open(path, O_RDONLY | O_CLOEXEC, 0);
	if (from < 0) {
		warn("%s", path);
		return false;
	}
	to = open(copy, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (to < 0 && errno != EEXIST)
		err(2, "%s", copy);
	if (to >= 0) {
		while ((n = copy_file_range(from, NULL, to, NULL, SSIZE_MAX / 2, 0)) > 0)
			;
		if (n < 0 || close(to))
			err(2, "%s", copy);
	}
	close(from);
	return true;
}

/* The interpreter is in no record of its own. */
static void copy_program(const struct recorder *r, const char *path)
{
	char interpreter[PATH_MAX] = "";
	Elf64_Ehdr head;
	Elf64_Phdr p;
	int fd;

	if (!copy_file(r, path) || (fd = open(path, O_RDONLY | O_CLOEXEC, 0)) < 0)
		return;
	if (pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head) ||
	    memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_phentsize != sizeof(p))
		head.e_phnum = 0;
	for (unsigned i = 0; i < head.e_phnum; i++)
		if (pread(fd, &p, sizeof(p), (off_t)(head.e_phoff + i * sizeof(p))) ==
			(ssize_t)sizeof(p) &&
		    p.p_type == PT_INTERP && p.p_filesz < sizeof(interpreter) &&
		    pread(fd, interpreter, p.p_filesz, (off_t)p.p_offset) < 0)
			warn("%s", path);
	close(fd);
	if (*interpreter)
		copy_file(r, interpreter);
}

/* Buffers and records */

/* Each is mapped while it is there: hwt frees them with the context. False, with errno: not. */
static bool open_buffer(struct recorder *r, int number)
{
	struct buffer b = {.number = number}, *more;
	char path[64];

	for (size_t i = 0; i < r->count; i++)
		if (r->buffers[i].number == number)
			return true;
	snprintf(path, sizeof(path), "/dev/hwt_%d_%d", r->context, number);
	b.device = open(path, O_RDONLY | O_CLOEXEC, 0);
	if (b.device < 0)
		return false;
	b.bytes = mmap(NULL, r->size, PROT_READ, MAP_SHARED, b.device, 0);
	more = b.bytes == MAP_FAILED ? NULL : realloc(r->buffers, (r->count + 1) * sizeof(b));
	if (!more) {
		close(b.device);
		return false;
	}
	r->buffers = more;
	r->buffers[r->count++] = b;
	return true;
}

static void write_record(struct recorder *r, const struct hwt_record_user_entry *entry)
{
	if (fwrite(entry, sizeof(*entry), 1, r->records) != 1)
		err(2, "%s/hwt.records", r->folder);
}

static void on_record(struct recorder *r, const struct hwt_record_user_entry *entry)
{
	write_record(r, entry);
	switch (entry->record_type) {
	case HWT_RECORD_THREAD_CREATE:
		if (!open_buffer(r, entry->thread_id))
			warn("the buffer of thread %d", entry->thread_id);
		break;
	case HWT_RECORD_EXECUTABLE:
		copy_program(r, entry->fullpath);
		break;
	case HWT_RECORD_MMAP:
	case HWT_RECORD_KERNEL:
		copy_file(r, entry->fullpath);
		break;
	default:
		break;
	}
}

static void control_context(struct recorder *r, unsigned long request, void *argument,
			    const char *what)
{
	if (ioctl(r->buffers[0].device, request, argument))
		err(2, "hwt: %s", what);
}

static void take_records(struct recorder *r)
{
	int i, n;
	struct hwt_record_get get = {.records = r->entries, .nentries = &n};

	do {
		n = RECORDS_AT_ONCE;
		control_context(r, HWT_IOC_RECORD_GET, &get, "records");
		for (i = 0; i < n; i++)
			on_record(r, &r->entries[i]);
	} while (n == RECORDS_AT_ONCE);
}

/*
 * The kernel's own backend reports whole pages, so that the exact end is asked for. hwt says here,
 * too, that a configuration was refused: when it was started it did not. True: it was traced.
 */
static bool end_buffer(struct recorder *r, const struct buffer *b)
{
	struct hwt_record_user_entry *entry = &r->entries[0];
	vm_offset_t offset = 0;
	uint64_t data = 0;
	int page = 0;
	struct hwt_bufptr_get get = {.ident = &page, .offset = &offset, .data = &data};

	if (ioctl(b->device, HWT_IOC_BUFPTR_GET, &get)) {
		warn("%s %d was not traced (dmesg may say more)",
		     r->mode == HWT_MODE_CPU ? "processor" : "thread", b->number);
		return false;
	}
	memset(entry, 0, sizeof(*entry));
	entry->record_type = HWT_RECORD_BUFFER;
	entry->buf_id = b->number;
	entry->curpage = page;
	entry->offset = offset;
	write_record(r, entry);
	return true;
}

static void copy_buffer(const struct recorder *r, const struct buffer *b)
{
	char path[PATH_MAX];
	FILE *f;

	make_path(path, "%s/hwt_%d_%d", r->folder, r->context, b->number);
	f = fopen(path, "wb");
	if (!f || fwrite(b->bytes, 1, r->size, f) != r->size || fclose(f))
		err(2, "%s", path);
}

/* The program: it waits in a pipe until tracing has begun */

static pid_t start_program(char *arguments[], int *go)
{
	int ends[2];
	char byte;
	pid_t pid;

	if (pipe(ends) || (pid = fork()) < 0)
		err(2, "fork");
	if (pid == 0) {
		close(ends[1]);
		if (read(ends[0], &byte, 1) == 1) {
			close(ends[0]);
			execvp(arguments[0], arguments);
			warn("%s", arguments[0]);
		}
		_exit(127);
	}
	close(ends[0]);
	*go = ends[1];
	return pid;
}

static void start_tracing(struct recorder *r)
{
	struct hwt_alloc alloc = {.bufsize = r->size,
				  .mode = r->mode,
				  .pid = r->pid,
				  .cpu_map = &r->cpus,
				  .cpusetsize = sizeof(r->cpus),
				  .backend_name = "pt",
				  .ident = &r->context,
				  .kqueue_fd = kqueue()};
	struct hwt_set_config config = {
	    .config = &r->config, .config_size = sizeof(r->config), .config_version = 1};
	struct hwt_start begin = {0};
	int hwt = open("/dev/hwt", O_RDWR | O_CLOEXEC, 0);

	if (hwt < 0)
		err(2, "/dev/hwt (kldload hwt)");
	if (ioctl(hwt, HWT_IOC_ALLOC, &alloc))
		err(2, "hwt: buffers of %zu bytes", r->size);
	if (r->mode == HWT_MODE_THREAD && !open_buffer(r, 0))
		err(2, "the buffer of thread 0");
	for (int cpu = 0; r->mode == HWT_MODE_CPU && cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &r->cpus) && !open_buffer(r, cpu))
			err(2, "the buffer of processor %d", cpu);
	control_context(r, HWT_IOC_SET_CONFIG, &config, "configuration");
	control_context(r, HWT_IOC_START, &begin, "start");
}

/* Returns the program's status. */
static int wait_for_program(struct recorder *r)
{
	int status;
	pid_t ended;

	do {
		usleep(WAIT_US);
		ended = waitpid(r->pid, &status, WNOHANG);
		take_records(r);
	} while (ended == 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static void print_usage(void)
{
	fputs("usage: ptah-hwt [-k] [-c CPU]... [-o FOLDER] [-s KIB] PROGRAM [ARGUMENT...]\n"
	      "  -c CPU     trace the kernel on this processor, in place of the program\n"
	      "  -k         trace the program in the kernel, too\n"
	      "  -o FOLDER  a new folder (ptah-hwt.out)\n"
	      "  -s KIB     size of each buffer (16384); of a longer trace the end is kept\n",
	      stderr);
	exit(2);
}

static long parse_number(const char *text, long most)
{
	char *end;
	long n = strtol(text, &end, 10);

	if (end == text || *end || n < 0 || n > most)
		print_usage();
	return n;
}

static void parse_options(struct recorder *r, int argc, char *argv[])
{
	int option;

	CPU_ZERO(&r->cpus);
	while ((option = getopt(argc, argv, "+c:ko:s:")) >= 0) {
		switch (option) {
		case 'c':
			r->mode = HWT_MODE_CPU;
			CPU_SET(parse_number(optarg, CPU_SETSIZE - 1), &r->cpus);
			break;
		case 'k':
			r->config.rtit_ctl |= PTAH_RTIT_CTL_OS;
			break;
		case 'o':
			r->folder = optarg;
			break;
		case 's':
			r->size = (size_t)parse_number(optarg, 32 * KIB * KIB) * KIB;
			break;
		default:
			print_usage();
		}
	}
	if (r->mode == HWT_MODE_CPU)
		r->config.rtit_ctl = KERNEL_ONLY;
	if (optind == argc || !r->size)
		print_usage();
}

int main(int argc, char *argv[])
{
	static struct recorder r;
	struct hwt_stop end = {0};
	char path[PATH_MAX];
	int go, status;
	bool traced = false;

	r = (struct recorder){
	    .folder = "ptah-hwt.out", .size = 16 * KIB * KIB, .mode = HWT_MODE_THREAD};
	r.config.rtit_ctl = PACKETS | PTAH_RTIT_CTL_USER;
	parse_options(&r, argc, argv);
	make_path(path, "%s/hwt.records", r.folder);
	if (mkdir(r.folder, 0777) || !(r.records = fopen(path, "wbxe")))
		err(2, "%s", r.folder);
	/* If it is ignored, which may be inherited, there is no status to wait for. */
	signal(SIGCHLD, SIG_DFL);
	r.pid = start_program(&argv[optind], &go);
	signal(SIGINT, SIG_IGN); /* the program's, whose end is waited for */
	signal(SIGPIPE, SIG_IGN);
	start_tracing(&r);
	if (write(go, "", 1) != 1)
		warnx("%s has ended before it began", argv[optind]);
	close(go);
	status = wait_for_program(&r);
	control_context(&r, HWT_IOC_STOP, &end, "stop");
	take_records(&r);
	for (size_t i = 0; i < r.count; i++) {
		if (end_buffer(&r, &r.buffers[i]))
			traced = true;
		copy_buffer(&r, &r.buffers[i]);
	}
	if (fclose(r.records))
		err(2, "%s", path);
	return traced ? status : 2;
}
