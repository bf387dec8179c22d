/* SPDX-License-Identifier: MIT */
/* The server of `ptah view`, on libmicrohttpd (server.h has the rules that it keeps). */
#include "view/server.h"

#include "base/compiler.h"
#include "view/http_library.h"
#include "view/web.h"

#include <arpa/inet.h>
#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <unistd.h>

#define SECRET_SIZE 33 /* 128 bits in hexadecimal digits, and a NUL */
#define AT_ONCE	    8

struct view_server {
	struct view_server_config config;
	struct view_http http;
	struct MHD_Daemon *daemon;
	int listener;
	unsigned port;
	char token[SECRET_SIZE], ticket[SECRET_SIZE];
	char address[64 + SECRET_SIZE], ticket_address[64 + SECRET_SIZE];
	atomic_bool ticket_used;
	sem_t places; /* for answers that are made at the same time */
};

/* Trusted types: the page makes no element from text, so that no name can become one. */
static const char *const headers[][2] = {
    {MHD_HTTP_HEADER_CACHE_CONTROL, "no-store"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cross-Origin-Opener-Policy", "same-origin"},
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
     "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
     "require-trusted-types-for 'script'; trusted-types 'none'"},
};

/* Sends `response`, which may be NULL, and gives it back. `type` and `extra` may be NULL. */
static enum MHD_Result send_response(const struct view_server *s, struct MHD_Connection *connection,
				     unsigned status, struct MHD_Response *response,
				     const char *type, const char *const extra[2])
{
	enum MHD_Result result = MHD_NO;

	if (!response)
		return MHD_NO;
	for (size_t i = 0; i < ARRAY_SIZE(headers); i++)
		s->http.add_response_header(response, headers[i][0], headers[i][1]);
	if (type)
		s->http.add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (extra)
		s->http.add_response_header(response, extra[0], extra[1]);
	result = s->http.queue_response(connection, status, response);
	s->http.destroy_response(response);
	return result;
}

static struct MHD_Response *response_of(const struct view_server *s, const void *bytes, size_t n)
{
	return s->http.create_response_from_buffer(n, (void *)(uintptr_t)bytes,
						   MHD_RESPMEM_PERSISTENT);
}

static enum MHD_Result refuse_http_request(const struct view_server *s,
					   struct MHD_Connection *connection, unsigned status,
					   const char *sentence, const char *const extra[2])
{
	return send_response(s, connection, status, response_of(s, sentence, strlen(sentence)),
			     "text/plain; charset=utf-8", extra);
}

static enum MHD_Result not_found(const struct view_server *s, struct MHD_Connection *connection)
{
	return refuse_http_request(s, connection, MHD_HTTP_NOT_FOUND, "There is nothing here.\n",
				   NULL);
}

static enum MHD_Result answer_question(struct view_server *s, struct MHD_Connection *connection,
				       const struct view_query *query)
{
	struct view_answer answer = {0};
	struct MHD_Response *response;
	int status;

	while (sem_wait(&s->places) && errno == EINTR)
		;
	status = s->config.answer(s->config.context, query, &answer);
	sem_post(&s->places);
	if (status < 0) {
		free(answer.bytes);
		return refuse_http_request(s, connection, MHD_HTTP_SERVICE_UNAVAILABLE,
					   ptah_strerror(status), NULL);
	}
	response =
	    s->http.create_response_from_buffer(answer.size, answer.bytes, MHD_RESPMEM_MUST_FREE);
	if (!response)
		free(answer.bytes);
	return send_response(s, connection, answer.status, response, answer.type, NULL);
}

/* Whether `text` begins with the secret. It takes the same time however much of it is right. */
static bool has_secret(const char *text, const char *secret)
{
	unsigned difference = 0;

	if (strnlen(text, SECRET_SIZE - 1) < SECRET_SIZE - 1)
		return false;
	for (size_t i = 0; i < SECRET_SIZE - 1; i++)
		difference |= (unsigned char)(text[i] ^ secret[i]);
	return !difference;
}

static enum MHD_Result use_ticket(struct view_server *s, struct MHD_Connection *connection)
{
	char location[SECRET_SIZE + 2];
	const char *const header[] = {MHD_HTTP_HEADER_LOCATION, location};

