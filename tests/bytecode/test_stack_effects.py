"""Stack effects: followed through every branch and handler, the depths must agree wherever paths join."""

from types import CodeType

from tests.bytecode.test_against_dis import compiled, nested, standard_library
from tests.support.frames_extension import decode, extension


def follow(code: CodeType) -> tuple[str | None, int]:
    """What is wrong, if anything, and the greatest depth."""
    rows = decode(code)
    effects = extension._frames_stack_effects(code)
    handlers = extension._frames_handlers(code)
    depths: dict[int, int] = {}
    todo = [(0, 0)]
    while todo:
        index, depth = todo.pop()
        if index in depths:
            if depths[index] != depth:
                return f"{code}: {rows[index].op} at {rows[index].offset} with {depths[index]} and {depth} values", 0
            continue
        if not 0 <= depth <= code.co_stacksize:
            return f"{code}: {rows[index].op} at {rows[index].offset} with {depth} of {code.co_stacksize} values", 0
        depths[index] = depth
        row = rows[index]
        if (row.op == "ReturnValue" and depth != 1) or (row.op == "ReturnConst" and depth != 0):
            return f"{code}: returns at {row.offset} with {depth} values", 0
        through, jump = effects[index]
        if through is not None:
            todo.append((index + 1, depth + through))
        if jump is not None:
            todo.append((row.target, depth + jump))
        if row.handler >= 0:
            _, _, target, handler_depth, push_lasti = handlers[row.handler]
            if handler_depth > depth:
                return f"{code}: {row.op} at {row.offset} has {depth} values, its handler wants {handler_depth}", 0
            todo.append((target, handler_depth + push_lasti + 1))
    return None, max(depths.values())


def test_every_way_through_the_standard_library() -> None:
    wrong = []
    functions = exact = 0
    for path in list(standard_library())[::4]:
        module = compiled(path)
        for code in [] if module is None else nested(module):
            error, greatest = follow(code)
            if error:
                wrong.append(error)
            functions += 1
            # CPython's own count is of the deepest point inside of instructions, so it may be more.
            exact += code.co_stacksize - greatest <= 1
    assert not wrong, "\n".join(wrong[:10])
    assert functions > 4000
    assert exact > functions * 0.7
