"""The process around the learners: one module per foreign system."""
