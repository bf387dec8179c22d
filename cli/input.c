/* SPDX-License-Identifier: MIT */
/* Opens the recording or raw trace that a decoding command reads, and its output. */
#include "input.h"

#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static volatile sig_atomic_t was_interrupted;

static void on_interrupt(int signal)
{
	(void)signal;
	was_interrupted = 1;
}

bool interrupted(void)
{
	return was_interrupted;
}

/* Splits FILE:ADDR at the last colon: the path may contain others. */
static bool split_address(const char *value, char *path, size_t n, uint64_t *address)
{
	const char *colon = strrchr(value, ':');
	char *end;

	if (!colon || colon == value || (size_t)(colon - value) >= n)
		return false;
	*address = strtoull(colon + 1, &end, 16);
	if (end == colon + 1 || *end)
		return false;
	memcpy(path, value, (size_t)(colon - value));
	path[colon - value] = '\0';
	return true;
}

int input_names(const struct input *input, const struct ptah_session *session, struct names **names)
{
	int status = names_new(session, input->symfs, names);
	struct names_kernel kernel = {.symbol = "_text"};

	if (status >= 0 && input->pt && input->kallsyms) {
		snprintf(kernel.kallsyms, sizeof(kernel.kallsyms), "%s", input->kallsyms);
		names_use_kernel(*names, &kernel);
	}

	for (unsigned i = 0; status >= 0 && i < input->image_count; i++) {
		const struct image_option *image = &input->images[i];
		uint64_t address = 0;
		char path[4096];

		if (image->kind == 'p')
			continue;
		if (!split_address(image->value, path, sizeof(path), &address))
			snprintf(path, sizeof(path), "%s", image->value);
		status = image->kind == 'e'
			     ? names_add_elf(*names, path, address)
			     : names_add_map(*names, address, UINT64_MAX - address, 0, path);
		/* A file that gives no names is no failure: addresses are shown. */
		if (status != PTAH_E_NOMEM)
			status = 0;
	}
	return status;
}

/* Reports why the image of an option cannot be read. `path`: the option's value without an address.
 */
static int fail_image(const struct command *command, const struct image_option *option,
		      const char *path, int status)
{
	if (option->kind == 'p')
		return fail(command, "--pages=%s: %s%s", path,
			    status == PTAH_E_MISSING ? "PREFIX.addr or PREFIX.dump: " : "",
			    status == PTAH_E_MISSING ? strerror(ENOENT) : ptah_strerror(status));
	return fail(command, "--%s=%s: %s: %s", option->kind == 'e' ? "elf" : "raw", option->value,
		    path,
		    access(path, R_OK) < 0	 ? strerror(errno)
		    : status == PTAH_E_BAD_MAGIC ? "it is no ELF file"
						 : ptah_strerror(status));
}

/* Splits an option's value into a file and an address. Returns an exit code. */
static int split_image(const struct command *command, const struct image_option *option, char *path,
		       size_t n, uint64_t *address)
{
	if (option->kind != 'p' && split_address(option->value, path, n, address))
		return EXIT_OK;
	if (option->kind == 'r')
		return fail_usage(command, "--raw=%s: it takes FILE:ADDRESS (hexadecimal)",
				  option->value);
	/* A colon may also belong to the file's name. */
	if (option->kind == 'e' && strchr(option->value, ':') && access(option->value, F_OK) < 0)
		return fail_usage(command, "--elf=%s: it takes FILE or FILE:BASE (hexadecimal)",
				  option->value);
	snprintf(path, n, "%s", option->value);
	*address = 0;
	return EXIT_OK;
}

static int add_image(const struct command *command, struct ptah_image *image,
		     const struct image_option *option)
{
	uint64_t address;
	char path[4096];
	int status = split_image(command, option, path, sizeof(path), &address);

	if (status)
		return status;
	if (option->kind == 'p')
		status = ptah_image_add_pages(image, path, NULL);
	else if (option->kind == 'e')
		status = ptah_image_add_elf(image, path, address, NULL);
	else
		status = ptah_image_add_file(image, path, 0, UINT64_MAX - address, address, NULL);
	return status < 0 ? fail_image(command, option, path, status) : EXIT_OK;
}

