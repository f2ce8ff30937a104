"""stats --threads: what memory shows of each thread is what the thread itself reads by mallctl.

Nothing is called or stopped, so a process that is stopped shows the same.
"""

import json
import os
import signal
import unittest

import allocators
import e2e_forking
import lib
import linked
import releases

THREADS = 9
LINKS = allocators.LINKS + ("stripped",)
CELLS = [(version, link) for version in allocators.VERSIONS for link in LINKS]


def threads_of(test, allocator):
    told = lib.run_tool("stats", "--threads", "--json", allocator.pid)
    return json.loads(test.assert_ran(told).text)


def rows_of(test, allocator):
    return {row["thread"]: row for row in threads_of(test, allocator)["thread_list"]}


def words_of(test, allocator):
    """Returns whether the workers sample, in their order."""
    rows = rows_of(test, allocator)
    names = {int(name[7:]): tid for name, tid in allocator.workers().items()}
    return [rows[tid]["sampling"] for _, tid in sorted(names.items())]


def assert_own(test, allocator, own=None):
    """The rows of the workers are what they themselves have read."""
    own = own or allocator.own_counters()
    rows = rows_of(test, allocator)
    seen = {tid: (rows[tid]["allocated"], rows[tid]["deallocated"]) for tid in own}
    test.assertEqual(len(own), THREADS)
    test.assertEqual(seen, own, allocator.name)


class Threads(allocators.TestCase):
    def test_counters(self):
        for version, link in CELLS:
            with self.subTest(version=version, link=link):
                allocator = self.allocator(version, link, words=("--threads", THREADS))
                allocator.ask("work 700")
                own = allocator.own_counters()
                self.assertGreater(min(counters[1] for counters in own.values()), 100000)
                assert_own(self, allocator, own)
                self.assert_well(allocator)

    def test_stopped_process(self):
        allocator = self.allocator("5.3.0", words=("--threads", THREADS))
        own = allocator.own_counters()
        os.kill(allocator.pid, signal.SIGSTOP)
        try:
            assert_own(self, allocator, own)
        finally:
            os.kill(allocator.pid, signal.SIGCONT)
        self.assert_well(allocator)

    def test_busy(self):
        """The counters of threads that allocate only grow, and each thread is known."""
        for version in allocators.VERSIONS:
            with self.subTest(version=version):
                allocator = self.allocator(version, words=("--threads", THREADS, "--busy"))
                last = {}
                for _ in range(20):
                    told = threads_of(self, allocator)
                    self.assertEqual(len(told["thread_list"]), THREADS + 1)
                    for row in told["thread_list"]:
                        before = last.get(row["thread"], (0, 0))
                        last[row["thread"]] = row["allocated"], row["deallocated"]
                        self.assertGreaterEqual(row["allocated"], before[0])
                        self.assertGreaterEqual(row["deallocated"], before[1])
                self.assertGreater(min(last.values())[0], 0)

    def test_off(self):
        """Threads that were born while prof.thread_active_init was false."""
        for version, link in CELLS:
            with self.subTest(version=version, link=link):
                allocator = self.allocator(
                    version, link, "prof:true,lg_prof_sample:12",
                    words=("--threads", THREADS, "--off", 3),
                )
                allocator.ask("work 100")
                self.assertEqual(words_of(self, allocator), ["off"] * 3 + ["samples"] * (THREADS - 3))

    def test_asleep(self):
        """The defect of 5.2: only there, and only in the threads that have it."""
        for version, link in CELLS:
            with self.subTest(version=version, link=link):
                allocator = self.allocator(version, link, words=("--threads", THREADS))
                allocator.ask("work 100")
                word = "asleep" if version == "5.2.1" else "samples"
                self.assertEqual(words_of(self, allocator), [word] * THREADS)

    def test_ended(self):
        allocator = self.allocator("5.3.0", words=("--threads", THREADS))
        self.assertEqual(len(rows_of(self, allocator)), THREADS + 1)
        allocator.ask("leave")
        lib.wait_until(lambda: len(lib.threads(allocator.pid)) == 1)
        self.assertEqual(list(rows_of(self, allocator)), [allocator.pid])

    def test_without_profiling(self):
        """The counters do not need it; whether a thread samples is no question then."""
        for version in allocators.VERSIONS:
            with self.subTest(version=version):
                allocator = self.allocator(
                    version, conf="prof:false", words=("--threads", THREADS)
                )
                allocator.ask("work 100")
                assert_own(self, allocator)
                self.assertEqual(words_of(self, allocator), [None] * THREADS)


class OldLibrary(allocators.TestCase):
    """glibc 2.31, where threads belong to a library of its own."""

    def program(self, libraries):
        """The allocator, linked with that library by this machine's compiler."""
        path = os.path.join(self.directory(), "allocator")
        sources = [os.path.join(lib.ROOT, "tests", "victims", name + ".c")
                   for name in ("allocator", "filter")]
        names = ("libc.so.6", "libpthread.so.0", "libdl.so.2")
        linked.run("gcc", "-O2", "-D_GNU_SOURCE", *sources, "-nodefaultlibs",
                   "-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined",
                   *[os.path.join(libraries, name) for name in names], "-o", path)
        return path

    def test_old_library(self):
        if linked.missing():
            raise unittest.SkipTest(linked.missing())
        root = releases.fetch("glibc-2.31", "bullseye", e2e_forking.PACKAGES)
        libraries = os.path.join(root, "lib/x86_64-linux-gnu")
        jemalloc = os.path.join(root, releases.LIBRARY)
        argv = [os.path.join(libraries, "ld-2.31.so"), "--library-path",
                "%s:%s" % (libraries, os.path.dirname(jemalloc)), "--preload", jemalloc,
                self.program(libraries)]
        allocator = allocators.Allocator(self.directory(), argv, {}, allocators.CONF,
                                         ("--threads", THREADS))
        self.addCleanup(allocator.stop)
        allocator.name = "glibc 2.31"
        allocator.ask("work 100")
        assert_own(self, allocator)
        self.assertEqual(words_of(self, allocator), ["asleep"] * THREADS)


if __name__ == "__main__":
    lib.main()
