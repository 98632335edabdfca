from __future__ import annotations

import math

import pytest

from dotnetdiag.server.distribution import Distribution, explicit_buckets, exponential_buckets


def test_quantiles_are_interpolated_within_their_bucket() -> None:
    found = Distribution(explicit_buckets([0, 10, 20], [0, 10, 10, 0]))
    assert [found.quantile(share) for share in (0.25, 0.5, 0.75, 0.95, 1)] == [5, 10, 15, 19, 20]


def test_extreme_values_bound_the_buckets_without_a_limit() -> None:
    found = Distribution(explicit_buckets([10], [4, 4]), least=2, most=18)
    assert found.quantile(0) == 2
    assert found.quantile(0.25) == 6
    assert found.quantile(1) == 18


def test_a_bucket_without_a_limit_has_its_other_where_extremes_are_not_known() -> None:
    assert Distribution(explicit_buckets([10], [4, 0])).quantile(0.5) == 10
    assert Distribution(explicit_buckets([10], [0, 4])).quantile(0.5) == 10
    assert Distribution(explicit_buckets([10], [0, 4]), least=math.inf, most=-math.inf).quantile(0.5) == 10


def test_equal_values_have_their_value_as_every_quantile() -> None:
    found = Distribution(exponential_buckets(0, 2, [7]), least=5.5, most=5.5)
    assert {found.quantile(share) for share in (0.01, 0.5, 0.99)} == {5.5}


def test_nothing_has_no_quantile() -> None:
    assert math.isnan(Distribution().quantile(0.5))
    assert Distribution(explicit_buckets([1], [0, 0])).count == 0


def test_exponential_buckets_have_powers_as_limits() -> None:
    assert list(exponential_buckets(0, 2, [1, 0, 3])) == [((4, 8), 1), ((8, 16), 0), ((16, 32), 3)]
    assert list(exponential_buckets(1, 0, [1, 1]))[1][0] == pytest.approx((math.sqrt(2), 2))
    assert list(exponential_buckets(-1, 1, [1])) == [((4, 16), 1)]
    assert list(exponential_buckets(0, 2, [1], -1)) == [((-8, -4), 1)]


@pytest.mark.parametrize("scale", [20, 0, -10])
@pytest.mark.parametrize("offset", [-(1 << 31), 1 << 31])
def test_limits_of_absurd_buckets_are_finite(scale: int, offset: int) -> None:
    ((lower, upper), _) = next(exponential_buckets(scale, offset, [1]))
    assert 0 < lower <= upper < math.inf


def test_two_add_up_whatever_their_buckets_are() -> None:
    both = Distribution(explicit_buckets([0, 10], [0, 10, 0]), total=50, least=1, most=9)
    both = both + Distribution(exponential_buckets(0, 3, [10]), total=120, least=10, most=15)
    assert (both.count, both.total, both.least, both.most) == (20, 170, 1, 15)
    assert both.quantile(0.5) == 10  # the least of one is not known of the other: buckets keep their limits
    assert both.quantile(1) == 15
    assert (Distribution() + both) is both
    assert (both + Distribution()) is both
