/* SPDX-License-Identifier: MIT */
/* System calls as text: what strace(1) writes, and what strangers have put into paths. */
#include "waits/recording.h"

#define OPENAT 257

static void check_text(const struct ptah_syscalls *calls, size_t i, const char *wanted)
{
	char text[256];

	assert_string_equal(ptah_syscall_text(calls, i, text, sizeof(text)), wanted);
}

/* The expected lines are strace's, with the time that is given here. */
TEST(test_as_strace)
{
	static const char path[] = "/tmp/x";
	struct perfdata_buffer b = {0};
	struct ptah_session *session;
	struct ptah_syscalls *calls;

	recording_begin(&b);
	put_enter(&b, 1, 1, 1000, OPENAT, ARGS((uint64_t)-100, 0x5000, 0x80000));
	put_data(&b, 1, 1, 1000, OPENAT, 1, 0, path, sizeof(path));
	put_exit(&b, 1, 1, 13000, OPENAT, 3);
	put_call(&b, 1, 1, 20000, 22000, 0, ARGS(3, 0x7ff0, 4096), 4096);
	put_call(&b, 1, 1, 30000, 31000, 3, ARGS(7), -9);
	put_call(&b, 1, 1, 40000, 41000, 9, ARGS(0, 8192, 3, 0x22, (uint32_t)-1, 0),
		 0x7f0000000000);
	put_enter(&b, 1, 1, 50000, 231, ARGS(2));
	session = recording_open(&b);
	assert_false(ptah_syscalls_new(session, &calls));
	check_text(calls, 0, "openat(AT_FDCWD, \"/tmp/x\", O_RDONLY|O_CLOEXEC) = 3 <0.000012>");
	check_text(calls, 1, "read(3</tmp/x>, 0x7ff0, 4096) = 4096 <0.000002>");
	check_text(calls, 2, "close(7) = -1 EBADF <0.000001>");
	check_text(calls, 3,
		   "mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, "
		   "0) = 0x7f0000000000 <0.000001>");
	check_text(calls, 4, "exit_group(2) = ?");
	ptah_syscalls_free(calls);
	ptah_session_close(session);
}

/* No byte of a path reaches a terminal as a command. */
TEST(test_hostile_path)
{
	static const char path[] = "a\x1b[2J\"\n\x9b\xc2\x9b\xe2\x80\xae\xff";
	struct perfdata_buffer b = {0};
	struct ptah_session *session;
	struct ptah_syscalls *calls;
	char text[8];

	recording_begin(&b);
	put_enter(&b, 1, 1, 1000, OPENAT, ARGS((uint64_t)-100, 0x5000, 0));
	put_data(&b, 1, 1, 1000, OPENAT, 1, 0, path, sizeof(path));
	session = recording_open(&b);
	assert_false(ptah_syscalls_new(session, &calls));
	check_text(calls, 0,
		   "openat(AT_FDCWD, \"a\\x1b[2J\\\"\\n\\x9b\\xc2\\x9b\\xe2\\x80\\xae"
		   "\\xff\", O_RDONLY) = ?");
	/* A short buffer gets the beginning. */
	assert_string_equal(ptah_syscall_text(calls, 0, text, sizeof(text)), "openat(");
	ptah_syscalls_free(calls);
	ptah_session_close(session);
}
