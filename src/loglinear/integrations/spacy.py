"""Components of a spaCy pipeline: ``loglinear_ner``, ``loglinear_tagger`` and ``loglinear_spans``.

spaCy finds them by their entry points, so that ``nlp.add_pipe("loglinear_ner")`` needs no import. ``nlp.initialize``
trains them, once and on all examples; they have no ``update``, and spaCy's training loop leaves them alone. A token is
a row of its attributes (``columns``), which a template looks at; what is not annotated is a partial label. What they
store is a model file, which holds data only.

    component          learns from and writes                     beside it, probabilities
    loglinear_ner      doc.ents                                   doc.spans[spans_key], attrs["scores"]
    loglinear_spans    doc.spans[spans_key], without overlaps     attrs["scores"] of the same
    loglinear_tagger   token.tag_ or token.pos_                   doc.user_data["NAME.confidence"], if asked for
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from spacy import util
from spacy.language import Language
from spacy.parts_of_speech import IDS as PARTS_OF_SPEECH
from spacy.scorer import Scorer, get_ner_prf
from spacy.tokens import Doc, Span, Token
from spacy.training import Example, offsets_to_biluo_tags

from loglinear import Tagger
from loglinear.errors import DataError, OptionError

SCHEMES = ("bio", "bilou")
MODEL, SETTINGS = "model", "settings.json"
TO_BIO = {"B": "B", "I": "I", "L": "I", "U": "B"}
TO_BILOU = {"B": "B", "I": "I", "L": "L", "U": "U"}

Labels = list[Any]  #: of one sequence: a label, or None where it is not known


class LoglinearPipe:
    """What the components share: training, batches, files and the order of calls that spaCy makes.

    Parameters
    ----------
    nlp : Language
    name : str
    columns : list of str
        Token attributes that the template looks at, in the order of its columns: ``text``, ``lower``, ``shape``,
        ``tag``, ``pos``, ``lemma``, ..., any that spaCy has as text (``token.tag_``).
    template : str
        A named set (``ner``, ``pos``, ``chunking``, ``words``), or the text of a template.
    options : dict
        Options of :class:`loglinear.Tagger`.
    """

    settings: ClassVar[tuple[str, ...]] = ("columns", "template")  #: what a stored model must have in common

    def __init__(self, nlp: Language, name: str, columns: list[str], template: str, options: dict[str, Any]) -> None:
        self.nlp, self.name = nlp, name
        self.columns, self.template, self.options = list(columns), template, dict(options)
        if not columns:
            raise OptionError(f"{name}: columns is empty; name token attributes, as in columns=['text', 'tag']")
        for column in columns:
            if column != "text" and not hasattr(Token, f"{column}_"):
                raise OptionError(
                    f"{name}: columns: {column!r} is not a text attribute of tokens; there are text, lower, norm, "
                    "shape, prefix, suffix, lemma, tag, pos, dep, ent_type, ..."
                )
        self._error_handler: Callable[..., None] = util.raise_error
        self.tagger = self._new_tagger()
        self._trained = False

    def _new_tagger(self) -> Tagger:
        """An untrained tagger with the options of the configuration, checked."""
        for given in ("template", "constraints"):
            if given in self.options:
                raise OptionError(f"{self.name}: options: {given} is not among these; it is a setting of its own")
        try:
            tagger = Tagger(template=self.template, constraints=self._constraints(), **self.options)
        except TypeError as error:
            raise OptionError(f"{self.name}: options={self.options!r:.80}: {error}") from None
        tagger.check_options()
        return tagger

    # -- what each component defines -----------------------------------------------------------------------------------

    def _constraints(self) -> str | None:
        """The scheme of the labels, if they have one."""
        return None

    def _gold(self, example: Example) -> Labels | None:
        """The labels of the predicted document's tokens, None if nothing is known of them."""
        raise NotImplementedError

    def _annotate(self, docs: list[Doc]) -> None:
        """Write what the model says of documents that have tokens."""
        raise NotImplementedError

    def score(self, examples: Iterable[Example], **keywords: Any) -> dict[str, Any]:
        """How good the annotation is, by spaCy's own scorer."""
        raise NotImplementedError

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that the model gives; none before it is trained."""
        return tuple(self.tagger.classes_) if self._trained else ()

    # -- training --------------------------------------------------------------------------------------------------

    def initialize(
        self,
        get_examples: Callable[[], Iterable[Example]],
        *,
        nlp: Language | None = None,
        labels: list[str] | None = None,
    ) -> None:
        """Train on the examples. With ``labels``, as spaCy stores them, examples may have no others."""
        X: list[list[tuple[str, ...]]] = []
        y: list[Labels] = []
        for example in get_examples():
            gold = self._gold(example) if len(example.predicted) else None
            if gold is not None and any(label is not None for label in gold):
                X.append(self._rows(self._aligned(example)))
                y.append(gold)
        if not X:
            raise DataError(
                f"{self.name}: no example has what this component learns; give annotated ones, as in "
                "nlp.initialize(lambda: examples)"
            )
        tagger = self._new_tagger().fit(X, y)
        before, self.tagger, self._trained = (self.tagger, self._trained), tagger, True
        others = set(self.labels) - set(self.labels if labels is None else labels)
        if others:
            self.tagger, self._trained = before
            raise DataError(f"{self.name}: the examples have the label {sorted(others)[0]!r}, and labels does not")

    def _aligned(self, example: Example) -> Doc:
        """The predicted document with tags and the like of the reference, where no component before gives them."""
        missing = [c for c in self.columns if c in ANNOTATED and not example.predicted.has_annotation(c.upper())]
        if not missing:
            return example.predicted
        doc = example.predicted.copy()
        for column in missing:
            for token, value in zip(doc, example.get_aligned(column.upper(), as_string=True), strict=True):
                setattr(token, f"{column}_", value or "")
        return doc

    @property
    def label_data(self) -> list[str]:
        """What ``spacy init labels`` stores."""
        return list(self.labels)

    def add_label(self, label: str) -> int:
        """Labels come from the examples."""
        raise OptionError(f"{self.name}: labels come from the examples of nlp.initialize; {label!r} cannot be added")

    # -- prediction ------------------------------------------------------------------------------------------------

    def __call__(self, doc: Doc) -> Doc:
        """Annotate one document."""
        try:
            self._annotated([doc])
        except Exception as error:
            self._error_handler(self.name, self, [doc], error)
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Annotate a stream of documents, in batches."""
        for batch in util.minibatch(stream, size=batch_size):
            docs = list(batch)
            try:
                self._annotated(docs)
            except Exception:  # which document it was shows one by one
                for doc in docs:
                    try:
                        self._annotated([doc])
                    except Exception as error:
                        self._error_handler(self.name, self, [doc], error)
                    else:
                        yield doc
            else:
                yield from docs

    def set_error_handler(self, error_handler: Callable[..., None]) -> None:
        """What to do with a document that cannot be annotated."""
        self._error_handler = error_handler

    def get_error_handler(self) -> Callable[..., None]:
        """What is done with such a document."""
        return self._error_handler

    def _annotated(self, docs: list[Doc]) -> None:
        if not self._trained:
            raise OptionError(
                f"{self.name} has no model yet; train it by nlp.initialize(lambda: examples), or load one"
            )
        docs = [doc for doc in docs if len(doc)]
        if docs:
            self._annotate(docs)

    def _rows(self, doc: Doc) -> list[tuple[str, ...]]:
        """A row of columns for each token."""
        attributes = [column if column == "text" else f"{column}_" for column in self.columns]
        return [tuple(getattr(token, attribute) for attribute in attributes) for token in doc]

    # -- files -----------------------------------------------------------------------------------------------------

    def _settings(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.settings}

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """Settings and model file, one after the other; the model is missing before training."""
        settings = json.dumps(self._settings()).encode()
        return b"%d\n%s%s" % (len(settings), settings, self.tagger.to_bytes() if self._trained else b"")

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> LoglinearPipe:
        """Read what :meth:`to_bytes` gave."""
        size, _, rest = bytes(data).partition(b"\n")
        if not size.isdigit():
            raise DataError(f"{self.name}: these are not the bytes of such a component")
        self._take_over(rest[: int(size)], rest[int(size) :] or None)
        return self

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Write a folder with the settings and, after training, the model file."""
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        if self._trained:
            self.tagger.save(folder / MODEL)
        else:
            (folder / MODEL).unlink(missing_ok=True)
        (folder / SETTINGS).write_text(json.dumps(self._settings()), encoding="utf-8")

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> LoglinearPipe:
        """Read what :meth:`to_disk` wrote."""
        folder = Path(path)
        try:
            settings = (folder / SETTINGS).read_bytes()
        except OSError as error:
            raise DataError(f"{self.name}: {folder} holds no such component ({error.strerror})") from None
        self._take_over(settings, folder / MODEL if (folder / MODEL).exists() else None)
        return self

    def _take_over(self, settings: bytes, model: Path | bytes | None) -> None:
        """A stored model, of the same settings."""
        try:
            stored = json.loads(settings)
        except ValueError:
            raise DataError(f"{self.name}: the stored settings are not JSON; copy the component again") from None
        for name, own in self._settings().items():
            if not isinstance(stored, dict) or stored.get(name) != own:
                found = stored.get(name) if isinstance(stored, dict) else stored
                raise OptionError(f"{self.name}: the stored model has {name}={found!r:.60}, this component {own!r:.60}")
        self._trained = model is not None
        self.tagger = self._new_tagger() if model is None else Tagger.load(model)


ANNOTATED = ("tag", "pos", "lemma")  #: what examples may have where no component before gives it


class SpansOfDocs(LoglinearPipe):
    """Spans that do not overlap, as labels of tokens in a scheme.

    Parameters
    ----------
    nlp, name, columns, template, options
        As for every component.
    scheme : {"bio", "bilou"}
    spans_key : str or None
        Where in ``doc.spans`` the spans go, with their probabilities as ``attrs["scores"]``.
    """

    settings = ("columns", "template", "scheme")

    def __init__(
        self,
        nlp: Language,
        name: str,
        columns: list[str],
        template: str,
        options: dict[str, Any],
        scheme: str,
        spans_key: str | None,
    ) -> None:
        if scheme not in SCHEMES:
            raise OptionError(f"{name}: scheme={scheme!r} is not one of {', '.join(SCHEMES)}")
        self.scheme, self.spans_key = scheme, spans_key
        super().__init__(nlp, name, columns, template, options)

    def _constraints(self) -> str | None:
        return self.scheme

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(sorted({label[2:] for label in super().labels if label != "O"}))

    def _in_scheme(self, biluo: Iterable[str | None]) -> Labels:
        """Tags as spaCy has them, in the component's scheme; None is unknown."""
        letters = TO_BIO if self.scheme == "bio" else TO_BILOU
        return [
            None if tag is None or tag == "-" else "O" if tag == "O" else f"{letters[tag[0]]}-{tag[2:]}"
            for tag in biluo
        ]

    def _found(
        self, docs: list[Doc], given: list[Labels] | None = None
    ) -> list[tuple[list[Span], np.ndarray[Any, Any]]]:
        """The spans of each document, and their probabilities."""
        found = self.tagger.predict_spans([self._rows(doc) for doc in docs], given=given)
        return [
            ([Span(doc, first, end, label=label) for first, end, label, _ in spans], np.array([p for *_, p in spans]))
            for doc, spans in zip(docs, found, strict=True)
        ]

    def _keep(self, doc: Doc, spans: list[Span], scores: Any) -> None:
        """Write spans and probabilities under the key, if there is one."""
        if self.spans_key is not None:
            doc.spans[self.spans_key] = spans
            doc.spans[self.spans_key].attrs["scores"] = np.asarray(scores, dtype=np.float64)


