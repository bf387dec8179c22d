# SPDX-License-Identifier: MIT
"""on_screen.py COLUMNS LINES [PATTERN KEYS]... -- COMMAND...: runs a command on a screen.

The command gets a terminal of its own, a VT52, which has few sequences. Once the screen matches the
regular expression PATTERN, it is printed, and KEYS are typed. KEYS may be size=COLUMNSxLINES, which
gives the terminal another size. At the end the exit status is the command's, or 1 with the last
screen when the command has ended, or two minutes have passed, before the next pattern matched.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time


PATIENCE = 600  # seconds, for each pattern


class Screen:
    """What a VT52 shows."""

    def __init__(self, columns, lines):
        self.resize(columns, lines)

    def resize(self, columns, lines):
        self.columns, self.lines = columns, lines
        self.rows = [[" "] * columns for _ in range(lines)]
        self.x = self.y = 0
        self.rest = ""

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.rows)

    def clear(self, y, x):
        self.rows[y][x:] = [" "] * (self.columns - x)

    def line_feed(self):
        if self.y < self.lines - 1:
            self.y += 1
        else:
            self.rows = self.rows[1:] + [[" "] * self.columns]

    def put(self, c):
        if c == "\r":
            self.x = 0
        elif c == "\n":
            self.line_feed()
        elif c == "\b":
            self.x = max(self.x - 1, 0)
        elif c == "\t":
            self.x = min(self.x // 8 * 8 + 8, self.columns - 1)
        elif c >= " ":
            self.rows[self.y][min(self.x, self.columns - 1)] = c
            self.x += 1

    def escape(self, c):
        if c == "A":
            self.y = max(self.y - 1, 0)
        elif c == "B":
            self.y = min(self.y + 1, self.lines - 1)
        elif c == "C":
            self.x = min(self.x + 1, self.columns - 1)
        elif c == "D":
            self.x = max(self.x - 1, 0)
        elif c == "H":
            self.x = self.y = 0
        elif c == "I":
            if self.y:
                self.y -= 1
            else:
                self.rows = [[" "] * self.columns] + self.rows[:-1]
        elif c in "JK":
            self.clear(self.y, min(self.x, self.columns))
            for y in range(self.y + 1, self.lines if c == "J" else 0):
                self.clear(y, 0)

    def take(self, text):
        text, self.rest, i = self.rest + text, "", 0
        while i < len(text):
            need = 1 if text[i] != "\033" else 4 if text[i + 1:i + 2] == "Y" else 2
            if i + need > len(text):
                self.rest = text[i:]
                return
            if need == 4:
                self.y = min(ord(text[i + 2]) - 32, self.lines - 1)
                self.x = min(ord(text[i + 3]) - 32, self.columns - 1)
            elif need == 2:
                self.escape(text[i + 1])
            else:
                self.put(text[i])
            i += need


def set_size(terminal, columns, lines):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


def main():
    split = sys.argv.index("--")
    columns, lines = int(sys.argv[1]), int(sys.argv[2])
    typed = [(re.compile(sys.argv[i]), sys.argv[i + 1]) for i in range(3, split, 2)]
    pid, terminal = pty.fork()
    if not pid:
        set_size(0, columns, lines)
        # Ctrl-C would discard what the terminal has not shown yet.
        attributes = termios.tcgetattr(0)
        attributes[3] |= termios.NOFLSH
        termios.tcsetattr(0, termios.TCSANOW, attributes)
        os.environ["TERM"] = "vt52"
        os.execvp(sys.argv[split + 1], sys.argv[split + 1:])
    screen, last = Screen(columns, lines), time.monotonic() + PATIENCE
    while time.monotonic() < last:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            data = os.read(terminal, 65536)
        except OSError:
            data = b""
        if not data:
            break
        screen.take(data.decode("latin-1"))
        if typed and typed[0][0].search(screen.text()):
            print(screen.text(), "\n" + "=" * columns, flush=True)
            keys = typed.pop(0)[1]
            last = time.monotonic() + PATIENCE
            if keys.startswith("size="):
                columns, lines = (int(n) for n in keys[5:].split("x"))
                screen.resize(columns, lines)
                set_size(terminal, columns, lines)
            else:
                os.write(terminal, keys.encode().decode("unicode_escape").encode())
    else:
        os.kill(pid, signal.SIGKILL)
    print(screen.text())
    status = os.waitpid(pid, 0)[1]
    if typed:
        print("never shown:", typed[0][0].pattern)
        sys.exit(1)
    sys.exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 200 + os.WTERMSIG(status))


main()
