"""The tables of docs/commands.md, from the program's own: `make docs` writes them."""

from collections.abc import Iterator
from pathlib import Path

from tilewright.cli.app import COMMANDS, program_command
from tilewright.cli.options import OPTIONS
from tilewright.cli.statuses import MEANINGS

#: The page that says more of a command.
MORE = {
    "ladder": "ladder.md", "matmul": "matmul.md",
    "kernels": "sources.md", "run": "cuda-programs.md", "check": "findings/index.md", "profile": "profile.md",
    "predict": "prediction.md", "bench": "rates.md", "compare": "rates.md#two-sweeps", "report": "report.md",
    "tune": "matmul.md#tuning",
}  # fmt: skip
PAGE = Path(__file__).resolve().parents[1] / "commands.md"


def commands() -> Iterator[str]:
    """A row for each command."""
    yield "| command | what it does |"
    yield "|---|---|"
    for one in COMMANDS:
        arguments = [p.metavar for p in program_command().commands[one.name].params if p.param_type_name == "argument"]
        words = " ".join(["tilewright", one.name, *(word.strip("[]").join("[]") if word[0] == "[" else word
                                                    for word in arguments)])  # fmt: skip
        more = f" ([more]({MORE[one.name]}))" if one.name in MORE else ""
        yield f"| `{words}` | {one.short[0].lower()}{one.short[1:].rstrip('.')}{more} |"


def options() -> Iterator[str]:
    """A row for each option, with the commands that take it."""
    yield "| option | what it does | commands |"
    yield "|---|---|---|"
    takers = {
        row.flags: [name for name, one in program_command().commands.items() if row.flags in _flags(one)]
        for row in OPTIONS
    }
    for row in OPTIONS:
        flags = ", ".join(f"`{flag}`" for flag in row.flags)
        value = f" `{row.value}`" if row.value else ""
        whose = "all but run, report, ptx-support" if row.flags == ("--json",) else ", ".join(takers[row.flags])
        yield f"| {flags}{value} | {row.text.rstrip('.').replace('|', chr(92) + '|')} | {whose} |"


def statuses() -> Iterator[str]:
    """A row for each exit status."""
    yield "| exit status | meaning |"
    yield "|---|---|"
    for status, meaning in MEANINGS.items():
        yield f"| {status} | {meaning} |"


def written(text: str) -> str:
    """The page with its tables as they are now."""
    for name, rows in (("commands", commands), ("options", options), ("statuses", statuses)):
        table = "\n".join(rows())
        head, rest = text.split(f"<!-- {name} -->", 1)
        text = f"{head}<!-- {name} -->\n\n{table}\n\n<!-- end -->{rest.split('<!-- end -->', 1)[1]}"
    return text


def _flags(command: object) -> set[tuple[str, ...]]:
    return {tuple(one.opts) for one in command.params}  # type: ignore[attr-defined]


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
