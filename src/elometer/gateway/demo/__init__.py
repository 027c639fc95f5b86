"""A make-believe provider with a known truth."""
