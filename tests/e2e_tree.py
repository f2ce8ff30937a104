"""report -f tree, --invert, --lines and --sort: sums, order, limits, characters, usage errors."""

import re

import lib
from e2e_report import Case, VERSIONS, fixture

LINE = re.compile(r"^ *(-?\d+) +(-?[\d.]+)% +(-?\d+)  ((?:\| |  )*)((?:\|-|`-)?)(\S.*)$")


class Line:
    def __init__(self, match):
        self.amount, self.objects = int(match[1]), int(match[3])
        self.level = len(match[4]) // 2 + (match[5] != "")
        self.text, self.below = match[6], []


def tree(text):
    """The lines with numbers, each with those one level below it; the first ones."""
    first, path = [], []
    for match in filter(None, map(LINE.match, text.splitlines())):
        line = Line(match)
        if re.match(r"in \d+ smaller calls? of the lines above", line.text):
            continue
        del path[line.level :]
        (path[-1].below if path else first).append(line)
        path.append(line)
    return first


class Tree(Case):
    def tree(self, path, *words):
        result = lib.run_tool(
            "report", "-q", path, "-f", "tree", "--unit", "B", *words, env={"LC_ALL": "C"}
        )
        return self.assert_ran(result).text

    def total(self, text):
        return [int(n) for n in re.search(r"^sampled: .*?(\d+) in use, (\d+) objects?", text, re.M).groups()]

    def assert_sums(self, lines):
        """With --rows 0 nothing is left out: the lines below a call add up to it."""
        for line in lines:
            if line.below:
                self.assertEqual(sum(low.amount for low in line.below), line.amount, line.text)
                self.assertEqual(sum(low.objects for low in line.below), line.objects, line.text)
                self.assert_sums(line.below)

    def test_sums(self):
        for version in VERSIONS:
            for words in ((), ("--invert",), ("--lines",), ("--invert", "--lines")):
                with self.subTest(version=version, words=words):
                    text = self.tree(fixture(version), "--rows", "0", *words)
                    first = tree(text)
                    self.assertEqual(
                        [sum(l.amount for l in first), sum(l.objects for l in first)],
                        self.total(text),
                    )
                    self.assert_sums(first)

    def test_inverted_is_the_flat_column(self):
        """Each first line of the inverted tree is a function's own memory, as in the table."""
        path = fixture("5.3.0")
        table = self.report(path, "-q", "--unit", "B", "--rows", "0")
        flat = sorted(
            int(match[1])
            for match in re.finditer(r"^ *(\d+) +[\d.]+% +[\d.]+% +\d+ +[\d.]+% ", table, re.M)
            if int(match[1])
        )
        first = tree(self.tree(path, "--rows", "0", "--invert"))
        self.assertEqual(sorted(line.amount for line in first), flat)

    def test_known_program(self):
        path = self.dump(self.sites())
        text = self.tree(path)
        self.assertRegex(text, r"(?m)^ *655360 +[\d.]+% +\d+  .*keep_large \(sites\.c:\d+\)$")
        self.assertRegex(text, r"(?m)^ *20480 +[\d.]+% +\d+  .*keep_deep")
        lines = self.tree(path, "--invert", "--lines")
        self.assertRegex(lines, r"(?m)^ *743936 .*  make \(sites\.c:\d+\)$")

    def test_limits_are_stated(self):
        path = self.dump(self.sites())
        few = self.tree(path, "--rows", "3")
        self.assertRegex(few, r"(?m)\d+ (smaller|more) calls?(, each at most \d+( B)?)?$")
        self.assert_sums(tree(self.tree(path, "--rows", "3", "--no-fold")))
        shallow = self.tree(path, "--depth", "1")
        self.assertRegex(shallow, r"(?m) \.\.$")
        self.assertNotIn("keep_large", shallow)

    def test_growth(self):
        process = self.sites()
        before = self.dump(process, "before.heap")
        self.grow(process)
        text = self.tree(self.dump(process, "now.heap"), "--base", before)
        self.assertRegex(text, r"(?m)^ *growth +error +objects +calls")
        grown = [line for line in text.splitlines() if "keep_small" in line]
        self.assertEqual(len(grown), 1, text)
        self.assertRegex(grown[0], r"^ *\+\d+ +\d+ +\+\d+ ")
        self.assertNotIn("keep_large", text)
        same = self.tree(before, "--base", before)
        self.assertRegex(same, r"(?m)^no stack has changed$")

    def test_characters(self):
        path = self.dump(self.sites())
        for locale, found in (("C", False), ("C.UTF-8", True), ("de_DE.utf8", True)):
            with self.subTest(locale):
                result = lib.run_tool("report", path, "-f", "tree", env={"LC_ALL": locale})
                self.assertEqual("\u2514\u2500" in result.text, found, result.text)
                self.assertEqual("`-" in result.text, not found, result.text)

    def test_usage(self):
        path = fixture("5.3.0")
        for words, name in (
            (("--invert",), "--invert works only with the formats tree and flame"),
            (("--lines", "-f", "folded"), "--lines works only with the formats text and tree"),
            (("--sort", "cum", "-f", "tree"), "--sort works only with the formats text and json"),
            (("--sort", "size"), "must be one of flat, cum"),
        ):
            with self.subTest(words):
                result = lib.run_tool("report", path, *words)
                self.assertEqual(result.code, 2)
                self.assertIn(name, result.err)

    def test_deep_chain_of_a_library(self):
        """60,000 calls with the same amounts, whose long names do not fit on one line."""
        path = self.directory() + "/x.heap"
        calls = " ".join("%#x" % (0x100000 + 16 * i) for i in range(60000))
        with open(path, "w", encoding="ascii") as out:
            out.write("heap_v2/1\n@ %s\n  t*: 1: 8000 [0: 0]\n\nMAPPED_LIBRARIES:\n" % calls)
            out.write("1000-80000000 r-xp 0 08:02 1 /x/libc.so.%s\n" % ("a" * 60))
        self.assertRegex(self.tree(path), r"(?m)  \[truncated\] > 60000 more$")
        self.assertEqual(self.tree(path, "--no-fold").count("+0x"), 60000)


class Order(Case):
    def rows(self, *words):
        text = self.report(fixture("5.3.0"), "-q", "--unit", "B", "--rows", "0", *words)
        return [
            (int(match[1]), int(match[2]), match[3])
            for match in re.finditer(
                r"^ *(\d+) +[\d.]+% +[\d.]+% +(\d+) +[\d.]+% +\d+ +\d* +(\S.*)", text, re.M
            )
        ]

    def test_sort(self):
        flat, cum = self.rows("--sort", "flat"), self.rows("--sort", "cum")
        self.assertEqual(flat, self.rows())
        self.assertEqual(sorted(flat), sorted(cum))
        self.assertEqual([row[0] for row in flat], sorted((row[0] for row in flat), reverse=True))
        self.assertEqual([row[1] for row in cum], sorted((row[1] for row in cum), reverse=True))
        self.assertNotEqual(flat, cum)

    def test_lines(self):
        """The lines of a function add up to it: flat, and without recursion at least cum."""
        functions, lines = self.rows(), self.rows("--lines")
        self.assertEqual(sum(row[0] for row in functions), sum(row[0] for row in lines))
        self.assertTrue(any(re.search(r" \(\S+:\d+\)$", row[2]) for row in lines), lines)


if __name__ == "__main__":
    lib.main()
