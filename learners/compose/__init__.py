"""Learners around learners. They nest in one order:
scaled(one_vs_rest(selected(averaged(learner)))).
"""
