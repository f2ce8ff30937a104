"""dump --core and status --core: profiles of processes that have ended, from their core files."""

import contextlib
import json
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import time

import allocators
import lib
import releases

CONF = "prof:true,prof_active:true,lg_prof_sample:10,prof_thread_active_init:true"
PATTERN = "/proc/sys/kernel/core_pattern"
ELF_HEADER, PROGRAM_HEADER = 64, 56
PT_LOAD, PT_NOTE = 1, 4


def contents(profile):
    """The part of a profile that a core file determines: all up to its mappings."""
    return profile.partition(b"\nMAPPED_LIBRARIES:\n")[0]


def stacks_of(profile):
    """{addresses: counts of the stack and of each thread}"""
    found = {}
    for part in contents(profile).split(b"\n@ ")[1:]:
        lines = part.split(b"\n")
        found[lines[0]] = sorted(lines[1:])
    return found


def segments(core):
    """(number, type, flags, offset, address, file size, memory size) of each program header."""
    offset, count = struct.unpack_from("<Q", core, 32)[0], struct.unpack_from("<H", core, 56)[0]
    for i in range(count):
        kind, flags, at, address, _, filed, memory, _ = struct.unpack_from(
            "<IIQQQQQQ", core, offset + i * PROGRAM_HEADER)
        yield i, kind, flags, at, address, filed, memory


class Case(allocators.TestCase):
    def process_with_samples(self, version="5.3.0", link="shared", conf=CONF, **options):
        words = ("--threads", 3, "--levels", 6)
        process = self.allocator(version, link, conf, words, program="paths", **options)
        process.ask("churn 40")
        process.ask("rest")
        return process

    def profile_of(self, pid):
        """What prof.dump writes."""
        return self.assert_ran(lib.run_tool("dump", "-q", "--call", "-o", "-", pid)).out

    def core_of_kernel(self, process, directory, mask=None):
        """The process ends."""
        pattern = lib.read_text(PATTERN).strip()
        if pattern.startswith("|") or "/" in pattern or "%" in pattern:
            self.skipTest("the kernel writes no core file here: core_pattern is %s" % pattern)
        resource.prlimit(process.pid, resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)
        if mask is not None:
            with open("/proc/%d/coredump_filter" % process.pid, "w") as file:
                file.write(hex(mask))
        os.kill(process.pid, signal.SIGABRT)
        process.wait(30)
        found = [name for name in os.listdir(directory) if name.startswith("core")]
        self.assertEqual(len(found), 1, "the kernel wrote no core file")
        return os.path.join(directory, found[0])

    def core_of_gdb(self, process, directory):
        if not shutil.which("gcore"):
            self.skipTest("gcore is not installed (package gdb)")
        path = os.path.join(directory, "gcore")
        done = subprocess.run(["gcore", "-o", path, str(process.pid)], capture_output=True,
                              stdin=subprocess.DEVNULL)
        path = "%s.%d" % (path, process.pid)
        self.assertTrue(os.path.exists(path), done.stderr)
        return path

    def crash(self, allocator, mask=None):
        """Returns its profile just before, and its core file."""
        before = self.profile_of(allocator.pid)
        self.assertGreater(len(stacks_of(before)), 30)
        return before, self.core_of_kernel(allocator.process, allocator.directory, mask)

    def dump_core(self, path, *words, **options):
        return lib.run_tool("dump", "--core", path, "-o", "-", *words, **options)

    def assert_same(self, before, result):
        self.assert_ran(result)
        self.assertEqual(contents(result.out), contents(before))
        self.assertIn(b"\nMAPPED_LIBRARIES:\n", result.out)

    def changed(self, path, change):
        """A copy of a core file, which `change` has edited as a bytearray."""
        data = bytearray(lib.read_bytes(path))
        data = change(data) or data
        copy = os.path.join(self.directory(), "core")
        with open(copy, "wb") as file:
            file.write(data)
        return copy


