"""Drift detection: detectors on the error, and tests of the distributions of inputs, labels and
predictions.
"""
