package reward

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/process"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Rewards.Register("exec",
		"The reward that a program in any language gives. The program runs as long as the stage, in training and evaluation; it reads one "+
			"question a line from its standard input and writes one answer a line to its standard output. "+wireForm+
			"Its standard error goes to plugins.log in the run's log directory. A program that ends is started again, and gets the question "+
			"that it left open once more. A program that takes too long is killed and started again; the rollout then has no valid reward. "+
			"A function in Python needs no such program: `trinity init reward.py` writes one. Parts: those of the program.",
		func() trinity.RewardFunc {
			return &execReward{Workers: 1, Timeout: 60, StartTimeout: 300, MaxRestarts: 5}
		})
}

// execReward asks a program.
type execReward struct {
	process.Args `yaml:",inline"`
	Workers      int     `yaml:"workers" range:"[1,1024]" doc:"copies of the program, which score at once"`
	Timeout      float64 `yaml:"timeout" range:"(0,inf]" doc:"seconds for one reply"`
	StartTimeout float64 `yaml:"start_timeout" range:"(0,inf]" doc:"seconds from the start of the program to its first answer"`
	MaxRestarts  int     `yaml:"max_restarts" range:"[0,)" doc:"restarts without an answer in between; after these the function asks no more"`
}

// Score implements [trinity.RewardFunc]. Tasksets with the same arguments share the program.
func (x *execReward) Score(ctx context.Context, in trinity.RewardInput) (trinity.Reward, error) {
	if in.Host == nil {
		return trinity.Reward{}, fmt.Errorf("%s: only a run can start it", x)
	}
	question, err := encode(in)
	if err != nil {
		return trinity.Reward{}, err
	}
	key, err := json.Marshal(x)
	if err != nil {
		return trinity.Reward{}, err
	}
	opened, err := in.Host.Open("reward exec "+string(key), func(log io.Writer) (io.Closer, error) {
		return newProgram(x, log, in.Host.Say), nil
	})
	if err != nil {
		return trinity.Reward{}, err
	}
	r, err := opened.(*program).ask(ctx, question)
	if err != nil {
		err = fmt.Errorf("%s: %w", x, err)
	}
	return r, err
}
