"""Nothing in the library turns data into code."""

import ast
from pathlib import Path

import devote

SOURCE = Path(devote.__file__).parent
MODULES = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
CALLS = {"eval", "exec", "compile", "__import__"}
WRITERS = {"savez", "savez_compressed"}  # they pickle objects; see core/arrays.py
METHODS = {("yaml", "load"), ("yaml", "unsafe_load"), ("yaml", "full_load"), ("torch", "load")}


def offences(tree: ast.AST) -> list[str]:
    """What a file does that it should not."""
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found += [n.name for n in names if n.name.split(".")[0] in MODULES]
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in MODULES:
                found.append(module)
            case ast.Call(func=ast.Name(id=name)) if name in CALLS:
                found.append(f"{name}()")
            case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name)) if (
                owner,
                name,
            ) in METHODS:
                found.append(f"{owner}.{name}()")
            case ast.Attribute(attr=name) if name in WRITERS:
                found.append(name)
            case ast.keyword(arg="allow_pickle", value=ast.Constant(value=False)):
                pass
            case ast.keyword(arg="allow_pickle"):
                found.append("allow_pickle")
    return found


def test_library_has_no_pickle_eval_exec_or_unsafe_yaml() -> None:
    wrong = {
        str(path.relative_to(SOURCE)): bad
        for path in SOURCE.rglob("*.py")
        if (bad := offences(ast.parse(path.read_text())))
    }
    assert not wrong


def test_the_search_itself_finds_each_offence() -> None:
    for line in (
        "import pickle",
        "from cloudpickle import loads",
        "eval('1')",
        "exec(text)",
        "yaml.load(file)",
        "np.load(file, allow_pickle=True)",
        "(np.savez if plain else np.savez_compressed)(file, allow_pickle=False)",
    ):
        assert offences(ast.parse(line)), line
    assert not offences(ast.parse("np.load(file, allow_pickle=False)\nyaml.safe_load(file)"))
