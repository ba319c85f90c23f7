"""The service around the learners: one folder per purpose."""
