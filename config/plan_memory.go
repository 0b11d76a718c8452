package config

import "fmt"

// planMemory estimates the memory of the embedded engine by kind.
func (c *Config) planMemory(s *StagePlan, f Facts) {
	m := f.Model
	add := func(kind string, bytes int64, why string) {
		if bytes > 0 {
			s.Memory = append(s.Memory, MemoryPlan{kind, bytes, why})
			s.MemorySum += bytes
		}
	}
	const float32Bytes = 4
	s.Trainable = m.Parameters
	lora := len(c.Model.LoraConfigs) > 0
	if lora {
		s.Trainable = int64(c.Model.LoraConfigs[0].LoraRank) * (m.LinearInputs + m.LinearOutputs)
	}
	add("weights", m.Parameters*float32Bytes, "float32")
	if c.trains() {
		if lora {
			add("adapter", s.Trainable*float32Bytes, "float32")
		}
		add("gradient", s.Trainable*float32Bytes, "float32, of what is trained")
		add("optimizer", 2*s.Trainable*float32Bytes, "two moments, float32")
		if p, err := c.Parts(); err == nil && p.UsesReference() && !lora {
			add("reference model", m.Parameters*float32Bytes, "frozen weights for the KL term")
		}
		add("activations", int64(s.MicroBatchTokens)*activationBytes(m), fmt.Sprintf("micro-batch of %d tokens, estimate", s.MicroBatchTokens))
	}
	if c.Mode != "train" {
		if c.Explorer.RolloutModel.Quantization == "int8" {
			add("sampler's weights", int8Bytes(m), "8-bit copy of the published version, embeddings float32")
		} else {
			add("sampler's weights", m.Parameters*float32Bytes, "packed copy of the published version")
		}
		if lora {
			add("sampler's adapter", s.Trainable*float32Bytes, "packed copy of the published version, float32")
		}
		groups := c.Explorer.RunnerPerModel * c.Explorer.RolloutModel.EngineNum
		tokens := int64(groups) * int64(*c.Model.MaxPromptTokens+max(1, s.GroupSize)**c.Model.MaxResponseTokens)
		add("KV cache", tokens*int64(2*m.Layers*m.KVHeads*m.HeadDim)*float32Bytes,
			fmt.Sprintf("%d groups in flight at full length, prompts shared", groups))
	}
}

// int8Bytes is the sampler's weights in 8-bit integers, with a float32 scale for 64 of them. A tied head has a copy of its own.
func int8Bytes(m ModelFacts) int64 {
	embedding := int64(m.Vocab) * int64(m.Hidden)
	quantized := m.Parameters - embedding
	if m.TiedEmbeddings {
		quantized += embedding
	}
	return 4*embedding + quantized*17/16
}

// activationBytes is what one token of a micro-batch keeps for the backward pass: per layer the residual stream and its norms, the attention's
// projections and output, and the feed-forward's gate, up and product.
func activationBytes(m ModelFacts) int64 {
	layer := 4*m.Hidden + (2*m.Heads+2*m.KVHeads)*m.HeadDim + 3*m.Intermediate
	return 4 * int64(m.Layers) * int64(layer)
}
