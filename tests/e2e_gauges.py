"""The gauges that jemalloc has collected itself, as they are in memory, and their age."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

import allocators
import lib
import releases

NAMES = ("allocated", "active", "metadata", "resident", "mapped", "retained")
SAMPLING = "prof:true,lg_prof_sample:12"
COARSE = 0.02  # seconds: the clock of jemalloc ticks, with 100 to 1000 Hz


class Gauges(allocators.TestCase):
    def read(self, pid):
        return json.loads(self.assert_ran(lib.run_tool("stats", "--no-call", "--json", pid)).text)

    def gauges(self, pid, states=("known",)):
        read = self.read(pid)
        self.assertIn(read["gauges"]["state"], states)
        return read["gauges"]

    def own_gauges(self, allocator):
        """The gauges as the process itself collects them, without the tool."""
        return json.loads(allocator.own_stats("J"))["jemalloc"]["stats"]

    def assert_own(self, allocator):
        """Equal to what the process itself has collected last."""
        earlier = set()
        for more in (100000, 200000, 4000000):
            allocator.ask("more %d" % more)
            own = self.own_gauges(allocator)
            seen = self.gauges(allocator.pid)
            self.assertEqual([seen[name] for name in NAMES], [own[name] for name in NAMES])
            earlier.add(own["allocated"])
        self.assertEqual(len(earlier), 3)

    def test_equal_to_those_of_the_process(self):
        for version, link in allocators.CELLS:
            with self.subTest(version=version, link=link):
                allocator = self.allocator(version, link, words=("--threads", 3))
                self.assert_own(allocator)
                self.assert_well(allocator)

    def test_stripped(self):
        """A static program without symbols; the shared libraries have none anyway."""
        for version in allocators.VERSIONS:
            with self.subTest(version=version):
                program = os.path.join(self.directory(), "stripped")
                shutil.copy(releases.static_program(version), program)
                subprocess.run(["strip", program], check=True)
                allocator = allocators.Allocator(
                    self.directory(), [program], {}, allocators.CONF, ("--threads", 3)
                )
                self.addCleanup(allocator.stop)
                self.assert_own(allocator)
                self.assert_well(allocator)

    def test_equal_to_mallctl(self):
        """The call writes epoch and reads: what is in memory afterwards is what it has read."""
        for version, link in allocators.CELLS:
            with self.subTest(version=version, link=link):
                allocator = self.allocator(version, link)
                for name in NAMES:
                    text = self.assert_ran(
                        lib.run_tool("mallctl", allocator.pid, "stats." + name)
                    ).text
                    value = int(re.match(r"stats\.%s = (\d+)" % name, text)[1])
                    self.assertEqual(self.gauges(allocator.pid)[name], value)
                self.assert_well(allocator)

    def test_never_collected(self):
        for version in allocators.VERSIONS:
            with self.subTest(version=version):
                allocator = self.allocator(version)
                read = self.read(allocator.pid)
                self.assertEqual(read["gauges"]["state"], "never_collected")
                self.assertTrue(read["version"].startswith(version))
                self.assertEqual([read["gauges"][name] for name in NAMES], [None] * len(NAMES))
                self.assertIsNone(read["gauges"]["age_limit_ns"])
                self.assertGreater(read["rss"], 1 << 20)
                text = self.assert_ran(lib.run_tool("stats", "--no-call", allocator.pid)).text
                self.assertRegex(text, r"(?m)^counts: from jemalloc's records")
                self.assertRegex(text, r"(?m)^  RSS +[\d.]+ [KMG]iB +")
                self.assert_well(allocator)

    def test_age(self):
        for version in allocators.VERSIONS:
            with self.subTest(version=version):
                allocator = self.allocator(version, words=("--threads", 3))
                time.sleep(0.3)  # the age of the process must not pass for that of the gauges
                before = time.monotonic()
                allocator.own_stats("J")
                after = time.monotonic()
                time.sleep(0.2)
                asked = time.monotonic()
                gauges = self.gauges(allocator.pid)
                done = time.monotonic()
                self.assertIsNotNone(gauges["age_ns"])
                self.assertGreaterEqual(gauges["age_ns"] / 1e9, asked - after - COARSE)
                self.assertLessEqual(gauges["age_ns"] / 1e9, done - before + COARSE)

    def test_age_in_another_time_namespace(self):
        """Its clock is another one: only an upper limit of the age is known."""
        unshare = ["unshare", "--time", "--monotonic", "100000", "--fork", "--kill-child"]
        try:
            subprocess.run(unshare + ["true"], check=True, stderr=subprocess.DEVNULL)
        except (OSError, subprocess.CalledProcessError):
            self.skipTest("no time namespace can be made")
        argv, env = releases.command("5.3.0", ["sleep", "60"])
        words = ["env"] + ["%s=%s" % item for item in env.items()] + argv
        process = self.process(unshare + words)
        lib.wait_until(lambda: children(process.pid, "sleep"))
        (pid,) = children(process.pid, "sleep")
        self.assert_ran(lib.run_tool("stats", "--call", pid))
        time.sleep(0.1)
        gauges = self.gauges(pid)
        self.assertIsNone(gauges["age_ns"])
        self.assertGreaterEqual(gauges["age_limit_ns"], 100000000 - COARSE * 1e9)

    def test_epoch(self):
        for version in allocators.VERSIONS:
            with self.subTest(version=version):
                allocator = self.allocator(version)
                allocator.own_stats("J")
                first = self.gauges(allocator.pid)["epoch"]
                self.assertEqual(self.gauges(allocator.pid)["epoch"], first)
                allocator.own_stats("J")
                self.assertEqual(self.gauges(allocator.pid)["epoch"], first + 1)

    def test_stopped(self):
        for version in allocators.VERSIONS:
            with self.subTest(version=version):
                allocator = self.allocator(version)
                own = self.own_gauges(allocator)
                os.kill(allocator.pid, signal.SIGSTOP)
                lib.wait_until(lambda: lib.state_of(allocator.pid) == "T")
                before = lib.snapshot(allocator.pid)
                seen = self.gauges(allocator.pid)
                self.assertEqual(lib.snapshot_differences(allocator.pid, before), [])
                self.assertEqual(lib.state_of(allocator.pid), "T")
                os.kill(allocator.pid, signal.SIGCONT)
                self.assertEqual([seen[name] for name in NAMES], [own[name] for name in NAMES])
                self.assert_well(allocator)

    def test_while_it_collects(self):
        """The process collects all the time: each read is one of its own collections."""
        for version in allocators.VERSIONS:
            with self.subTest(version=version):
                allocator = self.allocator(version, words=("--threads", 3))
                paths = [os.path.join(allocator.directory, "own-%d" % i) for i in range(64)]
                seen = self.read_between(allocator, paths, 8)
                own = set()
                for path in paths:
                    stats = json.loads(lib.read_text(path))["jemalloc"]["stats"]
                    own.add(tuple(stats[name] for name in NAMES))
                self.assertGreater(len(own), 20)
                self.assertEqual([values for values in seen if values not in own], [])
                self.assertGreater(len(set(seen)), 2)
                self.assert_well(allocator)

    def read_between(self, allocator, paths, batch):
        """Reads the gauges while the process makes its own reports, one file each."""
        self.own_gauges(allocator)
        seen = []
        for first in range(0, len(paths), batch):
            some = paths[first : first + batch]
            lines = ["more 100000\nstats J %s\n" % path for path in some]
            allocator.process.stdin.write("".join(lines))
            allocator.process.stdin.flush()
            # The process may wait for a CPU in the middle of a collection.
            gauges = self.gauges(allocator.pid, ("known", "collecting"))
            seen.append(tuple(gauges[name] for name in NAMES))
            for _ in 2 * some:
                self.assertEqual(allocator.process.stdout.readline(), "ok\n")
        return seen[1:]  # the first may be of the collection before

    def test_metrics(self):
        """Those that are shown are of now, from the records: they have no age."""
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
        self.assertNotIn("gauges_age_seconds", found)

    def test_top(self):
        """Gauges that nobody collects are counted from the records, and have a rate."""
        for version in allocators.VERSIONS:
            with self.subTest(version=version):
                allocator = self.allocator(version, conf=SAMPLING, words=("--threads", 2))
                self.own_gauges(allocator)
                told = self.read(allocator.pid)
                wanted = [told["in_use"]] + [told["stats_" + name] for name in NAMES[1:]]
                words = ("top", "--no-call", "--json", "-d", "100ms", "--count", 3)
                text = self.assert_ran(lib.run_tool(*words, allocator.pid)).text
                looks = [json.loads(line) for line in text.splitlines()]
                self.assertEqual(len(looks), 3)
                counted = [look["gauges"] for look in looks if look["gauges_age_ns"] is None]
                for gauges in counted:
                    self.assertEqual([gauges[name] for name in NAMES], wanted)
                self.assertIsNone(looks[0]["gauges_age_ns"])
                self.assertIsNotNone(looks[-1]["per_second"]["RSS"])
                self.assert_well(allocator)

    def test_core_file(self):
        """The gauges outlive the process; their age does not."""
        if not shutil.which("gcore"):
            self.skipTest("gcore is not installed (package gdb)")
        for version, link in allocators.CELLS:
            with self.subTest(version=version, link=link):
                allocator = self.allocator(version, link)
                own = self.own_gauges(allocator)
                path = os.path.join(allocator.directory, "core")
                done = subprocess.run(
                    ["gcore", "-o", path, str(allocator.pid)], capture_output=True, timeout=60
                )
                self.assertEqual(done.returncode, 0, done.stderr)
                path += ".%d" % allocator.pid
                allocator.stop()
                text = self.assert_ran(lib.run_tool("stats", "--core", path, "--json")).text
                gauges = json.loads(text)["gauges"]
                self.assertEqual([gauges[name] for name in NAMES], [own[name] for name in NAMES])
                self.assertIsNone(gauges["age_limit_ns"])
                self.assertIsNone(json.loads(text)["rss"])
                text = self.assert_ran(lib.run_tool("stats", "--core", path)).text
                self.assertIn("(core file) jemalloc %s-" % version, text)
                self.assertNotIn("RSS", text)

    def test_no_report_without_a_call(self):
        result = lib.run_tool("stats", "--no-call", "--full", os.getpid())
        self.assert_failed(result, lib.USAGE, "--no-call and --full")
        result = lib.run_tool("stats", "--core", os.devnull, "--full")
        self.assert_failed(result, lib.USAGE, "--full and --threads require a running process")


def children(pid, name):
    text = lib.read_text("/proc/%d/task/%d/children" % (pid, pid))
    found = [int(word) for word in text.split()]
    return [pid for pid in found if lib.read_text("/proc/%d/comm" % pid).strip() == name]


if __name__ == "__main__":
    lib.main()
