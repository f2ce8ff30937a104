#!/usr/bin/env python3
"""jemalloc in all forms: releases, prefixes, kinds of programs, and programs without it.

    matrix.py [CELL...]     runs these cells, default: the short ones
    matrix.py --list        prints a line for each cell: its name, and "short" or "long"

A cell is a process. `status` must find the right module, prefix and version. What it reads from
memory, and what `ps` prints, must agree with the result of a call. If profiling is compiled in, it
is switched on, a profile is streamed out, it is switched off, and the process must continue.
"""

import dataclasses
import functools
import json
import os
import re
import struct
import subprocess
import sys
import typing

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import lib  # noqa: E402
import packages  # noqa: E402
import subjects  # noqa: E402

BY_NAME = (".dynsym", ".symtab")
LG_SAMPLE = 10
CONF = "prof:true,prof_active:false,lg_prof_sample:%d" % LG_SAMPLE
RELEASE = r"\d+\.\d+\.\d+-\d+-g\w+"


@dataclasses.dataclass
class Cell:
    """A process to start, and what must be found in it."""

    name: str
    start: typing.Callable  # (test) -> Target
    module: str = ""  # a regular expression for the module's path; "": there is no jemalloc
    prefix: typing.Optional[str] = ""  # None: cannot be read from the process
    version: str = RELEASE
    by_name: bool = True  # False: it must be found without symbols
    linkage: str = "static"
    prof: bool = True  # compiled in
    enabled: bool = True  # and enabled at start
    provable: bool = True  # one of its threads is at a safe point most of the time
    long: bool = False


@dataclasses.dataclass
class Target:
    """A process of a cell. rounds: a counter that increases while it works."""

    pid: int
    rounds: typing.Optional[typing.Callable] = None


def environment(**extra):
    """Returns MALLOC_CONF for any prefix."""
    return lib.tool_environment({"MALLOC_CONF": CONF, "_RJEM_MALLOC_CONF": CONF, **extra})


# ---- how targets are started ---------------------------------------------------------------


def start_subject(test, program, loader=(), arguments=(), **extra):
    counter = os.path.join(test.directory(), "counter")
    with open(counter, "wb") as file:
        file.write(bytes(8))

    def rounds():
        with open(counter, "rb") as file:
            return struct.unpack("<Q", file.read(8))[0]

    argv = list(loader) + [program, counter] + list(arguments)
    process = test.process(argv, env=environment(**extra), stderr=subprocess.PIPE)
    test.wait_started(process, rounds)
    return Target(process.pid, rounds)


def start_preloaded(release, test):
    library = subjects.shared_library(release)
    if release == "5.3.1":
        loader, path = subjects.sid_loader()
        words = [loader, "--library-path", path, "--preload", library]
        return start_subject(test, subjects.plain(), words)
    return start_subject(test, subjects.plain(), LD_PRELOAD=library)


def start_linked(release, test):
    program = subjects.linked_shared(release)
    if release == "5.3.1":
        loader, path = subjects.sid_loader()
        return start_subject(test, program, [loader, "--library-path", path])
    return start_subject(test, program)


def start_prefixed(release, prefix, kind, stripped, test, **extra):
    return start_subject(test, subjects.linked_in(release, prefix, kind, stripped), **extra)


def start_twin(test):
    """Starts another process of the same file first, at other addresses and in another state."""
    twin = functools.partial(start_prefixed, "5.3.0", "_rjem_", "static-pie", False, test)
    twin(MALLOC_CONF="prof:true,prof_active:true")
    return twin()


def start_with_duckdb(test):
    """The library that contains jemalloc is loaded by dlopen."""
    folder = packages.npm_unpacked("@duckdb/node-bindings-linux-x64")
    return start_subject(test, subjects.plain(), (), [os.path.join(folder, "libduckdb.so")])


def start_program(test, argv, ready=None, **options):
    """A program that works or waits until it is killed. Waits for ready(process), or a moment."""
    options.setdefault("stdin", subprocess.PIPE)
    options.setdefault("stdout", subprocess.DEVNULL)
    process = test.process(argv, stderr=subprocess.PIPE, env=environment(), **options)
    test.wait_started(process, ready or (lambda: is_asleep(process.pid)))
    return Target(process.pid)


def is_asleep(pid):
    """True if it stays asleep: it has probably finished its start."""
    return lib.state_of(pid) == "S" and lib.wait_until(lambda: lib.state_of(pid) != "S", 0.3) is False


def start_redis(test):
    redis = lib.Redis(test.directory())
    test.addCleanup(redis.stop)
    return Target(redis.pid, redis.commands_done)  # commands_done itself sends a command


