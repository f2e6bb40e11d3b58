"""Files of several layouts, and the quotes that a person marked in them."""
