"""Names of code that a process has made at run time, from its perf map: of a known program whose
map a test writes, and of Java.
"""

import json
import os
import re
import shutil
import subprocess
import time

import lib

JIT = os.path.join(lib.VICTIMS, "jit")
CONF = "prof:true,lg_prof_sample:0"
SIZE = 64  # of a function of jit.c
# /tmp of its own, in a pid namespace of its own.
APART = [
    *("unshare", "--pid", "--fork", "--kill-child", "--mount-proc"),
    *("sh", "-c", 'exec 9<"$1" && mount -t tmpfs none /tmp && exec /proc/self/fd/9', "sh"),
]


NODE_HEAP = """heap_v2/1
@ 0x7f31d8ecb201 0x7f31d8ecb001 0x7f31d8ecb501
  t*: 1: 8 [0: 0]
@ 0x7f31d8ecb301 0x7f31d8ecb401 0x7f31d8ecb501
  t*: 1: 8 [0: 0]
@ 0x18c4001
  t*: 1: 2 [0: 0]

MAPPED_LIBRARIES:
7f31d8e80000-7f31d8f00000 rwxp 00000000 00:00 0
"""
NODE_MAP = """18c4000 300 Builtin:Call
7f31d8ecb000 46 JS:*handle /app/leak it.js:3:16
7f31d8ecb200 c0 JS:~leak /app/leak it.js:2:21
7f31d8ecb300 c0 JS:*leak /app/leak it.js:2:21
7f31d8ecb400 46 LazyCompile:^handle /app/leak it.js:3
7f31d8ecb4c0 534 JS:* /app/leak it.js:4:13
"""


