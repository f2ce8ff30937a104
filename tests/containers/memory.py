"""Profiles of a process whose memory cgroup is full, and which cannot write anywhere."""

import contextlib
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import boxes  # noqa: E402
import cgroups  # noqa: E402
from boxes import SYS_PTRACE, lib  # noqa: E402

PAGE = 4096
LIMIT = 8 << 20
TIGHT = 16 * PAGE  # remaining capacity; a call needs 6 pages, a dump after the first no more
DISTROLESS = ("--new-pid", "--new-ipc", "--uid", "65532", "--caps", "0", "--read-only",
              "--no-new-privs", "--filter", "engine")


class Memory(boxes.TestCase):
    def setUp(self):
        super().setUp()
        self.group = cgroups.Group("memory")
        self.addCleanup(self.group.remove)
        self.group.write("memory.oom_control", 1)  # a task without a page waits, and is not killed

    def beside(self, *options):
        """Returns a target in the group, a sidecar with only CAP_SYS_PTRACE, and the samples of a
        first dump: jemalloc keeps a buffer from the first dump on."""
        container = self.container(*options, uid=65532, group=self.group)
        self.addCleanup(self.empty)
        sidecar = boxes.Sidecar(self.sidecar_root(), container,
                                ["--uid", 0, "--caps", "%x" % SYS_PTRACE])
        return container, sidecar, self.samples(sidecar)

    def empty(self):
        """Moves the target out of the group before it ends, as the group may be full."""
        self.group.write("memory.limit_in_bytes", -1)

    def samples(self, sidecar, way="--call"):
        result = self.assert_ran(sidecar.run("dump", way, sidecar.target, "-o", "-"))
        self.assert_profile(result.out, 60)
        return result.out.partition(b"\nMAPPED_LIBRARIES:\n")[0]

    def charge(self):
        """Returns the bytes that the group uses, without reclaimable page cache."""
        return self.group.number("memory.stat", "rss")

    def fill_with_files(self):
        """A file larger than the limit is written: its page cache fills the group."""
        self.group.write("memory.limit_in_bytes", LIMIT)
        path = os.path.join(self.directory(), "filler")
        subprocess.run(["dd", "if=/dev/zero", "of=" + path, "bs=64k", "count=512", "conv=fsync"],
                       check=True, stderr=subprocess.DEVNULL,
                       preexec_fn=lambda: self.group.add(0))
        self.assertGreater(self.group.number("memory.failcnt"), 0)
        used = self.group.number("memory.usage_in_bytes")
        self.assertGreater(used, LIMIT // 2)
        self.group.write("memory.limit_in_bytes", used)

    def squeeze(self, left=TIGHT):
        """Lowers the limit until the kernel has nothing more to reclaim, but for `left` bytes."""
        for _ in range(4):
            with contextlib.suppress(OSError):  # EBUSY
                while True:
                    used = self.group.number("memory.usage_in_bytes") & -PAGE
                    self.group.write("memory.limit_in_bytes", used - PAGE)
        used = self.group.number("memory.usage_in_bytes")
        self.group.write("memory.limit_in_bytes", used + left)

    def verify(self, container, sidecar, samples):
        before = self.charge(), container.tree()
        self.assertEqual(self.samples(sidecar), samples)
        lib.wait_until(lambda: self.charge() == before[0])
        self.assertEqual((self.charge(), container.tree()), before)
        self.assertIn("under_oom 0", self.group.read("memory.oom_control"))
        self.group.write("memory.limit_in_bytes", -1)
        self.assert_unharmed(container, slow=True)

    def test_full_of_files(self):
        """A group full of page cache, as after running for a while."""
        parts = self.beside(*DISTROLESS)
        self.fill_with_files()
        self.verify(*parts)

    def test_full_of_its_own(self):
        """A group with only the program's own memory, and 64 KiB left."""
        for options in (DISTROLESS, DISTROLESS[:-3]):  # under a filter there is no executable page
            parts = self.beside(*options)
            self.squeeze()
            self.verify(*parts)
            parts[0].stop()

    def test_without_a_call(self):
        """Not a page is left: a read needs none."""
        container, sidecar, samples = self.beside(*DISTROLESS)
        self.squeeze(0)
        before = self.charge()
        used = self.group.number("memory.usage_in_bytes")
        self.assertLess(self.group.number("memory.limit_in_bytes") - used, PAGE)
        self.assertEqual(self.samples(sidecar, "--no-call"), samples)
        self.assertEqual(self.charge(), before)
        self.assertIn("under_oom 0", self.group.read("memory.oom_control"))
        self.group.write("memory.limit_in_bytes", -1)
        self.assert_unharmed(container, slow=True)


if __name__ == "__main__":
    lib.main()
