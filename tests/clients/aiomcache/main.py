"""aiomcache: the text protocol, by asyncio."""

import asyncio
import sys
import time

import aiomcache

host, port, _ = sys.argv[1:4]


async def exercise():
    client = aiomcache.Client(host, int(port))
    await client.flush_all()
    assert await client.get(b"absent") is None
    assert await client.set(b"key", b"value") and await client.get(b"key") == b"value"
    assert not await client.add(b"key", b"x") and await client.add(b"added", b"1")
    assert not await client.replace(b"missing", b"x") and await client.replace(b"added", b"2")
    assert await client.append(b"key", b">") and await client.prepend(b"key", b"<")
    value, cas = await client.gets(b"key")
    assert value == b"<value>" and await client.cas(b"key", b"changed", cas)
    assert not await client.cas(b"key", b"late", cas)
    assert await client.set(b"counter", b"10")
    assert await client.incr(b"counter", 5) == 15 and await client.decr(b"counter", 3) == 12
    for i in range(100):
        assert await client.set(f"many{i}".encode(), str(i).encode())
    found = await client.multi_get(*(f"many{i}".encode() for i in range(101)))
    assert found == (*(str(i).encode() for i in range(100)), None)
    large = bytes(range(256)) * 20_000
    assert await client.set(b"large", large) and await client.get(b"large") == large
    assert await client.set(b"short", b"x", exptime=1) and await client.set(b"touched", b"x")
    assert await client.touch(b"touched", 1) and not await client.touch(b"missing", 1)
    end = time.monotonic() + 20
    while await client.get(b"short") or await client.get(b"touched"):
        assert time.monotonic() < end, "nothing expires"
        await asyncio.sleep(0.05)
    assert await client.delete(b"key") and not await client.delete(b"key")
    assert b"curr_items" in await client.stats() and await client.version()
    await client.close()


asyncio.run(exercise())
