"""What nodes answer."""

# Answers that are not of a handler.
TIMEOUT, STALE, DEAD, NOT_SYNCED = "timeout", "stale", "dead", "not synced"
# Answers of handlers, as the first element of a tuple.
OK, OTHER_VALUE, FORGOTTEN, LOG_FULL, RENUMBER, REFUSED, UNNUMBERED = (
    "ok", "other value", "forgotten", "log full", "renumber", "refused", "unnumbered")
