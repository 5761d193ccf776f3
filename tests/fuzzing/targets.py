"""What is attacked, and what counts as a fault."""

from __future__ import annotations

import importlib
import random
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from loglinear import LoglinearError

CRASHERS = Path(__file__).parent / "crashers"  # TARGET/PART@anything: cases that were faults once
HOMES = {
    "models": "fuzzing.model_files",
    "checkpoints": "fuzzing.checkpoints",
    "readers": "fuzzing.readers",
    "verbs": "fuzzing.verbs",
    "kernels": "fuzzing.kernels",
}  #: the module of each target, which has it as ``TARGET``
PLANTED = {"planted": "fuzzing.planted"}  # for tests of the campaign itself

OWN = "own_functions.py"
SKLEARN = str(Path("sklearn", "utils", "validation.py"))

Case = tuple[str, bytes]


class WrongAnswer(Exception):
    """An answer that cannot be right, as a probability of two."""


def _keep(part: str, content: bytes, is_fault: Callable[[bytes], bool]) -> bytes:
    return content


@dataclass(frozen=True)
class Target:
    """One thing to attack.

    Parameters
    ----------
    name : str
    draw : callable
        The case that follows from a random generator: part and content.
    run : callable
        Uses a case and says in a word how that went (``used``); a user's mistake is a LoglinearError. Whatever else
        it raises is a fault.
    prepare : callable
        What a worker does once, before it is measured: models are loaded, kernels compiled.
    minimise : callable
        A smaller content with the same fault.
    """

    name: str
    draw: Callable[[random.Random], Case]
    run: Callable[[str, bytes], str]
    prepare: Callable[[], None] = lambda: None
    minimise: Callable[[str, bytes, Callable[[bytes], bool]], bytes] = field(default=_keep)

    def case(self, seed: int, number: int) -> Case:
        """The case of a number."""
        return self.draw(random.Random(f"{seed} {self.name} {number}"))

    def outcome(self, part: str, content: bytes) -> tuple[str, str]:
        """How a case went, and where in which code it failed if that is a fault (else empty).

        Cases that fail at the same place for the same reason have the same words in the second.
        """
        try:
            return self.run(part, content), ""
        except LoglinearError as error:
            return type(error).__name__, ""
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            if frames[-1].filename.endswith(OWN):  # a function of the user's, which does not know a changed label
                return "own", ""
            if isinstance(error, ValueError) and frames[-1].filename.endswith(SKLEARN):
                return "ValueError of scikit-learn's", ""  # the convention for arrays of another width
            own = [frame for frame in frames if "/loglinear/" in frame.filename] or frames
            where = f"{Path(own[-1].filename).name}:{own[-1].name}"
            if isinstance(error, WrongAnswer):
                where = str(error).split(":")[0]
            return "fault", f"{type(error).__name__} in {where}"


def target(name: str) -> Target:
    """The target of a name; its module is imported now."""
    found: Target = importlib.import_module((HOMES | PLANTED)[name]).TARGET
    return found


def crashers(name: str) -> list[tuple[str, bytes, str]]:
    """The kept cases of a target: part, content, name of the file."""
    folder = CRASHERS / name
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    return [(path.name.partition("@")[0], path.read_bytes(), path.name) for path in paths]
