"""Looking at fitted models: measures, reports and pictures."""
