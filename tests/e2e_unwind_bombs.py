"""Call frame information that would keep an unwinder busy for ever, or make it take all memory,
in the function where a thread sleeps. The tool gives the walk up, with the thread stopped for
a moment only, and goes on to the next thread."""

import json
import os
import signal
import subprocess

import hostile
import lib

TIMEOUT = 6  # seconds
MEMORY_MAX = hostile.limit(200 * hostile.MIB)


class Sleeper:
    """tests/victims/unwind_bombs.c"""

    def __init__(self, test, *words):
        path = os.path.join(lib.VICTIMS, "unwind_bombs")
        if not os.path.exists(path):
            test.skipTest("its call frame information is written for x86-64")
        self.process = lib.Process([path, *words], env=lib.tool_environment(),
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        test.addCleanup(lib.end_process, self.process)
        self.pid = self.process.pid
        if self.process.stdout.readline() != b"ready\n":
            raise AssertionError("the victim does not start")

    def answers(self):
        self.process.stdin.write(b"x")
        self.process.stdin.flush()
        return self.process.stdout.read(1) == b"x"


class UnwindBombsTest(lib.TestCase):
    def call(self, victim):
        result = hostile.run_bounded("mallctl", "--json", "--timeout", "%ds" % TIMEOUT, victim.pid,
                                     "epoch=1", timeout=2 * TIMEOUT)
        self.assertIsNotNone(result.code, "it does not end")
        self.assertLess(result.seconds, TIMEOUT + 1)
        self.assertLess(result.peak, MEMORY_MAX)
        self.assert_unharmed(victim)
        return result

    def assert_unharmed(self, victim):
        for tid in lib.threads(victim.pid):
            self.assertEqual(lib.tracer_of_thread(victim.pid, tid), 0)
        self.assertTrue(victim.answers())

    def assert_given_up(self, mode):
        victim = Sleeper(self, mode)
        result = self.call(victim)
        self.assertEqual(result.code, lib.NO_SAFE_MOMENT, result)
        error = json.loads(result.text)["error"]
        self.assertEqual(error["code"], "no_safe_point")
        self.assertIn("thread %d, has call frame information that takes too long to follow"
                      % victim.pid, error["seen"])

    def test_endless_expression(self):
        self.assert_given_up("skip")

    def test_states_without_end(self):
        self.assert_given_up("remember")

    def test_next_thread(self):
        """The thread that cannot be proven is left, another one makes the call."""
        for mode in "skip", "remember":
            victim = Sleeper(self, mode, "aside")
            answer = json.loads(self.assert_ran(self.call(victim)).text)
            self.assertNotEqual(answer["thread"], victim.pid, answer)
            self.assertIn(answer["thread"], lib.threads(victim.pid))

    def test_frames_without_end(self):
        self.assertEqual(self.call(Sleeper(self, "chain")).code, lib.NO_SAFE_MOMENT)

    def test_numbers_out_of_range(self):
        """Registers that do not exist, and a division that the machine cannot do: the rules do not
        hold, and the frame is left by its code."""
        for mode in "register", "column", "divide":
            result = self.call(Sleeper(self, mode))
            self.assertIn(result.code, (lib.OK, lib.NO_SAFE_MOMENT), result)

    def test_deep_stack(self):
        """The bounds leave room for what programs do."""
        answer = json.loads(self.assert_ran(self.call(Sleeper(self, "deep"))).text)
        self.assertLess(answer["held_ns"], TIMEOUT * 10**9)

    def test_interrupted(self):
        """One Ctrl-C is enough."""
        victim = Sleeper(self, "skip")
        process = lib.Process([lib.TRACED_TOOL, "on", "--call", str(victim.pid)],
                              env=lib.tool_environment(), stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE)
        self.addCleanup(lib.end_process, process)
        for line in process.stderr:
            if b"ptrace INTERRUPT" in line:
                break
        process.send_signal(signal.SIGINT)
        try:
            _, err = process.communicate(timeout=2 * TIMEOUT)
        except subprocess.TimeoutExpired:
            self.fail("it does not end")
        self.assertEqual(process.returncode, 130, err)
        self.assert_unharmed(victim)


if __name__ == "__main__":
    lib.main()
