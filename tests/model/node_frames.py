"""Nodes, and what they do with frames."""
from dataclasses import replace

from answers import FORGOTTEN, LOG_FULL, NOT_SYNCED, OK, OTHER_VALUE, REFUSED, RENUMBER, UNNUMBERED
from log_copies import CopyFrames, Formers
from update_log import BLOCK, Entry, Record, cas_of, new_log

OF_SYNCED_KEYS = ("append", "view", "fetch", "settle", "store", "cancel", "commit", "read_head")


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
        self.formers = Formers()
        self.key_synced = self.partition_synced = False
        self.was_synced = False  # when it installed its map: what any report since says
        self.sync_floor = 0
        self.sync_epoch = 0  # the newest map that did not say that the partition is synced
        self.synced_in = self.key_synced_in = 0  # under which of these the partition, or the key, was synced last
        self.kept_log = None  # of mutants: the log of a forgotten record


class NodeFrames(CopyFrames):
    """What nodes do with frames: one handler a kind."""

    def handle(self, node, frame):
        kind = frame[0]
        if kind in OF_SYNCED_KEYS and not (self.is_home(node) and node.key_synced):
            return NOT_SYNCED
        return getattr(self, "on_" + kind)(node, *frame[1:])

    def is_home(self, node):
        return node.name in self.maps[node.epoch].homes

    def is_tail(self, node):
        return node.name == self.maps[node.epoch].homes[0]

    def is_head(self, node):
        return node.name == self.maps[node.epoch].homes[-1]

    def adopt(self, node, record):
        """The node's record is this one from now on."""
        log = node.log
        if log and log.origin != record.origin:
            if "log_survives_set" in self.mutants:
                log.origin = record.origin
            else:
                self.retire(node)
        node.record = record
        self.trim(node)

    def trim(self, node):
        log, version = node.log, node.record.version
        if not log:
            return
        if not self.mutants & {"homes_ignore_folded", "both_ignore_folded"}:
            log.drop_folded(node.record)
        log.forget_forbidden(version)
        retires = log.says_nothing(version, node.epoch) or "retire_early" in self.mutants and log.is_empty()
        if retires and "never_retire" not in self.mutants:
            self.seen["retired"] += 1
            self.retire(node)

    def retire(self, node):
        node.formers.note(node.log)
        node.log = None

    def on_append(self, node, op, origin, known, offset, data):
        record, log = node.record, node.log
        if record.origin != origin and not ("no_origin_check" in self.mutants and record.shards):
            return (OTHER_VALUE, record)
        lsn = log.find(op) if log else None
        if lsn is None:
            last = max(log.last if log else 0, record.version)
            reach = log.reach if log else record.version
            is_forbidden = log and log.is_forbidden(op, node.epoch) and "forbidden_taken" not in self.mutants
            if is_forbidden or known < reach and "reach_ignored" not in self.mutants:
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
            node.log = log = log or new_log(record)
            log.add(Entry(op, lsn, offset, data), "no_ring" not in self.mutants)
        below = [(e.op, e.lsn) for e in log.unsettled if e.lsn < lsn]
        return (OK, lsn, log.settled_to, below)

    def on_fetch(self, node, origin, ops):
        log = node.log
        if node.record.origin != origin:
            return (OTHER_VALUE, node.record)
        return (OK, [e for e in log.unsettled if e.op in ops] if log else [])

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
            if self.waits_for_numbers(node, condition[1]):
                return (UNNUMBERED,)
            is_same = cas_of(record, log) == condition[1]
            if "head_ignores_cas" in self.mutants:
                is_same = record.version == condition[2]
            if not is_same:
                return (REFUSED, record)
        highest = max(record.version, self.maps[node.epoch].floor)
        version = highest + 1 if "no_blocks" in self.mutants else (highest // BLOCK + 1) * BLOCK
        attempts = record.attempts + (attempt,)
        if change[0] == "value":
            if not log:
                node.formers.note_folded(record)
            next_record = Record(version, version, change[1], attempts=attempts)
        elif change[0] == "fold":
            next_record = replace(record, version=version, shards=change[1], folded=change[2], attempts=attempts)
        else:
            next_record = replace(record, version=version, attempts=attempts)
        self.adopt(node, next_record)
        return (OK, next_record)

    def waits_for_numbers(self, node, cas):
        """Whether the head can not tell yet. Numbers rise: a cas below that of the numbered ones has gone for good."""
        if not node.log or not node.log.unnumbered or "cas_ignores_unnumbered" in self.mutants:
            return False
        return cas_of(node.record, node.log) <= cas

    def on_push(self, node, record):
        if node.record is None or record.version > node.record.version:
            self.adopt(node, record)
        return (OK,)

    # Sync.
    def on_image(self, node):
        if not node.record:
            return (OK, None, None, 0, False)
        log = node.log.copy() if node.log else None
        # Where the key is synced the tail gives numbers, and sync must not.
        if log and node.key_synced and self.is_home(node) and "synced_tell_unnumbered" not in self.mutants:
            log.unnumbered = []
        is_synced_tail = self.is_tail(node) and node.key_synced
        return (OK, node.record, log, max(node.synced_in, node.key_synced_in), is_synced_tail)

    def on_sync_store(self, node, record, image):
        # Nobody knows more of a key that is synced here than its tail.
        takes = image and (not node.key_synced or "synced_take_images" in self.mutants)
        if node.record is None:
            node.log, node.kept_log = node.kept_log, None
        self.on_push(node, record)
        # A newer record came meanwhile: whoever brought that has brought its log.
        if takes and node.record.version == record.version and not self.has_image(node, image):
            self.seen["unnumbered synced"] += bool(image.unnumbered)
            node.log = image.restored(node.sync_floor, "sync_forgets_unnumbered" in self.mutants)
            self.trim(node)
        return (OK,)

    def has_image(self, node, image):
        """Since this sync a home has a log of that rank; whoever brings one more has chosen the same."""
        log = node.log
        if not log:
            return False
        if log.rank >= node.sync_floor and "rank_ignored" not in self.mutants:
            return True
        return (log.rank == image.rank and not log.unnumbered and not image.unnumbered
                and log.has_updates_of(image, "nameless_are_same" not in self.mutants))

    def on_mark(self, node, whole):
        if not node.partition_synced:
            node.key_synced, node.key_synced_in = True, node.epoch
        if whole:
            node.partition_synced, node.synced_in = True, node.sync_epoch
        return (OK,)

    def on_forget(self, node):
        self.forget(node)
        return (OK,)

    def forget(self, node):
        if "log_outlives_tenure" in self.mutants and node.log:
            node.kept_log = node.log
        node.record = node.log = None
        node.formers, node.key_synced_in = Formers(), 0

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
