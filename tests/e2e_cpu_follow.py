"""The tool's CPU affinity while a thread is stopped: it never moves where it cannot return from."""

import os
import shutil
import subprocess
import unittest

import hostile
import lib

SCHED_IDLE = 5
POLICY = 41  # field of /proc/PID/stat, proc(5)
ENTER = ["nsenter", "--user", "--preserve-credentials", "-t"]


def policies(pid):
    """True for all threads of a process."""
    found = []
    for tid in lib.threads(pid):
        try:
            text = lib.read_text("/proc/%d/task/%d/stat" % (pid, tid))
        except OSError:
            continue
        found.append(int(text.rpartition(")")[2].split()[POLICY - 3]))
    return found


class UserNamespace(hostile.TestCase):
    """Root there has CAP_SYS_NICE, but the kernel requires it in the initial user namespace."""

    def setUp(self):
        for program in ("setpriv", "unshare", "nsenter"):
            if not shutil.which(program):
                raise unittest.SkipTest("%s is not installed" % program)

    @staticmethod
    def environment():
        """The leak checker needs capabilities that a user namespace does not give."""
        options = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        return lib.tool_environment({"ASAN_OPTIONS": options})

    def hold(self, before):
        """A dump in a user namespace, observed during the call."""
        if subprocess.run(before + ["unshare", "--user", "--map-root-user", "true"],
                          stderr=subprocess.DEVNULL).returncode:
            raise unittest.SkipTest("this kernel makes no user namespace")
        place = self.directory()
        os.chmod(place, 0o777)
        for name in ("hostile", "libhostile_allocator.so"):
            shutil.copy(os.path.join(lib.VICTIMS, name), place)
        tool = shutil.copy(lib.TOOL, place)
        victim = self.hostile(program=os.path.join(place, "hostile"), cwd=place, HOSTILE="wait",
                              before=before + ["unshare", "--user", "--map-root-user"])
        dump = self.process(
            before + ENTER + [str(victim.pid), tool, "dump", str(victim.pid), "-o", "-"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd="/", env=self.environment())
        lib.wait_until(lambda: os.path.exists(os.path.join(place, "called"))
                       or dump.poll() is not None)
        self.assertIsNone(dump.poll())
        seen = policies(dump.pid)
        with open(os.path.join(place, "go"), "w"):
            pass
        out, err = dump.communicate(timeout=lib.TOOL_TIMEOUT)
        self.assertEqual(dump.returncode, lib.OK, err)
        self.assertTrue(out.startswith(b"heap_v2/4096\n"), out)
        self.assert_untraced(victim)
        return seen

    def test_root_of_it(self):
        lib.require_root()
        self.assertNotIn(SCHED_IDLE, self.hold([]))

    def test_ordinary_user(self):
        lib.require_root()
        user = str(lib.NOBODY)
        before = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups"]
        self.assertNotIn(SCHED_IDLE, self.hold(before))


if __name__ == "__main__":
    lib.main()
