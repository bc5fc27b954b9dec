"""Imports run one way, and `import tilewright` is cheap."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest
from source_tree import SOURCE, Module, imports, modules

#: Rooms from the ground up; a module imports from its own floor and those below (design.md, "The house").
FLOORS = (
    {"errors", "settings", "configuration", "shown"},
    {"native", "waiting"},
    {"problem", "machine"},
    {"cpu", "gpu", "simt", "instruments", "blocks"},
    {"catalogue"},
    {
        "engine",
        "planning",
        "promotion",
        "lowering",
        "operands",
        "libraries",
        "known_layouts",
        "work",
        "axes",
        "opencl_arrays",
        "inventory",
        "fusing",
    }
    | {"checking", "profiling", "simulated"},
    {"ladder", "bench", "tune", "report"},
    {"cli", "testing", "notebook"},
    {"__main__"},
)
#: What the floors do not say: (room or module, room or module that it must not import).
FORBIDDEN = {
    ("simt", "instruments"),
    ("gpu", "instruments"),
    ("ladder", "report"),
    ("ladder.rung", "ladder"),
    ("ladder.climber", "ladder.climbing"),
    ("ladder.choice", "ladder.climb"),
    ("ladder.matrices", "ladder.climb"),
}
#: All that instruments may know of the machine.
INSTRUMENTS_MAY = ("errors", "settings", "instruments", "simt.events", "simt.isa")
#: Modules that may not be loaded by `import tilewright`: they take longer than everything else together.
HEAVY = ("numpy", "llvmlite", "numba", "rich", "typer", "cuda", "platformdirs", "tilewright.errors")


def floor(room: str) -> int:
    return next(i for i, rooms in enumerate(FLOORS) if room in rooms)


def complaints(module: Module) -> list[str]:
    """What is wrong with a module's imports."""
    found = []
    for line, target in sorted(imports(module)):
        room = target.split(".")[0]
        where = f"{module.name}:{line} imports {target}"
        if floor(room) > floor(module.room):
            found.append(f"{where}: {room} stands above {module.room}")
        for importer, forbidden in FORBIDDEN:
            if module.name.startswith(importer) and target.startswith(forbidden):
                found.append(f"{where}: {importer} must not know {forbidden}")
        if module.room == "instruments" and not target.startswith(INSTRUMENTS_MAY):
            found.append(f"{where}: instruments know of the machine only its events and its table")
    return found


@pytest.mark.parametrize("module", [m for m in modules() if m.name], ids=lambda m: m.name)
def test_imports_run_one_way(module: Module) -> None:
    assert complaints(module) == []


def test_every_room_has_a_floor() -> None:
    assert {m.room for m in modules() if m.name} <= set().union(*FLOORS)


@pytest.mark.parametrize(
    ("name", "text", "wrong"),
    [
        ("simt.run.launch", "def f():\n    from tilewright.instruments import Mix\n", 1),
        ("simt.run.launch", "from tilewright.simt import events\n", 0),
        ("instruments.mix", "from tilewright.simt.ptx.tree import Module\n", 1),
        ("problem.dtypes", "from tilewright import ladder\n", 1),
        ("catalogue", "import tilewright.cli.main\n", 1),
        ("ladder.rung", "from tilewright.ladder.climber import Climber\n", 1),
        ("ladder.climbing", "from tilewright.ladder.climber import Climber\n", 0),
        ("cli.main", "from tilewright import catalogue, errors\n", 0),
    ],
)
def test_the_rule_sees_a_wrong_import(name: str, text: str, wrong: int) -> None:
    assert len(complaints(Module(name, SOURCE, text, ast.parse(text)))) == wrong


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, tilewright; print(*sorted(sys.modules), sep='\\n')"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "tilewright" in loaded
    assert [name for name in HEAVY if name in loaded] == []


def test_public_names_and_their_type_checking_twins_agree() -> None:
    import tilewright

    package = next(m for m in modules() if not m.name)
    block = next(n for n in package.tree.body if isinstance(n, ast.If))
    seen = {a.asname or a.name for n in block.body if isinstance(n, ast.ImportFrom) for a in n.names}
    seen |= {n.target.id for n in block.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    assert seen == set(tilewright.__all__) == {*tilewright._PUBLIC, "__version__"}


def test_every_public_name_can_be_had() -> None:
    import tilewright

    for name in tilewright.__all__:
        assert getattr(tilewright, name) is not None


def test_an_unknown_name_says_what_there_is() -> None:
    import tilewright

    with pytest.raises(AttributeError, match=r"no attribute 'lauch'; public names: .*simt"):
        _ = tilewright.lauch
