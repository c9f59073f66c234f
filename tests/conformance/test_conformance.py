"""The proxy answers as memcached 1.6.18 does: each script goes to both, and the bytes that come
back are compared. Where elastripe differs on purpose, docs/client-protocol.md says so and the
request is not here."""

import itertools
import random
import re
import struct

import pytest

from cluster import Raw, wait_for
from plain_memcached import plain_memcached

LARGE = b"x" * 40_000
LONG_KEY = b"k" * 250
TOO_LONG_KEY = b"k" * 251


@pytest.fixture(scope="module")
def servers(make_cluster):
    """Ports of the proxy and of a plain memcached."""
    cluster = make_cluster(nodes=4, scheme="rs:2,1")
    with plain_memcached() as port:
        yield cluster.port, port


def ask_both(servers, steps):
    """Sends the steps to both servers, each after the answer to the one before; gives the pairs of
    answers. `{cas KEY}` in a step becomes the cas unique that the server itself last told."""
    answers = []
    for port in servers:
        raw = Raw(port, timeout=20)
        known = {}
        got = []
        for step in steps:
            step = re.sub(rb"\{cas (\S+)\}", lambda m: known[m.group(1)], step)
            answer = raw.ask(step)
            for key, unique in re.findall(rb"VALUE (\S+) \d+ \d+ (\d+)\r\n", answer):
                known[key] = unique
            # uniques are the server's own: only that they are there is the same
            got.append(re.sub(rb"(VALUE \S+ \d+ \d+) \d+\r\n", rb"\1 CAS\r\n", answer))
        raw.close()
        answers.append(got)
    return list(zip(steps, *answers))


def check(servers, *steps):
    for step, ours, reference in ask_both(servers, [s if isinstance(s, bytes) else s.encode()
                                                    for s in steps]):
        assert ours == reference, f"to {step[:100]!r}"


def put(verb, key, value, flags=0, exptime=0, tail=b""):
    key = key if isinstance(key, bytes) else key.encode()
    return (f"{verb} ".encode() + key + f" {flags} {exptime} {len(value)}".encode() + tail +
            b"\r\n" + value + b"\r\n")


def test_meta_get(servers):
    check(servers, put("set", "mk", b"value", flags=42), "mg mk\r\n", "mg mk v\r\n",
          "mg mk s v k f Oabc\r\n", "mg mk vv kk qq\r\n", "mg mk O\r\n", "mg mk Oopaque k v\r\n",
          f"mg mk O{'o' * 31}\r\n", f"mg mk v O{'o' * 32}\r\n")
    check(servers, "mg mk t s\r\n", "touch mk 1000\r\n", "mg mk t\r\n", "touch mk 0\r\n",
          "mg mk t v\r\n", "mg ma t k\r\n")
    check(servers, "mg ma\r\n", "mg ma v k Oabc\r\n", "mg ma f s Oabc k\r\n", "mg ma O\r\n",
          "mg ma k q\r\nmn\r\n", f"mg ma O{'o' * 32}\r\n")
    check(servers, "mg\r\n", "mg  \r\n", b"mg " + TOO_LONG_KEY + b" v\r\n", "mg mk v v\r\n",
          "mg mk y\r\n", "mg mk q v y\r\n", "mg mk" + " v" * 18 + "\r\n",
          "mg mk" + " v" * 17 + "\r\n", "mn\r\n")


def ms(key, value, flags=""):
    return f"ms {key} {len(value)} {flags}\r\n".encode() + value + b"\r\n"