class Equal(Case):
    """The profile of a core file is that of the process just before its end."""

    def test_kernel(self):
        before, core = self.crash(self.process_with_samples())
        result = self.dump_core(core)
        self.assert_same(before, result)
        self.assertRegex(result.err, r"profile read from its core file in [\d.]+ \w+: %d stacks, \d threads\n"
                         % len(stacks_of(before)))

    def test_gdb(self):
        allocator = self.process_with_samples()
        before = self.profile_of(allocator.pid)
        core = self.core_of_gdb(allocator.process, allocator.directory)
        self.assert_same(before, self.dump_core(core))
        allocator.ask("check")

    def test_every_release(self):
        for version, link in allocators.CELLS + [("5.3.0", "stripped")]:
            with self.subTest(version=version, link=link):
                before, core = self.crash(self.process_with_samples(version, link))
                self.assert_same(before, self.dump_core(core))

    def test_without_headers(self):
        """coredump_filter without bit 4: no build-ids to compare."""
        before, core = self.crash(self.process_with_samples(), 0x3)
        self.assert_same(before, self.dump_core(core))

    def test_without_build_id(self):
        """As musl's distributions link: the program headers decide."""
        directory = self.directory()
        program = os.path.join(directory, "program")
        subprocess.run(["objcopy", "--remove-section", ".note.gnu.build-id",
                        releases.static_program("5.3.0", "paths"), program], check=True)
        notes = subprocess.run(["readelf", "-n", program], capture_output=True, text=True).stdout
        self.assertNotIn("Build ID", notes)
        process = allocators.Allocator(directory, [program], {}, CONF, ("--levels", 6))
        self.addCleanup(process.stop)
        before, core = self.crash(process)
        self.assert_same(before, self.dump_core(core))
        shutil.copy("/bin/true", program + ".new")
        os.rename(program + ".new", program)
        self.assert_failed(self.dump_core(core), lib.REFUSED, "are not here", "--root")

    def test_while_it_allocates(self):
        """The kernel stops the threads anywhere: no stack is invented, and few are left out."""
        conf = CONF.replace("lg_prof_sample:10", "lg_prof_sample:0")
        for version in ("5.2.1", "5.3.0"):
            with self.subTest(version=version):
                process = self.allocator(version, conf=conf, program="paths",
                                         words=("--threads", 4, "--levels", 5))
                known = set(stacks_of(self.profile_of(process.pid)))  # each path is taken at first
                process.ask("churn 40")
                time.sleep(0.2)
                core = self.core_of_kernel(process.process, process.directory)
                result = self.assert_ran(self.dump_core(core))
                found = set(stacks_of(result.out))
                self.assertGreater(len(found), len(known) * 0.9)
                self.assertEqual(found - known, set())

    def test_names(self):
        before, core = self.crash(self.process_with_samples(link="static"))
        del before
        directory = self.directory()
        text = self.assert_ran(lib.run_tool("dump", "--core", core, "-f", "text")).text
        self.assertRegex(text, r"(?m)\bstep_left$")
        for name, head in (("x.html", b"<!DOCTYPE"), ("x.folded", b""), ("x.heap", b"heap_v2/")):
            path = os.path.join(directory, name)
            result = self.assert_ran(lib.run_tool("dump", "--core", core, "-o", path))
            self.assertEqual(result.text, path + "\n")
            self.assertTrue(lib.read_bytes(path).startswith(head))
        report = lib.run_tool("report", os.path.join(directory, "x.heap"))
        self.assertRegex(self.assert_ran(report).text, r"(?m)\bstep_left$")


