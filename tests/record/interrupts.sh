# SPDX-License-Identifier: MIT
# kill -INT twice ends `ptah record` at any moment, whatever those whom it could wait for do.
. "$PTAH_SOURCE/tests/record/common.sh"

command -v python3 >/dev/null || skip "no python3 to wait for processes with"
build orphan
cat >interrupts.py <<'X'
import atexit, os, signal, subprocess, sys, time

ptah, end = os.environ["PTAH"], time.time() + 300
# It is heard by nobody, and does not end before it is told. Its file is its own: what begins next
# must not remove it before this one has looked. What still runs at the end would hold the test's
# output open.
commands = 0

def stubborn():
    global commands
    commands += 1
    return ["sh", "-c", "trap '' INT TERM; : >ready; while [ ! -e end.%d ]; do sleep 0.05; done"
                        % commands]

def fail(what):
    sys.exit("FAIL: %s: %s" % (what, open("err").read()))

def until(what, condition):
    while not condition():
        if time.time() > end:
            fail("waited in vain until " + what)
        time.sleep(0.01)

def begin(*arguments, command=None):
    for name in ("ready", "go", "done", "perf.data"):
        if os.path.exists(name):
            os.unlink(name)
    return subprocess.Popen([ptah, "record", "--no-progress", *arguments, "--", *(command or stubborn())],
                            stderr=open("err", "w"))

def end_command():
    open("end.%d" % commands, "w")
    open("go", "w")

atexit.register(end_command)

def ends(what, recorder):
    """Two signals count as two when some time is between them."""
    for i in range(2):
        recorder.send_signal(signal.SIGINT)
        time.sleep(0.3)
    try:
        status = recorder.wait(60)
    except subprocess.TimeoutExpired:
        recorder.kill()
        fail(what + " keeps it")
    end_command()
    print(what, status)
    return status

def command():
    """After the recording has ended by itself, and while it is made."""
    for options in (["--max-size=100K"], ["--control=fifo:control"], []):
        if not os.path.exists("control"):
            os.mkfifo("control")
        control = os.open("control", os.O_RDWR | os.O_NONBLOCK)
        recorder = begin("--recorder=native", *options)
        until("it runs", lambda: os.path.exists("ready"))
        if options and "control" in options[0]:
            os.write(control, b"stop\n")
        if options:
            until("the recording has ended", lambda: "written to perf.data" in open("err").read())
        if ends("a command, " + " ".join(options), recorder) != 130:
            fail("not 130")
        os.close(control)

def reader():
    """Nobody reads what it writes."""
    if not os.path.exists("pipe"):
        os.mkfifo("pipe")
    pipe = os.open("pipe", os.O_RDWR)
    recorder = begin("--recorder=native", "-o", "pipe", command=["./orphan", "work"])
    until("it runs", lambda: os.path.exists("ready"))
    open("go", "w")
    until("the pipe is full", lambda: is_idle(recorder.pid))
    ends("a reader", recorder)
    os.close(pipe)

def is_idle(pid):
    times = lambda: open("/proc/%d/stat" % pid).read().rpartition(")")[2].split()[11:13]
    before = times()
    time.sleep(0.3)
    return times() == before

def tracer():
    """The process that steps the command is stopped."""
    recorder = begin("--recorder=ptrace", command=["./orphan", "nothing"])
    children = lambda: open("/proc/%d/task/%d/children" % (recorder.pid, recorder.pid)).read().split()
    until("it traces", lambda: len(children()) == 2)
    stopped = int(children()[0])
    os.kill(stopped, signal.SIGSTOP)
    ends("a tracer", recorder)
    os.kill(stopped, signal.SIGCONT)

command()
reader()
tracer()
X
python3 interrupts.py || fail "kill -INT twice does not end it"
