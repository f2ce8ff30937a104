"""tests/victims/allocator.c with one build of jemalloc, and what it says of itself."""

import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import threading
import unittest

import allocators
import lib
import releases
import variants

THREADS = 6
LG_SAMPLE = 12
CONFS = {
    "on": "prof:true,prof_active:false,lg_prof_sample:%d,prof_prefix:own" % LG_SAMPLE,
    "off": "prof:false",
}
# preload: LD_PRELOAD. linked: with the shared library. inside: the archive in a dynamic program.
# static: in a static program.
LINKS = ("preload", "linked", "inside", "static")
RENAMED = "_rjem_"  # prefix of an archive that would take malloc from a static C library
SOURCES = ("allocator.c", "filter.c")
VICTIMS = os.path.join(lib.ROOT, "tests", "victims")


def links_of(variant):
    """Returns the ways in which a program can use that variant."""
    if not variant.exported:
        return LINKS[2:]
    if variant.mangled:  # calloc and others keep their names, which a static C library has, too
        return LINKS[1:3]
    return LINKS if not variant.prefix else LINKS[1:]


def _digest():
    text = b"".join(lib.read_bytes(os.path.join(VICTIMS, name)) for name in SOURCES)
    return hashlib.sha256(text).hexdigest()[:8]


def _directory(build):
    path = os.path.join(releases.HOME, "programs-" + _digest(), build.name)
    os.makedirs(path, exist_ok=True)
    return path


def _library(build, stripped):
    """Returns the shared library, under its own name."""
    if not stripped:
        return build.library

    def make(path):
        os.makedirs(path)
        releases.run(["strip", "-o", os.path.join(path, "libjemalloc.so.2"), build.library], path)

    return os.path.join(releases.once(os.path.join(_directory(build), "stripped"), make),
                        "libjemalloc.so.2")


def _defines(build, prefix):
    if build.variant.mangled:
        # The private namespace is put on mangled names, too.
        defined = releases.output(["nm", "-g", "--defined-only", build.archive]).split()
        own = "je_" if "je_" + variants.MANGLED["mallctl"] in defined else ""
        return ["-DPREFIX="] + ["-D%s=%s%s" % (name, own, mangled)
                                for name, mangled in variants.MANGLED.items()]
    return ["-DPREFIX=" + prefix] if prefix else []


def _compile(build, path, words, prefix=""):
    variant = build.variant
    argv = [variant.compiler, "-g", "-O1", "-fno-inline", "-fno-omit-frame-pointer",
            "-fno-optimize-sibling-calls", "-D_GNU_SOURCE", "-pthread", "-o", path]
    argv += variant.cflags.split() + _defines(build, prefix)
    argv += [os.path.join(VICTIMS, name) for name in SOURCES] + words
    argv += ["-lunwind", "-llzma"] if variant.unwinder == "libunwind" else []
    try:
        releases.run(argv + ["-lm"], os.path.dirname(path))
    except unittest.SkipTest as reason:  # a source that does not compile is no reason to skip
        raise AssertionError(str(reason)) from reason


def _archive(build, prefix):
    """Returns the archive without its C++ part; a prefix, if given, is put on the public names."""

    def make(path):
        shutil.copy(build.archive, path)
        members = releases.output(["ar", "t", path]).split()
        releases.run(["ar", "d", path] + [name for name in members if "cpp" in name],
                     os.path.dirname(path))
        if not build.variant.cflags:  # LTO's objects have no names yet
            names = ["__isoc23_strtol strtol"]  # a newer C library's name for it
            if prefix:
                names += ["%s %s%s" % (name, prefix, name) for name in releases.public_names(path)]
            with open(path + ".names", "w") as file:
                file.write("\n".join(names) + "\n")
            releases.run(["objcopy", "--redefine-syms=" + path + ".names", path],
                         os.path.dirname(path))

    return releases.once(os.path.join(_directory(build), "jemalloc%s.a" % prefix), make)


def _linked_in(build, link):
    """Returns a program with the archive in it."""
    own = build.variant.prefix or build.variant.mangled
    # The names of a static program are renamed: malloc runs before its unwinder can.
    prefix = RENAMED if link == "static" and not own else ""

    def make(path):
        words = ["-static-pie", "-fPIE"] if link == "static" else ["-fPIE", "-pie"]
        if link == "static" and build.variant.unwinder == "libunwind":  # whose archive is no PIC
            words = ["-static", "-no-pie"]
        _compile(build, path, words + [_archive(build, prefix)], build.variant.prefix or prefix)

    return releases.once(os.path.join(_directory(build), link), make)


