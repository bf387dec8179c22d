/* SPDX-License-Identifier: MIT */
/* ptah asm: a trace from packet text. */
#include "input.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct options {
	const char *output;
};

static const struct option_def asm_options[] = {
    {.name = "output",
     .letter = 'o',
     .kind = OPTION_TEXT,
     .at = offsetof(struct options, output),
     .arg = "FILE",
     .complete = COMPLETE_FILE,
     .help = "write to FILE instead of standard output",
     .man = "Write to *FILE* instead of standard output. It is written as *FILE*.N.tmp "
	    "and renamed at the end; when the text is wrong, and after Ctrl-C, *FILE* is left as "
	    "it was."},
    {0},
};

/* No packet needs nearly as much, and `.bytes` can be split into many lines. */
#define LINE_SIZE 4096

struct source {
	FILE *file;
	const char *name;
	uint64_t line;
	char text[LINE_SIZE];
};

/* Reads the next line, without its newline. 1; 0 at the end of the file; -1 when a message has been
 * printed. */
static int read_asm_line(struct source *s)
{
	size_t n = 0;
	int c;

	s->line++;
	while ((c = getc_unlocked(s->file)) != EOF && c != '\n') {
		if (!c || n == sizeof(s->text) - 1) {
			fail(&command_asm, "%s:%" PRIu64 ": %s", s->name, s->line,
			     c ? "the line is longer than 4095 characters"
			       : "a byte 0: this is not a text");
			return -1;
		}
		s->text[n++] = (char)c;
	}
	s->text[n] = '\0';
	if (ferror(s->file) && !interrupted()) {
		fail(&command_asm, "%s: cannot read it: %s", s->name, strerror(errno));
		return -1;
	}
	return c != EOF || n;
}

/* Prints a message that quotes the wrong word. */
static int complain_asm(const struct source *s, const struct ptah_packet_parser *parser)
{
	char word[64];
	size_t n = strcspn(s->text + parser->at, " \t\r,#");

	snprintf(word, sizeof(word), "%.*s", (int)(n < 48 ? n : 48), s->text + parser->at);
	return fail(&command_asm, "%s:%" PRIu64 ":%zu: expected %s; there is %s%s%s", s->name,
		    s->line, parser->at + 1, parser->expected, word[0] ? "\"" : "",
		    word[0] ? word : "nothing", word[0] ? "\"" : "");
}

static int assemble(struct source *s, struct out *out)
{
	struct ptah_packet_parser parser = {0};
	uint8_t bytes[LINE_SIZE / 2];
	int more;

	while ((more = read_asm_line(s)) > 0 && !out_failed(out) && !interrupted()) {
		int size = ptah_packet_parse(&parser, s->text, bytes, sizeof(bytes));

		if (size == PTAH_E_INVAL)
			return complain_asm(s, &parser);
		if (size < 0)
			return fail(&command_asm, "%s:%" PRIu64 ": %s", s->name, s->line,
				    ptah_strerror(size));
		out_bytes(out, (const char *)bytes, (size_t)size);
	}
	return more < 0 ? EXIT_FAILED : EXIT_OK;
}

static int usage(const char *what)
{
	return fail_options(&command_asm, "%s", what);
}

static int run_asm(int argc, char **argv)
{
	static struct source source;
	struct options o = {0};
	struct out *out;
	int status, first = options_parse(&command_asm, argc, argv, &o, &status);

	if (first < 0)
		return status;
	if (argc - first != 1)
		return usage(argc == first ? "which text? Name a file, or - for standard input"
					   : "one text at a time");
	if (o.output && input_same_file(argv[first], o.output))
		return fail_usage(&command_asm,
				  "--output=%s: this is the text that is read; name another file",
				  o.output);
	if (!o.output && isatty(STDOUT_FILENO))
		return usage("a trace is nothing to look at: name a file with --output");
	source.name = argv[first];
	source.file = stdin;
	if (!strcmp(source.name, "-"))
		source.name = "standard input";
	else
		source.file = fopen(source.name, "re");
	if (!source.file)
		return fail(&command_asm, "%s: %s", source.name, strerror(errno));
	input_watch_signals();
	status = output_create(&command_asm, o.output, &out);
	if (!status) {
		status = assemble(&source, out);
		if (!status || interrupted())
			status = output_close(&command_asm, out, status);
		else
			out_abort(out);
	}
	if (source.file != stdin)
		fclose(source.file);
	return status;
}

const struct command command_asm = {
    .name = "asm",
    .usage = "[-o OUT] FILE|-",
    .summary = "a trace from packet text",
    .details = "Assembles text, one packet in a line, to the bytes of a trace: what 'ptah dump'\n"
	       "printed comes back byte for byte, and people can write traces by hand.\n"
	       "\n"
	       "  psb                     # names in any case; # begins a comment\n"
	       "  psbend\n"
	       "  tip.pge 0x401000        # compressed against the last IP; tip.pge.48 fixes it\n"
	       "  tnt TTNT                # the oldest first\n"
	       "  cyc 5000\n"
	       "  .bytes 02 ff            # any bytes",
    .options = (const struct option_def *const[]){asm_options, help_options, NULL},
    .operand = COMPLETE_FILE,
    .run = run_asm,
};
