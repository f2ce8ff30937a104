"""The kill matrix: the tool dies at each of its ptrace and write calls, and the target continues.

For each verb and each state of the target, the tool runs again and again: it kills itself just
before (AT) or just after (AFTER) its k-th ptrace or memory-write call, k = 1, 2, ... until it
reaches its end. With --every N it does so at every N-th call, beginning with a random one of the
first N, which is printed; a fault names its call. After each death the victim must complete the
call on its own and be unchanged: alive, its own check without a fault, running, untraced, with the
same signal masks, mappings, file descriptors, threads and text. Exit code 1 on any fault.

  kill_matrix.py [--verb VERB]... [--mode MODE]... [--long] [--every N [--first K]] [--ms MS]
                 [--filter kill|errno] [--stale] [--refuse exec|all]
                 [--jemalloc VERSION]
"""

import argparse
import contextlib
import os
import random
import re
import resource
import signal
import shutil
import sys
import tempfile
import unittest

import lib
import releases

MODES = ("spin", "nanosleep", "epoll_wait", "poll", "futex", "read")
LONG_MODES = MODES + (
    "clock_nanosleep_abs",
    "epoll_pwait",
    "ppoll",
    "select",
    "recv",
    "sigtimedwait",
    "getppid",
    "malloc",
)

# The kernel ends these with EINTR as soon as the thread is stopped. The tool rewinds them with the
# first registers that it sets: a death before that shows the EINTR, a later one must not.
EINTR_OF_STOP_MODES = ("epoll_wait", "epoll_pwait", "recv", "sigtimedwait")

# Only the tool knows the address of the scratch area between the exit of its mmap and the write of
# that address: deaths there may leave this many mappings.
MAPPINGS_LEFT_ALLOWED = 0

# Each kind of use: reads, a write with its read-back, an action, statistics with their epoch.
MALLCTL_NAMES = ["opt.prof", "prof.gdump=false", "arena.0.decay", "stats.resident", "version"]

VERBS = ("on", "dump", "stream", "stats", "report", "mallctl", "reset", "purge", "record", "watch")
VERBS += ("several", "byte", "repair")

# Other verbs write nothing the second time: profiling is already on.
SWITCHING = ("on", "record", "watch", "several", "repair")

# Of the stops of record --call, the list of calls that has the dump had begun: it is the one whose
# system calls are replaced.
DUMPING = re.compile(r"DETACH.*process_vm_writev 0x\w+000,(?:(?!process_vm_writev).)*GETREGSET", re.S)
MAX_POINTS = 2000
SECOND_USE_EVERY = 5
KILLED = -signal.SIGKILL
WORKER_KILLED = "was killed by SIGKILL"


