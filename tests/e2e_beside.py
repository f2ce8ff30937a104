"""A jemalloc beside another allocator, in whose lock the thread may be when it is stopped.

The first call of a thread into a jemalloc can allocate from the one that serves malloc: the data
of its key (pthread_setspecific). If the thread was stopped while it holds a lock of that one, it
would wait for itself for ever.
"""

import os
import shutil
import struct
import tempfile
import unittest

import lib
import linked

RUNS = 12  # without the rule, two of five hang
ROOM = "glibc.rtld.optional_static_tls=16384"  # for the thread-local data of the second one


class Beside(lib.TestCase):
    @classmethod
    def setUpClass(cls):
        why = linked.missing()
        if why:
            raise unittest.SkipTest(why)
        folder = tempfile.mkdtemp(prefix="jeattach-beside.")
        cls.addClassCleanup(shutil.rmtree, folder, True)
        cls.library = os.path.join(folder, "beside.so")
        linked.run("gcc", "-shared", "-o", cls.library, "-Wl,--whole-archive",
                   linked.archive("je2_", folder), "-Wl,--no-whole-archive", "-lm", "-lpthread")

    def check(self, instance, **environment):
        report = os.path.join(self.directory(), "report")
        with open(report, "wb") as file:
            file.write(bytes(8))

        def count():
            return struct.unpack("Q", lib.read_bytes(report))[0]

        process = self.process(
            [os.path.join(lib.VICTIMS, "beside"), self.library, report],
            env=lib.tool_environment({"GLIBC_TUNABLES": ROOM, **environment}),
        )
        self.assertTrue(lib.wait_until(lambda: count() > 100000 or process.poll() is not None))
        if process.poll() == lib.SKIPPED:
            self.skipTest("the library cannot be loaded here")
        self.assert_ran(lib.run_tool("stats", "--full", process.pid, "--instance", instance))
        before = count()
        self.assertTrue(lib.wait_until(lambda: count() > before), "it hangs")
        process.kill()

    def test_beside_another_jemalloc(self):
        for run in range(RUNS):
            with self.subTest(run=run):
                self.check(1, LD_PRELOAD="libjemalloc.so.2", MALLOC_CONF="tcache:false")

    def test_beside_the_c_library(self):
        for run in range(RUNS):
            with self.subTest(run=run):
                self.check(1)


if __name__ == "__main__":
    lib.main()