/* Is the file a recording, and no raw trace? */
static bool is_recording(const char *path)
{
	char magic[8] = "";
	FILE *f = fopen(path, "re");
	size_t n = f ? fread(magic, 1, sizeof(magic), f) : 0;

	if (f)
		fclose(f);
	return n == sizeof(magic) && !memcmp(magic, "PERFILE2", sizeof(magic));
}

static int open_raw(const struct command *command, const struct input *input,
		    struct ptah_session **session)
{
	struct ptah_message why = {""};
	struct ptah_image *image;
	struct stat st;
	int status;

	/* Reading the first bytes of a pipe would take them away. */
	if (!stat(input->pt, &st) && S_ISREG(st.st_mode) && is_recording(input->pt))
		return fail_usage(command,
				  "--pt=%s: this is a recording (perf.data), not a raw trace; read "
				  "it without --pt",
				  input->pt);
	if (ptah_image_new(&image) < 0)
		return fail(command, "out of memory");
	for (unsigned i = 0; i < input->image_count; i++) {
		status = add_image(command, image, &input->images[i]);
		if (status) {
			ptah_image_free(image);
			return status;
		}
	}
	status = ptah_session_open_raw(input->pt, image, session, &why);
	ptah_image_free(image);
	if (status < 0)
		return fail(command, "%s", why.text[0] ? why.text : ptah_strerror(status));
	return 0;
}

/* A choice that leaves no stream is more likely a slip than a wish to see nothing: it is refused.
 */
static int check_wanted(const struct command *command, const struct input *input,
			struct ptah_session **session)
{
	char thread[48] = "", process[48] = "";

	for (size_t i = 0; i < ptah_session_streams(*session); i++)
		if (input_wants(input, *session, i))
			return 0;
	ptah_session_close(*session);
	if (input->cpu)
		return fail(command, "the recording has no stream of CPU %s", input->cpu);
	if (input->tid)
		snprintf(thread, sizeof(thread), " of thread %" PRIu64, input->tid);
	if (input->pid)
		snprintf(process, sizeof(process), " of process %" PRIu64, input->pid);
	return fail(command, "the recording has no stream%s%s%s%s; 'ptah stat' lists them", thread,
		    process, input->comm ? " of a thread named " : "",
		    input->comm ? input->comm : "");
}

/* Applies the options that determine how to decode: errata, and which packets the trace lacks. */
static int set_flow(const struct command *command, const struct input *input,
		    struct ptah_session *session)
{
	struct ptah_flow_config flow;
	struct ptah_cpu cpu = {0};

	ptah_session_get_flow(session, &flow);
	if (input->processor) {
		if (strcmp(input->processor, "none") &&
		    ptah_cpu_parse(input->processor, &cpu) < 0) {
			fail(command,
			     "--processor=%s: it takes FAMILY/MODEL or FAMILY/MODEL/STEPPING, as "
			     "6/158/10 (see /proc/cpuinfo), or none",
			     input->processor);
			return EXIT_USAGE;
		}
		flow.events.errata = ptah_cpu_errata(&cpu);
	}
	if (input->errata && ptah_errata_parse(input->errata, &flow.events.errata) < 0) {
		fail(command, "--errata=%s: it takes names such as SKD007,SKL168, or all, or none",
		     input->errata);
		return EXIT_USAGE;
	}
	flow.events.trace.no_tnt |= input->no_tnt;
	flow.events.trace.no_retcomp |= input->no_retcomp;
	ptah_session_set_flow(session, &flow);
	return 0;
}

/* perf's cache of binaries, where it is by default (perf-buildid-cache(1)). NULL: there is none. */
static const char *build_id_cache(char *path, size_t n)
{
	const char *home = getenv("HOME");

	if (!home || snprintf(path, n, "%s/.debug", home) >= (int)n)
		return NULL;
	return path;
}

