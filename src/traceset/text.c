/* SPDX-License-Identifier: MIT */
/*
 * Reads and writes trace sets as text, a ptah.trace: one entry a line. A table says which words a
 * line may have and which member of which struct each of them is; reading and writing both follow
 * it.
 */
#include "traceset/text.h"

#include "base/compiler.h"
#include "perfdata/message.h"
#include "traceset/set.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The memory that a set takes is some times its text. */
#define TEXT_MAX ((uint64_t)64 << 20)

/* How a word is written, and the type of the member that it is. */
enum type {
	PATH,	  /* const char *; relative to the folder where it lies below it */
	STRING,	  /* const char * */
	FLAG,	  /* bool: the word alone, without "=" */
	ID,	  /* int32_t; -1 is left out */
	NUMBER8,  /* uint8_t to uint64_t; 0 is left out */
	NUMBER16, /* ... */
	NUMBER32,
	NUMBER64,
	HEX64,	  /* the same, written in hexadecimal */
	SPACE,	  /* uint64_t; PTAH_SPACE_ANY is left out */
	SIGNED64, /* int64_t; 0 is left out */
	COMM,	  /* char[16] */
	BUILD_ID, /* as in struct ptah_trace_code */
	CPU,	  /* struct ptah_cpu: 6/158/10 */
};

struct field {
	const char *name; /* NULL: the word that stands alone, which the line needs */
	enum type type;
	size_t offset;
	bool needed;
};

struct kernel_line {
	const char *kcore, *kallsyms;
};

struct vdso_line {
	const char *paths[PTAH_TRACE_VDSO_MAX];
};

/* Addresses [from, to); to 0: up to the end. */
struct range_line {
	uint64_t from, to;
};

struct root_line {
	const char *folder;
};

struct note_line {
	const char *text;
};

struct version_line {
	uint32_t version;
};

/* Every struct of the set's begins with its size. */
union entry {
	size_t size;
	struct ptah_trace_stream stream;
	struct ptah_trace_code code;
	struct ptah_trace_thread thread;
	struct ptah_trace_switch change;
	struct ptah_trace_sideband sideband;
	struct ptah_trace_event event;
	struct ptah_trace_processor processor;
	struct kernel_line kernel;
	struct vdso_line vdso;
	struct range_line range;
	struct root_line root;
	struct note_line note;
	struct version_line version;
};

#define FIELD(structure, name, type, member)                                                       \
	{                                                                                          \
		name, type, offsetof(struct structure, member), false                              \
	}
#define NEEDED(structure, name, type, member)                                                      \
	{                                                                                          \
		name, type, offsetof(struct structure, member), true                               \
	}
#define FILE_FIELDS(structure)                                                                     \
	NEEDED(structure, NULL, PATH, file.path), FIELD(structure, "from", HEX64, file.from),      \
	    FIELD(structure, "to", HEX64, file.to)
#define CODE_FIELDS                                                                                \
	FIELD(ptah_trace_code, "cr3", SPACE, space.cr3),                                           \
	    FIELD(ptah_trace_code, "vmcs", SPACE, space.vmcs),                                     \
	    FIELD(ptah_trace_code, "pid", ID, pid), FIELD(ptah_trace_code, "tsc", NUMBER64, tsc),  \
	    FIELD(ptah_trace_code, "recorded", STRING, recorded_path),                             \
	    FIELD(ptah_trace_code, "build-id", BUILD_ID, build_id)
#define END                                                                                        \
	{                                                                                          \
		NULL, FLAG, SIZE_MAX, false                                                        \
	}

static const struct field stream_fields[] = {FILE_FIELDS(ptah_trace_stream),
					     FIELD(ptah_trace_stream, "cpu", ID, cpu),
					     FIELD(ptah_trace_stream, "pid", ID, pid),
					     FIELD(ptah_trace_stream, "tid", ID, tid),
					     FIELD(ptah_trace_stream, "lost", NUMBER64, lost),
					     FIELD(ptah_trace_stream, "gap", FLAG, gap),
					     FIELD(ptah_trace_stream, "separate", FLAG, separate),
					     END};
static const struct field raw_fields[] = {FILE_FIELDS(ptah_trace_code),
					  NEEDED(ptah_trace_code, "address", HEX64, address),
					  CODE_FIELDS, END};
static const struct field elf_fields[] = {NEEDED(ptah_trace_code, NULL, PATH, file.path),
					  FIELD(ptah_trace_code, "base", HEX64, address),
					  CODE_FIELDS, END};
static const struct field pages_fields[] = {NEEDED(ptah_trace_code, NULL, PATH, file.path),
					    CODE_FIELDS, END};
static const struct field thread_fields[] = {NEEDED(ptah_trace_thread, "tid", ID, tid),
					     FIELD(ptah_trace_thread, "pid", ID, pid),
					     FIELD(ptah_trace_thread, "comm", COMM, comm), END};