class Input(Case):
    def test_pipe(self):
        before, core = self.crash(self.process_with_samples())
        with open(core, "rb") as file:
            direct = lib.run_tool("dump", "--core", "-", "-o", "-", stdin=file)
        self.assert_same(before, direct)
        for words in (["cat", core], ["zstd", "-qdc", core + ".zst"]):
            with self.subTest(words=words):
                if words[0] == "zstd":
                    if not shutil.which("zstd"):
                        self.skipTest("zstd is not installed")
                    subprocess.run(["zstd", "-q", core], check=True)
                feeder = self.process(words, stdout=subprocess.PIPE)
                result = lib.run_tool("dump", "--core", "-", "-o", "-", stdin=feeder.stdout)
                self.assert_same(before, result)
        if shutil.which("zstd"):
            self.assert_failed(self.dump_core(core + ".zst"), lib.USAGE, "compressed", "zstd -dc")

    def test_pipe_without_space(self):
        """The copy has a limit: nine tenths of what is free."""
        lib.require_root()
        small = self.directory()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "none", small], check=True)
        self.addCleanup(subprocess.run, ["umount", small])
        for begin, words in (("\\177ELF", ("TMPDIR", "larger than 1 MiB")),
                             ("\\037\\213", ("gzip -dc",)), ("begin", ("not an ELF file",))):
            with self.subTest(begin=begin):  # what is no core is not copied
                feeder = self.process(["sh", "-c", "printf '%s'; exec head -c 8M /dev/urandom" % begin],
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                result = lib.run_tool("dump", "--core", "-", "-o", "-", stdin=feeder.stdout,
                                      env={"TMPDIR": small})
                self.assert_failed(result, lib.USAGE, *words)
                self.assertEqual(os.listdir(small), [])

    def test_truncated(self):
        before, core = self.crash(self.process_with_samples())
        known, size = stacks_of(before), os.path.getsize(core)
        for part in (0.99, 0.9, 0.7, 0.4, 0.1):
            with self.subTest(part=part):
                result = self.dump_core(self.changed(core, lambda data: data[:int(size * part)]))
                self.assertIn("truncated", result.err)
                if result.code == lib.OK:
                    found = stacks_of(result.out)
                    self.assertEqual({stack: known.get(stack) for stack in found}, found)
                else:
                    self.assert_failed(result, lib.REFUSED, "the core file does not show it")
        result = self.dump_core(self.changed(core, lambda data: data[:100]))
        self.assert_failed(result, lib.USAGE, "truncated within its program headers")
        result = self.dump_core(self.changed(core, lambda data: data[:64 + 56 * data[56]]))
        self.assert_failed(result, lib.USAGE, "truncated before its list of mapped files")

    def test_no_anonymous_memory(self):
        before, core = self.crash(self.process_with_samples(), 0x10)
        del before
        result = self.dump_core(core)
        self.assert_failed(result, lib.REFUSED, "memory that the process could write")
        self.assertRegex(result.err, r"\d+ pages? that (was|were) needed")

    def test_garbage(self):
        directory = self.directory()
        files = {
            "empty": (b"", lib.USAGE, "it is empty"),
            "short": (b"\x7fELF", lib.USAGE, "too short"),
            "text": (b"heap_v2/524288\n" * 100, lib.USAGE, "not an ELF file"),
            "gzip": (b"\x1f\x8b" + bytes(100), lib.USAGE, "gzip -dc"),
            "program": (lib.read_bytes("/bin/true"), lib.USAGE, "a program or a library"),
            "core32": (b"\x7fELF\x01\x01\x01" + bytes(9) + struct.pack("<HH", 4, 3) + bytes(100),
                       lib.NO_JEMALLOC, "32-bit"),
            "machine": (b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 4, 8) + bytes(100),
                        lib.NO_JEMALLOC, "machine 8"),
        }
        for name, (data, code, words) in files.items():
            with self.subTest(name=name):
                path = os.path.join(directory, name)
                with open(path, "wb") as file:
                    file.write(data)
                self.assert_failed(lib.run_tool("dump", "--core", path, "-o", "-"), code, words)
                self.assert_failed(lib.run_tool("status", "--core", path), code, words)
        self.assert_failed(self.dump_core(directory), lib.USAGE, "EISDIR")
        self.assert_failed(self.dump_core(directory + "/none"), lib.USAGE, "ENOENT")

    def test_damaged(self):
        """Whatever the headers and notes say, the tool ends, and invents no stack."""
        before, core = self.crash(self.process_with_samples())
        known, chance = stacks_of(before), random.Random(7)
        data = lib.read_bytes(core)
        head = ELF_HEADER + PROGRAM_HEADER * len(list(segments(data)))
        notes = [(at, filed) for _, kind, _, at, _, filed, _ in segments(data) if kind == PT_NOTE]
        areas = [(16, head), *((at, at + size) for at, size in notes)]

        def damage(copy):
            start, end = chance.choice(areas)
            for _ in range(chance.choice((1, 3, 30))):
                copy[chance.randrange(start, end)] = chance.choice((0, 1, 0x7f, 0xff))

        for number in range(30):
            with self.subTest(number=number):
                result = self.dump_core(self.changed(core, damage))
                self.assertIn(result.code, (lib.OK, lib.USAGE, lib.NO_JEMALLOC, lib.PROFILING_OFF,
                                            lib.REFUSED, lib.NO_SAFE_MOMENT), result)
                found = stacks_of(result.out)
                self.assertEqual({stack: known.get(stack) for stack in found}, found)

    def test_usage(self):
        for words, said in (
                (["--core", "x", "1"], "it cannot be combined with a PID"),
                (["--core", "x", "--path", "y"], "require a running process"),
                (["--core", "x", "--call"], "require a running process"),
                (["--core", ""], "requires a file"),
                (["--exe", "x", "1"], "require --core"),
                (["--core", "x", "-o", "%p.heap"], "one file"),
                (["--core", "x", "--json"], "requires -o FILE")):
            with self.subTest(words=words):
                result = lib.run_tool("dump", *words)
                self.assertEqual(result.code, lib.USAGE, result)
                self.assertIn(said, result.err)


    def test_in_the_place_of_a_process(self):
        before, core = self.crash(self.process_with_samples())
        del before
        self.assertEqual(lib.run_tool("stats", core).text, lib.run_tool("stats", "--core", core).text)
        self.assertEqual(lib.run_tool(core).text, lib.run_tool("explain", "--core", core).text)
        self.assertIn("(core file", lib.run_tool("stats", core).text)
        self.assert_failed(lib.run_tool("leak", core), lib.USAGE, "is a core file",
                           "fix:   jeattach explain " + core)
        self.assert_failed(lib.run_tool("stats", core, os.getpid()), lib.USAGE, "cannot be combined")