def test_meta_set(servers):
    check(servers, ms("a", b"value"), "get a\r\n", ms("a", b"", "F42 T1000 k Oabc"), "mg a s v k f t\r\n",
          ms("a", b"x" * 300_000, "q"), "get a\r\n", ms("a", b"y", "T-1"), "get a\r\n")
    check(servers, ms("b", b"1", "MR k"), ms("b", b"1", "ME"), ms("b", b"2", "ME k Oq"), ms("b", b"2", "MR"),
          "get b\r\n", ms("b", b"3", "MA"), ms("b", b"0", "MP"), ms("b", b"x", "MS"), "get b\r\n",
          ms("absent", b"1", "MA q"), ms("absent", b"1", "MP k"), "get absent\r\n")
    check(servers, ms("b", b"1", "C1"), ms("b", b"1", "C1 MR"), ms("absent", b"1", "C1 k"),
          ms("absent", b"1", "C1 MR"), ms("b", b"1", "C1 MA"), ms("b", b"1", "C1 MP q"),
          ms("b", b"1", "C1 ME"), ms("absent", b"1", "C1 MA"), "get b\r\n")
    check(servers, ms("d", b"12345", "MX"), ms("d", b"12345", "Me"), ms("d", b"12345", "MEE"), ms("d", b"12345", "z"),
          ms("d", b"12345", "Tx"), ms("d", b"12345", "F-1"), ms("d", b"12345", "Cx"), ms("d", b"12345", "q q"),
          ms("d", b"12345", "O" + "o" * 32), "get d\r\n", "ms\r\n", "ms d x\r\n", "mn\r\n")
    check(servers, b"ms d 3\r\nabcdef\r\n", "mn\r\n")


def test_meta_delete(servers):
    check(servers, put("set", "a", b"1"), "md a\r\n", "md a\r\n", "get a\r\n", put("set", "a", b"1"),
          "md a C1 k\r\n", "md a q\r\nmn\r\n", "md a q k Oabc\r\nmn\r\n", "md absent C1\r\n", "md a z\r\n",
          "md a q q\r\n", "md\r\n", f"md a O{'o' * 32}\r\n")


def test_meta_arithmetic(servers):
    check(servers, "ma counter\r\n", "ma counter q k\r\n", put("set", "counter", b"10"), "ma counter\r\n", "ma counter v\r\n",
          "ma counter v D5 k Oabc\r\n", "ma counter v MD D3\r\n", "ma counter M- D100 v\r\n", "ma counter MI v\r\n", "ma counter M+ v t\r\n",
          "ma counter T1000 v\r\n", "mg counter t v\r\n", "ma counter q\r\nmn\r\n", "ma counter q v\r\nmn\r\n", "get counter\r\n")
    check(servers, "ma new N0 J7 v\r\n", "ma new N0 J7 v\r\n", "ma timed N1000 v\r\n", "mg timed t v\r\n",
          "ma both N0 T1000\r\n", "mg both t\r\n", "ma other T1000 N0\r\n", "mg other t\r\n", "ma other T1000 N0\r\n",
          "mg other t\r\n",
          "ma counter C1 v\r\n", "ma absent C1\r\n")
    check(servers, put("set", "t", b"text"), "ma t\r\n", "ma t q\r\n", "ma counter MX\r\n", "ma counter Dx\r\n", "ma counter Jx\r\n",
          "ma counter Tx\r\n", "ma counter z\r\n", "ma counter v v\r\n", "ma\r\n", f"ma counter O{'o' * 32}\r\n")


def test_meta_with_cas(servers):
    check(servers, put("set", "c", b"10"), "gets c\r\n", ms("c", b"20", "C{cas c}"),
          ms("c", b"30", "C{cas c} k"), "gets c\r\n", ms("c", b"30", "C{cas c} MR"), "gets c\r\n",
          ms("c", b"1", "C{cas c} MA"), ms("c", b"2", "C{cas c} MA"), "gets c\r\n", ms("c", b"4", "C{cas c} MP"),
          "gets c\r\n", "ma c C{cas c} v\r\n", "ma c C{cas c} v\r\n", "gets c\r\n", "md c C{cas c} k\r\n",
          "get c\r\n", ms("c", LARGE, ""), "gets c\r\n", ms("c", LARGE, "C{cas c} MA"),
          ms("c", LARGE, "C{cas c} MA"), ms("c", b"small", "C{cas c} MP"), "gets c\r\n",
          ms("c", b"small", "C{cas c} MP"), "md c C{cas c}\r\n", "gets c\r\n", "md c C{cas c}\r\n", "get c\r\n")


def test_keys_in_base64(servers):
    check(servers, ms("AAEgCg==", b"value", "b k"), "mg AAEgCg== b k v\r\n", "mg AAEgCg== k v\r\n",
          "mg AAEgCQ== b v k\r\n", "ma AAEg b N0 v k\r\n", "md AAEg b k\r\n", "md AAEg b k\r\n",
          "mg ==== b\r\n", "mg Zm9 b v\r\n")


