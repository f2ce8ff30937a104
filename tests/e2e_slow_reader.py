"""The reader of the output is slow, or leaves: all of it is written, or the tool reports that it is
not.
"""

import fcntl
import json
import os
import re
import signal
import subprocess
import time

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
        self.assert_silent(err.decode())

    def assert_silent(self, err):
        """A reader that has left is no error to report, and nothing else was."""
        for word in ("cannot write", "Broken pipe", "EPIPE", "cause:"):
            self.assertNotIn(word, err)


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
        same = (("stats", "--full", "--json", pid), ("stats", "--full", pid), ("report", self.profile()),
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
        words = ("stats", "--full", "--json", self.target.pid, other.pid)
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


class EveryVerb(TestCase):
    """Every way in which a verb writes to stdout, with a target whose profile is small."""

    def setUp(self):
        self.place = self.directory()
        self.victim_of_all = self.victim("nanosleep")
        self.pid = self.victim_of_all.pid
        self.names = 0
        self.switch(self.victim_of_all, "on")
        self.heap = os.path.join(self.place, "x.heap")
        self.assert_ran(lib.run_tool("dump", self.pid, "-o", self.heap))

    def file(self):
        """A name that no file has yet."""
        self.names += 1
        return os.path.join(self.place, "%d.heap" % self.names)

    def commands(self):
        pid, short = self.pid, ("-d", "1ms", self.pid)
        rule = ("--when", "rss>1K", "--once", "-o", self.place, pid)
        yield from (("--help",), ("help", "on"), ("--version",), ("dump", "--help"))
        yield from ((verb, *words, pid) for words in ((), ("--json",))
                    for verb in ("status", "on", "off", "dump", "stats", "purge"))
        yield from (("ps",), ("ps", "--json"), ("mallctl", pid, "prof.reset", "--json"), ("on", "--call", pid))
        yield from (("mallctl", pid, "version"), ("mallctl", "--json", pid, "version"))
        yield from (("mallctl", pid, "--list"), ("mallctl", "--json", pid, "--list"))
        yield from (("dump", "-o", "-", pid), ("dump", "-f", "text", pid))
        yield from (("dump", "--call", "-o", "-", pid),)
        yield from (("record", "-o", "-", *short), ("record", "-f", "text", *short))
        yield from (("record", "-o", self.file(), *short),
                    ("record", "--json", "-o", self.file(), *short))
        yield from (("leak", *words, *short) for words in ((), ("--json",), ("-f", "text")))
        yield from (("stats", word, pid) for word in ("--full", "--prometheus", "--threads"))
        yield from ((verb, *words, pid) for words in ((), ("--json",)) for verb in ("frag", "peek"))
        yield from (("explain", pid), ("stats", "--bins", pid), ("leak", "--faults", *short))
        yield from (("top", "--once", pid), ("top", "--count", "2", "--every", "100ms", pid, "--json"))
        yield ("watch", *rule, "--json")
        yield from (("report", "-f", form, self.heap)
                    for form in ("text", "folded", "pprof", "flame", "dot", "json", "raw",
                                 "symbolized"))
        yield ("stats", "--full", "--json", pid, self.victim("nanosleep").pid)

    def for_each(self, check):
        for words in self.commands():
            with self.subTest(words=words):
                check(words)
        self.assert_unharmed(self.victim_of_all, slow=True)

    def run_with(self, stdout, words):
        return lib.run_tool(*words, stdout=stdout)

    def assert_told(self, result, cause):
        """The exit code and the cause say that not all of it was written."""
        self.assertEqual(result.code, lib.OUTPUT_FAILED, result)
        self.assertIn("jeattach: cannot write the output\n", result.err)
        self.assertIn(cause, result.err)

    def test_every_verb_is_here(self):
        verbs = {words[0] for words in self.commands()}
        listed = re.findall(r"^  (\w+) +[a-z]", lib.run_tool("--help").text.partition("Verbs:")[2]
                            .partition("\n\n")[0], re.M)
        self.assertGreater(len(listed), 14)
        self.assertEqual([verb for verb in listed if verb not in verbs], [])

    def test_full_device(self):
        def check(words):
            with open("/dev/full", "wb") as full:
                self.assert_told(self.run_with(full, words), "No space left on device")

        self.for_each(check)

    def test_nobody_reads(self):
        def check(words):
            reader, writer = os.pipe()
            os.close(reader)
            with os.fdopen(writer, "wb", buffering=0) as pipe:
                result = self.run_with(pipe, words)
                self.assertEqual(result.code, lib.OUTPUT_FAILED, result)
                self.assert_silent(result.err)

        self.for_each(check)

    def test_reader_stops_and_goes_on(self):
        """The pipe is full before the first byte; timer signals come meanwhile."""
        def check(words):
            out = self.run_slowly(*words)
            self.assertTrue(out)
            if "--json" in words:
                self.assertTrue(all(json.loads(line) for line in out.splitlines()))

        self.for_each(check)

    def test_small_reads(self):
        """A few bytes at a time, with pauses, from a pipe of one page."""
        self.for_each(lambda words: self.assertTrue(self.read_in_pieces(words)))

    def read_in_pieces(self, words):
        reader, writer = os.pipe()
        fcntl.fcntl(writer, F_SETPIPE_SZ, ROOM)
        tool = self.process(
            [lib.TOOL] + [str(word) for word in words], stdin=subprocess.DEVNULL, stdout=writer,
            stderr=subprocess.PIPE, env=lib.tool_environment())
        os.close(writer)
        pieces = []
        with os.fdopen(reader, "rb", buffering=0) as pipe:
            while piece := pipe.read(97 if len(pieces) < 50 else 1 << 16):
                pieces.append(piece)
                time.sleep(0.001 if len(pieces) < 50 else 0)
        _, err = tool.communicate(timeout=lib.TOOL_TIMEOUT)
        self.assertEqual(tool.returncode, lib.OK, err)
        return b"".join(pieces)

    def test_messages_are_lost(self):
        """stderr is full or closed: the result is the same, and so is the exit code."""
        def check(words):
            if words[0] == "--help":
                return
            for how in ("2>/dev/full", "2>&-"):
                done = subprocess.run(
                    ["sh", "-c", 'exec "$@" ' + how, "sh", lib.TOOL, *map(str, self.fresh(words))],
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=lib.TOOL_TIMEOUT,
                    env=lib.tool_environment())
                self.assertEqual(done.returncode, lib.OK, how)
                self.assertTrue(done.stdout)

        self.for_each(check)

    def fresh(self, words):
        """With a new name in place of an output file that exists."""
        return [self.file() if str(word).endswith(".heap") and word != self.heap else word
                for word in words]

    def test_full_file(self):
        """-o on a full device."""
        for words in (("dump", self.pid), ("dump", "--call", self.pid), ("report", self.heap),
                      ("record", "-d", "1ms", self.pid), ("leak", "-d", "1ms", "-f", "text", self.pid)):
            with self.subTest(words=words):
                result = lib.run_tool(*words, "-o", "/dev/full")
                self.assert_told(result, "/dev/full: No space left on device")
        self.assert_unharmed(self.victim_of_all, slow=True)


if __name__ == "__main__":
    lib.main()