class Files(Case):
    """The files of the process: elsewhere, replaced, or not there."""

    def start_in_root(self):
        """A static program below another root directory; returns it and that directory."""
        lib.require_root()
        root = self.directory()
        os.mkdir(os.path.join(root, "srv"))
        program = shutil.copy(releases.static_program("5.3.0", "paths"),
                              os.path.join(root, "srv", "app"))
        os.chmod(program, 0o755)
        process = self.process(["/srv/app", "--threads", "2", "--levels", "5"], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True,
                               env={"MALLOC_CONF": CONF},
                               preexec_fn=lambda: (os.chroot(root), os.chdir("/")))
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process, root

    def test_root(self):
        process, root = self.start_in_root()
        before = self.profile_of(process.pid)
        core = self.core_of_kernel(process, root)
        self.assert_same(before, self.dump_core(core, "--root", root))
        result = self.dump_core(core)
        self.assert_failed(result, lib.REFUSED, "are not here", "--root")
        self.assertIn("/srv/app", result.err)
        # --exe in its place
        program = shutil.move(os.path.join(root, "srv", "app"), os.path.join(root, "moved"))
        self.assert_same(before, self.dump_core(core, "--exe", program))
        # no link leads out of the root
        os.rmdir(os.path.join(root, "srv"))
        outside = self.directory()
        shutil.move(program, os.path.join(outside, "app"))
        os.symlink(outside, os.path.join(root, "srv"))
        self.assert_failed(self.dump_core(core, "--root", root), lib.REFUSED, "are not here", "--root")

    def test_another_program(self):
        before, core = self.crash(self.process_with_samples(link="static"))
        del before
        for words, said in ((["--exe", "/bin/true"], "is not the program of this core file"),
                            (["--exe", "/nosuchfile"], "ENOENT"),
                            (["--exe", "/dev/null"], "not a regular file"),
                            (["--root", "/nosuchdir"], "ENOENT")):
            with self.subTest(words=words):
                self.assert_failed(self.dump_core(core, *words), lib.USAGE, said)

    def test_replaced_library(self):
        """A library with another build-id is not used."""
        library = os.path.join(releases.release("5.3.0"), releases.LIBRARY)
        directory = self.directory()
        copy = shutil.copy(library, os.path.join(directory, "libjemalloc.so.2"))
        before, core = self.crash(self.process_with_samples(library=copy))
        self.assert_same(before, self.dump_core(core))
        os.unlink(copy)
        shutil.copy("/bin/true", copy)
        result = self.dump_core(core)
        self.assert_failed(result, lib.REFUSED, "files that the process had mapped")
        self.assertIn("another file has this path now", result.err)

    def test_no_other_process_is_looked_at(self):
        """Nothing below /proc/PID is opened, also if the pid belongs to another process now."""
        if not shutil.which("strace"):
            self.skipTest("strace is not installed")
        before, core = self.crash(self.process_with_samples())
        own = os.getpid()

        def give_own_pid(data):
            for _, kind, _, at, _, size, _ in segments(data):
                end = at + size
                while kind == PT_NOTE and at < end:
                    named, described, number = struct.unpack_from("<III", data, at)
                    start = at + 12 + (named + 3) // 4 * 4
                    if number == 3:  # NT_PRPSINFO: pr_pid
                        struct.pack_into("<i", data, start + 24, own)
                    at = start + (described + 3) // 4 * 4

        copy = self.changed(core, give_own_pid)
        trace = os.path.join(self.directory(), "trace")
        result = lib.run_tool("-f", "-o", trace, lib.TOOL, "dump", "--core", copy, "-o", "-",
                              tool="strace", env={"ASAN_OPTIONS": "detect_leaks=0"})
        self.assert_same(before, result)
        self.assertIn("[%d] profile read from its core file" % own, result.err)
        text = lib.read_text(trace)
        self.assertNotIn("/proc/%d" % own, text)
        self.assertNotIn('"%d/' % own, text)
        for call in ("ptrace(", "process_vm_readv(", "pidfd_open("):
            self.assertNotIn(call, text)


