/* SPDX-License-Identifier: MIT */
/*
 * The server of `ptah view`, by requests that are written byte by byte to its socket: nothing is
 * served without the token, for another host's name, or by another method than GET and HEAD
 * (RFC 9110, RFC 9112), and parallel requests get their own answers.
 */
#include "../test.h"

#include "view/server.h"
#include "view/web.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define AT_ONCE 3

static struct view_server *server;
static char host[64], token[48];
static unsigned port;

static atomic_uint running, most_running, held;
static atomic_bool hold;

/* Answers with the question's path and the value of its parameter "x". */
static int echo(void *context, const struct view_query *query, struct view_answer *answer)
{
	const char *x = view_query_text(query, "x");
	const unsigned now = atomic_fetch_add(&running, 1) + 1;
	unsigned most = atomic_load(&most_running);

	assert_ptr_equal(context, &server);
	while (now > most && !atomic_compare_exchange_weak(&most_running, &most, now))
		;
	if (!strcmp(query->path, "refused"))
		return atomic_fetch_sub(&running, 1),
		       view_answer_refuse(answer, 404, "no such question");
	if (!strcmp(query->path, "nomem"))
		return atomic_fetch_sub(&running, 1), PTAH_E_NOMEM;
	if (!strcmp(query->path, "held")) {
		atomic_fetch_add(&held, 1);
		while (atomic_load(&hold))
			usleep(500);
	}
	*answer = (struct view_answer){.status = 200, .type = "application/json"};
	answer->size = (size_t)asprintf(&answer->bytes, "%s|%s", query->path, x ? x : "");
	atomic_fetch_sub(&running, 1);
	return 0;
}

static int start(void **state)
{
	const struct view_server_config config = {
	    .answer = echo, .context = &server, .at_once = AT_ONCE};
	struct ptah_message why;

	(void)state;
	assert_int_equal(view_server_start(&config, &server, &why), 0);
	assert_int_equal(
	    sscanf(view_server_address(server), "http://127.0.0.1:%u/%40[0-9a-f]/", &port, token),
	    2);
	snprintf(host, sizeof(host), "127.0.0.1:%u", port);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	view_server_stop(server);
	return 0;
}

static int connect_to(const char *address)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	inet_pton(AF_INET, address, &to.sin_addr);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to))) {
		close(fd);
		return -1;
	}
	return fd;
}

static void send_all(int fd, const char *bytes, size_t n)
{
	while (n) {
		/* The server may have refused it before the end. */
		ssize_t k = send(fd, bytes, n, MSG_NOSIGNAL);

		if (k <= 0)
			return;
		bytes += k;
		n -= (size_t)k;
	}
}

static void receive_all(int fd, char *answer, size_t size)
{
	size_t n = 0;
	ssize_t k;

	while (n < size - 1 && (k = recv(fd, answer + n, size - 1 - n, 0)) > 0)
		n += (size_t)k;
	answer[n] = '\0';
}

struct reply {
	int status;
	char *body; /* in text */
	char text[1 << 16];
};

/* Sends a whole request, reads until the server closes, and returns the status; 0: no answer. */
static int exchange(const char *request, size_t n, struct reply *reply)
{
	int fd = connect_to("127.0.0.1");

	assert_true(fd >= 0);
	send_all(fd, request, n);
	shutdown(fd, SHUT_WR);
	receive_all(fd, reply->text, sizeof(reply->text));
	close(fd);
	reply->status = 0;
	sscanf(reply->text, "HTTP/1.%*c %d", &reply->status);
	reply->body = strstr(reply->text, "\r\n\r\n");
	reply->body = reply->body ? reply->body + 4 : reply->text;
	return reply->status;
}

static int ask(const char *method, const char *target, const char *more, struct reply *reply)
{
	char request[4096];
	int n = snprintf(request, sizeof(request), "%s %s HTTP/1.1\r\n%sConnection: close\r\n\r\n",
			 method, target, more);

	return exchange(request, (size_t)n, reply);
}

