"""docs/kubernetes/*.yaml against the types of the Kubernetes API, as its Python client has them
(package python3-kubernetes, generated from the API's OpenAPI description): every field exists, has
the right type, and no required field is missing.
"""

import glob
import os
import re

import lib

try:
    import kubernetes.client
    import yaml
except ImportError:
    kubernetes = None

FOLDER = os.path.join(lib.ROOT, "docs", "kubernetes")
KINDS = {"Pod": "V1Pod"}
# Files that hold a part of an object: the file, and the type of that part.
PARTS = {"ephemeral.yaml": {"spec": {"ephemeralContainers": "list[V1EphemeralContainer]"}},
         "debug-same-user.yaml": "V1Container"}
BASIC = {"str": str, "int": int, "bool": bool, "object": object}
CAPABILITIES = {"ALL", "SYS_PTRACE", "DAC_OVERRIDE"}


def model(name):
    return getattr(kubernetes.client, name)


def check(value, kind, where):
    """Raises ValueError if value is not a `kind`, which is written as the client writes it."""
    listed = re.fullmatch(r"list\[(.*)\]", kind)
    mapped = re.fullmatch(r"dict\(str, (.*)\)", kind)
    if listed:
        require(isinstance(value, list), where, "a list")
        for i, item in enumerate(value):
            check(item, listed[1], "%s[%d]" % (where, i))
    elif mapped:
        require(isinstance(value, dict), where, "a map")
        for name, item in value.items():
            check(item, mapped[1], "%s.%s" % (where, name))
    elif kind in BASIC:
        good = isinstance(value, BASIC[kind]) and (kind != "int" or not isinstance(value, bool))
        require(good, where, kind)
    else:
        check_model(value, model(kind), where)


def check_model(value, kind, where):
    require(isinstance(value, dict), where, kind.__name__)
    names = {outside: inside for inside, outside in kind.attribute_map.items()}
    for name, item in value.items():
        require(name in names, "%s.%s" % (where, name), "a field of %s" % kind.__name__)
        check(item, kind.openapi_types[names[name]], "%s.%s" % (where, name))
    try:
        kind(**{names[name]: item for name, item in value.items()})
    except ValueError as error:  # a required field is missing
        raise ValueError("%s: %s" % (where, error))


def require(good, where, what):
    if not good:
        raise ValueError("%s is not %s" % (where, what))


def check_parts(value, kinds, where):
    if isinstance(kinds, str):
        check_partial(value, kinds, where)
        return
    require(isinstance(value, dict) and set(value) == set(kinds), where, "%s" % sorted(kinds))
    for name, kind in kinds.items():
        check_parts(value[name], kind, "%s.%s" % (where, name))


def check_partial(value, kind, where):
    """A patch of a container need not have its name."""
    check({"name": "x", **value} if kind == "V1Container" else value, kind, where)


def contexts(value):
    """Returns every securityContext in it."""
    if isinstance(value, dict):
        for name, item in value.items():
            if name == "securityContext":
                yield item
            yield from contexts(item)
    elif isinstance(value, list):
        for item in value:
            yield from contexts(item)


class Manifests(lib.TestCase):
    def setUp(self):
        if not kubernetes:
            self.skipTest("python3-kubernetes is not installed")

    def files(self):
        found = sorted(glob.glob(os.path.join(FOLDER, "*.yaml")))
        self.assertGreaterEqual(len(found), 4)
        for path in found:
            with open(path) as file:
                yield os.path.basename(path), list(yaml.safe_load_all(file))

    def test_types(self):
        for name, objects in self.files():
            for value in objects:
                with self.subTest(file=name):
                    if name in PARTS:
                        check_parts(value, PARTS[name], name)
                    else:
                        check(value, KINDS[value["kind"]], name)

    def test_rights(self):
        """No file requests more than documented: one capability, no privilege, no writable root."""
        for name, objects in self.files():
            for context in contexts(objects):
                with self.subTest(file=name):
                    self.assertFalse(context.get("privileged"))
                    capabilities = context.get("capabilities", {})
                    for word in capabilities.get("drop", []) + capabilities.get("add", []):
                        self.assertIn(word, CAPABILITIES)
                    if "add" in capabilities:
                        self.assertEqual(capabilities["drop"], ["ALL"])
                        self.assertEqual(context.get("runAsUser"), 0)  # otherwise it has no effect

    def test_checker(self):
        """The checker finds faults."""
        good = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
                "spec": {"containers": [{"name": "a", "image": "b"}]}}
        check(good, "V1Pod", "good")
        wrong = (
            {**good, "spec": {}},  # no containers
            {**good, "spec": {"containers": [{"image": "b"}]}},  # without a name
            {**good, "spec": {"containers": {}}},
            {**good, "specs": {}},
            {**good, "spec": {**good["spec"], "shareProcessNamespace": "yes"}},
            {**good, "spec": {**good["spec"], "hostPid": True}},  # hostPID
            {**good, "spec": {"containers": [{"name": "a", "securityContext": {
                "capabilities": {"add": "SYS_PTRACE"}}}]}},
            {**good, "spec": {"containers": [{"name": "a", "securityContext": {
                "runAsUser": "65532"}}]}},
        )
        for value in wrong:
            with self.subTest(value=value), self.assertRaises(ValueError):
                check(value, "V1Pod", "wrong")

    def test_docs_name_every_file(self):
        with open(os.path.join(lib.ROOT, "docs", "containers.md")) as file:
            text = file.read()
        for name, _ in self.files():
            self.assertIn("kubernetes/" + name, text)


if __name__ == "__main__":
    lib.main()
