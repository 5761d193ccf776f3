"""Puts kernels that were compiled ahead (``python -m loglinear.kernels.build``) into the wheel, and names it for them.

They run under every version of Python, but on one kind of machine only: the wheel is ``py3-none-PLATFORM``. Without
them it is ``py3-none-any``, and kernels are compiled when they are first called.
"""

import platform
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMPILED = "src/loglinear/compiled"


def platform_tag() -> str:
    """The platform of this Python, as in names of wheels; for one processor if Python itself is for both of Apple's."""
    name = sysconfig.get_platform()
    if name.endswith("-universal2"):
        machine = platform.machine()
        name = f"macosx-{'11.0' if machine == 'arm64' else name.split('-')[1]}-{machine}"
    return name.replace("-", "_").replace(".", "_")


class KernelsHook(BuildHookInterface):
    """Adds the folder of compiled kernels, which git ignores."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by Hatch before it builds a wheel."""
        if version == "editable" or not Path(self.root, COMPILED, "index.json").is_file():
            return
        build_data["pure_python"], build_data["tag"] = False, f"py3-none-{platform_tag()}"
        build_data["artifacts"].append(f"/{COMPILED}/*")
