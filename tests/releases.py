"""Other releases of jemalloc, as Debian built them: fetched once, unpacked beside the victims.

Nothing is installed and the machine's own apt is not changed: lists, cache and status are files of
a directory in the build tree. A test skips if its release cannot be fetched.
"""

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import unittest

import lib

HOME = os.path.join(os.path.dirname(lib.VICTIMS), "releases")

# 5.3.1 needs a newer C library than stable has: it comes with its own.
SUITES = {"5.2.1": "bullseye", "5.3.0": "bookworm", "5.3.1": "sid"}
PACKAGES = {
    "5.2.1": ("libjemalloc2", "libjemalloc-dev"),
    "5.3.0": ("libjemalloc2", "libjemalloc-dev"),
    "5.3.1": ("libjemalloc2", "libjemalloc-dev", "libc6", "libgcc-s1", "libstdc++6"),
}
LIBRARY = "usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
ARCHIVE = "usr/lib/x86_64-linux-gnu/libjemalloc_pic.a"
PATIENCE = 120


def mirror():
    """Returns the URI of Debian's archive that this machine itself uses."""
    for name in _source_files():
        for line in lib.read_text(name).splitlines():
            found = re.match(r"(?:deb\s+(?:\[[^]]*\]\s*)?|URIs:\s*)(\S+)", line)
            if found and re.search(r"/debian/?$", found[1]):
                return found[1]
    raise unittest.SkipTest("this machine's apt sources name no Debian archive")


def _source_files():
    base = "/etc/apt/sources.list.d"
    names = ["/etc/apt/sources.list"]
    with contextlib.suppress(OSError):
        names += [os.path.join(base, name) for name in sorted(os.listdir(base))]
    return [name for name in names if os.access(name, os.R_OK)]


def _apt_options(where, suite, kind="deb"):
    sources = os.path.join(where, "sources.list")
    os.makedirs(os.path.join(where, "lists", "partial"), exist_ok=True)
    os.makedirs(os.path.join(where, "cache", "archives", "partial"), exist_ok=True)
    with open(sources, "w") as file:
        file.write("%s [trusted=yes] %s %s main\n" % (kind, mirror(), suite))
    with open(os.path.join(where, "status"), "w"):
        pass
    settings = {
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "-",
        "Dir::State::Lists": os.path.join(where, "lists"),
        "Dir::State::status": os.path.join(where, "status"),
        "Dir::Cache": os.path.join(where, "cache"),
        "APT::Sandbox::User": "root",
        "APT::Architecture": "amd64",
        "APT::Architectures": "amd64",
        "Acquire::Languages": "none",
        "Acquire::Check-Valid-Until": "false",
    }
    return [word for item in settings.items() for word in ("-o", "%s=%s" % item)]


