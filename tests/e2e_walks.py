"""The calls that perf/walk.h finds in samples of page faults, compared with those of programs
that touch new pages in known calls: each sample must have exactly these.
"""

import bisect
import collections
import os
import re
import shutil
import subprocess
import time

import lib

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "walks")
WALKS = os.path.join(os.path.dirname(lib.VICTIMS), "walks", "walks")
OWN = {
    *("touch", "inner", "fill", "compare", "array", "aligned", "sort", "handle", "interrupted"),
    *("recurse", "outer", "repeat", "main"),
    *("main.touch", "main.inner", "main.fill", "main.outer", "main.main"),
}
# Calls of other code, one or more, are a *.
NEST = {
    "touch inner array outer repeat main *",
    "* fill array outer repeat main *",
    "touch inner aligned outer repeat main *",
    "touch inner compare * sort outer repeat main *",
    "touch inner handle * interrupted outer repeat main *",
}


def functions(path, start):
    """Returns the functions of a program, as sorted offsets from the start of its mapping."""
    with open(path, "rb") as file:
        fixed = file.read(18)[16] == 2
    found = []
    result = subprocess.run(["nm", path], stdout=subprocess.PIPE, check=True)
    for line in result.stdout.splitlines():
        words = line.decode().split()
        if len(words) >= 3 and words[-2] in "tTwW":
            found.append((int(words[0], 16) - (start if fixed else 0), words[-1]))
    return sorted(found)


