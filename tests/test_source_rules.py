"""Rules of the code that can be checked by parsing it: arguments, dispatch, tolerances."""

import ast
from pathlib import Path

import pronk

SOURCES = sorted(Path(pronk.__file__).parent.rglob("*.py"))
TESTS = sorted(Path(__file__).parent.rglob("*.py"))


def nodes(files, kind):
    """Yield each node of a kind in the parsed files, with its file."""
    for file in files:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, kind):
                yield file, node


def decorators(function):
    """Return the decorators of a function as text."""
    return str([ast.unparse(decorator) for decorator in function.decorator_list])


def test_no_compiled_function_takes_more_than_ten_arguments():
    many = {}
    for _, node in nodes(SOURCES, ast.FunctionDef):
        if "compiled" in decorators(node):
            count = len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs)
            many.update({node.name: count} if count > 10 else {})
    assert many == {}


def test_every_function_is_compiled_by_one_decorator():
    """Numba's own would compile what a function calls once more (`core/compiling.py`)."""
    texts = {file.name: file.read_text(encoding="utf-8") for file in SOURCES}
    assert [name for name, text in texts.items() if "njit" in text] == ["compiling.py"]


def test_sums_that_may_be_fused_have_products_instead_of_constant_powers():
    """Numba compiles x ** 2 in one of two ways, by what the process has compiled before."""
    found = [
        f"{file.name}: {node.name}: {ast.unparse(part)}"
        for file, node in nodes(SOURCES, ast.FunctionDef)
        if "fastmath" in decorators(node)
        for part in ast.walk(node)
        if isinstance(part, ast.BinOp)
        and isinstance(part.op, ast.Pow)
        and isinstance(part.right, ast.Constant)
    ]
    assert found == []


def test_kinds_of_parts_are_read_from_attributes():
    """No engine tests for the class of a kernel or of a rule."""
    found = [
        f"{file.name}: {ast.unparse(node)}"
        for file, node in nodes(SOURCES, ast.Call)
        if {"newton", "first_order", "aggregate"} & {*file.parts}
        and ast.unparse(node.func) == "isinstance"
        and ast.unparse(node.args[0]).rpartition(".")[2] in ("kernel", "rule", "loss", "oracle")
    ]
    assert found == []


def test_every_comparison_of_arrays_states_both_tolerances():
    """The absolute one that `assert_allclose` takes by itself is 0, and the relative one 1e-7."""
    found = [
        f"{file.name}:{node.lineno}"
        for file, node in nodes(TESTS, ast.Call)
        if ast.unparse(node.func).rpartition(".")[2] == "assert_allclose"
        and not {"rtol", "atol"} <= {given.arg for given in node.keywords}
        and None not in {given.arg for given in node.keywords}  # **CLOSE
    ]
    assert found == []


def test_no_shipped_module_replaces_parts_of_others():
    texts = {file.name: file.read_text(encoding="utf-8") for file in SOURCES}
    assert [name for name, text in texts.items() if "unittest" in text] == []


def test_modules_of_tests_have_different_names():
    """Two of one name cannot be collected together."""
    names = [file.name for file in TESTS if file.name.startswith("test_")]
    assert sorted(set(names)) == sorted(names)
