"""Builds of jemalloc that Debian does not have: without profiling, without statistics,
without a version."""

import json
import os
import subprocess

import allocators
import lib
import releases


class WithoutProfiling(allocators.TestCase):
    def library(self):
        return releases.built("5.3.0", "--disable-prof")

    def test_every_verb(self):
        for conf in ("", "prof:true", "prof:true,background_thread:true"):
            with self.subTest(conf=conf):
                allocator = self.allocator("5.3.0", conf=conf, library=self.library())
                for words in (("on",), ("off",), ("dump",), ("dump", "-o", "-")):
                    result = lib.run_tool(words[0], allocator.pid, *words[1:])
                    self.assert_failed(result, lib.PROFILING_OFF, "config.prof is false")
                told = json.loads(lib.run_tool("status", "--json", allocator.pid).text)
                self.assertEqual((told["verdict"], told["config.prof"]), ("absent", False))
                self.assertIn("--enable-prof", told["next"])
                self.assertIn("RSS", self.assert_ran(lib.run_tool("stats", allocator.pid)).text)
                report = self.assert_ran(lib.run_tool("stats", "--full", "--json", allocator.pid)).text
                self.assertIs(json.loads(report)["jemalloc"]["config"]["prof"], False)
                self.assertTrue(allocator.alive())
                allocator.ask("work 10")


class WithoutStatistics(allocators.TestCase):
    THREADS = 6

    def start(self):
        library = releases.built("5.2.1", "--disable-stats")
        allocator = self.allocator("5.2.1", library=library, words=("--threads", self.THREADS))
        allocator.ask("work 1000")
        return allocator

    def on(self, allocator, *words):
        return json.loads(self.assert_ran(lib.run_tool("on", "--json", *words, allocator.pid)).text)

    def sampling(self, allocator):
        allocator.ask("clear")
        allocator.ask("work 1000")
        return allocator.sampling_threads()

    def test_stats(self):
        allocator = self.start()
        result = lib.run_tool("stats", "--full", allocator.pid)
        self.assert_failed(result, lib.REFUSED, "config.stats is false")
        report = self.assert_ran(lib.run_tool("stats", "--full", "--json", allocator.pid)).text
        self.assertIs(json.loads(report)["jemalloc"]["config"]["stats"], False)
        self.assert_well(allocator)

    def test_every_thread_samples(self):
        """Memory shows where the counts are, so nothing has to be dropped by prof.reset."""
        allocator = self.start()
        for _ in range(2):
            told = self.on(allocator, "--allow-reset")
            self.assertEqual((told["threads_sampling"], told["threads_unsure"]),
                             (self.THREADS + 1, 0))
            self.assertFalse(told["did_reset"])
            self.assertEqual(self.sampling(allocator), self.THREADS)
            self.assert_ran(lib.run_tool("off", allocator.pid))
            allocator.ask("work 3000")
        self.assert_well(allocator)


class WithoutVersion(allocators.TestCase):
    """Built from an archive without .git and VERSION: the version string names no release."""

    THREADS = 6

    def test_record_of_5_2(self):
        library = releases.built("5.2.1", "--with-version=0.0.0-0-g" + "0" * 40)
        words = ("--threads", self.THREADS)
        allocator = self.allocator("5.2.1", library=library, words=words)
        allocator.ask("work 1000")
        path = os.path.join(self.directory(), "heap")
        tool = self.process([lib.TOOL, "record", "-d", "1h", "-o", path,
                             str(allocator.pid)], stderr=subprocess.PIPE, text=True,
                            env=lib.tool_environment())
        self.assertTrue(lib.wait_until(lambda: self.has_woken(allocator), 20, 0.1))
        allocator.ask("clear")
        allocator.ask("work 1000")
        self.assertEqual(allocator.sampling_threads(), self.THREADS)
        tool.terminate()
        tool.wait(lib.TOOL_TIMEOUT)
        self.assert_well(allocator)

    def has_woken(self, allocator):
        told = json.loads(lib.run_tool("status", "--json", allocator.pid).text)
        return told["prof.active"] and not told["threads_asleep"]

    def test_every_thread_of_5_2_samples(self):
        """Those of 5.2.1 as well: what is in memory decides."""
        library = releases.built("5.2.1", "--with-version=0.0.0-0-g" + "0" * 40)
        words = ("--threads", self.THREADS, "--off", 2)
        allocator = self.allocator("5.2.1", library=library, words=words)
        allocator.ask("work 1000")
        told = json.loads(self.assert_ran(lib.run_tool("on", "--json", allocator.pid)).text)
        self.assertEqual((told["threads"], told["threads_sampling"], told["threads_off"]),
                         (self.THREADS + 1, self.THREADS - 1, 2), told)
        self.assertGreaterEqual(told["threads_woken"], self.THREADS - 2)
        allocator.ask("work 1000")
        self.assertEqual(allocator.sampling_threads(), self.THREADS - 2)
        told = json.loads(
            self.assert_ran(lib.run_tool("on", "--repair", "--json", allocator.pid)).text)
        self.assertEqual((told["threads_sampling"], told["threads_unknown"]), (self.THREADS + 1, 0))
        allocator.ask("work 1000")
        self.assertEqual(allocator.sampling_threads(), self.THREADS)
        self.assert_well(allocator)


if __name__ == "__main__":
    lib.main()
