/* SPDX-License-Identifier: MIT */
/*
 * A damaged recording of a real program: ptah_session_verify() notices every changed bit of a
 * branch, and a file that was cut anywhere gives an orderly result.
 */
#include "perfdata/build.h"

#include "perfdata/reader.h"

#include <sys/stat.h>
#include <sys/wait.h>

#define FLIPS 200
#define CUTS  100

static struct perfdata_buffer recording;

/* Exit 77 is "skipped" to ctest. */
static void skip_all(const char *why)
{
	printf("SKIP: %s\n", why);
	exit(77);
}

static int run(const char *arguments)
{
	const char *ptah = getenv("PTAH");
	char command[4096];
	int status;

	if (!ptah || access(ptah, X_OK))
		skip_all("no ptah to record with: PTAH names none");
	snprintf(command, sizeof(command), "'%s' %s >damage.out 2>damage.err", ptah, arguments);
	status = system(command);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static void read_recording(const char *path)
{
	uint8_t bytes[65536];
	FILE *f = fopen(path, "r");
	size_t n;

	assert_non_null(f);
	while ((n = fread(bytes, 1, sizeof(bytes), f)) > 0)
		perfdata_put(&recording, bytes, n);
	fclose(f);
}

static void write_file(const char *path, const void *bytes, size_t n)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, n, f), n);
	assert_int_equal(fclose(f), 0);
}

static int record(void **state)
{
	(void)state;
	if (system("command -v qemu-x86_64 >/dev/null"))
		skip_all("no qemu-x86_64 to record with");
	assert_int_equal(run("record -q --recorder=qemu -o damage.data -- ls -l /"), 0);
	read_recording("damage.data");
	return 0;
}

static int clean_up(void **state)
{
	(void)state;
	perfdata_buffer_free(&recording);
	unlink("damage.data");
	unlink("damage.out");
	unlink("damage.err");
	return 0;
}

/* Whether all streams verify. A file that is refused does not. */
static bool verify(void)
{
	struct ptah_message why = {""};
	struct ptah_session *s = NULL;
	bool equal = true;

	if (ptah_session_open("damage.data", NULL, &s, &why) < 0) {
		assert_true(strstr(why.text, "damage.data") != NULL);
		return false;
	}
	for (size_t i = 0; i < ptah_session_streams(s); i++) {
		struct ptah_verify result;
		int status = ptah_session_verify(s, i, NULL, &result);

		assert_true(status == 0 || status == PTAH_E_MISSING);
		equal = equal && status == 0 && result.equal;
	}
	ptah_session_close(s);
	return equal;
}

struct place {
	size_t offset;
	unsigned size;
};

/* Finds the packets in the file that determine the path of the program. */
static size_t find_branches(struct place *places, size_t capacity)
{
	struct perfdata_file *f = NULL;
	struct ptah_message why;
	struct perfdata_record r;
	size_t n = 0;

	assert_int_equal(perfdata_open("damage.data", &f, &why), 0);
	while (perfdata_next(f, &r, &why) == 1) {
		struct ptah_packet packet;
		uint64_t at = 0;
		int size;

		if (r.type != PERFDATA_AUXTRACE)
			continue;
		for (; at < r.trace_size; at += (uint64_t)size) {
			size = ptah_packet_decode(&packet, r.bytes + at, r.trace_size - at, 0);
			assert_true(size > 0);
			if (packet.type != PTAH_PACKET_TNT_8 && packet.type != PTAH_PACKET_TNT_64 &&
			    packet.type != PTAH_PACKET_TIP && packet.type != PTAH_PACKET_TIP_PGE)
				continue;
			if (n < capacity)
				places[n] = (struct place){r.offset + 48 + at, (unsigned)size};
			n++;
		}
	}
	perfdata_close(f);
	return n < capacity ? n : capacity;
}

TEST(changed_bits_are_noticed)
{
	static struct place places[1 << 20];
	uint64_t seed = 88172645463325252u;
	size_t n;

	assert_true(verify());
	n = find_branches(places, ARRAY_SIZE(places));
	assert_true(n > FLIPS);
	for (unsigned i = 0; i < FLIPS; i++) {
		const struct place *p;
		size_t at;
		unsigned bit;

		for (unsigned k = 0; k < 3; k++)
			seed ^= k == 1 ? seed >> 7 : seed << (k ? 17 : 13);
		p = &places[n * i / FLIPS + seed % (n / FLIPS)];
		at = p->offset + (seed >> 32) % p->size;
		bit = seed >> 16 & 7;
		recording.bytes[at] ^= (uint8_t)(1 << bit);
		write_file("damage.data", recording.bytes, recording.size);
		recording.bytes[at] ^= (uint8_t)(1 << bit);
		if (verify())
			fail_msg("bit %u of the byte at %zu is not noticed", bit, at);
		if (!i)
			assert_int_equal(run("verify -q damage.data"), 1);
	}
	write_file("damage.data", recording.bytes, recording.size);
	assert_true(verify());
	assert_int_equal(run("verify -q damage.data"), 0);
}

TEST(cut_files_are_not_whole)
{
	uint64_t data_size = load_le64(recording.bytes + PERFDATA_AT_DATA_SIZE);

	for (unsigned i = 0; i < CUTS; i++) {
		size_t n = recording.size * i / CUTS;

		write_file("damage.data", recording.bytes, n);
		assert_true(!verify() || n >= BUILD_DATA + data_size);
		if (i % 10 == 5) {
			int status = run("stat -q damage.data");

			assert_true(status == 1 || n >= BUILD_DATA + data_size);
		}
	}
	write_file("damage.data", recording.bytes, recording.size);
}

TEST_GROUP(record, clean_up)
