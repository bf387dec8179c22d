/* SPDX-License-Identifier: MIT */
/* Little-endian loads and stores of any width, and bit counting. Freestanding. */
#ifndef PTAH_BASE_BITS_H
#define PTAH_BASE_BITS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Intel PT is little-endian and so is every machine Ptah runs on"
#endif

static inline uint16_t load_le16(const void *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline uint32_t load_le32(const void *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static inline uint64_t load_le64(const void *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* The n <= 8 bytes at p, zero-extended. */
static inline uint64_t load_le(const void *p, size_t n)
{
	uint64_t v = 0;

	memcpy(&v, p, n);
	return v;
}

static inline void store_le16(void *p, uint16_t v)
{
	memcpy(p, &v, sizeof(v));
}

static inline void store_le32(void *p, uint32_t v)
{
	memcpy(p, &v, sizeof(v));
}

static inline void store_le64(void *p, uint64_t v)
{
	memcpy(p, &v, sizeof(v));
}

/* The low n <= 8 bytes of v. */
static inline void store_le(void *p, uint64_t v, size_t n)
{
	memcpy(p, &v, n);
}

/* Number of the highest set bit; v must not be 0. */
static inline unsigned highest_bit(uint64_t v)
{
	return 63u - (unsigned)__builtin_clzll(v);
}

static inline uint64_t rotate_left(uint64_t v, unsigned n)
{
	return (v << n) | (v >> (64 - n));
}

/* Sign-extends from bit 47. */
static inline uint64_t sign_extend_48(uint64_t v)
{
	return (uint64_t)((int64_t)(v << 16) >> 16);
}

#endif
