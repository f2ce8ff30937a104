"""System calls that a 64-bit program makes by int $0x80, with the numbers of the i386 table: these are
other calls in the table of x86-64, and a thread in one of them is let be.
"""

import os
import struct

import lib

TURNS = 4


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
        """A stop between two of its calls may find it at a safe point."""
        process = self.start(call)
        for _ in range(TURNS):
            result = lib.run_tool("stats", "--full", process.pid, "--timeout", "200ms")
            self.assertIn(result.code, (lib.OK, lib.NO_SAFE_MOMENT), result)
        self.await_rounds(process)
        self.assertEqual(self.counts()[1:], (0, 0), "wrong results, short waits")

    def test_nanosleep(self):
        self.check("nanosleep")

    def test_poll(self):
        self.check("poll")


if __name__ == "__main__":
    lib.main()
