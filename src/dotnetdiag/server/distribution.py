"""What a histogram took, in buckets: how many values lay between two limits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

Bucket = tuple[float, float]
"""Its lower and its upper limit."""
_LARGEST_EXPONENT = 1023.0


class Distribution:
    """Counts by bucket. Another can be added, of other buckets too. ``least`` and ``most`` are the extreme values
    (infinite where they are not known), ``total`` is the sum of all."""

    __slots__ = ("_buckets", "count", "least", "most", "total")

    def __init__(
        self,
        buckets: Iterable[tuple[Bucket, int]] = (),
        *,
        total: float = 0.0,
        least: float = -math.inf,
        most: float = math.inf,
    ) -> None:
        self._buckets = {bucket: count for bucket, count in buckets if count > 0}
        self.count = sum(self._buckets.values())
        self.total = total
        self.least, self.most = (least, most) if least <= most else (-math.inf, math.inf)

    def __add__(self, other: Distribution) -> Distribution:
        """Both together."""
        if not self.count or not other.count:
            return self if self.count else other
        buckets = dict(self._buckets)
        for bucket, count in other._buckets.items():
            buckets[bucket] = buckets.get(bucket, 0) + count
        return Distribution(
            buckets.items(),
            total=self.total + other.total,
            least=min(self.least, other.least),
            most=max(self.most, other.most),
        )

    def quantile(self, share: float) -> float:
        """The value below which this share (0 to 1) of all lies: interpolated within its bucket, as if the values in it were spread evenly.

        A bucket without a limit counts as if it ended at the extreme value, or, where that is not known, at its other limit. NaN of nothing.
        """
        left = share * self.count
        value = math.nan
        for (lower, upper), count in sorted(self._buckets.items(), key=lambda item: (item[0][1], item[0][0])):
            lower, upper = max(lower, self.least), min(upper, self.most)
            lower = upper if math.isinf(lower) else lower
            upper = lower if math.isinf(upper) else upper
            value = lower + (upper - lower) * min(left / count, 1.0)
            left -= count
            if left <= 0:
                break
        return value


def explicit_buckets(bounds: Sequence[float], counts: Sequence[int]) -> Iterator[tuple[Bucket, int]]:
    """Of limits between buckets, ascending; the first and the last bucket have one limit."""
    limits = (-math.inf, *bounds, math.inf)
    return zip(itertools.pairwise(limits), counts, strict=False)


def exponential_buckets(scale: int, offset: int, counts: Sequence[int], sign: int = 1) -> Iterator[tuple[Bucket, int]]:
    """Of limits that are powers of ``2 ** 2 ** -scale``, from that with the exponent ``offset`` on; ``sign`` -1: of values below zero."""
    step = 2.0**-scale

    def limit(index: int) -> float:
        return math.pow(2.0, max(min(index * step, _LARGEST_EXPONENT), -_LARGEST_EXPONENT))

    for index, count in enumerate(counts, offset):
        near, far = sign * limit(index), sign * limit(index + 1)
        yield (min(near, far), max(near, far)), count