	if (atomic_exchange(&s->ticket_used, true))
		return not_found(s, connection);
	snprintf(location, sizeof(location), "/%s/", s->token);
	return send_response(s, connection, MHD_HTTP_SEE_OTHER, response_of(s, "", 0), NULL,
			     header);
}

/* `uri`: the request's path and parameters, as they were sent. */
static enum MHD_Result answer_path(struct view_server *s, struct MHD_Connection *connection,
				   const char *uri, bool get)
{
	static const char api[] = "api/";
	struct view_query query;
	const struct view_file *file;

	if (uri[0] != '/')
		return not_found(s, connection);
	if (get && has_secret(uri + 1, s->ticket) && !strcmp(uri + SECRET_SIZE, "/"))
		return use_ticket(s, connection);
	if (!has_secret(uri + 1, s->token) || uri[SECRET_SIZE] != '/')
		return not_found(s, connection);
	if (view_query_parse(&query, uri + SECRET_SIZE + 1) < 0)
		return refuse_http_request(s, connection, MHD_HTTP_BAD_REQUEST,
					   "The address is too long or malformed.\n", NULL);
	if (!strncmp(query.path, api, sizeof(api) - 1)) {
		query.path += sizeof(api) - 1;
		return answer_question(s, connection, &query);
	}
	file = view_file_find(*query.path ? query.path : "index.html");
	if (!file)
		return not_found(s, connection);
	return send_response(s, connection, MHD_HTTP_OK, response_of(s, file->bytes, file->size),
			     file->type, NULL);
}

static enum MHD_Result count_host(void *context, enum MHD_ValueKind kind, const char *key,
				  const char *value)
{
	unsigned *hosts = context;

	(void)kind;
	(void)value;
	*hosts += !strcasecmp(key, MHD_HTTP_HEADER_HOST);
	return MHD_YES;
}

/* Whether the only Host header is this server's address. */
static bool is_for_us(const struct view_server *s, struct MHD_Connection *connection)
{
	const char *host =
	    s->http.lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST);
	static const char *const names[] = {"127.0.0.1", "localhost"};
	unsigned hosts = 0;
	char ours[32];

	s->http.get_connection_values(connection, MHD_HEADER_KIND, count_host, &hosts);
	for (size_t i = 0; i < ARRAY_SIZE(names) && host && hosts == 1; i++) {
		snprintf(ours, sizeof(ours), "%s:%u", names[i], s->port);
		/* Of HTTP's own port browsers send no number. */
		if (!strcasecmp(host, ours) || (s->port == 80 && !strcasecmp(host, names[i])))
			return true;
	}
	return false;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection,
				  const char *decoded, const char *method, const char *version,
				  const char *body, size_t *body_size, void **uri)
{
	static const char *const allow[] = {MHD_HTTP_HEADER_ALLOW, "GET, HEAD"};
	struct view_server *s = context;
	const bool get = !strcmp(method, MHD_HTTP_METHOD_GET);

	(void)decoded;
	(void)version;
	(void)body;
	(void)body_size;
	if (!*uri)
		return refuse_http_request(s, connection, MHD_HTTP_SERVICE_UNAVAILABLE,
					   "out of memory", NULL);
	if (!is_for_us(s, connection))
		return refuse_http_request(
		    s, connection, MHD_HTTP_FORBIDDEN,
		    "The address must begin with http://127.0.0.1 and the port.\n", NULL);
	if (!get && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return refuse_http_request(s, connection, MHD_HTTP_METHOD_NOT_ALLOWED,
					   "GET or HEAD.\n", allow);
	return answer_path(s, connection, *uri, get);
}

/*
 * A connection has the address of its request, because a request that libmicrohttpd refuses itself
 * is never completed.
 */
static void on_connection(void *context, struct MHD_Connection *connection, void **address,
			  enum MHD_ConnectionNotificationCode code)
{
	char **uri = *address;

	(void)context;
	(void)connection;
	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		*address = calloc(1, sizeof(*uri));
	} else if (uri) {
		free(*uri);
		free(uri);
		*address = NULL;
	}
}

/* Keeps the address as it was sent: query.h decodes it, libmicrohttpd's parser is not used. */
static void *on_address(void *context, const char *uri, struct MHD_Connection *connection)
{
	const struct view_server *s = context;
	const union MHD_ConnectionInfo *info =
	    s->http.get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	char **kept = info ? info->socket_context : NULL;

	if (!kept)
		return NULL;
	free(*kept);
	*kept = strdup(uri);
	return *kept;
}

