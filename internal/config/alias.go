package config

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/trinity-go/trinity/internal/tags"
)

var (
	syncMethodAliases = map[string]string{"online": "nccl", "offline": "checkpoint"}
	syncStyleAliases  = map[string]string{"dynamic_by_explorer": "explorer_driven", "dynamic_by_trainer": "trainer_driven"}
)

// settleAliases replaces deprecated spellings with current ones and adds a warning for each.
func settleAliases(r report, algorithm *Algorithm, buffer *Buffer, sets []tasksetPlace, explorer *Explorer,
	synchronizer *Synchronizer, trainer *Trainer) {
	respell(r, "synchronizer.sync_method", &synchronizer.SyncMethod, syncMethodAliases)
	respell(r, "synchronizer.sync_style", &synchronizer.SyncStyle, syncStyleAliases)
	respell(r, "explorer.rollout_model.engine_type", &explorer.RolloutModel.EngineType, engineAliases)
	moveWarmupStyle(r, algorithm)
	moveRunnerNum(r, explorer)
	for _, e := range sets {
		moveTaskSelector(r, e.key, &e.set.TaskSelector, &e.set.DataSelector)
	}
	if b := buffer.TrainerInput.ExperienceBuffer; b != nil {
		moveTaskSelector(r, "buffer.trainer_input.experience_buffer", &b.TaskSelector, &b.DataSelector)
	}
	if trainer.TrainerConfigPath != "" {
		r.fail("trainer.trainer_config_path", "was removed", "write the keys of that file under trainer.trainer_config")
	}
}

func respell(r report, key string, value *string, names map[string]string) {
	if now, ok := names[*value]; ok {
		r.warn(key, "%s is the old name of %s", *value, now)
		*value = now
	}
}

// movedKey is a key with the key of the schema that means the same.
type movedKey struct{ from, to string }

// moved maps keys of veRL's tree, and of older files, to the keys of the schema that mean the same. A
// checkpoint has the actor and the critic.
var moved = append(ofOptimizer(), []movedKey{
	{trainerConfigKey + ".trainer.max_actor_ckpt_to_keep", "trainer.max_checkpoints_to_keep"},
	{trainerConfigKey + ".trainer.max_critic_ckpt_to_keep", "trainer.max_checkpoints_to_keep"},
	{trainerConfigKey + ".algorithm.rollout_correction", "algorithm.rollout_correction"},
	{storeKey + ".use_priority_queue", replayKey + ".enable"},
}...)

// ofOptimizer returns the keys of veRL's optimizer that have the same name here.
func ofOptimizer() (all []movedKey) {
	for _, key := range []string{
		"lr", "lr_warmup_steps", "lr_warmup_steps_ratio", "min_lr_ratio", "lr_scheduler_type", "warmup_style", "betas",
		"weight_decay", "clip_grad",
	} {
		all = append(all, movedKey{trainerConfigKey + ".actor_rollout_ref.actor.optim." + key, tags.Join(optimizerKey, key)})
	}
	return all
}

// movedOfTasksets returns the keys of tasksets that Trinity-RFT's workflows take among their arguments.
func movedOfTasksets(root *yaml.Node) (all []movedKey) {
	const in = "buffer.explorer_input."
	tasksets := []string{in + "taskset"}
	for _, list := range []string{in + "tasksets", in + "eval_tasksets"} {
		if n := nodeOf(root, list); n != nil && n.Kind == yaml.SequenceNode {
			for i := range n.Content {
				tasksets = append(tasksets, tags.Join(list, strconv.Itoa(i)))
			}
		}
	}
	for _, t := range tasksets {
		all = append(all, movedKey{t + ".workflow_args.reward_fn_type", t + ".default_reward_fn_type"},
			movedKey{t + ".workflow_args.reward_fn_args", t + ".reward_fn_args"})
	}
	return all
}

// move gives the keys of veRL's tree and of workflows' arguments in a file or a stage their place in the
// schema. They keep their lines.
func (s *source) move(root *yaml.Node) (errs Errors) {
	for _, m := range slices.Concat(moved, movedOfTasksets(root)) {
		section := nodeOf(root, parent(m.from))
		if section == nil || section.Kind != yaml.MappingNode {
			continue
		}
		for i := 0; i+1 < len(section.Content); i += 2 {
			key, value := section.Content[i], section.Content[i+1]
			if key.Value != lastKey(m.from) {
				continue
			}
			section.Content = append(section.Content[:i:i], section.Content[i+2:]...)
			switch there := nodeOf(root, m.to); {
			case there == nil:
				put(root, m.to, key, value)
			case there.Kind != yaml.ScalarNode || there.Value != value.Value:
				errs = append(errs, s.errorAt(key, m.from, "differs from "+m.to, "keep one of them"))
			}
			break
		}
	}
	return errs
}

// put writes a value at a dotted key that the tree does not have, in the place of at. The tree has the
// indices of lists in the key.
func put(n *yaml.Node, key string, at, value *yaml.Node) {
	segment, rest, below := strings.Cut(key, ".")
	next := child(n, segment)
	if next == nil || isNull(next) {
		name := *at
		name.Value = segment
		if next = value; below {
			next = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: at.Line, Column: at.Column}
		}
		n.Content = append(pairsBut(n.Content, func(name string, _ *yaml.Node) bool { return name == segment }), &name, next)
	}
	if below && (next.Kind == yaml.MappingNode || next.Kind == yaml.SequenceNode) {
		put(next, rest, at, value)
	}
}
