/* SPDX-License-Identifier: MIT */
/* pt_library_version(). */
#include <intel-pt.h>

struct pt_version pt_library_version(void)
{
	return (struct pt_version){.major = LIBIPT_VERSION_MAJOR,
				   .minor = LIBIPT_VERSION_MINOR,
				   .patch = LIBIPT_VERSION_PATCH,
				   .ext = "ptah"};
}
