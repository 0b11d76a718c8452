package config

import (
	"fmt"
	"strings"

	"github.com/trinity-go/trinity/internal/experience"
)

const routerReplayKey = "algorithm.enable_router_replay"

// RoutesKey returns the key by which a run wants the experts of tokens; "" if it wants none.
func RoutesKey(s *Settled) string {
	switch {
	case s.Algorithm.EnableRouterReplay:
		return routerReplayKey
	case s.Samples && s.Explorer.RolloutModel.EnableReturnRoutedExperts:
		return "explorer.rollout_model.enable_return_routed_experts"
	}
	return ""
}

// checkReplay refuses router replay of data without experts: what nobody sampled, and what has been JSON.
func checkReplay(r report, algorithm *Algorithm, buffer *Buffer, data *Data, w Work) {
	if !algorithm.EnableRouterReplay {
		return
	}
	var learned []NamedBuffer
	if b := buffer.TrainerInput.ExperienceBuffer; w.Trains && w.ReadsDataset {
		learned = append(learned, NamedBuffer{ExperienceBuffer: *b, Key: storeKey})
	}
	for _, b := range append(append(learned, data.Auxiliary...), data.Inputs...) {
		if b.SchemaType != "experience" {
			r.fail(routerReplayKey, fmt.Sprintf("replays the experts that tokens had when a model sampled them, and nobody sampled "+
				"the rows of %s (schema %s)", b.Key, b.SchemaType), "leave it out, or leave out these rows")
			return
		}
		if strings.HasPrefix(experience.Form(b.Path), ".jsonl") {
			r.fail(b.Key+".path", "JSON lines hold no experts, with which "+routerReplayKey+" trains",
				"keep experiences with an output_save_path that ends in .parquet, or in a database, or leave out "+routerReplayKey)
		}
	}
}
