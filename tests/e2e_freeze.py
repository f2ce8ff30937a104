"""--freeze: a profile that is read while every thread is stopped, of processes that never rest."""

import json
import os
import re
import signal
import subprocess

import lib

THREADS = 4
STOPPED = re.compile(r"; all (\d+) threads stopped(?: \d+ times, together)? for [\d.]+ (?:us|ms|s)\n")


class TestCase(lib.TestCase):
    def paths(self):
        """Its backtraces are all known; its workers allocate and free without a rest."""
        process = self.process(
            [os.path.join(lib.VICTIMS, "paths"), "--threads", str(THREADS), "--levels", "6"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**lib.tool_environment(), "LD_PRELOAD": self.library(),
                 "MALLOC_CONF": "prof:true,lg_prof_sample:9"},
        )
        self.assertEqual(process.stdout.readline(), b"ready\n")
        self.ask(process, "churn 20")
        return process

    def library(self):
        """The jemalloc that the victims are linked with."""
        victim = self.victim()
        return next(m.path for m in lib.mappings(victim.pid) if "libjemalloc" in m.path)

    def tell(self, process, command):
        process.stdin.write(command.encode() + b"\n")
        process.stdin.flush()

    def ask(self, process, command):
        self.tell(process, command)
        self.assertEqual(process.stdout.readline(), b"ok\n", command)

    def freeze(self, process, threads):
        """Returns the profile."""
        result = self.assert_ran(lib.run_tool("dump", "--freeze", "-o", "-", process.pid))
        found = STOPPED.search(result.err)
        self.assertTrue(found, result)
        self.assertIn(int(found[1]), threads, result)
        self.assert_profile(result.out, 1 << 6)
        self.assertNotIn("left out", result.err)  # nothing changes while it is read
        return result.out

    def assert_goes_on(self, process):
        self.ask(process, "rest")
        self.ask(process, "check")
        for tid in lib.threads(process.pid):
            self.assertEqual(lib.tracer_of_thread(process.pid, tid), 0)


class Busy(TestCase):
    def test_churn(self):
        process = self.paths()
        for _ in range(15):
            self.freeze(process, (1 + THREADS,))
        self.assert_goes_on(process)

    def test_threads_that_come_and_go(self):
        """The main thread makes one after the other."""
        process = self.paths()
        self.tell(process, "passing 2000")
        for _ in range(10):
            self.freeze(process, (1 + THREADS, 2 + THREADS))
        self.assertEqual(process.stdout.readline(), b"ok\n")
        self.assert_goes_on(process)

    def test_job_control(self):
        """A process that is stopped and continued while it is frozen, and before, and after."""
        process = self.paths()
        for number in (signal.SIGSTOP, signal.SIGCONT) * 6:
            tool = self.process([lib.TOOL, "dump", "--freeze", "-o", "/dev/null", str(process.pid)],
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                env=lib.tool_environment())
            os.kill(process.pid, number)
            self.assertEqual(tool.wait(lib.TOOL_TIMEOUT), lib.OK, tool.stderr.read())
            state = "T" if number == signal.SIGSTOP else "SRD"
            self.assertTrue(lib.wait_until(lambda: lib.state_of(process.pid) in state), state)
        self.assert_goes_on(process)


class Verbs(TestCase):
    def test_json(self):
        victim = self.victim(arguments=["--threads", "3"])
        result = self.assert_ran(lib.run_tool("dump", "--freeze", "--json", "-o", os.devnull,
                                              victim.pid))
        told = json.loads(result.text)
        self.assertEqual((told["way"], told["frozen_threads"], told["calls"]), ("memory", 4, 0))
        self.assertGreaterEqual(told["frozen_ns"], told["read_ns"])
        result = self.assert_ran(lib.run_tool("dump", "--json", "-o", os.devnull, victim.pid))
        self.assertNotIn("frozen_ns", json.loads(result.text))
        self.assert_unharmed(victim)

    def test_record_and_leak(self):
        victim = self.victim(arguments=["--threads", "3"])
        for verb, words in (("record", ("-d", "100ms", "-o", "-")),
                            ("leak", ("-d", "100ms", "--settle", "50ms"))):
            result = self.assert_ran(lib.run_tool(verb, "--freeze", *words, victim.pid))
            self.assertRegex(result.err, STOPPED)
            self.assertIn("prof.active is false again", result.err)
            if verb == "leak":
                self.assertRegex(result.err, r"; all 4 threads stopped \d+ times, together for ")
        self.assert_unharmed(victim)

    def test_excluded(self):
        for words in (("--freeze",), ("--freeze", "-o", "x", "--call"),
                      ("--freeze", "-o", "x", "--thread", "1"), ("--freeze", "--path", "x")):
            self.assert_failed(lib.run_tool("dump", *words, os.getpid()), lib.USAGE, "--freeze")
        self.assert_failed(lib.run_tool("on", "--freeze", os.getpid()), lib.USAGE, "--freeze")


if __name__ == "__main__":
    lib.main()
