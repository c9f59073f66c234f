"""The classic text commands."""

from dataclasses import replace

import arguments
from streams import Exptime, Length, replaced, text

STORAGE = ("set", "set", "set", "add", "replace", "append", "prepend")


def stream(generator):
    return arguments.stream(generator, command)


def command(generator):
    made = generator.choices(*zip(*KINDS))[0](generator)
    if generator.random() < 0.2:
        made = replace(made, words=(*made.words, b"noreply"))
    return spoiled(generator, made) if generator.random() < 0.12 else made


def storage(generator):
    return text(generator.choice(STORAGE), arguments.key(generator), flags(generator), exptime(generator), Length(),
                data=arguments.value(generator))


def compare_and_swap(generator):
    key = arguments.key(generator)
    return text("cas", key, flags(generator), exptime(generator), Length(), arguments.unique(generator, key),
                data=arguments.value(generator))


def retrieval(generator):
    verb = generator.choice(("get", "gets", "gets"))
    return text(verb, *(arguments.key(generator) for _ in range(generator.choice((1, 1, 2, 3, 5, 30)))))


def get_and_touch(generator):
    verb = generator.choice(("gat", "gats"))
    return text(verb, exptime(generator), *(arguments.key(generator) for _ in range(generator.choice((1, 1, 2, 3)))))


def arithmetic(generator):
    return text(generator.choice(("incr", "decr")), arguments.key(generator), generator.choice(arguments.NUMBERS))


def delete(generator):
    return text("delete", arguments.key(generator), *generator.choice(((), (), (0,), (5,))))


def touch(generator):
    return text("touch", arguments.key(generator), exptime(generator))


def other(generator):
    return text(*generator.choice((("version",), ("verbosity", 0), ("verbosity", 1), ("mn",), ("verbosity",), ("quit",),
                                   ("",), ("nonsense",), ("GET", "a"), ("cache_memlimit", 7))))


KINDS = ((storage, 30), (compare_and_swap, 8), (retrieval, 25), (get_and_touch, 6), (arithmetic, 14), (delete, 6),
         (touch, 5), (other, 2))


def flags(generator):
    return generator.choice((0, 0, 1, 65536, 2**32 - 1))


def exptime(generator, flag=b""):
    return Exptime(generator.choice(arguments.EXPTIMES), flag)


def spoiled(generator, good):
    """The command with one thing about it that may be wrong."""
    at = generator.randrange(len(good.words))
    bad = generator.choice(arguments.BAD_WORDS)
    return generator.choice((
        replace(good, words=replaced(good.words, at)),
        replace(good, words=replaced(good.words, at, bad)),
        replace(good, words=replaced(good.words, at, bad)),
        replace(good, words=(*good.words, bad)),
        replace(good, words=(*good.words, b"1", b"2", b"3")),
        replace(good, end=generator.choice((b"\n", b"\r\r\n", b" \r\n", b"\t\r\n"))),
        misfit(generator, good)))


def misfit(generator, good):
    """The command with a value that is not what its line tells."""
    if good.data is None:
        return replace(good, data=generator.choice((b"", b"text")))
    told = tuple(Length(generator.choice((-1, 1, 2, -2, 5))) if word == Length() else word for word in good.words)
    return generator.choice((replace(good, words=told), replace(good, data=None),
                             replace(good, data_end=generator.choice((b"\n", b"", b"xy", b"\r\r\n", b"x\r\n")))))
