"""Attaches several times to a thread during one blocking call, for each kind of call.

No EINTR, no early return, the right result, errno and signal mask kept. A timeout is late by at
most the time for which the thread was stopped, or, for the calls that are never restarted
(signal(7)), by a whole timeout after the last attach. Time for which the participants of the call,
or the tool, waited for a CPU is not counted. A call that had done part of its work when it started
to wait (`CUT_SHORT`) is ended by any stop of the thread; for these the victim must only live.
A thread in a call that does not only wait (`LET_BE`) is not stopped.
"""

import os
import signal
import subprocess
import sys
import time

from safety import VICTIMS, Failure, Table, Victim, hold_thread, is_asleep, lib, require, tool_ok

ENDS_LATER, CUT_SHORT, IS_ENDED, LET_BE = 1, 2, 4, 8
SLACK = 0.15
EARLY = 0.02  # for a call that ends by itself
EARLY_ENDED = 0.15  # for a call that another thread ends: counted from before the call
TURNS = 5
WORDS = (("stats", "--full"), ("on", "--call"), ("off", "--call"))


def calls():
    out = subprocess.run([os.path.join(VICTIMS, "blocking")], capture_output=True, text=True)
    for line in out.stdout.splitlines():
        name, flags, result, error = line.split()
        yield name, int(flags), int(result), int(error)


def has_run(pid, tid):
    """True if it has used 2 ms of CPU time, and so is in its call; or if it has ended."""
    try:
        return int(lib.read_text("/proc/%d/task/%d/schedstat" % (pid, tid)).split()[0]) > 2000000
    except FileNotFoundError:
        return True


class Check:
    def __init__(self, options):
        self.sabotage = options.sabotage
        self.ms = 1500 if options.long else 300
        self.attaches = 20 if options.long else 3
        self.victim = None

    def let_be(self, tid):
        """The tool says why it does not stop the thread, or comes when the call is over."""
        words = ("stats", "--full", "--timeout", "%dms" % (self.ms * 0.27), "--thread", tid)
        result = tool_ok(*words, self.victim.pid, codes=(lib.NO_SAFE_MOMENT, lib.OK, lib.GONE))
        if "cut short or repeat: " in result.err:  # else the time was over before it looked
            require(" 0 stops" in result.err, "%s", result)
            self.held.append(result)
        return result.code == lib.NO_SAFE_MOMENT

    def disturb(self, tid, flags, words):
        """Returns False if the thread has ended its call, which is checked all the same."""
        if self.sabotage:
            # A thread that always runs may wait for a CPU as long as its call.
            hold_thread(self.victim.pid, tid, signal.SIGUSR2, 2 * self.ms / 1000 + 0.2)
            return True
        if flags & LET_BE:
            return self.let_be(tid)
        result = tool_ok(*words, "--thread", tid, self.victim.pid, codes=(lib.OK, lib.GONE))
        if result.code == lib.OK or flags & CUT_SHORT:
            self.held.append(result)
        return result.code == lib.OK

    def attach_during(self, tid, name, flags, begun):
        """Attaches during the first three quarters of the call. Returns the end of the last."""
        if name == "sched_yield":
            lib.wait_until(lambda: has_run(self.victim.pid, tid), 1, 0.001)
        else:
            lib.wait_until(lambda: is_asleep(self.victim.pid, tid), 1, 0.001)
        self.held = []
        for i in range(1 if self.sabotage else self.attaches):
            if time.monotonic() - begun > self.ms * 0.75e-3 and i >= 2:
                break
            if not self.disturb(tid, flags, WORDS[i % len(WORDS)]):
                break
            time.sleep(0.01)
        return time.monotonic()

    def start_victim(self):
        if not self.victim or not self.victim.alive():
            self.victim = Victim("blocking", "-")

    def one(self, *row):
        """Repeats with a longer call if the call was over before the tool attached."""
        usual = self.ms
        try:
            for _ in range(TURNS):
                told = self.once(*row)
                if self.held or self.sabotage:
                    return told
                self.ms *= 2
            raise Failure("over before the tool came to it, %d times" % TURNS)
        except Failure:
            self.victim.end()  # the thread may still be in that call
            raise
        finally:
            self.ms = usual

    def once(self, name, flags, result, error):
        self.start_victim()
        if self.sabotage:
            self.ms = 1000 if name == "sched_yield" else 100
            if flags & IS_ENDED and result < 0:  # only its early end shows the fault
                self.ms = 400
        begun, waited = time.monotonic(), lib.Process.waited_for_cpu
        tid = int(self.victim.ask(name, self.ms, key="tid")[0])
        last = self.attach_during(tid, name, flags, begun)
        got = self.victim.answer("done")
        count = "%d attaches" % len(self.held)
        if flags & CUT_SHORT and not self.sabotage:
            return "%s, ended with %s" % (count, got[0])
        waited = lib.Process.waited_for_cpu - waited
        self.judge(got, (result, error), flags, last - begun, waited / 1e9)
        return "%s, %.0f ms" % (count, int(got[2]) / 1000)

    def judge(self, got, wanted, flags, last, waited):
        outcome, seconds, fault = (int(got[0]), int(got[1])), int(got[2]) / 1e6, got[3]
        waited += int(got[4]) / 1e6
        outcome = outcome if outcome[0] < 0 else (outcome[0], 0)
        text = "%s after %.3f s, errno %s, %s, %.3f s without a CPU" % (
            got[0], seconds, got[1], fault, waited)
        require(outcome == wanted, "it returns %s", text)
        require(fault == "-", "%s", text)
        asked = self.ms / 1000
        # The call starts late if its thread waits for a CPU.
        early = EARLY_ENDED + waited if flags & IS_ENDED else EARLY
        require(seconds > asked - early, "too early: %s", text)
        latest = asked + (last if flags & ENDS_LATER else 0) + SLACK + waited
        require(seconds < latest, "too late (%.3f s): %s", latest, text)
        return text


def no_call_is_forgotten(names):
    """Returns the calls that signal(7) lists, by the names used here."""
    wanted = """epoll_wait epoll_pwait poll ppoll select pselect nanosleep clock_nanosleep
        futex_wait recv recv_timeout recvmsg_timeout send_timeout accept accept_timeout connect
        connect_timeout sigtimedwait sigwaitinfo semop semtimedop io_getevents msgrcv msgsnd
        mq_receive mq_timedreceive mq_timedsend pause sigsuspend read_inotify waitpid waitid flock
        fcntl_setlkw open_fifo sem_wait""".split()
    missing = set(wanted) - set(names)
    if missing:
        raise Failure("not tested: %s" % sorted(missing))


def main():
    table = Table(__doc__)
    check = Check(table.options)
    rows = list(calls())
    table.add("list", no_call_is_forgotten, [row[0] for row in rows], sabotage=False)
    for row in rows:
        table.add(row[0], check.one, *row)
    code = table.run()
    if check.victim:
        check.victim.end()
    return code


if __name__ == "__main__":
    sys.exit(main())
