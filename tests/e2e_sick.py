"""A complete profile of a process that can make no call: stopped, frozen, traced, hung, sandboxed.

The profile is read from memory (--no-call), and must be that which the process wrote itself when it
was well, byte for byte up to its mappings. prof.active is switched by its byte. Where a call is asked for (--call) it is refused, or does
not end: so the state is what it is said to be.
"""

import os
import shutil
import signal
import subprocess

import freezing
import lib

THREADS = 4  # of the victim
STACKS = 5  # of its profile
FUTEX = "202"


def profile_of(result):
    return result.out.partition(b"\nMAPPED_LIBRARIES:\n")[0]


class TestCase(lib.TestCase):
    def start(self, state="well", *words):
        """A process that is still well; self.before is its profile, by a call."""
        self.sick = self.process(
            [os.path.join(lib.VICTIMS, "sick"), state, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**lib.tool_environment(), "MALLOC_CONF": "prof:true,lg_prof_sample:12"},
        )
        self.assertEqual(self.said(), b"ready\n")
        result = self.assert_ran(self.dump("--call"))
        self.before = profile_of(result)
        self.assert_profile(result.out, STACKS)
        return self.sick.pid

    def said(self):
        line = self.sick.stdout.readline()
        if not line and self.sick.wait() == lib.SKIPPED:
            self.skipTest(self.sick.stderr.read().decode())
        return line

    def fall(self, state, reached, *words):
        """Lets it fall into the state, until `reached` is true for each thread."""
        pid = self.start(state, *words)
        self.sick.stdin.write(b"x")
        self.sick.stdin.flush()
        for _ in range(THREADS):
            self.assertEqual(self.said(), b"sick\n")
        self.assertTrue(lib.wait_until(lambda: all(map(reached, lib.threads(pid)))), state)
        return pid

    def dump(self, *words):
        return lib.run_tool("dump", "-o", "-", *words, self.sick.pid)

    def stat(self, tid):
        return lib.read_text("/proc/%d/task/%d/stat" % (self.sick.pid, tid)).rpartition(")")[2].split()

    def state(self, tid):
        return self.stat(tid)[0]

    def states(self):
        return {tid: self.state(tid) for tid in lib.threads(self.sick.pid)}

    def assert_read(self, letters="S"):
        """Twice the same, and no thread has noticed it. letters: the states of its threads."""
        self.assertTrue(lib.wait_until(lambda: set(self.states().values()) <= set(letters)),
                        self.states())
        before = self.states()
        for _ in range(2):
            result = self.assert_ran(self.dump("--no-call"))
            self.assertEqual(profile_of(result), self.before)
            self.assert_profile(result.out, STACKS)
            self.assertIn("no thread was stopped", result.err)
        self.assertEqual(self.states(), before)

        self.assert_switched(before)

    def assert_switched(self, before):
        """By one byte, and back; no thread has noticed that, either."""
        for verb, was, now in ("on", "false", "true"), ("off", "true", "false"):
            result = self.assert_ran(lib.run_tool(verb, "--no-call", self.sick.pid))
            self.assertEqual(result.text.splitlines()[0], "prof.active: %s -> %s" % (was, now))
            self.assertIn("one byte written", result.err)
            self.assertIn("no thread was stopped", result.err)
        self.assertEqual(self.states(), before)

    def assert_untraced(self):
        pid = self.sick.pid
        self.assertEqual([lib.tracer_of_thread(pid, tid) for tid in lib.threads(pid)],
                         [0] * len(lib.threads(pid)))

    def assert_refused(self, code, *words):
        """The state is real: it makes no call."""
        self.assert_failed(self.dump("--call", "--timeout", "1s"), code, *words)


