/* SPDX-License-Identifier: MIT */
/* Writes system calls as strace does. */
#include "waits/syscalls.h"

#include "base/bits.h"
#include "base/compiler.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct system_call_name {
	const char *name, *signature;
} names[] = {
#define PTAH_SYSCALL(number, name, signature) [number] = {name, signature},
#include "waits/syscalls.def"
#undef PTAH_SYSCALL
};

/* The errors of x86-64 (asm-generic/errno-base.h, errno.h). */
static const char *const errors[] = {
    [1] = "EPERM",
    [2] = "ENOENT",
    [3] = "ESRCH",
    [4] = "EINTR",
    [5] = "EIO",
    [6] = "ENXIO",
    [7] = "E2BIG",
    [8] = "ENOEXEC",
    [9] = "EBADF",
    [10] = "ECHILD",
    [11] = "EAGAIN",
    [12] = "ENOMEM",
    [13] = "EACCES",
    [14] = "EFAULT",
    [15] = "ENOTBLK",
    [16] = "EBUSY",
    [17] = "EEXIST",
    [18] = "EXDEV",
    [19] = "ENODEV",
    [20] = "ENOTDIR",
    [21] = "EISDIR",
    [22] = "EINVAL",
    [23] = "ENFILE",
    [24] = "EMFILE",
    [25] = "ENOTTY",
    [26] = "ETXTBSY",
    [27] = "EFBIG",
    [28] = "ENOSPC",
    [29] = "ESPIPE",
    [30] = "EROFS",
    [31] = "EMLINK",
    [32] = "EPIPE",
    [33] = "EDOM",
    [34] = "ERANGE",
    [35] = "EDEADLOCK",
    [36] = "ENAMETOOLONG",
    [37] = "ENOLCK",
    [38] = "ENOSYS",
    [39] = "ENOTEMPTY",
    [40] = "ELOOP",
    [42] = "ENOMSG",
    [43] = "EIDRM",
    [44] = "ECHRNG",
    [45] = "EL2NSYNC",
    [46] = "EL3HLT",
    [47] = "EL3RST",
    [48] = "ELNRNG",
    [49] = "EUNATCH",
    [50] = "ENOCSI",
    [51] = "EL2HLT",
    [52] = "EBADE",
    [53] = "EBADR",
    [54] = "EXFULL",
    [55] = "ENOANO",
    [56] = "EBADRQC",
    [57] = "EBADSLT",
    [59] = "EBFONT",
    [60] = "ENOSTR",
    [61] = "ENODATA",
    [62] = "ETIME",
    [63] = "ENOSR",
    [64] = "ENONET",
    [65] = "ENOPKG",
    [66] = "EREMOTE",
    [67] = "ENOLINK",
    [68] = "EADV",
    [69] = "ESRMNT",
    [70] = "ECOMM",
    [71] = "EPROTO",
    [72] = "EMULTIHOP",
    [73] = "EDOTDOT",
    [74] = "EBADMSG",
    [75] = "EOVERFLOW",
    [76] = "ENOTUNIQ",
    [77] = "EBADFD",
    [78] = "EREMCHG",
    [79] = "ELIBACC",
    [80] = "ELIBBAD",
    [81] = "ELIBSCN",
    [82] = "ELIBMAX",
    [83] = "ELIBEXEC",
    [84] = "EILSEQ",
    [85] = "ERESTART",
    [86] = "ESTRPIPE",
    [87] = "EUSERS",
    [88] = "ENOTSOCK",
    [89] = "EDESTADDRREQ",
    [90] = "EMSGSIZE",
    [91] = "EPROTOTYPE",
    [92] = "ENOPROTOOPT",
    [93] = "EPROTONOSUPPORT",
    [94] = "ESOCKTNOSUPPORT",
    [95] = "ENOTSUP",
    [96] = "EPFNOSUPPORT",
    [97] = "EAFNOSUPPORT",
    [98] = "EADDRINUSE",
    [99] = "EADDRNOTAVAIL",
    [100] = "ENETDOWN",
    [101] = "ENETUNREACH",
    [102] = "ENETRESET",
    [103] = "ECONNABORTED",
    [104] = "ECONNRESET",
    [105] = "ENOBUFS",
    [106] = "EISCONN",
    [107] = "ENOTCONN",
    [108] = "ESHUTDOWN",
    [109] = "ETOOMANYREFS",
    [110] = "ETIMEDOUT",
    [111] = "ECONNREFUSED",
    [112] = "EHOSTDOWN",
    [113] = "EHOSTUNREACH",
    [114] = "EALREADY",
    [115] = "EINPROGRESS",
    [116] = "ESTALE",
    [117] = "EUCLEAN",
    [118] = "ENOTNAM",
    [119] = "ENAVAIL",
    [120] = "EISNAM",
    [121] = "EREMOTEIO",
    [122] = "EDQUOT",
    [123] = "ENOMEDIUM",
    [124] = "EMEDIUMTYPE",
    [125] = "ECANCELED",
    [126] = "ENOKEY",
    [127] = "EKEYEXPIRED",
    [128] = "EKEYREVOKED",
    [129] = "EKEYREJECTED",
    [130] = "EOWNERDEAD",
    [131] = "ENOTRECOVERABLE",
    [132] = "ERFKILL",
};

