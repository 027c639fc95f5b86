"""What a key may spend, and the gate its calls pass through."""
