"""A program whose threads are in functions that never return, and without call frame information:
no thread of it can be proven outside the allocator.
The search ends soon, has hardly stopped it, and says why."""

import json
import os
import re
import struct
import subprocess

import lib

WORKERS = 3
CONF = "prof:true,prof_active:false,lg_prof_sample:12"


class Endless:
    """tests/victims/endless.c"""

    def __init__(self, test, mode, workers=WORKERS):
        self.counter = os.path.join(test.directory(), "counter")
        self.process = lib.Process(
            [os.path.join(lib.VICTIMS, "endless"), self.counter, mode, str(workers)],
            env=lib.tool_environment({"MALLOC_CONF": CONF}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        test.addCleanup(lib.end_process, self.process)
        self.pid = self.process.pid
        if self.process.stdout.readline() != b"ready\n":
            raise AssertionError("the victim does not start")

    def rounds(self):
        return struct.unpack("Q", lib.read_bytes(self.counter))[0]

    def answers(self):
        self.process.stdin.write(b"x")
        self.process.stdin.flush()
        return self.process.stdout.read(1) == b"x"


def stops_in(result):
    """Returns the number of stops in a trace."""
    return len(re.findall(r": ptrace INTERRUPT thread", result.err))


class EndlessTest(lib.TestCase):
    def refused(self, victim, *words):
        result = lib.run_tool(*words, victim.pid, "--timeout", "5s", tool=lib.TRACED_TOOL)
        self.assert_failed(result, lib.NO_SAFE_MOMENT, "no thread was at a safe point",
                           "need no call" if words[0] == "mallctl" else "omit --call")
        return result

    def assert_unharmed(self, victim, works=True):
        self.assertIsNone(victim.process.poll())
        for tid in lib.threads(victim.pid):
            self.assertEqual(lib.tracer_of_thread(victim.pid, tid), 0)
        self.assertTrue(victim.answers())
        before = victim.rounds()
        if works:
            self.assertTrue(lib.wait_until(lambda: victim.rounds() > before + 10))

    def test_asleep(self):
        """Once it sleeps again after a stop, there is nothing new to be seen."""
        victim = Endless(self, "asleep")
        result = self.refused(victim, "on", "--call")
        self.assertLess(stops_in(result), 30, result)
        self.assertIn("the last, thread %d, was inside" % victim.pid, result.err)
        self.assert_unharmed(victim, works=False)

    def test_answer(self):
        """What it did in the meantime is looked at anew, the next time, in JSON."""
        victim = Endless(self, "asleep")
        self.assertTrue(victim.answers())
        result = lib.run_tool("mallctl", "--json", victim.pid, "epoch=1")
        self.assertEqual(result.code, lib.NO_SAFE_MOMENT, result)
        error = json.loads(result.text)["error"]
        self.assertEqual(error["code"], "no_safe_point")
        self.assert_unharmed(victim, works=False)

    def test_waking(self):
        """Threads that wake all the time, and always sleep in the same place."""
        victim = Endless(self, "wake")
        result = self.refused(victim, "dump", "--call", "-o", os.path.join(self.directory(), "x"))
        self.assertLess(stops_in(result), 30 * (WORKERS + 1))
        self.assert_unharmed(victim)

    def test_computing(self):
        """A thread that runs all the time is stopped often at first, then seldom."""
        victim = Endless(self, "compute", 1)
        result = self.refused(victim, "on", "--call")
        self.assertLess(stops_in(result), 5000)
        self.assert_unharmed(victim)

    def test_allocating(self):
        """Whether it is never outside of jemalloc or cannot be proven: the stops are bounded."""
        victim = Endless(self, "allocate", 1)
        result = lib.run_tool("on", "--call", "--timeout", "6s", victim.pid, tool=lib.TRACED_TOOL)
        self.assertEqual(result.code, lib.NO_SAFE_MOMENT, result.err[-2000:])
        self.assertLess(stops_in(result), 10000)
        self.assert_unharmed(victim)

    def test_without_a_call(self):
        """What needs no call works all the same: the fix is right."""
        victim = Endless(self, "wake")
        self.assert_ran(lib.run_tool("on", victim.pid))
        result = lib.run_tool("dump", "-o", "-", victim.pid)
        self.assertTrue(self.assert_ran(result).out.startswith(b"heap_v2/"))
        self.assert_ran(lib.run_tool("off", victim.pid))
        self.assert_unharmed(victim)


if __name__ == "__main__":
    lib.main()
