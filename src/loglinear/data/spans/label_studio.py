"""Label Studio's JSON: an array of tasks, whole or as JSON-MIN.

::

    whole  [{"id": 1, "data": {"text": "..."}, "annotations": [{"was_cancelled": false, "result": [
               {"type": "labels", "from_name": "label", "to_name": "text",
                "value": {"start": 0, "end": 9, "text": "Anna Berg", "labels": ["PER"]}}]}], "predictions": []}]
    min    [{"id": 1, "text": "...", "label": [{"start": 0, "end": 9, "text": "Anna Berg", "labels": ["PER"]}]}]

Of several annotations of a task the first is used; cancelled ones, the others, and results that do not label spans
are passed over. Predicted spans are written as ``predictions`` with their ``score``, which Label Studio imports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

from loglinear.data.files import Source, source_name
from loglinear.data.spans.lines import json_array, write_array
from loglinear.data.spans.text import (
    Convention,
    Raise,
    Span,
    Text,
    TextFile,
    from_units,
    list_of,
    span_of,
    string_of,
    to_units,
)
from loglinear.errors import DataError

_NAMES = {"from_name": "label", "to_name": "text"}


def read_label_studio(source: Source, convention: Convention) -> TextFile:
    """Read tasks with annotations, or with ``predicted`` their predictions."""
    name = source_name(source)
    names = dict(_NAMES)
    file = TextFile(name, "label-studio", [], head=names)
    for number, task in enumerate(json_array(source, "tasks")):
        where = f"task {number} (from 0): "

        def error(message: str, where: str = where) -> DataError:
            return DataError(where + message, name)

        if not isinstance(task, dict) or not isinstance(task.get("data"), dict):
            raise error('a task must be an object with "data", such as {"data": {"text": "..."}}; is it JSON-MIN?')
        text, _ = _text_of(task["data"], convention, error)
        spans, cancelled = _annotated(task, text, convention, error, file.left_out, names)
        file.texts.append(Text(text, spans, None, name, 0, where, task, cancelled))
    return file


def _text_of(data: Mapping[str, Any], convention: Convention, error: Raise) -> tuple[str, str]:
    """The text of a task, and its key: ``text``, or the only string."""
    keys = convention.text_keys("text")
    strings = [key for key, value in data.items() if isinstance(value, str)]
    if convention.text_key is None and keys[0] not in data and len(strings) == 1:
        keys = (strings[0],)
    return string_of(data, keys, error), keys[0]


def _annotated(
    task: Mapping[str, Any],
    text: str,
    convention: Convention,
    error: Raise,
    left_out: Counter[str],
    names: dict[str, str],
) -> tuple[list[Span] | None, bool]:
    """The spans of a task's first annotation, None without one; and whether the annotators have cancelled the task."""
    key = "predictions" if convention.predicted else "annotations" if "annotations" in task else "completions"
    chosen, cancelled = None, 0
    for each in list_of(task, key, error) if task.get(key) is not None else ():
        if not isinstance(each, dict):
            raise error(f'"{key}" must hold objects, not {each!r:.60}')
        if each.get("was_cancelled") or each.get("skipped"):
            cancelled += 1
        elif chosen is None:
            chosen = each
        else:
            left_out[f"further {key[:-1]}"] += 1
    left_out["cancelled annotation"] += cancelled
    if chosen is None:
        return None, cancelled > 0
    spans, place = list[Span](), from_units(text, convention.offsets)
    for item in list_of(chosen, "result", error):
        if not isinstance(item, dict):
            raise error(f'"result" must hold objects, not {item!r:.60}')
        value: Any = item.get("value")
        labels = value.get(item["type"]) if isinstance(value, dict) and item.get("type") in _KINDS else None
        if labels is None:
            left_out["result without span"] += 1
            continue
        names |= {each: item[each] for each in _NAMES if isinstance(item.get(each), str)}
        spans += _spans_of(value, labels, text, place, error)
    return spans, False


_KINDS = ("labels", "hypertextlabels")