/* GET of what follows the token, as the page asks. */
static int get(const char *path, struct reply *reply)
{
	char target[2048], more[128];

	snprintf(target, sizeof(target), "/%s/%s", token, path);
	snprintf(more, sizeof(more), "Host: %s\r\n", host);
	return ask("GET", target, more, reply);
}

static void the_page_and_its_files_are_served(void **state)
{
	static struct reply reply;

	(void)state;
	assert_int_equal(get("", &reply), 200);
	assert_string_equal(reply.body, (const char *)view_file_find("index.html")->bytes);
	for (const struct view_file *file = view_files; file->name; file++) {
		char type[128];

		assert_int_equal(get(file->name, &reply), 200);
		snprintf(type, sizeof(type), "\r\nContent-Type: %s\r\n", file->type);
		assert_non_null(strstr(reply.text, type));
	}
}

static void questions_are_answered(void **state)
{
	static struct reply reply;

	(void)state;
	assert_int_equal(get("api/diff/functions?y=1&x=a%26%C3%BC", &reply), 200);
	assert_string_equal(reply.body, "diff/functions|a&\xc3\xbc");
	assert_non_null(strstr(reply.text, "\r\nContent-Type: application/json\r\n"));
	assert_int_equal(get("api/refused", &reply), 404);
	assert_string_equal(reply.body, "no such question");
	assert_int_equal(get("api/nomem", &reply), 503);
	assert_int_equal(get("api/bars?x=%", &reply), 400);
	assert_int_equal(get("api/bars?x=1&x=2", &reply), 400);
}

static void headers_protect_the_page(void **state)
{
	static struct reply reply;
	static const char *const expected[] = {
	    "\r\nCache-Control: no-store\r\n",
	    "\r\nX-Content-Type-Options: nosniff\r\n",
	    "\r\nReferrer-Policy: no-referrer\r\n",
	    "\r\nX-Frame-Options: DENY\r\n",
	    "\r\nContent-Security-Policy: default-src 'none'; script-src 'self'; ",
	    "\r\nCross-Origin-Resource-Policy: same-origin\r\n"};
	static const char *const paths[] = {"", "api/x", "none"};

	(void)state;
	for (size_t p = 0; p < 3; p++) {
		get(paths[p], &reply);
		for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
			assert_non_null(strstr(reply.text, expected[i]));
		assert_null(strstr(reply.text, "Access-Control-"));
	}
}

/* Asks for a path that must not be found, and must not be told apart from any other. */
static void expect_nothing(const char *target)
{
	static struct reply reply;
	char more[128];

	snprintf(more, sizeof(more), "Host: %s\r\n", host);
	assert_int_equal(ask("GET", target, more, &reply), 404);
	assert_string_equal(reply.body, "There is nothing here.\n");
}

static void without_the_token_nothing_is_found(void **state)
{
	static const char *const targets[] = {"/",
					      "/index.html",
					      "/api/info",
					      "/style.css",
					      "/favicon.ico",
					      "//",
					      "/%2e%2e/",
					      "/0",
					      "/?",
					      "/../../etc/passwd",
					      "/etc/passwd",
					      "/0123456789abcdef0123456789abcdef/",
					      "*"};
	char target[256];

	(void)state;
	for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++)
		expect_nothing(targets[i]);
	for (size_t i = 0; i < strlen(token); i++) { /* one digit is wrong */
		snprintf(target, sizeof(target), "/%s/", token);
		target[1 + i] = target[1 + i] == '0' ? '1' : '0';
		expect_nothing(target);
	}
	snprintf(target, sizeof(target), "/%s", token); /* and no slash */
	expect_nothing(target);
	target[strlen(target) - 1] = '\0';
	expect_nothing(target);
	snprintf(target, sizeof(target), "/%s0/", token);
	expect_nothing(target);
	snprintf(target, sizeof(target), "//%s/", token);
	expect_nothing(target);
	snprintf(target, sizeof(target), "/?/%s/", token);
	expect_nothing(target);
	snprintf(target, sizeof(target), "http://127.0.0.1:%u/%s/", port, token);
	expect_nothing(target);
}

