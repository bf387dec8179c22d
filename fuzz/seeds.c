/* SPDX-License-Identifier: MIT */
/*
 * Writes the seeds of the fuzzers:
 *
 * 	fuzz-seeds fuzz/corpus
 *
 * This output is checked in, and a test compares it. With another option it
 * writes what contains one packet of every type, the dictionary and a seed of
 * some fuzzers:
 *
 * 	fuzz-seeds --every-type build/fuzz/every-type
 *
 * Every build does that, so that a new packet in packets.def changes no file in
 * fuzz/.
 */
#include "seeds.h"

#include "packet/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void put_bytes(struct buffer *b, const void *bytes, size_t n)
{
	memcpy(b->bytes + b->size, bytes, n);
	b->size += n;
}

void put_words(struct buffer *b, const uint64_t *words, size_t n)
{
	put_bytes(b, words, 8 * n);
}

void put_packet(struct buffer *b, struct ptah_packet packet)
{
	int n = ptah_packet_encode(&packet, b->bytes + b->size, sizeof(b->bytes) - b->size);

	if (n < 0) {
		fprintf(stderr, "%s: %s\n", ptah_packet_name(packet.type), ptah_strerror(n));
		exit(1);
	}
	b->size += (size_t)n;
}

void put_example(struct buffer *b, struct ptah_packet_parser *parser, unsigned type)
{
	char line[128];
	int n;

	snprintf(line, sizeof(line), "%s %s", packet_entries[type].name,
		 packet_entries[type].example);
	n = ptah_packet_parse(parser, line, b->bytes + b->size, sizeof(b->bytes) - b->size);
	if (n <= 0) {
		fprintf(stderr, "packets.def: \"%s\": expected %s\n", line, parser->expected);
		exit(1);
	}
	b->size += (size_t)n;
}

void put_psb(struct buffer *b, uint64_t ip)
{
	PUT(b, PSB);
	PUT(b, TSC, .u.tsc.tsc = 0x1000);
	PUT(b, CBR, .u.cbr.ratio = 30);
	PUT(b, MODE_EXEC, .u.exec.mode = PTAH_EXEC_64);
	if (ip)
		IP(b, FUP, ip);
	PUT(b, PSBEND);
}

static void write_file(const char *folder, const char *name, const struct buffer *b)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "w");
	if (!f || fwrite(b->bytes, 1, b->size, f) != b->size || fclose(f)) {
		perror(path);
		exit(1);
	}
}

static void write_dictionary(const char *folder)
{
	struct ptah_packet_parser parser = {0};
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/packets.dict", folder);
	f = fopen(path, "w");
	if (!f) {
		perror(path);
		exit(1);
	}
	fprintf(f, "# Made by fuzz/seeds.c: one packet of every type.\n");
	for (unsigned type = 0; type < PTAH_PACKET_TYPE_MAX; type++) {
		struct buffer b = {.size = 0};

		put_example(&b, &parser, type);
		fprintf(f, "# %s\n\"", ptah_packet_name(type));
		for (size_t i = 0; i < b.size; i++)
			fprintf(f, "\\x%02x", b.bytes[i]);
		fprintf(f, "\"\n");
	}
	fclose(f);
}

static void write_seeds(const char *folder, const struct seeds *seeds)
{
	for (size_t i = 0; i < seeds->count; i++) {
		static struct buffer b;

		memset(&b, 0, sizeof(b));
		seeds->list[i].make(&b);
		write_file(folder, seeds->list[i].name, &b);
	}
}

int main(int argc, char **argv)
{
	static const struct seeds *const all[] = {&seeds_of_packets, &seeds_of_files,
						  &seeds_of_recordings, &seeds_of_saved,
						  &seeds_of_engine};

	if (argc == 2) {
		for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
			write_seeds(argv[1], all[i]);
		return 0;
	}
	if (argc == 3 && !strcmp(argv[1], "--every-type")) {
		write_seeds(argv[2], &seeds_of_every_type);
		write_dictionary(argv[2]);
		return 0;
	}
	fprintf(stderr, "usage: %s CORPUS | --every-type FOLDER\n", argv[0]);
	return 2;
}
