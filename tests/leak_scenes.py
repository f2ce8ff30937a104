"""The table of leaks and churn: how often the growth of a stack is called what it is.

    leak_scenes.py RUNS [STEPS [LG_PROF_SAMPLE]]

Runs each scene of tests/victims/scenes.c so often, with all its profiles through `report --base
--between`, and counts, for the interval of a series and for the formula of two independent
profiles (two standard deviations): false alarms, runs in which a churning stack is said to
grow; and misses, runs in which the leak is not. Without an argument, a test of one run.
"""

import json
import math
import os
import subprocess
import sys
import tempfile

import lib

SCENES = {"leak": "serve", "churn": None, "both": "serve", "cache": "fill"}
STEPS, LG_SAMPLE = 16, 19


def victim():
    return os.path.join(lib.VICTIMS, "scenes")


def take_series(directory, scene, seed, steps, lg_sample):
    """Returns the paths of the profiles, in order."""
    prefix = os.path.join(directory, "%s.%d" % (scene, seed))
    conf = "prof:true,prof_active:false,lg_prof_sample:%d" % lg_sample
    subprocess.run(
        [victim(), scene, str(seed), str(steps), prefix],
        env=dict(os.environ, MALLOC_CONF=conf),
        check=True,
    )
    paths = ["%s.%d" % (prefix, i) for i in range(steps + 1)]
    for i, path in enumerate(paths):  # a step is a second, however long it took here
        os.utime(path, (i, i))
    return paths


def report(*words):
    """Returns the stacks by the function that allocates, as JSON."""
    done = subprocess.run(
        [lib.TOOL, "report", "-q", "--rows", "0", "--json", *words],
        stdout=subprocess.PIPE,
        check=True,
    )
    stacks = {}
    for stack in json.loads(done.stdout)["largest_stacks"]:
        name = stack["calls"][0]["function"]
        assert name not in stacks, "two stacks of %s" % name
        stacks[name] = stack
    return stacks


def independent(paths):
    """The functions that have grown by the formula of two independent profiles."""
    now, before = report(paths[-1]), report(paths[0])
    grown = set()
    for name, stack in now.items():
        old = before.get(name, {"amount": 0, "error": 0})
        if stack["amount"] - old["amount"] >= math.hypot(stack["error"], old["error"]):
            grown.add(name)
    return grown


def verdicts(paths):
    between = [word for path in paths[1:-1] for word in ("--between", path)]
    return {
        name: (stack["verdict"], stack["amount"] - stack["amount_before"], stack["low"], stack["high"])
        for name, stack in report(paths[-1], "--base", paths[0], *between).items()
    }


def run_scene(directory, scene, seed, steps=STEPS, lg_sample=LG_SAMPLE):
    """Returns the verdicts by function, and what has grown by the other formula."""
    paths = take_series(directory, scene, seed, steps, lg_sample)
    try:
        return verdicts(paths), independent(paths)
    finally:
        for path in paths:
            os.unlink(path)


def count_scene(directory, scene, runs, steps, lg_sample):
    leak, counts = SCENES[scene], dict(alarms=0, misses=0, stopped=0, old_alarms=0, old_misses=0)
    for seed in range(1, runs + 1):
        told, old = run_scene(directory, scene, seed, steps, lg_sample)
        grows = {name for name, row in told.items() if row[0] == "grows"}
        counts["alarms"] += bool(grows - {leak})
        counts["old_alarms"] += bool(old - {leak})
        if leak:
            counts["misses"] += told.get(leak, ("unclear",))[0] not in ("grows", "stopped")
            counts["stopped"] += told.get(leak, ("unclear",))[0] == "stopped"
            counts["old_misses"] += leak not in old
    return counts


def print_table(runs, steps, lg_sample):
    print("%d runs each, %d steps, lg_prof_sample:%d" % (runs, steps, lg_sample))
    print("%-6s %27s   %27s" % ("", "two independent profiles", "series"))
    head = ("scene", "false alarms", "misses", "false alarms", "misses", "stopped")
    print("%-6s %14s %12s   %14s %12s %10s" % head)
    with tempfile.TemporaryDirectory() as directory:
        for scene, leak in SCENES.items():
            counts = count_scene(directory, scene, runs, steps, lg_sample)
            cells = [100 * counts[key] / runs for key in ("old_alarms", "old_misses", "alarms")]
            cells += [100 * counts[key] / runs for key in ("misses", "stopped")]
            texts = ["%.0f %%" % cell for cell in cells]
            if not leak:
                texts[1] = texts[3] = texts[4] = "-"
            print("%-6s %14s %12s   %14s %12s %10s" % (scene, *texts), flush=True)


class Scenes(lib.TestCase):
    """One run each, with so many samples that chance does not matter."""

    def grown(self, scene):
        with tempfile.TemporaryDirectory() as directory:
            told, _ = run_scene(directory, scene, 1, lg_sample=14)
        return told

    def test_leak(self):
        for scene in ("leak", "both"):
            verdict, grown, low, high = self.grown(scene)["serve"]
            self.assertEqual(verdict, "grows")
            self.assertTrue(0 < low <= grown <= high, (low, grown, high))
            self.assertTrue(10 << 20 < grown < 22 << 20, grown)

    def test_churn(self):
        told = self.grown("churn")["serve"]
        self.assertLess(told[2], 0 if told[0] == "unclear" else told[3], told)
        self.assertLess(abs(told[1]), 60 << 20)

    def test_cache(self):
        verdict, grown, low, _ = self.grown("cache")["fill"]
        self.assertEqual(verdict, "stopped")
        self.assertTrue(0 < low <= grown, (low, grown))


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].isdigit():
        numbers = [int(word) for word in sys.argv[1:4]]
        print_table(*(numbers + [0, STEPS, LG_SAMPLE][len(numbers):]))
    else:
        lib.main()
