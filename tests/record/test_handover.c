/* SPDX-License-Identifier: MIT */
/* The recorder passes its memory to the processes that it records, and to no other. */
#include "test.h"

#include "record/qemu/qemu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct recording *open_recording(void)
{
	struct recording *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	r->plugin = strdup("/proc/self/exe");
	r->shared = calloc(1, sizeof(*r->shared));
	r->memory = memfd_create("test", MFD_CLOEXEC);
	assert_true(r->shared && r->memory >= 0 && write(r->memory, "mine", 4) == 4);
	qemu_listen(r);
	if (!r->shared->socket_size)
		skip();
	return r;
}

static void close_recording(struct recording *r)
{
	close(r->socket);
	close(r->memory);
	processes_free(&r->processes);
	free(r->plugin);
	free(r->shared);
	free(r);
}

static int connect_to(const struct recording *r)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	memcpy(address.sun_path, r->shared->socket, r->shared->socket_size);
	assert_int_equal(
	    connect(fd, (struct sockaddr *)&address,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + r->shared->socket_size)),
	    0);
	return fd;
}

/* The descriptor of the memory that was passed on; -1: none was. */
static int receive(int fd)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(PASSED_MAX * sizeof(int))];
	} control;
	char byte;
	struct iovec part = {&byte, 1};
	struct msghdr message = {.msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	int passed[PASSED_MAX] = {-1, -1};

	if (recvmsg(fd, &message, 0) == 1)
		memcpy(passed, CMSG_DATA(&control.header), sizeof(passed));
	close(fd);
	if (passed[PASSED_PLUGIN] >= 0)
		close(passed[PASSED_PLUGIN]);
	return passed[PASSED_MEMORY];
}

TEST(test_recorded_processes_get_the_memory)
{
	struct recording *r = open_recording();
	char text[5] = "";
	int fd, passed;

	assert_non_null(processes_add(&r->processes, getpid(), getppid(), "test"));
	fd = connect_to(r);
	qemu_hand_over(r);
	passed = receive(fd);
	assert_true(passed >= 0 && pread(passed, text, 4, 0) == 4);
	assert_string_equal(text, "mine");
	close(passed);
	close_recording(r);
}

TEST(test_others_get_nothing)
{
	struct recording *r = open_recording();
	int fd;

	assert_non_null(processes_add(&r->processes, getppid(), 1, "another"));
	fd = connect_to(r);
	qemu_hand_over(r);
	assert_int_equal(receive(fd), -1);
	close_recording(r);
}