def _program(build, link, stripped):
    if link in ("inside", "static"):
        path = _linked_in(build, link)
        return releases.stripped(path) if stripped else path

    def make(path):
        words = ["-fPIE", "-pie"]
        if link == "linked":
            words += ["-Wl,--no-as-needed", "-Wl,--allow-shlib-undefined", build.library]
        _compile(build, path, words, build.variant.prefix)

    return releases.once(os.path.join(_directory(build), link), make)


class Subject(allocators.Allocator):
    """A process of one build. `whole`: its program has symbols for its own functions."""

    def __init__(self, directory, build, link, stripped, conf):
        self.build, self.link, self.stripped, self.conf = build, link, stripped, conf
        self.library = ""
        if link in ("preload", "linked"):
            self.library = _library(build, stripped)
        program = _program(build, link, stripped)
        self.module = self.library or program
        self.whole = self.library != "" or not stripped
        # Renaming symbols does not rename the variable, which only a stripped program shows.
        self.renamed = not stripped and link == "static" and not (
            build.variant.prefix or build.variant.mangled)
        argv, env = self._command(program)
        text = CONFS[conf]
        env[build.variant.prefix.upper() + "MALLOC_CONF"] = text
        super().__init__(directory, argv, env, None, ("--threads", THREADS))
        self.ask("work 1000")
        self.before = self._footprint()

    def _command(self, program):
        env, words = {}, []
        if self.build.root and self.library:
            words = releases.loader_of(self.build.root)
            if self.link == "preload":
                words += ["--preload", self.library]
            else:
                words[2] = os.path.dirname(self.library) + ":" + words[2]
        elif self.link == "preload":
            env["LD_PRELOAD"] = self.library
        elif self.link == "linked":
            env["LD_LIBRARY_PATH"] = os.path.dirname(self.library)
        return words + [program], env

    # ---- what the process itself says ----

    def own(self):
        """Returns jemalloc's own report, made by the process: the truth of version and options."""
        return json.loads(self.own_stats("Jmdablx"))["jemalloc"]

    def own_stats(self, options):
        try:
            return super().own_stats(options)
        finally:
            os.unlink(os.path.join(self.directory, "own-stats"))

    def own_profile(self):
        """Returns the profile that the process writes itself."""
        path = os.path.join(self.directory, "own.heap")
        self.ask("dump " + path)
        try:
            return lib.read_bytes(path)
        finally:
            os.unlink(path)

    def beside(self, function, work):
        """Returns the result of function(). Beside it, work(over) uses the process; the event
        `over` is set when the function has ended."""
        over = threading.Event()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            working = pool.submit(work, over)
            try:
                result = function()
            finally:
                over.set()
            working.result()
        return result

    # ---- what it must not notice ----

    def _footprint(self):
        """A library that jemalloc loads itself, as libgcc at its first backtrace, is no trace of a
        tool; code that is in no file would be, and changed code."""
        maps = [m for m in lib.mappings(self.pid) if "x" in m.perms and m.inode == "0"]
        text = {key: digest for key, digest in lib.text_hashes(self.pid).items()
                if "libgcc" not in key[0]}
        opened = lib.descriptors(self.pid)
        if self.build.variant.unwinder == "libunwind":  # it opens a pipe at its first backtrace
            opened = {fd: name for fd, name in opened.items() if fd < 3 or "pipe:" not in name}
        return {"descriptors": opened, "threads": lib.threads(self.pid),
                "masks": lib.signal_masks(self.pid), "code": lib.covered(maps), "text": text,
                "files": sorted(os.listdir(self.directory))}

    def noticed(self):
        """Returns the names of what has changed in the process and in its directory."""
        if not self.alive():
            return ["it died: %s" % self.process.returncode]
        differing = []

        def compare():
            now = self._footprint()
            differing[:] = [name for name in now if now[name] != self.before[name]]
            return not differing

        lib.wait_until(compare, 2, 0.02)
        if lib.tracer_of(self.pid):
            differing.append("traced")
        if self.said():
            differing.append("said %r" % self.said()[:200])
        self.ask("work 10")
        return differing


def stacks_of(profile):
    """Returns {stack: (objects, bytes)} of a profile, and the number of threads with samples."""
    text = profile.decode(errors="replace").partition("\nMAPPED_LIBRARIES")[0]
    head, *rest = text.split("\n@")
    found = {}
    for part in rest:
        lines = part.split("\n")
        total = re.match(r"\s*t\*: (\d+): (\d+)", lines[1])
        found[lines[0]] = (int(total[1]), int(total[2]))
    sampled = sum(int(n) > 0 for n in re.findall(r"^  t\d+: (\d+):", head, re.M))
    return {stack: counts for stack, counts in found.items() if counts[0]}, sampled


def available(build_name):
    """Returns the build, or the reason why it is not available here."""
    try:
        return variants.build_of(build_name), ""
    except unittest.SkipTest as reason:
        return None, str(reason)
