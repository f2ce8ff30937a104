"""A process whose address space one of its threads keeps locked for seconds (--occupy).

A mapping would wait for that lock, with the signals of the stopped thread blocked. So calls are made
without one, or not at all; and what is said of the thread is true.
"""

import os

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
        return (["stats", "--call"], ["on", "--call"], ["mallctl", "version"], ["dump"],
                ["dump", "--call", "--force", "-o", sink], ["purge"], ["mallctl", "prof.reset"], ["off", "--call"])

    def test_every_verb(self):
        """The stack of the first thread has enough space for a call."""
        victim = self.occupied()
        codes = [self.call(victim, *words).code
                 for _ in range(LONG_ROUNDS if lib.LONG else 1) for words in self.verbs(victim)]
        self.assertIn(lib.OK, codes)
        self.assert_unharmed(victim, slow=True)

    def test_running(self):
        victim = self.occupied(mode="spin")
        for _ in range(3):
            self.call(victim, "mallctl", "version")
        self.assert_unharmed(victim, slow=True)

    def test_under_a_filter(self):
        """A thread with a filter would need the lock: it is let be until the lock is free."""
        victim = self.occupied("--filter", "errno")
        for _ in range(3):
            self.call(victim, "stats", "--call")
        self.assert_unharmed(victim, slow=True)

    def test_profile(self):
        """A profile that is streamed without a mapping is the one that memory has."""
        victim = self.occupied()
        result = lib.wait_until(lambda: self.streamed(victim), 60)
        self.assertEqual(result, lib.run_tool("dump", "--no-call", "-o", "-",
                                              victim.pid).out.partition(b"\nMAPPED")[0])

    def streamed(self, victim):
        result = self.call(victim, "dump", "--call", "-o", "-")
        return result.code == lib.OK and result.out.partition(b"\nMAPPED")[0]


if __name__ == "__main__":
    lib.main()
