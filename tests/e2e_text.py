"""report -f text: the largest stacks before the table, on terminals of several widths."""

import fcntl
import json
import os
import pty
import re
import struct
import termios

import lib
from e2e_report import Case, VERSIONS, fixture, require

STACK = re.compile(r"^ *(\d+) +([\d.]+)% +(\d+)  (\S.*)$")
CALL = re.compile(r"^ {30}(\S.*)$")
STYLE = re.compile(r"\x1b\[[0-9;]*m")


def stacks(text):
    """(bytes, objects, calls) of each stack before the table."""
    found = []
    for line in text.split("\n\n")[0].splitlines():
        if STACK.match(line):
            match = STACK.match(line)
            found.append((int(match[1]), int(match[3]), [match[4]]))
        elif CALL.match(line) and found:
            found[-1][2].append(CALL.match(line)[1])
    return found


class Summary(Case):
    def largest(self, path):
        """The same from JSON, where stacks with equal calls are separate."""
        report = json.loads(self.report(path, "-q", "--json", "--rows", "0"))
        sums = {}
        for stack in report["largest_stacks"]:
            calls = tuple((c["function"], c["file"], c["line"]) for c in stack["calls"])
            amount, objects = sums.get(calls, (0, 0))
            sums[calls] = (amount + stack["amount"], objects + stack["objects"])
        return sorted(sums.values(), reverse=True)[:3]

    def test_largest_stacks(self):
        for version in VERSIONS:
            with self.subTest(version):
                path = fixture(version)
                found = stacks(self.report(path, "-q", "--unit", "B"))
                self.assertEqual([stack[:2] for stack in found], self.largest(path))

    def test_known_program(self):
        path = self.dump(self.sites())
        found = stacks(self.report(path, "-q", "--unit", "B"))
        self.assertEqual(found[0][:2], (655360, 10))
        self.assertTrue(any(call.startswith("keep_large (sites.c:") for call in found[0][2]), found)

    def test_depth(self):
        path = self.dump(self.sites())
        few = stacks(self.report(path, "-q", "--unit", "B", "--depth", "1"))
        self.assertEqual(len(few[0][2]), 2, few)
        self.assertRegex(few[0][2][1], r"^and \d+ more calls? \(--depth 0 shows all\)$")
        every = stacks(self.report(path, "-q", "--unit", "B", "--depth", "0"))
        self.assertFalse(any("more call" in call for stack in every for call in stack[2]), every)
        self.assertIn("main (sites.c:", "\n".join(every[0][2]))

    def test_growth(self):
        process = self.sites()
        before = self.dump(process, "before.heap")
        self.grow(process)
        text = self.report(self.dump(process, "now.heap"), "-q", "--base", before, "--unit", "B")
        first = text.split("\n\n")[0]
        self.assertRegex(first, r"(?m)^ *growth +error +objects +stacks that grew most")
        self.assertRegex(first, r"(?m)^ *\+\d+ +\d+ +\+\d+ .*")
        self.assertIn("keep_small (sites.c:", first)
        self.assertNotIn("keep_large (sites.c:", first)


class Usage(Case):
    def test_usage(self):
        for words, wanted in (
            (("--focus", r"(a)\1"), "--focus is not a valid regular expression: Invalid back ref"),
        ):
            with self.subTest(words):
                result = lib.run_tool("report", fixture("5.3.0"), *words)
                self.assertEqual(result.code, 2)
                self.assertIn(wanted, result.err)


class Terminal(Case):
    def shown(self, columns, *words):
        """What the tool writes to a terminal."""
        main, side = pty.openpty()
        self.addCleanup(os.close, main)
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        result = lib.run_tool("report", "-q", *words, stdout=side, env={"LC_ALL": "C.UTF-8"})
        os.close(side)
        self.assertEqual(result.code, 0, result)
        text = b""
        while True:
            try:
                part = os.read(main, 65536)
            except OSError:  # EIO: all of it was read
                break
            if not part:
                break
            text += part
        return text.decode().replace("\r\n", "\n")

    def test_first_screen(self):
        """The sums and the largest stacks fit in 24 lines of 80 columns."""
        path = self.dump(self.sites())
        text = self.shown(80, path)
        first = text.split("\n\n")[0].splitlines()
        self.assertLessEqual(len(first), 22, text)
        self.assertIn("keep_large", "\n".join(first))
        for line in STYLE.sub("", text).splitlines():
            self.assertLessEqual(len(line), 80, text)

    def test_tree_fits(self):
        path = self.dump(self.sites())
        for columns in (80, 200):
            for words in ((), ("--invert",)):
                with self.subTest(columns=columns, words=words):
                    text = self.shown(columns, path, "-f", "tree", *words)
                    for line in STYLE.sub("", text).splitlines():
                        self.assertLessEqual(len(line), columns, text)
                    self.assertIn("\x1b[1m", text)
                    self.assertEqual(text.count("\x1b[0m"), len(re.findall(r"\x1b\[[12]m", text)))

    def test_wide(self):
        """All columns are shown where they have space, and in a file."""
        path = self.dump(self.sites())
        for text in (self.shown(200, path), self.report(path, "-q")):
            self.assertRegex(text, r"(?m)^ +flat +flat% +sum% +cum +cum% +objects +mean size")
        self.assertNotIn("sum%", self.shown(80, path))


if __name__ == "__main__":
    lib.main()
