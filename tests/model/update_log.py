"""The record of the key, and the update log beside it."""
from dataclasses import dataclass, field, replace

SEGMENT_BYTES = 2
VALUE_BYTES = 4
SEGMENTS = VALUE_BYTES // SEGMENT_BYTES
RING = 2  # operations that a log remembers
BLOCK = 4  # versions step by this much, 2^16 in the product
MOST_UNNUMBERED = 3  # less than a block, so that sync has numbers for all of them


@dataclass(frozen=True)
class Record:
    version: int
    origin: int  # the version of the commit that made the value
    shards: tuple | None  # a name for each segment; None: a tombstone
    folded: tuple = (0,) * SEGMENTS  # folded_lsn of each segment
    attempts: tuple = ()


@dataclass(frozen=True)
class Entry:
    op: int
    lsn: int  # 0: nobody has told it yet
    offset: int
    data: tuple

    def overlaps(self, offset, length):
        return self.offset < offset + length and offset < self.offset + len(self.data)


@dataclass
class Log:
    origin: int
    reach: int  # the LSN above which the ring is whole
    rank: int  # the tail numbers above it; sync raises it
    last: int = 0
    settled_to: int = 0
    ring: dict = field(default_factory=dict)  # op -> LSN
    settled: dict = field(default_factory=dict)  # offset -> (LSN, byte)
    unsettled: list = field(default_factory=list)  # entries, uncut, by LSN
    unnumbered: list = field(default_factory=list)  # entries by arrival: without an LSN, or over a gap
    cancelled_in: int = 0  # the epoch that what follows is of
    cancelled_known: int = 0  # at a copy: without an LSN it takes what knew more
    forbidden: tuple = ()  # at the tail: ops that it takes no more

    def copy(self):
        return replace(self, ring=dict(self.ring), settled=dict(self.settled), unsettled=list(self.unsettled),
                       unnumbered=list(self.unnumbered))

    def find(self, op):
        """The LSN of an operation that is remembered."""
        for entry in self.unsettled:
            if entry.op == op:
                return entry.lsn
        return self.ring.get(op)

    def has_updates_of(self, image, compares_last=True):
        is_as_far = self.last == image.last or not compares_last
        return is_as_far and self.reach == image.reach and self.ring == image.ring

    def add(self, entry, remembers=True):
        """Takes an entry under its LSN, once."""
        if self.find(entry.op) is not None:
            return
        self.last = max(self.last, entry.lsn)
        self.rank = max(self.rank, entry.lsn)
        if remembers and entry.lsn > self.reach:
            self.ring[entry.op] = entry.lsn
            if len(self.ring) > RING:
                self.forget_names(min(self.ring.values()))
        if entry.lsn <= self.settled_to:  # others have seen to it, and to newer ones
            self.merge(entry)
        else:
            self.unsettled = sorted(self.unsettled + [entry], key=lambda e: e.lsn)

    def forget_names(self, upto):
        self.reach = max(self.reach, upto)
        self.ring = {op: lsn for op, lsn in self.ring.items() if lsn > self.reach}

    def merge(self, entry):
        for i, byte in enumerate(entry.data):
            at = entry.offset + i
            if at not in self.settled or self.settled[at][0] < entry.lsn:
                self.settled[at] = (entry.lsn, byte)

    def settle(self, upto):
        """Merges the entries up to an LSN; the newest bytes win."""
        self.settled_to = max(self.settled_to, upto)
        # It has had those, though it may not remember.
        self.unnumbered = [e for e in self.unnumbered if not 0 < e.lsn <= self.settled_to]
        for entry in self.unsettled:
            if entry.lsn <= self.settled_to:
                self.merge(entry)
        self.unsettled = [e for e in self.unsettled if e.lsn > self.settled_to]

    def drop_folded(self, record):
        """Drops the bytes that the record says are in its shards. Only what is settled is folded."""
        self.settle(max(record.folded))
        self.settled = {at: cell for at, cell in self.settled.items()
                        if cell[0] > record.folded[at // SEGMENT_BYTES]}

    def is_empty(self):
        return not self.settled and not self.unsettled

    # Updates without an LSN.
    def has_unnumbered(self, op):
        return any(e.op == op for e in self.unnumbered)

    def takes_unnumbered(self, entry, known, epoch, mutants):
        """Whether there is room for it, and it can not be one that was here, and is folded by now, or cancelled."""
        if len(self.unnumbered) >= MOST_UNNUMBERED:
            return False
        if entry.lsn:
            return entry.lsn > max(self.reach, self.settled_to)
        is_cancelled = self.cancelled_in == epoch and known <= self.cancelled_known
        if is_cancelled and "cancelled_comes_later" not in mutants:
            return False
        return known >= self.reach or "copy_ignores_reach" in mutants

    def give_number(self, op, lsn, remembers):
        entry = next(e for e in self.unnumbered if e.op == op)
        self.unnumbered = [e for e in self.unnumbered if e.op != op]
        self.add(replace(entry, lsn=lsn), remembers)

    def begin_cancels(self, epoch):
        if self.cancelled_in != epoch:
            self.cancelled_in, self.cancelled_known, self.forbidden = epoch, 0, ()

    def cancel(self, op, known, epoch):
        """A copy's part: forgets what is here of it, and takes none that knew as little, as its frame may come."""
        self.unnumbered = [e for e in self.unnumbered if e.op != op]
        self.begin_cancels(epoch)
        self.cancelled_known = max(self.cancelled_known, known)

    def forbid(self, op, epoch):
        """The tail's part."""
        self.begin_cancels(epoch)
        self.forbidden += (op,)

    def is_forbidden(self, op, epoch):
        return self.cancelled_in == epoch and op in self.forbidden

    def forget_forbidden(self, version):
        """A later version of the record is here: what was forbidden before knows of none."""
        if self.forbidden and version > self.reach:
            self.forbidden = ()
            self.forget_names(version)

    def says_nothing(self, version, epoch):
        """Whether a new log of that version would be as good."""
        cancelled = self.cancelled_known if self.cancelled_in == epoch else 0
        return self.is_empty() and not self.unnumbered and version > max(self.last, cancelled)

    def restored(self, rank, forgets_unnumbered=False):
        """What a home makes of this image. What has no number gets one, above all others, as it came."""
        log = replace(self.copy(), rank=max(self.rank, rank), unnumbered=[], cancelled_in=0)
        for entry in [] if forgets_unnumbered else self.unnumbered:
            log.add(replace(entry, lsn=log.rank + 1))
        return log


def new_log(record):
    return Log(record.origin, record.version, record.version)


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
