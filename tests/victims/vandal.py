#!/usr/bin/env python3
"""Stands in for the tool where a test shows that the kill matrix sees harm.

It takes the tool's words and does what VANDAL says to the process: text, stop, kill, map, fd."""

import os
import signal
import subprocess
import sys


def change_text(pid):
    """Changes one byte behind the ELF header of libc's text, which nobody runs."""
    with open("/proc/%d/maps" % pid) as maps:
        line = next(line for line in maps if "r-xp" in line and "/libc.so" in line)
    end = int(line.split()[0].split("-")[1], 16)
    memory = os.open("/proc/%d/mem" % pid, os.O_WRONLY)
    os.pwrite(memory, b"\xcc", end - 1)


def call(pid, expression):
    argv = ["gdb", "-nx", "-batch", "-p", str(pid), "-ex", "call " + expression]
    subprocess.run(argv, capture_output=True, check=True)


HARM = {
    "text": change_text,
    "stop": lambda pid: os.kill(pid, signal.SIGSTOP),
    "kill": lambda pid: os.kill(pid, signal.SIGKILL),
    "map": lambda pid: call(pid, "(void *)mmap(0, 8192, 5, 0x22, -1, 0)"),
    "fd": lambda pid: call(pid, "(int)dup(0)"),
}


def main():
    pid = next(int(word) for word in sys.argv[1:] if word.isdigit())
    k = max(int(os.environ.get("JEATTACH_DIE_" + name, 0)) for name in ("AT", "AFTER"))
    if 0 < k <= 3:
        HARM[os.environ["VANDAL"]](pid)
        os.kill(os.getpid(), signal.SIGKILL)


main()
