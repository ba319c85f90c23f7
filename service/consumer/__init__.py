"""The running learner: worker, checkpointer, recovery, dead letters, replica, watchdog."""
