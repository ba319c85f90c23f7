"""Learners around learners: `scaled(one_vs_rest(averaged(learner)))` is the order, and the only one."""
