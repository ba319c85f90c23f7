"""Event bytes become rows and labels, or a reject."""
