"""How workers learn of new jobs and watchers of progress; one file per way."""
