"""A memcached as it is without elastripe, to compare with."""

import contextlib
import subprocess

from cluster import BIN, Raw, free_ports, wait_for


@contextlib.contextmanager
def plain_memcached():
    """Its port."""
    port = free_ports(1)
    # memcached pads a decremented value with spaces only while no background thread holds a
    # reference to the item: without those threads it always does.
    plain = subprocess.Popen([BIN / "elastripe-node", "--plain", "-p", str(port), "-U", "0", "-l",
                              "127.0.0.1", "-u", "root", "-I", "8m", "-m", "128",
                              "-o", "no_lru_maintainer,no_lru_crawler"], stderr=subprocess.DEVNULL)

    def accepts():
        try:
            Raw(port).close()
            return True
        except OSError:
            return False

    try:
        wait_for(accepts, "plain memcached starts")
        yield port
    finally:
        plain.kill()
        plain.wait()
