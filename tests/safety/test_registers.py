"""Flags, x87, MMX, MXCSR, gs base, odd stack pointers, the red zone, and restartable sequences of a
running thread, during attaches. (Vector and mask registers: tests/victims.)
"""

import os
import struct
import sys
import time

from safety import Table, Victim, lib, require, tool_ok

MODES = (
    "direction alignment x87_control x87_stack mmx mxcsr gs_base odd_stack rseq".split()
)
VERBS = (("stats", "--full"), ("on", "--call"), ("dump", "--call", "-o", os.devnull), ("off", "--call"))


def beats(victim):
    with open(os.path.join(victim.directory, "beats"), "rb") as file:
        return struct.unpack("<QQ", file.read(16))


def attach_for(seconds, victim, tid):
    end = time.monotonic() + seconds
    count = 0
    while time.monotonic() < end or count < 8:
        verb = VERBS[count % len(VERBS)]
        tool_ok(verb[0], victim.pid, *verb[1:], "--thread", tid)
        count += 1
    return count


def check(mode, options):
    with Victim("registers", mode, *(("spoil",) if options.sabotage else ())) as victim:
        tid = int(victim.answer("ready")[0])
        count = 0
        if options.sabotage:
            time.sleep(0.7)
        else:
            count = attach_for(30 if options.long else 1.0, victim, tid)
        start = beats(victim)[0]
        lib.wait_until(lambda: beats(victim)[0] >= start + 3, 10)
        require(victim.alive(), "it died: %s", victim.process.returncode)
        rounds, faults = beats(victim)
        require(rounds >= start + 3, "it stands still")
        require(faults == 0, "%d rounds of %d are wrong, %d attaches", faults, rounds, count)
        return "%d rounds, %d attaches" % (rounds, count)


def main():
    table = Table(__doc__)
    for mode in MODES:
        table.add(mode, check, mode, table.options)
    return table.run()


if __name__ == "__main__":
    sys.exit(main())
