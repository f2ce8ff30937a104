"""A thread that waits in a system call which others carry out, a file server or a supervisor, is left
alone: a stop would cut the call short, or they would do it twice.
"""

import os
import shutil
import subprocess

import fuse
import hostile
import lib

FILING = os.path.join(lib.VICTIMS, "filing")
# The system call, and the request that it sends to the server.
LATE = (
    ("open", "open"), ("stat", "getattr"), ("statfs", "statfs"), ("access", "access"),
    ("getxattr", "getxattr"), ("getdents", "readdir"), ("fsync", "fsync"),
    ("ftruncate", "setattr"), ("fallocate", "fallocate"), ("pread", "read"), ("pwrite", "write"),
    ("close", "flush"), ("dup2", "flush"),
)


class TestCase(hostile.TestCase):
    def filing(self, call, path="", stdin=subprocess.DEVNULL):
        return self.process([FILING, call, path], stdin=stdin, stdout=subprocess.PIPE,
                            env=lib.tool_environment())

    def in_call(self, call, late):
        """A server and a process that waits for it."""
        lib.require_root()
        server = fuse.Server(self, late)
        process = self.filing(call, server.place if call == "getdents" else server.file)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        self.assertTrue(server.arrived.wait(20))
        self.assertTrue(lib.wait_until(lambda: lib.state_of(process.pid) == "S"))
        return server, process

    def supervised(self, call):
        """A process that waits in mkdir for its supervisor."""
        process = self.filing(call, os.path.join(self.directory(), "made"), subprocess.PIPE)
        self.await_mkdir(process)
        return process

    def await_mkdir(self, process):
        if process.stdout.readline() == b"skip\n":
            self.skipTest("no user notification of seccomp here")
        waiting = lambda: lib.read_text("/proc/%d/syscall" % process.pid).startswith("83 ")
        self.assertTrue(lib.wait_until(waiting))

    def let_go(self, process):
        process.stdin.write(b"\n")
        process.stdin.close()
        self.assertEqual(process.stdout.readline(), b"0 0\n", "not made, or made twice")

    def assert_let_be(self, process, call):
        result = lib.run_tool("mallctl", process.pid, "version", "--timeout", "300ms")
        self.assertEqual(result.code, lib.NO_SAFE_MOMENT, result)
        self.assertIn("cut short or repeat: %s" % call, result.err)
        self.assert_untraced(process)


class Filing(TestCase):
    def test_file_server(self):
        for call, late in LATE:
            with self.subTest(call=call):
                server, process = self.in_call(call, late)
                self.assert_let_be(process, "")
                self.assertEqual((server.interrupts, server.requests), (0, 1))
                server.let_go()
                self.assertEqual(process.stdout.readline(), b"0 0\n")
                self.assert_ran(lib.run_tool("mallctl", process.pid, "version"))
                lib.end_process(process)  # otherwise its descriptor keeps the server alive
                server.close()

    def test_supervisor(self):
        """It would be notified again, and would make the directory twice."""
        process = self.supervised("mkdir")
        self.assert_let_be(process, "mkdir")
        self.let_go(process)

    def test_supervisor_of_another_user(self):
        """The system call of its thread is hidden from a tool that may attach nevertheless."""
        lib.require_root()
        if not shutil.which("setpriv"):
            self.skipTest("setpriv is not installed")
        directory = self.directory()
        os.chmod(directory, 0o777)
        for name in ("filing", "libhostile_allocator.so"):
            shutil.copy(os.path.join(lib.VICTIMS, name), directory)
        process = self.process(
            [os.path.join(directory, "filing"), "mkdir", os.path.join(directory, "made")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=lib.tool_environment(),
            user=1000, group=1000, extra_groups=[])
        self.await_mkdir(process)
        reduced = os.path.join(directory, "reduced")
        with open(reduced, "w") as script:
            script.write("#!/bin/sh\nexec setpriv --bounding-set=-dac_override,-dac_read_search "
                         "--inh-caps=-dac_override,-dac_read_search -- %s \"$@\"\n" % lib.TOOL)
        os.chmod(reduced, 0o755)
        result = lib.run_tool("mallctl", process.pid, "version", "--timeout", "300ms", tool=reduced)
        self.assertEqual(result.code, lib.NO_SAFE_MOMENT, result)
        self.let_go(process)

    def test_supervisor_and_another_thread(self):
        process = self.supervised("mkdir_beside")
        for _ in range(5):
            self.assert_ran(lib.run_tool("mallctl", process.pid, "version"))
        self.let_go(process)

    def test_close_that_lingers(self):
        """A stop would end it before all bytes have arrived."""
        process = self.filing("linger")
        self.assertEqual(process.stdout.readline(), b"ready\n")
        closing = lambda: lib.read_text("/proc/%d/syscall" % process.pid).startswith("3 ")
        self.assertTrue(lib.wait_until(closing))
        self.assert_let_be(process, "close")
        self.assertTrue(closing(), "the stop has ended the close")


if __name__ == "__main__":
    lib.main()
