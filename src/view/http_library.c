/* SPDX-License-Identifier: MIT */
/* Loads libmicrohttpd (http_library.h). */
#include "view/http_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* dlsym() for a function. POSIX allows this conversion, ISO C does not know it. */
static bool load_http_function(void *library, const char *name, void *function)
{
	void *symbol = dlsym(library, name);

	memcpy(function, &symbol, sizeof(symbol));
	return symbol != NULL;
}

#define LOAD(name) &&load_http_function(library, "MHD_" #name, &http->name)

int view_http_load(struct view_http *http, struct ptah_message *why)
{
	/* It stays: what it uses (TLS) keeps memory that it would lose when it is unloaded. */
	void *library = dlopen(PTAH_MICROHTTPD, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);

	if (library VIEW_HTTP_FUNCTIONS(LOAD))
		return 0;
	snprintf(why->text, sizeof(why->text),
		 "%s, with which the page is served, cannot be loaded: %s", PTAH_MICROHTTPD,
		 dlerror());
	return PTAH_E_UNSUPPORTED;
}
