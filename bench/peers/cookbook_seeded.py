"""Run a module of tinker-cookbook as it is, but with seeds: cookbook_seeded.py MODULE ARGUMENTS…

The cookbook draws replies without seeds, so two runs differ. Here the seed follows from the prompt, and from how often this
sampler was asked it. So a run that was killed draws again what it has lost.
"""

import collections
import runpy
import sys
import zlib

import tinker

draw = tinker.SamplingClient.sample


def seeded(self, prompt, num_samples, sampling_params, *args, **kwargs):
    asked = self.__dict__.setdefault("asked", collections.Counter())
    ids = str(prompt.to_ints())
    asked[ids] += 1
    params = sampling_params.model_copy(update={"seed": zlib.crc32(f"{asked[ids]} {ids}".encode())})
    return draw(self, prompt, num_samples, params, *args, **kwargs)


tinker.SamplingClient.sample = seeded
sys.argv = sys.argv[1:]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
