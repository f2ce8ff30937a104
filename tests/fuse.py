"""A file server for tests, by the protocol of /dev/fuse (linux/fuse.h): one file, `f`.

The first request of one kind is answered late: with EINTR if the kernel reports that the caller was
interrupted and the server is not deaf to that, otherwise when the test releases it. Every other
request is answered at once.
"""

import ctypes
import errno
import os
import struct
import threading
import unittest

IN, OUT = struct.Struct("<IIQQIIII"), struct.Struct("<IiQ")
ATTR = struct.Struct("<6Q10I")
ROOT, FILE = 1, 2
S_IFDIR, S_IFREG = 0o040000, 0o100000
DIRECT_IO = 1
OPS = {"lookup": 1, "getattr": 3, "setattr": 4, "open": 14, "read": 15, "write": 16, "statfs": 17,
       "fsync": 20, "getxattr": 22, "flush": 25, "readdir": 28, "access": 34, "fallocate": 43}
FORGET, RELEASE, INIT, OPENDIR, RELEASEDIR, INTERRUPT, DESTROY = 2, 18, 26, 27, 29, 36, 38
BATCH_FORGET = 42
NAMES = {number: name for name, number in OPS.items()}

libc = ctypes.CDLL(None, use_errno=True)


class Server:
    def __init__(self, test, late, deaf=False):
        self.late, self.deaf = late, deaf
        self.arrived, self.go = threading.Event(), threading.Event()
        self.requests = self.interrupts = 0
        self.waiting = None  # the request that is answered late
        self.place = test.directory()
        try:
            self.fd = os.open("/dev/fuse", os.O_RDWR)
        except OSError as error:
            raise unittest.SkipTest("/dev/fuse: %s" % error)
        options = "fd=%d,rootmode=40000,user_id=0,group_id=0" % self.fd
        if libc.mount(b"test", self.place.encode(), b"fuse", 0, options.encode()):
            os.close(self.fd)
            raise unittest.SkipTest("no FUSE can be mounted: errno %d" % ctypes.get_errno())
        test.addCleanup(self.close)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    @property
    def file(self):
        return os.path.join(self.place, "f")

    def close(self):
        """Also if the test has failed: all pending requests are answered with an error."""
        libc.umount2(self.place.encode(), 2)  # MNT_DETACH
        self.answer_late(-errno.EIO)
        self.thread.join(10)

    def let_go(self):
        self.answer_late(0)

    def answer_late(self, error):
        unique, self.waiting = self.waiting, None
        if unique is not None:
            body = b"" if error else self.body(OPS[self.late], FILE, b"")
            self.reply(unique, error, body)

    def reply(self, unique, error=0, body=b""):
        try:
            os.write(self.fd, OUT.pack(OUT.size + len(body), error, unique) + body)
        except OSError:
            pass  # nobody waits for it any longer

    def serve(self):
        while True:
            try:
                data = os.read(self.fd, 1 << 18)
            except InterruptedError:
                continue
            except OSError:
                return  # no longer mounted
            _, op, unique, node = IN.unpack_from(data)[:4]
            self.handle(op, unique, node, data[IN.size:])

    def handle(self, op, unique, node, rest):
        if op == INTERRUPT:
            self.interrupts += 1
            if struct.unpack_from("<Q", rest)[0] == self.waiting and not self.deaf:
                self.answer_late(-errno.EINTR)
        elif op in (FORGET, BATCH_FORGET):
            pass
        elif self.is_late(op, node):
            self.requests += 1
            if self.requests == 1:
                self.waiting = unique
                self.arrived.set()
            else:
                self.reply(unique, 0, self.body(op, node, rest))
        else:
            self.reply(unique, *self.answer(op, node, rest))

    def is_late(self, op, node):
        return NAMES.get(op) == self.late and (node == FILE or self.late in ("readdir", "statfs"))

    def answer(self, op, node, rest):
        if op == INIT:
            body = struct.pack("<IIIIHHIIHHI", 7, 31, 0, 0, 16, 16, 1 << 16, 1, 0, 0, 0)
            return 0, body + b"\0" * (64 - len(body))
        if op in NAMES or op in (OPENDIR, RELEASE, RELEASEDIR, DESTROY):
            if op == OPS["lookup"] and rest.rstrip(b"\0") != b"f":
                return (-errno.ENOENT,)
            return 0, self.body(op, node, rest)
        return (-errno.ENOSYS,)

    def attr(self, node):
        mode = S_IFDIR | 0o755 if node == ROOT else S_IFREG | 0o644
        return ATTR.pack(node, 4096, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def body(self, op, node, rest):
        name = NAMES.get(op)
        if name == "lookup":
            return struct.pack("<QQQQII", FILE, 0, 3600, 0, 0, 0) + self.attr(FILE)
        if name in ("getattr", "setattr"):
            return struct.pack("<QII", 0, 0, 0) + self.attr(node)
        if name == "open" or op == OPENDIR:
            return struct.pack("<QII", 1, DIRECT_IO, 0)
        if name == "write":
            return struct.pack("<II", struct.unpack_from("<QQI", rest)[2] if rest else 8, 0)
        if name == "statfs":
            return struct.pack("<5Q4I6I", 1, 1, 1, 1, 1, 4096, 255, 4096, 0, *[0] * 6)
        if name == "getxattr":
            return b"value"
        return b""
