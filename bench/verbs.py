"""The cost of each verb for a running process: for how long a thread is stopped, beside the same
calls made in the process, and the time of the whole command."""

import json
import os
import re
import shutil
import sys
import unittest
from dataclasses import dataclass, replace

from harness import MS, Failure, Floor, Jeattach, Row, Slots, at_most, ratio, wait_for, window

CONF = "prof:true,prof_active:true,lg_prof_sample:16"
WINDOW = 0.04

# The calls of the tool, in its order: prof_read, build_read, hooks_check in jemalloc/.
STATE = ("version", "config.prof", "opt.prof", "prof.active", "prof.thread_active_init",
         "prof.lg_sample", "opt.prof_prefix", "config.stats", "config.malloc_conf")
BUILD = ("version", "config.prof", "opt.prof", "config.stats",
         "arenas.nbins", "arenas.nlextents", "arenas.nlruns", "arenas.nhchunks")
# For the automatic arenas, or for all: `expanded` makes one word for each arena.
HOOKS = ("arenas.narenas", "opt.narenas", "arena.0.extent_hooks", "arena.0.chunk_hooks")
AUTOMATIC, ALL = "arena.AUTOMATIC.", "arena.ALL."
RESIDENT = ("epoch=q1", "stats.resident")
ABSENT = "opt.absent"
COUNTERS = ("thread.allocatedp", "thread.deallocatedp")  # only 5.2: activation_learn


@dataclass
class Verb:
    """A command, and the same calls in the process. If they change the process, `before` has the
    lines for floor.so that restore it, sent before each of the two."""

    name: str
    calls: tuple = None  # words for `calls` of floor.so
    report: str = None   # or options of malloc_stats_print
    before: tuple = ()
    json: bool = True    # --json has held_ns; else the closing line is parsed
    visits: bool = False  # stops more than one thread, so --thread is not given

    def argv(self, pid, heap):
        verb, *options = self.name.split()
        words = [verb, pid, *options] + ([heap] if "-o" in options else [])
        return words + (["--json"] if self.json else [])

    def line(self, heap):
        if self.report:
            return f"print {self.report}"
        return " ".join(["calls", *self.calls]).replace("HEAP", heap)


ON = Verb("on --call", STATE + ("prof.active=b1", "prof.active"), before=("calls prof.active=b0",))
OFF = Verb("off --call", STATE + ("prof.active=b0", "prof.active"), before=("calls prof.active=b1",))
# With 5.2, threads that allocated while profiling was off need more calls.
ON_ASLEEP = Verb("on --call", ON.calls + COUNTERS, before=ON.before + ("fill",), visits=True)
REPORTS = (Verb("stats --full --json", report="J", json=False),
           Verb("stats --full", report="-", json=False))
LIST = "mallctl --list"  # its calls are taken from its answer
VERBS = (
    Verb("status", STATE), OFF, ON,
    Verb("mallctl stats.allocated", BUILD + ("epoch=q1", "stats.allocated")), Verb(LIST),
    *REPORTS,
    Verb("mallctl prof.reset", BUILD + HOOKS + (AUTOMATIC + "extent_hooks", "prof.reset!"),
         before=("fill",)),
    Verb("purge", HOOKS + (ALL + "extent_hooks",) + RESIDENT + (ALL + "purge!",) + RESIDENT,
         before=("fill",)),
    Verb("dump --call --force -o", STATE + ("experimental.hooks.prof_dump",) + HOOKS +
         (AUTOMATIC + "extent_hooks", "prof.dump=sHEAP"), before=("fill",)),
)

# All verbs are measured with the machine's jemalloc; with these releases, those that differ most.
OTHERS = {"5.2.1": (ON_ASLEEP, *REPORTS), "5.3.1": (ON, *REPORTS)}


