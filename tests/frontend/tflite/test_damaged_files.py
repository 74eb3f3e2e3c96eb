"""Damaged TensorFlow Lite files: each is refused in a sentence, quickly, and nothing outside the file is read."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import tflite
from hypothesis import given, settings
from hypothesis import strategies as st

from edgetune.errors import EdgetuneError, ModelError
from edgetune.frontend.tflite.format import FORMAT
from edgetune.frontend.tflite.reader import read_content

WHOLE = Path(__file__).parents[4] / "shared" / "models" / "mlperf_tiny" / "kws_int8.tflite"
LEAST_MB = 200

Damage = Callable[[bytearray], bytearray]


def cut(share: float) -> Damage:
    return lambda data: data[: int(len(data) * share)]


def put(at: int, *numbers: int) -> Damage:
    """32-bit numbers at a byte of the file."""

    def damaged(data: bytearray) -> bytearray:
        data[at : at + 4 * len(numbers)] = struct.pack(f"<{len(numbers)}I", *numbers)
        return data

    return damaged


def at_table(find: Callable[[tflite.Model], int], number: int) -> Damage:
    """A 32-bit number in place of what `find` says the position of."""
    return lambda data: put(find(tflite.Model.GetRootAs(bytes(data), 0)), number)(data)


def vector(table: object, field: int) -> int:
    """Where the number of elements of a vector stands."""
    tab = table._tab  # type: ignore[attr-defined]
    at: int = tab.Vector(tab.Offset(field)) - 4
    return at


def scalar(table: object, field: int) -> int:
    """Where a field of a table stands."""
    tab = table._tab  # type: ignore[attr-defined]
    return int(tab.Pos + tab.Offset(field))


def tensor(model: tflite.Model, number: int) -> tflite.Tensor:
    return model.Subgraphs(0).Tensors(number)


def first_weights(model: tflite.Model) -> tflite.Tensor:
    return tensor(model, model.Subgraphs(0).Operators(0).Inputs(1))


def noise(seed: int) -> Damage:
    def damaged(data: bytearray) -> bytearray:
        draw = random.Random(seed)  # noqa: S311
        for _ in range(200):
            data[draw.randrange(8, len(data))] = draw.randrange(256)
        return data

    return damaged


HUGE, NEGATIVE = 0x7FFFFFF0, 0xFFFFFFF0
DAMAGES: dict[str, Damage] = {
    "nothing but its first bytes": cut(0.0002),
    "a tenth": cut(0.1),
    "half": cut(0.5),
    "all but the end": cut(0.999),
    "root outside": put(0, HUGE),
    "root before the file": put(0, NEGATIVE),
    "root at the identifier": put(0, 4),
    "table of tables outside": lambda data: put(struct.unpack_from("<I", data)[0], HUGE)(data),
    "huge number of buffers": at_table(lambda m: vector(m, 12), HUGE),
    "negative number of buffers": at_table(lambda m: vector(m, 12), NEGATIVE),
    "huge number of operator codes": at_table(lambda m: vector(m, 6), HUGE),
    "huge number of subgraphs": at_table(lambda m: vector(m, 8), 0),
    "huge number of tensors": at_table(lambda m: vector(m.Subgraphs(0), 4), HUGE),
    "huge number of operators": at_table(lambda m: vector(m.Subgraphs(0), 10), HUGE),
    "huge number of inputs": at_table(lambda m: vector(m.Subgraphs(0), 6), HUGE),
    "huge shape": at_table(lambda m: vector(first_weights(m), 4), HUGE),
    "huge extent": at_table(lambda m: vector(first_weights(m), 4) + 4, HUGE),
    "negative extent": at_table(lambda m: vector(first_weights(m), 4) + 4, NEGATIVE),
    "buffer that is not there": at_table(lambda m: scalar(first_weights(m), 8), HUGE),
    "buffer of another size": at_table(lambda m: vector(m.Buffers(first_weights(m).Buffer()), 4), 16),
    "buffer of all memory": at_table(lambda m: vector(m.Buffers(first_weights(m).Buffer()), 4), HUGE),
    "huge number of scales": at_table(lambda m: vector(first_weights(m).Quantization(), 8), HUGE),
    "scale of not a number": at_table(lambda m: vector(first_weights(m).Quantization(), 8) + 4, 0x7FC00000),
    "output outside": at_table(lambda m: vector(m.Subgraphs(0), 8) + 4, HUGE),
    "an operator that reads what comes later": at_table(lambda m: vector(m.Subgraphs(0).Operators(0), 6) + 4, 0xFFFFFF),
    "an operator that reads its own result": lambda data: put(
        vector(tflite.Model.GetRootAs(bytes(data), 0).Subgraphs(0).Operators(0), 6) + 4,
        tflite.Model.GetRootAs(bytes(data), 0).Subgraphs(0).Operators(0).Outputs(0),
    )(data),
    "options outside": at_table(lambda m: scalar(m.Subgraphs(0).Operators(0), 12), NEGATIVE),
    "version 4": at_table(lambda m: scalar(m, 4), 4),
}


def damaged_file(folder: Path, name: str) -> Path:
    path = folder / "damaged.tflite"
    path.write_bytes(DAMAGES[name](bytearray(WHOLE.read_bytes())))
    return path


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelError) as refusal:
        read_content(damaged_file(tmp_path, name))
    assert str(tmp_path) in refusal.value.message
    assert "\n" not in refusal.value.message


_MEASURED = """
import resource, subprocess, sys
done = subprocess.run(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(done.returncode)
"""
"""Runs a command and prints its memory: a process counts that of the one which starts it, so this one is small."""


@pytest.mark.parametrize("name", ["buffer of all memory", "huge number of tensors", "half"])
def test_the_command_says_so_within_its_memory(tmp_path: Path, name: str) -> None:
    path = damaged_file(tmp_path, name)
    words = ["-m", "edgetune", "build", str(path), "--board", "host", "--out", str(tmp_path / "package")]
    measured = [sys.executable, "-c", _MEASURED, sys.executable, *words]
    done = subprocess.run(measured, capture_output=True, text=True, check=False)
    text = done.stderr
    assert done.returncode == ModelError.exit_code
    assert text.startswith("edgetune: error: ")
    assert text.count("\n") == 1
    assert int(done.stdout) < LEAST_MB << 10
    assert not (tmp_path / "package").exists()


def test_text_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_text("This file holds the weights of a network.\n" * 40)
    with pytest.raises(EdgetuneError):
        read_content(path)


@settings(deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_whatever_is_written_over_it_gives_a_model_or_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    path = tmp_path_factory.mktemp("noise") / "noise.tflite"
    path.write_bytes(noise(seed)(bytearray(WHOLE.read_bytes())))
    try:
        FORMAT.read(path).with_shapes({})
    except EdgetuneError as error:
        assert "\n" not in error.message  # noqa: PT017
