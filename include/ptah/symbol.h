/* SPDX-License-Identifier: MIT */
/*
 * Symbols: function names for places in files.
 *
 * A place is a path and an offset in that file; it does not depend on where a
 * process mapped the file. Names come from .symtab, .dynsym, PLT relocations and
 * separate debug files (by build id or debug link, from the local machine only).
 * In stripped files .eh_frame gives the bounds of functions but no names: these
 * are reported with `named` false.
 *
 *	ptah_symbols_new(NULL, &symbols);
 *	if (ptah_symbols_lookup(symbols, "/bin/true", 0x2000, &symbol))
 *		puts(symbol.name);
 *	ptah_symbols_free(symbols);
 *
 * One resolver per thread.
 */
#ifndef PTAH_SYMBOL_H
#define PTAH_SYMBOL_H

#include <ptah/base.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

PTAH_BEGIN_DECLS

struct ptah_session;

/*
 * The bounds of a function in memory, as ptah_functions_find() finds them and calls.h uses them.
 *
 * A function may consist of several pieces, such as the one that compilers expect to run and the
 * one that they do not (".cold"), and other functions may lie between these. So there are two
 * answers to "which function is it?": the piece that holds the address, and where the function
 * that the piece belongs to is entered.
 */

enum ptah_function_flags {
	/* Code of a procedure linkage table: it jumps to the function, or to the resolver. */
	PTAH_FUNCTION_STUB = 1 << 0,
	/*
	 * The dynamic linker's code that the linkage table jumps to at a first call. It leaves by a
	 * jump to the function that it has found.
	 */
	PTAH_FUNCTION_RESOLVER = 1 << 1,
	/* A piece that lies apart from its function and is reached by jumps, such as ".cold". */
	PTAH_FUNCTION_FRAGMENT = 1 << 2,
	/* With FRAGMENT: which function it belongs to is not known. `start` is that of the piece.
	 */
	PTAH_FUNCTION_NO_PARENT = 1 << 3,
	/* The file has no symbol here: the bounds come from its unwind information (.eh_frame). */
	PTAH_FUNCTION_FRAME = 1 << 4,
	/*
	 * Only the section or the mapping that holds the address is known, and that no known
	 * function is in [low, high): there may be several that have neither symbol nor frame.
	 */
	PTAH_FUNCTION_SECTION = 1 << 5,
	PTAH_FUNCTION_KERNEL = 1 << 6, /* of the kernel or one of its modules */
	PTAH_FUNCTION_JIT = 1 << 7,    /* generated while the program ran */
	/*
	 * It exchanges stacks: where it goes to, other than to its caller, another coroutine,
	 * goroutine or thread runs (swapcontext, runtime.gogo).
	 */
	PTAH_FUNCTION_SWITCH = 1 << 8,
	/*
	 * It gives up its caller and continues in a caller of that one, never in its own
	 * (_Unwind_Resume).
	 */
	PTAH_FUNCTION_UNWINDS = 1 << 9,
	/* It may return again later, without being called (setjmp). */
	PTAH_FUNCTION_TWICE = 1 << 10,
};

struct ptah_function {
	/* The piece of the function that holds the address. The answer is the same for all of it.
	 */
	uint64_t low, high;
	/* The address where the function is entered, which identifies it in its address space. */
	uint64_t start;
	uint32_t flags; /* enum ptah_function_flags */
	/*
	 * Other functions were at `start` at other times, and this is not the one of the end: the
	 * number of marks of its calls has this version (see struct ptah_call_mark). 0: it is.
	 */
	uint16_t version;
	uint16_t reserved;
};

struct ptah_symbols;

struct ptah_symbol {
	const char *name; /* not demangled; lives as long as the resolver */
	uint64_t start;	  /* file offset of the function's first byte */
	uint64_t size;	  /* 0: unknown */
	bool named;	  /* false: bounds from .eh_frame or section, `name` is made up (fn_5a20) */
};

/* `symfs` as in session.h, may be NULL. */
PTAH_API int ptah_symbols_new(const char *symfs, struct ptah_symbols **symbols);
PTAH_API void ptah_symbols_free(struct ptah_symbols *symbols);

/*
 * Where the file `path` is on this machine, if it is not where the path says, or NULL. The result is
 * used before the next call.
 */
typedef const char *ptah_symbols_locator(void *context, const char *path);

/*
 * Reports how far the debug file of `file`, or that file itself, has come; `total` is 0 while it is
 * not known. In the last call, which comes whether there is such a file or not, both are
 * UINT64_MAX. False: give it up.
 */
typedef bool ptah_fetch_progress(void *context, const char *file, uint64_t done, uint64_t total);

