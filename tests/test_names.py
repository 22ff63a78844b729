"""One name, one meaning: a class of the library has a name of its own."""

import ast
from collections import defaultdict
from pathlib import Path

import pronk

SOURCES = sorted(Path(pronk.__file__).parent.rglob("*.py"))


def test_no_two_classes_have_the_same_name():
    homes = defaultdict(list)
    for file in SOURCES:
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(file.relative_to(SOURCES[0].parent)))
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}


def test_no_compiled_function_takes_more_than_ten_arguments():
    many = {}
    for file in SOURCES:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and "njit" in str(
                [ast.unparse(decorator) for decorator in node.decorator_list]
            ):
                count = len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs)
                many.update({node.name: count} if count > 10 else {})
    assert many == {}


def test_the_kinds_of_parts_are_asked_what_they_offer():
    """No engine tests for the class of a kernel or of a rule."""
    found = [
        f"{file.name}: {ast.unparse(node)}"
        for file in SOURCES
        if "engines" in file.parts
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "isinstance"
        and ast.unparse(node.args[0]).rpartition(".")[2] in ("kernel", "rule", "loss", "oracle")
    ]
    assert found == []
