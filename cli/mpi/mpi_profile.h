/* SPDX-License-Identifier: MIT */
/* ptah-mpi profile: counts recordings on all ranks of an MPI job. */
#ifndef PTAH_CLI_MPI_PROFILE_H
#define PTAH_CLI_MPI_PROFILE_H

#include "input.h"

extern const struct command command_mpi_profile;

#endif
