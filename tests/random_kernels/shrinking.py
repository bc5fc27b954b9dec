"""Smaller kernels that still fail: statements are cut as long as the kernel fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from kernel_tree import Access, Group, If, Jump, Kernel, Loop, Op, Statement

_Body = list[Statement]


def smaller(body: _Body) -> Iterator[_Body]:
    """The body without some of its statements, most at first; then with one statement made smaller."""
    size = len(body)
    while size:
        for first in range(0, len(body), size):
            yield body[:first] + body[first + size :]
        size //= 2
    for i, statement in enumerate(body):
        for parts in _smaller_statement(statement):
            yield [*body[:i], *parts, *body[i + 1 :]]


def _smaller_statement(statement: Statement) -> Iterator[_Body]:
    match statement:
        case If(_, then, otherwise):
            yield from (arm for arm in (then, otherwise) if arm)
            yield from ([replace(statement, then=arm)] for arm in smaller(then))
            yield from ([replace(statement, otherwise=arm)] for arm in smaller(otherwise))
        case Loop(body=body):
            if not _jumps(body):
                yield body
            yield from ([replace(statement, body=part)] for part in smaller(body))
        case Group(body, loose=True):
            yield from ([Group(part, loose=True)] for part in smaller(body))
        case Group(body):
            yield from _inside(body)
        case Op(guard=guard) | Access(guard=guard) if guard:
            yield [replace(statement, guard="")]


def _inside(body: _Body) -> Iterator[_Body]:
    """In statements that belong together only nested ones are cut."""
    for i, statement in enumerate(body):
        if isinstance(statement, If | Loop | Group):
            for parts in _smaller_statement(statement):
                yield [Group([*body[:i], *parts, *body[i + 1 :]])]


def _jumps(body: _Body) -> bool:
    return any(
        isinstance(s, Jump)
        or (isinstance(s, Group) and _jumps(s.body))
        or (isinstance(s, If) and (_jumps(s.then) or _jumps(s.otherwise)))
        for s in body
    )


def shrunk(kernel: Kernel, fails: Callable[[Kernel], bool], trials: int = 300) -> Kernel:
    """A kernel with fewer statements that still fails, after at most this many trials."""

    def candidates() -> Iterator[Kernel]:
        yield from (replace(kernel, body=body) for body in smaller(kernel.body))
        for i, function in enumerate(kernel.functions):
            for body in smaller(function.body):
                others = [*kernel.functions]
                others[i] = replace(function, body=body)
                yield replace(kernel, functions=others)

    while True:
        for candidate in candidates():
            trials -= 1
            if trials < 0:
                return kernel
            if fails(candidate):
                kernel = candidate
                break
        else:
            return kernel
