/* SPDX-License-Identifier: MIT */
/*
 * Finds the kernel's code and the names of its functions: beside the recording (--kcore), in the
 * running kernel, in vmlinux, in perf's cache of files by build id.
 */
#include "session/records.h"

#include "perfdata/message.h"
#include "session/module_file.h"
#include "symbol/kallsyms.h"

#include <ptah/symbol.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void session_forget_kernel(struct kernel *k)
{
	struct process *lists[] = {&k->maps, &k->functions, &k->code};

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		free(lists[i]->changes);
		free(lists[i]->by_address);
		change_index_free(&lists[i]->index);
	}
	table_free(&k->programs);
	ptah_image_free(k->image);
	free(k->kallsyms);
	free(k->vmlinux);
}

void ptah_session_kernel(const struct ptah_session *s, struct ptah_kernel *kernel)
{
	const struct kernel *k = &s->kernel;

	*kernel = (struct ptah_kernel){.kallsyms = k->kallsyms,
				       .vmlinux = k->vmlinux,
				       .symbol = k->symbol[0] ? k->symbol : "_text",
				       .address = k->address,
				       .slide = k->slide,
				       .build_id_size = k->id.size};
	memcpy(kernel->build_id, k->id.bytes, sizeof(kernel->build_id));
}

/* vmlinux */

/* The address that the byte at `offset` of the file has in its executable segments. */
static bool address_of(const struct ptah_elf_segment *segments, int n, uint64_t offset,
		       uint64_t *address)
{
	for (int i = 0; i < n; i++) {
		if (offset - segments[i].offset < segments[i].size) {
			*address = segments[i].address + (offset - segments[i].offset);
			return true;
		}
	}
	return false;
}

/*
 * Adds the code of vmlinux, moved to where the recorded symbol was. PTAH_E_BAD_FILE: the file does
 * not have the symbol, or not the code. A virtual machine's code is in its recording, as it ran:
 * there vmlinux has names alone.
 */
static int add_vmlinux(struct ptah_session *s, const char *path)
{
	struct kernel *k = &s->kernel;
	const bool is_new = !k->image && !s->is_guest;
	struct ptah_elf_segment *segments = NULL;
	struct ptah_symbols *symbols;
	struct ptah_symbol symbol;
	uint64_t address = 0;
	int n = 0, status = ptah_symbols_new(NULL, &symbols);

	if (status < 0)
		return status;
	status = ptah_symbols_find(symbols, path, k->symbol, 0, &symbol);
	if (status > 0)
		status = n = ptah_elf_segments(path, 0, &segments);
	ptah_symbols_free(symbols);
	if (status >= 0 && !address_of(segments, n, symbol.start, &address))
		status = PTAH_E_BAD_FILE;
	k->slide = k->address - address;
	if (status >= 0 && is_new)
		status = ptah_image_new(&k->image);
	for (int i = 0; i < n && status >= 0 && !s->is_guest; i++)
		status = ptah_image_add_file(k->image, path, segments[i].offset, segments[i].size,
					     segments[i].address + k->slide, NULL);
	free(segments);
	if (status >= 0) {
		k->vmlinux = strdup(path);
		return k->vmlinux ? 0 : PTAH_E_NOMEM;
	}
	if (is_new) {
		ptah_image_free(k->image);
		k->image = NULL;
	}
	return status == PTAH_E_NOMEM ? status : PTAH_E_BAD_FILE;
}

