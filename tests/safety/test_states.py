"""Processes in all states: stopped, traced, ending, forking, exec'ing, frozen, on foreign stacks,
with a thousand threads. The tool works or refuses with a clean message, and they continue.
"""

import contextlib
import ctypes
import os
import random
import re
import signal
import struct
import subprocess
import sys
import threading
import time

import safety
from safety import Failure, Skip, Table, Victim, lib, require

SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000
FREEZERS = ("/sys/fs/cgroup/freezer", "/sys/fs/cgroup/unified", "/sys/fs/cgroup")


def told_cause(result):
    """status prints the cause on stdout with the rest, other verbs on stderr; "": no cause."""
    told = re.search(r"\n  cause: (.+)", result.err)
    told = told or re.search(r"\nattach: refused: (.+)", result.text)
    return told.group(1) if told else ""


class States:
    def __init__(self, options):
        self.sabotage = options.sabotage
        self.long = options.long
        self.victim = None
        self.tid = None
        self.address = 0

    # ---- the victim ----

    @contextlib.contextmanager
    def run(self, mode, *arguments):
        with Victim("states", mode, *arguments) as victim:
            self.victim = victim
            words = victim.answer("ready", timeout=60)
            self.tid, self.address = int(words[0]), int(words[1])
            yield victim

    def beats(self):
        with open(os.path.join(self.victim.directory, "beats"), "rb") as file:
            return struct.unpack("<QQ", file.read(16))

    def goes_on(self, rounds=3):
        start = self.beats()[0]
        patience = 0.5 if self.sabotage else 10
        lib.wait_until(lambda: self.beats()[0] >= start + rounds or self.died(), patience)
        require(self.victim.alive(), "it died: %s", self.victim.process.returncode)
        require(self.beats()[0] >= start + rounds, "it stands still")
        require(self.beats()[1] == 0, "it found %d faults", self.beats()[1])

    def died(self):
        return not self.victim.alive()

    # ---- the tool, or its sabotage ----

    def tool(self, *words, codes=(lib.OK,), **options):
        if self.sabotage:
            return self.spoil()
        result = safety.tool_ok(*words, codes=codes, **options)
        require(result.code == 0 or told_cause(result), "no cause: %s", result)
        return result

    def spoil(self):
        """Sabotage: stops it and leaves it stopped, or writes to its memory."""
        if self.address:
            with open("/proc/%d/mem" % self.victim.pid, "wb", buffering=0) as memory:
                memory.seek(self.address + 100)
                memory.write(b"x")
        elif self.victim and self.victim.alive():
            os.kill(self.victim.pid, signal.SIGSTOP)
        return lib.Result((), 0, b"", "", 0)

    def refused(self, code, *words, within=None, pid=None):
        """Checks that the tool ends with this code, in time, and does not change the victim."""
        if self.sabotage:
            raise Failure("not refused")
        result = safety.tool_ok("stats", "--full", pid or self.victim.pid, *words, codes=(code,))
        cause = told_cause(result)
        require(cause, "no cause: %s", result)
        if within:
            require(result.seconds < within, "too slow: %s", result)
        return cause

    def use(self, *words, seconds=1.0, codes=(lib.OK,)):
        """Runs all verbs repeatedly. Returns how often each exit code occurred."""
        pid = self.victim.pid
        verbs = (("stats", "--full", pid), ("on", "--call", pid), ("off", "--call", pid),
                 ("dump", "--call", pid, "-o", os.devnull))
        end = time.monotonic() + (seconds * 10 if self.long else seconds)
        counts = {}
        i = 0
        while time.monotonic() < end or i < 4:
            result = self.tool(*verbs[i % 4], *words, codes=codes)
            counts[result.code] = counts.get(result.code, 0) + 1
            i += 1
            if self.sabotage:
                break
        return ", ".join("%d times %d" % (counts[code], code) for code in sorted(counts))

    # ---- checks ----

    def simply(self, mode, *arguments, codes=(lib.OK,), thread=False, seconds=1.0, words=()):
        with self.run(mode, *arguments):
            if thread:
                words = ("--thread", self.tid) + tuple(words)
            note = self.use(*words, seconds=seconds, codes=codes)
            self.goes_on()
            return note

    def stopped(self):
        with self.run("idle") as victim:
            os.kill(victim.pid, signal.SIGSTOP)
            lib.wait_until(lambda: lib.state_of(victim.pid) == "T")
            if self.sabotage:
                os.kill(victim.pid, signal.SIGCONT)
                time.sleep(0.05)
            else:
                self.tool("stats", "--full", victim.pid, "--timeout", "1s", codes=(0, 7))
            time.sleep(0.01)
            require(lib.state_of(victim.pid) == "T", "it was stopped and runs now")
            os.kill(victim.pid, signal.SIGCONT)
            self.goes_on()

    def one_stop(self, victim):
        verb = ("on", "--call", victim.pid) if self.sabotage else ("dump", "--call", victim.pid, "-o", os.devnull)
        delay = random.uniform(0, 0.02)
        timer = threading.Timer(delay, os.kill, (victim.pid, signal.SIGSTOP))
        timer.start()
        code = 0
        if self.sabotage:
            time.sleep(0.03)
            os.kill(victim.pid, signal.SIGCONT)
        else:
            code = self.tool(*verb, "--timeout", "5s", codes=(0, 7, 8)).code
        timer.join()
        came = lib.wait_until(lambda: lib.state_of(victim.pid) == "T", 0.5 if self.sabotage else 20)
        require(came, "a SIGSTOP in the middle is lost")
        os.kill(victim.pid, signal.SIGCONT)
        self.goes_on(1)
        return code

    def stop_midway(self):
        with self.run("idle") as victim:
            codes = [self.one_stop(victim) for _ in range(400 if self.long else 40)]
            return "%d times, %d of them refused" % (len(codes), len(codes) - codes.count(0))

    def traced(self):
        ptrace = ctypes.CDLL(None, use_errno=True).ptrace
        ptrace.argtypes = [ctypes.c_long] * 4
        with self.run("idle") as victim:
            require(ptrace(SEIZE, victim.pid, 0, 0) == 0, "cannot trace it")
            text = self.refused(lib.NOT_PERMITTED)
            ptrace(INTERRUPT, victim.pid, 0, 0)
            os.waitpid(victim.pid, WALL)
            ptrace(DETACH, victim.pid, 0, 0)
            self.goes_on()
            return text

    def zombie(self):
        child = subprocess.Popen(["true"])
        lib.wait_until(lambda: lib.state_of(child.pid) == "Z")
        text = self.refused(lib.GONE, pid=child.pid)
        child.wait()
        return text

    def ends(self, mode, codes):
        """It exits at random moments of the attach, with its own exit code."""
        seen = {}
        for _ in range(600 if self.long else 60):
            with self.run(mode, random.randrange(1000, 16000)) as victim:
                code = self.tool("on", "--call", victim.pid, codes=codes).code
                seen[code] = seen.get(code, 0) + 1
                lib.wait_until(self.died, 0.5 if self.sabotage else 5)
                status = victim.process.returncode
                require(status == 0, "it ended with %s", status)
        return ", ".join("%d times %d" % (seen[code], code) for code in sorted(seen))

    def freezer(self):
        for base in FREEZERS:
            path = "%s/jeattach-safety.%d" % (base, os.getpid())
            with contextlib.suppress(OSError):
                os.mkdir(path)
                names = ("freezer.state", "FROZEN", "THAWED"), ("cgroup.freeze", "1", "0")
                for name, frozen, thawed in names:
                    if os.path.exists(os.path.join(path, name)):
                        return path, os.path.join(path, name), frozen, thawed
                os.rmdir(path)
        raise Skip("no freezer")

    def frozen(self):
        path, switch, frozen, thawed = self.freezer()
        with self.run("idle") as victim:
            try:
                write(os.path.join(path, "cgroup.procs"), victim.pid)
                write(switch, frozen)
                require(lib.wait_until(lambda: is_frozen(path, switch)), "it does not freeze")
                text = self.refused(lib.NO_SAFE_MOMENT, "--timeout", "1s", within=2.5)
            finally:
                write(switch, thawed)
                move_out(path, victim.pid)
            self.goes_on()
            self.tool("stats", "--full", victim.pid)
            self.goes_on()
            return text

    def coroutine(self):
        with self.run("coroutine_main"):
            text = self.refused(lib.NO_SAFE_MOMENT, "--timeout", "1s", within=2.5)
            self.goes_on()
            return text

    def raw_clone(self):
        with self.run("raw_clone") as victim:
            words = ("--timeout", "500ms", "--thread", self.tid)
            text = self.refused(lib.NO_SAFE_MOMENT, *words, within=2)
            self.tool("stats", "--full", victim.pid)
            self.goes_on()
            return text

    def cancel(self, late):
        """A cancellation is pending, or comes later: it must act only after the call."""
        with self.run("cancel", int(late)) as victim:
            words = ("--thread", self.tid, "--timeout", "1s")
            path = os.path.join(victim.directory, "heap")
            codes = []
            for verb in (("stats", "--full"), ("dump", "--path", path), ("dump", "--call", "-o", os.devnull)):
                result = self.tool(*verb, victim.pid, *words, codes=(0, 7))
                codes.append(result.code)
                require(self.beats()[1] == 0, "cancelled in the middle of the call")
            victim.tell("go")
            victim.answer("cancelled", timeout=1 if self.sabotage else 10)
            self.tool("dump", "--call", victim.pid, "-o", os.devnull)
            self.goes_on()
            return "exit codes %s" % codes

    # ---- deadlines ----

    def call_late(self):
        """The call waits for a lock: the tool detaches, and the call ends when the lock is free."""
        with self.run("dump_to_fifo") as victim:
            if self.sabotage:
                raise Failure("the call is not late")
            words = ("dump", "--call", victim.pid, "-o", os.devnull, "--thread", self.tid, "--timeout", "1s")
            result = self.tool(*words, codes=(lib.CALL_LATE,))
            require(result.wall > 0.9 and result.seconds < 2.5, "not in time: %s", result)
            require(victim.alive() and lib.tracer_of(victim.pid) == 0, "dead, or still traced")
            with open(os.path.join(victim.directory, "fifo"), "rb") as file:
                require(file.read(8) == b"heap_v2/", "no profile from the dump that held the lock")
            self.goes_on()
            left = [line for line in lib.mappings(victim.pid) if "rwxp" in line.perms]
            require(not left, "left behind: %s", left)
            self.tool("dump", "--call", victim.pid, "-o", os.devnull)
            self.goes_on()
            return "ended after %.2f s" % result.wall

    def uninterruptible(self):
        with self.run("vfork_long", 3000000):
            lib.wait_until(lambda: lib.state_of(self.victim.pid) == "D")
            text = self.refused(lib.NO_SAFE_MOMENT, "--timeout", "1s", within=2)
            self.goes_on(1)
            return text

    def two_tools(self):
        with self.run("idle") as victim:
            seen = {}
            for i in range(300 if self.long else 60):
                for code in self.pair(victim, ("on", "stats", "off", "dump")[i % 4]):
                    seen[code] = seen.get(code, 0) + 1
            self.goes_on()
            return ", ".join("%d times %d" % (seen[code], code) for code in sorted(seen))

    def pair(self, victim, verb):
        if self.sabotage:
            self.spoil()
            return [0, 0]
        words = {"dump": ("--call", "-o", os.devnull), "stats": ("--full",)}.get(verb, ("--call",))
        results = [None, None]

        def one(which):
            results[which] = lib.run_tool(verb, victim.pid, *words)

        threads = [threading.Thread(target=one, args=(i,)) for i in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for result in results:
            require(result.code in (0, 4), "%s", result)
            require(result.code == 0 or "traced" in told_cause(result), "%s", result)
        return [result.code for result in results]


def is_frozen(path, switch):
    """Freezes by cgroup v1 or v2."""
    with contextlib.suppress(OSError):
        return "frozen 1" in lib.read_text(os.path.join(path, "cgroup.events"))
    return lib.read_text(switch).strip() == "FROZEN"


def write(path, text):
    with open(path, "w") as file:
        file.write(str(text))


def move_out(path, pid):
    """Moves the process to the parent group, so that this one can be removed."""
    with contextlib.suppress(OSError):
        write(os.path.join(os.path.dirname(path), "cgroup.procs"), pid)
        lib.wait_until(lambda: not lib.read_text(os.path.join(path, "cgroup.procs")), 1)
        os.rmdir(path)


def main():
    table = Table(__doc__)
    states = States(table.options)

    def simply(mode, *arguments, **options):
        table.add(mode, lambda: states.simply(mode, *arguments, **options))

    table.add("stopped", states.stopped)
    table.add("stop_midway", states.stop_midway)
    table.add("traced", states.traced)
    table.add("zombie", states.zombie)
    table.add("ending", states.ends, "ending", (0, 3, 5, 7))
    table.add("becoming", states.ends, "becoming", (0, 3, 5, 7))
    table.add("frozen", states.frozen)
    table.add("coroutine_main", states.coroutine)
    table.add("raw_clone", states.raw_clone)
    table.add("cancel_pending", states.cancel, False)
    table.add("cancel_later", states.cancel, True)
    table.add("two_tools", states.two_tools)
    table.add("call_late", states.call_late)
    table.add("uninterruptible", states.uninterruptible)
    simply("main_gone")
    simply("small_stack", thread=True, codes=(0, 7), words=("--timeout", "300ms"))
    simply("coroutine_above", thread=True, codes=(7,), words=("--timeout", "200ms"))
    simply("coroutine_below", thread=True, codes=(7,), words=("--timeout", "200ms"))
    simply("fork_loop")
    simply("vfork_loop", codes=(0, 7), words=("--timeout", "2s"))
    simply("exec_loop", codes=(0, 3, 5, 7), words=("--timeout", "2s"))
    simply("dlopen_loop")
    simply("churn")
    simply("set_ids")
    simply("many", 10000 if table.options.long else 1000)
    return table.run()


if __name__ == "__main__":
    sys.exit(main())
