#!/usr/bin/env python3
"""Calls into processes that allocate all the time: none may hang, none may be corrupted.

Each cycle is on, dump -o, off. After each call every thread of the storm must make progress, and
every block must have its mark. At the end the target has no more file descriptors, threads or
scratch mappings than before. Prints the time to the safe point and the time of the stop.

With --linked, jemalloc is not preloaded but linked into the storm, which is stripped: mallctl and
the forbidden ranges are found without any name.
"""
import argparse
import contextlib
import json
import mmap
import os
import re
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import lib  # noqa: E402
import linked  # noqa: E402

TOOL = os.environ["JEATTACH"]
STORM = os.environ["JEATTACH_STORM"]
THREADS_MAX = 256
PROF = "prof:true,prof_active:false"
# On an overloaded machine the tool makes few stops before the deadline. Such refusals say nothing
# about the tool, and the call is repeated.
STOPS_ENOUGH = 5000
TURNS = 10
# name: threads, smallest and largest block, pause, configuration, cycles in a short and a long run.
# ./test runs a sample of the short cycles: SAMPLE of them, at least LEAST.
SAMPLE, SAMPLE_LINKED, LEAST = 1 / 2, 1 / 3, 8
# Without a pause each thread is always runnable: 64 on two CPUs wait for each other for 100 ms at
# each stop. With a pause they use the CPUs fully, with short queues.
SCENARIOS = {
    "one": (1, 16, 4096, 0, PROF + ",lg_prof_sample:19", 60, 700),
    "small": (1, 16, 64, 0, PROF + ",lg_prof_sample:19", 60, 700),
    "large": (1, 16384, 262144, 0, PROF + ",lg_prof_sample:19", 30, 300),
    "no_tcache": (1, 16, 4096, 0, PROF + ",lg_prof_sample:19,tcache:false", 30, 300),
    "four": (4, 16, 4096, 0, PROF + ",lg_prof_sample:19", 30, 700),
    "sampled": (1, 16, 4096, 0, PROF + ",lg_prof_sample:0", 8, 100),
    "crowd": (64, 16, 4096, 0, PROF + ",lg_prof_sample:16", 8, 200),
    "soak": (64, 16, 4096, 40000, PROF + ",lg_prof_sample:16", 100, 10000),
}