class LoglinearNER(SpansOfDocs):
    """Named entities: ``doc.ents``. Entities that a component before has set stay, and labels around them follow."""

    def _gold(self, example: Example) -> Labels | None:
        return self._in_scheme(example.get_aligned_ner())

    def _annotate(self, docs: list[Doc]) -> None:
        given, known = [self._preset(doc) for doc in docs], set(self.labels)
        some = any(label is not None for labels in given for label in labels)
        for doc, (spans, scores) in zip(docs, self._found(docs, given if some else None), strict=True):
            others = [ent for ent in doc.ents if ent.label_ not in known]
            doc.set_ents([*spans, *others])
            self._keep(doc, spans, scores)

    def _preset(self, doc: Doc) -> Labels:
        """What the entities that a document has already say: labels of their types, O for types not learnt."""
        if not doc.ents:
            return [None] * len(doc)
        tags = offsets_to_biluo_tags(doc, [(ent.start_char, ent.end_char, ent.label_) for ent in doc.ents], missing="-")
        own, known = self._in_scheme(tags), set(self.tagger.classes_)
        return [label if label is None or label in known else "O" for label in own]

    def score(self, examples: Iterable[Example], **keywords: Any) -> dict[str, Any]:
        return dict(get_ner_prf(examples, **keywords))


