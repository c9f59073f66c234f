"""The second half of scripts/quickstart: stores objects in a running cluster, changes their
redundancy, kills two nodes, and shows that everything reads back. Uses pymemcache, as any memcached client could be used."""

import argparse
import hashlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import time

from pymemcache.client.base import Client

ROOT = pathlib.Path(__file__).resolve().parent.parent
CLI = pathlib.Path(os.environ.get("ELASTRIPE_BIN", ROOT / "build/bin")) / "elastripe"
MAX_OBJECT = 64 << 20
MIB = 1 << 20
INLINE_MAX = 16 << 10  # the default of inline_max_bytes


def say(text=""):
    print(text, flush=True)


def elastripe(*words):
    done = subprocess.run([str(CLI), *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"quickstart: elastripe {' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout


def project_files():
    """The project's own files: what git tracks, or all but the build."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if done.returncode == 0 and done.stdout:
        names = done.stdout.decode().rstrip("\0").split("\0")
    else:
        names = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*")
                 if not {"build", ".git"} & set(p.relative_to(ROOT).parts)]
    return [ROOT / n for n in sorted(names) if (ROOT / n).is_file()]


def objects_of(files):
    """Key -> bytes of what to store."""
    if files:
        objects = {}
        for file in files:
            if file.stat().st_size > MAX_OBJECT:
                say(f"   {file.name} is larger than 64 MiB, the largest object: left out")
                continue
            name = "".join(c if c > " " and c != "\x7f" else "_" for c in file.name)
            key = f"file/{len(objects)}/{name}".encode()[:250]
            objects[key.decode(errors="ignore")] = file.read_bytes()
        return objects
    objects = {}
    tar_bytes = io.BytesIO()
    with tarfile.open(fileobj=tar_bytes, mode="w") as tar:
        for file in project_files():
            name = str(file.relative_to(ROOT))
            tar.add(file, arcname=name)
            if len(name) <= 200 and " " not in name:
                objects[f"project/{name}"] = file.read_bytes()
    if tar_bytes.tell() <= MAX_OBJECT:
        objects["project.tar"] = tar_bytes.getvalue()
    return objects


def used_bytes(port, nodes):
    """Memory that holds items on the nodes that run: chunks in use times their size."""
    total = 0
    for i in range(nodes):
        try:
            stats = Client(("127.0.0.1", port + 1 + i), timeout=10).stats("slabs")
        except OSError:
            continue
        for name, value in stats.items():
            if name.endswith(b":used_chunks"):
                slab_class = name.split(b":")[0]
                total += int(value) * int(stats[slab_class + b":chunk_size"])
    return total


def show_placement(server, key):
    """Prints where an object lies; gives the nodes of its first segment's shards, in shard order."""
    report = json.loads(elastripe("--server", server, "--json", "object", key))
    if report["kind"] != "striped":
        return []
    segment = report["segments"][0]
    say(f"   {key}: {report['size']:,} bytes as {report['scheme']}, "
        f"{len(report['segments'])} segment(s); shards of the first:")
    for shard in segment["shards"]:
        kind = "data" if shard["role"].startswith("D") else "parity"
        say(f"     {kind:<6} {shard['role']}  on {shard['node']}")
    return [shard["node"] for shard in segment["shards"]]


def show_transition(server, client, objects, key):
    """Takes all objects from RS(4,2) to RS(5,2); data shards stay where and as they are."""
    say("== a transition: every object from RS(4,2) to RS(5,2), in place")
    report = json.loads(elastripe("--server", server, "--json", "transition", "--all", "--to", 5))
    done, counts = report["done"], report["counts"]
    say(f"   {counts['transitioned']} objects of {done['object_bytes'] / MIB:.2f} MiB in "
        f"{report['seconds']:.2f} s; {sum(counts['skipped'].values())} are kept whole and have "
        "no such state")
    say(f"   parities took {done['parity_bytes_before'] / MIB:.2f} MiB and take "
        f"{done['parity_bytes_after'] / MIB:.2f} MiB; "
        f"{(done['read_bytes'] + done['sent_bytes']) / MIB:.2f} MiB crossed the network")
    elastripe("--server", server, "scrub", key)
    check(client, objects)
    say("   all objects read back, and the parities match the data")


def check(client, objects):
    wrong = [key for key, value in objects.items()
             if hashlib.sha256(client.get(key) or b"").digest() != hashlib.sha256(value).digest()]
    if wrong:
        sys.exit(f"quickstart: {len(wrong)} objects differ, for example {wrong[0]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    server = f"127.0.0.1:{arguments.port}"
    nodes = json.loads((pathlib.Path(arguments.dir) / "cluster.json").read_text())["nodes"]

    say("== storing with pymemcache")
    objects = objects_of(arguments.files)
    if not objects:
        sys.exit("quickstart: nothing to store")
    client = Client(("127.0.0.1", arguments.port), timeout=60, connect_timeout=5, no_delay=True)
    stored = {"large": 0, "small": 0}  # those that are split, and those kept whole
    used = dict(stored)
    count = dict(stored)
    for kind in stored:
        before = used_bytes(arguments.port, nodes)
        for key, value in objects.items():
            if kind == ("large" if len(value) > INLINE_MAX else "small"):
                if not client.set(key, value, noreply=False):
                    sys.exit(f"quickstart: {key} was not stored")
                stored[kind] += len(value)
                count[kind] += 1
        used[kind] = used_bytes(arguments.port, nodes) - before
    largest = max(objects, key=lambda key: len(objects[key]))
    placement = show_placement(server, largest)
    say("   memory on the nodes, and what three replicas would take at least:")
    for kind in stored:
        if stored[kind]:
            say(f"     {count[kind]} {kind} objects, {stored[kind] / MIB:.2f} MiB: "
                f"{used[kind] / MIB:.2f} MiB, {used[kind] / stored[kind]:.2f} bytes a byte; "
                f"replicas {3 * stored[kind] / MIB:.2f} MiB")
    say("     (up to 16 KiB an object is kept whole, three times)")

    if placement:
        show_transition(server, client, objects, largest)

    victims = (placement or ["n0", "n1"])[:2]
    say(f"== killing {victims[0]} and {victims[1]} with SIGKILL")
    elastripe("cluster", "kill", "--dir", arguments.dir, *victims)
    started = time.monotonic()
    check(client, objects)
    say(f"   all {len(objects)} objects read back with the same SHA-256 "
        f"({time.monotonic() - started:.1f} s)")
    new = objects[largest][::-1]
    if not client.set("stored-after-the-crash", new, noreply=False):
        sys.exit("quickstart: the new object was not stored")
    check(client, {"stored-after-the-crash": new})
    say(f"   and a new one of {len(new):,} bytes was stored and read, on the nodes that are left:")
    show_placement(server, "stored-after-the-crash")

    cli = os.path.relpath(CLI)
    say()
    say(f"The cluster goes on, without {' and '.join(victims)}. Use it with any memcached client "
        f"at {server}, or:")
    say(f"  {cli} --server {server} status")
    say(f"  {cli} --server {server} put KEY FILE")
    say(f"  {cli} cluster restart --dir {arguments.dir} {' '.join(victims)}")
    say(f"Stop it: {cli} cluster stop --dir {arguments.dir}")


if __name__ == "__main__":
    main()
