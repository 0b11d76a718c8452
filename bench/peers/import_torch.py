"""What a Python program of this field does before anything else."""
import torch  # noqa: F401
