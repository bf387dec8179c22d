/* SPDX-License-Identifier: MIT */
/* Asks the recorder for descriptors of the shared memory and the plugin's file (handover.c). */
#include "record/qemu/plugin/plugin.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Whether it is the recorder that listens, and not another process that took its address since. */
static bool is_recorder(int fd)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) &&
	       peer.pid == atomic_load(&plugin.shared->recorder);
}

static bool connect_to_recorder(int fd)
{
	const struct shared_header *h = plugin.shared;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const socklen_t size = (socklen_t)offsetof(struct sockaddr_un, sun_path) + h->socket_size;

	if (!h->socket_size || h->socket_size > sizeof(h->socket))
		return false;
	memcpy(address.sun_path, h->socket, h->socket_size);
	while (!plugin.recorder_gone) {
		if (!connect(fd, (struct sockaddr *)&address, size))
			return is_recorder(fd);
		if (errno != EAGAIN) /* others wait too */
			return false;
		plugin_doze();
	}
	return false;
}

/* False: the recorder refused. */
static bool receive(int fd, int descriptors[PASSED_MAX])
{
	const size_t size = PASSED_MAX * sizeof(int);
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(PASSED_MAX * sizeof(int))];
	} control;

	while (!plugin.recorder_gone) {
		char byte;
		struct iovec part = {&byte, 1};
		struct msghdr message = {.msg_iov = &part,
					 .msg_iovlen = 1,
					 .msg_control = &control,
					 .msg_controllen = sizeof(control)};
		ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

		if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
			plugin_doze();
			continue;
		}
		if (got != 1 || message.msg_controllen < CMSG_LEN(size) ||
		    control.header.cmsg_level != SOL_SOCKET ||
		    control.header.cmsg_type != SCM_RIGHTS)
			break;
		memcpy(descriptors, CMSG_DATA(&control.header), size);
		return true;
	}
	return false;
}

bool plugin_request(int descriptors[PASSED_MAX])
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	bool received = fd >= 0 && connect_to_recorder(fd) && receive(fd, descriptors);

	if (fd >= 0)
		close(fd);
	return received;
}
