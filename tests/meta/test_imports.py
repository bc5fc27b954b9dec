"""Imports run one way, and `import tilewright` is cheap."""

from __future__ import annotations

import ast
import subprocess
import sys

import pytest
from source_tree import SOURCE, Module, circle, imports, includes, modules, offenders

#: Wings, and the rooms of each, from the ground floor up; a module imports from its own floor and those below
#: (docs/design/house.md). A room's name stands for all modules under it that no other room has.
FLOORS = (
    {"errors", "version", "ground"},
    {"ground.native", "ground.progress"},
    {"simulate.machine", "simulate.ptx"},
    {"simulate.programs"},
    {"simulate"},
    {"simulate.device"},
    {"multiply", "multiply.problem"},
    {"multiply.kernels"},
    {"multiply.backends"},
    {"multiply.blocks"},
    {"multiply.engine"},
    {"observe", "observe.instruments"},
    {"observe.checking", "observe.profiling"},
    {"observe.prediction"},
    {"frontends"},
    {"show", "show.ladder"},
    {"show.rates"},
    {"show.report"},
    {"cli", "torch"},
    {"__main__"},
)
#: Rules beside those of the floors: (room or module, room or module that it must not import).
FORBIDDEN = {
    ("show.ladder.rung", "show.ladder"),
    ("show.ladder.climber", "show.ladder.climbing"),
    ("show.ladder.choice", "show.ladder.climb"),
    ("show.ladder.matrices", "show.ladder.climb"),
    ("simulate.isa", "simulate.translate"),  # what both need is beside them
}
#: The only modules that instruments may import: of the SIMT machine, its events, its table, and what malloc is.
INSTRUMENTS_MAY = (
    "errors", "ground.settings", "ground.lazy_exports", "observe.instruments", "simulate.machine.host_memory",
    "ground.native.bitcode", "ground.native.header", "ground.native.memo", "ground.native.pages", "simulate.ptx.tree",
    "simulate.events", "simulate.isa", "simulate.programs.device_runtime",
)  # fmt: skip
#: Modules that `import tilewright` may not load: they take longer than everything else together.
HEAVY = ("numpy", "llvmlite", "numba", "rich", "typer", "cuda", "tilewright.errors")


def room(name: str) -> str:
    """The room of a module: the longest name in the table that it begins with."""
    return max((one for rooms in FLOORS for one in rooms if f"{name}.".startswith(f"{one}.")), key=len)


def floor(room: str) -> int:
    return next(i for i, rooms in enumerate(FLOORS) if room in rooms)


def complaints(module: Module) -> list[str]:
    """What is wrong with a module's imports."""
    found = []
    own = room(module.name)
    for line, target in sorted(imports(module)):
        other = room(target)
        where = f"{module.name}:{line} imports {target}"
        if floor(other) > floor(own):
            found.append(f"{where}: {other} stands above {own}")
        for importer, forbidden in FORBIDDEN:
            if module.name.startswith(importer) and target.startswith(forbidden):
                found.append(f"{where}: {importer} must not know {forbidden}")
        if own == "observe.instruments" and not target.startswith(INSTRUMENTS_MAY):
            found.append(f"{where}: instruments know of the machine only its events and its table")
    return found


def test_imports_run_one_way() -> None:
    assert offenders(complaints, (m for m in modules() if m.name)) == {}


@pytest.mark.parametrize("depth", [1, 2])
def test_no_wings_and_no_rooms_import_each_other(depth: int) -> None:
    edges: dict[str, set[str]] = {}
    for module in modules():
        if module.name:
            names = {room(target) for _, target in imports(module)}
            edges.setdefault(_wing(room(module.name), depth), set()).update(_wing(name, depth) for name in names)
    assert circle({one: targets - {one} for one, targets in edges.items()}) == []


def _wing(name: str, depth: int) -> str:
    return ".".join(name.split(".")[:depth])


def test_the_package_s_folders_are_the_wings() -> None:
    wings = ("ground", "simulate", "multiply", "observe", "frontends", "show", "cli")
    assert {path.parent.name for path in SOURCE.glob("*/__init__.py")} == set(wings)
    assert sorted(wings, key=floor) == list(wings)


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
        ("import importlib\nimportlib.import_module('tilewright.show.ladder.climbing')\n", {"show.ladder.climbing"}),
        ("def f():\n    from tilewright.show.ladder import climbing\n", {"show.ladder.climbing"}),
        ("if TYPE_CHECKING:\n    from tilewright.show.ladder.rung import Rung\n", {"show.ladder.rung"}),
        (
            "name = f'tilewright.simulate.run.{part}'\n",
            {m.name for m in modules() if m.name.startswith("simulate.run.")},
        ),
        ("'See tilewright.show.ladder.rung.'\n", set()),
        ("'run.launch'\n", set()),
    ],
)
def test_names_in_strings_count(text: str, named: set[str]) -> None:
    assert {name for _, name in imports(Module("simulate.isa", SOURCE / "simulate" / "isa.py", text))} == named


def test_names_relative_to_a_package_count_in_it() -> None:
    found = imports(
        Module("simulate", SOURCE / "simulate" / "__init__.py", "publish(__name__, {'run.launch': 'launch'})\n")
    )
    assert found == {(1, "simulate.run.launch")}


def test_every_room_has_a_floor() -> None:
    assert {m.name for m in modules() if m.name and not room(m.name)} == set()


@pytest.mark.parametrize(
    ("name", "text", "wrong"),
    [
        ("simulate.run.launch", "def f():\n    from tilewright.observe.instruments import Mix\n", 1),
        ("simulate.run.launch", "from tilewright.simulate import events\n", 0),
        ("observe.instruments.mix", "from tilewright.simulate.ptx.parser import parse\n", 1),
        ("multiply.problem.dtypes", "from tilewright.show import ladder\n", 1),
        ("multiply.kernels.catalogue", "import tilewright.cli.main\n", 1),
        ("show.ladder.rung", "from tilewright.show.ladder.climber import Climber\n", 1),
        ("show.ladder.climbing", "from tilewright.show.ladder.climber import Climber\n", 0),
        ("cli.main", "from tilewright import errors\nfrom tilewright.show import ladder\n", 0),
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
    seen = {a.asname or a.name for n in block.body if isinstance(n, ast.ImportFrom) for a in n.names}
    seen = {name for name in seen if name.endswith("__") or not name.startswith("_")}
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
