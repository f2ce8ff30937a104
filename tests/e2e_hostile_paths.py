"""Objects of a target where the tool looks for files: FIFOs, links, sockets and mounts."""

import contextlib
import os
import shutil
import socket

import hostile
import lib
from hostile import Opens, run_bounded

# Below the target's root. The files of a cgroup are searched by convention and by mountinfo.
GROUPS = ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory.current", "sys/fs/cgroup/memory.stat",
          "sys/fs/cgroup/memory.pressure", "sys/fs/cgroup/cgroup.events",
          "sys/fs/cgroup/memory/memory.limit_in_bytes",
          "sys/fs/cgroup/memory/memory.usage_in_bytes", "sys/fs/cgroup/memory/memory.stat",
          "sys/fs/cgroup/freezer/freezer.state", "sys/fs/cgroup/unified/cgroup.events")
FILES = ("memory.max", "memory.current", "memory.stat", "memory.high", "memory.pressure",
         "memory.limit_in_bytes", "memory.usage_in_bytes")
OTHERS = ("etc/ld.so.preload", "etc/malloc.conf", "proc/meminfo", "proc/self/status")
VERBS = (("status",), ("stats", "--full"), ("dump", "-o", "OUT"), ("dump", "--call", "-o", "OUT"),
         ("top", "--once"),
         ("watch", "--when", "rss>1K", "--when", "cgroup>99%", "--when", "psi.some>99%/10s",
          "--once", "-o", "."))
WAIT = 60  # seconds; only an endless wait exceeds them
WITHOUT_GROUPS = ["unshare", "--mount", "sh", "-c", 'umount -R /sys/fs/cgroup && exec "$@"', "sh"]


def make_socket(path):
    former = os.getcwd()
    os.chdir(os.path.dirname(path))  # the name of a socket has at most 107 bytes
    try:
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as listener:
            listener.bind(os.path.basename(path))
    finally:
        os.chdir(former)


class Paths(hostile.TestCase):
    def setUp(self):
        lib.require_root()
        for name in ("setpriv", "unshare"):
            if not shutil.which(name):
                self.skipTest("%s is not installed" % name)
        self.secret = self.path("secret")
        with open(self.secret, "w") as file:
            file.write("1048576\n")

    def kinds(self):
        """Each makes one trap at a path."""
        return {
            "fifo": self.make_fifo,
            "file": lambda path: shutil.copy(self.secret, path),
            "outside": lambda path: os.symlink(self.secret, path),
            "device": lambda path: os.symlink("/dev/zero", path),
            "directory": os.mkdir,
            "socket": make_socket,
        }

    def make_fifo(self, path):
        """A FIFO with a writer that never writes: a reader would wait for ever."""
        os.mkfifo(path)
        self.addCleanup(os.close, os.open(path, os.O_RDWR))

    def watched(self, paths):
        opens = [Opens(path) for path in (self.secret, *paths) if not os.path.islink(path)]
        for each in opens:
            self.addCleanup(each.close)
        return opens

    def verbs(self, process, before=(), preexec=None):
        """All verbs end, and leave the trap unchanged."""
        for verb in VERBS:
            words = [verb[0], process.pid,
                     *(self.path("out.folded") if word == "OUT" else word for word in verb[1:])]
            with self.subTest(words=words):
                result = run_bounded(*words, timeout=WAIT, before=before,
                                     preexec=preexec, cwd=self.path("."))
                self.assertIsNotNone(result.code, "the tool waits for ever: %s" % (result,))
                self.assert_bounded(result)
        self.assert_bounded(run_bounded("ps", timeout=WAIT, before=before, preexec=preexec))
        self.assert_untraced(process)

    def test_traps_in_a_chroot(self):
        self.install("root", "lib")
        program = self.path("root", "lib", "hostile")
        traps = [self.path("root", *name.split("/")) for name in (*GROUPS, *OTHERS)]
        process = self.hostile("--root", self.path("root"), program=program)
        for kind, make in self.kinds().items():
            if kind == "file":  # those outside of cgroups may be read
                continue
            with self.subTest(kind=kind):
                for path in traps:
                    make(path)
                opens = self.watched(() if kind == "directory" else traps)
                self.verbs(process)
                if kind in ("fifo", "outside"):  # a kernel before 5.6
                    self.verbs(process, preexec=hostile.refuse_calls(38, hostile.OPENAT2))
                seen = any(each.seen() for each in opens)
                for path in traps:
                    os.rmdir(path) if kind == "directory" else os.unlink(path)
                self.assertFalse(seen, "a file was opened")

    def places(self):
        """Returns where a process in this process's cgroups finds their files: mount point, and
        cgroup below it."""
        groups = dict(line.split(":", 2)[1:] for line in
                      lib.read_text("/proc/self/cgroup").splitlines())
        for line in lib.read_text("/proc/self/mountinfo").splitlines():
            words = line.split()
            kind, _, options = words[words.index("-") + 1:]
            name = {"cgroup": "memory", "cgroup2": ""}.get(kind)
            if words[3] == "/" and name in groups and (not name or name in options.split(",")):
                yield words[4], groups[name].strip("/")

    def start_below(self, mounts):
        """In a mount namespace of its own, with these mounts: (source, path)."""
        script = "".join('mount --bind "%s" "%s" && ' % pair for pair in mounts) + 'exec "$@"'
        return self.hostile(before=["unshare", "--mount", "sh", "-c", script, "sh"])

    def assert_not_opened(self, mounts, traps):
        """By a tool that does not see the cgroups itself: it uses the target's mounts."""
        process = self.start_below(mounts)
        opens = self.watched(traps)
        self.verbs(process, before=WITHOUT_GROUPS)
        self.assertFalse(any(each.seen() for each in opens), "a file was opened")
        with contextlib.closing(os.fdopen(os.open(traps[0], os.O_RDONLY | os.O_NONBLOCK))):
            self.assertTrue(any(each.seen() for each in opens), "it would not have been seen")

    def test_traps_over_a_mount(self):
        """mountinfo has the mount of the cgroups, and another mount covers it."""
        for kind in ("fifo", "outside", "file"):
            mounts, traps = [], []
            for number, (point, group) in enumerate(self.places()):
                over = self.path(kind, str(number))
                for name in FILES:
                    traps.append(self.path(kind, str(number), *group.split("/"), name))
                    self.kinds()[kind](traps[-1])
                mounts.append((over, point))
            if not mounts:
                self.skipTest("no control groups are mounted")
            with self.subTest(kind=kind):
                self.assert_not_opened(mounts, [trap for trap in traps if not os.path.islink(trap)]
                                       or [self.secret])

    def test_traps_over_a_file(self):
        """The directory is a cgroup's, and a file in it is not."""
        places = list(self.places())
        if not places:
            self.skipTest("no control groups are mounted")
        for kind in ("fifo", "file", "group"):
            trap = self.path(kind)
            if kind == "fifo":
                self.make_fifo(trap)
            elif kind == "file":
                shutil.copy(self.secret, trap)
            else:  # a cgroup file, but another one, which acts when it is written
                trap = os.path.join(*places[0], "cgroup.procs")
            mounts = [(trap, path) for point, group in places for name in FILES
                      for path in [os.path.join(point, group, name)] if os.path.exists(path)]
            with self.subTest(kind=kind):
                self.assert_not_opened(mounts, [trap])


if __name__ == "__main__":
    lib.main()
