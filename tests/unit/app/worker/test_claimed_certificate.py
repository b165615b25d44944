"""Claimed certificates against recomputed ones: every false figure is named, and nothing that is true."""

from typing import Any

import pytest

from app.worker.claimed_certificate import TOLERANCE, contradictions, is_confirmed

Json = dict[str, Any]


def figures(primal: float = 10.0, bound: float | None = 8.0, unit: float | None = None, **fields: Any) -> Json:
    gap = None if bound is None else primal - bound
    relative = None if gap is None else gap / (unit or primal)
    return {"primal": primal, "dual_bound": bound, "gap": gap, "relative_gap": relative, **fields}


def whole(*parts: Json, **fields: Any) -> Json:
    """The sum of classes."""
    total = figures(sum(part["primal"] for part in parts), sum(part["dual_bound"] for part in parts))
    return {**total, "per_class": list(parts), **fields}


def fields_of(claimed: Json, found: Json, *, has_proof: bool = True, tol: float | None = None) -> list[str]:
    return [one["field"] for one in contradictions(claimed, found, has_proof=has_proof, tol=tol)]


def test_what_was_found_again_is_confirmed() -> None:
    for claim in (
        figures(),
        figures(0.0, 0.0, 1.0),
        figures(bound=None),
        whole(figures(label="a"), figures(label="b")),
    ):
        for has_proof in (True, False):
            assert fields_of(claim, claim, has_proof=has_proof, tol=None) == []
        assert is_confirmed(claim, claim)
    assert fields_of(figures(), figures(), tol=0.2) == []


@pytest.mark.parametrize("has_proof", [True, False])
def test_another_primal_value_contradicts(has_proof: bool) -> None:
    near, far = 10.0 * (1.0 + 0.5 * TOLERANCE), 10.0 * (1.0 + 3.0 * TOLERANCE)
    for claimed, found in ((10.0, near), (near, 10.0)):
        assert fields_of(figures(claimed, 8.0), figures(found, 8.0), has_proof=has_proof) == []
    for claimed, found in ((10.0, far), (far, 10.0)):
        assert fields_of(figures(claimed, 8.0), figures(found, 8.0), has_proof=has_proof) == ["certificate.primal"]
    (one,) = contradictions(figures(10.0), figures(12.0), has_proof=has_proof, tol=None)
    assert one == {"field": "certificate.primal", "claimed": 10.0, "found": 12.0}


def test_a_bound_above_the_proven_one_contradicts_if_the_proof_is_the_same() -> None:
    (one,) = contradictions(figures(bound=8.5), figures(bound=8.0), has_proof=True, tol=None)
    assert one == {"field": "certificate.dual_bound", "claimed": 8.5, "found": 8.0}
    assert fields_of(figures(bound=8.5), figures(bound=8.0), has_proof=False) == []
    assert not is_confirmed(figures(bound=8.5), figures(bound=8.0))
    assert fields_of(figures(bound=7.5), figures(bound=8.0)) == []
    assert is_confirmed(figures(bound=7.5), figures(bound=8.0))
    for has_proof in (True, False):
        above = {**figures(bound=10.5), "gap": 0.0, "relative_gap": 0.0}
        assert fields_of(above, figures(bound=8.0), has_proof=has_proof) == ["certificate.dual_bound"]
    within = 8.0 + 0.5 * TOLERANCE * 10.0
    assert fields_of(figures(bound=within), figures(bound=8.0)) == []
    assert is_confirmed(figures(bound=within), figures(bound=8.0))
    beyond = 8.0 + 2.0 * TOLERANCE * 10.0
    assert fields_of(figures(bound=beyond), figures(bound=8.0)) == ["certificate.dual_bound"]
    assert not is_confirmed(figures(bound=beyond), figures(bound=8.0))


def test_a_bound_where_none_is_proven() -> None:
    assert fields_of(figures(), figures(bound=None)) == ["certificate.dual_bound"]
    assert not is_confirmed(figures(), figures(bound=None))
    assert fields_of(figures(bound=None), figures()) == []
    assert is_confirmed(figures(bound=None), figures())
    assert is_confirmed(figures(bound=None), figures(bound=None))
    assert fields_of(figures(), figures(bound=None), has_proof=False) == []


def test_a_primal_value_below_zero_contradicts_and_nothing_that_follows_from_it() -> None:
    claimed = figures(-10.0, -12.0)
    assert fields_of(claimed, figures()) == ["certificate.primal", "certificate.relative_gap"]


def test_a_gap_must_follow_from_primal_and_bound() -> None:
    for gap in (1.9, 2.1, None):
        claimed = {**figures(), "gap": gap, "relative_gap": None if gap is None else gap / 10.0}
        assert fields_of(claimed, figures()) == ["certificate.gap"]
    assert fields_of({**figures(), "gap": 2.0 + 5e-9, "relative_gap": 0.2}, figures()) == []
    (one,) = contradictions({**figures(), "gap": 1.0, "relative_gap": 0.1}, figures(), has_proof=True, tol=None)
    assert one == {"field": "certificate.gap", "claimed": 1.0, "found": 2.0}
    none = {**figures(bound=None), "gap": 1.0, "relative_gap": 0.1}
    assert fields_of(none, figures()) == ["certificate.gap"]


