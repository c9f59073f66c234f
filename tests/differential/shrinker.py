"""Makes a stream that differs as short as it can be while it still does.

`differs(stream)` sends it to the servers; each time its keys are new, so no run sees another's traces.
"""

from dataclasses import replace


class Budget:
    """How often servers may still be asked: an answer soon is better than the shortest one."""

    def __init__(self, differs, runs):
        self.ask = differs
        self.runs = runs

    def differs(self, stream):
        self.runs -= 1
        return self.runs >= 0 and self.ask(stream)


def fewer_commands(stream, differs, runs=1000):
    """Without all commands that it differs without."""
    budget = Budget(differs, runs)
    places = needed(stream.places(), lambda kept: budget.differs(stream.only(kept)))
    return stream.only(places)


def needed(items, suffices):
    """Of the items those without any of which the others do not suffice. Halves are tried first."""
    size = max(len(items) // 2, 1)
    while True:
        at, removed = 0, False
        while at < len(items):
            rest = items[:at] + items[at + size:]
            if rest and suffices(rest):
                items, removed = rest, True
            else:
                at += size
        if size == 1 and not removed:
            return items
        size = max(size // 2, 1)


def simplest(stream, differs, runs=3000):
    """Without all commands and cuts that it differs without, and with the simplest arguments."""
    budget = Budget(differs, runs)
    while True:
        before = stream
        stream = fewer_commands(stream, budget.differs, runs)
        stream = fewer_cuts(stream, budget.differs)
        stream = simpler_arguments(stream, budget.differs)
        stream = simpler_keys(stream, budget.differs)
        if stream == before:
            return stream


def fewer_cuts(stream, differs):
    for at, one in enumerate(stream.rounds):
        without = stream.with_round(at, replace(one, cuts=()))
        if not one.cuts or differs(without):
            stream = without
            continue
        cuts = needed(list(one.cuts), lambda kept, at=at, one=one:
                      differs(stream.with_round(at, replace(one, cuts=tuple(kept)))))
        stream = stream.with_round(at, replace(one, cuts=tuple(cuts)))
    return stream


def simpler_arguments(stream, differs):
    for place in stream.places():
        at, i = place
        is_simpler = True
        while is_simpler:
            candidates = (stream.with_command(place, simpler) for simpler in stream.rounds[at].commands[i].simpler())
            found = next(filter(differs, candidates), None)
            is_simpler = found is not None
            stream = found or stream
    return stream


def simpler_keys(stream, differs):
    for key in sorted(stream.keys(), key=repr):
        candidates = (stream.with_key(key, simpler) for simpler in key.simpler() if simpler not in stream.keys())
        stream = next(filter(differs, candidates), stream)
    return stream
