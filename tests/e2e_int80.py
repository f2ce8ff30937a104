"""System calls that a 64-bit program makes by int $0x80, with the numbers of the i386 table: a stop
leaves no trace in them, either.
"""

import os
import struct

import lib

TURNS = 12
DEATHS = range(1, 60, 3)  # of the tool, after so many of its ptrace and write calls


class Int80(lib.TestCase):
    def start(self, call):
        self.report = os.path.join(self.directory(), "report")
        with open(self.report, "wb") as file:
            file.write(bytes(24))
        process = self.process([os.path.join(lib.VICTIMS, "int80"), call, self.report],
                               env=lib.tool_environment({"LD_PRELOAD": "libjemalloc.so.2"}))
        self.assertTrue(lib.wait_until(lambda: self.counts()[0] or process.poll() is not None))
        if process.poll() == lib.SKIPPED:
            self.skipTest("this kernel has no int $0x80")
        return process

    def counts(self):
        return struct.unpack("3Q", lib.read_bytes(self.report))

    def await_rounds(self, process):
        before = self.counts()[0]
        self.assertTrue(lib.wait_until(lambda: self.counts()[0] > before + 1), "it hangs")
        self.assertIsNone(process.poll())

    def check(self, call):
        process = self.start(call)
        for _ in range(TURNS):
            self.assert_ran(lib.run_tool("stats", "--call", process.pid))
        self.await_rounds(process)
        self.assertEqual(self.counts()[1:], (0, 0), "wrong results, short waits")

    def test_nanosleep(self):
        self.check("nanosleep")

    def test_poll(self):
        self.check("poll")

    def test_epoll_wait(self):
        self.check("epoll_wait")

    def test_sigtimedwait(self):
        self.check("sigtimedwait")

    def test_tool_dies(self):
        """In a call that the kernel has just restarted, after a whole run of the tool."""
        for call in ("nanosleep", "poll"):
            process = self.start(call)
            for after in DEATHS:
                for env in ({}, {"JEATTACH_DIE_AFTER": str(after)}):
                    lib.run_tool("stats", "--call", process.pid, env=env)
                self.await_rounds(process)
            self.assertEqual(self.counts()[1:], (0, 0), "wrong results, short waits")


if __name__ == "__main__":
    lib.main()
