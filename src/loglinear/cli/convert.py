"""``loglinear convert``: a model of another tool as one of ours, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from loglinear.cli.common import console
from loglinear.cli.options import ModelFile
from loglinear.errors import OptionError
from loglinear.options import WRITTEN_FILE
from loglinear.wording import how_many

LOGLINEAR, CRFSUITE = FORMATS = ("loglinear", "crfsuite")


def convert_command(
    model: ModelFile,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Model file to write."), WRITTEN_FILE],
    to: Annotated[str, typer.Option(help="Format to write: loglinear or crfsuite.")] = LOGLINEAR,
) -> None:
    """Convert a model of CRFsuite, CRF++ or Wapiti to one of loglinear, which answers the same; or one to CRFsuite.

    Every verb takes models of these tools as they are; one of our own loads faster, and has a checksum.

    Examples
    --------
    loglinear convert usaddr.crfsuite -o usaddr.model
    loglinear convert wapiti.mdl -o ours.model
    loglinear convert chunker.model -o chunker.crfsuite --to crfsuite
    """
    from loglinear.estimators.tagger.estimator import Tagger
    from loglinear.experiments.tables import size

    if to not in FORMATS:
        raise OptionError(f"--to {to} is not one of {', '.join(FORMATS)}")
    tagger = Tagger.load(model)
    if to == LOGLINEAR:
        tagger.save(output)
    else:
        from loglinear.data import atomic_output
        from loglinear.estimators.tagger.foreign import from_tagger
        from loglinear.foreign.crfsuite import write_crfsuite

        content = write_crfsuite(from_tagger(tagger))
        with atomic_output(str(output)) as out:
            out.write(content)
    features = how_many(tagger.model_.features.n_features, "feature")
    labels = how_many(len(tagger.classes_), "label")
    console().print(f"model      {output} ({size(output.stat().st_size)}): {labels}, {features}")
