"""A process that does nothing but load and unload a library is called after few stops.

It is outside of the loader for a few nanoseconds of every 50 microseconds, so that a stop at
random meets it there once in thousands. Samples of its instruction pointer show such a moment.
"""

import re
import subprocess

import lib
import perf_events

LIBRARY = "libBrokenLocale.so.1"  # of glibc; no program is linked with it
RUNS = 5
# At random 2,000 to 5,000 in each run. 32 are made before the first sample, and some samples show
# it in functions that the loader calls.
MOST_STOPS = 500 * RUNS
FOUND = re.compile(r"found after (\d+) stops")


class Loading(lib.TestCase):
    def loading(self):
        process = self.process([lib.VICTIMS + "/loading", LIBRARY], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=lib.tool_environment())
        if process.stdout.readline() != b"loading\n" or process.poll() is not None:
            self.skipTest(process.stderr.read().decode().strip())
        return process

    def test_stops(self):
        perf_events.require()
        process = self.loading()
        stops = 0
        for _ in range(RUNS):
            result = self.assert_ran(lib.run_tool("stats", "--call", process.pid, "-v", "--timeout", "30s"))
            stops += int((FOUND.search(result.err) or [0, 1])[1])
        self.assertLess(stops, MOST_STOPS)
        self.assertIsNone(process.poll())
        self.assertEqual(lib.tracer_of(process.pid), 0)

    def test_without_perf_events(self):
        """The stops remain; they find it, or the time is over."""
        process = self.loading()
        confine = lib.VICTIMS + "/confine"
        for action in ("EPERM", "KILL"):
            result = lib.run_tool(action, "perf_event_open", lib.TOOL, "stats", "--call", process.pid, "-v",
                                  "--timeout", "1s", tool=confine)
            self.assertIn(result.code, (lib.OK, lib.NO_SAFE_MOMENT), result)
            self.assertIsNone(process.poll())
            self.assertEqual(lib.tracer_of(process.pid), 0)


if __name__ == "__main__":
    lib.main()
