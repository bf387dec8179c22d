/* SPDX-License-Identifier: MIT */
/*
 * Code with how often it ran: functions, their instructions, conditional branches and lines of
 * source code, from counts and, where there is a recording, from the order of the outcomes.
 *
 *	annotation_new(&(struct annotation_config){.counts = counts, .names = names}, &a);
 *	for (size_t i = 0; i < a->function_count; i++) {
 *		annotate_code(a, &a->functions[i], &code);
 *		use(code.rows, code.count);
 *		annotate_code_free(&code);
 *	}
 *	annotation_free(a);
 *
 * Places do not depend on where processes mapped a file: a place in a file is an offset in it, and
 * all processes that ran the file are added up. Other code (generated, of [vdso]) is of one
 * process and one version (profile.h), and its places are addresses; the kernel's are of all
 * processes.
 */
#ifndef PTAH_OUTPUT_ANNOTATE_H
#define PTAH_OUTPUT_ANNOTATE_H

#include "output/names.h"
#include "output/outcomes.h"

#include <ptah/symbol.h>

struct annotate_object {
	const char *path;  /* as recorded, NULL: unknown */
	const char *shown; /* its last part, or "[unknown]"; fit for a terminal */
	int32_t pid;	   /* of code that is in no file; -1: of all processes */
	uint64_t version;  /* the same */
	bool is_file;
	bool changed; /* the file that has this path now is not the one that ran */
	const struct ptah_counts_file *build; /* one of its files in the counts; NULL: none */
};

/* A block that was counted. */
struct annotate_piece {
	uint32_t object;
	uint32_t process; /* of the counts, one that ran it */
	uint64_t at, end; /* its place */
	uint64_t ip;	  /* its address in that process */
	uint64_t version; /* of its code there */
	uint64_t count, taken, unknown;
	uint64_t target; /* the place to which its direct branch goes; with has_target */
	uint16_t ninsn;
	uint8_t mode, insn_class, last_size;
	bool has_target;
};

/* A conditional branch that was executed. */
struct annotate_branch {
	uint32_t object;
	uint64_t at, target;
	uint64_t executed, taken;
	uint64_t unknown; /* how often its outcome is not in the trace; part of executed */
	uint64_t missed;  /* by the simulated predictor; see annotation.predicted */
	uint32_t process; /* one that ran it, with its address and version there */
	uint64_t ip, version;
};

struct annotate_function {
	uint32_t object;
	uint64_t start, end; /* places */
	const char *symbol;  /* as it is shown; NULL: code without a name */
	const char *section; /* of code without a name, where that is known */
	const char *mangled; /* as in the file */
	uint32_t process;    /* one that ran it, with the function's address and version there */
	uint64_t ip, version;
	/* Of code that is in no file: since and until when it was there (TSC), where other code was
	 * there before or after it; else 0. What did not change counts for the version in which it
	 * came. */
	uint64_t since, until;
	uint64_t instructions;	   /* executed */
	uint64_t branches, missed; /* conditional branches executed and missed */
};

struct annotation_config {
	const struct ptah_counts *counts;
	struct names *names; /* which use the counts */
	/* The order of the outcomes; NULL: it is not known. */
	const struct ptah_session *session;
	const struct outcomes *outcomes;
};

struct annotation {
	struct annotation_config config;
	struct annotate_object *objects;
	struct annotate_piece *pieces;	     /* by object and place */
	struct annotate_function *functions; /* the most instructions first */
	struct annotate_branch *branches;    /* by object and place */
	size_t object_count, piece_count, function_count, branch_count;
	uint64_t instructions, executed, missed; /* of all functions; conditional branches */
	bool predicted;				 /* there is a simulation */
	const struct annotate_function **by_place;
	struct ptah_functions *generated; /* lines of generated code; NULL: there is no session */
	struct annotate_bytes *bytes;	  /* of code that is in no file, by object and place */
	size_t byte_count;
};

/* 0 or an error. What the config names must live as long as the annotation. */
int annotation_new(const struct annotation_config *config, struct annotation **annotation);
void annotation_free(struct annotation *annotation);

/* The branch at a place; NULL: it was not executed. */
const struct annotate_branch *annotation_branch(const struct annotation *annotation,
						uint32_t object, uint64_t at);

/*
 * The object of a file; `build` has its build id; NULL: any. NO_OBJECT: nothing of it ran. The
 * other function finds those of code that is in no file, of one version, from number `from` on.
 */
#define NO_OBJECT UINT32_MAX
uint32_t annotation_find_file(const struct annotation *a, const char *path,
			      const struct ptah_counts_file *build);
uint32_t annotation_find_other(const struct annotation *a, int32_t pid, uint64_t version,
			       uint32_t from);

/* The first piece of an object that begins at `at` or after it. */
size_t annotation_piece_at(const struct annotation *annotation, uint32_t object, uint64_t at);

/* The function that holds a place; NULL: none that ran does. */
const struct annotate_function *annotation_function(const struct annotation *annotation,
						    uint32_t object, uint64_t at);

/* An instruction of a function, executed or not; or a part whose bytes are not known. */
struct annotate_row {
	uint64_t at;
	uint64_t executed;
	uint8_t size; /* of the instruction, at most 15; 0: its bytes are not known */
	uint8_t mode;
	bool is_code; /* false: no instruction begins with these bytes */
	uint8_t bytes[15];
	const char *file;		      /* NULL: unknown */
	uint32_t line;			      /* 0: none */
	const struct annotate_branch *branch; /* or NULL */
};

struct annotate_code {
	struct annotate_row *rows;
	size_t count;
	uint64_t slide; /* address as objdump shows it = place + slide */
	bool cut;	/* the function is longer than 4 MB, and the rest is left out */
	bool no_bytes;	/* the code is not available: a row for each block that ran */
	bool rewritten; /* other instructions ran at the same places at other times */
	bool has_lines;
};

int annotate_code(const struct annotation *annotation, const struct annotate_function *function,
		  struct annotate_code *code);
void annotate_code_free(struct annotate_code *code);

/* "main+0x10" without the object; the address where no symbol is known. `f` may be NULL. */
const char *annotate_label(const struct annotate_function *f, uint64_t at, char *text, size_t size);

enum annotate_text_options {
	ANNOTATE_ATT = 1 << 0,	   /* AT&T syntax instead of Intel's */
	ANNOTATE_MANGLED = 1 << 1, /* names as they are in the file */
};

/* The text of an instruction, with the function that a direct branch goes to. */
void annotate_instruction(const struct annotation *annotation,
			  const struct annotate_function *function,
			  const struct annotate_code *code, const struct annotate_row *row,
			  unsigned options, char *text, size_t size);

/* The place that a direct branch, jump or call goes to. False: it is no such instruction. */
bool annotate_target(const struct annotate_code *code, const struct annotate_row *row,
		     uint64_t *target);

/* A line of source code in a function. */
struct annotate_line {
	uint32_t object;
	const char *file;
	uint32_t line;
	const struct annotate_function *function; /* the one with the most of its instructions */
	uint64_t instructions;			  /* executed in all */
	/* How often it was executed; see annotate_lines.c for what that is in optimised code. */
	uint64_t executed;
};

/*
 * The lines of a function, or of all functions (NULL), by object, file and line. Code without lines
 * is left out. The caller frees *lines. 0 or an error.
 */
int annotate_lines(const struct annotation *annotation, const struct annotate_function *function,
		   struct annotate_line **lines, size_t *n);

#endif