static const struct field switch_fields[] = {
    NEEDED(ptah_trace_switch, "cpu", ID, cpu), FIELD(ptah_trace_switch, "tsc", NUMBER64, tsc),
    FIELD(ptah_trace_switch, "pid", ID, pid), FIELD(ptah_trace_switch, "tid", ID, tid), END};
static const struct field sideband_fields[] = {
    FILE_FIELDS(ptah_trace_sideband),
    FIELD(ptah_trace_sideband, "sample-type", HEX64, sample_type),
    FIELD(ptah_trace_sideband, "cpu", ID, cpu),
    FIELD(ptah_trace_sideband, "pid", ID, pid),
    FIELD(ptah_trace_sideband, "tid", ID, tid),
    FIELD(ptah_trace_sideband, "tsc-offset", SIGNED64, tsc_offset),
    FIELD(ptah_trace_sideband, "primary", FLAG, primary),
    END};
static const struct field event_fields[] = {
    NEEDED(ptah_trace_event, "id", NUMBER64, id),
    NEEDED(ptah_trace_event, "sample-type", HEX64, sample_type), END};
static const struct field processor_fields[] = {NEEDED(ptah_trace_processor, NULL, CPU, cpu), END};
static const struct field timing_fields[] = {
    FIELD(ptah_trace_processor, "mtc-period", NUMBER8, trace.mtc_period),
    FIELD(ptah_trace_processor, "cyc-threshold", NUMBER8, trace.cyc_threshold),
    FIELD(ptah_trace_processor, "tsc-n", NUMBER32, tsc_n),
    FIELD(ptah_trace_processor, "tsc-d", NUMBER32, tsc_d),
    FIELD(ptah_trace_processor, "nominal-ratio", NUMBER8, nominal_ratio),
    END};
static const struct field clock_fields[] = {
    FIELD(ptah_trace_processor, "shift", NUMBER16, time_shift),
    NEEDED(ptah_trace_processor, "mult", NUMBER32, time_mult),
    FIELD(ptah_trace_processor, "zero", NUMBER64, time_zero), END};
static const struct field traced_fields[] = {
    FIELD(ptah_trace_processor, "kernel", FLAG, trace.os),
    FIELD(ptah_trace_processor, "no-tnt", FLAG, trace.no_tnt),
    FIELD(ptah_trace_processor, "no-retcomp", FLAG, trace.no_retcomp),
    FIELD(ptah_trace_processor, "event-trace", FLAG, trace.event_trace), END};
static const struct field range_fields[] = {NEEDED(range_line, "from", HEX64, from),
					    NEEDED(range_line, "to", HEX64, to), END};
static const struct field kernel_fields[] = {FIELD(kernel_line, "kcore", PATH, kcore),
					     FIELD(kernel_line, "kallsyms", PATH, kallsyms), END};
static const struct field root_fields[] = {NEEDED(root_line, NULL, PATH, folder), END};
static const struct field vdso_fields[] = {
    FIELD(vdso_line, "64", PATH, paths[PTAH_TRACE_VDSO_64]),
    FIELD(vdso_line, "32", PATH, paths[PTAH_TRACE_VDSO_32]),
    FIELD(vdso_line, "x32", PATH, paths[PTAH_TRACE_VDSO_X32]), END};
static const struct field note_fields[] = {NEEDED(note_line, NULL, STRING, text), END};
static const struct field version_fields[] = {NEEDED(version_line, NULL, NUMBER32, version), END};

struct parser {
	const char *name;
	unsigned line;
	bool has_version;
	struct ptah_trace_set *set;
	struct ptah_trace_processor processor; /* what the lines of it add up to */
	size_t ranges;
	struct ptah_message *why;
};

static int bad(const struct parser *p, const char *format, ...) PRINTF_LIKE(2, 3);

static int bad(const struct parser *p, const char *format, ...)
{
	char text[768];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return perfdata_message(p->why, PTAH_E_BAD_FILE, "%s:%u: %s", p->name, p->line, text);
}

static int add_text_stream(struct parser *p, const union entry *e)
{
	return ptah_trace_set_add_stream(p->set, &e->stream);
}

static int add_text_code(struct parser *p, const union entry *e)
{
	return ptah_trace_set_add_code(p->set, &e->code);
}

static int add_text_thread(struct parser *p, const union entry *e)
{
	return ptah_trace_set_add_thread(p->set, &e->thread);
}

static int add_text_switch(struct parser *p, const union entry *e)
{
	return ptah_trace_set_add_switch(p->set, &e->change);
}

static int add_sideband(struct parser *p, const union entry *e)
{
	return ptah_trace_set_add_sideband(p->set, &e->sideband);
}