class Process:
    """jit.c, and the path of its perf map as the tool can open it."""

    def __init__(self, case, before=(), program=JIT, **options):
        case.map = self
        self.process = case.process(
            [*before, program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=lib.tool_environment({"MALLOC_CONF": CONF}),
            **options,
        )
        line = self.process.stdout.readline().split()
        if not line:
            raise lib.unittest.SkipTest("unshare --pid is not permitted")
        self.slots = [int(word, 16) for word in line[1:]]
        self.pid = self.process.pid
        while os.path.basename(os.readlink("/proc/%d/exe" % self.pid)) != os.path.basename(
            program
        ):
            with open("/proc/%d/task/%d/children" % (self.pid, self.pid)) as file:
                self.pid = int(file.read().split()[0])
        with open("/proc/%d/status" % self.pid) as file:
            inner = re.search(r"^NSpid:.*\t(\d+)$", file.read(), re.M)[1]
        self.inner = int(inner)
        self.path = "/proc/%d/root/tmp/perf-%s.map" % (self.pid, inner)
        if not before:
            case.addCleanup(self.remove)

    def remove(self):
        path = "/tmp/perf-%d.map" % self.inner
        if os.path.isdir(path):
            os.rmdir(path)
        elif os.path.lexists(path):
            os.unlink(path)

    def call(self, slot):
        self.process.stdin.write(b"%d" % slot)
        self.process.stdin.flush()
        assert self.process.stdout.readline() == b"done\n"

    def line(self, slot, name, form="%x %x %s\n"):
        return form % (self.slots[slot], SIZE, name)

    def write(self, *lines, mode="w"):
        with open(self.path, mode) as file:
            file.write("".join(lines))


class Case(lib.TestCase):
    def folded(self, pid, *words):
        result = self.assert_ran(lib.run_tool("dump", pid, "-f", "folded", *words))
        return [line.rsplit(" ", 1)[0] for line in result.text.splitlines()], result.err

    def callers(self, pid):
        """Returns the calls of keep()."""
        stacks, _ = self.folded(pid)
        found = [re.match(r"(?:.*;)?([^;]+);keep$", stack) for stack in stacks]
        return sorted(match[1] for match in found if match)


class Known(Case):
    def test_names(self):
        """Unsorted, with 0x and without, with blanks; the last of several lines; not a line that
        has no end."""
        jit = Process(self)
        for slot in range(4):
            jit.call(slot)
        unnamed = self.callers(jit.pid)
        self.assertTrue(all("+0x" in name for name in unnamed), unnamed)
        jit.write(
            "rubbish\n",
            jit.line(3, "Function:~d /app/a b.js:1:2"),
            jit.line(0, "old"),
            jit.line(2, "_ZN3jit4loopEv", "0x%016x 0x%016x %s\n"),
            "%x %x every thing\n" % (jit.slots[0], 2 * SIZE),
            jit.line(0, "JS:*a"),
            "%x %x after\n" % (jit.slots[3] + SIZE, SIZE),
            jit.line(0, "cut").rstrip("\n"),
        )
        names = ["JS:*a", "d", "every thing", "jit::loop()"]
        self.assertEqual(self.callers(jit.pid), names)

    def test_one_row_without_names(self):
        """Tables have no row for each address; what is for other tools keeps them."""
        jit = Process(self)
        for slot in (0, 1, 2, 3, 3):
            jit.call(slot)
        made = "JIT code (no name)"
        table = self.assert_ran(lib.run_tool("dump", jit.pid, "-f", "text", "--unit", "B")).text
        self.assertEqual(len(re.findall(r"(?m)^ +5\d{5} .*keep", table)), 2, table)  # a stack, a function
        self.assertEqual(table.count(made), 1, table)
        self.assertNotIn("anon]+0x", table)
        tree = self.assert_ran(lib.run_tool("dump", jit.pid, "-f", "tree")).text
        self.assertEqual(tree.count(made), 1, tree)
        whole = self.assert_ran(lib.run_tool("dump", jit.pid, "-f", "tree", "--full-names")).text
        self.assertEqual((whole.count("[anon]+0x"), whole.count(made)), (4, 0), whole)
        self.assertEqual(len(set(self.callers(jit.pid))), 4)
        jit.write(*(jit.line(slot, name) for slot, name in enumerate(("f", "f", "g", "g"))))
        tree = self.assert_ran(lib.run_tool("dump", jit.pid, "-f", "tree")).text
        self.assertEqual(len(re.findall(r"(?m) [fg]$", tree)), 2, tree)

    def test_own_namespaces(self):
        """The pid in the name is that of its pid namespace, and /tmp is that of its root."""
        jit = Process(self, APART)
        self.assertNotEqual(jit.inner, jit.pid)
        jit.call(1)
        jit.write(jit.line(1, "inside"))
        self.assertEqual(self.callers(jit.pid), ["inside"])
        path = "/proc/%d/root/tmp/x.%d.0.m0.heap" % (jit.pid, jit.inner)
        for name, expected in ((path, "inside"), (path.replace("x.", "x.9"), "+0x")):
            self.assert_ran(lib.run_tool("dump", jit.pid, "-o", name))
            text = self.assert_ran(lib.run_tool("report", name, "-f", "folded")).text
            self.assertIn(expected, text)

    def test_what_would_name_it(self):
        """By the run-time system that is there, which the name of its program shows."""
        node = os.path.join(self.directory(), "node")
        shutil.copy(JIT, node)
        for program, hint in (
            (node, "JIT code has no names (1 of 1 addresses); start it with --perf-basic-prof"),
            (JIT, "code without a file has no names (1 of 1 addresses): it is of a JIT compiler"),
        ):
            jit = Process(self, program=program)
            jit.call(0)
            _, err = self.folded(jit.pid)
            self.assertIn(hint, err)

    def test_report(self):
        jit = Process(self)
        jit.call(0)
        heap, names = (os.path.join(self.directory(), name) for name in ("x.heap", "names"))
        self.assert_ran(lib.run_tool("dump", jit.pid, "-o", heap))
        with open(names, "w") as file:
            file.write(jit.line(0, "named"))
        result = self.assert_ran(lib.run_tool("report", heap, "-f", "folded"))
        self.assertNotIn("named", result.text)
        self.assertIn("not in a perf map", result.err)
        result = self.assert_ran(lib.run_tool("report", heap, "-f", "folded", "--perf-map", names))
        self.assertRegex(result.text, r"(?m)^named;keep \d+$")
        self.assertNotIn("perf map", result.err)
        for path, reason in (("/nonexistent", "No such file"), ("/dev/null", "regular")):
            result = lib.run_tool("report", heap, "--perf-map", path)
            self.assert_failed(result, lib.USAGE, "--perf-map", reason)

    def test_grows(self):
        """top looks up the code that was made after its first refresh. What had a name keeps it: its
        samples would seem to grow under another one."""
        jit = Process(self)
        jit.write(jit.line(0, "first"))
        jit.call(0)
        top = self.process(
            [lib.TOOL, "top", str(jit.pid), "--every", "500ms", "--count", "6", "--json"],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.assertIn('"first"', top.stdout.readline())
        jit.write(jit.line(1, "second"), jit.line(0, "moved"), mode="a")
        jit.call(1)
        rest = top.stdout.readlines()
        self.assertIn('"second"', rest[-1])
        self.assertIn('"first"', rest[-1])
        self.assertNotIn('"moved"', rest[-1])

    def test_node_names(self):
        """What node --perf-basic-prof of version 20 writes: one function has several names."""
        directory = self.directory()
        heap, names = (os.path.join(directory, name) for name in ("x.heap", "names"))
        with open(heap, "w") as file:
            file.write(NODE_HEAP)
        with open(names, "w") as file:
            file.write(NODE_MAP)
        words = ("report", heap, "--perf-map", names)
        folded = self.assert_ran(lib.run_tool(*words, "-f", "folded")).text
        self.assertEqual(folded, "Builtin:Call 2\n(anonymous leak it.js:4);handle;leak 16\n")
        table = self.assert_ran(lib.run_tool(*words, "--unit", "B")).text
        self.assertRegex(table, r" 16 .* leak\n")
        report = json.loads(self.assert_ran(lib.run_tool(*words, "-f", "json")).text)
        calls = [(c["function"], c["file"], c["line"]) for c in report["largest_stacks"][0]["calls"]]
        self.assertEqual(calls[0], ("leak", "/app/leak it.js", 2))
        self.assertEqual(calls[2], ("(anonymous leak it.js:4)", "/app/leak it.js", 4))

    def unused(self, jit, *reasons):
        _, err = self.folded(jit.pid)
        self.assertTrue(all("+0x" in name for name in self.callers(jit.pid)))
        for reason in reasons:
            self.assertIn(reason, err)

    def test_hostile_files(self):
        """A FIFO does not block, a device is not opened, and no link leads out of the root."""
        jit = Process(self, APART)
        jit.call(0)
        names = os.path.join(self.directory(), "names")
        with open(names, "w") as file:
            file.write(jit.line(0, "outside"))
        makers = (
            lambda path: os.mkfifo(path),
            lambda path: os.mkdir(path),
            lambda path: os.mknod(path, 0o20644, os.makedev(1, 5)),
            lambda path: os.symlink("/proc/1/root/../../.." + names, path),
            lambda path: os.symlink(os.path.basename(path), path),
        )
        for make in makers:
            make(jit.path)
            self.unused(jit)
            (os.rmdir if os.path.isdir(jit.path) else os.unlink)(jit.path)
        jit.write(jit.line(0, "of another"))
        os.chown(jit.path, 12345, 12345)
        self.unused(jit, "it belongs to another user")

    def test_hostile_texts(self):
        """Sparse and binary files, control characters, and a name for all addresses."""
        jit = Process(self)
        jit.call(0)
        jit.write("0 ffffffffffffffff all \x1b[31m\x07 of it\n")
        self.assertEqual(self.callers(jit.pid), ["all ?[31m? of it"])
        with open(jit.path, "wb") as file:
            file.write(os.urandom(1 << 20))
            file.truncate(1 << 30)
        start = time.monotonic()
        self.unused(jit)
        self.assertLess(time.monotonic() - start, 60)


JAVA = """
public class Grow {
    static java.util.List<Object> keep = new java.util.ArrayList<>();
    static void grow(int n) {
        for (int i = 0; i < n; i++) keep.add(java.nio.ByteBuffer.allocateDirect(2000));
    }
    public static void main(String[] words) throws Exception {
        for (int i = 0; i < 6000; i++) grow(5);
        System.out.println("ready");
        Thread.sleep(100000);
    }
}
"""


class Runtimes(Case):
    """jemalloc's unwinder ends at the first call of generated code, which is named."""

    def start(self, name, text, *argv):
        if not shutil.which(argv[0]):
            raise lib.unittest.SkipTest("%s is not installed" % argv[0])
        home = self.directory()
        with open(os.path.join(home, name), "w") as file:
            file.write(text)
        env = {"MALLOC_CONF": "prof:true,lg_prof_sample:12", "LD_PRELOAD": "libjemalloc.so.2"}
        process = self.process(
            [*argv, name], stdout=subprocess.PIPE, cwd=home, env=lib.tool_environment(env)
        )
        path = "/tmp/perf-%d.map" % process.pid
        self.addCleanup(lambda: os.path.exists(path) and os.unlink(path))
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def test_java(self):
        process = self.start("Grow.java", JAVA, "java")
        stacks, err = self.folded(process.pid)
        self.assertFalse(any("allocateMemory0" in stack.split(";")[0] for stack in stacks))
        self.assertIn("; run jcmd %d Compiler.perfmap" % process.pid, err)
        done = subprocess.run(["jcmd", str(process.pid), "Compiler.perfmap"], capture_output=True)
        if done.returncode:
            raise lib.unittest.SkipTest("jcmd has no Compiler.perfmap: %r" % done)
        stacks, err = self.folded(process.pid)
        self.assertTrue(any("allocateMemory0" in stack.split(";")[0] for stack in stacks), err)


if __name__ == "__main__":
    lib.main()
