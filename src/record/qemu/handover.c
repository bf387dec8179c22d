/* SPDX-License-Identifier: MIT */
/*
 * Passes the shared memory and the plugin to recorded processes that may not open them by their
 * names any more because they have changed their user. Such a process, before it calls execve,
 * connects to a socket whose address is in the shared memory, and gets descriptors. Only processes
 * of the recording get them.
 */
#include "record/qemu/qemu.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MOST_AT_ONCE 64 /* so that processes of others cannot occupy the recorder */

void qemu_listen(struct recording *r)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t size = sizeof(address.sun_family); /* unix(7): the system finds an address */

	r->socket = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (r->socket < 0)
		return;
	if (bind(r->socket, (struct sockaddr *)&address, size) || listen(r->socket, MOST_AT_ONCE))
		return;
	size = sizeof(address);
	if (getsockname(r->socket, (struct sockaddr *)&address, &size))
		return;
	size -= offsetof(struct sockaddr_un, sun_path);
	if (size <= sizeof(r->shared->socket) && !address.sun_path[0]) {
		memcpy(r->shared->socket, address.sun_path, size);
		r->shared->socket_size = size;
	}
}

/* Its first message may not have been taken yet. */
static bool is_recorded(struct recording *r, int32_t pid)
{
	if (!processes_find(&r->processes, pid))
		qemu_drain_messages(r);
	return processes_find(&r->processes, pid);
}

static void send_descriptors(int to, const int descriptors[PASSED_MAX])
{
	const size_t size = PASSED_MAX * sizeof(int);
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(PASSED_MAX * sizeof(int))];
	} control = {.room = {0}};
	char byte = 0;
	struct iovec part = {&byte, 1};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};

	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(size);
	memcpy(CMSG_DATA(&control.header), descriptors, size);
	sendmsg(to, &message, MSG_NOSIGNAL);
}

static void answer(const struct recording *r, int peer)
{
	int descriptors[PASSED_MAX] = {[PASSED_MEMORY] = r->memory};

	descriptors[PASSED_PLUGIN] = open(r->plugin, O_RDONLY | O_CLOEXEC);
	if (descriptors[PASSED_PLUGIN] < 0)
		return;
	send_descriptors(peer, descriptors);
	close(descriptors[PASSED_PLUGIN]);
}

void qemu_hand_over(struct recording *r)
{
	for (unsigned n = 0; r->socket >= 0 && n < MOST_AT_ONCE; n++) {
		int peer = accept4(r->socket, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		struct ucred who;
		socklen_t size = sizeof(who);

		if (peer < 0)
			break;
		if (!getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &who, &size) &&
		    is_recorded(r, who.pid))
			answer(r, peer);
		close(peer);
	}
}