def start_named(test):
    directory = test.directory()
    conf = os.path.join(directory, "named.conf")
    text = 'options { directory "%s"; pid-file none; session-keyfile none; listen-on { none; }; '
    with open(conf, "w") as file:
        file.write(text % directory + "listen-on-v6 { none; }; recursion no; }; controls { };\n")
    return start_program(test, [packages.host_program("named"), "-g", "-n", "2", "-c", conf])


def start_varnishd(test):
    """Returns its worker, a child of the started process."""
    directory = test.directory()
    words = ["-F", "-j", "none", "-n", directory, "-a", directory + "/socket", "-b", "none"]
    manager = start_program(test, [packages.host_program("varnishd")] + words)
    worker = lambda: [pid for pid in children(manager.pid) if "cache" in comm(pid)]
    if not lib.wait_until(worker):
        raise packages.Unavailable("varnishd starts no worker here")
    return Target(worker()[0])


def start_node(test):
    library = subjects.shared_library("5.3.0")
    script = "setInterval(() => { globalThis.kept = Buffer.alloc(100000, 1) }, 5)"
    process = test.process(
        [packages.host_program("node"), "-e", script], env=environment(LD_PRELOAD=library)
    )
    test.wait_started(process, lambda: is_mapped(process.pid, library))
    lib.wait_until(lambda: len(lib.threads(process.pid)) >= 7)
    return Target(process.pid)


def start_ruff(test):
    ruff = packages.Suite("sid").file("ruff", "usr/bin/ruff")
    loader, path = subjects.sid_loader()
    return start_program(test, [loader, "--library-path", path, ruff, "server"])


def start_ripgrep(test):
    rg = os.path.join(packages.npm_unpacked("@vscode/ripgrep-linux-x64"), "bin", "rg")
    return start_program(test, [rg, "x", "-"])


def start_anvil(test):
    folder = packages.npm_unpacked("@foundry-rs/anvil-linux-amd64")
    return start_program(test, [os.path.join(folder, "bin", "anvil"), "--port", "0"])


def comm(pid):
    try:
        return lib.read_text("/proc/%d/comm" % pid)
    except OSError:
        return ""


def children(pid):
    try:
        return [int(n) for n in lib.read_text("/proc/%d/task/%d/children" % (pid, pid)).split()]
    except OSError:
        return []


def is_mapped(pid, path):
    return os.path.realpath(path) in lib.read_text("/proc/%d/maps" % pid)


# ---- the cells -----------------------------------------------------------------------------

PREFIXES = ("_rjem_", "je_", "foo_")


def version_of(release):
    return re.escape(release) + r"-0-g[0-9a-f]{40}"


def shared_cells():
    for release in subjects.RELEASES:
        common = {"module": r"/libjemalloc\.so\.2$", "version": version_of(release)}
        start = functools.partial(start_preloaded, release)
        # A library preloaded by an option of the loader is not in the environment: it is "shared".
        yield Cell("preload-" + release, start, linkage="preloaded", **common)
        start = functools.partial(start_linked, release)
        yield Cell("linked-" + release, start, linkage="shared", **common)


def prefixed_cells():
    """The short cells: each release with each prefix and each kind, with symbols and stripped."""
    for r, release in enumerate(subjects.RELEASES):
        for p, prefix in enumerate(PREFIXES):
            for k, kind in enumerate(subjects.KINDS):
                for stripped in (False, True):
                    words = (release, prefix.strip("_"), kind, "stripped" if stripped else "whole")
                    yield Cell(
                        "-".join(words),
                        functools.partial(start_prefixed, release, prefix, kind, stripped),
                        module=r"/subjects-\w+/" + re.escape("-".join(words)) + "$",
                        version=version_of(release),
                        prefix=None if stripped else prefix,
                        by_name=not stripped,
                        long=(r + p + k) % 3 != 0,
                    )


def disabled_cells():
    """Profiling is compiled in but was not enabled at start."""
    for release in subjects.RELEASES:
        start = functools.partial(start_prefixed, release, "_rjem_", "static-pie", False)
        yield Cell(
            release + "-disabled",
            functools.partial(start, MALLOC_CONF="prof:false"),
            module="/%s-rjem-static-pie-whole$" % re.escape(release),
            version=version_of(release),
            prefix="_rjem_",
            enabled=False,
        )


def twin_cells():
    yield Cell(
        "twin",
        start_twin,
        module="/5\\.3\\.0-rjem-static-pie-whole$",
        version=version_of("5.3.0"),
        prefix="_rjem_",
    )


