"""The flows of proxies around updates: what goes to the tail and to the copies, and how numbers get to these."""
from dataclasses import dataclass

from answers import DEAD, FORGOTTEN, LOG_FULL, NOT_SYNCED, OK, OTHER_VALUE, RENUMBER, STALE, TIMEOUT
from maps import HOMES
from update_log import Entry, Record, cas_of

MADE = "made"  # an update in one round, by all that was asked in it


@dataclass
class Update:
    """An update on its way."""
    offset: int
    data: tuple
    record: Record | None = None  # that it is an update of
    op: int | None = None  # its name; the same until it certainly was not made
    known: int = 0  # of the key, when it got its name
    told: int = 0  # by a tail that had forgotten
    doubtful: bool = False  # some node may have taken it, or may yet

    def forget(self):
        """Nothing of it has happened, or ever will: what follows is another update."""
        self.op, self.doubtful = None, False


@dataclass
class Held:
    """Updates that were made in one round: the copies are to be told their numbers."""
    epoch: int
    origin: int
    numbers: list  # (op, LSN), ascending


class UpdateFlows:
    """Flows as those of ProxyFlows."""

    def other_copies(self, task):
        homes = self.maps[task.epoch].homes
        copies = homes[1:] if self.copies >= HOMES else homes[1:][-1:]
        return self.random.sample(copies, len(copies))

    def update(self, task, offset, data):
        """'done', 'not found', 'refused' (not done), or None: not known."""
        update = Update(offset, data)
        for _ in range(12):
            outcome = yield from self.try_update(task, update)
            if outcome:
                return None if outcome == "unknown" else outcome
        return None if update.doubtful else "refused"

    def try_update(self, task, update):
        """As update(), but "unknown" for None; None: try again."""
        if update.op is None:
            if task.proxy.record.shards is None:
                return (yield from self.look_for_object(task))
            update.record, update.op = task.proxy.record, self.new_id()
            update.known = max(task.proxy.known, update.told)
        if self.goes_at_once(update):
            reply = yield from self.append_at_once(task, update)
        else:
            reply, lost = yield from self.ask(task, self.tail(task), self.append_frame(update))
            update.doubtful |= lost
        if reply == MADE:
            return "done"
        if reply in (STALE, DEAD):
            if "resend_as_new" in self.mutants:
                update.forget()
            yield from self.new_epoch(task)
        elif reply[0] == OK:
            return (yield from self.store(task, update, reply))
        elif reply not in (TIMEOUT, NOT_SYNCED):
            return (yield from self.refused(task, update, reply))
        return None

    def look_for_object(self, task):
        view, _ = yield from self.ask(task, self.tail(task), ("view",))
        if view in (STALE, DEAD):
            yield from self.new_epoch(task)
            return None
        task.proxy.learn(view[1], cas_of(view[1], view[2]))
        return "not found" if view[1].shards is None else None

    def append_frame(self, update):
        return ("append", update.op, update.record.origin, update.known, update.offset, update.data)

    def may_come_again(self):
        """A second copy of a frame that the tail did not execute may be executed later."""
        return self.duplicates_appends and "refused_for_good" not in self.mutants

    def refused(self, task, update, reply):
        """The tail has not taken it. That is so for good only if it was not asked before in vain."""
        kind = reply[0]
        if kind == OTHER_VALUE:
            task.proxy.learn(reply[1])
            if update.doubtful and "other_value_resent" not in self.mutants:
                return "unknown"
            update.forget()
        elif kind == FORGOTTEN:
            self.seen["forgotten"] += 1
            if update.doubtful and "forgotten_ignored" not in self.mutants:
                return "unknown"
            task.proxy.known = max(task.proxy.known, reply[1])
            update.told = reply[1]
            update.forget()
        else:
            update.doubtful |= self.may_come_again()
            if kind == LOG_FULL and self.random.random() < 0.3:
                return "unknown" if update.doubtful else "refused"
            if not update.doubtful or kind == LOG_FULL and "log_full_is_new" in self.mutants:
                update.forget()
            if kind == RENUMBER:
                yield from self.renumber(task, reply[1])
            else:
                yield from self.fold(task)
            if self.served != task.epoch:
                yield from self.new_epoch(task)
        return None

    # Two rounds.
    def store(self, task, update, reply):
        """The second: the tail has given it a number."""
        _, lsn, settled_to, below = reply
        origin = update.record.origin
        update.doubtful = True
        task.proxy.known = max(task.proxy.known, lsn)
        stored = yield from self.store_at_copies(
            task, origin, settled_to, [Entry(update.op, lsn, update.offset, update.data)], below)
        if stored == OK:
            self.answered_cas.append((lsn, update.offset, update.data))
            if self.random.random() < 0.7:
                self.spawn(self.settle(origin, lsn), task.proxy)
            return "done"
        if stored == FORGOTTEN:
            return "unknown"
        if stored is STALE or not (yield from self.push(task, stored)):
            yield from self.new_epoch(task)
            return None
        # The head had replaced the value without it, so that it never takes effect.
        task.proxy.learn(stored)
        self.seen["refused by copy"] += 1
        update.forget()
        return None

    def store_at_copies(self, task, origin, settled_to, entries, names):
        """OK, a record of a newer value, FORGOTTEN: the head can not tell, or STALE: the epoch is over."""
        for copy in self.other_copies(task):
            stored = yield from self.store_at(task, copy, origin, settled_to, entries, names)
            if stored != OK:
                return stored
        return OK

    def store_at(self, task, copy, origin, settled_to, entries, names):
        sent = entries
        while True:
            reply, _ = yield from self.ask(task, copy, ("store", origin, settled_to, sent, names))
            if reply in (STALE, DEAD):
                return STALE
            if reply[0] != OK:
                return reply[1] if reply[0] == OTHER_VALUE else FORGOTTEN
            missing = reply[1]
            if not missing:
                return OK
            if self.random.random() < 0.5:  # mostly it is on its way there, and what came over a gap is kept
                names, sent = names + [(e.op, e.lsn) for e in sent], []
                continue
            self.seen["fetched"] += 1
            fetched, _ = yield from self.ask(task, self.tail(task), ("fetch", origin, missing))
            if fetched in (STALE, DEAD):
                return STALE
            if fetched[0] == OTHER_VALUE:
                continue  # the head tells what counts
            # What the tail has not got as such any more all copies have had, and this one may have forgotten.
            known = {e.op for e in fetched[1]}
            names = [name for name in names if name[0] in known or name[0] not in missing]
            sent = fetched[1] + [e for e in entries if e.op not in known]

    def settle(self, origin, lsn):
        task = yield "task"
        yield from self.ask(task, self.tail(task), ("settle", origin, lsn, []))

    def help(self, task, record, log, top):
        """Sees to it that the other copies have what is unsettled up to an LSN. Results as of store_at_copies()."""
        names = [(e.op, e.lsn) for e in log.unsettled if e.lsn <= top]
        stored = yield from self.store_at_copies(task, record.origin, log.settled_to, [], names)
        if stored == OK and self.random.random() < 0.5:
            self.spawn(self.settle(record.origin, top), task.proxy)
        if stored != FORGOTTEN:
            return stored
        head, _ = yield from self.ask(task, self.head(task), ("read_head",))
        return STALE if head in (STALE, DEAD) else head[1]

    # One round.
    def goes_at_once(self, update):
        """Not what may be at the copies already; nor while others are on their way, which comes by chance here."""
        return self.rounds == 1 and not update.doubtful and self.random.random() >= 0.2

    def append_at_once(self, task, update):
        """Asks tail and copies in one round. The tail's answer; MADE: all have it, and none would put anything over it
        that the tail has not put below it."""
        op, origin, proxy = update.op, update.record.origin, task.proxy
        numbers = self.take_held(proxy, task.epoch, origin)
        frame = ("store", origin, 0, [Entry(op, 0, update.offset, update.data)], numbers, update.known)
        copies = self.other_copies(task)
        reply, *stored = yield [(self.tail(task), self.append_frame(update))] + [(copy, frame) for copy in copies]
        takers = [answer for answer in stored if answer[0] == OK and op not in answer[1]]
        self.note_told(task, origin, numbers, stored)
        if reply[0] == OK:
            is_taken = len(takers) == len(copies) or "one_copy_suffices" in self.mutants and takers
            below = {name for name, _ in reply[3]}
            ahead = {name for answer in takers for name in answer[2]}
            if is_taken and (ahead <= below or "ahead_ignored" in self.mutants):
                self.made_in_one_round(task, update, reply)
                return MADE
            return reply
        if takers or TIMEOUT in stored:
            is_gone = reply[0] == OTHER_VALUE and reply[1].origin > origin
            if not is_gone and not (yield from self.is_taken_back(task, update, reply)):
                update.doubtful = True
        if reply == TIMEOUT:
            update.doubtful = True
        if reply == NOT_SYNCED:
            update.doubtful |= self.may_come_again()
            yield from self.sync(task)
            if self.served != task.epoch:
                yield from self.new_epoch(task)
        return reply

    def is_taken_back(self, task, update, reply):
        """Whether no copy has what the tail has refused, or ever will."""
        if "refused_uncancelled" in self.mutants:
            return True
        if reply in (TIMEOUT, NOT_SYNCED, STALE, DEAD):
            return False
        return (yield from self.cancel(task, self.other_copies(task), update.record.origin, update.known, [update.op]))

    def cancel(self, task, copies, origin, known, ops):
        replies = yield [(copy, ("cancel", origin, known, ops)) for copy in copies]
        self.seen["cancelled"] += 1
        return all(reply[0] == OK and not any(reply[1]) for reply in replies)

    def made_in_one_round(self, task, update, reply):
        _, lsn, _, below = reply
        origin = update.record.origin
        self.seen["one round"] += 1
        task.proxy.known = max(task.proxy.known, lsn)
        self.answered_cas.append((lsn, update.offset, update.data))
        self.hold(task, origin, below + [(update.op, lsn)])
        if "settled_untold" in self.mutants:
            self.spawn(self.settle(origin, lsn), task.proxy)
        elif self.random.random() < 0.5:  # else the next update tells them, or whoever needs to know finds out
            self.spawn(self.tell_numbers(), task.proxy)

    def hold(self, task, origin, numbers):
        held = task.proxy.held
        if held and (held.epoch, held.origin) == (task.epoch, origin):
            numbers = sorted({*held.numbers, *numbers}, key=lambda name: name[1])
        task.proxy.held = Held(task.epoch, origin, numbers)

    def take_held(self, proxy, epoch, origin):
        held, proxy.held = proxy.held, None
        return held.numbers if held and (held.epoch, held.origin) == (epoch, origin) else []

    def note_told(self, task, origin, numbers, stored):
        """The numbers went to the copies with another update."""
        if not numbers:
            return
        told = {op for op, _ in numbers}
        if all(answer[0] == OK and not told & set(answer[1]) for answer in stored):
            self.spawn(self.settle(origin, numbers[-1][1]), task.proxy)
        else:
            self.hold(task, origin, numbers)

    def tell_numbers(self):
        task = yield "task"
        held, task.proxy.held = task.proxy.held, None
        if not held or held.epoch != task.epoch:
            return
        replies = yield [(copy, ("settle", held.origin, 0, held.numbers)) for copy in self.other_copies(task)]
        if all(reply == (OK, True) for reply in replies):
            yield from self.ask(task, self.tail(task), ("settle", held.origin, held.numbers[-1][1], []))

    def number_all(self, task, copy):
        """Sees to it that nothing is left without a number of what the copy has so now: what the tail knows gets its
        number at all copies, all else is cancelled."""
        told = (yield [(copy, ("unnumbered",))])[0]
        if told[0] != OK or not told[2]:
            return
        _, origin, ops = told
        cancelled = (yield [(self.tail(task), ("cancel", origin, 0, ops))])[0]
        if cancelled[0] != OK:
            return
        if any(cancelled[1]):
            yield from self.read_with_cas(task)
        others = [op for op, lsn in zip(ops, cancelled[1]) if not lsn]
        if others:
            yield from self.cancel(task, sorted({copy, *self.other_copies(task)}), origin, 0, others)

    def number_anywhere(self):
        task = yield "task"
        yield from self.number_all(task, self.random.choice(self.maps[task.epoch].homes[1:]))
