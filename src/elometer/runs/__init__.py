"""An experiment, its plan, and the start that carries it out."""
