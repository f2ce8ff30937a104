"""Threads that a call would harm: deep below a frame of the allocator, cancelled in the middle of
a call, past the last destructors of thread-specific data. The tool passes them over, or does not
harm them.
"""

import os
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import safety
from safety import Failure, Table, Victim, lib, require


class Threads:
    def __init__(self, options):
        self.sabotage = options.sabotage
        self.long = options.long

    def goes_on(self, victim, rounds=3):
        """Checks that it lives, makes rounds, and found no fault."""
        def beats():
            with open(os.path.join(victim.directory, "beats"), "rb") as file:
                return struct.unpack("<QQ", file.read(16))

        start = beats()[0]
        patience = 0.5 if self.sabotage else 10
        lib.wait_until(lambda: beats()[0] >= start + rounds or not victim.alive(), patience)
        require(victim.alive(), "it died: %s", victim.process.returncode)
        require(beats()[0] >= start + rounds, "it stands still")
        require(beats()[1] == 0, "it found %d faults", beats()[1])

    # ---- deep ----

    def deep(self):
        """One tool examines a thread that is far below clean frames, and later below frames of
        the allocator: what it has read of the stack before must not count."""
        for _ in range(40 if self.long else 3):
            with Victim("threads", "deep") as victim:
                tid = int(victim.answer("ready")[0])
                self.two_looks(victim, tid)
                for place in ("inside", "outside"):
                    victim.ask(place, key="there")
                self.goes_on(victim, 0)

    def two_looks(self, victim, tid):
        """While the thread is inside, it makes no second profile, and it restores prof.active
        when the thread has come out."""
        place = tempfile.mkdtemp(prefix="jeattach-test.")
        words = ["record", "--call", victim.pid, "--thread", tid, "--every", "2s", "--count", "2",
                 "-o", place, "--timeout", "2s"]
        tool = subprocess.Popen([lib.TOOL] + [str(word) for word in words], text=True, bufsize=1,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            require(select.select([tool.stdout], [], [], 20)[0], "record writes nothing")
            first = tool.stdout.readline()
            require(first.startswith(place), "the first profile is refused: %s", first)
            victim.ask("inside", key="there")
            said = ""
            while "no thread was at a safe point" not in said:
                require(select.select([tool.stderr], [], [], 20)[0], "it says nothing: %s", said)
                line = tool.stderr.readline()
                require(line, "it was used: %s", said)
                said += line
            require(re.search("was inside jemalloc|takes too long to follow", said),
                    "it is refused for another reason: %s", said)
            require(victim.ask("outside") == ["there", "0"], "it does not come out")
            rest, err = tool.communicate(timeout=60)
        finally:
            lib.end_process(tool)
            shutil.rmtree(place, True)
        require(tool.returncode in (0, lib.NO_SAFE_MOMENT), "exit code %s: %s %s", tool.returncode,
                rest, err)
        require("prof.active is false again" in err, "it is not restored: %s", err)

    # ---- deepest ----

    def deepest(self):
        """The first thread has less stack below it than a frame needs: the kernel makes it larger, as
        for a signal. A death of the tool at any call leaves the thread as it was."""
        deaths = range(1, 400, 1 if self.long else 9)
        with Victim("threads", "deepest") as victim:
            self.deepest_place(victim)
            for k in deaths:
                result = lib.run_tool("on", "--call", victim.pid, env={"JEATTACH_DIE_AT": str(k)})
                require(result.code in (0, -signal.SIGKILL), "%s", result)
                self.goes_on(victim)
                if result.code == 0:
                    break
            else:
                raise Failure("the tool dies at each of %d calls" % len(deaths))
        for verb in (("on", "--call"), ("stats", "--full"), ("dump", "--call", "-o", os.devnull), ("purge",), ("off", "--call")):
            with Victim("threads", "deepest") as victim:
                before = self.deepest_place(victim)
                safety.tool_ok(*verb, victim.pid)
                self.goes_on(victim)
                require(0 < before - stack_start(victim.pid) <= 16384, "the stack has not grown")

    def deepest_limited(self):
        """Its limit forbids a larger stack: the tool refuses."""
        with Victim("threads", "deepest_limited") as victim:
            before = self.deepest_place(victim)
            result = safety.tool("stats", "--full", victim.pid, "--timeout", "300ms")
            require(result.code == lib.NO_SAFE_MOMENT, "it was used: %s", result)
            require("too little space on its stack" in result.err, "for another reason: %s", result)
            require(stack_start(victim.pid) == before, "its stack has grown")
            self.goes_on(victim)

    def deepest_place(self, victim):
        victim.answer("ready")
        self.goes_on(victim)
        return stack_start(victim.pid)

    # ---- cancelled ----

    def cancelled(self, mode, ending):
        """The cancellation comes while a call waits for another dump to end. When it can, it acts as one
        that comes from a signal handler does: cleanup handlers run, and nothing is left."""
        with Victim("threads", mode) as victim:
            tid = int(victim.answer("ready")[0])
            fifo = os.path.join(victim.directory, "fifo")
            before = scratch_areas(victim.pid)
            tool = self.dump_in(victim, tid, ending)
            try:
                victim.ask("cancel", key="asked")
                if ending == "killed":
                    tool.kill()
                elif ending == "late":
                    require(tool.wait(10) == lib.CALL_LATE, "exit code %s", tool.returncode)
                with open(fifo, "rb") as file:
                    require(file.read(8) == b"heap_v2/", "no profile")
                    while file.read(65536):
                        pass
                out, err = tool.communicate(timeout=20)
            finally:
                lib.end_process(tool)
            victim.tell("join")
            victim.answer("over", timeout=10)
            require(ending or tool.returncode == 0, "exit code %s: %s", tool.returncode, err)
            require(scratch_areas(victim.pid) == before, "something stays mapped")
            self.goes_on(victim)
            safety.tool_ok("dump", "--call", victim.pid, "-o", os.devnull)
            self.goes_on(victim)

    # ---- signalled ----

    def signalled(self):
        """The signal that it waits for comes while a call waits for another dump to end. pause(2) ends
        by it, as if there had been no call."""
        with Victim("threads", "signalled") as victim:
            tid = int(victim.answer("ready")[0])
            tool = self.dump_in(victim, tid, "")
            try:
                victim.ask("signal", key="sent")
                with open(os.path.join(victim.directory, "fifo"), "rb") as file:
                    while file.read(65536):
                        pass
                out, err = tool.communicate(timeout=20)
            finally:
                lib.end_process(tool)
            require(tool.returncode == 0, "exit code %s: %s", tool.returncode, err)
            self.goes_on(victim)

    # ---- ending ----

    def last_round(self, mode):
        """A call would allocate data for a thread whose destructors have run."""
        with Victim("threads", mode) as victim:
            tid = int(victim.answer("ready")[0])
            for verb in (("stats", "--full"), ("dump", "--call", "-o", os.devnull), ("on", "--call")):
                result = safety.tool(*verb, victim.pid, "--thread", tid, "--timeout", "300ms")
                require(result.code == lib.NO_SAFE_MOMENT, "it was used: %s", result)
                require("was ending" in result.err, "for another reason: %s", result)
            victim.ask("end", key="ended")
            for verb in (("stats", "--full"), ("dump", "--call", "-o", os.devnull), ("off", "--call")):
                safety.tool_ok(*verb, victim.pid)
            self.goes_on(victim)

    # ---- leaving ----

    def leaving(self, mode):
        """The thread by which the tool accessed the process so far ends; the process continues."""
        with Victim("threads", mode) as victim:
            tid = int(victim.answer("ready")[0])
            left = lib.threads(victim.pid)
            tool = self.dump_in(victim, tid, "")
            try:
                victim.ask("leave", key="leaving")
                lib.wait_until(lambda: lib.threads(victim.pid) != left or mode == "first_leaves")
                lib.wait_until(lambda: mode != "first_leaves" or lib.state_of(victim.pid) == "Z")
                with open(os.path.join(victim.directory, "fifo"), "rb") as file:
                    while file.read(65536):
                        pass
                out, err = tool.communicate(timeout=20)
            finally:
                lib.end_process(tool)
            require(tool.returncode == 0, "exit code %s: %s", tool.returncode, err)
            self.goes_on(victim)
            safety.tool_ok("dump", "--call", victim.pid, "-o", os.devnull)

    def dump_in(self, victim, tid, ending):
        words = ["dump", "--call", victim.pid, "-o", os.devnull, "--thread", tid]
        words += ["--timeout", "1s" if ending == "late" else "15s"]
        tool = subprocess.Popen([lib.TOOL] + [str(word) for word in words], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if self.sabotage:
            tool.kill()
        blocked = lib.wait_until(lambda: waits(victim.pid, tid) or tool.poll() is not None, 10)
        if not blocked or tool.poll() is not None:
            out, err = tool.communicate()
            raise Failure("no call in the thread: %s %s" % (tool.returncode, err))
        return tool


def waits(pid, tid):
    """True if the thread is in futex(2)."""
    return lib.read_text("/proc/%d/task/%d/syscall" % (pid, tid)).startswith("202 ")


def scratch_areas(pid):
    """Returns the executable anonymous mappings."""
    return [line for line in lib.mappings(pid) if "x" in line.perms and not line.path]


def stack_start(pid):
    return [line.start for line in lib.mappings(pid) if line.path == "[stack]"][0]


def main():
    table = Table(__doc__)
    threads = Threads(table.options)
    table.add("deep", threads.deep, sabotage=False)
    table.add("deepest", threads.deepest, sabotage=False)
    table.add("deepest_limited", threads.deepest_limited, sabotage=False)
    for mode in ("last_round", "last_round_allocated"):
        table.add(mode, threads.last_round, mode, sabotage=False)
    table.add("first_leaves", threads.leaving, "first_leaves")
    table.add("second_leaves", threads.leaving, "second_leaves")
    table.add("signalled", threads.signalled)
    for mode in ("cancelled_at_once", "cancelled_asleep", "cancelled_deferred"):
        table.add(mode, threads.cancelled, mode, "")
        table.add(mode + "_orphan", threads.cancelled, mode, "killed")
        table.add(mode + "_late", threads.cancelled, mode, "late")
    return table.run()


if __name__ == "__main__":
    sys.exit(main())