static int add_text_event(struct parser *p, const union entry *e)
{
	return ptah_trace_set_add_event(p->set, &e->event);
}

static int set_processor(struct parser *p, const union entry *e)
{
	p->processor = e->processor;
	return ptah_trace_set_processor(p->set, &p->processor);
}

static int set_clock(struct parser *p, const union entry *e)
{
	p->processor = e->processor;
	p->processor.has_clock = true;
	return ptah_trace_set_processor(p->set, &p->processor);
}

static int add_text_range(struct parser *p, const union entry *e, uint8_t mode)
{
	if (p->ranges == PTAH_RANGES)
		return bad(p, "more than %u ranges, and no processor has so many", PTAH_RANGES);
	p->processor.trace.ranges[p->ranges++] =
	    (struct ptah_range){e->range.from, e->range.to - 1, mode};
	return ptah_trace_set_processor(p->set, &p->processor);
}

static int add_text_filter(struct parser *p, const union entry *e)
{
	return add_text_range(p, e, PTAH_RANGE_FILTER);
}

static int add_stop(struct parser *p, const union entry *e)
{
	return add_text_range(p, e, PTAH_RANGE_STOP);
}

static int set_kernel(struct parser *p, const union entry *e)
{
	const struct ptah_trace_system system = {
	    .size = sizeof(system), .kcore = e->kernel.kcore, .kallsyms = e->kernel.kallsyms};

	return ptah_trace_set_system(p->set, &system);
}

static int set_root(struct parser *p, const union entry *e)
{
	const struct ptah_trace_system system = {.size = sizeof(system), .root = e->root.folder};

	return ptah_trace_set_system(p->set, &system);
}

static int set_filter(struct parser *p, const union entry *e)
{
	const struct ptah_trace_system system = {.size = sizeof(system), .filter = e->note.text};

	return ptah_trace_set_system(p->set, &system);
}

static int set_vdso(struct parser *p, const union entry *e)
{
	struct ptah_trace_system system = {.size = sizeof(system)};

	memcpy(system.vdso, e->vdso.paths, sizeof(system.vdso));
	return ptah_trace_set_system(p->set, &system);
}

static int add_text_note(struct parser *p, const union entry *e)
{
	return trace_set_note(p->set, e->note.text);
}

static int check_version(struct parser *p, const union entry *e)
{
	if (e->version.version != 1)
		return bad(p, "version %" PRIu32 " of the format, but this Ptah knows version 1",
			   e->version.version);
	p->has_version = true;
	return 0;
}

struct line {
	const char *word;
	const struct field *fields;
	int (*take)(struct parser *parser, const union entry *entry);
	const char *rule; /* what is wrong when the values do not fit together */
	uint8_t kind;	  /* of code */
};

#define PIECE_RULE "its bytes end before they begin"
#define CODE_RULE                                                                                  \
	"code belongs to a process (pid) or to an address space (cr3, vmcs), and ends where the "  \
	"addresses end"
#define TIMING_RULE                                                                                \
	"mtc-period and cyc-threshold are numbers up to 15, of which the processor makes powers "  \
	"of two"
#define CLOCK_RULE "a clock has a shift below 64 and a mult above 0"
#define RANGE_RULE "the range ends before it begins"
#define FILTER_RULE                                                                                \
	"up to four ranges belong there, as \"filter 0x1149/0x2a@/bin/x\", with numbers and no "   \
	"names"

static const struct line lines[] = {
    {TRACESET_MAGIC, version_fields, check_version, "", 0},
    {"processor", processor_fields, set_processor, "", 0},
    {"timing", timing_fields, set_processor, TIMING_RULE, 0},
    {"clock", clock_fields, set_clock, CLOCK_RULE, 0},
    {"traced", traced_fields, set_processor, "", 0},
    {"filter", range_fields, add_text_filter, RANGE_RULE, 0},
    {"stop", range_fields, add_stop, RANGE_RULE, 0},
    {"filter-text", note_fields, set_filter, FILTER_RULE, 0},
    {"kernel", kernel_fields, set_kernel, "a path is empty", 0},
    {"root", root_fields, set_root, "a path is empty", 0},
    {"vdso", vdso_fields, set_vdso, "a path is empty", 0},
    {"stream", stream_fields, add_text_stream, PIECE_RULE, 0},
    {"raw", raw_fields, add_text_code, PIECE_RULE ", or " CODE_RULE, PTAH_TRACE_CODE_RAW},
    {"elf", elf_fields, add_text_code, CODE_RULE, PTAH_TRACE_CODE_ELF},
    {"pe", elf_fields, add_text_code, CODE_RULE, PTAH_TRACE_CODE_PE},
    {"pages", pages_fields, add_text_code, CODE_RULE, PTAH_TRACE_CODE_PAGES},
    {"thread", thread_fields, add_text_thread, "a thread's tid is above 0", 0},
    {"switch", switch_fields, add_text_switch, "a CPU's number is not negative", 0},
    {"sideband", sideband_fields, add_sideband, PIECE_RULE, 0},
    {"event", event_fields, add_text_event, "", 0},
    {"note", note_fields, add_text_note, "a note has a text", 0},
};

