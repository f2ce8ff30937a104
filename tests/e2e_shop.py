"""Programs of C++ and Rust that leak through their standard libraries (tests/shop): the first row of
`report`, `leak` and `top` names the program's own function, not the library's.
"""

import concurrent.futures
import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import termios

import lib

# A name that is too long for a column loses its start.
OWN = r" (shop::in_|\.\.[\w:]*)MODE::remember"
SOURCES = os.path.join(lib.ROOT, "tests", "shop")
ESCAPES = re.compile(r"\033\[[?\d;]*\w|\r")


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise lib.unittest.SkipTest("%s is not installed" % program)


def after(text, heading, distance=1):
    """Returns the line at a distance from the first one that matches."""
    lines = text.splitlines()
    for number, line in enumerate(lines[:-distance]):
        if re.search(heading, line):
            return lines[number + distance]
    raise AssertionError("no %s in %s" % (heading, text))


class Shop(lib.TestCase):
    def build(self, compiler, source, *options):
        need(compiler)
        program = os.path.join(self.directory(), "program")
        done = subprocess.run(
            [compiler, *options, os.path.join(SOURCES, source), "-o", program],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if done.returncode and "-stdlib=libc++" in options and "not found" in done.stderr:
            raise lib.unittest.SkipTest("the headers of libc++ are not installed")
        self.assertEqual(done.returncode, 0, done.stderr)
        return program

    def start(self, program, mode):
        conf = lib.malloc_conf(self.directory(), 10) + ",prof_active:true"
        preload = {"MALLOC_CONF": conf, "LD_PRELOAD": "libjemalloc.so.2"}
        process = self.process(
            [program, mode], stdout=subprocess.PIPE, env=lib.tool_environment(preload)
        )
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def on_terminal(self, *words):
        """Returns what the tool prints on a terminal of 80 columns."""
        master, slave = pty.openpty()
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        tool = subprocess.Popen(
            [lib.TOOL, *words],
            stdin=subprocess.DEVNULL,
            stdout=slave,
            stderr=subprocess.DEVNULL,
            env=lib.tool_environment({"TERM": "xterm"}),
        )
        os.close(slave)
        text = b""
        try:
            while True:
                text += os.read(master, 1 << 16)
        except OSError:  # the other end is closed
            pass
        os.close(master)
        self.assertEqual(tool.wait(), 0, text)
        return ESCAPES.sub("", text.decode())

    def rows(self, process):
        """Returns the first rows of each view, by name."""
        heap = os.path.join(self.directory(), "x.heap")
        self.assert_ran(lib.run_tool("dump", process.pid, "-o", heap))
        report = self.assert_ran(lib.run_tool("report", heap)).text
        leak = self.assert_ran(
            lib.run_tool("leak", process.pid, "-d", "500ms", "--settle", "10ms")
        ).text
        screen = self.on_terminal("top", "--once", str(process.pid))
        self.assertLessEqual(max(len(line) for line in screen.split("\n")), 80, screen)
        return heap, {
            "largest stack": after(report, "largest stacks"),
            "table": after(report, r"flat%"),
            "leak": after(leak, r"trend +stack"),
            "top": after(screen, "site, of"),
        }

    def look(self, program, mode):
        """Returns the mode, the first rows, and that of the table without folding."""
        process = self.start(program, mode)
        heap, rows = self.rows(process)
        lib.end_process(process)
        whole = self.assert_ran(lib.run_tool("report", heap, "--no-fold")).text
        return mode, rows, after(whole, "flat%")

    def check(self, program, modes, own, library):
        """own: the function that leaks; library: what is the innermost without folding."""
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            looks = list(pool.map(lambda mode: self.look(program, mode), modes))
        for mode, rows, whole in looks:
            with self.subTest(mode=mode):
                for view, row in rows.items():
                    self.assertRegex(row, own.replace("MODE", mode), view)
                self.assertRegex(whole, library)

    def modes(self, program):
        done = subprocess.run([program], stdout=subprocess.PIPE, text=True)
        modes = done.stdout.split()
        self.assertGreater(len(modes), 8)
        return modes

    def check_cpp(self, compiler, *options):
        words = ("-std=c++20", "-O2", "-g", "-pthread", *options)
        program = self.build(compiler, "shop.cc", *words)
        modes = self.modes(program)
        modes.remove("vector")  # its function is inlined into remember
        modes.remove("coroutine")  # its frame is allocated by the function itself
        library = r" std::| __gnu_cxx::"
        self.check(program, modes, OWN, library)
        self.check(program, ["vector"], r" shop::Shelf::put", library)
        self.check(program, ["coroutine"], OWN, r"remember_order")

    def test_gcc(self):
        self.check_cpp("g++")

    def test_libcxx(self):
        self.check_cpp("clang++", "-stdlib=libc++")

    def test_rust(self):
        words = ("--edition", "2021", "-O", "-g")
        program = self.build("rustc", "shop.rs", *words)
        library = r" (alloc|core|std|hashbrown)::|__rust_alloc|__rdl_alloc"
        self.check(program, self.modes(program), OWN, library)


if __name__ == "__main__":
    lib.main()
