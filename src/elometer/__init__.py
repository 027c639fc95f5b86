"""elometer: how much Elo does each further token of test-time compute buy?"""

__version__ = "0.1.0"
