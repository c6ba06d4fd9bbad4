"""Fuzz tests: random estimators, parameters and inputs must not crash, hang, or give wrong results silently.

``python -m fuzz --seconds 600`` runs new cases in separate processes, which can be killed.
``python -m fuzz --seed N`` repeats one case in this process. The seed determines the case.
"""