static bool is_end(const struct field *f)
{
	return f->offset == SIZE_MAX;
}

static const struct line *find_line(const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		if (!strcmp(lines[i].word, word))
			return &lines[i];
	return NULL;
}

/* Words */

static int hex_digit(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
				      : -1;
}

/* Takes what follows a backslash. Returns the character, 0: it is none. */
static char unescape(const char **at)
{
	static const char letters[] = "\\\\\"\"n\nt\tr\r";
	const char c = *(*at)++;
	int high, low;

	if (c == 'x') {
		high = hex_digit(**at);
		low = high < 0 ? -1 : hex_digit((*at)[1]);
		if (low < 0)
			return 0;
		*at += 2;
		return (char)(high << 4 | low);
	}
	for (size_t i = 0; letters[i]; i += 2)
		if (letters[i] == c)
			return letters[i + 1];
	return 0;
}

/* A word of a line: NAME, NAME=VALUE or VALUE. VALUE may be in quotation marks. */
struct word {
	char *text;  /* NAME, or VALUE if it stands alone */
	char *value; /* what follows "="; NULL: there is none */
};

/* Takes a quoted text from *from, and writes it to *to. */
static int take_quoted(const struct parser *p, const char **from, char **to)
{
	for ((*from)++; **from != '"'; (*to)++) {
		char c = *(*from)++;

		if (!c)
			return bad(p, "a quotation mark (\") is missing at the end of the text");
		if (c == '\\') {
			c = unescape(from);
			if (!c)
				return bad(p, "after a backslash in quotation marks stand \\, \", "
					      "n, t, r, or x and two hexadecimal digits, not 00");
		}
		**to = c;
	}
	(*from)++;
	return 0;
}

/* Takes the next word from *at on. 1, 0 at the end of the line, or an error. */
static int next_word(const struct parser *p, char **at, struct word *word)
{
	const char *from = *at + strspn(*at, " \t");
	char *to = *at;
	bool ends;

	*word = (struct word){.text = to};
	if (!*from || *from == '#') {
		*at += strlen(*at);
		return 0;
	}
	while (*from && *from != ' ' && *from != '\t') {
		if (*from == '"') {
			int status = take_quoted(p, &from, &to);

			if (status < 0)
				return status;
			continue;
		}
		/* A quoted "=" is part of a text. */
		if (*from == '=' && !word->value && to > word->text) {
			word->value = to + 1;
			*to++ = '\0';
			from++;
			continue;
		}
		*to++ = *from++;
	}
	ends = !*from;
	*at = (char *)(uintptr_t)from + !ends;
	*to = '\0';
	return 1;
}

/* Values */

static bool parse_number(const char *text, uint64_t most, uint64_t *number)
{
	const unsigned base = !strncmp(text, "0x", 2) || !strncmp(text, "0X", 2) ? 16 : 10;

	text += base == 16 ? 2 : 0;
	*number = 0;
	if (!*text)
		return false;
	for (; *text; text++) {
		const int digit = hex_digit(*text);

		if (digit < 0 || (unsigned)digit >= base ||
		    *number > (most - (unsigned)digit) / base)
			return false;
		*number = *number * base + (unsigned)digit;
	}
	return true;
}

static bool parse_signed(const char *text, int64_t *number)
{
	const bool minus = *text == '-';
	uint64_t n;

	if (!parse_number(text + minus, (uint64_t)INT64_MAX + minus, &n))
		return false;
	*number = (int64_t)(minus ? -n : n);
	return true;
}

static bool parse_build_id(const char *text, struct ptah_trace_code *code)
{
	size_t n = strlen(text);

	if (n % 2 || n > 2 * sizeof(code->build_id))
		return false;
	for (size_t i = 0; i < n / 2; i++) {
		const int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		code->build_id[i] = (uint8_t)(high << 4 | low);
	}
	code->build_id_size = (uint8_t)(n / 2);
	return true;
}

static uint64_t most_of(enum type type)
{
	return type == NUMBER8	  ? UINT8_MAX
	       : type == NUMBER16 ? UINT16_MAX
	       : type == NUMBER32 ? UINT32_MAX
	       : type == ID	  ? INT32_MAX
				  : UINT64_MAX;
}

