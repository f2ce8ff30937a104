"""An application whose extent hooks take a lock of its own (tests/victims/extents.c)."""

import json
import os
import select
import signal
import subprocess
import sys
import time

import lib

# Verbs that may run hooks of an arena; the arguments after the pid.
OF_ALL = (("purge",), ("mallctl", "arena.4096.purge"), ("mallctl", "arena.4096.decay"))
OF_AUTOMATIC = (
    ("dump",), ("dump", "--call", "-o", "-"), ("dump", "--call", "-o", "-", "-f", "folded"),
    ("mallctl", "prof.reset"), ("mallctl", "thread.prof.active"),
    ("mallctl", "thread.prof.name"), ("record", "--call", "-d", "100ms", "-o", "-"),
)
OF_FIRST = (("stats", "--full", "--json"), ("stats", "--full"))
# Verbs that run no function of an application.
OF_NONE = (
    ("status",), ("on",), ("off",), ("on", "--call"), ("off", "--call"), ("mallctl", "--list"),
    ("mallctl", "--list", "stats.arenas.0.*"), ("mallctl", "epoch=1"),
    ("mallctl", "arena.0.dirty_decay_ms"), ("mallctl", "arena.0.extent_hooks"),
    ("mallctl", "prof.active=true"), ("dump", "-o", "-"),
    ("dump", "--no-call", "-o", "-", "-f", "folded"), ("record", "-d", "100ms", "-o", "-"),
    ("leak", "-d", "100ms"), ("top", "--once"),
)


