"""A client of an elastripe proxy: objects by key, parts of objects, and their redundancy.

See `Client`, and `errors` for what it raises.
"""

from .admin import Transition
from .bounds import MAX_KEY_BYTES, MAX_OBJECT_BYTES
from .client import Client, Range
from .connection import Value
from .errors import (ConnectionFailed, Error, Exists, Invalid, NotFound, NotServing, OutOfRange,
                     PutManyFailed, ServerError, TimedOut, UnknownOutcome)

__all__ = [
    "MAX_KEY_BYTES", "MAX_OBJECT_BYTES", "Client", "ConnectionFailed", "Error", "Exists", "Invalid",
    "NotFound", "NotServing", "OutOfRange", "PutManyFailed", "Range", "ServerError", "TimedOut",
    "Transition", "UnknownOutcome", "Value",
]