def musl_cells():
    """Profiling is not compiled in: programs of musl cannot be unwound while they start."""
    for stripped in (False, True):
        words = "musl-" + ("stripped" if stripped else "whole")
        yield Cell(
            words,
            functools.partial(lambda cut, test: start_subject(test, subjects.musl(cut)), stripped),
            module=r"/subjects-\w+/" + words + "$",
            version=version_of("5.3.0"),
            by_name=not stripped,
            prof=False,
            long=True,
        )


def program_cells():
    shared = {"module": r"/libjemalloc\.so\.2$"}
    yield Cell("redis-server", start_redis, linkage="shared", **shared)
    yield Cell("named", start_named, linkage="shared", **shared)
    yield Cell("varnishd", start_varnishd, linkage="shared", **shared)
    yield Cell("node", start_node, linkage="preloaded", **shared)
    yield Cell("ruff", start_ruff, module="/ruff$", prefix=None, by_name=False)
    # Its only thread sleeps with stale addresses of jemalloc on its stack, in a system call of musl
    # without call frame information.
    yield Cell(
        "ripgrep",
        start_ripgrep,
        module="/rg$",
        prefix="_rjem_",
        by_name=False,
        prof=False,
        provable=False,
    )
    yield Cell("anvil", start_anvil, module="/anvil$", prefix="_rjem_", prof=False, long=True)
    yield Cell(
        "duckdb",
        start_with_duckdb,
        module=r"/libduckdb\.so$",
        prefix="duckdb_je_",
        prof=False,
        long=True,
    )


DECOYS = {
    # Only a function of that name, as in programs with a stub of it.
    "mallctl-alone": "int mallctl(void) { return 0; }",
    # Data with both names.
    "data": "int mallctl[9] = {1}, malloc_stats_print[9] = {1};",
    # The exports of mozjemalloc: a similar family of names.
    "mozjemalloc": """
        void jemalloc_stats(void) {} void jemalloc_stats_internal(void) {}
        void jemalloc_purge_freed_pages(void) {} void jemalloc_ptr_info(void) {}
        void moz_arena_malloc(void) {} void je_malloc_usable_size(void) {}
        const char text[] = "<jemalloc>: Error";""",
    # Names that contain these as a suffix or a prefix.
    "like": """
        int mallctl_(void) { return 0; } int mallctlx(void) { return 0; }
        void malloc_stats_print_(void) {} void xmalloc_stats_prints(void) {}""",
    # From two families, so that no name has its sibling.
    "siblings": "int a_mallctl(void) { return 0; } void b_malloc_stats_print(void) {}",
}


def decoy_program(name):
    source = DECOYS[name] + "\nint pause(void);\nint main(void) { for (;;) pause(); }\n"
    return subjects.decoy(name, source)


def negative_cells():
    yield Cell("none-glibc", lambda test: start_subject(test, subjects.plain()))
    argv = [sys.executable, "-c", "import time; time.sleep(600)"]
    yield Cell("none-python", lambda test: start_program(test, argv))
    yield Cell("none-bash", lambda test: start_program(test, ["bash", "-c", "read x"]))
    for name in DECOYS:
        start = functools.partial(lambda n, test: start_program(test, [decoy_program(n)]), name)
        yield Cell("decoy-" + name, start)


CELLS = {
    cell.name: cell
    for group in (shared_cells, prefixed_cells, disabled_cells, twin_cells, musl_cells, program_cells, negative_cells)
    for cell in group()
}


# ---- the checks ------------------------------------------------------------------------


