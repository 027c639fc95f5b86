"""Profiles, keys and the client files they switch."""
