"""Compile kernels ahead: ``python -m loglinear.kernels.build``.

1. The default road, and that of each criterion, is walked on small data (:mod:`loglinear.experiments.roads`), and the
   kernels that Python calls there are recorded with the types of their arguments
   (:mod:`~loglinear.kernels.recorder`): no list is kept by hand.
2. Numba compiles each for each of its signatures, as it would at run time, in as many processes as there are cores. To
   the module that it has optimised, an entry is added that takes the arguments from words in memory
   (:class:`_EntryBuilder`), and LLVM writes the whole as an object file of position-independent code.
3. The C compiler (``CC``, else ``cc``) links these with ``runtime.c`` to a shared library; an index says what is in it
   (:mod:`~loglinear.kernels.ahead`).

Without a C compiler nothing is built, and Numba compiles at run time.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import importlib
import json
import multiprocessing
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils as untyped_cgutils
from numba.core import types as untyped_types

from loglinear.ending import before_forced_end
from loglinear.errors import LoglinearError
from loglinear.kernels import Kernel
from loglinear.kernels.ahead import FORMAT, INDEX, SHIPPED, module_digest, opened, sha256, user_folder
from loglinear.kernels.digest import sources_of
from loglinear.kernels.processor import level, platform_name
from loglinear.kernels.recorder import Calls, recorded
from loglinear.kernels.signature import Description, array_parts, class_of, letters, n_words
from loglinear.system import (
    available_cores,
    locked,
    replace_file,
    temporary_folder,
    why_not_private,
    without_current_folder,
)

RUNTIME = Path(__file__).parent / "runtime.c"
LARGEST_CALL = 1024  # words, as in runtime.c
#: What all machine code depends on, beside what a kernel names.
COMPILER = ("loglinear.kernels", "loglinear.kernels.compiler", "loglinear.kernels.processor")
cgutils: Any = untyped_cgutils  # numba has few types
types: Any = untyped_types
_WORD, _WORDS = ir.IntType(64), ir.IntType(64).as_pointer()

Signature = list[Description]
Progress = Callable[[int, int], None]


class BuildError(LoglinearError):
    """Kernels cannot be compiled ahead on this machine."""


# ----------------------------------------------------------------------------------------------------------------------
# Types, from plain data to Numba's and back.


def numba_type(kind: Description) -> Any:
    """Numba's type of a description."""
    if isinstance(kind, list):
        items = tuple(map(numba_type, kind[1:]))
        return types.BaseTuple.from_types(items, class_of(kind[0]) if kind[0] else None)
    if kind == "none":
        return types.none
    parts = array_parts(kind)
    if parts is None:
        return numba.from_dtype(np.dtype(kind))
    dtype, ndim, order, read_only = parts
    return types.Array(numba.from_dtype(dtype), ndim, order, readonly=read_only)


def description_of(kind: Any) -> Description:
    """The description of a result's type."""
    kind = types.unliteral(kind)
    if isinstance(kind, types.BaseTuple):
        name = getattr(kind, "instance_class", None)
        return ["" if name is None else f"{name.__module__}:{name.__qualname__}", *map(description_of, kind.types)]
    if kind == types.none:
        return "none"
    if isinstance(kind, types.Array):
        dtype = numba.np.numpy_support.as_dtype(kind.dtype).name
        return f"{dtype}/{kind.ndim}{kind.layout}{'' if kind.mutable else 'r'}"
    if isinstance(kind, types.Number | types.Boolean):
        return str(numba.np.numpy_support.as_dtype(kind).name)
    raise BuildError(f"kernels compiled ahead cannot return {kind}")


# ----------------------------------------------------------------------------------------------------------------------
# One kernel.