def report_limit(version):
    """Returns the limit for the whole command `stats --full --json`, in ns and in words."""
    young = [int(part) for part in version.split(".")] >= [5, 3]
    return (20 * MS, "< 20 ms") if young else (1000 * MS, "< 1 s")


# ---- the processes ----


class Process:
    """A process with one thread that only reads the clock, and the thread of floor.so."""

    def __init__(self, bench, name, argv, preload):
        slots, floor = bench.path(f"slots-{name}"), bench.path(f"floor-{name}")
        self.child = bench.start([*argv, bench.helper("gaps"), slots, "0", "1"], conf=CONF,
                                 floor=floor, preload=preload)
        self.slots = Slots(slots, 1)
        wait_for("floor", lambda: os.path.exists(floor))
        self.floor, self.tool = Floor(floor), Jeattach(bench, self.child.pid)
        self.pid, self.heap = str(self.child.pid), bench.path(f"heap-{name}")
        self.thread = ["--thread", str(self.slots.tid(0))]
        self.floor.ask("fill")


def release_start(bench, version):
    """Starts a process with a release that tests/releases.py downloads. None, and a note, if that
    release is not available."""
    tests = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "tests")
    os.environ.setdefault("JEATTACH_VICTIMS",
                          os.path.join(os.path.dirname(bench.helpers), "tests", "victims"))
    sys.path.insert(1, tests)
    import releases  # pylint: disable=import-outside-toplevel
    try:
        argv, env = releases.command(version, [])
    except (unittest.SkipTest, OSError) as reason:
        bench.notes.append(f"jemalloc {version} is not measured: {reason}")
        return None
    return Process(bench, version, argv, env.get("LD_PRELOAD"))


# ---- the measures ----


def measure_verbs(bench, counts, series):
    process = Process(bench, "own", [], True)
    version = version_of(process)
    measure_process(bench, process, version, VERBS, counts["verbs"], series)
    for version, verbs in {key: OTHERS[key] for key in OTHERS if key != version}.items():
        process = release_start(bench, version)
        if process:
            measure_process(bench, process, version, verbs, counts["verbs"], series)


def version_of(process):
    _, answer = process.tool.answer("mallctl", "version")
    if not answer:
        raise Failure("cannot read the version of the machine's jemalloc")
    return answer["version"].split("-")[0]


def expanded(calls, arenas):
    """Replaces each word for all arenas, or for the automatic ones, by one for each arena."""
    words = []
    for word in calls:
        kind = next((kind for kind in arenas if word.startswith(kind)), None)
        words += [word.replace(kind, f"arena.{i}.") for i in range(arenas[kind])] if kind else [word]
    return tuple(words)


def arenas_learn(process):
    _, answer = process.tool.answer("mallctl", "arenas.narenas", "opt.narenas", *process.thread)
    values = answer["values"]
    return {ALL: values["arenas.narenas"], AUTOMATIC: values["opt.narenas"]}


def measure_process(bench, process, version, verbs, rounds, series):
    arenas = arenas_learn(process)
    verbs = [replace(verb, calls=calls_learn(process)) if verb.name == LIST else
             replace(verb, calls=expanded(verb.calls, arenas)) if verb.calls else verb
             for verb in verbs]
    for verb in verbs:
        verb_measure(bench, process, verb)  # the first call of a kind also fills caches
    for letter, words in (("J", ("--full", "--json")), ("-", ("--full",))):
        report_compare(bench, process, letter, *words)
    for _ in range(rounds):
        with window(process.slots, WINDOW):
            pass
        series[f"{version}: baseline"].add(process.slots.longest([0]))
        series["true"].add(bench.run([shutil.which("true")]).wall_ns)
        for verb in verbs:
            for kind, ns in verb_measure(bench, process, verb).items():
                series[f"{version}, {verb.name}: {kind}"].add(ns)
    bench.stop(process.child)


