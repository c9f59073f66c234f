"""Which image of a log sync brings to the homes of the key."""
from maps import HOMES
from update_log import new_log


def newest_log(record, found, copies, mutants):
    """The log of the newest record, of (record, log, synced_in, is_synced_tail) of those that were asked; None if
    nobody has one. Of homes that were synced last each copy has all that was acknowledged since; who has missed a sync
    may have updates that others have got their numbers for, and have folded."""
    if "sync_forgets_log" in mutants:
        return None
    found = [told for told in found if told[0].origin == record.origin]
    # A tail that stays synced has all that was acknowledged, and gives numbers: sync must not.
    for _, log, _, is_synced_tail in found:
        if is_synced_tail and "sync_numbers_for_tail" not in mutants:
            return spoiled(log or empty_log(record), mutants)
    of_value = [(log, synced_in) for _, log, synced_in, _ in found]
    last_sync = max(synced_in for _, synced_in in of_value)
    counts = lambda synced_in: synced_in == last_sync or "sync_ignores_epochs" in mutants
    newest = best([log for log, synced_in in of_value if log and counts(synced_in)], mutants)
    old = best([log for log, synced_in in of_value if log and not counts(synced_in)], mutants)
    # A map that not all have installed may make the head's log an old one, while that of a middle, which is no copy,
    # counts. What has a number is right all the same.
    if copies < HOMES and old and (not newest or old.last > newest.last):
        newest = old.copy()
        newest.unnumbered = []
    if old and not newest:
        newest = empty_log(record)
    return spoiled(newest, mutants)


def empty_log(record):
    """Takes the place of logs that do not count."""
    log = new_log(record)
    log.rank = 0
    return log


def best(logs, mutants):
    """The one with the later update has all of the others, with its number or without one."""
    counted = lambda log: 0 if "unnumbered_not_counted" in mutants else len(log.unnumbered)
    choose = min if "lowest_image" in mutants else max
    return choose(logs, key=lambda log: (log.last, counted(log)), default=None)


def spoiled(log, mutants):
    if log and "sync_settles" in mutants:
        log = log.copy()
        log.settle(log.last)
    if log and "sync_forgets_ring" in mutants:
        log = log.copy()
        log.ring = {}
    return log
