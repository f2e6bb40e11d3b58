"""One token a question over a document on the GPU: the kernels of a decode step."""
