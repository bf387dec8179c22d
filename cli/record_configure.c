/* SPDX-License-Identifier: MIT */
/* Turns the options of `ptah record` into a recorder's configuration (record_configure.h). */
#include "record_configure.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int wrong(const struct record_options *o, const char *format, ...) PRINTF_LIKE(2, 3);

static int wrong(const struct record_options *o, const char *format, ...)
{
	char text[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fail(o->command, "%s", text);
	return EXIT_USAGE;
}

/* Parses a number of pages, or a size with a letter. As in perf, it is rounded up to a power of two
 * of pages. */
static bool parse_pages(const char *text, uint64_t *bytes)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t value, rounded = page;
	bool bare;

	if (!parse_size(text, "BKMG", &value, &bare) || !value || value > UINT64_C(1) << 40 ||
	    (bare && value > (UINT64_C(1) << 40) / page))
		return false;
	if (bare)
		value *= page;
	while (rounded < value)
		rounded *= 2;
	*bytes = rounded;
	return true;
}

/* -m [DATA][,AUX] */
static int set_pages(const struct record_options *o, const char *text,
		     struct ptah_record_config *config)
{
	char data[32];
	const size_t n = strcspn(text, ",");
	const char *aux = text[n] ? text + n + 1 : NULL;

	snprintf(data, sizeof(data), "%.*s", n < sizeof(data) ? (int)n : 0, text);
	if ((n && !parse_pages(data, &config->buffer.sideband)) || (!n && !aux))
		return wrong(o,
			     "-m %s: it is pages, or a size with B, K, M or G: DATA, DATA,AUX or "
			     ",AUX",
			     text);
	if (aux && !parse_pages(aux, &config->buffer.size))
		return wrong(o,
			     "-m %s: after the comma comes the room for trace: pages, or a size "
			     "with B, K, M or G",
			     text);
	return EXIT_OK;
}

/* --time-resolution=TIME: a number with a unit, or off. */
static int set_time_resolution(const struct record_options *o, struct ptah_record_config *config)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
	const char *text = o->time_resolution;
	double n = 0;
	char *unit;

	if (!text)
		return EXIT_OK;
	if (!strcmp(text, "off")) {
		config->backend.time_resolution = PTAH_RECORD_NO_WATCHER;
		return EXIT_OK;
	}
	n = strtod(text, &unit);
	for (size_t i = 0; i < ARRAY_SIZE(units); i++)
		if (unit != text && !strcmp(unit, units[i].name)) {
			n *= units[i].ns;
			if (!(n >= 1e4 && n <= 1e9))
				break;
			config->backend.time_resolution = (uint64_t)n;
			return EXIT_OK;
		}
	return wrong(o, "--time-resolution=%s: not a time from 10us to 1s, nor off", text);
}

/* -S[e][SIZE]: 'e' requests a snapshot at the end, which is taken in any case. */
static int set_snapshot(const struct record_options *o, const char *option, const char *text,
			struct ptah_record_config *config)
{
	const char *size = text + (*option == 's' && *text == 'e');
	uint64_t bytes = 0;
	bool bare;

	if (*size && (!parse_size(size, "KMG", &bytes, &bare) || !bytes))
		return wrong(o, "--%s=%s: not a size (bytes, or a number and K, M or G)%s", option,
			     text, *option == 's' ? ", nor e" : "");
	if (config->buffer.size && bytes > config->buffer.size)
		return wrong(o, "--%s=%s: a snapshot is not larger than the buffer (-m ,SIZE)",
			     option, text);
	config->buffer.policy = PTAH_RECORD_SNAPSHOT;
	if (bytes)
		config->buffer.size = bytes;
	return EXIT_OK;
}

static int set_buffer(const struct record_options *o, struct ptah_record_config *config)
{
	const char *const snapshot = o->snapshot   ? o->snapshot
				     : o->on_crash ? o->on_crash
						   : o->on_failure;
	const char *const option = o->snapshot	 ? "snapshot"
				   : o->on_crash ? "on-crash"
						 : "on-failure";
	int status = EXIT_OK;

	if (!!o->snapshot + !!o->on_crash + !!o->on_failure > 1)
		return wrong(o, "--snapshot, --on-crash and --on-failure: say one of them");
	if (snapshot && o->stop_when_full)
		return wrong(o,
			     "--%s keeps the end and --stop-when-full the beginning: say one of "
			     "them",
			     option);
	if (o->buffer && (snapshot || (o->pages && strchr(o->pages, ','))))
		return wrong(o, "--buffer goes neither with --%s nor with -m ,SIZE",
			     snapshot ? option : "snapshot");
	config->buffer.size = o->buffer;
	if (o->stop_when_full)
		config->buffer.policy = PTAH_RECORD_STOP_WHEN_FULL;
	if (o->pages)
		status = set_pages(o, o->pages, config);
	if (status == EXIT_OK && snapshot)
		status = set_snapshot(o, option, snapshot, config);
	return status;
}

