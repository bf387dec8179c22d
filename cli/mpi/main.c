/* SPDX-License-Identifier: MIT */
/* The entry point of ptah-mpi: begins and ends MPI around its one command. */
#include "mpi_profile.h"

#include <mpi.h>
#include <stdio.h>
#include <string.h>

const char program_name[] = "ptah-mpi";
const struct command *const commands[] = {&command_mpi_profile, NULL};

static int usage(FILE *to, int status)
{
	fprintf(to, "Usage: mpirun ... ptah-mpi profile [OPTIONS] --save=FILE RECORDING...\n\n"
		    "Counts recordings on all ranks of an MPI job, and saves the sum.\n\n"
		    "'ptah-mpi profile --help' lists the options.\n");
	return status;
}

static bool is_help(const char *word)
{
	return !strcmp(word, "--help") || !strcmp(word, "-h");
}

static int run_rank(int argc, char **argv)
{
	int status = EXIT_FAILED, threads, rank;

	if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &threads) != MPI_SUCCESS)
		return EXIT_FAILED; /* MPI has said why */
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	if (threads >= MPI_THREAD_FUNNELED)
		status = command_mpi_profile.run(argc - 1, argv + 1);
	else if (!rank)
		fail(&command_mpi_profile, "this MPI was built without threads "
					   "(MPI_THREAD_FUNNELED): take another");
	MPI_Finalize();
	return status;
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return usage(stderr, EXIT_USAGE);
	if (is_help(argv[1]) || !strcmp(argv[1], "help"))
		return usage(stdout, EXIT_OK);
	if (!strcmp(argv[1], "--version")) {
		printf("ptah-mpi %s\n", ptah_version());
		return EXIT_OK;
	}
	if (!strcmp(argv[1], "--dump-options")) /* for tools/option-docs */
		return options_dump();
	if (strcmp(argv[1], "profile")) {
		print_clean("ptah-mpi: ", "there is no command \"%s\", only \"profile\"", argv[1]);
		return EXIT_USAGE;
	}
	/* Help needs no MPI, which some machines have only inside jobs. */
	if (argc > 2 && is_help(argv[2]))
		return command_mpi_profile.run(argc - 1, argv + 1);
	return run_rank(argc, argv);
}
