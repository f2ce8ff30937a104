"""Outputs in directories where others may write, and in those of others: their links are not
followed and their FIFOs and devices not written; in sticky directories their files are not replaced
either. No test depends on the values of fs.protected_symlinks and the like.
"""

import contextlib
import os
import shutil
import stat
import subprocess

import hostile
import lib

OTHER, THIRD = 4242, 4243
PROFILE = os.path.join(lib.ROOT, "tests", "fixtures", "5.3.0.heap")


class Sticky(lib.TestCase):
    def setUp(self):
        lib.require_root()
        base = self.directory()
        os.chmod(base, 0o755)
        self.outside = os.path.join(base, "outside")
        os.mkdir(self.outside)
        self.secret = os.path.join(self.outside, "secret")
        with open(self.secret, "w") as file:
            file.write("former")
        self.sticky = os.path.join(base, "sticky")
        self.make_sticky(0o1777, 0)
        self.profile = os.path.join(base, "profile.heap")
        shutil.copy(PROFILE, self.profile)

    def make_sticky(self, mode, owner):
        shutil.rmtree(self.sticky, ignore_errors=True)
        os.mkdir(self.sticky)
        os.chown(self.sticky, owner, 0)
        os.chmod(self.sticky, mode)

    def put(self, kind, owner=OTHER, name="x"):
        path = os.path.join(self.sticky, name)
        if kind == "link":
            os.symlink(self.secret, path)
        elif kind == "dangling":
            os.symlink(os.path.join(self.outside, "made"), path)
        elif kind == "directory":
            os.symlink(self.outside, path)
        elif kind == "fifo":
            os.mkfifo(path)
            self.addCleanup(os.close, os.open(path, os.O_RDWR | os.O_NONBLOCK))  # nobody waits
        elif kind == "device":
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        else:
            with open(path, "w") as file:
                file.write("theirs")
        os.chown(path, owner, owner, follow_symlinks=False)
        return path

    def entries(self):
        """Returns the files of both directories, with owner and content."""
        found = []
        for directory in (self.sticky, self.outside):
            for name in sorted(os.listdir(directory)):
                path = os.path.join(directory, name)
                status = os.lstat(path)
                text = lib.read_text(path) if stat.S_ISREG(status.st_mode) else ""
                found.append((path, status.st_ino, status.st_uid, status.st_mode, text))
        return found

    def report(self, path, user=None, force=True):
        words = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups"]
        if user and not shutil.which("setpriv"):
            self.skipTest("setpriv is not installed")
        return self.run_tool(["report", *["--force"] * force, self.profile, "-o", path],
                             words if user else [])

    def run_tool(self, words, before=()):
        result = subprocess.run([*before, lib.TOOL, *(str(word) for word in words)],
                                stdin=subprocess.DEVNULL, capture_output=True, timeout=120,
                                env=lib.tool_environment(), cwd=self.outside)
        return lib.Result([str(word) for word in words], result.returncode, result.stdout,
                          result.stderr.decode(), 0)

    def assert_refused(self, result, before, kind="link", owner=OTHER):
        self.assertEqual(result.code, lib.OUTPUT_FAILED, result)
        self.assertIn("cannot write the output", result.err)
        self.assertRegex(result.err, r"\n  cause: .* is a %s of user %d, who is neither root nor "
                                     r"you: .*\n  fix:   " % (kind, owner))
        self.assertEqual(self.entries(), before)

    def test_another_users(self):
        """Another user's link, dangling link, FIFO and file; for root and for an ordinary user."""
        for user in (None, THIRD):
            for kind in ("link", "dangling", "fifo", "file"):
                with self.subTest(kind=kind, user=user):
                    self.make_sticky(0o1777, 0)
                    path, before = self.put(kind), self.entries()
                    self.assert_refused(self.report(path, user), before,
                                        "link" if kind in ("link", "dangling") else "file")

    def test_directory_behind_a_link(self):
        path, before = self.put("directory"), self.entries()
        for way in (path + "/new", path + "/secret", path + "/"):
            self.assert_refused(self.report(way), before)
        for way in ("/new", "/secret", "/./new"):
            self.assert_refused(self.report("/proc/self/root" + path + way), before)

    def test_link_of_a_link(self):
        """Root's own link in a root-owned directory leads to another user's file."""
        self.put("link")
        own = os.path.join(self.outside, "own")
        os.symlink(os.path.join("..", "sticky", "x"), own)
        self.assert_refused(self.report(own), self.entries())

    def test_own_and_the_directorys(self):
        """Own files are followed and replaced as usual; the directory's are replaced."""
        for owner, kinds in ((0, ("link", "file", "dangling")), (OTHER, ("file",))):
            for kind in kinds:
                with self.subTest(kind=kind, owner=owner):
                    self.make_sticky(0o1777, OTHER)
                    path = self.put(kind, owner)
                    result = self.report(path)
                    self.assertEqual(result.code, lib.OK, result)
                    self.assertGreater(len(lib.read_text(path)), 100)
                    self.assertEqual(os.path.islink(path), kind != "file")

    def test_writable_by_a_group(self):
        self.make_sticky(0o1775, 0)
        for kind in ("file", "fifo", "link"):
            path, before = self.put(kind, name=kind), self.entries()
            self.assert_refused(self.report(path), before, "link" if kind == "link" else "file")

    def test_directory_of_another(self):
        """Not sticky: its owner could also rename. A file is replaced, which writes nothing into
        it; all else would take the profile elsewhere."""
        for owner, mode in ((OTHER, 0o755), (0, 0o777)):
            self.make_sticky(mode, owner)
            for kind in ("link", "dangling", "fifo", "device"):
                for force in (True, False):
                    with self.subTest(kind=kind, owner=owner, force=force):
                        path = self.put(kind, name=kind + str(force))
                        before = self.entries()
                        self.assert_refused(self.report(path, force=force), before, "link" if kind
                                            in ("link", "dangling") else "file")
            path = self.put("directory", name="way")
            for way in (path + "/new", path + "/secret", path + "/"):
                for force in (True, False):
                    self.assert_refused(self.report(way, force=force), self.entries())
            self.assertEqual(self.report(self.put("file", name="file")).code, lib.OK)

    def test_roots(self):
        """An ordinary user follows what root has made, as in /dev and /var/run."""
        self.make_sticky(0o1777, 0)
        os.chown(self.outside, THIRD, THIRD)
        for name in ("directory", "dangling"):
            path = self.put(name, 0, name)
            result = self.report(path + "/new" * (name == "directory"), THIRD)
            self.assertEqual(result.code, lib.OK, result)
            self.assertEqual(os.stat(path + "/new" * (name == "directory")).st_uid, THIRD)
        for name in ("/dev/null", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
            self.assertEqual(self.report(name, THIRD, force=False).code, lib.OK, name)

    def test_user_namespace_without_root(self):
        """There root's entries show the overflow uid."""
        words = ["setpriv", "--reuid", str(THIRD), "--clear-groups", "unshare", "-U", "--map-user",
                 str(THIRD)]
        if subprocess.run([*words, "true"], capture_output=True).returncode:
            self.skipTest("setpriv or unshare does not do this")
        os.chmod(self.outside, 0o777)
        link = os.path.join(self.outside, "link")
        os.symlink(self.outside, link)
        for name in ("/dev/null", "/dev/stdout", "/proc/self/fd/1", link + "/new"):
            result = self.run_tool(["report", self.profile, "-o", name], words)
            self.assertEqual(result.code, lib.OK, result)
        words = [*words[:3], "unshare", "-U", "--map-root-user"]
        result = self.run_tool(["report", self.profile, "-o", link + "/other"], words)
        self.assertEqual(result.code, lib.OK, result)

    def test_new_file(self):
        for user in (None, THIRD):
            path = os.path.join(self.sticky, "new%s" % user)
            result = self.report(path, user)
            self.assertEqual(result.code, lib.OK, result)
            self.assertEqual(os.stat(path).st_uid, user or 0)
        self.assertEqual(len(os.listdir(self.sticky)), 2)

    def test_every_verb(self):
        victim = self.victim()
        link, directory = self.put("link"), self.put("directory", name="directory")
        for words in (("dump", victim.pid, "-o", link), ("dump", victim.pid, "-o", directory),
                      ("dump", victim.pid, "-o", directory + "/%p.txt"),
                      ("dump", victim.pid, victim.pid, "-o", directory),
                      ("record", victim.pid, "-d", "50ms", "-o", directory + "/%p.heap"),
                      ("leak", victim.pid, "-d", "50ms", "--settle", "10ms", "-o",
                       directory + "/leak.txt"),
                      ("watch", victim.pid, "--when", "rss>1K", "--once", "-o", directory)):
            with self.subTest(words=words):
                before = self.entries()
                self.assert_refused(self.run_tool(words), before)
        self.assert_unharmed(victim)

    def test_kept_profiles(self):
        """--keep removes files of this user, and none of another's."""
        victim = self.victim()
        name = lib.name_in_files(victim.pid)
        old = [self.put("file", owner, "%s-%d-20200101T000000Z-1MiB.watch.heap" % (name, owner + 1))
               for owner in (0, OTHER)]
        result = self.run_tool(("watch", victim.pid, "--when", "rss>1K", "--once", "--keep", "1",
                                "-o", self.sticky))
        self.assertEqual(result.code, lib.OK, result)
        self.assertEqual([os.path.exists(path) for path in old], [False, True], result)


class Automounted(lib.TestCase):
    def test_automount_on_the_way(self):
        """A directory that is mounted when a path leads through it, like tracing of debugfs; the
        kernel refuses to create a file there until it is mounted."""
        lib.require_root()
        script = """mount -t debugfs none "$1" || exit 77
            "$2" report "$3" -o "$4$1/tracing/instances/new"; code=$?
            test -d "$1/tracing/instances" || exit 77
            exit $code"""
        for root in ("", "/proc/self/root"):
            result = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", self.directory(),
                                     lib.TOOL, PROFILE, root], capture_output=True, text=True,
                                    timeout=60, env=lib.tool_environment())
            if result.returncode == 77:
                self.skipTest("no debugfs with tracing: " + result.stderr)
            self.assertEqual(result.returncode, lib.OUTPUT_FAILED, result)
            self.assertRegex(result.stderr, "not permitted|Permission denied")


