"""Makes the golden files: what version 0.1.0 answered, learnt and offered, to which later versions are held.

    python tests/golden/make.py models [NAME ...]     train small models; models/NAME.model and models/NAME.json
    python tests/golden/make.py weights               train, and keep digests of the weights: weights.json
    python tests/golden/make.py interface             interface.json, commands.json, help.txt
    python tests/golden/make.py answers               ask the model files that are there again: models/NAME.json

**When it may be run.** The files are referees: a test that fails says that something users rely on has changed. Never
make them again to get a failing test to pass. They may be made again, and then only those concerned, if the change is
intended and the changelog says what changed and why; for weights with the objective before and after. ``models`` is
for adding a model with content that no other has: name it, so that the other files stay those of version 0.1.0.

**Another machine.** Numbers are compared to the last bit only where they were made on the same kind of machine
(``golden_records.py``). To have that anywhere, let version 0.1.0 make the records there, with this script, and run the
tests against them::

    git worktree add ../old 0977ab8
    PYTHONPATH=../old/src python tests/golden/make.py weights --to ../records
    PYTHONPATH=../old/src python tests/golden/make.py answers --to ../records
    LOGLINEAR_GOLDEN=../records python -m pytest tests/golden

Run ``weights`` twice, and keep the second: in version 0.1.0 kernels that are compiled in the same process may round
otherwise than those that come from the cache.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import golden_records
import golden_trainings
import make_models
import public_interface


def make_weights(folder: Path) -> None:
    """Carry out all trainings with one thread and with two, which must agree."""
    found = {}
    for name in golden_trainings.NAMES:
        one, two = (golden_records.plain(golden_trainings.result(name, threads)) for threads in (1, 2))
        wrong = list(golden_records.differences(one, two, golden_records.EXACT))
        assert not wrong, f"{name} depends on the number of threads: {wrong}"
        found[name] = one
    golden_records.write(
        folder / "weights.json",
        {"machine": golden_records.machine(), "corpus": golden_trainings.corpus_digests(), "trainings": found},
    )


def make_interface(folder: Path) -> None:
    """Write down the names, parameters and commands, and for readers what ``--help`` prints."""
    golden_records.write(folder / "interface.json", public_interface.interface())
    commands = public_interface.commands()
    golden_records.write(folder / "commands.json", commands)
    pages = [f"$ loglinear {command} --help\n{public_interface.help_of(command)}" for command in commands]
    lines = [line.rstrip(" │") for page in pages for line in page.splitlines()]
    (folder / "help.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Make what the arguments say."""
    parser = argparse.ArgumentParser(description="make the golden files", epilog="see the top of this file first")
    parser.add_argument("what", choices=["models", "weights", "interface", "answers"])
    parser.add_argument("names", nargs="*", help="models to make")
    parser.add_argument("--to", type=Path, default=golden_records.HERE, help="folder to write into")
    arguments = parser.parse_args()
    if arguments.what == "models":
        make_models.make_all(arguments.to, arguments.names)
    elif arguments.what == "answers":
        make_models.answer_all(arguments.to)
    elif arguments.what == "weights":
        make_weights(arguments.to)
    else:
        make_interface(arguments.to)


if __name__ == "__main__":
    main()
