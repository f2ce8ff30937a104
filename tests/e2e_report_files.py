"""Reports of files as people have them: whose program was replaced, edited, packed, cut, several."""

import gzip
import json
import os
import re
import shutil
import subprocess

import lib

SITES = os.path.join(lib.VICTIMS, "sites")
PROFILE = os.path.join(lib.ROOT, "tests", "fixtures", "5.3.1.heap")
NOTE = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0"  # before a build-id

HEAP = (
    b"heap_v2/1\n  t*: 3: 600 [0: 0]\n  t0: 3: 600 [0: 0] main\n"
    b"@ 0x401006 0x402006\n  t*: 1: 100 [0: 0]\n  t0: 1: 100 [0: 0]\n"
    b"@ 0x401016 0x402006\n  t*: 2: 500 [0: 0]\n  t0: 2: 500 [0: 0]\n"
    b"\nMAPPED_LIBRARIES:\n"
    b"400000-405000 r-xp 00000000 08:02 77                 /nonexistent/app\n"
    b"7f0000000000-7f0000001000 rw-p 00000000 00:00 0 \n"
)
NAMES = (
    b"--- symbol\nbinary=/nonexistent/app\n0x0000000000401006 small<0000000000001000>\n"
    b"0x0000000000401016 large--inlined\n0x0000000000402005 main\n---\n--- heap\n"
)


def first_line(result):
    return result.text.split("\n")[0]


class Replaced(lib.TestCase):
    """The program was upgraded after the dump."""

    def program(self):
        copy = os.path.join(self.directory(), "sites")
        shutil.copy(SITES, copy)
        process = self.process(
            [copy],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=lib.tool_environment({"MALLOC_CONF": "prof:true,lg_prof_sample:0"}),
        )
        self.assertEqual(process.stdout.readline(), b"ready\n")
        profile = os.path.join(self.directory(), "sites.heap")
        self.assert_ran(lib.run_tool("dump", process.pid, "-q", "-o", profile))
        return copy, profile

    def replace(self, program):
        """Another program of the same layout takes its place, with a function of its own."""
        with open(program, "rb") as file:
            data = file.read()
        at = data.index(NOTE) + len(NOTE)
        data = data[:at] + bytes(20) + data[at + 20 :]
        self.assertIn(b"keep_large", data)
        with open(program + ".new", "wb") as file:
            file.write(data.replace(b"keep_large", b"evil_large"))
        os.rename(program, program + ".orig")
        os.rename(program + ".new", program)

    def without_ids(self, profile):
        path = profile + ".plain.heap"
        with open(profile, "rb") as file, open(path, "wb") as out:
            out.writelines(line for line in file if not line.startswith(b"# build-id "))
        return path

    def test_build_id(self):
        """Of another build there are no names, in no format; with --exe there are."""
        program, profile = self.program()
        with open(profile, "rb") as file:
            self.assertRegex(file.read(), rb"\n# build-id [0-9a-f]+ [0-9a-f]{40}\n")
        good = self.assert_ran(lib.run_tool("report", profile, "--rows", "0"))
        self.assertIn("keep_large", good.text)
        self.assertEqual(first_line(good), "sites.heap")
        self.replace(program)
        expected = "sites.heap: no names of sites: replaced since (build-id)"
        for name in ("text", "tree", "flame", "json", "folded", "symbolized", "dot"):
            with self.subTest(name):
                result = self.assert_ran(lib.run_tool("report", profile, "-f", name))
                self.assertNotIn("evil_large", result.text)
                if name in ("folded", "symbolized"):
                    self.assertIn(expected, result.err)
                elif name == "json":
                    values = json.loads(result.text)
                    self.assertEqual(values["doubt"], "other_file")
                    self.assertEqual(values["doubted_file"], program)
                else:
                    self.assertIn(expected, result.text)
        text = self.assert_ran(lib.run_tool("report", profile))
        self.assertEqual(first_line(text), expected)
        self.assertIn("sites+0x", text.text)
        for words in (("--exe", program + ".orig", profile), (program + ".orig", profile)):
            result = self.assert_ran(lib.run_tool("report", *words, "--rows", "0"))
            self.assertIn("keep_large", result.text)
            self.assertEqual(first_line(result), "sites.heap")

    def test_inode(self):
        """Without build-ids, as jemalloc writes it, names of another file come with a warning."""
        program, profile = self.program()
        plain = self.without_ids(profile)
        title = os.path.basename(plain)
        good = self.assert_ran(lib.run_tool("report", plain))
        self.assertEqual(first_line(good), title)
        self.replace(program)
        for name in ("text", "tree", "flame"):
            result = self.assert_ran(lib.run_tool("report", plain, "-f", name))
            self.assertIn("%s: names of sites may be wrong: replaced or copied (inode)" % title, result.text)
        self.assertIn("names of sites may be wrong", lib.run_tool("report", plain, "-f", "folded").err)

    def test_changed(self):
        """The same inode, written after the profile."""
        program, profile = self.program()
        plain = self.without_ids(profile)
        later = os.stat(plain).st_mtime + 100
        os.utime(program, (later, later))
        result = self.assert_ran(lib.run_tool("report", plain))
        self.assertIn(": names of sites may be wrong: changed since", first_line(result))

    def test_others_ignore_the_ids(self):
        if not shutil.which("jeprof"):
            raise lib.unittest.SkipTest("jeprof is not installed (package libjemalloc-dev)")
        program, profile = self.program()
        texts = [
            subprocess.run(["jeprof", "--text", program, path], capture_output=True, timeout=60).stdout
            for path in (profile, self.without_ids(profile))
        ]
        self.assertIn(b"keep_large", texts[0])
        self.assertEqual(*texts)


