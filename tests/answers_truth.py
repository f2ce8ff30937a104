"""The table of answers: whether explain, frag and stats say where the memory of a process is, of
processes of which it is known.

    answers_truth.py [--scenes REGEX] [--ways REGEX] [--jobs N] [--no-cores] [--json]

Each scene is a command line of tests/victims/waste.c, which says on request what it has in use, by
function, and what jemalloc counts. Each way is how it is started: sampled at a period, not sampled,
without profiling, without jemalloc. Of each, every check is

  right    the answer is that of the process itself
  unclear  it is not answered, or not first, and nothing false is said
  wrong    something false is said, figures of two verbs differ, or the verb failed

--json prints one line for each run, with the truth and what the verbs printed.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import lib

KIB, MIB = 1 << 10, 1 << 20
# Libraries and the victim's own output use so much that the ledger does not have.
OWN = 512 * KIB
# What a look changes by itself.
MOMENT = 64 * KIB
RIGHT, UNCLEAR, WRONG = "right", "unclear", "wrong"
NO_DECAY = "dirty_decay_ms:0,muzzy_decay_ms:0"
PERIODS = (10, 12, 14, 17, 19)
PARTS = ("in_use", "sampling", "slabs", "padding", "free_pages", "pinned", "retained_resident",
         "own_data", "other", "outside")

WAYS = {"lg%d" % lg: "prof:true,lg_prof_sample:%d" % lg for lg in PERIODS}
WAYS.update({
    "inactive": "prof:true,prof_active:false",
    "noprof": "",
    "glibc": None,
})

Scene = collections.namedtuple("Scene", "words fact functions sizes conf")


def scene(words, fact, functions="", sizes=(), conf=NO_DECAY):
    return Scene(words.split(), fact, functions.split(), sizes, conf)


SCENES = {
    "one": scene("one", "between", "session_new", (256,)),
    "four": scene("four", "between", "session_new", (64, 320, 1024, 3072)),
    "stacks": scene("stacks", "between", "item_leaf item_new item_odd", (256,)),
    "ended": scene("ended", "between", "worker_new", (192,), NO_DECAY + ",narenas:32"),
    "noisy": scene("one noise=1", "between", "session_new", (256,)),
    "large": scene("large", "in_use"),
    "dirty": scene("large", "free_pages", conf="dirty_decay_ms:-1"),
    "dirty slabs": scene("one", "larger", "session_new", (256,), "dirty_decay_ms:-1"),
    "untouched": scene("untouched", "in_use"),
    "busy": scene("busy", "in_use"),
    "quiet": scene("noise", "in_use"),
    "map": scene("map", "outside"),
    "shared": scene("shared", "outside"),
    "file": scene("file", "outside"),
    "stacks_used": scene("stacks_used", "outside"),
    "growing": scene("growing", "growth"),
}
# Phrases of a first line. One that an answer has before all others is the fact that it names.
PHRASES = {
    "between": r"between (?:its )?(?:objects|allocations)|\bslabs\b|fragmentation",
    "free_pages": r"free pages",
    "outside": r"outside|shared memory|mapped|stacks?\b|not (?:of )?jemalloc|files?\b",
    "in_use": r"in use",
    "growth": r"grows|growing|grew|rose by",
    "padding": r"behind large",
    "sampling": r"cost of sampling",
}
DOES_NOT_GROW = re.compile(r"(?:did|does|has) not (?:grow|change)|no growth|not growing|steady")


# ---- one process ---------------------------------------------------------------------------


class Waste:
    """A process of tests/victims/waste.c."""

    def __init__(self, directory, words, conf):
        """conf: of jemalloc; None: the allocator of the C library."""
        preloaded = {} if conf is None else {"LD_PRELOAD": "libjemalloc.so.2", "MALLOC_CONF": conf}
        self.process = subprocess.Popen(
            [os.path.join(lib.VICTIMS, "waste"), *words],
            env=lib.tool_environment(preloaded),
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.pid = self.process.pid
        if self.process.stdout.readline() != b"ready\n":
            self.stop()
            raise AssertionError("it does not start")

    def truth(self):
        self.process.stdin.write(b"purge\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def stop(self):
        lib.end_process(self.process)


Told = collections.namedtuple("Told", "code json err")


def ask(*words):
    """Runs a verb with --json; json is {} if it printed none."""
    result = lib.run_tool(words[0], "--json", *words[1:])
    lines = [line for line in result.text.splitlines() if line.startswith("{")]
    try:
        return Told(result.code, json.loads(lines[0]) if lines else {}, result.err)
    except ValueError:
        return Told(result.code, {}, "not JSON: " + result.text[:200])


def find_parts(told):
    """The object of a verb's JSON that has the parts of the RSS, wherever it is."""
    if isinstance(told, list):
        told = dict(enumerate(told))
    if not isinstance(told, dict):
        return None
    if "in_use" in told and "slabs" in told:
        return told
    return next((found for found in map(find_parts, told.values()) if found), None)


