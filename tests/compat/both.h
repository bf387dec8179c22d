/* SPDX-License-Identifier: MIT */
/* Two libraries of libipt's interface in one process, and traces to decode with both. */
#ifndef PTAH_TESTS_COMPAT_BOTH_H
#define PTAH_TESTS_COMPAT_BOTH_H

#include "../event/random_story.h"

#include <dlfcn.h>
#include <intel-pt.h>

#include <stdlib.h>

static inline void *both_open(const char *path)
{
	void *handle = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;

	if (!handle && path && *path)
		print_message("%s\n", dlerror());
	return handle;
}

struct random {
	uint64_t seed;
};

static inline struct random random_of(uint64_t seed)
{
	return (struct random){seed * UINT64_C(0x9e3779b97f4a7c15) | 1};
}

static inline unsigned roll(struct random *r, unsigned n)
{
	r->seed ^= r->seed << 13;
	r->seed ^= r->seed >> 7;
	r->seed ^= r->seed << 17;
	return (unsigned)(r->seed >> 11) % n;
}

static inline void init_config(struct pt_config *config, const uint8_t *bytes, size_t size)
{
	pt_config_init(config);
	config->begin = (uint8_t *)bytes;
	config->end = (uint8_t *)bytes + size;
}

/* Prints the packets of a failed comparison. */
static inline void print_packets(const uint8_t *bytes, size_t size)
{
	for (size_t at = 0; at < size;) {
		struct ptah_packet packet;
		char text[128];
		int n = ptah_packet_decode(&packet, bytes + at, size - at, 0);

		if (n <= 0) {
			print_message("%zx: ? %02x %d\n", at, bytes[at], n);
			at++;
			continue;
		}
		ptah_packet_format(&packet, text, sizeof(text));
		print_message("%zx: %s %s\n", at, ptah_packet_name(packet.type), text);
		at += (size_t)n;
	}
}

/* Writes packets whose times increase: Ptah's time never decreases. */
static inline void assemble(struct story *story, char *text)
{
	unsigned now = 1;

	for (char *at = text; (at = strstr(at, " TSC 0x")); at += 7) {
		size_t digits = strspn(at + 7, "0123456789abcdef");
		char number[16];

		snprintf(number, sizeof(number), "%0*x", (int)digits, now);
		if (strlen(number) == digits)
			memcpy(at + 7, number, digits);
		now += 5;
	}
	story_assemble(story, text);
}

static inline uint8_t *read_trace(const char *name, size_t *size)
{
	const char *shared = getenv("PTAH_SHARED");
	uint8_t *bytes = malloc(1 << 20);
	char path[4096];
	FILE *f;

	assert_non_null(bytes);
	snprintf(path, sizeof(path), "%s/traces/%s.pt", shared ? shared : "", name);
	f = fopen(path, "r");
	*size = f ? fread(bytes, 1, 1 << 20, f) : 0;
	if (f)
		fclose(f);
	return bytes;
}

static inline void print_event(const struct pt_event *e)
{
	print_message(
	    " event %d%s%s%s tsc %" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIx64 " %" PRIx64,
	    (int)e->type, e->ip_suppressed ? " noip" : "", e->status_update ? " status" : "",
	    e->has_tsc ? " has_tsc" : "", e->tsc, e->variant.async_branch.from,
	    e->variant.async_branch.to, e->variant.ptwrite.payload, e->variant.vmexit.ip);
}

#endif
