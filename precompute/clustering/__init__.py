"""K-means of keys; a file here that defines `build(config)` is a back end."""
