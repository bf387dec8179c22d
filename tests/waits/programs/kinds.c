/* SPDX-License-Identifier: MIT */
/*
 * One wait of each kind, whose end this program arranges: a second thread waits until the first one
 * sleeps, and then ends its wait. So the truth is known: lines "begin:CAUSE" and "end:CAUSE" in the
 * log, the latter with the number of the thread that ended it, 0 for none.
 */
#include "wait_log.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>

#define FUTEX_WAITV_CALL 449
#define PIDFD_OPEN_CALL	 434

#define CHECK(is_right) check((is_right) ? 0 : __LINE__)

static void check(int line)
{
	if (!line)
		return;
	fprintf(stderr, "line %d: errno %d\n", line, errno);
	abort();
}

static long futex(uint32_t *word, int operation, long value, long second, uint32_t *other,
		  long third)
{
	return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, second, other,
		       third);
}

static pid_t own_tid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

/* Whether the thread sleeps. Its state is the first letter behind its name. */
static bool sleeps(pid_t pid, pid_t tid)
{
	char path[64], text[512] = "";
	const char *state;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	n = read(fd, text, sizeof(text) - 1);
	CHECK(n > 0);
	close(fd);
	state = strrchr(text, ')');
	CHECK(state);
	return state[2] == 'S';
}

/* So often in a row it has been seen to sleep, so that its wait is not too short to be shown. */
#define LOOKS 40

static void await_sleep(pid_t pid, pid_t tid)
{
	for (unsigned seen = 0; seen < LOOKS;)
		seen = sleeps(pid, tid) ? seen + 1 : 0;
}

/* Of the waiting thread, for other processes, too. `ready`: it is about to wait. */
static struct {
	pid_t pid, tid;
	uint32_t ready;
} * waiter;

static void await_waiter(void)
{
	while (!__atomic_load_n(&waiter->ready, __ATOMIC_ACQUIRE))
		;
	await_sleep(waiter->pid, waiter->tid);
	__atomic_store_n(&waiter->ready, 0, __ATOMIC_RELEASE);
}

static void begin_wait(const char *cause)
{
	log_line(cause, 0);
	__atomic_store_n(&waiter->ready, 1, __ATOMIC_RELEASE);
}

/* A thread that ends a wait. */
static pthread_t helper;
static pid_t helper_tid;

struct work {
	void (*end_wait)(void *argument);
	void *argument;
	sem_t has_begun;
};

static void *help(void *argument)
{
	struct work *work = argument;
	void (*const end_wait)(void *) = work->end_wait;
	void *const with = work->argument;

	helper_tid = own_tid();
	sem_post(&work->has_begun);
	await_waiter();
	end_wait(with);
	return NULL;
}

static void begin_helper(void (*end_wait)(void *), void *argument)
{
	static struct work work;

	work = (struct work){.end_wait = end_wait, .argument = argument};
	CHECK(!sem_init(&work.has_begun, 0, 0));
	CHECK(!pthread_create(&helper, NULL, help, &work));
	CHECK(!sem_wait(&work.has_begun));
}

static void end_wait(const char *cause, long waker)
{
	log_line(cause, waker);
	CHECK(!pthread_join(helper, NULL));
}

/* Futexes */

static uint32_t words[3];

static void wake_word(void *word)
{
	CHECK(futex(word, FUTEX_WAKE, 1, 0, NULL, 0) == 1);
}

/* Another thread than the one that wakes it puts the waiter into another queue. */
static void *requeue(void *argument)
{
	CHECK(futex(&words[0], FUTEX_CMP_REQUEUE, 0, 1, &words[1], 0) == 1);
	return argument;
}

static void requeue_and_wake(void *argument)
{
	pthread_t other;

	CHECK(!pthread_create(&other, NULL, requeue, NULL));
	CHECK(!pthread_join(other, NULL));
	CHECK(futex(&words[0], FUTEX_WAKE, 1, 0, NULL, 0) == 0);
	wake_word(argument);
}

static void wait_requeued(void)
{
	begin_helper(requeue_and_wake, &words[1]);
	begin_wait("begin:futex");
	CHECK(!futex(&words[0], FUTEX_WAIT, 0, 0, NULL, 0));
	end_wait("end:futex", helper_tid);
}

static void wake_second(void *argument)
{
	(void)argument;
	/* The second word is 0, so that those that wait there are woken, too. */
	CHECK(futex(&words[0], FUTEX_WAKE_OP, 1, 1, &words[2],
		    FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0)) == 1);
}

static void wait_for_operation(void)
{
	begin_helper(wake_second, NULL);
	begin_wait("begin:futex");
	CHECK(!futex(&words[2], FUTEX_WAIT, 0, 0, NULL, 0));
	end_wait("end:futex", helper_tid);
}

static uint32_t pi_word;
static sem_t pi_is_locked;

