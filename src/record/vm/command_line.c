/* SPDX-License-Identifier: MIT */
/* The command line of QEMU for a machine with Intel PT: what the caller chose, and the rest. */
#include "record/vm/qemu_check.h"

#include "perfdata/message.h"
#include "record/command.h"
#include "record/plugin_path.h"
#include "record/qemu/launch.h"

#include <ptah/model/model.h>
#include <ptah/record.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLUGIN	      "ptah-system.so"
#define QEMU	      "qemu-system-x86_64"
#define DEFAULT_MODEL "skylake"

/* What the caller's options have chosen already. */
struct choices {
	bool cpu, accelerator;
};

/* Whether an option of QEMU is this one; it takes one dash or two. */
static bool is_option(const char *option, const char *name)
{
	return option[0] == '-' && !strcmp(option + 1 + (option[1] == '-'), name);
}

/* "kvm,thread=multi" or "kvm:tcg": the first accelerator is not TCG. */
static bool is_tcg(const char *accelerators)
{
	const size_t n = strcspn(accelerators, ",:");

	return n == 3 && !strncmp(accelerators, "tcg", n);
}

static int refuse_accelerator(struct ptah_message *why, const char *option, const char *value)
{
	return perfdata_message(why, PTAH_E_INVAL,
				"%s%s%s: the guest's processor is simulated, which is possible "
				"only while QEMU translates the guest's code (-accel tcg); leave "
				"this option out",
				option, value ? " " : "", value ? value : "");
}

/* The value of accel= in the value of -machine; NULL: it has none. */
static const char *machine_accelerator(const char *value)
{
	while (value) {
		if (!strncmp(value, "accel=", 6))
			return value + 6;
		value = strchr(value, ',');
		if (value)
			value++;
	}
	return NULL;
}

static int look_at_option(const char *option, const char *value, struct choices *c,
			  struct ptah_message *why)
{
	const char *accelerator = NULL;

	if (is_option(option, "enable-kvm"))
		return refuse_accelerator(why, option, NULL);
	if (!value)
		return 0;
	if (is_option(option, "cpu")) {
		if (!strncmp(value, "host", strcspn(value, ",")))
			return perfdata_message(why, PTAH_E_INVAL,
						"-cpu %s: this needs KVM, but the guest's "
						"processor is simulated; leave -cpu out, or name "
						"one that 'qemu-system-x86_64 -cpu help' lists",
						value);
		c->cpu = true;
	} else if (is_option(option, "accel")) {
		accelerator = value;
	} else if (is_option(option, "machine") || is_option(option, "M")) {
		accelerator = machine_accelerator(value);
	}
	if (!accelerator)
		return 0;
	c->accelerator = true;
	return is_tcg(accelerator) ? 0 : refuse_accelerator(why, option, value);
}

static int look_at_options(char *const *options, struct choices *c, struct ptah_message *why)
{
	for (size_t i = 0; options && options[i]; i++) {
		int status = look_at_option(options[i], options[i + 1], c, why);

		if (status < 0)
			return status;
	}
	return 0;
}

/* The value of -plugin. NULL: out of memory. */
static char *plugin_option(const char *plugin, const char *model,
			   const struct ptah_vm_config *config)
{
	const char *more = config->arguments, *truth = config->truth;
	char *file = launch_quote(plugin), *log = launch_quote(truth ? truth : ""), *option = NULL;

	if (file && log &&
	    asprintf(&option, "%s,model=%s%s%s%s%s", file, model, truth ? ",truth=" : "", log,
		     more ? "," : "", more ? more : "") < 0)
		option = NULL;
	free(file);
	free(log);
	return option;
}

/*
 * The value of -cpu: everything that TCG has, with the vendor, family and model of the simulated
 * processor, by which drivers choose; without AMD's SVM. Two things are left out that cost time:
 * 5-level paging (la57), unless the processor has it, which makes each walk of the page tables
 * longer; and fast string instructions (erms, fsrm), with which guests copy and clear memory by
 * bytes. TCG runs one byte at a time then: a boot of Linux took 8.1 seconds of CPU time instead of
 * 5.9.
 */
static char *cpu_option(const struct ptah_model_processor *p)
{
	char *option;

	if (asprintf(&option,
		     "max,vendor=GenuineIntel,family=%u,model=%u,stepping=%u,svm=off,erms=off,"
		     "fsrm=off,la57=%s",
		     p->cpu.family, p->cpu.model, p->cpu.stepping,
		     p->linear_bits > 48 ? "on" : "off") < 0)
		return NULL;
	return option;
}

