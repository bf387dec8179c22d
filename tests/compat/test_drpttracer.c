/* SPDX-License-Identifier: MIT */
/*
 * drpttracer's interface on the simulated kernel, used as DynamoRIO's clients use it. What is
 * expected of layouts, numbers and status codes is from DynamoRIO's headers and their comments.
 */
#include "record/kernel.h"

#include "drmemtrace.h"

#include <ptah/record.h>

#include <stddef.h>

static uint8_t host_obstacle; /* of the simulated machine */

static int look_at_host(const struct ptah_caps *caps, const char *prefix, struct ptah_host *host)
{
	assert_non_null(caps);
	assert_null(prefix);
	host->obstacle = host_obstacle;
	return host_obstacle ? PTAH_E_UNSUPPORTED : PTAH_OK;
}

/* The simulated kernel has what this machine's processor may lack. */
#define ptah_host_look	  look_at_host
#define ptah_recorder_new open_recorder
#include "drpttracer.c" /* NOLINT: with its calls replaced */

TEST(layout)
{
	assert_int_equal(sizeof(pt_metadata_t), 18);
	assert_int_equal(offsetof(pt_metadata_t, cpu_family), 0);
	assert_int_equal(offsetof(pt_metadata_t, cpu_model), 2);
	assert_int_equal(offsetof(pt_metadata_t, cpu_stepping), 3);
	assert_int_equal(offsetof(pt_metadata_t, time_shift), 4);
	assert_int_equal(offsetof(pt_metadata_t, time_mult), 6);
	assert_int_equal(offsetof(pt_metadata_t, time_zero), 10);
	assert_int_equal(sizeof(drpttracer_output_t), 48);
	assert_int_equal(offsetof(drpttracer_output_t, pt_buffer), 0);
	assert_int_equal(offsetof(drpttracer_output_t, pt_buffer_size), 8);
	assert_int_equal(offsetof(drpttracer_output_t, pt_size), 16);
	assert_int_equal(offsetof(drpttracer_output_t, sideband_buffer), 24);
	assert_int_equal(offsetof(drpttracer_output_t, sideband_buffer_size), 32);
	assert_int_equal(offsetof(drpttracer_output_t, sideband_size), 40);
	assert_int_equal(DRPTTRACER_TRACING_ONLY_USER, 0);
	assert_int_equal(DRPTTRACER_TRACING_ONLY_KERNEL, 1);
	assert_int_equal(DRPTTRACER_TRACING_USER_AND_KERNEL, 2);
	assert_int_equal(DRPTTRACER_SUCCESS, 0);
	assert_int_equal(DRPTTRACER_ERROR, 1);
	assert_int_equal(DRPTTRACER_ERROR_INVALID_PARAMETER, 2);
	assert_int_equal(DRPTTRACER_ERROR_FAILED_TO_OPEN_PERF_EVENT, 3);
	assert_int_equal(DRPTTRACER_ERROR_FAILED_TO_MMAP_PERF_DATA, 4);
	assert_int_equal(DRPTTRACER_ERROR_FAILED_TO_MMAP_PT_DATA, 5);
	assert_int_equal(DRPTTRACER_ERROR_FAILED_TO_ALLOCATE_OUTPUT_BUFFER, 6);
	assert_int_equal(DRPTTRACER_ERROR_FAILED_TO_START_TRACING, 7);
	assert_int_equal(DRPTTRACER_ERROR_FAILED_TO_STOP_TRACING, 8);
	assert_int_equal(DRPTTRACER_ERROR_OVERWRITTEN_PT_TRACE, 9);
	assert_int_equal(DRPTTRACER_ERROR_FAILED_TO_READ_PT_DATA, 10);
	assert_int_equal(DRPTTRACER_ERROR_OVERWRITTEN_SIDEBAND_DATA, 11);
	assert_int_equal(DRPTTRACER_ERROR_FAILED_TO_READ_SIDEBANBD_DATA, 12);
}

static const uint8_t *bytes(void)
{
	static uint8_t all[1 << 16];

	for (size_t i = 0; i < sizeof(all); i++)
		all[i] = (uint8_t)((i ^ i >> 8) * 167 + 13);
	return all;
}

