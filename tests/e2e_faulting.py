"""Sampling the page faults of a process: the process notices nothing, also when the tool is killed
at any moment, and each refusal of the kernel has one cause.

tests/unit/test_page_faults.c has the numbers of faults and threads.
"""

import json
import os
import random
import re
import shutil
import subprocess
import time
import unittest

import lib
import perf_events

CONFINE = os.path.join(lib.VICTIMS, "confine")
KILLS = 6  # of each victim: after the start, and as many after the first event
LATEST = 0.1  # seconds: it samples about 0.05 s after the start


def perf_files(pid):
    """Its events."""
    return sum("perf_event" in target for target in lib.descriptors(pid).values())


class Faulting(lib.TestCase):
    def grow(self, pid, *words, **options):
        return lib.run_tool("leak", "--faults", pid, "-d", "500ms", *words, **options)

    def setUp(self):
        lib.require_root()
        perf_events.require()

    def assert_unchanged(self, victim, before):
        """A victim that allocates maps 5 MiB more at times, also without the tool."""
        own = {"maps"} if victim.mode == "malloc" else set()

        def differences():
            return set(lib.snapshot_differences(victim.pid, before, 0)) - own

        self.assertTrue(victim.wait_rounds(2))
        self.assertTrue(lib.wait_until(lambda: not differences(), 5), differences())
        self.assert_unharmed(victim)

    def assert_unnoticed(self, mode):
        victim = self.victim(mode)
        before = lib.snapshot(victim.pid)
        self.assert_ran(self.grow(victim.pid))
        self.assert_unchanged(victim, before)

    def test_nanosleep(self):
        self.assert_unnoticed("nanosleep")

    def test_epoll_wait(self):
        self.assert_unnoticed("epoll_wait")

    def test_malloc(self):
        self.assert_unnoticed("malloc")

    def test_killed(self):
        """SIGKILL at random moments, before, while and after the events are opened."""
        for mode in ("malloc", "nanosleep"):
            victim = self.victim(mode)
            before = lib.snapshot(victim.pid)
            self.kill_tools(victim)
            self.assert_unchanged(victim, before)

    def kill_tools(self, victim):
        for sampling in KILLS * (False, True):
            tool = subprocess.Popen(
                [lib.TOOL, "leak", "--faults", str(victim.pid), "-d", "60s"], env=lib.tool_environment(),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            try:
                if sampling:
                    self.assertTrue(lib.wait_until(lambda: perf_files(tool.pid)))
                time.sleep(random.uniform(0, LATEST))
                self.assertIsNone(tool.poll(), tool.stderr.read() if tool.poll() else None)
            finally:
                lib.end_process(tool)


class Refused(lib.TestCase):
    def setUp(self):
        if not os.path.exists(perf_events.PARANOID):
            raise unittest.SkipTest("this kernel has no perf events")
        lib.require_root()
        if not shutil.which("setpriv"):
            raise unittest.SkipTest("setpriv is not installed")
        self.public = self.directory()
        os.chmod(self.public, 0o755)

    def copy(self, program):
        path = os.path.join(self.public, os.path.basename(program))
        return path if os.path.exists(path) else shutil.copy(program, path)

    def grow(self, pid, *before):
        return lib.run_tool(*before[1:], self.copy(lib.TOOL), "leak", "--faults", pid, "-d", "200ms",
                            "--json",
                            tool=before[0], cwd="/", env={"ASAN_OPTIONS": "detect_leaks=0"})

    def assert_refused(self, result, name, *words):
        error = json.loads(result.text)["error"]
        self.assertEqual((result.code, error["code"]), (lib.NOT_PERMITTED, name), result)
        for word in words:
            self.assertIn(word, error["cause"] + error["fix"], result)

    def test_filter(self):
        victim = self.victim()
        for action, word in (("EPERM", "refuses perf_event_open with EPERM"),
                             ("ENOSYS", "refuses perf_event_open with ENOSYS"),
                             ("KILL", "kills callers of perf_event_open")):
            result = self.grow(victim.pid, self.copy(CONFINE), action, "perf_event_open")
            self.assert_refused(result, "perf_seccomp", word, "--cap-add PERFMON")
        self.assert_unharmed(victim)

    def as_nobody(self):
        user = str(lib.NOBODY)
        return ("setpriv", "--reuid", user, "--regid", user, "--clear-groups")

    def test_process_of_others(self):
        victim = self.victim()
        self.assert_refused(self.grow(victim.pid, *self.as_nobody()), "denied_uid", "its uid is 0")
        self.assert_unharmed(victim)

    def test_own_process_of_a_user(self):
        """perf_event_paranoid decides: with 2 all but the faults in system calls are seen. With 3
        none are if the kernel has Debian's patch; other kernels take it for 2."""
        perf_events.require()
        victim = self.victim(user=lib.NOBODY)
        result = self.grow(victim.pid, *self.as_nobody())
        if perf_events.refusal(lib.NOBODY):
            seen = "perf_event_paranoid is %d" % perf_events.paranoid()
            self.assert_refused(result, "perf_paranoid", seen)
        else:
            self.assert_ran(result)
        self.assert_unharmed(victim)

    def test_crowd_without_rights(self):
        """Without the right to sample by CPU, and with few files: it says how many are observed."""
        if perf_events.refusal(lib.NOBODY) or perf_events.paranoid() < 1:
            raise unittest.SkipTest("perf_event_paranoid is %d" % perf_events.paranoid())
        program = os.path.join(self.public, "crowd")
        source = os.path.join(lib.ROOT, "tests", "seeded", "crowd.c")
        subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", source, "-o", program, "-lpthread"],
                       check=True)
        process = subprocess.Popen([program, "700"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, user=lib.NOBODY, group=lib.NOBODY,
                                   extra_groups=[])
        self.addCleanup(lib.end_process, process)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        tool = (*self.as_nobody(), self.copy(lib.TOOL), "leak", "--faults", process.pid, "-d", "200ms")
        result = lib.run_tool("--nofile=200:200", *tool, tool="prlimit", cwd="/",
                              env={"ASAN_OPTIONS": "detect_leaks=0"})
        self.assert_ran(result)
        seen = re.search(r"^(\d+) of 701 threads are observed: ", result.text, re.M)
        self.assertTrue(seen, result.text)
        self.assertGreater(int(seen[1]), 0)
        self.assertLess(int(seen[1]), 200)
        self.assertIn("CAP_PERFMON", result.text)


if __name__ == "__main__":
    lib.main()
