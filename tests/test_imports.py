"""Who may import whom (design, section 3)."""

import ast
from collections import Counter
from pathlib import Path

import devote

SOURCE = Path(devote.__file__).parent
MAY_IMPORT = {
    "core": set(),
    "nets": {"core"},
    "epistemic": {"core", "nets"},
    "replay": {"core"},
    "envs": {"core"},
    "agents": {"core", "nets", "epistemic"},
    "measure": {"core"},
    "regression": {"core", "nets", "epistemic", "measure", "experiments"},
    "loops": {"core", "replay", "measure"},
    "figures": {"core", "measure"},
    "names": {"core", "envs"},
    "run": {"core", "envs", "agents", "loops"},
    "build": {"core", "nets", "envs", "agents", "loops", "run"},
    "presets": {"core", "envs", "agents", "loops", "run", "build"},
    "saved": {"core", "envs", "loops", "run", "build", "presets"},
    "run_report": {"core", "loops", "figures"},
    "render": {"core", "envs", "loops", "measure", "figures", "run", "build", "saved"},
    "demo": {"core", "loops", "figures", "build", "presets", "run_report"},
    "loggers": {"core"},
    "callbacks": {"core"},
    "doctor": {"core", "loops"},
    "live": {"core", "loops", "measure", "presets", "saved", "doctor"},
    "hub": {"core", "saved"},
    "api": {
        *("core", "nets", "envs", "loops", "names", "run", "build", "presets", "saved"),
        *("callbacks", "hub"),
    },
    "parts": {"core", "nets", "epistemic", "loops", "measure"},
    "experiments": {
        *("core", "envs", "loops", "measure", "figures", "regression", "names", "run", "build"),
        *("presets", "saved", "run_report"),
    },
    "cli": {
        *("core", "envs", "loops", "names", "run", "build", "presets", "render", "demo"),
        *("run_report", "experiments", "live", "doctor", "loggers"),
    },
    "__init__": {"api", "core", "envs", "measure"},
    "__main__": {"cli"},
}
ONLY_FIGURES = {"matplotlib"}


def imported(path: Path) -> set[str]:
    """Full names of all modules that a file imports, wherever in the file, but for what it does
    when it is run as a command."""
    names: set[str] = set()
    tree = ast.parse(path.read_text())
    tree.body = [node for node in tree.body if not _is_main(node)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def _is_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "__name__ == '__main__'"


def room_of(path: Path) -> str:
    """The folder of a file, or its own name at the top."""
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def files() -> list[Path]:
    found = sorted(SOURCE.rglob("*.py"))
    assert len(found) > 30
    return found


def test_every_module_has_a_name_of_its_own() -> None:
    names = Counter(path.stem for path in files() if path.stem != "__init__")
    assert [name for name, count in names.items() if count > 1] == []


def test_every_room_keeps_to_its_table() -> None:
    wrong = []
    for path in files():
        room = room_of(path)
        for name in imported(path):
            parts = name.split(".")
            if parts[0] != "devote":
                continue
            to = parts[1] if len(parts) > 1 else ""
            if to not in MAY_IMPORT[room] | {room}:
                wrong.append(f"{path.relative_to(SOURCE)} imports {name}")
    assert not wrong


def test_no_two_modules_have_one_name() -> None:
    names = [path.stem for path in files() if path.stem != "__init__"]
    assert sorted(set(names)) == sorted(names)


def test_no_module_needs_itself() -> None:
    modules = {_module(path): path for path in files()}
    needs = {
        name: {
            other
            for found in imported(path)
            for other in (found, found.rpartition(".")[0])
            if other in modules and other != name
        }
        for name, path in modules.items()
    }
    while needs:
        free = {name for name, others in needs.items() if not others & needs.keys()}
        assert free, f"in a circle: {sorted(needs)}"
        needs = {name: others for name, others in needs.items() if name not in free}


def _module(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_matplotlib_lives_in_figures_and_nowhere_else() -> None:
    wrong = [
        str(path.relative_to(SOURCE))
        for path in files()
        if room_of(path) != "figures" and ONLY_FIGURES & {n.split(".")[0] for n in imported(path)}
    ]
    assert not wrong
