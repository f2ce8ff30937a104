"""The image that packaging/build makes, as an archive and as a debug container, and the Containerfile,
which makes the same one."""

import hashlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile

import lib
import releases
from e2e_packaging import artefacts, digest, version

sys.path.insert(0, os.path.join(lib.ROOT, "tests", "containers"))
import boxes  # noqa: E402
from podman import Podman, as_result, make_root  # noqa: E402

CONTAINERFILE = os.path.join(lib.ROOT, "Containerfile")
LARGEST = 8 << 20  # bytes; docs/containers.md has the size on Debian 12
FILES = {"bin", "proc", "tmp", "usr", "usr/bin", "usr/bin/jeattach", "usr/bin/busybox"} | {
    "usr/bin/" + name for name in ("sh", "sleep", "cat", "rm", "ls")}
RIGHTS = ("--cap-drop=ALL", "--cap-add=SYS_PTRACE", "--cap-add=DAC_OVERRIDE", "--read-only")


def instructions():
    with open(CONTAINERFILE) as file:
        lines = [line for line in file if not line.startswith("#")]
    text = "".join(lines).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


def installed_by(text):
    """Returns the packages of the apt-get install in a text."""
    words = re.search(r"apt-get install (?!\./)(.*?)(&&|```|\ncmake|$)", text, re.S)[1]
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
        for name in re.findall(r"packaging/[a-z-]+", rows[4][1]):
            self.assertTrue(os.access(os.path.join(lib.ROOT, name), os.X_OK), name)

    def test_packages(self):
        """Those that README.md lists for a build, and those of packaging/static and of the image."""
        with open(os.path.join(lib.ROOT, "README.md")) as file:
            readme = installed_by(file.read())
        image = installed_by(dict(instructions()[1:2])["RUN"])
        self.assertEqual(image, readme | {"dpkg-dev", "busybox-static"})


class Image(boxes.TestCase):
    def archive(self):
        return os.path.join(artefacts(self), "jeattach-image-%s.tar" % version())

    def test_archive(self):
        """What engines check when they load it; that it has no other file; what it runs."""
        with tarfile.open(self.archive()) as archive:
            read = lambda name: archive.extractfile(name).read()
            [manifest] = json.loads(read("manifest.json"))
            self.assertEqual(manifest["RepoTags"], ["jeattach:" + version()])
            [layer] = map(read, manifest["Layers"])
            config = read(manifest["Config"])
        self.assertEqual(manifest["Config"], hashlib.sha256(config).hexdigest() + ".json")
        config = json.loads(config)
        self.assertEqual(config["rootfs"]["diff_ids"], ["sha256:" + hashlib.sha256(layer).hexdigest()])
        told = dict(instructions())
        for name in ("Entrypoint", "Cmd"):
            self.assertEqual(config["config"][name], json.loads(told[name.upper()]))
        self.assertEqual(config["config"]["Env"], [told["ENV"]])
        self.assertFalse([name for name in config["config"]["Labels"] if "licen" in name])
        self.assertLess(len(layer), LARGEST)
        with tarfile.open(fileobj=io.BytesIO(layer)) as files:
            self.assertEqual(set(files.getnames()), FILES)
            self.assertEqual({(file.uid, file.gid) for file in files}, {(0, 0)})
            self.assertEqual(files.getmember("tmp").mode, 0o1777)
            tool = files.extractfile("usr/bin/jeattach").read()
        self.assertEqual(hashlib.sha256(tool).hexdigest(),
                         digest(os.path.join(artefacts(self), "jeattach-%s-x86_64" % version())))

    def test_debug_container(self):
        """Loaded by podman, beside a redis-server with nothing but its libraries in its container."""
        lib.require_root()
        redis = shutil.which("redis-server") or self.skipTest("redis-server is not installed")
        image = self.archive()
        podman = Podman(self.directory())
        self.addCleanup(podman.stop)
        root = make_root(os.path.join(self.directory(), "redis"),
                         {"redis-server": os.path.realpath(redis)})
        name = podman.start("redis", root, ["/redis-server", "--save", ""], "--read-only",
                            "--cap-drop=ALL", "--user=65532",
                            "--env=MALLOC_CONF=prof:true,lg_prof_sample:12")
        podman.checked("load", "-i", image)

        def beside(*words, options=RIGHTS):
            command = ["run", "--rm", "--network=none", "--pid=container:" + name, *options]
            return self.assert_ran(as_result(command, podman.call(*command, *words)))

        tag = "jeattach:" + version()
        row = lambda: re.search(r"(?m)^ +1 +1 +redis-server ", beside(tag).text)
        self.assertTrue(lib.wait_until(row))
        told = beside(tag, "1").text
        self.assertTrue(told.startswith("redis-server[1] uses "), told)
        self.assertRegex(told, r"(?m)^ +in use +\d")  # DAC_OVERRIDE opens its memory
        self.assertRegex(told, r"(?m)^next: jeattach ")
        self.assert_profile(beside(tag, "dump", "1", "-o", "-").out, 5)
        shell = "jeattach dump 1 -o /tmp/a && jeattach report /tmp/a --root /proc/1/root && rm /tmp/a"
        told = beside("--entrypoint=/bin/sh", tag, "-c", shell).text
        self.assertIn("aeCreateEventLoop", told)
        same_user = ("--cap-drop=ALL", "--user=65532", "--read-only")
        self.assertIn("in use", beside(tag, "stats", "1", "--no-call", options=same_user).text)


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
