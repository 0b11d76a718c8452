package place

import (
	"fmt"

	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/config"
)

// choice is a way to take less memory.
type choice struct {
	setting, costs string
	set            func(*Specs)
}

// Choices returns what would take less of this machine's memory, and what each way costs. They are those of an engine that says
// which micro-batch suits it: the costs are measured there.
func (m *Forecast) Choices() (all []config.MemoryChoice, err error) {
	if _, ok := m.Engines.Trainer.(interface{ MicroTokens() int }); !ok || !m.Spec.Train.Train || computes(m.Memory) != "" {
		return nil, nil
	}
	now := here(m.Memory)
	for _, c := range m.choices() {
		spec := m.Spec
		c.set(&spec)
		parts, err := m.partsOf(spec)
		if err != nil {
			return nil, err
		}
		if saved := now - here(parts); saved >= now/20 {
			all = append(all, config.MemoryChoice{Setting: c.setting, Saves: saved, Costs: c.costs})
		}
	}
	return all, nil
}

// here adds up the bytes of this machine.
func here(parts []config.MemoryPlan) (sum int64) {
	for _, p := range parts {
		if p.Device == "" {
			sum += p.Bytes
		}
	}
	return sum
}

// criticOptimizerKey is left out if a critic has the policy's type of optimizer.
const criticOptimizerKey = "trainer.trainer_config.critic.optim.optimizer_type"

// choices lists what the run does not do yet. The first costs the least.
func (m *Forecast) choices() (all []choice) {
	train := &m.Spec.Train
	least := m.Config.Batch.PerRow * *m.Config.Model.MaxModelLen
	for _, n := range []int{1024, 512} {
		if n = max(n, least); n < train.MicroTokens {
			costs := "train steps take no longer"
			if m.Config.Method.GroupSize > 1 {
				costs = fmt.Sprintf("train steps take no longer, unless a group has more than %d tokens: each part of it then computes the prompt", n)
			}
			all = append(all, choice{fmt.Sprintf("%s=%d", microTokensKey, n), costs, func(s *Specs) { s.Train.MicroTokens = n }})
			break
		}
	}
	if train.Optimizer.Type == "" || train.Optimizer.Type == engine.AdamW {
		all = append(all, choice{"algorithm.optimizer.optimizer_type=" + engine.AdamW8bit,
			"moments are rounded to 8 bits, and the update takes 5 times as long; a run that has begun keeps its optimizer",
			func(s *Specs) {
				if s.Train.Optimizer.Type = engine.AdamW8bit; m.Critic != "" && !m.Config.IsSet(criticOptimizerKey) {
					s.Critic.Type = engine.AdamW8bit
				}
			}})
	}
	if layers := m.Model.NumLayers; train.Recompute < layers-1 && m.Config.Batch.Recompute {
		passes := 3 // forward, and backward to the inputs and to the weights
		if train.LoRA != nil {
			passes = 2
		}
		more := layers - 1 - train.Recompute
		all = append(all, choice{fmt.Sprintf("%d more of %d layers computed again", more, layers),
			fmt.Sprintf("train steps take %d %% longer; the run does it if memory is short", (100*more+passes*layers/2)/(passes*layers)),
			func(s *Specs) { s.Train.Recompute = layers - 1 }})
	}
	return all
}
