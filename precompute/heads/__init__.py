"""Methods that choose retrieval heads; a file here that defines `build(config)` is a method."""