static int set_delay(const struct record_options *o, struct ptah_record_config *config,
		     int64_t *delay)
{
	char *end;

	if (!o->delay)
		return EXIT_OK;
	errno = 0;
	*delay = strtoll(o->delay, &end, 10);
	if (!*o->delay || *end || errno || *delay < -1 || *delay > INT32_MAX)
		return wrong(o, "-D %s: it is milliseconds, or -1", o->delay);
	if (*delay < 0 && !o->control)
		return wrong(o,
			     "-D -1: tracing would never begin: say with --control where 'enable' "
			     "is to come from");
	config->target.start_paused = *delay != 0;
	return EXIT_OK;
}

/* Finds the file that a filter's names without a file belong to: that of the command or process. */
static bool find_program(const struct ptah_record_config *config, char *path, size_t size)
{
	char link[64];
	ssize_t n;

	if (config->target.kind == PTAH_RECORD_COMMAND)
		return ptah_record_program(config->target.argv, path, size) >= 0;
	if (config->target.kind == PTAH_RECORD_CPUS || config->target.id_count != 1)
		return false;
	snprintf(link, sizeof(link), "/proc/%d/exe", config->target.ids[0]);
	n = readlink(link, path, size - 1);
	if (n < 0)
		return false;
	path[n] = '\0';
	return true;
}

static int set_filters(const struct record_options *o, struct ptah_record_config *config,
		       struct filters *filters)
{
	char program[PATH_MAX];
	int status;

	if (!o->filter)
		return EXIT_OK;
	status = filters_parse(o->command, o->filter,
			       find_program(config, program, sizeof(program)) ? program : NULL,
			       config->trace.os && !config->trace.user, filters);
	config->filters = filters->items;
	config->filter_count = filters->count;
	return status;
}

/* One event of -e: that of Intel PT once, and any others. */
static int set_event(const struct record_options *o, const char *text, bool *found,
		     struct ptah_record_config *config, struct triggers *triggers)
{
	struct ptah_message why = {""};

	if (!*text)
		return wrong(o, "-e: an event is missing before or after a comma");
	if (triggers_is_event(text))
		return triggers_add_event(o->command, text, triggers);
	if (*found)
		return wrong(o, "-e %s: Intel PT is one event, whose options go together", text);
	*found = true;
	return ptah_record_parse_event(text, config, &why) < 0 ? wrong(o, "%s", why.text) : EXIT_OK;
}

/* -e: lists of events. */
static int set_events(const struct record_options *o, struct ptah_record_config *config,
		      struct triggers *triggers)
{
	int status = EXIT_OK;
	bool found = false;

	for (size_t i = 0; i < o->events.count && status == EXIT_OK; i++) {
		const char *at = o->events.texts[i];
		size_t n;

		do {
			char *text = strndup(at, n = triggers_length(at));

			status = text ? set_event(o, text, &found, config, triggers)
				      : wrong(o, "%s", ptah_strerror(PTAH_E_NOMEM));
			free(text);
			at += n;
		} while (status == EXIT_OK && *at++);
	}
	config->events.items = (const char *const *)triggers->events;
	config->events.count = triggers->event_count;
	return status;
}

static int set_triggers(const struct record_options *o, struct ptah_record_config *config,
			struct triggers *triggers)
{
	char program[PATH_MAX];
	int status = EXIT_OK;

	if (o->only_during) {
		status = triggers_add_function(
		    o->command, o->only_during,
		    find_program(config, program, sizeof(program)) ? program : NULL, triggers);
		config->triggers.start_paused = true;
	}
	config->triggers.items = triggers->items;
	config->triggers.count = triggers->count;
	return status;
}

static int set_max_size(const struct record_options *o, struct ptah_record_config *config)
{
	bool bare;

	if (o->max_size && (!parse_size(o->max_size, "BKMG", &config->output.max_size, &bare) ||
			    !config->output.max_size))
		return wrong(o, "--max-size=%s: it is a number with B, K, M or G", o->max_size);
	return EXIT_OK;
}

/* An address in hexadecimal, with or without 0x. */
static int set_address(const struct record_options *o, const char *option, const char *text,
		       uint64_t *value)
{
	char *end;

	if (!text)
		return EXIT_OK;
	errno = 0;
	*value = strtoull(text, &end, 16);
	if (!*text || *end || errno || !*value || *text == '-')
		return wrong(o, "--%s=%s: it is an address in hexadecimal", option, text);
	return EXIT_OK;
}

