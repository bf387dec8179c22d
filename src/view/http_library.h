/* SPDX-License-Identifier: MIT */
/*
 * libmicrohttpd, which is loaded when a server starts and not before: it brings nine libraries with
 * it, and to load them takes as long as all else that a command does before it begins.
 */
#ifndef PTAH_VIEW_HTTP_LIBRARY_H
#define PTAH_VIEW_HTTP_LIBRARY_H

#include <microhttpd.h>
#include <ptah/session.h>

/* Its functions that the server calls, without their MHD_. */
#define VIEW_HTTP_FUNCTIONS(function)                                                              \
	function(add_response_header) function(create_response_from_buffer)                        \
	    function(destroy_response) function(get_connection_info)                               \
		function(get_connection_values) function(lookup_connection_value)                  \
		    function(queue_response) function(start_daemon) function(stop_daemon)

#define VIEW_HTTP_MEMBER(name) __typeof__(MHD_##name) *name;

struct view_http {
	VIEW_HTTP_FUNCTIONS(VIEW_HTTP_MEMBER)
};

#undef VIEW_HTTP_MEMBER

/* Loads the library, which stays. Returns 0, or PTAH_E_UNSUPPORTED with its reason. */
int view_http_load(struct view_http *http, struct ptah_message *why);

#endif
