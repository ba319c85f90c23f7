"""Error counts, quality measures, calibration and history."""
