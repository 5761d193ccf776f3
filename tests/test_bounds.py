"""What would fill memory is refused with the figure and the way to allow it, before any of it is allocated."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import numpy as np
import pytest

from loglinear import Tagger, system
from loglinear.cli.common import read_constraints
from loglinear.criteria.costs import make_cost
from loglinear.data import read_columns
from loglinear.data.files import byte_blocks, read_bytes
from loglinear.data.tables import read_table
from loglinear.data.trees.transforms import binarise, restore
from loglinear.data.trees.tree import parse_tree
from loglinear.documents import DEEPEST, parsed_json
from loglinear.errors import DataError, OptionError
from loglinear.experiments.store import read_results
from loglinear.structures.chain.structure import Chain, ChainScores
from loglinear.structures.structure import best_sizes
from problems.limits import limited

# -- memory --------------------------------------------------------------------------------------------------------


SIZES = {
    "7": 7, "7B": 7, "3k": 3000, "2M": 2 * 10**6, "5G": 5 * 10**9, "2GB": 2 * 10**9, "2 GB": 2 * 10**9, "2g": 2 * 10**9,
    "1.5G": 1_500_000_000, "2e9": 2 * 10**9, "2GiB": 2**31, "0.5Ki": 512, " 1T ": 10**12,
}  # fmt: skip


@pytest.mark.parametrize(("given", "n_bytes"), SIZES.items())
def test_memory_is_what_the_user_says(monkeypatch: pytest.MonkeyPatch, given: str, n_bytes: int) -> None:
    monkeypatch.setenv("LOGLINEAR_MEMORY", given)
    assert system.memory() == n_bytes


@pytest.mark.parametrize("given", ["a lot", "-1", "1.G", ".5G", "1 0", "2PB", "1e999", "nan", "G", "9" * 30])
def test_memory_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("LOGLINEAR_MEMORY", given)
    with pytest.raises(OptionError, match="must be a number of bytes"):
        system.memory()


def test_memory_is_at_most_what_the_process_may_have() -> None:
    code = "from loglinear.system import memory; print(memory(), resource.getrlimit(resource.RLIMIT_AS)[0])"
    found, limit = limited(code).split()
    assert int(found) <= int(limit)


def test_what_does_not_fit_says_how_much_it_is_and_how_to_allow_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGLINEAR_MEMORY", "1G")
    system.check_memory(1e9, "this")
    with pytest.raises(OptionError, match=r"this needs about 3 GB .* may use 1 GB .*LOGLINEAR_MEMORY=3G\); use less"):
        system.check_memory(3e9, "this", "use less")


# -- files ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bomb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gzip file of 600 MB of blanks."""
    path = tmp_path_factory.mktemp("bomb") / "blanks.txt.gz"
    member = gzip.compress(bytes([32]) * 10**7, 9, mtime=0)
    path.write_bytes(member * 60)
    return path


@pytest.mark.parametrize(
    "reading",
    [
        "read_columns(path)", "read_jsonl(path)", "read_text(path)", "read_table(path)", "read_trees(path)",
        "read_conllu(path)",
    ],
)  # fmt: skip
def test_a_gzip_file_that_unpacks_to_far_too_much_is_refused(bomb: Path, reading: str) -> None:
    imports = """
from loglinear.data import read_columns, read_jsonl, read_text
from loglinear.data.tables import read_table
from loglinear.data.trees.transforms import binarise, restore
from loglinear.data.trees.tree import parse_tree
from loglinear.data.trees.tree import read_trees
from loglinear.data.dependencies import read_conllu
from loglinear.errors import DataError
"""
    code = f"path = {str(bomb)!r}\ntry:\n    {reading}\nexcept DataError as error:\n    print(error)"
    message = limited(code, imports=imports, megabytes=250, seconds=60)
    assert "unpack to more than" in message and "set LOGLINEAR_UNPACK_RATIO" in message


def test_the_ratio_can_be_raised_and_must_be_a_number(bomb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGLINEAR_UNPACK_RATIO", "2000")
    assert sum(map(len, byte_blocks(bomb, 1 << 20))) == 6 * 10**8
    for bad in ("0.5", "many", "-1", "9" * 20):
        monkeypatch.setenv("LOGLINEAR_UNPACK_RATIO", bad)
        with pytest.raises(OptionError, match="LOGLINEAR_UNPACK_RATIO"):
            read_bytes(bomb)


def test_packed_files_and_pipes_are_read_whole(tmp_path: Path) -> None:
    content = np.random.default_rng(1).bytes(9_000_000)
    (tmp_path / "a").write_bytes(content)
    (tmp_path / "a.gz").write_bytes(gzip.compress(content, 1))
    assert read_bytes(tmp_path / "a") == read_bytes(tmp_path / "a.gz") == content


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="needs /dev/zero")
def test_a_file_without_end_and_a_line_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGLINEAR_MEMORY", "120M")
    with pytest.raises(DataError, match="reading it needs about"):
        read_bytes("/dev/zero")
    with pytest.raises(DataError, match="a line of more than"):
        read_columns("/dev/zero")


