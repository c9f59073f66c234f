"""A memcached as it is without elastripe, to compare with."""

import contextlib
import subprocess

from cluster import BIN, Raw, free_ports, wait_for


@contextlib.contextmanager
def plain_memcached(*options):
    """Its port. `options`: in place of those that leave its background threads out."""
    port = free_ports(1)
    # memcached pads a decremented value with spaces only while no background thread holds a
    # reference to the item: without those threads it always does.
    options = options or ("-o", "no_lru_maintainer,no_lru_crawler")
    plain = subprocess.Popen([BIN / "elastripe-node", "--plain", "-p", str(port), "-U", "0", "-l",
                              "127.0.0.1", "-u", "root", "-I", "8m", "-m", "128", *options],
                             stderr=subprocess.DEVNULL)

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
