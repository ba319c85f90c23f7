"""Kafka topics as logs."""
