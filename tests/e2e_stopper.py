"""A program that stops its own threads by signals, and is no known collector (victims/stopper.c).

The thread that makes the call may wait there for a lock of jemalloc whose owner is stopped, while
the program waits for the answer of that thread: both would wait forever.
"""

import os

import lib

# With one arena and no caches a thread is most often stopped while it has a lock.
CONTENDED = "prof:true,prof_active:false,lg_prof_sample:12,narenas:1,tcache:false"
ROUNDS = 25 if lib.LONG else 2


class Stopper(lib.TestCase):
    def stopper(self, mode):
        directory = self.directory()
        conf = CONTENDED + ",prof_prefix:%s/jeprof" % directory
        victim = lib.Victim(mode, directory, conf=conf, program="stopper")
        self.addCleanup(victim.stop)
        self.assertTrue(victim.wait_rounds(3), "it does not begin")
        return victim

    def verbs(self, victim):
        sink = os.path.join(victim.directory, "stream")
        return (["stats", "--call"], ["on", "--call"], ["dump"], ["mallctl", "epoch=1"], ["purge"],
                ["dump", "--call", "--force", "-o", sink], ["reset"], ["off", "--call"])

    def calls(self, mode, *options, tool=None):
        victim = self.stopper(mode)
        for number in range(ROUNDS):
            for words in self.verbs(victim):
                result = lib.run_tool(words[0], victim.pid, *words[1:], *options, tool=tool)
                self.assertEqual(result.code, lib.OK, "round %d: %s" % (number, result))
                self.assertTrue(victim.wait_rounds(5), "it hangs after %s" % (result,))

    def test_another_thread_stops(self):
        self.calls("collect")

    def test_the_first_thread_stops(self):
        """It must not make the call while the others are stopped."""
        self.calls("dump")

    def test_no_space_on_its_stack(self):
        """A call in the scratch area cannot answer: if it hangs, the message says what that means."""
        victim = self.stopper("collect")
        small = next(tid for tid in lib.threads(victim.pid) if self.comm(victim, tid) == "small")
        result = None
        for _ in range(40):
            result = lib.run_tool("stats", "--thread", small, "--timeout", "2s", victim.pid)
            if result.code == lib.CALL_LATE:
                break
            self.assertIn(result.code, (lib.OK, lib.NO_SAFE_MOMENT), result)
            self.assertTrue(victim.wait_rounds(3), result)
        self.assert_failed(result, lib.CALL_LATE, "a signal that the program handles waits",
                           "may hang until it is restarted")

    def comm(self, victim, tid):
        return lib.read_text("/proc/%d/task/%d/comm" % (victim.pid, tid)).strip()

    def test_without_executable_memory(self):
        self.calls("collect", tool=lib.REFUSED_TOOL)


if __name__ == "__main__":
    lib.main()
