/* SPDX-License-Identifier: MIT */
/* A thread that records itself with the recorder hardware, on the simulated kernel of kernel.h. */
#include "kernel.h"

#include <pthread.h>

/* The records that a sink receives, one after the other, and when trace came among them. */
struct kept {
	uint8_t records[1 << 18];
	size_t size;
	size_t trace, records_before_trace; /* bytes; those before the first piece of trace */
};

static int keep(void *context, const struct ptah_record_piece *piece)
{
	struct kept *k = context;

	if (piece->kind == PTAH_RECORD_PIECE_TRACE) {
		if (!k->trace)
			k->records_before_trace = k->size;
		k->trace += piece->size;
		return 0;
	}
	assert_true(k->size + piece->size <= sizeof(k->records));
	memcpy(k->records + k->size, piece->bytes, piece->size);
	k->size += piece->size;
	return 0;
}

static const uint8_t *next_record(const struct kept *k, size_t end, size_t *at, uint32_t type)
{
	while (*at < end) {
		const uint8_t *record = k->records + *at;
		uint16_t size;
		uint32_t is;

		memcpy(&is, record, sizeof(is));
		memcpy(&size, record + 6, sizeof(size));
		assert_true(size >= 8 && size <= end - *at);
		*at += size;
		if (is == type)
			return record;
	}
	return NULL;
}

/* PERF_RECORD_MMAP2 as perf_event_open(2) has it; false: it is another mapping. */
static bool is_mmap2_of(const uint8_t *record, uint64_t start, uint64_t end, uint64_t offset,
			const char *path)
{
	uint64_t fields[3];
	int32_t pid;

	memcpy(&pid, record + 8, sizeof(pid));
	memcpy(fields, record + 16, sizeof(fields));
	return pid == getpid() && fields[0] == start && fields[1] == end - start &&
	       fields[2] == offset && !strcmp((const char *)record + 72, path);
}

/* Asserts that each line of /proc/self/maps with executable memory has its record. Their number. */
static unsigned compare_maps(const struct kept *k, size_t end)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long from, to, offset;
	char line[1024], prot[8], path[512];
	unsigned found = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		const uint8_t *record = NULL;
		size_t at = 0;

		path[0] = '\0';
		assert_true(sscanf(line, "%lx-%lx %7s %lx %*s %*s %511s", &from, &to, prot, &offset,
				   path) >= 4);
		if (prot[2] != 'x' || path[0] != '/')
			continue;
		while ((record = next_record(k, end, &at, PERF_RECORD_MMAP2)))
			if (is_mmap2_of(record, from, to, offset, path))
				break;
		if (!record)
			fail_msg("no record of: %s", line);
		found++;
	}
	fclose(f);
	return found;
}

static void *trace_itself(void *context)
{
	struct kept *k = context;
	const struct ptah_record_sink to = {.take = keep, .context = k};
	struct ptah_record_config config = self_config(PTAH_RECORD_DRAIN);
	const uint8_t *record;
	struct ptah_recorder *r;
	uint32_t ids[2];
	bool named = false;
	size_t at = 0;

	config.output.sink = &to;
	assert_int_equal(pthread_setname_np(pthread_self(), "traced"), 0);
	r = start(&config);
	assert_int_equal(fakes[0].tid, gettid());
	map_as_recorder(&fakes[0]);
	put_trace(&fakes[0], pattern(), 100);
	assert_int_equal(ptah_recorder_finish(r), 0);
	ptah_recorder_free(r);
	assert_int_equal(k->trace, 100);
	/* The program, libc and the others: at least two files with code. */
	assert_true(compare_maps(k, k->records_before_trace) >= 2);
	while ((record = next_record(k, k->records_before_trace, &at, PERF_RECORD_COMM))) {
		memcpy(ids, record + 8, sizeof(ids));
		named = named || ((int32_t)ids[0] == getpid() && (int32_t)ids[1] == gettid() &&
				  !strcmp((const char *)record + 16, "traced"));
	}
	assert_true(named);
	return NULL;
}

/*
 * A thread that records itself gets what its process had mapped before, and its name, before the
 * first trace; whether it is the first thread or another.
 */
