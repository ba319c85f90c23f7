"""What an operator does to checkpoints: roll back, inspect, audit, transfer."""
