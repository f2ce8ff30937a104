"""Builds of jemalloc that Debian does not have: without profiling, without statistics."""

import json

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
                report = self.assert_ran(lib.run_tool("stats", "--json", allocator.pid)).text
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
        result = lib.run_tool("stats", allocator.pid)
        self.assert_failed(result, lib.REFUSED, "config.stats is false")
        report = self.assert_ran(lib.run_tool("stats", "--json", allocator.pid)).text
        self.assertIs(json.loads(report)["jemalloc"]["config"]["stats"], False)
        self.assert_well(allocator)

    def test_threads_that_never_sampled(self):
        allocator = self.start()
        told = self.on(allocator)
        self.assertEqual(told["threads_unsure"], self.THREADS + 1)
        self.assertEqual(self.sampling(allocator), self.THREADS)

    def test_threads_that_have_sampled(self):
        """Only prof.reset helps, and only with the option that allows it; the output says that it
        drops all samples."""
        allocator = self.start()
        self.on(allocator)
        self.assertEqual(self.sampling(allocator), self.THREADS)
        self.assert_ran(lib.run_tool("off", allocator.pid))
        allocator.ask("work 3000")
        result = self.assert_ran(lib.run_tool("on", allocator.pid))
        self.assertIn("unknown for 7", result.text)
        self.assertIn("--allow-reset %d" % allocator.pid, result.err)
        self.assertEqual(self.sampling(allocator), 0)
        result = self.assert_ran(lib.run_tool("on", "--allow-reset", allocator.pid))
        self.assertIn("threads: 7 of 7 sample", result.text)
        self.assertIn("dropped (prof.reset)", result.text)
        self.assertEqual(self.sampling(allocator), self.THREADS)
        self.assert_well(allocator)


if __name__ == "__main__":
    lib.main()