def parts_of(told):
    """The parts, with rss and absent."""
    parts = find_parts(told)
    if parts is None:
        return None
    return {name: parts.get(name, told.get(name)) for name in PARTS + ("absent", "rss")}


def first_line(told):
    return told.get("answer") or told.get("verdict") or ""


# ---- what is checked -----------------------------------------------------------------------

# Each yields (word, check, why).


def check_parts(verb, told):
    """The parts add up to the RSS, and none is negative or more than the whole."""
    parts = parts_of(told.json)
    if parts is None:
        yield UNCLEAR, verb + " parts", "none"
        return
    known = {name: parts[name] for name in PARTS if parts[name] is not None}
    rss, absent = parts["rss"], parts["absent"] or 0
    outside = [name for name, n in known.items() if not 0 <= n <= (rss or 0)]
    if rss is None:
        yield UNCLEAR, verb + " parts", "no rss"
    elif outside or absent < 0:
        yield WRONG, verb + " parts", "not of the whole: %s" % ", ".join(outside)
    elif sum(known.values()) != rss:
        yield WRONG, verb + " parts", "sum %d, RSS %d" % (sum(known.values()), rss)
    else:
        yield RIGHT, verb + " parts", ""


def near(a, b, tolerance):
    return a is not None and abs(a - b) <= tolerance


def check_figures(verb, told, truth):
    """The parts are what of it is in memory of what the process itself counts."""
    parts = parts_of(told.json)
    if parts is None:
        return
    wanted = {
        "in_use": truth["in_use"],
        "sampling": truth["allocated"] - truth["in_use"],
        "slabs": truth["active"] - truth["allocated"],
        "free_pages": truth["dirty"],
        "own_data": truth["resident"] - truth["active"] - truth["dirty"],
    }
    parts["slabs"] += parts["padding"] or 0
    told_all = sum(parts[name] or 0 for name in wanted) + parts["absent"]
    if not near(told_all, sum(wanted.values()), OWN):
        yield WRONG, verb + " counts", "%d KiB, are %d" % (
            told_all / KIB, sum(wanted.values()) / KIB)
    for name, n in wanted.items():
        if parts[name] is None:
            yield UNCLEAR, "%s %s" % (verb, name), "not known"
        elif near(parts[name], n, OWN) or n - parts["absent"] - OWN < parts[name] < n:
            yield RIGHT, "%s %s" % (verb, name), ""
        else:
            yield WRONG, "%s %s" % (verb, name), "%d KiB, is %d" % (parts[name] / KIB, n / KIB)


def check_agreement(answers):
    """All verbs show the same figures."""
    found = {verb: parts_of(told.json) for verb, told in answers.items()}
    found = {verb: parts for verb, parts in found.items() if parts}
    first = next(iter(found), None)
    for verb, parts in found.items():
        if verb == first:
            continue
        differing = ["%s %s and %s" % (name, found[first][name], parts[name])
                     for name in PARTS + ("absent",)
                     if not near(found[first][name] or 0, parts[name] or 0, MOMENT)]
        word = WRONG if differing else RIGHT
        yield word, "%s = %s" % (first, verb), "; ".join(differing)