class _EntryBuilder:
    """Writes ``int32 symbol(int64 *words, int64 *results)``, which calls a compiled kernel; returns its status.

    The words are those of :func:`~loglinear.kernels.signature.n_words`: a number in eight bytes, an array as its
    address, its shape and, if it is not in C order, its strides; tuples are the words of their items.
    """

    def __init__(self, compiled: Any, symbol: str) -> None:
        self._context = context = compiled.target_context
        described = compiled.fndesc
        self.module = context.create_module(symbol)
        kind = ir.FunctionType(ir.IntType(32), [_WORDS, _WORDS])
        function = ir.Function(self.module, kind, symbol)
        self._builder = ir.IRBuilder(function.append_basic_block())
        self._at, (self._words, self._results) = 0, function.args
        kernel = context.declare_function(self.module, described)
        arguments = [self._read(each) for each in described.argtypes]
        status, value = context.call_conv.call_function(
            self._builder, kernel, described.restype, described.argtypes, arguments
        )
        with self._builder.if_then(status.is_ok):
            self._at = 0
            self._write(described.restype, value)
        none = ir.Constant(ir.IntType(32), 0)
        self._builder.ret(self._builder.select(status.is_ok, none, status.code))

    def _word(self) -> Any:
        place = self._builder.gep(self._words, [ir.Constant(_WORD, self._at)])
        self._at += 1
        return place

    def _read(self, kind: Any) -> Any:
        builder, context = self._builder, self._context
        if isinstance(kind, types.BaseTuple):
            return context.make_tuple(builder, kind, [self._read(each) for each in kind.types])
        if isinstance(kind, types.Array):
            return self._read_array(kind)
        if kind == types.none:
            return context.get_dummy_value()
        stored = context.get_data_type(kind)
        value = builder.load(builder.bitcast(self._word(), stored.as_pointer()))
        return context.data_model_manager[kind].from_data(builder, value)

    def _read_array(self, kind: Any) -> Any:
        builder, context = self._builder, self._context
        array = context.make_array(kind)(context, builder)
        address = builder.load(self._word())
        shape = [builder.load(self._word()) for _ in range(kind.ndim)]
        size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
        if kind.layout == "C":
            strides = [ir.Constant(_WORD, size)]
            for length in reversed(shape[1:]):
                strides.insert(0, builder.mul(strides[0], length))
            strides = strides[: kind.ndim]
        else:
            strides = [builder.load(self._word()) for _ in range(kind.ndim)]
        items = ir.Constant(_WORD, 1)
        for length in shape:
            items = builder.mul(items, length)
        array.data = builder.inttoptr(address, array.data.type)
        array.shape, array.strides = cgutils.pack_array(builder, shape), cgutils.pack_array(builder, strides)
        array.itemsize, array.nitems = ir.Constant(_WORD, size), items
        array.meminfo = cgutils.get_null_value(array.meminfo.type)
        array.parent = cgutils.get_null_value(array.parent.type)
        return array._getvalue()

    def _put(self, word: Any) -> None:
        self._builder.store(word, self._builder.gep(self._results, [ir.Constant(_WORD, self._at)]))
        self._at += 1

    def _write(self, kind: Any, value: Any) -> None:
        builder, context, kind = self._builder, self._context, types.unliteral(kind)
        if isinstance(kind, types.BaseTuple):
            for number, each in enumerate(kind.types):
                self._write(each, builder.extract_value(value, number))
        elif isinstance(kind, types.Array):
            array = context.make_array(kind)(context, builder, value)
            self._put(builder.ptrtoint(array.meminfo, _WORD))
            self._put(builder.ptrtoint(array.data, _WORD))
            for numbers in (array.shape, array.strides):
                for number in cgutils.unpack_tuple(builder, numbers):
                    self._put(number)
        elif isinstance(kind, types.Complex):
            number = context.make_complex(builder, kind, value)
            for part in (number.real, number.imag):
                self._put_float(part)
        elif isinstance(kind, types.Float):
            self._put_float(value)
        elif kind != types.none:
            signed = isinstance(kind, types.Integer) and kind.signed
            self._put(value if value.type == _WORD else (builder.sext if signed else builder.zext)(value, _WORD))

    def _put_float(self, number: Any) -> None:
        builder = self._builder
        if number.type != ir.DoubleType():
            number = builder.fpext(number, ir.DoubleType())
        self._put(builder.bitcast(number, _WORD))


