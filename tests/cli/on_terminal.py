# SPDX-License-Identifier: MIT
"""on_terminal.py COLUMNS [WORD KEYS]... -- COMMAND...: runs a command on a terminal of its own.

What the terminal shows goes to standard output, with newlines as the command wrote them. Once WORD
has been shown, KEYS are typed; the next pair waits for what is shown after that. The exit status is
the command's, or 200 and the signal if one killed it.
"""
import fcntl
import os
import pty
import struct
import sys
import termios

split = sys.argv.index("--")
columns = int(sys.argv[1])
typed = [(sys.argv[i].encode(), sys.argv[i + 1].encode().decode("unicode_escape").encode())
         for i in range(2, split, 2)]
pid, terminal = pty.fork()
if not pid:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    # Ctrl-C would discard what the terminal has not shown yet, its answer perhaps with it.
    attributes = termios.tcgetattr(0)
    attributes[3] |= termios.NOFLSH
    termios.tcsetattr(0, termios.TCSANOW, attributes)
    os.execvp(sys.argv[split + 1], sys.argv[split + 1:])
shown, seen = b"", 0
while True:
    try:
        data = os.read(terminal, 65536)
    except OSError:
        break
    if not data:
        break
    shown += data
    while typed and (at := shown.find(typed[0][0], seen)) >= 0:
        seen = at + len(typed[0][0])
        os.write(terminal, typed.pop(0)[1])
sys.stdout.buffer.write(shown.replace(b"\r\n", b"\n"))
status = os.waitpid(pid, 0)[1]
sys.exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 200 + os.WTERMSIG(status))
