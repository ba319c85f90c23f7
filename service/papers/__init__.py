"""Experiments of the papers. Each file runs one again and shows the printed figures beside ours."""
