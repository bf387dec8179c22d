/* SPDX-License-Identifier: MIT */
/* Formats the sentences that go with a status. */
#include "perfdata/message.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int perfdata_message(struct ptah_message *why, int status, const char *format, ...)
{
	va_list args;

	if (!why)
		return status;
	va_start(args, format);
	vsnprintf(why->text, sizeof(why->text), format, args);
	va_end(args);
	return status;
}

void perfdata_message_begin(struct ptah_message *why)
{
	if (why)
		why->text[0] = '\0';
}

int perfdata_message_end(struct ptah_message *why, int status)
{
	if (status < 0 && why && !why->text[0])
		perfdata_message(why, status, "%s", ptah_strerror(status));
	return status;
}

static const char *advice_for(int error)
{
	switch (error) {
	case ENOSPC:
	case EDQUOT:
		return "; free some space or write to another disk";
	case EFBIG:
		return "; raise the file size limit (ulimit -f) or record less";
	case EACCES:
	case EPERM:
	case EROFS:
		return "; choose a place that this user may use";
	case ENOENT:
		return "; check the path";
	case EMFILE:
		return "; raise the limit of open files (ulimit -n)";
	default:
		return "";
	}
}

int perfdata_system_message(struct ptah_message *why, int error, const char *path, const char *what)
{
	char text[128];

	/* GNU's thread-safe form, which returns a pointer to a static text where it can. */
	return perfdata_message(why, error == ENOMEM ? PTAH_E_NOMEM : PTAH_E_SYSTEM,
				"%s: cannot %s: %s%s", path, what,
				strerror_r(error, text, sizeof(text)), advice_for(error));
}