def test_meta_get_touches(servers):
    check(servers, put("set", "mt", b"value"), "mg mt T1000 v t\r\n", "mg mt t\r\n", "mg mt T0 t\r\n",
          "mg mt v C1\r\n", "mg mt v u Px Ly\r\n", "mg absent T100 v\r\n", "mg mt Tx\r\n", "mg mt T-1 v\r\n",
          "mg mt v\r\n", "me absent\r\n", "me\r\n", "mg mt T+60 t\r\n")


def test_meta_refusals_are_worded_as_memcached_words_them(servers):
    many = "v f s c k q O b C1 D1 F1 J1 L MX P T0 u x"
    check(servers, *[f"{command} key {flags}\r\n" for command in ("mg", "md", "ma")
                     for flags in (many, "z", "b b", "T1x")])
    check(servers, "ms key 1 z\r\nx\r\n", "ms key 1 T1x\r\nx\r\n")
    check(servers, "mg !!! b\r\n", "md !!! b\r\n", "ma !!! b\r\n", "me !!! b\r\n", "me absent z b z\r\n")
    check(servers, "ms far 1 T4294967295\r\nx\r\n", "mg far v\r\n", "ms far 1 T4294967297\r\nx\r\n", "mg far T4294967295\r\n",
          "mg far v\r\n")


BINARY = struct.Struct(">BBHBBHIIQ")
NOOP = 0x0a


def binary(opcode, key=b"", extras=b"", value=b"", cas=0, opaque=7):
    return BINARY.pack(0x80, opcode, len(key), len(extras), 0, 0, len(key) + len(extras) + len(value), opaque,
                       cas) + extras + key + value


def responses_to(port, data):
    """What is answered before the NOOP behind `data`, or until the connection ends. Of a cas unique only
    that there is one."""
    raw = Raw(port, timeout=20)
    raw.send(data + binary(NOOP, opaque=99))
    responses = []
    while len(head := raw.file.read(BINARY.size)) == BINARY.size:
        _, opcode, key_bytes, extra_bytes, _, status, body_bytes, opaque, cas = BINARY.unpack(head)
        body = raw.file.read(body_bytes)
        responses.append((opcode, status, opaque, key_bytes, extra_bytes, cas != 0, body))
        if opcode == NOOP and opaque == 99:
            break
    raw.close()
    return responses


def check_binary(servers, *requests):
    ours, reference = (responses_to(port, b"".join(requests)) for port in servers)
    for one, other in itertools.zip_longest(ours, reference):
        assert one == other


def stored(exptime=0, flags=5):
    return struct.pack(">II", flags, exptime)


def counted(delta, initial=0, exptime=0xffffffff):
    return struct.pack(">QQI", delta, initial, exptime)


def test_binary_storage(servers):
    for quiet in (0, 0x10):
        key = b"bs%d" % quiet
        check_binary(servers, binary(0x03 | quiet, key, stored(), b"1"), binary(0x02 | quiet, key, stored(), b"2"),
                     binary(0x02 | quiet, key, stored(), b"3"), binary(0x00, key),
                     binary(0x01 | quiet, key, stored(flags=0xffffffff), b""), binary(0x0c, key),
                     binary(0x03 | quiet, key, stored(exptime=1000), LARGE), binary(0x00, key),
                     binary(0x01 | quiet, key, stored(), b"4", cas=1), binary(0x01 | quiet, b"absent", stored(), b"4", cas=1),
                     binary(0x02 | quiet, key, stored(), b"4", cas=1))
    for opcode in (0x0e, 0x0f, 0x19, 0x1a):
        check_binary(servers, binary(opcode, b"absent", value=b"x"), binary(opcode, b"bs0", value=b"x"),
                     binary(opcode, b"bs0", value=b"x", cas=1), binary(0x00, b"bs0"))


def test_binary_retrieval(servers):
    check_binary(servers, binary(0x01, b"br", stored(), b"value"),
                 *[binary(opcode, key, opaque=i) for i, (opcode, key) in enumerate(
                     itertools.product((0x00, 0x09, 0x0c, 0x0d), (b"br", b"absent")))],
                 *[binary(opcode, key, struct.pack(">I", 1000)) for opcode, key in
                   itertools.product((0x1c, 0x1d, 0x1e, 0x23, 0x24), (b"br", b"absent"))])


