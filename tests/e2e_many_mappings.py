"""Processes, profiles and core files with as many mappings as they can have."""

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


class Mappings(hostile.TestCase):
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
                ("top", pid, "--once", "-d", "1s"), ("leak", pid, "-d", "1s"), ("dump", pid, *out))

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


class Files(hostile.TestCase):
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
