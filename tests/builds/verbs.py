"""One check for each verb, on a process whose jemalloc may be of any build.

What the tool prints is compared with what the process says of itself. A check raises Wrong with
what a user would see wrong, or Refused if the tool refuses in the documented way something that it
may refuse.
"""

import json
import os
import re

import lib
import processes
import size_classes

TIMEOUT = "10s"  # for an idle process
# Exit codes of a refusal: nothing is wrong with the process or with the command.
REFUSALS = (lib.NO_SAFE_MOMENT, lib.REFUSED)


class Wrong(Exception):
    """A user sees something wrong."""


class Refused(Exception):
    """The tool refuses, says why, and has touched nothing."""


def expect(condition, *what):
    if not condition:
        raise Wrong(" ".join(str(word) for word in what))


def equal(seen, wanted, what):
    expect(seen == wanted, "%s is %r, but it should be %r" % (what, seen, wanted))


class Verbs:
    """The checks of one process. State is what earlier checks have left."""

    def __init__(self, subject):
        self.subject = subject
        self.pid = subject.pid
        self.variant = subject.build.variant
        self.enabled = subject.conf != "off"

    def tool(self, *words, **options):
        result = lib.run_tool(*words, **options)
        expect(result.code is not None, "%s does not end" % words[0])
        expect("internal error" not in result.err, result.err)
        return result

    def run(self, verb, *words):
        """Returns the result of a run that must succeed."""
        result = self.tool(verb, "--timeout", TIMEOUT, self.pid, *words)
        expect(result.code == lib.OK, "exit code %s: %s" % (result.code, result.err.strip()))
        return result

    def may_refuse(self, verb, *words):
        result = self.tool(verb, "--timeout", TIMEOUT, self.pid, *words)
        if result.code in REFUSALS:
            self.check_message(result)
            raise Refused(result.err.strip().splitlines()[0])
        expect(result.code == lib.OK, "exit code %s: %s" % (result.code, result.err.strip()))
        return result

    def json(self, verb, *words):
        return json.loads(self.run(verb, "--json", *words).text)

    def check_message(self, result):
        """An error names what failed and why."""
        expect(re.search(r"^jeattach: \S", result.err), "no message:", result.err)
        expect(re.search(r"^  cause: \S", result.err, re.M), "no cause:", result.err)

    def failed(self, code, words, verb, *arguments):
        """The tool must fail with that code, for that reason, without output."""
        result = self.tool(verb, "--timeout", TIMEOUT, self.pid, *arguments)
        expect(result.code == code, "exit code %s, not %s: %s" % (result.code, code, result.err))
        expect(words in result.err, "the message does not say %r: %s" % (words, result.err))
        if "--json" not in arguments:
            expect(not result.out, "a failure has output: %r" % result.out[:100])

    def not_enabled(self, verb, *words):
        self.failed(lib.PROFILING_OFF, "opt.prof is false", verb, *words)

    def own_active(self):
        return self.subject.own()["prof"]["active"]

    def ensure(self, active):
        """Sets prof.active by the process itself."""
        if self.own_active() != active:
            self.subject.ask("active %d" % active)

    def arm(self):
        """Leaves samples in a process that samples."""
        if not self.own_active():
            self.run("on", "-q")
        self.subject.ask("work 1000")

    # ---- status, ps ----

    def check_status(self):
        for words in ((), ("--no-call",)):
            self.compare_status(self.json("status", *words), words)
        text = self.run("status").text
        expect(re.search(r"\A\S+: profiling (is|was) ", text), "no verdict:", text)
        return "ok"

    def compare_status(self, told, words):
        own = self.subject.own()
        equal(told["version"], own["version"], "version")
        equal(os.path.realpath(told["module"]), os.path.realpath(self.subject.module), "module")
        expect(told["config.prof"] in (own["config"]["prof"], None), "config.prof is false")
        equal(told["opt.prof"], own["opt"]["prof"], "opt.prof")
        equal(told["opt.prof_prefix"], own["opt"]["prof_prefix"], "opt.prof_prefix")
        if self.enabled:
            equal(told["prof.active"], own["prof"]["active"], "prof.active")
            equal(told["prof.lg_sample"], own["prof"]["lg_sample"], "prof.lg_sample")
            equal(told["prof.thread_active_init"], own["prof"]["thread_active_init"], "init")
        active = self.enabled and own["prof"]["active"]
        verdict = "active" if active else "inactive" if self.enabled else "disabled"
        if told["config.prof"] is not None or "--no-call" not in words:
            equal(told["verdict"], verdict, "verdict")
        equal(told["attach"]["possible"], True, "attach")
        if told["variable_known"] and not self.subject.renamed:
            equal(told["variable"], self.variant.prefix.upper() + "MALLOC_CONF", "variable")
            equal(told["variable_value"], processes.CONFS[self.subject.conf], "its value")

    def check_ps(self):
        listed = json.loads(self.tool("ps", "--json").text)["processes"]
        rows = [row for row in listed if row["pid"] == self.pid]
        equal(len(rows), 1, "rows of this process")
        own = self.subject.own()
        equal(rows[0]["version"], own["version"], "version")
        equal(rows[0]["opt.prof"], own["opt"]["prof"], "opt.prof")
        linkages = {"preload": ("preloaded",), "linked": ("shared",)}
        wanted = linkages.get(self.subject.link, ("static",))
        if self.subject.build.root:  # preloaded by an option of the loader
            wanted += ("shared",)
        expect(rows[0]["linkage"] in wanted, "linkage is", rows[0]["linkage"])

    # ---- on, off ----

    def check_on(self):
        if not self.enabled:
            for words in ((), ("--no-call",), ("--call",)):
                self.not_enabled("on", *words)
            return
        told = self.json("on")
        equal((told["old"], told["new"]), (False, True), "old and new value")
        self.all_sample("on")

    def all_sample(self, what):
        """Every thread that allocates does sample, as the process's own profile shows."""
        equal(self.own_active(), True, "prof.active")
        self.subject.ask("clear")
        self.subject.ask("work 1000")
        _, sampled = processes.stacks_of(self.subject.own_profile())
        expect(sampled >= processes.THREADS, "%s: %d of %d threads sample" % (
            what, sampled, processes.THREADS))

    def check_on_again(self):
        """Off, allocations, on: what it claims of the threads is true."""
        if not self.enabled:
            return
        self.ensure(True)
        self.run("off", "-q")
        self.subject.ask("work 3000")
        result = self.tool("on", "--timeout", TIMEOUT, self.pid)
        expect(result.code in (lib.OK, lib.NO_SAFE_MOMENT), "exit code", result.code, result.err)
        doubt = result.code != lib.OK or re.search(r"unknown for|do not sample|(\d+) of (?!\1)\d",
                                                   result.text + result.err)
        if doubt:
            raise Refused((result.text + result.err).strip().splitlines()[-1])
        self.all_sample("on again")

    def check_on_by_call(self):
        if not self.enabled:
            return
        self.ensure(False)
        self.may_refuse("on", "--call")
        self.all_sample("on --call")

    def check_off(self):
        if not self.enabled:
            self.not_enabled("off")
            return
        for words in ((), ("--call",)):
            self.ensure(True)
            told = self.json("off", *words)
            equal((told["old"], told["new"]), (True, False), "old and new value")
            equal(self.own_active(), False, "prof.active")
        samples = processes.stacks_of(self.subject.own_profile())[0]
        self.subject.ask("more 100000")
        equal(processes.stacks_of(self.subject.own_profile())[0], samples, "samples while off")

    # ---- dump ----

    def check_dump(self):
        if not self.enabled:
            self.not_enabled("dump")
            return
        self.arm()
        path = self.run("dump").text.rstrip("\n")
        expect(re.search(r"/own\.%d\.\d+\.m\d+\.heap$" % self.pid, path), "path is", path)
        self.compare_profile(self.taken(path))

    def check_dump_path(self):
        if not self.enabled:
            self.not_enabled("dump", "--path", "x.heap")
            return
        self.arm()
        path = self.run("dump", "--path", "x.heap").text.rstrip("\n")
        equal(path, os.path.join(self.subject.directory, "x.heap"), "path")
        self.compare_profile(self.taken(path))

    def taken(self, path):
        expect(os.path.exists(path), "there is no file", path)
        data = lib.read_bytes(path)
        os.unlink(path)
        return data

    def compare_profile(self, data):
        """It is the one that the process writes itself, which is idle."""
        expect(data.startswith(b"heap_v2/%d\n" % (1 << processes.LG_SAMPLE)), data[:30])
        expect(b"\nMAPPED_LIBRARIES:\n" in data, "no MAPPED_LIBRARIES")
        seen, threads = processes.stacks_of(data)
        wanted, own_threads = processes.stacks_of(self.subject.own_profile())
        expect(wanted, "the process has no samples")
        expect(seen == wanted, "%d stacks, of the process itself %d: %s" % (
            len(seen), len(wanted), sorted(set(seen.items()) ^ set(wanted.items()))[:3]))
        equal(threads, own_threads, "threads with samples")

    def streamed(self, *words):
        if not self.enabled:
            self.not_enabled("dump", *words)
            return
        self.arm()
        self.compare_profile(self.may_refuse("dump", *words).out)

    def check_dump_stream(self):
        self.streamed("-o", "-")

    def check_dump_call(self):
        self.streamed("-o", "-", "--call")

    def check_dump_no_call(self):
        self.streamed("-o", "-", "--no-call")

    def check_dump_file(self):
        path = os.path.join(self.subject.directory, "stream.heap")
        if not self.enabled:
            self.not_enabled("dump", "-o", path)
            expect(not os.path.exists(path), "a failure leaves a file")
            return
        self.arm()
        self.run("dump", "-o", path)
        self.compare_profile(self.taken(path))

    # ---- stats ----

    def without_stats(self, *words):
        self.failed(lib.REFUSED, "config.stats is false", "stats", *words)

    def near(self, seen, wanted, what):
        expect(abs(seen - wanted) <= max(wanted * 0.02, 256 << 10), "%s is %d, of the process "
               "itself %d" % (what, seen, wanted))

    def check_stats(self):
        text = self.run("stats").text
        # A row of zero is left out, and there may be no free space between so few objects.
        for name in (("in use", "own data", "stats.active", "stats.resident", "RSS")
                     if self.variant.stats else ("in use", "RSS")):
            row = r"^  %s +-?[\d.]+ (B|[KMG]iB)" % name
            expect(re.search(row, text, re.M), "no row", name, text)

    def check_stats_json(self):
        told = self.json("stats", "--full")["jemalloc"]
        own = json.loads(self.subject.own_stats("J"))["jemalloc"]
        for name in ("version", "config", "opt"):
            equal(told[name], own[name], name)
        equal(sorted(told), sorted(own), "sections")
        if self.variant.stats:
            for name in ("allocated", "active", "mapped"):
                self.near(told["stats"][name], own["stats"][name], name)

    def check_stats_bins(self):
        own = json.loads(self.subject.own_stats("J"))["jemalloc"]
        told = self.json("stats", "--bins")
        expect(told["classes"], "no size classes")
        if not self.variant.stats:
            return
        truth = size_classes.of(own)
        classes = size_classes.told([row for row in told["classes"] if not row["large"]])
        # Sampled objects that a thread keeps are objects of 16 KiB there.
        account = self.json("stats", "--no-call")
        kept = told["allocated"] - account["in_use"]
        expect(0 <= kept <= (account["sampling"] or 0) + account["absent"], "live is",
               told["allocated"], account)
        if not self.enabled:
            self.near(told["allocated"], sum(kind["live"] for kind in truth.values()), "live")
        self.near(told["waste"], sum(kind.get("waste", 0) for kind in truth.values()), "waste")
        equal({size: kind["per_slab"] for size, kind in classes.items() if "slabs" in kind},
              {size: kind["per_slab"] for size, kind in truth.items() if "slabs" in kind},
              "objects of a slab")

    def check_stats_prometheus(self):
        text = self.run("stats", "--prometheus").text
        found = dict(re.findall(r'^(\w+)\{pid="%d"[^}]*\} (-?\d+)$' % self.pid, text, re.M))
        own = self.subject.own()["stats"]
        for name in ("stats_allocated", "active", "mapped") if self.variant.stats else ():
            self.near(int(found["jemalloc_%s_bytes" % name]), own[name.replace("stats_", "")], name)
        equal(len(found), text.count("# TYPE"), "metrics")

    def check_stats_no_call(self):
        own = self.subject.own()  # writes epoch
        result = self.tool("stats", self.pid, "--no-call", "--json")
        if result.code in REFUSALS:
            said = json.loads(result.out)["error"]
            expect(said["cause"], "no cause")
            if not self.variant.stats:
                expect("config.stats" in said["cause"], "cause is", said["cause"])
            raise Refused(said["cause"])
        equal(result.code, lib.OK, "exit code")
        told = json.loads(result.text)
        if not self.variant.stats:
            expect(told["stats_resident"] is None, "stats_resident is", told["stats_resident"])
            expect("not found" in self.run("stats", "--no-call").text, "no reason")
            return
        for name in ("allocated", "active", "mapped"):
            if told["stats_" + name] is not None:
                self.near(told["stats_" + name], own["stats"][name], name)
        self.run("stats", "--no-call")

    def check_stats_full(self):
        text = self.run("stats", "--full").text
        expect(text.startswith("___ Begin jemalloc statistics ___\n"), text[:80])
        expect(text.endswith("--- End jemalloc statistics ---\n"), text[-80:])
        expect(self.subject.own()["version"] in text, "no version")

    # ---- record, leak, top, watch ----

    def check_record(self):
        path = os.path.join(self.subject.directory, "record.heap")
        words = ("-d", "1500ms", "-o", path)
        if not self.enabled:
            self.not_enabled("record", *words)
            return
        self.ensure(False)
        self.run("mallctl", "prof.reset", "-q")
        self.subject.ask("clear")
        result = self.subject.beside(lambda: self.run("record", *words), self.allocate_once)
        equal(self.own_active(), False, "prof.active after record")
        stacks, threads = processes.stacks_of(self.taken(path))
        expect(threads >= processes.THREADS, "samples of %d of %d threads: %s" % (
            threads, processes.THREADS, result.err))
        expect(stacks, "no samples")

    def allocate_once(self, over):
        """Allocates while record samples, and keeps it."""
        expect(lib.wait_until(self.own_active, 5), "record does not switch profiling on")
        self.subject.ask("work 1000")

    def check_leak(self):
        words = ("-v", "-d", "800ms", "--settle", "100ms")
        if not self.enabled:
            self.not_enabled("leak", *words)
            return
        self.ensure(False)
        text = self.subject.beside(lambda: self.run("leak", *words), self.leak_some).text
        equal(self.own_active(), False, "prof.active after leak")
        grown = re.search(r"gr(?:ew|ows) by ([\d.]+) ([KMG]iB)", text)
        expect(grown, "no growth:", text)
        if self.subject.whole:
            expect("keep_more" in text, "keep_more is not named:", text)

    def leak_some(self, over):
        while not over.is_set():
            self.subject.ask("more 40000")
            over.wait(0.005)

    def check_top(self):
        own = self.subject.own()  # writes epoch
        result = self.tool("top", self.pid, "--once", "--json")
        if result.code in REFUSALS:
            self.check_message(result)
            raise Refused(result.err)
        equal(result.code, lib.OK, "exit code")
        told = json.loads(result.text)
        equal(told["version"], own["version"], "version")
        if self.variant.stats and told["gauges"]["in_use"] is not None:
            # Without a call it is what the program has: jemalloc counts what sampling adds, too.
            counted = told["gauges"]["in_use"] + (told["gauges"].get("sampling") or 0)
            expect(-(256 << 10) <= own["stats"]["allocated"] - counted
                   <= told["gauges"]["absent"] + (256 << 10), "in use is", told["gauges"])
        if not self.enabled:
            equal(told["profiling"], "disabled", "profiling")
        else:
            self.arm()
            told = self.json("top", "--once")
            equal(told["profiling"], "active", "profiling")
            expect(told["profile"]["objects"] > 0 and told["sites"], "no sites")
        self.run("top", "--once")

    def check_watch(self):
        words = ("--when", "rss>1M", "-o", self.subject.directory, "--once")
        if not self.enabled:
            result = self.tool("watch", self.pid, *words)
            equal(result.code, lib.PROFILING_OFF, "exit code")
            expect("opt.prof is false" in result.err, "the message is", result.err)
            return
        self.arm()
        path = self.run("watch", *words).text.rstrip("\n")
        self.compare_profile(self.taken(path))

    # ---- purge, mallctl ----

    def check_reset(self):
        if not self.enabled:
            self.not_enabled("mallctl", "prof.reset")
            return
        self.arm()
        told = self.json("mallctl", "prof.reset=13", "prof.lg_sample")
        equal((told["done"], told["values"]), ({"prof.reset": True}, {"prof.lg_sample": 13}), "told")
        equal(self.subject.own()["prof"]["lg_sample"], 13, "prof.lg_sample")
        self.run("mallctl", "prof.reset=%s" % processes.LG_SAMPLE)
        equal(processes.stacks_of(self.subject.own_profile())[0], {}, "samples after reset")

    def check_purge(self):
        if self.variant.stats:
            told = self.json("purge")
            expect(told["resident_before"] > 1 << 16 and told["resident_after"] > 1 << 16, told)
            expect(told["rss_before"] > 1 << 20 and told["rss_after"] > 1 << 20, told)
        text = self.run("purge").text
        expect(text, "nothing is printed")

    PATTERNS = ("*", "stats.*", "stats.arenas.0.*", "stats.arenas.4096.*",
                "stats.arenas.0.bins.0.*", "stats.arenas.0.lextents.0.*",
                "stats.arenas.0.extents.0.*", "stats.arenas.0.mutexes.*",
                "stats.arenas.0.hpa_shard.*", "stats.mutexes.*", "arena.0.*", "arena.4094.*",
                "arenas.*", "arenas.bin.0.*", "arenas.lextent.0.*", "thread.*", "experimental.*",
                "prof.*", "opt.*", "config.*", "tcache.*", "approximate_stats.*", "background_*")

    def check_mallctl_list(self):
        """Every readable name of the table is read, by itself too; the process says the same."""
        found = {}
        for pattern in self.PATTERNS:
            found.update(self.json("mallctl", "--list", pattern)["values"])
            expect(self.subject.alive(), "reading %s ends the process" % pattern)
        names = [name for name, value in found.items() if value is not None]
        for start in range(0, len(names), 20):
            some = names[start : start + 20]
            told = self.json("mallctl", *some)["values"]
            equal(set(told), set(some), "names")
            expect(self.subject.alive(), "reading ends the process:", some)
        own = self.subject.own()
        for group in ("opt", "config"):
            for name, value in own[group].items():
                seen = found.get("%s.%s" % (group, name), value)
                expect(isinstance(value, dict) or seen == value or str(seen) == str(value),
                       "%s.%s is %r, but the process says %r" % (group, name, seen, value))
        equal(found["version"], own["version"], "version")
        for name in ("quantum", "page", "nbins"):
            equal(found["arenas." + name], own["arenas"][name], name)

    def check_mallctl_write(self):
        told = self.json("mallctl", "arena.0.dirty_decay_ms=5000")
        equal(told["values"], {"arena.0.dirty_decay_ms": 5000}, "values")
        if not self.enabled:
            self.failed(lib.PROFILING_OFF, "opt.prof is false", "mallctl", "prof.active=true")

    # ---- report ----

    def check_report(self):
        if not self.enabled:
            return
        self.arm()
        path = os.path.join(self.subject.directory, "report.heap")
        for words in (("--no-call",), ("--call",)):
            result = self.tool("dump", "--timeout", TIMEOUT, self.pid, "-o", path, *words)
            if result.code == lib.OK:
                try:
                    self.reported(path)
                finally:
                    os.unlink(path)

    def reported(self, path):
        folded = self.tool("report", path, "-f", "folded", "--no-fold")
        equal(folded.code, lib.OK, "exit code")
        expect(folded.text.strip(), "an empty report")
        told = json.loads(self.tool("report", path, "--json").text)
        expect(told["total"] > 0 and told["stacks"] > 0, told)
        total = sum(int(line.rsplit(" ", 1)[1]) for line in folded.text.splitlines())
        near = abs(total - told["total"]) <= told["stacks"]
        expect(near, "folded has", total, "json", told["total"])
        if self.subject.whole:
            expect("allocate" in folded.text, "allocate is not named:", folded.text)
        expect(self.tool("report", path).code == lib.OK, "the table fails")


CHECKS = [name[len("check_"):] for name in vars(Verbs) if name.startswith("check_")
          and name != "check_message"]
