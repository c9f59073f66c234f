#!/usr/bin/env python3
"""Random schedules of partial updates through logs at the homes of a record.

The model is one key: an object of four bytes in two segments, its record at three of four nodes (tail, middle, head),
and the update log beside the record. It runs the flows of a proxy (update, read, SET, DELETE, cas, fold, sync, touch)
against nodes, step by step:

  * A message is one atomic step at a node. Messages are delayed and duplicated (blind commits excepted, and updates
    without a number), replies get lost, and proxies die between any two steps.
  * Nodes crash and come back empty, and nodes go away: they stall, are left out of a map, keep their memory, and come
    back later with old records and old logs. At any time at most CRASHES nodes have failed since the last complete
    sync; one that is away counts.
  * Maps are installed node by node and served once all have them; frames of other epochs are refused. Homes that stay
    keep their logs, also where the decider had not heard of the end of sync; else the key is synced, by several
    proxies at once.
  * Histories are checked for linearizability. A cas unique stands for one value, and EXISTS is answered only while
    the value is another one.

Updates go in two rounds (the tail gives the LSN, then the copies get the update under it), or, with --rounds 1, most of
them in one: tail and copies get an update at the same time. Copies keep it without a number until they are told that,
with the proxy's next update, by itself, or by who reads the bytes. What the tail refuses is cancelled at the copies;
what has no number is cancelled or gets one before a cas is compared, and now and then by itself; sync numbers the rest.

What is small so that it matters: the ring of recent operations, the blocks of versions (RENUMBER), what a copy keeps
without a number, and of how many replaced values a head remembers the updates.

Not modelled: coding and places of shards (a segment's shards are its bytes under one name, and are never lost), room
of logs (LOG_FULL comes by chance), LOST partitions, fences and base versions, flushes, expiry, two deciders at once,
damaged memory, the sweep of sync (keys are synced on access), conditions of updates, a ring of attempts that overflows,
rounds that updates share, and updates without bytes.

    update_model.py FIRST_SEED COUNT MUTANTS COPIES CRASHES OPERATIONS [--rounds 1] [--bias WORDS] [--trace SEED]
    update_model.py 0 20000 - 3 2 6                   the rules hold: all ok
    update_model.py 0 20000 - 3 2 6 --rounds 1        in one round, too
    update_model.py 0 8000 read_unsettled 3 2 6       one rule switched off, by a name of MUTANTS
    update_model.py 0 20000 - 2 1 6 --bias away,fold  schedules with more of something, of BIASES

COPIES is 3 (log_copies all) or 2 (two: tail and head). Ends with 1 if a schedule did not end ok. Some rules are hardly
ever broken by chance: directed_schedules.py.
"""
import argparse
import collections
import random
import sys

from answers import DEAD, STALE, TIMEOUT
from histories import Operation, is_linearizable
from maps import EPOCH_STEP, HOMES, NODES, Lost, Map, Membership
from node_frames import Node, NodeFrames
from proxy_flows import PARK, Proxy, ProxyFlows, Task
from update_log import BLOCK, VALUE_BYTES, Record

MAX_STEPS = 3000

