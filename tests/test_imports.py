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
    "regression": {"core", "nets", "epistemic", "measure", "identity"},
    "loops": {"core", "replay", "measure"},
    "figures": {"core", "measure"},
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
        if path.parent == SOURCE or room in ("experiments", "presets"):
            continue  # these may import all
        for name in imported(path):
            parts = name.split(".")
            if parts[0] == "devote" and (
                len(parts) == 1 or parts[1] not in MAY_IMPORT[room] | {room}
            ):
                wrong.append(f"{path.relative_to(SOURCE)} imports {name}")
    assert not wrong


def test_matplotlib_lives_in_figures_and_nowhere_else() -> None:
    wrong = [
        str(path.relative_to(SOURCE))
        for path in files()
        if room_of(path) != "figures" and ONLY_FIGURES & {n.split(".")[0] for n in imported(path)}
    ]
    assert not wrong
