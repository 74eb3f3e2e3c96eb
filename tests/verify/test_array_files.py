"""Array files: outputs are found by any name, inputs are read as untrusted data, damage is one sentence."""

from __future__ import annotations

import errno
import io
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from edgetune.errors import DiskFull, OutputRefused, UsageError
from edgetune.graph.program import TensorSpec
from edgetune.verify.array_files import check_place, read_inputs, write_outputs

X = np.linspace(-1, 1, 32, dtype=np.float32).reshape(4, 8)
TENSORS = (TensorSpec("x", (4, 8), "float32"),)
FIELDS = {"x": "x"}
NAMES = ["file", "allow_pickle", "a/b", "../up", "/", "", "y", "y.npy", "y.npy.npy", "line\nend", "größe", "in:0", "."]
MISFITS = [("end\0", "y"), ("\ud800",), ("n" * 70_000,)]


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def with_header(header: bytes, version: int = 1, length: int | None = None) -> bytes:
    count = (len(header) if length is None else length).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + count + header + X.tobytes()


def archive(kind: int, **members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", kind) as written:
        for name, data in members.items():
            written.writestr(f"{name}.npy", data)
    return stream.getvalue()


def refusal(data: bytes, folder: Path) -> str:
    (folder / "it").write_bytes(data)
    with pytest.raises(UsageError) as caught:
        read_inputs([str(folder / "it")], TENSORS, FIELDS)
    assert "\n" not in caught.value.message
    return caught.value.message.replace(str(folder), "")


def test_outputs_are_found_by_any_name(tmp_path: Path) -> None:
    outputs = {name: np.full((2, number), number, np.int16) for number, name in enumerate(NAMES)}
    check_place(tmp_path / "out.npz", NAMES)
    write_outputs(tmp_path / "out.npz", outputs)
    with np.load(tmp_path / "out.npz", allow_pickle=False) as found:
        for name, right in outputs.items():
            np.testing.assert_array_equal(found[name], right)
    before = (tmp_path / "out.npz").read_bytes()
    write_outputs(tmp_path / "out.npz", outputs)
    assert (tmp_path / "out.npz").read_bytes() == before, "the same outputs are other bytes"


@pytest.mark.parametrize("names", MISFITS)
def test_a_name_that_no_archive_holds_is_refused_before_the_run(names: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no \.npz file can hold the name of output"):
        check_place(tmp_path / "out.npz", names)


def test_a_place_that_cannot_be_written_is_refused_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "folder.npz").mkdir()
    for name, kind, words in (
        ("out.txt", UsageError, "must end with"),
        ("out.npy", UsageError, "the package has 2 outputs"),
        ("folder.npz", OutputRefused, "is a folder"),
        ("gone/out.npz", OutputRefused, "does not exist"),
    ):
        with pytest.raises(kind, match=words):
            check_place(tmp_path / name, ["y", "z"])
    check_place(tmp_path / "out.npy", ["\0"])


def test_a_full_disk_leaves_the_old_file_and_nothing_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_outputs(tmp_path / "out.npz", {"y": X})
    before = (tmp_path / "out.npz").read_bytes()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(DiskFull, match="no space is left to write"):
        write_outputs(tmp_path / "out.npz", {"y": X + 1})
    assert [path.name for path in tmp_path.iterdir()] == ["out.npz"]
    assert (tmp_path / "out.npz").read_bytes() == before


def test_a_new_file_may_be_read_as_the_umask_says_and_an_old_one_as_before(tmp_path: Path) -> None:
    umask = os.umask(0o027)
    try:
        write_outputs(tmp_path / "out.npy", {"y": X})
    finally:
        os.umask(umask)
    assert (tmp_path / "out.npy").stat().st_mode & 0o777 == 0o640
    (tmp_path / "out.npy").chmod(0o604)
    (tmp_path / "link.npy").symlink_to("out.npy")
    write_outputs(tmp_path / "link.npy", {"y": X + 1})
    assert (tmp_path / "out.npy").stat().st_mode & 0o777 == 0o604
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), X + 1)


