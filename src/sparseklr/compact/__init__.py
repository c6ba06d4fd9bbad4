"""Compact models for rows in memory: kernel logistic regression on a few points whose positions are fitted.

:mod:`rows` scales the rows and merges equal rows. :mod:`model` defines the objective and minimises it.
:mod:`size_search` chooses the number of points, and :mod:`features` eliminates features. :mod:`fit` combines
these steps.
"""