/* The driver's part of a stretch that is traced: trace, and a record of it. */
static void trace(struct fake *f, const void *some, size_t n)
{
	const uint64_t at = f->aux_head;

	assert_true(f->on);
	assert_int_equal(put_trace(f, some, n), n);
	put_aux_record(f, at, n, 0);
}

#define CONTEXT ((void *)(intptr_t)-1) /* as GLOBAL_DCONTEXT of dr_api.h */

static void *new_handle(drpttracer_tracing_mode_t mode, unsigned shift)
{
	void *handle = NULL;

	assert_int_equal(drpttracer_create_handle(CONTEXT, mode, shift, shift, &handle),
			 DRPTTRACER_SUCCESS);
	assert_non_null(handle);
	return handle;
}

/*
 * Each system call with a handle of its own and one output for all of them, as drmemtrace's
 * syscall_pt_trace.cpp does; the thread's file is compared byte for byte.
 */
TEST(system_calls)
{
	static const struct {
		unsigned number;
		size_t size;
	} calls[] = {{39, 700}, {186, 1}, {1, 8192}, {39, 640}};
	const int32_t pid = getpid(), tid = gettid();
	drpttracer_output_t *output = NULL;
	uint8_t *written = NULL;
	size_t size, at = 42, n = 0;
	pt_metadata_t metadata;
	uint64_t entry;
	FILE *f = open_memstream((char **)&written, &size);

	reset();
	assert_non_null(f);
	assert_int_equal(drpttracer_create_output(CONTEXT, 8, 0, &output), DRPTTRACER_SUCCESS);
	assert_int_equal(output->pt_buffer_size, 256 * 4096);
	assert_null(output->sideband_buffer);
	assert_int_equal(output->sideband_buffer_size, 0);
	for (unsigned i = 0; i < 4; i++) {
		void *handle = new_handle(DRPTTRACER_TRACING_ONLY_KERNEL, 8);
		struct fake *event = &fakes[2 * i];

		/* pt, tsc, noretcomp, branch of the driver's format; of this thread's kernel code.
		 */
		assert_int_equal(event->attr.config, 1 << 0 | 1 << 10 | 1 << 11 | 1 << 13);
		assert_true(event->attr.exclude_user && !event->attr.exclude_kernel);
		assert_int_equal(event->tid, tid);
		assert_false(event->on);
		map_as_recorder(event);
		assert_int_equal(event->aux_size, 256 * 4096);
		assert_int_equal(event->data_size, 256 * 4096);
		if (!i) {
			event->page->time_shift = 31;
			assert_int_equal(drpttracer_get_pt_metadata(handle, &metadata),
					 DRPTTRACER_SUCCESS);
			drmemtrace_put_metadata(f, pid, tid, &metadata, sizeof(metadata));
		}
		assert_int_equal(drpttracer_start_tracing(CONTEXT, handle), DRPTTRACER_SUCCESS);
		trace(event, bytes() + n, calls[i].size);
		assert_int_equal(drpttracer_stop_tracing(CONTEXT, handle, output),
				 DRPTTRACER_SUCCESS);
		assert_false(event->on);
		assert_int_equal(output->pt_size, calls[i].size);
		assert_int_equal(output->sideband_size, 0);
		drmemtrace_put_syscall(f, &(struct drmemtrace_syscall){pid, tid, calls[i].number, i,
								       NULL, 0, output->pt_buffer,
								       output->pt_size, false});
		assert_int_equal(drpttracer_destroy_handle(CONTEXT, handle), DRPTTRACER_SUCCESS);
		assert_true(fcntl(event->fd, F_GETFD) < 0);
		n += calls[i].size;
	}
	assert_int_equal(drpttracer_destroy_output(CONTEXT, output), DRPTTRACER_SUCCESS);
	assert_int_equal(fclose(f), 0);

	assert_true(metadata.cpu_family >= 6);
	assert_int_equal(metadata.time_mult, 1);
	memcpy(&entry, written + 16, 8);
	assert_int_equal(entry, UINT64_C(2) << 59 | 18);
	for (unsigned i = 0, from = 0; i < 4; from += (unsigned)calls[i++].size) {
		memcpy(&entry, written + at + 16, 8);
		assert_int_equal(entry, UINT64_C(3) << 59 | (48 + calls[i].size));
		memcpy(&entry, written + at + 24, 8);
		assert_int_equal(entry, UINT64_C(4) << 59 | calls[i].number);
		assert_memory_equal(written + at + 48, bytes() + from, calls[i].size);
		at += 48 + calls[i].size;
	}
	assert_int_equal(at, size);
	free(written);
}

