"""Student's t without scipy: an interval must not cost a command line the import of a numerical library.

The distribution function is a regularised incomplete beta function, computed by its continued fraction
(Lentz's method, as in Press et al., Numerical Recipes §6.4); the quantile by Newton's method on it.
"""

from __future__ import annotations

import functools
import math
from statistics import NormalDist

NORMAL = NormalDist()
_TINY = 1e-300


def _continued_fraction(a: float, b: float, x: float) -> float:
    c, d = 1.0, 1.0 / max(1.0 - (a + b) * x / (a + 1.0), _TINY)
    value = d
    for m in range(1, 10_000):
        for factor in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + factor * d
            c = 1.0 + factor / c
            d = 1.0 / (d if abs(d) > _TINY else _TINY)
            c = c if abs(c) > _TINY else _TINY
            value *= c * d
        if abs(c * d - 1.0) < 1e-16:
            break
    return value


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """I_x(a, b) for 0 < x < 1."""
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    if x < (a + 1.0) / (a + b + 2.0):
        return math.exp(log_front) * _continued_fraction(a, b, x) / a
    return 1.0 - math.exp(log_front) * _continued_fraction(b, a, 1.0 - x) / b


def t_tail(value: float, degrees: float) -> float:
    """P(T > value) of Student's t with `degrees` > 0 degrees of freedom (math.inf: the normal law)."""
    if math.isinf(degrees):
        return NORMAL.cdf(-value)
    if value == 0.0:
        return 0.5
    if math.isinf(value):
        return 0.0 if value > 0 else 1.0
    x = degrees / (degrees + value * value)
    half = 0.5 * (_incomplete_beta(0.5 * degrees, 0.5, x) if x < 1.0 else 1.0)
    return half if value > 0 else 1.0 - half


@functools.lru_cache(maxsize=4096)
def t_quantile(probability: float, degrees: float) -> float:
    """The value below which Student's t with `degrees` > 0 lies with `probability` in (0, 1)."""
    if probability < 0.5:
        return -t_quantile(1.0 - probability, degrees)
    if probability == 0.5:
        return 0.0
    if math.isinf(degrees):
        return NORMAL.inv_cdf(probability)
    low, high = 0.0, 1.0
    tail = 1.0 - probability
    while t_tail(high, degrees) > tail:
        low, high = high, 2.0 * high
    log_scale = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - 0.5 * math.log(degrees * math.pi)
    value = 0.5 * (low + high)
    for _step in range(200):
        excess = t_tail(value, degrees) - tail
        low, high = (value, high) if excess > 0 else (low, value)
        density = math.exp(log_scale - (degrees + 1) / 2 * math.log1p(value * value / degrees))
        following = value + excess / density if density > 0 else math.inf
        if not low < following < high:
            following = 0.5 * (low + high)
        if abs(following - value) <= 1e-15 * value:
            return following
        value = following
    return value


def two_sided(level: float, degrees: float) -> float:
    """The half-width, in standard errors, of an interval of `level` (0.95 for 95 %)."""
    return t_quantile(0.5 + 0.5 * level, degrees)
