"""One module per client: owned keys, effective URL, launch recipe, live state."""
