"""What the copies of the log beside the tail do with updates, and what heads remember of replaced values."""
import collections

from answers import FORGOTTEN, NOT_SYNCED, OK, OTHER_VALUE
from update_log import new_log

FORMERS = 2  # replaced values of which a head remembers the last updates


class Former:
    """What a log knew when it went."""

    def __init__(self, origin, reach, last, ring):
        self.origin, self.reach, self.last, self.ring = origin, reach, last, ring


class Formers:
    """Who had sent updates of a replaced value may ask whether they came before that."""

    def __init__(self):
        self.formers = collections.deque()  # newest last
        self.forgotten = 0  # none that was forgotten had an update above this LSN

    def note(self, log):
        if log.last:
            self.append(Former(log.origin, log.reach, log.last, dict(log.ring)))

    def note_folded(self, record):
        """The log went before the value did, as all was folded."""
        folded = max(record.folded)
        if folded:
            self.append(Former(record.origin, folded, folded, {}))

    def append(self, former):
        self.formers.append(former)
        if len(self.formers) > FORMERS:
            self.forgotten = max(self.forgotten, self.formers.popleft().last)

    def had(self, origin, op, lsn):
        """"yes", "no" or "forgotten"."""
        is_forgotten = False
        for former in reversed(self.formers):
            if former.origin != origin:
                continue
            if op in former.ring:
                return "yes"
            is_forgotten |= lsn <= former.reach
            if not is_forgotten:
                return "no"
        return "forgotten" if is_forgotten or lsn <= self.forgotten else "no"


class Copied:
    """Updates that come to a copy, in ascending order. None gets its number over a gap: of two logs the one that has
    the later update has all of the other."""

    def __init__(self, log, epoch, mutants):
        self.log, self.epoch, self.mutants = log, epoch, mutants
        self.remembers = not mutants & {"no_ring", "ring_only_at_tail"}
        self.has_gap = False
        self.missing = []

    def number(self, op, lsn):
        """One that is to be here."""
        if lsn <= self.log.settled_to or self.log.find(op) is not None:
            return
        if self.log.has_unnumbered(op):
            if not self.has_gap:
                self.log.give_number(op, lsn, self.remembers)
            return
        self.has_gap |= not self.mutants & {"settle_own_only", "store_over_gap"}
        if "settle_own_only" not in self.mutants:
            self.missing.append(op)

    def store(self, entry):
        """One that comes with its bytes."""
        if self.log.find(entry.op) is not None:
            return
        if self.log.has_unnumbered(entry.op):
            self.number(entry.op, entry.lsn)
        elif not self.has_gap:
            self.log.add(entry, self.remembers)
        elif not self.keep(entry, 0):
            self.missing.append(entry.op)

    def keep(self, entry, known):
        """One that waits for its number, or for others. False: it may not."""
        takes = self.log.takes_unnumbered(entry, known, self.epoch, self.mutants)
        if takes:
            self.log.unnumbered.append(entry)
        return takes

    def store_unnumbered(self, entry, known):
        """One that nobody has told the number of: others that came before it, and have bytes of the same places."""
        if self.log.find(entry.op) is not None:
            return []
        if not self.log.has_unnumbered(entry.op) and not self.keep(entry, known):
            self.missing.append(entry.op)
            return []
        ahead = []
        for other in self.log.unnumbered:
            if other.op == entry.op:
                break
            if other.overlaps(entry.offset, len(entry.data)):
                ahead.append(other.op)
        return ahead


class CopyFrames:
    """What nodes do with the frames that tell copies of updates."""

    def on_store(self, node, origin, settled_to, entries, names, known=0):
        """(OK, missing, ahead). Entries and names (op, LSN) are to be here under their LSNs. The first entry may have
        none."""
        unnumbered = [e for e in entries if not e.lsn]
        record = node.record
        if record.origin != origin:
            if unnumbered:  # it is not for this copy, and nobody relies on it
                return (OK, [e.op for e in entries] + [op for op, _ in names], [])
            if "copy_ignores_origin" in self.mutants:
                return (OK, [], [])
            assert record.origin > origin
            return self.answer_for_former(node, origin, entries, names)
        node.log = log = node.log or new_log(record)
        copied = Copied(log, node.epoch, self.mutants)
        bytes_of = {e.op: e for e in entries if e.lsn}
        for op, lsn in sorted({*names, *((e.op, e.lsn) for e in bytes_of.values())}, key=lambda name: name[1]):
            if op in bytes_of:
                copied.store(bytes_of[op])
            else:
                copied.number(op, lsn)
        if not copied.has_gap:
            log.settle(settled_to)
        ahead = copied.store_unnumbered(unnumbered[0], known) if unnumbered else []
        self.trim(node)
        return (OK, copied.missing, ahead)

    def answer_for_former(self, node, origin, entries, names):
        """The head has decided on another value. Updates that it had before that are older, and count. Those that it
        had not must not take effect any more. The others go by what the head says."""
        if not self.is_head(node):
            return (OK, [], [])
        of_entries = [node.formers.had(origin, e.op, e.lsn) for e in entries]
        of_names = [node.formers.had(origin, op, lsn) for op, lsn in names]
        if "no" in of_entries + of_names or "refused_by_copy_is_new" in self.mutants:
            return (OTHER_VALUE, node.record)
        if "forgotten" in (of_entries or of_names):
            return (FORGOTTEN,)
        self.seen["overwritten"] += 1
        return (OK, [], [])

    def on_settle(self, node, origin, upto, numbers):
        """(OK, whether all that the numbers (op, LSN) are of is here)."""
        log = node.log
        if not log or log.origin != origin:
            return (OK, not numbers)
        copied = Copied(log, node.epoch, self.mutants)
        for op, lsn in numbers:
            copied.number(op, lsn)
        if not copied.has_gap:
            log.settle(min(upto, log.last))
        return (OK, not copied.has_gap)

    def on_unnumbered(self, node):
        """The value and the operations of what waits for its number."""
        log = node.log
        return (OK, log.origin if log else 0, [e.op for e in log.unnumbered] if log else [])

    def on_cancel(self, node, origin, known, ops):
        """(OK, LSNs): those that have a number here keep it, the others (0) are not to be made."""
        if self.is_tail(node) and node.record.origin < origin:
            return NOT_SYNCED
        if node.record.origin != origin:
            return (OK, [0] * len(ops))
        node.log = log = node.log or new_log(node.record)
        lsns = [log.find(op) or 0 for op in ops]
        for op, lsn in zip(ops, lsns):
            if lsn:
                continue
            if self.is_tail(node):
                log.forbid(op, node.epoch)
            else:
                log.cancel(op, known, node.epoch)
        return (OK, lsns)