/* The file that the caller named. What does not fit is an error. */
static int use_named_vmlinux(struct ptah_session *s, struct ptah_message *why)
{
	char was[2 * PERFDATA_BUILD_ID_MAX + 1], is_text[2 * PERFDATA_BUILD_ID_MAX + 1];
	const struct kernel *k = &s->kernel;
	const char *path = s->config.vmlinux;
	struct perfdata_build_id is;
	int status;

	if (perfdata_build_id_read(path, &is) < 0)
		return perfdata_system_message(why, errno, path, "open");
	if (k->id.size && !s->config.ignore_build_ids && !session_has_id(path, &k->id))
		return perfdata_message(
		    why, PTAH_E_CHANGED,
		    "%s is not the kernel that ran: its build id is %s, recorded was %s; name "
		    "another file with --vmlinux, or decode all the same with --force",
		    path, is.size ? perfdata_build_id_text(&is, is_text) : "missing",
		    perfdata_build_id_text(&k->id, was));
	if (!k->address)
		return session_note_format(s,
					   "%s is not used: the recording does not contain the "
					   "addresses of the kernel",
					   path);
	status = add_vmlinux(s, path);
	return status == PTAH_E_BAD_FILE
		   ? perfdata_message(why, status,
				      "%s: no ELF file of x86-64 with code and the symbol %s, from "
				      "which its place in memory is known",
				      path, k->symbol)
		   : status;
}

/* The i-th usual place of vmlinux; "": this one is not possible; NULL: out of memory, or the end.
 */
static char *usual_place(const struct ptah_session *s, unsigned i)
{
	/* %s: the release. As in perf (tools/perf/util/symbol.c, vmlinux_paths). */
	static const char *const places[] = {
	    "/boot/vmlinux-%s", "/usr/lib/debug/boot/vmlinux-%s", "/lib/modules/%s/build/vmlinux",
	    "/usr/lib/debug/lib/modules/%s/vmlinux", "/usr/lib/debug/boot/vmlinux-%s.debug"};
	const char *release = perfdata_osrelease(s->file);
	char id[2 * PERFDATA_BUILD_ID_MAX + 1], place[256] = "";

	perfdata_build_id_text(&s->kernel.id, id);
	if (i == 0 && *id)
		snprintf(place, sizeof(place), "/usr/lib/debug/.build-id/%.2s/%s.debug", id,
			 id + 2);
	else if (i > 0 && i <= ARRAY_SIZE(places) && *release && !strchr(release, '/'))
		snprintf(place, sizeof(place), places[i - 1], release);
	else if (i > ARRAY_SIZE(places))
		return NULL;
	return *place ? session_path(s, place) : strdup("");
}

/* 1: this file is used. Without a recorded build id the release in its name decides. */
static int try_vmlinux(struct ptah_session *s, const char *path)
{
	int status;

	if (s->kernel.id.size && !s->config.ignore_build_ids &&
	    !session_has_id(path, &s->kernel.id))
		return 0;
	status = add_vmlinux(s, path);
	return status == PTAH_E_BAD_FILE ? 0 : status < 0 ? status : 1;
}

/* Notes a file that lies where the kernel's would be and is another one. */
static int note_unfit(struct ptah_session *s, const char *path)
{
	char id[2 * PERFDATA_BUILD_ID_MAX + 1];
	struct perfdata_build_id is;

	if (!s->kernel.id.size || perfdata_build_id_read(path, &is) < 0 ||
	    session_has_id(path, &s->kernel.id))
		return 0;
	return session_note_format(s,
				   "%.120s is not used: it is not the kernel that ran (recorded "
				   "was build id %s)",
				   path, perfdata_build_id_text(&s->kernel.id, id));
}

static int search_vmlinux(struct ptah_session *s)
{
	const struct kernel *k = &s->kernel;
	char *path = ptah_build_id_find(s->config.build_id_cache, k->id.bytes, k->id.size);
	int status = path ? try_vmlinux(s, path) : 0;

	free(path);
	for (unsigned i = 0; !status && (path = usual_place(s, i)); i++) {
		status = *path ? try_vmlinux(s, path) : 0;
		if (!status && *path)
			status = note_unfit(s, path);
		free(path);
	}
	return status;
}

/* Modules */

/* More than any kernel has. */
#define MODULES_MAX 4096