def test_binary_counters_and_deletes(servers):
    for quiet in (0, 0x10):
        key = b"bc%d" % quiet
        check_binary(servers, binary(0x05 | quiet, key, counted(1)), binary(0x05 | quiet, key, counted(1, 10, 0)),
                     binary(0x05 | quiet, key, counted(5)), binary(0x06 | quiet, key, counted(3)), binary(0x00, key),
                     binary(0x06 | quiet, key, counted(100)), binary(0x05 | quiet, key, counted(1), cas=1),
                     binary(0x04 | quiet, key, cas=1), binary(0x04 | quiet, key), binary(0x04 | quiet, key),
                     binary(0x01, key, stored(), b"text"), binary(0x05 | quiet, key, counted(1)))


@pytest.mark.parametrize("exptime", [1 << 31, 3_000_000_000, 0xfffffffe, 0xffffffff])
def test_binary_times_have_no_sign(servers, exptime):
    key = b"far%d" % exptime
    at = struct.pack(">I", exptime)
    check_binary(servers, binary(0x01, key, stored(exptime=exptime), b"1"), binary(0x00, key), binary(0x1d, key, at),
                 binary(0x1c, key, at), binary(0x00, key), binary(0x04, key), binary(0x05, key, counted(1, 10, exptime)),
                 binary(0x05, key, counted(1, 10, exptime)))


def test_binary_errors(servers):
    # Without a key: memcached skips that of an unknown opcode twice.
    for opcode in [*range(0x25, 0x30), 0x1b, 0x1f, 0x7f, 0xff]:
        check_binary(servers, binary(opcode, value=b"value"), binary(0x00, b"absent"))
    check_binary(servers, binary(0x20), binary(0x00, b"absent"))
    for request in (binary(0x00), binary(0x00, b"k", value=b"v"), binary(0x00, b"k", b"abcd"), binary(0x01, b"k", value=b"v"),
                    binary(0x01, b"", stored(), b"v"), binary(0x04, b"k", b"abcd"), binary(0x05, b"k", b"abcd"),
                    binary(0x07, b"k"), binary(0x08, extras=b"ab"), binary(NOOP, b"k"), binary(0x0b, value=b"v"),
                    binary(0x0e, b"k", b"abcd", b"v"), binary(0x1c, b"k"), binary(0x00, b"k" * 251),
                    BINARY.pack(0x80, 0, 5, 0, 0, 0, 4, 7, 0) + b"Hello", binary(0x07), binary(0x17)):
        check_binary(servers, request)


def test_binary_keys_and_dialects_beside_each_other(servers):
    key = b"\0\n \r\xff"
    check_binary(servers, binary(0x01, key, stored(), b"value"), binary(0x0c, key), binary(0x04, key), binary(0x0c, key))
    check_binary(servers, binary(0x10, b"unknown"), binary(0x10, b"detail"))


def test_cache_memlimit(servers):
    check(servers, "cache_memlimit\r\n", "cache_memlimit x\r\n", "cache_memlimit 7\r\n",
          "cache_memlimit 64\r\n", "cache_memlimit 64 noreply\r\nmn\r\n",
          "cache_memlimit 1000000001\r\n", "cache_memlimit 1 2 3\r\n")


def test_set_and_get(servers):
    check(servers, "get sg\r\n", put("set", "sg", b"value", flags=42), "get sg\r\n",
          put("set", "sg", b""), "get sg\r\n", put("set", "sg", b"a\r\nEND\r\nb\0c"), "get sg\r\n",
          put("set", "sg", LARGE, flags=4294967295), "get sg\r\n", "get sg sg absent sg\r\n",
          put("set", LONG_KEY, b"1"), b"get " + LONG_KEY + b"\r\n")


def test_add_and_replace(servers):
    check(servers, put("replace", "ar", b"no"), "get ar\r\n", put("add", "ar", b"1"), "get ar\r\n",
          put("add", "ar", b"2"), "get ar\r\n", put("replace", "ar", b"3", flags=7), "get ar\r\n",
          put("replace", "ar", LARGE), "get ar\r\n", put("add", "ar", LARGE), "delete ar\r\n",
          put("add", "ar", LARGE), "get ar\r\n")