/* Stores a number in a member of its type. */
static void store_member(void *member, enum type type, uint64_t number)
{
	switch (type) {
	case NUMBER8:
		*(uint8_t *)member = (uint8_t)number;
		break;
	case NUMBER16:
		*(uint16_t *)member = (uint16_t)number;
		break;
	case NUMBER32:
		*(uint32_t *)member = (uint32_t)number;
		break;
	case ID:
		*(int32_t *)member = (int32_t)number;
		break;
	default:
		*(uint64_t *)member = number;
		break;
	}
}

static int set_number(const struct parser *p, const struct field *f, const char *value,
		      void *member)
{
	const bool any = f->type == ID && !strcmp(value, "-1");
	uint64_t number = 0;

	if (any || parse_number(value, most_of(f->type), &number)) {
		store_member(member, f->type, any ? UINT64_MAX : number);
		return 0;
	}
	return bad(p, "%s=%s: a number up to %" PRIu64 " belongs there, in decimal or with 0x",
		   f->name ? f->name : "", value, most_of(f->type));
}

/* Sets the member of an entry to a value. `value` NULL: the word is a flag. */
static int set_field(const struct parser *p, const struct field *f, char *value, union entry *e)
{
	void *member = (char *)e + f->offset;

	switch (f->type) {
	case FLAG:
		*(bool *)member = true;
		return 0;
	case PATH:
	case STRING:
		*(const char **)member = value;
		return *value ? 0 : bad(p, "%s is empty", f->name ? f->name : "the text");
	case COMM:
		/* The kernel keeps 15 characters of a name. */
		memset(member, 0, sizeof(e->thread.comm));
		memcpy(member, value, strnlen(value, sizeof(e->thread.comm) - 1));
		return 0;
	case SIGNED64:
		return parse_signed(value, member)
			   ? 0
			   : bad(p, "%s=%s: a number belongs there", f->name, value);
	case BUILD_ID:
		return parse_build_id(value, &e->code)
			   ? 0
			   : bad(p, "build-id=%s: up to %d bytes in hexadecimal belong there",
				 value, PTAH_BUILD_ID_MAX);
	case CPU:
		return ptah_cpu_parse(value, member) >= 0
			   ? 0
			   : bad(p,
				 "%s: it takes FAMILY/MODEL or FAMILY/MODEL/STEPPING, as "
				 "6/158/10",
				 value);
	default:
		return set_number(p, f, value, member);
	}
}

/* Reading */

/* Lists the words that a line takes, for a message. */
static const char *list_words(const struct line *line, char *text, size_t size)
{
	size_t n = 0;

	text[0] = '\0';
	for (const struct field *f = line->fields; !is_end(f) && n < size; f++)
		if (f->name)
			n += (size_t)snprintf(text + n, size - n, "%s%s%s", n ? ", " : "", f->name,
					      f->type == FLAG ? "" : "=");
	return text;
}

static int fail_word(const struct parser *p, const struct line *line, const struct word *word)
{
	char words[256];

	if (line->fields[0].name == NULL && !line->fields[1].name)
		return bad(p,
			   "%s takes one word; a text with blanks, \"=\" or \"#\" stands in "
			   "quotation marks",
			   line->word);
	return bad(p,
		   "\"%.100s%s\" is not a word of %s, which takes %s; a name with blanks, "
		   "\"=\" or \"#\" stands in quotation marks",
		   word->text, word->value ? "=" : "", line->word,
		   list_words(line, words, sizeof(words)));
}

/* The field that a word sets. SIZE_MAX: none. */
static size_t field_of(const struct line *line, const struct word *word, uint32_t seen)
{
	for (size_t i = 0; !is_end(&line->fields[i]); i++) {
		const struct field *f = &line->fields[i];

		if (f->name ? !strcmp(f->name, word->text) && (f->type == FLAG) == !word->value
			    : !word->value && !(seen & 1u << i))
			return i;
	}
	return SIZE_MAX;
}

static int check_needed(const struct parser *p, const struct line *line, uint32_t seen)
{
	for (size_t i = 0; !is_end(&line->fields[i]); i++) {
		const struct field *f = &line->fields[i];

		if (!f->needed || seen & 1u << i)
			continue;
		return f->name ? bad(p, "%s needs %s=", line->word, f->name)
			       : bad(p, "%s needs %s", line->word,
				     f->type == PATH	 ? "the path of a file"
				     : f->type == CPU	 ? "a processor, as 6/158/10"
				     : f->type == STRING ? "a text"
							 : "a number");
	}
	return 0;
}

/* The entry before its words are read. */
static void begin_entry(const struct parser *p, const struct line *line, union entry *e)
{
	memset(e, 0, sizeof(*e));
	for (const struct field *f = line->fields; !is_end(f); f++) {
		if (f->type == ID)
			store_member((char *)e + f->offset, ID, UINT64_MAX);
		else if (f->type == SPACE)
			store_member((char *)e + f->offset, SPACE, PTAH_SPACE_ANY);
	}
	if (line->take == add_text_code)
		e->code.kind = line->kind;
	if (line->take == set_processor || line->take == set_clock)
		e->processor = p->processor;
	else if (line->fields != range_fields && line->fields != kernel_fields &&
		 line->fields != note_fields && line->fields != version_fields &&
		 line->fields != vdso_fields)
		e->size = sizeof(*e);
}

