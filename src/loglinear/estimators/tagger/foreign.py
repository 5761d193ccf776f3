"""Models of other tools as taggers, and taggers as models of CRFsuite.

=========  =====================  ==========================================================================
tool       what it has            what that is here
=========  =====================  ==========================================================================
CRFsuite   state features         state features of a :class:`NameEncoder`
           transitions            transitions
CRF++      ``U`` lines            state features of a :class:`TemplateEncoder`
           ``B`` lines            edge features; those without a macro: transitions
Wapiti     ``u``, ``b``, ``*``    the same, with the directive ``%wapiti``; types maxent and memm as well
           raw observations       state and edge features of a :class:`NameEncoder`
=========  =====================  ==========================================================================

Labels keep their order, which decides between labellings of equal score, and weights stay float64.

**Observations as tuples.** In CRF++ and Wapiti an observation is a string, ``U03:the/cat``. Here it is a template and
the values of its macros, ``(the, cat)``, so that no string is made for a token. ``U03:a/b/c`` has two readings,
``(a/b, c)`` and ``(a, b/c)``, and may belong to a second template whose text begins alike: each reading becomes an
attribute with the weights of the string. Values are split as bytes, since those of ``%m`` may end within a letter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from loglinear.arrays import Array, Bool, Float, Int32, Int64
from loglinear.data.columns.corpus import offsets_of
from loglinear.errors import LoglinearError, ModelFileError, OptionError
from loglinear.estimators.tagger.model import LONG, ChainModel, check_size
from loglinear.features.block import FeatureBlock
from loglinear.features.encoding import Vocabulary
from loglinear.features.names import NameEncoder
from loglinear.features.templates.encoder import Group, TemplateEncoder
from loglinear.features.templates.language import WAPITI, Template, TemplateSet
from loglinear.foreign import CRFPP, CRFSUITE, OPENING, WAPITI_TOOL, tool_of
from loglinear.foreign.crfpp import CrfppModel, read_crfpp
from loglinear.foreign.crfsuite import CrfsuiteModel, read_crfsuite
from loglinear.foreign.wapiti import MAXENT, MEMM, WapitiModel, read_wapiti
from loglinear.model_file import ModelFile
from loglinear.structures.chain.features import ChainFeatures
from loglinear.system import check_memory

if TYPE_CHECKING:
    from loglinear.estimators.tagger.estimator import Tagger
    from loglinear.estimators.tagger.predict import SequencePredictor

ForeignModel = CrfsuiteModel | CrfppModel | WapitiModel
NO_CODES = np.zeros(0, dtype=np.int32)
_MOST_READINGS = 4  # of an observation, on the average
_PART = 1 << 16  # weights copied at a time


# ----------------------------------------------------------------------------------------------------------------------
# Files.


def read_foreign(data: bytes | memoryview, source: str) -> ForeignModel:
    """The model in the bytes of a file of any of the tools, every bound checked; errors name ``source``."""
    tool = tool_of(bytes(data[:OPENING]))
    if tool == CRFSUITE:
        return read_crfsuite(data, source)
    if tool == CRFPP:
        return read_crfpp(data, source)
    if tool == WAPITI_TOOL:
        return read_wapiti(data, source)
    raise ModelFileError(f"{source} is not a model of {CRFSUITE}, {CRFPP} or {WAPITI_TOOL}")


def chain_model(model: ForeignModel, source: str = "the model") -> ChainModel:
    """The model that answers as the tool does with ``model``; :class:`LoadedTagger` and :class:`Tagger` wrap it."""
    try:
        if isinstance(model, CrfsuiteModel):
            return _of_crfsuite(model)
        return _of_crfpp(model) if isinstance(model, CrfppModel) else _of_wapiti(model)
    except ModelFileError as error:
        raise ModelFileError(f"{source}: {error}") from None
    except LoglinearError as error:
        raise ModelFileError(f"{source} cannot be used: {error}") from None


def stored(data: memoryview, source: str) -> ModelFile:
    """The model in the bytes of a file as the content of one of our own model files."""
    from loglinear.estimators.tagger import file

    foreign = read_foreign(data, source)
    chain = chain_model(foreign, source)
    options = {"order": 1, "precision": "float64", "pair_features": chain.encoder.pair_features, **_options(foreign)}
    notes = {"complete": True, "message": _message(foreign), "data": _data(foreign)}
    header, arrays = file.to_storage(chain, options, notes)
    return ModelFile(file.KIND, header, arrays, len(data), source)


def _options(model: ForeignModel) -> dict[str, Any]:
    return {"criterion": "memm"} if isinstance(model, WapitiModel) and model.type == MEMM else {}


def _message(model: ForeignModel) -> str:
    tool = {CrfsuiteModel: CRFSUITE, CrfppModel: CRFPP, WapitiModel: WAPITI_TOOL}[type(model)]
    return f"read from a model of {tool}"


def _data(model: ForeignModel) -> dict[str, Any]:
    """How files for the model are read, as a tagger's ``data_``."""
    return {"format": "crfsuite" if isinstance(model, CrfsuiteModel) else "columns"}


