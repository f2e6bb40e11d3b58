"""What the routes work with: storage, engine, loaded documents and the queue of questions."""