static void with_the_token_no_other_file_is_found(void **state)
{
	static const char *const paths[] = {"..",
					    "../",
					    "../../../../etc/passwd",
					    "%2e%2e%2fetc/passwd",
					    "/etc/passwd",
					    "index.html/",
					    "./index.html",
					    "INDEX.HTML",
					    "web/style.css",
					    "style.css.gz",
					    "API/info",
					    "apiinfo"};
	char target[256];

	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		snprintf(target, sizeof(target), "/%s/%s", token, paths[i]);
		expect_nothing(target);
	}
}

/* Sends the header lines `more` instead of the right Host header. */
static int get_as(const char *more)
{
	static struct reply reply;
	char target[128];

	snprintf(target, sizeof(target), "/%s/api/x", token);
	ask("GET", target, more, &reply);
	if (reply.status != 200)
		assert_null(strstr(reply.text, "x|"));
	return reply.status;
}

static void other_hosts_are_refused(void **state)
{
	char more[256];

	(void)state;
	snprintf(more, sizeof(more), "Host: LocalHost:%u\r\n", port);
	assert_int_equal(get_as(more), 200);
	snprintf(more, sizeof(more), "Host: evil.example:%u\r\n", port);
	assert_int_equal(get_as(more), 403);
	snprintf(more, sizeof(more), "Host: 127.0.0.1.evil.example:%u\r\n", port);
	assert_int_equal(get_as(more), 403);
	snprintf(more, sizeof(more), "Host: 127.0.0.1:%u\r\nHost: evil.example\r\n", port);
	assert_true(get_as(more) >= 400);
	snprintf(more, sizeof(more), "Host: evil.example\r\nHost: 127.0.0.1:%u\r\n", port);
	assert_true(get_as(more) >= 400);
	snprintf(more, sizeof(more), "Host: evil.example\r\nX-Forwarded-Host: 127.0.0.1:%u\r\n",
		 port);
	assert_int_equal(get_as(more), 403);
	assert_int_equal(get_as("Host: 127.0.0.1\r\n"), 403);
	assert_int_equal(get_as("Host: 127.0.0.1:1\r\n"), 403);
	assert_int_equal(get_as("Host: 0.0.0.0\r\n"), 403);
	assert_int_equal(get_as("Host:\r\n"), 403);
	assert_true(get_as("") >= 400);
}

static void other_methods_are_refused(void **state)
{
	static const char *const methods[] = {"POST",	 "PUT",	  "DELETE", "OPTIONS", "PATCH",
					      "CONNECT", "TRACE", "get",    "GETT",    "HEADS"};
	static struct reply reply;
	char target[128], more[128];

	(void)state;
	snprintf(target, sizeof(target), "/%s/", token);
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		snprintf(more, sizeof(more), "Host: %s\r\n", host);
		assert_int_equal(ask(methods[i], target, more, &reply), 405);
		assert_non_null(strstr(reply.text, "\r\nAllow: GET, HEAD\r\n"));
	}
	/* A body is not waited for. */
	snprintf(more, sizeof(more), "Host: %s\r\nContent-Length: 1000000000\r\n", host);
	assert_int_equal(ask("POST", target, more, &reply), 405);
}

static void head_has_no_body(void **state)
{
	static struct reply reply;
	char target[128], more[128], length[64];

	(void)state;
	snprintf(target, sizeof(target), "/%s/", token);
	snprintf(more, sizeof(more), "Host: %s\r\n", host);
	assert_int_equal(ask("HEAD", target, more, &reply), 200);
	assert_string_equal(reply.body, "");
	snprintf(length, sizeof(length), "\r\nContent-Length: %zu\r\n",
		 view_file_find("index.html")->size);
	assert_non_null(strstr(reply.text, length));
}

