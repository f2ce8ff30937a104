"""Modules whose separate symbols cost far more than they are worth: sixty links to one file of a
gigabyte, and sixty archives of 11 KB that unpack to 64 MiB each. The cost is that of one run,
not of each module; the rest of the answer comes."""

import contextlib
import lzma
import os
import re
import shutil
import signal
import struct
import subprocess
import tempfile
import threading

import hostile
import lib

MODULES = 60
GIANT = 1 << 30
UNPACKED = 64 * hostile.MIB
# 256 MiB and what is renewed: see elf/minidebug.h
FILES_MAX = 400 * hostile.MIB
BASE, APART = 0x7F0000000000, 1 << 20


def run(*words):
    subprocess.run(words, check=True, capture_output=True)


def memory_files(pid):
    """Returns the bytes of the memory files that a process has open."""
    total = 0
    with contextlib.suppress(OSError):
        for fd in os.scandir("/proc/%d/fd" % pid):
            with contextlib.suppress(OSError):
                if "memfd:" in os.readlink(fd.path):
                    total += os.stat(fd.path).st_blocks * 512
    return total


def bytes_moved(pid):
    """Returns how much a process has read of files, and written to them."""
    try:
        text = lib.read_text("/proc/%d/io" % pid)
    except OSError:
        return 0, 0
    return tuple(int(re.search(name + r": (\d+)", text)[1]) for name in ("rchar", "wchar"))


