"""Departure: which layer of a package first computes something else than the reference, and by how much.

Each layer is judged alone: its kernel is evaluated with sums in double on what the layers before it really wrote. So an
error that only passes through a layer, or that a network amplifies, is not blamed on it. Where all layers are right
alone, the imported model is compared with the model's own reference, node by node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np

from edgetune.errors import EdgetuneError, PackageInvalid, SelfTestFailed, UnknownBoard, WrongResult
from edgetune.frontend.model_format import ImportDeparture, Model
from edgetune.graph.accuracy import Tolerance, compare
from edgetune.graph.evaluate import ReferenceFunction, Values
from edgetune.graph.layout.axis_order import given_back
from edgetune.graph.loops import Written, stages, without_loops, written_by
from edgetune.graph.precision import with_precision
from edgetune.graph.program import Param, Program
from edgetune.graph.states import as_built, with_states
from edgetune.graph.ways import Ways
from edgetune.measure.reference import tolerance_of
from edgetune.package.golden import Golden
from edgetune.package.manifest import interface_of, kernels_of_layer, read_manifest, states_of
from edgetune.pipeline.backends import backend_of
from edgetune.pipeline.compile_input import CompileInput, program_with
from edgetune.rewrites.program import decided
from edgetune.target.board_kind import BoardKind
from edgetune.target.preferences import Precision
from edgetune.target.target import load_board_kind
from edgetune.verify.layers import LayerError, LayersRun
from edgetune.verify.verify import VerifyReport

_MOVES, _UNITS, _MARGIN = 3, 4.0, 4.0
"""Runs with moved inputs, by how many units in the last place, and how often the largest effect of them is allowed."""
REPORT_IT = "no other schedule changes that: please report it with the model"


def layer_errors(program: Program, labels: Sequence[str], case: Golden, run: LayersRun) -> Iterator[LayerError]:
    """The error of each layer that `run` has, a run of the package of `program` on the inputs of `case`."""
    kernels = program.kernels
    layers = stages(program)[: len(run.written)]
    used = sorted({call.kernel for call in program.calls[: layers[-1].stop if layers else 0]})
    built = dict(zip(used, ReferenceFunction.together([kernels[number].function for number in used]), strict=True))
    scripts = {number: str(kernels[number].function.script()) for number in used}
    found, right = Values(program, case.inputs), Values(program, case.inputs)
    for index, (stage, written) in enumerate(zip(layers, run.written, strict=True)):
        outputs = written_by(program, stage)
        if [len(data) for data in written] != [one.nbytes for one in outputs]:
            raise PackageInvalid(
                f"MANIFEST.json has layer {index} write other tensors than its kernel does: build the package again "
                "with `edgetune build`"
            )
        alone, whole = found.computed_by(stage, built), right.computed_by(stage, built)
        got = [_elements(one, data) for one, data in zip(outputs, written, strict=True)]
        calls = program.calls[stage.start : stage.stop]
        script = "\n".join(scripts[number] for number in dict.fromkeys(call.kernel for call in calls))
        allowed = [tolerance_of(_param(one), script, wanted) for one, wanted in zip(outputs, alone, strict=True)]
        judged = [_judged(*one) for one in zip(got, alone, allowed, strict=True)]
        if any(one.departs for one in judged):
            effects = _effects_of_rounding(partial(found.computed_by, stage, built), alone)
            wider = [_widened(*one) for one in zip(allowed, effects, strict=True)]
            judged = [_judged(*one) for one in zip(got, alone, wider, strict=True)]
        worst = max(judged, key=lambda one: (one.departs, one.off))
        passed_on = max(compare(mine, exact, Tolerance()).relative for mine, exact in zip(got, whole, strict=True))
        found.put(stage, got)
        right.put(stage, whole)
        name = kernels[calls[0].kernel].name if stage.loop is None else ""
        yield LayerError(index, labels[index], name, worst.off, passed_on, worst.allowed, worst.departs)


def _effects_of_rounding(
    computed: Callable[[Callable[[np.ndarray], np.ndarray]], list[np.ndarray]], alone: Sequence[np.ndarray]
) -> list[float]:
    """By how much each output of a kernel moves, at most, where what it reads moves by some units in the last place.

    `computed` is the kernel on inputs that a function has moved, `alone` its outputs where nothing is. A quantised
    kernel rounds some sums to another step then, and a logarithm of little is far off.
    """
    generator = np.random.default_rng(0)

    def moved(array: np.ndarray) -> np.ndarray:
        if array.dtype.kind != "f":
            return array
        units = generator.uniform(-_UNITS, _UNITS, array.shape)
        return np.asarray(array + units * np.spacing(np.abs(array)), array.dtype)

    effects = [0.0] * len(alone)
    for _ in range(_MOVES):
        pairs = zip(computed(moved), alone, strict=True)
        effects = [
            max(effect, compare(found, wanted, Tolerance()).absolute)
            for effect, (found, wanted) in zip(effects, pairs, strict=True)
        ]
    return effects


def _widened(tolerance: Tolerance, effect: float) -> Tolerance:
    absolute = _MARGIN * effect
    return replace(tolerance, absolute=absolute, share=1.0) if tolerance.absolute < absolute < np.inf else tolerance


class _Judged(NamedTuple):
    off: float
    allowed: float
    departs: bool


def _judged(found: np.ndarray, wanted: np.ndarray, tolerance: Tolerance) -> _Judged:
    error = compare(found, wanted, tolerance)
    magnitudes = np.abs(wanted.astype(np.float64))
    largest = float(np.max(magnitudes, initial=0.0, where=np.isfinite(magnitudes))) or 1.0
    return _Judged(error.relative, error.bound / largest, not error.allowed)


def _param(written: Written) -> Param:
    """A parameter of what a layer writes."""
    return Param("", written.elements.shape, written.dtype, "output")


def _elements(written: Written, data: bytes) -> np.ndarray:
    """The elements of an output that its layer writes, from the bytes that lie there."""
    kind = np.dtype(written.dtype)
    whole = np.frombuffer(data, kind.newbyteorder("<")).astype(kind)
    return np.asarray(whole[written.elements - written.first])


def program_of(model: Model, manifest: Mapping[str, Any], target: BoardKind | None = None) -> Program:
    """The program that the package with `manifest` was made of, for boards of `target`, or else of the one it names.

    Raises PackageInvalid where this version makes another of `model`.
    """
    states = [state for state in states_of(manifest) if state.of_model]
    tensors = (*interface_of(manifest), *(end for state in states for end in state.ends))
    exchanged = frozenset(tensor.name for tensor in tensors if tensor.layout == "channels_last")
    pairs = {state.name_in: state.name_out for state in states}
    workloads = {kernel["name"]: kernel["provenance"].get("workload") for kernel in manifest["kernels"]}
    wanted = [workloads.get(name) for layer in manifest["layers"] for name in kernels_of_layer(layer)]
    board = target or _board_named(str(manifest["target"]["name"]))
    for ways in map(Ways._make, product((True, False), (False, True))):
        plain = program_with(model, exchanged, pairs, ways)
        for precision, whole in product(get_args(Precision), _in_forms(plain, board)):
            for form in _forms(with_precision(whole, precision)):
                program = _of_package(with_states(form, pairs), manifest)
                if [program.kernels[call.kernel].workload for call in program.calls] == wanted:
                    return program
    raise PackageInvalid(
        f"this version of edgetune makes other kernels of {manifest['model']['file']} than the package has: build it "
        "again with `edgetune build`"
    )


def _in_forms(plain: Program, board: BoardKind | None) -> list[Program]:
    """A program in the forms for a board, and in those of any; a board may have changed since a package was made."""
    others = [decided(plain)]
    return others if board is None else [backend_of(board).in_forms(plain, board), *others]


def _board_named(name: str) -> BoardKind | None:
    """The kind of board that a package names, where this machine knows it."""
    try:
        return load_board_kind(name)
    except UnknownBoard:
        return None


def _of_package(program: Program, manifest: Mapping[str, Any]) -> Program:
    """`program` with the copies of states that the package with `manifest` has."""
    return as_built(program, {state.name_in: state.copied for state in states_of(manifest)})


def _forms(program: Program) -> Iterator[Program]:
    """All programs that may become a package: divisions, each with its loops and without them."""
    for one in (program, *program.divisions):
        yield from ((one, without_loops(one)) if one.loops else (one,))


@dataclass(frozen=True)
class Departure:
    """Where a package departs from its reference: in a layer, or at a node of the imported model; or neither is seen.

    `errors` are those of all layers for one case. `fixed`: the kernel of `layer` has a default schedule. `ended` says
    how the run ended, where it did not reach its end.
    """

    errors: Sequence[LayerError]
    layer: LayerError | None = None
    imported: ImportDeparture | None = None
    fixed: bool = False
    ended: str = ""

    @property
    def found(self) -> bool:
        """Whether something departs."""
        return self.layer is not None or self.imported is not None

    def __str__(self) -> str:
        """A sentence's part that says where, by how much, and what to do."""
        if self.layer is not None:
            kernel = f" kernel {self.layer.kernel}," if self.layer.kernel else ""
            named = f"layer {self.layer.index}, {self.layer.name},{kernel}"
            if self.ended:
                return f"the run ends in {named[:-1]} ({self.ended}): {self._advice}"
            return (
                f"{named} departs first: for what it reads, its result is off by {self.layer.alone:.3g} of the largest "
                f"magnitude, and {self.layer.allowed:.3g} is allowed; {self._advice}"
            )
        if self.imported is not None:
            one = self.imported
            return (
                f"the C computes what was imported, and the imported model departs from {one.reference} at "
                f"{one.place}: tensor {one.tensor!r} is off by {one.relative:.3g} of its largest magnitude, and "
                f"{one.allowed:.3g} is allowed; {REPORT_IT}"
            )
        return (
            f"each of the {len(self.errors)} layers is right for what it reads, so their rounding adds up to that; "
            f"{REPORT_IT}"
        )

    @property
    def _advice(self) -> str:
        if self.fixed:
            return "it has the default schedule, and `edgetune tune` may find one that is right"
        return "its schedule was right when it was measured: please report it with the model"