class Stopped(TestCase):
    def test_sigstop(self):
        pid = self.start()
        os.kill(pid, signal.SIGSTOP)
        self.assertTrue(lib.wait_until(lambda: set(self.states().values()) == {"T"}))
        self.assert_read("T")
        self.assertTrue(lib.wait_until(lambda: set(self.states().values()) == {"T"}), self.states())
        self.assert_refused(lib.NO_SAFE_MOMENT, "stopped by job control")
        self.assert_ran(lib.run_tool("on", "--no-call", pid))
        os.kill(pid, signal.SIGCONT)
        self.assertTrue(lib.wait_until(lambda: set(self.states().values()) == {"S"}))
        result = self.assert_ran(lib.run_tool("off", "--call", pid))
        self.assertEqual(result.text, "prof.active: true -> false\n")
        self.assertEqual(profile_of(self.assert_ran(self.dump("--call"))), self.before)

    def frozen(self, make):
        freezer = make(self, self.start())
        freezer.freeze(self)
        self.assert_read("SD")
        self.assert_refused(lib.NO_SAFE_MOMENT, "frozen", freezer.path)
        return freezer

    def test_frozen(self):
        """Threads that the first version has frozen do not stop for a tracer."""
        self.frozen(freezing.version_1)
        self.assert_untraced()

    def test_frozen_version_2(self):
        freezer = self.frozen(freezing.version_2)
        self.assertIn("frozen 1", lib.read_text(os.path.join(freezer.path, "cgroup.events")))


class Traced(TestCase):
    def trace(self, *words):
        """Another tracer, which has attached to every thread."""
        if not shutil.which(words[0]):
            self.skipTest("%s is not installed" % words[0])
        pid = self.start()
        tracer = self.process([*words, str(pid)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
        self.assertTrue(lib.wait_until(
            lambda: all(lib.tracer_of_thread(pid, tid) for tid in lib.threads(pid))))
        return tracer

    def assert_both(self, tracer, letters):
        self.assert_read(letters)
        self.assert_refused(lib.NOT_PERMITTED, "already traced by", str(tracer.pid), "omit --call")
        self.assertEqual(lib.tracer_of(self.sick.pid), tracer.pid)

    def test_gdb(self):
        """At a stop, as at a breakpoint."""
        tracer = self.trace("gdb", "-nx", "-q", "--readnever", "-p")
        self.assertTrue(lib.wait_until(lambda: set(self.states().values()) == {"t"}))
        self.assert_both(tracer, "t")
        self.assertEqual(set(self.states().values()), {"t"})

    def test_strace(self):
        self.assert_both(self.trace("strace", "-f", "-o", "/dev/null", "-p"), "S")


class Hung(TestCase):
    def test_locks_of_jemalloc(self):
        """A thread has all of them: prof.dump would wait for ever."""
        pid = self.fall("locked", lambda tid: tid == self.sick.pid or self.waits_for_lock(tid))
        self.assert_read()
        self.assertTrue(lib.wait_until(
            lambda: all(self.waits_for_lock(tid) for tid in lib.threads(pid) if tid != pid)))
        result = self.dump("--call", "--timeout", "1s")
        self.assertIn(result.code, (lib.CALL_LATE, lib.NO_SAFE_MOMENT), result)
        self.assert_read()

    def system_call(self, tid):
        return lib.read_text("/proc/%d/task/%d/syscall" % (self.sick.pid, tid)).split()[0]

    def waits_for_lock(self, tid):
        return self.system_call(tid) == FUTEX

    def test_uninterruptible(self):
        self.fall("vfork", lambda tid: self.state(tid) == "D")
        self.assert_read("D")
        self.assert_refused(lib.NO_SAFE_MOMENT, "uninterruptible")
        self.assert_untraced()


class Sandboxed(TestCase):
    def test_strict_seccomp(self):
        self.fall("strict", self.is_strict)
        self.assert_read()
        self.assert_refused(lib.NO_SAFE_MOMENT, "strict seccomp")
        self.assertIsNone(self.sick.poll())

    def is_strict(self, tid):
        text = lib.read_text("/proc/%d/task/%d/status" % (self.sick.pid, tid))
        return "\nSeccomp:\t1\n" in text

    def test_syscall_user_dispatch(self):
        """Each thread runs in user space: any system call from there would be its end."""
        self.fall("dispatch", lambda tid: self.state(tid) == "R")
        self.assert_read("R")
        self.assert_refused(lib.NO_SAFE_MOMENT, "syscall user dispatch")
        self.assertIsNone(self.sick.poll())


class Well(TestCase):
    def test_no_state(self):
        """The same process without any: calls and reads give the same."""
        self.fall("well", lambda tid: self.state(tid) == "S")
        self.assert_read()
        self.assertEqual(profile_of(self.assert_ran(self.dump("--call"))), self.before)

    def test_first_thread_has_ended(self):
        pid = self.fall("leaderless", lambda tid: self.state(tid) == "SZ"[tid == self.sick.pid])
        self.assertEqual(self.state(pid), "Z")
        self.assert_read("SZ")


if __name__ == "__main__":
    lib.main()
