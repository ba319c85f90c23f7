"""Online learners: frozen configurations over explicit states. No I/O, clock, environment or global randomness."""