class Series:
    """All deaths of one verb on one victim."""

    def __init__(self, verb, victim, sink, refuse=None, other=None, every=1, first=None,
                 as_list=True):
        self.verb = verb
        self.victim = victim
        self.other = other  # the second target of `several`
        self.sink = sink
        self.every, self.first = every, first
        self.profiles, self.off = sink + ".profiles", sink + ".off"
        if verb == "watch":
            os.mkdir(self.profiles)
        self.tool = lib.REFUSED_TOOL if refuse == "exec" else lib.TRACED_TOOL
        self.no_memory = refuse == "all"
        self.as_list = as_list  # the calls of a list follow each other without the tool
        self.dumping = 0
        self.points = self.deaths = self.hangs = self.eintr = self.errno_lost = 0
        self.lefts = []
        self.faults = []
        self.text_changed = 0
        self.usable = True
        self.eintr_allowed = 0

    def fault(self, where, what):
        self.faults.append("%s %s %s: %s" % (self.verb, self.victim.mode, where, what))

    def arguments(self):
        pid = self.victim.pid
        words = {
            "on": ["on", "--call"],
            "byte": ["on", "--no-call"],
            "repair": ["on", "--repair", "--no-call"],
            "dump": ["dump"],
            "stream": ["dump", "--call", "--force", "-o", self.sink],
            "stats": ["stats", "--full"],
            "report": ["stats", "--full", "--json"],
            "mallctl": ["mallctl"],
            "reset": ["mallctl"],
            "purge": ["purge"],
            "record": ["record", "--call", "-d", "1ms", "-o", "/dev/null"],
            "watch": ["watch", "--call", "--when", "rss>1K", "--once", "--on", "-o",
                      self.profiles],
            "several": ["on", "--call"],
        }[self.verb]
        words += [pid] + MALLCTL_NAMES * (self.verb == "mallctl")
        words += ["prof.reset=12"] * (self.verb == "reset")
        return words + ([self.other.pid] if self.other else [])

    def died(self, result):
        """With several targets a worker dies in place of the tool, which reports it."""
        return result.code == KILLED or self.other is not None and WORKER_KILLED in result.err

    @contextlib.contextmanager
    def limits(self):
        """While the tool runs, the target cannot map any memory."""
        if not self.no_memory:
            yield
            return
        both = resource.prlimit(self.victim.pid, resource.RLIMIT_AS)
        resource.prlimit(self.victim.pid, resource.RLIMIT_AS, (1 << 20, both[1]))
        try:
            yield
        finally:
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(self.victim.pid, resource.RLIMIT_AS, both)

    # ---- one death ----

    def point(self, variable, k):
        """Returns True if the tool died, False if it reached its end."""
        where = "%s=%d" % (variable, k)
        if self.verb in ("byte", "repair"):
            self.clear_byte(where)
        if self.verb == "repair":
            self.switch_thread_off(where)
        before = self.victim.counters()
        with self.limits():
            result = lib.run_tool(*self.arguments(), env={variable: str(k)}, tool=self.tool)
        died = self.died(result)
        if died:
            self.points += 1
        elif result.code != (lib.NO_SAFE_MOMENT if self.no_memory else lib.OK):
            self.hangs += result.code is None
            self.fault(where, "neither killed nor successful: %s" % str(result))
        self.eintr_allowed = self.allowed_eintr(result)
        last = (result.err.splitlines() or ["no call"])[-1]
        self.usable = self.aftermath("%s (after %s)" % (where, last), before)
        if self.verb == "byte" and self.usable:
            self.compare_active(where, not died or variable == "JEATTACH_DIE_AFTER")
        if self.verb == "repair" and self.usable and not died:
            self.compare_thread(where)
        if self.verb == "record" and self.as_list and self.usable and DUMPING.search(result.err):
            self.dumping += 1
            self.compare_active(where, False)
        return self.usable and died

    def clear_byte(self, where):
        result = lib.run_tool("off", "--no-call", self.victim.pid)
        if result.code != lib.OK:
            self.fault(where, "off fails: %s" % result)

    def compare_active(self, where, active):
        """byte: the one write was made, or it was not; jemalloc itself says so. record: the thread
        that has begun the last dump also restores the value."""
        said = lib.run_tool("mallctl", "-q", self.victim.pid, "prof.active").text
        if said != "prof.active = %s\n" % ("true" if active else "false"):
            self.fault(where, "after the death: %r" % said)

    def own_active(self):
        """thread.prof.active of the victim's thread, as jemalloc itself says in it."""
        pid = self.victim.pid
        text = lib.run_tool("mallctl", "-q", "--thread", pid, pid, "thread.prof.active").text
        return text.partition("   ")[0]

    def switch_thread_off(self, where):
        """The victim does so when it sees the file, and removes it."""
        with open(self.off, "wb"):
            pass
        gone = lib.wait_until(lambda: not os.path.exists(self.off))
        self.victim.wait_rounds(1)
        if not gone or self.own_active() != "thread.prof.active = false":
            self.fault(where, "the thread is not off: %s" % self.own_active())

    def compare_thread(self, where):
        """A repair that was not killed is complete."""
        if self.own_active() != "thread.prof.active = true":
            self.fault(where, "the thread is still off: %r" % self.own_active())
        self.compare_active(where, True)

    def allowed_eintr(self, result):
        if not self.died(result):
            return 0
        mode = self.victim.mode
        interrupts = result.err.rfind("INTERRUPT"), result.err.rfind("SETREGSET")
        return int(
            mode in EINTR_OF_STOP_MODES and interrupts[0] > interrupts[1]
        )

    def aftermath(self, where, before):
        """Returns False if the victim cannot be used any longer."""
        advanced = self.victim.wait_rounds(2)
        if not self.victim.alive():
            self.deaths += 1
            self.fault(where, "the victim died: %s" % self.victim.process.returncode)
            return False
        if not advanced:
            self.hangs += 1
            self.fault(where, "the victim hangs in %s" % self.place())
            return False
        self.compare_counters(where, before)
        self.compare_state(where)
        self.compare_mappings(where)
        return True

    def place(self):
        parts = ("wchan", "syscall", "status")
        texts = []
        for part in parts:
            with contextlib.suppress(OSError):
                texts.append(lib.read_text("/proc/%d/%s" % (self.victim.pid, part))[:200])
        return "; ".join(" ".join(text.split()) for text in texts)

    def compare_counters(self, where, before):
        now = self.victim.counters()
        if now["errors"] > before["errors"]:
            self.fault(where, now["text"])
        for name in ("early", "late"):
            if now[name] > before[name] and not (
                    name == "late" and self.victim.lateness_is_the_machines()):
                self.fault(where, "a timeout was %s" % name)
        eintr = now["eintr"] - before["eintr"]
        self.eintr += eintr
        self.errno_lost += now["errno_lost"] - before["errno_lost"]
        if eintr > self.eintr_allowed:
            self.fault(where, "%d system calls ended with EINTR, %d may" % (eintr, self.eintr_allowed))

    def compare_state(self, where):
        pid = self.victim.pid
        if lib.state_of(pid) not in "RSD" or any(map(self.is_traced, lib.threads(pid))):
            self.fault(where, "stopped or traced: %s" % self.place())
        if not lib.wait_until(lambda: lib.signal_masks(pid) == self.start.masks, 1):
            self.fault(where, "signal masks: %s" % lib.signal_masks(pid))
        if lib.threads(pid) != self.start.threads:
            self.fault(where, "threads: %s" % lib.threads(pid))
        if lib.descriptors(pid) != self.start.descriptors:
            self.fault(where, "descriptors: %s" % lib.descriptors(pid))

    def is_traced(self, tid):
        return lib.tracer_of_thread(self.victim.pid, tid) != 0

    def compare_mappings(self, where):
        if self.victim.mode == "malloc":
            self.compare_code(where)
            return  # its mappings change by themselves
        now = lib.covered(lib.mappings(self.victim.pid))
        new = [m for m in now if m not in self.maps]
        gone = [m for m in self.maps if m not in now]
        if new or gone:
            self.lefts.append(where)
            if len(self.lefts) > MAPPINGS_LEFT_ALLOWED or gone and not grown(new, gone):
                self.fault(where, "mappings: new %s, gone %s" % (texts(new), texts(gone)))
        self.maps = now

    def compare_code(self, where):
        """No page of the tool's own code is left: other executable mappings have a file. The other
        threads continue while one completes the call."""

        def left():
            return [m for m in lib.mappings(self.victim.pid) if "x" in m.perms and not m.path]

        if not lib.wait_until(lambda: not left(), 10):
            self.fault(where, "code is left: %s" % (left(),))

    # ---- all deaths ----

    def second_use(self, where):
        """The tool still works on this target."""
        if self.verb == "repair":
            result = lib.run_tool(*self.arguments())
        else:
            result = lib.run_tool("off", "--call", self.victim.pid)
        if result.code != lib.OK:
            self.fault(where, "the next use fails: %s" % str(result))
        if self.verb == "repair":
            self.compare_thread(where)
        self.victim.wait_rounds(2)

    def deaths_of(self, variable):
        first = self.first or random.randint(1, self.every)
        if self.every > 1:
            print("%s %s: every %d. call from %s=%d on"
                  % (self.verb, self.victim.mode, self.every, variable, first))
        for k in range(first, MAX_POINTS, self.every):
            if not self.point(variable, k):
                return self.usable
            if self.verb in SWITCHING or self.points % SECOND_USE_EVERY == 0:
                self.second_use("after %s=%d" % (variable, k))
            if len(self.faults) > 20:
                self.fault("", "too many faults, given up")
                return False
        self.fault("", "the tool makes more than %d calls" % MAX_POINTS)
        return False

    def final_uses(self):
        pids = [self.victim.pid] + ([self.other.pid] if self.other else [])
        for verb in "on", "off":
            result = lib.run_tool(verb, "--call", *pids)
            if result.code != lib.OK:
                self.fault("at the end", str(result))
        if self.other and not (self.other.alive() and self.other.wait_rounds(2)):
            self.fault("at the end", "the second target does not go on")
        self.eintr_allowed = 0
        self.aftermath("at the end", self.victim.counters())

    def compare_text(self):
        now = lib.text_hashes(self.victim.pid)
        self.text_changed = sum(now.get(key) != value for key, value in self.start.text.items())
        if self.text_changed:
            self.fault("at the end", "%d text mappings changed" % self.text_changed)

    def run(self):
        self.victim.wait_rounds(2)
        if self.verb == "repair":
            self.second_use("at the start")
            self.switch_thread_off("at the start")  # makes the thread's data
        self.start = lib.snapshot(self.victim.pid)
        self.maps = self.start.maps
        if self.deaths_of("JEATTACH_DIE_AT") and self.deaths_of("JEATTACH_DIE_AFTER"):
            self.final_uses()
        if self.verb == "byte" and self.points != 2:
            self.fault("", "%d deaths, not one before and one after the only write" % self.points)
        if self.verb == "record" and self.as_list and not self.dumping:
            self.fault("", "no death was in the last dump")
        if self.victim.alive():
            self.compare_text()
        return self

    def row(self):
        return (
            self.verb,
            self.victim.mode,
            self.points,
            self.deaths,
            self.hangs,
            len(self.faults),
            len(self.lefts),
            self.text_changed,
            self.eintr,
            self.errno_lost,
        )