@pytest.mark.parametrize("verb", ["append", "prepend"])
def test_append_and_prepend(servers, verb):
    key = verb
    check(servers, put(verb, key, b"none"), put("set", key, b"middle", flags=5), put(verb, key, b"-x-"),
          f"get {key}\r\n", put(verb, key, b"", flags=9), f"get {key}\r\n", put(verb, key, LARGE),
          f"get {key}\r\n", put(verb, key, b"after it was striped"), f"get {key}\r\n")


def test_cas(servers):
    check(servers, "gets c\r\n", put("cas", "c", b"x", tail=b" 1"), put("set", "c", b"one"),
          "gets c\r\n", put("cas", "c", b"two", tail=b" {cas c}"), "get c\r\n",
          put("cas", "c", b"three", tail=b" {cas c}"), "get c\r\n", "gets c\r\n",
          put("cas", "c", LARGE, tail=b" {cas c}"), "gets c\r\n", "touch c 0\r\n",
          put("cas", "c", b"touch does not count", tail=b" {cas c}"), "get c\r\n")


def test_incr_and_decr(servers):
    steps = ["incr n 1\r\n", put("set", "n", b"10", flags=3)]
    for command in ("incr n 5", "decr n 6", "decr n 100", "incr n 18446744073709551615",
                    "incr n 1", "incr n 99", "decr n 1", "get n", "incr n x", "incr n -1",
                    "incr n", "incr n 18446744073709551616", "incr n 1 2"):
        steps += [command + "\r\n", "get n\r\n"]
    for start in (b"100", b"99", b"18446744073709551614", b"12 ", b" 12", b"1a", b"", b"abc",
                  b"000012", b"123456789012345678901"):
        steps += [put("set", "n", start), "decr n 1\r\n", "get n\r\n", "incr n 3\r\n", "get n\r\n"]
    check(servers, *steps)


def test_delete(servers):
    check(servers, "delete d\r\n", put("set", "d", b"1"), "delete d\r\n", "get d\r\n", "delete d\r\n",
          put("set", "d", b"1"), "delete d 0\r\n", "delete d 5\r\n", "delete d noreply\r\n",
          "get d\r\n", "delete\r\n", "delete d x y z\r\n")


def test_touch_and_expiry(servers):
    check(servers, "touch t 10\r\n", put("set", "t", b"1"), "touch t 100\r\n", "get t\r\n",
          "touch t -1\r\n", "get t\r\n", put("set", "t", b"1", exptime=-1), "get t\r\n",
          put("set", "t", b"1", exptime=2592000), "get t\r\n", put("set", "t", b"1", exptime=2592001),
          "get t\r\n", put("add", "t", b"2"), "get t\r\n", put("set", "t", LARGE, exptime=-1),
          "get t\r\n", put("replace", "t", b"3"), put("append", "t", b"3"), "incr t 1\r\n",
          "touch t 5\r\n", "delete t\r\n", "touch t\r\n", "touch t x\r\n")


def test_exptimes_of_more_than_32_bits(servers):
    steps = []
    for exptime in (2147483647, 2147483648, 4294967295, 4294967296, 4294967396, -4294967295,
                    1 << 62, (1 << 63) - 1, -(1 << 63)):
        steps += [put("set", "w", b"1", exptime=exptime), "get w\r\n", put("set", "w", b"2"),
                  f"touch w {exptime}\r\n", "get w\r\n", put("set", "w", b"3"),
                  f"gat {exptime} w\r\n", "get w\r\n"]
    check(servers, "get a\r\r\n", *steps, f"touch w {1 << 63}\r\n", f"gat {1 << 64} w\r\n")


def test_keys_with_any_bytes(servers):
    keys = [b"%c" % byte for byte in range(1, 256) if byte not in b"\n "]
    keys += [b"a\tb", b"a\rb", b"a\r", b"\x7f\x01", bytes(range(128, 256)), b"\xff" * 250]
    for value in (b"1", LARGE):
        for key in keys:
            check(servers, put("set", key, value), b"get " + key + b" \r\n", b"incr " + key + b" 1\r\n",
                  b"mg " + key + b" k s \r\n")
        check(servers, b"get " + b" ".join(keys) + b" \r\n",
              *[b"delete " + key + b" \r\n" for key in keys])


