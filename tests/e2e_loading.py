"""A process that does nothing but load and unload a library: the stops are bounded.

It is outside of the loader for a few nanoseconds of every 50 microseconds, so that a stop at
random meets it there once in thousands.
"""

import subprocess

import lib

LIBRARY = "libBrokenLocale.so.1"  # of glibc; no program is linked with it


class Loading(lib.TestCase):
    def loading(self):
        process = self.process([lib.VICTIMS + "/loading", LIBRARY], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=lib.tool_environment())
        if process.stdout.readline() != b"loading\n" or process.poll() is not None:
            self.skipTest(process.stderr.read().decode().strip())
        return process

    def test_stops(self):
        """The stops find it, or the time is over; what reads memory serves it."""
        process = self.loading()
        for _ in range(3):
            result = lib.run_tool("stats", "--full", process.pid, "--timeout", "1s")
            self.assertIn(result.code, (lib.OK, lib.NO_SAFE_MOMENT), result)
            if result.code == lib.NO_SAFE_MOMENT:
                self.assertIn("jeattach stats", result.err)
            self.assertIsNone(process.poll())
            self.assertEqual(lib.tracer_of(process.pid), 0)
        self.assert_ran(lib.run_tool("stats", process.pid))


if __name__ == "__main__":
    lib.main()