# -- JSON ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [DEEPEST + 1, 900, 100_000])
@pytest.mark.parametrize("text", ["[{}]", '{{"a": {}}}'])
def test_json_that_is_too_deep_is_a_clear_error_everywhere(tmp_path: Path, depth: int, text: str) -> None:
    begin, end = text.split("{}") if text == "[{}]" else ('{"a": ', "}")
    deep = begin * depth + "1" + end * depth
    assert parsed_json(begin * DEEPEST + "1" + end * DEEPEST) is not None
    with pytest.raises(ValueError, match="more than 100 levels"):
        parsed_json(deep)
    path = tmp_path / "deep.json"
    path.write_text('{"x": ' + deep + "}")
    with pytest.raises(OptionError, match="not valid JSON: lists and objects inside one another"):
        make_cost(str(path), ["a", "b"], np.ones(2))
    with pytest.raises(OptionError, match="not valid JSON: lists and objects inside one another"):
        read_constraints(str(path))
    with pytest.raises(DataError, match="no results"):
        read_results(path, "tune")
    (tmp_path / "deep.jsonl").write_text('{"x": ' + deep + "}\n")
    with pytest.raises(DataError, match="no valid JSON: lists and objects inside one another"):
        read_table(tmp_path / "deep.jsonl")


# -- labels, orders and lists ----------------------------------------------------------------------------------------


def _corpus(path: Path, n_labels: int) -> Path:
    path.write_text("".join(f"w L{y}\n{'' if y % 50 else chr(10)}" for y in range(n_labels)))
    return path


@pytest.mark.parametrize(("order", "n_labels"), [(2, 400), (3, 70)])
def test_an_order_with_too_many_labels_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: int, n_labels: int
) -> None:
    monkeypatch.setenv("LOGLINEAR_MEMORY", "1G")
    corpus = read_columns(_corpus(tmp_path / "a.txt", n_labels))
    with pytest.raises(OptionError, match=rf"order={order} with {n_labels} labels needs about .* GB of memory"):
        Tagger(template="words", order=order).fit(corpus)


def test_sixty_thousand_labels_are_refused_at_once(tmp_path: Path) -> None:
    path = _corpus(tmp_path / "a.txt", 60_000)
    code = f"""
try:
    Tagger(template="words").fit(read_columns({str(path)!r}))
except DataError as error:
    print(error)
"""
    imports = """
from loglinear import Tagger
from loglinear.data import read_columns
from loglinear.errors import DataError
import loglinear.estimators.tagger.problem
"""
    assert "60,000 labels are too many" in limited(code, imports=imports, megabytes=300)


def test_a_list_of_a_billion_labellings_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGLINEAR_MEMORY", "2G")
    scores = ChainScores(np.zeros((40, 3)), np.zeros((3, 3)), np.zeros(3), np.zeros(3))
    with pytest.raises(OptionError, match=r"k = 1,000,000,000: finding so many best labellings needs about .* GB"):
        Chain([0, 40]).k_best(scores, 10**9)
    short = ChainScores(np.zeros((2, 3)), np.zeros((3, 3)), np.zeros(3), np.zeros(3))
    assert len(Chain([0, 2]).k_best(short, 10**9)[0][1]) == 9  # there are no more


@pytest.mark.parametrize("n_choices", [2, 3, 10])
@pytest.mark.parametrize("k", [1, 2, 8, 9, 100])
def test_there_is_room_for_all_labellings_but_no_more_than_k(n_choices: int, k: int) -> None:
    lengths = np.arange(1, 9)
    assert best_sizes(lengths, k, n_choices) == [min(k, n_choices**n) for n in lengths.tolist()]


def test_constraints_in_a_file_are_read(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(json.dumps({"scheme": "bio"}))
    assert read_constraints(str(tmp_path / "c.json")) == {"scheme": "bio"}


# -- wide files ------------------------------------------------------------------------------------------------------


def test_a_phrase_of_many_children_is_binarised_in_linear_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = parse_tree("(S " + "(N a)" * 20_000 + ")")
    for factor in ("head", "right", "left"):
        begin = time.process_time()
        assert restore(binarise(tree, horizontal=1, factor=factor)) == tree
        assert time.process_time() - begin < 10.0
        with pytest.raises(DataError, match=r"of 20,000 children; .* choose how many, as in horizontal=2"):
            binarise(tree, factor=factor)


def test_thousands_of_columns_take_little_memory_each(tmp_path: Path) -> None:
    path = tmp_path / "wide.txt"
    path.write_text((" ".join(f"v{c % 7}" for c in range(20_000)) + "\n") * 2)
    code = f"corpus = read_columns({str(path)!r}); print(corpus.n_columns, corpus.n_tokens)"
    imports = "from loglinear.data import read_columns\nfrom loglinear.data.columns import scanning\nimport numba"
    assert limited(code, imports=imports, megabytes=150).split() == ["20000", "2"]