BIASES = ["maps", "cas", "torn", "away", "fold"]
MUTANTS = {
    "no_origin_check": "the tail takes an update of another value",
    "head_ignores_cas": "the head compares the version only",
    "copy_ignores_origin": "a copy with a newer value answers OK",
    "no_ring": "operations are not remembered",
    "ring_only_at_tail": "copies do not remember operations",
    "forgotten_ignored": "FORGOTTEN after a lost reply: sent as a new operation",
    "reach_ignored": "the tail never answers FORGOTTEN",
    "resend_as_new": "an operation is sent as a new one after a lost reply",
    "other_value_resent": "OTHER_VALUE after a lost reply: sent as a new operation",
    "log_full_is_new": "LOG_FULL after a lost reply: sent as a new operation",
    "refused_for_good": "LOG_FULL and RENUMBER are definite although the network duplicates appends",
    "refused_by_copy_is_new": "OTHER_VALUE from a copy always means that the update was not executed",
    "began_from_head": "began_after counts versions that only the head is known to have",
    "told_is_last": "FORGOTTEN tells the last LSN of the log, also where its ring does not reach to it",
    "read_unsettled": "reads do not help",
    "settle_own_only": "copies take an entry without those below it",
    "store_over_gap": "copies take an entry, and tell what they lack afterwards",
    "no_lsn_floor": "LSNs ignore the sync floor",
    "lsn_from_map_floor": "LSNs take the floor of the installed map for the sync floor",
    "floor_by_flag": "a node that stays synced takes the sync floor of a map that says not synced",
    "synced_take_images": "a home takes an image of a log although the key is synced there",
    "rank_ignored": "a home takes an image although it has a log of this sync",
    "nameless_are_same": "two logs that remember no names are the same, whatever their last LSN",
    "lowest_image": "sync takes the image with the lowest last LSN",
    "sync_forgets_ring": "images have no ring",
    "sync_forgets_log": "sync brings records only",
    "sync_settles": "what an image has unsettled counts as settled after sync",
    "log_outlives_tenure": "a node that was away keeps its log under the record that it is brought",
    "fold_unsettled": "folds take unsettled bytes",
    "homes_ignore_folded": "homes keep log bytes that are folded",
    "readers_ignore_folded": "readers put log bytes on top that are folded",
    "both_ignore_folded": "homes keep such bytes, readers put them on top",
    "refused_uncancelled": "what the tail has refused is not cancelled at the copies",
    "cancelled_comes_later": "copies take what was cancelled if it comes afterwards",
    "forbidden_taken": "the tail takes what was cancelled",
    "copy_ignores_reach": "a copy takes an update without a number that it may have had and forgotten",
    "ahead_ignored": "an update in one round is told whatever copies would put over it (only updates that were under "
                     "way together: shows that histories do not tell)",
    "one_copy_suffices": "an update in one round is told when one copy has it",
    "settled_untold": "the tail is told that updates are settled whose numbers copies do not know",
    "cas_ignores_unnumbered": "the head compares a cas though it has updates without a number",
    "sync_forgets_unnumbered": "images have no updates without a number",
    "synced_tell_unnumbered": "homes where the key is synced tell sync what has no number",
    "unnumbered_not_counted": "of images with the same last LSN any counts, whatever it has without a number",
    "sync_ignores_epochs": "logs of homes that have missed a sync count",
    "sync_numbers_for_tail": "sync gives numbers though the tail stays synced, and gives others",
    "copies_numbered_first": "sync gives numbers at the copies before it does at the tail",
    "claims_next_sync": "a home that stays synced claims the sync that a map asks for",
    "retire_early": "an empty log is dropped whatever the version",
    "never_retire": "an empty log stays (no rule: shows that dropping is what needs the rules)",
    "log_survives_set": "a new value keeps the log",
    "no_blocks": "versions step by 1",
    "exists_unchecked": "EXISTS because the head refused",
}