HEADINGS = ("verb", "mode", "points", "deaths", "hangs", "faults", "mappings left")
HEADINGS += ("text changed", "EINTR", "errno lost")


def grown(new, gone):
    """True if each mapping that is gone is inside a new one: a left mapping was merged with it."""
    return all(any(n[0] <= g[0] and g[1] <= n[1] and n[2] == g[2] for n in new) for g in gone)


def texts(maps):
    return ["%x-%x %s" % (start, end, " ".join(key).strip()) for start, end, key in maps]


def print_table(rows):
    widths = [max(len(str(row[i])) for row in [HEADINGS] + rows) for i in range(len(HEADINGS))]
    for row in [HEADINGS] + rows:
        print("  ".join(str(cell).ljust(width) for cell, width in zip(row, widths)).rstrip())
    totals = [sum(row[i] for row in rows) for i in range(2, len(HEADINGS))]
    print("points %d, deaths %d, hangs %d, faults %d, mappings left %d" % tuple(totals[:5]))


def run_series(verb, mode, options, arguments, library):
    directory = tempfile.mkdtemp(prefix="jeattach-test.")
    victims = []
    try:
        for i in range(1 + (verb == "several")):
            own = os.path.join(directory, str(i))
            os.mkdir(own)
            off = ["--off", os.path.join(directory, "stream.off")] if verb == "repair" else []
            victims.append(lib.Victim(mode, own, ms=options.ms, arguments=arguments + off,
                                      library=library))
        series = Series(verb, victims[0], os.path.join(directory, "stream"), options.refuse,
                        *victims[1:], every=options.every, first=options.first,
                        as_list=not (options.refuse or options.filter))
        return series.run()
    finally:
        for victim in victims:
            victim.stop()
        shutil.rmtree(directory, True)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--verb", action="append", choices=VERBS)
    parser.add_argument("--mode", action="append", choices=lib.victim_names("--modes"))
    parser.add_argument("--long", action="store_true", help="every mode, and longer calls")
    parser.add_argument("--every", type=int, default=1, metavar="N",
                        help="only every N-th call of the tool")
    parser.add_argument("--first", type=int, metavar="K",
                        help="the first of them, 1 to N; default: a random one")
    parser.add_argument("--ms", type=int, help="length of the victim's blocking calls")
    parser.add_argument("--filter", choices=("kill", "errno"),
                        help="victims under a seccomp filter: calls without executable memory")
    parser.add_argument("--stale", action="store_true",
                        help="victims with old return addresses on the stack: retries, unwinding")
    parser.add_argument("--refuse", choices=("exec", "all"),
                        help="the mmap of the scratch area is refused: only as executable, or at all")
    parser.add_argument("--jemalloc", choices=releases.SUITES,
                        help="victims with that release")
    options = parser.parse_args()
    options.verb = options.verb or list(VERBS)
    options.mode = options.mode or (LONG_MODES if options.long else MODES)
    options.ms = options.ms or (60 if options.long else 25)
    if lib.LONG:
        options.every = options.first = 1
    return options


