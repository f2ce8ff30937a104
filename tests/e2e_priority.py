"""The tool's priority while a thread is stopped, which waits for the tool's CPU."""

import contextlib
import json
import os
import signal
import shutil
import subprocess
import unittest

import hostile
import lib

POLICY, NICE = 41, 19  # fields of /proc/PID/stat, proc(5)
WITHOUT_RIGHT = ["setpriv", "--bounding-set", "-sys_nice", "--inh-caps", "-sys_nice"]


def own_stat(pid, tid, field):
    text = lib.read_text("/proc/%d/task/%d/stat" % (pid, tid))
    return int(text.rpartition(")")[2].split()[field - 3])


def idle():
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def nice(value):
    return lambda: os.setpriority(os.PRIO_PROCESS, 0, value)


class Priority(hostile.TestCase):
    def setUp(self):
        lib.require_root()
        tried = subprocess.run(["chrt", "-f", "1", "true"], stderr=subprocess.DEVNULL).returncode \
            if shutil.which("chrt") else 1
        if tried:
            raise unittest.SkipTest("no real-time priority can be had here")
        if os.nice(0):
            raise unittest.SkipTest("the tests themselves run with a nice value")

    def start(self, before, *words):
        return self.process([lib.TOOL, *[str(word) for word in words]], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, env=lib.tool_environment(), preexec_fn=before)

    def in_call(self, before):
        """Returns the policy and the nice value of the tool's thread that holds the stopped one."""
        place = self.directory()
        victim = self.hostile(HOSTILE="wait", cwd=place)
        dump = self.start(before, "dump", "--call", "-o", "-", victim.pid)
        self.assertTrue(lib.wait_until(lambda: os.path.exists(os.path.join(place, "called"))))
        tid = lib.tracer_of(victim.pid)
        seen = own_stat(dump.pid, tid, POLICY), own_stat(dump.pid, tid, NICE)
        with open(os.path.join(place, "go"), "w"):
            pass
        out, err = dump.communicate(timeout=lib.TOOL_TIMEOUT)
        self.assertEqual(dump.returncode, lib.OK, err)
        self.assertTrue(out.startswith(b"heap_v2/4096\n"), out)
        return seen

    def test_in_a_call(self):
        for before in None, nice(19), idle:
            self.assertEqual(self.in_call(before)[0], os.SCHED_FIFO)

    def is_active(self, victim):
        return json.loads(lib.run_tool("status", "--json", victim.pid).text)["prof.active"]

    def test_given_back(self):
        """Between two stops."""
        victim = self.victim()
        for before, policy, value in (nice(7), os.SCHED_OTHER, 7), (idle, os.SCHED_IDLE, 0):
            record = self.start(before, "record", "--call", "-d", "1h", "-o", "-", victim.pid)
            self.assertTrue(lib.wait_until(lambda: self.is_active(victim) or record.poll()))
            self.assertTrue(lib.wait_until(lambda: lib.tracer_of(victim.pid) == 0))
            self.assertTrue(lib.wait_until(lambda: all(
                (own_stat(record.pid, tid, POLICY), own_stat(record.pid, tid, NICE)) ==
                (policy, value) for tid in lib.threads(record.pid))))
            record.send_signal(signal.SIGINT)
            record.communicate(timeout=lib.TOOL_TIMEOUT)
        self.assert_unharmed(victim, slow=True)

    def refused(self, victim, seen, before=None, words=("on", "--call"), instead="no call|not needed"):
        result = lib.run_tool("--bounding-set", "-sys_nice", "--inh-caps", "-sys_nice", lib.TOOL,
                              *words, victim.pid, tool="setpriv", preexec_fn=before)
        self.assert_failed(result, lib.NO_SAFE_MOMENT, "for jeattach to get a CPU", seen)
        self.assertRegex(result.err, instead)

    def test_without_the_right(self):
        """A tool that may get no CPU stops no thread; reading goes on."""
        if not shutil.which("setpriv"):
            self.skipTest("setpriv is not installed")
        victim = self.victim()
        before = lib.snapshot(victim.pid)
        self.refused(victim, "nice value 19", nice(19))
        self.refused(victim, "SCHED_IDLE", idle, ("purge",))
        self.refused(victim, "nice value 1", nice(1), ("dump", "--call", "-o", "-"))
        os.setpriority(os.PRIO_PROCESS, victim.pid, -5)
        self.refused(victim, "nice value 0, and -5 of the process")
        os.setpriority(os.PRIO_PROCESS, victim.pid, 0)
        self.assertEqual(lib.snapshot_differences(victim.pid, before), [])
        for words in ("dump", "-o", "-"), ("on", "--no-call"), ("off", "--no-call"):
            self.assert_ran(lib.run_tool(*WITHOUT_RIGHT[1:], lib.TOOL, *words, victim.pid,
                                         tool="setpriv", preexec_fn=nice(19)))
        self.assert_ran(lib.run_tool(*WITHOUT_RIGHT[1:], lib.TOOL, "on", "--call", victim.pid,
                                     tool="setpriv"))
        self.assert_unharmed(victim)

    def test_realtime_process(self):
        """Nor does it stop a real-time thread: others like it would get the CPU first."""
        if not shutil.which("setpriv"):
            self.skipTest("setpriv is not installed")
        victim = self.victim(ms=20, arguments=("--threads", "1"))
        other = next(tid for tid in lib.threads(victim.pid) if tid != victim.pid)
        fifo, ordinary = os.sched_param(50), os.sched_param(0)
        os.sched_setscheduler(victim.pid, os.SCHED_FIFO, fifo)
        self.refused(victim, "no real-time priority, which the process has")
        self.refused(victim, "no real-time priority", words=("stats", "--full"))
        os.sched_setscheduler(victim.pid, os.SCHED_OTHER, ordinary)
        os.sched_setscheduler(other, os.SCHED_FIFO, fifo)
        call = [*WITHOUT_RIGHT[1:], lib.TOOL, "on", "--call", victim.pid]
        result = lib.run_tool(*call, "--thread", other, tool="setpriv")
        self.assert_failed(result, lib.NO_SAFE_MOMENT,
                           "thread %d has real-time priority, and jeattach may not" % other)
        self.assert_ran(lib.run_tool(*call, tool="setpriv"))
        self.assert_ran(lib.run_tool(*call[len(WITHOUT_RIGHT):], "--thread", other))
        self.assert_unharmed(victim)

    @contextlib.contextmanager
    def group(self, **settings):
        """A cgroup v1 of the cpu controller."""
        path = "/sys/fs/cgroup/cpu/jeattach-test.%d" % os.getpid()
        try:
            os.mkdir(path)
        except OSError as err:
            raise unittest.SkipTest("no control group of CPUs can be made: %s" % err) from err
        try:
            for name, value in settings.items():
                with open(os.path.join(path, "cpu." + name), "w") as file:
                    file.write(str(value))
            yield path
        finally:
            lib.wait_until(lambda: not lib.read_text(os.path.join(path, "cgroup.procs")))
            os.rmdir(path)

    def test_small_share(self):
        victim = self.victim()
        for settings, seen in (({"shares": 2}, "has cpu.shares 2"),
                               ({"cfs_quota_us": 5000}, "has less than a tenth of a CPU")):
            with self.group(**settings) as path:
                def enter():
                    with open(os.path.join(path, "cgroup.procs"), "w") as file:
                        file.write("0")
                self.refused(victim, seen, enter)
        self.assert_unharmed(victim)


if __name__ == "__main__":
    lib.main()