def compile_entry(task: tuple[str, Signature, str, str]) -> dict[str, Any]:
    """Compile a kernel, by name, for a signature: its entry of the index; the object file goes into a folder."""
    name, signature, symbol, folder = task
    kernel: Any = kernel_of(name)
    argument_types = tuple(map(numba_type, signature))
    kernel.compiled.compile(argument_types)
    compiled = kernel.compiled.overloads[argument_types]
    result = description_of(compiled.fndesc.restype)
    if max(sum(map(n_words, signature)), len(letters(result))) > LARGEST_CALL:
        raise BuildError(f"{name} takes more than {LARGEST_CALL} words")
    module = compiled.library._get_module_for_linking().clone()
    module.link_in(llvm.parse_assembly(str(_EntryBuilder(compiled, symbol).module)))
    for each in (*module.functions, *module.global_variables):
        if not each.is_declaration and not each.name.startswith("llvm."):
            each.linkage = "external" if each.name == symbol else "internal"
    machine = target_machine()
    _drop_unused(module, machine)
    Path(folder, f"{symbol}.o").write_bytes(machine.emit_object(module))
    sources = sources_of(kernel)
    return {
        "kernel": name,
        "symbol": symbol,
        "arguments": signature,
        "result": result,
        "modules": sorted({*sources.modules, *COMPILER}),
        "constants": {f"{module}:{each}": digest for (module, each), digest in sorted(sources.constants.items())},
    }


def kernel_of(name: str) -> Kernel:
    """The kernel of a name."""
    module, _, qualname = name.partition(":")
    found = getattr(importlib.import_module(module), qualname, None)
    if not isinstance(found, Kernel):
        raise BuildError(f"{name} is not a kernel that a module holds under its name")
    return found


def target_machine() -> Any:
    """LLVM's target: the level of processors, position-independent code; the rest as at run time.

    The code model, too, although a library does not need it: how constants are addressed decides which of two products
    is fused with a sum.
    """
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(cpu=level() or "", opt=3, reloc="pic", codemodel="jitdefault")


def _drop_unused(module: Any, machine: Any) -> None:
    """Delete what no entry calls: Numba's wrappers for Python, and functions that were inlined everywhere."""
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
    passes = llvm.create_new_module_pass_manager()
    passes.add_global_dead_code_eliminate_pass()
    passes.run(module, builder)


# ----------------------------------------------------------------------------------------------------------------------
# All of them.


def recorded_roads(labels: Iterable[int] | None = None, *, criteria: bool = True) -> Calls:
    """The kernels of the default road and, if ``criteria``, of every criterion.

    They are for these numbers of labels, by default for :data:`roads.LABELS` and :data:`roads.FEWER_LABELS`.
    """
    roads: Any = importlib.import_module("loglinear.experiments.roads")  # the walks stand above this room
    with recorded() as calls:
        roads.walk_default(roads.LABELS if labels is None else labels)
        if criteria:
            roads.walk_criteria(roads.FEWER_LABELS if labels is None else labels)
    if calls.unsupported:
        raise BuildError(f"arguments that cannot be compiled ahead: {calls.unsupported}")
    return calls


def holds(folder: Path, calls: Calls) -> bool:
    """Whether a folder has all recorded kernels, and they are current."""
    library = opened(folder)
    return library is not None and all(
        signature in library.signatures(kernel_of(name))
        for name, signatures in calls.signatures.items()
        for signature in signatures
    )


def c_compiler() -> list[str]:
    """The command that links kernels on this machine."""
    command = shlex.split(os.environ.get("CC", "")) or ["cc"]
    if level() is None:
        raise BuildError("kernels are compiled ahead for x86-64-v3 and arm64 only; Numba compiles them at run time")
    found = shutil.which(command[0], path=_absolute_path())
    if found is None:
        raise BuildError(f"no C compiler {command[0]!r} to link kernels; what is missing is compiled at run time")
    return [os.path.abspath(found), *command[1:]]


def _absolute_path() -> str:
    """``PATH`` without its relative places: a program in the current folder is not run by its name alone."""
    return os.pathsep.join(place for place in os.get_exec_path() if os.path.isabs(place))


def build(folder: Path, calls: Calls, processes: int, progress: Progress | None = None) -> tuple[int, int]:
    """Compile recorded kernels into ``folder``; returns the numbers of kernels and of signatures."""
    linker = c_compiler()
    with temporary_folder() as objects:
        pairs = [(name, signature) for name, all_of_it in calls.signatures.items() for signature in all_of_it]
        tasks = [(name, signature, f"kernel_{k}", str(objects)) for k, (name, signature) in enumerate(pairs)]
        entries = []
        for entry in _in_processes(tasks, processes):
            entries.append(entry)
            if progress is not None:
                progress(len(entries), len(tasks))
        library = _linked(linker, objects, [f"{symbol}.o" for *_, symbol, _ in tasks])
        _put(folder, library, sorted(entries, key=lambda entry: int(entry["symbol"].partition("_")[2])))
    return len(calls.signatures), len(entries)


