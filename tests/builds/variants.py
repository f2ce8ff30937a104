"""jemalloc as Debian built it, and rebuilt from Debian's source packages in other configurations.

    variants.py NAME...    builds these, which are then in the cache, and prints their directories

Debian's libraries and the rebuilt ones stay in the build tree (releases.HOME). A rebuilt one takes
a minute; several cells share it.
"""

import dataclasses
import fcntl
import glob
import os
import shutil
import subprocess
import sys
import typing

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import releases  # noqa: E402

PATIENCE = 1200  # seconds for one build, beside others

# Names that are no prefix and a known name. The program is compiled to use them.
MANGLED = {"malloc": "acquire", "free": "dispose", "mallctl": "control",
           "malloc_stats_print": "describe"}


@dataclasses.dataclass(frozen=True)
class Variant:
    """A configuration of jemalloc. cells: what a test has to know of it."""

    configure: typing.Tuple[str, ...] = ()
    compiler: str = "gcc"
    cflags: str = ""
    prefix: str = ""  # of the public names
    mangled: bool = False
    exported: bool = True  # the shared library has public names
    stats: bool = True
    unwinder: str = "libgcc"
    number: str = ""  # the version that it claims, if it is not its own
    since: str = "5.2.1"


ZERO = "0.0.0-0-g" + 40 * "0"
MANGLING = ",".join("%s:%s" % pair for pair in MANGLED.items())
VARIANTS = {
    "plain": Variant(),
    "nostats": Variant(("--disable-stats",), stats=False),
    "debug": Variant(("--enable-debug",)),
    "page16": Variant(("--with-lg-page=16",)),
    "libunwind": Variant(("--enable-prof-libunwind",), unwinder="libunwind"),
    "frameptr": Variant(("--enable-prof-frameptr",), unwinder="frameptr", since="5.3.1"),
    "namespace": Variant(("--with-private-namespace=own_",)),
    "mangled": Variant(("--with-mangling=" + MANGLING, "--disable-cxx"), mangled=True),
    "prefixed": Variant(("--with-jemalloc-prefix=je_",), prefix="je_"),
    "unexported": Variant(("--without-export", "--with-jemalloc-prefix=je_"), prefix="je_",
                          exported=False),
    "clang": Variant(compiler="clang"),
    "lto": Variant(("--with-jemalloc-prefix=je_",), cflags="-flto", prefix="je_"),
    "unversioned": Variant(number=ZERO),
    "unversioned-nostats": Variant(("--disable-stats",), stats=False, number=ZERO),
}
RELEASES = ("5.2.1", "5.3.0", "5.3.1")

# Debian's own: name, suite, release, and what a newer C library needs.
NEWER = ("libc6", "libgcc-s1", "libstdc++6")
DEBIAN = {
    "debian-bullseye": ("bullseye", "5.2.1", ()),
    "debian-bookworm": ("bookworm", "5.3.0", ()),
    "debian-trixie": ("trixie", "5.3.0", NEWER),
    "debian-sid": ("sid", "5.3.1", NEWER),
}


@dataclasses.dataclass
class Build:
    """One jemalloc on disk. root: of the packages with the C library that it needs, or none."""

    name: str
    release: str
    variant: Variant
    library: str
    archive: str
    root: str = ""


def _number(text):
    return tuple(int(part) for part in text.split("."))


def names():
    """Returns the names of all builds: Debian's, then RELEASE-VARIANT."""
    rebuilt = ["%s-%s" % (release, name) for name, variant in VARIANTS.items()
               for release in RELEASES if _number(release) >= _number(variant.since)]
    return list(DEBIAN) + rebuilt


def build_of(name):
    """Returns the build of that name, made at its first use; a skip if it is not available."""
    if name in DEBIAN:
        return _debian(name)
    release, _, variant = name.partition("-")
    directory = _rebuilt(release, variant)
    return Build(name, release, VARIANTS[variant], os.path.join(directory, "libjemalloc.so.2"),
                 os.path.join(directory, "libjemalloc_pic.a"))


def _debian(name):
    suite, release, newer = DEBIAN[name]
    if suite == releases.SUITES.get(release):
        root = releases.release(release)
    else:
        root = releases.fetch(suite, suite, ("libjemalloc2", "libjemalloc-dev") + newer)
    return Build(name, release, Variant(), os.path.join(root, releases.LIBRARY),
                 os.path.join(root, releases.ARCHIVE), root if newer else "")


def _rebuilt(release, variant):
    """Returns the directory with the shared library and the archive of a rebuilt jemalloc."""
    where = os.path.join(releases.HOME, "rebuilt", "%s-%s" % (release, variant))
    done = os.path.join(where, "libjemalloc_pic.a")
    os.makedirs(where, exist_ok=True)
    with open(os.path.join(where, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(done):
            tree = os.path.join(where, "tree")
            shutil.rmtree(tree, True)
            shutil.copytree(releases.source(release), tree, symlinks=True)
            _compile(tree, release, VARIANTS[variant])
            for made in ("libjemalloc.so.2", "libjemalloc_pic.a"):
                shutil.move(os.path.join(tree, "lib", made), os.path.join(where, made))
            shutil.rmtree(tree)
    return where


def _compile(tree, release, variant):
    launcher = os.environ.get("CMAKE_C_COMPILER_LAUNCHER", "")
    settings = dict(os.environ, CC=("%s %s" % (launcher, variant.compiler)).strip(),
                    EXTRA_CFLAGS=("-g0 -fcommon -Wno-error " + variant.cflags).strip(),
                    CXX="clang++" if variant.compiler == "clang" else "g++")
    number = variant.number or "%s-0-g%s" % (release, 40 * "1")
    words = ["--enable-prof", "--disable-doc", "--with-version=" + number]
    if variant.cflags:  # the archive's index has no names of such objects without the plugin
        settings.update(AR="gcc-ar", NM="gcc-nm", RANLIB="gcc-ranlib")
    releases.run(["sh", "./configure"] + words + list(variant.configure), tree, PATIENCE, settings)
    targets = ["lib/libjemalloc.so.2", "lib/libjemalloc_pic.a"]
    releases.run(["make", "-j2"] + targets, tree, PATIENCE, settings)


def main():
    for name in sys.argv[1:] or names():
        print(build_of(name).library, flush=True)


if __name__ == "__main__":
    main()
