"""Imports run one way, and `import tilewright` is cheap."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest
from source_tree import SOURCE, Module, circle, imports, includes, modules, offenders

#: Rooms from the ground floor up; a module imports from its own floor and those below (docs/design/house.md).
FLOORS = (
    {"errors", "settings", "configuration", "installation", "forking", "shown", "public", "version"},
    {"native", "waiting"},
    {"problem", "machine", "ptx"},
    {"programs"},
    {"simt", "gpu"},
    {"instruments"},
    {"kernels"},
    {"backends"},
    {"blocks"},
    {"engine", "checking", "profiling"},
    {"prediction"},
    {"drivers"},
    {"ladder"},
    {"rates"},
    {"report"},
    {"cli", "testing", "notebook", "torch"},
    {"__main__"},
)
#: Rules beside those of the floors: (room or module, room or module that it must not import).
FORBIDDEN = {
    ("ladder", "report"),
    ("ladder.rung", "ladder"),
    ("ladder.climber", "ladder.climbing"),
    ("ladder.choice", "ladder.climb"),
    ("ladder.matrices", "ladder.climb"),
    ("simt.isa", "simt.translate"),  # what both need is beside them
}
#: The only modules that instruments may import: of the SIMT machine, its events and its table.
INSTRUMENTS_MAY = (
    "errors", "settings", "public", "instruments", "machine.host_memory", "native.bitcode", "native.header",
    "native.once", "native.pages", "ptx.tree", "simt.events", "simt.isa",
)  # fmt: skip
#: Modules that `import tilewright` may not load: they take longer than everything else together.
HEAVY = ("numpy", "llvmlite", "numba", "rich", "typer", "cuda", "tilewright.errors")


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


def test_imports_run_one_way() -> None:
    assert offenders(complaints, (m for m in modules() if m.name)) == {}


def test_no_rooms_import_each_other() -> None:
    edges: dict[str, set[str]] = {}
    for module in modules():
        if module.name:
            edges.setdefault(module.room, set()).update(t.split(".")[0] for _, t in imports(module))
    assert circle({room: targets - {room} for room, targets in edges.items()}) == []


def test_no_circle_of_files() -> None:
    assert circle({m.name: {target for _, target in imports(m)} for m in modules()}) == []


def test_no_circle_of_c_files() -> None:
    edges = includes()
    assert "simulate/runtime/records.h" in edges["simulate/runtime/runtime.h"]
    assert circle(edges) == []


def test_the_rule_sees_a_circle() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) in (["b", "c", "b"], ["c", "b", "c"])
    assert circle({"a": {"b", "c"}, "b": {"c"}}) == []


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("import importlib\nimportlib.import_module('tilewright.show.ladder.climbing')\n", {"ladder.climbing"}),
        ("def f():\n    from tilewright.show.ladder import climbing\n", {"ladder.climbing"}),
        ("if TYPE_CHECKING:\n    from tilewright.show.ladder.rung import Rung\n", {"ladder.rung"}),
        ("name = f'tilewright.simulate.run.{part}'\n", {m.name for m in modules() if m.name.startswith("simt.run.")}),
        ("'See tilewright.show.ladder.rung.'\n", set()),
        ("'run.launch'\n", set()),
    ],
)
def test_names_in_strings_count(text: str, named: set[str]) -> None:
    assert {name for _, name in imports(Module("simt.isa", SOURCE / "simt" / "isa.py", text))} == named


def test_names_relative_to_a_package_count_in_it() -> None:
    found = imports(Module("simt", SOURCE / "simt" / "__init__.py", "publish(__name__, {'run.launch': 'launch'})\n"))
    assert found == {(1, "simt.run.launch")}


def test_every_room_has_a_floor() -> None:
    assert {m.room for m in modules() if m.name} <= set().union(*FLOORS)


@pytest.mark.parametrize(
    ("name", "text", "wrong"),
    [
        ("simt.run.launch", "def f():\n    from tilewright.instruments import Mix\n", 1),
        ("simt.run.launch", "from tilewright.simulate import events\n", 0),
        ("instruments.mix", "from tilewright.simulate.ptx.parser import parse\n", 1),
        ("problem.dtypes", "from tilewright import ladder\n", 1),
        ("kernels.catalogue", "import tilewright.cli.main\n", 1),
        ("ladder.rung", "from tilewright.show.ladder.climber import Climber\n", 1),
        ("ladder.climbing", "from tilewright.show.ladder.climber import Climber\n", 0),
        ("cli.main", "from tilewright import errors, ladder\n", 0),
    ],
)
def test_the_rule_sees_a_wrong_import(name: str, text: str, wrong: int) -> None:
    assert len(complaints(Module(name, SOURCE, text))) == wrong


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, tilewright; print(*sorted(sys.modules), sep='\\n')"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "tilewright" in loaded
    assert [name for name in HEAVY if name in loaded] == []


def test_public_names_agree_with_those_for_type_checkers() -> None:
    import tilewright

    package = next(m for m in modules() if not m.name)
    block = next(n for n in package.tree.body if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING")
    seen = {a.asname or a.name for n in block.body if isinstance(n, ast.ImportFrom) for a in n.names} - {"_cuda"}
    seen |= {ast.unparse(target) for n in block.body if isinstance(n, ast.Assign) for target in n.targets}
    assert seen == set(tilewright.__all__)


def test_every_public_name_can_be_imported() -> None:
    import tilewright

    for name in tilewright.__all__:
        assert getattr(tilewright, name) is not None


def test_an_unknown_name_lists_the_known_ones() -> None:
    import tilewright

    with pytest.raises(AttributeError, match=r"no attribute 'lauch'; .*\(public names: .*simt"):
        _ = tilewright.lauch
