"""How the bundled reader was made and measured: data, training, evaluation, its card."""
