"""The flows of proxies."""
from answers import DEAD, NOT_SYNCED, OK, REFUSED, STALE, TIMEOUT, UNNUMBERED
from maps import Lost
from sync_images import newest_log
from update_flows import UpdateFlows
from update_log import SEGMENT_BYTES, SEGMENTS, VALUE_BYTES, cas_of, overlay

PARK = "park"  # a flow waits for the next epoch


class Task:
    """A flow that runs in a proxy."""

    def __init__(self, flow, proxy, epoch):
        self.flow, self.proxy, self.epoch = flow, proxy, epoch
        self.request = 0
        self.replies, self.expected = {}, 0
        self.is_parked = False


class Proxy:
    """What a proxy remembers of the key. Only what the tail has counts."""

    def __init__(self, record):
        self.record, self.known = record, record.version
        self.held = None

    def learn(self, record, lsn=0):
        if record.version > self.record.version:
            self.record = record
        self.known = max(self.known, record.version, lsn)


class ProxyFlows(UpdateFlows):
    """What proxies do. A flow yields a list of (node, frame) and is sent the list of their answers; it yields PARK to
    wait for the next epoch, and "task", first, to be told the task that it runs in."""

    def tail(self, task):
        return self.maps[task.epoch].homes[0]

    def head(self, task):
        return self.maps[task.epoch].homes[-1]

    def new_epoch(self, task):
        while self.served <= task.epoch:
            yield PARK
        task.epoch = self.served

    def ask(self, task, to, frame):
        """Asks until there is an answer, or the epoch is over; syncs the key where it is not. The second of the pair:
        whether an answer was lost, so that the frame may have been, and may yet be, executed."""
        lost = False
        while self.served == task.epoch:
            reply = (yield [(to, frame)])[0]
            if reply == NOT_SYNCED:
                lost |= frame[0] == "append" and self.may_come_again()
                yield from self.sync(task)
            elif reply == TIMEOUT:
                lost = True
            else:
                return reply, lost
        return STALE, lost

    def push(self, task, record):
        """Carries a record down the chain, below the head. True if the tail has it, in this epoch."""
        for home in self.maps[task.epoch].homes[-2::-1]:
            reply, _ = yield from self.ask(task, home, ("push", record))
            if reply in (STALE, DEAD):
                return False
        return True

    def stage(self, value):
        names = tuple(self.new_id() for _ in range(SEGMENTS))
        shards = {name: tuple(value[i * SEGMENT_BYTES:(i + 1) * SEGMENT_BYTES]) for i, name in enumerate(names)}
        yield [("shards", ("put_shards", shards))]
        return names

    def commit(self, task, condition, change):
        """(OK, record), (REFUSED, record), ("never",): it will not be executed, or ("unknown",)."""
        attempt, began, lost = self.new_id(), task.epoch, False
        frame = ("commit", attempt, condition, change)
        while True:
            sends = not lost or condition[0] != "always" and task.epoch == began
            reply = (yield [(self.head(task), frame)])[0] if sends else TIMEOUT
            if reply == NOT_SYNCED:
                # A second copy of the frame may find the key synced.
                lost |= self.may_be_duplicated(frame)
                yield from self.sync(task)
                if self.served != task.epoch and not lost:
                    return ("never",)
                continue
            if reply == (UNNUMBERED,):
                self.seen["waits for numbers"] += 1
                lost |= self.may_be_duplicated(frame)
                yield from self.number_all(task, self.head(task))
                if self.served != task.epoch and not lost:
                    return ("never",)
                continue
            if reply == STALE and not lost:
                return ("never",)
            if reply == TIMEOUT or reply in (STALE, DEAD):
                lost = True
                if reply != TIMEOUT:
                    yield from self.new_epoch(task)
                look, _ = yield from self.ask(task, self.head(task), ("read_head",))
                if look in (STALE, DEAD):
                    yield from self.new_epoch(task)
                    continue
                if attempt not in look[1].attempts:
                    if task.epoch > began:
                        return ("never",)
                    if condition[0] == "always":
                        return ("unknown",)
                    continue
                reply = (OK, look[1])
            if reply[0] == REFUSED:
                return reply
            if "began_from_head" in self.mutants:
                task.proxy.learn(reply[1])
            if (yield from self.push(task, reply[1])):
                task.proxy.learn(reply[1])
                return reply
            lost = True
            yield from self.new_epoch(task)

    def set_value(self, task, value):
        before = task.proxy.record
        names = (yield from self.stage(value)) if value else None
        result = yield from self.commit(task, ("always",), ("value", names))
        if result[0] == "never":
            return "refused"
        if result[0] != OK:
            return None
        self.superseded(before, result[1])
        return "done"

    def superseded(self, before, after):
        names = set(before.shards or ()) - set(after.shards or ())
        if names and before.version < after.version:
            self.garbage.append(tuple(names))

    def renumber(self, task, record):
        self.seen["renumber"] += 1
        yield from self.commit(task, ("version", record.version), ("touch",))

    def touch(self, task):
        yield from self.commit(task, ("version", task.proxy.record.version), ("touch",))

    def read(self, task, offset, length, settles_all=False):
        """(bytes or None, cas, record), settled; the cas only if all is. Tries until it can be told."""
        while True:
            view, _ = yield from self.ask(task, self.tail(task), ("view",))
            if view in (STALE, DEAD):
                yield from self.new_epoch(task)
                continue
            _, record, log = view
            touched = [e.lsn for e in (log.unsettled if log else [])
                       if settles_all or e.overlaps(offset, length)]
            if touched and "read_unsettled" not in self.mutants:
                self.seen["helped"] += 1
                helped = yield from self.help(task, record, log, max(touched))
                if helped is STALE:
                    yield from self.new_epoch(task)
                    continue
                if helped != OK:
                    if not (yield from self.push(task, helped)):
                        yield from self.new_epoch(task)
                    continue
            task.proxy.learn(record, cas_of(record, log) if not touched or settles_all else 0)
            if record.shards is None:
                return None, cas_of(record, log), record
            reply = (yield [("shards", ("get_shards", record.shards))])[0]
            if reply[0] != OK or reply[1] is None:
                continue
            ignores = bool(self.mutants & {"readers_ignore_folded", "both_ignore_folded"})
            value = overlay(reply[1], record, log, ignores)
            return value[offset:offset + length], cas_of(record, log), record

    def read_with_cas(self, task):
        value, cas, record = yield from self.read(task, 0, VALUE_BYTES, settles_all=True)
        if self.value_of_cas.setdefault(cas, value) != value:
            self.cas_is_duplicate = True
        return value, cas, record

    def client_read(self, task, offset, length):
        value, _, _ = yield from self.read(task, offset, length)
        return ("value", value)

    def client_cas(self, task, new_value):
        """gets, then cas: two operations of one client."""
        got = self.begin("read", (0, VALUE_BYTES))
        value, cas, record = yield from self.read_with_cas(task)
        self.end(got, ("value", value))
        if value is None:
            return
        names = yield from self.stage(new_value)
        asked = self.begin("cas", (value, new_value))
        for _ in range(4):
            result = yield from self.commit(task, ("cas", cas, record.version), ("value", names))
            if result[0] == OK:
                self.seen["cas done"] += 1
                self.superseded(record, result[1])
                return self.end(asked, "done")
            if result[0] == "unknown":
                return
            if result[0] == "never":
                yield from self.new_epoch(task)
            if result[0] == REFUSED and "exists_unchecked" in self.mutants:
                return self.end(asked, "exists")
            _, now, record = yield from self.read_with_cas(task)
            if now != cas:
                self.seen["exists"] += 1
                return self.end(asked, "exists")
        return self.end(asked, "refused")

    def fold(self, task):
        view, _ = yield from self.ask(task, self.tail(task), ("view",))
        if view in (STALE, DEAD) or view[2] is None or view[1].shards is None:
            return
        _, record, log = view
        if log.unsettled and "fold_unsettled" not in self.mutants:
            helped = yield from self.help(task, record, log, log.last)
            if helped != OK:
                if helped is not STALE:
                    yield from self.push(task, helped)
                return
        reply = (yield [("shards", ("get_shards", record.shards))])[0]
        if reply[0] != OK or reply[1] is None:
            return
        changed = {at // SEGMENT_BYTES for at in log.settled}
        for entry in log.unsettled:
            changed |= {(entry.offset + i) // SEGMENT_BYTES for i in range(len(entry.data))}
        changed = {s for s in changed if self.random.random() < 0.8}
        if not changed:
            return
        fresh = yield from self.stage(overlay(reply[1], record, log, False))
        names = tuple(fresh[s] if s in changed else record.shards[s] for s in range(SEGMENTS))
        folded = tuple(log.last if s in changed else record.folded[s] for s in range(SEGMENTS))
        result = yield from self.commit(task, ("version", record.version), ("fold", names, folded))
        if result[0] == OK:
            self.seen["folded"] += 1
            self.superseded(record, result[1])

    def sync(self, task, whole=None):
        """Brings the newest record and the image of its log to all homes, and marks the key as synced."""
        current = self.maps[task.epoch]
        if current.synced:
            return
        holders = sorted({name for group in current.sources for name in group} | set(current.homes))
        replies = yield [(name, ("image",)) for name in holders]
        if any(reply[0] != OK for reply in replies):
            return
        found = [reply[1:] for reply in replies if reply[1]]
        if not found:
            raise Lost()
        newest = max((record for record, *_ in found), key=lambda r: r.version)
        image = newest_log(newest, found, self.copies, self.mutants)
        for homes, log in self.steps_of_sync(current.homes, image):
            replies = yield [(name, ("sync_store", newest, log)) for name in homes]
            if any(reply[0] != OK for reply in replies):
                return
        self.seen["synced"] += 1
        whole = self.random.random() < 0.5 if whole is None else whole
        for step in [False, True] if whole else [False]:
            replies = yield [(name, ("mark", step)) for name in current.homes]
            if any(reply[0] != OK for reply in replies):
                return
        left = [name for name in holders if name not in current.homes]
        if whole and left:
            yield [(name, ("forget",)) for name in left]

    def steps_of_sync(self, homes, image):
        """Who is sent the record and which log, one step after the other. A tail that stays synced serves what it gets
        at once, so the others must have the record before. What gets a number gets it at the tail first: it may become
        synced before this sync ends, by a map made of what another home tells, and then give the same number again."""
        tail, others = homes[:1], homes[1:]
        steps = [(others, image), (tail, image)]
        if image and image.unnumbered and "copies_numbered_first" not in self.mutants:
            steps = [(others, None), (tail, image), (others, image)]
        return [step for step in steps if step[0]]

    def collect(self, names):
        task = yield "task"
        yield [("shards", ("delete_shards", names))]

    def sync_whole(self):
        task = yield "task"
        yield from self.sync(task, whole=True)
