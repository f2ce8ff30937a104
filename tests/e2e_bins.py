"""jeattach stats --bins: what the process itself counts."""

import json
import re

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
        """Each class, small and large, without profiling: every second of 100,000 is free.

        Slabs that are just in use count as nonfull, too. Since 5.3.1 a large object may be smaller
        than its class: the bytes are its own, and add up to those that jemalloc counts.
        """
        for version, link in allocators.CELLS:
            with self.subTest(version=version, link=link):
                allocator = self.allocator(version, link, conf=PLAIN, words=("--threads", 3))
                allocator.ask("comb 100000 48")
                allocator.ask("more 5000000")
                self.own(allocator)
                told, own = self.agreed(allocator, lambda: self.told(allocator.pid, "--bins"))
                truth, found = size_classes.of(own), size_classes.told(told["classes"])
                self.assertEqual(told["way"], "memory")
                self.assertGreaterEqual(found[48]["objects"], 50000)
                self.assertLess(found[48]["objects"], 50000 + CACHED)
                large = {size for size, row in truth.items() if "slabs" not in row}
                self.assertEqual(
                    sum(found[size]["live"] for size in large), size_classes.large_bytes(own)
                )
                for size in large if version == "5.3.1" else ():
                    self.assertLessEqual(found[size]["live"], truth[size]["live"])
                    found[size]["live"] = truth[size]["live"]
                self.assertEqual(without({"nonfull"}, found), without({"nonfull"}, truth))
                self.assertEqual(told["waste"], self.waste(own))
                self.assert_well(allocator)

    def waste(self, own):
        return sum(kind.get("waste", 0) for kind in size_classes.of(own).values())

    def test_table(self):
        """The answer first, then the class with most memory; --sort waste has the combed one."""
        allocator = self.allocator("5.3.0", conf=PLAIN)
        allocator.ask("comb 100000 48")
        text = self.assert_ran(lib.run_tool("stats", "--bins", allocator.pid)).text
        lines = text.splitlines()
        self.assertRegex(lines[0], r"^\S+\[%d\] jemalloc 5\.3\.0" % allocator.pid)
        self.assertRegex(
            lines[1], r"MiB live; [\d.]+ MiB \(\d+ %\) free in slabs, most in 48-byte objects$"
        )
        self.assertRegex(lines[4], r"^ +48 +2\.[\d]+ MiB +[\d.]+ % +50\d\d\d +2\.\d+ MiB ")
        words = ("--bins", "--sort", "size", "--rows", "2")
        rows = self.assert_ran(lib.run_tool("stats", allocator.pid, *words)).text.splitlines()[4:]
        sizes = [int(row.split()[0]) for row in rows[:2]]
        self.assertEqual(sizes, sorted(sizes))
        self.assertRegex(rows[2], r"^and \d+ more size classes: ")

    def test_prometheus(self):
        allocator = self.allocator("5.3.1", conf=PLAIN)
        allocator.ask("comb 100000 48")
        words = ("stats", "--prometheus", "--bins", allocator.pid)
        text = self.assert_ran(lib.run_tool(*words)).text
        label = r'pid="%d",process="[^"]*",size="48"' % allocator.pid
        value = re.search(r"(?m)^jemalloc_class_objects\{%s\} (\d+)$" % label, text)
        self.assertIsNotNone(value, text)
        self.assertGreaterEqual(int(value[1]), 50000)
        heads = re.findall(r"(?m)^# TYPE (\S+)", text)
        self.assertEqual(len(heads), len(set(heads)))

    def test_refused(self):
        allocator = self.allocator("5.3.0", conf=PLAIN)
        for words, cause in (
            (("--bins", "--full"), "cannot be combined"),
            (("--bins", "--threads"), "cannot be combined"),
            (("--bins", "--call"), "has no option --call"),
            (("--rows", "3"), "require --bins"),
            (("--bins", "-d", "1s"), "has no option -d"),
            (("--arenas",), "unknown option"),
            (("--bins", "--rows", "x"), "is not a number"),
            (("--bins", "--sort", "x"), "unknown order 'x'"),
        ):
            result = lib.run_tool("stats", allocator.pid, *words)
            self.assertEqual(result.code, lib.USAGE, result)
            self.assertIn(cause, result.err)
        self.assert_well(allocator)


if __name__ == "__main__":
    lib.main()