/* The options of a virtual machine that is recorded from outside. */
static int set_machine(const struct record_options *o, struct ptah_record_config *config)
{
	int status = set_address(o, "cr3", o->cr3, &config->guest.cr3);

	if (status == EXIT_OK)
		status = set_address(o, "start-at", o->start_at, &config->guest.start_at);
	if (status == EXIT_OK)
		status = set_address(o, "stop-at", o->stop_at, &config->guest.stop_at);
	config->guest.symbols = o->symbols;
	if (status == EXIT_OK && o->vm && o->recorder && o->recorder != PTAH_RECORDER_VM)
		status = wrong(o, "--vm is the recorder vm, not %s",
			       ptah_recorder_name((unsigned)o->recorder));
	if (o->vm)
		config->backend.kind = PTAH_RECORDER_VM;
	if (status == EXIT_OK && config->backend.kind != PTAH_RECORDER_VM &&
	    (o->symbols || o->cr3 || o->start_at || o->stop_at))
		status = wrong(o, "--symbols, --cr3, --start-at and --stop-at go with --vm alone");
	if (config->backend.kind == PTAH_RECORDER_VM && !o->events.count)
		config->trace.os = config->trace.user = true;
	return status;
}

/* Sets what depends on no other option. Returns an exit code. */
static int set_plain(const struct record_options *o, char **argv, struct ptah_record_config *config)
{
	const uint64_t period = o->psb_period;

	if (period && ((period & (period - 1)) || period < 2048 || period > 64 << 20))
		return wrong(o,
			     "PSB period %" PRIu64 ": it must be a power of two from 2048 to "
			     "67108864 bytes",
			     period);
	if (o->output && !strcmp(o->output, "-"))
		return wrong(o,
			     "-o -: a recording is completed at its end and cannot go into a pipe; "
			     "name a file");
	if (o->qemu && (o->vm || o->recorder == PTAH_RECORDER_VM))
		return wrong(o, "--qemu=%s: with --vm the command itself is QEMU", o->qemu);
	if ((o->qemu || o->plugin) && o->recorder && o->recorder != PTAH_RECORDER_QEMU &&
	    o->recorder != PTAH_RECORDER_VM)
		return wrong(o, "--qemu and --plugin are the recorder qemu's, not %s's",
			     ptah_recorder_name((unsigned)o->recorder));
	config->output.path = o->output;
	config->target.argv = argv[0] ? argv : NULL;
	config->backend.kind = (enum ptah_recorder_kind)o->recorder;
	config->backend.clock = (enum ptah_record_clock)o->clock;
	ptah_record_trace_default(&config->trace);
	if (period)
		config->trace.psb_period = (uint8_t)(__builtin_ctzll(period) - 11);
	config->trace.no_retcomp = o->no_retcomp;
	config->backend.long_tnt = o->long_tnt;
	config->backend.mark_loops = o->mark_loops;
	config->backend.truth = o->truth;
	config->backend.no_syscalls = o->no_syscalls;
	config->target.no_inherit = o->no_inherit;
	config->output.kcore = o->kcore;
	config->output.no_jit_copies = o->no_jit_copies;
	config->target.per_thread = o->target.per_thread;
	config->backend.qemu = o->qemu;
	config->backend.plugin = o->plugin;
	return set_time_resolution(o, config);
}

int record_configure(const struct record_options *o, char **argv, struct ptah_record_config *config,
		     struct filters *filters, struct triggers *triggers, int64_t *delay)
{
	int status = set_plain(o, argv, config);

	if (status == EXIT_OK)
		status = set_max_size(o, config);
	if (status == EXIT_OK)
		status = set_machine(o, config);
	if (status == EXIT_OK)
		status = set_buffer(o, config);
	if (status == EXIT_OK)
		status = set_delay(o, config, delay);
	if (status == EXIT_OK)
		status = set_events(o, config, triggers);
	if (status == EXIT_OK)
		status = target_parse(o->command, &o->target, config);
	if (status == EXIT_OK && config->target.kind == PTAH_RECORD_COMMAND && !config->target.argv)
		status = fail_options(o->command, "no command to record");
	if (status == EXIT_OK && config->target.kind != PTAH_RECORD_COMMAND &&
	    (o->on_crash || o->on_failure))
		status = wrong(o, "--%s is for commands, whose end is known",
			       o->on_crash ? "on-crash" : "on-failure");
	/* The variable only says where the plugin is; it does not choose the recorder qemu. */
	if (!config->backend.plugin && config->target.kind == PTAH_RECORD_COMMAND &&
	    (config->backend.kind <= PTAH_RECORDER_QEMU ||
	     config->backend.kind == PTAH_RECORDER_NATIVE))
		config->backend.plugin = getenv("PTAH_PLUGIN");
	if (status == EXIT_OK)
		status = set_filters(o, config, filters);
	return status == EXIT_OK ? set_triggers(o, config, triggers) : status;
}