class Matrix(lib.TestCase):
    def wait_started(self, process, ready):
        """Starts the target and waits until it is ready. Skips if it cannot run here."""
        if not lib.wait_until(lambda: process.poll() is not None or ready()):
            self.fail("the program does not get ready")
        if process.poll() is not None:
            lines = process.stderr.read().decode(errors="replace").strip().splitlines()
            raise packages.Unavailable("it ended: %s" % (lines or ["no message"])[-1])

    def answer(self, *words):
        return json.loads(self.assert_ran(lib.run_tool(*words, "--json")).text)

    def assert_works(self, target):
        """Checks that the process was not harmed."""
        if target.rounds:
            before = target.rounds()
            self.assertTrue(lib.wait_until(lambda: target.rounds() > before), "it stands still")
        self.assertEqual(lib.tracer_of(target.pid), 0, "still traced")
        self.assertIn(lib.state_of(target.pid), "RSD", "not running")

    def check_absent(self, target):
        for words in (("status",), ("status", "--no-call"), ("on",)):
            self.assert_failed(lib.run_tool(*words, target.pid), lib.NO_JEMALLOC, "no jemalloc")
        pids = [process["pid"] for process in self.answer("ps")["processes"]]
        self.assertNotIn(target.pid, pids)

    def check_found(self, cell, target):
        words = () if cell.provable else ("--no-call",)
        status = self.answer("status", target.pid, *words)
        self.assertRegex(status["module"], cell.module)
        self.assertRegex(status["version"], r"\A(?:%s)\Z" % cell.version)
        self.assertEqual(status["found_by"] in BY_NAME, cell.by_name, status["found_by"])
        if cell.prefix is not None:
            self.assertEqual(status["prefix"], cell.prefix)
        return status

    def check_without_call(self, cell, target, status):
        """A value read from memory equals the result of a call, or is unknown."""
        memory = self.answer("status", "--no-call", target.pid)
        self.assertEqual(memory["calls"], 0)
        of_a_call = {"source", "thread", "held_ns", "calls", "stops", "search_ns", "next"}
        for name in status.keys() - of_a_call:
            if not name.startswith("threads"):  # they are read each time, and threads go on
                self.assertIn(memory[name], (status[name], None), name)
        if cell.by_name:
            self.assertEqual(memory["version"], status["version"])
        rows = [row for row in self.answer("ps")["processes"] if row["pid"] == target.pid]
        self.assertEqual(len(rows), 1)
        for name in ("module", "prefix"):
            self.assertEqual(rows[0][name], status[name])
        for name in ("version", "config.prof", "opt.prof", "prof.active"):
            self.assertEqual(rows[0][name], memory[name], name)
        self.assertEqual(rows[0]["linkage"], cell.linkage)

    def assert_sampling(self, target, active):
        """The state that a call has set is read back, by a call and from memory."""
        self.assertEqual(self.answer("status", target.pid)["prof.active"], active)
        rows = [row for row in self.answer("ps")["processes"] if row["pid"] == target.pid]
        self.assertIn(rows[0]["prof"], ("active" if active else "inactive", "enabled", None))

    def check_profiling(self, target):
        self.switch(target, "on")
        self.assert_sampling(target, True)
        self.assert_works(target)
        data = self.assert_ran(lib.run_tool("dump", target.pid, "-o", "-")).out
        self.assertRegex(data[:64], rb"^heap_v2/\d+\n")
        self.assertIn(b"\nMAPPED_LIBRARIES:\n", data)
        self.assertTrue(data.endswith(b"\n"), "ends in the middle of a line")
        self.switch(target, "off")
        self.assert_sampling(target, False)

    def check_refusal(self, target):
        """There may be no safe point; then nothing is touched."""
        result = lib.run_tool("on", target.pid, "--timeout", "1s")
        self.assertIn(result.code, (lib.NO_SAFE_MOMENT, lib.PROFILING_OFF), result)
        self.assertEqual(result.out, b"")

    def check_prof(self, cell, target, status):
        """Checks the options of the start; `on` makes a call, status may read memory."""
        self.assertEqual(status["config.prof"], cell.prof)
        self.assertEqual(status["opt.prof"], cell.prof and cell.enabled)
        self.assertFalse(status["prof.active"])
        if not cell.prof or not cell.enabled:
            self.assert_failed(lib.run_tool("on", target.pid), lib.PROFILING_OFF)
            return
        if cell.name != "redis-server":  # lib.Redis has its own configuration
            self.assertEqual(status["prof.lg_sample"], LG_SAMPLE)
        self.assertIs(status["prof.thread_active_init"], True)
        self.check_profiling(target)

    def check(self, cell):
        target = cell.start(self)
        if not cell.module:
            self.check_absent(target)
        else:
            status = self.check_found(cell, target)
            self.check_without_call(cell, target, status)
            if cell.provable:
                self.check_prof(cell, target, status)
            else:
                self.check_refusal(target)
        self.assert_works(target)


def method_name(cell_name):
    return "test_" + re.sub(r"\W", "_", cell_name)


def add_methods():
    """Makes a test for each cell."""

    def method_of(cell):
        return lambda self: self.check(cell)

    for cell in CELLS.values():
        setattr(Matrix, method_name(cell.name), method_of(cell))


def main():
    if sys.argv[1:] == ["--list"]:
        for cell in CELLS.values():
            print(cell.name, "long" if cell.long else "short")
        return
    names = sys.argv[1:] or [cell.name for cell in CELLS.values() if not cell.long]
    sys.argv[1:] = [method_name(name) for name in names]
    lib.main()


add_methods()

if __name__ == "__main__":
    main()
