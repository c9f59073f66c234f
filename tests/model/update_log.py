"""The record of the key, and the update log beside it."""
from dataclasses import dataclass, field, replace

SEGMENT_BYTES = 2
VALUE_BYTES = 4
SEGMENTS = VALUE_BYTES // SEGMENT_BYTES
RING = 2  # operations that a log remembers


@dataclass(frozen=True)
class Record:
    version: int
    origin: int  # the version of the commit that made the value
    made_of: int  # the cas that the value was made from; 0: a blind commit
    shards: tuple | None  # a name for each segment; None: a tombstone
    folded: tuple = (0,) * SEGMENTS  # folded_lsn of each segment
    attempts: tuple = ()


@dataclass(frozen=True)
class Entry:
    op: int
    lsn: int
    offset: int
    data: tuple

    def overlaps(self, offset, length):
        return self.offset < offset + length and offset < self.offset + len(self.data)


@dataclass
class Log:
    origin: int
    reach: int  # the LSN above which the ring is whole
    last: int = 0
    raised: int = 0  # by mutants that order images by more than the last LSN
    settled_to: int = 0
    ring: dict = field(default_factory=dict)  # op -> LSN
    settled: dict = field(default_factory=dict)  # offset -> (LSN, byte)
    unsettled: list = field(default_factory=list)  # entries, uncut, by LSN

    def copy(self):
        return replace(self, ring=dict(self.ring), settled=dict(self.settled), unsettled=list(self.unsettled))

    @property
    def rank(self):
        return max(self.last, self.raised)

    def find(self, op):
        """The LSN of an operation that is remembered."""
        for entry in self.unsettled:
            if entry.op == op:
                return entry.lsn
        return self.ring.get(op)

    def has(self, op, lsn):
        return lsn <= self.settled_to or self.find(op) is not None

    def add(self, entry, remembers=True):
        self.unsettled = sorted(self.unsettled + [entry], key=lambda e: e.lsn)
        self.last = max(self.last, entry.lsn)
        if not remembers:
            return
        self.ring[entry.op] = entry.lsn
        while len(self.ring) > RING:
            oldest = min(self.ring, key=self.ring.get)
            self.reach = max(self.reach, self.ring.pop(oldest))

    def settle(self, upto):
        """Merges the entries up to an LSN; the newest bytes win."""
        self.settled_to = max(self.settled_to, min(upto, self.last))
        for entry in self.unsettled:
            if entry.lsn > self.settled_to:
                break
            for i, byte in enumerate(entry.data):
                at = entry.offset + i
                if at not in self.settled or self.settled[at][0] < entry.lsn:
                    self.settled[at] = (entry.lsn, byte)
        self.unsettled = [e for e in self.unsettled if e.lsn > self.settled_to]

    def drop_folded(self, record):
        """Drops the bytes that the record says are in its shards."""
        folded_at = lambda at: record.folded[at // SEGMENT_BYTES]
        self.settled = {at: cell for at, cell in self.settled.items() if cell[0] > folded_at(at)}
        self.unsettled = [e for e in self.unsettled
                          if any(e.lsn > folded_at(e.offset + i) for i in range(len(e.data)))]

    def is_empty(self):
        return not self.settled and not self.unsettled


def cas_of(record, log):
    return max(record.origin, *record.folded, log.last if log else 0)


def overlay(value, record, log, readers_ignore_folded):
    """The bytes of the shards with those of the log on top."""
    top = {}
    cells = list(log.settled.items()) if log else []
    for entry in log.unsettled if log else []:
        cells += [(entry.offset + i, (entry.lsn, byte)) for i, byte in enumerate(entry.data)]
    for at, (lsn, byte) in cells:
        if lsn <= record.folded[at // SEGMENT_BYTES] and not readers_ignore_folded:
            continue
        if at not in top or top[at][0] < lsn:
            top[at] = (lsn, byte)
    return tuple(top[at][1] if at in top else value[at] for at in range(VALUE_BYTES))
