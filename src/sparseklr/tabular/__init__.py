"""Tables as people have them: data frames of any columns to features, pipelines, and model files.

Above the estimators and below the command line, which is made of these parts.
"""
