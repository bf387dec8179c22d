/* SPDX-License-Identifier: MIT */
/*
 * death COMMAND...: runs a command and prints the signal that ended it, or a process that it
 * forked, and the instruction pointer at that moment. The kernel says so in a core dump; where none
 * is written, as registers at the stop before the signal was delivered.
 */
#include <elf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static void fail(const char *what)
{
	perror(what);
	exit(2);
}

/* The instruction pointer in the first NT_PRSTATUS of a core dump: of the thread that died. */
static int read_core(const char *path, unsigned long long *ip)
{
	FILE *f = fopen(path, "rb");
	Elf64_Ehdr head;
	Elf64_Phdr segment;
	struct elf_prstatus status;
	const size_t note = sizeof(Elf64_Nhdr) + sizeof("CORE\0\0\0"); /* the name is padded */
	int found = 0;

	if (!f)
		return 0;
	if (fread(&head, sizeof(head), 1, f) != 1)
		fail(path);
	for (unsigned i = 0; i < head.e_phnum && !found; i++) {
		fseek(f, (long)(head.e_phoff + i * sizeof(segment)), SEEK_SET);
		if (fread(&segment, sizeof(segment), 1, f) != 1)
			fail(path);
		if (segment.p_type != PT_NOTE)
			continue;
		fseek(f, (long)(segment.p_offset + note), SEEK_SET);
		if (fread(&status, sizeof(status), 1, f) != 1)
			fail(path);
		*ip = ((const struct user_regs_struct *)(const void *)&status.pr_reg)->rip;
		found = 1;
	}
	fclose(f);
	return found;
}

static pid_t start(char **argv)
{
	const struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
	pid_t pid = fork();
	int status;

	if (pid < 0)
		fail("fork");
	if (!pid) {
		setrlimit(RLIMIT_CORE, &all);
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		execv(argv[0], argv);
		_exit(127);
	}
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status) ||
	    ptrace(PTRACE_SETOPTIONS, pid, NULL,
		   (void *)(long)(PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEEXEC |
				  PTRACE_O_EXITKILL)))
		fail("ptrace");
	ptrace(PTRACE_CONT, pid, NULL, NULL);
	return pid;
}

int main(int argc, char **argv)
{
	unsigned long long ip = 0, core_ip;
	int status, signal = 0;
	char path[32];
	pid_t pid, tid;

	if (argc < 2)
		return 2;
	pid = start(argv + 1);
	while ((tid = waitpid(-1, &status, __WALL)) > 0) {
		struct user_regs_struct regs;
		long deliver = 0;

		if (WIFSIGNALED(status))
			signal = WTERMSIG(status);
		if (!WIFSTOPPED(status))
			continue;
		/* Events, and the stop with which a thread or child begins, are no signals for it.
		 */
		if (WSTOPSIG(status) != SIGSTOP && !(status >> 16))
			deliver = WSTOPSIG(status);
		if (deliver && deliver != SIGCHLD && !ptrace(PTRACE_GETREGS, tid, NULL, &regs))
			ip = regs.rip;
		ptrace(PTRACE_CONT, tid, NULL, (void *)deliver);
	}
	snprintf(path, sizeof(path), "core.%d", pid);
	if ((read_core("core", &core_ip) || read_core(path, &core_ip)) && core_ip != ip) {
		fprintf(stderr, "core dump: 0x%llx, ptrace: 0x%llx\n", core_ip, ip);
		return 2;
	}
	unlink("core");
	unlink(path);
	printf("%d 0x%llx\n", signal, ip);
	return 0;
}
