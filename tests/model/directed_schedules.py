#!/usr/bin/env python3
"""Schedules of rules that random ones hardly ever break: each is run with the rules, and with one of them off.

    directed_schedules.py        ends with 1 if the rules do not hold, or if a mutant is not noticed
"""
import sys

from update_model import Simulation


class NoChance:
    """What is left to chance goes as the schedule wants it."""
    value = 0.99  # no LOG_FULL, no flow dies

    def random(self):
        return self.value

    def randrange(self, *bounds):
        return 0

    def sample(self, items, count):
        return list(items)[:count]

    def choice(self, items):
        return items[0]

    def shuffle(self, items):
        pass


class Directed(Simulation):
    def __init__(self, mutants, copies=3, rounds=2):
        super().__init__(1, frozenset(mutants), copies, 2, 0, rounds=rounds)
        self.random, self.duplicates_appends, self.garbage = NoChance(), False, []

    def run_flow(self, flow, *arguments, dies_at=None):
        """Its result; None if it dies when it has sent a frame of that kind."""
        results = []

        def body():
            task = yield "task"
            results.append((yield from flow(task, *arguments)))

        task = self.spawn(body(), self.proxies[0])
        self.deliver_all(dies_at and (lambda message: message[0] is task and message[5][0] == dies_at))
        if not results and task in self.tasks:
            self.tasks.remove(task)
            self.messages.clear()
        return results[0] if results else None

    def start_flow(self, flow, *arguments):
        def body():
            task = yield "task"
            yield from flow(task, *arguments)

        return self.spawn(body(), self.proxies[0])

    def deliver_all(self, until=None):
        while self.messages and not (until and until(self.messages[0])):
            message = self.messages.pop(0)
            self.answer(message, self.deliver(message))

    def make_map(self, homes, hears=True):
        self.choose_homes = lambda *_: homes
        self.random.value = 0.1 if hears else 0.99
        self.next_map()
        self.random.value = 0.99
        while self.to_install:
            self.install()
        self.serve()

    def fold_all(self, dies_at=None):
        self.random.value = 0.5
        self.run_flow(self.fold, dies_at=dies_at)
        self.random.value = 0.99


def returning_tail(mutants):
    """The tail alone has an update and goes away; the others fold and retire a log of another segment; it comes back."""
    s = Directed(mutants)
    s.run_flow(s.update, 0, (50,), dies_at="store")
    s.nodes["A"].is_stalled = True
    s.make_map(["B", "C", "D"])
    s.run_flow(s.sync, True)
    s.run_flow(s.update, 3, (60,))
    s.fold_all()
    s.run_flow(s.read_with_cas)
    s.nodes["A"].is_stalled = False
    s.make_map(["A", "B", "C"])
    s.run_flow(s.sync, True)
    s.run_flow(s.read_with_cas)
    return not s.cas_is_duplicate


def half_synced(homes_that_heard, rounds=2):
    """A map that does not know of the end of sync: some homes stay synced, others are not. All have a log."""

    def make(mutants):
        s = Directed(mutants, rounds=rounds)
        s.make_map(["B", "C", "D"])
        s.run_flow(s.sync, False)
        s.run_flow(s.update, 0, (50,))
        for name in homes_that_heard:
            s.on_mark(s.nodes[name], True)
        return s

    return make


def append_while_syncing(mutants):
    """The tail takes an update between the steps of a sync that has read its log."""
    s = half_synced("B")(mutants)
    s.make_map(["B", "C", "D"], hears=False)
    s.start_flow(s.sync, False)
    s.deliver_all(lambda message: message[5][0] == "sync_store")
    held, s.messages = s.messages, []
    results = []

    def update(task):
        results.append((yield from s.update(task, 1, (51,))))

    s.start_flow(update)
    s.deliver_all(lambda message: message[5][0] == "store")
    s.messages = held + s.messages
    s.deliver_all()
    value, _, _ = s.run_flow(s.read, 0, 4)
    return results == ["done"] and value[1] == 51


def sync_of_another_map(mutants):
    """The head stays synced by a map that asks for another sync; the tail, which is not, has numbered an update."""
    s = half_synced("D", rounds=1)(mutants)
    s.make_map(["B", "C", "D"], hears=False)
    s.run_flow(s.sync, False)
    value, _, _ = s.run_flow(s.read, 0, 4)
    return value[0] == 50


def missed_sync(mutants):
    """A former home has an update without a number; others give it one, fold it, and what comes after it."""
    s = Directed(mutants, rounds=1)
    s.run_flow(s.update, 0, (50,))
    s.make_map(["A", "B", "D"])
    s.run_flow(s.sync, False)
    s.run_flow(s.update, 0, (51,))
    s.fold_all()
    s.make_map(["B", "A", "D"])
    s.run_flow(s.sync, False)
    value, _, _ = s.run_flow(s.read, 0, 4)
    return value[0] == 51