static void a_ticket_is_good_for_once(void **state)
{
	static struct reply reply;
	const char *path = strrchr(view_server_ticket(server), ':');
	char more[128], location[256];

	(void)state;
	path = strchr(path, '/');
	assert_null(strstr(path, token));
	snprintf(more, sizeof(more), "Host: %s\r\n", host);
	assert_int_equal(ask("HEAD", path, more, &reply), 404);
	assert_int_equal(ask("GET", path, "Host: evil.example\r\n", &reply), 403);
	assert_int_equal(ask("GET", path, more, &reply), 303);
	snprintf(location, sizeof(location), "\r\nLocation: /%s/\r\n", token);
	assert_non_null(strstr(reply.text, location));
	expect_nothing(path);
}

/* Whatever comes, the next request is answered. */
static void nonsense_does_not_disturb_others(void **state)
{
	static const char *const texts[] = {
	    "",
	    "\r\n\r\n",
	    "GET\r\n\r\n",
	    "GET /\r\n\r\n",
	    "GET / HTTP/9.9\r\nHost: x\r\n\r\n",
	    "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
	    "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
	    "GET / HTTP/1.1\r\nHost\r\n\r\n",
	    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"};
	static struct reply reply;
	static char longest[1 << 18];
	int open[16];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_true(exchange(texts[i], strlen(texts[i]), &reply) != 200);
	assert_true(exchange("GET /\0/ HTTP/1.1\r\n\r\n", 21, &reply) != 200);

	/* An address, and a header, of a quarter of a megabyte. */
	memset(longest, 'a', sizeof(longest));
	memcpy(longest, "GET /", 5);
	assert_true(exchange(longest, sizeof(longest), &reply) != 200);
	snprintf(longest, sizeof(longest), "GET /%s/ HTTP/1.1\r\nHost: %s\r\nX: ", token, host);
	longest[strlen(longest)] = 'a';
	assert_true(exchange(longest, sizeof(longest), &reply) != 200);

	/* So many parameters that libmicrohttpd has no room for them: nothing is left behind. */
	memset(longest, 0, sizeof(longest));
	memcpy(longest, "GET /?", 6);
	for (size_t i = 6; i < 4000; i += 4)
		memcpy(longest + i, "a=b&", 4);
	strcat(longest, " HTTP/1.1\r\nHost: x\r\n\r\n");
	assert_true(exchange(longest, strlen(longest), &reply) != 200);

	/* Connections that say nothing, or half of something. */
	for (size_t i = 0; i < 16; i++) {
		open[i] = connect_to("127.0.0.1");
		send_all(open[i], "GET /", i % 6);
	}
	assert_int_equal(get("api/still?x=here", &reply), 200);
	assert_string_equal(reply.body, "still|here");
	for (size_t i = 0; i < 16; i++)
		close(open[i]);
}

static void only_127_0_0_1_listens(void **state)
{
	(void)state;
	assert_int_equal(connect_to("127.0.0.2"), -1);
}

static void a_port_has_one_server(void **state)
{
	const struct view_server_config config = {.answer = echo, .port = (uint16_t)port};
	struct view_server *second;
	struct ptah_message why;
	char expected[32];

	(void)state;
	assert_int_equal(view_server_start(&config, &second, &why), PTAH_E_SYSTEM);
	snprintf(expected, sizeof(expected), "127.0.0.1:%u", port);
	assert_non_null(strstr(why.text, expected));
}

static void *ask_often(void *context)
{
	struct reply *reply = malloc(sizeof(*reply));
	char path[64], expected[64];

	for (unsigned i = 0; i < 20; i++) {
		const unsigned id = *(unsigned *)context * 1000 + i;

		snprintf(path, sizeof(path), "api/bars?x=%u", id);
		snprintf(expected, sizeof(expected), "bars|%u", id);
		if (get(path, reply) != 200 || strcmp(reply->body, expected) != 0)
			*(unsigned *)context = UINT32_MAX;
	}
	free(reply);
	return NULL;
}

static void parallel_requests_get_their_own_answers(void **state)
{
	enum {
		THREADS = 12
	};
	pthread_t threads[THREADS];
	unsigned ids[THREADS];

	(void)state;
	atomic_store(&most_running, 0);
	for (unsigned i = 0; i < THREADS; i++) {
		ids[i] = i;
		assert_int_equal(pthread_create(&threads[i], NULL, ask_often, &ids[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(ids[i], i);
	}
	assert_in_range(atomic_load(&most_running), 1, AT_ONCE);
}

static void *ask_held(void *context)
{
	get("api/held", context);
	return NULL;
}

/* No more answers are made at once than allowed; the page's files do not wait for them; and an
 * answer that takes long is sent though the server is being stopped. */
static void slow_answers_are_limited(void **state)
{
	enum {
		THREADS = AT_ONCE + 2
	};
	static struct reply replies[THREADS], reply;
	pthread_t threads[THREADS];

	start(state);
	atomic_store(&held, 0);
	atomic_store(&most_running, 0);
	atomic_store(&hold, true);
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask_held, &replies[i]), 0);
	while (atomic_load(&held) < AT_ONCE)
		usleep(500);
	assert_int_equal(get("style.css", &reply), 200);
	assert_int_equal(atomic_load(&held), AT_ONCE);
	atomic_store(&hold, false);
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(replies[i].status, 200);
		assert_string_equal(replies[i].body, "held|");
	}
	assert_int_equal(atomic_load(&most_running), AT_ONCE);
	stop(state);
}

/* Who takes all connections delays others until they are closed, and does not keep the server from
 * stopping. */
static void connections_that_are_all_taken_come_back(void **state)
{
	enum {
		TAKEN = VIEW_SERVER_CONNECTIONS + 20
	};
	static struct reply reply;
	int taken[TAKEN];

	start(state);
	for (int i = 0; i < TAKEN; i++)
		taken[i] = connect_to("127.0.0.1");
	for (int i = 0; i < TAKEN / 2; i++)
		close(taken[i]);
	/* The server's threads notice that in their own time. */
	while (get("api/x", &reply) != 200)
		usleep(1000);
	stop(state);
	for (int i = TAKEN / 2; i < TAKEN; i++)
		close(taken[i]);
}

/* The server stops although a connection is idle and another one in the middle of its request. */
static void stopping_waits_for_nobody(void **state)
{
	int idle, half;

	start(state);
	idle = connect_to("127.0.0.1");
	half = connect_to("127.0.0.1");
	send_all(half, "GET / HT", 8);
	stop(state);
	assert_int_equal(connect_to("127.0.0.1"), -1);
	close(idle);
	close(half);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(the_page_and_its_files_are_served),
	    cmocka_unit_test(questions_are_answered),
	    cmocka_unit_test(headers_protect_the_page),
	    cmocka_unit_test(without_the_token_nothing_is_found),
	    cmocka_unit_test(with_the_token_no_other_file_is_found),
	    cmocka_unit_test(other_hosts_are_refused),
	    cmocka_unit_test(other_methods_are_refused),
	    cmocka_unit_test(head_has_no_body),
	    cmocka_unit_test(a_ticket_is_good_for_once),
	    cmocka_unit_test(nonsense_does_not_disturb_others),
	    cmocka_unit_test(only_127_0_0_1_listens),
	    cmocka_unit_test(a_port_has_one_server),
	    cmocka_unit_test(parallel_requests_get_their_own_answers),
	};
	const struct CMUnitTest alone[] = {
	    cmocka_unit_test(slow_answers_are_limited),
	    cmocka_unit_test(connections_that_are_all_taken_come_back),
	    cmocka_unit_test(stopping_waits_for_nobody),
	};

	return cmocka_run_group_tests(tests, start, stop) |
	       cmocka_run_group_tests(alone, NULL, NULL);
}
