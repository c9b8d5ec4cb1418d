"""Who imports what in `src`: the graph of modules, with names that a package hands on led back to where they are."""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

SRC = Path(__file__).parents[2] / "src"


@cache
def tree(path):
    """Of a file, parsed once for all tests."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


@cache
def nodes(of):
    """All nodes of a tree, walked once for all tests."""
    return list(ast.walk(of))


@cache
def modules(word=""):
    """Name -> tree of every module of the product, or of those whose text has a word: most need not be parsed then."""
    found = {}
    for path in sorted((SRC / "parley").rglob("*.py")):
        if word and word not in path.read_text(encoding="utf-8"):
            continue
        parts = path.relative_to(SRC).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = tree(path)
    return found


def imports(of):
    """(module, name or None) of every import of the product, wherever in the file it stands."""
    for node in nodes(of):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names if alias.name.split(".")[0] == "parley")
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "parley":
            yield from ((node.module, alias.name) for alias in node.names)


@cache
def importers():
    """Module -> the modules that import something of it."""
    trees = modules()
    handed_on = {}
    for name, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "parley":
                for alias in node.names:
                    handed_on[name, alias.asname or alias.name] = (node.module, alias.name)

    def origin(module, name):
        while name is not None:
            if f"{module}.{name}" in trees:
                return f"{module}.{name}"
            if (module, name) not in handed_on:
                return module
            module, name = handed_on[module, name]
        return module

    found = defaultdict(set)
    for importer, tree in trees.items():
        for module, name in imports(tree):
            for target in {module, origin(module, name)} & trees.keys() - {importer}:
                found[target].add(importer)
    return {name: found[name] for name in trees}