def departure_of(
    package: Path,
    subject: CompileInput,
    failed: EdgetuneError,
    layers: Callable[[Golden], LayersRun],
) -> str:
    """Where `package`, made of `subject` and tested with the error `failed`, departs, as a part of a sentence.

    `layers` runs the package on the inputs of a case.
    """
    manifest = read_manifest(package)
    try:
        program = _of_package(subject.program, manifest)
        departure = find_departure(subject.model, program, manifest, subject.goldens, layers)
    except EdgetuneError as error:
        return f"which layer departs cannot be seen ({error.message})"
    return described(departure, failed)


def described(departure: Departure, failed: EdgetuneError) -> str:
    """`departure` of a package that was tested with the error `failed`, as a part of a sentence."""
    if not departure.found and not isinstance(failed, WrongResult):
        return f"each layer computes what it should: {REPORT_IT}"
    return str(departure)


def find_departure(
    model: Model | None,
    program: Program,
    manifest: Mapping[str, Any],
    cases: Sequence[Golden],
    layers: Callable[[Golden], LayersRun],
) -> Departure:
    """Where the package with `manifest` departs, run on the inputs of `cases` by `layers`; raises what that does.

    Without `model`, only layers are compared.
    """
    named = [layer["label"] for layer in manifest["layers"]]
    defaults = {k["name"] for k in manifest["kernels"] if k["provenance"].get("origin") == "fixed"}
    errors: list[LayerError] = []
    for case in cases:
        run = layers(case)
        errors = list(layer_errors(program, named, case, run))
        if run.ended and len(errors) < len(named):
            layer = manifest["layers"][len(errors)]
            errors.append(LayerError(len(errors), layer["label"], layer["kernel"], np.inf, np.inf, 0.0, departs=True))
        wrong = next((error for error in errors if error.departs), None)
        if wrong is not None:
            called = kernels_of_layer(manifest["layers"][wrong.index])
            return Departure(errors, wrong, fixed=not defaults.isdisjoint(called), ended=run.ended)
    if model is None:
        return Departure(errors)
    layouts = {tensor.name: tensor.layout for tensor in program.tensors}
    feeds = (given_back(case.inputs, layouts) for case in cases)
    departures = (model.import_departure(feed, judged_alone) for feed in feeds)
    return Departure(errors, imported=next(filter(None, departures), None))


