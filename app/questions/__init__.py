"""Routes of questions, and answering them."""