def nameless_logs(mutants):
    """A former home returns that lacks an update. How two logs come to have forgotten all names, and to have one rank,
    is left out."""
    s = Directed(mutants)
    s.run_flow(s.update, 0, (50,))
    s.make_map(["A", "B", "D"])
    s.run_flow(s.sync, False)
    s.run_flow(s.update, 0, (51,))
    s.run_flow(s.read_with_cas)
    logs = [node.log for node in s.nodes.values() if node.log]
    for log in logs:
        log.forget_names(max(log.rank for log in logs))
        log.rank = log.reach
        log.settle(log.last)
    s.make_map(["A", "D", "C"])
    s.run_flow(s.sync, True)
    for name in "AD":
        s.crash(name)
    s.make_map(["C", "B", "A"])
    s.run_flow(s.sync, True)
    value, _, _ = s.run_flow(s.read, 0, 4)
    return value[0] == 51


def leave_middle_alone(s):
    """Tail and head lose their memory: what the middle has is what sync takes."""
    for name in "BD":
        s.crash(name)
    s.make_map(["C", "A", "B"])
    s.run_flow(s.sync, True)


def late_number(homes_that_heard, takers):
    """Homes stay synced, the tail among them, by a map that asks for another sync. An update has come to copies, but
    not to the tail; it is sent there again, and another one after it."""

    def run(mutants):
        s = Directed(mutants, rounds=1)
        s.make_map(["B", "C", "D"])
        s.run_flow(s.sync, False)
        for name in homes_that_heard:
            s.on_mark(s.nodes[name], True)
        s.start_flow(s.update, 0, (50,))
        held = [message for message in s.messages if message[4] not in takers]
        s.messages = [message for message in s.messages if message[4] in takers]
        s.deliver_all()
        s.make_map(["B", "C", "D"], hears=False)
        s.run_flow(s.sync, False)
        s.messages = held
        s.deliver_all()
        s.run_flow(s.update, 0, (51,))
        s.run_flow(s.read, 0, 4)
        leave_middle_alone(s)
        value, _, _ = s.run_flow(s.read, 0, 4)
        return value[0] == 51

    run.__name__ = "late_number"
    return run


def numbered_for_nobody(goes_on):
    """The head stays synced by a map that asks for another sync; copies have an update that the tail has not. This sync
    has come as far as the middle when the tail gets to serve without it."""

    def run(mutants):
        s = Directed(mutants, rounds=1)
        s.make_map(["B", "C", "D"])
        s.run_flow(s.sync, False)
        s.on_mark(s.nodes["D"], True)
        s.start_flow(s.update, 0, (50, 51))
        s.messages = [message for message in s.messages if message[4] in "CD"]
        s.deliver_all()
        s.tasks.clear()
        s.make_map(["B", "C", "D"], hears=False)
        s.start_flow(s.sync, False)
        s.deliver_all(lambda message: message[4] == "B" and message[5][0] == "sync_store")
        goes_on(s)
        s.run_flow(s.update, 0, (60,))
        before, _, _ = s.run_flow(s.read_with_cas)
        leave_middle_alone(s)
        after, _, _ = s.run_flow(s.read_with_cas)
        # The update of 50 and 51 may come at last, but as a whole, and under a number of its own.
        return not s.cas_is_duplicate and after[:2] in (before[:2], (50, 51))

    run.__name__ = "numbered_for_nobody"
    return run


def map_that_heard(s):
    """Ends the sync: the head has told the decider that it is synced, so the next map says that all are."""
    s.messages.clear()
    s.tasks.clear()
    s.make_map(["B", "C", "D"])


def touch_while_syncing(s):
    """The tail has a later version of the record when it is brought the log of the one before."""
    held, s.messages = s.messages, []
    s.run_flow(s.touch)
    s.messages = held
    s.deliver_all()


SCHEDULES = [
    ("log_outlives_tenure", returning_tail),
    ("synced_take_images,rank_ignored", append_while_syncing),
    ("claims_next_sync", sync_of_another_map),
    ("sync_ignores_epochs", missed_sync),
    ("nameless_are_same", nameless_logs),
    ("sync_numbers_for_tail", late_number("B", "CD")),
    ("synced_tell_unnumbered,sync_numbers_for_tail", late_number("BD", "D")),
    ("copies_numbered_first", numbered_for_nobody(map_that_heard)),
    ("copies_numbered_first", numbered_for_nobody(touch_while_syncing)),
]


def main():
    failed = False
    for mutants, schedule in SCHEDULES:
        holds, notices = schedule(()), not schedule(mutants.split(","))
        print(f"{schedule.__name__}: rules {'hold' if holds else 'BREAK'}, "
              f"{mutants} {'noticed' if notices else 'NOT NOTICED'}")
        failed |= not holds or not notices
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