def to_tagger(model: ForeignModel, source: str = "the model", **options: Any) -> Tagger:
    """A fitted :class:`loglinear.Tagger` that answers as the tool does with ``model``; ``options`` are the tagger's."""
    from loglinear.estimators.tagger.estimator import Tagger

    chain = chain_model(model, source)
    given = {"precision": "float64", "pair_features": chain.encoder.pair_features, **_options(model), **options}
    return Tagger.around(chain, {"message": _message(model), "data": _data(model)}, **given)


def _check_labels(labels: Sequence[str], has_edges: bool) -> None:
    """Reject a model that cannot label, or not within the memory there is."""
    if not labels:
        raise ModelFileError("the model has no labels, since it was trained on nothing; train it again, on some data")
    check_size(len(labels), 1, has_edges)
    if has_edges:
        check_memory(8.0 * LONG * len(labels) ** 2, f"features of pairs of {len(labels):,} labels", "use fewer labels")


def _of_crfsuite(model: CrfsuiteModel) -> ChainModel:
    _check_labels(model.labels, has_edges=False)
    n = len(model.labels)
    encoder = NameEncoder()
    encoder.vocabulary = Vocabulary(model.attributes, locked=True)
    state, weights = _block(len(model.attributes), model.state_attributes, model.state_labels, n, model.state_weights)
    codes = model.sources * n + model.targets
    order = np.argsort(codes, kind="stable")
    features = ChainFeatures(n, 1, state, None, codes[order].astype(np.int32), NO_CODES)
    weights = np.concatenate([weights, model.transition_weights[order]])
    return ChainModel(list(model.labels), encoder, features, weights)


def _block(
    n_attributes: int, attributes: Int64, codes: Int64, n_codes: int, weights: Float
) -> tuple[FeatureBlock, Float]:
    """The features (attribute, code) in their order, and their weights."""
    order = np.lexsort((codes, attributes))
    pointer = offsets_of(np.bincount(attributes, minlength=n_attributes))
    own: Int32 = codes[order].astype(np.int32)
    return FeatureBlock(pointer, own, n_codes), weights[order]


# ----------------------------------------------------------------------------------------------------------------------
# Observations of templates.


def _of_crfpp(model: CrfppModel) -> ChainModel:
    labels = _decoded(model.labels)
    n = len(labels)
    _check_labels(labels, has_edges=False)
    widths = np.array([n if key[:1] == b"U" else n * n for key in model.keys], dtype=np.int64)
    lines = _decoded(model.templates)
    for line in lines:
        for macro in Template.parse(line).macros:
            if macro.function != "x" or macro.lowered or macro.absolute or abs(macro.row) > 4:
                raise ModelFileError(f"the template {line!r:.60} is none of CRF++, which has %x with rows from -4 to 4")
    templates = TemplateSet.parse("\n".join(lines), "its template")
    weights = _Weights(model.weights, factor=model.cost_factor)
    return _of_templates(labels, templates, model.keys, (model.values, widths), weights)


