"""What a user of the service waits for: reading, first token, answers, the demo."""