/* Further places of files. NULL or false: as before. */
struct ptah_symbols_search {
	size_t size;	   /* sizeof(struct ptah_symbols_search) */
	const char *cache; /* perf's cache of files by build id (~/.debug), for debug files */
	/* To be set before the first look-up. The locator's paths are taken as they are. */
	ptah_symbols_locator *locate;
	void *locate_context;
	/*
	 * Ask debuginfod servers for debug files: those in the environment variable DEBUGINFOD_URLS,
	 * for which libdebuginfod has the rules. Otherwise no network is used. Lines and inlined
	 * functions then fetch the debug file of the file that they are asked for, where this machine
	 * has none; names do so by ptah_symbols_fetch() alone.
	 */
	bool fetch;
	ptah_fetch_progress *fetch_progress; /* or NULL */
	void *fetch_context;
};

/* PTAH_E_UNSUPPORTED: files are to be fetched, and libdebuginfod is not installed. */
PTAH_API int ptah_symbols_search(struct ptah_symbols *symbols,
				 const struct ptah_symbols_search *search);

/*
 * Fetches the debug file of `path`, where that is allowed and has not been tried before. Returns 1
 * when it is there now: a function may have another name than before. 0 when nothing is new.
 */
PTAH_API int ptah_symbols_fetch(struct ptah_symbols *symbols, const char *path);

/*
 * Fetches the file itself by its build id, where that is allowed. Returns where it is, which the
 * caller frees, or NULL.
 */
PTAH_API char *ptah_symbols_fetch_file(struct ptah_symbols *symbols, const char *path,
				       const uint8_t *id, size_t size);

/* The function that holds the byte at `file_offset` of `path`. false: not known. */
PTAH_API bool ptah_symbols_lookup(struct ptah_symbols *symbols, const char *path,
				  uint64_t file_offset, struct ptah_symbol *symbol);

/*
 * The bounds in memory of the function that holds the byte at `file_offset` of `path`, which is at
 * `address` there. false: not known. PTAH_FUNCTION_SECTION: the file has no function here.
 *
 * A `path` of NULL is the kernel, of which `address` alone counts and names were added below. Lists
 * like /proc/kallsyms have no sizes: a function ends where the next symbol begins, and a label in the
 * middle of a function is taken for one.
 */
PTAH_API bool ptah_symbols_bounds(struct ptah_symbols *symbols, const char *path,
				  uint64_t file_offset, uint64_t address,
				  struct ptah_function *function);

/*
 * Finds functions by name, including aliases and static functions: *symbol is
 * number `which` of those with that name, in the order of their offsets. Where no
 * function has the name, those are meant that have it when demangled, with or
 * without parameters. Returns
 * how many there are, or a negative enum ptah_error. *symbol is not written when
 * there is none, or when `which` is too large. PTAH_E_BAD_MAGIC when the path
 * leads to no x86-64 ELF file. symbol->name is `name`.
 */
PTAH_API int ptah_symbols_find(struct ptah_symbols *symbols, const char *path, const char *name,
			       unsigned which, struct ptah_symbol *symbol);

/*
 * Lines of source code
 *
 * They come from DWARF 2 to 5 in the file or in its debug file, which is read when the first line
 * of the file is asked for, and then unit by unit as needed. Programs of Go without it have lines
 * in a table for their own use, without columns and statements. Strings live as long as the
 * resolver.
 */

/* `size` bytes from the file offset `start` on are of one line. */
struct ptah_line {
	uint64_t start, size;
	const char *file; /* with its folder; NULL when the compiler named no line of any file */
	uint32_t line;	  /* 0: these bytes are of no line of the file */
	uint32_t column;  /* from 1 on; 0: unknown */
	bool statement;	  /* a good place for a breakpoint: a statement begins at `start` */
};

/* The line of the byte at `file_offset` of `path`. False: not known. */
PTAH_API bool ptah_symbols_line(struct ptah_symbols *symbols, const char *path,
				uint64_t file_offset, struct ptah_line *line);

/* A function that the compiler has put into another one instead of a call. */
struct ptah_inline {
	const char *name; /* mangled if the debug information has that, else plain; never NULL */
	const char *call_file;		 /* where it is called; NULL: unknown */
	uint32_t call_line, call_column; /* 0: unknown */
	const char *file;		 /* where it is declared; NULL: unknown */
	uint32_t line;			 /* 0: unknown */
};

/* Compilers stop at a fraction of this. Of a deeper chain, the innermost are reported. */
#define PTAH_INLINES_MAX 256

/*
 * The functions that were inlined at the byte at `file_offset`, the innermost first, at most `n`.
 * The byte is of ptah_symbols_line() in frames[0], which was called at frames[0].call_line in
 * frames[1], and so on; the last was called in the function of ptah_symbols_lookup(). Returns how
 * many there are: 0 also when nothing is known.
 */
