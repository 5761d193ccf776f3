r"""CoNLL-U: sentences with dependency trees, read into numbers and written back with new heads.

::

    # sent_id = 1                                          a comment, kept
    1-2  don't  _    _     _    _  _  _       _       _    a multiword token: no token of the tree, kept
    1    do     do   AUX   VBP  _  3  aux     _       _    ID FORM LEMMA UPOS XPOS FEATS HEAD DEPREL DEPS MISC
    2    n't    not  PART  RB   _  3  advmod  _       _
    3    go     go   VERB  VB   _  0  root    _       _
    3.1  go     go   VERB  VB   _  _  _       3:conj  _    an empty node: no token of the tree, kept

Fields stand between tabs; a blank line ends a sentence (https://universaldependencies.org/format.html). A tree has
one head for each token, 0 for the root, and no cycle. Letters: S sentences, N tokens in all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from loglinear.arrays import Int32, Int64
from loglinear.data.columns.corpus import PYTHON, Column, offsets_of, ranges
from loglinear.data.files import Source, check_text, read_bytes, source_name
from loglinear.errors import DataError

if TYPE_CHECKING:
    from loglinear.data.columns.scanning import Lines


N_FIELDS = 10
ID, FORM, LEMMA, UPOS, XPOS, FEATS, HEAD, DEPREL = range(8)
NOTHING, ROOT = "_", "root"  # no value; the relation of a root
MOST_TOKENS = 100_000  # of a sentence; a number beyond it is a mistake


@dataclass(eq=False)
class Dependencies:
    """Sentences of words with tags and, where they are known, heads and relations.

    Attributes
    ----------
    words, upos, xpos, relations : Column
        N strings each; ``_`` where the file has none.
    heads : int32 [N]
        The head of each token within its sentence: 0 the root, 1 the first token; -1 not known.
    offsets : int64 [S + 1]
        Where the sentences begin.
    file : str
        Name of the source for messages.
    lines : int64 [N]
        Line, from 1, of each token.
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
    def n_sentences(self) -> int:
        """S."""
        return len(self.offsets) - 1

    @property
    def n_tokens(self) -> int:
        """N."""
        return int(self.offsets[-1])

    def __len__(self) -> int:
        return self.n_sentences

    @property
    def has_relations(self) -> bool:
        """Whether the arcs are labelled: whether any but those from the root have a relation."""
        used = np.unique(self.relations.ids[self.heads != 0])
        return any(self.relations.values[r] != NOTHING for r in used.tolist())

    def tags(self, which: str = "auto") -> Column:
        """The column of tags: ``xpos``, ``upos``, or the first of both that the text has (``auto``)."""
        if which == "auto":
            which = "xpos" if any(self.xpos.values[i] != NOTHING for i in np.unique(self.xpos.ids)) else "upos"
        return self.xpos if which == "xpos" else self.upos

    def select(self, sentences: npt.ArrayLike) -> Dependencies:
        """Some sentences (numbers from 0), which are written without comments, multiword tokens and empty nodes."""
        chosen = np.asarray(sentences, dtype=np.int64)
        lengths = np.diff(self.offsets)[chosen]
        tokens = ranges(self.offsets[:-1][chosen], lengths)
        words, upos, xpos, relations = (
            Column(column.ids[tokens], column.values) for column in (self.words, self.upos, self.xpos, self.relations)
        )
        return Dependencies(
            words, upos, xpos, self.heads[tokens], relations, offsets_of(lengths), self.file, self.lines[tokens], b"",
            self.places[tokens],
        )  # fmt: skip

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
            Whether a tree with several roots is refused.
        """
        if isinstance(sentences, Dependencies):
            return sentences
        sentences = list(sentences)
        trees: list[Any] = [None] * len(sentences) if heads is None else list(heads)
        if len(trees) != len(sentences):
            raise DataError(f"{len(sentences)} sentences, but {len(trees)} trees")
        lines: list[str] = []
        for number, (sentence, tree) in enumerate(zip(sentences, trees, strict=True)):
            if not len(sentence):
                raise DataError(f"sentence {number} (from 0) has no tokens; leave it out")
            if tree is not None and len(tree) != len(sentence):
                raise DataError(f"sentence {number} (from 0) has {len(sentence)} tokens, but {len(tree)} heads")
            for t, token in enumerate(sentence):
                word, tag = _word_and_tag(token, number)
                arc = (NOTHING, NOTHING) if tree is None else tree[t]
                head, relation = _head_and_relation(arc, number)
                lines.append(f"{t + 1}\t{word}\t_\t_\t{tag}\t_\t{head}\t{relation}\t_\t_\n")
            lines.append("\n")
        text = "".join(lines)
        try:
            raw = text.encode()
        except UnicodeEncodeError as error:
            number = text.count("\n\n", 0, error.start)
            message = f"sentence {number} (from 0): {text[error.start]!r} is half a character, and cannot be UTF-8"
            raise DataError(message) from None
        return parse_conllu(raw, PYTHON, trees=heads is not None, single_root=single_root)


def _word_and_tag(token: Any, sentence: int) -> tuple[str, str]:
    fits = isinstance(token, tuple | list) and len(token) == 2 and all(isinstance(each, str) for each in token)
    if not fits or any(not each.strip() or "\t" in each or "\n" in each for each in token):
        raise DataError(
            f"sentence {sentence} (from 0): a token is a pair of strings without tabs and line feeds, (word, tag), not "
            f"{token!r:.80}"
        )
    return token[0], token[1]


def _head_and_relation(arc: Any, sentence: int) -> tuple[Any, str]:
    """Head and relation of a token, ``_`` if the relation is None or not given."""
    if not isinstance(arc, tuple | list):
        return arc, NOTHING
    relation = arc[1] if len(arc) == 2 else arc
    if relation is None:
        return arc[0], NOTHING
    if not isinstance(relation, str) or not relation.strip() or "\t" in relation or "\n" in relation:
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
        Whether each sentence must have its tree; without, heads and relations are not looked at.
    single_root : bool
        Whether a tree with several tokens below the root is refused.

    Raises
    ------
    DataError
        With file and line: a row that has not 10 fields, tokens that are not numbered 1, 2, ..., a head that is no
        number or out of range, no root, several roots, a cycle; invalid UTF-8, a NUL byte, no sentence at all.
    """
    return parse_conllu(read_bytes(source), source_name(source), trees, single_root)


