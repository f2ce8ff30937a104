"""The same figure is the same number wherever it is shown, and what only reads calls nobody."""

import json
import os
import re
import shutil
import signal
import subprocess

import allocators
import lib

PROFILED = "prof:true,prof_active:true,lg_prof_sample:%d,narenas:2"
CONFS = ("narenas:2", PROFILED % 12, PROFILED % 14)
CELLS = [(version, conf) for version in allocators.VERSIONS for conf in CONFS]

# Figure -> its name in each verb. Others can be added with their own reader below.
STATS = ("in_use", "sampling", "between", "free_pages", "own_data", "outside", "absent", "rss")
METRICS = dict({name: name for name in STATS}, rss="process_resident")
TOP = {"allocated": "in_use", "sampling": "sampling", "active": "stats_active",
       "metadata": "stats_metadata", "resident": "stats_resident", "mapped": "stats_mapped",
       "retained": "stats_retained"}
GAUGES = ("stats_allocated", "stats_active", "stats_metadata", "stats_resident", "stats_mapped",
          "stats_retained")


def metrics(text):
    found = re.findall(r"(?m)^jemalloc_(\w+)_bytes\{[^}]*\} (\d+)$", text)
    return {name: int(value) for name, value in found}


class Agree(allocators.TestCase):
    maxDiff = None

    def seeded(self, version, conf):
        """A process at rest, with holes between its objects, and large ones."""
        allocator = self.allocator(version, conf=conf, words=("--threads", 2))
        allocator.ask("comb 100000 48")
        allocator.ask("more 5000000")
        return allocator

    def stats(self, allocator, *words):
        return json.loads(
            self.assert_ran(lib.run_tool("stats", "--json", allocator.pid, *words)).text)

    def in_each_cell(self, check):
        for version, conf in CELLS:
            with self.subTest(version=version, conf=conf):
                check(self.seeded(version, conf))

    def assert_uncalled(self, told):
        self.assertEqual(
            (told["source"], told["held_ns"], told["calls"], told["stops"]),
            ("records", 0, 0, 0))

    def assert_adds_up(self, told):
        """Each part is a share from 0 to 100 % of the RSS and what is absent."""
        parts = [told[name] or 0 for name in STATS[:6]]
        self.assertEqual(sum(parts), told["rss"] + told["absent"])
        self.assertTrue(all(part >= 0 for part in parts), told)

    def test_stats(self):
        """JSON, metrics and the table."""
        self.in_each_cell(self.check_stats)

    def check_stats(self, allocator):
        told = self.stats(allocator)
        self.assert_uncalled(told)
        self.assert_adds_up(told)
        result = self.assert_ran(lib.run_tool("stats", "--prometheus", allocator.pid))
        shown = metrics(result.text)
        self.assertEqual({name: shown[METRICS[name]] for name in STATS},
                         {name: told[name] for name in STATS})
        self.assertEqual(shown["allocated"], told["in_use"])
        for name in GAUGES[1:]:
            self.assertEqual(shown[name.replace("stats_", "")], told[name])
        self.assertEqual(result.err, "")
        text = self.assert_ran(lib.run_tool("stats", allocator.pid)).text
        shares = [float(share) for share in re.findall(r" (-?[\d.]+) %", text)]
        self.assertGreater(len(shares), 3)
        self.assertTrue(all(0 <= share <= 100 for share in shares), text)
        self.assertNotIn(" 0 B ", text)

    def test_size_classes(self):
        """The live bytes of all classes are what is in use.

        Sampled objects that were freed and are kept by a thread are objects of 16 KiB there.
        """
        self.in_each_cell(self.check_size_classes)

    def check_size_classes(self, allocator):
        told = self.stats(allocator)
        bins = self.stats(allocator, "--bins", "--rows", 0)
        self.assertEqual(bins["way"], "memory")
        kept = sum(row["live"] for row in bins["classes"]) - told["in_use"]
        self.assertGreaterEqual(kept, 0)
        self.assertLessEqual(kept, told["sampling"])
        self.assertEqual(kept % (16 << 10), 0)

    def test_top(self):
        self.in_each_cell(self.check_top)

    def check_top(self, allocator):
        told = self.stats(allocator)
        look = json.loads(self.assert_ran(
            lib.run_tool("top", "--once", "--json", "--no-call", allocator.pid)).text)
        self.assertEqual(look["gauges"]["allocated"], told["in_use"])
        self.assertEqual({name: look["gauges"][name] for name in TOP},
                         {name: told[other] for name, other in TOP.items()})

    def counts(self, allocator):
        """jemalloc's own, of the same moment."""
        names = [name.replace("_", ".") for name in GAUGES]
        told = json.loads(
            self.assert_ran(lib.run_tool("mallctl", "--json", allocator.pid, *names)).text)
        self.assertGreater(told["calls"], len(names))
        return {name: told["values"][name.replace("_", ".")] for name in GAUGES}

    def test_call(self):
        """What jemalloc itself counts, asked by a call, is what its records give."""
        self.in_each_cell(self.check_call)

    def check_call(self, allocator):
        self.counts(allocator)  # the first may allocate
        told, called = self.stats(allocator), self.counts(allocator)
        self.assert_uncalled(told)
        self.assert_adds_up(told)
        self.assertEqual({name: told[name] for name in GAUGES}, called)
        self.assert_well(allocator)

    def test_status(self):
        self.in_each_cell(self.check_status)

    def check_status(self, allocator):
        told = json.loads(
            self.assert_ran(lib.run_tool("status", "--json", allocator.pid)).text)
        self.assertEqual((told["source"], told["held_ns"], told["calls"]), ("memory", 0, 0))

    def test_nothing_is_touched(self):
        """Pages that were never touched stay so: the RSS is as before, to the byte."""
        self.in_each_cell(self.check_nothing_is_touched)

    def check_nothing_is_touched(self, allocator):
        lib.run_tool("stats", allocator.pid)
        before = lib.snapshot(allocator.pid)
        rss = self.stats(allocator)["rss"]
        for words in (("stats",), ("stats", "--bins"), ("status",)):
            self.assert_ran(lib.run_tool(*words, allocator.pid))
        self.assertEqual(self.stats(allocator)["rss"], rss)
        self.assertEqual(lib.snapshot_differences(allocator.pid, before), [])

    def test_stopped(self):
        allocator = self.seeded("5.3.0", CONFS[1])
        told = self.stats(allocator)
        os.kill(allocator.pid, signal.SIGSTOP)
        lib.wait_until(lambda: lib.state_of(allocator.pid) == "T")
        stopped = self.stats(allocator)
        os.kill(allocator.pid, signal.SIGCONT)
        self.assertEqual([stopped[name] for name in GAUGES], [told[name] for name in GAUGES])
        self.assert_well(allocator)

    def test_core(self):
        """A core file has the counts of its moment."""
        if not shutil.which("gcore"):
            self.skipTest("gcore is not installed (package gdb)")
        for version in allocators.VERSIONS:
            with self.subTest(version=version):
                allocator = self.seeded(version, CONFS[1])
                told = self.stats(allocator)
                path = os.path.join(allocator.directory, "core")
                done = subprocess.run(
                    ["gcore", "-o", path, str(allocator.pid)], capture_output=True, timeout=60)
                self.assertEqual(done.returncode, 0, done.stderr)
                allocator.stop()
                core = json.loads(self.assert_ran(
                    lib.run_tool("stats", "--json", "--core", "%s.%d" % (path, allocator.pid))
                ).text)
                self.assertEqual(core["source"], "records")
                for name in GAUGES + ("in_use", "sampling", "between", "free_pages", "own_data"):
                    self.assertEqual(core[name], told[name], name)
                self.assertIsNone(core["rss"])
                self.assertIsNone(core["outside"])


if __name__ == "__main__":
    lib.main()
