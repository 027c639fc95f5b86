"""Widgets drawn by lines."""
