"""Tables: what is written is read back, and what is wrong is named with its line."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loglinear.data.tables import read_table, write_table
from loglinear.errors import DataError, LoglinearError, OptionError

text = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=12)


def as_file(content: str | bytes, name: str = "data.csv") -> io.BytesIO:
    source = io.BytesIO(content if isinstance(content, bytes) else content.encode())
    source.name = name
    return source


@settings(deadline=None)
@given(st.lists(st.tuples(text, text), min_size=1), st.sampled_from(["csv", "jsonl"]))
def test_what_is_written_is_read_back(rows, form):
    rows = [(first or "x", second) for first, second in rows]
    columns = {"one": [row[0] for row in rows], "two": [row[1] for row in rows]}
    out = io.BytesIO()
    write_table(columns, out, form)
    assert read_table(as_file(out.getvalue()), form).columns == columns


def test_the_formats_go_by_the_name_and_gzip_is_unpacked(tmp_path):
    for name, content in {
        "a.csv": 'x,y\n1,"a, b"\n',
        "a.tsv": "x\ty\n1\ta, b\n",
        "a.jsonl": '{"x": 1, "y": "a, b"}\n',
    }.items():
        (tmp_path / name).write_text(content)
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(content.encode()))
        for path in (tmp_path / name, tmp_path / f"{name}.gz"):
            assert read_table(path).columns == {"x": ["1"], "y": ["a, b"]}


def test_a_quoted_cell_may_hold_line_ends_and_lines_are_those_of_the_rows():
    table = read_table(as_file('x,y\n1,"a\nb"\n\n2,c\n'))
    assert (table.columns, table.lines) == ({"x": ["1", "2"], "y": ["a\nb", "c"]}, [2, 5])


def test_json_values_are_cells():
    table = read_table(as_file('{"a": null, "b": 1.5}\n\n{"a": "x", "c": true}\n'), "jsonl")
    assert table.columns == {"a": ["", "x"], "b": ["1.5", ""], "c": ["", "true"]}
    assert table.lines == [1, 3]


def test_cells_may_be_long():
    limit = csv.field_size_limit()
    assert len(read_table(as_file("x\n" + "a" * 300_000)).columns["x"][0]) == 300_000
    assert csv.field_size_limit() == limit


def test_columns_of_numbers():
    table = read_table(as_file("x,y\n1, 2.5\n-3e2,\n"))
    assert table.numbers(["x"]).tolist() == [[1.0], [-300.0]]
    assert table.numbers(["x", "y"], empty=0.0).tolist() == [[1.0, 2.5], [-300.0, 0.0]]
    with pytest.raises(DataError, match=r"data.csv:3: column 'y' is empty, not a number"):
        table.numbers(["y"])
    with pytest.raises(DataError, match=r"no column 'z'; there are: x, y"):
        table.numbers(["z"])
    for cell in ("nan", "inf", "1_0", "abc", "1e300"):
        with pytest.raises(DataError, match=f"data.csv:2: column 'x' is '{cell}', not a number"):
            read_table(as_file(f"x\n{cell}\n")).numbers(["x"])


@pytest.mark.parametrize(
    ("content", "form", "message"),
    [
        ("", "csv", "no rows"),
        ("x,y\n", "csv", "no rows"),
        ("x,x\n1,2\n", "csv", r":1: two columns are called 'x'"),
        ("x,\n1,2\n", "csv", r":1: column 2 has no name"),
        ("x,y\n1,2\n\n1\n", "csv", r":4: 1 cell under 2 columns"),
        ('x,y\n1,"2\n', "csv", r":2: no valid CSV"),
        ('x,y\n1,"2"3\n', "csv", r":2: no valid CSV"),
        ("[1]\n", "jsonl", r":1: a line must be an object"),
        ('{"a": 1}\n{"a": \n', "jsonl", r":2: no valid JSON"),
        ('{"a": "\\ud800"}\n', "jsonl", r":1: 'a' holds half of a character"),
        ('{"a": [1]}\n', "jsonl", r":1: 'a' is a list"),
        (b"x,y\n1,\xff\n", "csv", r":2: invalid UTF-8"),
        (b"x,y\n1,\x00\n", "csv", r":2: a NUL byte"),
    ],
)
def test_bad_tables_are_refused_with_their_line(content, form, message):
    with pytest.raises(DataError, match=message) as caught:
        read_table(as_file(content), form)
    assert "data.csv" in str(caught.value)


def test_an_unknown_format_is_refused():
    with pytest.raises(OptionError, match="format is 'xls'"):
        read_table(as_file("x\n1\n"), "xls")


def test_any_bytes_are_a_table_or_an_error():
    rng = random.Random(0)
    pool = 'ab1,"\n\t{}:[]\\ué\0\r'.encode()
    for _ in range(500):
        content = bytes(rng.choice(pool) for _ in range(rng.randrange(40)))
        for form in ("csv", "tsv", "jsonl"):
            try:
                table = read_table(as_file(content), form)
            except LoglinearError:
                continue
            assert all(len(cells) == table.n_rows for cells in table.columns.values())


def test_tabs_in_cells_do_not_break_rows():
    out = io.BytesIO()
    write_table({"a": ["x\ty\nz"], "b": [0.123456789]}, out, "tsv")
    assert out.getvalue() == b"a\tb\nx y z\t0.123457\n"
    out = io.BytesIO()
    write_table({"a": [0.123456789]}, out, "jsonl")
    assert json.loads(out.getvalue()) == {"a": 0.123456789}