static int read_words(struct parser *p, const struct line *line, char *at)
{
	union entry entry;
	uint32_t seen = 0;
	struct word word;
	int status;

	begin_entry(p, line, &entry);
	while ((status = next_word(p, &at, &word)) > 0) {
		const size_t i = field_of(line, &word, seen);

		if (i == SIZE_MAX)
			return fail_word(p, line, &word);
		if (seen & 1u << i)
			return bad(p, "%s= stands there twice", word.text);
		seen |= 1u << i;
		status =
		    set_field(p, &line->fields[i], word.value ? word.value : word.text, &entry);
		if (status < 0)
			return status;
	}
	if (status >= 0)
		status = check_needed(p, line, seen);
	if (status >= 0)
		status = line->take(p, &entry);
	return status == PTAH_E_INVAL ? bad(p, "%s: %s", line->word, line->rule) : status;
}

static int read_line(struct parser *p, char *at)
{
	const struct line *line;
	struct word word;
	int status = next_word(p, &at, &word);

	if (status <= 0)
		return status;
	line = word.value ? NULL : find_line(word.text);
	if (!line)
		return bad(p,
			   "\"%.100s\" begins no line; these do: processor, timing, clock, "
			   "traced, filter, stop, filter-text, kernel, root, vdso, stream, raw, "
			   "elf, pe, pages, thread, switch, sideband, event, note",
			   word.text);
	if (p->has_version == (line->take == check_version))
		return bad(p, p->has_version ? "a second \"" TRACESET_MAGIC "\""
					     : "the first line must be \"" TRACESET_MAGIC
					       " 1\": this is no trace set");
	return read_words(p, line, at);
}

int traceset_parse_text(const char *name, char *text, size_t n, struct ptah_trace_set *set,
			struct ptah_message *why)
{
	struct parser p = {.name = name, .set = set, .why = why};
	int status = 0;

	p.processor.size = sizeof(p.processor);
	text[n] = '\0';
	for (char *at = text, *end; at < text + n && status >= 0; at = end + 1) {
		end = memchr(at, '\n', (size_t)(text + n - at));
		end = end ? end : text + n;
		p.line++;
		*end = '\0';
		if (strlen(at) != (size_t)(end - at))
			return bad(&p, "a byte 0, which is no text");
		if (end > at && end[-1] == '\r')
			end[-1] = '\0';
		status = read_line(&p, at);
	}
	if (status >= 0 && !p.has_version)
		status = bad(&p, "the first line must be \"" TRACESET_MAGIC
				 " 1\": this is no trace set");
	return status;
}

/* Reads as much of the file as there is, and one byte more if it has grown. */
static int read_all(int fd, const char *path, char *text, size_t size, size_t *n,
		    struct ptah_message *why)
{
	for (*n = 0; *n < size;) {
		ssize_t got = read(fd, text + *n, size - *n);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return perfdata_system_message(why, errno, path, "read");
		if (!got)
			return 0;
		*n += (size_t)got;
	}
	return 0;
}

int traceset_read_text(const char *path, struct ptah_trace_set *set, struct ptah_message *why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), status;
	struct stat st;
	char *text = NULL;
	size_t n = 0;

	if (fd < 0)
		return perfdata_system_message(why, errno, path, "open");
	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		status = perfdata_message(why, PTAH_E_BAD_FILE, "%s: not a regular file", path);
	else if ((uint64_t)st.st_size > TEXT_MAX)
		status = perfdata_message(why, PTAH_E_LIMIT,
					  "%s: %" PRIu64 " MiB of text, more than the %" PRIu64
					  " that are read",
					  path, (uint64_t)st.st_size >> 20, TEXT_MAX >> 20);
	else {
		text = malloc((size_t)st.st_size + 1);
		status =
		    text ? read_all(fd, path, text, (size_t)st.st_size, &n, why) : PTAH_E_NOMEM;
	}
	close(fd);
	if (status >= 0)
		status = traceset_parse_text(path, text, n, set, why);
	free(text);
	return status;
}

/* Writing */

struct writer {
	FILE *file;
	const char *folder; /* of the text */
};

static bool is_plain(const char *text)
{
	if (!*text)
		return false;
	for (; *text; text++)
		if (!isalnum((unsigned char)*text) && !strchr("_./+:,@%-~", *text))
			return false;
	return true;
}

