/* SPDX-License-Identifier: MIT */
/*
 * Proves of tracing data: any bytes are read; every format has names and fields whose bytes lie in
 * the raw data of a sample, or are none.
 *
 * Input: a byte, the size of the raw data; the raw data; the tracing data.
 */
#include "fuzz.h"

#include "perfdata/tracing_data.h"

static void check_format(const struct tracing_format *format, const uint8_t *raw, size_t raw_size)
{
	uint64_t sum = 0;

	CHECK(strlen(format->name) > 0 && strlen(format->system) > 0);
	CHECK(format->common <= format->count && format->count <= TRACING_MAX_FIELDS);
	for (size_t i = 0; i < format->count; i++) {
		size_t n;
		const uint8_t *bytes = tracing_field_bytes(&format->fields[i], raw, raw_size, &n);

		CHECK(strlen(format->fields[i].name) > 0);
		CHECK(bytes ? bytes >= raw && n <= raw_size - (size_t)(bytes - raw) : !n);
		for (size_t k = 0; k < n; k++)
			sum += bytes[k];
	}
	CHECK(sum <= UINT64_C(255) * TRACING_MAX_FIELDS * raw_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct tracing_formats formats;
	size_t raw_size;

	if (!size || size - 1 < data[0])
		return 0;
	raw_size = data[0];
	CHECK(!tracing_formats_read(data + 1 + raw_size, size - 1 - raw_size, &formats));
	CHECK(formats.count <= TRACING_MAX_FORMATS);
	for (size_t i = 0; i < formats.count; i++) {
		check_format(&formats.formats[i], data + 1, raw_size);
		CHECK(tracing_format_find(&formats, formats.formats[i].id));
	}
	tracing_formats_free(&formats);
	return 0;
}
