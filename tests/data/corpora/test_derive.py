"""Laws of the columns derived from trees: hand-written, generated, and, where present, other treebanks."""

from __future__ import annotations

import os
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.data.corpora.bundled import (
    SPLITS,
    TASKS,
    bundled_trees,
    chunk_tags,
    entity_tags,
    pos_tags,
    rows_text,
    task_rows,
    without_entities,
)
from loglinear.data.corpora.generator import generate_trees
from loglinear.data.trees.heads import ENTITY_TYPES, RELATIONS, dependencies, split_entity
from loglinear.data.trees.tree import Tree, parse_tree, read_trees
from loglinear.errors import OptionError

DATA = Path(os.environ.get("LOGLINEAR_DATA", Path(__file__).parents[3] / ".." / "shared" / "data"))
PHRASES = "S SBAR SBARQ SINV SQ NP NML NX VP PP ADJP ADVP PRT QP WHNP WHADVP WHADJP WHPP PRN INTJ CONJP UCP FRAG LST"
TAGS = "NN NNS NNP CD PRP EX DT JJ RB VB VBD VBN VBG TO MD IN CC POS , . `` '' -LRB- UH RP WP WRB $ ZZ"


@cache
def corpus(source: str) -> tuple[Tree, ...]:
    """Trees by source: a bundled split, generated ones, or a file under the data folder."""
    if source == "generated":
        return tuple(generate_trees(150, seed=3))
    if source.endswith(".mrg"):
        path = DATA / source
        return tuple(read_trees(path)[:150]) if path.exists() else ()
    return tuple(bundled_trees(source))


def random_trees() -> st.SearchStrategy[Tree]:
    """Any tree over the Penn labels, sensible or not."""
    marks = st.sampled_from(["", *(f"={kind}" for kind in ENTITY_TYPES)])
    tag = st.builds(lambda label, mark: label + mark, st.sampled_from(TAGS.split()), marks)
    phrase = st.builds(lambda label, mark: label + mark, st.sampled_from(PHRASES.split()), marks)
    word = st.sampled_from(["a", "dog", "is", "'s", "not", "year"])
    preterminal = st.builds(lambda label, text: Tree(label, word=text), tag, word)
    inner = st.recursive(
        preterminal, lambda kids: st.builds(Tree, phrase, st.lists(kids, min_size=1, max_size=5)), max_leaves=15
    )
    return st.builds(lambda kid: Tree("ROOT", [kid]), inner)


def assert_bio(tags: list[str]) -> None:
    """Every I- goes on a chunk of its own type."""
    for before, tag in zip(["O", *tags], tags, strict=False):
        assert tag == "O" or tag[:2] in {"B-", "I-"}
        if tag.startswith("I-"):
            assert before[2:] == tag[2:] and before != "O"


def assert_dependency_tree(tree: Tree) -> None:
    """One root, every word reaches it, no crossing arcs, names from the list."""
    heads, relations = dependencies(tree)
    assert len(heads) == len(relations) == len(tree.leaves())
    assert [relation == "root" for relation in relations] == [head == 0 for head in heads]
    assert heads.count(0) == 1
    assert set(relations) <= RELATIONS
    for word in range(1, len(heads) + 1):
        seen = set()
        while word:
            assert word not in seen
            seen.add(word)
            word = heads[word - 1]
    arcs = [tuple(sorted((head, word))) for word, head in enumerate(heads, 1)]
    assert not any(a < c < b < d for a, b in arcs for c, d in arcs)


def assert_laws(tree: Tree) -> None:
    words = tree.leaves()
    for task in TASKS:
        rows = task_rows(task)(tree)
        assert [row[0] for row in rows] == words
        assert [row[1] for row in rows] == pos_tags(tree)
    assert_bio(chunk_tags(tree))
    assert_bio(entity_tags(tree))
    assert_dependency_tree(tree)


@pytest.mark.parametrize(
    "source", [*SPLITS, "generated", "ptb/ptb.dev.mrg", "gum/gum.dev.mrg", "craft/craft15.dev.mrg"]
)
def test_columns_of_a_corpus_obey_the_laws(source: str) -> None:
    if not corpus(source):
        pytest.skip(f"no {source} under LOGLINEAR_DATA")
    for tree in corpus(source):
        assert_laws(tree)


@settings(max_examples=300, deadline=None)
@given(random_trees())
def test_columns_of_any_tree_obey_the_laws(tree: Tree) -> None:
    assert_laws(tree)


@given(random_trees())
def test_entities_are_the_outermost_marked_nodes(tree: Tree) -> None:
    marked: list[tuple[str, list[str]]] = []
    stack = [tree]
    while stack:
        node = stack.pop()
        kind = split_entity(node.label)[1]
        if kind:
            marked.append((kind, node.leaves()))
        else:
            stack.extend(reversed(node.children))
    found: list[tuple[str, list[str]]] = []
    for word, tag in zip(tree.leaves(), entity_tags(tree), strict=True):
        if tag.startswith("B-"):
            found.append((tag[2:], [word]))
        elif tag != "O":
            found[-1][1].append(word)
    assert found == marked