static void *lock_pi(void *argument)
{
	helper_tid = own_tid();
	CHECK(!futex(&pi_word, FUTEX_LOCK_PI, 0, 0, NULL, 0));
	sem_post(&pi_is_locked);
	await_waiter();
	CHECK(!futex(&pi_word, FUTEX_UNLOCK_PI, 0, 0, NULL, 0));
	return argument;
}

static void wait_for_pi(void)
{
	CHECK(!sem_init(&pi_is_locked, 0, 0));
	CHECK(!pthread_create(&helper, NULL, lock_pi, NULL));
	CHECK(!sem_wait(&pi_is_locked));
	begin_wait("begin:futex");
	CHECK(!futex(&pi_word, FUTEX_LOCK_PI, 0, 0, NULL, 0));
	end_wait("end:futex", helper_tid);
	CHECK(!futex(&pi_word, FUTEX_UNLOCK_PI, 0, 0, NULL, 0));
}

static void wait_for_several(void)
{
	/* struct futex_waitv: value, address, flags (32 bits, private), 0 */
	const struct {
		uint64_t value, address;
		uint32_t flags, zero;
	} list[] = {{0, (uintptr_t)&words[0], 2 | FUTEX_PRIVATE_FLAG, 0},
		    {0, (uintptr_t)&words[1], 2 | FUTEX_PRIVATE_FLAG, 0}};

	if (syscall(FUTEX_WAITV_CALL, NULL, 0, 0, NULL, 0) == -1 && errno == ENOSYS)
		return;
	begin_helper(wake_word, &words[1]);
	begin_wait("begin:futex");
	CHECK(syscall(FUTEX_WAITV_CALL, list, 2, 0, NULL, 0) == 1);
	end_wait("end:futex", helper_tid);
}

/* Descriptors */

static int pipes[2][2];
static char bytes[100000];

static void read_much(void *argument)
{
	size_t left = 70000;

	(void)argument;
	while (left) {
		const ssize_t n = read(pipes[0][0], bytes, left);

		CHECK(n > 0);
		left -= (size_t)n;
	}
}

static void wait_for_room(void)
{
	begin_helper(read_much, NULL);
	begin_wait("begin:pipe");
	CHECK(write(pipes[0][1], bytes, 70000) == 70000);
	end_wait("end:pipe", helper_tid);
}

static void write_byte(void *fd)
{
	CHECK(write(*(int *)fd, "x", 1) == 1);
}

static void read_byte(int fd)
{
	char byte;

	CHECK(read(fd, &byte, 1) == 1);
}

static void wait_polling(void)
{
	struct pollfd polled[] = {{.fd = pipes[0][0], .events = POLLIN},
				  {.fd = pipes[1][0], .events = POLLIN}};

	begin_helper(write_byte, &pipes[1][1]);
	begin_wait("begin:poll");
	CHECK(poll(polled, 2, -1) == 1);
	end_wait("end:poll", helper_tid);
	log_line("descriptor", pipes[1][0]);
	read_byte(pipes[1][0]);
}

static void wait_selecting(void)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(pipes[0][0], &set);
	FD_SET(pipes[1][0], &set);
	begin_helper(write_byte, &pipes[1][1]);
	begin_wait("begin:poll");
	CHECK(select(pipes[1][0] + pipes[0][0] + 1, &set, NULL, NULL, NULL) == 1);
	end_wait("end:poll", helper_tid);
	log_line("descriptor", pipes[1][0]);
	read_byte(pipes[1][0]);
}

static void watch(int epoll, int fd, uint64_t data)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = data};

	CHECK(!epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
}

static void wait_epolling(void)
{
	const int epoll = epoll_create1(0);
	struct epoll_event found;

	CHECK(epoll >= 0);
	watch(epoll, pipes[0][0], 0x1234567800000000);
	watch(epoll, pipes[1][0], 0x1234567800000001);
	begin_helper(write_byte, &pipes[1][1]);
	begin_wait("begin:poll");
	CHECK(epoll_wait(epoll, &found, 1, -1) == 1);
	end_wait("end:poll", helper_tid);
	log_line("descriptor", pipes[1][0]);
	read_byte(pipes[1][0]);
	close(epoll);
}

static struct sockaddr_un address;

static void connect_socket(void *argument)
{
	const int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	(void)argument;
	CHECK(fd >= 0 && !connect(fd, (const struct sockaddr *)&address, sizeof(address)));
	close(fd);
}

static void wait_for_connection(void)
{
	const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	struct pollfd polled = {.fd = fd, .events = POLLIN};
	int accepted;

	address.sun_family = AF_UNIX;
	snprintf(address.sun_path, sizeof(address.sun_path), "socket");
	CHECK(fd >= 0 && !bind(fd, (const struct sockaddr *)&address, sizeof(address)) &&
	      !listen(fd, 1));
	begin_helper(connect_socket, NULL);
	begin_wait("begin:poll");
	CHECK(poll(&polled, 1, -1) == 1);
	end_wait("end:poll", helper_tid);
	log_line("descriptor", fd);
	accepted = accept(fd, NULL, NULL);
	CHECK(accepted >= 0);
	close(accepted);
	close(fd);
}

