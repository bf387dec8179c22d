/* SPDX-License-Identifier: MIT */
/* ptah vm: starts QEMU with the plugin that gives its processors Intel PT. */
#include "command.h"
#include "input.h"

#include <ptah/record.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options {
	const char *model, *qemu, *plugin, *truth, *arguments;
	bool dry_run;
};

#define AT(member) offsetof(struct options, member)

static const struct option_def vm_options[] = {
    {.name = "model",
     .kind = OPTION_TEXT,
     .at = AT(model),
     .arg = "NAME",
     .complete = COMPLETE_MODELS,
     .help = "the processor whose Intel PT the guest has (default: skylake)",
     .man = "The processor whose Intel PT the guest has. `ptah caps --model=list` names them, "
	    "and `ptah caps --model=`*NAME* shows what one offers. Default: *skylake*."},
    {.name = "truth",
     .kind = OPTION_TEXT,
     .at = AT(truth),
     .arg = "FILE",
     .complete = COMPLETE_FILE,
     .help = "append what ran while tracing was on to FILE, as ground truth",
     .man = "Append to *FILE* what the processors ran while tracing was on: instructions, "
	    "branches, and the path hash, for each virtual processor, address space and "
	    "privilege. Whoever decodes the guest's trace can compare. The guest asks for it by "
	    "a register of its own (see docs/virtual-pt.md)."},
    {.name = "qemu",
     .kind = OPTION_TEXT,
     .at = AT(qemu),
     .arg = "PATH",
     .complete = COMPLETE_FILE,
     .help = "the emulator (default: qemu-system-x86_64 in PATH)",
     .man = "The emulator. Default: *qemu-system-x86_64*, found in PATH."},
    {.name = "plugin",
     .kind = OPTION_TEXT,
     .at = AT(plugin),
     .arg = "PATH",
     .complete = COMPLETE_FILE,
     .help = "the plugin (default: found beside ptah)",
     .man = "The plugin, *ptah-system.so*. Default: the one that was installed or built with "
	    "this program."},
    {.name = "plugin-arguments",
     .kind = OPTION_TEXT,
     .at = AT(arguments),
     .arg = "LIST",
     .help = "further arguments of the plugin, such as xsaves=on,tsc=host",
     .man = "Further arguments of the plugin, with commas between them: `xsaves=on` gives the "
	    "processor XSAVES with the state of Intel PT, `tsc=`*MHZ* or `tsc=host` sets the "
	    "frequency of its TSC, `verbose=on` prints each access to a register of Intel PT. "
	    "See docs/virtual-pt.md."},
    {.name = "dry-run",
     .kind = OPTION_FLAG,
     .at = AT(dry_run),
     .help = "print the command line of QEMU, and do not run it",
     .man = "Print the command line of QEMU, quoted for a shell, and do not run it: to start "
	    "the machine from a script or from libvirt."},
    {0},
};

static bool is_plain(const char *word)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				    "0123456789-_=+,./:@%";

	return *word && !word[strspn(word, plain)];
}

/* Prints a word as a shell reads it. */
static void put_vm_word(struct out *out, const char *word)
{
	if (is_plain(word)) {
		out_text(out, word);
		return;
	}
	out_text(out, "'");
	for (; *word; word++) {
		if (*word == '\'')
			out_text(out, "'\\''");
		else
			out_bytes(out, word, 1);
	}
	out_text(out, "'");
}

static int print_command(char *const *command)
{
	struct input output = {.no_pager = true};
	struct out *out;
	int status = output_open(&command_vm, &output, &out);

	if (status)
		return status;
	for (size_t i = 0; command[i]; i++) {
		if (i)
			out_text(out, " ");
		put_vm_word(out, command[i]);
	}
	out_text(out, "\n");
	return output_close(&command_vm, out, EXIT_OK);
}

/* A word with one dash before "--" is an option of QEMU: ptah's own letter is -h alone. */
static const char *misplaced(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
		if (argv[i][0] == '-' && argv[i][1] && argv[i][1] != '-' && strcmp(argv[i], "-h"))
			return argv[i];
	return NULL;
}

static int run_vm(int argc, char **argv)
{
	struct options o = {0};
	struct ptah_vm_config config = {.size = sizeof(config)};
	struct ptah_message why = {""};
	const char *word = misplaced(argc, argv);
	char **command;
	int status, first;

	if (word)
		return fail_options(&command_vm,
				    "%s: QEMU's options follow --, as in 'ptah vm -- %s ...'", word,
				    word);
	first = options_parse(&command_vm, argc, argv, &o, &status);
	if (first < 0)
		return status;
	config.qemu = o.qemu;
	config.plugin = o.plugin;
	config.model = o.model;
	config.truth = o.truth;
	config.arguments = o.arguments;
	config.options = argv + first;
	status = ptah_vm_command(&config, &command, &why);
	if (status == PTAH_E_INVAL)
		return fail_usage(&command_vm, "%s", why.text);
	if (status < 0)
		return fail(&command_vm, "%s", why.text);
	if (o.dry_run) {
		status = print_command(command);
	} else {
		execv(command[0], command);
		status = fail(&command_vm, "%s: %s", command[0], strerror(errno));
	}
	free(command);
	return status;
}

const struct command command_vm = {
    .name = "vm",
    .usage = "[OPTIONS] [--] [OPTIONS OF QEMU]",
    .summary = "run a virtual machine whose processors have Intel PT",
    .details =
	"Starts qemu-system-x86_64 with a plugin that gives each of its processors a simulated\n"
	"Intel PT, on any x86-64 computer. The guest's own driver uses it: perf record -e\n"
	"intel_pt// works inside. What follows -- is QEMU's; ptah adds the plugin and, where\n"
	"they are not given, -accel tcg and -cpu. QEMU takes ptah's place, so that its\n"
	"terminal, its signals and its exit status are those of this command.",
    .options = (const struct option_def *const[]){vm_options, help_options, NULL},
    .operand = COMPLETE_FILE,
    .run = run_vm,
};