class Status(Case):
    def test_text(self):
        before, core = self.crash(self.process_with_samples())
        del before
        result = self.assert_ran(lib.run_tool("status", "--core", core))
        self.assertRegex(result.text, r"\Apath-0\[\d+\] \(core file, signal 6, Aborted\): "
                                      r"profiling is active\n  jemalloc +5\.3\.0")
        self.assertRegex(result.text, r"(?m)^  prof\.active +yes  ")
        self.assertIn("MALLOC_CONF='%s'" % CONF, result.text)
        self.assertIn("attach: not possible: the process has ended\n", result.text)
        self.assertIn("next: jeattach dump --core %s -f text\n" % core, result.text)

    def test_json(self):
        before, core = self.crash(self.process_with_samples())
        status = json.loads(self.assert_ran(lib.run_tool("status", "--core", core, "--json")).out)
        self.assertEqual((status["source"], status["attach"]), ("core", None))
        self.assertEqual((status["prof.active"], status["prof.lg_sample"]), (True, 10))
        path = os.path.join(self.directory(), "x.heap")
        dump = self.assert_ran(lib.run_tool("dump", "--core", core, "-o", path, "--json")).out
        dump = json.loads(dump)
        self.assertEqual(dump["stacks"], len(stacks_of(before)))
        self.assertEqual(dump["bytes"], os.path.getsize(path))
        self.assertEqual((dump["core"], dump["path"]), (core, path))
        self.assertEqual((dump["truncated"], dump["unread_stacks"]), (False, 0))

    def test_no_profiling(self):
        allocator = self.allocator("5.3.0", conf="prof:false")
        core = self.core_of_kernel(allocator.process, allocator.directory)
        self.assert_failed(self.dump_core(core), lib.PROFILING_OFF, "opt.prof is false")
        result = self.assert_ran(lib.run_tool("status", "--core", core))
        self.assertIn("start it with MALLOC_CONF=", result.text)

    def test_no_jemalloc(self):
        directory = self.directory()
        process = self.process(["sleep", "1000"], cwd=directory)
        lib.wait_until(lambda: "sleep" in lib.read_text("/proc/%d/cmdline" % process.pid))
        core = self.core_of_kernel(process, directory)
        self.assert_failed(self.dump_core(core), lib.NO_JEMALLOC, "no jemalloc found")
        self.assert_failed(lib.run_tool("status", "--core", core), lib.NO_JEMALLOC, "core file")


if __name__ == "__main__":
    lib.main()
