"""What is in a model: its parts by name, and CRFsuite's text of them."""

from __future__ import annotations

from dataclasses import dataclass, field

from loglinear.foreign.crfsuite import CrfsuiteHeader, CrfsuiteModel

_STATE, _TRANSITION = 0, 1


@dataclass
class ParsedDump:
    """What :meth:`Tagger.info` gives; numbers of labels and attributes, and those of the header, are text.

    Attributes
    ----------
    header : dict of str
    labels, attributes : dict of str
        The number of each name.
    transitions : dict of float
        The weight of each (label, next label).
    state_features : dict of float
        The weight of each (attribute, label).
    """

    header: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)
    transitions: dict[tuple[str, str], float] = field(default_factory=dict)
    state_features: dict[tuple[str, str], float] = field(default_factory=dict)


def info_of(model: CrfsuiteModel, header: CrfsuiteHeader) -> ParsedDump:
    """All of a model, its weights in full."""
    labels, attributes = model.labels, model.attributes
    return ParsedDump(
        dict(_header_lines(header)),
        {name: str(number) for number, name in enumerate(labels)},
        {name: str(number) for number, name in enumerate(attributes)},
        {
            (labels[a], labels[b]): weight
            for a, b, weight in zip(
                model.sources.tolist(), model.targets.tolist(), model.transition_weights.tolist(), strict=True
            )
        },
        {
            (attributes[a], labels[y]): weight
            for a, y, weight in zip(
                model.state_attributes.tolist(), model.state_labels.tolist(), model.state_weights.tolist(), strict=True
            )
        },
    )


def text_of(info: ParsedDump) -> str:
    """The text that ``crfsuite dump`` prints, weights with six decimals."""
    sections = {
        "FILEHEADER": [f"{name}: {value}" for name, value in info.header.items()],
        "LABELS": [f"{number:>5}: {name}" for name, number in info.labels.items()],
        "ATTRIBUTES": [f"{number:>5}: {name}" for name, number in info.attributes.items()],
        "TRANSITIONS": [f"({_TRANSITION}) {a} --> {b}: {weight:.6f}" for (a, b), weight in info.transitions.items()],
        "STATE_FEATURES": [f"({_STATE}) {a} --> {y}: {weight:.6f}" for (a, y), weight in info.state_features.items()],
    }
    return "".join(
        f"{name} = {{\n{''.join(f'  {line}{chr(10)}' for line in lines)}}}\n\n" for name, lines in sections.items()
    )


def _header_lines(header: CrfsuiteHeader) -> list[tuple[str, str]]:
    """The fields of a file's head, places in hexadecimal digits."""
    return [
        (name, f"0x{value:X}" if name.startswith("off_") else str(value)) for name, value in header._asdict().items()
    ]
