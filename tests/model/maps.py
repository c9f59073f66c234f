"""Maps of the cluster: how they are made, installed and served, and which nodes may fail."""
from dataclasses import dataclass

from update_log import BLOCK

NODES = ["A", "B", "C", "D"]
HOMES = 3
EPOCH_STEP = BLOCK << 10  # of version floors


class Lost(Exception):
    """A group of sources is empty: more nodes failed than the promise covers."""


@dataclass
class Map:
    number: int
    homes: list  # tail first, head last
    sources: list  # groups: what was acknowledged is on each node of at least one of them
    synced: bool
    base: int  # the map before, if all that are left had just that one
    members: list  # that are up

    @property
    def floor(self):
        return self.number * EPOCH_STEP


class Membership:
    """Maps, as proxy/cluster/membership.cc and the node's engine make and install them, of one partition."""

    def is_whole(self):
        """The last map is served, and its homes, as many as there should be, have all."""
        homes = self.maps[self.served].homes
        return len(homes) == HOMES and self.last_map == self.served and self.to_install is None and all(
            self.nodes[h].epoch == self.served and self.nodes[h].partition_synced for h in homes)

    def may_fail(self, name):
        if self.is_whole():
            self.known_whole = self.served
            out = [n for n in NODES if self.nodes[n].is_stalled or n not in self.maps[self.served].members]
            self.failed = set(out)
        return not self.nodes[name].is_stalled and len(self.failed | {name}) <= self.crashes

    def crash(self, name):
        self.failed.add(name)
        node = self.nodes[name]
        node.restart()
        node.is_dead = True
        self.note(f"crash {name}")

    def stall(self, name):
        self.failed.add(name)
        self.nodes[name].is_stalled = True
        self.note(f"stall {name}")

    def next_map(self):
        before = self.maps[self.last_map]
        up = [n for n in NODES if not self.nodes[n].is_stalled]
        is_live = lambda n: n in before.members and n in up and not self.nodes[n].is_dead
        has_last = lambda n: self.nodes[n].epoch == before.number
        live_homes = [h for h in before.homes if is_live(h)]
        sources = [[n for n in group if is_live(n)] for group in before.sources]
        if all(has_last(h) for h in live_homes):
            sources.append(live_homes)
        # The reports of the nodes may be older than the end of sync, unless that was counted on.
        hears = self.random.random() < 0.7 or not all(sources) or self.known_whole == before.number
        was_synced = bool(live_homes) and (before.synced or any(
            has_last(h) and (self.nodes[h].partition_synced if hears else self.nodes[h].was_synced)
            for h in live_homes))
        if was_synced:
            sources = [live_homes]
        if not all(sources):
            raise Lost()
        homes = self.choose_homes(before, live_homes, up)
        synced = was_synced and homes == before.homes == live_homes
        left = [n for n in before.members if is_live(n)]
        base = before.number if all(has_last(n) for n in left) else 0
        number = self.last_map + 1
        self.maps[number] = Map(number, homes, [] if synced else sources, synced, base, up)
        self.reborn_in[number] = {name for name in NODES if self.nodes[name].is_dead}
        for name in self.reborn_in[number]:
            self.nodes[name].restart()
        self.last_map = number
        self.to_install = self.random.sample(up, len(up))
        self.seen["map kept" if synced else "map changed"] += 1
        self.note(f"map {number}: homes {homes}, sources {self.maps[number].sources}, synced {synced}, base {base}")

    def choose_homes(self, before, live_homes, up):
        is_full = len(before.homes) == min(HOMES, len(up))
        if live_homes == before.homes and is_full and self.random.random() < (0.9 if "maps" in self.bias else 0.7):
            return before.homes
        chance = self.random.random()
        if chance < 0.5:
            homes = (live_homes + [n for n in up if n not in live_homes])[:HOMES]
        else:
            homes = self.random.sample(up, min(HOMES, len(up)))
        if chance < 0.25:
            self.random.shuffle(homes)
        return homes

    def install(self):
        name = self.to_install.pop()
        node, current = self.nodes[name], self.maps[self.last_map]
        if node.is_dead:
            return
        if node.is_stalled:  # the decider gives this map up, and makes one without the node
            return self.next_map()
        before = self.maps.get(node.epoch)
        is_home = name in current.homes
        stays = bool(before) and current.base == node.epoch and is_home and name in before.homes
        keeps = is_home and current.synced or stays or any(name in group for group in current.sources)
        if not keeps:
            self.forget(node)
        still_synced = stays and node.partition_synced and current.homes == before.homes and not (
            self.reborn_in[current.number] & set(current.homes))
        node.epoch = current.number
        node.partition_synced = node.key_synced = node.was_synced = is_home and (current.synced or still_synced)
        if not current.synced:
            node.sync_epoch = current.number
            if not still_synced or "floor_by_flag" in self.mutants:
                node.sync_floor = current.floor
        # Who stays synced knows no more yet than homes that synced the key by itself before this map.
        if node.partition_synced and (current.synced or "claims_next_sync" in self.mutants):
            node.synced_in = node.sync_epoch
        if still_synced and not current.synced:
            self.seen["stays synced"] += 1
        self.note(f"install {current.number} at {name}: "
                  f"{'keeps' if keeps else 'forgets'}{', synced' if node.key_synced else ''}")

    def serve(self):
        self.to_install = None
        self.served = self.last_map
        self.note(f"served {self.served}")
        for task in list(self.tasks):
            if task.is_parked:
                task.is_parked = False
                self.resume(task, None)
