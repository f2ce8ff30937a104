"""The reader of names where the system refuses what it needs, or what confines it."""

import errno
import select
import signal
import subprocess

import e2e_name_bombs
import fuse
import hostile
import lib

CLONE, FORK, VFORK, CLONE3 = 56, 57, 58, 435
SET_NO_NEW_PRIVS, LANDLOCK_CREATE_RULESET = (157, 38), 444
bombs = e2e_name_bombs.Bombs


class Confined(lib.TestCase):
    function = bombs.function

    def setUp(self):
        super().setUp()
        self.folder = self.directory()

    def report(self, err, *calls):
        """Returns the report of one function where those system calls fail."""
        path = bombs.heap(self, bombs.library(self, "good", ["_ZN4good4nameEv"]))
        result = subprocess.run(
            [lib.TOOL, "report", path], timeout=100, text=True,
            env=lib.tool_environment({"ASAN_OPTIONS": "detect_leaks=0"}),  # it makes a process
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            preexec_fn=hostile.refuse_calls(err, *calls))
        self.assertEqual(result.returncode, lib.OK, result.stdout)
        return result.stdout

    def assert_none(self, text):
        self.assertNotIn("good::name", text)
        self.assertIn("good.so+0x", text)
        self.assertIn("no process could be started to read it", text)

    def test_no_process(self):
        self.assert_none(self.report(errno.EAGAIN, CLONE, FORK, VFORK, CLONE3))

    def test_no_promise(self):
        """It does no work unless it gives up new rights for ever."""
        self.assert_none(self.report(errno.EPERM, SET_NO_NEW_PRIVS))

    def test_less_confined(self):
        """In a container that refuses seccomp, with a kernel that has no Landlock."""
        text = self.report(errno.EPERM, hostile.SET_SECCOMP, LANDLOCK_CREATE_RULESET)
        self.assertIn("good::name", text)

    def test_file_that_does_not_come(self):
        """A binary on a file system that does not answer: one Ctrl-C is answered within seconds.
        This server lets no process end that waits for it, so that the end comes later."""
        server = fuse.Server(self, "read", deaf=True)
        library = bombs.library(self, "good", ["_ZN4good4nameEv"])
        path = bombs.heap(self, library)
        profile = lib.read_text(path).replace(library, server.file)
        with open(path, "w", encoding="ascii") as file:
            file.write(profile)
        tool = self.process([lib.TOOL, "report", path], stderr=subprocess.PIPE,
                            stdout=subprocess.DEVNULL, env=lib.tool_environment())
        self.assertTrue(server.arrived.wait(60))
        tool.send_signal(signal.SIGINT)
        self.assertTrue(select.select([tool.stderr], [], [], 60)[0])
        server.let_go()
        self.assertIn(b"interrupted", tool.stderr.read())
        self.assertEqual(tool.wait(60), lib.INTERRUPTED)


if __name__ == "__main__":
    lib.main()
