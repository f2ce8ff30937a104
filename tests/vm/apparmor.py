"""Compiles an AppArmor profile with the compiler of Debian's package, without installing it."""

import os
import subprocess

import packages

PROFILE = "profile confined { file, capability, signal, network, unix, mount, }\n"
FEATURES = "etc/apparmor.d/abi/3.0"  # the kernel features that the compiler may assume


def compile_policy(directory):
    """Returns the path of the policy in the kernel's binary format."""
    suite = packages.Suite("bookworm")
    parser = suite.file("apparmor", "**/apparmor_parser")
    features = suite.file("apparmor", FEATURES)
    source = os.path.join(directory, "profile")
    target = os.path.join(directory, "policy")
    with open(source, "w") as file:
        file.write(PROFILE)
    words = [parser, "--config-file=/dev/null", "--skip-kernel-load", "--skip-cache", "--stdout"]
    words += ["--kernel-features=" + features, "--policy-features=" + features, source]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode or not done.stdout:
        raise packages.Unavailable("no AppArmor policy: %s" % done.stderr.decode()[-200:])
    with open(target, "wb") as file:
        file.write(done.stdout)
    return target
