/* SPDX-License-Identifier: MIT */
/* The sentences and names of the status codes, and the library's version. Freestanding. */
#include <ptah/base.h>

#include <stddef.h>

static const struct {
	int status;
	const char *name;
	const char *sentence;
} errors[] = {
#define ERROR_ROW(name, value, sentence) {value, #name, sentence},
    PTAH_ERROR_TABLE(ERROR_ROW)
#undef ERROR_ROW
};

const char *ptah_strerror(int status)
{
	if (status >= 0)
		return "success";
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].status == status)
			return errors[i].sentence;
	return "unknown error";
}

const char *ptah_error_name(int status)
{
	if (status >= 0)
		return "OK";
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
		if (errors[i].status == status)
			return errors[i].name;
	return "UNKNOWN";
}

const char *ptah_version(void)
{
	return PTAH_VERSION_STRING;
}