class Simulation(NodeFrames, ProxyFlows, Membership):
    def __init__(self, seed, mutants, copies, crashes, operations, bias=(), trace=False, rounds=2):
        self.random = random.Random(seed)
        self.mutants, self.copies, self.crashes = mutants, copies, crashes
        self.operations, self.bias, self.is_traced, self.rounds = operations, bias, trace, rounds
        self.last_id = self.clock = self.last_byte = 0
        self.seen = collections.Counter()
        self.history, self.answered_cas, self.value_of_cas = [], [], {}
        self.cas_is_duplicate = False
        self.duplicates_appends = self.random.random() < 0.5
        self.messages, self.tasks, self.garbage, self.failed = [], [], [], set()
        self.nodes = {name: Node(name) for name in NODES}
        self.nodes["shards"] = Node("shards")
        homes = NODES[:HOMES]
        self.maps = {0: Map(0, [], [], False, 0, []), 1: Map(1, homes, [], True, 0, list(NODES))}
        self.last_map = self.served = 1
        self.to_install = None
        self.reborn_in = {}
        self.known_whole = 1  # the last map of which the decider knows that all was synced
        version = EPOCH_STEP + BLOCK
        self.first_value = (1, 2, 3, 4)
        self.shards = {"s0": (1, 2), "s1": (3, 4)}
        record = Record(version, version, ("s0", "s1"))
        for name in NODES:
            node = self.nodes[name]
            node.epoch, node.sync_floor = 1, EPOCH_STEP
            if name in homes:
                node.record = record
                node.key_synced = node.partition_synced = node.was_synced = True
        self.proxies = [Proxy(record), Proxy(record)]

    def note(self, text):
        if self.is_traced:
            print(text)

    def new_id(self):
        self.last_id += 1
        return self.last_id

    def fresh_bytes(self, length):
        self.last_byte += 4
        return tuple(self.last_byte + i for i in range(1, length + 1))

    # Histories.
    def begin(self, kind, argument):
        self.clock += 1
        self.history.append(Operation(kind, argument, self.clock))
        self.note(f"client {len(self.history) - 1}: {kind} {argument}")
        return len(self.history) - 1

    def end(self, index, result):
        self.clock += 1
        self.history[index].end, self.history[index].result = self.clock, result
        self.note(f"client {index}: is told {result}")

    # Flows and messages.
    def spawn(self, flow, proxy=None):
        task = Task(flow, proxy or self.random.choice(self.proxies), self.served)
        self.tasks.append(task)
        self.resume(task, None)
        return task

    def resume(self, task, value):
        try:
            request = task.flow.send(value)
            while request == "task":
                request = task.flow.send(task)
        except StopIteration:
            self.tasks.remove(task)
            return
        if request == PARK:
            task.is_parked = True
            return
        task.request, task.replies, task.expected = self.new_id(), {}, len(request)
        for index, (to, frame) in enumerate(request):
            self.messages.append((task, task.request, index, task.epoch, to, frame))

    def answer(self, message, reply):
        task, request, index = message[:3]
        if task not in self.tasks or task.request != request or task.is_parked:
            return
        task.replies[index] = reply
        if len(task.replies) == task.expected:
            self.resume(task, [task.replies[i] for i in range(task.expected)])

    def deliver(self, message):
        _, _, _, epoch, to, frame = message
        node = self.nodes[to]
        if to == "shards":
            reply = self.handle_shards(frame)
        elif node.is_dead:
            reply = DEAD
        elif node.epoch != epoch or epoch != self.served:
            reply = STALE
        else:
            reply = self.handle(node, frame)
        self.note(f"  {to} {epoch} {frame} -> {reply}")
        return reply

    def handle_shards(self, frame):
        return getattr(self, "on_" + frame[0])(None, *frame[1:])

    def may_be_duplicated(self, frame):
        if frame[0] == "append":
            return self.duplicates_appends
        if frame[0] == "store" and len(frame) > 5:  # without a number: what a copy has refused it never takes
            return False
        return not (frame[0] == "commit" and frame[2][0] == "always")

    def step(self):
        index = self.random.randrange(len(self.messages))
        message = self.messages[index]
        to, frame = message[4], message[5]
        if to != "shards" and self.nodes[to].is_stalled:
            chance = self.random.random()
            if chance < 0.2:
                self.messages.pop(index)
            if chance < 0.4:
                self.answer(message, TIMEOUT)
            return
        self.messages[index] = self.messages[-1]
        self.messages.pop()
        chance = self.random.random()
        if to == "shards" or chance >= 0.14:
            self.answer(message, self.deliver(message))
        elif chance < 0.06:  # late: the proxy gives up on it, and the node gets it later
            self.messages.append((None, *message[1:]))
            self.note(f"  {to} late {frame}")
            self.answer(message, TIMEOUT)
        elif chance < 0.1 and self.may_be_duplicated(frame):
            self.messages.append((None, *message[1:]))
            self.answer(message, self.deliver(message))
        else:
            self.deliver(message)
            self.note("  (answer lost)")
            self.answer(message, TIMEOUT)

    # The schedule.
    def plan(self):
        weights = {"read": 25, "update": 40, "cas": 12, "set": 9, "delete": 3, "touch": 4}
        if "cas" in self.bias:
            weights.update(cas=35, update=35)
        if "torn" in self.bias:
            weights.update(set=2, delete=1, update=50)
        plan = self.random.choices(list(weights), list(weights.values()), k=self.operations)
        plan += ["fold"] * self.random.randrange(10 if "fold" in self.bias else 4)
        self.random.shuffle(plan)
        return plan

    def start(self, kind):
        if kind in ("fold", "touch"):
            return self.spawn(self.in_task(getattr(self, kind)))
        if kind == "cas":
            return self.spawn(self.in_task(self.client_cas, self.fresh_bytes(VALUE_BYTES)))
        offset = self.random.randrange(VALUE_BYTES)
        length = self.random.randrange(1, VALUE_BYTES - offset + 1)
        if kind == "update":
            argument, flow = (offset, self.fresh_bytes(length)), self.update
        elif kind == "read":
            if self.random.random() < 0.5:
                offset, length = 0, VALUE_BYTES
            argument, flow = (offset, length), self.client_read
        else:
            argument, flow = (self.fresh_bytes(VALUE_BYTES) if kind == "set" else None,), self.set_value
        index = self.begin(kind, argument)
        return self.spawn(self.in_task(self.told, index, flow, *argument))

    def in_task(self, flow, *arguments):
        task = yield "task"
        yield from flow(task, *arguments)

    def told(self, task, index, flow, *arguments):
        result = yield from flow(task, *arguments)
        if result is not None:
            self.end(index, result)

    def run(self):
        todo, steps = self.plan(), 0
        away_chance = 0.03 if "away" in self.bias else 0.008
        crash_chance = 0.04 if "torn" in self.bias else 0.012
        map_chance = 0.02 if "maps" in self.bias else 0.004
        death_chance = 0.03 if "torn" in self.bias else 0.01
        while (todo or self.messages) and steps < MAX_STEPS:
            steps += 1
            chance = self.random.random()
            if todo and (chance < 0.1 or not self.messages):
                self.start(todo.pop())
            elif 0.1 < chance < 0.1 + death_chance and self.tasks:
                self.tasks.remove(self.random.choice(self.tasks))
                self.note("a flow dies")
            elif 0.15 < chance < 0.15 + crash_chance:
                self.fail_one(self.crash, 0.9 if "torn" in self.bias else 0.4)
            elif 0.2 < chance < 0.2 + away_chance:
                self.fail_one(self.stall, 0.9 if "torn" in self.bias else 0.5)
            elif 0.25 < chance < 0.27:
                self.wake_one()
            elif 0.27 < chance < 0.27 + map_chance and self.to_install is None or (
                    0.3 < chance < 0.33 and self.needs_map()):
                self.next_map()
            elif self.to_install and chance < 0.6:
                self.install()
            elif self.to_install == []:
                self.serve()
            elif 0.6 < chance < 0.62:
                self.spawn(self.sync_whole())
            elif self.garbage and 0.62 < chance < 0.65:
                self.spawn(self.collect(self.garbage.pop(0)))
            elif self.rounds == 1 and 0.65 < chance < 0.66:
                self.spawn(self.number_anywhere())
            elif self.messages:
                self.step()
        return self.audit()

    def needs_map(self):
        members = self.maps[self.last_map].members
        return any(self.nodes[n].is_dead or self.nodes[n].is_stalled == (n in members) for n in NODES)

    def fail_one(self, how, tail_chance):
        tail = self.maps[self.served].homes[0]
        name = tail if self.random.random() < tail_chance else self.random.choice(NODES)
        if not self.nodes[name].is_dead and self.may_fail(name):
            how(name)

    def wake_one(self):
        stalled = [n for n in NODES if self.nodes[n].is_stalled]
        if stalled:
            name = self.random.choice(stalled)
            self.nodes[name].is_stalled = False
            self.note(f"{name} wakes up")

    # The end: all heals, then as many nodes crash as may, and the value is read twice.
    def audit(self):
        self.note("audit")
        self.heal()
        if self.crashes:
            self.known_whole = self.served
            for name in self.random.sample(NODES, self.crashes):
                self.crash(name)
            self.heal()
        for _ in range(2):
            index = self.begin("read", (0, VALUE_BYTES))
            self.drive(self.in_task(self.final_read, index))
            if self.history[index].result is None:
                return "unreadable"
        values = self.value_of_cas
        is_torn = any(values.get(cas) is not None and values[cas][offset:offset + len(data)] != data
                      for cas, offset, data in self.answered_cas)
        if self.cas_is_duplicate or is_torn:
            return "casdup"
        return "ok" if is_linearizable(self.history, self.first_value) else "nonlin"

    def final_read(self, task, index):
        value, _, _ = yield from self.read_with_cas(task)
        self.end(index, ("value", value))

    def heal(self):
        self.messages.clear()
        self.tasks.clear()
        for name in NODES:
            self.nodes[name].is_stalled = False
        while True:
            while self.to_install:
                self.install()
            if self.to_install is not None:
                self.serve()
            if not self.needs_map() and len(self.maps[self.served].homes) == HOMES:
                break
            self.next_map()
        self.drive(self.sync_whole())

    def drive(self, flow):
        """Runs one flow to its end, without losses."""
        self.spawn(flow)
        for _ in range(300):
            if not self.messages:
                return
            message = self.messages.pop(0)
            self.answer(message, self.deliver(message))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("first_seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("mutants", help="comma-separated, or -")
    parser.add_argument("copies", type=int)
    parser.add_argument("crashes", type=int)
    parser.add_argument("operations", type=int)
    parser.add_argument("--rounds", type=int, choices=[1, 2], default=2, help="that an update that comes alone takes")
    parser.add_argument("--bias", default="", help="comma-separated: " + ", ".join(BIASES))
    parser.add_argument("--trace", type=int, help="one schedule, told step by step")
    parser.add_argument("--counts", action="store_true", help="what happened how often")
    options = parser.parse_args()
    mutants = frozenset(m for m in options.mutants.split(",") if m and m != "-")
    bias = frozenset(b for b in options.bias.split(",") if b)
    if mutants - set(MUTANTS) or bias - set(BIASES):
        parser.error("known mutants: " + ", ".join(MUTANTS))
    seeds = range(options.first_seed, options.first_seed + options.count)
    if options.trace is not None:
        seeds = [options.trace]
    outcomes, seen, bad = collections.Counter(), collections.Counter(), []
    for seed in seeds:
        simulation = Simulation(seed, mutants, options.copies, options.crashes, options.operations, bias,
                                options.trace is not None, options.rounds)
        try:
            outcome = simulation.run()
        except Lost:
            outcome = "lost"
        except (AssertionError, AttributeError, TypeError, RecursionError) as error:
            if not mutants:
                print("seed", seed)
                raise
            outcome = "broken: " + type(error).__name__  # a rule that is off may break what the model assumes
        outcomes[outcome] += 1
        seen += simulation.seen
        if outcome != "ok":
            bad.append((seed, outcome))
    print(",".join(sorted(mutants)) or "rules", f"rounds={options.rounds} copies={options.copies}",
          f"crashes<={options.crashes}",
          f"bias={options.bias or '-'}", dict(outcomes), bad[:5])
    if options.counts:
        print(dict(seen))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
