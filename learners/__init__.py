"""Online learners: frozen configurations over explicit states. They use no I/O, clock, environment
or global randomness.
"""
