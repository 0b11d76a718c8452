package workflow

import (
	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	const name = "cod_optimalcontrol_workflow"
	registry.Workflows.Register(name,
		"Connect-the-Dots on the control of a point on a line by an expression: the dynamics are unknown, and the same in all tasks of a "+
			"pack. A row has the columns x0, v0, x_target, v_target, horizon and control_penalty_coef.",
		func() trinity.Workflow {
			w := &packControl{packPlay: packOf(name), controlArgs: controlArgs{A: []float64{0.55, 1.2}, B: []float64{-1.5, 1.5}}}
			w.MaxTurns = 1
			return w
		})
}

// packControl controls a point on a line.
type packControl struct {
	packPlay    `yaml:",inline"`
	controlArgs `yaml:",inline"`
	DumpDir     string `yaml:"trajectory_dump_dir" doc:"no effect: the run keeps its rollouts"`
}

// controlArgs are those of the environment.
type controlArgs struct {
	A           []float64 `yaml:"a_env_range" doc:"lowest and highest share of the velocity that stays"`
	B           []float64 `yaml:"b_env_range" doc:"lowest and highest effect of the control"`
	MinAbsB     float64   `yaml:"min_abs_b_env" doc:"lowest size of that effect"`
	Noise       bool      `yaml:"enable_process_noise" doc:"add Gaussian noise to the velocity"`
	NoiseStd    float64   `yaml:"process_noise_std" doc:"standard deviation of the noise"`
	ShowEarlier bool      `yaml:"include_previous_control_policy" doc:"the policy reads the pack's last working expression, with its result"`
}

// Validate builds the environment.
func (w *packControl) Validate() error {
	w.preset(argsOf(&w.controlArgs))
	return w.packPlay.Validate()
}
