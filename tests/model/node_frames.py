"""Nodes, and what they do with frames."""
from dataclasses import replace

from update_log import Entry, Log, Record, cas_of

BLOCK = 6  # versions step by this much, 2^16 in the product

# Answers that are not of a handler.
TIMEOUT, STALE, DEAD, NOT_SYNCED = "timeout", "stale", "dead", "not synced"
# Answers of handlers, as the first element of a tuple.
OK, OTHER_VALUE, FORGOTTEN, LOG_FULL, RENUMBER, LACKS, REFUSED = (
    "ok", "other value", "forgotten", "log full", "renumber", "lacks", "refused")


class Node:
    def __init__(self, name):
        self.name = name
        self.restart()
        self.is_stalled = False

    def restart(self):
        self.is_dead = False
        self.epoch = 0
        self.record = None
        self.log = None
        self.key_synced = self.partition_synced = False
        self.sync_floor = 0
        self.kept_log = None  # of mutants: the log of a forgotten record


class NodeFrames:
    """What nodes do with frames: one handler a kind."""

    def handle(self, node, frame):
        kind = frame[0]
        current = self.maps[node.epoch]
        needs_sync = kind in ("append", "view", "fetch", "settle", "store", "commit", "read_head")
        if needs_sync and (node.name not in current.homes or not node.key_synced):
            return NOT_SYNCED
        return getattr(self, "on_" + kind)(node, *frame[1:])

    def adopt(self, node, record):
        """The node's record is this one from now on."""
        log = node.log
        if log and log.origin != record.origin:
            if "log_survives_set" in self.mutants:
                log.origin = record.origin
            else:
                node.log = None
        node.record = record
        self.trim(node)

    def trim(self, node):
        log = node.log
        if not log:
            return
        if not self.mutants & {"homes_ignore_folded", "both_ignore_folded"}:
            log.drop_folded(node.record)
        retires = node.record.version > log.last or "retire_early" in self.mutants
        if log.is_empty() and retires and "never_retire" not in self.mutants:
            self.seen["retired"] += 1
            node.log = None

    def on_append(self, node, op, origin, began_after, offset, data):
        record, log = node.record, node.log
        if record.origin != origin and not ("no_origin_check" in self.mutants and record.shards):
            return (OTHER_VALUE, record)
        lsn = log.find(op) if log else None
        if lsn is None:
            last = max(log.last if log else 0, record.version)
            reach = log.reach if log else record.version
            if began_after < reach and "reach_ignored" not in self.mutants:
                return (FORGOTTEN, log.last if log and "told_is_last" in self.mutants else max(last, reach))
            if self.random.random() < 0.05:
                return (LOG_FULL,)
            floor = node.sync_floor
            if "no_lsn_floor" in self.mutants:
                floor = 0
            if "lsn_from_map_floor" in self.mutants:
                floor = self.maps[node.epoch].floor
            lsn = max(log.rank if log else 0, record.version, floor) + 1
            if lsn // BLOCK > max(record.version, floor) // BLOCK and "no_blocks" not in self.mutants:
                return (RENUMBER, record)
            node.log = log = log or Log(record.origin, record.version)
            log.add(Entry(op, lsn, offset, data), "no_ring" not in self.mutants)
        below = [(e.op, e.lsn) for e in log.unsettled if e.lsn < lsn]
        return (OK, lsn, log.settled_to, below)

    def on_store(self, node, origin, settled_to, entries, below):
        record = node.record
        if record.origin != origin:
            if "copy_ignores_origin" in self.mutants:
                return (OK,)
            assert record.origin > origin
            return (OTHER_VALUE, record)
        log = node.log or Log(origin, record.version)
        given = {e.op for e in entries}
        lacking = [op for op, lsn in below if op not in given and not log.has(op, lsn)]
        if "settle_own_only" in self.mutants:
            lacking = []
        if lacking and "store_over_gap" not in self.mutants:
            return (LACKS, lacking)
        remembers = not self.mutants & {"no_ring", "ring_only_at_tail"}
        for entry in entries:
            if not log.has(entry.op, entry.lsn):
                log.add(entry, remembers)
        log.settle(settled_to)
        node.log = log
        self.trim(node)
        return (LACKS, lacking) if lacking else (OK,)

    def on_fetch(self, node, origin, ops):
        log = node.log
        if node.record.origin != origin:
            return (OTHER_VALUE, node.record)
        return (OK, [e for e in log.unsettled if e.op in ops] if log else [], log.settled_to if log else 0)

    def on_settle(self, node, origin, upto):
        if node.log and node.log.origin == origin:
            node.log.settle(upto)
        return (OK,)

    def on_view(self, node):
        return (OK, node.record, node.log.copy() if node.log else None)

    def on_read_head(self, node):
        return (OK, node.record)

    def on_commit(self, node, attempt, condition, change):
        record, log = node.record, node.log
        if attempt in record.attempts:
            return (OK, record)
        if condition[0] == "version" and record.version != condition[1]:
            return (REFUSED, record)
        if condition[0] == "cas":
            is_same = cas_of(record, log) == condition[1]
            if "head_ignores_cas" in self.mutants:
                is_same = record.version == condition[2]
            if not is_same:
                return (REFUSED, record)
        highest = max(record.version, self.maps[node.epoch].floor)
        version = highest + 1 if "no_blocks" in self.mutants else (highest // BLOCK + 1) * BLOCK
        attempts = record.attempts + (attempt,)
        if change[0] == "value":
            made_of = condition[1] if condition[0] == "cas" else 0
            next_record = Record(version, version, made_of, change[1], attempts=attempts)
        elif change[0] == "fold":
            next_record = replace(record, version=version, shards=change[1], folded=change[2], attempts=attempts)
        else:
            next_record = replace(record, version=version, attempts=attempts)
        self.adopt(node, next_record)
        return (OK, next_record)

    def on_push(self, node, record):
        if node.record is None or record.version > node.record.version:
            self.adopt(node, record)
        return (OK,)

    def on_image(self, node):
        return (OK, node.record, node.log.copy() if node.log else None)

    def on_sync_store(self, node, record, image):
        if node.record is None:
            node.log, node.kept_log = node.kept_log, None
        self.on_push(node, record)
        if image is None or node.record.origin != image.origin:
            return (OK,)
        own_rank = node.log.rank if node.log else -1
        if image.rank > own_rank or image.rank == own_rank and "equal_image_taken" in self.mutants:
            node.log = image.copy()
            self.trim(node)
        return (OK,)

    def on_mark(self, node, whole):
        node.key_synced = True
        node.partition_synced |= whole
        return (OK,)

    def on_forget(self, node):
        self.forget(node)
        return (OK,)

    def forget(self, node):
        if "log_outlives_tenure" in self.mutants and node.log:
            node.kept_log = node.log
        node.record = node.log = None

    # The pseudo node of all shards: immutable bytes by name.
    def on_put_shards(self, _, shards):
        self.shards.update(shards)
        return (OK,)

    def on_get_shards(self, _, names):
        if any(name not in self.shards for name in names):
            return (OK, None)
        return (OK, sum((self.shards[name] for name in names), ()))

    def on_delete_shards(self, _, names):
        for name in names:
            self.shards.pop(name, None)
        return (OK,)