static void add_one(void *fd)
{
	const uint64_t one = 1;

	CHECK(write(*(int *)fd, &one, sizeof(one)) == sizeof(one));
}

static void wait_for_event(void)
{
	int fd = eventfd(0, 0);
	uint64_t number;

	CHECK(fd >= 0);
	begin_helper(add_one, &fd);
	begin_wait("begin:eventfd");
	CHECK(read(fd, &number, sizeof(number)) == sizeof(number));
	end_wait("end:eventfd", helper_tid);
	close(fd);
}

static void wait_for_timer(void)
{
	const struct itimerspec timer = {.it_value.tv_nsec = 2000000};
	const int fd = timerfd_create(CLOCK_MONOTONIC, 0);
	uint64_t number;

	CHECK(fd >= 0 && !timerfd_settime(fd, 0, &timer, NULL));
	log_line("begin:timer", 0);
	CHECK(read(fd, &number, sizeof(number)) == sizeof(number));
	log_line("end:timer", 0);
	close(fd);
}

static void make_file(void *argument)
{
	close(open("watched/file", O_CREAT | O_WRONLY, 0600));
	(void)argument;
}

static void wait_for_change(void)
{
	const int fd = inotify_init1(0);
	char event[4096];

	CHECK(fd >= 0 && !mkdir("watched", 0700) &&
	      inotify_add_watch(fd, "watched", IN_CREATE) > 0);
	begin_helper(make_file, NULL);
	begin_wait("begin:inotify");
	CHECK(read(fd, event, sizeof(event)) > 0);
	end_wait("end:inotify", 0);
	close(fd);
}

/* Signals: all threads block them. */

static void send_signal(void *argument)
{
	(void)argument;
	CHECK(!kill(getpid(), SIGUSR1));
}

static void wait_for_signalfd(void)
{
	struct signalfd_siginfo info;
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	fd = signalfd(-1, &set, 0);
	CHECK(fd >= 0);
	begin_helper(send_signal, NULL);
	begin_wait("begin:signal");
	CHECK(read(fd, &info, sizeof(info)) == sizeof(info) && info.ssi_signo == SIGUSR1);
	end_wait("end:signal", helper_tid);
	close(fd);
}

static void send_to_thread(void *argument)
{
	(void)argument;
	CHECK(!syscall(SYS_tgkill, getpid(), waiter->tid, SIGUSR2));
}

static void wait_for_signal(void)
{
	siginfo_t info;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	begin_helper(send_to_thread, NULL);
	begin_wait("begin:signal");
	CHECK(sigwaitinfo(&set, &info) == SIGUSR2);
	end_wait("end:signal", helper_tid);
}

/* System V, and queues */

static int semaphores, queue;
static mqd_t posix_queue;

static void change_semaphore(void *change)
{
	struct sembuf operation = {.sem_num = 1, .sem_op = (short)*(int *)change};

	CHECK(!semop(semaphores, &operation, 1));
}

static void wait_for_semaphore(void)
{
	static int one = 1, minus = -1;

	semaphores = semget(IPC_PRIVATE, 2, 0600);
	CHECK(semaphores >= 0);
	begin_helper(change_semaphore, &one);
	begin_wait("begin:semaphore");
	change_semaphore(&minus);
	end_wait("end:semaphore", helper_tid);
	CHECK(!semctl(semaphores, 0, IPC_RMID));
}

struct message {
	long type;
	char text[4];
};

static void send_message(void *argument)
{
	const struct message message = {1, "abc"};

	(void)argument;
	CHECK(!msgsnd(queue, &message, sizeof(message.text), 0));
}

static void wait_for_message(void)
{
	struct message message;

	queue = msgget(IPC_PRIVATE, 0600);
	CHECK(queue >= 0);
	begin_helper(send_message, NULL);
	begin_wait("begin:message");
	CHECK(msgrcv(queue, &message, sizeof(message.text), 0, 0) == sizeof(message.text));
	end_wait("end:message", helper_tid);
	CHECK(!msgctl(queue, IPC_RMID, NULL));
}

static void send_to_queue(void *argument)
{
	(void)argument;
	CHECK(!mq_send(posix_queue, "abc", 4, 0));
}

