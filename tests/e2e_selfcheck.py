"""Tests of the victims: each kind of damage is noticed, and without damage none is reported."""

import os
import re
import resource
import sys
import unittest

import lib


class Victims(lib.TestCase):
    def counters_after(self, mode, what):
        victim = self.victim(mode, ms=60, arguments=("--sabotage", what))
        wanted = lambda: any(victim.counters()[name] for name in lib.FAULTS)
        lib.wait_until(wanted, 30)
        self.assertTrue(victim.alive(), "the victim died")
        victim.wait_rounds(1)
        return victim.counters()

    def assert_seen(self, what, modes, counter, word=""):
        for mode in modes:
            with self.subTest(what=what, mode=mode):
                counters = self.counters_after(mode, what)
                self.assertGreater(counters[counter], 0, counters)
                self.assertIn(word, counters["text"])

    def test_general_registers(self):
        self.assert_seen("gpr", ("spin", "read"), "errors", "register r13")
        self.assert_seen("flags", ("spin", "read"), "errors", "flags")

    def assert_registers_seen(self, words):
        """{sabotage: the victim's report}. Each register that this CPU has is noticed; for the
        others the victim reports that they are missing."""
        present = lib.victim_names("--sabotages")
        for what, word in words.items():
            if what in present:
                self.assert_seen(what, ("spin", "read"), "errors", word)
            else:
                with self.assertRaisesRegex(unittest.SkipTest, "no such register"):
                    self.victim("spin", arguments=("--sabotage", what))
        return [what for what in words if what in present]

    def test_vector_registers(self):
        seen = self.assert_registers_seen({"xmm": "xmm", "ymm": "ymm"})
        self.assertIn("xmm", seen)  # every x86-64 CPU has them

    def test_avx512_registers(self):
        words = {"zmm": "zmm16-31", "zmm-low": "zmm0-15", "k": "k0-7"}
        if not self.assert_registers_seen(words):
            self.skipTest("this CPU has no AVX-512, or the kernel does not let programs use it")

    def test_registers_of_this_machine(self):
        """Nothing that the kernel lists is left out."""
        flags = re.search(r"^flags\s*:(.*)", lib.read_text("/proc/cpuinfo"), re.M)[1].split()
        for flag, what in (("avx", "ymm"), ("avx512f", "zmm")):
            with self.subTest(flag):
                self.assertLessEqual(flag in flags, what in lib.victim_names("--sabotages"))

    def test_control_registers(self):
        self.assert_seen("mxcsr", ("spin", "read"), "errors", "mxcsr")
        self.assert_seen("x87", ("spin", "read"), "errors", "x87")

    def test_stack(self):
        self.assert_seen("redzone", ("spin", "read"), "errors", "red zone")
        self.assert_seen("canary", ("spin", "read"), "errors", "stack")

    def test_signal_state(self):
        self.assert_seen("mask", ("spin", "read"), "errors", "signal mask")
        self.assert_seen("altstack", ("spin", "read"), "errors", "alternate")
        self.assert_seen("disposition", ("spin", "read"), "errors", "disposition")

    def test_errno(self):
        self.assert_seen("errno", ("spin", "read"), "errno_lost")

    def test_results(self):
        self.assert_seen("result", ("nanosleep", "epoll_wait", "futex"), "errors", "returned -9")
        self.assert_seen("eintr", ("nanosleep", "epoll_wait", "futex", "select"), "eintr")

    def test_times(self):
        self.assert_seen("early", ("nanosleep", "poll"), "early")
        self.assert_seen("late", ("nanosleep",), "late")

    def test_late_is_not_the_machines(self):
        """The tool's wait for a CPU excuses a timeout that is late, and nothing else does."""
        victim = self.victim("nanosleep", ms=60, arguments=("--sabotage", "late"))
        self.assertTrue(lib.wait_until(lambda: victim.counters()["late"], 60))
        self.assertFalse(victim.lateness_is_the_machines())
        self.assertRaisesRegex(self.failureException, "late", self.assert_unharmed, victim)
        lib.Process.waited_for_cpu += 3 * 10**9
        self.assertTrue(victim.lateness_is_the_machines())

    def test_waits_for_a_cpu_are_counted(self):
        """Four that share one CPU wait for it most of the time."""
        if not os.path.exists("/proc/self/schedstat"):
            self.skipTest("this kernel does not count how long a thread waits for a CPU")
        cpu = {min(os.sched_getaffinity(0))}
        words = "import os; os.sched_setaffinity(0, %s)\nfor i in range(10**7): pass" % cpu
        before = lib.Process.waited_for_cpu
        busy = [self.process([sys.executable, "-c", words]) for _ in range(4)]
        for process in busy:
            process.communicate(timeout=100)
        used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        self.assertGreater(lib.Process.waited_for_cpu - before, used * 10**9)

    def test_no_false_alarm(self):
        victims = [self.victim(mode, ms=40) for mode in lib.victim_names("--modes")]
        self.assertGreaterEqual(len(victims), 10)
        for victim in victims:
            with self.subTest(mode=victim.mode):
                self.assert_unharmed(victim, 10)

    def test_maps_stay_as_they_are(self):
        for mode in ("spin", "epoll_wait"):
            victim = self.victim(mode, ms=20)
            before = lib.snapshot(victim.pid)
            victim.wait_rounds(20)
            self.assertEqual(lib.snapshot_differences(victim.pid, before), [])


if __name__ == "__main__":
    lib.main()
