"""The reader of the output is slow, or leaves: all of it is written, or the tool reports that it is
not.
"""

import fcntl
import json
import os
import signal
import subprocess

import hostile
import lib

F_SETPIPE_SZ = 1031
ROOM = 4096
WRITE, POLL = "1 ", "7 "  # system calls, as in /proc/PID/syscall


class FullPipe:
    """A pipe that is full before the tool writes its first byte."""

    def __init__(self, test, blocking=True):
        self.reader, self.writer = os.pipe()
        test.addCleanup(self.close)
        fcntl.fcntl(self.writer, F_SETPIPE_SZ, ROOM)
        os.write(self.writer, b"x" * ROOM)
        os.set_blocking(self.writer, blocking)

    def drain(self):
        self.close_writer()
        with os.fdopen(self.reader, "rb") as file:
            self.reader = None
            return file.read()[ROOM:]

    def close_writer(self):
        if self.writer is not None:
            os.close(self.writer)
        self.writer = None

    def close_reader(self):
        if self.reader is not None:
            os.close(self.reader)
        self.reader = None

    def close(self):
        self.close_writer()
        self.close_reader()


class TestCase(hostile.TestCase):
    def start(self, pipe, *words):
        tool = self.process(
            [lib.TOOL] + [str(word) for word in words], stdin=subprocess.DEVNULL,
            stdout=pipe.writer, stderr=subprocess.PIPE, env=lib.tool_environment())
        self.assertTrue(lib.wait_until(lambda: tool.poll() is not None or self.waits(tool)))
        return tool

    @staticmethod
    def waits(tool):
        """Waits for the reader."""
        if tool.poll() is not None:
            return False
        return lib.read_text("/proc/%d/syscall" % tool.pid).startswith((WRITE, POLL))

    def tick(self, tool):
        """Signals like the timer of the deadline."""
        tool.send_signal(signal.SIGALRM)
        mask = 1 << (signal.SIGALRM - 1)
        self.assertTrue(lib.wait_until(
            lambda: tool.poll() is not None
            or self.waits(tool) and not int(lib.status_fields(tool.pid)["ShdPnd"], 16) & mask))

    def run_slowly(self, *words, blocking=True):
        """The output after some timer signals in the middle of a write."""
        pipe = FullPipe(self, blocking)
        tool = self.start(pipe, *words)
        for _ in range(3):
            self.tick(tool)
        self.assertIsNone(tool.poll(), "it did not wait for its reader")
        out = pipe.drain()
        _, err = tool.communicate(timeout=lib.TOOL_TIMEOUT)
        self.assertEqual(tool.returncode, lib.OK, err)
        return out

    def leave_early(self, *words):
        """The reader closes the pipe in the middle of a write."""
        pipe = FullPipe(self)
        tool = self.start(pipe, *words)
        pipe.close()
        _, err = tool.communicate(timeout=lib.TOOL_TIMEOUT)
        self.assertEqual(tool.returncode, lib.OUTPUT_FAILED, err)
        self.assertIn(b"jeattach: cannot write the output\n", err)
        self.assertIn(b"Broken pipe", err)


class Verbs(TestCase):
    def setUp(self):
        self.place = self.directory()
        self.target = self.hostile(HOSTILE="large", cwd=self.place)

    def profile(self):
        path = os.path.join(self.place, "x.heap")
        self.assert_ran(lib.run_tool("dump", "--call", self.target.pid, "-o", path))
        return path

    def scenes(self):
        """With the same output each time, and with output that changes."""
        pid = self.target.pid
        same = (("stats", "--json", pid), ("stats", "--full", pid), ("report", self.profile()),
                ("dump", "--call", pid, "-o", "-"), ("mallctl", pid, "--list"))
        changing = (("ps", "--json"), ("top", "--once", "--json", pid), ("status", "--json", pid))
        return same, changing

    def test_ticks(self):
        same, changing = self.scenes()
        for words in same:
            with self.subTest(words=words):
                wanted = self.assert_ran(lib.run_tool(*words)).out
                self.assertEqual(self.run_slowly(*words), wanted)
        for words in changing:
            with self.subTest(words=words):
                json.loads(self.run_slowly(*words))
        self.assert_untraced(self.target)

    def test_descriptor_that_does_not_block(self):
        """O_NONBLOCK set by a process that shares the pipe: the tool waits all the same."""
        for words in self.scenes()[0]:
            with self.subTest(words=words):
                wanted = self.assert_ran(lib.run_tool(*words)).out
                self.assertEqual(self.run_slowly(*words, blocking=False), wanted)

    def test_several_targets(self):
        other = self.hostile(HOSTILE="large", cwd=self.place)
        words = ("stats", "--json", self.target.pid, other.pid)
        for blocking in (True, False):
            with self.subTest(blocking=blocking):
                out = self.run_slowly(*words, blocking=blocking)
                pids = [json.loads(line)["pid"] for line in out.splitlines()]
                self.assertEqual(pids, [self.target.pid, other.pid])

    def test_reader_leaves(self):
        same, changing = self.scenes()
        for words in same + changing:
            with self.subTest(words=words):
                self.leave_early(*words)
        self.assert_untraced(self.target)


if __name__ == "__main__":
    lib.main()