def check_touched(verb, told):
    """Nothing is called, and nothing is held."""
    touched = ["%s %s" % (name, told.json[name]) for name in
               ("calls", "held_ns", "holds", "longest_held_ns", "stops") if told.json.get(name)]
    if touched or "stopped for" in told.err:
        yield WRONG, verb + " touches nothing", ", ".join(touched) or told.err.splitlines()[-1]
    else:
        yield RIGHT, verb + " touches nothing", ""


def check_headline(verb, told, fact):
    line = first_line(told.json)
    claims = DOES_NOT_GROW.sub("", line)
    places = {name: found.start() for name, phrase in PHRASES.items()
              for found in [re.search(phrase, claims)] if found}
    first = min(places, key=places.get, default=None)
    before = DOES_NOT_GROW.search(line)
    if first == fact and (fact in ("in_use", "growth") or not before
                          or before.start() > line.index(re.search(PHRASES[fact], line)[0])):
        yield RIGHT, verb + " headline", ""
    elif fact == "in_use" and not places:
        yield RIGHT, verb + " headline", "nothing to say"
    elif "growth" in places and fact != "growth" or first in ("padding", "sampling") or (
            first in ("between", "free_pages") and verb != "core"):
        yield WRONG, verb + " headline", line
    else:
        yield UNCLEAR, verb + " headline", line


def fact_of(scene_, truth):
    """Of free pages only those count that are in memory: that is what a purge returns."""
    if scene_.fact != "larger":
        return scene_.fact
    return "between" if truth["free_in_slabs"] > truth["returned"] else "free_pages"


def check_promise(verb, told, truth):
    """No more is said to be returned by a purge than is returned."""
    line = first_line(told.json)
    if not re.search(r"purge|free pages", line):
        return
    known = [n for n in truth.values() if isinstance(n, int)]
    promised = [n for n in amounts_of(line) if near(n, truth["dirty"], MIB)
                and not any(near(n, other, MIB) for other in known if other != truth["dirty"])]
    too_much = promised and truth["dirty"] > truth["returned"] * 1.1 + MIB
    yield WRONG if too_much else RIGHT, verb + " promise", "%s; returned: %.1f MiB" % (
        line, truth["returned"] / MIB)


def check_amount(verb, told, truth, fact):
    """The amount of the fact is in the first line, with three digits."""
    n = {"between": truth.get("free_in_slabs"), "free_pages": truth.get("returned"),
         "outside": truth["outside"] or None}.get(fact)
    if n is None:
        return
    amounts = list(amounts_of(first_line(told.json)))
    if any(near(amount, n, n / 10 + MIB) or fact == "outside" and n <= amount < n * 1.15
           for amount in amounts):
        yield RIGHT, verb + " amount", ""
    else:
        named = re.search(PHRASES[fact], first_line(told.json))
        yield WRONG if named else UNCLEAR, verb + " amount", "%.1f MiB is not in: %s" % (n / MIB, first_line(told.json))


def amounts_of(line):
    """The sizes of a line in bytes; the number of "71.9 of 114 MiB" has the unit of the other."""
    for number, unit in re.findall(r"([\d.]+)(?: of (?:its |the )?[\d.]+)? ([KMG])iB", line):
        yield float(number) * {"K": KIB, "M": MIB, "G": KIB * MIB}[unit]
    for number, unit in re.findall(r"([\d.]+) ([KMG])iB", line):
        yield float(number) * {"K": KIB, "M": MIB, "G": KIB * MIB}[unit]


def functions_of(row):
    return {call["function"] for call in row["stack"] or ()}


