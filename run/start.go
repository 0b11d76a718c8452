package run

import (
	"path/filepath"

	"github.com/trinity-go/trinity/run/checkpoint"
)

// start is what a stage begins with: what the ones before it ended with. All stages train an adapter, or none does.
type start struct {
	model   string
	adapter string // PEFT directory; "" before the first
	critic  string // model directory; "" before the first stage that trains one
}

// begin makes a stage's configuration that of what it begins with.
func (s *start) begin(cfg *Settled) {
	if cfg.Model.CriticModelPath == cfg.Model.ModelPath { // which it is unless the file says otherwise
		cfg.Model.CriticModelPath = first(s.critic, s.model)
	}
	cfg.Model.ModelPath = s.model
	if s.adapter != "" {
		cfg.Model.LoraConfigs[0].Path = s.adapter
	}
}

// after takes over what a stage wrote, "" for nothing. Where it trained a critic, that lies beside the policy.
func (s *start) after(cfg *Settled, wrote string) {
	switch {
	case wrote == "":
		return
	case len(cfg.Model.LoraConfigs) > 0:
		s.adapter = wrote
	default:
		s.model = wrote
	}
	if cfg.Critic != nil {
		dir := filepath.Dir(filepath.Dir(wrote))
		s.critic = filepath.Join(dir, checkpoint.CriticModelDir)
	}
}
