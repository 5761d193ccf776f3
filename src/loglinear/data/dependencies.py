r"""CoNLL-U: sentences with dependency trees, read into numbers and written back with new heads.

::

    # sent_id = 1                                          a comment, kept
    1-2  don't  _    _     _    _  _  _       _       _    a multiword token: not in the tree, kept
    1    do     do   AUX   VBP  _  3  aux     _       _    ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC
    2    n't    not  PART  RB   _  3  advmod  _       _
    3    go     go   VERB  VB   _  0  root    _       _
    3.1  go     go   VERB  VB   _  _  _       3:conj  _    an empty node: not in the tree, kept

Fields are separated by tabs; a blank line ends a sentence (https://universaldependencies.org/format.html). A tree has
one head for each token, 0 for the root, and no cycle. Letters: S sentences, N tokens in all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, Any, BinaryIO, TypeGuard

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Int32, Int64
from loglinear.data.columns.corpus import PYTHON, Column, Sentences
from loglinear.data.files import Source, check_text, read_bytes, source_name
from loglinear.errors import DataError
from loglinear.wording import how_many

if TYPE_CHECKING:
    from loglinear.data.columns.scanning import Lines


N_FIELDS = 10
ID, FORM, LEMMA, UPOS, XPOS, FEATS, HEAD, DEPREL = range(8)
NOTHING, ROOT = "_", "root"  # no value; the relation of a root
MOST_TOKENS = 100_000  # in a sentence; a larger token number is a mistake


@dataclass(eq=False)
class Dependencies(Sentences):
    """Sentences of words with tags and, if known, heads and relations.

    Attributes
    ----------
    words, upos, xpos, relations : Column
        N strings each; ``_`` if the file has no value.
    heads : int32 [N]
        The head of each token within its sentence: 0 is the root, 1 the first token, -1 unknown.
    offsets : int64 [S + 1]
        Where the sentences begin.
    file : str
        Name of the source for messages.
    lines : int64 [N]
        Line (from 1) of each token.
    raw : bytes
        The text.
    places : int64 [N, 2, 2]
        Where in the text the token's head and relation begin and end.
    """

    words: Column
    upos: Column
    xpos: Column
    heads: Int32
    relations: Column
    offsets: Int64
    file: str
    lines: Int64
    raw: bytes = field(repr=False)
    places: Int64 = field(repr=False)

    @property
    def has_relations(self) -> bool:
        """Whether the arcs are labelled: whether any arc that does not come from the root has a relation."""
        used = np.unique(self.relations.ids[self.heads != 0])
        return any(self.relations.values[r] != NOTHING for r in used.tolist())

    def tags(self, which: str = "auto") -> Column:
        """The column of tags: ``xpos``, ``upos``, or ``auto``: ``xpos`` if the text has any, else ``upos``."""
        if which == "auto":
            which = "xpos" if any(self.xpos.values[i] != NOTHING for i in np.unique(self.xpos.ids)) else "upos"
        return self.xpos if which == "xpos" else self.upos

    def select(self, sentences: npt.ArrayLike) -> Dependencies:
        """Some sentences (numbers from 0); they are written without comments, multiword tokens and empty nodes."""
        offsets, tokens = self._selected(np.asarray(sentences, dtype=np.int64))
        columns = {name: getattr(self, name).at(tokens) for name in ("words", "upos", "xpos", "relations")}
        arrays = {name: getattr(self, name)[tokens] for name in ("heads", "lines", "places")}
        return replace(self, **columns, **arrays, offsets=offsets, raw=b"")

    @classmethod
    def from_sentences(
        cls, sentences: Iterable[Sequence[Any]], heads: Iterable[Sequence[Any]] | None = None, single_root: bool = True
    ) -> Dependencies:
        """From Python lists.

        Parameters
        ----------
        sentences : list of lists of (word, tag)
        heads : list of lists of int, or of (int, str), optional
            The head of each token, with its relation if known.
        single_root : bool
            Whether to reject trees with several roots.
        """
        if isinstance(sentences, Dependencies):
            return sentences
        sentences = list(sentences)
        trees: list[Any] = [None] * len(sentences) if heads is None else list(heads)
        if len(trees) != len(sentences):
            raise DataError(f"{how_many(len(sentences), 'sentence')}, but {how_many(len(trees), 'tree')}")
        texts: list[str] = []
        for number, (sentence, tree) in enumerate(zip(sentences, trees, strict=True)):
            if not len(sentence):
                raise DataError(f"sentence {number} (from 0) has no tokens; leave it out")
            if tree is not None and len(tree) != len(sentence):
                heads = how_many(len(tree), "head")
                raise DataError(f"sentence {number} (from 0) has {how_many(len(sentence), 'token')}, but {heads}")
            arcs = [(NOTHING, NOTHING)] * len(sentence) if tree is None else tree
            pairs = zip(sentence, arcs, strict=True)
            texts.append(
                conllu_text((*_word_and_tag(token, number), *_head_and_relation(arc, number)) for token, arc in pairs)
            )
        text = "".join(texts)
        try:
            raw = text.encode()
        except UnicodeEncodeError as error:
            number = text.count("\n\n", 0, error.start)
            message = f"sentence {number} (from 0): {text[error.start]!r} is half a character, and cannot be UTF-8"
            raise DataError(message) from None
        return parse_conllu(raw, PYTHON, trees=heads is not None, single_root=single_root)


def _word_and_tag(token: Any, sentence: int) -> tuple[str, str]:
    if not isinstance(token, tuple | list) or len(token) != 2 or not all(map(_is_field, token)):
        raise DataError(
            f"sentence {sentence} (from 0): a token is a pair of strings without tabs and line feeds, (word, tag), not "
            f"{token!r:.80}"
        )
    return token[0], token[1]


def _is_field(value: Any) -> TypeGuard[str]:
    """Whether a value can be a field of a CoNLL-U row."""
    return isinstance(value, str) and bool(value.strip()) and "\t" not in value and "\n" not in value


def _head_and_relation(arc: Any, sentence: int) -> tuple[Any, str]:
    """Head and relation of a token, ``_`` if the relation is None or not given."""
    if not isinstance(arc, tuple | list):
        return arc, NOTHING
    relation = arc[1] if len(arc) == 2 else arc
    if relation is None:
        return arc[0], NOTHING
    if not _is_field(relation):
        raise DataError(
            f"sentence {sentence} (from 0): an arc is a head, or a pair of head and relation (a string without tabs "
            f"and line feeds, or None), not {arc!r:.80}"
        )
    return arc[0], relation


def read_conllu(source: Source, *, trees: bool = True, single_root: bool = True) -> Dependencies:
    """Read a CoNLL-U file.

    Parameters
    ----------
    source : path, ``-`` or open binary file
        Also compressed with gzip.
    trees : bool
        Whether each sentence must have a tree; if not, heads are ignored.
    single_root : bool
        Whether to reject trees with several tokens below the root.

    Raises
    ------
    DataError
        With file and line: a row that does not have 10 fields, tokens that are not numbered 1, 2, ..., a head that is
        not a number or out of range, no root, several roots, a cycle; invalid UTF-8, a NUL byte, no sentence at all.
    """
    return parse_conllu(read_bytes(source), source_name(source), trees, single_root)


def parse_conllu(raw: bytes, name: str, trees: bool = True, single_root: bool = True) -> Dependencies:
    """Like :func:`read_conllu`, from the bytes of a text; ``name`` is for messages."""
    lines, tokens, begins, finishes, offsets = conllu_tokens(raw, name)
    lengths = np.diff(offsets)
    words, upos, xpos, head_column, relations = (
        lines.column(begins[:, c], finishes[:, c]) for c in (FORM, UPOS, XPOS, HEAD, DEPREL)
    )
    heads = np.full(len(tokens), -1, dtype=np.int32)
    if trees:
        heads = _heads(head_column, np.repeat(lengths, lengths), tokens, name)
    places = np.stack([begins[:, [HEAD, DEPREL]], finishes[:, [HEAD, DEPREL]]], axis=2)
    corpus = Dependencies(words, upos, xpos, heads, relations, offsets, name, tokens + 1, raw, places)
    if trees:
        check_trees(corpus, single_root)
    return corpus


def conllu_tokens(raw: bytes, name: str) -> tuple[Lines, Int64, Int64, Int64, Int64]:
    """The rows of a text that are tokens: neither comments nor multiword tokens nor empty nodes.

    Returns
    -------
    lines : Lines
    rows : int64 [N]
        The line (from 0) of each token.
    begins, finishes : int64 [N, 10]
        Where their fields are.
    offsets : int64 [S + 1]
    """
    from loglinear.data.columns.scanning import TAB, lines_of

    lines = lines_of(raw, check_text(raw, name), TAB)
    is_row = (lines.counts > 0) & ~lines.begin_with(b"#")
    rows = np.flatnonzero(is_row)
    _check_rows(lines, rows, name)
    if not len(rows):
        raise DataError("no sentence in the file", name)
    begins, finishes = (bounds.reshape(-1, N_FIELDS) for bounds in lines.fields(rows))
    numbers = lines.column(begins[:, ID], finishes[:, ID])
    kinds = np.array([_token_number(text) for text in numbers.values], dtype=np.int32)[numbers.ids]
    for row in np.flatnonzero(kinds < 0)[:1].tolist():
        text = numbers.values[numbers.ids[row]]
        raise DataError(f"{text!r:.40} is not a token number (such as 3, 3-4 or 3.1)", name, int(rows[row]) + 1)
    ends = np.cumsum(lines.counts == 0)  # blank lines so far: rows of a sentence have the same number
    is_token = kinds > 0
    tokens, kinds = rows[is_token], kinds[is_token]
    begins, finishes = begins[is_token], finishes[is_token]
    block = ends[tokens]
    offsets = np.append(np.flatnonzero(np.diff(block, prepend=-1)), len(tokens)).astype(np.int64)
    lengths = np.diff(offsets)
    expected = np.arange(len(tokens)) - np.repeat(offsets[:-1], lengths) + 1
    for t in np.flatnonzero(kinds != expected)[:1].tolist():
        message = f"token {kinds[t]} stands where token {expected[t]} should: tokens are numbered 1, 2, ..."
        raise DataError(message, name, int(tokens[t]) + 1)
    for row in np.flatnonzero(~np.isin(ends[rows], block))[:1].tolist():
        raise DataError("a sentence without tokens", name, int(rows[row]) + 1)
    return lines, tokens, begins, finishes, offsets


def _check_rows(lines: Lines, rows: Int64, name: str) -> None:
    from loglinear.data.columns.scanning import HAS_EMPTY_FIELD

    for row in rows[(lines.flags[rows] & HAS_EMPTY_FIELD) > 0][:1].tolist():
        raise DataError("an empty field; CoNLL-U writes _ for nothing", name, row + 1)
    for row in rows[lines.counts[rows] != N_FIELDS][:1].tolist():
        n = int(lines.counts[row])
        hint = ""
        if lines.begin_with(b"(")[row]:
            hint = "; bracketed trees go with a parser of phrases"
        elif n == 1:
            hint = "; dependencies are of words with tags, a row for each"
        message = f"{n} field{'' if n == 1 else 's'} between tabs; a row of CoNLL-U has {N_FIELDS}{hint}"
        raise DataError(message, name, row + 1)


def _token_number(text: str) -> int:
    """Number of a token; 0 for a multiword token or empty node (``1-2``, ``3.1``), -1 if it cannot be read."""
    if re.fullmatch(r"[0-9]+[-.][0-9]+", text):
        return 0
    number = _whole_number(text)
    return number if 0 < number <= MOST_TOKENS else -1


def _whole_number(text: str) -> int:
    """A number of up to 8 digits, -1 if the text is anything else."""
    return int(text) if re.fullmatch(r"[0-9]{1,8}", text) else -1


def _heads(column: Column, lengths: Int64, rows: Int64, name: str) -> Int32:
    """Heads [N] as numbers, each within its sentence of ``lengths`` [N] tokens."""
    heads = np.array([_whole_number(text) for text in column.values], dtype=np.int32)[column.ids]
    for t in np.flatnonzero((heads < 0) | (heads > lengths))[:1].tolist():
        text, where = column.values[column.ids[t]], (name, int(rows[t]) + 1)
        if text == NOTHING:
            raise DataError("a token without a head; a tree needs one for each (0 is the root)", *where)
        if heads[t] < 0:
            raise DataError(f"the head {text!r:.40} is not a number", *where)
        raise DataError(f"the head {text} is out of range: the sentence has {how_many(lengths[t], 'token')}", *where)
    return heads


def check_trees(corpus: Dependencies, single_root: bool = True) -> None:
    """Raise DataError, with file and line, for a sentence whose heads do not form a tree."""
    from loglinear.data.dependency_checks import cycle_member

    heads, offsets, name = corpus.heads, corpus.offsets, corpus.file
    roots = np.add.reduceat((heads == 0).astype(np.int64), offsets[:-1])
    for s in np.flatnonzero(roots == 0)[:1].tolist():
        message = "no token of the sentence that begins here has the head 0: a tree has a root"
        raise DataError(message, name, int(corpus.lines[offsets[s]]))
    if single_root:
        for s in np.flatnonzero(roots > 1)[:1].tolist():
            second = int(offsets[s] + np.flatnonzero(heads[offsets[s] : offsets[s + 1]] == 0)[1])
            message = "a second root in the sentence: only one token may have the head 0"
            raise DataError(message, name, int(corpus.lines[second]))
    t = int(cycle_member(offsets, heads))
    if t >= 0:
        message = f"the heads form a cycle through {corpus.words.values[corpus.words.ids[t]]!r:.40}"
        raise DataError(f"{message}, so this is not a tree", name, int(corpus.lines[t]))


def conllu_text(rows: Iterable[Sequence[Any]], upos: Iterable[str] = repeat(NOTHING)) -> str:
    """A sentence as CoNLL-U, from rows of word, language-specific tag, head and relation, and universal tags."""
    lines = (
        f"{number}\t{word}\t_\t{universal}\t{tag}\t_\t{head}\t{relation}\t_\t_\n"
        for number, ((word, tag, head, relation), universal) in enumerate(zip(rows, upos, strict=False), 1)
    )
    return "".join(lines) + "\n"


def write_conllu(
    corpus: Dependencies, out: BinaryIO, heads: npt.ArrayLike | None = None, relations: Column | None = None
) -> None:
    """Write a corpus with new ``heads`` [N] and ``relations`` [N]; everything else stays unchanged.

    Without ``relations``, new heads get the relation ``root`` or ``_``.
    """
    from loglinear.data.columns.scanning import replaced

    if not corpus.raw:
        corpus = _with_text(corpus)
    if heads is None and relations is None:
        out.write(corpus.raw)
        return
    new = corpus.heads if heads is None else np.asarray(heads, dtype=np.int32)
    names = Column((new == 0).astype(np.int32), [NOTHING, ROOT]) if relations is None else relations
    if new.shape != (corpus.n_tokens,) or len(names) != corpus.n_tokens:
        given = f"{how_many(len(new), 'head')} and {how_many(len(names), 'relation')}"
        raise DataError(f"{given} for {how_many(corpus.n_tokens, 'token')}")
    n_heads = int(new.max()) + 1
    values = [str(head).encode() for head in range(n_heads)] + [value.encode() for value in names.values]
    ids = np.stack([new, names.ids + n_heads], axis=1).astype(np.int64).ravel()
    out.write(replaced(corpus.raw, corpus.places.reshape(-1, 2), ids, values))


def _with_text(corpus: Dependencies) -> Dependencies:
    """The corpus with a new text that holds only its tokens."""
    heads = [head if head >= 0 else NOTHING for head in corpus.heads.tolist()]
    rows = list(zip(corpus.words.strings(), corpus.xpos.strings(), heads, corpus.relations.strings(), strict=True))
    upos, sentences = corpus.upos.strings(), pairwise(corpus.offsets.tolist())
    text = "".join(conllu_text(rows[begin:end], upos[begin:end]) for begin, end in sentences)
    parsed = parse_conllu(text.encode(), corpus.file, trees=False)
    return replace(corpus, raw=parsed.raw, places=parsed.places)
