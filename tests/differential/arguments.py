"""What the generators of all dialects draw from: few keys, so that commands meet each other's effects, values
on both sides of what is kept inline, and numbers on both sides of every limit."""

from streams import Key, Round, Stream, Unique

INLINE_MAX = 16 << 10
MONTH_S = 30 * 24 * 3600

KEYS = [Key(b"a"), Key(b"b"), Key(b"c")]
ODD_KEYS = [Key(b"\x01\x7f\xff"), Key(b"t\tt"), Key(b"r\rr"), Key(b"d", 250), Key(b"e", 251), Key(b"f", 300)]
BINARY_KEYS = [Key(b"n\n \0"), Key(b"\x80\r\n")]
VALUES = [b"", b"0", b"7", b"10", b"99", b"100", b"18446744073709551615", b"18446744073709551616", b"text", b"12 ",
          b" 12", b"1a", b"-1", b"a\r\nEND\r\nb\0c", b"x" * 30, b"y" * 3000]
SIZES = [INLINE_MAX - 1, INLINE_MAX, INLINE_MAX + 1, 20_000, 65_536, 300_000]
# Times at which nothing can happen while a stream runs.
EXPTIMES = [0, 0, 0, 1000, MONTH_S, -1, 2**31 - 1]
NUMBERS = [0, 1, 2, 7, 9, 100, 2**31, 2**32 - 1, 2**63, 2**64 - 1]
BAD_WORDS = [b"", b"x", b"-1", b"1x", b"x1", b"+1", b"0x1", b"1.5", b"00", b"\t1", b"4294967296", b"-4294967297",
             b"2000000000", b"9223372036854775807", b"9223372036854775808", b"18446744073709551616", b"9" * 30,
             b"noreply", b"q", b"\xff\x01"]


def key(generator, odd=ODD_KEYS):
    return generator.choice(KEYS if generator.random() < 0.9 else odd)


def value(generator):
    if generator.random() < 0.85:
        return generator.choice(VALUES)
    return generator.choice(b"pqr").to_bytes(1, "big") * generator.choice(SIZES)


def unique(generator, of, flag=b""):
    """The cas last told for the key, seldom one that never was its."""
    return Unique(of, generator.choice([0, 0, 0, -1, 1 << 62]), flag)


def stream(generator, command):
    """Some connections one after the other, each with some commands and cut anywhere."""
    rounds = []
    for _ in range(generator.randint(1, 3)):
        commands = tuple(command(generator) for _ in range(generator.randint(1, 12)))
        rounds.append(Round(commands, cuts(generator, len(Round(commands).bytes()))))
    return Stream(tuple(rounds))


def cuts(generator, length):
    """Half of the connections are not cut; of the others, some cuts are close together."""
    if length < 2 or generator.random() < 0.5:
        return ()
    at = {generator.randrange(1, length) for _ in range(generator.randint(1, 5))}
    near = min(at)
    at.update(near + i for i in range(generator.randint(0, 4)) if near + i < length)
    return tuple(sorted(at))
