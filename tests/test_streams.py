"""What steers a terminal is shown; streams that are closed, full or of few characters do not stop a program."""

import io
import json
import sys

import pytest

from loglinear.data import atomic_output
from loglinear.streams import TerminalBytes, standard_streams, visible

HOSTILE = "a\x1b[31m\x07\x9b2J\u202eb\u2066\udcff\x7f\r"


def test_what_steers_a_terminal_is_shown_and_nothing_else_changes():
    assert visible(HOSTILE) == r"a\u001b[31m\u0007\u009b2J\u202eb\u2066\udcff\u007f\u000d"
    plain = "naïve\t\u05e9\u05dc\u05d5\u05dd 日本\n🙂 [red]:smile:"
    assert visible(plain) == plain
    assert json.loads(visible(json.dumps({"label": HOSTILE}, ensure_ascii=False))) == {"label": HOSTILE}


def test_bytes_are_shown_however_they_are_cut():
    for cut in range(len("é\x1b🙂".encode()) + 1):
        out, data = io.BytesIO(), "é\x1b🙂".encode()
        terminal = TerminalBytes(out)
        terminal.write(data[:cut])
        terminal.write(data[cut:])
        assert out.getvalue().decode() == r"é\u001b🙂"


@pytest.mark.parametrize("terminal", [True, False])
def test_data_are_written_as_they_are_but_to_a_terminal(monkeypatch, tmp_path, terminal):
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw)
    monkeypatch.setattr(out, "isatty", lambda: terminal, raising=False)
    monkeypatch.setattr(sys, "stdout", out)
    for place in ("-", tmp_path / "file"):
        with atomic_output(place) as stream:
            stream.write(b"\x1b[2J\n")
    assert raw.getvalue() == (rb"\u001b[2J" if terminal else b"\x1b[2J") + b"\n"
    assert (tmp_path / "file").read_bytes() == b"\x1b[2J\n"


def test_characters_that_an_encoding_does_not_have_are_escaped(monkeypatch):
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    with standard_streams():
        print(json.dumps("ä🙂", ensure_ascii=False), flush=True)
    assert json.loads(raw.getvalue()) == "ä🙂"


def test_closed_streams(monkeypatch):
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    with standard_streams():
        print("lost", file=sys.stderr, flush=True)
        with pytest.raises(OSError, match="closed"):
            print("not lost quietly", flush=True)
        with pytest.raises(OSError, match="closed"):
            sys.stdin.buffer.read(1)
    assert sys.stdin is sys.stdout is sys.stderr is None


def test_messages_that_cannot_be_written_are_lost(monkeypatch):
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys, "stderr", Full())
    with standard_streams():
        print("lost", file=sys.stderr, flush=True)
