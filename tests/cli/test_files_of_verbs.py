"""No output overwrites an input or another output, in any verb and by any name; what cannot be written is refused."""

import itertools
import os
import subprocess
import sys

import pytest

from cli.test_flags import COMMANDS
from loglinear.cli import files as paths
from loglinear.errors import OptionError
from loglinear.features.templates.sets import SETS
from loglinear.options import READ, READ_TEMPLATE, WRITTEN, WRITTEN_CHART, File

#: Parameters with a text for a value that names no file.
WORDS = {
    "--algorithms", "--annotation", "--base", "--beam", "--bias", "--borders", "--bundled", "--category",
    "--choose", "--class-weight", "--classifier", "--cluster", "--column", "--comments", "--components", "--corpus",
    "--covariance", "--criteria", "--criterion", "--decoding", "--edge", "--existing", "--factor", "--features",
    "--format", "--from", "--gaps", "--halving", "--horizontal", "--ignore", "--kernel", "--label", "--labels",
    "--labels-key", "--marks", "--max-length", "--method", "--metric", "--multiclass", "--number", "--offsets",
    "--optimizer", "--output-format", "--overlaps", "--peer-most", "--plot-columns", "--precision", "--prior",
    "--scheme", "--segment-features", "--sentence-column", "--sentences", "--separator", "--set", "--sizes", "--start",
    "--states", "--structure", "--tags", "--task", "--text", "--text-key", "--threads", "--to", "--token-column",
    "--memory", "--tokens-key", "--transitions", "--ways", "--words", "-k", "name", "names", "split",
}  # fmt: skip
NOT_THERE = {("combine", "--weights"), ("path", "--grid")}  # numbers, where other verbs have files


def texts(command):
    """The parameters of a command whose values are texts or paths."""
    return [
        each for each in command.params if any(kind in str(each.type_descriptor.annotation) for kind in ("str", "Path"))
    ]


def files_of(command):
    return command.callback.files


@pytest.mark.parametrize("verb", COMMANDS)
def test_every_parameter_that_names_a_file_says_what_becomes_of_it(verb):
    for each in texts(COMMANDS[verb]):
        word = each.opts[-1] in WORDS or (verb, each.opts[-1]) in NOT_THERE
        assert word != (each.name in files_of(COMMANDS[verb])), (
            f"{verb}: does {each.opts[-1]} name a file? Declare it (loglinear.options.File), or put it into WORDS"
        )


def given(command, values):
    """Arguments of a command: ``values`` by parameter, and something for others that it needs."""
    arguments, own = [], files_of(command)
    for number, each in enumerate(command.params):
        value = values.get(each.name)
        if value is None:
            if not each.required:
                continue
            file = own.get(each.name, READ)
            value = "l2=1" if file.settings else f"made{number}" if file.written else "some.txt"
        option = each.opts[-1].startswith("-")
        arguments += [each.opts[-1], str(value)] if option else [str(value)]
    return arguments


def pairs():
    for verb, command in COMMANDS.items():
        own = {name: file for name, file in files_of(command).items() if not file.folder}
        outputs = [name for name, file in own.items() if file.written]
        inputs = [name for name, file in own.items() if not file.written]
        for one, other in [*itertools.product(inputs, outputs), *itertools.combinations(outputs, 2)]:
            yield verb, one, other


def called(file, stem):
    return f"{stem}{file.suffix or '.txt'}"


@pytest.mark.parametrize(
    ("verb", "names"), [(v, [*n]) for v, n in itertools.groupby(pairs(), key=lambda pair: pair[0])]
)
def test_no_output_overwrites_an_input_or_another_output(run, tmp_path, monkeypatch, verb, names):
    monkeypatch.chdir(tmp_path)
    command = COMMANDS[verb]
    (tmp_path / "some.txt").write_text("some")
    for number, (_, one, other) in enumerate(names):
        first, second = files_of(command)[one], files_of(command)[other]
        source, target = called(first, f"source{number}"), called(second, f"target{number}")
        (tmp_path / source).write_text("precious")
        if number % 3 == 0 and source.endswith(second.suffix):
            target = source
        elif number % 3 == 1:
            (tmp_path / target).symlink_to(source)
        else:
            os.link(tmp_path / source, tmp_path / target)
        value = f"template=ner,{source}" if first.settings else source
        result = run(*verb.split(), *given(command, {one: value, other: target}))
        assert result.status == 2 and "would overwrite" in result.err, (one, other, result.err)
        assert (tmp_path / source).read_text() == "precious" == (tmp_path / target).read_text()


