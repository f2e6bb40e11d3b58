"""Head plans judged by the reader's answers: sweep, controls, ablation, every head alone."""