static void put_text(const struct writer *w, const char *text)
{
	if (is_plain(text)) {
		fputs(text, w->file);
		return;
	}
	fputc('"', w->file);
	for (; *text; text++) {
		const unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(w->file, "\\%c", c);
		else if (c < ' ' || c == 0x7f)
			fprintf(w->file, "\\x%02x", c);
		else
			fputc(c, w->file);
	}
	fputc('"', w->file);
}

static void put_text_path(const struct writer *w, const char *path)
{
	const size_t n = strlen(w->folder);

	/* What begins with "./" would be read as something shorter. */
	if (!strncmp(path, w->folder, n) && path[n] == '/' && path[n + 1] && path[n + 1] != '/' &&
	    strncmp(path + n + 1, "./", 2) != 0)
		path += n + 1;
	put_text(w, strcmp(path, w->folder) ? path : ".");
}

static uint64_t load_member(const void *member, enum type type)
{
	switch (type) {
	case NUMBER8:
		return *(const uint8_t *)member;
	case NUMBER16:
		return *(const uint16_t *)member;
	case NUMBER32:
		return *(const uint32_t *)member;
	case ID:
		return (uint64_t) * (const int32_t *)member;
	case FLAG:
		return *(const bool *)member;
	default:
		return *(const uint64_t *)member;
	}
}

/* Whether the member has the value that it gets when the word is left out. */
static bool is_default(const struct field *f, const void *member)
{
	switch (f->type) {
	case PATH:
	case STRING:
		return !*(const char *const *)member;
	case COMM:
		return !*(const char *)member;
	case BUILD_ID:
		return !((const struct ptah_trace_code *)(const void *)((const char *)member -
									f->offset))
			    ->build_id_size;
	case CPU:
		return !((const struct ptah_cpu *)member)->family;
	case ID:
	case SPACE:
		return load_member(member, f->type) == UINT64_MAX;
	default:
		return !load_member(member, f->type);
	}
}

static void put_build_id(const struct writer *w, const struct ptah_trace_code *code)
{
	for (size_t i = 0; i < code->build_id_size; i++)
		fprintf(w->file, "%02x", code->build_id[i]);
}

static void put_value(const struct writer *w, const struct field *f, const void *entry)
{
	const void *member = (const char *)entry + f->offset;
	const struct ptah_cpu *cpu = member;

	switch (f->type) {
	case PATH:
		put_text_path(w, *(const char *const *)member);
		break;
	case STRING:
		put_text(w, *(const char *const *)member);
		break;
	case COMM:
		put_text(w, member);
		break;
	case BUILD_ID:
		put_build_id(w, entry);
		break;
	case CPU:
		fprintf(w->file, "%u/%u/%u", cpu->family, cpu->model, cpu->stepping);
		break;
	case HEX64:
	case SPACE:
		fprintf(w->file, "0x%" PRIx64, load_member(member, f->type));
		break;
	case ID:
	case SIGNED64:
		fprintf(w->file, "%" PRId64, (int64_t)load_member(member, f->type));
		break;
	default:
		fprintf(w->file, "%" PRIu64, load_member(member, f->type));
		break;
	}
}

/* Writes a line. Words that are not needed and have their default value are left out. */
static void put_text_line(const struct writer *w, const char *word, const void *entry)
{
	const struct line *line = find_line(word);

	fputs(word, w->file);
	for (const struct field *f = line->fields; !is_end(f); f++) {
		if (!f->needed && is_default(f, (const char *)entry + f->offset))
			continue;
		fprintf(w->file, " %s%s", f->name ? f->name : "",
			f->name && f->type != FLAG ? "=" : "");
		if (f->type != FLAG)
			put_value(w, f, entry);
	}
	fputc('\n', w->file);
}

/* Writes a line if one of its words does not have its default value. */
static void put_line_if(const struct writer *w, const char *word, const void *entry)
{
	const struct line *line = find_line(word);

	for (const struct field *f = line->fields; !is_end(f); f++) {
		if (!is_default(f, (const char *)entry + f->offset)) {
			put_text_line(w, word, entry);
			return;
		}
	}
}

static void put_processor(const struct writer *w, const struct ptah_trace_processor *p)
{
	put_line_if(w, "processor", p);
	put_line_if(w, "timing", p);
	if (p->has_clock)
		put_text_line(w, "clock", p);
	put_line_if(w, "traced", p);
	for (size_t i = 0; i < PTAH_RANGES; i++) {
		const struct ptah_range *r = &p->trace.ranges[i];
		const struct range_line range = {r->first, r->last + 1};

		if (r->mode)
			put_text_line(w, r->mode == PTAH_RANGE_FILTER ? "filter" : "stop", &range);
	}
}

