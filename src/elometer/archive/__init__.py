"""What a start leaves behind, and the proof that it can be derived again."""