const char *ptah_syscall_name(int64_t number)
{
	return number >= 0 && (uint64_t)number < ARRAY_SIZE(names) ? names[number].name : NULL;
}

const char *syscall_signature(int64_t number)
{
	return ptah_syscall_name(number) ? names[number].signature : "dxxxxxx";
}

bool syscall_has_descriptor(int64_t number)
{
	return syscall_signature(number)[1] == 'f';
}

static const char *name_descriptor(unsigned kind)
{
	static const char *const kinds[] = {"unknown", "file",	  "pipe",    "socket",
					    "eventfd", "epoll",	  "timerfd", "signalfd",
					    "inotify", "process", "queue"};

	return kind < ARRAY_SIZE(kinds) ? kinds[kind] : NULL;
}

/* A text that is written up to its end. */
struct writer {
	char *at, *end; /* end: of the room for characters; the NUL has room behind it */
};

PRINTF_LIKE(2, 3) static void put(struct writer *w, const char *format, ...)
{
	const size_t room = (size_t)(w->end - w->at);
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(w->at, room + 1, format, args);
	va_end(args);
	w->at += n < 0 ? 0 : (size_t)n < room ? (size_t)n : room;
}

/* Text of the recorded program, in which what a terminal would obey is escaped. */
static void put_escaped(struct writer *w, const uint8_t *bytes, size_t n)
{
	char one[5] = "";
	size_t size;

	for (size_t i = 0; i < n; i += size) {
		size_t left = n - i < 4 ? n - i : 4;
		uint32_t character;

		/* text_character() reads up to a NUL. */
		memcpy(one, bytes + i, left);
		one[left] = '\0';
		character = text_character(one, &size);
		if (bytes[i] == '\n')
			put(w, "\\n");
		else if (bytes[i] == '"' || bytes[i] == '\\')
			put(w, "\\%c", bytes[i]);
		else if (!character || text_is_harmful(character))
			for (size_t k = 0; k < size; k++)
				put(w, "\\x%02x", bytes[i + k]);
		else
			put(w, "%.*s", (int)size, one);
	}
}

struct word {
	uint64_t bits;
	const char *name;
};

/* "A|B|0x10". `zero`: what is written for 0. */
static void put_bits(struct writer *w, uint64_t value, const struct word *words, size_t n,
		     const char *zero)
{
	bool any = false;

	if (!value && zero) {
		put(w, "%s", zero);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if ((value & words[i].bits) != words[i].bits)
			continue;
		put(w, "%s%s", any ? "|" : "", words[i].name);
		value &= ~words[i].bits;
		any = true;
	}
	if (value || !any)
		put(w, "%s0x%" PRIx64, any ? "|" : "", value);
}

