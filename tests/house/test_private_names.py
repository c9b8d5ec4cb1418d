"""`src` uses no private names of other packages: what their authors may change tomorrow, nothing here stands on."""

import ast
import builtins
import re
import types

import pytest
from tests.house.importers import modules, nodes

PRIVATE = re.compile(r"_[a-z]\w*")
HIDDEN = re.compile(r"__\w+__")
# Underscored and yet documented: of named tuples and of SQLAlchemy's rows.
DOCUMENTED = {"_asdict", "_fields", "_make", "_mapping", "_replace"}
# Names of the language and of the standard library, each in its documentation.
PYTHON = {
    *(name for kind in (*vars(builtins).values(), *vars(types).values()) for name in dir(kind) if name[:2] == "__"),
    *("__all__", "__array__", "__file__", "__future__", "__main__", "__path__", "__post_init__", "__version__"),
    *("__enter__", "__exit__", "__aenter__", "__aexit__", "__wrapped__", "__set_name__", "__get__", "__getattr__"),
}
# Of msgspec's structs, each in its documentation.
STRUCTS = {"__struct_config__", "__struct_encode_fields__", "__struct_fields__"}
REFLECTION = {"getattr", "setattr", "hasattr", "delattr"}


def own_names(tree):
    """The names that a module defines, sets on itself or takes from other modules of the product."""
    for node in nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and of_itself(node):
            yield node.attr


def of_itself(node):
    """Whether this is an attribute of self, of the class or of what stands above it."""
    match node.value:
        case ast.Name(id="self" | "cls") | ast.Call(func=ast.Name(id="super"), args=[]):
            return True
    return False


def imported(node):
    """The places of an import, unless they are the product's own."""
    if isinstance(node, ast.Import):
        places = [alias.name for alias in node.names]
    else:
        places = [f"{node.module}.{alias.name}" for alias in node.names]
    return [place for place in places if place.split(".")[0] not in ("parley", "__future__")]


def private_uses(tree, all_own=frozenset()):
    """(line, what) of every private name of another package that a module uses."""
    own = set(own_names(tree))
    house = {
        alias.asname or alias.name
        for node in nodes(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "parley"
        for alias in node.names
    }

    def is_own(node):
        if of_itself(node):
            return node.attr in own or node.attr in all_own  # of a class above, in another module
        if isinstance(node.value, ast.Name) and node.value.id in house:
            return True
        return node.attr in own and not isinstance(node.ctx, ast.Store | ast.Del)

    for node in nodes(tree):
        names = []
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [place for place in imported(node) if any(map(PRIVATE.fullmatch, place.split(".")))]
        elif isinstance(node, ast.Attribute) and PRIVATE.fullmatch(node.attr):
            names = [] if node.attr in DOCUMENTED or is_own(node) else [ast.unparse(node)]
        elif isinstance(node, ast.Attribute) and HIDDEN.fullmatch(node.attr):
            names = [] if node.attr in PYTHON | STRUCTS else [ast.unparse(node)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and HIDDEN.fullmatch(node.value):
            names = [] if node.value in PYTHON else [node.value]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in REFLECTION:
            name = getattr(node.args[1], "value", None)
            private = isinstance(name, str) and PRIVATE.fullmatch(name) and name not in own | DOCUMENTED
            names = [ast.unparse(node)] if private else []
        yield from ((node.lineno, name) for name in names)


def test_no_private_name_of_another_package_is_used():
    own = {name for tree in modules().values() for name in own_names(tree)}
    found = [f"{name}:{line}: {what}" for name, tree in modules().items() for line, what in private_uses(tree, own)]
    assert not found, "private names of other packages:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        "from fastapi.routing import _prepare",
        "import numpy._core",
        "request._body = b''",
        "def f(request): return request._send",
        "getattr(f, '__click_params__', [])",
        "scripts._upgrade_revs('head', 'base')",
        "getattr(loop, '_ready')",
        "class Mine(dict):\n    def f(self): return self._of_dict",
    ],
)
def test_each_way_to_use_one_is_seen(source):
    assert list(private_uses(ast.parse(source), {"_body", "_mine"}))


def test_own_private_names_and_documented_ones_are_fine():
    source = (
        "class Mine:\n    def __init__(self): self._mine = 1\n    def f(self, row): return row._asdict(), self._mine"
    )
    assert not list(private_uses(ast.parse(source)))
