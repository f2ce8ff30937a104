"""Fetches Debian's kernels from packages of any suite, and keeps them in the build directory."""

import glob
import os
import re

import packages

SUITES = {"5.10": "bullseye", "6.1": "bookworm", "6.12": "trixie"}
PACKAGE = "linux-image-cloud-amd64"  # depends on the current kernel of the suite
PATTERN = "boot/vmlinuz-*"


class Kernels(packages.Suite):
    def _current(self, lists):
        """Returns the package that contains the files."""
        words = ["apt-cache"] + self._options(lists) + ["depends", "--important", PACKAGE]
        found = re.search(r"Depends: (linux-image-[0-9]\S+)", packages.run(words))
        if not found:
            raise packages.Unavailable("%s has no %s" % (self.name, PACKAGE))
        return found[1]

    def _fetch_image(self, path):
        lists = packages.once("lists/" + self.name, self._update)
        where = path + ".package"
        packages.remove(where)
        os.makedirs(where)
        try:
            words = ["apt-get", "-q"] + self._options(lists) + ["download", self._current(lists)]
            packages.run(words, cwd=where)
            (archive,) = glob.glob(where + "/*.deb")
            # The rest, some hundred megabytes, is modules.
            packages.run(
                ["sh", "-c", 'dpkg-deb --fsys-tarfile "$1" | tar -x --wildcards "./$2"', "sh",
                 archive, PATTERN], cwd=where)
            (image,) = glob.glob(os.path.join(where, PATTERN))
            os.rename(image, path)
        finally:
            packages.remove(where)

    def image(self):
        return packages.once("kernels/" + self.name, self._fetch_image)


def image(version):
    """Returns the path of a bootable kernel of that series."""
    return Kernels(SUITES[version]).image()