def _in_processes(tasks: list[Any], processes: int) -> Iterator[dict[str, Any]]:
    if processes <= 1:
        yield from map(compile_entry, tasks)
        return
    spawn = multiprocessing.get_context("spawn")
    with without_current_folder(), before_forced_end(_kill_children), spawn.Pool(processes) as pool:
        yield from pool.imap_unordered(compile_entry, tasks)


def _kill_children() -> None:
    for child in multiprocessing.active_children():
        child.kill()


def _linked(linker: list[str], folder: Path, objects: list[str]) -> Path:
    library = folder / "kernels.so"
    if sys.platform == "darwin":  # what Python has is found when the library is loaded; the linker cannot strip all
        system = ["-undefined", "dynamic_lookup", "-Wl,-x"]
    else:
        system = ["-s", "-Wl,-z,now", "-Wl,--hash-style=gnu"]
    command = [*linker, "-O2", "-fPIC", "-fvisibility=default", "-shared", "-o", library.name, str(RUNTIME)]
    done = subprocess.run(
        [*command, *objects, *system, "-lm"],
        cwd=folder, env={**os.environ, "PATH": _absolute_path()}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise BuildError(f"{linker[0]} cannot link the kernels: {done.stderr.strip()}")
    try:
        ctypes.PyDLL(str(library))
    except OSError as error:
        raise BuildError(f"a kernel needs what the runtime does not have: {error}") from None
    return library


def _put(folder: Path, library: Path, entries: list[dict[str, Any]]) -> None:
    """Move library and index in, the index last; a process that has the old library open keeps it."""
    digest = sha256(library)
    name = f"kernels-{digest[:16]}.so"
    kernels: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        kernels.setdefault(entry.pop("kernel"), []).append(entry)
    modules = sorted({module for entry in entries for module in entry["modules"]})
    text = json.dumps(
        {
            "format": FORMAT,
            "platform": platform_name(),
            "level": level(),
            "numba": numba.__version__,
            "library": name,
            "digest": digest,
            "sources": {module: module_digest(module) for module in modules},
            "kernels": kernels,
        },
        separators=(",", ":"),
    )
    private = folder == user_folder()
    if private and (reason := why_not_private(folder)):
        raise BuildError(f"{folder} {reason}: kernels compiled ahead are not put there")
    folder.mkdir(0o755, parents=True, exist_ok=True)
    mode = 0o600 if private else 0o644
    with locked(folder):  # another build must not delete this one's library before the index names it
        replace_file(folder / name, library.read_bytes(), mode)
        replace_file(folder / INDEX, f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}".encode(), mode)
        for old in folder.glob("kernels-*.so"):
            if old.name != name:
                old.unlink()


def main(arguments: Iterable[str] | None = None) -> None:
    """Build the kernels of all roads into the package."""
    parser = argparse.ArgumentParser(prog="python -m loglinear.kernels.build", description="Compile kernels ahead.")
    parser.add_argument("-o", "--output", type=Path, default=SHIPPED, help="folder (default: the package's own)")
    parser.add_argument("-p", "--processes", type=int, default=available_cores(), help="processes that compile")
    parser.add_argument("--labels", type=int, nargs="+", help="only for models with as many labels, to eight or so")
    parser.add_argument("--default-only", action="store_true", help="not those that only other criteria than cll need")
    parser.add_argument("--if-needed", action="store_true", help="leave kernels alone that are there and current")
    options = parser.parse_args(None if arguments is None else list(arguments))
    begin = time.monotonic()
    c_compiler()  # before the walk, which takes longer
    calls = recorded_roads(options.labels, criteria=not options.default_only)
    if options.if_needed and holds(options.output, calls):
        return
    kernels, signatures = build(options.output, calls, options.processes)
    seconds = time.monotonic() - begin
    print(f"compiled {kernels} kernels for {signatures} signatures in {seconds:.1f} s: {options.output}")


if __name__ == "__main__":
    try:
        main()
    except BuildError as error:
        sys.exit(f"loglinear.kernels.build: {error}")
