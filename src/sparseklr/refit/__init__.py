"""The refit of SparseKLR: penalised maximum likelihood in the span of the selected kernel functions.

Three terms are used throughout this package:

- A *point* is a distinct training row: equal rows form one point. The points whose kernel functions span a
  model are its *basis points*; those of the final model are also called its *kept points*.
- An *observation* is a training row with its label. Several observations may belong to one point.
- An *output* is a value of the decision function f. Two classes have one output for each row, the logit of
  the second class. K > 2 classes have K outputs for each row, and their softmax gives the probabilities.

:mod:`labels` defines the labels and their loss. :mod:`basis` represents functions by the kernel functions of
a few points. :mod:`newton` maximises the penalised likelihood. :mod:`leave_one_out` approximates
leave-one-out outputs for two classes, and :mod:`cross_fit` computes cross-fitted outputs for more classes.
:mod:`recalibration` corrects the shrinkage of the outputs. :mod:`regularisation` chooses C,
:mod:`kernel_search` chooses the kernel, and :mod:`relevance` learns a width for each feature. :mod:`copies`
tests whether equal rows are copies of one observation. :mod:`prune` drops points that the predictions do not
need. :mod:`refit` combines these steps, and :mod:`sample` applies them to a sample of a large data set.
:mod:`posterior` computes posterior variances and familiarity. :mod:`calibration` and
:mod:`softmax_calibration` convert the decision values of :class:`~sparseklr.SKLR` into probabilities.
"""
