"""Targets in containers, and sidecars beside them, made with enter.c.

A root holds one program and the libraries that `ldd` lists, nothing else: no shell, no other file.
"""

import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import lib  # noqa: E402

ENTER = os.path.abspath(
    os.environ.get("JEATTACH_ENTER",
                   os.path.join(lib.ROOT, "build", "tests", "containers", "enter"))
)
SYS_PTRACE, CHECKPOINT_RESTORE = 1 << 19, 1 << 40
ENGINE_CAPS = 0xA80425FB  # what container engines leave root
SAMPLE = 12


def closure(program):
    """Returns the paths of the shared libraries and the loader of a program."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(/\S+) \(0x", listed)


def make_root(directory, programs, extra=("proc",)):
    """Fills the directory with programs ({name there: file here}) and their libraries."""
    os.makedirs(directory)
    os.chmod(directory, 0o755)
    for name, source in programs.items():
        put(directory, name, source)
        for library in closure(source):
            put(directory, library, library)
    for name in extra:
        path = os.path.join(directory, name)
        os.makedirs(path, exist_ok=True)
        if name.endswith("tmp"):
            os.chmod(path, 0o1777)
    return directory


def put(root, name, source):
    path = os.path.join(root, name.lstrip("/"))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if not os.path.exists(path):
        shutil.copy(source, path)


class Container(lib.Victim):
    """A victim as the process of a container. `inside` is its pid in that container."""

    def __init__(self, directory, options, prefix="/jeprof", arguments=(), uid=0, bare=False,
                 links=None, group=None):
        self.directory = directory
        self.mode, self.ms = "nanosleep", 20
        self.files_before = None
        self.uid = uid  # on the host
        self.root = make_root(os.path.join(directory, "root"),
                              {"victim": os.path.join(lib.VICTIMS, "victim")},
                              () if bare else ("proc", "tmp"))
        for name, target in (links or {}).items():
            os.symlink(target, os.path.join(self.root, name))
        self.report_path = os.path.join(self.root if bare else directory, "report")
        self._prepare_files(None)
        os.chmod(self.report_path, 0o666)
        handed = os.open(self.report_path, os.O_RDWR)
        report = "/report" if bare else "/proc/self/fd/%d" % handed
        argv = [ENTER, "--root", self.root] + list(options)
        argv += ["/victim", self.mode, report, "--time", str(self.ms)] + list(arguments)
        conf = "prof:true,prof_active:false,lg_prof_sample:%d,prof_prefix:%s" % (SAMPLE, prefix)
        try:
            self.process = subprocess.Popen(
                argv, env={"MALLOC_CONF": conf}, stdin=subprocess.DEVNULL, stderr=self.stderr,
                pass_fds=(handed,), preexec_fn=group and (lambda: group.add(0)))
        finally:
            os.close(handed)
        self.pid = self.process.pid  # of enter.c, until that of its child is known
        try:
            self._wait_ready()
            self.pid = only_child(self.process.pid)
        except BaseException:
            self.stop()
            raise

    @property
    def inside(self):
        return int(lib.status_fields(self.pid)["NSpid"].split()[-1])

    def tree(self):
        """Returns the files in its root except /proc, each with attributes that a write would
        change."""
        found = {}
        top = "/proc/%d/root" % self.pid
        for where, names, files in os.walk(top):
            if where == top and "proc" in names:
                names.remove("proc")
            for name in names + files:
                path = os.path.join(where, name)
                st = os.lstat(path)
                found[path] = (st.st_ino, st.st_mode, st.st_size, st.st_mtime_ns, st.st_ctime_ns)
        for name in ("/report",):
            found.pop(top + name, None)
        return found


def only_child(pid):
    text = lib.read_text("/proc/%d/task/%d/children" % (pid, pid)).split()
    if len(text) != 1:
        raise AssertionError("process %d has the children %s" % (pid, text))
    return int(text[0])


class Sidecar:
    """The tool in a root that holds only the tool, beside one container."""

    def __init__(self, root, container, options):
        self.container = container
        self.prefix = ["--join-pid", container.pid, "--root", root, "--read-only"] + list(options)

    @property
    def target(self):
        return self.container.inside

    def run(self, *words, **options):
        return lib.run_tool(*self.prefix, "/jeattach", *words, tool=ENTER, **options)


class Alone(Sidecar):
    """A sidecar in its own pid namespace, which does not have the container."""

    def __init__(self, root, container):
        super().__init__(root, container, ())
        self.prefix = ["--new-pid", "--root", root, "--read-only"]


class Host:
    """The tool as root of the host, in the host's namespaces."""

    def __init__(self, container):
        self.container = container

    @property
    def target(self):
        return self.container.pid

    def run(self, *words, **options):
        return lib.run_tool(*words, **options)


def sidecar_root(directory, unwinder=True):
    """Returns the tool, its libraries, and the unwinder, which it loads at run time."""
    make_root(directory, {"jeattach": lib.TOOL})
    for library in unwinders() if unwinder else ():
        put(directory, library, library)
    return directory


def unwinders():
    """Returns libunwind-ptrace and its libraries."""
    listed = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True).stdout
    found = re.findall(r"libunwind-(?!ptrace|coredump)\w+\.so\.\d+ .* => (\S+)", listed)
    if not found:
        raise AssertionError("libunwind is not installed")
    return found + closure(found[0])


class TestCase(lib.TestCase):
    def setUp(self):
        lib.require_root()
        if not os.access(ENTER, os.X_OK):
            self.fail("%s is not there" % ENTER)

    def container(self, *options, **settings):
        directory = self.directory()
        container = Container(directory, options, **settings)
        self.addCleanup(container.stop)
        return container

    def sidecar_root(self, **settings):
        return sidecar_root(os.path.join(self.directory(), "sidecar"), **settings)