static void put_open_flags(struct writer *w, uint64_t flags)
{
	static const char *const modes[] = {"O_RDONLY", "O_WRONLY", "O_RDWR", "O_ACCMODE"};
	static const struct word words[] = {
	    {0x40, "O_CREAT"},	     {0x80, "O_EXCL"},	       {0x100, "O_NOCTTY"},
	    {0x200, "O_TRUNC"},	     {0x400, "O_APPEND"},      {0x800, "O_NONBLOCK"},
	    {0x101000, "O_SYNC"},    {0x1000, "O_DSYNC"},      {0x4000, "O_DIRECT"},
	    {0x410000, "O_TMPFILE"}, {0x10000, "O_DIRECTORY"}, {0x20000, "O_NOFOLLOW"},
	    {0x40000, "O_NOATIME"},  {0x80000, "O_CLOEXEC"},   {0x200000, "O_PATH"}};

	put(w, "%s", modes[flags & 3]);
	if (flags & ~UINT64_C(3)) {
		put(w, "|");
		put_bits(w, flags & ~UINT64_C(3), words, ARRAY_SIZE(words), NULL);
	}
}

static void put_futex_operation(struct writer *w, uint64_t operation)
{
	static const char *const operations[] = {"WAIT",	   "WAKE",	  "FD",
						 "REQUEUE",	   "CMP_REQUEUE", "WAKE_OP",
						 "LOCK_PI",	   "UNLOCK_PI",	  "TRYLOCK_PI",
						 "WAIT_BITSET",	   "WAKE_BITSET", "WAIT_REQUEUE_PI",
						 "CMP_REQUEUE_PI", "LOCK_PI2"};
	const uint64_t what = operation & 0x7f;

	if (what >= ARRAY_SIZE(operations)) {
		put(w, "0x%" PRIx64, operation);
		return;
	}
	put(w, "FUTEX_%s%s%s", operations[what], operation & 128 ? "_PRIVATE" : "",
	    operation & 256 ? "|FUTEX_CLOCK_REALTIME" : "");
}

/* One of some names that are numbered from 0 on, after a common beginning; or the number. */
static void put_name(struct writer *w, uint64_t value, const char *begin, const char *const *all,
		     size_t n)
{
	if (value < n && all[value])
		put(w, "%s%s", begin, all[value]);
	else
		put(w, "%" PRId64, (int64_t)value);
}

static void put_signal(struct writer *w, uint64_t value)
{
	static const char *const signals[] = {
	    "0",      "HUP",  "INT",	"QUIT", "ILL",	 "TRAP", "ABRT", "BUS",
	    "FPE",    "KILL", "USR1",	"SEGV", "USR2",	 "PIPE", "ALRM", "TERM",
	    "STKFLT", "CHLD", "CONT",	"STOP", "TSTP",	 "TTIN", "TTOU", "URG",
	    "XCPU",   "XFSZ", "VTALRM", "PROF", "WINCH", "IO",	 "PWR",	 "SYS"};

	put_name(w, value, value ? "SIG" : "", signals, ARRAY_SIZE(signals));
}

/* "{AF_INET, 127.0.0.1:80}": the beginning of struct sockaddr. */
static void put_address(struct writer *w, const uint8_t *p, size_t n)
{
	const unsigned family = n >= 2 ? load_le16(p) : 0;

	if (family == 1 && n > 2) {
		put(w, "{AF_UNIX, \"");
		/* The name of an abstract socket begins with a NUL, which is shown as "@". */
		if (!p[2])
			put(w, "@");
		put_escaped(w, p + 2 + !p[2], p[2] ? strnlen((const char *)p + 2, n - 2) : n - 3);
		put(w, "\"}");
	} else if (family == 2 && n >= 8) {
		put(w, "{AF_INET, %u.%u.%u.%u:%u}", p[4], p[5], p[6], p[7],
		    (unsigned)(p[2] << 8 | p[3]));
	} else if (family == 10 && n >= 24) {
		put(w, "{AF_INET6, [");
		for (unsigned i = 0; i < 8; i++)
			put(w, "%s%x", i ? ":" : "", (unsigned)(p[8 + 2 * i] << 8 | p[9 + 2 * i]));
		put(w, "]:%u}", (unsigned)(p[2] << 8 | p[3]));
	} else {
		put(w, "{family %u}", family);
	}
}