def _spans_of(
    value: Mapping[str, Any], labels: Any, text: str, place: Callable[[int], int], error: Raise
) -> list[Span]:
    if not isinstance(labels, list):
        raise error(f'"labels" must be a list of strings, not {labels!r:.60}')
    start, end = value.get("start"), value.get("end")
    return [span_of(text, start, end, label, place, error, value.get("text")) for label in labels]


def write_label_studio(file: TextFile, out: BinaryIO, convention: Convention) -> None:
    """Write tasks: their spans as annotations, or with ``predicted`` as predictions."""
    names = {**_NAMES, **file.head} if file.format == "label-studio" else _NAMES
    write_array((_task(text, file.format == "label-studio", names, convention) for text in file), out)


def _task(text: Text, own: bool, names: Mapping[str, str], convention: Convention) -> dict[str, Any]:
    fresh = not (own and text.record is not None)
    task = {"data": {convention.text_keys("text")[0]: text.text}} if fresh else dict(text.record)
    if text.spans is None or (own and text.passed_over and not convention.predicted):
        return task
    units = to_units(text.text, convention.offsets)
    result = [
        {
            "id": f"span{number}",
            **names,
            "type": "labels",
            "value": _value(span, text.text, units),
            **({} if span.score is None else {"score": span.score}),
        }
        for number, span in enumerate(text.spans)
    ]
    if not convention.predicted:
        key = "completions" if "completions" in task and "annotations" not in task else "annotations"
        return task | {key: [{"was_cancelled": False, "result": result}]}
    scores = [span.score for span in text.spans if span.score is not None]
    prediction: dict[str, Any] = {"model_version": "loglinear", "result": result}
    return task | {"predictions": [prediction | ({"score": min(scores)} if scores else {})]}


def _value(span: Span, text: str, units: Callable[[int], int]) -> dict[str, Any]:
    covered = text[span.start : span.end]
    return {"start": units(span.start), "end": units(span.end), "text": covered, "labels": [span.label]}


# -- JSON-MIN ----------------------------------------------------------------------------------------------------------


def read_label_studio_min(source: Source, convention: Convention) -> TextFile:
    """Read JSON-MIN."""
    name = source_name(source)
    file = TextFile(name, "label-studio-min", [])
    for number, task in enumerate(json_array(source, "tasks")):
        where = f"task {number} (from 0): "

        def error(message: str, where: str = where) -> DataError:
            return DataError(where + message, name)

        if not isinstance(task, dict):
            raise error('a task must be an object such as {"text": "...", "label": [...]}')
        text = string_of(task, convention.text_keys("text"), error)
        key = _min_key(task, convention)
        spans = None
        if task.get(key) is not None:
            spans, place = [], from_units(text, convention.offsets)
            for value in list_of(task, key, error):
                if not isinstance(value, dict) or not isinstance(value.get("labels"), list):
                    raise error(f'"{key}" must hold objects with "start", "end" and "labels", not {value!r:.60}')
                spans += _spans_of(value, value["labels"], text, place, error)
        file.texts.append(Text(text, spans, None, name, 0, where, task))
    return file


def _min_key(task: Mapping[str, Any], convention: Convention) -> str:
    """The key of the spans: ``label``, or whichever the labelling interface has called so."""
    if convention.spans_key is not None:
        return convention.spans_key
    found = [key for key, value in task.items() if is_min_spans(value)]
    found += [key for key, value in task.items() if value == []]  # a text without spans
    return "label" if "label" in task or not found else found[0]


def is_min_spans(value: Any) -> bool:
    """Whether a value is a list of spans of JSON-MIN."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict) and {"start", "labels"} <= {*value[0]}


def write_label_studio_min(file: TextFile, out: BinaryIO, convention: Convention) -> None:
    """Write JSON-MIN; tasks of the format keep their other keys."""

    def task_of(text: Text) -> dict[str, Any]:
        fresh = not (file.format == "label-studio-min" and text.record is not None)
        task = {convention.text_keys("text")[0]: text.text} if fresh else dict(text.record)
        if text.spans is not None:
            units = to_units(text.text, convention.offsets)
            task[_min_key(task, convention)] = [
                _value(span, text.text, units) | ({} if span.score is None else {"score": span.score})
                for span in text.spans
            ]
        return task

    write_array(map(task_of, file), out)