def calls_learn(process):
    """Returns the names that --list printed, and one absent name for each that it tried and did not
    find."""
    _, answer = process.tool.answer("mallctl", "--list", *process.thread)
    if not answer:
        raise Failure("mallctl --list failed")
    calls = BUILD + tuple(answer["values"])
    return calls + (ABSENT,) * (answer["calls"] - len(calls))


def verb_measure(bench, process, verb):
    """Measures the calls in the process, then with the tool. Empty if the tool failed."""
    for line in verb.before:
        process.floor.ask(line)
    floor = process.floor.ask(verb.line(process.heap))
    for line in verb.before:
        process.floor.ask(line)
    argv = [bench.tool, *verb.argv(process.pid, process.heap),
            *([] if verb.visits else process.thread)]
    with window(process.slots, WINDOW):
        run = bench.run(argv)
    held = held_ns(bench, verb, run)
    if held is None:
        return {}
    return {"floor": floor, "held": held, "gap": process.slots.longest([0]), "wall": run.wall_ns}


CLOSING = re.compile(r"^jeattach: .* stopped for ([\d.]+) (ms|s), (\d+) calls?, .*$", re.M)


def held_ns(bench, verb, run):
    """Returns for how long a thread was stopped. None if the command failed, or did not make the
    same number of calls as the process."""
    found = CLOSING.search(run.err)
    if run.code == 0 and not found and verb.name == "status":
        return 0  # all was read from memory: no thread was stopped
    if run.code != 0 or not found:
        bench.fail(run)
        return None
    if verb.calls and int(found[3]) != len(verb.calls):
        bench.fail(run, f"did not make the {len(verb.calls)} calls that were made in the process")
        return None
    if not verb.json:
        return round(float(found[1]) * (MS if found[2] == "ms" else 1000 * MS))
    answer = json.loads(run.out)
    return max(answer["held_ns"], answer.get("threads_longest_held_ns", 0))


def report_compare(bench, process, letter, *words):
    """Checks that the tool's report equals the process's own, except for numbers that differ
    between two reports of the process itself."""
    before = report_own(process, letter)
    run = process.tool.call("stats", *words, *process.thread)
    if not run:
        return
    rows = [re.findall(r"\d+|\D+", text) for text in (before, run.out,
                                                      report_own(process, letter))]
    settled = [(own, tool) for own, tool, later in zip(*rows) if own == later]
    if len({len(row) for row in rows}) != 1 or any(own != tool for own, tool in settled):
        bench.fail(run, "is not equal to the process's own report")


def report_own(process, letter):
    process.floor.ask(f"print {letter} {process.heap}")
    with open(process.heap, encoding="utf-8") as file:
        return file.read()


# ---- the table ----

BLOCKS = (("stopped, median", "held", 50), ("stopped, p90", "held", 90),
          ("gap of the stopped thread, median", "gap", 50),
          ("whole command, median", "wall", 50), ("whole command, p90", "wall", 90))


def rows_verbs(series):
    names = [key.removesuffix(": held") for key in series if key.endswith(": held")]
    for words, kind, share in BLOCKS:
        for name in names:
            make = row_whole if kind == "wall" else row_held
            yield make(series, name, words, kind, share)


def row_held(series, name, words, kind, share):
    floor, tool = (series[f"{name}: {key}"].rank(share) for key in ("floor", kind))
    idle = series[f"{name.split(', ')[0]}: baseline"].rank(share) if kind == "gap" else None
    return Row(f"{name}, {words}", floor=floor, baseline=idle, jeattach=tool,
               ratio=ratio(tool, floor))


def row_whole(series, name, words, kind, share):
    tool, true = series[f"{name}: {kind}"].rank(share), series["true"].rank(share)
    row = Row(f"{name}, {words}", baseline=true, jeattach=tool)
    if name.endswith("stats --full --json") and share == 50:
        limit, row.target = report_limit(name.split(", ")[0])
        row.ratio, row.reached = ratio(tool, limit), at_most(tool, limit)
    return row