/* One handle for all system calls of a thread, an output for each, as DynamoRIO's test has it. */
TEST(one_handle)
{
	drpttracer_output_t *output;
	void *handle;
	size_t at = 0;

	reset();
	handle = new_handle(DRPTTRACER_TRACING_ONLY_KERNEL, 2);
	map_as_recorder(&fakes[0]);
	for (unsigned i = 0; i < 12; i++) {
		const size_t n = 5000 + i;

		assert_int_equal(drpttracer_start_tracing(CONTEXT, handle), DRPTTRACER_SUCCESS);
		trace(&fakes[0], bytes() + at % 4096, n);
		assert_int_equal(drpttracer_create_output(CONTEXT, 2, 0, &output),
				 DRPTTRACER_SUCCESS);
		assert_int_equal(drpttracer_stop_tracing(CONTEXT, handle, output),
				 DRPTTRACER_SUCCESS);
		assert_int_equal(output->pt_size, n);
		assert_memory_equal(output->pt_buffer, bytes() + at % 4096, n);
		assert_int_equal(output->sideband_size, 0);
		assert_int_equal(drpttracer_destroy_output(CONTEXT, output), DRPTTRACER_SUCCESS);
		at += n;
	}
	/* Nothing was traced, and a second stop: an empty output. */
	assert_int_equal(drpttracer_create_output(CONTEXT, 2, 0, &output), DRPTTRACER_SUCCESS);
	assert_int_equal(drpttracer_stop_tracing(CONTEXT, handle, output), DRPTTRACER_SUCCESS);
	assert_int_equal(output->pt_size, 0);
	assert_int_equal(drpttracer_destroy_output(CONTEXT, output), DRPTTRACER_SUCCESS);
	assert_int_equal(fake_count, 2);
	assert_int_equal(drpttracer_destroy_handle(CONTEXT, handle), DRPTTRACER_SUCCESS);
}

/* The number of records of a type; all of them must be the kernel's. */
static unsigned count_records(const drpttracer_output_t *output, uint32_t type)
{
	const uint8_t *all = output->sideband_buffer;
	unsigned count = 0;

	for (size_t at = 0; at < output->sideband_size;) {
		uint16_t size;
		uint32_t is;

		memcpy(&is, all + at, sizeof(is));
		memcpy(&size, all + at + 6, sizeof(size));
		assert_true(is && is < 64);
		assert_true(size >= 8 && size <= output->sideband_size - at);
		count += is == type;
		at += size;
	}
	return count;
}

static void stretch(void *handle, drpttracer_output_t *output, size_t n)
{
	assert_int_equal(drpttracer_start_tracing(CONTEXT, handle), DRPTTRACER_SUCCESS);
	trace(&fakes[0], bytes(), n);
	assert_int_equal(drpttracer_stop_tracing(CONTEXT, handle, output), DRPTTRACER_SUCCESS);
	assert_int_equal(output->pt_size, n);
}