TEST(what_a_thread_had_mapped)
{
	static struct kept kept;
	pthread_t thread;

	trace_itself(&kept);
	kept = (struct kept){.size = 0};
	assert_int_equal(pthread_create(&thread, NULL, trace_itself, &kept), 0);
	pthread_join(thread, NULL);
}

/* A look at each processor moves the thread there. One that records itself stays where it is. */
TEST(a_thread_that_stays)
{
	struct ptah_record_config config = self_config(PTAH_RECORD_DRAIN);
	struct ptah_message why = {""};
	struct ptah_recorder *r;

	moves = 0;
	recorder_hardware.check(&config, &why);
	r = start(&config);
	assert_int_equal(ptah_recorder_finish(r), 0);
	ptah_recorder_free(r);
	assert_int_equal(moves, 0);
	config.target.kind = PTAH_RECORD_CPUS;
	recorder_hardware.check(&config, &why);
	assert_true(moves > 0);
}

TEST(without_what_existed)
{
	static struct kept kept;
	const struct ptah_record_sink to = {.take = keep, .context = &kept};
	struct ptah_record_config config = self_config(PTAH_RECORD_DRAIN);
	struct ptah_recorder *r;
	size_t at = 0;

	config.output.sink = &to;
	config.target.no_existing = true;
	r = start(&config);
	map_as_recorder(&fakes[0]);
	put_trace(&fakes[0], pattern(), 100);
	put_aux_record(&fakes[0], 0, 100, 0);
	assert_int_equal(ptah_recorder_finish(r), 0);
	ptah_recorder_free(r);
	assert_int_equal(kept.trace, 100);
	assert_null(next_record(&kept, kept.size, &at, PERF_RECORD_MMAP2));
	at = 0;
	assert_null(next_record(&kept, kept.size, &at, PERF_RECORD_COMM));
	/* What the kernel reports comes as ever. */
	at = 0;
	assert_non_null(next_record(&kept, kept.size, &at, PERF_RECORD_AUX));
}

/*
 * A thread that records itself reads nothing while it is traced. After a pause, one poll delivers
 * everything up to the pause, and nothing of what follows the next resume.
 */
TEST(delivery_after_a_pause)
{
	const uint8_t *bytes = pattern();
	struct ptah_record_config config = self_config(PTAH_RECORD_DRAIN);
	struct fake *f = &fakes[0];
	struct ptah_recorder *r;
	size_t at = 0;

	config.target.start_paused = true;
	r = start(&config);
	assert_false(f->on);
	map_as_recorder(f);
	assert_int_equal(ptah_recorder_poll(r, 0), 1);
	assert_int_equal(taken.size, 0);
	for (unsigned round = 1; round <= 5; round++) {
		const size_t n = 3000 + 200 * round;

		assert_int_equal(ptah_recorder_pause(r, false), 0);
		assert_true(f->on);
		assert_int_equal(put_trace(f, bytes + at, n), n);
		put_aux_record(f, at, n, 0);
		assert_int_equal(ptah_recorder_pause(r, true), 0);
		assert_false(f->on);
		assert_int_equal(taken.size, at);
		assert_int_equal(ptah_recorder_poll(r, 0), 1);
		assert_false(f->on);
		assert_int_equal(taken.size, at + n);
		assert_int_equal(taken.last.offset, at);
		at += n;
		assert_int_equal(ptah_recorder_poll(r, 0), 1);
		assert_int_equal(taken.size, at);
	}
	assert_memory_equal(taken.bytes, bytes, at);
	/* What was traced up to a pause that nobody polled after is delivered at the end. */
	assert_int_equal(ptah_recorder_pause(r, false), 0);
	assert_int_equal(put_trace(f, bytes + at, 10), 10);
	assert_int_equal(ptah_recorder_pause(r, true), 0);
	assert_int_equal(ptah_recorder_finish(r), 0);
	assert_int_equal(taken.size, at + 10);
	assert_memory_equal(taken.bytes, bytes, at + 10);
	assert_int_equal(status_of(r).losses.truncated, 0);
	ptah_recorder_free(r);
}

TEST_GROUP(enter, leave)
