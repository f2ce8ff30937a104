"""Unusual roots: no /proc, deleted files, links with another meaning from outside."""

import json
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import boxes  # noqa: E402
from boxes import CHECKPOINT_RESTORE, SYS_PTRACE, lib  # noqa: E402

READ_ONLY = ("--new-pid", "--uid", "1000", "--caps", "0", "--read-only", "--tmpfs", "tmp")


class Roots(boxes.TestCase):
    def sidecars(self, container):
        """Returns the host, and sidecars that may and may not follow map_files."""
        root = self.sidecar_root()
        yield boxes.Host(container)
        for caps in (SYS_PTRACE, SYS_PTRACE | CHECKPOINT_RESTORE):
            yield boxes.Sidecar(root, container, ["--uid", 0, "--caps", "%x" % caps])

    def dump(self, attacker, *words):
        told = self.assert_ran(attacker.run("dump", "--json", *words, attacker.target)).text
        return json.loads(told)

    def test_chroot_without_proc(self):
        """A root without /proc. jemalloc cannot read its mappings; the tool adds them to a
        streamed profile."""
        container = self.container("--bare", "--uid", "1000", "--caps", "0", uid=1000,
                                   prefix="/tmp/jeprof", bare=True)
        os.mkdir(os.path.join(container.root, "tmp"))
        os.chmod(os.path.join(container.root, "tmp"), 0o777)
        host = boxes.Host(container)
        result = self.assert_ran(host.run("dump", container.pid, "-o", "-"))
        self.assert_profile(result.out, 60)
        told = self.dump(host)
        self.assertRegex(told["target_path"], r"^/tmp/jeprof\.\d+\.0\.m0\.heap$")
        self.assertEqual(told["path"], "/proc/%d/root%s" % (container.pid, told["target_path"]))
        self.assertEqual(os.listdir(os.path.join(container.root, "tmp")),
                         [os.path.basename(told["path"])])
        self.assertEqual(os.path.getsize(told["path"]), told["bytes"])
        self.assert_unharmed(container, slow=True)

    def test_links(self):
        """An absolute link has another meaning outside: the printed path does not use it."""
        for chroot in ((), ("--chroot",)):
            container = self.container(*READ_ONLY, *chroot, uid=1000,
                                       links={"data": "/tmp/real"})
            os.mkdir("/proc/%d/root/tmp/real" % container.pid, 0o777)
            os.chmod("/proc/%d/root/tmp/real" % container.pid, 0o777)
            for number, attacker in enumerate(self.sidecars(container)):
                name = "%d.heap" % number
                told = self.dump(attacker, "--path", "/data/" + name)
                self.assertEqual(told["target_path"], "/tmp/real/" + name)
                self.assertEqual(told["path"], "/proc/%d/root/tmp/real/%s"
                                 % (attacker.target, name))
                told = self.dump(attacker, "--path", "tmp/relative" + name)
                self.assertEqual(told["target_path"], "/tmp/relative" + name)
            self.assertEqual(sorted(os.listdir("/proc/%d/root/tmp/real" % container.pid)),
                             ["0.heap", "1.heap", "2.heap"])
            self.assert_unharmed(container, slow=True)

    def test_library_is_gone(self):
        """The file was replaced by an upgrade, and not all may follow the links of map_files."""
        container = self.container(*READ_ONLY, uid=1000)
        for where, _, names in os.walk(container.root):
            for name in names:
                if name.startswith("libjemalloc"):
                    os.unlink(os.path.join(where, name))
        self.assertRegex(lib.read_text("/proc/%d/maps" % container.pid),
                         r"libjemalloc\.so\.\d+ \(deleted\)")
        for attacker in self.sidecars(container):
            result = self.assert_ran(attacker.run("dump", attacker.target, "-o", "-"))
            self.assertGreaterEqual(len(re.findall(rb"^@ 0x", result.out, re.M)), 60)
            self.assert_ran(attacker.run("on", "--call", attacker.target))
            self.assert_ran(attacker.run("off", "--call", attacker.target))
        self.assert_unharmed(container, slow=True)

    def test_no_unwinder(self):
        """Words on the victim's stack need the unwinder: the message names the missing
        library."""
        container = self.container(*READ_ONLY, uid=1000)
        bare = boxes.Sidecar(self.sidecar_root(unwinder=False), container,
                             ["--uid", 0, "--caps", "%x" % SYS_PTRACE])
        result = bare.run("on", "--call", bare.target, "--timeout", "1")
        self.assert_failed(result, lib.NO_SAFE_MOMENT, "libunwind is not installed")
        self.assert_unharmed(container, slow=True)

    def test_stranger(self):
        """A sidecar whose /proc is of another pid namespace lists and touches no process."""
        container = self.container(*READ_ONLY, uid=1000)
        alone = boxes.Alone(self.sidecar_root(), container)
        result = alone.run("on", 4242)
        self.assert_failed(result, lib.GONE, "no such process")
        self.assert_unharmed(container, slow=True)


if __name__ == "__main__":
    lib.main()