def _of_wapiti(model: WapitiModel) -> ChainModel:
    labels = _decoded(model.labels)
    n = len(labels)
    kinds = [key[:1] for key in model.observations]
    widths = np.array([{b"u": n, b"b": n * n}.get(kind, n + n * n) for kind in kinds], dtype=np.int64)
    _check_labels(labels, has_edges=False)
    given = (model.observations, (model.starts, widths), _Weights(model.weights, model.places))
    if model.patterns:
        lines = _decoded(model.patterns)
        if any("[*" in line for line in lines):
            raise ModelFileError("its patterns take rows from a column (%x[*row,col]), which templates here cannot")
        templates = TemplateSet.parse("\n".join([WAPITI, *lines]), "its patterns")
        chain = _of_templates(labels, templates, *given, with_pairs=model.type != MAXENT)
    else:
        chain = _of_names(labels, *given, with_pairs=model.type != MAXENT)
    chain.local = model.type == MEMM
    return chain


def _decoded(strings: Sequence[bytes]) -> list[str]:
    return [each.decode("utf-8", "surrogateescape") for each in strings]


def _of_templates(
    labels: list[str],
    templates: TemplateSet,
    keys: list[bytes],
    spans: tuple[Int64, Int64],
    weights: _Weights,
    with_pairs: bool = True,
) -> ChainModel:
    """The model whose observation k, ``keys[k]``, has the weights from ``spans[0][k]`` on, ``spans[1][k]`` of them."""
    encoder = TemplateEncoder(templates)
    by_text: dict[bytes, list[int]] = {}
    skeletons = [[text.encode("utf-8", "surrogateescape") for text in each] for each in _skeletons(encoder)]
    for g, skeleton in enumerate(skeletons):
        by_text.setdefault(skeleton[0], []).append(g)
    firsts = sorted({len(skeleton[0]) for skeleton in skeletons})
    functions = [[macro.function for macro in template.macros] for template in encoder.group_templates]
    values, number = encoder.values, encoder.values.id
    rows: list[list[int]] = [[] for _ in skeletons]  # numbers of the values of each reading, one after the other
    owners: list[list[int]] = [[] for _ in skeletons]
    n_readings, most = 0, _MOST_READINGS * len(keys) + 1000
    for k, key in enumerate(keys):
        for length in firsts:
            for g in by_text.get(key[:length], ()) if length <= len(key) else ():
                for reading in _readings(key[length:], skeletons[g][1:], functions[g]):
                    rows[g].extend(number(each.decode("utf-8", "surrogateescape")) for each in reading)
                    owners[g].append(k)
                    n_readings += 1
                    if n_readings > most:
                        raise ModelFileError(
                            "its observations can be read in too many ways: put a character between the macros of a "
                            "template that is in no value, and train it again"
                        )
    values.lock()
    encoder.groups = [
        Group.from_keys(np.array(numbers, dtype=np.int32).reshape(len(own), len(skeleton) - 1))
        for numbers, own, skeleton in zip(rows, owners, skeletons, strict=True)
    ]
    owner = np.array([k for own in owners for k in own], dtype=np.int64)
    n, (starts, widths) = len(labels), spans
    number_of = {key: k for k, key in enumerate(keys)} if templates.has_label_bigram else {}
    moves = [
        number_of.get(str(template).encode("utf-8", "surrogateescape"), -1)
        for template in templates
        if with_pairs and template.scope != "state" and not template.macros
    ]
    bigrams = np.array([k for k in moves if k >= 0], dtype=np.int64)
    ends = starts[bigrams] + widths[bigrams]
    _, codes, bigram_weights = weights.between(ends - n * n, ends)
    bare = np.repeat([len(skeleton) == 1 for skeleton in skeletons], [len(own) for own in owners])
    scopes = _scopes(keys, owner, ~bare & with_pairs)  # the label bigram itself is not an attribute
    own_spans = (starts[owner], widths[owner])
    return _joined(labels, encoder, scopes, own_spans, weights, (codes.astype(np.int64), bigram_weights))