def check_rows(told, truth, scene_, sampled):
    """The waste has the function and the size classes that it is of, within the stated error."""
    rows = told.json.get("rows", [])
    total = sum(truth["classes"].get(str(size), 0) for size in scene_.sizes)
    mine = [row for row in rows if functions_of(row) & set(scene_.functions)]
    blamed = sorted({name for row in rows if row["bytes"] > total / 10 and row["stack"]
                     and row["size"] in scene_.sizes and row not in mine
                     for name in functions_of(row)})
    if blamed:
        yield WRONG, "frag rows", "blames %s" % ", ".join(blamed[:3])
    elif not rows or rows[0]["size"] not in scene_.sizes:
        yield WRONG, "frag rows", "first row: %s" % (rows and rows[0]["size"])
    elif not sampled:
        named = [row for row in rows if row["stack"]]
        yield (WRONG if named else RIGHT), "frag rows", "a stack without samples" if named else ""
    elif not functions_of(rows[0]) & set(scene_.functions):
        yield UNCLEAR, "frag rows", "first row names nobody"
    else:
        n = sum(row["bytes"] for row in mine)
        most = sum(row.get("most", row["bytes"]) for row in mine)
        error = 2 * sum(row["error"] ** 2 for row in mine) ** 0.5 + total / 50
        if n < total / 2:
            yield UNCLEAR, "frag rows", "%d of %d KiB are named" % (n / KIB, total / KIB)
        elif n - error > total or max(n, most) + error < total:
            yield WRONG, "frag rows", "%d +- %d KiB, is %d" % (n / KIB, error / KIB, total / KIB)
        else:
            yield RIGHT, "frag rows", ""
    for size in scene_.sizes:
        wanted = truth["classes"].get(str(size), 0)
        found = {row["class_bytes"] for row in rows if row["size"] == size}
        # jemalloc also counts what was never touched: the rest of the last slab of each thread.
        untouched = max(64 * KIB, wanted // 200)
        if wanted > total / 20 and (len(found) != 1 or not near(min(found), wanted, untouched)):
            yield WRONG, "frag class", "of %d bytes: %s, is %d" % (size, found, wanted)


def check_no_jemalloc(verb, told):
    """It names the verbs that answer, and both settings."""
    missing = [word for word in ("explain", "leak", "LD_PRELOAD", "MALLOC_CONF") if word not in told.err]
    if told.code != lib.NO_JEMALLOC:
        yield WRONG, verb + " refuses", "exit code %d" % told.code
    else:
        yield (UNCLEAR if missing else RIGHT), verb + " refuses", "without " + ", ".join(missing)


def check_core(told, live, truth, scene_):
    """A core file gives what the process gave, but for what only a live process has."""
    if told.code != lib.OK or not told.json:
        yield WRONG, "core", "exit code %d: %s" % (told.code, told.err.strip()[:200])
        return
    if scene_.fact != "growth":
        yield from check_headline("core", told, fact_of(scene_, truth) if "dirty" in truth else
                                  scene_.fact if scene_.fact == "outside" else "in_use")
    if "allocated" not in truth:
        return
    parts, before = parts_of(told.json), parts_of(live.json)
    if parts is None or before is None:
        yield UNCLEAR, "core parts", "none"
        return
    differing = ["%s %s, was %s" % (name, parts[name], before[name])
                 for name in ("in_use", "sampling", "slabs", "padding", "free_pages")
                 if not 0 <= (parts[name] or 0) - (before[name] or 0) <= before["absent"]]
    yield (WRONG if differing else RIGHT), "core parts", "; ".join(differing)


# ---- one run -------------------------------------------------------------------------------


def core_of(pid, directory):
    path = os.path.join(directory, "core")
    subprocess.run(["gcore", "-o", path, str(pid)], stdin=subprocess.DEVNULL, capture_output=True)
    return "%s.%d" % (path, pid)


def checks_of(scene_, sampled, answers, truth):
    explain = answers["explain"]
    for verb, told in answers.items():
        if verb == "core":
            yield from check_core(told, explain, truth, scene_)
        elif "allocated" not in truth and verb != "explain":
            yield from check_no_jemalloc(verb, told)
        elif told.code != lib.OK or not told.json:
            yield WRONG, verb, "exit code %d: %s" % (told.code, told.err.strip()[:200])
        else:
            yield from check_touched(verb, told)
    if explain.code != lib.OK:
        return
    if "allocated" not in truth:
        fact = scene_.fact if scene_.fact in ("outside", "growth") else "in_use"
        yield from check_headline("explain", explain, fact)
        return
    fact = fact_of(scene_, truth)
    yield from check_headline("explain", explain, fact)
    yield from check_amount("explain", explain, truth, fact)
    yield from check_promise("explain", explain, truth)
    yield from check_promise("frag", answers["frag"], truth)
    for verb in ("explain", "frag", "stats"):
        yield from check_parts(verb, answers[verb])
        yield from check_figures(verb, answers[verb], truth)
    if not set(scene_.words) & {"growing", "noise", "noise=1"}:  # the RSS of others is that of a moment
        yield from check_agreement({verb: answers[verb] for verb in ("explain", "frag", "stats")})
    if scene_.sizes:
        yield from check_rows(answers["frag"], truth, scene_, sampled)
    if fact in ("between", "free_pages"):
        yield from check_headline("frag", answers["frag"], fact)
        yield from check_amount("frag", answers["frag"], truth, fact)


def run_scene(name, way, cores=True, more=()):
    """Returns the truth, what the verbs printed, and the checks. more: words for waste.c."""
    scene_, conf = SCENES[name], WAYS[way]
    with tempfile.TemporaryDirectory(prefix="jeattach-test.") as directory:
        conf = None if conf is None else ",".join(filter(None, (conf, scene_.conf)))
        waste = Waste(directory, scene_.words + list(more), conf)
        try:
            answers = {"explain": ask("explain", waste.pid),
                       "frag": ask("frag", "--rows", "0", waste.pid),
                       "stats": ask("stats", waste.pid)}
            if cores and shutil.which("gcore"):
                answers["core"] = ask("explain", "--core", core_of(waste.pid, directory))
            truth = waste.truth()
        finally:
            waste.stop()
    checks = list(checks_of(scene_, way.startswith("lg"), answers, truth))
    return dict(scene=name, way=way, truth=truth, checks=checks,
                answers={verb: told._asdict() for verb, told in answers.items()})


# ---- the table -----------------------------------------------------------------------------


def print_row(row, as_json):
    if as_json:
        print(json.dumps(row), flush=True)
        return
    counts = collections.Counter(word for word, _, _ in row["checks"])
    print("%-12s %-9s %3d right %3d unclear %3d wrong" % (
        row["scene"], row["way"], counts[RIGHT], counts[UNCLEAR], counts[WRONG]))
    for word, check, why in row["checks"]:
        if word != RIGHT:
            print("    %-8s %-18s %s" % (word, check, why), flush=True)


def print_table(rows):
    """By check: how often it was right, unclear and wrong."""
    counts = collections.defaultdict(collections.Counter)
    for row in rows:
        for word, check, _ in row["checks"]:
            counts[check][word] += 1
    print("\n%-24s %6s %8s %6s" % ("check", RIGHT, UNCLEAR, WRONG))
    for check, of in counts.items():
        print("%-24s %6d %8d %6d" % (check, of[RIGHT], of[UNCLEAR], of[WRONG]))
    total = sum(counts.values(), collections.Counter())
    print("%-24s %6d %8d %6d" % ("all", total[RIGHT], total[UNCLEAR], total[WRONG]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scenes", default="")
    parser.add_argument("--ways", default="")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--no-cores", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    tasks = [(name, way) for name in SCENES if re.search(given.scenes, name)
             for way in WAYS if re.search(given.ways, way)]
    rows = []
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as pool:
        for row in pool.map(lambda task: run_scene(*task, not given.no_cores), tasks):
            rows.append(row)
            print_row(row, given.json)
    if not given.json:
        print_table(rows)
    sys.exit(any(word == WRONG for row in rows for word, _, _ in row["checks"]))


if __name__ == "__main__":
    main()
