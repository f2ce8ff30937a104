"""report -f text: the largest stacks before the table, on terminals of several widths."""

import fcntl
import glob
import json
import os
import pty
import re
import shutil
import struct
import subprocess
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


class Listing(Case):
    LINE = re.compile(r"^ *(\d+|\.) +(\d+|\.) +(\d+)  ?(.*)$", re.M)

    def listing(self, path, pattern, *words):
        text = self.report(path, "-q", "--unit", "B", "--list", pattern, *words)
        return text, [
            [0 if n == "." else int(n) for n in match[:2]] + [int(match[2]), match[3]]
            for match in self.LINE.findall(text)
        ]

    def test_lines_of_a_program(self):
        """The numbers are at the lines of the source that allocate, and are those of the table."""
        path = self.dump(self.sites())
        text, lines = self.listing(path, "^(keep_large|make)$")
        source = lib.read_text(os.path.join(lib.ROOT, "tests", "victims", "sites.c")).splitlines()
        for _, _, number, shown in lines:
            self.assertEqual(shown.strip(), source[number - 1].strip())
        hot = [line for line in lines if line[0]]
        self.assertEqual([line[0] for line in hot], [64000 + 655360 + 20480 + 4096])
        self.assertIn("malloc(size)", hot[0][3])
        calls = [line for line in lines if not line[0] and line[1]]
        self.assertEqual([line[1] for line in calls], [655360])
        self.assertRegex(text, r"(?m)^keep_large in /.*/sites\.c$")

    def compiled(self, source):
        """A profile of a program that keeps 100 kB, and the path of its source."""
        require("cc", "gcc")
        directory = self.directory()
        path = os.path.join(directory, "keeps.c")
        with open(path, "w") as file:
            file.write(source)
        subprocess.run(["cc", "-g", "-O0", "-o", path[:-2], path], check=True, timeout=60)
        conf = "prof:true,prof_final:true,lg_prof_sample:0,prof_prefix:%s/x" % directory
        env = lib.tool_environment({"LD_PRELOAD": "libjemalloc.so.2", "MALLOC_CONF": conf})
        subprocess.run([path[:-2]], env=env, check=True, timeout=60)
        (heap,) = glob.glob(directory + "/x.*.heap")
        return heap, path

    def test_missing_source(self):
        """Without the file the lines are numbers; a shorter or a hostile one does no harm."""
        heap, path = self.compiled(
            "#include <stdlib.h>\nvoid *kept;\nvoid keep(void)\n{\n    kept = malloc(100000);\n}\n"
            "int main(void)\n{\n    keep();\n    return 0;\n}\n"
        )
        text, lines = self.listing(heap, "^keep$")
        hot = [[flat > 0, number, shown] for flat, _, number, shown in lines if flat]
        self.assertEqual(hot, [[True, 5, "    kept = malloc(100000);"]], text)
        self.assertTrue(any(line[2:] == [3, "void keep(void)"] for line in lines), text)
        os.unlink(path)
        text, lines = self.listing(heap, "^keep$")
        self.assertEqual([line[2:] for line in lines], [[5, ""]], text)
        self.assertIn("the source file is not here: No such file or directory", text)
        os.mkfifo(path)
        self.assertIn("the source file is not here: Invalid", self.listing(heap, "^keep$")[0])
        os.unlink(path)
        with open(path, "wb") as file:
            file.write(b"\x1b[31m red\n\0\n")
        text, lines = self.listing(heap, "^keep$")
        self.assertNotIn("\x1b", text)
        self.assertIn("this file has only 2 lines: it is another version", text)
        self.assertIn("no function of the profile matches --list", self.listing(heap, "nowhere")[0])

    def test_source_that_is_a_secret(self):
        """Whoever made the binary chose the path: no file of the host is read with --root, and
        none for root that not everybody may read."""
        secret = os.path.join(self.directory(), "shadow")
        with open(secret, "w") as file:
            file.write("a secret\n" * 9)
        heap, path = self.compiled(
            '#include <stdlib.h>\n#line 3 "%s"\nvoid *kept;\nvoid keep(void)\n{\n'
            "    kept = malloc(100000);\n}\nint main(void)\n{\n    keep();\n    return 0;\n}\n" % secret
        )
        self.assertIn("a secret", self.listing(heap, "^keep$")[0])
        root = self.directory()
        os.makedirs(root + os.path.dirname(path))
        shutil.copy(path[:-2], root + path[:-2])
        text, lines = self.listing(heap, "^keep$", "--root", root)
        self.assertEqual([line[2:] for line in lines], [[6, ""]], text)
        self.assertIn("the source file is not here: No such file", text)
        os.chmod(secret, 0o640)
        text, lines = self.listing(heap, "^keep$")
        if os.geteuid() == 0:
            self.assertEqual([line[2:] for line in lines], [[6, ""]], text)
            self.assertIn("the source file is not shown: not everybody may read it", text)
        else:
            self.assertIn("a secret", text)

    def test_usage(self):
        for words, wanted in (
            (("--list", "x", "-f", "tree"), "--list works only with the format text"),
            (("--focus", r"(a)\1"), "--focus is not a valid regular expression: Invalid back ref"),
            (("--list", "("), "--list is not a valid regular expression"),
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