/* A list of strings that grows. Once memory is out, it stays incomplete. */
struct words {
	char **list;
	size_t n, room;
	bool failed;
};

/* Takes `text`, which was allocated. */
static void add_owned(struct words *w, char *text)
{
	if (!text || w->failed || w->n + 1 >= w->room) {
		w->failed = true;
		free(text);
		return;
	}
	w->list[w->n++] = text;
}

static void append_word(struct words *w, const char *text)
{
	add_owned(w, strdup(text));
}

/* The list, with a NULL at its end, and behind it the strings, in one piece of memory. */
static char **pack_words(const struct words *w)
{
	size_t size = (w->n + 1) * sizeof(*w->list);
	char **list, *text;

	for (size_t i = 0; i < w->n; i++)
		size += strlen(w->list[i]) + 1;
	list = malloc(size);
	if (!list)
		return NULL;
	text = (char *)(list + w->n + 1);
	for (size_t i = 0; i < w->n; i++) {
		list[i] = text;
		text = stpcpy(text, w->list[i]) + 1;
	}
	list[w->n] = NULL;
	return list;
}

static size_t count_words(char *const *list)
{
	size_t n = 0;

	while (list && list[n])
		n++;
	return n;
}

static int make_argument_command(const struct ptah_vm_config *config,
				 const struct ptah_model_processor *model, const char *qemu,
				 const char *plugin, const struct choices *c, char ***command)
{
	struct words w = {.room = count_words(config->options) + 8};

	w.list = calloc(w.room, sizeof(*w.list));
	if (!w.list)
		return PTAH_E_NOMEM;
	append_word(&w, qemu);
	append_word(&w, "-plugin");
	add_owned(&w, plugin_option(plugin, model->name, config));
	if (!c->accelerator) {
		append_word(&w, "-accel");
		append_word(&w, "tcg");
	}
	if (!c->cpu) {
		append_word(&w, "-cpu");
		add_owned(&w, cpu_option(model));
	}
	for (size_t i = 0; config->options && config->options[i]; i++)
		append_word(&w, config->options[i]);
	*command = w.failed ? NULL : pack_words(&w);
	for (size_t i = 0; i < w.n; i++)
		free(w.list[i]);
	free(w.list);
	return *command ? 0 : PTAH_E_NOMEM;
}

static int check_files(const struct ptah_vm_config *config, const char *qemu, const char *plugin,
		       struct ptah_message *why)
{
	if (!qemu || access(qemu, X_OK))
		return perfdata_message(why, PTAH_E_MISSING,
					"%s not found: install it (Debian: apt-get install "
					"qemu-system-x86), or name it with --qemu",
					config->qemu ? config->qemu : QEMU);
	if (!plugin || access(plugin, R_OK))
		return perfdata_message(why, PTAH_E_MISSING,
					"the plugin %s is not where it should be: install Ptah, or "
					"name it with --plugin",
					config->plugin ? config->plugin : PLUGIN);
	return qemu_check(qemu, why);
}

int ptah_vm_command(const struct ptah_vm_config *config, char ***command, struct ptah_message *why)
{
	const struct ptah_model_processor *model;
	struct choices c = {false, false};
	char *qemu, *plugin;
	int status;

	if (!config || config->size < sizeof(*config) || !command)
		return perfdata_message(why, PTAH_E_INVAL, "%s", ptah_strerror(PTAH_E_INVAL));
	model = ptah_model_find(config->model ? config->model : DEFAULT_MODEL);
	if (!model)
		return perfdata_message(why, PTAH_E_INVAL,
					"--model=%s: there is no such processor; 'ptah caps "
					"--model=list' names them",
					config->model);
	status = look_at_options(config->options, &c, why);
	if (status < 0)
		return status;
	qemu = command_find(config->qemu ? config->qemu : QEMU);
	plugin = config->plugin ? strdup(config->plugin) : record_find_plugin(PLUGIN);
	status = check_files(config, qemu, plugin, why);
	if (status >= 0)
		status = make_argument_command(config, model, qemu, plugin, &c, command);
	if (status == PTAH_E_NOMEM)
		perfdata_message(why, status, "%s", ptah_strerror(status));
	free(qemu);
	free(plugin);
	return status;
}
