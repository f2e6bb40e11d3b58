"""Routes under `/v1`, which the official `openai` client and other chat clients use unchanged."""
