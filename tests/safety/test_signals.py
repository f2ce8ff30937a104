"""Signals of every kind, while the tool has stopped the thread that receives them.

1 kHz timers, queued real-time signals with a number each, waits with a temporary mask, threads that
block everything, children that end: none lost, none twice, none early, handlers on the alternate
stack, and dispositions, masks and alternate stack as they were.
"""

import os
import subprocess
import sys
import time

from safety import VICTIMS, Table, Victim, lib, require, tool_ok

VERBS = (("stats", "--full"), ("on", "--call"), ("stats", "--full"), ("off", "--call"))


def signal_state(pid, tid):
    text = lib.read_text("/proc/%d/task/%d/status" % (pid, tid))
    fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    return {name: fields[name] for name in ("SigBlk", "SigIgn", "SigCgt")}


def steady_state(pid, tid, wanted=None):
    """Returns the signal mask: of several readings the one that blocks least, because a thread in
    a handler has a temporary mask, which blocks more.

    If one mask is expected, waits for it: a thread with many pending signals runs one handler
    after the other.
    """
    seen = []

    def look():
        seen.append(signal_state(pid, tid))
        return seen[-1] == wanted if wanted else len(seen) > 20

    lib.wait_until(look, 10, 0.001)
    if wanted in seen:
        return wanted
    return min(seen, key=lambda state: bin(int(state["SigBlk"], 16)).count("1"))


def attach_for(seconds, pid, tid):
    end = time.monotonic() + seconds
    count = 0
    while time.monotonic() < end or count < 8:
        tool_ok(*VERBS[count % 4], pid, "--thread", tid)
        count += 1
    return count


def check(name, options):
    seconds = 20 if options.long else 1.2
    words = ("lose",) if options.sabotage else ()
    with Victim("signals", name, *words) as victim:
        tid = int(victim.answer("tid")[0])
        time.sleep(0.05)
        before = steady_state(victim.pid, tid)
        waited = waited_ms(victim.pid, tid)
        count = 0
        if options.sabotage:
            time.sleep(0.5)
        else:
            count = attach_for(seconds, victim.pid, tid)
        after = steady_state(victim.pid, tid, before)
        require(after == before, "signal state: %s, was %s", after, before)
        waited = waited_ms(victim.pid, tid) - waited
        sent, got, fault = victim.ask("stop", key="result")
        return judge(name, int(sent), int(got), fault, count, waited)


def waited_ms(pid, tid):
    """Returns ns for which the thread, or the tool that stopped it, waited for a CPU."""
    return (lib.waited_for_cpu("%d/task/%d" % (pid, tid)) + lib.Process.waited_for_cpu) // 10**6


def judge(name, sent, got, fault, count, waited):
    text = "sent %d, got %d, %d attaches, fault %s, %d ms without a CPU" % (
        sent, got, count, fault, waited)
    require(fault == "-", "%s", text)
    if name == "itimer":  # every ms; pending signals merge into one
        least = sent - 3 * count - sent // 10 - 3 - waited
        require(least <= got <= sent + 2, "%s", text)
    elif name.startswith("timer"):
        allowed = 60 if name == "timer_fast" else 3  # ms; two counts are read one by one
        require(abs(sent - got) <= allowed, "%s", text)
    else:
        require(sent == got, "%s", text)
    require(sent > 0, "%s", text)
    return text


def main():
    table = Table(__doc__)
    out = subprocess.run([os.path.join(VICTIMS, "signals")], capture_output=True, text=True)
    for name in out.stdout.split():
        table.add(name, check, name, table.options)
    return table.run()


if __name__ == "__main__":
    sys.exit(main())