/* The file of a module, and where it lay. 1: it is used. */
static int add_module(struct ptah_session *s, const struct change *c,
		      const struct kernel_exports *exports)
{
	struct perfdata_build_id id = c->id;
	const struct module_place place = {c->address, c->size, &id};
	const char *release = perfdata_osrelease(s->file);
	char *path;
	int status;

	if (!id.size)
		perfdata_find_build_id(s->file, c->path, &id);
	/* Without a build id the release in the path decides, as for vmlinux. */
	if (!id.size && (!*release || !strstr(c->path, release)))
		return 0;
	if (s->config.ignore_build_ids)
		id.size = 0;
	path = session_path(s, c->path);
	status = path ? module_file_add(s->kernel.image, path, &place, exports) : PTAH_E_NOMEM;
	free(path);
	if (status)
		return status;
	path = ptah_build_id_find(s->config.build_id_cache, id.bytes, id.size);
	status = path ? module_file_add(s->kernel.image, path, &place, exports) : 0;
	free(path);
	return status;
}

static int read_exports(const struct kernel *k, struct kernel_exports *exports)
{
	int status = PTAH_E_BAD_FILE;

	if (k->kallsyms)
		status = kernel_exports_read(exports, k->kallsyms, NULL, k->symbol, k->address, 0);
	if (status < 0 && status != PTAH_E_NOMEM) {
		kernel_exports_free(exports);
		status = kernel_exports_read(exports, NULL, k->vmlinux, NULL, 0, k->slide);
	}
	return status;
}

/* Whether an earlier record has the same path, which is the same pointer. */
static bool is_repeated(const struct process *maps, size_t i)
{
	size_t k = 0;

	while (maps->changes[k].path != maps->changes[i].path)
		k++;
	return k < i;
}

/* Adds the modules to the code of vmlinux. */
static int add_modules(struct ptah_session *s)
{
	const struct kernel *k = &s->kernel;
	struct kernel_exports exports = {0};
	size_t missing = 0, tried = 0;
	int status = 0;

	for (size_t i = 0; i < k->maps.count && i < MODULES_MAX && status >= 0; i++) {
		const struct change *c = &k->maps.changes[i];

		if (strncmp(c->path, "/lib/modules/", 13) != 0 || is_repeated(&k->maps, i))
			continue;
		if (!tried++)
			status = read_exports(k, &exports);
		if (status >= 0)
			status = add_module(s, c, &exports);
		missing += !status;
	}
	kernel_exports_free(&exports);
	if (status >= 0 && missing)
		return session_note_format(
		    s,
		    "%zu of %zu modules have no code: their files are missing, of another "
		    "build, or not .ko or .ko.zst",
		    missing, tried);
	return status == PTAH_E_NOMEM ? status : 0;
}

/* Code */

/* The copy beside the recording. A file that is no ELF file counts as missing. */
static int use_kcore(struct kernel *k, const char *kcore)
{
	int status = ptah_image_new(&k->image);

	if (status >= 0)
		status = ptah_image_add_elf(k->image, kcore, 0, NULL);
	return status == PTAH_E_NOMEM ? status : 0;
}

/* 1: the running kernel is the one that ran. */
static int use_running(struct ptah_session *s)
{
	struct ptah_image *image, *without = s->kernel.image;
	int status = without ? ptah_image_clone(without, &image) : ptah_image_new(&image);

	if (status < 0)
		return status;
	status = running_kernel_add_code(s, image);
	if (status > 0)
		s->kernel.image = image;
	ptah_image_free(status > 0 ? without : image);
	return status == PTAH_E_NOMEM ? status : status > 0;
}

static int note_no_code(struct ptah_session *s)
{
	char id[2 * PERFDATA_BUILD_ID_MAX + 1];

	/* Not from Linux: whoever wrote the recording knew the kernel's code. */
	if (!s->kernel.address && !*perfdata_osrelease(s->file))
		return session_note_format(s, "the recording does not say where the kernel lay: "
					      "only the code that it contains is decoded");
	if (!s->kernel.address)
		return session_note_format(
		    s, "the recording does not contain the addresses of the kernel "
		       "(kernel.kptr_restrict hid them): its code is not decoded; record as root");
	if (!s->kernel.id.size)
		return session_note_format(
		    s, "the kernel's code is not decoded: there is no copy beside the recording, "
		       "and no vmlinux of its release; record with --kcore, or name one with "
		       "--vmlinux");
	return session_note_format(
	    s,
	    "the kernel's code is not decoded: there is no copy beside the recording, and no "
	    "vmlinux with build id %s; record with --kcore, or name one with --vmlinux",
	    perfdata_build_id_text(&s->kernel.id, id));
}