class InTheTarget(hostile.TestCase):
    """Below /proc/PID/root the target decides where a name leads."""

    def setUp(self):
        lib.require_root()
        self.install("root", "lib")
        self.secret = self.path("secret")
        with open(self.secret, "w") as file:
            file.write("former")
        process = self.hostile("--root", self.path("root"), program=self.path("root/lib/hostile"))
        self.seen = "/proc/%d/root/" % process.pid
        self.profile = os.path.join(self.directory(), "profile.heap")
        shutil.copy(PROFILE, self.profile)

    def report(self, name, source=None):
        return hostile.run_bounded("report", "--force", source or self.profile, "-o", self.seen + name)

    def assert_refused(self, result, *words):
        self.assertEqual(result.code, lib.OUTPUT_FAILED, result)
        for word in words:
            self.assertIn(word, result.err)
        self.assertEqual(lib.read_text(self.secret), "former")

    def test_output(self):
        os.symlink(self.secret, self.path("root", "link"))
        os.symlink(self.path("."), self.path("root", "out"))
        os.mkfifo(self.path("root", "fifo"))
        os.makedirs(self.path("root", "real", "x"))
        os.symlink("/real", self.path("root", "inside"))
        os.symlink("../../../../../../../real", self.path("root", "upwards"))
        self.assert_refused(self.report("link"), "symbolic links")
        self.assert_refused(self.report("fifo"))
        self.assert_refused(self.report("out/new"), "No such file")
        self.assertEqual(self.report("../secret").code, lib.OK)  # above the root is the root
        self.assertEqual(lib.read_text(self.secret), "former")
        self.assertFalse(os.path.exists(self.path("new")))
        for name in ("inside/new", "upwards/new", "real/new", "../real/x/../new"):
            self.assertEqual(self.report(name).code, lib.OK, name)
            self.assertGreater(os.path.getsize(self.path("root", "real", "new")), 100)
            os.unlink(self.path("root", "real", "new"))

    def test_profile_that_is_read(self):
        """A printed path of a dump is opened like any file of the target."""
        os.symlink(self.profile, self.path("root", "link"))
        os.mkfifo(self.path("root", "fifo"))
        self.addCleanup(os.close, os.open(self.path("root", "fifo"), os.O_RDWR))
        shutil.copy(self.profile, self.path("root", "real"))
        opens = hostile.Opens(self.profile)
        self.addCleanup(opens.close)
        for name in ("link", "fifo", "../link"):
            with self.subTest(name=name):
                result = hostile.run_bounded("report", self.seen + name, timeout=30)
                self.assertEqual(result.code, lib.USAGE, result)
                self.assertFalse(opens.seen(), "a file outside was opened")
        result = hostile.run_bounded("report", self.seen + "real")
        self.assertEqual(result.code, lib.OK, result)


if __name__ == "__main__":
    lib.main()