def test_get_and_touch(servers):
    check(servers, "gat 10 g\r\n", put("set", "g", b"1"), "gat 100 g\r\n", "gats 100 g\r\n",
          "gat -1 g\r\n", "get g\r\n", "gat x g\r\n", "gat 1\r\n", "gat\r\n")


def test_flush_all(servers):
    check(servers, "flush_all\r\n", put("set", "f", b"1"), put("set", "fl", LARGE), "flush_all\r\n",
          "get f fl\r\n", "gets f\r\n", "incr f 1\r\n", put("append", "f", b"2"),
          put("prepend", "fl", LARGE), put("replace", "fl", LARGE), put("cas", "f", b"x", tail=b" 1"),
          "touch f 10\r\n", "gat 10 fl\r\n", "delete f\r\n", put("add", "f", b"3"),
          put("add", "fl", LARGE), "get f fl\r\n", "flush_all noreply\r\n", "get f fl\r\n",
          put("set", "f", b"4") + b"flush_all\r\n" + put("add", "f", b"5") + b"get f\r\n")


def test_flush_all_for_later(servers):
    check(servers, "flush_all\r\n", put("set", "fd", b"1"), "flush_all 3600\r\n", "get fd\r\n",
          "flush_all 2000000000\r\n", "flush_all -1\r\n", "get fd\r\n", put("set", "fd", b"2"),
          "flush_all 3600 noreply\r\n", "get fd\r\n", "flush_all 0\r\n", "get fd\r\n",
          put("set", "fd", b"3"), "get fd\r\n", "flush_all 2\r\n", put("set", "fe", LARGE))
    for port in servers:
        raw = Raw(port, timeout=20)
        wait_for(lambda: raw.ask(b"get fd fe\r\n") == b"END\r\n", "all is flushed")
        raw.close()
    # memcached goes by the second: what is stored later in that one would die as well
    check(servers, "flush_all\r\n", put("set", "fd", b"4"), "get fd\r\n", "flush_all\r\n",
          "get fd\r\n")


def test_malformed_flush_all(servers):
    check(servers, "flush_all x\r\n", "flush_all 1x\r\n", "flush_all x noreply\r\n",
          "flush_all 3600 7\r\n", "flush_all 0 noreply 7\r\n", "flush_all 1 2 3\r\n",
          "flush_all  \r\n", "FLUSH_ALL\r\n", "flush_all\r\n")


def test_noreply(servers):
    check(servers, put("set", "q", b"1", tail=b" noreply"), "get q\r\n",
          put("add", "q", b"2", tail=b" noreply") + put("replace", "q", b"3", tail=b" noreply"),
          "get q\r\n", put("append", "q", b"0", tail=b" noreply") + b"incr q 5 noreply\r\n",
          "get q\r\n", "decr q 1 noreply\r\ntouch q 0 noreply\r\n", "get q\r\n",
          "delete q noreply\r\n", "get q\r\n", "incr q 1 noreply\r\n", "verbosity 1 noreply\r\n")


def test_malformed_requests(servers):
    check(servers, "\r\n", "nonsense\r\n", "get\r\n", "gets\r\n", "set\r\n", "set a\r\n",
          "set a 0 0\r\n", "GET a\r\n", "get a\n", put("set", "m", b"1").replace(b"\r\n", b"\n", 1),
          "get  m   m\r\n", b"get " + TOO_LONG_KEY + b"\r\n", b"delete " + TOO_LONG_KEY + b"\r\n",
          b"get a " + TOO_LONG_KEY + b" b\r\n", "set m 0 0 3\r\nabcdef\r\n", "get m\r\n",
          "set m 0 0 x\r\n", "set m 0 0 -1\r\n", "verbosity\r\n", "verbosity 1\r\n",
          "cas m 0 0 1\r\n", "incr\r\n", "touch\r\n")


def names_of(answer):
    return {line.split(b" ")[1].decode() for line in answer.splitlines() if line.startswith(b"STAT ")}


# What memcached tells of the inside of one process: buffers, slabs, LRU lists and the hash table. Of a
# cluster a node's own port tells it.
OF_ONE_PROCESS = re.compile(r"response_obj_|read_buf_|slab|lru_|hash_|moves_|crawler_|direct_reclaims|"
                            r"lrutail_|reserved_fds|malloc_fails|get_expired|get_flushed|expired_unfetched")


