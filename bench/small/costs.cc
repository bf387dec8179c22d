/* SPDX-License-Identifier: MIT */
/* Does one small thing again and again: costs KIND TIMES [LIBRARY]. For bench/small-costs. */
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static volatile long count;
static char *page;
static const char *library;

static void on_signal(int)
{
	count = count + 1;
}

static void on_fault(int)
{
	mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

static void *run_thread(void *argument)
{
	return argument;
}

__attribute__((noinline)) static void throw_it(int i)
{
	if (i >= 0)
		throw i;
}

static void exec(int)
{
	char name[] = "true", *argv[] = {name, nullptr};
	pid_t pid;

	if (!posix_spawn(&pid, "/bin/true", nullptr, nullptr, argv, environ))
		waitpid(pid, nullptr, 0);
}

static void fork_once(int)
{
	const pid_t pid = fork();

	if (!pid)
		_exit(0);
	waitpid(pid, nullptr, 0);
}

static void thread(int)
{
	pthread_t t;

	if (!pthread_create(&t, nullptr, run_thread, nullptr))
		pthread_join(t, nullptr);
}

static void load(int)
{
	void *l = dlopen(library, RTLD_NOW);

	if (l)
		dlclose(l);
}

/* A JIT that takes turns writing and executing. */
static void toggle(int)
{
	mprotect(page, 4096, PROT_READ | PROT_WRITE);
	memcpy(page, "\xb8\1\0\0\0\xc3", 6); /* mov eax, 1; ret */
	mprotect(page, 4096, PROT_READ | PROT_EXEC);
	count = count + reinterpret_cast<int (*)()>(page)();
}

/* Code and what it counts on one page. */
static void mixed(int)
{
	reinterpret_cast<void (*)()>(page)();
}

static void signal_once(int)
{
	raise(SIGUSR1);
}

static void throw_once(int i)
{
	try {
		throw_it(i);
	} catch (int e) {
		count = count + e;
	}
}

static void barrier(int i)
{
	mprotect(page, 4096, PROT_READ);
	*const_cast<volatile char *>(page) = static_cast<char>(i);
}

static void prepare(bool executable)
{
	const int all = PROT_READ | PROT_WRITE | (executable ? PROT_EXEC : 0);

	page = static_cast<char *>(mmap(nullptr, 4096, all, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	if (executable) /* inc qword [rip + 0x7f9]; ret */
		memcpy(page, "\x48\xff\x05\xf9\x07\0\0\xc3", 8);
	signal(SIGUSR1, on_signal);
	signal(SIGSEGV, on_fault);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(int);
	} kinds[] = {{"exec", exec},	      {"fork", fork_once},   {"thread", thread},
		     {"dlopen", load},	      {"toggle", toggle},    {"mixed", mixed},
		     {"signal", signal_once}, {"throw", throw_once}, {"barrier", barrier}};

	if (argc < 3)
		return 2;
	library = argv[3];
	prepare(!strcmp(argv[1], "mixed"));
	for (const auto &kind : kinds)
		for (int i = 0; !strcmp(kind.name, argv[1]) && i < atoi(argv[2]); i++)
			kind.run(i);
	return 0;
}
