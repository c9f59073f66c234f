"""Threads of other processes, stopped while the others run on."""

import ctypes
import os

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WAIT_ALL = 0x40000000  # __WALL: threads too


def worker_threads(pid):
    """The ids of memcached's worker threads, the one for control frames first."""
    found = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/comm", encoding="ascii") as f:
            if f.read().strip() == "mc-worker":
                found.append(int(tid))
    return sorted(found)


class Stopped:
    """One thread, by its id."""

    def __init__(self, tid):
        self.tid = tid

    def ptrace(self, request):
        if LIBC.ptrace(request, self.tid, None, None) != 0:
            raise OSError(ctypes.get_errno(), f"ptrace {request:#x} of thread {self.tid}")

    def __enter__(self):
        self.ptrace(PTRACE_SEIZE)
        self.ptrace(PTRACE_INTERRUPT)
        os.waitpid(self.tid, WAIT_ALL)
        return self

    def __exit__(self, *_):
        self.ptrace(PTRACE_DETACH)
