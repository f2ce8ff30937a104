"""What can be installed: by CMake, as a package of Debian, as one static file; the same bytes from
each folder.

packaging/build runs once for each state of the sources. Its results are kept in the build tree.
"""

import contextlib
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys

import lib
import opaque
import releases

BUILD = os.path.dirname(lib.TOOL)
PROC = 'mkdir -p "$0/proc" && mount --rbind /proc "$0/proc" && exec chroot "$0" "$@"'
LARGEST = 6 << 20  # bytes of the static file
UNTRACKED = ("var/lib/dpkg", "var/lib/apt", "var/cache", "var/log", "proc", "run", "tmp")


def run(*argv, **options):
    """Runs a command that must succeed, and returns what it prints."""
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace", **options)
    if done.returncode:
        raise AssertionError("%s\n%s" % (argv, (done.stdout + done.stderr)[-3000:]))
    return done.stdout


def need(case, *programs):
    for program in programs:
        if not shutil.which(program):
            case.skipTest("%s is not installed" % program)


def files_below(root, without=()):
    found = set()
    for folder, folders, names in os.walk(root):
        at = os.path.relpath(folder, root)
        folders[:] = [name for name in folders
                      if os.path.normpath(os.path.join(at, name)) not in without]
        found |= {os.path.normpath(os.path.join(at, name)) for name in folders + names}
    return found


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def sources():
    # Also where root tests the files of another user.
    listed = run("git", "-c", "safe.directory=*", "-C", lib.ROOT, "ls-files")
    return [name for name in listed.splitlines() if os.path.exists(os.path.join(lib.ROOT, name))]


def copy_sources(tree):
    """All but the tests."""
    for path in sources():
        if not path.startswith(("tests/", "bench/")) or path == "bench/README.md":
            os.makedirs(os.path.dirname(os.path.join(tree, path)), exist_ok=True)
            shutil.copy(os.path.join(lib.ROOT, path), os.path.join(tree, path))


def build(case, out):
    """Runs packaging/build."""
    need(case, "dpkg-buildpackage", "dh", "git", "busybox")
    missing = subprocess.run(["dpkg-checkbuilddeps"], cwd=lib.ROOT, capture_output=True, text=True)
    if missing.returncode:
        case.skipTest(missing.stderr.strip())
    environment = dict(os.environ, GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="safe.directory",
                       GIT_CONFIG_VALUE_0="*")
    with open(out + ".log", "w") as log:
        code = subprocess.run([os.path.join(lib.ROOT, "packaging", "build"), out], stdout=log,
                              stderr=subprocess.STDOUT, env=environment).returncode
    told = lib.read_text(out + ".log")
    if "cannot be fetched" in told:
        case.skipTest("the source of libunwind cannot be fetched")
    case.assertEqual(code, 0, told[-3000:])


def artefacts(case):
    """Returns the folder with what packaging/build makes of the sources as they are, or the one of
    packaging/release. Beside it is the log, NAME*.log."""
    if "JEATTACH_ARTEFACTS" in os.environ:
        return os.environ["JEATTACH_ARTEFACTS"]
    state = hashlib.sha256()
    for name in sources():
        if not name.startswith("tests/"):
            state.update(("%s %s\n" % (name, digest(os.path.join(lib.ROOT, name)))).encode())
    home = os.path.join(releases.HOME, "packages")
    os.makedirs(home, exist_ok=True)
    path = os.path.join(home, state.hexdigest()[:16])
    for other in glob.glob(os.path.join(home, "*")):
        if not other.startswith(path):
            with contextlib.suppress(OSError):
                shutil.rmtree(other) if os.path.isdir(other) else os.unlink(other)
    return releases.once(path, lambda new: build(case, new))


def static_file(case):
    return os.path.join(artefacts(case), "jeattach-%s-x86_64" % version())


def version():
    with open(os.path.join(lib.ROOT, "CMakeLists.txt")) as file:
        return re.search(r"project\(jeattach VERSION ([0-9.]+)", file.read())[1]


