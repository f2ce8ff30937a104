"""Signals that end the tool, and the state in which it is started: profiling that a run has
switched on is off afterwards, no limit of time is missed, and a refusal names its cause."""

import os
import resource
import shutil
import signal
import subprocess
import time

import e2e_overlap
import lib
from e2e_forking import Forker
from watching import PATIENCE

ENDING = [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
          signal.SIGTERM, signal.SIGXCPU, signal.SIGSTKFLT, signal.SIGVTALRM, signal.SIGPROF,
          signal.SIGPOLL, signal.SIGPWR, signal.SIGRTMIN, signal.SIGRTMAX]
RECORD = e2e_overlap.VERBS[0]


def daemon():
    """As a daemon starts programs that has blocked all signals and does not wait for children."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


def ignores(*numbers):
    return lambda: [signal.signal(number, signal.SIG_IGN) for number in numbers]


def small_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))


class Signals(e2e_overlap.TestCase):
    def target(self):
        return self.allocator("5.3.0", conf=e2e_overlap.ACTIVE % "false")

    def test_each_ends_a_record(self):
        target = self.target()
        for number in ENDING:
            with self.subTest(signal=number):
                tool = self.begin(target.pid, *RECORD)
                _, said = self.end(tool, number=number)
                self.assertIn("prof.active is false again", said)
                self.assert_active(False, target.pid)
        self.assert_well(target)

    def test_stays_ignored(self):
        """nohup(1) ignores the first, a shell without job control the others. SIGTERM ends it."""
        target = self.target()
        numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)
        tool = self.begin(target.pid, *RECORD, preexec_fn=ignores(*numbers, signal.SIGTERM))
        for number in numbers:
            tool.send_signal(number)
        self.assertFalse(lib.wait_until(lambda: tool.poll() is not None, 0.3))
        self.end(tool, number=signal.SIGTERM)
        self.assert_active(False, target.pid)

    def test_workers_of_one_that_ignores(self):
        """A signal is passed on to the workers as one that they do not ignore."""
        pids = [str(self.target().pid) for _ in range(2)]
        tool = self.process(
            [lib.TOOL, "record", *pids, "-d", "1h", "-o", os.path.join(self.directory(), "%p")],
            preexec_fn=ignores(signal.SIGINT), env=lib.tool_environment(), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        self.assertTrue(lib.wait_until(lambda: all(self.active(int(pid)) for pid in pids), PATIENCE))
        tool.send_signal(signal.SIGTERM)
        self.assertEqual(tool.wait(PATIENCE), lib.INTERRUPTED)
        self.assert_active(False, *map(int, pids))

    def test_limit_of_file_size(self):
        target = self.target()
        target.ask("work 500")
        place = self.directory()
        tool = self.begin(target.pid, "record", "-d", "1h", "-o",
                          os.path.join(place, "x.heap"), preexec_fn=small_files)
        target.ask("work 500")
        _, said = self.end(tool, code=lib.OUTPUT_FAILED)
        self.assertIn("File too large", said)
        self.assertIn("prof.active is false again", said)
        self.assert_active(False, target.pid)
        self.assertEqual(os.listdir(place), [])


class InheritedState(e2e_overlap.TestCase):
    """All signals are blocked, and SIGCHLD is ignored."""

    def run_tool(self, *words, code=lib.OK):
        result = lib.run_tool(*words, preexec_fn=daemon)
        self.assertEqual(result.code, code, result)
        return result

    def test_verbs(self):
        family = e2e_overlap.Family(self)
        # Calls: the check of the tool itself waits for a child.
        for words in (("on", "--call"), ("dump", "--call", "-o", "/dev/null", "--force"),
                      ("status",), ("off", "--call")):
            self.run_tool(words[0], family.pid, *words[1:])
        self.assertIn(str(family.pid), self.run_tool("ps").text)

    def test_sigterm(self):
        family = e2e_overlap.Family(self)
        tool = self.begin(family.pid, *RECORD, preexec_fn=daemon)
        self.end(tool, number=signal.SIGTERM)
        self.assert_active(False, family.pid)

    def test_timeout(self):
        """A dump into a FIFO without a reader stays in open(2) until one comes."""
        home = self.directory()
        forker = Forker(home, [os.path.join(lib.VICTIMS, "forker")], "asked",
                        preload="libjemalloc.so.2")
        self.addCleanup(forker.stop)
        pipe = os.path.join(home, "jeprof.%d.0.m0.heap" % forker.pid)
        os.mkfifo(pipe)
        begun = time.monotonic()
        tool = self.process([lib.TOOL, "dump", str(forker.pid), "--timeout", "1s"],
                            preexec_fn=daemon, env=lib.tool_environment(), stderr=subprocess.DEVNULL)
        try:
            self.assertEqual(tool.wait(10), lib.CALL_LATE, time.monotonic() - begun)
        finally:
            with open(pipe, "rb") as file:
                file.read()
        self.assertTrue(forker.goes_on())


def few_files(count, hard):
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))


class Started(lib.TestCase):
    """Other states in which it is started."""

    def test_few_files(self):
        for count in (5, 7, 12):
            for verb in (("status", os.getpid()), ("ps",)):
                result = lib.run_tool(*verb, preexec_fn=few_files(count, count))
                self.assert_failed(result, lib.INTERNAL, "fewer than 64 files", "ulimit -n")
                self.assertNotIn("root", result.err)

    def test_soft_limit_of_files(self):
        """It raises the limit by itself."""
        victim = self.victim()
        self.assert_ran(lib.run_tool("status", victim.pid, preexec_fn=few_files(7, 1024)))

    def test_set_user_id(self):
        lib.require_root()
        if os.environ.get("ASAN_OPTIONS"):
            self.skipTest("LeakSanitizer cannot look at a process with the rights of another user")
        place = self.directory()
        if os.statvfs(place).f_flag & os.ST_NOSUID:
            self.skipTest("the temporary directory is mounted nosuid")
        os.chmod(place, 0o755)
        tool = shutil.copy(lib.TOOL, place)
        for mode in (0o4755, 0o2755):
            os.chmod(tool, mode)
            result = lib.run_tool("status", os.getpid(), tool=tool, cwd="/", user=lib.NOBODY,
                                  group=lib.NOBODY, extra_groups=[])
            self.assert_failed(result, lib.NOT_PERMITTED, "set-user-ID", "chmod ug-s")
            self.assertEqual(result.out, b"")
            # For root itself it has no more rights than without that bit.
            self.assertNotIn("set-user-ID", lib.run_tool("ps", tool=tool).err)


if __name__ == "__main__":
    lib.main()
