"""What lookup and head plans cost in right answers, and save in bytes."""
