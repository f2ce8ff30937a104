"""A real-time thread on a CPU that it does not leave: while it is stopped, the tool gets that CPU,
and not another real-time thread.
"""

import os
import struct

import lib

RUNTIME = "/proc/sys/kernel/sched_rt_runtime_us"
# Real-time threads leave other ones 50 ms of each second, and not more if the tool is an other one.
LONGEST_NS = 500 * 10**6


class Realtime(lib.TestCase):
    def test_stopped_thread_does_not_wait(self):
        if not os.path.exists(RUNTIME) or int(lib.read_text(RUNTIME)) not in range(1, 960000):
            self.skipTest("real-time threads would leave the other ones no time at all")
        cpu = max(os.sched_getaffinity(0))
        report = os.path.join(self.directory(), "report")
        with open(report, "wb") as file:
            file.write(bytes(16))
        process = self.process([os.path.join(lib.VICTIMS, "realtime"), str(cpu), report],
                               env=lib.tool_environment({"LD_PRELOAD": "libjemalloc.so.2"}))
        self.assertTrue(lib.wait_until(lambda: self.values(report)[0] or process.poll() is not None))
        if process.poll() == lib.SKIPPED:
            self.skipTest("no real-time threads are permitted here")
        tid = self.values(report)[0]
        result = lib.run_tool("stats", process.pid, "--thread", tid, "--timeout", "5s",
                              preexec_fn=lambda: os.sched_setaffinity(0, {cpu}))
        longest = self.values(report)[1]
        process.kill()
        self.assert_ran(result)
        self.assertLess(longest, LONGEST_NS)

    def values(self, report):
        return struct.unpack("2Q", lib.read_bytes(report))


if __name__ == "__main__":
    lib.main()