class Storm:
    """A running storm and its report."""

    def __init__(self, folder, program, threads, smallest, largest, pause, conf):
        self.threads = threads
        self.path = os.path.join(folder, "report")
        env = dict(os.environ, MALLOC_CONF=conf)
        if program == STORM:
            env["LD_PRELOAD"] = "libjemalloc.so.2"
        self.process = subprocess.Popen(
            [program, self.path, str(threads), str(smallest), str(largest),
             str(pause)], env=env,
            stdin=subprocess.DEVNULL, cwd=folder)
        self.pid = self.process.pid
        self.map = None

    def read(self):
        """Returns corrupt, ticks, and the rounds of each thread."""
        if self.map is None:
            with open(self.path, "rb") as file:
                self.map = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        words = struct.unpack_from("<%dQ" % (2 + self.threads), self.map)
        return words[0], words[1], words[2:]

    def wait_for_rounds(self, before, seconds=60):
        """True once every thread has made progress since `before`."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            rounds = self.read()[2]
            if all(now > then for now, then in zip(rounds, before)):
                return True
            if self.process.poll() is not None:
                return False
            time.sleep(0.002)
        return False

    def start(self):
        end = time.monotonic() + 20
        while time.monotonic() < end:
            with contextlib.suppress(OSError, ValueError):
                if self.wait_for_rounds([0] * self.threads):
                    return
            time.sleep(0.05)
        raise RuntimeError("the storm does not start")

    def resident(self):
        """Returns the RSS in bytes."""
        with open("/proc/%d/statm" % self.pid, encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")

    def possessions(self):
        """Counts what a call could leave: file descriptors, threads, executable mappings."""
        proc = "/proc/%d/" % self.pid
        with open(proc + "maps", encoding="utf-8", errors="replace") as maps:
            scratch = [line for line in maps if " r-xp " in line and len(line.split()) == 5]
        return len(os.listdir(proc + "fd")), len(os.listdir(proc + "task")), len(scratch)

    def stop(self):
        self.process.kill()
        self.process.wait()


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0


def stops_of(result):
    found = re.search(r"(\d+) stops", result.stdout + result.stderr)
    return int(found[1]) if found else STOPS_ENOUGH


class Run:
    """The counts and times of one scenario."""

    def __init__(self, name, storm, cycles):
        self.name, self.storm, self.cycles = name, storm, cycles
        self.calls = self.late = 0
        self.growth = 0.0
        self.reasons = set()
        self.faults, self.search, self.held = [], [], []

    def call(self, *words):
        for turn in range(TURNS):
            result = self.call_once(*words)
            if result.returncode != 7 or stops_of(result) >= STOPS_ENOUGH or self.faults:
                return
        self.faults.append("%s: refused %d times: %s" % (words, TURNS, result.stderr))

    def call_once(self, *words):
        before = self.storm.read()[2]
        result = subprocess.run([TOOL, *words, "--json", "-q", str(self.storm.pid)],
                                capture_output=True, text=True, timeout=120, check=False)
        self.calls += 1
        if result.returncode == 7 and stops_of(result) < STOPS_ENOUGH:
            print("again: %s: %s" % (self.name, result.stderr.strip()), flush=True)
        elif result.returncode == 7:
            self.late += 1
            self.reasons.add(result.stderr.strip())
        elif result.returncode != 0:
            self.faults.append("%s: exit %d: %s" % (words, result.returncode, result.stderr))
        else:
            seen = json.loads(result.stdout)
            self.search.append(seen["search_ns"] / 1e6)
            self.held.append(seen["held_ns"] / 1e6)
        if not self.storm.wait_for_rounds(before):
            self.faults.append("%s: a thread does not go on (exit status %s)"
                               % (words, self.storm.process.poll()))
        return result

    def cycle(self, profile):
        self.call("on", "--call")
        self.call("dump", "--call", "--force", "-o", profile)
        text = b""
        with contextlib.suppress(FileNotFoundError), open(profile, "rb") as file:
            text = file.read()
        if not text.startswith(b"heap_v2/") or b"\nMAPPED_LIBRARIES:\n" not in text:
            self.faults.append("a profile is not complete")
        self.call("off", "--call")

    def run(self, folder):
        before = self.storm.possessions()
        self.cycle(os.path.join(folder, "profile"))
        resident = self.storm.resident()
        for _ in range(self.cycles - 1):
            self.cycle(os.path.join(folder, "profile"))
            if self.faults:
                break
        self.growth = (self.storm.resident() - resident) / 2**20
        if self.growth > 16 + resident / 2**20:
            self.faults.append("the target has grown by %.1f MiB" % self.growth)
        if self.storm.read()[0]:
            self.faults.append("%d blocks were changed" % self.storm.read()[0])
        after = self.storm.possessions()
        if after != before:
            self.faults.append("descriptors, threads, mappings: %s, now %s" % (before, after))

    def row(self):
        return "%-10s %6d %5d %7d   %8.2f %8.2f %8.1f   %6.2f %6.2f   %7.1f" % (
            self.name, self.calls, self.late, len(self.faults), percentile(self.search, 0.5),
            percentile(self.search, 0.99), max(self.search or [0]), percentile(self.held, 0.5),
            percentile(self.held, 0.99), self.growth)


def linked_storm(link, folder):
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "storm.c")
    return linked.build(source, link, "_rjem_", folder)


def sample(cycles, link):
    return cycles if lib.LONG else max(LEAST, int(cycles * (SAMPLE_LINKED if link else SAMPLE)))


def run_scenario(name, long, link):
    threads, smallest, largest, pause, conf, short_cycles, long_cycles = SCENARIOS[name]
    cycles = long_cycles if long else sample(short_cycles, link)
    with tempfile.TemporaryDirectory() as folder:
        program = linked_storm(link, folder) if link else STORM
        storm = Storm(folder, program, threads, smallest, largest, pause, conf)
        try:
            storm.start()
            run = Run(name, storm, cycles)
            run.run(folder)
        finally:
            storm.stop()
    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--linked", choices=sorted(linked.LINKS))
    options = parser.parse_args()
    if options.linked and linked.missing():
        print("SKIP: " + linked.missing())
        sys.exit(77)
    print("scenario    calls  late  faults   search/ms  p50      p99      max   held/ms p50    p99   RSS/MiB")
    failed = False
    for name in options.scenarios or SCENARIOS:
        run = run_scenario(name, options.long, options.linked)
        print(run.row(), flush=True)
        for fault in run.faults:
            print("FAULT: %s: %s" % (name, fault))
        for reason in sorted(run.reasons):
            print("late: %s: %s" % (name, reason))
        # At most one call in a thousand may find no safe point before the default deadline.
        failed = failed or run.faults or run.late * 1000 > run.calls
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
