/* SPDX-License-Identifier: MIT */
/*
 * Proves of files of bare records (perfdata_open_records): any bytes are read to their end, or up
 * to an error whose message names the file; each record is the same when it is read by its offset;
 * and there are no more records than fit.
 *
 * Input: three u64, which are the sample_type of the file, the id of another event and its
 * sample_type; a byte that says where the file is divided into two parts; the file.
 */
#include "fuzz.h"

#include "perfdata/format.h"
#include "perfdata/reader.h"

#include <sys/mman.h>
#include <unistd.h>

#define HEAD 25

static void check_again(struct perfdata_file *f, const struct perfdata_record *was)
{
	struct perfdata_record r;

	CHECK(!perfdata_read_at(f, was->offset, &r));
	CHECK(r.type == was->type && r.time == was->time && r.cpu == was->cpu);
	CHECK(r.pid == was->pid && r.tid == was->tid && r.offset == was->offset);
	CHECK(r.text == was->text && r.text_size == was->text_size && r.bytes == was->bytes);
}

/* Reads what the record points at. */
static uint64_t touch(const struct perfdata_record *r)
{
	uint64_t sum = 0;

	for (size_t i = 0; r->text && i < r->text_size; i++)
		sum += (uint8_t)r->text[i];
	if (r->type == PERFDATA_TEXT_POKE || r->type == PERFDATA_HEADER_EVENT_TYPE)
		for (uint64_t i = 0; r->bytes && i < r->old_size + r->size; i++)
			sum += r->bytes[i];
	return sum;
}

static void use(struct perfdata_file *f, const char *path, size_t size)
{
	struct ptah_message why = {""};
	struct perfdata_record r;
	uint64_t count = 0, sum = 0;
	int status;

	while ((status = perfdata_next(f, &r, &why)) > 0) {
		CHECK(r.type < PERFDATA_USER || r.type == PERFDATA_HEADER_EVENT_TYPE);
		CHECK(r.type != PERFDATA_SAMPLE && r.tag != PERFDATA_PTAH_TRUTH);
		CHECK(++count <= size / PERFDATA_RECORD_HEADER);
		check_again(f, &r);
		sum += touch(&r);
	}
	CHECK(sum <= 255 * size * 2);
	CHECK(status == 0 || strstr(why.text, path) == why.text);
	CHECK(!perfdata_truncated(f) || !strcmp(perfdata_cut_path(f), path));
	CHECK(perfdata_size(f) <= size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct perfdata_records_part parts[2];
	struct perfdata_records_event event;
	struct perfdata_records config = {
	    .parts = parts,
	    .count = 2,
	    .events = &event,
	    .clock = {.shift = 3, .mult = 2, .zero = 1000},
	};
	struct ptah_message why = {""};
	struct perfdata_file *f;
	uint64_t head[3], middle;
	char path[64];
	int fd;

	if (size < HEAD)
		return 0;
	memcpy(head, data, sizeof(head));
	middle = (size - HEAD) * data[24] / 256;
	fd = memfd_create("records", 0);
	CHECK(fd >= 0 && write(fd, data + HEAD, size - HEAD) == (ssize_t)(size - HEAD));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	event = (struct perfdata_records_event){head[1], head[2]};
	parts[0] = (struct perfdata_records_part){
	    .path = path, .to = middle, .sample_type = head[0], .cpu = 1, .pid = -1, .tid = -1};
	parts[1] = parts[0];
	parts[0].from = middle ? 0 : size - HEAD; /* `to` 0 is the end */
	parts[1].from = middle;
	parts[1].to = size - HEAD;
	parts[1].tsc_offset = (int64_t)head[1];
	config.event_count = data[24] & 1;
	CHECK(!perfdata_open_records(&config, &f, &why));
	use(f, path, size - HEAD);
	perfdata_close(f);
	close(fd);
	return 0;
}
