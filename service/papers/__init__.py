"""The papers' experiments, run again: each file has one, with the printed figures beside ours."""
