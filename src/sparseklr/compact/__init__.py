"""Compact models (a few points whose positions are fitted) for rows in memory.

:mod:`rows` scales the rows and merges equal ones, :mod:`model` defines the objective and minimises it,
:mod:`size_search` chooses the number of points, :mod:`features` eliminates features, and :mod:`fit` combines
these steps.
"""