class Hooks(lib.TestCase):
    def start(self, arena, lock):
        directory = self.directory()
        self.log = os.path.join(directory, "log")
        conf = lib.malloc_conf(directory, 10) + ",dirty_decay_ms:-1,narenas:4"
        process = self.process(
            [os.path.join(lib.VICTIMS, "extents"), self.log, arena, lock],
            env=lib.tool_environment({"MALLOC_CONF": conf}), cwd=directory,
            stdin=subprocess.DEVNULL,
        )
        lib.wait_until(lambda: process.poll() is not None or self.woken() > 0, 10)
        self.assertIsNone(process.poll())
        return process.pid

    def numbers(self):
        try:
            return [int(word) for word in lib.read_text(self.log).split()]
        except FileNotFoundError:
            return []

    def woken(self):
        return (self.numbers() or [0])[0]

    def ran(self):
        return self.numbers()[1]

    def assert_goes_on(self, pid):
        before = self.woken()
        self.assertTrue(lib.wait_until(lambda: self.woken() > before + 1, 10), "it hangs")
        self.assertEqual(lib.tracer_of(pid), 0)

    def assert_refused(self, pid, words, arena):
        result = lib.run_tool(words[0], pid, *words[1:], "--timeout", "5s")
        self.assert_failed(result, lib.REFUSED, "arena %d has extent hooks" % arena, "0x",
                           "/extents", "--allow hooks")
        self.assert_goes_on(pid)

    def assert_done(self, pid, words):
        result = self.assert_ran(lib.run_tool(words[0], pid, *words[1:], "--timeout", "20s"))
        self.assertNotIn("force-hooks", result.err)
        self.assert_goes_on(pid)

    def own_arena(self, pid):
        line = self.assert_ran(lib.run_tool("mallctl", pid, "arenas.narenas")).text
        return int(line.split(" = ")[1]) - 1

    def test_held_lock(self):
        """In each of these the thread would wait for ever for the lock that it has."""
        pid = self.start("own", "held")
        arena = self.own_arena(pid)
        for words in OF_ALL + (("mallctl", "arena.%d.purge" % arena),
                               ("mallctl", "arena.%d.dirty_decay_ms=0" % arena)):
            with self.subTest(words=words):
                self.assert_refused(pid, words, arena)

    def test_one_function_of_the_application(self):
        pid = self.start("one", "held")
        self.assert_refused(pid, ("purge",), self.own_arena(pid))

    def test_what_touches_other_arenas(self):
        """jemalloc allocates none of its own data in an arena that an application has made."""
        pid = self.start("own", "held")
        for words in OF_AUTOMATIC + OF_FIRST + OF_NONE + (("mallctl", "arena.0.purge"),):
            with self.subTest(words=words):
                self.assert_done(pid, words)

    def test_hooks_of_the_first_arena(self):
        pid = self.start("zero", "held")
        for words in OF_ALL + OF_AUTOMATIC + OF_FIRST + (("mallctl", "arena.0.decay"),):
            with self.subTest(words=words):
                self.assert_refused(pid, words, 0)
        for words in OF_NONE:
            with self.subTest(words=words):
                self.assert_done(pid, words)
        self.assertEqual(self.ran(), 0)

    def test_hooks_of_another_automatic_arena(self):
        """It may hold the data of samples, but not the buffer of the statistics."""
        pid = self.start("second", "held")
        for words in OF_ALL + OF_AUTOMATIC:
            with self.subTest(words=words):
                self.assert_refused(pid, words, 1)
        for words in OF_FIRST + OF_NONE:
            with self.subTest(words=words):
                self.assert_done(pid, words)

    def test_refused_before_anything_is_done(self):
        """Samples are not dropped, profiling stays off, other names are not written."""
        pid = self.start("zero", "held")
        for words in (("mallctl", "prof.active=true", "arena.0.purge"), 
                      ("record", "--call", "-d", "1s")):
            self.assert_refused(pid, words, 0)
            line = self.assert_ran(lib.run_tool("mallctl", pid, "prof.active")).text
            self.assertEqual(line, "prof.active = false\n")

    def test_hooks_that_come_meanwhile(self):
        """A profile by a call would run them, so there is none; profiling is off all the same."""
        pid = self.start("later", "held")
        tool = subprocess.Popen(
            [lib.TOOL, "record", "--call", "-v", "-d", "1h", "-o", os.path.join(self.directory(), "a"),
             str(pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lib.end_process, tool)
        said = ""
        while "false -> true" not in said:
            line = tool.stderr.readline()
            self.assertTrue(line, said)
            said += line
        os.kill(pid, signal.SIGUSR1)
        time.sleep(0.2)
        tool.send_signal(signal.SIGINT)
        _, rest = tool.communicate(timeout=60)
        self.assertEqual(tool.returncode, lib.REFUSED, said + rest)
        self.assertIn("arena 0 has extent hooks", rest)
        line = self.assert_ran(lib.run_tool("mallctl", pid, "prof.active")).text
        self.assertEqual(line, "prof.active = false\n")
        self.assertEqual(self.ran(), 0)
        self.assert_goes_on(pid)

    def test_hooks_that_are_all_of_jemalloc(self):
        for arena in ("none", "copy"):
            pid = self.start(arena, "held")
            for words in OF_ALL + OF_AUTOMATIC:
                with self.subTest(arena=arena, words=words):
                    self.assert_done(pid, words)

    def test_forced(self):
        """Without the lock they run, and the output names the arena."""
        for arena in ("own", "zero"):
            pid = self.start(arena, "free")
            for words in (("purge",), ("dump", "--call", "-o", "-"), ("mallctl", "prof.reset"),
                          ("mallctl", "arena.0.decay"),
                          ("mallctl", "arena.4096.purge"), ("stats", "--full", "--json")):
                with self.subTest(arena=arena, words=words):
                    result = lib.run_tool(words[0], pid, *words[1:], "--allow=hooks")
                    self.assert_ran(result)
                    wanted = arena == "zero" or words in OF_ALL
                    self.assertEqual("warning: allowed by --allow hooks" in result.err, wanted)
                    self.assert_goes_on(pid)
            self.assertGreater(self.ran(), 0)

    def test_purged(self):
        """Each arena by its index: memory that jemalloc's own hooks manage is released."""
        pid = self.start("none", "free")
        told = json.loads(self.assert_ran(lib.run_tool("purge", pid, "--json")).text)
        self.assertLess(told["resident_after"] + (1 << 20), told["resident_before"], told)


class Interposed(lib.TestCase):
    """A preloaded library takes a lock in functions that jemalloc calls, too."""

    SCRIPT = """
import os
while True:
    try:
        os.close(-1)
    except OSError:
        print(flush=True)
"""

    def start(self):
        library = os.path.join(lib.VICTIMS, "libinterposer.so")
        env = lib.tool_environment({"LD_PRELOAD": "%s libjemalloc.so.2" % library,
                                    "MALLOC_CONF": lib.malloc_conf(self.directory(), 10)})
        process = self.process([sys.executable, "-c", self.SCRIPT], env=env,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.assert_goes_on(process)
        return process

    def assert_goes_on(self, process):
        """Reads what it has said, and then waits for more."""
        ready = lambda: select.select([process.stdout], [], [], 10)[0]
        self.assertTrue(ready(), "it hangs")
        os.read(process.stdout.fileno(), 1 << 16)
        self.assertTrue(ready(), "it hangs")

    def test_interposed_is_refused(self):
        process = self.start()
        for words in (("dump",), ("dump", "--call", "-o", "-"), ("purge",), ("on", "--call"),
                      ("mallctl", "epoch=1")):
            with self.subTest(words=words):
                result = lib.run_tool(words[0], process.pid, *words[1:], "--timeout", "5s")
                self.assert_failed(result, lib.REFUSED, "open, which jemalloc calls",
                                   "libinterposer.so", "--allow hooks")
                self.assert_goes_on(process)

    def test_interposed_beside_reading(self):
        process = self.start()
        for words in (("on",), ("stats",), ("dump", "-o", "-"), ("off",)):
            with self.subTest(words=words):
                self.assert_ran(lib.run_tool(words[0], process.pid, *words[1:]))
        self.assert_goes_on(process)

    def test_interposed_and_forced(self):
        """This call comes to none of these functions."""
        process = self.start()
        result = self.assert_ran(lib.run_tool("on", "--call", "--allow=hooks", process.pid))
        self.assertIn("warning: allowed by --allow hooks: open, which jemalloc calls", result.err)
        self.assert_goes_on(process)


if __name__ == "__main__":
    lib.main()
