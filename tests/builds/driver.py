#!/usr/bin/env python3
"""Every verb on every build of jemalloc: Debian's, and rebuilt ones in other configurations.

    driver.py [--sample] [--jobs N] [PATTERN...]   runs the cells that match, and prints a table
    driver.py --list [--sample]                    prints a line for each cell
    driver.py --builds                             prints a line for each build: "name short|long"

A cell is BUILD/LINK/SYMBOLS/CONF/VERB: one verb on one process, such as
5.3.0-lto/static/stripped/on/dump_call. A pattern matches the start of a cell or is one of fnmatch.
The cell is wrong if what the tool prints is not what the process says of itself, if the exit code
is not the documented one, if a message blames the wrong thing, or if the process notices. It is
refused if the tool refuses, with a cause, what it may refuse. --sample: few processes of a build.
"""

import argparse
import collections
import concurrent.futures
import fnmatch
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import lib  # noqa: E402
import processes  # noqa: E402
import variants  # noqa: E402
import verbs  # noqa: E402

OK, REFUSED, WRONG, SKIPPED = "ok", "refused", "WRONG", "skipped"
SAMPLE = (("preload", "stripped", "on"), ("static", "stripped", "on"),
          ("preload", "stripped", "off"), ("inside", "whole", "off"))

Subject = collections.namedtuple("Subject", "build link symbols conf")
Cell = collections.namedtuple("Cell", "subject verb")
Outcome = collections.namedtuple("Outcome", "cell result reason")


def name_of(cell):
    return "/".join(cell.subject + (cell.verb,))


def variant_of(build):
    return variants.VARIANTS.get(build.partition("-")[2], variants.Variant())


def subjects_of(build, sample):
    debian = build in variants.DEBIAN
    for link in processes.links_of(variant_of(build)):
        for symbols in ("whole", "stripped"):
            if debian and symbols == "whole" and link in ("preload", "linked"):
                continue  # Debian's libraries are stripped
            for conf in processes.CONFS:
                if not sample or (link, symbols, conf) in SAMPLE:
                    yield Subject(build, link, symbols, conf)


def cells(patterns, sample):
    """Returns {subject: verbs} of all cells that match."""
    chosen = {}
    for build in variants.names():
        for subject in subjects_of(build, sample):
            named = [Cell(subject, verb) for verb in verbs.CHECKS]
            kept = [cell.verb for cell in named if matches(name_of(cell), patterns)]
            if kept:
                chosen[subject] = kept
    return chosen


def matches(name, patterns):
    return not patterns or any(
        name == pattern or name.startswith(pattern + "/") or fnmatch.fnmatch(name, pattern)
        for pattern in patterns
    )


class Run:
    """The cells of one process, which is started again if one of them harms it."""

    def __init__(self, subject, checks):
        self.subject, self.checks = subject, checks
        self.process = self.directory = None

    def outcomes(self):
        build, reason = processes.available(self.subject.build)
        if not build:
            return [self.outcome(verb, SKIPPED, reason) for verb in self.checks]
        try:
            return [self.one(build, verb) for verb in self.checks]
        finally:
            self.stop()

    def outcome(self, verb, result, reason=""):
        return Outcome(Cell(self.subject, verb), result, " ".join(reason.split())[:400])

    def start(self, build):
        self.directory = tempfile.mkdtemp(prefix="jeattach-test.")
        self.process = processes.Subject(self.directory, build, self.subject.link,
                                         self.subject.symbols == "stripped", self.subject.conf)

    def stop(self):
        if self.process:
            self.process.stop()
        if self.directory:
            shutil.rmtree(self.directory, True)
        self.process = self.directory = None

    def one(self, build, verb):
        try:
            if not self.process:
                self.start(build)
        except unittest.SkipTest as reason:
            return self.outcome(verb, SKIPPED, str(reason))
        except AssertionError as reason:
            self.stop()
            return self.outcome(verb, WRONG, str(reason))
        result, reason = self.judged(verb)
        noticed = self.process.noticed() if self.process.alive() else ["it died"]
        if noticed:
            result, reason = WRONG, "the process notices: %s. %s" % (", ".join(noticed), reason)
        if result == WRONG:
            self.stop()
        return self.outcome(verb, result, reason)

    def judged(self, verb):
        try:
            getattr(verbs.Verbs(self.process), "check_" + verb)()
        except verbs.Refused as reason:
            return REFUSED, str(reason)
        except (verbs.Wrong, AssertionError) as reason:
            return WRONG, str(reason)
        except (KeyError, ValueError, OSError, subprocess.SubprocessError):
            return WRONG, traceback.format_exc(limit=-2)
        return OK, ""


def run_all(chosen, jobs):
    found = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        runs = [pool.submit(Run(subject, checks).outcomes) for subject, checks in chosen.items()]
        for done in concurrent.futures.as_completed(runs):
            for outcome in done.result():
                print("%-8s %s%s" % (outcome.result, name_of(outcome.cell),
                                     outcome.reason and ": " + outcome.reason), flush=True)
                found.append(outcome)
    return found


def print_table(found):
    """One row for each build: how many of its cells have which result, and the verbs that are
    wrong."""
    print("\n%-24s %6s %8s %6s %8s  %s" % ("build", OK, REFUSED, WRONG, SKIPPED, "wrong verbs"))
    had = {outcome.cell.subject.build for outcome in found}
    for build in [name for name in variants.names() if name in had] + ["all"]:
        mine = [o for o in found if build in (o.cell.subject.build, "all")]
        count = collections.Counter(o.result for o in mine)
        wrong = collections.Counter(o.cell.verb for o in mine if o.result == WRONG)
        words = ", ".join("%s %d" % pair for pair in sorted(wrong.items()))
        print("%-24s %6d %8d %6d %8d  %s" % (build, count[OK], count[REFUSED], count[WRONG],
                                             count[SKIPPED], words))


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--builds", action="store_true")
    parser.add_argument("--sample", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("patterns", nargs="*")
    return parser.parse_args()


def main():
    asked = parse()
    if asked.builds:
        for build in variants.names():
            print(build, "short" if build in variants.DEBIAN else "long")
        return
    chosen = cells(asked.patterns, asked.sample)
    if asked.list:
        for subject, checks in chosen.items():
            print("\n".join(name_of(Cell(subject, verb)) for verb in checks))
        return
    if not chosen:
        sys.exit("no such cell: %s" % " ".join(asked.patterns))
    lib.raise_on_signals()
    found = run_all(chosen, asked.jobs)
    print_table(found)
    results = {outcome.result for outcome in found}
    if results == {SKIPPED}:
        print("SKIP: %s" % found[0].reason)
        sys.exit(lib.SKIPPED)
    sys.exit(1 if WRONG in results else 0)


if __name__ == "__main__":
    main()
