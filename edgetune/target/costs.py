"""Costs: what the formulas of schedules and rewrites know of a core, in cycles, and how far they are trusted.

`Costs` holds facts of a core, one name for one meaning. A target file states those that it knows better under `costs`;
the others are those of its instruction set (`edgetune.target.isa`), which are the defaults below where it says nothing.
They choose schedules and take no part in how a schedule is printed: a record says what was timed, whatever they are.

`Margins` are the thresholds that say when a formula is believed. They are no facts of a core, and alike for all.

Units. A cost is in cycles of one core. One of an element is that of an element of 4 bytes, as float32; `Costs.move` and
`Costs.divided` take other sizes and lanes. One of a vector is that of a whole vector register, however many lanes it
has. A few are factors, and say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, StrictFloat, StrictInt

from edgetune.yaml_reader.checked import Checked

Cycles = Annotated[StrictFloat, Field(gt=0)]  # whole numbers too
NoCycles = Annotated[StrictFloat | StrictInt, Field(ge=0)]
Order = Literal["along_rows", "of_members", "interleaved", "turned", "into_copy", "one_by_one"]
"""How elements that are copied lie in the source and in the copy; see the fields `move_...` of `Costs`."""

_ELEMENT_BYTES = 4
_BYTE = 8  # bits
_BITS, _MORE_BITS = 128, 256
_LANES = 4


class Costs(Checked):
    """Cycles of one core for what kernels do. The module says what a cost of an element or of a vector is."""

    operation: Cycles = Field(
        default=0.5,
        description="Cycles of a vector operation whose operands are in registers, as a multiply-add, where enough of "
        "them are in flight.",
    )
    operations_in_flight: Annotated[StrictInt, Field(ge=1)] = Field(
        default=8,
        description="Operations in flight that keep a core's units busy: latency times those that begin in a cycle, or "
        "more. Formulas take a step of fewer sums for as long as one of that many.",
    )
    instruction: Cycles = Field(
        default=0.25, description="Cycles between the beginnings of two instructions of any kind: 1 / those of a cycle."
    )
    load: Cycles = Field(
        default=0.1,
        description="Cycles that a vector loaded from L1 adds to a step of an unrolled sum, beside its place among the "
        "operations.",
    )
    place_of_load: Cycles = Field(
        default=1,
        description="Operations of the time for which a load keeps a core from beginning operations, where both begin "
        "side by side; a factor. It is nearly 0 where one instruction begins at a time: `load` then says all.",
    )
    widened_factors: Cycles = Field(
        default=1,
        description="Loads that take as long as one of the factors of a lane, where these are widened before a dot "
        "product; a factor.",
    )
    iteration: NoCycles = Field(
        default=0, description="Cycles of an iteration of a loop over terms beside its body, where nothing hides them."
    )
    addresses: NoCycles = Field(
        default=0,
        description="Cycles of the addresses of both operands of a product, where nothing hides them: neighbours in "
        "memory share them.",
    )
    joint_results: NoCycles = Field(
        default=0,
        description="Cycles saved of each operation on a result of dot products where four neighbours become bytes "
        "together.",
    )
    far_load: Cycles = Field(
        default=0.5, description="Cycles that a vector adds to such a step beyond `load` where it comes from L2."
    )
    crossing_load: Cycles = Field(
        default=0.75, description="Cycles that a vector takes longer which lies in two lines of L1."
    )
    unaligned_operation: Cycles = Field(
        default=1.0,
        description="Cycles of a multiply-add whose operand is a vector of its own from any place: most cross a line.",
    )
    repeated_load: Cycles = Field(
        default=2, description="Loads of an operand that no register can keep, for each of its uses; a factor."
    )
    lane_load: Cycles = Field(
        default=1.0,
        description="Cycles to gather one lane of a vector whose elements have gaps, or to test the place of one.",
    )
    every_second: Cycles = Field(
        default=3.0,
        description="Cycles of a vector of every second element with the operation on it: two loads, a shuffle.",
    )
    store: Cycles = Field(default=0.5, description="Cycles of a vector that is stored to L1.")
    chained_term: Cycles = Field(
        default=2.0, description="Cycles of a term that is added to a single sum, without lanes."
    )
    loop_term: Cycles = Field(
        default=8, description="Cycles of a term that a plain loop adds to sums in memory, without lanes."
    )
    lanes_joined: Cycles = Field(
        default=1.0, description="Cycles to add the lanes of a vector, where those of several are joined together."
    )
    simple_function: Cycles = Field(
        default=1.0, description="Cycles of a function of a vector that is an instruction or two, as absolute values."
    )
    function: Cycles = Field(default=10.0, description="Cycles of a function of a vector by a polynomial, as exp.")
    division: Cycles = Field(
        default=2.0, description="Cycles of a division or a square root, of an element or of 128 bits."
    )
    division_256: Cycles = Field(default=2.5, description="The same for a vector of 256 bits.")
    division_512: Cycles = Field(default=4.0, description="The same for a vector of 512 bits.")

    far_line: Cycles = Field(default=2.6, description="Cycles to move a line of 64 bytes between L2 and L1.")
    shared_line: Cycles = Field(
        default=2.2,
        description="How many times longer a line takes that two tiles share, if many lines lie between them; a "
        "factor.",
    )
    far_element: Cycles = Field(
        default=0.125, description="Cycles of an element that is loaded from L2 together with its neighbours."
    )

    move_along_rows: Cycles = Field(
        default=0.125, description="Cycles to copy an element together with its neighbours, a vector at a time."
    )
    move_of_members: Cycles = Field(
        default=0.25,
        description="Cycles to copy an element of a batch of small members, each a row, into columns, by squares of "
        "vectors in registers. It is less than `move_turned`, for the whole batch stays in L2.",
    )
    move_interleaved: Cycles = Field(
        default=0.5,
        description="Cycles to copy an element so that a few rows take turns in one, or the reverse, by shuffles.",
    )
    move_turned: Cycles = Field(
        default=1.0,
        description="Cycles to copy an element of a matrix of whole vectors into its transpose, by squares of vectors.",
    )
    move_into_copy: Cycles = Field(
        default=1.0,
        description="Cycles to copy an element of an operand with another order, a border or repeated elements.",
    )
    move_one_by_one: Cycles = Field(default=2.0, description="Cycles to copy an element by itself, into any order.")
    move_apart: Cycles = Field(
        default=3.0, description="Cycles to copy an element by itself whose place in a ring is computed."
    )

    kernel_call: Cycles = Field(
        default=1024,
        description="Cycles of a sum below which the call of another kernel for it costs more than it saves.",
    )
    between_kernels: Cycles = Field(
        default=0.5, description="Cycles of an element that one kernel stores and another one loads."
    )

    packed_product: Cycles = Field(
        default=1.3,
        description="How many times longer a product takes that packs an operand in the same kernel; a factor.",
    )
    lone_rows: Cycles = Field(
        default=4.0,
        description="The same factor where fewer than four rows of results share a packed vector.",
    )
    both_cases: Cycles = Field(
        default=2,
        description="How many times longer vectors take that compute two cases to keep some lanes of each; a factor.",
    )
    tested_terms: Cycles = Field(
        default=3.0,
        description="How many times longer a sum takes whose steps are tested, to skip terms that are zero; a factor.",
    )
    row_of_terms: Cycles = Field(
        default=1.2,
        description="How many times longer a row of terms takes that is added to a row of sums, beside a register "
        "tile of as many operations; a factor.",
    )

    @property
    def one_at_a_time(self) -> bool:
        """Whether at most one instruction begins in a cycle."""
        return self.instruction >= 1

    def move(self, order: Order, element_bytes: int = _ELEMENT_BYTES, lanes: int = _LANES) -> float:
        """Cycles of one element of `element_bytes` that a copy moves in this order, with vectors of `lanes`.

        Vectors move bytes: of larger elements they move fewer. Without vectors (`lanes` of 1) all elements move one by
        one, which takes as long for any size.
        """
        if order == "one_by_one" or lanes == 1:
            return self.move_one_by_one
        cycles: float = getattr(self, f"move_{order}")
        return cycles * element_bytes / _ELEMENT_BYTES

    def divided(self, lanes: int, element_bytes: int = _ELEMENT_BYTES) -> float:
        """Cycles of a division, or a square root, of `lanes` elements of `element_bytes` in one vector."""
        bits = lanes * element_bytes * _BYTE
        if bits <= _BITS:
            return self.division
        return self.division_256 if bits <= _MORE_BITS else self.division_512


COSTS = Costs()
"""The costs where neither an instruction set nor a target says anything."""


@dataclass(frozen=True)
class Margins:
    """Thresholds of formulas: the share of the cycles that a change must leave, and the uses from which one pays.

    A formula is no measurement, so what it finds hardly faster stays as it is.
    """

    gain: float = 0.8
    """Most share of the predicted cycles that copied operands, phases, or lanes along another axis must leave."""

    gain_of_rewrite: float = 0.7
    """The same where results move too, lanes run across a batch, values are stored or an axis becomes shorter."""

    places_left: float = 0.5
    """Most share of the places of an axis that a condition must leave, so that a sum begins and ends by it."""

    gain_of_stages: float = 0.6
    """Most share of the steps of a window that two stages, for its lines and its columns, must leave.

    It is less than for other rewrites: windows of 3 x 3 keep their one stage, which needs no rows between two.
    """

    gain_of_form: float = 0.92
    """Most share of the cycles of the direct algorithm that a form for odd extents must leave."""

    gain_of_estimate: float = 0.8
    """Most share of the estimated instructions of a kernel as it is that another form, or another schedule, must leave.
    """

    arena_of_strips: float = 12.0
    """Percent of the arena that strips of copies must save for each percent that they add to the instructions of a run.

    The instructions are estimated: counted, strips add two to three times as many.
    """

    least_of_arena: float = 0.02
    """Least share of the arena that strips must save."""

    most_of_strips: float = 0.01
    """Most share that strips may add to the estimated instructions of a run."""

    of_ideal: float = 1.6
    """How many times its least instructions a schedule may have which is not compared with others."""

    worth_measuring: float = 1.5
    """How many times the instructions of the best form the next one may have that a search measures beside it."""

    gain_over_parts: float = 0.75
    """The same where the direct algorithm sums in parts, which keep operands in L2; overlapping tiles cannot."""

    repeated: float = 0.5
    """Most share of the elements of a stage that may be computed again, to be read before they leave L1."""

    measured: float = 0.25
    """The share of what `Costs.between_kernels` asks of a division from which on a search measures it."""

    of_products: float = 0.5
    """The share of the same that is asked where all reductions are products: in one kernel, one alone has a tile."""

    saved_by_members: float = 1 << 12
    """Fewest cycles that lanes across the members of a batch must save in all."""

    least_cycles_of_share: float = 3000
    """A reduction of fewer predicted cycles has no share of the ideal in its note: its call takes most of its time."""

    terms_of_stages: int = 1 << 12
    """Fewest terms of all windows that two stages sum up instead of one."""

    running_terms: int = 1 << 16
    """Fewest terms of all results of a running reduction that windows sum up."""

    elements_of_rows: int = 1 << 12
    """Fewest elements of short rows that lanes across the rows compute, by kernels of their own."""

    elements_turned: int = 1 << 10
    """Fewest results of a stage whose operands are turned in blocks: fewer are gathered as fast."""

    uses_of_stored: int = 8
    """Fewest uses of a value that another stage stores."""

    uses_of_product: int = 8
    """Fewest uses of each element of a product's operands from which on a register tile pays."""

    uses_of_divisor: int = 3
    """Fewest divisions by one value, or by one root, that become multiplications by its reciprocal."""

    uses_of_scaled_divisor: int = 64
    """The same for a divisor whose power of two is divided out before: that takes as long as some vectors."""

    uses_of_border: int = 2
    """Fewest terms for each element of rows that are copied with a border."""

    uses_of_columns: int = 2
    """Most times that the columns of an operand are read by short sums: products share them among lanes."""

    operations_of_weight: int = 3
    """Fewest operations of a weight of a gather that another stage stores."""


MARGINS = Margins()
"""The thresholds of formulas that decide."""

GENEROUS = Margins(gain=1.5, gain_of_rewrite=1.5, elements_of_rows=1 << 9, saved_by_members=0)
"""The thresholds of formulas that propose what is compared by an estimate of its own."""