PTAH_API size_t ptah_symbols_inlines(struct ptah_symbols *symbols, const char *path,
				     uint64_t file_offset, struct ptah_inline *frames, size_t n);

/*
 * The function that holds the byte at `file_offset`, into which others may be inlined, as the debug
 * information describes it: *function has its name and where it is declared. False: not known.
 */
PTAH_API bool ptah_symbols_function(struct ptah_symbols *symbols, const char *path,
				    uint64_t file_offset, struct ptah_inline *function);

/* Takes one line. False: no more are wanted. */
typedef bool ptah_line_visit(void *context, const struct ptah_line *line);

/*
 * Visits the lines of the bytes [start, start + size) of a file, or of all its code when `size` is
 * UINT64_MAX, by ascending offsets, which do not overlap. Bytes without a line are left out. A line
 * is cut off where the range ends. Returns 0, PTAH_E_MISSING when the file has no debug
 * information that could be found, PTAH_E_BAD_MAGIC when it is no x86-64 ELF file, PTAH_E_BAD_FILE
 * when the debug information is malformed, PTAH_E_LIMIT when it is too large, or PTAH_E_NOMEM.
 */
PTAH_API int ptah_symbols_lines(struct ptah_symbols *symbols, const char *path, uint64_t start,
				uint64_t size, ptah_line_visit *visit, void *context);

/*
 * Visits the places of one line of source code. `file` is the whole path, or its last parts: "a.c"
 * and "src/a.c" are "/home/me/src/a.c", "c.c" is not. When the line itself has no code, the next
 * one of the file that has is taken. Returns the line whose places were visited, 0 when there is
 * none, or a status as above.
 */
PTAH_API int ptah_symbols_find_line(struct ptah_symbols *symbols, const char *path,
				    const char *file, uint32_t line, ptah_line_visit *visit,
				    void *context);

/*
 * The file that the lines of `path` come from: `path` itself on this machine, or its debug file.
 * NULL when there is none; *status (may be NULL) is then one of ptah_symbols_lines().
 */
PTAH_API const char *ptah_symbols_debug_file(struct ptah_symbols *symbols, const char *path,
					     int *status);

/*
 * Demangling
 *
 * Names of C++ and Rust (its old and its new scheme) become readable: "_ZN3foo3barEi" is
 * "foo::bar(int)", or "foo::bar" without PTAH_DEMANGLE_PARAMETERS, as in perf and nm -C. The name
 * may come from a stranger: time and length are bounded, and what would be longer than `size` stays
 * mangled.
 */
enum ptah_demangle {
	PTAH_DEMANGLE_PARAMETERS = 1, /* with the types of parameters; names of Rust have none */
};

/*
 * The readable form of `name`, in `text`; `name` itself when it is not mangled, or in a way that is
 * not known. What a compiler or linker has appended (".cold", "@plt", "@@GLIBC_2.2.5") is kept.
 */
PTAH_API const char *ptah_symbol_demangle(const char *name, unsigned flags, char *text,
					  size_t size);

/*
 * Whether a user who writes `wanted` means the function `name`. Yes if it is the name as it stands,
 * or demangled with or without its parameters.
 */
PTAH_API bool ptah_symbol_matches(const char *name, const char *wanted);

/* A function of the kernel, or of one of its modules. */
struct ptah_kernel_symbol {
	const char *name;   /* lives until other names are added */
	const char *module; /* "[ext4]"; "": the kernel itself */
	uint64_t start, size;
};

/*
 * Reads the names of the kernel's functions from a file in the format of
 * /proc/kallsyms; `path` is taken as it is, without symfs. The kernel may have run
 * at other addresses than the file has (KASLR): *address is where it had the symbol
 * `reference` ("_text"), 0 for as in the file, and receives what is used. Modules
 * are left out if the addresses differ. What was added before is forgotten.
 * PTAH_E_SYSTEM (errno) when the file cannot be opened, PTAH_E_BAD_FILE when it does
 * not have the symbol, PTAH_E_EMPTY when it hides the addresses.
 */
PTAH_API int ptah_symbols_add_kallsyms(struct ptah_symbols *symbols, const char *path,
				       const char *reference, uint64_t *address);

/* What is taken from vmlinux. */
enum ptah_vmlinux {
	PTAH_VMLINUX_NAMES = 1 << 0, /* its symbols, as from kallsyms */
	/*
	 * Lines and inlined functions, from the file or from its debug file. The functions above then
	 * know the kernel by the path PTAH_KERNEL_CODE, and its "file offsets" are addresses: those
	 * of the file, moved up by `slide`. The file is read when the first of them is asked for.
	 * Modules have no lines. Only the first call counts.
	 */
	PTAH_VMLINUX_LINES = 1 << 1,
	PTAH_VMLINUX_MAX = 1 << 2
};