def test_stats_have_the_fields_of_memcached(servers):
    for ours, reference in [pair[1:] for pair in ask_both(servers, [b"stats\r\n"])]:
        left_out = names_of(reference) - names_of(ours)
        assert {name for name in left_out if not OF_ONE_PROCESS.match(name)} == set()
        assert names_of(ours) - names_of(reference) <= {"evicted_active"}  # needs the LRU maintainer


def test_settings_are_those_of_memcached_as_far_as_there_are_such(servers):
    read = {"maxbytes", "maxconns", "tcpport", "udpport", "inter", "verbosity", "evictions", "num_threads",
            "cas_enabled", "item_size_max", "binding_protocol", "flush_enabled", "dump_enabled",
            "auth_enabled_sasl", "idle_timeout", "track_sizes", "ssl_enabled", "lru_crawler"}
    for command in ("stats settings\r\n", "stats settings items\r\n"):
        for _, ours, reference in ask_both(servers, [command.encode()]):
            assert read <= names_of(ours) & names_of(reference)


def test_other_stats_are_answered_as_memcached_answers(servers):
    check(servers, "stats sizes\r\n", "stats detail on\r\n", "stats detail off\r\n", "stats detail dump\r\n",
          "stats detail\r\n", "stats detail x\r\n", "stats cachedump 63 1\r\n", "stats reset\r\n", "stats reset x\r\n",
          "stats nonsense\r\n", "stats sizesx\r\n", "stats ITEMS\r\n", "stats noreply\r\n",
          "stats malloc\r\n", "stats proxy\r\n", "stats extstore\r\n")
    for command in ("items", "slabs", "conns"):
        for _, ours, reference in ask_both(servers, [f"stats {command}\r\n".encode()]):
            assert ours.endswith(b"END\r\n") and reference.endswith(b"END\r\n"), command


@pytest.fixture(scope="module")
def as_started_by_default(servers):
    """The same with a memcached that has its LRU crawler, but reassigns no slabs and has no watchers."""
    with plain_memcached("-W", "-o", "no_slab_reassign") as port:
        yield servers[0], port


def test_what_tunes_memory_is_taken_as_memcached_takes_it(as_started_by_default):
    check(as_started_by_default, "lru_crawler disable\r\n")
    for port in as_started_by_default:  # memcached answers before its crawler has stopped, and starts no other until then
        wait_for(lambda: Raw(port).ask(b"lru_crawler enable\r\n") == b"OK\r\n", "the crawler starts")
    check(as_started_by_default, "lru_crawler\r\n",
          "lru_crawler x\r\n", "lru_crawler sleep\r\n", "lru_crawler sleep 100\r\n", "lru_crawler sleep x\r\n",
          "lru_crawler sleep 1000001\r\n", "lru_crawler tocrawl 10\r\n", "lru_crawler tocrawl x\r\n",
          "lru_crawler crawl\r\n", "lru_crawler crawl 64\r\n", "lru_crawler crawl x\r\n",
          "lru_crawler crawl 1 noreply\r\n", "lru_crawler crawl all\r\n", "lru_crawler metadump\r\n",
          "lru_crawler metadump x\r\n", "lru_crawler metadump all x\r\n", "lru_crawler mgdump all\r\n")
    check(as_started_by_default, "lru\r\n", "lru tune\r\n", "lru tune 10 25 0.1 2.0\r\n", "lru tune 10 x 0.1 2.0\r\n",
          "lru tune 60 60 0.1 2.0\r\n", "lru tune 10 10 0 1\r\n", "lru mode flat\r\n", "lru mode segmented\r\n",
          "lru mode x\r\n", "lru mode\r\n", "lru temp_ttl 61\r\n", "lru temp_ttl -1\r\n", "lru temp_ttl x\r\n",
          "lru temp_ttl\r\n", "lru x 1\r\n", "lru mode flat noreply\r\nmn\r\n")
    check(as_started_by_default, "slabs\r\n", "slabs reassign\r\n", "slabs reassign 1\r\n", "slabs reassign 1 2\r\n",
          "slabs automove\r\n", "slabs automove 0\r\n", "slabs automove 2\r\n", "slabs automove 3\r\n",
          "slabs automove x\r\n", "slabs automove ratio 0.8\r\n", "slabs automove ratio\r\n",
          "slabs automove 0 noreply\r\nmn\r\n", "slabs x y\r\n")
    check(as_started_by_default, "watch\r\n", "watch fetchers\r\n", "watch x\r\n", "misbehave\r\n", "debugtime p\r\n",
          "shutdown\r\n", "shutdown graceful\r\n", "shutdown x\r\n")


