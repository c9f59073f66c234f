"""The process: options, safety of the address, the end under load, and plain memcached."""

import os
import pwd
import random
import socket
import subprocess
import threading

import node_frames as nf
import pytest
from port_file import PortFile


def test_help_lists_the_options(binary):
    out = subprocess.run([binary, "--help"], capture_output=True, text=True, check=True).stdout
    for option in ("--port", "--listen", "--memory-mb", "--threads", "--name", "--port-file",
                   "--insecure", "--plain"):
        assert option in out


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.1.2.3", "127.example.org", "127.1"])
def test_an_open_address_needs_insecure(binary, address):
    done = subprocess.run([binary, "--port", "0", "--listen", address], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 2
    assert "--insecure" in done.stderr


@pytest.mark.parametrize("options", [
    ["--listen", "127.0.0.1,0.0.0.0"], ["--listen", "127.0.0.1,0.0.0.0", "--insecure"],
    ["--listen", "notls:0.0.0.0", "--insecure"], ["--listen", "127.0.0.1;notls:10.0.0.5"],
    ["--listen", "127.0.0.1:9999"], ["--listen", "*"],
    ["--listen", ""], ["--port", "65536"], ["--memory-mb", "8"], ["--nonsense"]])
def test_a_usage_error_ends_with_two(binary, options):
    done = subprocess.run([binary, "--port", "0", *options], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 2
    assert options[0] in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="about what root may do")
class TestAsRoot:
    def test_it_takes_a_user(self, binary):
        done = subprocess.run([binary, "--port", "0"], capture_output=True, text=True, timeout=60,
                              check=False)
        assert done.returncode == 2
        assert "--user" in done.stderr and "starting" not in done.stderr

    def test_it_becomes_that_user_and_serves(self, binary):
        nobody = pwd.getpwnam("nobody")
        with nf.NodeProcess(binary, options=["--user", "nobody"]) as node, node.connect() as c:
            assert c.hello().status == nf.OK
            with open(f"/proc/{node.process.pid}/status", encoding="utf-8") as file:
                status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
            assert set(status["Uid"].split()) == {str(nobody.pw_uid)}
            assert set(status["Gid"].split()) == {str(nobody.pw_gid)}
            assert status["Groups"].split() == []

    def test_a_user_who_does_not_exist_is_an_error(self, binary):
        done = subprocess.run([binary, "--port", "0", "--user", "no-such-user"],
                              capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode != 0 and "no-such-user" in done.stderr


def test_version_is_told(binary):
    done = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("elastripe-node ")


def test_insecure_listens_everywhere(binary):
    with nf.NodeProcess(binary, options=["--listen", "0.0.0.0", "--insecure"]) as node:
        with node.connect() as c:
            assert c.hello().status == nf.OK


def test_sigterm_ends_an_idle_node_cleanly(binary):
    with nf.NodeProcess(binary) as node:
        with node.connect() as c:
            c.hello()
            assert node.terminate() == 0


def test_sigterm_ends_a_loaded_node_cleanly(binary):
    with nf.NodeProcess(binary) as node:
        with node.connect() as control:
            control.join_cluster()
            served = [0] * 6
            progress = threading.Condition()

            def load(i):
                rng = random.Random(i)
                try:
                    with node.connect() as c:
                        c.adopt(control)
                        while True:
                            name = nf.shard_name(rng.randrange(50), i)
                            c.write_shard(name, rng.randbytes(rng.choice([100, 5000, 200_000])))
                            c.read_shard(name)
                            c.delete_shards([name])
                            with progress:
                                served[i] += 1
                                progress.notify()
                except (ConnectionError, OSError):
                    pass

            threads = [threading.Thread(target=load, args=(i,)) for i in range(len(served))]
            for t in threads:
                t.start()
            with progress:
                assert progress.wait_for(lambda: min(served) >= 20, timeout=60)
            assert node.terminate() == 0, node.log()
            for t in threads:
                t.join(timeout=60)


def test_many_connections_store_and_read_their_own_shards(node):
    with node.connect() as control:
        control.join_cluster()
        failures = []

        def work(i):
            rng = random.Random(i)
            with node.connect() as c:
                c.adopt(control)
                for n in range(40):
                    payload = rng.randbytes(rng.choice([10, 3000, 70_000, 250_000]))
                    name = nf.shard_name(n % 8, i)
                    c.write_shard(name, payload)
                    if c.read_shard(name).payload != payload:
                        failures.append((i, n))
                    c.delete_shards([name])

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert not failures


def start_plain(binary, tmp_path, *options):
    port_file = PortFile(tmp_path)
    process = subprocess.Popen(
        [binary, "--plain", "-u", "root", "-l", "127.0.0.1", "-U", "0", "-p", "-1", *options],
        env={**os.environ, "MEMCACHED_PORT_FILENAME": port_file.path},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    port = port_file.wait(process)
    assert port is not None
    return process, port


def test_plain_is_memcached(binary, tmp_path):
    process, port = start_plain(binary, tmp_path)
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
            s.sendall(b"set k 0 0 5\r\nhello\r\nget k\r\nstats elastripe\r\n")
            want = b"STORED\r\nVALUE k 0 5\r\nhello\r\nEND\r\nERROR\r\n"
            got = b""
            while len(got) < len(want) and (part := s.recv(4096)):
                got += part
            assert got == want
    finally:
        process.terminate()
        process.wait()


def test_an_absurd_authentication_length_does_not_crash(binary, tmp_path):
    users = tmp_path / "users"
    users.write_text("user:password\n")
    process, port = start_plain(binary, tmp_path, "-Y", str(users))
    try:
        for length in (b"2147483647", b"4294967295", b"2147483646", b"3000"):
            with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
                s.sendall(b"set x 0 0 " + length + b"\r\n")
                assert s.recv(4096) == b"CLIENT_ERROR unauthenticated\r\n"
        with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
            s.sendall(b"set x 0 0 13\r\nuser password\r\n")
            assert s.recv(4096) == b"STORED\r\n"
        assert process.poll() is None
    finally:
        process.terminate()
        process.wait()
