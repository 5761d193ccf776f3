"""Public corpora: fetched through a server on this machine, checked, and nothing kept that is not right."""

import hashlib
import http.server
import io
import threading
import zipfile

import pytest

from loglinear.data.corpora import download
from loglinear.data.corpora.download import PublicCorpus
from loglinear.errors import DataError, OptionError
from loglinear.system import cache_folder, cache_warning

TEXT = b"dog NN B-NP\n\n"


def archive(**files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed:
        for name, content in files.items():
            packed.writestr(f"corpus/{name}", content)
    return out.getvalue()


@pytest.fixture
def served(network_allowed):
    """Bytes by path, served by HTTP; ``served.url`` is where."""

    class Content(dict):
        url = ""
        asked = 0

    content = Content()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            content.asked += 1
            body = content.get(self.path)
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_):
            return

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    content.url = f"http://127.0.0.1:{server.server_port}"
    yield content
    server.shutdown()
    server.server_close()


@pytest.fixture
def registry(monkeypatch, tmp_path, served):
    """A registry of one corpus, and a cache of its own."""
    monkeypatch.setenv("LOGLINEAR_CACHE", str(tmp_path / "cache"))
    cache_folder.cache_clear()
    files = {"train": hashlib.sha256(TEXT).hexdigest(), "more": ""}
    corpora = {"tiny": PublicCorpus("tiny", "free", f"{served.url}/tiny.zip", files)}
    monkeypatch.setattr(download, "PUBLIC", corpora)
    yield corpora
    cache_folder.cache_clear()


def left_in(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_files_are_fetched_once_and_unpacked_into_the_cache(registry, served):
    served["/tiny.zip"] = archive(train=TEXT, more=b"x", unwanted=b"y")
    assert download.folder_of("tiny") is None
    folder = download.get("tiny")
    assert left_in(download.corpora_cache()) == ["more", "train"] and (folder / "train").read_bytes() == TEXT
    assert download.folder_of("tiny") == folder
    assert download.get("tiny") == folder and served.asked == 1
    assert download.get("tiny", again=True) == folder and served.asked == 2


def test_a_folder_with_a_file_missing_is_fetched_anew(registry, served):
    served["/tiny.zip"] = archive(train=TEXT, more=b"x")
    folder = download.get("tiny")
    (folder / "more").unlink()
    (folder / "notes").write_text("mine")
    assert left_in(download.get("tiny")) == ["more", "notes", "train"]
    (folder / "more").unlink()
    (folder / "train").write_bytes(b"mine")
    with pytest.raises(DataError, match="not the right content"):
        download.get("tiny")
    assert (folder / "train").read_bytes() == b"mine"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (archive(train=TEXT + b"changed", more=b"x"), "train is not the file that was expected"),
        (archive(train=TEXT), "no file more"),
        (b"<html>not found</html>", "not a zip archive"),
        (None, "404"),
    ],
)
def test_what_is_wrong_is_said_and_not_kept(registry, served, content, says):
    if content is not None:
        served["/tiny.zip"] = content
    with pytest.raises(DataError, match=says):
        download.get("tiny")
    assert left_in(download.corpora_cache()) == [] and download.folder_of("tiny") is None


def test_what_was_there_stays_when_fetching_again_fails(registry, served):
    served["/tiny.zip"] = archive(train=TEXT, more=b"x")
    download.get("tiny")
    served["/tiny.zip"] = archive(train=b"other", more=b"x")
    with pytest.raises(DataError, match="expected"):
        download.get("tiny", again=True)
    assert left_in(download.corpora_cache()) == ["more", "train"]


@pytest.mark.parametrize("inner", [".", "tiny", "another"])
def test_files_brought_by_hand_are_checked(registry, served, inner):
    folder = download.corpora_cache() / "tiny" / inner
    folder.mkdir(parents=True)
    for name in ("train", "more"):
        (folder / name).write_bytes(TEXT)
    assert download.get("tiny") == folder and served.asked == 0
    (folder / "train").write_bytes(b"garbage")
    with pytest.raises(DataError, match=r"train; `loglinear data get tiny --again`") as caught:
        download.get("tiny")
    assert str(caught.value).startswith(f"{folder}: ") and "more" not in str(caught.value)
    assert (folder / "train").read_bytes() == b"garbage" and download.wrong_files("tiny") == ["train"]
    served["/tiny.zip"] = archive(train=TEXT, more=b"x")
    assert download.get("tiny", again=True) == download.corpora_cache() / "tiny" and not download.wrong_files("tiny")


def test_a_cache_that_cannot_be_used_is_named(registry, monkeypatch, tmp_path):
    assert cache_warning() == ""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LOGLINEAR_CACHE", str(tmp_path / "file"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    cache_folder.cache_clear()
    said = cache_warning()
    assert str(tmp_path / "file") in said and str(tmp_path / "home" / "loglinear") in said


def test_without_a_network_the_error_says_what_to_put_where(registry, monkeypatch):
    nowhere = PublicCorpus("tiny", "free", "http://127.0.0.1:1/tiny.zip", {"train": ""})
    monkeypatch.setitem(registry, "tiny", nowhere)
    with pytest.raises(DataError) as caught:
        download.get("tiny")
    for part in ("http://127.0.0.1:1/tiny.zip", "train", str(download.corpora_cache() / "tiny"), "--data"):
        assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_corpus_is_refused():
    with pytest.raises(OptionError, match="conll2000"):
        download.get("conll1999")


def test_every_real_entry_has_files_a_source_and_checksums():
    for corpus in download.PUBLIC.values():
        assert corpus.url.startswith("https://") and corpus.licence
        assert any(corpus.files.values()) and all(len(sum_) in (0, 64) for sum_ in corpus.files.values())
