"""The model as manifests: plain dictionaries, a list for each question, nothing applied."""
