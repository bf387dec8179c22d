/* SPDX-License-Identifier: MIT */
/*
 * Proves of recordings with samples: their fields can be read, system calls are written as text that
 * fits and has no control character, and waits lie in the time of their calls, those of a thread one
 * after the other, each ended by what exists.
 *
 * Input: a perf.data file.
 */
#include "fuzz.h"

#include <ptah/waits.h>

#include <sys/mman.h>
#include <unistd.h>

static void read_samples(const struct ptah_session *s)
{
	struct ptah_sample sample = {.size = sizeof(sample)};
	struct ptah_sample_field field = {.size = sizeof(field)};
	uint64_t last = 0, sum = 0;

	for (size_t i = 0; ptah_session_sample(s, i, &sample) >= 0; i++) {
		CHECK(sample.time >= last && sample.kind < PTAH_SAMPLE_KIND_MAX);
		last = sample.time;
		for (size_t k = 0; ptah_sample_field(s, &sample, k, &field) >= 0; k++)
			for (size_t n = 0; n < field.count; n++)
				sum += field.bytes[n];
		CHECK(ptah_session_next_sample(s, sample.tid, i) > i);
	}
	CHECK(sum < UINT64_MAX);
}

static void read_calls(const struct ptah_syscalls *calls)
{
	struct ptah_syscall call = {.size = sizeof(call)};
	char text[300];

	for (size_t i = 0; ptah_syscalls_get(calls, i, &call) >= 0; i++) {
		const size_t room = 1 + i % sizeof(text);

		CHECK(call.flags && call.descriptor < PTAH_DESCRIPTOR_KIND_MAX);
		ptah_syscall_text(calls, i, text, room);
		CHECK(strlen(text) < room);
		for (const char *p = text; *p; p++)
			CHECK((unsigned char)*p >= ' ' && *p != 0x7f);
	}
}

static void read_waits(const struct ptah_waits *waits)
{
	struct ptah_wait wait = {.size = sizeof(wait)};
	const size_t calls = ptah_syscalls_count(ptah_waits_syscalls(waits));
	uint64_t last = 0;

	for (size_t i = 0; ptah_waits_get(waits, i, &wait) >= 0; i++) {
		CHECK(wait.begin >= last && wait.kind < PTAH_WAIT_KIND_MAX);
		last = wait.begin;
		CHECK(wait.how < PTAH_WAIT_END_MAX);
		CHECK(wait.call == SIZE_MAX || wait.call < calls);
		CHECK(wait.waker_call == SIZE_MAX || wait.waker_call < calls);
		CHECK(ptah_waits_next(waits, i) > i);
		CHECK(ptah_waits_of_thread(waits, wait.tid, 0) <= i || wait.end == 0);
		for (unsigned k = 0; k < PTAH_WAIT_STACK_MAX; k++)
			CHECK(ptah_waits_stack(waits, i, (enum ptah_wait_stack)k, NULL, 0) <
			      1 << 20);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ptah_session_config config = {
	    .size = sizeof(config), .no_images = true, .samples = true};
	struct ptah_waits_config waiting = {.size = sizeof(waiting), .stacks = true};
	struct ptah_session *session;
	struct ptah_waits *waits;
	struct ptah_message why;
	char path[64];
	int fd = memfd_create("waits", 0);

	CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (ptah_session_open(path, &config, &session, &why) >= 0) {
		read_samples(session);
		CHECK(!ptah_waits_new(session, &waiting, &waits));
		read_calls(ptah_waits_syscalls(waits));
		read_waits(waits);
		ptah_waits_free(waits);
		ptah_session_close(session);
	}
	close(fd);
	return 0;
}
