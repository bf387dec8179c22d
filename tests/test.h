/* SPDX-License-Identifier: MIT */
/* What cmocka wants included first. */
#ifndef PTAH_TESTS_TEST_H
#define PTAH_TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h comes after the four above. */
#include <cmocka.h>

#endif
