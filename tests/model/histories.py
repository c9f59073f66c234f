"""What clients asked for and were told, and whether that is linearizable."""
from dataclasses import dataclass


@dataclass
class Operation:
    """What a client asked for and was told."""
    kind: str
    argument: tuple
    begin: int
    end: int | None = None
    result: object = None  # None: not known


def is_linearizable(history, first_value):
    """Whether there is an order of all operations that fits times and answers; those of unknown outcome may be left
    out. A refused operation has not been executed."""
    operations = [o for o in history if o.result != "refused" and not (o.kind == "read" and o.result is None)]
    never = float("inf")
    ends = [o.end if o.result is not None else never for o in operations]
    must = sum(1 << i for i, end in enumerate(ends) if end < never)
    stack, visited = [(0, first_value)], set()
    while stack:
        done, value = stack.pop()
        if done & must == must:
            return True
        if (done, value) in visited:
            continue
        visited.add((done, value))
        limit = min(end for i, end in enumerate(ends) if not done >> i & 1)
        for i, operation in enumerate(operations):
            if done >> i & 1 or operation.begin > limit:
                continue
            fits, after = apply(operation, value)
            if fits:
                stack.append((done | 1 << i, after))
    return False


def apply(operation, value):
    """Whether the operation may have had its answer at this value, and the value after it."""
    argument, result = operation.argument, operation.result
    if operation.kind == "read":
        offset, length = argument
        return result[1] == (value[offset:offset + length] if value else None), value
    if operation.kind == "update":
        offset, data = argument
        if value is None or result == "not found":
            return value is None and result != "done", value
        return True, value[:offset] + data + value[offset + len(data):]
    if operation.kind == "cas":
        expected, new_value = argument
        if result == "exists":
            return value != expected, value
        return value == expected, new_value
    return True, argument[0]  # set, delete
