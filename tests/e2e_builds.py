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
                    self.assertNotIn(" stopped for ", result.err)
                told = json.loads(lib.run_tool("status", "--json", allocator.pid).text)
                self.assertEqual((told["verdict"], told["config.prof"]), ("absent", False))
                self.assertIn("--enable-prof", told["next"])
                self.assertIn("RSS", self.assert_ran(lib.run_tool("stats", allocator.pid)).text)
                report = self.assert_ran(lib.run_tool("stats", "--full", "--json", allocator.pid)).text
                self.assertIs(json.loads(report)["jemalloc"]["config"]["prof"], False)
                self.assertTrue(allocator.alive())
                allocator.ask("work 10")


PREFIXED = """
#include <stddef.h>
#include <stdio.h>
void *_rjem_malloc(size_t size);
int main(void)
{
    return puts(_rjem_malloc(1) ? "ready" : "") < 0 || fflush(stdout) || getchar() == 'x';
}
"""


class WithPrefixAndSettings(lib.TestCase):
    """As Rust builds it: it reads another variable, and has a string of its own."""

    def start(self, **env):
        library = releases.built("5.3.0", "--with-jemalloc-prefix=_rjem_",
                                 "--with-malloc-conf=prof=true,narenas:2")
        place = self.directory()
        source, program = os.path.join(place, "prefixed.c"), os.path.join(place, "prefixed")
        with open(source, "w") as file:
            file.write(PREFIXED)
        os.symlink(library, os.path.join(place, "libjemalloc.so.2")) # its path has a colon
        releases.run(["cc", source, library, "-o", program], place)
        env = lib.tool_environment(dict(env, LD_LIBRARY_PATH=place))
        process = self.process([program], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return json.loads(self.assert_ran(lib.run_tool("status", "--json", process.pid)).text)

    def test_status(self):
        told = self.start()
        self.assertEqual(told["built_in_value"], "prof=true,narenas:2")
        self.assertEqual(told["cause"], "jemalloc rejected 'prof=true' in --with-malloc-conf")
        proposed = "_RJEM_MALLOC_CONF=prof:true,prof_active:false"
        self.assertTrue(told["next"].startswith("start it with %s;" % proposed), told["next"])
        told = self.start(MALLOC_CONF="prof:true")
        self.assertEqual(told["cause"], "it reads _RJEM_MALLOC_CONF, not MALLOC_CONF")
        self.assertIn(" %s;" % proposed, told["next"])
        name, _, value = proposed.partition("=")
        self.assertEqual(self.start(**{name: value})["verdict"], "inactive")


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

    def test_parts(self):
        """What the records tell without statistics is the same in each verb that reads them."""
        library = releases.built("5.3.0", "--disable-stats")
        allocator = self.allocator("5.3.0", library=library, words=("--threads", 1))
        allocator.ask("comb 100000 48")

        def tell(verb, *words):
            return json.loads(
                self.assert_ran(lib.run_tool(verb, "--json", *words, allocator.pid)).text)

        told = [tell("stats"), tell("stats", "--no-call"), tell("frag")["parts"],
                tell("explain")["jemalloc"]["parts"], tell("top", "--once", "--no-call")["gauges"]]
        for name in ("in_use", "sampling", "slabs", "padding", "free_pages", "retained_resident", "absent"):
            for other in told[1:]:
                self.assertAlmostEqual(other[name], told[0][name], delta=1 << 16, msg=name)
        for verb in ("stats", "frag"):
            self.assertRegex(self.assert_ran(lib.run_tool(verb, allocator.pid)).text,
                             r"(?m)^  slabs +[\d.]+ [KM]iB +[\d.]+ % ")
        self.assert_well(allocator)

    def test_every_thread_samples(self):
        """Memory shows where the counts are, so nothing has to be dropped by prof.reset."""
        allocator = self.start()
        for _ in range(2):
            told = self.on(allocator, "--allow=reset")
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
