"""Layouts read from C headers, against a C compiler's."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tilewright.ground.native.header import header

PACKAGE = Path(__file__).parents[4] / "src" / "tilewright"
HEADERS = [path for path in sorted(PACKAGE.rglob("*.h")) if header(path).structs]
SYSTEM = shutil.which("cc")


def said_by_a_compiler(path: Path, folder: Path) -> dict[str, int]:
    """Offset of every field, size and alignment of every struct, and every enumerator."""
    assert SYSTEM is not None
    found = header(path)
    asked = {name: name for name in found.numbers}
    for name, struct in found.structs.items():
        asked |= {f"{name}.{field}": f"offsetof(struct {name}, {field})" for field in struct.offsets}
        asked |= {f"{name}.": f"sizeof(struct {name})", f"{name}..": f"_Alignof(struct {name})"}
    prints = "\n".join(f'printf("{key} %lld\\n", (long long)({value}));' for key, value in asked.items())
    program = folder / "layout.c"
    program.write_text(
        f'#include <stddef.h>\n#include <stdio.h>\n#include "{path}"\nint main(void) {{\n{prints}\nreturn 0; }}\n'
    )
    subprocess.run([SYSTEM, "-std=c11", "-O1", f"-I{PACKAGE}", program, "-o", folder / "layout"], check=True)
    text = subprocess.run([folder / "layout"], capture_output=True, text=True, check=True).stdout
    return {key: int(value) for key, value in (line.split(" ") for line in text.splitlines())}


def read_by_us(path: Path) -> dict[str, int]:
    found = header(path)
    read = dict(found.numbers)
    for name, struct in found.structs.items():
        read |= {f"{name}.{field}": offset for field, offset in struct.offsets.items()}
        read |= {f"{name}.": struct.bytes, f"{name}..": struct.alignment}
    return read


HARD = """
#include <stddef.h>
#include <stdint.h>
enum sizes {
    SMALL = -3,  // a comment
    MANY = 5,
};
// struct commented { int out; };
struct inner {
    uint8_t a;
    const char *b;  // behind seven unused bytes
    int16_t c[MANY];
};
struct outer {
    struct inner one;
    struct inner more[MANY];
    const struct inner *reference;
    int32_t (*function)(struct inner *x, int32_t y);
    double d;
    float f[3];
    int16_t table[2][MANY];
    uint8_t tail;
    uint32_t rest[];
};
"""


@pytest.mark.skipif(SYSTEM is None, reason="there is no C compiler")
@pytest.mark.parametrize("path", HEADERS, ids=lambda p: p.name)
def test_a_compiler_agrees(path: Path, tmp_path: Path) -> None:
    assert said_by_a_compiler(path, tmp_path) == read_by_us(path)


@pytest.mark.skipif(SYSTEM is None, reason="there is no C compiler")
def test_a_compiler_agrees_about_a_hard_one(tmp_path: Path) -> None:
    path = tmp_path / "hard.h"
    path.write_text(HARD)
    assert said_by_a_compiler(path, tmp_path) == read_by_us(path)
    assert set(header(path).structs) == {"inner", "outer"}


@pytest.mark.parametrize(
    "text",
    [
        "struct a {\n    int x, y;\n};\n", "struct a {\n    long x;\n};\n", "struct a {\n    struct b c;\n};\n",
        "struct a {\n    uint32_t x : 3;\n};\n", "enum {\n    A,\n};\n", "enum {\n    A = 1 + 1,\n};\n",
    ],
)  # fmt: skip
def test_unsupported_declarations_are_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.h"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"wrong\.h: '"):
        header(path)
