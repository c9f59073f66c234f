"""The port file of a node, waited for without polling."""

import os
import re
import select
import time


class PortFile:
    """Where a node writes its port once it listens.

    memcached writes the file as PATH.lck and renames it when it is whole; here that name is a FIFO.
    """

    def __init__(self, directory):
        self.path = os.path.join(directory, "port")
        os.mkfifo(self.path + ".lck")
        os.chmod(self.path + ".lck", 0o666)  # the node may have become another user
        self.fifo = os.open(self.path + ".lck", os.O_RDONLY | os.O_NONBLOCK)

    def wait(self, process, timeout_s=60):
        """The port; nothing if the process ends first or does not listen in time. Once only."""
        deadline = time.monotonic() + timeout_s
        pidfd = os.pidfd_open(process.pid)
        text = b""
        try:
            while True:
                left_s = max(0, deadline - time.monotonic())
                ready, _, _ = select.select([self.fifo, pidfd], [], [], left_s)
                if self.fifo not in ready:
                    return None
                part = os.read(self.fifo, 4096)
                if not part:  # the node has closed it
                    return int(re.search(rb"(\d+)\s*$", text).group(1))
                text += part
        finally:
            os.close(pidfd)
            os.close(self.fifo)