def judged_alone(wanted: np.ndarray) -> Tolerance:
    """The tolerance of a node's result, computed from equal inputs: that of a kernel."""
    return tolerance_of(Param("", wanted.shape, str(wanted.dtype), "output"), "float", wanted)


def by_layer(
    verified: Callable[[], VerifyReport],
    model: Model,
    manifest: Mapping[str, Any],
    cases: Sequence[Golden],
    layers: Callable[[Golden], LayersRun],
    told: Callable[[Sequence[LayerError]], None] | None,
    target: BoardKind | None = None,
) -> VerifyReport:
    """What `verified` returns, with the errors of all layers where `told` is to be called with them.

    Where it raises SelfTestFailed or WrongResult, the message gets the layer that departs first.
    """

    def departure(asked: Sequence[Golden], blamed: Model | None) -> Departure:
        found = find_departure(blamed, program_of(model, manifest, target), manifest, asked, layers)
        if told is not None:
            told(found.errors)
        return found

    try:
        report = verified()
    except (SelfTestFailed, WrongResult) as failed:
        try:
            where = described(departure(cases, model), failed)
        except EdgetuneError as error:
            where = f"which layer departs cannot be seen ({error.message})"
        raise type(failed)(f"{failed.message}; {where}") from failed
    # What reads a state that is still zero says little of its weights.
    telling = next((case for case in cases if case.goes_on), cases[0])
    return replace(report, layers=tuple(departure([telling], None).errors)) if told is not None else report