class LoglinearSpans(SpansOfDocs):
    """Spans without overlaps: ``doc.spans[spans_key]``."""

    spans_key: str

    def _gold(self, example: Example) -> Labels | None:
        reference = example.reference
        if self.spans_key not in reference.spans:
            return None
        spans = example.get_aligned_spans_y2x(list(reference.spans[self.spans_key]), allow_overlap=True)
        try:
            tags = offsets_to_biluo_tags(example.predicted, [(s.start_char, s.end_char, s.label_) for s in spans])
        except ValueError:
            raise DataError(
                f"{self.name}: spans overlap in {example.text!r:.60}; this component learns spans that do not"
            ) from None
        return self._in_scheme(tags)

    def _annotate(self, docs: list[Doc]) -> None:
        for doc, (spans, scores) in zip(docs, self._found(docs), strict=True):
            self._keep(doc, spans, scores)

    def score(self, examples: Iterable[Example], **keywords: Any) -> dict[str, Any]:
        key = self.spans_key
        keywords = {
            "attr": f"spans_{key}", "getter": lambda doc, _: doc.spans.get(key, []), "labeled": True,
            "has_annotation": lambda doc: key in doc.spans, "allow_overlap": False, **keywords,
        }  # fmt: skip
        return dict(Scorer.score_spans(examples, **keywords))


