"""Files whose symbols or debug information crash, hang or bloat whoever reads them.

A child of the tool reads them. The module loses these names, the tool says so, and all other
modules keep theirs.
"""

import os
import platform
import signal
import struct
import subprocess
import time
import unittest

import lib

MEMORY = 500 << 20
BASE, STEP = 0x7F0000000000, 0x10000000

FUNCTION = """
.globl "%s"
.type "%s",@function
"%s": .fill 64,1,0x90
.size "%s",64
"""
# The same with frames that an unwinder follows: the function calls the one that it is given.
CALLER = """
.globl "%s"
.type "%s",@function
.p2align 6
"%s":
.cfi_startproc
push %%rbp
.cfi_def_cfa_offset 16
.cfi_offset %%rbp,-16
mov %%rsp,%%rbp
.cfi_def_cfa_register %%rbp
call *%%rdi
pop %%rbp
.cfi_def_cfa %%rsp,8
ret
.cfi_endproc
.p2align 6
.size "%s",64
"""
NO_STACK = '.section .note.GNU-stack,"",@progbits\n'
# A unit of one function, whose abbreviation is followed by others and their entries.
DEBUG = """
.section .debug_abbrev,"",@progbits
.byte 1,0x11,%(children)d,0x03,0x08,0x10,0x17,0x11,0x01,0x12,0x07,0,0
%(abbreviations)s
.byte 0
.section .debug_info,"",@progbits
.long 2f-1f
1: .value 4
.long 0
.byte 8,1
.asciz "bomb.c"
.long 0
.quad bomb
.quad 64
%(entries)s
2:
.section .debug_line,"",@progbits
.long 6f-3f
3: .value 4
.long 5f-4f
4: .byte 1,1,1,-5,14,13,0,1,1,1,1,0,0,0,1,0,0,1
.byte 0
.asciz "bomb.c"
.byte 0,0,0,0
5: .byte 0,9,2
.quad bomb
.fill %(rows)d,1,0x12
.byte 0,1,1
6:
"""


TEMPLATES = "_Z1fI" + "1aI" * 799 + "i" + "E" * 800 + "v" + "RT_" * 1000
LIFETIMES = "_RC0IC0FGzzzzzzzz_EuE"


class Case(lib.TestCase):
    function = FUNCTION

    def setUp(self):
        super().setUp()
        self.folder = self.directory()
        self.good = self.library("good", ["_ZN4good4nameEv"])

    def library(self, name, functions, debug="", compress=False):
        source, library = (os.path.join(self.folder, name + end) for end in (".s", ".so"))
        with open(source, "w", encoding="ascii") as out:
            out.write(".text\n" + "".join(self.function % ((f,) * 4) for f in functions) + debug)
            out.write(NO_STACK)
        subprocess.run(["gcc", "-shared", "-nostdlib", "-o", library, source], check=True)
        if compress:
            subprocess.run(["objcopy", "--compress-debug-sections=zlib", library], check=True)
        return library

    def put_symbols(self, library, count, name, step=0):
        """Gives a library a symbol table of so many symbols, all with one name; or each of the
        next 64 bytes, with a name that begins so many bytes later."""
        def symbol(i):
            return struct.pack("<IBBHQQ", 1 + i * step, 0x12, 0, 1, 0x1000 + 64 * i * bool(step), 64)

        with open(library, "rb") as file:
            data = bytearray(file.read())
        headers, = struct.unpack_from("<Q", data, 0x28)
        number, = struct.unpack_from("<H", data, 0x3C)
        for at in range(headers, headers + 64 * number, 64):
            kind, = struct.unpack_from("<I", data, at + 4)
            if kind == 2:  # SHT_SYMTAB
                link, = struct.unpack_from("<I", data, at + 40)
                struct.pack_into("<QQ", data, headers + 64 * link + 24, len(data), len(name) + 2)
                struct.pack_into("<QQ", data, at + 24, len(data) + len(name) + 2, 24 * count)
        with open(library, "wb") as file:
            file.write(data + b"\0" + name + b"\0")
            if name:
                file.write(b"".join(map(symbol, range(count))) if step else symbol(0) * count)
            file.truncate(len(data) + len(name) + 2 + 24 * count)

    def interrupt_in_child(self, tool):
        """One Ctrl-C suffices, while a child of the tool reads."""
        self.addCleanup(lib.end_process, tool)
        children = "/proc/%d/task/%d/children" % (tool.pid, tool.pid)
        self.assertTrue(lib.wait_until(lambda: lib.read_text(children)))
        time.sleep(0.1)
        tool.send_signal(signal.SIGINT)
        _, err = tool.communicate(timeout=60)
        self.assertEqual(tool.returncode, lib.INTERRUPTED, err)

    def bomb(self, name, rows=1, abbreviations="", entries="", compress=False):
        parts = {"rows": rows, "abbreviations": abbreviations, "entries": entries,
                 "children": int(bool(entries))}
        return self.library(name, ["bomb", "honest_" + name], DEBUG % parts, compress)

    def attributes(self, name="attributes"):
        """An abbreviation of many attributes without a size, and entries that have it."""
        many = ".byte 2,0x2e,0\n.rept 200000\n.byte 0x3f,0x19\n.endr\n.byte 0,0"
        return self.bomb(name, abbreviations=many, entries=".fill 1000000,1,2\n.byte 0")