#define PTAH_KERNEL_CODE "[kernel.kallsyms]"

/*
 * The same from the ELF file of a kernel at `path` (taken as it is, without symfs), whose addresses
 * are moved up by `slide`. `what`: enum ptah_vmlinux. PTAH_E_BAD_MAGIC when its symbols are wanted
 * and it is no x86-64 ELF file.
 */
PTAH_API int ptah_symbols_add_vmlinux(struct ptah_symbols *symbols, const char *path,
				      uint64_t slide, unsigned what);

/* The function of the kernel that holds the byte at `address`. false: not known. */
PTAH_API bool ptah_symbols_lookup_kernel(const struct ptah_symbols *symbols, uint64_t address,
					 struct ptah_kernel_symbol *symbol);

/* An executable segment of an ELF file: `size` bytes from `offset` on are mapped at `address`. */
struct ptah_elf_segment {
	uint64_t offset, address, size;
};

/*
 * The executable segments of the file at `path`, where ptah_image_add_elf(path, base) puts them.
 * Returns how many (*segments is the caller's to free), PTAH_E_BAD_MAGIC when it is no x86-64 ELF
 * file, or PTAH_E_NOMEM.
 */
PTAH_API int ptah_elf_segments(const char *path, uint64_t base, struct ptah_elf_segment **segments);

/* What the loadable segments of an ELF file span, in its own addresses, to whole pages. */
struct ptah_elf_extent {
	uint64_t address, end;
	uint64_t entry;
	uint64_t at; /* the address of the file's byte that was asked for */
};

/* False when it is no x86-64 ELF file, or has no executable segment with the byte at `offset`. */
PTAH_API bool ptah_elf_extent(const char *path, uint64_t offset, struct ptah_elf_extent *extent);

/*
 * The variable of an ELF file that has the byte at `address`, in the file's own addresses: its name,
 * which is cut at `size`, and how far from its beginning the byte is. False: its symbols have none
 * there. Each call reads them all.
 */
PTAH_API bool ptah_elf_variable(const char *path, uint64_t address, char *name, size_t size,
				uint64_t *offset);

/*
 * Functions: which function an address of a recorded process belongs to.
 *
 *	struct ptah_functions *functions;
 *	struct ptah_function f;
 *
 *	ptah_functions_new(session, &functions);
 *	if (ptah_functions_find(functions, space, ip, tsc, &f))
 *		printf("%#" PRIx64 " is in the function at %#" PRIx64 "\n", ip, f.start);
 *	ptah_functions_free(functions);
 *
 * Bounds and names come from the files that the process had mapped and, in the kernel,
 * from its list of symbols. What is found is kept, so that a second look-up is fast. Different
 * threads may use one finder at the same time.
 */

struct ptah_functions;

/* The session must live as long as the finder. */
PTAH_API int ptah_functions_new(const struct ptah_session *session,
				struct ptah_functions **functions);
PTAH_API void ptah_functions_free(struct ptah_functions *functions);

/*
 * The bounds of the function that was at `address` in `space` (as in ptah_session_find_map()) at
 * time `tsc`, 0: at the end. With PTAH_FUNCTION_SECTION only the bounds of what is around it are
 * known. false: nothing is known.
 */
PTAH_API bool ptah_functions_find(struct ptah_functions *functions, int32_t space, uint64_t address,
				  uint64_t tsc, struct ptah_function *function);

/*
 * What the code at an address is called. Of a function of a file, path and offset are the same
 * wherever and in however many processes the file was mapped.
 */
struct ptah_function_name {
	const char *name; /* not demangled; NULL: not known. Lives as long as the finder */
	bool named;	  /* false: there is no symbol, and `name` is made up (fn_5a20) */
	const char
	    *path;	/* of the mapping, as in struct ptah_map; or a module ("[ext4]"); or NULL */
	uint64_t start; /* the address that has the name; without a name, the address itself */
	uint64_t file_offset; /* of `start`, if `path` is that of a file */
};

/* Returns false when neither name nor path is known. The name of a function is that of its start.
 */
PTAH_API bool ptah_functions_name(struct ptah_functions *functions, int32_t space, uint64_t address,
				  uint64_t tsc, struct ptah_function_name *name);

/*
 * The line of source code of generated code, from the jitdump that has it; file NULL and line 0 are
 * never reported. `file` lives as long as the session and the finder, and may have characters that
 * must not reach a terminal. Those of files have <ptah/symbol.h>.
 */
struct ptah_function_line {
	const char *file;
	uint32_t line;
};

/* False: the address has no generated code, or the line is not known. */
PTAH_API bool ptah_functions_line(struct ptah_functions *functions, int32_t space, uint64_t address,
				  uint64_t tsc, struct ptah_function_line *line);

PTAH_END_DECLS

#endif
