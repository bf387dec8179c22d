#!/bin/sh
# SPDX-License-Identifier: MIT
# On a terminal: Ctrl-C once and twice, the command's rights to the terminal, progress, Ctrl-Z;
# and SIGTERM. python3 plays the terminal.
. "$PTAH_SOURCE/tests/record/common.sh"

command -v python3 >/dev/null || skip "no python3 to make a pseudo terminal with"

build waits
cat >terminal.py <<'X'
import os, pty, re, select, signal, subprocess, sys, termios, time

class Terminal:
    """A command in the foreground of a terminal of its own."""
    def __init__(self, *argv):
        for name in ("ready", "end"):
            if os.path.exists(name):
                os.unlink(name)
        self.text = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            # Ctrl-C would discard what the terminal has not shown yet, its answer perhaps with it.
            attributes = termios.tcgetattr(0)
            attributes[3] |= termios.NOFLSH
            termios.tcsetattr(0, termios.TCSANOW, attributes)
            os.execvp(argv[0], argv)

    def read(self, seconds):
        if select.select([self.fd], [], [], seconds)[0]:
            try:
                self.text += os.read(self.fd, 65536)
            except OSError:  # EIO: everybody has closed it
                time.sleep(min(seconds, 0.02))

    def until(self, what, seconds=600):
        """Waits for a text, or for a function to be true."""
        end = time.time() + seconds
        while not (what() if callable(what) else re.search(what, self.text)):
            if time.time() > end:
                self.fail("waited in vain for %r" % what)
            self.read(0.05)

    def type(self, text):
        os.write(self.fd, text)

    def status(self, seconds=600):
        end = time.time() + seconds
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                for _ in range(5):
                    self.read(0.01)
                return os.waitstatus_to_exitcode(status)
            if time.time() > end:
                self.fail("does not end")
            self.read(0.05)

    def handled(self):
        """Waits until the recorder has no Ctrl-C pending: the next one would be the same signal."""
        pending = lambda: any(int(mask, 16) >> signal.SIGINT - 1 & 1 for mask in re.findall(
            r"^(?:Sig|Shd)Pnd:\s*(\w+)", open("/proc/%d/status" % self.pid).read(), re.M))
        self.until(lambda: not pending())
        time.sleep(0.5)

    def fail(self, what):
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
        sys.exit("FAIL: %s: %s; the terminal shows %r" % (sys.argv[1], what, self.text))

def equal(t, got, wanted):
    if got != wanted:
        t.fail("%r, not %r" % (got, wanted))

ptah = os.environ["PTAH"]
loop = "exec ./waits"
ready = lambda: os.path.exists("ready")
complete = lambda: subprocess.run([ptah, "report", "perf.data"], capture_output=True).returncode == 0

def record(*arguments):
    t = Terminal(ptah, "record", "--recorder=qemu", *arguments)
    t.until(ready)
    return t

def once():
    """Ctrl-C is the command's affair, and the recording goes on to the command's end."""
    t = record("./waits")
    t.type(b"\x03")
    t.until(b"caught")
    time.sleep(0.3)
    if b"written to" in t.text:
        t.fail("the first Ctrl-C ended the recording")
    open("end", "w")
    equal(t, t.status(), 5)
    t.until(b"instructions.*written to perf.data")

def killed():
    """... which may be at once."""
    t = record("sh", "-c", ": >ready; while :; do :; done")
    t.type(b"\x03")
    equal(t, t.status(), 128 + signal.SIGINT)
    t.until(b"written to perf.data")

def twice():
    """The second one ends the recording; the command goes on, and its status counts."""
    t = record("./waits")
    t.type(b"\x03")
    t.until(b"caught")
    t.handled()
    t.type(b"\x03")
    t.until(b"written to perf.data")
    t.until(b"goes on")
    t.until(complete)
    open("end", "w")
    equal(t, t.status(), 5)

def thrice():
    """The third one does not wait for the command any longer."""
    t = record("sh", "-c", "trap '' INT; : >ready; while [ ! -e end ]; do :; done")
    for i in range(3):
        t.type(b"\x03")
        if i < 2:
            t.handled()
    equal(t, t.status(), 130)
    open("end", "w")

