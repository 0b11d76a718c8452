package config

import "fmt"

// rewardModel checks a run that trains a reward model.
func (r *rules) rewardModel() {
	if r.Method.Scores && r.Trains && len(r.Model.LoraConfigs) > 0 {
		r.fail("model.lora_configs", fmt.Sprintf("%s trains all weights of a reward model", r.Algorithm.AlgorithmType), "remove it")
	}
}

// rewardStages refuses a stage that would begin with the reward model of the stage before it.
func (c *Config) rewardStages() (errs Errors) {
	for i, s := range c.settled {
		if i == 0 || !c.settled[i-1].Method.Scores || s.Method.Scores && s.Trains {
			continue
		}
		errs = append(errs, c.errorFor("stages."+digits(i), fmt.Sprintf("would begin with the reward model of stage %s as its policy",
			c.Stages[i-1].StageName), "make them two runs, and name the reward model in reward_fn_args.model_path"))
	}
	return errs
}

// margins refuses the key of a margin that no loss reads.
func (r *rules) margins(b NamedBuffer) {
	if b.Format.MarginKey != "" && !r.Method.Scores {
		r.fail(b.Key+".format.margin_key",
			fmt.Sprintf("is for algorithms that train a reward model, and %s has no margins", r.Algorithm.AlgorithmType), "remove it")
	}
}
