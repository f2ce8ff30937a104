"""Rules of the sources, checked by reading them.

opens: a file whose path a target can influence is opened by host/inroot.c, and an output by
run/outfile.c. Every other call that takes a path is listed here, with the reason why no target
chooses the file; a new one fails until it has a reason.
"""

import collections
import os
import re
import unittest

ROOT = os.environ.get("JEATTACH_SOURCES",
                      os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = ("base", "host", "attach", "elf", "inject", "jemalloc", "profile", "perf", "contents",
           "run", "cli")
TAKES_PATH = (
    r"open|open64|openat|openat64|creat|fopen|fopen64|freopen|opendir|scandir|scandirat|ftw|nftw|"
    r"fts_open|glob|readlink|readlinkat|l?stat|fstatat|statx|access|faccessat|eaccess|euidaccess|"
    r"mkdir|mkdirat|mkdtemp|mko?stemps?|mknod|mknodat|mkfifo|mkfifoat|rename|renameat|renameat2|"
    r"unlink|unlinkat|rmdir|remove|link|linkat|symlink|symlinkat|connect|bind|chdir|chroot|"
    r"realpath|canonicalize_file_name|truncate|chmod|fchmodat|l?chown|fchownat|utimensat|utimes?|"
    r"inotify_add_watch|fanotify_mark|name_to_handle_at|statfs|statvfs|pathconf|mount|umount2?|"
    r"pivot_root|acct|exec[lv]p?e?|execvpe|execveat|fexecve|posix_spawnp?|dlopen|dlmopen|system|"
    r"popen|tmpfile|tmpnam|tempnam|shm_open|mq_open|sem_open|getxattr|lgetxattr|elf_begin|"
    r"dwfl_\w+"
)
CALL = re.compile(r"(?<![\w.>])(?<!struct )(?:(%s)\s*\(|syscall\s*\(\s*(SYS_(?:open|exec|link|unlink|"
                  r"rename|stat|readlink|connect)\w*))" % TAKES_PATH)
OWN = "a path of the tool's own, or of the operator's"
KERNEL = "a file of the kernel's, in /proc or below the directory of a cgroup"

# (file, function): how often, and why no target chooses the file.
ALLOWED = {
    ("host/inroot.c", "*"): (None, "opens the files that a target may have placed"),
    ("run/outfile.c", "*"): (None, "opens the outputs"),
    ("base/library.h", "dlopen"): (1, "a library of the tool's, by its name"),
    ("host/procfs.c", "open"): (1, "/proc itself"),
    ("host/procfs.c", "openat"): (1, "below /proc; test_procfs checks the names"),
    ("host/procfs.c", "readlinkat"): (1, "a link of /proc is read, not followed"),
    ("attach/permit.c", "fstatat"): (1, "an entry of /proc, not followed"),
    ("attach/target_paths.c", "stat"): (1, "the tool's own root directory"),
    ("attach/target_paths.c", "fstatat"): (1, "the target's root: nothing is opened"),
    ("attach/target_paths.c", "readlinkat"): (1, "in a directory of inroot_name, not followed"),
    ("host/cgroup.c", "faccessat"): (1, "\".\" of a directory from group_name"),
    ("host/processes.c", "open"): (2, OWN + ": --cgroup, and /sys/fs/cgroup"),
    ("host/processes.c", "openat"): (4, KERNEL),
    ("host/processes.c", "SYS_openat2"): (1, KERNEL),
    ("host/processes.c", "faccessat"): (1, KERNEL),
    ("host/confined.c", "open"): (2, "/dev/null; /proc/PID/statm"),
    ("host/confined.c", "opendir"): (1, "/proc/self/fd, of the child"),
    ("elf/modulefile.c", "open"): (1, "the tool's own root directory"),
    ("profile/symbols/module_files.c", "open"): (2, OWN + ": --exe, --root; below it, inroot_name"),
    ("cli/verbs/report.c", "open"): (3, OWN + "; below /proc/PID/root, inroot_name"),
    ("cli/verbs/report.c", "stat"): (1, OWN + ": a pipe is not opened twice"),
    ("cli/operand.c", "open"): (2, OWN + "; /proc/self/fd/N, which is that file"),
    ("cli/main.c", "open"): (1, "/dev/null"),
    ("cli/main.c", "access"): (1, OWN + ": for a message"),
    ("host/spool.c", "open"): (1, "a file without a name (O_TMPFILE) in TMPDIR, /var/tmp, /tmp"),
    ("run/core_file.c", "open"): (3, OWN + ": --core, --root, --exe; below --root, inroot_name"),
    ("run/watch.c", "stat"): (1, "-o, for an error message; outfile_find decides"),
    ("run/filename.c", "stat"): (1, "-o, to choose a name in it; outfile_find decides"),
    ("run/graphviz.c", "access"): (1, OWN + ": PATH"),
    ("run/command.c", "posix_spawn"): (1, OWN + ": /bin/sh, and dot of PATH"),
    ("run/command.c", "open"): (1, "/dev/null"),
    ("run/interrupt.c", "openat"): (1, "a new file (O_EXCL) in a directory of outfile_find"),
    ("run/interrupt.c", "unlinkat"): (1, "that file"),
    ("run/output.c", "open"): (1, "/proc/self/fd/N: the file that outfile_find found"),
    ("run/output.c", "fstatat"): (1, "the file that outfile_find found, for its mode"),
    ("run/output.c", "openat"): (1, "a new file (O_EXCL) within a directory of outfile_find"),
    ("run/output.c", "renameat"): (2, "within a directory of outfile_find"),
    ("run/output.c", "renameat2"): (1, "within a directory of outfile_find"),
    ("run/output.c", "linkat"): (1, "within a directory of outfile_find"),
    ("run/output.c", "unlinkat"): (3, "a file that it created, within a directory of outfile_find"),
    ("run/keep.c", "fstatat"): (1, "in a directory of outfile_directory, not followed"),
    ("run/keep.c", "unlinkat"): (1, "a file of this user, in a directory of outfile_directory"),
}
# Links of /proc/PID that lead out of /proc: opened by O_PATH or read as text, never followed.
LEADS_OUT = re.compile(r"(?:^|/)(?:root|cwd|exe|map_files|fd|ns)(?:/|$|%)|^%s")
PROCFS_CALL = re.compile(
    r"\bprocfs_(read|slurp|openf)\s*\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)"
)
PROCFS_ALLOWED = {
    ("host/cgroup.c", "%s/cgroup"): "an entry of /proc: a number, or \"self\"",
    ("host/cgroup.c", "%s/mountinfo"): "an entry of /proc: a number, or \"self\"",
    ("host/task.c", "%s/stat"): "an entry of /proc: numbers, or \"self\"",
    ("host/task.c", "%s/status"): "an entry of /proc: numbers, or \"self\"",
    ("host/rights.c", "%s/attr/current"): "an entry of /proc: a number, or \"self\"",
    ("attach/permit.c", "self/root/sys/kernel/security/lsm"): "the tool's own root",
    ("perf/refusal.c", "self/root/sys/kernel/security/lsm"): "the tool's own root",
    ("perf/refusal.c", "self/root/sys/kernel/security/lockdown"): "the tool's own root",
    ("host/rights.c", "self/root/sys/fs/selinux/enforce"): "the tool's own root",
    ("host/namespaces.c", "self/ns/mnt"): "a file of nsfs, which no process can replace",
    ("host/namespaces.c", "%d/ns/mnt"): "a file of nsfs, which no process can replace",
    ("host/namespaces.c", "self/ns/user"): "a file of nsfs, which no process can replace",
    ("host/namespaces.c", "%d/ns/user"): "a file of nsfs, which no process can replace",
}


def sources():
    for folder in FOLDERS:
        for at, _, names in sorted(os.walk(os.path.join(ROOT, folder))):
            for name in sorted(names):
                if name.endswith((".c", ".h")):
                    path = os.path.join(at, name)
                    with open(path) as file:
                        yield os.path.relpath(path, ROOT), file.read()


def without_comments(text, strings=True):
    """Returns the code without comments, with the same line numbers; without its strings if
    `strings` is false."""
    def blank(match):
        word = match.group(0)
        if word[0] in "\"'" and strings:
            return word
        return re.sub(r"[^\n]", " ", word) if word[0] == "/" else '""'

    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text,
                  flags=re.S)


