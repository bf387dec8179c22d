/* SPDX-License-Identifier: MIT */
/*
 * Serves the page of `ptah view` and the answers to its questions over HTTP, to this machine's
 * browser and to nobody else:
 * - it listens on 127.0.0.1 alone;
 * - every address begins with 128 random bits, the token. Other users of the machine can connect,
 *   but do not know it. All without it is "not found", whatever it asks for;
 * - the Host header must name 127.0.0.1 or localhost with the server's port: a page of another site
 *   whose name was made to stand for 127.0.0.1 (DNS rebinding) sends that name;
 * - GET and HEAD are answered, and only for the page's files, which are in the program, and for the
 *   questions (query.h). No file is opened;
 * - headers forbid the page to ask any other server, to run other scripts, to be shown in a frame
 *   and to be kept.
 *
 * Each connection has a thread, so that a slow answer delays no other one. Memory is bounded by
 * VIEW_SERVER_CONNECTIONS, each with VIEW_SERVER_REQUEST bytes for a request, and by at_once
 * answers.
 */
#ifndef PTAH_VIEW_SERVER_H
#define PTAH_VIEW_SERVER_H

#include "view/query.h"

#include <ptah/session.h>

#define VIEW_SERVER_CONNECTIONS 64
#define VIEW_SERVER_REQUEST	16384
#define VIEW_SERVER_IDLE	60 /* seconds after which a silent connection is closed */

struct view_server;

struct view_server_config {
	view_answerer *answer;
	void *context;	  /* of `answer` */
	uint16_t port;	  /* 0: any that is free */
	unsigned at_once; /* answers that are made at the same time; 0: 8 */
};

/*
 * 0, PTAH_E_NOMEM, or PTAH_E_SYSTEM or PTAH_E_UNSUPPORTED (libmicrohttpd cannot be loaded) with its
 * reason. The threads have the caller's signal mask.
 */
int view_server_start(const struct view_server_config *config, struct view_server **server,
		      struct ptah_message *why);

/* Returns when the last answer has been made: make `answer` return soon before. */
void view_server_stop(struct view_server *server);

/* "http://127.0.0.1:PORT/TOKEN/" */
const char *view_server_address(const struct view_server *server);

/*
 * An address that leads to the other one, but once only: for the arguments of a browser, which
 * every user of the machine can read (in ps). Whoever comes second gets "not found".
 */
const char *view_server_ticket(const struct view_server *server);

#endif
