#!/usr/bin/env python3
"""Makes vectors.json: ./make_vectors.py > vectors.json. Standard library only.

An independent model of the codes, written for checking and not for speed: field products bit by
bit, the coding matrix by inverting the top of an extended Vandermonde matrix, parities byte by byte.
"""
import json
from math import lcm


def mul(a, b):
    """Product in GF(2^8), polynomial 0x11D."""
    product = 0
    while b:
        if b & 1:
            product ^= a
        a <<= 1
        if a & 0x100:
            a ^= 0x11D
        b >>= 1
    return product


MUL = [bytes(mul(a, b) for b in range(256)) for a in range(256)]
INVERSE = [0] + [MUL[a].index(1) for a in range(1, 256)]


def invert(matrix):
    n = len(matrix)
    work = [row + [int(i == j) for j in range(n)] for i, row in enumerate(matrix)]
    for c in range(n):
        pivot = next(r for r in range(c, n) if work[r][c])
        work[c], work[pivot] = work[pivot], work[c]
        work[c] = [MUL[INVERSE[work[c][c]]][x] for x in work[c]]
        for r in range(n):
            if r != c:
                factor = work[r][c]
                work[r] = [x ^ MUL[factor][y] for x, y in zip(work[r], work[c])]
    return [row[n:] for row in work]


def coding_matrix(k, m):
    """Extended Vandermonde matrix times the inverse of its top; first row and column made ones."""
    def power(x, e):
        value = 1
        for _ in range(e):
            value = MUL[value][x]
        return value

    rows = [[int(j == 0) for j in range(k)]]
    rows += [[power(i, j) for j in range(k)] for i in range(1, k + m - 1)]
    rows += [[int(j == k - 1) for j in range(k)]]
    top = invert(rows[:k])
    bottom = []
    for row in rows[k:]:
        out = [0] * k
        for x, line in zip(row, top):
            out = [o ^ MUL[x][y] for o, y in zip(out, line)]
        bottom.append(out)
    by = [INVERSE[x] for x in bottom[0]]
    bottom = [[MUL[b][x] for b, x in zip(by, row)] for row in bottom]
    return [bottom[0]] + [[MUL[INVERSE[row[0]]][x] for x in row] for row in bottom[1:]]


def place(layout, k, kp):
    """(cell of each block, stripes): cells are (row, node), stripes lists of blocks."""
    l = lcm(k, kp)
    stripe_count, row_count = l // k, l // kp
    if layout == "srs":
        cells = [(b % row_count, b // row_count) for b in range(l)]
        return cells, [list(range(i, l, stripe_count)) for i in range(stripe_count)]
    stripes = [list(range(i * k, i * k + k)) for i in range(stripe_count)]
    if layout in ("rs", "ers-1"):
        return [divmod(b, kp) for b in range(l)], stripes
    used = [[False] * kp for _ in range(row_count)]
    cells, end = [], []
    within, free = kp // k, kp % k
    cross = stripe_count - within * row_count
    for i in range(row_count):
        column = i * (k - free) if i < cross else (i - cross + 1) * free
        for _ in range(within * k):
            cells.append((i, column % kp))
            used[i][column % kp] = True
            column += 1
        end.append(column)
    # The free cells of each row, cyclically from behind its stripes.
    left = [[(i, (end[i] + t) % kp) for t in range(kp) if not used[i][(end[i] + t) % kp]]
            for i in range(row_count)]
    pool = [cell for row in left[cross:] for cell in row]
    for i in range(cross):
        cells += left[i] + pool[:k - free]
        del pool[:k - free]
    return cells, stripes


def case(layout, k, m, kp, parities=True):
    cells, stripes = place(layout, k, kp)
    out = {"layout": layout, "k": k, "m": m, "k_prime": kp, "cells": cells, "stripes": stripes}
    if parities:
        matrix = coding_matrix(kp, m)
        data = bytes((i * 31 + 7) % 256 for i in range(16 * len(cells)))
        rows = [[b for b, cell in enumerate(cells) if cell[0] == i]
                for i in range(len(cells) // kp)]

        def parity(j, blocks):
            sums = [0] * 16
            for b in blocks:
                table = MUL[matrix[j][cells[b][1]]]
                sums = [s ^ table[x] for s, x in zip(sums, data[16 * b:16 * b + 16])]
            return bytes(sums).hex()

        out["matrix"] = matrix
        out["narrow"] = [[parity(j, s) for j in range(m)] for s in stripes]
        out["wide"] = [[parity(j, r) for j in range(m)] for r in rows]
    return out


SETS = [(2, 1, 3), (4, 1, 5), (4, 3, 5), (6, 2, 7), (3, 2, 6), (8, 3, 10), (12, 3, 14)]
# Sets whose ers-2 stripes meet a node twice if free cells are used from left to right.
CYCLIC = [(7, 11), (8, 11), (8, 13), (9, 13), (10, 13), (9, 14)]

if __name__ == "__main__":
    cases = [case("srs", *s) for s in SETS]
    cases += [case("rs", k, m, k) for k, m in [(1, 2), (2, 1), (4, 2), (10, 4), (12, 4), (16, 8)]]
    cases += [case("ers-2", k, 2, kp, k == 7) for k, kp in CYCLIC]
    print("[" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "]")