def test_dumps_have_the_lines_of_memcached(as_started_by_default):
    check(as_started_by_default, "flush_all\r\n", put("set", b"dump%\xff-._~", b"abc"), put("set", "dumped", LARGE, exptime=2000000000),
          put("set", "dead", b"x", exptime=-1))
    dumps = []
    for port in as_started_by_default:
        raw = Raw(port, timeout=20)
        raw.send(b"lru_crawler metadump all\r\n")
        lines = []
        while (line := raw.line()) != b"END\r\n":
            lines.append(re.sub(rb" (la|cas|cls|size)=\d+", rb" \1=N", line))
        dumps.append(sorted(lines))
        raw.close()
    assert dumps[0] == dumps[1]
    assert len(dumps[0]) == 2
    check(as_started_by_default, "stats cachedump\r\n", "stats cachedump 1\r\n", "stats cachedump 1 x\r\n",
          "stats cachedump 64 1\r\n", "stats cachedump 63 1\r\n", "delete dumped\r\n", "get dead\r\n",
          "set dump%-._~ 0 2000000000 3\r\nabc\r\n", b"delete dump%\xff-._~\r\n", "stats cachedump 1 10\r\n")


def test_version_and_quit(servers):
    for port in servers:
        raw = Raw(port, timeout=20)
        raw.send(b"version\r\n")
        assert re.fullmatch(rb"VERSION \S+\r\n", raw.line())
        raw.send(b"quit\r\n")
        assert raw.line() == b""
        raw.close()


def test_pipelined_requests_are_answered_in_order(servers):
    burst = b"".join(put("set", f"p{i}", str(i).encode() * (i * 50 + 1)) for i in range(100))
    burst += b"".join(f"get p{i}\r\n".encode() for i in range(100))
    burst += b"get " + b" ".join(f"p{i}".encode() for i in range(0, 200, 3)) + b"\r\n"
    check(servers, burst)


def test_requests_that_arrive_in_pieces(servers):
    script = put("set", "piece", b"0123456789" * 10) + b"get piece\r\nincr piece 1\r\n"
    generator = random.Random(7)
    for _ in range(20):
        cut = sorted(generator.sample(range(1, len(script)), 4))
        answers = []
        for port in servers:
            raw = Raw(port, timeout=20)
            for start, end in zip([0, *cut], [*cut, len(script)]):
                raw.send(script[start:end])
            answers.append(raw.ask(b""))
            raw.close()
        assert answers[0] == answers[1], f"cut at {cut}"


def test_random_scripts_agree(servers):
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    generator = random.Random(seed)
    keys = [f"r{seed}k{i}" for i in range(6)]
    values = [b"", b"0", b"7", b"99", b"18446744073709551615", b"text", b"y" * 3000, LARGE]

    def step():
        key = generator.choice(keys)
        verb = generator.choice(["set", "add", "replace", "append", "prepend", "get", "gets", "incr",
                                 "decr", "delete", "touch", "many", "cas"])
        if verb in ("get", "gets", "delete"):
            return f"{verb} {key}\r\n".encode()
        if verb in ("incr", "decr"):
            return f"{verb} {key} {generator.choice([0, 1, 8, 1000, 2**64 - 1])}\r\n".encode()
        if verb == "touch":
            return f"touch {key} {generator.choice([0, 1000, -1])}\r\n".encode()
        if verb == "many":
            return ("get " + " ".join(keys) + "\r\n").encode()
        if verb == "cas":
            return put("set", key, b"s") + f"gets {key}\r\n".encode()
        return put(verb, key, generator.choice(values), flags=generator.choice([0, 1, 65536]),
                   exptime=generator.choice([0, 0, 0, 1000, -1]))

    for step_bytes, ours, reference in ask_both(servers, [step() for _ in range(400)]):
        assert ours == reference, f"seed {seed}, to {step_bytes[:100]!r}"
