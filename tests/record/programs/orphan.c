/* SPDX-License-Identifier: MIT */
/*
 * A program whose recorder is killed while it waits for the recorder: orphan HOW. It makes the file
 * `ready`, waits for `go`, does what it was told, makes `done` and exits with 7.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned sink;

static void add(unsigned n)
{
	sink += n;
}

static void mix(unsigned n)
{
	sink ^= n;
}

/* More trace than any buffer has room for: each call is a TIP packet. */
static void work(void)
{
	void (*volatile const calls[])(unsigned) = {add, mix};

	for (unsigned n = 0; n < 3000000; n++)
		calls[n & 1](n);
}

static void make(const char *name)
{
	close(open(name, O_CREAT | O_WRONLY, 0600));
}

static void *work_beside(void *unused)
{
	work();
	return unused;
}

/* Code that the recorder has to know of before it runs. */
static void map_code(void)
{
	const int fd = open("/proc/self/exe", O_RDONLY);

	if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED)
		exit(1);
	close(fd);
}

static void make_child(void)
{
	const pid_t pid = fork();
	int status;

	if (!pid) {
		map_code();
		work();
		_exit(3);
	}
	if (waitpid(pid, &status, 0) != pid || status != 3 << 8)
		exit(1);
}

static void make_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, work_beside, NULL))
		exit(1);
	work();
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	const struct timespec pause = {0, 2000000};
	const char *how = argc > 1 ? argv[1] : "";

	make("ready");
	while (access("go", F_OK))
		nanosleep(&pause, NULL);
	if (!strcmp(how, "work"))
		work();
	else if (!strcmp(how, "map"))
		map_code();
	else if (!strcmp(how, "fork"))
		make_child();
	else if (!strcmp(how, "thread"))
		make_thread();
	else if (!strcmp(how, "exec"))
		execl("/proc/self/exe", "orphan", "nothing", (char *)NULL);
	make("done");
	return 7;
}
