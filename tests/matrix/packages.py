"""Debian packages of any suite, and npm packages, unpacked into a cache without use of the
machine's package management."""

import fcntl
import glob
import os
import shutil
import subprocess
import tarfile
import time
import unittest

ARCHITECTURE = "amd64"
PATIENCE = 240  # seconds: timeout of one download
FORGET = 900  # seconds after which a failed download is retried


def cache():
    """Returns the directory that keeps fixtures between runs, in the build directory."""
    path = os.environ.get("JEATTACH_MATRIX")
    if not path:
        raise unittest.SkipTest("JEATTACH_MATRIX names no directory for fixtures")
    os.makedirs(path, exist_ok=True)
    return path


class Unavailable(unittest.SkipTest):
    """Something that the test needs is not available here."""


def run(argv, **options):
    """Runs a command that must succeed. Otherwise its last line is the reason of the error."""
    options.setdefault("timeout", PATIENCE)
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, **options
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(str(error)) from error
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines() or ["no message"]
        raise Unavailable("%s: %s" % (os.path.basename(argv[0]), lines[-1]))
    return done.stdout


def once(name, make):
    """Returns the path `name` in the cache, created by make(path) if it is absent. Waits for
    another process that creates it at the same time."""
    path = os.path.join(cache(), name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if os.path.exists(path):
            return path
        refuse_again(path + ".failed")
        unfinished = path + ".unfinished"
        remove(unfinished)
        try:
            make(unfinished)
        except BaseException as error:
            remove(unfinished)
            if isinstance(error, Unavailable):
                with open(path + ".failed", "w") as file:
                    file.write(str(error))
            raise
        os.rename(unfinished, path)
    return path


def refuse_again(failed):
    """Raises Unavailable if the same download failed a moment ago: without a network each of many
    cells would time out."""
    try:
        age = time.time() - os.stat(failed).st_mtime
        with open(failed) as file:
            reason = file.read()
    except OSError:
        return
    if age < FORGET:
        raise Unavailable(reason)
    remove(failed)


def remove(path):
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def mirror():
    """Returns the archive of the machine's apt sources."""
    listed = run(["apt-get", "indextargets", "--format", "$(COMPONENT) $(RELEASE) $(REPO_URI)"])
    for line in sorted(listed.splitlines()):
        component, release, uri = line.split(None, 2)
        if component == "main" and "-" not in release:
            return uri
    raise Unavailable("apt knows no archive: run apt-get update")


class Suite:
    """One suite of the archive, with its own package lists."""

    def __init__(self, name):
        self.name = name

    def _options(self, directory):
        settings = {
            "Dir::Etc::sourcelist": directory + "/sources.list",
            "Dir::Etc::sourceparts": "-",
            "Dir::State::Lists": directory + "/lists",
            "Dir::State::status": directory + "/status",
            "Dir::Cache": directory + "/cache",
            "APT::Architecture": ARCHITECTURE,
            "APT::Architectures": ARCHITECTURE,
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
            "APT::Update::Error-Mode": "any",
            "Acquire::Check-Valid-Until": "false",
            "Acquire::Retries": "1",
            "Acquire::http::Timeout": "30",
            "Debug::NoLocking": "true",
        }
        return [word for item in settings.items() for word in ("-o", "%s=%s" % item)]

    def _update(self, directory):
        for name in ("lists/partial", "cache/archives/partial"):
            os.makedirs(os.path.join(directory, name))
        with open(directory + "/status", "w"):
            pass
        with open(directory + "/sources.list", "w") as file:
            file.write("deb %s %s main\n" % (mirror(), self.name))
            file.write("deb-src %s %s main\n" % (mirror(), self.name))
        run(["apt-get", "-q"] + self._options(directory) + ["update"])
        if not glob.glob(directory + "/lists/*_Packages*"):
            raise Unavailable("no list of packages of %s can be had" % self.name)

    def _fetch(self, package, directory):
        lists = once("lists/" + self.name, self._update)
        os.makedirs(directory)
        run(["apt-get", "-q"] + self._options(lists) + ["download", package], cwd=directory)
        (archive,) = glob.glob(directory + "/*.deb")
        run(["dpkg", "-x", archive, directory])
        os.unlink(archive)

    def _fetch_source(self, package, directory):
        lists = once("lists/" + self.name, self._update)
        os.makedirs(directory)
        words = ["source", "--download-only", package]
        run(["apt-get", "-q"] + self._options(lists) + words, cwd=directory)
        (archive,) = glob.glob(directory + "/*.orig.tar.*z*")
        run(["tar", "-xf", archive, "--strip-components=1"], cwd=directory)

    def source(self, package):
        """Returns the directory of a package's upstream source."""
        return once(
            "source/%s/%s" % (self.name, package), lambda path: self._fetch_source(package, path)
        )

    def unpacked(self, package):
        """Returns the directory with the files of a package."""
        return once(
            "debian/%s/%s" % (self.name, package), lambda path: self._fetch(package, path)
        )

    def file(self, package, pattern):
        """Returns the path of one file of a package."""
        found = glob.glob(os.path.join(self.unpacked(package), pattern), recursive=True)
        found = [path for path in found if not os.path.islink(path)]
        if not found:
            raise Unavailable("%s of %s has no %s" % (package, self.name, pattern))
        return found[0]


def npm_unpacked(package):
    """Returns the directory of an npm package, without its dependencies."""

    def fetch(directory):
        os.makedirs(directory)
        words = ["--silent", "--fetch-retries=1", "--fetch-timeout=60000"]
        run(["npm", "pack"] + words + [package], cwd=directory)
        (archive,) = glob.glob(directory + "/*.tgz")
        with tarfile.open(archive) as tar:
            tar.extractall(directory)
        os.unlink(archive)

    if not shutil.which("npm"):
        raise Unavailable("npm is not installed")
    name = package.replace("/", "_").lstrip("@")
    return os.path.join(once("npm/" + name, fetch), "package")


def host_program(name):
    """Returns the path of a program of this machine."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not path:
        raise Unavailable("%s is not installed" % name)
    return path
