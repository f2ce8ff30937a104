"""Each place where the name mallctl can be, and each way in which its module can be mapped: it is
found, and a call of the found function returns.
"""

import glob
import json
import os
import shutil
import subprocess
import sys
import unittest

import lib

SOURCE = os.path.join(lib.ROOT, "tests", "victims", "anyhow.c")
# Capabilities that allow reading /proc/PID/map_files (fs/proc/base.c, proc_map_files_get_link).
WITHOUT_MAP_FILES = ["setpriv", "--bounding-set=-sys_admin,-checkpoint_restore"]


def archive(name):
    found = glob.glob("/usr/lib/*/%s" % name) + glob.glob("/usr/lib64/%s" % name)
    if not found:
        raise unittest.SkipTest("%s is not installed" % name)
    return found[0]


def run(*argv):
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise AssertionError("%s: %s" % (" ".join(argv), done.stderr[-2000:]))
    return done.stdout


def need(*programs):
    for program in programs:
        if not shutil.which(program):
            raise unittest.SkipTest("%s is not installed" % program)


class Modules(lib.TestCase):
    def setUp(self):
        self.dir = self.directory()

    def path(self, *names):
        path = os.path.join(self.dir, *names)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def link(self, *flags, name="program"):
        """A program with jemalloc in it."""
        path = self.path(name)
        run("cc", "-O2", SOURCE, "-o", path, *flags, archive("libjemalloc.a"), "-lm")
        return path

    def library(self, *flags, name="libother.so"):
        """jemalloc as a library."""
        path = self.path(name)
        whole = ["-Wl,--whole-archive", archive("libjemalloc_pic.a"), "-Wl,--no-whole-archive"]
        run("cc", "-shared", "-o", path, *flags, *whole, "-lm", "-lstdc++", "-lpthread")
        return path

    def start(self, *argv, **options):
        options = {"env": lib.tool_environment(options.pop("env", None)), **options}
        process = self.process([*argv], stdout=subprocess.PIPE, **options)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def preloaded(self, library):
        plain = self.path("plain")
        run("cc", "-O2", SOURCE, "-o", plain)
        return self.start(plain, env={"LD_PRELOAD": library})

    def run_behind(self, before, process):
        """Runs `status`, through a command that runs the tool if one is given."""
        argv = [*before, lib.TOOL, "status", process.pid, "--json"]
        return lib.run_tool(*argv[1:], tool=argv[0])

    def status(self, process, before=()):
        """Runs `status`; its calls returned plausible values."""
        result = self.assert_ran(self.run_behind(before, process))
        self.assertEqual(process.poll(), None)
        answer = json.loads(result.text)
        self.assertRegex(answer["version"], r"^[45]\.\d+\.\d+-")
        return answer

    def assert_found(self, process, module, by=".symtab", before=()):
        answer = self.status(process, before)
        self.assertEqual((answer["module"], answer["found_by"]), (module, by))
        self.assertEqual(answer["prefix"], "")
        return answer

    def assert_nameless(self, process, before=()):
        """No name can be read; jemalloc may still be found without one."""
        result = self.run_behind(before, process)
        if result.code == lib.OK:
            self.assertEqual(json.loads(result.text)["found_by"], "tables", result)
        else:
            self.assert_failed(result, lib.NO_JEMALLOC)

    def assert_program_found(self, *flags):
        path = self.link(*flags)
        self.assert_found(self.start(path), path)
        return path

    # ---- ways to link a program --------------------------------------------------------

    def test_pie(self):
        self.assert_program_found("-pie")

    def test_not_pie(self):
        self.assert_program_found("-no-pie", "-fno-pie")

    def test_static(self):
        self.assert_program_found("-static")

    def test_static_pie(self):
        self.assert_program_found("-static-pie")

    def test_pie_with_its_own_base(self):
        """A file after prelink: addresses that do not begin at 0."""
        self.assert_program_found("-pie", "-Wl,-Ttext-segment=0x40000000")

    def test_not_pie_far_away(self):
        self.assert_program_found("-no-pie", "-fno-pie", "-Wl,-Ttext-segment=0x12340000")

    def test_lld(self):
        need("ld.lld")
        self.assert_program_found("-fuse-ld=lld")

    def test_lld_with_equal_offsets(self):
        """Segments of one page of the file: several mappings of the same offset."""
        need("ld.lld")
        path = self.assert_program_found("-fuse-ld=lld", "-Wl,-z,noseparate-code")
        self.assertIn("R E", run("readelf", "-lW", path))

    def test_lld_separate_segments(self):
        need("ld.lld")
        self.assert_program_found("-fuse-ld=lld", "-Wl,-z,separate-loadable-segments", "-no-pie")

    def test_moved_code(self):
        """All code in anonymous memory, as for huge pages."""
        path = self.link("-pie")
        process = self.start(path, "--move")
        code = [m for m in lib.mappings(process.pid) if "x" in m.perms and m.path == path]
        self.assertEqual(code, [])
        self.assert_found(process, path)

    def test_library_with_its_own_base(self):
        library = self.library("-Wl,-Ttext-segment=0x3000000000")
        self.assert_found(self.preloaded(library), library, ".dynsym")

    def test_library_with_old_hash(self):
        library = self.library("-Wl,--hash-style=sysv")
        self.assertNotIn("GNU_HASH", run("readelf", "-lSW", library))
        self.assert_found(self.preloaded(library), library, ".dynsym")

    def test_library_with_hidden_names(self):
        """--exclude-libs: only .symtab has the names."""
        library = self.library("-Wl,--exclude-libs,ALL")
        self.assertNotIn("mallctl", run("nm", "-D", library))
        self.assert_found(self.preloaded(library), library)

    # ---- places of the names -------------------------------------------------------------

    def split(self, path):
        """Moves the symbols to a separate file; returns its name."""
        debug = path + ".debug"
        run("objcopy", "--only-keep-debug", path, debug)
        run("strip", path)
        return debug

    def add_minidebug(self, path):
        """Compresses the symbols that .dynsym lacks, like rpm's find-debuginfo."""
        need("xz")
        debug, mini, names = self.split(path), path + ".mini", path + ".names"
        with open(names, "w") as file:
            symbols = run("nm", debug, "--format=posix", "--defined-only").splitlines()
            file.write("".join(s.split()[0] + "\n" for s in symbols if s.split()[1] in "tTwW"))
        removed = ["--remove-section=.gdb_index", "--remove-section=.comment"]
        run("objcopy", "-S", *removed, "--keep-symbols=" + names, debug, mini)
        run("xz", "--force", mini)
        run("objcopy", "--add-section", ".gnu_debugdata=%s.xz" % mini, path)
        os.unlink(debug)

    def test_minidebug(self):
        for flags in (["-pie"], ["-static"], ["-pie", "-Wl,-Ttext-segment=0x40000000"]):
            with self.subTest(flags=flags):
                path = self.link(*flags)
                self.add_minidebug(path)
                self.assert_found(self.start(path), path, ".gnu_debugdata")

    def test_minidebug_of_a_library(self):
        library = self.library("-Wl,--exclude-libs,ALL")
        self.add_minidebug(library)
        self.assert_found(self.preloaded(library), library, ".gnu_debugdata")

    def test_damaged_minidebug(self):
        """It is ignored."""
        path = self.link("-pie")
        self.add_minidebug(path)
        with open(path, "r+b") as file:
            at = file.read().index(b"\xfd7zXZ\0")
            file.seek(at + 100)
            file.write(b"damaged")
        self.assert_nameless(self.start(path))

    def test_debug_link(self):
        path = self.link("-pie", "-Wl,--build-id=none")
        debug = self.split(path)
        run("objcopy", "--add-gnu-debuglink", debug, path)
        process = self.start(path)
        self.assert_found(process, path, "debug file")
        beside = self.path(".debug", "program.debug")
        os.rename(debug, beside)
        self.assert_found(process, path, "debug file")
        with open(beside, "ab") as file:
            file.write(b"x")  # the checksum differs
        self.assert_nameless(process)

    def build_id(self, path):
        text = run("readelf", "-n", path)
        return text.partition("Build ID: ")[2].split()[0]

    def debug_path(self, path, root):
        build_id = self.build_id(path)
        name = "usr/lib/debug/.build-id/%s/%s.debug" % (build_id[:2], build_id[2:])
        return self.path(root, name)

    def test_debug_file_by_build_id(self):
        """In the root of the target, which differs from the tool's."""
        path = self.link("-static", "-Wl,--build-id", name="root/bin/program")
        debug = self.split(path)
        place = self.debug_path(path, "root")
        process = self.start_in_chroot()
        self.assert_nameless(process)
        os.rename(debug, place)
        self.assertEqual(self.status(process)["found_by"], "debug file")
        os.rename(place, debug)
        os.symlink(debug, place)  # leads outside of the root
        self.assert_nameless(process)

    def test_debug_file_of_the_host(self):
        """In /usr/lib/debug of the tool, for a target in another mount namespace."""
        lib.require_root()
        need("unshare", "mount")
        path = self.link("-pie", "-Wl,--build-id")
        debug = self.split(path)
        os.makedirs("/usr/lib/debug", exist_ok=True)
        place = os.path.relpath(self.debug_path(path, "host"), self.path("host", ""))
        shutil.copy(debug, self.path("host", place))
        script = 'mount --bind "$1/usr/lib/debug" /usr/lib/debug && shift && exec "$@"'
        before = ["unshare", "-m", "sh", "-c", script, "sh", self.path("host", "")]
        probe = subprocess.run([*before, "true"], capture_output=True)
        if probe.returncode:
            self.skipTest("no mount namespaces: %s" % probe.stderr.decode())
        self.assert_found(self.start(path), path, "debug file", before=before)

    def test_decoy(self):
        """Names alone are not sufficient: mallctl without its sibling, and data of that name."""
        source = self.path("decoy.c")
        with open(source, "w") as file:
            file.write(
                "#include <stdio.h>\n#include <unistd.h>\n"
                "int my_mallctl(void) { return 0; }\nint malloc_stats_print, mallctl;\n"
                'int main(void) { puts("ready"); fflush(stdout); for (;;) usleep(20000); }\n'
            )
        path = self.path("decoy")
        run("cc", source, "-o", path, "-rdynamic")
        self.assert_failed(lib.run_tool("status", self.start(path).pid), lib.NO_JEMALLOC)

    # ---- files that are deleted, replaced, or elsewhere ----------------------------------

    def assert_found_either_way(self, process, module, by=".symtab"):
        self.assert_found(process, module, by)
        need("setpriv")
        self.assert_found(process, module, by, before=WITHOUT_MAP_FILES)

    def test_deleted_program(self):
        path = self.link("-pie")
        process = self.start(path)
        os.unlink(path)
        self.assert_found_either_way(process, path)

    def test_deleted_library(self):
        """.dynsym is mapped, whatever happened to the file."""
        library = self.library()
        process = self.preloaded(library)
        os.unlink(library)
        self.assert_found_either_way(process, library, ".dynsym")

    def test_deleted_library_with_hidden_names(self):
        library = self.library("-Wl,--exclude-libs,ALL")
        process = self.preloaded(library)
        os.unlink(library)
        self.assert_found(process, library)
        need("setpriv")
        self.assert_nameless(process, WITHOUT_MAP_FILES)

    def replace(self, path, *flags):
        """Another program under the same name, its functions at other addresses."""
        other = self.link("-Wl,--section-start=.text=0x100000", *flags, name="other")
        os.rename(other, path)

    def test_replaced_program(self):
        for flags in (["-Wl,--build-id"], ["-Wl,--build-id=none"]):
            with self.subTest(flags=flags):
                path = self.link("-pie", *flags)
                process = self.start(path)
                self.replace(path, *flags)
                self.assert_found_either_way(process, path)

    def test_replaced_library(self):
        """The file of that name has other addresses: it is not used."""
        flags = ["-Wl,--exclude-libs,ALL", "-Wl,--build-id"]
        library = self.library(*flags)
        process = self.preloaded(library)
        os.rename(self.library(*flags, "-Wl,--section-start=.text=0x100000", name="new"), library)
        self.assert_found(process, library)
        need("setpriv")
        self.assert_nameless(process, WITHOUT_MAP_FILES)

    def test_memory_file_program(self):
        path = self.link("-static-pie")
        script = (
            "import os, sys\n"
            "fd = os.memfd_create('program', os.MFD_CLOEXEC)\n"
            "os.write(fd, open(sys.argv[1], 'rb').read())\n"
            "os.execve(fd, ['program'], os.environ)\n"
        )
        process = self.start(sys.executable, "-c", script, path)
        self.assert_found_either_way(process, "/memfd:program")

    def test_memory_file_library(self):
        library = self.library("-Wl,--exclude-libs,ALL")
        script = (
            "import ctypes, os, sys, time\n"
            "fd = os.memfd_create('library')\n"
            "os.write(fd, open(sys.argv[1], 'rb').read())\n"
            "ctypes.CDLL('/proc/self/fd/%d' % fd)\n"
            "print('ready', flush=True)\n"
            "while True: time.sleep(0.02)\n"
        )
        # The archive's thread-local storage is that of a library loaded at start.
        room = {"GLIBC_TUNABLES": "glibc.rtld.optional_static_tls=16384"}
        process = self.start(sys.executable, "-c", script, library, env=room)
        self.assert_found(process, "/memfd:library")

    def start_in_chroot(self):
        lib.require_root()
        need("chroot")
        return self.start("chroot", self.path("root", ""), "/bin/program")

    def test_chroot(self):
        """maps shows the path with the chroot's directory in front."""
        path = self.link("-static", name="root/bin/program")
        process = self.start_in_chroot()
        self.assert_found_either_way(process, path)

    def test_library_in_chroot(self):
        """Without map_files and exe: below the chroot, without its directory in front."""
        program = self.path("root", "bin", "program")
        soname = "-Wl,-soname,libother.so"
        library = self.library("-Wl,--exclude-libs,ALL", soname, name="root/lib/libother.so")
        run("cc", "-O2", SOURCE, "-o", program, "-Wl,--no-as-needed,-rpath,/lib", library)
        for line in (run("ldd", program) + run("ldd", library)).splitlines():
            for word in line.split():
                if word.startswith("/") and os.path.exists(word):
                    target = self.path("root", word[1:])
                    shutil.copy(word, target)
        lib.require_root()
        process = self.start("chroot", self.path("root", ""), "/bin/program", env=None)
        self.assert_found_either_way(process, library)

    def test_overlay(self):
        """maps shows device and inode of the lower file; without build-ids the content decides."""
        lib.require_root()
        need("unshare", "mount", "setpriv")
        names = ("lower", "upper", "work", "merged")
        lower, upper, work, merged = (self.path(name, "") for name in names)
        plain = self.path("plain")
        run("cc", "-O2", SOURCE, "-o", plain)
        self.library("-Wl,--exclude-libs,ALL", "-Wl,--build-id=none", name="lower/libother.so")
        options = "lowerdir=%s,upperdir=%s,workdir=%s" % (lower, upper, work)
        # In a mount namespace of the target's own, which ends with the target.
        mount = 'mount -t overlay overlay -o "$1" "$2" && shift 2 && exec "$@"'
        inside = ["unshare", "-m", "sh", "-c", mount, "sh", options, merged]
        probe = subprocess.run([*inside, "true"], capture_output=True)
        if probe.returncode:
            self.skipTest("no overlayfs: %s" % probe.stderr.decode())
        library = os.path.join(merged, "libother.so")
        process = self.start(*inside, "env", "LD_PRELOAD=" + library, plain)
        self.assert_found_either_way(process, library)

    def needing(self, library):
        """A program that loads the library by its full path, which may hold any bytes."""
        plain = self.path("plain")
        run("cc", "-O2", SOURCE, "-o", plain, "-Wl,--no-as-needed", library)
        return self.start(plain)

    def test_odd_names(self):
        library = self.library("-Wl,--exclude-libs,ALL")
        odd = ("with space.so", "with\nnewline.so", "x (deleted)", "back\\slash.so", "тест.so")
        for name in odd:
            with self.subTest(name=name):
                path = self.path(name)
                shutil.copy(library, path)
                process = self.needing(path)
                shown = path[: -len(" (deleted)")] if name.endswith("(deleted)") else path
                self.assert_found_either_way(process, shown)
                os.unlink(path)
                self.assert_found(process, path)

    # ---- hostile files ------------------------------------------------------------------

    def assert_bounded(self, process):
        """An answer within seconds, in little memory."""
        need("setpriv", "prlimit")
        for before in ([], WITHOUT_MAP_FILES):
            limited = ["prlimit", "--as=%d" % (512 << 20)] if "asan" not in lib.TOOL else []
            result = self.run_behind(limited + before, process)
            self.assertIn(result.code, (lib.OK, lib.NO_JEMALLOC), result)
            self.assertLess(result.seconds, 60, result)
            self.assertEqual(process.poll(), None)

    def test_fifo_in_its_place(self):
        library = self.library("-Wl,--exclude-libs,ALL")
        process = self.preloaded(library)
        os.unlink(library)
        os.mkfifo(library)
        self.assert_bounded(process)

    def test_sparse_terabyte(self):
        """A valid header, and tables that cover the whole of a sparse file."""
        library = self.library("-Wl,--exclude-libs,ALL")
        size = 1 << 40
        table = size - (64 << 20)  # space for a million section headers
        self.write(library, 40, table.to_bytes(8, "little"))
        self.write(library, 60, (0).to_bytes(2, "little"))
        os.truncate(library, size)
        self.write(library, table + 32, (1 << 20).to_bytes(8, "little"))
        process = self.preloaded(library)
        self.assert_bounded(process)
        for length in (1 << 39, 700 << 20):
            self.write(library, table + 64, self.section(2, 4096, length, 2))
            self.write(library, table + 128, self.section(3, 1 << 39, 1 << 30, 0))
            self.assert_bounded(process)

    def write(self, path, offset, data):
        with open(path, "r+b") as file:
            file.seek(offset)
            file.write(data)

    def section(self, kind, offset, size, link):
        numbers = (0, kind, 0, 0, offset, size, link, 0, 1, 24)
        widths = (4, 4, 8, 8, 8, 8, 4, 4, 8, 8)
        return b"".join(n.to_bytes(w, "little") for n, w in zip(numbers, widths))


if __name__ == "__main__":
    lib.main()
