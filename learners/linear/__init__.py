"""Linear learners, one file per paper family."""
