"""The classifiers: validate, delegate to the layers below, set attributes."""
