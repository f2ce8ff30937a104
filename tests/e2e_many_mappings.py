"""Processes, profiles and core files with as many mappings as they can have, or as large ones."""

import os
import struct
import sys

import hostile
import lib
from e2e_ps import jemalloc_library
from hostile import MIB, run_bounded

BOUND = 400 * MIB
MANY = 65000  # vm.max_map_count is 65530
HANGS = 60  # seconds; each takes a few
SOON = 8  # seconds; a signal ends each within one, unless others have the CPU
# Maps one page of a file again and again; its path is as long as is asked for.
PROGRAM = r"""
import ctypes, os, sys, time
count, length = int(sys.argv[1]), int(sys.argv[2])
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(1, 9)  # PR_SET_PDEATHSIG
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
depth = len(os.getcwd())
while depth + 202 < length:
    os.mkdir("d" * 200)
    os.chdir("d" * 200)
    depth += 201
fd = os.open("f" * (length - depth - 1), os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 4096)
at = libc.mmap(None, count * 4096, 0, 0x4022, -1, 0)
for i in range(count):
    if libc.mmap(at + i * 4096, 4096, 5, 0x12, fd, 0) != at + i * 4096:
        print("mmap:", os.strerror(ctypes.get_errno()))
        sys.exit(77)
print("ready", flush=True)
while True:
    kept = [bytearray(100000) for _ in range(50)]
    time.sleep(0.01)
"""

# Says that jemalloc's extents fill 60 TiB: each leaf of its tree is one that is there.
TREE = r"""
import ctypes, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(1, 9)  # PR_SET_PDEATHSIG
libc.malloc.restype = libc.mmap.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + 3 * [ctypes.c_int] + [ctypes.c_long]
big = libc.malloc(8 << 20) & ~4095
mem = os.open("/proc/self/mem", os.O_RDONLY)

def words(at, count):
    try:
        return memoryview(os.pread(mem, 8 * count, at)).cast("Q")
    except (OSError, OverflowError):
        return ()

def is_leaf(leaf):
    entry = words(leaf + 8 * (big >> 12 & 0x3ffff), 1)
    record = words((entry[0] & 0xffffffffffc0) + 8, 1) if entry and entry[0] else ()
    return record and record[0] & ~4095 == big

def find_root():
    inside = False
    for line in open("/proc/self/maps"):
        fields = line.split()
        start, end = (int(x, 16) for x in fields[0].split("-"))
        inside = "jemalloc" in fields[5] if len(fields) > 5 else inside and fields[4] == "0"
        if not inside or fields[1][:2] != "rw":
            continue
        for i, leaf in enumerate(words(start, (end - start) // 8)):
            if leaf and leaf % 64 == 0 and leaf < 1 << 47 and is_leaf(leaf):
                return start + 8 * i - 8 * (big >> 30), leaf
    return None, None

root, leaf = find_root()
if not root:
    print("no tree of two levels was found")
    sys.exit(77)
space = libc.mmap(None, 60 << 40, 3, 0x4022, -1, 0)
if space is None or space == 2**64 - 1:
    print("mmap:", os.strerror(ctypes.get_errno()))
    sys.exit(77)
for addr in range((space + (1 << 30) - 1) >> 30, (space + (60 << 40)) >> 30):
    ctypes.c_uint64.from_address(root + 8 * addr).value = leaf
print("ready", flush=True)
time.sleep(600)
"""


def run_interrupted(after, *words):
    """Sends one SIGINT; more would end the tool at once."""
    return run_bounded(*words, timeout=HANGS,
                       before=("timeout", "--foreground", "--preserve-status", "-s", "INT",
                               "-k", "20", after))


class TestCase(hostile.TestCase):
    def assert_interrupted(self, result):
        self.assertEqual(result.code, lib.INTERRUPTED, result)
        self.assertLess(result.seconds, SOON, result)


class Mappings(TestCase):
    def mapped(self, length):
        directory = os.path.realpath(self.directory())
        self.base = directory
        return self.hostile(
            "-c", PROGRAM, str(MANY), str(length), program=sys.executable, cwd=directory,
            LD_PRELOAD=jemalloc_library(), MALLOC_CONF="prof:true,lg_prof_sample:14",
            PYTHONMALLOC="malloc")

    def verbs(self, pid):
        out = ("-o", "/dev/null", "--force")
        return (("status", pid), ("stats", pid), ("explain", pid), ("frag", pid),
                ("top", pid, "--once"), ("leak", pid, "-d", "1s"), ("dump", pid, *out))

    def run_in_bounds(self, *words):
        result = run_bounded(*words, timeout=HANGS)
        self.assert_bounded(result, BOUND)
        return result

    def test_long_paths(self):
        """260 MiB of text: it is refused, and other processes are not affected."""
        process, other = self.mapped(4000), self.victim()
        for words in self.verbs(process.pid):
            with self.subTest(verb=words[0]):
                result = self.run_in_bounds(*words, "--timeout", "30s")
                if words[0] != "explain" or result.code != lib.OK:  # it knows other things as well
                    self.assertIn("list of mappings is longer than 16 MiB", result.err, result)
        result = self.run_in_bounds("ps")
        self.assertIn(b"%d" % other.pid, result.out)
        self.assertIn("list of mappings is longer than 16 MiB", result.err)
        self.assert_untraced(process)

    def test_short_paths(self):
        """As many mappings whose text is shorter: each verb does its work."""
        process = self.mapped(160)
        for words in self.verbs(process.pid):
            with self.subTest(verb=words[0]):
                self.assertEqual(self.run_in_bounds(*words).code, lib.OK)
        self.assert_untraced(process)

    def test_interrupted(self):
        process = self.mapped(160)
        for words in (("leak", process.pid), ("frag", process.pid)):
            with self.subTest(verb=words[0]):
                self.assert_interrupted(run_interrupted("0.1", *words))


