"""Gateways of our own, on loopback only."""
