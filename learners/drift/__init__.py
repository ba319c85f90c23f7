"""Whether the world changed: detectors on the error, and the distributions of inputs, labels and predictions."""
