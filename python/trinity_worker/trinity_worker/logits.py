"""What some models do to their logits after the vocabulary projection."""

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Finish:
    """Makes cap · tanh(scale · z / cap) of a logit z. A cap of 0 is none."""

    scale: float = 1.0
    cap: float = 0.0

    @classmethod
    def of(cls, config: Any) -> "Finish":
        """Returns what the configuration of a model says: Granite divides, Cohere and Falcon H1 multiply, Gemma caps."""
        factors = [getattr(config, key, None) or 1.0 for key in ("logit_scale", "lm_head_multiplier")]
        divisor = getattr(config, "logits_scaling", None) or 1.0
        cap = getattr(config, "final_logit_softcapping", None) or 0.0
        return cls(float(factors[0] * factors[1] / divisor), float(cap))

    @property
    def changes(self) -> bool:
        return self.scale != 1 or self.cap != 0

    def __call__(self, z: torch.Tensor) -> torch.Tensor:
        """Returns the final logits in float32. It overwrites logits in float32."""
        if not self.changes:
            return z
        z = z.float().mul_(self.scale)
        return z.div_(self.cap).tanh_().mul_(self.cap) if self.cap else z

    def back(self, logits: torch.Tensor) -> torch.Tensor | None:
        """Returns the derivatives of final logits by those of the projection; None if they are 1."""
        if not self.changes:
            return None
        if not self.cap:
            return logits.new_full((), self.scale)
        return (logits / self.cap).square_().neg_().add_(1).mul_(self.scale)


PLAIN = Finish()