def run(argv, where, patience=PATIENCE, env=None):
    """Runs a command that must succeed; otherwise the test skips, with its last line."""
    done = subprocess.run(
        argv, cwd=where, stdin=subprocess.DEVNULL, capture_output=True, timeout=patience, env=env
    )
    if done.returncode:
        last = (done.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
        raise unittest.SkipTest("%s cannot be had: %s" % (" ".join(argv[-2:]), last))


def fetch(name, suite, packages):
    """Returns the directory with the packages of a suite unpacked into `root`, made at the first
    use."""
    where = os.path.join(HOME, name)
    done = os.path.join(where, "done")
    os.makedirs(where, exist_ok=True)
    with open(os.path.join(where, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(done):
            options = _apt_options(where, suite)
            run(["apt-get", "-q"] + options + ["update"], where)
            run(["apt-get", "-q"] + options + ["download"] + list(packages), where)
            for file in sorted(os.listdir(where)):
                if file.endswith(".deb"):
                    run(["dpkg", "-x", file, "root"], where)
            with open(done, "w"):
                pass
    return os.path.join(where, "root")


def release(version):
    """Returns the directory with the unpacked packages of a release of jemalloc."""
    return fetch(version, SUITES[version], PACKAGES[version])


def command(version, argv):
    """Returns the command line and the environment that run `argv` with that shared jemalloc."""
    root = release(version)
    library = os.path.join(root, LIBRARY)
    if version != "5.3.1":
        return argv, {"LD_PRELOAD": library}
    return loader_of(root) + ["--preload", library] + argv, {}


def loader_of(root):
    """Returns the command that runs a program with the C library of unpacked packages."""
    directories = ":".join(
        os.path.join(root, name) for name in ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu")
    )
    for name in ("usr/lib64/ld-linux-x86-64.so.2", "usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
                 "lib64/ld-linux-x86-64.so.2"):
        loader = os.path.join(root, name)
        if os.path.exists(loader):
            return [loader, "--library-path", directories]
    raise unittest.SkipTest("libc6 has no dynamic loader where it was")


def output(argv):
    """Returns what a command that must succeed prints."""
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def public_names(archive):
    """Returns the names of jemalloc(3); internal ones begin with je_ and are not changed."""
    listed = output(["nm", "-g", "--defined-only", archive])
    names = {line.split()[-1] for line in listed.splitlines() if len(line.split()) == 3}
    return sorted(name for name in names if not name.startswith(("je_", "_Z")))


def static_program(version, name="allocator", prefix="_rjem_"):
    """Returns the path of tests/victims/NAME.c, static, with that release under a prefix.
    Renaming symbols does not rename the variable: it reads MALLOC_CONF."""
    archive = os.path.join(release(version), ARCHIVE)
    where = os.path.join(HOME, version, "static-%s" % prefix)
    program = os.path.join(where, name)
    os.makedirs(where, exist_ok=True)
    with open(os.path.join(where, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        source = os.path.join(lib.ROOT, "tests", "victims", name + ".c")
        if not os.path.exists(program) or os.path.getmtime(program) < os.path.getmtime(source):
            _link_static(archive, prefix, where, program)
    return program


def _link_static(archive, prefix, where, program):
    renamed = os.path.join(where, "jemalloc.a")
    names = os.path.join(where, "names")
    with open(names, "w") as file:
        for name in public_names(archive):
            file.write("%s %s%s\n" % (name, prefix, name))
        file.write("__isoc23_strtol strtol\n")  # a newer C library's name for it
    run(["objcopy", "--redefine-syms=" + names, archive, renamed], where)
    for member in output(["ar", "t", renamed]).split():
        if "cpp" in member:
            run(["ar", "d", renamed, member], where)
    victims = os.path.join(lib.ROOT, "tests", "victims")
    sources = [os.path.join(victims, os.path.basename(program) + ".c")]
    sources += [os.path.join(victims, "filter.c"), renamed]
    words = ["cc", "-O1", "-D_GNU_SOURCE", "-DPREFIX=" + prefix] + sources
    run(words + ["-static-pie", "-fPIE", "-pthread", "-lm", "-o", program + ".new"], where)
    os.rename(program + ".new", program)


def once(path, make, source=None):
    """Returns the path, after make(another path) at its first use, or when its source is newer."""
    with open(path + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(path) or (
                source and os.path.getmtime(path) < os.path.getmtime(source)):
            shutil.rmtree(path + ".new", True)
            make(path + ".new")
            os.rename(path + ".new", path)
    return path


def stripped(path):
    """Returns the path of a copy of a program or a library without symbols."""
    strip = lambda new: run(["strip", "-o", new, path], os.path.dirname(path))
    return once(path + ".stripped", strip, path)


# ---- from source, for builds that Debian does not have: 90 s each, kept ----

# 5.1.0 and 5.2.1 are part of redis, whose own changes to them depend on a macro of redis alone.
SOURCES = {
    "5.3.1": ("sid", "jemalloc", "*"),
    "5.3.0": ("bookworm", "jemalloc", "*"),
    "5.2.1": ("bookworm", "redis", "*/deps/jemalloc"),
    "5.1.0": ("bullseye", "redis", "*/deps/jemalloc"),
}


def built(version, *flags):
    """Returns the path of a shared jemalloc of that version, configured with these flags."""
    where = os.path.join(HOME, "%s%s" % (version, "".join(flags)))
    library = os.path.join(where, "libjemalloc.so.2")
    os.makedirs(where, exist_ok=True)
    with open(os.path.join(where, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(library):
            tree = os.path.join(where, "tree")
            shutil.rmtree(tree, True)
            shutil.copytree(source(version), tree, symlinks=True)
            number = "--with-version=%s-0-g0" % version
            run(["sh", "./configure", "--enable-prof", number] + list(flags), tree, 300)
            run(["make", "-j2", "lib/libjemalloc.so.2"], tree, 900)
            os.rename(os.path.join(tree, "lib", "libjemalloc.so.2"), library)
            shutil.rmtree(tree)
    return library


def source(version):
    """Returns the directory with the source of a release, ready to be configured."""
    where = os.path.join(HOME, "source-" + version)
    os.makedirs(where, exist_ok=True)
    with open(os.path.join(where, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(os.path.join(where, "done")):
            tree = _fetch_source(version, where)
            if not os.path.exists(os.path.join(tree, "configure")):
                run(["autoconf"], tree)
            with open(os.path.join(where, "done"), "w") as file:
                file.write(tree)
    with open(os.path.join(where, "done")) as file:
        return file.read()


def _fetch_source(version, where):
    suite, package, pattern = SOURCES[version]
    options = _apt_options(where, suite, "deb-src")
    run(["apt-get", "-q"] + options + ["update"], where)
    run(["apt-get", "-q"] + options + ["source", "--download-only", package], where)
    for name in sorted(os.listdir(where)):
        if ".orig.tar." in name:
            run(["tar", "xf", name, "--wildcards", pattern], where)
    for root, _, files in os.walk(where):
        if "configure.ac" in files and "jemalloc.pc.in" in files:
            return root
    raise unittest.SkipTest("the source of jemalloc %s is not where it was" % version)
