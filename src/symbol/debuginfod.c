/* SPDX-License-Identifier: MIT */
/*
 * Debug files, and the files themselves, from debuginfod servers, by elfutils' client library. It
 * is loaded when servers may be asked and not before, so that nothing of it runs, and nothing is
 * looked up in a network, where the user did not ask for it.
 */
#include "base/text.h"
#include "symbol/resolver.h"

#include <ptah/base.h>

#include <dlfcn.h>
#include <elfutils/libdwelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libdebuginfod.so.1"

/* Its interface. The header is in a package that building does not need. */
struct client;
typedef int progress_function(struct client *client, long done, long total);

struct symbol_debuginfod {
	void *library;
	struct client *client;
	int (*find[DEBUGINFOD_KINDS])(struct client *client, const unsigned char *id, int id_size,
				      char **path);
	void (*end)(struct client *client);
	ptah_fetch_progress *progress;
	void *context;
	const char *file; /* that is being fetched */
};

/* dlsym() for a function. POSIX allows this conversion, ISO C does not know it. */
static bool load_debuginfod_function(void *library, const char *name, void *function)
{
	void *symbol = dlsym(library, name);

	memcpy(function, &symbol, sizeof(symbol));
	return symbol != NULL;
}

/* The client calls this again and again. A result other than 0 gives the file up. */
static int on_progress(struct client *client, long done, long total)
{
	/* A client has a pointer for its user; the function that returns it is in the library. */
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_NOLOAD);
	void *(*get_user_data)(struct client * client);
	const struct symbol_debuginfod *d = NULL;

	if (library &&
	    load_debuginfod_function(library, "debuginfod_get_user_data", &get_user_data))
		d = get_user_data(client);
	if (library)
		dlclose(library);
	return d && d->progress &&
	       !d->progress(d->context, d->file, done > 0 ? (uint64_t)done : 0,
			    total > 0 ? (uint64_t)total : 0);
}

static bool load_all(struct symbol_debuginfod *d)
{
	void (*set_user_data)(struct client * client, void *data);
	void (*set_progress)(struct client * client, progress_function * function);
	struct client *(*begin)(void);
	void *l = d->library;

	if (!load_debuginfod_function(l, "debuginfod_begin", &begin) ||
	    !load_debuginfod_function(l, "debuginfod_end", &d->end) ||
	    !load_debuginfod_function(l, "debuginfod_find_debuginfo",
				      &d->find[DEBUGINFOD_DEBUGINFO]) ||
	    !load_debuginfod_function(l, "debuginfod_find_executable",
				      &d->find[DEBUGINFOD_EXECUTABLE]) ||
	    !load_debuginfod_function(l, "debuginfod_set_user_data", &set_user_data) ||
	    !load_debuginfod_function(l, "debuginfod_set_progressfn", &set_progress))
		return false;
	d->client = begin();
	if (!d->client)
		return false;
	set_user_data(d->client, d);
	set_progress(d->client, on_progress);
	return true;
}

int symbol_debuginfod_new(ptah_fetch_progress *progress, void *context,
			  struct symbol_debuginfod **servers)
{
	struct symbol_debuginfod *d = calloc(1, sizeof(*d));

	*servers = d;
	if (!d)
		return PTAH_E_NOMEM;
	d->progress = progress;
	d->context = context;
	/* It stays: what it uses (curl, TLS) keeps memory that it would lose when it is unloaded.
	 */
	d->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
	if (d->library && load_all(d))
		return 0;
	symbol_debuginfod_free(d);
	*servers = NULL;
	return PTAH_E_UNSUPPORTED;
}

void symbol_debuginfod_free(struct symbol_debuginfod *d)
{
	if (!d)
		return;
	if (d->client)
		d->end(d->client);
	if (d->library)
		dlclose(d->library);
	free(d);
}

char *symbol_debuginfod_get(struct symbol_debuginfod *d, enum symbol_debuginfod_kind kind,
			    const void *id, size_t id_size, const char *file)
{
	char *path = NULL;
	int fd;

	if (id_size < 2 || id_size > 64)
		return NULL;
	d->file = file;
	fd = d->find[kind](d->client, id, (int)id_size, &path);
	if (d->progress)
		d->progress(d->context, file, UINT64_MAX, UINT64_MAX);
	if (fd < 0)
		return NULL;
	close(fd);
	return path;
}

/* The build id of the file at `path`, which is asked for. */
static char *get_for(struct symbol_debuginfod *servers, const char *path, const char *shown)
{
	struct symbol_elf elf;
	char *fetched = NULL;
	const void *id;
	ssize_t n;

	if (!symbol_elf_open(path, &elf))
		return NULL;
	n = dwelf_elf_gnu_build_id(elf.elf, &id);
	if (n > 0)
		fetched =
		    symbol_debuginfod_get(servers, DEBUGINFOD_DEBUGINFO, id, (size_t)n, shown);
	symbol_elf_close(&elf);
	return fetched;
}

bool symbol_fetch(struct ptah_symbols *symbols, struct symbol_binary *binary)
{
	struct symbol_folders folders;
	struct symbol_file file;
	char *path;

	if (!symbols->servers || binary->asked)
		return false;
	binary->asked = true;
	path = symbol_local_path(symbols, binary->path);
	if (!path)
		return false;
	binary->fetched = get_for(symbols->servers, path, binary->path);
	folders = symbol_folders_of(symbols, binary);
	if (binary->fetched && symbol_file_read(path, &folders, &file)) {
		binary->before = binary->file;
		binary->file = file;
	}
	free(path);
	if (binary->fetched && binary->debug_read && binary->debug.status == PTAH_E_MISSING) {
		symbol_debug_free(&binary->debug);
		binary->debug_read = false;
	}
	return binary->fetched != NULL;
}

int ptah_symbols_fetch(struct ptah_symbols *symbols, const char *path)
{
	struct symbol_binary *binary;

	if (!symbols || !path)
		return PTAH_E_INVAL;
	binary = symbols->servers ? symbol_find_binary(symbols, path) : NULL;
	return binary && symbol_fetch(symbols, binary);
}

char *ptah_symbols_fetch_file(struct ptah_symbols *symbols, const char *path, const uint8_t *id,
			      size_t size)
{
	return symbols && path && id && symbols->servers
		   ? symbol_debuginfod_get(symbols->servers, DEBUGINFOD_EXECUTABLE, id, size, path)
		   : NULL;
}

int ptah_symbols_search(struct ptah_symbols *symbols, const struct ptah_symbols_search *search)
{
	char *copy;

	if (!symbols || !search || search->size < sizeof(*search))
		return PTAH_E_INVAL;
	if (search->cache) {
		copy = strdup(search->cache);
		if (!copy)
			return PTAH_E_NOMEM;
		free(symbols->cache);
		symbols->cache = copy;
	}
	if (search->locate) {
		symbols->locate = search->locate;
		symbols->locate_context = search->locate_context;
	}
	if (!search->fetch || symbols->servers)
		return 0;
	return symbol_debuginfod_new(search->fetch_progress, search->fetch_context,
				     &symbols->servers);
}