static void wait_for_queue(void)
{
	struct mq_attr attributes = {.mq_maxmsg = 1, .mq_msgsize = 8};
	char name[32], text[8];

	snprintf(name, sizeof(name), "/ptah-%d", getpid());
	posix_queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL, 0600, &attributes);
	if (posix_queue < 0) /* the kernel has none */
		return;
	mq_unlink(name);
	begin_helper(send_to_queue, NULL);
	begin_wait("begin:message");
	CHECK(mq_receive(posix_queue, text, sizeof(text), NULL) == 4);
	end_wait("end:message", helper_tid);
	mq_close(posix_queue);
}

/* Locks of files */

static int locked_fd;

static void unlock_file(void *argument)
{
	(void)argument;
	CHECK(!flock(locked_fd, LOCK_UN));
}

static int open_lock(void)
{
	const int fd = open("lock", O_CREAT | O_RDWR, 0600);

	CHECK(fd >= 0);
	return fd;
}

static void wait_for_flock(void)
{
	const int fd = open_lock();

	locked_fd = open_lock();
	CHECK(!flock(locked_fd, LOCK_EX));
	begin_helper(unlock_file, NULL);
	begin_wait("begin:file lock");
	CHECK(!flock(fd, LOCK_EX));
	end_wait("end:file lock", helper_tid);
	close(fd);
	close(locked_fd);
}

static int set_lock(int fd, int command, short type)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = 10, .l_len = 5};

	return fcntl(fd, command, &lock);
}

static void unlock_bytes(void *argument)
{
	(void)argument;
	CHECK(!set_lock(locked_fd, F_OFD_SETLK, F_UNLCK));
}

static void wait_for_bytes(void)
{
	const int fd = open_lock();

	locked_fd = open_lock();
	CHECK(!set_lock(locked_fd, F_OFD_SETLK, F_WRLCK));
	begin_helper(unlock_bytes, NULL);
	begin_wait("begin:file lock");
	CHECK(!set_lock(fd, F_OFD_SETLKW, F_WRLCK));
	end_wait("end:file lock", helper_tid);
	close(fd);
	close(locked_fd);
}

/* Processes: a child that waits until its parent sleeps, and ends. */

static pid_t begin_child(void (*first)(int fd), int fd)
{
	const pid_t child = fork();

	CHECK(child >= 0);
	if (child)
		return child;
	if (first)
		first(fd);
	/* With a lock the parent waits for this byte first. */
	CHECK(write(pipes[1][1], "x", 1) == 1);
	await_waiter();
	_exit(0);
}

static pid_t await_child(pid_t child, const char *cause)
{
	read_byte(pipes[1][0]);
	begin_wait(cause);
	return child;
}

static void lock_in_child(int fd)
{
	CHECK(!set_lock(fd, F_SETLK, F_WRLCK));
}

static void wait_for_process(void)
{
	const int fd = open_lock();
	siginfo_t info;
	pid_t child = await_child(begin_child(lock_in_child, fd), "begin:file lock");

	CHECK(!set_lock(fd, F_SETLKW, F_WRLCK));
	log_line("end:file lock", child);
	CHECK(waitpid(child, NULL, 0) == child);
	close(fd);

	child = await_child(begin_child(NULL, 0), "begin:end of process");
	CHECK(!waitid(P_ALL, 0, &info, WEXITED) && info.si_pid == child);
	log_line("end:end of process", child);
}

static void wait_for_pidfd(void)
{
	const pid_t child = begin_child(NULL, 0);
	struct pollfd polled = {.fd = (int)syscall(PIDFD_OPEN_CALL, child, 0), .events = POLLIN};

	CHECK(polled.fd >= 0);
	await_child(child, "begin:poll");
	CHECK(poll(&polled, 1, -1) == 1);
	log_line("end:poll", child);
	log_line("descriptor", polled.fd);
	CHECK(waitpid(child, NULL, 0) == child);
	close(polled.fd);
}

static void sleep_a_while(void)
{
	const struct timespec pause = {0, 2000000};

	log_line("begin:sleep", 0);
	nanosleep(&pause, NULL);
	log_line("end:sleep", 0);
}

int main(int argc, char **argv)
{
	void (*const waits[])(void) = {
	    wait_requeued,   wait_for_operation, wait_for_pi,	   wait_for_several,
	    wait_for_room,   wait_polling,	 wait_selecting,   wait_epolling,
	    wait_for_event,  wait_for_timer,	 wait_for_change,  wait_for_signalfd,
	    wait_for_signal, wait_for_semaphore, wait_for_message, wait_for_queue,
	    wait_for_flock,  wait_for_bytes,	 wait_for_process, wait_for_pidfd,
	    sleep_a_while,   wait_for_connection};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	begin_log();
	waiter =
	    mmap(NULL, sizeof(*waiter), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(waiter != MAP_FAILED);
	waiter->pid = getpid();
	waiter->tid = own_tid();
	CHECK(!pipe(pipes[0]) && !pipe(pipes[1]));
	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++)
		waits[i]();
	if (argc > 1)
		write_logs(argv[1]);
	return 0;
}
