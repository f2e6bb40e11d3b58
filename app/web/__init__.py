"""Pages for people: templates, style sheets, scripts, and how they are rendered and served."""
