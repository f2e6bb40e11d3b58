"""Questions: the route, the service that watches over a question, and the job that answers it."""
