"""A program that stops its own threads by signals, and is no known collector (victims/stopper.c).

The thread that makes the call might wait there for a lock of jemalloc whose owner is stopped, while
the program waits for the answer of that thread: both would wait forever. So there is no call.
"""

import os
import signal
import threading

import lib

# With one arena and no caches a thread is most often stopped while it has a lock.
CONTENDED = "prof:true,prof_active:false,lg_prof_sample:12,narenas:1,tcache:false"
ROUNDS = 25 if lib.LONG else 2


class Stopper(lib.TestCase):
    def stopper(self, mode, *arguments):
        directory = self.directory()
        conf = CONTENDED + ",prof_prefix:%s/jeprof" % directory
        victim = lib.Victim(mode, directory, conf=conf, program="stopper", arguments=arguments)
        self.addCleanup(victim.stop)
        self.assertTrue(victim.wait_rounds(3), "it does not begin")
        return victim

    def verbs(self, victim):
        sink = os.path.join(victim.directory, "stream")
        return (["stats", "--full"], ["on", "--call"], ["dump"], ["mallctl", "epoch=1"], ["purge"],
                ["dump", "--call", "--force", "-o", sink], ["mallctl", "prof.reset"], ["off", "--call"])

    def calls(self, mode):
        victim = self.stopper(mode)
        for number in range(ROUNDS):
            for words in self.verbs(victim):
                result = lib.run_tool(words[0], victim.pid, *words[1:])
                self.assert_failed(result, lib.NO_SAFE_MOMENT, "stop its threads by signals")
                self.assertTrue(victim.wait_rounds(5), "it hangs after %s" % (result,))

    def test_another_thread_stops(self):
        self.calls("collect")

    def test_the_first_thread_stops(self):
        self.calls("dump")

    def test_what_reads_memory(self):
        victim = self.stopper("collect")
        self.assert_ran(lib.run_tool("stats", victim.pid))
        self.assertTrue(victim.wait_rounds(5))

    def test_handler_that_jumps(self):
        """It would leave the call, in which signals stay blocked until its end."""
        fifo = os.path.join(self.directory(), "fifo")
        os.mkfifo(fifo)
        victim = self.stopper("jump", fifo)
        waits = threading.Timer(0.4, lib.tgkill, (victim.pid, victim.pid, signal.SIGUSR1))
        waits.start()
        result = lib.run_tool("dump", victim.pid, "--thread", victim.pid, "--timeout", "2s")
        waits.join()
        with open(fifo, "rb") as reader:
            reader.read()
        self.assertTrue(victim.wait_rounds(3), "it hangs")
        left = [line for line in lib.read_text("/proc/%d/maps" % victim.pid).splitlines()
                if " r-xp " in line and line.split()[4] == "0" and not line.split()[5:]]
        self.assertEqual((left, victim.counters()["errors"]), ([], 0), "left behind, %s" % (result,))
        self.assert_failed(result, lib.CALL_LATE, "a signal that the program handles waits",
                           "may hang until it is restarted")


if __name__ == "__main__":
    lib.main()
