"""Types and small mechanisms that every other package stands on; imports nothing of ours."""