class DebugBombsTest(lib.TestCase):
    def setUp(self):
        for program in "cc", "objcopy":
            if not shutil.which(program):
                self.skipTest("%s is not installed" % program)
        self.dir = self.directory()
        with open(self.path("module.c"), "w") as file:
            file.write("int f(int x) { return x + 1; }\n")
        run("cc", "-shared", "-fPIC", "-Wl,--build-id=none", "-s", "-o", self.path("plain.so"),
            self.path("module.c"))
        with open(self.path("plain.so"), "rb") as file:
            self.plain = file.read()

    def path(self, name):
        return os.path.join(self.dir, name)

    def put_modules(self, section, data):
        """Writes the modules with that section; returns their paths."""
        with open(self.path("section"), "wb") as file:
            file.write(data)
        run("objcopy", "--add-section", "%s=%s" % (section, self.path("section")),
            self.path("plain.so"), self.path("lib.so"))
        paths = [self.path("lib%02d.so" % i) for i in range(MODULES)]
        for path in paths:
            shutil.copy(self.path("lib.so"), path)
        return paths

    def put_links(self):
        with open(self.path("giant.debug"), "wb") as file:
            file.write(self.plain)
            file.truncate(GIANT)
        return self.put_modules(".gnu_debuglink", b"giant.debug\0" + struct.pack("<I", 0x12345678))

    def put_archives(self):
        data = self.plain + bytes(UNPACKED - len(self.plain))
        return self.put_modules(".gnu_debugdata", lzma.compress(data, preset=1))

    def put_honest(self, archive):
        """Writes a module whose only function is named by its own debug file, of usual size:
        a separate one, or one in the module."""
        name = "archived" if archive else "linked"
        full, debug, module = (self.path(name + end) for end in (".full", ".debug", ".so"))
        with open(self.path("honest.c"), "w") as file:
            file.write("static int __attribute__((used)) honest_%s(int x) { return x + 1; }\n"
                       % name)
        run("cc", "-g", "-shared", "-fPIC", "-nostdlib", "-Wl,--build-id=none", "-o", full,
            self.path("honest.c"))
        run("objcopy", "--only-keep-debug", full, debug)
        if archive:
            with open(debug, "rb") as file, open(self.path("section"), "wb") as packed:
                packed.write(lzma.compress(file.read()))
            run("objcopy", "-S", "--add-section", ".gnu_debugdata=" + self.path("section"), full,
                module)
        else:
            run("objcopy", "-S", "--add-gnu-debuglink=" + debug, full, module)
        return module

    def put_profile(self, paths):
        """Writes a profile with a stack in each of the modules."""
        start = int(re.search(r"LOAD +0x(\w+) .* R E ", subprocess.run(
            ["readelf", "-lW", self.path("plain.so")], check=True, capture_output=True,
            text=True).stdout)[1], 16)
        bases = [BASE + i * APART + start for i in range(len(paths))]
        with open(self.path("x.heap"), "w") as file:
            file.write("heap_v2/524288\n  t*: %d: %d [0: 0]\n" % (len(paths), 1000 * len(paths)))
            for base in bases:
                file.write("@ 0x%x\n  t*: 1: 1000 [0: 0]\n" % (base + 8))
            file.write("\nMAPPED_LIBRARIES:\n")
            for i, (base, path) in enumerate(zip(bases, paths, strict=True)):
                file.write("%x-%x r-xp %08x 08:01 %d %s\n" % (base, base + 0x1000, start, i + 1,
                                                             path))
        return self.path("x.heap")

    def watched(self, *words, interrupt_at=None):
        """Runs the tool to its end. Returns its result, and the most bytes that it was seen to
        have in memory files, to have read and to have written."""
        words = [str(word) for word in words]
        process = lib.Process([lib.TOOL, *words], env=lib.tool_environment(),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(lib.end_process, process)
        seen = [0, 0, 0]
        self.interrupted_at = None
        ended = threading.Event()

        def look():
            now = memory_files(process.pid), *bytes_moved(process.pid)
            seen[:] = map(max, seen, now)
            if interrupt_at and now[1] > interrupt_at and self.interrupted_at is None:
                process.send_signal(signal.SIGSTOP)
                self.interrupted_at = bytes_moved(process.pid)[0]
                process.send_signal(signal.SIGINT)
                process.send_signal(signal.SIGCONT)
            if seen[0] > 2 * FILES_MAX or seen[1] > 4 * GIANT:
                process.kill()  # it is as bad as it can be
            return ended.wait(0.002)

        watcher = threading.Thread(target=lambda: any(iter(look, True)))
        watcher.start()
        try:
            out, err = process.communicate(timeout=lib.TOOL_TIMEOUT)
        finally:
            ended.set()
            watcher.join()
        return lib.Result(words, process.returncode, out, err.decode(), 0), *seen

    def assert_told(self, result, honest):
        """The honest module has its name, and those that were not read to their end are named."""
        self.assertIn(honest, result.out)
        self.assertRegex(result.err, r"lib\d\d\.so: its names are not shown: its debug "
                                     r"file would take too long to check or to unpack")
        self.assertRegex(result.err, r"\d+ more modules lack names")

    def start(self, paths):
        """A process that has mapped them all."""
        with open(self.path("program.c"), "w") as file:
            file.write("#include <stdlib.h>\n#include <unistd.h>\nint main(void)\n{\n"
                       "free(malloc(100));\nif (write(1, \"ready\\n\", 6) == 6) pause();\n}\n")
        run("cc", "-o", self.path("program"), self.path("program.c"), "-ljemalloc")
        process = self.process([self.path("program")], stdout=subprocess.PIPE,
                               env=lib.tool_environment({"LD_PRELOAD": ":".join(paths)}))
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def test_links_to_one_file(self):
        """Its checksum is made once."""
        result, _, read, _ = self.watched("report", self.put_profile(self.put_links()))
        self.assertIn(b"60 stacks", self.assert_ran(result).out)
        self.assertLess(read, 2 * GIANT)

    def test_links_of_a_process(self):
        process = self.start(self.put_links())
        result, _, read, _ = self.watched("status", process.pid)
        self.assert_ran(result)
        self.assertLess(read, 2 * GIANT)

    def test_links_to_many_files(self):
        """The files differ, and are summed up to a bound for the run."""
        paths = self.put_links()
        for i, path in enumerate(paths):
            with open(path, "r+b") as file:
                data = file.read().replace(b"giant.debug\0", b"giant.d%04d\0" % i)
                file.seek(0)
                file.write(data)
            with open(self.path("giant.d%04d" % i), "wb") as file:
                file.write(self.plain)
                file.truncate(GIANT // 2)
        paths.append(self.put_honest(archive=False))
        result, _, read, _ = self.watched("report", self.put_profile(paths))
        self.assert_ran(result)
        self.assertLess(read, 3 * GIANT)
        self.assert_told(result, b"honest_linked")

    def test_ctrl_c(self):
        """One signal ends the checksum."""
        profile = self.put_profile(self.put_links())
        for _ in range(10):
            result, _, read, _ = self.watched("report", profile, interrupt_at=GIANT // 16)
            if self.interrupted_at is None or self.interrupted_at > GIANT // 2:
                continue  # the signal came too late to show anything
            self.assertIn(result.code, (lib.OK, 130), result)
            self.assertLess(read, self.interrupted_at + GIANT // 4)
            return
        self.skipTest("the checksum was always made before the signal")

    def test_archives(self):
        paths = [*self.put_archives(), self.put_honest(archive=True)]
        result, files, _, written = self.watched("report", self.put_profile(paths))
        self.assertIn(b"61 stacks", self.assert_ran(result).out)
        self.assert_told(result, b"honest_archived")
        self.assertGreaterEqual(written, UNPACKED)
        self.assertLess(files, FILES_MAX)
        self.assertLess(written, FILES_MAX)

    def test_archives_of_a_process(self):
        process = self.start(self.put_archives())
        result, files, _, written = self.watched("status", process.pid)
        self.assert_ran(result)
        self.assertLess(files, FILES_MAX)
        self.assertLess(written, FILES_MAX)

    # ---- holes of files on tmpfs ----

    def put_hole(self, name, section):
        """A program on tmpfs that has profiles of itself, with a section that is a hole of 1 GiB."""
        source, program = self.path("holes.c"), os.path.join(self.shared, name)
        with open(source, "w") as file:
            file.write("#include <stdlib.h>\n#include <unistd.h>\nvoid *volatile kept;\n"
                       "int main(void)\n{\nfor (int i = 0; i < 1000; i++) kept = malloc(5000);\n"
                       "if (write(1, \"ready\\n\", 6) == 6) pause();\n}\n")
        run("cc", "-g", "-o", program, source, "-ljemalloc")
        listed = subprocess.run(["readelf", "-SW", program], check=True, capture_output=True,
                                text=True).stdout
        index = int(re.search(r"\[ *(\d+)\] %s " % re.escape(section), listed)[1])
        with open(program, "r+b") as file:
            headers = struct.unpack_from("<Q", file.read(48), 40)[0]
            file.seek(headers + 64 * index + 24)
            file.write(struct.pack("<QQ", 1 << 20, GIANT))
            file.truncate((1 << 20) + GIANT)
        return program

    def test_holes(self):
        """A hole of a file on tmpfs becomes memory if it is read through a mapping."""
        if not os.path.isdir("/dev/shm"):
            self.skipTest("no /dev/shm")
        self.shared = tempfile.mkdtemp(prefix="jeattach-test.", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, self.shared, True)
        conf = {"MALLOC_CONF": "prof:true,prof_active:true,lg_prof_sample:12"}
        for section in ".symtab", ".debug_info", ".debug_str":
            program = self.put_hole("holes" + section, section)
            blocks = os.stat(program).st_blocks
            process = self.process([program], stdout=subprocess.PIPE,
                                   env=lib.tool_environment(conf))
            self.assertEqual(process.stdout.readline(), b"ready\n")
            profile = self.path(section + ".heap")
            verbs = [("dump", process.pid, "-o", profile), ("report", profile)]
            if section == ".symtab":
                verbs += [("dump", process.pid, "-o", self.path("x.pb.gz")), ("ps",),
                          ("explain", process.pid, "-d", "1ms"), ("leak", process.pid, "-d", "1ms")]
            for words in verbs:
                self.assert_ran(lib.run_tool(*words))
                self.assertEqual(os.stat(program).st_blocks, blocks, (section, words))
            os.unlink(program)
            process.kill()


if __name__ == "__main__":
    lib.main()