@pytest.mark.parametrize(
    "data",
    [
        npy(X.astype(">f4")),
        npy(np.asfortranarray(X)),
        with_header(b"{'shape': (4L, 8L), 'descr': '<f4', 'fortran_order': False}"),  # as Python 2 wrote it
        with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 8)}", 2),
        *(archive(kind, x=npy(X)) for kind in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA)),
    ],
)
def test_an_array_is_what_was_saved(data: bytes, tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    (tmp_path / "it").write_bytes(data)
    found = read_inputs([str(tmp_path / "it")], TENSORS, FIELDS)["x"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, X)
    assert not recwarn.list


def test_bfloat16_scalars_and_empty_axes_go_there_and_back(tmp_path: Path) -> None:
    given: dict[str, np.ndarray] = {
        "b": X.astype(ml_dtypes.bfloat16),
        "s": np.array(True),
        "e": np.zeros((2, 0, 3), np.int64),
    }
    tensors = tuple(TensorSpec(name, array.shape, array.dtype.name) for name, array in given.items())
    write_outputs(tmp_path / "all.npz", given)
    found = read_inputs([str(tmp_path / "all.npz")], tensors, {name: f"f_{name}" for name in given})
    assert found.keys() == given.keys()
    for name, array in given.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def test_names_and_paths_may_hold_equals_signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("lr=1.npy", X)
    write_outputs(Path("k=v.npz"), {"a=b": X})
    tensors, fields = (TensorSpec("a=b", (4, 8), "float32"),), {"a=b": "a"}
    for word in ("a=b=lr=1.npy", "a=lr=1.npy", "k=v.npz", "lr=1.npy"):
        np.testing.assert_array_equal(read_inputs([word], tensors, fields)["a=b"], X)
    with pytest.raises(UsageError, match=r"there is no input 'c'; input 'a=b' is missing"):
        read_inputs(["c=lr=1.npy"], tensors, fields)
    with pytest.raises(UsageError, match=r"is given twice"):
        read_inputs(["a=lr=1.npy", "k=v.npz"], tensors, fields)
    with pytest.raises(UsageError, match=r"^k=v\.npz is an archive, .* give it as -i k=v\.npz"):
        read_inputs(["a=k=v.npz"], tensors, fields)
    two = (*tensors, TensorSpec("z", (), "bool"))
    with pytest.raises(UsageError, match=r"has no name: give it as -i NAME=lr=1\.npy; the inputs .* 'z' \(bool of sh"):
        read_inputs(["lr=1.npy"], two, {**fields, "z": "z"})


class Trap:
    """Leaves a file where it is unpickled."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return open, ("unpickled", "w")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "/it is not a .npy or .npz file"),
        (b"PK\3\4", "/it is not a whole .npy or .npz file"),
        (npy(X)[:-1], "(it holds 127 of 128 bytes of data)"),
        (npy(X)[:40], "(EOF: reading array header"),
        (archive(zipfile.ZIP_STORED, x=npy(X)).replace(X.tobytes()[:9], bytes(9)), "Bad CRC-32"),
        (archive(zipfile.ZIP_STORED, x=b"some text"), "the magic string is not correct"),
        (archive(zipfile.ZIP_STORED, x=npy(X), y=npy(X)), "there is no input 'y': the inputs of this package are 'x'"),
        (with_header(b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4, 8)}"), "objects or records"),
        (with_header(b"{'descr': ('<f4',), 'fortran_order': False, 'shape': (4, 8)}"), "does not describe an array"),
        (with_header(b"-" * 9000 + b"1"), "does not describe an array"),
        (with_header(b"", 2, 0xF0000000), "its header has 4026531840 bytes"),
        (with_header(b"", 3), "it has version 3.0 of the format"),
        (with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-4, -8)}"), "its shape is (-4, -8)"),
        (with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999,)}"), "has shape (99999999999,)"),
        (npy(np.array([Trap()])), "objects or records"),
        (pickle.dumps(Trap()), "is not a .npy or .npz file"),
    ],
)
def test_damage_is_one_sentence(data: bytes, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert words in refusal(data, tmp_path)
    assert not Path("unpickled").exists()


def test_many_arrays_that_do_not_fit_are_not_all_named(tmp_path: Path) -> None:
    said = refusal(archive(zipfile.ZIP_STORED, **{f"n{n}": npy(X) for n in range(50)}), tmp_path)
    assert "no input 'n7'; and 43 more: the inputs of this package are 'x' (float32 of shape (4, 8))" in said


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, words in (("gone.npy", "does not exist"), (".", "is a folder"), ("pipe", "is a named pipe")):
        with pytest.raises(UsageError, match=words):
            read_inputs([str(tmp_path / name)], TENSORS, FIELDS)


def test_changed_bytes_never_end_in_another_exception(tmp_path: Path) -> None:
    drawn, path = np.random.default_rng(7), tmp_path / "it"
    kinds = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
    whole = [npy(X), *(archive(kind, x=npy(X)) for kind in kinds)]
    refused = 0
    for _ in range(600):
        data = bytearray(whole[drawn.integers(len(whole))])
        for _ in range(drawn.integers(1, 5)):
            data[drawn.integers(len(data))] = drawn.integers(256)
        path.write_bytes(data[: drawn.integers(1, len(data))] if drawn.random() < 0.2 else data)
        try:
            read_inputs([str(path)], TENSORS, FIELDS)
        except UsageError:
            refused += 1
    assert refused > 300