def reads():
    """The command is in the terminal's foreground, and may read from it."""
    t = record("sh", "-c", ": >ready; read line; echo got $line; stty size >/dev/null; exit 3")
    t.type(b"hello\n")
    equal(t, t.status(), 3)
    t.until(b"got hello")

def stopped():
    """Ctrl-Z stops both, as a shell's job; with fg both go on."""
    t = Terminal("sh", "-mc", "%s record --recorder=qemu sh -c '%s'; echo left $?; : >end; fg; echo status $?; exit 4" %
                 (ptah, loop.replace("'", "'\\''")))
    t.until(ready)
    t.type(b"\x1a")
    t.until(b"left %d" % (128 + signal.SIGTSTP))
    t.until(b"status 5")
    t.until(b"written to perf.data")
    equal(t, t.status(), 4)

def progress():
    t = record("./waits")
    t.until(rb"\r\d+ s: [\d.]+ MB of trace, \d+ instructions, 1 thread[^\n]*\033\[K\r")
    first = len(t.text)
    t.until(lambda: re.search(rb"\r\d+ s: ", t.text[first:]))
    open("end", "w")
    equal(t, t.status(), 5)
    # The progress line is erased before the closing line.
    if not re.search(rb"\r\033\[K\[ ptah record: [\d.]+ MB of trace", t.text):
        t.fail("the progress line was not erased")

def counts():
    """The count of instructions grows while a thread runs."""
    for recorder in ("qemu", "ptrace"):
        t = record("--recorder=" + recorder, "sh", "-c",
                   ": >ready; while [ ! -e end ]; do :; done")
        numbers = lambda: [int(n) for n in re.findall(rb"MB of trace, (\d+) instructions, 1 thread",
                                                      t.text)]
        t.until(lambda: len(set(numbers())) >= 3)
        open("end", "w")
        equal(t, t.status(), 0)
        if numbers() != sorted(numbers()):
            t.fail("a count shrinks")

def no_progress():
    for option in ("-q", "--no-progress"):
        t = record(option, "./waits")
        time.sleep(1.5)
        open("end", "w")
        equal(t, t.status(), 5)
        if b"\033[K" in t.text or (option == "-q" and t.text):
            t.fail(option)
    # No progress is written to what is not a terminal.
    t = Terminal("sh", "-c", "%s record --recorder=qemu sh -c '%s' 2>errors.txt" %
                 (ptah, loop.replace("'", "'\\''")))
    t.until(ready)
    time.sleep(1.5)
    open("end", "w")
    equal(t, t.status(), 5)
    if "\033" in open("errors.txt").read() or "\r" in open("errors.txt").read():
        t.fail("progress in a file")

def raw():
    """Not across a program that has the terminal for itself."""
    t = record("sh", "-c", "stty -icanon; " + loop)
    t.read(0.2)
    # Where starting takes more than a second, there was progress before.
    lines = lambda: len(re.findall(rb"\r\d+ s: ", t.text))
    before = lines()
    time.sleep(1.7)
    open("end", "w")
    equal(t, t.status(), 5)
    if lines() > before or (not before and b"\033[K" in t.text):
        t.fail("progress across the command's screen")

def terminated():
    """SIGTERM is handed on."""
    for name, number in (("TERM", signal.SIGTERM), ("HUP", signal.SIGHUP)):
        t = record("sh", "-c", "trap 'exit 9' %s; : >ready; while :; do :; done" % name)
        os.kill(t.pid, number)
        equal(t, t.status(), 9)
        t.until(b"written to perf.data")

def unasked():
    """SIGUSR2 without --snapshot does nothing."""
    t = record("./waits")
    os.kill(t.pid, signal.SIGUSR2)
    time.sleep(0.2)
    open("end", "w")
    equal(t, t.status(), 5)

globals()[sys.argv[1]]()
X

for case in once killed twice thrice reads stopped progress counts no_progress raw terminated unasked; do
	rm -f perf.data perf.data.old
	timeout 900 python3 terminal.py $case || fail "$case"
	"$PTAH" report >report.txt 2>notes.txt || fail "$case: no valid file: $(cat report.txt notes.txt)"
	case $case in
	twice | thrice) ;;
	*) exact ;;
	esac
	perf_agrees
	echo "$case"
done
