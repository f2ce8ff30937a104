"""What is published with a release: the list of what is linked in (SPDX), and what packaging/release
refuses."""

import collections
import glob
import json
import os
import re
import shutil
import subprocess

import lib
from e2e_packaging import artefacts, digest, run, version

PACKAGING = os.path.join(lib.ROOT, "packaging")


class Contents(lib.TestCase):
    def read(self):
        with open(os.path.join(artefacts(self), "jeattach-%s.spdx.json" % version())) as file:
            return json.load(file)

    def linked(self):
        """What the linker says that it took, by names: archives with a member, and objects."""
        [log] = glob.glob(artefacts(self) + "*.log")
        told = lib.read_text(log)
        return set(re.findall(r"(?m)^\(/\S+/(\S+\.a)\)\S+\.o$", told)) | set(
            re.findall(r"(?m)^/\S+/(\S+\.o)$", told))

    def test_everything_linked_in(self):
        """Each archive is of exactly one package, in the version that is installed."""
        told = self.read()
        packages = {package["SPDXID"]: package for package in told["packages"]}
        rows = [(row["spdxElementId"], row["relationshipType"], row["relatedSpdxElement"])
                for row in told["relationships"]]
        covered = collections.Counter()
        for subject, kind, other in rows:
            if kind != "STATIC_LINK":
                continue
            self.assertEqual(subject, "SPDXRef-jeattach")
            package = packages[other]
            for name, owner in re.findall(r"(\S+) \((\S+)\)", package["sourceInfo"]):
                covered[name] += 1
                self.assertEqual(
                    run("dpkg-query", "-W", "-f", "${source:Package} ${source:Version}", owner),
                    "%s %s" % (package["name"], package["versionInfo"]))
                self.assertIn("/%s\n" % name, run("dpkg-query", "-L", owner))
        self.assertEqual(set(covered.values()), {1}, covered)
        self.assertEqual(set(covered), self.linked())
        self.assertTrue({"libc.a", "libgcc.a", "libiberty.a", "libunwind.a", "libdw.a"} <= set(covered))
        self.assertIn(("SPDXRef-jeattach-image", "CONTAINS", "SPDXRef-busybox"), rows)
        self.assertIn(("SPDXRef-jeattach-image", "CONTAINS", "SPDXRef-jeattach"), rows)

    def test_fields(self):
        """Those that SPDX 2.3 requires; licences of all but jeattach, for which none is chosen."""
        told = self.read()
        self.assertEqual((told["spdxVersion"], told["dataLicense"], told["SPDXID"]),
                         ("SPDX-2.3", "CC0-1.0", "SPDXRef-DOCUMENT"))
        self.assertRegex(told["creationInfo"]["created"], r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z")
        names = {package["SPDXID"] for package in told["packages"]} | {told["SPDXID"]}
        self.assertEqual(len(names), len(told["packages"]) + 1)
        for row in told["relationships"]:
            self.assertLessEqual({row["spdxElementId"], row["relatedSpdxElement"]}, names)
        for package in told["packages"]:
            own = package["name"].startswith("jeattach")
            self.assertEqual(package["licenseDeclared"] == "NOASSERTION", own, package)
            self.assertEqual((package["downloadLocation"], package["filesAnalyzed"]), ("NOASSERTION", False))
            if own:
                file = os.path.join(artefacts(self), package["packageFileName"])
                self.assertEqual(package["checksums"][0]["checksumValue"], digest(file))

    def test_unknown_archive(self):
        path = os.path.join(self.directory(), "map")
        for text, cause in (("/opt/libforeign.a(a.o)\n", "/opt/libforeign.a"), ("", "not of a linker")):
            with open(path, "w") as file:
                file.write(text)
            refused = subprocess.run([os.path.join(PACKAGING, "spdx"), path, path, path],
                                     capture_output=True, text=True)
            self.assertEqual((refused.returncode, refused.stdout), (1, ""), refused)
            self.assertIn(cause, refused.stderr)


class Release(lib.TestCase):
    def test_refusals(self):
        clone = os.path.join(self.directory(), "clone")
        run("git", "-c", "safe.directory=*", "clone", "-qn", "--shared", lib.ROOT, clone)
        os.mkdir(os.path.join(clone, "packaging"))
        shutil.copy(os.path.join(PACKAGING, "release"), os.path.join(clone, "packaging"))
        for name in ("v99.0", "v" + version()):
            run("git", "-C", clone, "tag", "--force", name)
        full = os.path.join(self.directory(), "full")
        os.mkdir(full)
        with open(os.path.join(full, "file"), "w"):
            pass
        new = os.path.join(self.directory(), "new")
        for tag, out, cause in (("v0.0", new, "there is no tag v0.0"),
                                ("HEAD", new, "there is no tag HEAD"),
                                ("v99.0", new, "name it v" + version()),
                                ("v" + version(), full, "not empty")):
            refused = subprocess.run([os.path.join(clone, "packaging", "release"), tag, out],
                                     capture_output=True, text=True)
            self.assertEqual((refused.returncode, refused.stdout), (1, ""), refused)
            self.assertIn(cause, refused.stderr)
        self.assertFalse(os.path.exists(new))

    def test_shellcheck(self):
        if not shutil.which("shellcheck"):
            self.skipTest("shellcheck is not installed")
        names = [os.path.join(PACKAGING, name) for name in os.listdir(PACKAGING)]
        scripts = [name for name in names if lib.read_text(name).startswith("#!/bin/sh\n")]
        found = subprocess.run(["shellcheck", "-S", "warning", *scripts], capture_output=True, text=True)
        self.assertEqual(found.returncode, 0, found.stdout)


if __name__ == "__main__":
    lib.main()