static void put_pointer(struct writer *w, uint64_t value)
{
	if (value)
		put(w, "0x%" PRIx64, value);
	else
		put(w, "NULL");
}

/* "5</tmp/x>" for a descriptor of which it is known what it is. */
static void put_descriptor(struct writer *w, const struct ptah_syscalls *s,
			   const struct system_call *c, uint64_t value)
{
	const struct object *o = &s->objects[c->object];

	put(w, "%d", (int32_t)value);
	if (!o->kind)
		return;
	put(w, "<");
	if (o->name && o->kind == PTAH_DESCRIPTOR_SOCKET)
		put_address(w, o->name, o->name_size);
	else if (o->name)
		put_escaped(w, o->name, strnlen((const char *)o->name, o->name_size));
	else
		put(w, "%s:[%u]", name_descriptor(o->kind), c->object);
	put(w, ">");
}

static void put_flags(struct writer *w, char type, uint64_t value)
{
	static const struct word protections[] = {
	    {1, "PROT_READ"}, {2, "PROT_WRITE"}, {4, "PROT_EXEC"}};
	static const struct word maps[] = {{3, "MAP_SHARED_VALIDATE"}, {1, "MAP_SHARED"},
					   {2, "MAP_PRIVATE"},	       {0x10, "MAP_FIXED"},
					   {0x20, "MAP_ANONYMOUS"},    {0x800, "MAP_DENYWRITE"},
					   {0x4000, "MAP_NORESERVE"},  {0x8000, "MAP_POPULATE"},
					   {0x20000, "MAP_STACK"},     {0x40000, "MAP_HUGETLB"}};
	static const char *const seeks[] = {"SET", "CUR", "END", "DATA", "HOLE"};
	static const char *const controls[] = {NULL, "ADD", "DEL", "MOD"};
	static const char *const clocks[] = {"REALTIME",
					     "MONOTONIC",
					     "PROCESS_CPUTIME_ID",
					     "THREAD_CPUTIME_ID",
					     "MONOTONIC_RAW",
					     "REALTIME_COARSE",
					     "MONOTONIC_COARSE",
					     "BOOTTIME",
					     "REALTIME_ALARM",
					     "BOOTTIME_ALARM",
					     NULL,
					     "TAI"};

	switch (type) {
	case 'P':
		put_bits(w, value, protections, ARRAY_SIZE(protections), "PROT_NONE");
		break;
	case 'M':
		put_bits(w, value, maps, ARRAY_SIZE(maps), NULL);
		break;
	case 'E':
		put_name(w, value, "EPOLL_CTL_", controls, ARRAY_SIZE(controls));
		break;
	case 'c':
		put_name(w, value, "CLOCK_", clocks, ARRAY_SIZE(clocks));
		break;
	default:
		put_name(w, value, "SEEK_", seeks, ARRAY_SIZE(seeks));
		break;
	}
}

/* What a pointer points to, if it was copied. */
static void put_pointed(struct writer *w, const struct system_call *c, char type, unsigned arg)
{
	if (!c->data || c->data_arg != arg) {
		put_pointer(w, c->args[arg]);
	} else if (type == 's') {
		put(w, "\"");
		put_escaped(w, c->data, strnlen((const char *)c->data, c->data_size));
		put(w, "\"");
	} else if (type == 'A') {
		put_address(w, c->data, c->data_size);
	} else if (c->data_size >= 8) {
		put(w, "[%d, %d]", (int32_t)load_le32(c->data), (int32_t)load_le32(c->data + 4));
	} else {
		put_pointer(w, c->args[arg]);
	}
}

