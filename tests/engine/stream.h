/* SPDX-License-Identifier: MIT */
/*
 * A processor that writes no packets by itself (ptah_model_faults.silent), and
 * a copy of all its output. So the position that a capture should have, and
 * each byte that it should contain, follow from counting.
 */
#ifndef PTAH_TESTS_ENGINE_STREAM_H
#define PTAH_TESTS_ENGINE_STREAM_H

#include "engine/rig.h"

/* The bytes that went to memory. */
struct stream {
	uint8_t *bytes;
	uint64_t n, room;
	uint64_t put; /* the next byte's number, dropped bytes included */
};

/* The bytes at two positions differ, at every distance that a wrong lap or region would cause. */
static inline uint8_t stream_byte(uint64_t number)
{
	return (uint8_t)((number * UINT64_C(0x9e3779b97f4a7c15)) >> 56);
}

static inline void stream_free(struct stream *s)
{
	free(s->bytes);
	memset(s, 0, sizeof(*s));
}

static inline void stream_append(struct stream *s, const uint8_t *bytes, uint64_t n)
{
	if (s->room - s->n < n) {
		s->room = (s->room + n) * 2 + 4096;
		s->bytes = realloc(s->bytes, s->room);
		assert_non_null(s->bytes);
	}
	if (n)
		memcpy(s->bytes + s->n, bytes, n);
	s->n += n;
}

/*
 * The processor outputs n bytes in bursts. An output that stops does so within
 * a burst, so that the first bytes of that burst are still output.
 */
static inline void stream_put(struct stream *s, struct rig *rig, unsigned cpu, uint64_t n)
{
	uint8_t burst[64];

	while (n) {
		uint64_t part = n < sizeof(burst) ? n : sizeof(burst), i;
		uint64_t before = rig_output(rig, cpu), output;

		for (i = 0; i < part; i++)
			burst[i] = stream_byte(s->put + i);
		ptah_machine_put(rig->machine, cpu, burst, (size_t)part);
		output = rig_output(rig, cpu) - before;
		assert_true(output <= part);
		stream_append(s, burst, output);
		s->put += part;
		n -= part;
	}
}

/* The capture contains bytes [from, to) of the output. */
static inline void stream_check(const struct stream *s, struct ptah_capture *c, uint64_t from,
				uint64_t to)
{
	uint8_t *bytes;
	uint64_t i;

	assert_true(to <= s->n);
	bytes = rig_bytes(c, from, to);
	for (i = from; i < to && bytes[i - from] == s->bytes[i]; i++)
		;
	free(bytes);
	if (i < to)
		fail_msg("byte %llu of [%llu, %llu) is another", (unsigned long long)i,
			 (unsigned long long)from, (unsigned long long)to);
}

static inline void rig_silence(struct rig *rig, unsigned cpu, struct ptah_model_faults *faults)
{
	faults->silent = true;
	ptah_model_set_faults(ptah_machine_model(rig->machine, cpu), faults);
}

static inline void rig_switch(struct rig *rig, struct ptah_capture *c, unsigned cpu, bool in)
{
	uint64_t irqs;

	ptah_machine_set_cpu(rig->machine, cpu);
	irqs = rig->hal.irq_save(rig->machine);
	if (in)
		assert_int_equal(ptah_capture_switch_in(c), PTAH_OK);
	else
		ptah_capture_switch_out(c);
	rig->hal.irq_restore(rig->machine, irqs);
}

#endif
