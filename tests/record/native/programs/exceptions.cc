/* SPDX-License-Identifier: MIT */
/* C++ exceptions that are thrown by handlers of faults, through the frames of the signals. */
#include <csignal>
#include <cstdio>
#include <stdexcept>

static void raise_exception(int)
{
	throw std::runtime_error("a fault");
}

int main()
{
	struct sigaction action = {};
	int caught = 0;

	action.sa_handler = raise_exception;
	action.sa_flags = SA_NODEFER;
	sigaction(SIGSEGV, &action, nullptr);
	for (long i = 0; i < 200; i++) {
		try {
			*reinterpret_cast<volatile int *>(8 * (1 + i % 2)) = 1;
		} catch (const std::exception &) {
			caught++;
		}
	}
	std::printf("%d\n", caught);
	return caught == 200 ? 0 : 1;
}
