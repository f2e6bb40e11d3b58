"""How workers learn of new jobs and watchers of progress; one file for each kind of notifier."""
