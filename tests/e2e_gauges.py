"""The counts of stats --no-call, as they are in memory."""

import json
import os
import re
import shutil
import signal
import subprocess

import allocators
import lib

NAMES = ("allocated", "active", "metadata", "resident", "mapped", "retained")
SAMPLING = "prof:true,lg_prof_sample:12"


class Gauges(allocators.TestCase):
    def read(self, pid):
        return json.loads(self.assert_ran(lib.run_tool("stats", "--no-call", "--json", pid)).text)

    def settled(self, pid):
        """What is counted when its threads, which may just be starting, have nothing more to do."""
        counts = []

        def is_settled():
            counts.append(self.read(pid)["in_use"])
            return len(counts) > 3 and len(set(counts[-4:])) == 1

        self.assertTrue(lib.wait_until(is_settled, pause=0.05), counts)
        return self.read(pid)

    def own_gauges(self, allocator):
        """The gauges as the process itself collects them, without the tool."""
        return json.loads(allocator.own_stats("J"))["jemalloc"]["stats"]

    def test_stopped(self):
        for version in allocators.VERSIONS:
            with self.subTest(version=version):
                allocator = self.allocator(version)
                self.own_gauges(allocator)
                own = self.read(allocator.pid)
                os.kill(allocator.pid, signal.SIGSTOP)
                lib.wait_until(lambda: lib.state_of(allocator.pid) == "T")
                before = lib.snapshot(allocator.pid)
                seen = self.read(allocator.pid)
                self.assertEqual(lib.snapshot_differences(allocator.pid, before), [])
                self.assertEqual(lib.state_of(allocator.pid), "T")
                os.kill(allocator.pid, signal.SIGCONT)
                members = ["in_use"] + ["stats_" + name for name in NAMES]
                self.assertEqual([seen[name] for name in members], [own[name] for name in members])
                self.assert_well(allocator)

    def test_metrics(self):
        allocator = self.allocator("5.3.0")
        self.own_gauges(allocator)
        text = self.assert_ran(
            lib.run_tool("stats", "--no-call", "--prometheus", allocator.pid)
        ).text
        found = dict(re.findall(r"(?m)^jemalloc_(\w+)\{[^}]*\} (-?[\d.e+-]+)$", text))
        self.assertEqual(len(found) * 3, len(text.splitlines()))
        told = self.read(allocator.pid)
        self.assertEqual(int(found["allocated_bytes"]), told["in_use"])
        for name in NAMES[1:]:
            self.assertEqual(int(found[name + "_bytes"]), told["stats_" + name])

    def test_top(self):
        for version in allocators.VERSIONS:
            with self.subTest(version=version):
                allocator = self.allocator(version, conf=SAMPLING, words=("--threads", 2))
                self.own_gauges(allocator)
                told = self.settled(allocator.pid)
                names = ("in_use", "sampling", "slabs", "padding", "free_pages", "own_data")
                words = ("top", "--no-call", "--json", "--every", "100ms", "--count", 3)
                text = self.assert_ran(lib.run_tool(*words, allocator.pid)).text
                looks = [json.loads(line) for line in text.splitlines()]
                self.assertEqual(len(looks), 3)
                for look in looks:
                    self.assertEqual({name: look["gauges"][name] for name in names},
                                     {name: told[name] for name in names})
                self.assertIsNotNone(looks[-1]["per_second"]["rss"])
                self.assert_well(allocator)

    def test_core_file(self):
        if not shutil.which("gcore"):
            self.skipTest("gcore is not installed (package gdb)")
        for version, link in allocators.CELLS:
            with self.subTest(version=version, link=link):
                allocator = self.allocator(version, link)
                self.own_gauges(allocator)
                own = self.read(allocator.pid)
                path = os.path.join(allocator.directory, "core")
                done = subprocess.run(
                    ["gcore", "-o", path, str(allocator.pid)], capture_output=True, timeout=60
                )
                self.assertEqual(done.returncode, 0, done.stderr)
                path += ".%d" % allocator.pid
                allocator.stop()
                text = self.assert_ran(lib.run_tool("stats", "--core", path, "--json")).text
                told = json.loads(text)
                self.assertEqual(told["stats_active"], own["stats_active"])
                self.assertLessEqual(0, told["in_use"] - own["in_use"])
                self.assertLessEqual(told["in_use"] - own["in_use"], own["absent"])
                self.assertIsNone(told["rss"])
                text = self.assert_ran(lib.run_tool("stats", "--core", path)).text
                self.assertRegex(text, r"\A\S+ \(core file\) had .* in use, .*; jemalloc %s\n" % version)
                self.assertNotIn("RSS", text)

    def test_no_report_without_a_call(self):
        result = lib.run_tool("stats", "--no-call", "--full", os.getpid())
        self.assert_failed(result, lib.USAGE, "--no-call and --full")
        result = lib.run_tool("stats", "--core", os.devnull, "--full")
        self.assert_failed(result, lib.USAGE, "require a running process, not --core")


if __name__ == "__main__":
    lib.main()