def parse_conllu(raw: bytes, name: str, trees: bool = True, single_root: bool = True) -> Dependencies:
    """The same from the bytes of a text; ``name`` is for messages."""
    from loglinear.data.columns.scanning import TAB, lines_of

    lines = lines_of(raw, check_text(raw, name), TAB)
    is_row = (lines.counts > 0) & ~lines.begin_with(b"#")
    rows = np.flatnonzero(is_row)
    _check_rows(lines, rows, name)
    if not len(rows):
        raise DataError("no sentence in the file", name)
    begins, finishes = (each.reshape(-1, N_FIELDS) for each in lines.fields(rows))
    numbers = lines.column(begins[:, ID], finishes[:, ID])
    kinds = np.array([_token_number(text) for text in numbers.values], dtype=np.int32)[numbers.ids]
    for row in np.flatnonzero(kinds < 0)[:1].tolist():
        text = numbers.values[numbers.ids[row]]
        raise DataError(f"{text!r:.40} is not a token number (such as 3, 3-4 or 3.1)", name, int(rows[row]) + 1)
    ends = np.cumsum(lines.counts == 0)  # blank lines so far: rows with the same number stand together
    is_token = kinds > 0
    tokens, kinds = rows[is_token], kinds[is_token]
    begins, finishes = begins[is_token], finishes[is_token]
    block = ends[tokens]
    starts = np.flatnonzero(np.concatenate([[True], block[1:] != block[:-1]])) if len(tokens) else np.zeros(0, np.int64)
    offsets = np.concatenate([starts, [len(tokens)]]).astype(np.int64)
    lengths = np.diff(offsets)
    expected = np.arange(len(tokens)) - np.repeat(offsets[:-1], lengths) + 1
    for t in np.flatnonzero(kinds != expected)[:1].tolist():
        message = f"token {kinds[t]} stands where token {expected[t]} should: tokens are numbered 1, 2, ..."
        raise DataError(message, name, int(tokens[t]) + 1)
    for row in np.flatnonzero(~np.isin(ends[rows], block))[:1].tolist():
        raise DataError("a sentence without tokens", name, int(rows[row]) + 1)
    columns = [lines.column(begins[:, c], finishes[:, c]) for c in (FORM, UPOS, XPOS, HEAD, DEPREL)]
    heads = np.full(len(tokens), -1, dtype=np.int32)
    if trees:
        heads = _heads(columns[3], np.repeat(lengths, lengths), tokens, name)
    places = np.stack([begins[:, [HEAD, DEPREL]], finishes[:, [HEAD, DEPREL]]], axis=2)
    corpus = Dependencies(columns[0], columns[1], columns[2], heads, columns[4], offsets, name, tokens + 1, raw, places)
    if trees:
        check_trees(corpus, single_root)
    return corpus


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
    if text.isascii() and text.isdigit():
        number = int(text[:9])
        return number if 0 < number <= MOST_TOKENS and len(text) < 9 else -1
    for mark in "-.":
        first, found, second = text.partition(mark)
        if found:
            return 0 if all(part.isascii() and part.isdigit() for part in (first, second)) else -1
    return -1


