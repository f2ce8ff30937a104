"""The tool is told to end at any moment: the target is restored, or finishes the call on its own.

Each moment between two of the tool's calls into the target is tested once, by a signal that the
tool sends itself there. Signals at random moments are sent as well, and no test relies on them.
"""

import os
import random
import re
import resource
import signal
import subprocess
import time

import lib

TRIES = 12
MOST_CALLS = 1000


class Interrupt(lib.TestCase):
    def start(self, *words, tool=lib.TOOL, **env):
        return self.process(
            [tool] + [str(word) for word in words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=lib.tool_environment(env),
        )

    def end_of(self, tool):
        _, err = tool.communicate(timeout=lib.TOOL_TIMEOUT)
        return tool.returncode, err.decode()

    def at_a_random_time(self, number, *words):
        tool = self.start(*words)
        time.sleep(random.uniform(0, random.choice((0.001, 0.004, 0.015))))
        tool.send_signal(number)
        return self.end_of(tool)

    def at_call(self, k, number, *words, tool=lib.TOOL):
        return self.end_of(
            self.start(*words, tool=tool, JEATTACH_DIE_AT=str(k), JEATTACH_DIE_SIGNAL=str(int(number))))

    def goes_on(self, victim, where):
        self.assertTrue(victim.wait_rounds(2), "the victim does not go on: %s" % where)

    def at_every_call(self, victim, number, *words):
        """One run for each call that the tool makes, until a run has no such call."""
        for k in range(1, MOST_CALLS):
            code, err = self.at_call(k, number, *words, tool=lib.TRACED_TOOL)
            where = "call %d: exit code %d, %s" % (k, code, err)
            self.assertIn(code, (lib.OK, lib.INTERRUPTED), where)
            self.goes_on(victim, where)
            if words[0] == "on":
                self.assert_ran(lib.run_tool("off", victim.pid, "--call"))
            if "\njeattach: call %d: " % k not in "\n" + err:
                return
        self.fail("the tool makes more than %d calls" % MOST_CALLS)

    def storm(self, mode, number, *words):
        victim = self.victim(mode, ms=15)
        words = (words[0], victim.pid) + words[1:]
        before = lib.snapshot(victim.pid)
        self.at_every_call(victim, number, *words)
        # A signal before the tool has a handler ends it like any program: -SIGINT.
        allowed = (lib.OK, lib.INTERRUPTED, -number)
        for _ in range(TRIES):
            code, err = self.at_a_random_time(number, *words)
            self.assertIn(code, allowed, err)
            self.goes_on(victim, err)
        self.assertEqual(lib.snapshot_differences(victim.pid, before), [])
        self.assert_ran(lib.run_tool("off", victim.pid, "--call"))
        self.switch(victim, "on", "--call")
        self.assert_unharmed(victim)

    def test_ctrl_c_in_a_streamed_dump(self):
        sink = os.path.join(self.directory(), "x.heap")
        self.storm("nanosleep", signal.SIGINT, "dump", "--call", "--force", "-o", sink)

    def test_ctrl_c_in_a_dump(self):
        self.storm("spin", signal.SIGINT, "dump")

    def test_ctrl_c_in_a_toggle(self):
        self.storm("epoll_wait", signal.SIGINT, "on", "--call")

    def test_ctrl_c_in_a_toggle_in_memory(self):
        self.storm("epoll_wait", signal.SIGINT, "on")

    def test_terminated(self):
        self.storm("select", signal.SIGTERM, "dump", "--call", "-o", "/dev/null")

    def test_while_no_moment_is_safe(self):
        """A tool that finds no safe point gives up at once, whatever it is doing."""
        directory = self.directory()
        program = os.path.join(os.path.dirname(lib.VICTIMS), "safety", "states")
        victim = self.process([program, "coroutine_main"], cwd=directory, stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE)
        self.assertIn(b"ready", victim.stdout.readline())
        beats = lambda: lib.read_bytes(os.path.join(directory, "beats"))
        for k in range(1, 25):
            code, err = self.at_call(k, signal.SIGINT, "on", victim.pid, "--call",
                                     "--timeout", "30s")
            self.assertEqual(code, lib.INTERRUPTED, "call %d: %s" % (k, err))
            self.assertIn("the target was not changed", err)
            before = beats()
            self.assertTrue(lib.wait_until(lambda: beats() != before), "it stands still")
        self.assertEqual(lib.tracer_of(victim.pid), 0)

    def test_no_core_dump(self):
        """It would keep a stopped thread waiting. With a limit of 1 the kernel writes no file, and
        starts no program that takes the core (fs/coredump.c)."""
        victim = self.victim()
        tool = self.process([lib.TOOL, "record", "-d", "1h", "-o", "-", str(victim.pid)],
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                            env=lib.tool_environment(), preexec_fn=self.allow_core)
        limit = lambda: re.search(r"(?m)^Max core file size +(\S+)",
                                  lib.read_text("/proc/%d/limits" % tool.pid))[1]
        self.assertTrue(lib.wait_until(lambda: limit() == "1"), limit())
        tool.send_signal(signal.SIGINT)
        tool.wait(lib.TOOL_TIMEOUT)

    @staticmethod
    def allow_core():
        most = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (most, most))

    def two_signals_at(self, k, first_thread, victim, directory):
        """The tool stops itself before that call: both signals are pending when it continues.
        Returns its exit code and the files beside the output, at that stop and afterwards; None if
        it ends without such a call."""
        tool = self.start("dump", "--call", victim.pid, "-o", os.path.join(directory, "x.heap"),
                          JEATTACH_DIE_AT=str(k), JEATTACH_DIE_SIGNAL=str(int(signal.SIGSTOP)))
        _, status = os.waitpid(tool.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            tool.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(tool.returncode, lib.OK, tool.communicate()[1])
            return None
        before = os.listdir(directory)
        for number in (signal.SIGINT, signal.SIGTERM):
            lib.tgkill(tool.pid, tool.pid, number) if first_thread else tool.send_signal(number)
        tool.send_signal(signal.SIGCONT)
        code, _ = self.end_of(tool)
        return code, before, os.listdir(directory)

    def test_second_signal_leaves_no_file(self):
        """Two different signals, because the kernel merges equal ones. Those sent to the process
        may come too late; those sent to the first thread come before its next call."""
        victim = self.victim("read", ms=15)
        directory = self.directory()
        unfinished = 0
        for k in range(1, MOST_CALLS):
            seen = self.two_signals_at(k, k % 2, victim, directory)
            if not seen:
                break
            code, before, after = seen
            where = "call %d, before it: %s" % (k, before)
            self.assertIn((code, after), ((lib.INTERRUPTED, []), (lib.OK, ["x.heap"])), where)
            unfinished += code == lib.INTERRUPTED and len(before)
            if k % 2:
                self.assertEqual(code, lib.INTERRUPTED, where)
            for name in after:
                os.unlink(os.path.join(directory, name))
            self.goes_on(victim, where)
        self.assertEqual(os.listdir(directory), ["x.heap"])
        self.assertGreater(unfinished, 0, "there never was an unfinished file")
        self.goes_on(victim, "the end")
        self.assert_unharmed(victim)


if __name__ == "__main__":
    lib.main()
