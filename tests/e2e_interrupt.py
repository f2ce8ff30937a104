"""The tool is told to end at any moment: the target is restored, or completes by itself."""

import os
import random
import signal
import subprocess
import time

import lib

TRIES = 40


class Interrupt(lib.TestCase):
    def interrupt(self, number, *words):
        tool = self.process(
            [lib.TOOL] + [str(word) for word in words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=lib.tool_environment(),
        )
        time.sleep(random.uniform(0, random.choice((0.001, 0.004, 0.015))))
        tool.send_signal(number)
        _, err = tool.communicate(timeout=lib.TOOL_TIMEOUT)
        return tool.returncode, err.decode()

    def storm(self, mode, number, allowed, *words):
        victim = self.victim(mode, ms=30)
        before = lib.snapshot(victim.pid)
        codes = set()
        for done in range(4 * TRIES):
            if done >= TRIES and len(codes) > 1:
                break
            code, err = self.interrupt(number, words[0], victim.pid, *words[1:])
            codes.add(code)
            self.assertIn(code, allowed, err)
            self.assertTrue(victim.wait_rounds(2), "the victim does not go on")
        self.assertEqual(lib.snapshot_differences(victim.pid, before), [])
        self.switch(victim, "on")
        self.assert_unharmed(victim)
        self.assertGreater(len(codes), 1, "the signals came all too late, or all too soon")

    # A signal that comes before the tool has a handler ends it as any program: -SIGINT.
    def test_ctrl_c_in_a_streamed_dump(self):
        sink = os.path.join(self.directory(), "x.heap")
        allowed = (lib.OK, lib.INTERRUPTED, -signal.SIGINT)
        self.storm("nanosleep", signal.SIGINT, allowed, "dump", "-o", sink)

    def test_ctrl_c_in_a_dump(self):
        allowed = (lib.OK, lib.INTERRUPTED, -signal.SIGINT)
        self.storm("spin", signal.SIGINT, allowed, "dump")

    def test_ctrl_c_in_a_toggle(self):
        allowed = (lib.OK, lib.INTERRUPTED, -signal.SIGINT)
        self.storm("epoll_wait", signal.SIGINT, allowed, "on")

    def test_terminated(self):
        allowed = (lib.OK, lib.INTERRUPTED, 128 + signal.SIGTERM, -signal.SIGTERM)
        self.storm("select", signal.SIGTERM, allowed, "dump", "-o", "/dev/null")

    def test_second_signal_leaves_no_file(self):
        """Two of different kinds, so that the kernel does not make one of them."""
        victim = self.victim("read", ms=30)
        directory = self.directory()
        cut = 0
        for _ in range(TRIES):
            tool = self.process(
                [lib.TOOL, "dump", str(victim.pid), "-o", os.path.join(directory, "x.heap")],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=lib.tool_environment(),
            )
            while not os.listdir(directory) and tool.poll() is None:
                pass
            tool.send_signal(signal.SIGINT)
            tool.send_signal(signal.SIGTERM)
            tool.communicate(timeout=lib.TOOL_TIMEOUT)
            left = os.listdir(directory)
            cut += not left
            self.assertIn(left, ([], ["x.heap"]))
            for name in left:
                os.unlink(os.path.join(directory, name))
        self.assertGreater(cut, 0, "the signals came all too late")
        self.assertTrue(victim.wait_rounds(2), "the victim does not go on")
        self.assert_unharmed(victim)


if __name__ == "__main__":
    lib.main()
