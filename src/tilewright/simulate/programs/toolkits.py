"""The vendor's toolkits on this host: programs, headers and libraries, and which of them fit together.

pip installs a toolkit in parts (`PARTS`), all into one folder, and another package may pin some of them to another
release. So nothing here is taken by itself: whoever compiles asks `compiler`, which gives parts that belong together.

Source: CUDA Compatibility, "Minor Version Compatibility"; the metadata of pip's package cuda-toolkit, which pins all
parts to one release; nvcc's documentation, "NVCC Environment Variables".
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from tilewright.errors import CompileError
from tilewright.ground import installation
from tilewright.simulate.programs.optional import missing

Release = tuple[int, int]  #: Major and minor: (13, 0).

#: Parts of the compiler that only work with each other, by pip's package. What uses the headers is less strict.
PARTS = ("nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt")
_RUNTIME = "nvidia-cuda-runtime"
#: CCCL asks that compiler and headers have one release. Within a major release the vendor lets them differ.
ANY_RELEASE = "-DCCCL_DISABLE_CTK_COMPATIBILITY_CHECK"
#: The oldest release whose programs run here.
_OLDEST: Release = (12, 0)
#: Variables that name a toolkit, in order; PATH and the installer's folder come last.
_VARIABLES = ("CONDA_PREFIX", "CUDA_HOME", "CUDA_PATH")
_INSTALLED = "/usr/local/cuda"
#: Where a toolkit has its programs, and below it or below `targets` its headers and libraries.
_PROGRAMS = ("bin", "nvvm/bin")
_LIBRARIES = ("lib", "lib64")


@dataclass(frozen=True)
class Toolkit:
    """The toolkit in a folder."""

    root: Path
    #: Release of each of pip's packages in it; empty for a toolkit that an installer put there as a whole.
    packages: Mapping[str, Release] = field(default_factory=dict)

    def program(self, name: str) -> Path | None:
        """One of its programs; None if it is not there."""
        found = (self.root / folder / name for folder in _PROGRAMS)
        return next((path for path in found if os.access(path, os.X_OK)), None)

    @functools.cached_property
    def include(self) -> Path | None:
        """The folder of the runtime's headers; None if there are none."""
        found = (folder / "include" for folder in self._folders())
        return next((path for path in found if (path / "cuda_runtime_api.h").is_file()), None)

    @property
    def includes(self) -> list[Path]:
        """The folders of all headers."""
        return [self.include, *filter(Path.is_dir, [self.include / "cccl"])] if self.include else []

    @property
    def libraries(self) -> list[Path]:
        """The folders of its libraries: nvcc of CUDA 13.0 looks in lib64, where pip's packages put none."""
        return [path for folder in self._folders() for name in _LIBRARIES if (path := folder / name).is_dir()]

    def _folders(self) -> list[Path]:
        return [self.root, *sorted(self.root.glob("targets/*-linux"))]

    @functools.cached_property
    def headers(self) -> Release | None:
        """The release of the runtime's headers, as they say themselves; None if there are none."""
        if self.include is None:
            return None
        text = (self.include / "cuda_runtime_api.h").read_text("utf-8", "replace")
        version = re.search(r"#\s*define\s+CUDART_VERSION\s+(\d+)", text)
        return (int(version[1]) // 1000, int(version[1]) % 1000 // 10) if version else None

    @functools.cached_property
    def compilers(self) -> Mapping[str, Release]:
        """The release of each part of its compiler; empty if it cannot compile."""
        nvcc = self.program("nvcc")
        if nvcc is None:
            return {}
        if parts := {name: self.packages[name] for name in PARTS if name in self.packages}:
            return parts
        try:
            said = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False).stdout
        except OSError:
            return {}
        release = re.search(r"release (\d+)\.(\d+)", said)
        return {"nvcc": (int(release[1]), int(release[2]))} if release else {}

    @property
    def fit(self) -> int:
        """How well its parts fit: 2, of one release; 1, headers of the same major release; 0, it compiles nothing."""
        releases = set(self.compilers.values())
        if len(releases) != 1 or self.headers is None:
            return 0
        (release,) = releases
        return 2 if release == self.headers else int(release[0] == self.headers[0])

    @property
    def defines(self) -> tuple[str, ...]:
        """The compiler's options for this release of the headers."""
        return (ANY_RELEASE,) if self.fit == 1 else ()

    @property
    def remedy(self) -> str:
        """The conflict between the parts' releases, and the command that mends it; "" if nothing is."""
        if self.fit == 2 or not self.compilers or self.headers is None:
            return ""
        parts = {**self.compilers, _RUNTIME: self.headers}
        listed = ", ".join(f"{name} {major}.{minor}" for name, (major, minor) in sorted(parts.items()))
        wanted = "{}.{}".format(*self.headers)
        return (
            f"the parts of the CUDA toolkit in {self.root} are of different releases ({listed}); make them one: "
            f"{installation.packages(f'cuda-toolkit[cccl,nvcc]=={wanted}.*')}"
        )