@pytest.mark.parametrize(
    ("verb", "names"), [(v, [*n]) for v, n in itertools.groupby(pairs(), key=lambda pair: pair[0])]
)
def test_no_output_overwrites_a_part_of_an_input(run, tmp_path, monkeypatch, verb, names):
    """What stands in a folder (of brat's documents, an encoded corpus) or is found by a glob, also as a link."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "some.txt").write_text("some")
    for number, (_, one, other) in enumerate(names):
        first, second = files_of(COMMANDS[verb])[one], files_of(COMMANDS[verb])[other]
        if first.written or first.settings or first.suffix or second.parts:
            continue
        parts = tmp_path / f"parts{number}"
        parts.mkdir()
        target = tmp_path / called(second, f"target{number}") if number % 2 else parts / called(second, "part")
        target.write_text("precious")
        if number % 2:
            (parts / "link").symlink_to(target)
        several = parts if number // 2 % 2 else parts / "*"
        result = run(*verb.split(), *given(COMMANDS[verb], {one: several, other: target}))
        assert result.status == 2 and "would overwrite" in result.err, (one, other, result.err)
        assert target.read_text() == "precious"


@pytest.mark.parametrize("verb", COMMANDS)
def test_what_cannot_be_written_is_refused_before_anything_is_read(run, tmp_path, monkeypatch, verb):
    monkeypatch.chdir(tmp_path)
    command = COMMANDS[verb]
    (tmp_path / "file").write_text("")
    for name, file in files_of(command).items():
        if not file.written or file.folder:
            continue
        (tmp_path / called(file, f"{name}-folder")).mkdir()
        (tmp_path / called(file, f"{name}-dangling")).symlink_to(tmp_path / "none" / "such.model")
        (tmp_path / called(file, f"{name}-loop")).symlink_to(called(file, f"{name}-loop"))
        wrong = {
            called(file, f"{name}-folder"): "is a folder",
            called(file, f"{name}-dangling"): "there is no folder",
            called(file, f"{name}-loop"): "cannot be written",
            called(file, "none/such"): "there is no folder none",
            called(file, "file/such"): "there is no folder file",
            called(file, "long" * 64): "name too long",
        }
        for path, reason in wrong.items():
            result = run(*verb.split(), *given(command, {name: path}))  # some.txt is not there: no file is opened
            assert result.status == 2 and reason in result.err, (name, path, result.err)


def test_a_read_only_folder_and_a_read_only_file_are_refused(run, files, monkeypatch):
    kept = files / "kept.model"
    kept.write_text("kept")
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK or path != str(kept))  # as root too
    assert "read-only" in run("train", files / "train.txt", "-o", kept).err
    if os.path.isdir("/proc/self"):
        assert "cannot write to /proc" in run("train", files / "train.txt", "-o", "/proc/m.model").err


def test_files_beside_a_model_are_its_outputs_too(run, files):
    (files / "m.checkpoint").write_bytes((files / "train.txt").read_bytes())
    result = run("train", files / "m.checkpoint", "-o", files / "m", "--resume")
    assert result.status == 2 and "m.checkpoint beside it, would overwrite the input" in result.err
    assert "name too long" in run("train", files / "train.txt", "-o", files / ("m" * 250)).err


def test_the_text_beside_brats_annotations_is_read_and_written_too(run, tmp_path):
    text, marked = tmp_path / "one.txt", tmp_path / "one.ann"
    text.write_text('{"text": "Anna Berg sings", "label": [[0, 9, "PER"]]}\n')
    before = text.read_text()
    result = run("data", "convert", text, "--from", "doccano", "-o", marked)
    assert result.status == 2 and "one.txt beside it, would overwrite the input" in result.err
    assert text.read_text() == before and not marked.exists()
    assert run("data", "convert", text, "--from", "doccano", "-o", tmp_path / "two.ann").status == 0
    result = run("data", "convert", tmp_path / "two.ann", "-o", tmp_path / "two.txt")
    assert result.status == 2 and "two.txt would overwrite the input" in result.err
    assert (tmp_path / "two.txt").read_text() == "Anna Berg sings"


def test_a_link_to_a_file_that_is_not_there_yet_is_followed(run, files):
    (files / "link.model").symlink_to(files / "new.model")
    options = ("--template", "words", "--max-iter", "1", "-q")
    assert run("train", files / "train.txt", "-o", files / "link.model", *options).status == 0
    assert (files / "new.model").is_file() and (files / "link.model").is_symlink()


def test_standard_output_takes_one_output(run, files):
    result = run("path", files / "train.txt", "--csv", "-", "--json", "-")
    assert result.status == 2 and "--csv - and --json -: standard output has room for one" in result.err


@pytest.mark.skipif(not os.path.exists("/dev/null"), reason="there is no /dev/null here")
def test_devices_may_be_named_any_number_of_times():
    devices = [("TRAIN", READ), ("--csv", WRITTEN), ("-o", WRITTEN)]
    paths.check([paths.Named(flag, "/dev/null", file) for flag, file in devices])


def test_words_are_no_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ner").write_text("")
    assert set(READ_TEMPLATE.words) == set(SETS)
    assert not [*paths.named("--template", READ_TEMPLATE, "ner")]
    assert not [*paths.named("--cost", File(suffix=".json"), "recall:3")]
    with pytest.raises(OptionError, match=r"written as SVG; name a file that ends in \.svg"):
        paths.check([paths.Named("--plot", "p.png", WRITTEN_CHART)])


def test_standard_output_redirected_to_an_input_is_refused(model, files):
    text = (files / "train.txt").read_bytes()
    with open(files / "train.txt", "ab") as out:
        arguments = [sys.executable, "-m", "loglinear", "tag", model, files / "train.txt"]
        result = subprocess.run(arguments, stdout=out, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 2 and "would overwrite the input" in result.stderr
    assert (files / "train.txt").read_bytes() == text
