/* SPDX-License-Identifier: MIT */
/*
 * Names for addresses of a session: the function, the offset in it, and the file.
 * Each address is looked up once and remembered, because blocks repeat.
 */
#ifndef PTAH_OUTPUT_NAMES_H
#define PTAH_OUTPUT_NAMES_H

#include <ptah/counts.h>
#include <ptah/session.h>
#include <ptah/symbol.h>

struct name {
	uint64_t ip;
	uint64_t tsc;	     /* as of when, as in ptah_session_find_map(); 0: the names' time */
	const char *symbol;  /* as it is shown: demangled, without parameters. NULL: not known */
	const char *mangled; /* as in the file: two functions of one file have different ones */
	uint64_t offset;     /* from the symbol's start */
	const char *path;    /* NULL: not known */
	const char *dso;     /* the last part of the path, or "[unknown]" */
	uint64_t start;	     /* the address where the function begins; ip if it is not known */
	bool named;	     /* false: the symbol is made up from the address */
	uint64_t place;	     /* of ip: its offset in the file, or ip itself if it is in no file */
	bool generated;	     /* while the program ran, so that other code may have been there */
	bool varies;	     /* there was another file as well: it is not remembered */
	/*
	 * Where <ptah/symbol.h> finds lines and inlined functions: a file and the offset in it, or
	 * the kernel and an address. NULL: nowhere, or the file is not the one that ran.
	 */
	const char *code;
	uint64_t code_at;
};

struct names;

/*
 * Where the names of a kernel come from: the answer of ptah_session_kernel(), kept for when the
 * session is closed. All 0: nowhere.
 */
struct names_kernel {
	char kallsyms[4096], vmlinux[4096]; /* "": none */
	char symbol[64];
	uint64_t address, slide;
	uint8_t build_id[PTAH_BUILD_ID_MAX];
	uint8_t build_id_size; /* 0: unknown */
	/* What has names may be of other runs of this kernel, in which modules lay elsewhere. */
	bool no_modules;
};

void names_kernel_of(const struct ptah_session *session, struct names_kernel *kernel);

/* For names without a session. */
void names_use_kernel(struct names *names, const struct names_kernel *kernel);

/* What names_label() writes is never longer, the NUL included. */
#define NAMES_LABEL_MAX 4160

/* `session` may be NULL: then only counts that are added below are known. */
int names_new(const struct ptah_session *session, const char *symfs, struct names **names);
void names_free(struct names *names);

/* Names are shown as they are in the file. To be called before the first is looked up. */
void names_keep_mangled(struct names *names);

/* As struct ptah_symbols_search has it. */
int names_use_cache(struct names *names, const char *folder);
int names_use_debuginfod(struct names *names, ptah_fetch_progress *progress, void *context);

/* All names that are looked up are shown, so that debug files are fetched for all of them. */
void names_show_all(struct names *names);

/* A function without a name is about to be shown: its debug file may be fetched, and have one. */
void names_fetch(struct names *names, struct name *name);

/* `name` as it is shown. It lives as long as the names. */
const char *names_demangled(struct names *names, const char *name);

/*
 * Finds the mapping that holds an address, with the build id that its file has now.
 * A callback of ptah_counts_locate(), whose context is the struct names.
 */
bool names_find_file(void *names, int32_t pid, uint64_t address, uint64_t tsc,
		     struct ptah_counts_file *file);

/* The path of a file of counts or, of generated code, what all of its functions have in common. */
const char *names_object_path(struct names *names, const char *path);

/*
 * Takes the mappings from counts, which must live as long as the names. A pid of
 * the functions below is then the index of a process in the counts. A file whose
 * build id has changed gives no names, unless `force`. 0, or PTAH_E_NOMEM.
 */
int names_use_counts(struct names *names, const struct ptah_counts *counts, bool force);

/* The paths of the changed files, each once. NULL when i is out of range. */
const char *names_changed_file(const struct names *names, size_t i);

/*
 * Finds in which file an address lay at a time, and where: with the maps of counts, where they are
 * used. *changed: the file that has this path now is not the one that ran. False when nothing is
 * known.
 */
bool names_find_place(struct names *names, int32_t pid, uint64_t ip, uint64_t tsc,
		      struct ptah_map *map, bool *changed);

/*
 * The path of a file on this machine: below symfs, or of a copy where another file or none is
 * there. The caller frees it. NULL when out of memory.
 */
char *names_local_path(const struct names *names, const char *path);

/* Where the names of files come from, for lines of source code. */
struct ptah_symbols *names_symbols(const struct names *names);

/*
 * From now on addresses at which there was other code at other times, which was generated or is of
 * files that were mapped one after the other, have the names of this time; 0: the end.
 */
void names_set_time(struct names *names, uint64_t tsc);

/*
 * The name of an address at the names' time, never NULL. It is valid until the next call for
 * another process.
 */
const struct name *names_find(struct names *names, int32_t pid, uint64_t ip);

/* The same in a version of the code, as counts have it (profile.h). */
const struct name *names_find_version(struct names *names, int32_t pid, uint64_t ip,
				      uint64_t version);

/*
 * The line of source code of an address, as of the name's time. `name` is what names_find() has
 * just returned for it, or a copy with another place in the same function. Of generated code, only
 * file and line are set. False: not known.
 */
bool names_line(struct names *names, const struct name *name, struct ptah_line *line);

/*
 * Whether that is the name that somebody gave: as it is shown, demangled in another way, or
 * mangled; or another one that the function has in its file. Or another one that the function has
 * in its file?
 */
bool names_is(struct names *names, const struct name *name, const char *function);

/* Whether a function of this name begins at that offset of a file. */
bool names_is_alias(struct names *names, const char *path, uint64_t start, const char *function);

/*
 * Writes "main+0x10" into `text` and returns it; the address itself where no symbol is known.
 * `names` may be NULL.
 */
const char *names_label(struct names *names, int32_t pid, uint64_t ip, char *text, size_t size);
const char *names_label_version(struct names *names, int32_t pid, uint64_t ip, uint64_t version,
				char *text, size_t size);

#endif
