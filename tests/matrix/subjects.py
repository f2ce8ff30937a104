"""The subjects of the matrix: subject.c with jemalloc of each release, linked in each way."""

import hashlib
import os
import shutil

import packages
from packages import Suite, once, run

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "subject.c")
LIBRARIES = "usr/lib/x86_64-linux-gnu"

# The suites that have libjemalloc of that release.
RELEASES = {"5.2.1": "bullseye", "5.3.0": "bookworm", "5.3.1": "sid"}

MUSL_VERSION = "5.3.0-0-g54eaed1d8b56b1aa528be3bdd1877e59c56fa90c"

KINDS = {
    "static-pie": ["-fPIE", "-static-pie"],
    "static": ["-fno-pie", "-no-pie", "-static"],
    "non-pie": ["-fno-pie", "-no-pie"],
}


def subject_once(name, make):
    """Returns a program of the cache, built again if its source has changed."""
    with open(SOURCE, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()[:8]
    return once("subjects-%s/%s" % (digest, name), make)


def compile_subject(out, *words, compiler="gcc"):
    run([compiler, "-O2", "-Wall", "-o", out, SOURCE] + list(words))


def shared_library(release):
    pattern = "**/libjemalloc.so.2"
    return Suite(RELEASES[release]).file("libjemalloc2", pattern)


def defined_names(archive):
    """Returns the public names: those without jemalloc's prefix for private ones."""
    lines = run(["nm", "--defined-only", archive]).splitlines()
    words = [line.split() for line in lines]
    names = {word[2] for word in words if len(word) == 3 and word[1].isupper()}
    return sorted(name for name in names if not name.startswith(("je_", "DW.ref", "_Z")))


def prefixed_archive(release, prefix):
    """Returns libjemalloc_pic.a with a prefix on all public names, as from configure."""

    def make(path):
        source = Suite(RELEASES[release]).file("libjemalloc-dev", "**/libjemalloc_pic.a")
        shutil.copy(source, path)
        members = run(["ar", "t", path]).split()
        run(["ar", "d", path] + [name for name in members if "_cpp." in name])
        names = ["%s %s%s" % (name, prefix, name) for name in defined_names(path)]
        names.append("__isoc23_strtol strtol")  # a symbol of a newer C library
        with open(path + ".names", "w") as file:
            file.write("\n".join(names) + "\n")
        run(["objcopy", "--redefine-syms", path + ".names", path])
        os.unlink(path + ".names")

    return once("archives/%s-%s.a" % (release, prefix.strip("_")), make)


def linked_in(release, prefix, kind, stripped):
    """Returns a program with jemalloc linked in, under a prefix."""

    def make(path):
        words = ["-DSUBJECT_PREFIX=" + prefix] + KINDS[kind]
        if kind != "non-pie":
            words.append("-DSUBJECT_STATIC")
        words += [prefixed_archive(release, prefix), "-lm", "-lpthread", "-ldl"]
        compile_subject(path, *words)
        if stripped:
            run(["strip", path])

    name = "%s-%s-%s-%s" % (release, prefix.strip("_"), kind, "stripped" if stripped else "whole")
    return subject_once(name, make)


def plain():
    """Returns a program without jemalloc."""
    return subject_once("plain", lambda path: compile_subject(path, "-ldl"))


def linked_shared(release):
    """Returns a program linked with the shared library of a release, found by rpath."""

    def make(path):
        library = shared_library(release)
        rpath = "-Wl,-rpath," + os.path.dirname(library)
        # The library may need symbols of a newer C library, which the link ignores.
        compile_subject(path, "-Wl,--no-as-needed", library, rpath,
                        "-Wl,--allow-shlib-undefined", "-ldl")

    return subject_once("%s-shared" % release, make)


def musl_archive():
    """Returns jemalloc built from source with musl's compiler."""

    def make(path):
        tree = path + ".tree"
        packages.remove(tree)
        shutil.copytree(Suite("bookworm").source("jemalloc"), tree)
        words = ["--disable-cxx", "--disable-shared", "--with-version=" + MUSL_VERSION]
        environment = dict(os.environ, CC="musl-gcc", EXTRA_CFLAGS="-fPIC")
        run(["sh", "./configure"] + words, cwd=tree, env=environment)
        run(["make", "-j2", "lib/libjemalloc.a"], cwd=tree, timeout=1200)
        shutil.move(tree + "/lib/libjemalloc.a", path)
        shutil.rmtree(tree)

    packages.host_program("musl-gcc")
    return once("archives/musl.a", make)


def musl(stripped):
    """Returns a static program with another C library."""

    def make(path):
        words = ["-DSUBJECT_STATIC", "-static", musl_archive(), "-lpthread"]
        compile_subject(path, "-DSUBJECT_PREFIX=", *words, compiler="musl-gcc")
        if stripped:
            run(["strip", path])

    return subject_once("musl-" + ("stripped" if stripped else "whole"), make)


def sid_loader():
    """Returns the dynamic loader and the library directory of a newer C library."""
    suite = Suite("sid")
    loader = suite.file("libc6", "**/ld-linux-x86-64.so.2")
    needed = {package: suite.unpacked(package) for package in ("libgcc-s1", "libstdc++6")}
    folders = [os.path.join(path, LIBRARIES) for path in needed.values()]
    return loader, ":".join([os.path.dirname(loader)] + folders)


def decoy(name, source, *words):
    """Returns a program that has names like jemalloc's, but no jemalloc."""

    def make(path):
        text = path + ".c"
        with open(text, "w") as file:
            file.write(source)
        run(["gcc", "-O1", "-rdynamic", "-o", path, text] + list(words))
        os.unlink(text)

    return once("decoys/" + name, make)


def installed(name):
    return packages.host_program(name)
