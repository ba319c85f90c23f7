"""Kernel learners: the hypothesis is a sum over stored rows or trees. McKenna's thesis; Orabona
et al.
"""
