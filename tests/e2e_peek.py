"""jeattach peek: how many objects of each kind a heap has, against a program that knows."""

import fcntl
import json
import os
import pty
import select
import shutil
import struct
import subprocess
import tempfile
import termios
import unittest

import lib

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "seeded", "objects.cpp")
# Of objects.cpp: kind, detail, size of the size class, objects.
KNOWN = [
    ("class", "Session", 48, 700000),
    ("class", "shop::Order<long>", 192, 300000),
    ("class", "shop::(anonymous namespace)::Cart", 48, 100000),
    ("text", "JSON", 80, 50000),
    ("zeros", None, 1024, 20000),
    ("random", None, 4096, 2000),
    ("text", "name", 8192, 100),
    ("absent", "never written", 1 << 20, 50),
]
DEVIATIONS = 4 / 1.96  # the printed error is 1.96 standard deviations; 4: 1 of 16,000 beyond
FEW = 2  # other objects of the same kind and size: of the C++ library, of stdio


class Peek(lib.TestCase):
    @classmethod
    def setUpClass(cls):
        if not shutil.which("g++"):
            raise unittest.SkipTest("g++ is not installed")
        place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(place.cleanup)
        cls.program = os.path.join(place.name, "objects")
        subprocess.run(["g++", "-O1", SOURCE, "-o", cls.program], check=True)

    def variant(self, *argv):
        program = os.path.join(self.directory(), "objects")
        subprocess.run([*argv, "-o", program], check=True)
        return program

    def core_of(self, process):
        if not shutil.which("gcore"):
            self.skipTest("gcore is not installed (package gdb)")
        path = os.path.join(self.directory(), "core")
        made = subprocess.run(["gcore", "-o", path, str(process.pid)], capture_output=True)
        self.assertEqual(made.returncode, 0, made.stderr)
        return "%s.%d" % (path, process.pid)

    def start(self, program=None):
        process = self.process(
            [program or self.program],
            env=lib.tool_environment({"LD_PRELOAD": "libjemalloc.so.2"}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def peek(self, process, *words):
        return self.assert_ran(lib.run_tool("peek", str(process.pid), *words))

    def assert_unchanged(self, process):
        process.stdin.close()
        self.assertEqual(process.stdout.readline(), b"ok\n")
        self.assertEqual(process.wait(), 0)

    def assert_counts(self, report, known=KNOWN):
        rows = {(row["kind"], row["detail"], row["size"]): row for row in report["rows"]}
        self.assertEqual(len(rows), len(report["rows"]))
        for kind, detail, size, objects in known:
            with self.subTest(kind=kind, detail=detail):
                row = rows[kind, detail, size]
                distance = abs(row["objects"] - objects)
                print("%s %s: %d +- %d" % (kind, detail, row["objects"], row["objects_error"]))
                self.assertLessEqual(distance, DEVIATIONS * row["objects_error"] + FEW)
                self.assertLess(row["objects_error"], objects / 10)
                self.assertAlmostEqual(row["bytes"], row["objects"] * size, delta=size)
        for key in ("objects", "bytes"):
            total = sum(row[key] for row in report["rows"])
            self.assertAlmostEqual(report[key], total, delta=len(rows) + 1)

    def test_counts(self):
        """Without MALLOC_CONF. A peek changes nothing: no page is made, no table of pages grows."""
        process = self.start()
        fields = ("VmRSS", "VmPTE", "VmSwap")
        state = lib.snapshot(process.pid)  # reads its code, which maps pages of files
        before = lib.status_fields(process.pid)
        report = json.loads(self.peek(process, "--json").text)
        after = lib.status_fields(process.pid)
        self.assert_counts(report)
        self.assertLessEqual(report["samples"], 20000)
        self.assertEqual((report["freed_samples"], report["unsettled"]), (0, 0))  # it sleeps
        self.assertLess(report["bytes_read"], 20000 * 512)
        self.assertEqual([before[key] for key in fields], [after[key] for key in fields])
        self.assertEqual(lib.snapshot_differences(process.pid, state), [])
        self.assert_unchanged(process)

    def test_stripped(self):
        """The names of classes are in their type information."""
        process = self.start(self.variant("strip", self.program))
        report = json.loads(self.peek(process, "--json").text)
        self.assert_counts(report)

    def test_without_type_information(self):
        """The names are those of symbols."""
        process = self.start(self.variant("g++", "-O1", "-fno-rtti", SOURCE))
        report = json.loads(self.peek(process, "--json").text)
        self.assert_counts(report, KNOWN[:3])

    def test_many_symbols_of_one_word(self):
        """A file may be made to have a symbol for each byte that contains all that follow."""
        assembly = os.path.join(self.directory(), "symbols.s")
        with open(assembly, "w") as file:
            file.write(".data\n.globl blob\nblob: .zero 500000\n")
            for i in range(400000):
                file.write(".type s%d,@object\n.set s%d,blob+%d\n.size s%d,900000\n"
                           % (i, i, i, i))
            file.write('.section .note.GNU-stack,"",@progbits\n')
        code = ("#include <stdio.h>\n#include <stdlib.h>\nextern char blob[];\nint main(void)\n{"
                "for (int i = 0; i < 10000; i++) {char **p = malloc(64); *p = blob + 400000 + i;}"
                "puts(\"ready\"); fflush(stdout); return getchar();}\n")
        source = os.path.join(self.directory(), "symbols.c")
        with open(source, "w") as file:
            file.write(code)
        program = self.variant("gcc", "-O0", source, assembly)
        process = self.start(program)
        report = json.loads(self.peek(process, "--json").text)  # it took more than a minute
        rows = [row for row in report["rows"] if (row["size"], row["kind"]) == (64, "type")]
        self.assertGreater(sum(row["objects"] for row in rows), 9000)

    def test_core(self):
        """Of a process that has ended; with a sample that takes all objects of most sizes, whose
        numbers are exact."""
        process = self.start()
        core = self.core_of(process)
        lib.end_process(process)
        words = ("peek", "--core", core, "--json", "--count", "300000")
        report = json.loads(self.assert_ran(lib.run_tool(*words)).text)
        rows = {(row["kind"], row["size"]): row for row in report["rows"]}
        blocks = rows["random", 4096]
        self.assertEqual((blocks["objects"], blocks["objects_error"]), (2000, 0))
        self.assert_counts(report, KNOWN[:-1])  # a core has zeros in place of what was not written

    def test_no_value_is_printed(self):
        process = self.start()
        for words in ([], ["--json"], ["--rows", "0"]):
            with self.subTest(words=words):
                result = self.peek(process, *words)
                text = result.text + result.err
                for secret in ("hunter2", "password", "terminal", b"hunter2".hex()):
                    self.assertNotIn(secret, text)
        self.assertRegex(
            self.peek(process, "--show-bytes").text,
            r'(?m)^ *8 KiB .*  text: name in the middle$\n( +0x\w+  "middle_of_buffermiddle_of_buffer"$\n){3}',
        )
        for words in (["--show-bytes"], ["--show-bytes", "--json"]):
            with self.subTest(words=words):
                out = self.peek(process, *words, "--rows", "0").out
                self.assertIn(b"hunter2", out)
                self.assertIn(b"terminal", out)
                controls = [byte for byte in out if byte < 0x20 and byte != 0x0A or byte == 0x7F]
                self.assertEqual(controls, [])
                self.assertNotIn(b"\x9b", out.replace(b"\xc2\x9b", b"\x9b"))
                self.assertNotIn("\u202e".encode(), out)
        self.assert_unchanged(process)

    def test_answer(self):
        process = self.start()
        lines = self.peek(process, "--rows", "2").text.splitlines()
        self.assertRegex(lines[0], r"^objects\[%d\]: \d+ MiB in 1\.2 million objects: " % process.pid)
        self.assertRegex(lines[0], r": 4\d % class shop::Order<long>, 2\d % class Session, ")
        self.assertRegex("\n".join(lines), r"\nnot in memory: 50(\.\d+)? MiB in \d\d objects, never written\n")
        self.assertEqual(lines[2].split(), ["SIZE", "OBJECTS", "+-", "BYTES", "SHARE", "WHAT"])
        self.assertRegex(lines[3], r"^192 B +\d{6} .* class shop::Order<long>$")
        self.assertRegex(lines[5], r"^and \d+ more rows: [\d.]+ MiB \(--rows 0 shows all\)$")

    def test_rows(self):
        """Rows of 0.0 % are shown only if --rows asks for them; the next step is one command."""
        process = self.start()
        text, all_rows = (self.peek(process, *words).text for words in ((), ("--rows", "0")))
        self.assertNotRegex(text, r"(?m) 0\.0 %  ")
        self.assertRegex(text, r"(?m)^and \d+ more rows?: ")
        self.assertRegex(all_rows, r"(?m) 0\.0 %  ")
        self.assertIn("\nnext: jeattach peek %d --show-bytes\n" % process.pid, text)
        self.assertIn(
            "\nnext: jeattach leak %d\n" % process.pid, self.peek(process, "--show-bytes").text
        )

    def test_columns(self):
        """A row with a long name of a class has 80 columns, with what its words are."""
        name = "Long" * 25
        source = os.path.join(self.directory(), "long.cpp")
        with open(source, "w") as file:
            file.write("#include <cstdio>\nnamespace ns { struct %s { virtual ~%s() {} long n[3] = {1, 2, 3};"
                       "}; }\nint main() { for (int i = 0; i < 20000; i++) new ns::%s; puts(\"ready\");"
                       "fflush(stdout); return getchar(); }\n" % (name, name, name))
        program = os.path.join(self.directory(), "long")
        subprocess.run(["g++", "-O1", source, "-o", program], check=True)
        process = self.start(program)
        lines = self.peek(process).text.splitlines()
        self.assertRegex("\n".join(lines), r"(?m)^ *32 B +20000 .* class ns::LongLong.*\.\.$")
        self.assertLessEqual(max(map(len, lines[1:])), 80, lines)

    def test_python(self):
        """Its objects are of the types that their second word points to."""
        if not os.path.exists("/usr/bin/python3"):
            self.skipTest("/usr/bin/python3 is not installed")
        lists, floats = 30000, 10000
        program = "k=[[i] for i in range(%d)],[i/3 for i in range(%d)];print('ready',flush=1);input()"
        process = self.process(
            ["/usr/bin/python3", "-c", program % (lists, floats)],
            env=lib.tool_environment({"LD_PRELOAD": "libjemalloc.so.2", "PYTHONMALLOC": "malloc"}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.assertEqual(process.stdout.readline(), b"ready\n")
        rows = json.loads(self.peek(process, "--json", "--rows", "0").text)["rows"]
        found = {}
        for row in rows:
            if row["kind"] == "class":
                found[row["detail"]] = found.get(row["detail"], 0) + row["objects"]
        self.assertAlmostEqual(found["list (Python)"], lists, delta=lists / 5)
        self.assertAlmostEqual(found["float (Python)"], floats, delta=floats / 3)

    def lines_on_terminal(self, process, columns):
        master, slave = pty.openpty()
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with open(slave, "wb") as terminal:
            subprocess.run([lib.TOOL, "peek", str(process.pid), "--rows", "0"], stdout=terminal, check=True)
            text = b""
            while select.select([master], [], [], 0)[0]:
                text += os.read(master, 1 << 16)
        os.close(master)
        return text.decode().splitlines()

    def test_terminal(self):
        """Lines are wrapped at the width of a terminal; a row continues below its last column, and
        what its signs mean is said."""
        process = self.start()
        lines = self.lines_on_terminal(process, 80)
        self.assertTrue(lines[0].startswith("objects[%d]: " % process.pid), lines)
        self.assertLessEqual(max(map(len, lines)), 80, lines)
        self.assertTrue(any("0 zero, x other" in line for line in lines), lines)
        self.assertTrue(any("text: JSON; 100 % share a beginning" in line for line in lines), lines)
        lines = self.lines_on_terminal(process, 72)
        self.assertGreater(len([line for line in lines if line.startswith(" " * 40)]), 0, lines)

    def test_refused(self):
        process = self.process(["sleep", "100"])
        self.assert_failed(lib.run_tool("peek", str(process.pid)), 5, "jemalloc")
        for samples in ("0", "300001", "x"):
            self.assertEqual(lib.run_tool("peek", "--count", samples, "1").code, 2)
        self.assertEqual(lib.run_tool("peek", "--rows", "x", "1").code, 2)


if __name__ == "__main__":
    lib.main()
