"""``loglinear demo``: the main job from end to end on the bundled corpus."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loglinear.cli.common import Screen, console, say
from loglinear.errors import OptionError
from loglinear.options import WRITTEN_FOLDER

if TYPE_CHECKING:
    from loglinear.data import Columns


TASKS = {"chunk": "chunking", "ner": "ner", "pos": "pos"}


def demo_command(
    task: Annotated[str, typer.Option(help="chunk, ner or pos.")] = "chunk",
    folder: Annotated[Path, typer.Option(help="Where to leave the column files and the model."), WRITTEN_FOLDER] = Path(
        "demo"
    ),
) -> None:
    """Train on the bundled corpus; print scores, tagged sentences and what to try next.

    Examples
    --------
    loglinear demo
    loglinear demo --task ner --folder my-demo     (keeps the column files and the model there)
    """
    from loglinear.cli.common import TrainingDisplay
    from loglinear.data import atomic_output, read_columns
    from loglinear.data.corpora.bundled import bundled_text
    from loglinear.estimators.tagger.estimator import Tagger
    from loglinear.evaluation.chunks import chunk_scores
    from loglinear.evaluation.labels import accuracy_report

    if task not in TASKS:
        raise OptionError(f"--task {task!r} is not one of {', '.join(TASKS)}")
    out = console()
    began = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    paths = {split: folder / f"{task}.{split}.txt" for split in ("train", "dev", "test")}
    for split, path in paths.items():
        with atomic_output(path) as file:
            file.write(bundled_text(split, task).encode())
    train, dev, test = (read_columns(path) for path in paths.values())
    out.print(f"The bundled corpus: {len(train)} training sentences, {train.n_tokens:,} tokens ({paths['train']}).")
    constraints = None if task == "pos" else "bio"
    tagger = Tagger(template=TASKS[task], constraints=constraints, l2=0.03)  # chosen on the dev sentences
    with TrainingDisplay(out, "score") as display:
        tagger.fit(train, X_dev=dev, observe=display.observe)
    model = folder / f"{task}.model"
    tagger.save(model)
    features = tagger.model_.features.n_features
    out.print(f"Trained {features:,} weights: {tagger.message_}. Model: {model} ({model.stat().st_size / 1e3:.0f} kB).")
    labels, confidence = tagger.predict_numbers(test, confidence=True)
    assert confidence is not None
    gold = test.columns[-1]
    score = accuracy_report if task == "pos" else chunk_scores
    report = score((gold.ids, gold.values, test.offsets), (labels, tagger.classes_, test.offsets))
    out.print(
        "\n[bold]On the test sentences[/bold]" + ("" if task == "pos" else " (what conlleval prints)"), markup=True
    )
    say(report.text(), nl=False)
    out.print("\n[bold]Three of them, with confidence[/bold] (a wrong label in red, with the right one)", markup=True)
    _show_sentences(out, test, [tagger.classes_[y] for y in labels.tolist()], confidence.tolist())
    out.print(f"Done in {time.perf_counter() - began:.1f} s. [bold]Try next:[/bold]", markup=True)
    for line in (
        f"loglinear inspect {model}",
        f"loglinear tag {model} {paths['test']} --marginals",
        f"loglinear train {paths['train']} -o {folder}/small.model --template {TASKS[task]} --l1 0.5 --l2 0",
        "loglinear train YOUR-FILE -o MODEL --dev-split 0.1",
        "loglinear --help",
    ):
        out.print(f"  {line}")


def _show_sentences(out: Screen, corpus: Columns, predicted: list[str], confidence: list[float]) -> None:
    """Print the first sentences, a word a row: the label, the gold one if it differs, and the probability."""
    from rich.table import Table
    from rich.text import Text

    words, gold = corpus.columns[0].strings(), corpus.columns[-1].strings()
    for i in range(min(3, len(corpus))):
        table = Table(show_header=False, box=None, padding=(0, 1))
        for t in range(int(corpus.offsets[i]), int(corpus.offsets[i + 1])):
            right = predicted[t] == gold[t]
            label = predicted[t] if right else Text(f"{predicted[t]} (gold {gold[t]})", style="red")
            table.add_row(words[t], label, f"{100 * confidence[t]:5.1f} %")
        out.print(table)
        out.print()
