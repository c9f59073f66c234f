"""The binary protocol."""

import struct
from dataclasses import replace

import arguments
from streams import BinaryCommand

GET, SET, ADD, REPLACE, DELETE, INCREMENT, DECREMENT, QUIT, FLUSH, GETQ, NOOP, VERSION = range(12)
GETK, GETKQ, APPEND, PREPEND = range(0x0c, 0x10)
SETQ, ADDQ, REPLACEQ, DELETEQ, INCREMENTQ, DECREMENTQ, QUITQ, FLUSHQ, APPENDQ, PREPENDQ = range(0x11, 0x1b)
TOUCH, GAT, GATQ, GATK, GATKQ = 0x1c, 0x1d, 0x1e, 0x23, 0x24
STAT = 0x10
SASL = range(0x20, 0x23)
NEVER_MADE = 0xffffffff  # the expiration that makes no counter
EXPIRATIONS = [0, 0, 0, 1000, arguments.MONTH_S, 2**31 - 1, 2**31, 2**32 - 2]
DELTAS = [number for number in arguments.NUMBERS if number < 1 << 64]
ODD_KEYS = [*arguments.ODD_KEYS, *arguments.BINARY_KEYS]


def stream(generator):
    opaques = iter(range(1, 1000))
    return arguments.stream(generator, lambda _: replace(command(generator), opaque=next(opaques)))


def command(generator):
    made = generator.choices(*zip(*KINDS))[0](generator)
    return spoiled(generator, made) if generator.random() < 0.05 else made


def cas(generator, key):
    return 0 if generator.random() < 0.7 else arguments.unique(generator, key)


def storage(generator):
    key = arguments.key(generator, ODD_KEYS)
    extras = struct.pack(">II", generator.choice((0, 5, 2**32 - 1)), generator.choice(EXPIRATIONS))
    return BinaryCommand(generator.choice((SET, SET, ADD, REPLACE, SETQ, ADDQ, REPLACEQ)), key, extras,
                         arguments.value(generator), cas(generator, key))


def joining(generator):
    key = arguments.key(generator, ODD_KEYS)
    return BinaryCommand(generator.choice((APPEND, PREPEND, APPENDQ, PREPENDQ)), key, b"", arguments.value(generator),
                         cas(generator, key))


def retrieval(generator):
    return BinaryCommand(generator.choice((GET, GETK, GETQ, GETKQ)), arguments.key(generator, ODD_KEYS))


def touch(generator):
    return BinaryCommand(generator.choice((TOUCH, GAT, GATQ, GATK, GATKQ)), arguments.key(generator, ODD_KEYS),
                         struct.pack(">I", generator.choice(EXPIRATIONS)))


def arithmetic(generator):
    key = arguments.key(generator, ODD_KEYS)
    extras = struct.pack(">QQI", generator.choice(DELTAS), generator.choice(DELTAS),
                         generator.choice((*EXPIRATIONS, NEVER_MADE, NEVER_MADE)))
    return BinaryCommand(generator.choice((INCREMENT, DECREMENT, INCREMENTQ, DECREMENTQ)), key, extras,
                         cas=cas(generator, key))


def delete(generator):
    key = arguments.key(generator, ODD_KEYS)
    return BinaryCommand(generator.choice((DELETE, DELETEQ)), key, cas=cas(generator, key))


def other(generator):
    return generator.choice((BinaryCommand(NOOP), BinaryCommand(NOOP), BinaryCommand(VERSION), BinaryCommand(STAT, b"detail"),
                             BinaryCommand(STAT, b"unknown"), unknown(generator)))


def last(generator):
    """One that ends the connection, or takes a while."""
    return generator.choice((BinaryCommand(QUIT), BinaryCommand(QUITQ), BinaryCommand(FLUSH), BinaryCommand(FLUSHQ),
                             BinaryCommand(FLUSH, extras=bytes(4))))


def unknown(generator):
    return BinaryCommand(generator.choice((0x1b, 0x1f, 0x25, 0x30, 0x7f, 0xff)), value=generator.choice(arguments.VALUES))


KINDS = ((storage, 30), (joining, 12), (retrieval, 25), (touch, 8), (arithmetic, 15), (delete, 6), (other, 4), (last, 0.3))


def spoiled(generator, good):
    """The command with one thing about it that may be wrong."""
    beside = [0, 0, 0]
    beside[generator.randrange(3)] = generator.choice((-1, 1, 2, 4, 255))
    return generator.choice((
        replace(good, beside=tuple(beside)),
        replace(good, key=b"" if good.opcode != STAT else b"unknown"),
        replace(good, extras=good.extras[:-1]),
        replace(good, extras=good.extras + b"\0"),
        replace(good, value=good.value + b"more"),
        replace(good, reserved=generator.choice(((1, 0), (0, 1), (255, 65535)))),
        replace(good, opcode=generator.choice([each for each in range(0x25) if each not in (STAT, *SASL)]))))