def hook_works():
    """A tool built without the hook would pass all tests."""
    directory = tempfile.mkdtemp(prefix="jeattach-test.")
    victim = lib.Victim("nanosleep", directory, ms=25)
    try:
        return lib.run_tool("on", "--call", victim.pid, env={"JEATTACH_DIE_AT": "1"})
    finally:
        victim.stop()
        shutil.rmtree(directory, True)


def main():
    lib.raise_on_signals()
    options = parse_arguments()
    result = hook_works()
    if result.code != KILLED:
        sys.exit("JEATTACH_DIE_AT=1 does not kill the tool: %s" % str(result))
    arguments = ["--filter", options.filter] if options.filter else []
    arguments += ["--stale"] if options.stale else []
    library = None
    if options.jemalloc:
        library = os.path.join(releases.release(options.jemalloc), releases.LIBRARY)
    rows, faults = [], []
    for verb in options.verb:
        for mode in options.mode:
            # More threads for `on` to visit. They never allocate, so a call in one of them would
            # make mappings; those of this mode are not compared.
            more = ["--threads", "2"] if library and mode == "malloc" else []
            series = run_series(verb, mode, options, arguments + more, library)
            rows.append(series.row())
            faults += series.faults
    print_table(rows)
    for fault in faults:
        print("FAULT: %s" % fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    try:
        main()
    except unittest.SkipTest as reason:
        print("SKIP: %s" % reason)
        sys.exit(lib.SKIPPED)
