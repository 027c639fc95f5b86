"""Bradley-Terry ratings, their intervals, and what tokens buy."""