/* With user code there are records. The first output begins with what was mapped before. */
TEST(records)
{
	drpttracer_output_t *output, small = {0};
	uint8_t room[200];
	void *handle;

	reset();
	handle = new_handle(DRPTTRACER_TRACING_ONLY_USER, 4);
	/* CYC in addition. */
	assert_int_equal(fakes[0].attr.config, 1 << 0 | 1 << 1 | 1 << 10 | 1 << 11 | 1 << 13);
	assert_true(!fakes[0].attr.exclude_user && fakes[0].attr.exclude_kernel);
	assert_int_equal(fakes[1].attr.sample_type, 0x10086);
	assert_true(fakes[1].attr.sample_id_all && fakes[1].attr.mmap2);
	map_as_recorder(&fakes[0]);
	assert_int_equal(drpttracer_create_output(CONTEXT, 4, 4, &output), DRPTTRACER_SUCCESS);
	assert_int_equal(output->sideband_buffer_size, 17 * 4096);
	stretch(handle, output, 100);
	assert_true(count_records(output, PERF_RECORD_MMAP2) >= 2);
	assert_int_equal(count_records(output, PERF_RECORD_AUX), 1);
	stretch(handle, output, 50);
	assert_int_equal(count_records(output, PERF_RECORD_MMAP2), 0);
	assert_int_equal(count_records(output, PERF_RECORD_AUX), 1);
	assert_int_equal(drpttracer_destroy_handle(CONTEXT, handle), DRPTTRACER_SUCCESS);

	/* An output without room for the old mappings has the new records all the same. */
	reset();
	handle = new_handle(DRPTTRACER_TRACING_USER_AND_KERNEL, 4);
	assert_false(fakes[0].attr.exclude_user || fakes[0].attr.exclude_kernel);
	map_as_recorder(&fakes[0]);
	small = *output;
	small.sideband_buffer = room;
	small.sideband_buffer_size = sizeof(room);
	stretch(handle, &small, 100);
	assert_int_equal(count_records(&small, PERF_RECORD_MMAP2), 0);
	assert_int_equal(count_records(&small, PERF_RECORD_AUX), 1);
	/* Without room for those either it fails. */
	assert_int_equal(drpttracer_start_tracing(CONTEXT, handle), DRPTTRACER_SUCCESS);
	for (unsigned i = 0; i < 4; i++)
		trace(&fakes[0], bytes(), 8);
	assert_int_equal(drpttracer_stop_tracing(CONTEXT, handle, &small),
			 DRPTTRACER_ERROR_FAILED_TO_READ_SIDEBANBD_DATA);
	stretch(handle, &small, 30);
	assert_int_equal(drpttracer_destroy_handle(CONTEXT, handle), DRPTTRACER_SUCCESS);
	assert_int_equal(drpttracer_destroy_output(CONTEXT, output), DRPTTRACER_SUCCESS);
}

TEST(losses)
{
	const uint64_t lost[8] = {PERF_RECORD_LOST | UINT64_C(56) << 48, 2, 7};
	drpttracer_output_t *output, small;
	void *handle;

	reset();
	handle = new_handle(DRPTTRACER_TRACING_ONLY_USER, 1);
	map_as_recorder(&fakes[0]);
	assert_int_equal(drpttracer_create_output(CONTEXT, 1, 4, &output), DRPTTRACER_SUCCESS);
	assert_int_equal(drpttracer_start_tracing(CONTEXT, handle), DRPTTRACER_SUCCESS);
	assert_int_equal(put_trace(&fakes[0], bytes(), 8192), 8192);
	put_aux_record(&fakes[0], 0, 8192, PERF_AUX_FLAG_TRUNCATED);
	fakes[0].on = false;
	assert_int_equal(drpttracer_stop_tracing(CONTEXT, handle, output),
			 DRPTTRACER_ERROR_OVERWRITTEN_PT_TRACE);
	assert_int_equal(output->pt_size, 8192);
	assert_false(fakes[0].on);
	stretch(handle, output, 100); /* the loss is reported once */
	assert_true(put_record(&fakes[0], lost, 56));
	assert_int_equal(drpttracer_stop_tracing(CONTEXT, handle, output),
			 DRPTTRACER_ERROR_OVERWRITTEN_SIDEBAND_DATA);
	stretch(handle, output, 100);
	/* Trace that does not fit into the output is not there the next time. */
	small = *output;
	small.pt_buffer_size = 99;
	assert_int_equal(drpttracer_start_tracing(CONTEXT, handle), DRPTTRACER_SUCCESS);
	trace(&fakes[0], bytes(), 100);
	assert_int_equal(drpttracer_stop_tracing(CONTEXT, handle, &small),
			 DRPTTRACER_ERROR_FAILED_TO_READ_PT_DATA);
	stretch(handle, output, 77);
	assert_int_equal(drpttracer_destroy_handle(CONTEXT, handle), DRPTTRACER_SUCCESS);
	assert_int_equal(drpttracer_destroy_output(CONTEXT, output), DRPTTRACER_SUCCESS);

	/* Of the kernel alone no records are wanted, so none are missed. */
	reset();
	handle = new_handle(DRPTTRACER_TRACING_ONLY_KERNEL, 1);
	map_as_recorder(&fakes[0]);
	assert_int_equal(drpttracer_create_output(CONTEXT, 1, 0, &output), DRPTTRACER_SUCCESS);
	assert_true(put_record(&fakes[0], lost, 56));
	stretch(handle, output, 100);
	assert_int_equal(drpttracer_destroy_handle(CONTEXT, handle), DRPTTRACER_SUCCESS);
	assert_int_equal(drpttracer_destroy_output(CONTEXT, output), DRPTTRACER_SUCCESS);
}

