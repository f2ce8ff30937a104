"""The table of truth: how often the first line of `leak` is right, of processes whose growth is known.

    leak_truth.py [--runs N] [--jobs N] [--seconds 10,20,30] [--modes cold,warm,noprof,glibc]
                  [--scenes REGEX] [--minutes M] [--log FILE]

Each scene is a command line of tests/victims/growth.c, which keeps a ledger of what each of its
functions has allocated and freed. Runs that are

  right    name what has grown by the ledger (where profiling is not enabled: the size of its
           objects), or say "nothing" where nothing has
  unclear  accuse nobody and are not wrong: too short, unsteady, a size without a stack, refused
  wrong    accuse a function that has not grown, claim growth where there is none, or say
           "nothing" with a bound below the growth

--log has one line of JSON for each run, with what the tool said.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

import lib

KIB, MIB = 1 << 10, 1 << 20
ROW = struct.Struct("<32sQQQ")
ROWS = 16
FUNCTIONS = ("cache_put leak_here load_table request table_grow buffer_append map_more share_more "
             "stack_use worker_leak quiet_leak message_new resize_here wave_here").split()
NAMED = re.compile(r"\b(%s)\b" % "|".join(FUNCTIONS))
# A stack that is said to have touched less than a quarter of the growth is not accused of it.
FEW = re.compile(r"\b(?:1?\d|2[0-4]) %[^,;]*")
BOUND = re.compile(r"growth below ([\d.]+) ([KMG]i|)B/s")
# Growth by less than this is not asked for, and may be denied or named.
LITTLE = 64 * KIB
PRELOADED = {"LD_PRELOAD": "libjemalloc.so.2"}
MODES = {
    "cold": dict(PRELOADED, MALLOC_CONF="prof:true,prof_active:false"),
    "warm": dict(PRELOADED, MALLOC_CONF="prof:true"),
    "noprof": PRELOADED,
    "glibc": {},
}

# T is the duration in seconds. Half and quarter of the rates of the churn: 2,000 KiB/s.
REQUESTS = "requests,size=16-4096,rate=1000"
OTHER = "leak,size=512,rate=%d"
SAME = "leak,size=1024,rate=%d"


def caches():
    for kind in ("fifo", "lru", "random"):
        for mb in (5, 50, 200):
            cache = "%s,mb=%d" % (kind, mb)
            name = "%s%d" % (kind, mb)
            yield name, [cache, REQUESTS]
            for part in (10, 100):
                yield "%s+other/%d" % (name, part), [cache, REQUESTS, OTHER % (4000 / part)]
                yield "%s+same/%d" % (name, part), [cache, REQUESTS, SAME % (2000 / part)]


SCENES = dict(caches())
SCENES.update({
    "idle": ["requests,rate=0"],
    "requests": [REQUESTS],
    "leak": ["leak,size=512,rate=800", REQUESTS],
    "issue": ["fifo,mb=200", "leak,size=512,rate=800", REQUESTS],
    "apart": ["fifo,mb=50,apart=1", REQUESTS],
    "apart+same/10": ["fifo,mb=50,apart=1", REQUESTS, SAME % 200],
    "apart+other/10": ["fifo,mb=50,apart=1", REQUESTS, OTHER % 400],
    "sizes": ["random,mb=50,size=64-4096", REQUESTS],
    "sizes+leak": ["random,mb=50,size=64-4096", REQUESTS, "leak,size=64-4096,rate=400"],
    "fifo50x12": ["fifo,mb=50,threads=12", REQUESTS],
    "fifo50x12+leak": ["fifo,mb=50,threads=12", REQUESTS, "leak,size=512,rate=800"],
    "large": ["fifo,mb=100,size=40000,rate=50", REQUESTS],
    "large+leak": ["fifo,mb=100,size=40000,rate=50", REQUESTS, "leak,size=20000,rate=20"],
    "table": ["table,mb=4,size=1024,rate={4 * 2048 / T}", REQUESTS],
    "once": ["load,size=20971520,count=1,after={T / 2}", REQUESTS],
    "once pieces": ["load,count=20480,rate=1e6,after={T / 2}", REQUESTS],
    "stops": ["leak,size=512,rate=800,until={T * 0.4}", REQUESTS],
    "buffers": ["buffers,size=256,rate=2000", REQUESTS],
    "map": ["map,size=65536,rate=8", REQUESTS],
    "map+fifo50": ["map,size=65536,rate=8", "fifo,mb=50", REQUESTS],
    "shared": ["shared,size=65536,rate=8", REQUESTS],
    "stacks": ["stacks,size=262144,rate=2", REQUESTS],
    "mortal": ["mortal,rate=4", REQUESTS],
    "quiet": ["quiet,rate=400", REQUESTS],
    "quiet+fifo5": ["quiet,rate=400", "fifo,mb=5", REQUESTS],
    "quiet+fifo50": ["quiet,rate=400", "fifo,mb=50", REQUESTS],
    "hand": ["hand,mb=20", REQUESTS],
    "hand+leak": ["hand,mb=20", REQUESTS, "leak,size=512,rate=800"],
    "hand+fifo50+leak": ["hand,mb=20", "fifo,mb=50", REQUESTS, SAME % 400],
    "two leaks": ["leak,size=512,rate=800", "mortal,rate=4", "fifo,mb=50", REQUESTS],
    "fast": ["fifo,mb=100,rate=20000", "random,mb=20,rate=10000,size=100-2000", REQUESTS],
    "fast+leak": ["fifo,mb=100,rate=20000", REQUESTS, SAME % 400],
    "drain": ["drain,mb=100,rate=1000", REQUESTS],
    "drain+other": ["drain,mb=100,rate=1000", REQUESTS, OTHER % 800],
    "drain+same": ["drain,mb=100,rate=400", REQUESTS, SAME % 400],
    "drift": ["drift,mb=50", REQUESTS],
    "wave": ["wave,mb=32", REQUESTS],
    "wave+leak": ["wave,mb=32", REQUESTS, "leak,size=512,rate=800"],
    "child": [REQUESTS, "fork", "leak,size=512,rate=800", REQUESTS],
    "parent": [REQUESTS, "fork", "leak,size=512,rate=800", REQUESTS],
    "killed": ["leak,size=512,rate=800", REQUESTS],
})


def fill_in(actor, seconds):
    """Replaces {expressions} of T."""
    return re.sub(r"\{([^}]*)\}", lambda found: str(eval(found[1], {"T": seconds})), actor)


def memory_of(actors):
    """The bytes that a scene may need."""
    sizes = [int(mb) for actor in actors for mb in re.findall(r"mb=(\d+)", actor)]
    return (30 + sum(sizes) * 1.5) * MIB


class Growth:
    """A process of tests/victims/growth.c."""

    def __init__(self, directory, actors, mode="glibc", conf=None):
        self.path = os.path.join(directory, "ledger")
        environment = dict(MODES[mode], **({"MALLOC_CONF": conf} if conf else {}))
        self.process = subprocess.Popen(
            [os.path.join(lib.VICTIMS, "growth"), self.path, *actors],
            env=lib.tool_environment(environment),
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.pid = self.process.pid
        if self.process.stdout.readline() != b"ready\n":
            self.stop()
            raise AssertionError("it does not start")

    def rows(self):
        data = lib.read_bytes(self.path)
        for i in range(ROWS):
            name, pid, allocated, freed = ROW.unpack_from(data, ROW.size * i)
            if name[0]:
                yield name.split(b"\0")[0].decode(), pid, allocated - freed

    def child(self):
        return next(pid for _, pid, _ in self.rows() if pid != self.pid)

    def live(self, pid=None):
        """The bytes that each function has allocated and not freed."""
        found = collections.Counter()
        for name, owner, live in self.rows():
            if owner == (pid or self.pid):
                found[name] += live
        return found

    def stop(self):
        lib.end_process(self.process)


def rss(pid):
    try:
        return int(lib.read_text("/proc/%d/statm" % pid).split()[1]) * os.sysconf("SC_PAGESIZE")
    except OSError:
        return 0


# ---- the truth of a window -----------------------------------------------------------------


def growths(looks, seconds):
    """For each function, the least and the most that it grew by in a window of that length: it is
    not known when exactly the tool took its first look. RSS has the name "rss"."""
    found = {}
    last = looks[-1][0]
    for name in {name for _, live in looks for name in live}:
        grown = []
        for start, live in looks:
            if start + seconds > last and grown:
                break
            end = min(looks, key=lambda look: abs(look[0] - start - seconds))[1]
            grown.append(end[name] - live[name])
        found[name] = (min(grown), max(grown))
    return found


Judgement = collections.namedtuple("Judgement", "word why")
# Words of verdicts; those of releases that had samples alone, too.
ACCUSES = ("grows", "once", "growing", "stopped")
SHRUGS = ("unsteady", "too_short", "cannot_tell", None)


def bound_of(told):
    """The bytes that may have grown unseen where nothing grows; None if none is told."""
    told_rate = BOUND.search(told.get("answer", ""))
    if told.get("unseen") is None and told_rate:
        scale = {"": 1, "Ki": KIB, "Mi": MIB, "Gi": KIB * MIB}[told_rate[2]]
        seconds = (told.get("faults") or told).get("sampled_ns", 0) / 1e9
        return float(told_rate[1]) * scale * seconds
    return told.get("unseen")


def judge_named(named, grown, denied, one_of):
    if not one_of:
        innocent = [name for name in named if name in denied]
        if innocent:
            return Judgement("wrong", "accuses %s" % ", ".join(innocent))
    elif named and not [name for name in named if name not in denied]:
        return Judgement("wrong", "one of %s, none of which grows" % ", ".join(named))
    if not grown:
        return Judgement("wrong", "claims growth, there is none")
    most = max(grown, key=grown.get)
    if any(2 * grown.get(name, 0) >= grown[most] for name in named):
        return Judgement("right", "one of several" if one_of else "")
    return Judgement("unclear", "does not name %s" % most)


def knows_the_size(told, grown):
    """Without samples the size of the objects is the answer, and by how much they grow."""
    parts = told.get("parts")
    known = parts and parts[0]["kind"] == "objects" and "rows" not in told
    return bool(known and grown) and abs(parts[0]["bytes"] - max(grown.values())) < LITTLE + max(
        grown.values()) / 4


def is_of_pages(told):
    """True if the first line is about resident pages: those grow also where objects do not, and
    "one of" tells who touched them first, which is no accusation."""
    parts = told.get("parts")
    return bool(parts) and parts[0]["kind"] != "objects"


def judge(told, truth):
    """told: the JSON of leak; truth: of growths.

    Where a stack without a sample may be it, candidates are not accused; who has touched pages
    with objects first is not either (first_touch)."""
    grown = {name: most for name, (least, most) in truth.items() if name != "rss" and least >= LITTLE}
    # Growth between the two may be named or not.
    some = {name: most for name, (_, most) in truth.items() if name != "rss" and most >= LITTLE}
    denied = {name for name in FUNCTIONS if name not in some}
    verdict, answer = told.get("verdict"), told.get("answer", "")
    if told.get("ended") and told["parts"]:  # it is not judged, but what was seen until then is told
        verdict = told["parts"][0]["verdict"]
    accusing = answer if is_of_pages(told) else answer.partition("; first touched by: ")[0]
    named = list(dict.fromkeys(NAMED.findall(FEW.sub("", accusing))))
    if verdict in SHRUGS:
        return Judgement("unclear", verdict or "refused")
    if verdict in ACCUSES or verdict == "one_of":
        if not named and knows_the_size(told, grown):
            return Judgement("right", "its size")
        judgement = judge_named(named, grown or some, denied, verdict == "one_of")
        if judgement.word == "wrong" and is_of_pages(told) and truth["rss"][1] >= LITTLE and (
                verdict == "one_of" or not named):
            return Judgement("unclear", judgement.why)
        if verdict == "one_of" and some and told.get("parts", [{}])[0].get("or_unseen"):
            return Judgement(min(judgement.word, "unclear"), judgement.why)
        return judgement
    if not grown:
        return Judgement("right", "")
    if ", but +" in answer:  # that grow while more of others is freed
        return Judgement("unclear", "nothing, but for a size")
    # What is freed at the same time may hide growth in objects of the same size.
    freed = sum(min(0, least) for name, (least, _) in truth.items() if name != "rss")
    bound, growth = bound_of(told), sum(truth[name][0] for name in grown) + freed
    if told.get("evidence") == "rss":  # what takes free memory is not said to be seen
        growth = min(growth, truth["rss"][0])
    if bound is not None and bound >= growth:
        return Judgement("unclear", "nothing, but for %d KiB" % (bound / KIB))
    return Judgement("wrong", "says nothing, %s" % ", ".join(
        "%s grew by %d KiB" % (name, most / KIB) for name, most in grown.items()))


def first_touch(told, truth):
    """Of objects that grow: whether who is said to have touched most of them first has grown,
    by half of what has grown most or more; None: nobody is said to."""
    said = told.get("answer", "").partition("; first touched by: ")[2]
    named = NAMED.findall(said)
    grown = {name: least for name, (least, _) in truth.items() if name != "rss"}
    if not named or is_of_pages(told):
        return None
    return 2 * grown.get(named[0], 0) >= max(grown.values())


def misjudged_amounts(told, truth):
    """The intervals of samples that do not have the truth in them."""
    for part in told.get("parts", ()):
        for stack in part["stacks"]:
            names = [call["function"] for call in stack["stack"] if call["function"] in FUNCTIONS]
            if stack["evidence"] == "samples" and names and names[0] in truth:
                least, most = truth[names[0]]
                if stack["low"] > most + LITTLE or (stack["high"] or most) < least - LITTLE:
                    yield "%s: %d to %d KiB, is %d" % (
                        names[0], stack["low"] / KIB, (stack["high"] or 0) / KIB, most / KIB)


# ---- one run -------------------------------------------------------------------------------


def look(growth, pid):
    live = growth.live(pid)
    live["rss"] = rss(pid)
    return time.monotonic(), live


def run_tool_beside(growth, pid, seconds, words=(), kill_after=None):
    """Returns what the tool said, its exit code, its stderr, and the looks meanwhile."""
    argv = [lib.TOOL, "leak", "--json", "-d", "%gs" % seconds, *words, str(pid)]
    looks = [look(growth, pid)]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        tool = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                env=lib.tool_environment())
        started = time.monotonic()
        while tool.poll() is None:
            time.sleep(0.1)
            looks.append(look(growth, pid))
            if kill_after and time.monotonic() > started + kill_after:
                growth.process.send_signal(signal.SIGKILL)
                kill_after = None
            if time.monotonic() > started + seconds + lib.TOOL_TIMEOUT:
                tool.kill()
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    lines = [line for line in texts[0].splitlines() if line.startswith("{")]
    told = json.loads(lines[0]) if lines else {}
    return told, tool.returncode, texts[1], looks


def run_scene(scene, mode, seconds):
    """Returns a row of the log."""
    with tempfile.TemporaryDirectory(prefix="jeattach-test.") as directory:
        growth = Growth(directory, [fill_in(actor, seconds) for actor in SCENES[scene]], mode)
        try:
            pid = growth.child() if scene == "child" else growth.pid
            kill_after = seconds * 0.6 if scene == "killed" else None
            told, code, err, looks = run_tool_beside(growth, pid, seconds, (), kill_after)
        finally:
            growth.stop()
    truth = growths(looks, min(kill_after or seconds, told.get("sampled_ns", seconds * 1e9) / 1e9))
    word, why = judge(told, truth)
    if code not in (lib.OK, lib.PROFILING_OFF, lib.NO_JEMALLOC) and not (kill_after and code == lib.GONE):
        word, why = "wrong", "exit code %s" % code
    elif kill_after and "answer" not in told:
        word, why = "wrong", "nothing is left"
    return dict(scene=scene, mode=mode, seconds=seconds, word=word, why=why, truth=truth, code=code,
                first_touch=first_touch(told, truth),
                amounts=list(misjudged_amounts(told, truth)), told=told, err=err)


# ---- the table -----------------------------------------------------------------------------


class Memory:
    """Runs wait until there is memory for them."""

    def __init__(self, most):
        self.left, self.changed = most, threading.Condition()

    def __call__(self, work, actors, *words):
        need = memory_of(actors)
        with self.changed:
            self.changed.wait_for(lambda: self.left >= need)
            self.left -= need
        try:
            return work(*words)
        finally:
            with self.changed:
                self.left += need
                self.changed.notify_all()


WORDS = ("right", "unclear", "wrong")


def print_table(rows):
    """By scene; a column for each mode and duration, with right/unclear/wrong."""
    columns = list(dict.fromkeys((row["mode"], row["seconds"]) for row in rows))
    columns.sort(key=lambda column: (list(MODES).index(column[0]), column[1]))
    cells = collections.defaultdict(collections.Counter)
    for row in rows:
        cells[row["scene"], row["mode"], row["seconds"]][row["word"]] += 1
    print("%-18s" % "scene" + "".join("%14s" % ("%s %g s" % column) for column in columns))
    for scene in [name for name in SCENES if any(row["scene"] == name for row in rows)]:
        texts = []
        for column in columns:
            counts = cells[(scene, *column)]
            texts.append("/".join(str(counts[word]) for word in WORDS) if counts else "")
        print("%-18s" % scene + "".join("%14s" % text for text in texts))
    total = collections.Counter(row["word"] for row in rows)
    print("all: " + ", ".join("%d %s" % (total[word], word) for word in WORDS))
    touched = collections.Counter(row["first_touch"] for row in rows)
    print("first touch: names what grows most in %d runs, another in %d" % (
        touched[True], touched[False]))
    wide = sum(bool(row["amounts"]) for row in rows)
    print("runs with an interval of a stack that misses the truth: %d" % wide, flush=True)


def evaluate(tasks, jobs, log=None, memory=2200 * MIB, until=None):
    """Runs (scene, mode, seconds) of tasks; returns the rows."""
    rows, limit = [], Memory(memory)

    def run(scene, mode, seconds):
        if until and time.monotonic() > until:
            return
        row = limit(run_scene, SCENES[scene], scene, mode, seconds)
        rows.append(row)
        if log:
            log.write(json.dumps(row) + "\n")
            log.flush()
        if row["word"] == "wrong":
            print("wrong: %(scene)s, %(mode)s, %(seconds)g s: %(why)s" % row,
                  "|", row["told"].get("answer", row["err"]), flush=True)

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for future in [pool.submit(run, *task) for task in tasks]:
            future.result()
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--seconds", default="10,20,30")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--scenes", default="")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--log")
    given = parser.parse_args()
    tasks = [(scene, mode, float(seconds)) for _ in range(given.runs)
             for scene in SCENES if re.search(given.scenes, scene)
             for mode in given.modes.split(",") for seconds in given.seconds.split(",")]
    random.shuffle(tasks)
    until = given.minutes and time.monotonic() + 60 * given.minutes
    log = open(given.log, "a") if given.log else None
    rows = evaluate(tasks, given.jobs, log, until=until)
    print_table(rows)
    sys.exit(any(row["word"] == "wrong" for row in rows))


if __name__ == "__main__":
    main()