class LoglinearTagger(LoglinearPipe):
    """A label for each token: ``token.tag_`` or ``token.pos_``.

    Parameters
    ----------
    nlp, name, columns, template, options
        As for every component.
    attribute : {"tag", "pos"}
    confidence : bool
        Whether the probability of each token's label is kept, in ``doc.user_data["NAME.confidence"]``.
    """

    settings = ("columns", "template", "attribute")

    def __init__(
        self,
        nlp: Language,
        name: str,
        columns: list[str],
        template: str,
        options: dict[str, Any],
        attribute: str,
        confidence: bool,
    ) -> None:
        if attribute not in ("tag", "pos"):
            raise OptionError(f"{name}: attribute={attribute!r} is not one of tag, pos")
        if attribute in columns:
            raise OptionError(f"{name}: columns has {attribute!r}, which is what the component is to find")
        self.attribute, self.confidence = attribute, confidence
        super().__init__(nlp, name, columns, template, options)

    def _gold(self, example: Example) -> Labels | None:
        tags = [tag or None for tag in example.get_aligned(self.attribute.upper(), as_string=True)]
        for tag in tags:
            if self.attribute == "pos" and tag is not None and tag not in PARTS_OF_SPEECH:
                raise DataError(f"{self.name}: {tag!r} is not a part of speech that spaCy knows; use attribute='tag'")
        return tags

    def _annotate(self, docs: list[Doc]) -> None:
        rows, classes = [self._rows(doc) for doc in docs], self.tagger.classes_
        labels, probabilities = self.tagger.predict_numbers(rows, confidence=self.confidence)
        first = 0
        for doc in docs:
            for token, label in zip(doc, labels[first : first + len(doc)].tolist(), strict=True):
                setattr(token, f"{self.attribute}_", classes[label])
            if probabilities is not None:
                doc.user_data[f"{self.name}.confidence"] = probabilities[first : first + len(doc)].tolist()
            first += len(doc)

    def score(self, examples: Iterable[Example], **keywords: Any) -> dict[str, Any]:
        return dict(Scorer.score_token_attr(examples, self.attribute, **keywords))


# ----------------------------------------------------------------------------------------------------------------------
# Factories. spaCy checks the types of a configuration against these signatures.


@Language.factory(
    "loglinear_ner",
    assigns=["doc.ents", "token.ent_iob", "token.ent_type"],
    default_config={
        "columns": ["text"], "template": "ner", "options": {}, "scheme": "bio", "spans_key": "loglinear",
    },
    default_score_weights={"ents_f": 1.0, "ents_p": 0.0, "ents_r": 0.0, "ents_per_type": None},
)  # fmt: skip
def make_ner(
    nlp: Language,
    name: str,
    columns: list[str],
    template: str,
    options: dict[str, Any],
    scheme: str,
    spans_key: str | None,
) -> LoglinearNER:
    """A recogniser of named entities."""
    return LoglinearNER(nlp, name, columns, template, options, scheme, spans_key)


@Language.factory(
    "loglinear_spans",
    assigns=["doc.spans"],
    default_config={"columns": ["text"], "template": "ner", "options": {}, "scheme": "bio", "spans_key": "sc"},
    default_score_weights={"spans_sc_f": 1.0, "spans_sc_p": 0.0, "spans_sc_r": 0.0},
)
def make_spans(
    nlp: Language, name: str, columns: list[str], template: str, options: dict[str, Any], scheme: str, spans_key: str
) -> LoglinearSpans:
    """A finder of spans."""
    return LoglinearSpans(nlp, name, columns, template, options, scheme, spans_key)


@Language.factory(
    "loglinear_tagger",
    assigns=["token.tag", "token.pos"],
    default_config={
        "columns": ["text"], "template": "pos", "options": {}, "attribute": "tag", "confidence": False,
    },
    default_score_weights={"tag_acc": 1.0, "pos_acc": 0.0},
)  # fmt: skip
def make_tagger(
    nlp: Language,
    name: str,
    columns: list[str],
    template: str,
    options: dict[str, Any],
    attribute: str,
    confidence: bool,
) -> LoglinearTagger:
    """A tagger of parts of speech."""
    return LoglinearTagger(nlp, name, columns, template, options, attribute, confidence)
