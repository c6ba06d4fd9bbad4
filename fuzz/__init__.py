"""Random estimators, parameters and inputs: none may crash, hang, or give a wrong result without a warning.

``python -m fuzz --seconds 600`` tries new cases, each in a process that can be killed;
``python -m fuzz --seed N`` tries one again, in this process. A case is a function of its seed.
"""
