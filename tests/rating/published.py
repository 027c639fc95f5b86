"""Published tables that estimators are held against, with where they stand."""

from __future__ import annotations

import numpy as np

# Stigler (1994); Turner & Firth (2012), Journal of Statistical Software 48(9), data set `citations` of
# BradleyTerry2. Row "cited" beats column "citing". Estimates and errors re-derived with R 4.2 and BradleyTerry2.
JOURNALS = ("Biometrika", "Comm Statist", "JASA", "JRSS-B")
CITATIONS = np.array(
    [[0, 730, 498, 221], [33, 0, 68, 17], [320, 813, 0, 142], [284, 276, 325, 0]], dtype=float
)
CITATIONS_ML = np.array([0.0, -2.949072497, -0.479569770, 0.268954056])
CITATIONS_SE = np.array([0.0, 0.102545335, 0.060588729, 0.070829965])
CITATIONS_FIRTH = np.array([0.0, -2.944381822, -0.479075261, 0.268531023])
CITATIONS_FIRTH_SE = np.array([0.0, 0.102367839, 0.060574698, 0.070818695])
CITATIONS_COVARIANCE = {(1, 2): 0.002274547, (1, 3): 0.001460419, (2, 3): 0.001683558}
CITATIONS_LOG_LIKELIHOOD = -20.196940  # with binomial coefficients

# Agresti (2002), Categorical Data Analysis, 2nd ed., tables 10.10 and 10.11: home, away, home wins, away wins.
TEAMS = ("Ba", "Bo", "Cl", "De", "Mi", "NY", "To")
BASEBALL_TEXT = """
Mi De 4 3; Mi To 4 2; Mi NY 4 3; Mi Bo 6 1; Mi Cl 4 2; Mi Ba 6 0; De Mi 3 3; De To 4 2; De NY 4 3; De Bo 6 0;
De Cl 6 1; De Ba 4 3; To Mi 2 5; To De 4 3; To NY 2 4; To Bo 4 3; To Cl 4 2; To Ba 6 0; NY Mi 3 3; NY De 5 1;
NY To 2 5; NY Bo 4 3; NY Cl 4 2; NY Ba 6 1; Bo Mi 5 1; Bo De 2 5; Bo To 3 3; Bo NY 4 2; Bo Cl 5 2; Bo Ba 6 0;
Cl Mi 2 5; Cl De 3 3; Cl To 3 4; Cl NY 4 3; Cl Bo 4 2; Cl Ba 2 4; Ba Mi 2 5; Ba De 1 5; Ba To 1 6; Ba NY 2 4;
Ba Bo 1 6; Ba Cl 3 4
"""
BASEBALL = [
    (home, away, int(won), int(lost))
    for home, away, won, lost in (g.split() for g in BASEBALL_TEXT.split(";"))
]
# Fifteen digits: R 4.2.2 with BradleyTerry2 1.1.2 and brglm 0.7.2 (Debian 12), run on these tables on 2026-11-29,
# glm.control(epsilon = 1e-15) so that errors are those at the maximum, brglm.control(br.epsilon = 1e-14).
BASEBALL_ML = np.array(
    [
        0,
        1.107697705378655,
        0.683852769159161,
        1.436408431812436,
        1.581355876661394,
        1.247617845141388,
        1.294485123911807,
    ]
)
BASEBALL_SE = np.array(
    [
        0,
        0.333878206989037,
        0.331876672710727,
        0.339568506378472,
        0.343255981594256,
        0.335860922525364,
        0.336669401422480,
    ]
)
BASEBALL_FIRTH = np.array(
    [
        0,
        1.080378482160755,
        0.666262946432234,
        1.401575743685941,
        1.543122354552388,
        1.217119478566167,
        1.262917529066407,
    ]
)
BASEBALL_FIRTH_SE = np.array(
    [
        0,
        0.332030212254621,
        0.330146148320765,
        0.337511475709436,
        0.341066520822383,
        0.333937247632034,
        0.334716196938006,
    ]
)
BASEBALL_HOME = np.array(
    [
        0,
        1.143802653305602,
        0.704694456907468,
        1.475357213594856,
        1.619554993587365,
        1.281340403284143,
        1.327110398080278,
    ]
)
BASEBALL_HOME_SE = np.array(
    [
        0,
        0.337842535245339,
        0.335001717498819,
        0.344552212894513,
        0.347365683421863,
        0.340403721200138,
        0.340322567525342,
    ]
)
BASEBALL_HOME_EFFECT = (0.302260655528941, 0.130943707455824)
BASEBALL_HOME_FIRTH = np.array(
    [
        0,
        1.111175708724250,
        0.683990968874283,
        1.433780823672668,
        1.574068604011955,
        1.245043053136603,
        1.289613047324269,
    ]
)
BASEBALL_HOME_FIRTH_SE = np.array(
    [
        0,
        0.335558768528954,
        0.332908399447646,
        0.341960862384000,
        0.344652200274354,
        0.337998569055924,
        0.337922038878882,
    ]
)
BASEBALL_HOME_FIRTH_EFFECT = (0.293927992977256, 0.130444360711625)