class Packaging(lib.TestCase):
    def inside(self, root, *words, code=lib.OK):
        """Runs a command in a root that has /proc. Returns the lib.Result."""
        result = lib.run_tool("-m", "sh", "-c", PROC, root, *words, tool="unshare")
        if result.code and "unshare" in result.err:
            self.skipTest("no mount namespaces: %s" % result.err)
        self.assertEqual(result.code, code, result)
        return result

    def answers(self, root, tool, pid):
        """What an operator types first, in a root. The profile is in its /tmp."""
        os.makedirs(os.path.join(root, "tmp"), exist_ok=True)
        self.assertEqual(self.inside(root, tool, "--version").text, "jeattach %s\n" % version())
        self.assertRegex(self.inside(root, tool, "ps").text, r"(?m)^ *%d " % pid)
        self.assertIn("next:", self.inside(root, tool, str(pid)).text)

    def profile(self, root, tool, pid, name, *files):
        """files: where the names are, as the kernel's paths of mappings begin outside the root."""
        self.inside(root, tool, "dump", str(pid), "-o", "/tmp/a.heap")
        self.assertIn(name, self.inside(root, tool, "report", "/tmp/a.heap", *files).text)

    def test_installs(self):
        """Into a folder, and out of it: what was there before is there after."""
        if not os.path.exists(os.path.join(BUILD, "cmake_install.cmake")):
            self.skipTest("no build directory around the tool")
        root = self.directory()
        os.makedirs(os.path.join(root, "usr/share/man/man1"))
        os.makedirs(os.path.join(root, "usr/share/doc"))
        with open(os.path.join(root, "usr/share/doc/other"), "w"):
            pass
        before = files_below(root)
        environment = dict(os.environ, DESTDIR=root)
        for _ in range(2):  # over itself, too
            run("cmake", "--install", BUILD, "--prefix", "/usr", env=environment)
        for name in ("bin/jeattach", "share/man/man1/jeattach.1",
                     "share/fish/vendor_completions.d/jeattach.fish",
                     "lib/systemd/system/jeattach-watch@.service"):
            self.assertIn("usr/" + name, files_below(root))
        tool = os.path.join(root, "usr/bin/jeattach")
        self.assertEqual(run(tool, "--version"), "jeattach %s\n" % version())
        page = lib.read_text(os.path.join(root, "usr/share/man/man1/jeattach.1"))
        self.assertIn("\n.Os jeattach %s\n" % version(), page)
        unit = lib.read_text(os.path.join(root, "usr/lib/systemd/system/jeattach-watch@.service"))
        self.assertIn("\nExecStart=/usr/bin/jeattach watch ", unit)
        run("cmake", "--build", BUILD, "--target", "uninstall", env=environment)
        self.assertEqual(files_below(root), before)
        # Below a folder that does not exist yet; and what is there is not taken for another place's.
        environment["DESTDIR"] = os.path.join(root, "new")
        run("cmake", "--install", BUILD, "--prefix", "/usr", env=environment)
        other = subprocess.run(["cmake", "--build", BUILD, "--target", "uninstall"],
                               env=dict(environment, DESTDIR=root), capture_output=True)
        self.assertNotEqual(other.returncode, 0)
        run("cmake", "--build", BUILD, "--target", "uninstall", env=environment)
        self.assertEqual(files_below(root) - before, {"new"})

    def test_same_bytes(self):
        """A layer, made in two folders, with debug information, which names files."""
        found = set()
        for name in ("a", "another"):
            tree = os.path.join(self.directory(), name)
            copy_sources(tree)
            run("cmake", "--preset", "release", "-G", "Ninja", "-DJEATTACH_TESTS=OFF",
                "-DCMAKE_C_FLAGS=-g", cwd=tree)
            run("ninja", "-C", "build", "libbase.a", cwd=tree)
            found.add(digest(os.path.join(tree, "build", "libbase.a")))
        self.assertEqual(len(found), 1)

    def test_static_file(self):
        """It needs nothing: in a root with /proc alone it answers, with names."""
        lib.require_root()
        made = static_file(self)
        self.assertLess(os.path.getsize(made), LARGEST)
        told = run("readelf", "-hld", made)
        self.assertRegex(told, r"Type: +DYN")  # at any address
        self.assertNotIn("INTERP", told)
        self.assertNotIn("NEEDED", told)
        root = self.directory()
        shutil.copy(made, os.path.join(root, "jeattach"))
        victim = self.victim()
        self.answers(root, "/jeattach", victim.pid)
        self.inside(root, "/jeattach", "on", str(victim.pid))
        victim.wait_rounds(2)
        self.profile(root, "/jeattach", victim.pid, "allocate_deep",
                     "--root", "/proc/%d/root" % victim.pid)
        self.inside(root, "/jeattach", "leak", str(victim.pid), "-d", "2s")
        packed = self.inside(root, "/jeattach", "dump", str(victim.pid), "-o", "-", "-f", "pprof")
        self.assertEqual(packed.out[:2], b"\x1f\x8b")
        self.inside(root, "/jeattach", "off", str(victim.pid), "--call")
        self.assert_unharmed(victim, slow=True)

    def test_static_file_with_musl(self):
        """In a root whose only C library is musl, on a program that uses it and one that has it."""
        lib.require_root()
        need(self, "musl-gcc")
        root = self.directory()
        os.makedirs(os.path.join(root, "lib"))
        shutil.copy("/lib/ld-musl-x86_64.so.1", os.path.join(root, "lib"))
        shutil.copy(static_file(self), os.path.join(root, "jeattach"))
        source = "#include <unistd.h>\nint main(void) { return pause(); }\n"
        run("musl-gcc", "-x", "c", "-", "-o", os.path.join(root, "sleeps"), input=source)
        shutil.copy(opaque.musl_static(), os.path.join(root, "opaque"))
        sleeps = self.process(["chroot", root, "/sleeps"])
        wanted = os.path.join(root, "sleeps")
        lib.wait_until(lambda: os.readlink("/proc/%d/exe" % sleeps.pid) == wanted)
        self.assertIn("next:", self.inside(root, "/jeattach", str(sleeps.pid)).text)
        self.assertIn("no jemalloc", self.inside(root, "/jeattach", "dump", str(sleeps.pid), "-o", "-",
                                                 code=lib.NO_JEMALLOC).err)
        other = self.process(["chroot", root, "/opaque", "outside", "/ready"], stdin=subprocess.PIPE,
                             env=dict(os.environ, _RJEM_MALLOC_CONF=opaque.CONF))
        lib.wait_until(lambda: os.path.exists(os.path.join(root, "ready")))
        self.answers(root, "/jeattach", other.pid)
        self.assertIn("in use", self.inside(root, "/jeattach", "stats", str(other.pid)).text)
        dump = self.inside(root, "/jeattach", "dump", "--no-call", str(other.pid), "-o", "-")
        self.assertEqual(dump.out[:8], b"heap_v2/")
        other.stdin.write(b"x\n")
        other.stdin.flush()
        self.assertEqual(other.wait(30), 0)

    def test_static_file_finds_names_and_lines(self):
        """As the other program does, with libdw and liblzma inside."""
        environment = dict(os.environ, JEATTACH=static_file(self))
        for file, *names in (
                ("e2e_report", "test_text", "test_pprof_has_lines_and_build_ids"),
                ("e2e_modules", "test_minidebug")):
            run(sys.executable, os.path.join(lib.ROOT, "tests", file + ".py"), *names,
                env=environment)

    def test_sums(self):
        path = artefacts(self)
        told = run("sha256sum", "-c", "SHA256SUMS", cwd=path)
        self.assertEqual(set(re.findall(r"(?m)^(\S+): OK$", told)),
                         set(os.listdir(path)) - {"SHA256SUMS"})
        [plugin] = glob.glob(os.path.join(path, "kubectl-jeattach-*.tar.gz"))
        self.assertEqual(run("tar", "-tf", plugin).split(), ["kubectl-jeattach", "jeattach-static"])
        manifest = lib.read_text(os.path.join(path, "jeattach.yaml"))
        self.assertIn('"%s"' % digest(plugin), manifest)
        self.assertNotIn("@", manifest)

    def test_package_is_clean(self):
        need(self, "lintian")
        [package] = glob.glob(os.path.join(artefacts(self), "jeattach_*.deb"))
        told = run("lintian", "--allow-root", "--fail-on", "error,warning", package)
        self.assertNotRegex(told, "(?m)^[EW]:")

    def root_of(self, suite, packages):
        """Returns a folder with a release of Debian."""
        lib.require_root()
        need(self, "mmdebstrap")
        root = os.path.join(self.directory(), "root")
        told = run("apt-config", "dump")
        proxies = ["--aptopt=" + row for row in told.splitlines()
                   if row.startswith("Acquire::http")]
        releases.run(["mmdebstrap", "--variant=apt", "--include=" + packages, *proxies, suite, root,
                      releases.mirror()], "/", 900)
        with contextlib.suppress(shutil.SameFileError):
            shutil.copy("/etc/resolv.conf", os.path.join(root, "etc/resolv.conf"))
        run("chroot", root, "apt-get", "update", "-q")
        return root

    def test_package_in_a_clean_root(self):
        [package] = glob.glob(os.path.join(artefacts(self), "jeattach_*.deb"))
        self.used_in(re.search(r"VERSION_CODENAME=(\w+)", lib.read_text("/etc/os-release"))[1], package)

    def used_in(self, suite, package):
        """Installed by apt, used, and removed without a trace."""
        root = self.root_of(suite, "redis-server")
        before = files_below(root, UNTRACKED)
        shutil.copy(package, os.path.join(root, "tmp"))
        run("chroot", root, "apt-get", "install", "-y", "-q", "--no-install-recommends",
            "/tmp/" + os.path.basename(package))
        self.used_on_redis(root, "jeattach")
        run("chroot", root, "apt-get", "autoremove", "--purge", "-y", "-q", "jeattach")
        self.assertEqual(files_below(root, UNTRACKED), before)

    def used_on_redis(self, root, tool):
        server = self.process(["chroot", root, "redis-server", "--port", "0", "--save", "",
                               "--unixsocket", "/tmp/socket"],
                              env={"PATH": os.environ["PATH"], "LC_ALL": "C",
                                   "MALLOC_CONF": "prof:true,lg_prof_sample:12"},
                              stdout=subprocess.DEVNULL)
        lib.wait_until(lambda: os.path.exists(os.path.join(root, "tmp/socket")))
        self.answers(root, tool, server.pid)
        self.profile(root, tool, server.pid, "initServer", "--exe", "/usr/bin/redis-server")
        server.terminate()
        server.wait(30)

    def test_static_file_on_bullseye(self):
        """Whose C library is older than the package needs."""
        root = self.root_of("bullseye", "redis-server")
        shutil.copy(static_file(self), os.path.join(root, "jeattach"))
        self.used_on_redis(root, "/jeattach")

    def test_package_on_trixie(self):
        """Built, installed and used there."""
        root = self.root_of("trixie", "dpkg-dev")
        tree = os.path.join(root, "src/jeattach")
        copy_sources(tree)
        with open(os.path.join(tree, "debian/changelog"), "w") as file:
            file.write("jeattach (%s) unstable; urgency=medium\n\n  * A trial.\n\n"
                       " -- A <a@jeattach.invalid>  Thu, 01 Jan 1970 00:00:00 +0000\n" % version())
        run("chroot", root, "apt-get", "build-dep", "-y", "-q", "--no-install-recommends",
            "/src/jeattach", env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"))
        run("unshare", "-m", "sh", "-c", PROC, root, "env", "-C", "/src/jeattach",
            "-u", "CMAKE_C_COMPILER_LAUNCHER", "dpkg-buildpackage", "-us", "-uc", "-b")
        [package] = glob.glob(os.path.join(root, "src/jeattach_*.deb"))
        self.used_in("trixie", package)

    def test_same_artefacts(self):
        """All of packaging/build twice, the second time from a clone in another folder, by a user
        with other habits."""
        first = artefacts(self)
        clone = os.path.join(self.directory(), "clone")
        run("git", "-c", "safe.directory=*", "clone", "-q", lib.ROOT, clone, umask=0o077)
        if run("git", "-c", "safe.directory=*", "-C", lib.ROOT, "status", "--porcelain"):
            self.skipTest("the sources are not those of the last commit")
        run(os.path.join(clone, "packaging", "build"), os.path.join(clone, "out"), umask=0o077,
            env=dict(os.environ, TZ="Asia/Tokyo", LC_ALL="C.UTF-8", DEB_BUILD_OPTIONS="parallel=1"))
        self.assertEqual(lib.read_text(os.path.join(clone, "out", "SHA256SUMS")),
                         lib.read_text(os.path.join(first, "SHA256SUMS")))


if __name__ == "__main__":
    lib.main()