int input_open(const struct command *command, struct input *input, int argc, char **argv,
	       bool images, struct ptah_session **session)
{
	char cache[4096];
	struct ptah_session_config config = {
	    .size = sizeof(config),
	    .symfs = input->symfs,
	    .vmlinux = input->vmlinux,
	    .kallsyms = input->kallsyms,
	    .build_id_cache = build_id_cache(cache, sizeof(cache)),
	    .ignore_build_ids = input->force,
	    .no_images = !images,
	};
	struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND};
	struct ptah_message why = {""};
	int status;

	/* The first Ctrl-C ends the reading, the second one the command. A consumer of the output
	 * that ends early shows as EPIPE. */
	sigaction(SIGINT, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
	if (argc > 1 || (argc == 1 && (input->path || input->pt))) {
		fail(command, "one recording at a time; \"%s\" is too much", argv[argc - 1]);
		return EXIT_USAGE;
	}
	if (input->cpu && (!*input->cpu || input->cpu[strspn(input->cpu, "0123456789")])) {
		fail(command, "--cpu=%s: not a number", input->cpu);
		return EXIT_USAGE;
	}
	if (argc == 1)
		input->path = argv[0];
	if (input->pt && input->path) {
		fail(command, "a recording or --pt, not both");
		return EXIT_USAGE;
	}
	if (input->pt && input->vmlinux)
		return fail_usage(command, "--vmlinux=%s: with --pt, code is given by --elf",
				  input->vmlinux);
	if (!input->pt && input->image_count) {
		fail(command, "--raw, --elf and --pages belong to --pt");
		return EXIT_USAGE;
	}
	if (input->pt) {
		status = open_raw(command, input, session);
		if (status)
			return status;
	} else {
		status = ptah_session_open(input->path ? input->path : "perf.data", &config,
					   session, &why);
		if (status < 0)
			return fail(command, "%s", why.text[0] ? why.text : ptah_strerror(status));
	}
	status = set_flow(command, input, *session);
	if (status) {
		ptah_session_close(*session);
		return status;
	}
	return check_wanted(command, input, session);
}

void input_stream_info(const struct ptah_session *session, size_t i, struct ptah_stream_info *info)
{
	if (ptah_session_stream_info(session, i, info) < 0)
		memset(info, 0, sizeof(*info));
	info->comm[sizeof(info->comm) - 1] = '\0';
	text_clean(info->comm);
}

bool input_wants(const struct input *input, const struct ptah_session *session, size_t i)
{
	struct ptah_stream_info info;

	if (ptah_session_stream_info(session, i, &info) < 0)
		return false;
	if (input->cpu && (info.cpu < 0 || strtoul(input->cpu, NULL, 10) != (unsigned)info.cpu))
		return false;
	if (input->pid && (info.pid < 0 || (uint64_t)info.pid != input->pid))
		return false;
	if (input->tid && (info.tid < 0 || (uint64_t)info.tid != input->tid))
		return false;
	/* The kernel keeps 15 characters of a name (TASK_COMM_LEN). */
	return !input->comm || !strncmp(info.comm, input->comm, sizeof(info.comm) - 1);
}

void input_notes(const struct input *input, const struct ptah_session *session)
{
	const char *note;

	for (size_t i = 0; !input->quiet && (note = ptah_session_note(session, i)); i++)
		print_clean("note: ", "%s", note);
}

size_t input_shown(const struct input *input, size_t count)
{
	return input->limit && input->limit < count ? (size_t)input->limit : count;
}

int output_open(const struct command *command, const struct input *input, struct out **out)
{
	struct ptah_message why = {""};
	int status = out_open(input->output, out, &why);

	return status < 0 ? fail(command, "%s", why.text) : 0;
}

int output_close(const struct command *command, struct out *out, int status)
{
	struct ptah_message why = {""};

	/* After Ctrl-C, standard output keeps what was printed, but no incomplete file is left. */
	if (interrupted()) {
		out_flush(out);
		out_abort(out);
		return EXIT_INTERRUPTED;
	}
	if (out_close(out, &why) < 0)
		return fail(command, "%s", why.text);
	return status;
}