# Davidson (1970), JASA 65; data set `pudding` of PlackettLuce: i, j, games, wins of i, wins of j, ties.
PUDDING_TEXT = """
1 2 57 19 22 16; 1 3 47 16 19 12; 2 3 48 19 19 10; 1 4 54 18 23 13; 2 4 51 23 19 9; 3 4 54 19 20 15;
1 5 50 13 19 18; 2 5 48 16 20 12; 3 5 48 16 15 17; 4 5 47 17 14 16; 1 6 51 18 21 12; 2 6 54 22 20 12;
3 6 41 13 18 10; 4 6 51 14 19 18; 5 6 44 11 21 12
"""
PUDDING_WINS, PUDDING_TIES = np.zeros((6, 6)), np.zeros((6, 6))
for _line in PUDDING_TEXT.split(";"):
    _i, _j, _n, _a, _b, _t = map(int, _line.split())
    PUDDING_WINS[_i - 1, _j - 1], PUDDING_WINS[_j - 1, _i - 1] = _a, _b
    PUDDING_TIES[_i - 1, _j - 1] = PUDDING_TIES[_j - 1, _i - 1] = _t
PUDDING_DAVIDSON = np.array([0, 0.220241900, 0.152977705, 0.175144909, 0.133865227, 0.377134896])
PUDDING_DAVIDSON_SE = np.array([0, 0.187216982, 0.193518358, 0.188211087, 0.192704561, 0.192406234])
PUDDING_LOG_NU = (-0.291927086, 0.082498692)
PUDDING_HALF = np.array([0, 0.160308820, 0.111343426, 0.127480337, 0.097430383, 0.274492469])
# BradleyTerry2 as above, on half wins.
PUDDING_HALF_FISHER_SE = np.array(
    [0, 0.159648795950, 0.165063250703, 0.160523348644, 0.164374914292, 0.163928954795]
)
PUDDING_HALF_SANDWICH_SE = np.array([0, 0.137883, 0.141096, 0.137122, 0.136498, 0.140897])
PUDDING_DROPPED = np.array([0, 0.218979943, 0.153569298, 0.170423051, 0.134924726, 0.373821598])

# The worked example of the encyclopedia article on the Bradley-Terry model: worths of geometric mean 1.
WORKED = np.array([[0, 2, 0, 1], [3, 0, 5, 0], [0, 3, 0, 1], [4, 0, 3, 0]], dtype=float)
WORKED_WORTHS = np.array([0.6398348, 1.0433144, 0.6598102, 2.2703766])


def bare_lines(wins: np.ndarray, names: tuple[str, ...]) -> list[tuple[str, str]]:
    """(winner, loser) as often as the matrix says."""
    return [
        (names[i], names[j])
        for i in range(len(names))
        for j in range(len(names))
        for _game in range(int(wins[i, j]))
    ]
