"""A heap profile in memory that lies, and one that is never there."""

import os

import hostile
import lib
from hostile import run_bounded

FORGED = os.path.join(lib.VICTIMS, "forged")
SOUND = (
    r"heap_v2/524288\n  t\*: 7: 7168 \[0: 0\]\n  t0: 7: 7168 \[0: 0\]%s\n"
    r"@ 0x[0-9a-f]+ 0x[0-9a-f]+\n  t\*: 3: 3072 \[0: 0\]\n  t0: 3: 3072 \[0: 0\]\n"
    r"@ 0x[0-9a-f]+\n  t\*: 4: 4096 \[0: 0\]\n  t0: 4: 4096 \[0: 0\]\n\nMAPPED_LIBRARIES:\n"
)


class Profile(hostile.TestCase):
    """Each read ends within its time and in little memory: with a profile, or with the reason."""

    def forged(self, mode):
        return self.hostile(mode, program=FORGED)

    def read(self, process, *words):
        self.file = self.path("read.heap")
        if os.path.exists(self.file):
            os.unlink(self.file)
        result = run_bounded("dump", process.pid, "--no-call", "-o", self.file, *words)
        self.assert_bounded(result)
        return result

    def assert_text(self, name):
        with open(self.file, encoding="ascii") as file:
            self.assertRegex(file.read(), "^" + SOUND % name)

    def assert_refused(self, mode, words):
        process = self.forged(mode)
        result = self.read(process, "--timeout", "5s")
        self.assertIn(result.code, (lib.REFUSED, lib.NO_SAFE_MOMENT), result)
        self.assertRegex(result.err, words)
        self.assertFalse(os.path.exists(self.file))
        self.assertLess(result.seconds, 60, result)
        self.assert_untraced(process)

    def test_sound(self):
        self.assertEqual(self.read(self.forged("sound")).code, lib.OK)
        self.assert_text(" main")

    def test_name(self):
        """A line of its own and an escape sequence: neither gets into the profile."""
        self.assertEqual(self.read(self.forged("name")).code, lib.OK)
        self.assert_text("")

    def test_cycle(self):
        self.assert_refused("cycle", r"bt2gctx\) was not found")

    def test_endless_tree(self):
        self.assert_refused("endless", r"tdatas\) does not close")

    def test_many_cells(self):
        """4 million cells: the same ones over and over."""
        self.assert_refused("cells", r"bt2gctx\) was not found|timed out")

    def test_many_tables(self):
        """300,000 objects that may be the table, each of 65,536 cells."""
        self.assert_refused("tables", "timed out")

    def test_restless(self):
        result = self.read(self.forged("restless"))
        self.assertIn(result.code, (lib.OK, lib.REFUSED), result)

    def test_exec(self):
        """The program replaces itself all the time: its profile, or none, as before its main()."""
        process = self.forged("exec")
        for _ in range(20):
            result = self.read(process)
            self.assertIn(
                result.code, (lib.OK, lib.GONE, lib.NO_JEMALLOC, lib.REFUSED), result)
            if result.code == lib.REFUSED:
                self.assertIn("was not found", result.err)
            if result.code == lib.OK:
                self.assert_text(" main")
            else:
                self.assertFalse(os.path.exists(self.file))

    def test_memory_that_never_comes(self):
        """No signal ends the wait for the cells."""
        self.close_memory()
        process = self.forged("fault")
        for timeout in ("1s", "5s", "25s"):  # on a loaded machine it may come before the page
            result = self.read(process, "--timeout", timeout)
            if "do not respond" in result.err:
                break
        self.assertEqual(result.code, lib.NO_SAFE_MOMENT, result)
        self.assertIn("do not respond", result.err)
        self.assert_untraced(process)


if __name__ == "__main__":
    lib.main()
