# SPDX-License-Identifier: MIT
# The recorder is killed while the program waits for it, and nobody waits for the recorder, which
# stays a zombie: the program runs to its end, as alone.
. "$PTAH_SOURCE/tests/record/common.sh"

command -v python3 >/dev/null || skip "no python3 to leave a zombie with"
build orphan
cat >orphans.py <<'X'
import os, signal, subprocess, sys, time

ptah, end = os.environ["PTAH"], time.time() + 300
watched = 0 # a process that must not end meanwhile

def until(what, condition):
    while not condition():
        if time.time() > end or (watched and field(watched, 3) in (None, "Z")):
            sys.exit("waited in vain until " + what)
        time.sleep(0.01)

def read(pid, name):
    return open("/proc/%d/%s" % (pid, name)).read()

def field(pid, number):
    """Of /proc/PID/stat, as proc(5) counts. None: there is no such process."""
    try:
        return read(pid, "stat").rpartition(")")[2].split()[number - 3]
    except OSError:
        return None

def child_of(pid):
    found = read(pid, "task/%d/children" % pid).split()
    return int(found[0]) if found else 0

def times(pid): # of the process and its children
    pids = [pid] + [int(p) for p in read(pid, "task/%d/children" % pid).split()]
    return [(field(p, 14), field(p, 15)) for p in pids]

def waits(pid):
    """Whether it does nothing, for a while."""
    before = times(pid)
    time.sleep(0.15)
    return times(pid) == before

def case(how, *options, attach=False):
    global watched
    for name in ("ready", "go", "done", "perf.data"):
        if os.path.exists(name):
            os.unlink(name)
    command, log = ["./orphan", how], open("err", "w")
    record = [ptah, "record", "-q", *options]
    if attach:
        program = subprocess.Popen(command)
        until("it runs", lambda: os.path.exists("ready"))
        recorder = subprocess.Popen(record + ["-p", str(program.pid)], stderr=log)
        until("it is attached to", lambda: "memfd:ptah" in read(program.pid, "maps") and
              "TracerPid:\t0" in read(program.pid, "status"))
        pid = program.pid
    else:
        recorder = subprocess.Popen(record + ["--"] + command, stderr=log)
        watched = recorder.pid
        until("it runs", lambda: os.path.exists("ready"))
        pid = child_of(recorder.pid)
    watched = recorder.pid
    recorder.send_signal(signal.SIGSTOP)
    until("the recorder has stopped", lambda: field(recorder.pid, 3) == "T")
    open("go", "w")
    until("it waits for the recorder", lambda: waits(pid))
    # Since Linux 6.11 a mapping is described to the recorder, which nobody waits for.
    if os.path.exists("done") and how != "map":
        recorder.kill()
        sys.exit(how + ": it did not need the recorder")
    watched = 0
    recorder.kill()
    until("the recorder is a zombie", lambda: field(recorder.pid, 3) == "Z")
    until(how + " has run to its end", lambda: os.path.exists("done"))
    if attach and program.wait() != 7:
        sys.exit("%s: it ended with %d" % (how, program.returncode))
    # A child is nobody's any more.
    until("it has gone", lambda: field(pid, 3) in (None, "Z"))
    recorder.wait()
    print(how, *options)

for how in ("work", "map", "exec", "fork", "thread"):
    case(how, "--recorder=native")
for how in ("work", "map"):
    case(how, "--recorder=native", attach=True)
case("work", "--recorder=qemu", "--buffer=64K")
X
python3 orphans.py || fail "the program did not go on: $(cat err)"