class Files(lib.TestCase):
    def write(self, name, data):
        path = os.path.join(self.directory(), name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def text(self, name, data, *words):
        return self.assert_ran(lib.run_tool("report", self.write(name, data), *words))

    def body(self, result):
        return result.text.split("\n", 1)[1]

    def test_edited(self):
        """An editor, a mail or another system has changed it: the report is the same."""
        plain = self.body(self.text("a.heap", HEAP))
        mark, leak = b"\xef\xbb\xbf", b"<jemalloc>: Leak approximation summary: ~600 bytes\n"
        for data in (
            HEAP.replace(b"\n", b"\r\n"),
            HEAP.replace(b"\n", b"  \t\n"),
            mark + HEAP,
            leak + b"<jemalloc>: Run jeprof on dump output for leak detail\n" + HEAP,
            mark + leak.replace(b"\n", b"\r\n") + HEAP.replace(b"\n", b" \r\n"),
            gzip.compress(HEAP),
            gzip.compress(HEAP[:100]) + gzip.compress(HEAP[100:]),
            gzip.compress(HEAP) + bytes(512),
        ):
            result = self.text("b.heap", data)
            self.assertEqual(self.body(result), plain)
            self.assertIn("app+0x1005", result.text)

    def zstd(self, data, *words):
        if not shutil.which("zstd"):
            raise lib.unittest.SkipTest("zstd is not installed")
        return subprocess.run(["zstd", "-c", *words], input=data, capture_output=True, timeout=60).stdout

    def test_zstd(self):
        """As with gzip: frames one after the other, frames to skip, pages lost, and a pipe."""
        plain = self.body(self.text("a.heap", HEAP))
        skipped = b"\x53\x2a\x4d\x18\4\0\0\0skip"
        for data in (
            self.zstd(HEAP),
            self.zstd(HEAP[:100]) + self.zstd(HEAP[100:], "-19", "--no-check"),
            skipped + self.zstd(HEAP) + skipped,
            self.zstd(HEAP + bytes(1 << 20)) + bytes(512),
        ):
            self.assertEqual(self.body(self.text("b.heap.zst", data)), plain)
            result = subprocess.run([lib.TOOL, "report", "-"], input=data, capture_output=True, timeout=60)
            self.assertEqual(result.stdout.decode().split("\n", 1)[1], plain)

    def assert_refused(self, data, cause, fix):
        result = lib.run_tool("report", self.write("x", data))
        self.assert_failed(result, lib.USAGE, cause)
        self.assertIn(fix, result.err)

    def test_packed_that_is_refused(self):
        """Too large, twice, of a window that needs more memory, or damaged."""
        packed = {"gzip": gzip.compress(HEAP), "zstd": self.zstd(HEAP)}
        for name, pack in (("gzip", gzip.compress), ("zstd", self.zstd)):
            for inner in packed.values():
                self.assert_refused(pack(inner), "is compressed twice (%s)" % name, "%s -dc FILE" % name)
        wide = self.zstd(HEAP, "--ultra", "-22", "--zstd=wlog=27")  # no size of the contents, from a pipe
        self.assert_refused(wide, "compressed (zstd), and cannot be unpacked here",
                            "zstd -dc FILE | jeattach report -")
        for name, data in packed.items():
            at = len(data) // 2
            damaged = data[:at] + bytes(at // 2) + data[at + at // 2 :]
            self.assert_refused(damaged, "compressed (%s), and damaged" % name, "heap profile")

    def test_packed_file_that_is_cut(self):
        """What is there of it is shown, as of a plain file that ends at the same place."""
        lines = b"".join(b"@ 0x4%05x 0x402006\n  t*: 1: 100 [0: 0]\n" % (i * 7919 % 0x4000 + 0x1000)
                         for i in range(20000))
        heap = HEAP.replace(b"@ 0x401006", lines + b"@ 0x401006", 1)
        for name, data in (("gzip", gzip.compress(heap)), ("zstd", self.zstd(heap))):
            with self.subTest(name):
                result = self.text("a.heap", data[: len(data) * 3 // 4])
                self.assertIn("a.heap: no MAPPED_LIBRARIES, so it may be cut off", first_line(result))
                self.assertIn("is truncated: it ends within a line", result.err)
                self.assertRegex(result.text, r"sampled: [0-9.]+ [KM]iB in use, [0-9]{4,} objects")
                self.text("a.heap", data[:-2])
                self.assert_refused(data[:12], "compressed (%s), and damaged" % name, "heap profile")

    def test_pages_lost_in_a_packed_file(self):
        result = self.text("a.heap.gz", gzip.compress(HEAP + bytes(1 << 20)))
        self.assertIn("600 B in use, 3 objects", result.text)

    def test_names_of_the_file(self):
        """Of --- symbol, as jeprof --raw writes it: no file is needed, and inlined calls are known."""
        result = self.text("a.symbolized", NAMES + HEAP, "-f", "folded")
        self.assertEqual(sorted(result.text.split("\n")), ["", "main;large;inlined 500", "main;small 100"])
        self.assertEqual(result.err, "")
        for data in (gzip.compress(NAMES + HEAP), (NAMES + HEAP).replace(b"\n", b"\r\n")):
            self.assertIn("main;small 100", self.text("b.symbolized", data, "-f", "folded").text)

    def test_own_symbolized(self):
        """What jeattach writes, it reads: the same names, and the same file again."""
        names = self.text("a.symbolized", NAMES + HEAP, "-f", "symbolized").text
        self.assertTrue(names.startswith("--- symbol\nbinary=/nonexistent/app\n"), names)
        self.assertEqual(names.count("heap_v2/1\n"), 1)
        again = self.text("b.symbolized", names.encode(), "-f", "symbolized").text
        self.assertEqual(again, names)

    def test_cut(self):
        """Cut off in the maps, before them, within a stack."""
        maps = HEAP.index(b"MAPPED")
        result = self.text("a.heap", HEAP[: maps + 18])
        self.assertEqual(first_line(result), "a.heap: cut off in MAPPED_LIBRARIES: names are missing")
        for end in (maps - 1, maps - 30, HEAP.index(b"@ 0x401016")):
            result = self.text("a.heap", HEAP[:end])
            self.assertIn("a.heap: no MAPPED_LIBRARIES, so it may be cut off", first_line(result))

    def test_what_samples_are(self):
        """A few samples are no memory in use: each view says how many stand for what."""
        heap = HEAP.replace(b"heap_v2/1\n", b"heap_v2/524288\n")
        sum_text = "3 samples stand for 1.5 MiB"
        table = self.text("a.heap", heap).text
        self.assertRegex(table, r"(?m)^sampled: %s in use, \d+ objects, 2 stacks$" % sum_text)
        self.assertIn("sampled: " + sum_text, self.text("a.heap", heap, "-f", "tree").text)
        self.assertIn("inuse_space: " + sum_text, self.text("a.heap", heap, "-f", "dot").text)
        self.assertRegex(self.text("a.heap", heap, "--value", "inuse_objects").text,
                         r"(?m)^sampled: 3 samples stand for \d+ objects in use, 2 stacks$")
        self.assertEqual(json.loads(self.text("a.heap", heap, "--json").text)["samples"], 3)
        one = self.text("a.heap", heap, "--focus", "app.0x1005").text
        self.assertRegex(one, r"(?m)^sampled: 1 sample stands for ")
        self.assertIn("\nsampled: 600 B in use, 3 objects, 2 stacks\n", self.text("b.heap", HEAP).text)

    def test_lines_that_are_ignored(self):
        """More than a hundredth of them is said in the first line."""
        odd = HEAP.replace(b"\n@", b"\nodd line\n@")
        result = self.text("a.heap", odd)
        self.assertEqual(first_line(result), "a.heap; 2 lines have an unknown form and are ignored")
        page = self.text("a.heap", odd, "-f", "flame").text
        self.assertIn("2 lines have an unknown form", page)
        stack = b"@ 0x401006 0x402006\n  t*: 1: 100 [0: 0]\n"
        few = self.text("a.heap", odd.replace(b"odd line\n" + stack[:20], stack * 200 + b"odd line\n" + stack[:20]))
        self.assertEqual(first_line(few), "a.heap")
        self.assertIn("have an unknown form", few.err)

    def test_other_files(self):
        """What is no heap profile is named by what it is, with the line to type."""
        proto = self.text_bytes("x.heap", HEAP)
        elf = self.write("core", b"\x7fELF\2\1\1" + bytes(9) + b"\4\0\x3e\0" + bytes(100))
        go = b"heap profile: 1: 2 [3: 4] @ heap/1048576\n1: 2 [3: 4] @ 0x1 0x2\n#\t0x1\tmain.f+0x1\tx.go:1\n"
        for data, cause, fix in (
            (b"", "it is empty", "heap profile"),
            (proto, "profile.proto", "go tool pprof -top FILE"),
            (gzip.decompress(proto), "profile.proto", "go tool pprof -top FILE"),
            (go, "a profile of Go", "go tool pprof -top FILE"),
            (b"JAVA PROFILE 1.0.2\0" + bytes(50), "heap dump of Java", "jeattach PID"),
            (open(elf, "rb").read(), "a core file", "jeattach explain --core FILE"),
            (b"PERFILE2" + bytes(100), "recording of perf", "perf report -i FILE"),
            (b"\x28\xb5\x2f\xfd\xff" + bytes(20), "compressed (zstd), and damaged", "heap profile"),
            (b"heap_v2/none\n", "header has an unknown form", "heap profile"),
            (b"root:x:0:0\n", "heap_v2/", "heap profile"),
        ):
            result = lib.run_tool("report", self.write("x", data))
            self.assert_failed(result, lib.USAGE, cause)
            self.assertIn(fix, result.err)
        self.assert_failed(lib.run_tool("report", "/bin/true"), lib.USAGE, "a program or a library")

    def text_bytes(self, name, data):
        path = self.write(name, data)
        result = lib.run_tool("report", path, "-f", "pprof", "-o", path + ".pb.gz")
        self.assert_ran(result)
        with open(path + ".pb.gz", "rb") as file:
            return file.read()

    def test_several(self):
        """Profiles of one program are added up; its addresses may be others each time."""
        moved = re.sub(rb"\b(0x)?4(0[0-9a-f]{4})\b", rb"\g<1>5\2", HEAP)
        paths = [self.write("a.%d.heap" % i, data) for i, data in enumerate((HEAP, moved, HEAP))]
        result = self.assert_ran(lib.run_tool("report", *paths))
        self.assertEqual(first_line(result), "sum of 3 profiles: a.0.heap to a.2.heap")
        self.assertIn("1.76 KiB in use, 9 objects, 2 stacks", result.text)
        self.assertRegex(result.text, r"(?m)^ *1.46 KiB .* app\+0x1015$")
        folded = self.assert_ran(lib.run_tool("report", *paths, "-f", "folded")).text
        self.assertEqual(sorted(folded.split("\n")), ["", "app+0x2005;app+0x1005 300", "app+0x2005;app+0x1015 1500"])
        other = self.write("b.heap", HEAP.replace(b"08:02 77", b"08:02 78"))
        period = self.write("c.heap", HEAP.replace(b"heap_v2/1\n", b"heap_v2/2\n"))
        for path in (other, period):
            result = lib.run_tool("report", paths[0], path)
            self.assert_failed(result, lib.USAGE, "not of one program")
            self.assertIn(paths[0], result.err)
            self.assertIn(path, result.err)
        empty = self.write("empty.heap", b"")
        for words in ((paths[0], empty), (paths[0], "--base", empty)):
            self.assert_failed(lib.run_tool("report", *words), lib.USAGE, empty + ": it is empty")
        result = lib.run_tool("report", paths[0], "/nonexistent.heap")
        self.assert_failed(result, lib.USAGE, "/nonexistent.heap: No such file")
        result = lib.run_tool("report", *paths, "--base", other)
        self.assert_failed(result, lib.USAGE, "--base compares only one")

    def test_in_the_place_of_a_process(self):
        """Shown by report; two are compared, the older one first; no other verb takes one."""
        place = self.directory()
        names = [os.path.join(place, name) for name in ("old.heap", "new.heap.gz")]
        data = lib.read_bytes(os.path.join(lib.ROOT, "tests", "fixtures", "5.2.1.heap"))
        for name, text in zip(names, (data, gzip.compress(data))):
            with open(name, "wb") as file:
                file.write(text)
        for words, same in ((names[:1], names[:1]), (names[1:], names[1:]),
                            (names, ["--base", *names]),
                            ([*names, "--rows", "5"], ["--base", *names, "--rows", "5"]),
                            ([names[0], "--rows", "1"], [names[0], "--rows", "1"])):
            told = self.assert_ran(lib.run_tool(*words)).text
            self.assertEqual(told, lib.run_tool("report", *same).text)
            self.assertIn("sampled: ", told)
        for words in (("leak", names[0]), (names[0], "leak")):
            self.assert_failed(lib.run_tool(*words), lib.USAGE, "fix:   jeattach report " + names[0])

    def test_missing_names_that_do_not_matter(self):
        """A message about them follows the answer, and only above one per cent."""
        small = HEAP.replace(b" 2: 500 ", b" 2: 50000 ").replace(b"0x401016 0x402006", b"0x501016 0x502006")
        small = small.replace(b"/app\n", b"/app\n500000-505000 r-xp 0 08:02 78 /nonexistent/lib.so\n")
        done = subprocess.run([lib.TOOL, "report", self.write("a.heap", small)],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
        self.assertIn("/nonexistent/lib.so: 2 of 2 addresses have no name", done.stdout)
        self.assertNotIn("/nonexistent/app:", done.stdout)
        self.assertLess(done.stdout.index("largest stacks"), done.stdout.index("have no name"))

    def test_missing_names_where_nothing_is_in_use(self):
        freed = re.sub(rb"(\d+: \d+) \[0: 0\]", rb"0: 0 [\1]", HEAP)
        result = self.text("a.heap", freed, "--value", "alloc_space")
        self.assertIn("/nonexistent/app: 3 of 3 addresses have no name", result.err)

    def test_doubt_of_a_folder_named_like_jemalloc(self):
        """Only the file's own name tells that it is the allocator."""
        folder = os.path.join(self.directory(), "libjemalloc-5")
        os.mkdir(folder)
        program = os.path.join(folder, "app")
        shutil.copy(SITES, program)
        data = HEAP.replace(b"/nonexistent/app", program.encode())
        self.assertIn("names of app may be wrong", first_line(self.text("a.heap", data)))

    def test_operators_in_names(self):
        """A function may be called operator--, which ends no name."""
        names = NAMES.replace(b"large--inlined", b"Iter::operator--(int)--inlined")
        folded = self.text("a.symbolized", names + HEAP, "-f", "folded", "--full-names").text
        self.assertIn("main;Iter::operator--(int);inlined 500", folded)

    def test_many_modules(self):
        """Each of many stacks has calls in many modules without names."""
        modules, stacks, depth = 12000, 12000, 40
        base, size = 0x10000000, 0x10000
        text = ["heap_v2/524288\n  t*: 1: 4096 [0: 0]\n"]
        for i in range(stacks):
            calls = (base + (i * depth + j) % modules * size + 0x100 for j in range(depth))
            text.append("@ %s\n  t*: 1: 4096 [0: 0]\n" % " ".join(map(hex, calls)))
        text.append("\nMAPPED_LIBRARIES:\n")
        text += ["%x-%x r-xp 0 08:01 %d /nonexistent/app%d\n" %
                 (base + i * size, base + i * size + 0x8000, i + 1, i) for i in range(modules)]
        self.assertIn("\nsampled: ", self.text("a.heap", "".join(text).encode()).text)

    def test_pipe_before_another(self):
        """A pipe is opened once: what is written into it arrives."""
        pipe = os.path.join(self.directory(), "pipe")
        os.mkfifo(pipe)
        tool = self.process([lib.TOOL, "report", "-q", pipe, self.write("a.heap", HEAP)],
                            stdout=subprocess.PIPE)
        with open(pipe, "wb") as out:
            out.write(HEAP)
        text, _ = tool.communicate(timeout=lib.TOOL_TIMEOUT)
        self.assertEqual(tool.returncode, lib.OK)
        self.assertIn(b" 6 objects", text)


if __name__ == "__main__":
    lib.main()
