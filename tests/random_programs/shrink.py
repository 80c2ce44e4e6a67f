"""Makes a failing program small: statements go, blocks take the place of what holds them, expressions become simple.

Every candidate runs in a forked process, so that a crash or an endless loop is an answer like any other.
"""

import ast
import os
import pickle
import signal
import time
from collections.abc import Callable, Iterator

from .check import Difference, Invalid, check

SECONDS_FOR_ONE = 10
SIMPLE = ["torch.ones(3)", "1", "t1", "None", "True"]


def symptom(text: str, backend: str = "eager") -> str | None:
    """What goes wrong with this program, in a word or two that survive shrinking; None if all is well."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(SECONDS_FOR_ONE)
        answer: str | None = None
        try:
            check(text, backend)
        except Difference as difference:
            answer = str(difference)
        except Invalid:
            answer = None
        except BaseException as error:
            answer = f"raised: {type(error).__name__}: {error}"
        os.write(writing, pickle.dumps(answer)[:60000])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answered = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        ended_by = os.WTERMSIG(status)
        return "hangs" if ended_by == signal.SIGALRM else f"crash: signal {signal.Signals(ended_by).name}"
    try:
        return pickle.loads(answered)
    except Exception:
        return "raised: an answer too long to read"


def kind(answer: str | None) -> str | None:
    """The symptom without places and values: `result`, `exception`, `crash` ..."""
    if answer is None:
        return None
    head = answer.split("\n")[0]
    if head.startswith("call "):
        head = head.split(": ", 1)[1]
    for stop in ("[", ".", ":", " differs"):
        head = head.split(stop)[0]
    return head


def shrunk(text: str, backend: str = "eager", seconds: float = 60) -> tuple[str, str]:
    """A small program with the same kind of symptom, and the symptom; both as they were if nothing could go."""
    first = symptom(text, backend)
    wanted = kind(first)
    if wanted is None or first is None:
        return text, "not seen again"
    best, answer, end = text, first, time.monotonic() + seconds
    before = None
    while best != before and time.monotonic() < end:
        before = best
        for edits in (fewer_statements, hoisted, fewer_elements, simpler_expressions):
            number = 0
            while time.monotonic() < end:
                candidate = edited(best, edits, number)
                if candidate is None:
                    break
                found = symptom(candidate, backend) if 0 < len(candidate) < len(best) else None
                if found is not None and kind(found) == wanted:
                    best, answer = candidate, found  # the same number is another edit now
                else:
                    number += 1
    return best, answer


def edited(text: str, edits: Callable[[ast.AST], Iterator[Callable[[], None]]], number: int) -> str | None:
    """The text after the edit of this number: empty if it is no program, None if there are not so many."""
    tree = ast.parse(text)
    for index, edit in enumerate(edits(tree)):
        if index == number:
            edit()
            try:
                return ast.unparse(ast.fix_missing_locations(tree)) + "\n"
            except Exception:
                return ""
    return None


def statement_lists(tree: ast.AST) -> Iterator[tuple[ast.AST, str, list[ast.stmt]]]:
    for node in ast.walk(tree):
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            found = getattr(node, name, None)
            if isinstance(found, list) and found:
                yield node, name, found


def fewer_statements(tree: ast.AST) -> Iterator[Callable[[], None]]:
    for _, name, found in list(statement_lists(tree)):
        size = len(found)
        chunk = size
        while chunk >= 1:
            for start in range(0, size, chunk):

                def drop(found: list = found, start: int = start, chunk: int = chunk, name: str = name) -> None:
                    gone = found[start : start + chunk]
                    keep = [one for one in gone if isinstance(one, ast.FunctionDef) and one.name == "f"]
                    keep += [
                        one for one in gone if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "STEPS"
                    ]
                    found[start : start + chunk] = keep
                    if name == "body" and not found:
                        found.append(ast.Pass())

                yield drop
            chunk //= 2


def hoisted(tree: ast.AST) -> Iterator[Callable[[], None]]:
    """A compound statement gives way to one of its blocks."""
    for _, name, found in list(statement_lists(tree)):
        if name in ("handlers", "cases"):
            continue
        for index, statement in enumerate(found):
            if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                continue
            for inner in ("body", "orelse", "finalbody"):
                block = getattr(statement, inner, None)
                if isinstance(block, list) and block:
                    yield lambda found=found, index=index, block=block: found.__setitem__(
                        slice(index, index + 1), block
                    )
            for holder in getattr(statement, "handlers", []) + getattr(statement, "cases", []):
                yield lambda found=found, index=index, holder=holder: found.__setitem__(
                    slice(index, index + 1), holder.body
                )


def fewer_elements(tree: ast.AST) -> Iterator[Callable[[], None]]:
    """Elements of displays, arguments, decorators and targets go one by one."""
    for node in ast.walk(tree):
        for name in ("elts", "args", "keywords", "decorator_list", "items", "values", "bases"):
            found = getattr(node, name, None)
            if isinstance(found, list) and len(found) > (1 if name in ("items", "values") else 0):
                for index in range(len(found)):
                    if isinstance(node, ast.Dict):
                        yield lambda node=node, index=index: (node.keys.pop(index), node.values.pop(index))
                    else:
                        yield lambda found=found, index=index: found.pop(index)


def simpler_expressions(tree: ast.AST) -> Iterator[Callable[[], None]]:
    """An expression gives way to a part of itself or to something simple."""
    for node in list(ast.walk(tree)):
        for name, value in list(ast.iter_fields(node)):
            places: list[tuple[object, object, ast.expr]] = []
            if isinstance(value, ast.expr):
                places.append((node, name, value))
            elif isinstance(value, list):
                places += [(value, index, one) for index, one in enumerate(value) if isinstance(one, ast.expr)]
            for holder, key, expression in places:
                if isinstance(expression, (ast.Constant, ast.Name)) or isinstance(
                    getattr(expression, "ctx", ast.Load()), (ast.Store, ast.Del)
                ):
                    continue
                parts = [part for part in ast.iter_child_nodes(expression) if isinstance(part, ast.expr)]
                parts += [ast.parse(simple, mode="eval").body for simple in SIMPLE]
                for part in parts:

                    def put(holder: object = holder, key: object = key, part: ast.expr = part) -> None:
                        if isinstance(holder, list):
                            holder[key] = part  # type: ignore[index]
                        else:
                            setattr(holder, key, part)  # type: ignore[arg-type]

                    yield put
