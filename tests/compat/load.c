/* SPDX-License-Identifier: MIT */
/*
 * Loads inputs. Sections are written to files for every input, so that each way of adding them can
 * be tested.
 */
#include "twin.h"

#include "bench/bench.h"
#include "golden/case.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void map_section(struct twin_section *s)
{
	const uint64_t slack = s->offset % 4096;
	int file = open(s->path, O_RDONLY | O_CLOEXEC);
	uint8_t *at;

	if (file < 0)
		twin_die(s->path, "cannot be opened");
	at = mmap(NULL, s->size + slack, PROT_READ, MAP_PRIVATE, file, (off_t)(s->offset - slack));
	if (at == MAP_FAILED)
		twin_die(s->path, "cannot be mapped");
	close(file);
	s->bytes = at + slack;
}

static void unmap_section(const struct twin_section *s)
{
	const uint64_t slack = s->offset % 4096;

	munmap((uint8_t *)(uintptr_t)s->bytes - slack, s->size + slack);
}

static void begin(struct twin_input *input, const char *name)
{
	memset(input, 0, sizeof(*input));
	snprintf(input->name, sizeof(input->name), "%s", name);
	pt_config_init(&input->config);
	input->file = -1;
}

static struct twin_section *add_section(struct twin_input *input)
{
	struct twin_section *s;

	input->sections =
	    realloc(input->sections, (input->nsections + 1) * sizeof(*input->sections));
	if (!input->sections)
		twin_die(input->name, "out of memory");
	s = &input->sections[input->nsections++];
	memset(s, 0, sizeof(*s));
	pt_asid_init(&s->asid);
	return s;
}

/* Translates Ptah's settings to libipt's. */
static void configure(struct pt_config *to, const struct ptah_flow_config *from)
{
	uint64_t *const first[] = {&to->addr_filter.addr0_a, &to->addr_filter.addr1_a,
				   &to->addr_filter.addr2_a, &to->addr_filter.addr3_a};
	uint64_t *const last[] = {&to->addr_filter.addr0_b, &to->addr_filter.addr1_b,
				  &to->addr_filter.addr2_b, &to->addr_filter.addr3_b};

	to->mtc_freq = from->events.trace.mtc_period;
	to->nom_freq = from->events.nominal_ratio;
	to->cpuid_0x15_eax = from->events.tsc_d;
	to->cpuid_0x15_ebx = from->events.tsc_n;
	/* enum ptah_erratum begins with libipt's errata in the same order. */
	memcpy(&to->errata, &from->events.errata, sizeof(from->events.errata));
	for (unsigned i = 0; i < 4; i++) {
		to->addr_filter.config.addr_cfg |= (uint64_t)from->events.trace.ranges[i].mode
						   << 4 * i;
		*first[i] = from->events.trace.ranges[i].first;
		*last[i] = from->events.trace.ranges[i].last;
	}
}

static void write_code(struct twin_input *input, const struct golden_case *c)
{
	char path[64];

	input->file = memfd_create("code", MFD_CLOEXEC);
	if (input->file < 0 || write(input->file, c->code, c->code_size) != (ssize_t)c->code_size)
		twin_die(input->name, "no file for its code");
	snprintf(path, sizeof(path), "/proc/self/fd/%d", input->file);
	for (unsigned i = 0; i < c->nsections; i++) {
		struct twin_section *s;

		if (!c->sections[i].size)
			continue;
		s = add_section(input);
		s->path = strdup(path);
		s->offset = c->sections[i].first;
		s->size = c->sections[i].size;
		s->address = c->sections[i].address;
		s->asid.cr3 = c->sections[i].space.cr3;
		s->asid.vmcs = c->sections[i].space.vmcs;
		map_section(s);
	}
}

void twin_load_case(struct twin_input *input, const char *path)
{
	struct golden_case *c = malloc(sizeof(*c));

	begin(input, path);
	if (!c)
		twin_die(path, "out of memory");
	if (!case_read(c, path))
		twin_die(path, c->why);
	input->size = c->size;
	input->bytes = malloc(c->size + 1);
	if (!input->bytes)
		twin_die(path, "out of memory");
	memcpy(input->bytes, c->trace, c->size);
	configure(&input->config, &c->config);
	write_code(input, c);
	free(c);
}

/* Takes ownership of the trace. */
static void take(struct twin_input *input, struct bench_trace *trace)
{
	input->bytes = trace->bytes;
	input->size = trace->size;
	trace->bytes = NULL;
	configure(&input->config, &trace->flow);
	for (size_t i = 0; i < trace->section_count; i++) {
		const struct bench_section *from = &trace->sections[i];
		struct twin_section *s = add_section(input);

		s->path = strdup(from->path);
		s->offset = from->offset;
		s->size = from->size;
		s->address = from->address;
		map_section(s);
	}
	bench_trace_free(trace);
}

void twin_load_session(struct twin_input *input, const char *path)
{
	struct bench_trace trace;

	begin(input, path);
	bench_load_session(&trace, path, path);
	take(input, &trace);
}

static void read_file(struct twin_input *input, const char *path)
{
	FILE *f = fopen(path, "rb");
	long n;

	if (!f || fseek(f, 0, SEEK_END) || (n = ftell(f)) < 0)
		twin_die(path, "cannot be read");
	rewind(f);
	input->size = (size_t)n;
	input->bytes = malloc(input->size + 1);
	if (!input->bytes || fread(input->bytes, 1, input->size, f) != input->size)
		twin_die(path, "cannot be read");
	fclose(f);
}

void twin_load_pt(struct twin_input *input, const char *pt, const char *pages, bool timed)
{
	struct bench_trace trace;

	begin(input, pt);
	if (!pages) {
		read_file(input, pt);
		return;
	}
	bench_load_pages(&trace, pt, pt, pages);
	if (timed)
		bench_add_timing(&trace);
	take(input, &trace);
}

void twin_load_raw(struct twin_input *input, const char *pt, const char *code, uint64_t address)
{
	struct twin_section *s;
	struct twin_input file;

	begin(&file, code);
	read_file(&file, code);
	begin(input, pt);
	read_file(input, pt);
	s = add_section(input);
	s->path = strdup(code);
	s->size = file.size;
	s->address = address;
	map_section(s);
	twin_input_free(&file);
}

void twin_input_free(struct twin_input *input)
{
	for (size_t i = 0; i < input->nsections; i++) {
		unmap_section(&input->sections[i]);
		free(input->sections[i].path);
	}
	if (input->file >= 0)
		close(input->file);
	free(input->sections);
	free(input->bytes);
}

size_t twin_find_psb(const struct twin_input *input, size_t at)
{
	static const uint8_t psb[] = {0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82,
				      0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82};
	const uint8_t *found;

	if (at >= input->size)
		return SIZE_MAX;
	found = memmem(input->bytes + at, input->size - at, psb, sizeof(psb));
	return found ? (size_t)(found - input->bytes) : SIZE_MAX;
}