static int note_vmlinux(struct ptah_session *s)
{
	return session_note_format(s,
				   "the kernel's code is that of %.120s: a kernel patches its "
				   "code when it starts, and a recording with --kcore has that",
				   s->kernel.vmlinux);
}

static int find_code(struct ptah_session *s, struct ptah_message *why)
{
	const char *kcore = perfdata_kcore(s->file);
	int status;

	if (s->config.vmlinux)
		return use_named_vmlinux(s, why);
	if (kcore)
		return use_kcore(&s->kernel, kcore);
	/* A virtual machine's code is in its recording. */
	if (s->kcore || s->is_guest || !perfdata_has_kernel(s->file))
		return 0;
	status = use_running(s);
	if (!status && s->kernel.address)
		status = search_vmlinux(s);
	if (status < 0)
		return status;
	if (!status)
		return note_no_code(s);
	return s->kernel.vmlinux ? note_vmlinux(s) : 0;
}

/* Names */

/* 1: the file is used; 0: it has no addresses. The path becomes the session's, or is freed. */
static int try_kallsyms(struct ptah_session *s, char *path, int *problem)
{
	const char *symbol = s->kernel.symbol[0] ? s->kernel.symbol : "_text";
	uint64_t address;

	if (!path)
		return 0;
	*problem = symbol_kallsyms_find(path, symbol, &address);
	if (*problem >= 0 && !address)
		*problem = PTAH_E_EMPTY;
	if (*problem >= 0) {
		s->kernel.kallsyms = path;
		if (s->is_set && !s->kernel.address)
			s->kernel.address = address;
		return 1;
	}
	/* vmlinux has names, too. */
	if (*problem == PTAH_E_EMPTY && (!s->kernel.vmlinux || s->config.kallsyms) &&
	    session_note_format(s,
				"%.120s hides the kernel's addresses: its functions have no "
				"names; read it as root, or set kernel.kptr_restrict to 0",
				path) < 0)
		*problem = PTAH_E_NOMEM;
	free(path);
	return 0;
}

static int use_named_kallsyms(struct ptah_session *s, const char *path, struct ptah_message *why)
{
	int problem = 0;

	if (try_kallsyms(s, strdup(path), &problem) > 0 || problem == PTAH_E_EMPTY)
		return 0;
	if (problem == PTAH_E_SYSTEM)
		return perfdata_system_message(why, errno, path, "open");
	return perfdata_message(why, PTAH_E_BAD_FILE,
				"%s: not in the format of /proc/kallsyms, or without the symbol %s",
				path, s->kernel.symbol[0] ? s->kernel.symbol : "_text");
}

static int find_names(struct ptah_session *s, struct ptah_message *why)
{
	const char *recorded = perfdata_kallsyms(s->file);
	int problem = 0;

	if (s->config.kallsyms || s->kallsyms)
		return use_named_kallsyms(s, s->config.kallsyms ? s->config.kallsyms : s->kallsyms,
					  why);
	if (recorded && try_kallsyms(s, strdup(recorded), &problem))
		return 0;
	if (!perfdata_has_kernel(s->file) || !s->kernel.address)
		return 0;
	if (try_kallsyms(s,
			 session_cached_path(s->config.build_id_cache, &s->kernel.id, "/kallsyms"),
			 &problem))
		return 0;
	if (running_kernel_fits(s))
		try_kallsyms(s, session_path(s, "/proc/kallsyms"), &problem);
	return problem == PTAH_E_NOMEM ? problem : 0;
}

int session_find_kernel(struct ptah_session *s, struct ptah_message *why)
{
	int status;

	if (!s->kernel.id.size)
		perfdata_find_build_id(s->file, "[kernel.kallsyms]", &s->kernel.id);
	status = find_code(s, why);
	if (status >= 0)
		status = find_names(s, why);
	if (status >= 0 && s->kernel.vmlinux)
		status = add_modules(s);
	return status < 0 || !perfdata_has_kernel(s->file) ? status : kernel_begin(&s->kernel);
}