class Bombs(Case):
    def heap(self, *libraries):
        """Writes a profile with one stack for each function."""
        stacks, maps = [], []
        for number, library in enumerate(libraries):
            headers = subprocess.run(["readelf", "-lW", library], check=True, capture_output=True,
                                     text=True).stdout.splitlines()
            code = next(line.split() for line in headers if "LOAD" in line and " R E " in line)
            offset, address, size = (int(code[i], 16) for i in (1, 2, 4))
            base = BASE + number * STEP
            stacks += [base + at + 5 for at in range(address, address + size, 64)]
            start, end = (base + address) & ~0xFFF, (base + address + size + 0xFFF) & ~0xFFF
            maps.append("%x-%x r-xp %08x 00:00 0 %s" % (start, end, offset & ~0xFFF, library))
        path = os.path.join(self.folder, "bombs.heap")
        with open(path, "w", encoding="ascii") as out:
            out.write("heap_v2/524288\n  t*: %d: %d [0: 0]\n" % (len(stacks), len(stacks) << 10))
            out.writelines("@ %#x\n  t*: 1: 1024 [0: 0]\n" % stack for stack in stacks)
            out.write("\nMAPPED_LIBRARIES:\n" + "\n".join(maps) + "\n")
        return path

    def report(self, *libraries):
        """Returns the report; it ends by itself, and neither it nor a child of it is large."""
        path = self.heap(*libraries, self.good)
        out = os.path.join(self.folder, "out")
        with open(out, "wb") as sink:
            tool = subprocess.Popen([lib.TOOL, "report", path, "--rows", "0"], stdout=sink, stderr=sink,
                                    env=lib.tool_environment())
        self.addCleanup(self.end, tool)
        _, status, usage = os.wait4(tool.pid, 0)
        tool.returncode = os.waitstatus_to_exitcode(status)
        text = lib.read_text(out)
        self.assertEqual(tool.returncode, lib.OK, text)
        self.assertLess(usage.ru_maxrss << 10, MEMORY)
        self.assertIn("good::name", text)
        return text

    def end(self, tool):
        if tool.returncode is None:
            tool.kill()
            tool.wait()

    def test_reference_to_itself(self):
        text = self.report(self.library("self", ["_RB_", "_RNvB_1a", "honest"]))
        self.assertIn("honest", text)
        self.assertIn("_RB_", text)

    def test_endless_lifetimes(self):
        text = self.report(self.library("many", [LIFETIMES, "honest"]))
        self.assertIn("honest", text)

    def test_templates(self):
        text = self.report(self.library("templates", [TEMPLATES, "honest"]))
        self.assertIn("honest", text)

    def test_perf_map(self):
        names = ("_RB_", "_RNvB_1a", "_Z3foov")
        path, names_of = (os.path.join(self.folder, name) for name in ("jit.heap", "jit.map"))
        with open(path, "w", encoding="ascii") as out:
            out.write("heap_v2/524288\n  t*: 3: 3072 [0: 0]\n")
            out.writelines("@ %#x\n  t*: 1: 1024 [0: 0]\n" % (0x10005 + 0x10000 * i)
                           for i in range(len(names)))
            out.write("\nMAPPED_LIBRARIES:\n10000-90000 rwxp 00000000 00:00 0 \n")
        with open(names_of, "w", encoding="ascii") as out:
            out.writelines("%x 100 %s\n" % (0x10000 + 0x10000 * i, name)
                           for i, name in enumerate(names))
        text = self.assert_ran(lib.run_tool("report", "--perf-map", names_of, path)).text
        self.assertIn("_RB_", text)
        self.assertIn("_RNvB_1a", text)
        self.assertRegex(text, r"(?m) foo$")

    def long_names(self):
        """A profile of 240,000 calls, and a perf map with a dozen names of 60 KB for them."""
        path, names_of = (os.path.join(self.folder, name) for name in ("jit.heap", "jit.map"))
        size, names = 0x1000000, 12
        calls = [0x10000000 + size * (i % names) + i * 8 for i in range(20000)]
        with open(path, "w", encoding="ascii") as out:
            out.write("heap_v2/524288\n  t*: 4000: 4096000 [0: 0]\n")
            for i in range(4000):
                out.write("@" + "".join(" %#x" % calls[(i * 61 + k * 7) % len(calls)]
                                        for k in range(60)) + "\n  t*: 1: 1024 [0: 0]\n")
            out.write("\nMAPPED_LIBRARIES:\n10000000-90000000 rwxp 00000000 00:00 0 \n")
        with open(names_of, "w", encoding="ascii") as out:
            out.writelines("%x %x f%d_%s\n" % (0x10000000 + size * i, size, i, "x" * 61000)
                           for i in range(names))
        return "report", "--perf-map", names_of, path

    def test_long_names(self):
        """Of each name there is one copy, and 1 KiB is shown."""
        for name in ("text", "folded", "json", "flame"):
            with self.subTest(name):
                tool = subprocess.Popen([lib.TOOL, *self.long_names(), "-f", name],
                                        stdout=subprocess.PIPE, env=lib.tool_environment())
                self.addCleanup(self.end, tool)
                size = 0
                for piece in iter(lambda: tool.stdout.read(1 << 20), b""):
                    size += len(piece)
                    self.assertNotIn(b"x" * 1024, piece)
                    self.assertLess(size, 1 << 28)
                tool.stdout.close()
                _, status, usage = os.wait4(tool.pid, 0)
                tool.returncode = os.waitstatus_to_exitcode(status)
                self.assertEqual(tool.returncode, lib.OK)
                self.assertLess(usage.ru_maxrss << 10, 128 << 20)

    def test_long_symbols(self):
        """A symbol table of 20,000 names, each but the first the end of another one."""
        library = self.library("ends", ["honest"], ".fill 1280000,1,0x90\n")
        self.put_symbols(library, 20000, b"x" * 60000, 1)
        text = self.report(library)
        self.assertIn("x" * 64, text)
        self.assertNotIn("too much", text)

    def test_interrupted_output(self):
        """Ctrl-C ends a wait for whoever reads the output."""
        tool = subprocess.Popen([lib.TOOL, *self.long_names(), "-f", "folded"],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                env=lib.tool_environment())
        self.addCleanup(tool.stdout.close)
        self.addCleanup(self.end, tool)
        tool.stdout.read(1)
        tool.send_signal(signal.SIGINT)
        self.assertEqual(tool.wait(timeout=60), lib.INTERRUPTED)

    def test_rows(self):
        """A compressed line table of 40 KB, of 28 million rows."""
        text = self.report(self.bomb("rows", rows=28000000, compress=True))
        self.assertIn("its debug information is not shown: it needs too much memory", text)
        self.assertIn("honest", text)

    def test_attributes(self):
        text = self.report(self.attributes())
        self.assertIn("its debug information is not shown: it needs too much time", text)
        self.assertIn("honest", text)

    def test_interrupted(self):
        path = self.heap(self.attributes(), self.good)
        self.interrupt_in_child(lib.Process([lib.TOOL, "report", path], stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE, env=lib.tool_environment()))


