/* SPDX-License-Identifier: MIT */
/* Translates Ptah's status codes to libipt's. */
#ifndef PTAH_LIBIPT_PT_ERROR_H
#define PTAH_LIBIPT_PT_ERROR_H

#include <intel-pt.h>

/* The negative enum pt_error_code of a negative enum ptah_error; 0 for 0 and more. */
int error_from_ptah(int status);

#endif