static size_t leave_encoded(void *context, struct MHD_Connection *connection, char *text)
{
	(void)context;
	(void)connection;
	return strlen(text);
}

/* Remarks on clients that break off or send nonsense are of no use to anybody. */
static void ignore_remark(void *context, const char *format, va_list args)
{
	(void)context;
	(void)format;
	(void)args;
}

static int make_secret(char secret[SECRET_SIZE])
{
	unsigned char bytes[(SECRET_SIZE - 1) / 2];

	/* So few bytes come whole or not at all (getrandom(2)). */
	while (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		if (errno != EINTR)
			return -1;
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(secret + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

/* Sets listener and port. 0, or -1 with errno. */
static int listen_here(struct view_server *s)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_port = htons(s->config.port),
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);

	s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	/* A port that was used a minute ago may be used again, but by one server only. */
	if (s->listener < 0 ||
	    setsockopt(s->listener, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) ||
	    bind(s->listener, (struct sockaddr *)&address, size) ||
	    listen(s->listener, SOMAXCONN) ||
	    getsockname(s->listener, (struct sockaddr *)&address, &size))
		return -1;
	s->port = ntohs(address.sin_port);
	return 0;
}

static int start_daemon(struct view_server *s)
{
	s->daemon = s->http.start_daemon(
	    MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL |
		MHD_USE_ERROR_LOG,
	    0, NULL, NULL, on_request, s,
	    /* The logger comes first, because the other options may be remarked upon. */
	    MHD_OPTION_EXTERNAL_LOGGER, ignore_remark, NULL, MHD_OPTION_LISTEN_SOCKET, s->listener,
	    MHD_OPTION_CONNECTION_LIMIT, (unsigned)VIEW_SERVER_CONNECTIONS,
	    MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)VIEW_SERVER_REQUEST,
	    MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)VIEW_SERVER_IDLE, MHD_OPTION_STRICT_FOR_CLIENT,
	    1, MHD_OPTION_URI_LOG_CALLBACK, on_address, s, MHD_OPTION_UNESCAPE_CALLBACK,
	    leave_encoded, s, MHD_OPTION_NOTIFY_CONNECTION, on_connection, s, MHD_OPTION_END);
	return s->daemon ? 0 : -1;
}

static void free_server(struct view_server *s)
{
	sem_destroy(&s->places);
	free(s);
}

/* Takes the port, and serves. Returns 0, or a negative error with its reason. */
static int open_server(struct view_server *s, struct ptah_message *why)
{
	static const char *const names[] = {"a free port of 127.0.0.1", "127.0.0.1:%u"};
	const int status = view_http_load(&s->http, why);
	char name[32];

	if (status < 0)
		return status;
	snprintf(name, sizeof(name), names[s->config.port != 0], s->config.port);
	if (make_secret(s->token) || make_secret(s->ticket))
		return ptah_system_message(why, errno, "random numbers", "get");
	if (listen_here(s))
		return ptah_system_message(why, errno, name, "listen on");
	return start_daemon(s) ? ptah_system_message(why, errno, name, "serve") : 0;
}

int view_server_start(const struct view_server_config *config, struct view_server **server,
		      struct ptah_message *why)
{
	struct view_server *s = calloc(1, sizeof(*s));
	int status;

	if (!s)
		return PTAH_E_NOMEM;
	s->config = *config;
	s->listener = -1;
	sem_init(&s->places, 0, config->at_once ? config->at_once : AT_ONCE);
	status = open_server(s, why);
	if (status < 0) {
		if (s->listener >= 0)
			close(s->listener);
		free_server(s);
		return status;
	}
	snprintf(s->address, sizeof(s->address), "http://127.0.0.1:%u/%s/", s->port, s->token);
	snprintf(s->ticket_address, sizeof(s->ticket_address), "http://127.0.0.1:%u/%s/", s->port,
		 s->ticket);
	*server = s;
	return 0;
}

void view_server_stop(struct view_server *s)
{
	if (!s)
		return;
	s->http.stop_daemon(s->daemon);
	free_server(s);
}

const char *view_server_address(const struct view_server *s)
{
	return s->address;
}

const char *view_server_ticket(const struct view_server *s)
{
	return s->ticket_address;
}