@unittest.skipUnless(platform.machine() == "x86_64", "its functions are written for x86-64")
class Live(Case):
    """A process that has mapped such libraries, with memory that their functions allocated."""

    function = CALLER

    def start(self, *libraries):
        """Each is a path and the functions to call."""
        words = [word for path, *functions in libraries for word in (path, *functions)]
        carrier = self.process(
            [os.path.join(lib.VICTIMS, "carrier"), *words], stdout=subprocess.PIPE,
            env=lib.tool_environment({"MALLOC_CONF": "prof:true,prof_active:true,lg_prof_sample:9"}))
        self.assertEqual(carrier.stdout.readline(), b"ready\n")
        return carrier

    def run_on(self, carrier, *words):
        """Runs the tool to its end, and finds the process as it was."""
        result = self.assert_ran(lib.run_tool(*words, carrier.pid))
        self.assertIsNone(carrier.poll())
        self.assertEqual(lib.tracer_of(carrier.pid), 0)
        return result

    def test_verbs(self):
        """None crashes, hangs, or loses the names of others."""
        names = ("_RB_", "_RNvB_1a", LIFETIMES, TEMPLATES, "honest")
        carrier = self.start((self.library("names", names), *names),
                             (self.good, "_ZN4good4nameEv"))
        for words in (("explain",), ("leak", "-d", "500ms"),
                      ("leak", "--faults", "-d", "500ms"), ("frag",),
                      ("peek",), ("top", "--once"), ("dump", "-f", "folded"),
                      ("record", "-d", "100ms", "-f", "text", "-o", "-")):
            text = self.run_on(carrier, *words).text
            if words[0] in ("leak", "top", "dump", "record") and "--faults" not in words:
                self.assertIn("good::name", text, words)
                self.assertIn("honest", text, words)

    def test_fair(self):
        """The deadline is no reason for a module to take the time of all others."""
        names = ["many%d" % i for i in range(4)]
        carrier = self.start(*((self.attributes(name), "bomb", "honest_" + name)
                               for name in names), (self.good, "_ZN4good4nameEv"))
        result = self.run_on(carrier, "dump", "-f", "folded", "--timeout", "10s")
        for name in names:
            self.assertIn("honest_" + name, result.text)
            self.assertIn(name + ".so: its debug information is not shown: it needs too much time",
                          result.err)
        self.assertIn("good::name", result.text)

    def test_explain(self):
        """A table whose names take longer than there is time."""
        library = self.library("long", ["honest"])
        self.put_symbols(library, 1 << 20, b"x" * 60000)
        carrier = self.start((library, "honest"), (self.good, "_ZN4good4nameEv"))
        result = self.run_on(carrier, "explain", "--timeout", "3s")
        self.assertLess(result.seconds, 8)
        self.assertRegex(result.err, r"long\.so: the rest of its names is not shown: there was no "
                                     r"time left|long\.so: .* it needs too much (time|memory)")
        self.interrupt_in_child(lib.Process([lib.TOOL, "explain", str(carrier.pid)],
                                            env=lib.tool_environment(), stdout=subprocess.PIPE,
                                            stderr=subprocess.PIPE))

    def test_peek(self):
        """Symbol tables of 800 MB each: the answer comes without the names that took too long."""
        libraries = [self.library("many%02d" % i, ["f"]) for i in range(16)]
        for library in libraries:
            self.put_symbols(library, 32 << 20, b"")
        carrier = self.start(*((library, "f") for library in libraries))
        result = self.run_on(carrier, "peek", "--timeout", "1s")
        if "some types have no names" not in result.text:
            self.assertLess(result.seconds, 2)


if __name__ == "__main__":
    lib.main()