TEST(what_is_not_valid)
{
	const drpttracer_status_t invalid = DRPTTRACER_ERROR_INVALID_PARAMETER;
	const drpttracer_tracing_mode_t mode = DRPTTRACER_TRACING_ONLY_USER;
	drpttracer_output_t *output = NULL;
	pt_metadata_t metadata;
	void *handle;

	reset();
	assert_int_equal(drpttracer_create_handle(NULL, mode, 8, 8, NULL), invalid);
	assert_int_equal(drpttracer_create_handle(NULL, mode, 0, 8, &handle), invalid);
	assert_int_equal(drpttracer_create_handle(NULL, mode, 8, 0, &handle), invalid);
	assert_int_equal(
	    drpttracer_create_handle(NULL, (drpttracer_tracing_mode_t)3, 8, 8, &handle), invalid);
	assert_int_equal(fake_count, 0);
	assert_int_equal(drpttracer_destroy_handle(NULL, NULL), invalid);
	assert_int_equal(drpttracer_start_tracing(NULL, NULL), invalid);
	assert_int_equal(drpttracer_get_pt_metadata(NULL, &metadata), invalid);
	assert_int_equal(drpttracer_create_output(NULL, 0, 8, &output), invalid);
	assert_int_equal(drpttracer_create_output(NULL, 8, 8, NULL), invalid);
	assert_int_equal(drpttracer_destroy_output(NULL, NULL), invalid);
	assert_int_equal(drpttracer_create_output(NULL, 64, 8, &output),
			 DRPTTRACER_ERROR_FAILED_TO_ALLOCATE_OUTPUT_BUFFER);
	handle = new_handle(mode, 1);
	assert_int_equal(drpttracer_stop_tracing(NULL, handle, NULL), invalid);
	assert_int_equal(drpttracer_stop_tracing(NULL, NULL, output), invalid);
	assert_int_equal(drpttracer_get_pt_metadata(handle, NULL), invalid);
	assert_int_equal(drpttracer_destroy_handle(NULL, handle), DRPTTRACER_SUCCESS);
}

TEST(what_the_kernel_refuses)
{
	static const int errors[] = {EACCES, EBUSY, ENOENT, ENODEV, EMFILE, ENOSYS};
	void *handle;

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		reset();
		refuse_with = errors[i];
		assert_int_equal(
		    drpttracer_create_handle(NULL, DRPTTRACER_TRACING_ONLY_USER, 8, 8, &handle),
		    DRPTTRACER_ERROR_FAILED_TO_OPEN_PERF_EVENT);
	}
	/* Limits of locked memory, and sizes that no kernel takes. */
	assert_int_equal(status_of_problem(PTAH_RECORD_MLOCK, 8, 8),
			 DRPTTRACER_ERROR_FAILED_TO_MMAP_PT_DATA);
	assert_int_equal(status_of_problem(PTAH_RECORD_BAD_OPTION, 20, 8),
			 DRPTTRACER_ERROR_FAILED_TO_MMAP_PT_DATA);
	assert_int_equal(status_of_problem(PTAH_RECORD_BAD_OPTION, 20, 20),
			 DRPTTRACER_ERROR_FAILED_TO_MMAP_PERF_DATA);
	assert_int_equal(status_of_problem(PTAH_RECORD_NO_PROCESSOR, 20, 20),
			 DRPTTRACER_ERROR_FAILED_TO_OPEN_PERF_EVENT);
}

TEST(initialisation)
{
	host_obstacle = PTAH_HOST_DRIVER;
	assert_false(drpttracer_init());
	assert_false(drpttracer_init());
	host_obstacle = PTAH_HOST_PROCESSOR;
	assert_false(drpttracer_init());
	/* A user without permission finds out when a handle is created. */
	host_obstacle = PTAH_HOST_PERMISSION;
	assert_true(drpttracer_init());
	assert_true(drpttracer_init());
	drpttracer_exit();
	drpttracer_exit();
	host_obstacle = PTAH_HOST_NONE;
	assert_true(drpttracer_init());
	drpttracer_exit();
}

TEST_GROUP(enter, leave)