def _skeletons(encoder: TemplateEncoder) -> list[tuple[str, ...]]:
    return [template.skeleton for template in encoder.group_templates]


def _readings(rest: bytes, texts: list[bytes], functions: list[str]) -> Iterator[tuple[bytes, ...]]:
    """All ways in which values, each before one of ``texts``, make the string ``rest``.

    Values of ``%t`` are true and false; those of ``%x`` are not empty.
    """
    if not texts:
        if not rest:
            yield ()
        return
    text, least = texts[0], 0 if functions[0] == "m" else 1
    if len(texts) == 1:
        value = rest[: len(rest) - len(text)]
        if len(value) >= least and rest.endswith(text) and (functions[0] != "t" or value in (b"true", b"false")):
            yield (value,)
        return
    place = least
    while (place := rest.find(text, place)) >= 0:
        value = rest[:place]
        if functions[0] != "t" or value in (b"true", b"false"):
            for others in _readings(rest[place + len(text) :], texts[1:], functions[1:]):
                yield (value, *others)
        place += 1
        if place > len(rest):
            return


def _scopes(keys: list[bytes], owner: Int64, with_pairs: Bool) -> tuple[Bool, Bool]:
    """Whether the attributes of the observations ``owner`` [A] are joined with labels, and with pairs of labels."""
    letters = np.array([key[:1].lower() for key in keys], dtype="S1")[owner]
    return letters != b"b", (letters != b"u") & with_pairs


class _Weights:
    """Weights by place: those ``at`` these places [N], which ascend, or at all of 0, 1, ... (None); others are zero.

    Attributes may share places, so that the weights of all of them are made in parts of :data:`_PART`.
    """

    def __init__(self, values: Array, at: Int64 | None = None, factor: float = 1.0) -> None:
        self._values, self._at, self._factor = values, at, factor

    def _bounds(self, places: Int64) -> Int64:
        return places if self._at is None else np.searchsorted(self._at, places).astype(np.int64)

    def between(self, first: Int64, last: Int64) -> tuple[Int64, Int32, Float]:
        """What is not zero at the places ``first[a]`` to ``last[a]`` [A]: a pointer [A + 1], offsets and weights."""
        begins, ends = self._bounds(first), self._bounds(last)
        sizes = np.cumsum(ends - begins)
        counts, codes, weights = [np.zeros(0, dtype=np.int64)], [NO_CODES], [np.zeros(0)]
        done = 0
        while done < len(first):
            end = int(np.searchsorted(sizes, (sizes[done - 1] if done else 0) + _PART, side="right"))
            end = min(max(end, done + 1), len(first))
            own = ends[done:end] - begins[done:end]
            chosen = np.repeat(begins[done:end] - np.cumsum(own) + own, own) + np.arange(int(own.sum()))
            values = self._values[chosen].astype(np.float64) * self._factor
            kept = values != 0.0
            places = chosen if self._at is None else self._at[chosen]
            offsets = places - np.repeat(first[done:end], own)
            owner = np.repeat(np.arange(end - done), own)[kept]
            counts.append(np.bincount(owner, minlength=end - done))
            codes.append(offsets[kept].astype(np.int32))
            weights.append(values[kept])
            done = end
        return offsets_of(np.concatenate(counts)), np.concatenate(codes), np.concatenate(weights)