def test_a_relative_gap_must_follow_from_the_gap() -> None:
    for relative in (0.19, 0.21, None):
        claimed = {**figures(), "relative_gap": relative}
        assert fields_of(claimed, figures()) == ["certificate.relative_gap"]
    assert fields_of({**figures(), "relative_gap": 0.2 + 0.5e-9}, figures()) == []
    assert fields_of({**figures(), "relative_gap": 0.2 + 2e-9}, figures()) == ["certificate.relative_gap"]
    (one,) = contradictions({**figures(), "relative_gap": 0.1}, figures(), has_proof=True, tol=None)
    assert one == {"field": "certificate.relative_gap", "claimed": 0.1, "found": 0.2}
    assert fields_of({**figures(bound=None), "relative_gap": 0.1}, figures()) == ["certificate.relative_gap"]
    # A primal value below the floor, which only the recomputed figures tell: gaps are measured against it.
    assert fields_of(figures(unit=40.0), figures(unit=40.0)) == []
    assert fields_of(figures(), figures(unit=40.0)) == ["certificate.relative_gap"]
    assert fields_of(figures(unit=40.0), figures()) == ["certificate.relative_gap"]
    # Rounding of the ratio is no floor.
    assert fields_of(figures(), figures(unit=10.0 * (1.0 + 1e-10))) == []
    wide = {**figures(10.0, 0.0), "gap": 10.0, "relative_gap": 1.0}
    assert fields_of(wide, wide) == []
    # Gaps of many times the unit are compared relatively.
    large = {**figures(10.0, 0.0), "relative_gap": 1.0}
    assert fields_of({**large, "relative_gap": 1.0 + 0.5e-9}, large) == []
    nothing = figures(0.0, 0.0, 1.0)
    assert fields_of(nothing, {**nothing, "relative_gap": 0.0}) == []


def test_classes_are_judged_one_by_one_and_by_their_sum() -> None:
    a, b = figures(label="a"), figures(4.0, 3.0, label="b")
    assert fields_of(whole(a, b), whole(a, b)) == []
    wrong = figures(4.0, 3.5, label="b")
    assert fields_of(whole(a, wrong), whole(a, b)) == ["certificate.dual_bound", "certificate.per_class[1].dual_bound"]
    assert not is_confirmed(whole(a, wrong, dual_bound=11.0), whole(a, b))
    assert not is_confirmed({**whole(a, b), "dual_bound": 12.0}, whole(a, b))
    low = {**whole(a, b), "dual_bound": 10.0, "gap": 4.0, "relative_gap": 4.0 / 14.0}
    assert fields_of(low, whole(a, b)) == ["certificate.dual_bound", "certificate.gap"]
    (bound, gap) = contradictions(low, whole(a, b), has_proof=True, tol=None)
    assert (bound["claimed"], bound["found"], gap["claimed"], gap["found"]) == (10.0, 11.0, 4.0, 3.0)
    missing = {**b, "dual_bound": None, "gap": None, "relative_gap": None}
    named = fields_of({**whole(a, b), "per_class": [a, missing]}, whole(a, b))
    assert named == ["certificate.dual_bound", "certificate.gap"]


def test_other_classes_contradict() -> None:
    a, b = figures(label="a"), figures(4.0, 3.0, label="b")
    claim = whole(a, b)
    for parts in ([b, a], [a], [], None, [a, {**b, "label": "c"}]):
        (one,) = contradictions({**claim, "per_class": parts}, claim, has_proof=True, tol=None)
        assert one["field"] == "certificate.per_class"
        assert one["claimed"] == (parts or None)
        assert one["found"] == [a, b]
    (one,) = contradictions(whole(a), figures(), has_proof=True, tol=None)
    assert one["found"] is None


def test_converged_is_claimed_of_the_whole_and_not_of_every_class() -> None:
    assert fields_of(figures(), figures(), tol=0.19) == ["converged"]
    (one,) = contradictions(figures(), figures(), has_proof=True, tol=0.19)
    assert one == {"field": "converged", "claimed": True, "found": False}
    assert fields_of(figures(bound=None), figures(bound=None), tol=0.5) == ["converged"]
    good, bad = figures(100.0, 99.0, label="a"), figures(1.0, 0.5, label="b")
    assert fields_of(whole(good, bad), whole(good, bad), tol=0.01) == ["converged"]
    assert fields_of(whole(good, bad), whole(good, bad), tol=0.1) == []


def test_a_primal_value_below_one_is_its_own_unit() -> None:
    """If the floor of the problem is unknown, it must not be assumed to be 1."""
    small = figures(primal=0.25, bound=0.125)
    assert small["relative_gap"] == 0.5
    assert fields_of(small, small) == []
