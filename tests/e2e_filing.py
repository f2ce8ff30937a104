"""A thread that waits for a file server is stopped: its system call is restarted, or the thread is
left alone.
"""

import os
import subprocess

import fuse
import hostile
import lib

FILING = os.path.join(lib.VICTIMS, "filing")
# The system call, and the request that it sends to the server.
REPEATED = (
    ("open", "open"), ("stat", "getattr"), ("statfs", "statfs"), ("access", "access"),
    ("getxattr", "getxattr"), ("getdents", "readdir"), ("fsync", "fsync"),
    ("ftruncate", "setattr"), ("fallocate", "fallocate"), ("pread", "read"), ("pwrite", "write"),
)
CLOSING = (("close", "flush"), ("dup2", "flush"))


class TestCase(hostile.TestCase):
    def filing(self, call, path=""):
        return self.process([FILING, call, path], stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, env=lib.tool_environment())

    def in_call(self, call, late):
        """A server and a process that waits for it."""
        lib.require_root()
        server = fuse.Server(self, late)
        process = self.filing(call, server.place if call == "getdents" else server.file)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        self.assertTrue(server.arrived.wait(20))
        self.assertTrue(lib.wait_until(lambda: lib.state_of(process.pid) == "S"))
        return server, process

    def assert_let_be(self, process):
        result = lib.run_tool("mallctl", process.pid, "version", "--timeout", "300ms")
        self.assertEqual(result.code, lib.NO_SAFE_MOMENT, result)
        self.assertIn("close", result.err)
        self.assert_untraced(process)


class Filing(TestCase):
    def test_made_again(self):
        """The server answers the interruption with EINTR: the thread does not see it."""
        for call, late in REPEATED:
            with self.subTest(call=call):
                server, process = self.in_call(call, late)
                self.assert_ran(lib.run_tool("mallctl", process.pid, "version"))
                self.assertEqual(process.stdout.readline(), b"0 0\n")
                self.assertGreaterEqual(server.interrupts, 1)
                self.assertEqual(server.requests, 2)
                lib.end_process(process)  # otherwise its descriptor keeps the server alive
                server.close()

    def test_close_of_a_file(self):
        """close(2) cannot be restarted: the descriptor is closed when it returns EINTR."""
        for call, late in CLOSING:
            with self.subTest(call=call):
                server, process = self.in_call(call, late)
                self.assert_let_be(process)
                self.assertEqual(server.interrupts, 0)
                server.let_go()
                self.assertEqual(process.stdout.readline(), b"0 0\n")
                self.assert_ran(lib.run_tool("mallctl", process.pid, "version"))
                lib.end_process(process)
                server.close()

    def test_close_that_lingers(self):
        """A stop would end it before all bytes have arrived."""
        process = self.filing("linger")
        self.assertEqual(process.stdout.readline(), b"ready\n")
        closing = lambda: lib.read_text("/proc/%d/syscall" % process.pid).startswith("3 ")
        self.assertTrue(lib.wait_until(closing))
        self.assert_let_be(process)
        self.assertTrue(closing(), "the stop has ended the close")


if __name__ == "__main__":
    lib.main()