def _joined(
    labels: list[str],
    encoder: Any,
    scopes: tuple[Bool, Bool],
    spans: tuple[Int64, Int64],
    weights: _Weights,
    moves: tuple[Int64, Float],
) -> ChainModel:
    """The model whose attribute a has the weights from ``spans[0][a]`` on, ``spans[1][a]`` of them.

    ``scopes`` are those of :func:`_scopes`, ``moves`` codes and weights of label bigrams, some of them several times.
    """
    n, (starts, widths) = len(labels), spans
    found: list[tuple[FeatureBlock, Float]] = []
    for width, first, has in ((n, starts, scopes[0]), (n * n, starts + widths - n * n, scopes[1])):
        first = np.where(has, first, 0)
        pointer, codes, own = weights.between(first, first + has * width)
        found.append((FeatureBlock(pointer, codes, width), own))
    (state, state_weights), (edge, edge_weights) = found
    has_edges = edge.n_features > 0
    _check_labels(labels, has_edges)
    bigrams, places = np.unique(moves[0], return_inverse=True)
    bigram_weights = np.bincount(places, moves[1], minlength=len(bigrams))
    features = ChainFeatures(n, 1, state, edge if has_edges else None, bigrams.astype(np.int32), NO_CODES)
    parts = [state_weights, edge_weights if has_edges else np.zeros(0), bigram_weights]
    return ChainModel(labels, encoder, features, np.concatenate(parts))


def _of_names(
    labels: list[str],
    keys: list[bytes],
    spans: tuple[Int64, Int64],
    weights: _Weights,
    with_pairs: bool,
) -> ChainModel:
    """A model of Wapiti without patterns: tokens are lists of observations."""
    pairs = with_pairs and any(key[:1] != b"u" for key in keys)
    encoder = NameEncoder(pair_features=pairs)
    encoder.vocabulary = Vocabulary(_decoded(keys), locked=True)
    scopes = _scopes(keys, np.arange(len(keys)), np.full(len(keys), with_pairs))
    return _joined(labels, encoder, scopes, spans, weights, (np.zeros(0, dtype=np.int64), np.zeros(0)))


# ----------------------------------------------------------------------------------------------------------------------
# The way back.


def from_tagger(tagger: SequencePredictor) -> CrfsuiteModel:
    """The tagger's model as one of CRFsuite; an :class:`OptionError` says what CRFsuite does not have."""
    model: Any = tagger._fitted()
    if why := _why_not_crfsuite(model):
        raise OptionError(f"the model cannot be written as a CRFsuite model: {why}")
    features: ChainFeatures = model.features
    state, _, transition, *_ = features.slices
    weights = np.asarray(model.weights, dtype=np.float64)
    n = features.n_labels
    return CrfsuiteModel(
        labels=list(model.labels),
        attributes=list(model.encoder.names()),
        state_attributes=np.repeat(np.arange(len(features.state.pointer) - 1), np.diff(features.state.pointer)),
        state_labels=features.state.codes.astype(np.int64),
        state_weights=weights[state],
        sources=(features.transitions // n).astype(np.int64),
        targets=(features.transitions % n).astype(np.int64),
        transition_weights=weights[transition],
    )


def _why_not_crfsuite(model: Any) -> str:
    """What the model has that a model of CRFsuite cannot; empty if there is nothing."""
    if not isinstance(model, ChainModel):
        return f"it is not a plain chain, but a {getattr(model, 'structure_name', type(model).__name__)}"
    encoder = model.encoder
    refused = {
        f"it is of order {model.order}, and CRFsuite looks at two labels at most": model.order != 1,
        "it has features of label pairs, and CRFsuite joins attributes with single labels only": (
            model.features.edge is not None or bool(encoder.pair_features)
        ),
        "it has dense features, which CRFsuite would need as attributes that are not standardised": model.dense
        is not None,
        "its labels have hidden sub-labels": model.sub_labels > 1,
        "it is normalised label by label (memm)": model.local or model.scaling is not None,
        "it is trained over a generative base": model.base is not None or model.features.input_only,
        "it has constraints, which CRFsuite would not keep to": model.constraints is not None,
        "its attributes are hashed, so that their names are not known": encoder.kind.startswith("hashed"),
    }
    return next((why for why, holds in refused.items() if holds), "")