def _heads(column: Column, lengths: Int64, rows: Int64, name: str) -> Int32:
    """Heads [N] as numbers, each within its sentence of ``lengths`` [N] tokens."""
    known = [int(text[:9]) if text.isascii() and text.isdigit() and len(text) < 9 else -1 for text in column.values]
    heads = np.array(known, dtype=np.int32)[column.ids]
    for t in np.flatnonzero((heads < 0) | (heads > lengths))[:1].tolist():
        text, where = column.values[column.ids[t]], (name, int(rows[t]) + 1)
        if text == NOTHING:
            raise DataError("a token without a head; a tree needs one for each (0 is the root)", *where)
        if heads[t] < 0:
            raise DataError(f"the head {text!r:.40} is not a number", *where)
        raise DataError(f"the head {text} is out of range: the sentence has {lengths[t]} tokens", *where)
    return heads


def check_trees(corpus: Dependencies, single_root: bool = True) -> None:
    """Refuse sentences whose heads make no tree, with file and line."""
    from loglinear.data.dependency_checks import cycle_member

    heads, offsets, name = corpus.heads, corpus.offsets, corpus.file
    roots = np.add.reduceat((heads == 0).astype(np.int64), offsets[:-1])
    for s in np.flatnonzero(roots == 0)[:1].tolist():
        message = "no token of the sentence that begins here has the head 0: a tree has a root"
        raise DataError(message, name, int(corpus.lines[offsets[s]]))
    if single_root:
        for s in np.flatnonzero(roots > 1)[:1].tolist():
            second = int(offsets[s] + np.flatnonzero(heads[offsets[s] : offsets[s + 1]] == 0)[1])
            raise DataError(
                "a second root in the sentence: only one token may have the head 0", name, int(corpus.lines[second])
            )
    t = int(cycle_member(offsets, heads))
    if t >= 0:
        word = corpus.words.values[corpus.words.ids[t]]
        raise DataError(
            f"the heads form a cycle through {word!r:.40}, so this is not a tree", name, int(corpus.lines[t])
        )


def conllu_text(rows: Iterable[Sequence[str]]) -> str:
    """A sentence's rows of word, tag, head and relation as CoNLL-U."""
    lines = (
        f"{number}\t{word}\t_\t_\t{tag}\t_\t{head}\t{relation}\t_\t_\n"
        for number, (word, tag, head, relation) in enumerate(rows, 1)
    )
    return "".join(lines) + "\n"


def write_conllu(
    corpus: Dependencies, out: BinaryIO, heads: npt.ArrayLike | None = None, relations: Column | None = None
) -> None:
    """Write a corpus with new ``heads`` [N] and ``relations`` [N]; everything else stays as it was.

    Where no relations are given, heads come with the relation ``root`` or ``_``.
    """
    from loglinear.data.dependency_checks import replaced

    if not corpus.raw:
        corpus = _with_text(corpus)
    if heads is None and relations is None:
        out.write(corpus.raw)
        return
    new = corpus.heads if heads is None else np.asarray(heads, dtype=np.int32)
    names = Column((new == 0).astype(np.int32), [NOTHING, ROOT]) if relations is None else relations
    if new.shape != (corpus.n_tokens,) or len(names) != corpus.n_tokens:
        raise DataError(f"{len(new)} heads and {len(names)} relations for {corpus.n_tokens} tokens")
    n_heads = int(new.max()) + 1
    values = [str(head).encode() for head in range(n_heads)] + [value.encode() for value in names.values]
    ids = np.stack([new, names.ids + n_heads], axis=1).astype(np.int64).ravel()
    places = np.ascontiguousarray(corpus.places.reshape(-1, 2))
    out.write(replaced(corpus.raw, places, ids, values))


def _with_text(corpus: Dependencies) -> Dependencies:
    """The corpus with a text of its own, of tokens alone."""
    within = np.arange(corpus.n_tokens) - np.repeat(corpus.offsets[:-1], np.diff(corpus.offsets)) + 1
    last = np.zeros(corpus.n_tokens, dtype=bool)
    last[corpus.offsets[1:] - 1] = True
    heads = [str(head) if head >= 0 else NOTHING for head in corpus.heads.tolist()]
    columns = (corpus.words.strings(), corpus.upos.strings(), corpus.xpos.strings(), heads, corpus.relations.strings())
    text = "".join(
        f"{number}\t{word}\t_\t{upos}\t{xpos}\t_\t{head}\t{relation}\t_\t_\n" + "\n" * end
        for number, end, word, upos, xpos, head, relation in zip(within.tolist(), last.tolist(), *columns, strict=True)
    )
    again = parse_conllu(text.encode(), corpus.file, trees=False)
    return replace(corpus, raw=again.raw, places=again.places)