class Program:
    def __init__(self, case, argv, tid=False, symbols=None):
        self.process = case.process(argv, stdout=subprocess.PIPE, cwd=case.directory())
        self.tid = self.process.stdout.readline().strip().decode() if tid else ""
        self.pid = self.process.pid
        self.tid = self.tid or str(self.pid)
        time.sleep(0.15)  # until it has touched what it touches once
        self.name = os.path.basename(os.readlink("/proc/%d/exe" % self.pid))
        with open("/proc/%d/maps" % self.pid) as file:
            start = min(
                int(line.split("-")[0], 16)
                for line in file
                if line.rstrip().endswith("/" + self.name)
            )
        self.functions = functions(symbols or "/proc/%d/exe" % self.pid, start)
        self.starts = [start for start, _ in self.functions]

    def own(self, call, innermost):
        """Returns the name of an own function, or *."""
        name, _, offset = call.partition("+")
        if name != self.name:
            return "*"
        i = bisect.bisect_right(self.starts, int(offset, 16) - (not innermost)) - 1
        name = self.functions[i][1] if i >= 0 else "*"
        return name if name in OWN else "*"

    def sample(self, case, samples=400):
        """Returns (end, calls): number of samples."""
        words = [str(self.pid), "20", "page-faults", "1", "8192", self.tid, str(samples)]
        result = subprocess.run(
            [WALKS, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            universal_newlines=True,
            timeout=60,
        )
        if result.returncode == 77:
            case.skipTest("perf_event_open: " + result.stderr.strip())
        case.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.splitlines()
        self.raw = [line.split() for line in lines[:-1]]
        found = collections.Counter()
        for end, guesses, *calls in self.raw:
            names = []
            for i, call in enumerate(calls):
                name = self.own(call, i == 0)
                if name != "*" or names[-1:] != ["*"]:
                    names.append(name)
            found[end, " ".join(names)] += 1
        return found


class Walks(lib.TestCase):
    def built(self, compiler, *flags, source="nest.c"):
        if not shutil.which(compiler):
            self.skipTest("no " + compiler)
        path = os.path.join(self.directory(), "nest")
        words = ["-pthread"] if source == "nest.c" else []
        source = os.path.join(SOURCES, source)
        subprocess.run([compiler, *flags, source, "-o", path, *words], check=True)
        return path

    def assert_nest(self, path, wanted=NEST, ends=("complete",), kind="plain"):
        found = Program(self, [path, kind], kind == "thread").sample(self)
        self.assertEqual({calls for _, calls in found}, set(wanted), found)
        self.assertEqual({end for end, _ in found}, set(ends), found)
        return found

    def test_gcc(self):
        self.assert_nest(self.built("gcc", "-O2"))

    def test_clang(self):
        self.assert_nest(self.built("clang", "-O2"))

    def test_unoptimized(self):
        self.assert_nest(self.built("gcc", "-O0"))

    def test_static(self):
        self.assert_nest(self.built("gcc", "-O2", "-static"))

    def test_static_without_the_table(self):
        """A static program whose call frame information has no index."""
        self.assert_nest(self.built("gcc", "-O2", "-static", "-no-pie", "-Wl,--no-eh-frame-hdr"))

    def test_stripped(self):
        """The table that the dynamic loader needs is enough: the truth is that of the other."""
        path = self.built("gcc", "-O2")
        stripped = path + ".stripped"
        subprocess.run(["strip", path, "-o", stripped], check=True)
        program = Program(self, [stripped], symbols=path)
        found = program.sample(self)
        self.assertEqual({calls for _, calls in found}, NEST, found)

    def test_musl(self):
        """musl's functions have neither call frame information nor frame pointers, up to _start."""
        for flags in (["-O2", "-static"], ["-O2"]):
            with self.subTest(flags):
                self.assert_nest(self.built("musl-gcc", *flags), ends=["lost"])

    def test_frame_pointers(self):
        """Without call frame information; the C library has it."""
        flags = ["-fno-asynchronous-unwind-tables", "-fno-omit-frame-pointer"]
        self.assert_nest(self.built("gcc", "-O2", *flags))

    def test_nothing(self):
        """With neither, what is found is true as far as it goes."""
        path = self.built("gcc", "-O2", "-fno-asynchronous-unwind-tables", "-fomit-frame-pointer")
        found = Program(self, [path]).sample(self)
        self.assertTrue(found)
        for end, calls in found:
            self.assertTrue(any(true.startswith(calls) for true in NEST), calls)
            self.assertEqual(end, "lost", calls)

    def test_thread(self):
        wanted = {calls.replace("main *", "*") for calls in NEST}
        self.assert_nest(self.built("gcc", "-O2"), wanted, kind="thread")

    def test_alternate_stack(self):
        """The copy has only the handler's stack."""
        path = self.built("gcc", "-O2")
        self.assert_nest(path, ["touch inner handle *"], ["cut"], kind="alternate")

    def test_deep(self):
        """A recursion of 200 calls."""
        path = self.built("gcc", "-O2")
        self.assert_nest(path, ["touch inner" + 126 * " recurse"], ["cut"], kind="deep")

    def test_go(self):
        wanted = {
            "main.touch main.inner main.outer main.main *",
            "* main.fill main.inner main.outer main.main *",
        }
        if not shutil.which("go"):
            self.skipTest("no go")
        path = os.path.join(self.directory(), "nest")
        subprocess.run(["go", "build", "-o", path, os.path.join(SOURCES, "nest.go")], check=True)
        found = Program(self, [path]).sample(self)
        self.assertEqual({calls for _, calls in found if "main" in calls}, wanted, found)

    def test_rust(self):
        path = self.built("rustc", "-O", source="nest.rs")
        self.assert_nest(path, ["touch inner outer * main *"])

    def test_node(self):
        """Names of compiled code are those of its perf map."""
        if not shutil.which("node"):
            self.skipTest("no node")
        flags = ["--perf-basic-prof", "--interpreted-frames-native-stack"]
        program = Program(self, ["node", *flags, os.path.join(SOURCES, "nest.js")])
        path = "/tmp/perf-%d.map" % program.pid
        self.addCleanup(os.unlink, path)
        program.sample(self, 4000)
        with open(path) as file:
            lines = [line.rstrip().split(" ", 2) for line in file]
        code = sorted((int(start, 16), int(size, 16), name) for start, size, name in lines)
        seen = collections.Counter()
        for end, guesses, *calls in program.raw:
            names = []
            for call in calls:
                if call.startswith("0x"):
                    at = int(call, 16) - 1
                    i = bisect.bisect_right(code, (at, 1 << 63, "")) - 1
                    match = re.search(r":[*~^+]?(touch|inner|outer) ", code[i][2])
                    names += [match[1]] if match and at < code[i][0] + code[i][1] else []
            if names[:1] == ["touch"]:
                seen[end, " ".join(names)] += 1
        self.assertEqual(set(seen), {("complete", "touch inner outer")}, seen)


if __name__ == "__main__":
    lib.main()
