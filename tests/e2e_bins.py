"""jeattach stats --bins and --arenas: what the process itself counts."""

import json
import os
import re
import select
import signal
import subprocess

import allocators
import lib
import size_classes

PLAIN = "narenas:4"  # without profiling
CACHED = 400  # objects of a small size that the thread's cache can keep


def without(names, classes):
    return {
        size: {name: value for name, value in row.items() if name not in names}
        for size, row in classes.items()
    }


class Bins(allocators.TestCase):
    maxDiff = None

    def told(self, pid, *words):
        return json.loads(self.assert_ran(lib.run_tool("stats", "--json", pid, *words)).text)

    def own(self, allocator):
        return json.loads(allocator.own_stats("J"))["jemalloc"]

    def agreed(self, allocator, look):
        """Returns what look() says, and the own report, once that is the same before and after."""
        for _ in range(5):
            before = self.own(allocator)
            told = look()
            after = self.own(allocator)
            if size_classes.of(before) == size_classes.of(after):
                return told, after
        self.fail("the process does not come to rest")

    def test_equal_to_those_of_the_process(self):
        """Each class, small and large, without profiling: every second of 100,000 is free."""
        for version, link in allocators.CELLS:
            with self.subTest(version=version, link=link):
                allocator = self.allocator(version, link, conf=PLAIN, words=("--threads", 3))
                allocator.ask("comb 100000 48")
                allocator.ask("more 5000000")
                self.own(allocator)  # the first may allocate buffers
                told, own = self.agreed(allocator, lambda: self.told(allocator.pid, "--bins", "--call"))
                self.assertEqual(size_classes.told(told["classes"]), size_classes.of(own))
                self.assertEqual(told["waste"], self.waste(own))
                self.assertFalse(told["mixed"])
                objects = size_classes.told(told["classes"])[48]["objects"]
                self.assertGreaterEqual(objects, 50000)
                self.assertLess(objects, 50000 + CACHED)
                self.assert_well(allocator)

    def test_no_call(self):
        """Equal to those of the process, but for requests, and slabs that are just in use.

        Since 5.3.1 a large object may be smaller than its class: without a call the bytes are
        its own, and add up to those that jemalloc counts.
        """
        unknown = {"allocations", "requests", "nonfull"}
        for version, link in allocators.CELLS:
            with self.subTest(version=version, link=link):
                allocator = self.allocator(version, link, conf=PLAIN, words=("--threads", 3))
                allocator.ask("comb 100000 48")
                allocator.ask("more 5000000")
                self.own(allocator)
                told, own = self.agreed(
                    allocator, lambda: self.told(allocator.pid, "--bins", "--no-call")
                )
                truth, found = size_classes.of(own), size_classes.told(told["classes"])
                self.assertEqual(told["way"], "memory")
                large = {size for size, row in truth.items() if "slabs" not in row}
                self.assertEqual(
                    sum(found[size]["live"] for size in large), size_classes.large_bytes(own)
                )
                for size in large if version == "5.3.1" else ():
                    self.assertLessEqual(found[size]["live"], truth[size]["live"])
                    found[size]["live"] = truth[size]["live"]
                self.assertEqual(without(unknown, found), without(unknown, truth))
                self.assertEqual(told["waste"], self.waste(own))
                self.assert_well(allocator)

    def waste(self, own):
        return sum(kind.get("waste", 0) for kind in size_classes.of(own).values())

    def test_each_arena(self):
        for version in allocators.VERSIONS:
            with self.subTest(version=version):
                allocator = self.allocator(version, conf=PLAIN, words=("--threads", 8))
                allocator.ask("comb 1000 96")
                self.own(allocator)
                told, own = self.agreed(
                    allocator, lambda: self.told(allocator.pid, "--bins", "--arenas")
                )
                self.assertGreater(len(told["arenas"]), 2)
                for arena in told["arenas"]:
                    self.compare_arena(arena, own, version)
                self.assertEqual(sum(arena["threads"] for arena in told["arenas"]), 9)
                self.assert_well(allocator)

    def compare_arena(self, arena, own, version):
        number = str(arena["arena"])
        counts = own["stats.arenas"][number]
        page = own["arenas"]["page"]
        self.assertEqual(size_classes.told(arena["classes"]), size_classes.of(own, number))
        self.assertEqual(arena["threads"], counts["nthreads"])
        if not size_classes.has_buffer(own, number):
            allocated = counts["small"]["allocated"] + counts["large"]["allocated"]
            self.assertEqual(arena["active"], counts["pactive"] * page)
            self.assertEqual(arena["allocated"], allocated)
            self.assertEqual(arena["metadata"], counts["base"] + counts["internal"])
        self.assertEqual(arena["cached"], counts["tcache_bytes"])
        self.assertEqual(arena["name"], counts.get("name"))
        self.assertEqual(arena["name"] is not None, version == "5.3.1")

    def test_table(self):
        """The answer first, then the class with most memory; --sort waste has the combed one."""
        allocator = self.allocator("5.3.0", conf=PLAIN)
        allocator.ask("comb 100000 48")
        text = self.assert_ran(lib.run_tool("stats", "--bins", "--call", allocator.pid)).text
        lines = text.splitlines()
        self.assertRegex(lines[0], r"^\S+\[%d\] jemalloc 5\.3\.0" % allocator.pid)
        self.assertRegex(
            lines[1], r"MiB live; [\d.]+ MiB \(\d+ %\) free in slabs, most in 48-byte objects$"
        )
        self.assertRegex(lines[4], r"^ +48 +2\.[\d]+ MiB +[\d.]+ % +50\d\d\d +2\.\d+ MiB ")
        self.assertIn("requests/s: on average since the start, ", text)
        words = ("--bins", "--sort", "size", "--rows", "2")
        rows = self.assert_ran(lib.run_tool("stats", allocator.pid, *words)).text.splitlines()[4:]
        sizes = [int(row.split()[0]) for row in rows[:2]]
        self.assertEqual(sizes, sorted(sizes))
        self.assertRegex(rows[2], r"^and \d+ more size classes: ")
        text = self.assert_ran(lib.run_tool("stats", "--arenas", allocator.pid)).text
        self.assertRegex(text, r"(?m)^ +all +\d+ ")
        self.assertRegex(text, r"(?m)^ +0 +\d+ ")

    def test_two_looks(self):
        """Requests of the time between the looks; the process allocates only then. Ctrl-C ends
        the wait early."""
        allocator = self.allocator("5.3.0", conf=PLAIN)
        allocator.ask("comb 1000 2048")
        tool = self.process(
            [lib.TRACED_TOOL, "stats", "--bins", "--json", "-d", "1h", str(allocator.pid)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=lib.tool_environment(),
        )
        while b"DETACH" not in tool.stderr.readline():
            self.assertIsNone(tool.poll())
        while select.select([tool.stderr], [], [], 1)[0]:  # a look may stop it more than once
            self.assertTrue(os.read(tool.stderr.fileno(), 65536))
        allocator.ask("comb 50000 2048")
        tool.send_signal(signal.SIGINT)
        told = json.loads(tool.communicate()[0])
        self.assertEqual((told["since_start"], told["holds"]), (False, 2))
        self.assertLess(told["interval_ns"], 3600 * 10**9)
        (row,) = [row for row in told["classes"] if row["size"] == 2048]
        requests = row["requests_per_second"] * told["interval_ns"] / 1e9
        self.assertLess(abs(requests - 50000), 50000 * 0.02)
        self.assertGreaterEqual(row["requests"], 50000)
        self.assert_well(allocator)

    def test_prometheus(self):
        allocator = self.allocator("5.3.1", conf=PLAIN)
        allocator.ask("comb 100000 48")
        for words, labels in ((("--bins",), ""), (("--bins", "--arenas"), 'arena="0",')):
            text = self.assert_ran(
                lib.run_tool("stats", "--prometheus", allocator.pid, *words)
            ).text
            label = r'pid="%d",process="[^"]*",%ssize="48"' % (allocator.pid, labels)
            value = re.search(r"(?m)^jemalloc_class_objects\{%s\} (\d+)$" % label, text)
            self.assertIsNotNone(value, (label, text))
            self.assertGreaterEqual(int(value[1]), 50000)
            heads = re.findall(r"(?m)^# TYPE (\S+)", text)
            self.assertEqual(len(heads), len(set(heads)))

    def test_refused(self):
        allocator = self.allocator("5.3.0", conf=PLAIN)
        for words, cause in (
            (("--bins", "--full"), "cannot be combined"),
            (("--bins", "--threads"), "cannot be combined"),
            (("--rows", "3"), "require --bins or --arenas"),
            (("-d", "1s"), "require --bins or --arenas"),
            (("--arenas", "--no-call"), "make a call"),
            (("--bins", "--no-call", "-d", "1s"), "make a call"),
            (("--bins", "--rows", "x"), "is not a number"),
            (("--bins", "--sort", "x"), "unknown order 'x'"),
        ):
            result = lib.run_tool("stats", allocator.pid, *words)
            self.assertEqual(result.code, lib.USAGE, result)
            self.assertIn(cause, result.err)
        self.assert_well(allocator)


if __name__ == "__main__":
    lib.main()
