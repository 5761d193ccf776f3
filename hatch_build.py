"""Puts kernels that were compiled ahead (``python -m loglinear.kernels.build``) into the wheel, and names it for them.

They run under every version of Python, but on one kind of machine only: the wheel is ``py3-none-PLATFORM``. Without
them it is ``py3-none-any``, and kernels are compiled when they are first called.
"""

import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMPILED = "src/loglinear/compiled"


class KernelsHook(BuildHookInterface):
    """Adds the folder of compiled kernels, which git ignores."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by Hatch before it builds a wheel."""
        if version == "editable" or not Path(self.root, COMPILED, "index.json").is_file():
            return
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"], build_data["tag"] = False, f"py3-none-{platform}"
        build_data["artifacts"].append(f"/{COMPILED}/*")
