/* SPDX-License-Identifier: MIT */
/* Ptah's status codes as libipt's. */
#ifndef PTAH_LIBIPT_PT_ERROR_H
#define PTAH_LIBIPT_PT_ERROR_H

#include <intel-pt.h>

/* The negative enum pt_error_code for a negative enum ptah_error; 0 for 0 and more. */
int error_from_ptah(int status);

#endif