def calls(text):
    """Yields function and line of each call that takes a path."""
    code = without_comments(text, strings=False)
    for match in CALL.finditer(code):
        yield match.group(1) or match.group(2), code.count("\n", 0, match.start()) + 1


class Opens(unittest.TestCase):
    def test_opens(self):
        found, wrong = collections.defaultdict(list), []
        for path, text in sources():
            for function, line in calls(text):
                found[path, function].append(line)
        for (path, function), lines in sorted(found.items()):
            allowed, _ = ALLOWED.get((path, function), ALLOWED.get((path, "*"), (0, "")))
            if allowed is not None and len(lines) != allowed:
                wrong.append("%s: %s() in line %s, %d allowed"
                             % (path, function, ", ".join(map(str, lines)), allowed))
        for path, function in ALLOWED:
            if function != "*" and (path, function) not in found:
                wrong.append("%s: no %s() any more: take it off the list" % (path, function))
        self.assertEqual(wrong, [], "\n".join(["", *wrong, "Open it with host/inroot.h or "
                                               "run/outfile.h, or give the reason in ALLOWED."]))

    def test_procfs(self):
        """Nothing is opened through a link of /proc/PID that leads to a file of the target."""
        wrong, unused = [], set(PROCFS_ALLOWED)
        for path, text in sources():
            for match in PROCFS_CALL.finditer(without_comments(text)):
                strings = re.findall(r'"((?:\\.|[^"\\])*)"', match.group(2))
                if not strings or not LEADS_OUT.search(strings[0]):
                    continue
                if match.group(1) == "openf" and re.search(r"\bO_PATH\b", match.group(2)):
                    continue
                unused.discard((path, strings[0]))
                if (path, strings[0]) not in PROCFS_ALLOWED:
                    wrong.append("%s: procfs_%s of \"%s\"" % (path, match.group(1), strings[0]))
        self.assertEqual(wrong, [])
        self.assertEqual(unused, set())

    def test_it_finds_them(self):
        """The rule finds such calls, and no others."""
        seen = {
            'int fd = open(path, O_RDONLY);': ["open"],
            'fd = syscall(SYS_openat2, root, path, &how, sizeof how);': ["SYS_openat2"],
            'if (stat(a, &b) || lstat(c, &d))': ["stat", "lstat"],
            'file = fopen\n    (name, "r");': ["fopen"],
            'file = fopen (name, "r");': ["fopen"],
            '/* open(2) */ x = "open(path)"; fstat(fd, &st); fdopen(fd, "r");': [],
            'static const long calls[] = {SYS_openat, SYS_openat2};': [],
            'options->open(ctx, mapping); regular_open(fd); struct stat st;': [],
        }
        for text, wanted in seen.items():
            with self.subTest(text):
                self.assertEqual([function for function, _ in calls(text)], wanted)
        match = PROCFS_CALL.search('procfs_read(proc, text, sizeof text, "%d/root%s", pid, path)')
        self.assertTrue(LEADS_OUT.search(re.search('"(.*)"', match.group(2)).group(1)))


if __name__ == "__main__":
    unittest.main()
