"""A server that answers what a test tells it to, and remembers what it was asked."""

import contextlib
import socket
import threading

CLOSE = object()   # the connection is closed instead of an answer
SILENCE = object()  # nothing is said until the client goes
STORES = (b"set", b"add", b"cas", b"append", b"prepend", b"ms")


def size_of_data(words):
    """How many bytes follow the command; none if it is no store."""
    if words[0] not in STORES:
        return None
    return int(words[2] if words[0] == b"ms" else words[4])


class FakeProxy:
    """Answers one request after the other with `answers`, whatever connection it comes on: bytes,
    CLOSE or SILENCE, or several of them in a tuple. Afterwards it closes what asks. With a `path`
    it listens on a Unix socket."""

    def __init__(self, *answers, tls=None, path=None):
        self.answers = list(answers)
        self.requests = []     # a line, and its data if it has some, each
        self.connections = 0
        self.closed = threading.Semaphore(0)  # released once a connection is closed
        self.tls = tls
        if path is None:
            self.listener = socket.create_server(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        else:
            self.listener = socket.create_server(path, family=socket.AF_UNIX)
            self.address = path
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.callback(self.closed.release)
            stack.enter_context(connection)
            if self.tls is not None:
                connection = stack.enter_context(self.tls.wrap_socket(connection, server_side=True))
            requests = stack.enter_context(connection.makefile("rb"))
            while self._answer(connection, requests):
                pass

    def _answer(self, connection, requests):
        """Whether the connection goes on."""
        line = requests.readline()
        if not line:
            return False
        size = size_of_data(line.split())
        data = () if size is None else (requests.read(size + 2)[:-2],)
        self.requests.append((line.rstrip(b"\r\n"), *data))
        answer = self.answers.pop(0) if self.answers else CLOSE
        for part in answer if isinstance(answer, tuple) else (answer,):
            if part is CLOSE:
                # What is read and not answered would become a reset, which takes answers away.
                connection.shutdown(socket.SHUT_WR)
                return False
            if part is SILENCE:
                requests.read()
                return False
            connection.sendall(part)
        return True

    def commands(self):
        return [line.split()[0] for line, *_ in self.requests]

    def stop(self):
        # A blocked accept() ends only when somebody shuts the socket down.
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