static void put_filter(const struct writer *w, const char *filter)
{
	char *text = filter ? traceset_move_filter(filter, NULL, w->folder) : NULL;

	if (text)
		put_text_line(w, "filter-text", &(const struct note_line){text});
	free(text);
}

void traceset_write_text(const struct ptah_trace_set *set, const char *folder, FILE *file)
{
	const struct writer writer = {file, folder}, *w = &writer;
	static const char *const code[PTAH_TRACE_CODE_MAX] = {"raw", "elf", "pe", "pages"};
	const struct kernel_line kernel = {set->kcore, set->kallsyms};
	const struct root_line root = {set->root};
	const struct version_line version = {1};
	struct vdso_line vdso;

	put_text_line(w, TRACESET_MAGIC, &version);
	put_processor(w, &set->processor);
	put_filter(w, set->filter);
	put_line_if(w, "kernel", &kernel);
	put_line_if(w, "root", &root);
	memcpy(vdso.paths, set->vdso, sizeof(vdso.paths));
	put_line_if(w, "vdso", &vdso);
	for (size_t i = 0; i < set->stream_count; i++)
		put_text_line(w, "stream", &set->streams[i]);
	for (size_t i = 0; i < set->code_count; i++)
		put_text_line(w, code[set->code[i].kind], &set->code[i]);
	for (size_t i = 0; i < set->thread_count; i++)
		put_text_line(w, "thread", &set->threads[i]);
	for (size_t i = 0; i < set->switch_count; i++)
		put_text_line(w, "switch", &set->switches[i]);
	for (size_t i = 0; i < set->sideband_count; i++)
		put_text_line(w, "sideband", &set->sideband[i]);
	for (size_t i = 0; i < set->event_count; i++)
		put_text_line(w, "event", &set->events[i]);
	for (size_t i = 0; i < set->note_count; i++)
		put_text_line(w, "note", &(const struct note_line){set->notes[i]});
}

char *traceset_folder_of(const char *path)
{
	char *full = realpath(path, NULL), *folder;
	struct stat st;

	if (full && (stat(full, &st) < 0 || S_ISDIR(st.st_mode)))
		return full;
	/* A file that does not exist yet lies in the folder that its path names. */
	if (!full)
		full = strdup(path);
	folder = full ? realpath(dirname(full), NULL) : NULL;
	free(full);
	return folder;
}

static bool is_same(const struct stat *file, const char *path)
{
	struct stat st;

	return path && !stat(path, &st) && st.st_dev == file->st_dev && st.st_ino == file->st_ino;
}

/* Whether this is a file that the set names, so that writing the set would destroy it. */
static bool is_named(const struct ptah_trace_set *set, const char *path)
{
	const char *last = NULL; /* the pieces of a file mostly follow each other */
	struct stat st;
	bool found;

	if (stat(path, &st) < 0)
		return false;
	found = is_same(&st, set->kcore) || is_same(&st, set->kallsyms);
	for (size_t i = 0; i < PTAH_TRACE_VDSO_MAX && !found; i++)
		found = is_same(&st, set->vdso[i]);
	for (size_t i = 0; i < set->sideband_count && !found; i++)
		found = is_same(&st, set->sideband[i].file.path);
	for (size_t i = 0; i < set->code_count && !found; i++)
		found = is_same(&st, set->code[i].file.path);
	for (size_t i = 0; i < set->stream_count && !found; i++) {
		found =
		    set->streams[i].file.path != last && is_same(&st, set->streams[i].file.path);
		last = set->streams[i].file.path;
	}
	return found;
}

/* A device, such as /dev/stdout, stays. */
static void remove_file(const char *path)
{
	struct stat st;

	if (!stat(path, &st) && S_ISREG(st.st_mode))
		unlink(path);
}

static int save_trace_set(const struct ptah_trace_set *set, const char *path,
			  struct ptah_message *why)
{
	char *folder;
	int status = 0;
	FILE *file;

	if (!set || !path)
		return PTAH_E_INVAL;
	if (is_named(set, path))
		return perfdata_message(why, PTAH_E_INVAL,
					"%s: the set names this file, and writing the set there "
					"would destroy it",
					path);
	folder = traceset_folder_of(path);
	file = folder ? fopen(path, "we") : NULL;
	if (!file) {
		status = perfdata_system_message(why, errno, path, "write");
		free(folder);
		return status;
	}
	traceset_write_text(set, folder, file);
	if (ferror(file))
		status = perfdata_system_message(why, EIO, path, "write");
	if (fclose(file) && status >= 0)
		status = perfdata_system_message(why, errno, path, "write");
	if (status < 0)
		remove_file(path);
	free(folder);
	return status;
}

int ptah_trace_set_save(const struct ptah_trace_set *set, const char *path,
			struct ptah_message *why)
{
	perfdata_message_begin(why);
	return perfdata_message_end(why, save_trace_set(set, path, why));
}
