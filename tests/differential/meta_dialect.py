"""The meta commands, with every flag that docs/client-protocol.md tells of."""

import base64
from dataclasses import replace

import arguments
import text_dialect
from streams import Base64, Length, replaced, text

ODD_KEYS = [*arguments.ODD_KEYS, *arguments.BINARY_KEYS]
BAD_FLAGS = [b"y", b"z", b"I", b"R", b"Rx", b"vv", b"kk", b"T", b"Tx", b"T1x", b"F-1", b"F4294967296", b"Cx", b"C-1", b"C", b"Dx",
             b"D-1", b"D", b"D18446744073709551616", b"Jx", b"J-1", b"N", b"Nx", b"MX", b"T2147483648", b"T-2147483649", b"N4294967296", b"M", b"MEE", b"Me", b"O", b"",
             b"O" + b"o" * 31, b"O" + b"o" * 32, b"O" + b"o" * 40, b"\xff", b"S1", b"Px", b"Ly", b"u"]


def stream(generator):
    return arguments.stream(generator, command)


def command(generator):
    if generator.random() < 0.2:
        return text_dialect.command(generator)
    made = generator.choices(*zip(*KINDS))[0](generator)
    return spoiled(generator, made) if generator.random() < 0.12 else made


def get(generator):
    key = arguments.key(generator, ODD_KEYS)
    return meta(generator, "mg", key, ("v", "v", "c", "f", "s", "t", "k", "q", touched(generator), opaque(generator),
                                       "h", "l", "u", text_dialect.exptime(generator, b"N"),
                                       text_dialect.exptime(generator, b"R"),
                                       *seldom(generator, arguments.unique(generator, key, b"C"))))


def store(generator):
    key = arguments.key(generator, ODD_KEYS)
    mode = generator.choice(("MS", "ME", "MR", "MA", "MP", "Ms", "ME"))
    return meta(generator, "ms", key, ("c", "k", "q", mode, touched(generator), opaque(generator),
                                       b"F%d" % text_dialect.flags(generator), arguments.unique(generator, key, b"C"), "I",
                                       *seldom(generator, "s", "E7", text_dialect.exptime(generator, b"N"))),
                Length(), data=arguments.value(generator))


def delete(generator):
    key = arguments.key(generator, ODD_KEYS)
    return meta(generator, "md", key, ("k", "q", opaque(generator), arguments.unique(generator, key, b"C"), "I",
                                       touched(generator), *seldom(generator, "E7", "x")))


def arithmetic(generator):
    key = arguments.key(generator, ODD_KEYS)
    mode = generator.choice(("MI", "M+", "MD", "M-", "Mi", "MD"))
    return meta(generator, "ma", key, ("v", "v", "c", "t", "k", "q", mode, opaque(generator), touched(generator),
                                       text_dialect.exptime(generator, b"N"),
                                       b"D%d" % generator.choice(arguments.NUMBERS),
                                       b"J%d" % generator.choice(arguments.NUMBERS),
                                       arguments.unique(generator, key, b"C"), *seldom(generator, "E7")))


def debug(generator):
    return text("me", arguments.key(generator))


def noop(_generator):
    return text("mn")


KINDS = ((get, 30), (store, 30), (delete, 8), (arithmetic, 20), (debug, 2), (noop, 6))


def seldom(generator, *flags):
    """Flags that memcached does otherwise."""
    return flags if generator.random() < 0.1 else ()


def touched(generator):
    return text_dialect.exptime(generator, b"T")


def opaque(generator):
    return b"O" + generator.choice((b"0", b"text", b"o" * 30))


def meta(generator, verb, key, flags, *words, data=None):
    """With some of the flags, in any order."""
    taken = [flag for flag in flags if generator.random() < 0.25]
    taken = [flag for i, flag in enumerate(taken) if flag not in taken[:i]]
    generator.shuffle(taken)
    if key in arguments.BINARY_KEYS or generator.random() < 0.05:
        key = Base64(key)
        taken.insert(generator.randint(0, len(taken)), "b")
    return text(verb, key, *words, *taken, data=data)


def spoiled(generator, good):
    """The command with one thing about it that may be wrong."""
    at = generator.randrange(len(good.words))
    extra = generator.choice(BAD_FLAGS)
    return generator.choice((
        replace(good, words=(*good.words, extra)),
        replace(good, words=(*good.words, extra)),
        replace(good, words=replaced(good.words, at, generator.choice(arguments.BAD_WORDS))),
        replace(good, words=replaced(good.words, at, good.words[at], good.words[at])),
        replace(good, words=(good.words[0], base64.b64encode(b"raw key")[:generator.randint(1, 12)], *good.words[2:], b"b")),
        replace(good, words=replaced(good.words, at)),
        text_dialect.misfit(generator, good)))
