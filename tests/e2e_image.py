"""The Containerfile: its packages, the files of its image, and that these are sufficient."""

import json
import os
import re
import shlex
import shutil
import subprocess

import lib
import releases

CONTAINERFILE = os.path.join(lib.ROOT, "Containerfile")
IMAGE_ROOT = os.path.join(lib.ROOT, "packaging", "image-root")
LARGEST = 8 << 20  # bytes; docs/containers.md has the size on Debian 12
SANITIZED = "ASAN_OPTIONS" in os.environ
IN_IMAGE = 'mount --rbind /proc "$0/proc" && exec chroot "$0" /usr/bin/jeattach "$@"'


def instructions():
    with open(CONTAINERFILE) as file:
        lines = [line for line in file if not line.startswith("#")]
    text = "".join(lines).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


def installed_by(text):
    """Returns the packages of the apt-get install in a text."""
    words = re.search(r"apt-get install (?!\./)(.*?)(&&|```|\ncmake)", text, re.S)[1]
    return {word for word in words.replace("\\", " ").split() if not word.startswith("-")}


class Containerfile(lib.TestCase):
    def test_instructions(self):
        rows = instructions()
        self.assertEqual([name for name, _ in rows],
                         "FROM RUN WORKDIR COPY RUN FROM COPY ENV ENTRYPOINT CMD".split())
        for name, text in rows:
            with self.subTest(name=name, text=text):
                if name == "RUN":
                    checked = subprocess.run(["sh", "-n", "-c", text], capture_output=True)
                    self.assertEqual(checked.returncode, 0, checked.stderr)
                if name in ("ENTRYPOINT", "CMD"):
                    self.assertIsInstance(json.loads(text), list)
        self.assertEqual(rows[5], ("FROM", "scratch"))
        self.assertEqual(rows[0][1].split()[1:], ["AS", "build"])
        self.assertIn("--from=build /image /", rows[6][1])
        self.assertTrue(os.access(IMAGE_ROOT, os.X_OK))

    def test_packages(self):
        """They are the packages that README.md lists for a build."""
        with open(os.path.join(lib.ROOT, "README.md")) as file:
            readme = installed_by(file.read())
        image = installed_by(dict(instructions()[1:2])["RUN"])
        self.assertEqual(image, readme)


class Image(lib.TestCase):
    """The files of the final stage, made by the same script from the program under test."""

    def make(self):
        root = os.path.join(self.directory(), "image")
        made = subprocess.run(["sh", IMAGE_ROOT, root, lib.TOOL], capture_output=True, text=True)
        if "is not installed" in made.stderr:
            self.skipTest(made.stderr.strip())
        self.assertEqual(made.returncode, 0, made.stderr)
        return root

    def run_inside(self, root, *words):
        lib.require_root()
        for program in ("unshare", "chroot"):
            if not shutil.which(program):
                self.skipTest("%s is not installed" % program)
        argv = ["unshare", "-m", "sh", "-c", IN_IMAGE, root, *words]
        result = lib.run_tool(*argv[1:], tool=argv[0])
        if result.code and "unshare" in result.err:
            self.skipTest("no mount namespaces: %s" % result.err)
        return result

    def test_files(self):
        """Programs and libraries, each with all of its libraries; nothing else."""
        root = self.make()
        names, size = set(), 0
        for folder, _, files in os.walk(root):
            for name in files:
                names.add(name)
                size += os.path.getsize(os.path.join(folder, name))
        self.assertIn("jeattach", names)
        for name in names - {"jeattach", "sleep", "cat", "rm"}:
            self.assertRegex(name, r"^(lib|ld-)[a-z0-9_+-]+\.so(\.|$)")
        self.assertTrue({"libunwind-ptrace.so.0", "libdw.so.1", "libz.so.1", "libzstd.so.1"} <= names, names)
        if not SANITIZED:
            self.assertLess(size, LARGEST)

    def test_it_is_enough(self):
        """On a process outside: names, lines and pprof's format need all libraries."""
        root = self.make()
        victim = self.victim()
        answer = json.loads(self.assert_ran(self.run_inside(root, "status", str(victim.pid),
                                                            "--json")).out)
        self.assertEqual(answer["pid"], victim.pid)
        self.assert_ran(self.run_inside(root, "on", str(victim.pid)))
        victim.wait_rounds(2)
        profile = self.assert_ran(self.run_inside(root, "dump", str(victim.pid), "-o", "-",
                                                  "-f", "pprof"))
        self.assertEqual(profile.out[:2], b"\x1f\x8b")
        self.assert_unharmed(victim, slow=True)


class Build(lib.TestCase):
    """Builds the image by podman, on a base that is made here: no registry is needed."""

    def test_build(self):
        lib.require_root()
        for program in ("podman", "mmdebstrap"):
            if not shutil.which(program):
                self.skipTest("%s is not installed" % program)
        base = os.path.join(self.directory(), "base.tar")
        told = subprocess.run(["apt-config", "dump"], capture_output=True, text=True).stdout
        proxies = ["--aptopt=" + row for row in told.splitlines() if row.startswith("Acquire::http")]
        self.run_or_skip("mmdebstrap", "--variant=apt", *proxies, "bookworm", base,
                         releases.mirror())
        name = "debian:bookworm-slim"
        podman = ["podman", "--cgroup-manager=cgroupfs", "--root", self.directory(),
                  "--runroot", self.directory(), "--storage-driver=vfs", "--runtime=runc"]
        self.run_or_skip(*podman, "import", base, name)
        built = subprocess.run([*podman, "build", "--pull=never", "--network=host", "--isolation=chroot",
                                "-t", "jeattach", lib.ROOT], capture_output=True, text=True)
        self.assertEqual(built.returncode, 0, built.stderr[-3000:])
        told = subprocess.run([*podman, "image", "inspect", "--format", "{{.Size}}", "jeattach"],
                              capture_output=True, text=True, check=True)
        print("the image has %s bytes" % told.stdout.strip())
        self.assertLess(int(told.stdout), LARGEST)

    def run_or_skip(self, *argv):
        done = subprocess.run(argv, capture_output=True, text=True)
        if done.returncode:
            self.skipTest("%s: %s" % (shlex.join(argv[:2]), done.stderr[-300:]))


if __name__ == "__main__":
    lib.main()
