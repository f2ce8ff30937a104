"""tests/victims/opaque.c in programs that show little of their stacks: without call frame
information, without symbols, static with musl's C library, linked with link-time optimization."""

import contextlib
import json
import os
import shutil
import subprocess
import unittest

import lib
import linked
import releases

SOURCE = os.path.join(lib.ROOT, "tests", "victims", "opaque.c")
HOME = os.path.join(releases.HOME, "opaque")
VERSION = "5.3.0"
PREFIX = "_rjem_"
WITHOUT = ("-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-exceptions")
# Next to no samples: jemalloc's backtraces crash with musl and gcc's unwinder.
CONF = "prof:true,prof_active:false,lg_prof_sample:40"
# The places in which a call could hang or corrupt: inside the allocator, and in a thread that ends.
INSIDE = ("called", "forever", "misled", "handler", "dump", "ending")
OUTSIDE = ("outside", "deep")


def _archive(name, compiler, flags):
    """Returns jemalloc as an archive, compiled by that compiler with these flags."""

    def make(archive):
        tree = archive + ".tree"
        shutil.copytree(releases.source(VERSION), tree, symlinks=True)
        words = ["--enable-prof", "--disable-cxx", "--with-jemalloc-prefix=" + PREFIX]
        words += ["--with-version=%s-0-g0" % VERSION, "CC=" + compiler, "EXTRA_CFLAGS=" + flags]
        words += ["AR=gcc-ar", "RANLIB=gcc-ranlib"]
        releases.run(["sh", "./configure"] + words, tree, 300)
        releases.run(["make", "-j2", "lib/libjemalloc_pic.a"], tree, 900)
        os.rename(os.path.join(tree, "lib", "libjemalloc_pic.a"), archive)
        shutil.rmtree(tree)

    os.makedirs(HOME, exist_ok=True)
    return releases.once(os.path.join(HOME, "jemalloc-%s.a" % name), make)


def _link(name, words):
    """Returns the program that the words link; one that is older than its source is made again."""
    path = os.path.join(HOME, name)
    os.makedirs(HOME, exist_ok=True)
    with contextlib.suppress(OSError):
        if os.path.getmtime(path) < os.path.getmtime(SOURCE):
            os.unlink(path)
    make = lambda new: releases.run([*words, "-pthread", "-lm", "-o", new], HOME)
    return releases.once(path, make)


def _copy(path, suffix, *argv):
    copy = path + suffix
    subprocess.run([argv[0], *argv[1:], path, copy], check=True)
    return copy


def _words(compiler, *words):
    return [compiler, "-O2", "-D_GNU_SOURCE", "-DPREFIX=" + PREFIX, *WITHOUT, *words, SOURCE]


def musl_static(strip=True):
    """musl, static at fixed addresses: no frames of its C library, and no symbols."""
    if not shutil.which("musl-gcc"):
        raise unittest.SkipTest("no musl-gcc (package musl-tools)")
    archive = _archive("musl", "musl-gcc", "-g0")
    path = _link("musl-static", [*_words("musl-gcc", "-static", "-no-pie", "-fno-pie"), archive])
    return _copy(path, "-stripped", "objcopy", "-S") if strip else path


def no_frames():
    """glibc, dynamic: the program has no call frame information."""
    return _link("no-frames", [*_words("gcc", "-fPIE", "-pie"), _debian_archive()])


def no_frames_at_all():
    """glibc, static, with symbols: neither the program nor a library has any."""
    path = _link("static", [*_words("gcc", "-static", "-no-pie", "-fno-pie"), _debian_archive()])
    return _copy(path, "-no-frames", "objcopy", "--rename-section", ".eh_frame=.nothing")


def _debian_archive():
    if linked.missing():
        raise unittest.SkipTest(linked.missing())
    os.makedirs(HOME, exist_ok=True)
    return linked.archive(PREFIX, HOME)


def whole_program(strip):
    """glibc, static: program and allocator optimized as one."""
    archive = _archive("lto", "gcc", "-g0 -flto -fno-fat-lto-objects")
    path = _link("lto", ["gcc", "-O2", "-flto", "-D_GNU_SOURCE", "-DPREFIX=" + PREFIX, "-static-pie",
                         "-fPIE", SOURCE, archive])
    return _copy(path, "-stripped", "objcopy", "-S") if strip else path


class TestCase(lib.TestCase):
    """One process in one place."""

    def start(self, program, where):
        directory = self.directory()
        self.ready = os.path.join(directory, "ready")
        self.fifo = os.path.join(directory, "fifo")
        os.mkfifo(self.fifo)
        conf = CONF
        process = self.process(
            [program, where, self.ready, self.fifo],
            env=dict(os.environ, MALLOC_CONF=conf, _RJEM_MALLOC_CONF=conf),
            stdin=subprocess.PIPE,
        )
        self.assertTrue(lib.wait_until(lambda: os.path.exists(self.ready)), "does not start")
        if where != "busy":
            asleep = lambda: lib.read_text("/proc/%d/stat" % process.pid).split()[2] == "S"
            self.assertTrue(lib.wait_until(asleep), "does not sleep")
        return process

    def wake(self, process, where):
        """The process goes on, and ends as if it had never been stopped."""
        if where == "dump":
            with open(self.fifo, "rb") as file:
                self.assertRegex(file.read(64), rb"^heap_v2/")
        else:
            process.stdin.write(b"x\n")
            process.stdin.flush()
        self.assertEqual(process.wait(30), 0)

    def check_outside(self, program, stats=True):
        """Every verb that needs a call, in a thread that sleeps above stale words."""
        for where in OUTSIDE:
            with self.subTest(where=where):
                process = self.start(program, where)
                for verb, change in (("on", "false -> true"), ("off", "true -> false")):
                    result = self.assert_ran(lib.run_tool(verb, "--call", "-v", process.pid))
                    self.assertIn("prof.active: " + change, result.text)
                    self.assertRegex(result.err, "at a safe point")
                result = self.assert_ran(lib.run_tool("dump", "--call", "-o", "-", process.pid))
                self.assertRegex(result.out[:64], rb"^heap_v2/\d+\n")
                if stats:
                    report = self.assert_ran(lib.run_tool("stats", "--full", "--json", process.pid)).text
                    self.assertIs(json.loads(report)["jemalloc"]["config"]["prof"], True)
                self.assertEqual(lib.tracer_of(process.pid), 0)
                self.wake(process, where)

    def check_inside(self, program):
        """The allocator is below the place where the thread sleeps: no call."""
        for where in INSIDE:
            with self.subTest(where=where):
                process = self.start(program, where)
                result = lib.run_tool("on", "--call", "--timeout", "500ms", process.pid)
                self.assert_failed(result, lib.NO_SAFE_MOMENT)
                self.assertEqual(lib.tracer_of(process.pid), 0)
                self.wake(process, where)

    def check_busy(self, program, rounds=30):
        """(`on` would make jemalloc sample: with musl, its own backtrace ends the process.)"""
        process = self.start(program, "busy")
        for _ in range(rounds):
            self.assert_ran(lib.run_tool("dump", "--call", "-o", "-", process.pid))
            self.assert_ran(lib.run_tool("purge", process.pid))
        self.wake(process, "busy")
        self.assertGreater(int(lib.read_text(self.ready)), 0)

    def check(self, program):
        self.check_outside(program)
        self.check_inside(program)
        self.check_busy(program)