def installed() -> tuple[Toolkit, ...]:
    """All toolkits: pip's first, then those that the environment names."""
    variables = tuple(os.environ.get(name, "") for name in _VARIABLES)
    return _installed(variables, shutil.which("nvcc") or "")


@functools.lru_cache(maxsize=8)
def _installed(variables: tuple[str, ...], nvcc: str) -> tuple[Toolkit, ...]:
    named = [*variables, *([str(Path(nvcc).resolve().parents[1])] if nvcc else []), _INSTALLED]
    others = [Toolkit(path) for text in dict.fromkeys(named) if text and (path := Path(text)).is_dir()]
    return (*_of_pip(), *others)


def _of_pip() -> Iterator[Toolkit]:
    """The toolkits of pip's packages; usually all are in one folder, `nvidia/cu13`."""
    packages: dict[Path, dict[str, Release]] = {}
    for name in (*PARTS, _RUNTIME, "nvidia-cuda-nvdisasm"):
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        version = re.match(r"(\d+)\.(\d+)", found.version)
        for root in sorted(Path(str(found.locate_file("nvidia"))).glob("cu[0-9]*")) if version else ():
            assert version is not None
            packages.setdefault(root, {})[name] = int(version[1]), int(version[2])
    return (Toolkit(root, parts) for root, parts in packages.items())


def compiler(purpose: str) -> Toolkit:
    """The toolkit that compiles whole programs: one whose parts have one release, if there is one.

    Raises MissingExtraError: no nvcc is installed; CompileError: none fits the other parts.
    """
    found = [toolkit for toolkit in installed() if min(toolkit.compilers.values(), default=(0, 0)) >= _OLDEST]
    if not found:
        raise missing("NVIDIA's compiler nvcc", purpose)
    best = max(found, key=lambda toolkit: toolkit.fit)
    if not best.fit:
        if best.headers is None:
            raise missing(f"NVIDIA's package {_RUNTIME}, which has the headers of CUDA", purpose)
        raise CompileError(f"{purpose} needs a compiler and headers of one release: {best.remedy}")
    return best


def with_headers(purpose: str, release: Release | None = None) -> Toolkit:
    """A toolkit with headers: those beside nvcc, or for another compiler those of its release.

    Raises MissingExtraError: there are none.
    """
    found = [toolkit for toolkit in installed() if toolkit.headers]
    if not found:
        raise missing(f"NVIDIA's package {_RUNTIME}, which has the headers of CUDA", purpose)
    if release is None:
        return max(found, key=lambda toolkit: toolkit.fit)
    return max(found, key=lambda toolkit: (toolkit.headers == release, (toolkit.headers or release)[0] == release[0]))


def vendor_program(name: str, part: str, purpose: str) -> Path:
    """The path of one of the vendor's programs that reads or makes machine code, which needs no other part.

    Raises MissingExtraError: it is not installed.
    """
    found = next(filter(None, (toolkit.program(name) for toolkit in installed())), None) or shutil.which(name)
    if not found:
        raise missing(f"{part} {name}", purpose)
    return Path(found)
