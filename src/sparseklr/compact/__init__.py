"""Compact models, few points whose positions are fitted, for rows in memory.

:mod:`model` holds the objective and its minimisation, :mod:`rows` scaling and distinct rows,
:mod:`size_search` the choice of the number of points, :mod:`features` that of the features, and :mod:`fit`
combines them.
"""
