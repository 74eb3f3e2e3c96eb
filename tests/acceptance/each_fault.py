"""A whole small tune under chosen faults, one after the other: it ends with a package, and its database is judged."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.acceptance import ledger
from tests.acceptance.case import EXAMPLES
from tests.acceptance.kill9 import State, look
from tests.acceptance.soak_faults import COSTLY, FAULTS, KINDS, SAID, Deed, do, hostile_from
from tests.acceptance.stand_ins import Home, Search

MODEL = EXAMPLES / "ad_ae.onnx"
KERNELS = 5  # of that model, each of which is measured with a fixed schedule first
FIRST_S = 300.0
END_S = 300.0
CANDIDATES = "candidates go wrong"
_DOWN_S = 1.0


def each_fault(folder: Path) -> str:
    """Run a tune under each fault there is, and end each again, which measures nothing; return a line for each."""
    lines = []
    for number, kind in enumerate((CANDIDATES, *FAULTS)):
        kinds = () if kind == CANDIDATES else (kind,)
        said = tune_through(folder / str(number), kinds, boards=2, hostile=kind == CANDIDATES, again=True)
        lines.append(f"{kind}: {said}")
    return "\n".join(lines)


def tune_through(
    folder: Path, kinds: Sequence[str], *, boards: int = 1, hostile: bool = False, again: bool = False
) -> str:
    """Tune on boards that suffer `kinds`; return a line of what was seen, raise AssertionError for what must not be.

    A fault comes after two more candidates, with a jump of the user's own clock, and the next one once its board is
    back. With `hostile` one candidate of each bad kind is among the others. With `again` the same command is given
    once more.
    """
    home = Home(folder / "home")
    home.furnish(boards, hostile_from(folder / "cc", KERNELS + 2) if hostile else "gcc")
    try:
        said = _tune(folder, home, kinds, hostile=hostile, again=again)
        home.leave()
        return said
    finally:
        home.close()


def _tune(folder: Path, home: Home, kinds: Sequence[str], *, hostile: bool, again: bool) -> str:
    db, trials = folder / "records.db", 16 + 4 * len(kinds)
    words: list[str | Path] = [MODEL, "--board", "soak", "--seed", "1", "--db", db, "-o", folder / "package"]
    words += ["--trials", str(trials)]
    search = Search(words, folder / "tune.json", cwd=home.path, environment=home.environment())
    try:
        deeds = _do_all(search, home, kinds)
        code = search.wait(END_S)
    finally:
        search.close()
    assert code == 0, f"the search ended with {code}"
    state = look(db)
    ledger.judge_run(search, State(), state)
    ledger.judge_names(search)
    ledger.judge_deeds(search, deeds)
    assert len(state.records) == trials, f"{len(state.records)} records of {trials}"
    assert (folder / "package" / "MANIFEST.json").is_file(), "no package was written"
    assert "board soak-" in search.result()["verified"]["ran_on"]
    if hostile:
        _judge_candidates(search)
    if again:
        more = Search(words, folder / "again.json", cwd=home.path, environment=home.environment())
        assert more.wait(END_S) == 0, f"the same command does not end again:\n{more.told_last()}"
        ledger.judge_run(more, state, look(db))
    return ledger.described(search, state)


def _do_all(search: Search, home: Home, kinds: Sequence[str]) -> list[Deed]:
    assert home.clock is not None
    deeds: list[Deed] = []
    for number, kind in enumerate(kinds):
        seen = search.count
        search.until(lambda seen=seen: search.count >= seen + 2, FIRST_S, f"candidates before '{kind}'")  # type: ignore[misc]
        name, board = list(home.boards.items())[number % len(home.boards)]
        if kind == "clock jumps":
            home.clock.jump(-3600)
        deed = do(kind, name, board, _DOWN_S)
        deeds.append(deed)
        if kind in COSTLY:
            search.until(
                lambda deed=deed: _is_over(search, deed, has_twins=len(home.boards) > 1),  # type: ignore[misc]
                ledger.NOTICE_S,
                f"{name} is back after '{kind}'",
            )
            assert SAID.get(kind, "lost") in search.told(name, deed.began), f"'{kind}' was not told"
    return deeds


def _is_over(search: Search, deed: Deed, *, has_twins: bool) -> bool:
    """Whether the board is back, or its twins have done all there was to do before it was."""
    ended = search.process.poll() is not None
    return "recovered" in search.told(deed.board, deed.began) or (has_twins and ended)


def _judge_candidates(search: Search) -> None:
    """Each bad candidate was distinguished and counted, and no board was lost to one."""
    failed = dict(search.result()["search"]["failed"])
    failed.pop("refused_noisy", None)  # a busy machine may do that to a good one
    assert failed == {"crashed": len(KINDS) - 1, "timeout": 1}, failed
    assert "lost" not in {event["what"] for event in search.of_board()}