class Tree(TestCase):
    def test_interrupted_in_a_large_tree(self):
        """While leak takes its first look, and while frag counts."""
        process = self.hostile("-c", TREE, program=sys.executable, PYTHONMALLOC="malloc",
                               LD_PRELOAD=jemalloc_library(), MALLOC_CONF="prof:true")
        for words in (("leak", process.pid), ("frag", process.pid)):
            with self.subTest(verb=words[0]):
                self.assert_interrupted(run_interrupted("0.5", *words))
        self.assert_untraced(process)


class Files(TestCase):
    def write_profile(self, mappings, path, lines=""):
        name = self.path("forged.heap")
        at = 0x7f0000000000
        with open(name, "w", encoding="ascii") as file:
            file.write("heap_v2/524288\n  t*: 1: 524288 [0: 0]\n@ %#x %#x\n" % (at + 1, at + 8193))
            file.write("  t*: 1: 524288 [0: 0]\n%s\nMAPPED_LIBRARIES:\n" % lines)
            for i in range(mappings):
                file.write("%x-%x r-xp 00000000 08:01 1 %s\n" % (
                    at + i * 8192, at + i * 8192 + 4096, path(i)))
        return name

    def report(self, *words):
        return self.assert_bounded(run_bounded("report", *words, timeout=HANGS), BOUND)

    def test_profile(self):
        """One file, and two in turn, in 200,000 mappings."""
        for path in (lambda i: "/lib/one.so", lambda i: "/lib/%s.so" % ("one", "two")[i % 2]):
            result = self.report(self.write_profile(200000, path))
            self.assertEqual(result.code, lib.OK, result)

    def test_interrupted_report(self):
        name = self.write_profile(200000, lambda i: "/lib/%s.so" % ("one", "two")[i % 2])
        self.assert_interrupted(run_interrupted("0.1", "report", name))

    def test_long_paths_in_a_profile(self):
        result = self.report(self.write_profile(5000, lambda i: "/%d%s" % (i % 2, 4000 * "p")))
        self.assert_failed(result, lib.OUTPUT_FAILED, "bytes of paths")

    def test_threads_of_a_profile(self):
        """The lines of threads are kept only for --by-thread."""
        name = self.write_profile(1, lambda i: "/lib/one.so", 8000000 * "t1: 1: 1 [0: 0]\n")
        self.assertEqual(self.report(name).code, lib.OK)
        result = self.report(name, "--by-thread")
        self.assert_failed(result, lib.OUTPUT_FAILED, "thread_lines")

    def write_core(self, segments, path):
        """A core file of segments in one mapping of a file with that path."""
        at, head = 0x7f0000000000, 64 + 56 * (segments + 1)

        def note(kind, data):
            return struct.pack("<III8s", 5, len(data), kind, b"CORE") + data + bytes(-len(data) % 4)

        notes = note(0x46494c45, struct.pack("<5Q", 1, 4096, at, at + segments * 8192, 0) + path)
        name = self.path("core")
        with open(name, "wb") as file:
            file.write(b"\x7fELF\2\1\1" + bytes(9) + struct.pack(
                "<HHIQQQIHHHHHH", 4, 62, 1, 0, 64, 0, 0, 64, 56, segments + 1, 64, 0, 0))
            file.write(struct.pack("<IIQQQQQQ", 4, 0, head, 0, 0, len(notes), 0, 4))
            for i in range(segments):
                file.write(struct.pack("<IIQQQQQQ", 1, 5, 0, at + i * 8192, 0, 64, 4096, 1))
            file.write(notes)
        return name

    def test_core(self):
        """The path of its file is in the list of mappings once for each segment."""
        for segments, length, words in ((1000, 1000000, "does not list the files"),
                                        (20000, 4000, "longer than 16 MiB")):
            name = self.write_core(segments, b"/" + length * b"p" + b"\0")
            result = run_bounded("dump", "--core", name, "-o", self.path("o.heap"), timeout=HANGS)
            self.assert_failed(self.assert_bounded(result, BOUND), lib.USAGE, words)


if __name__ == "__main__":
    lib.main()
