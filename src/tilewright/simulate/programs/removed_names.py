"""Names that older CUDA programs use and today's CUDA lacks, and what takes the place of each.

A compiler says only that such a name is unknown. `advice` reads its text and adds what to write instead.

Source: CUDA Toolkit release notes 12.0 and 13.0, "Deprecated and dropped features"; CUDA Runtime API, "Modules",
sections of removed functions; CUDA C++ Programming Guide, "Warp Shuffle Functions".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

_TEXTURES = "a texture object (cudaCreateTextureObject, tex2D<float>(object, x, y))"
_SURFACES = "a surface object (cudaCreateSurfaceObject)"


def _attribute(name: str) -> str:
    return f"cudaDeviceGetAttribute(&value, {name}, device)"


#: Name -> what replaces it; a member of a structure is `structure::member`.
REPLACEMENTS: Mapping[str, str] = MappingProxyType(
    {
        "cudaThreadSynchronize": "cudaDeviceSynchronize",
        "cudaThreadExit": "cudaDeviceReset",
        **{f"cudaThread{what}": f"cudaDevice{what}" for what in ("SetLimit", "GetLimit", "SetCacheConfig")},
        "cudaThreadGetCacheConfig": "cudaDeviceGetCacheConfig",
        **{f"cudaBindTexture{kind}": _TEXTURES for kind in ("", "2D", "ToArray", "ToMipmappedArray")},
        **dict.fromkeys(("texture", "textureReference", "cudaUnbindTexture", "cudaGetTextureReference"), _TEXTURES),
        "cudaGetTextureAlignmentOffset": _TEXTURES,
        **dict.fromkeys(("surface", "surfaceReference", "cudaBindSurfaceToArray"), _SURFACES),
        "cudaGetSurfaceReference": _SURFACES,
        **dict.fromkeys(("cudaConfigureCall", "cudaSetupArgument", "cudaLaunch"), "cudaLaunchKernel"),
        "cudaLaunchCooperativeKernelMultiDevice": "cudaLaunchCooperativeKernel, once for each device",
        **dict.fromkeys(("cudaProfilerInitialize", "cudaCSV", "cudaKeyValuePair"), "cudaProfilerStart"),
        **{f"__shfl{kind}": f"__shfl{kind}_sync(0xffffffff, ...)" for kind in ("", "_up", "_down", "_xor")},
        "cudaDeviceProp::clockRate": _attribute("cudaDevAttrClockRate"),
        "cudaDeviceProp::memoryClockRate": _attribute("cudaDevAttrMemoryClockRate"),
        "cudaDeviceProp::computeMode": _attribute("cudaDevAttrComputeMode"),
        "cudaDeviceProp::kernelExecTimeoutEnabled": _attribute("cudaDevAttrKernelExecTimeout"),
        "cudaDeviceProp::singleToDoublePrecisionPerfRatio": _attribute("cudaDevAttrSingleToDoublePrecisionPerfRatio"),
        "cudaDeviceProp::deviceOverlap": "its member asyncEngineCount",
        "cudaDeviceProp::maxTexture1DLinear": "cudaDeviceGetTexture1DLinearMaxWidth",
        "cudaDeviceProp::cooperativeMultiDeviceLaunch": "its member cooperativeLaunch",
        "cudaPointerAttributes::memoryType": "its member type",
        "cudaPointerAttributes::isManaged": "its member type, which is cudaMemoryTypeManaged",
    }
)
#: What a compiler says of a name that it does not know, and of a device in place of a location.
_UNKNOWN = re.compile(r'identifier "(\w+)" is undefined|(?:class|struct) "(\w+)" has no member "(\w+)"')
_NO_TEMPLATE = re.compile(r"error: (texture|surface) is not a template")
_LOCATION = 'convert from "int" to "cudaMemLocation"'
_ABOUT_LOCATIONS = (
    "cudaMemAdvise and cudaMemPrefetchAsync take a cudaMemLocation since CUDA 13: write "
    "cudaMemLocation{cudaMemLocationTypeDevice, device}, and cudaMemPrefetchAsync(..., location, 0, stream)"
)


def advice(said: str) -> list[str]:
    """A sentence for each removed name that a compiler complains of.

    >>> advice('old.cu(4): error: identifier "cudaThreadExit" is undefined')
    ['CUDA no longer has `cudaThreadExit`: use cudaDeviceReset']
    >>> advice('old.cu(4): error: identifier "mine" is undefined')
    []
    """
    names = dict.fromkeys(name for name in _names(said) if name in REPLACEMENTS)
    found = [f"CUDA no longer has `{name}`: use {REPLACEMENTS[name]}" for name in names]
    return [*found, _ABOUT_LOCATIONS] if _LOCATION in said else found


def _names(said: str) -> Iterator[str]:
    for name, structure, member in _UNKNOWN.findall(said):
        yield name or f"{structure}::{member}"
    yield from _NO_TEMPLATE.findall(said)