@given(random_trees())
def test_entity_marks_change_nothing_else(tree: Tree) -> None:
    plain = without_entities(tree)
    assert not any(split_entity(node.label)[1] for node in plain.nodes())
    assert plain.leaves() == tree.leaves()
    assert set(entity_tags(plain)) == {"O"}
    assert (pos_tags(plain), chunk_tags(plain)) == (pos_tags(tree), chunk_tags(tree))
    assert dependencies(plain) == dependencies(tree)


def chunked(text: str) -> str:
    """A tree's chunks in the notation ``[NP the dog] [VP ran] .``"""
    result = ""
    tree = parse_tree(text)
    for word, tag in zip(tree.leaves(), chunk_tags(tree), strict=True):
        if tag.startswith("I-"):
            result = f"{result[:-1]} {word}]"
        else:
            result += f" {word}" if tag == "O" else f" [{tag[2:]} {word}]"
    return result[1:]


@pytest.mark.parametrize(
    ("tree", "chunks"),
    [  # the rules that the CoNLL-2000 corpus shows
        (
            "(S (NP (DT the) (NN pound)) (VP (VBZ is) (ADVP (RB now)) (VP (VBN set) (S (VP (TO to) (VP (VB sink)))))))",
            "[NP the pound] [VP is now set to sink]",
        ),
        (
            "(NP (NP (DT the) (NN town) (POS 's)) (ADJP (RB very) (JJ old)) (NN bridge))",
            "[NP the town] [NP 's very old bridge]",
        ),
        ("(NP (NP (NP (DT the) (NN king)) (PP (IN of) (NP (NNP X))) (POS 's)) (NN hat))",
         "[NP the king] [PP of] [NP X] [NP 's hat]"),
        ("(S (NP (NN he)) (VP (VBZ is) (RB n't) (ADJP (JJ bad) (SBAR (IN if) (S (NP (PRP I)) (VP (VBP go)))))))",
         "[NP he] [VP is] n't [ADJP bad] [SBAR if] [NP I] [VP go]"),
        ("(SQ (VBD did) (NP (PRP he)) (VP (VB give) (PRT (RP up))))", "did [NP he] [VP give] [PRT up]"),
        ("(PP (IN because) (IN of) (NP (NP (NN rain)) (CC and) (NP (NN snow))))",
         "[PP because of] [NP rain] and [NP snow]"),
        ("(SBAR (RB even) (IN if) (S (NP (PRP he)) (VP (VP (VBD ate)) (CC and) (VP (VBD left)))))",
         "[SBAR even if] [NP he] [VP ate] and [VP left]"),
        ("(VP (VB buy) (CC and) (VB sell) (NP (QP (JJR more) (IN than) (CD two)) (NNS cars)))",
         "[VP buy and sell] [NP more than two cars]"),
        ("(S (NP (PRP he)) (VP (VBD left) (ADVP (NP (CD two) (NNS years)) (RB ago))))",
         "[NP he] [VP left] [NP two years] [ADVP ago]"),
        ("(S (NP (PRP he)) (VP (VBD ran) (, ,) (S (VP (VBG hoping) (S (VP (TO to) (VP (VB win))))))))",
         "[NP he] [VP ran] , [VP hoping to win]"),
        ("(NP (NP (NN someone)) (ADJP (JJ else)))", "[NP someone] [ADJP else]"),
        ("(NP (DT the) (ADJP (RBS most) (JJ famous)))", "[NP the most famous]"),
        ("(NP (NP (NN tea)) (, ,) (CONJP (RB as) (RB well) (IN as)) (NP (NN milk)))",
         "[NP tea] , [CONJP as well as] [NP milk]"),
    ],
)  # fmt: skip
def test_chunks_follow_the_rules_of_the_shared_task(tree: str, chunks: str) -> None:
    assert chunked(tree) == chunks


def test_heads_and_relations_of_an_example() -> None:
    tree = parse_tree(
        "(ROOT (S (NP (DT The) (NN dog)) (VP (MD will) (VP (VB chase) (NP (DT a) (NN cat)) "
        "(PP (IN in) (NP (NN rain))))) (. .)))"
    )
    heads, relations = dependencies(tree)
    assert heads == [2, 3, 0, 3, 6, 4, 4, 7, 3]
    assert relations == ["nmod", "sbj", "root", "vc", "nmod", "obj", "vmod", "pmod", "punct"]


def test_an_unknown_task_is_an_error_that_lists_the_tasks() -> None:
    with pytest.raises(OptionError, match="pos, chunk, ner, dependency"):
        task_rows("parsing")


def test_column_text_has_a_line_a_token() -> None:
    rows = [task_rows("chunk")(tree) for tree in corpus("dev")]
    blocks = rows_text(rows).split("\n\n")
    assert blocks.pop() == ""
    assert [[tuple(line.split(" ")) for line in block.split("\n")] for block in blocks] == rows


def test_chunk_shares_are_those_of_the_shared_task() -> None:
    ptb, conll = DATA / "ptb" / "ptb.train.mrg", DATA / "conll2000" / "train.txt"
    if not (ptb.exists() and conll.exists()):
        pytest.skip("no ptb and conll2000 under LOGLINEAR_DATA")
    mine = Counter(tag for tree in read_trees(ptb) for tag in chunk_tags(tree))
    theirs = Counter(line.split()[2] for line in conll.read_text(encoding="utf-8").splitlines() if line.strip())
    for tag in theirs:
        assert abs(mine[tag] / mine.total() - theirs[tag] / theirs.total()) < 0.005, tag
