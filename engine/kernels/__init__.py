"""GPU operations on tensors, by family: `decode`, `prefill`, `kmeans`, and what these share.

The operation `op` of a family is described in `family/op.py`: a frozen class that holds its
arguments where there are many, the public function that checks them and picks an implementation,
and a reference in plain torch that defines the result on any device. Its Triton kernels and their
launch are in `family/triton/op.py`, or in a folder of that name where there are several launches.
Operations that have no Triton file are computed by torch or one of its libraries.
"""
