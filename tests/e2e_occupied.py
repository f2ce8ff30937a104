"""A process whose address space one of its threads keeps locked for seconds (--occupy).

A mapping would wait for that lock, with the signals of the stopped thread blocked. So no thread is
stopped, and no call made, until the lock is free; and what is said of the thread is true.
"""

import os
import subprocess

import lib

LOCK_MS = 3000
TIMEOUT = "1s"  # shorter than the lock is kept
LONG_ROUNDS = 13  # of eight verbs: 104 calls
MEMORY_CALLS = (9, 10, 11, 25, 28)  # mmap, mprotect, munmap, mremap, madvise


class Occupied(lib.TestCase):
    def occupied(self, *arguments, mode="nanosleep"):
        victim = self.victim(mode, arguments=("--occupy", str(LOCK_MS)) + arguments)
        self.assertTrue(victim.wait_rounds(1))
        self.masks = lib.signal_masks(victim.pid)
        return victim

    def waiting(self, victim):
        """The thread that a forged call would leave behind, with its place; None."""
        for tid in lib.threads(victim.pid)[:-1]:  # the last one occupies it
            text = lib.read_text("/proc/%d/task/%d/syscall" % (victim.pid, tid)).split()
            if text[0].isdigit() and int(text[0]) in MEMORY_CALLS:
                return tid, text[0]
        return None

    def call(self, victim, *words):
        """Whatever the tool says of the target is true at that moment."""
        result = lib.run_tool(words[0], victim.pid, *words[1:], "--timeout", TIMEOUT)
        seen = lib.signal_masks(victim.pid), self.waiting(victim)
        if result.code == lib.CALL_LATE:
            self.assertIn("left waiting in", result.err)
            self.assertTrue(lib.wait_until(lambda: lib.signal_masks(victim.pid) == self.masks, 60))
        else:
            self.assertIn(result.code, (lib.OK, lib.NO_SAFE_MOMENT), result)
            self.assertEqual(seen, (self.masks, None), result)
        if result.code == lib.NO_SAFE_MOMENT:
            self.assertNotIn("back in", result.err)
        return result

    def verbs(self, victim):
        sink = os.path.join(victim.directory, "stream")
        return (["stats", "--full"], ["on", "--call"], ["mallctl", "version"], ["dump"],
                ["dump", "--call", "--force", "-o", sink], ["purge"], ["mallctl", "prof.reset"], ["off", "--call"])

    def test_every_verb(self):
        victim = self.occupied()
        codes = [self.call(victim, *words).code
                 for _ in range(LONG_ROUNDS if lib.LONG else 1) for words in self.verbs(victim)]
        self.assertIn(lib.NO_SAFE_MOMENT, codes)
        self.assert_unharmed(victim, slow=True)

    def test_running(self):
        victim = self.occupied(mode="spin")
        for _ in range(3):
            self.call(victim, "mallctl", "version")
        self.assert_unharmed(victim, slow=True)

    def test_refused(self):
        """The message names what reads memory, and that is served meanwhile."""
        victim = self.occupied()
        sink = os.path.join(victim.directory, "profile")
        result = lib.wait_until(lambda: self.refused(victim), 60)
        self.assert_failed(result, lib.NO_SAFE_MOMENT, "address space of the process locked",
                           "use -o FILE", "not changed")
        for words in (["status"], ["stats"], ["dump", "-o", sink], ["on"], ["off"]):
            self.assert_ran(lib.run_tool(words[0], victim.pid, *words[1:]))
        self.assertTrue(lib.read_text(sink).startswith("heap_v2/"))
        self.assert_unharmed(victim, slow=True)

    def test_polling_thread(self):
        """One of io_uring is in the kernel for good, and locks nothing."""
        process = self.process([os.path.join(lib.VICTIMS, "sqpoll")], stdout=subprocess.PIPE)
        with process.stdout:
            if process.stdout.readline() != b"ready\n":
                self.skipTest("no io_uring with a polling thread here")
        poller = lib.threads(process.pid)[-1]
        self.assertTrue(lib.wait_until(lambda: lib.state_of(poller) == "R"))
        self.assert_ran(lib.run_tool("stats", "--full", process.pid))

    def refused(self, victim):
        result = self.call(victim, "dump")
        return result.code == lib.NO_SAFE_MOMENT and result


if __name__ == "__main__":
    lib.main()