static void put_argument(struct writer *w, const struct ptah_syscalls *s,
			 const struct system_call *c, char type, unsigned arg)
{
	const uint64_t value = c->args[arg];

	switch (type) {
	case 'd':
		/* Most numbers with a sign are ints; offsets have 64 bits. */
		if (value <= UINT32_MAX)
			put(w, "%d", (int32_t)value);
		else
			put(w, "%" PRId64, (int64_t)value);
		break;
	case 'u':
		put(w, "%u", (uint32_t)value);
		break;
	case 'z':
		put(w, "%" PRIu64, value);
		break;
	case 'x':
		put(w, value ? "0x%" PRIx64 : "%" PRIx64, value);
		break;
	case 'o':
		put(w, value ? "0%" PRIo32 : "%" PRIo32, (uint32_t)value);
		break;
	case 'a':
		if ((int32_t)value == -100)
			put(w, "AT_FDCWD");
		else
			put(w, "%d", (int32_t)value);
		break;
	case 'f':
		if (arg)
			put(w, "%d", (int32_t)value);
		else
			put_descriptor(w, s, c, value);
		break;
	case 'O':
		put_open_flags(w, value);
		break;
	case 'U':
		put_futex_operation(w, value);
		break;
	case 'S':
		put_signal(w, value);
		break;
	case 's':
	case 'A':
	case '2':
		put_pointed(w, c, type, arg);
		break;
	case 'p':
		put_pointer(w, value);
		break;
	default:
		put_flags(w, type, value);
		break;
	}
}

static void put_result(struct writer *w, const struct system_call *c, char type)
{
	const int64_t r = c->result;

	if (!(c->flags & PTAH_SYSCALL_RETURNED))
		put(w, "?");
	else if (r == -512)
		put(w, "? ERESTARTSYS");
	else if (r == -513)
		put(w, "? ERESTARTNOINTR");
	else if (r == -514)
		put(w, "? ERESTARTNOHAND");
	else if (r == -516)
		put(w, "? ERESTART_RESTARTBLOCK");
	else if (r < 0 && r > -(int64_t)ARRAY_SIZE(errors) && errors[-r])
		put(w, "-1 %s", errors[-r]);
	else if (type == 'p')
		put(w, "0x%" PRIx64, (uint64_t)r);
	else
		put(w, "%" PRId64, r);
	if (c->flags == (PTAH_SYSCALL_ENTERED | PTAH_SYSCALL_RETURNED) && c->end >= c->begin)
		put(w, " <%" PRIu64 ".%06" PRIu64 ">", (c->end - c->begin) / 1000000000,
		    (c->end - c->begin) / 1000 % 1000000);
}

/* O_CREAT, O_TMPFILE */
static bool makes_file(uint64_t open_flags)
{
	return open_flags & 0x40 || (open_flags & 0x410000) == 0x410000;
}

const char *ptah_syscall_text(const struct ptah_syscalls *s, size_t i, char *text, size_t size)
{
	const struct system_call *c;
	const char *name, *signature;
	struct writer w;

	if (!s || i >= s->count || !text || !size)
		return "";
	w = (struct writer){text, text + size - 1};
	c = &s->calls[i];
	name = ptah_syscall_name(c->number);
	signature = syscall_signature(c->number);
	if (name)
		put(&w, "%s(", name);
	else
		put(&w, "syscall_%" PRId64 "(", c->number);
	if (!(c->flags & PTAH_SYSCALL_ENTERED))
		put(&w, "...");
	for (unsigned k = 0; c->flags & PTAH_SYSCALL_ENTERED && k < 6 && signature[k + 1]; k++) {
		/* open() has a mode only where it may make a file. */
		if (signature[k + 1] == 'o' && signature[k] == 'O' && !makes_file(c->args[k - 1]))
			break;
		put(&w, "%s", k ? ", " : "");
		put_argument(&w, s, c, signature[k + 1], k);
	}
	put(&w, ") = ");
	put_result(&w, c, signature[0]);
	return text;
}
