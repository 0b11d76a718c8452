package config

import "fmt"

// Synchronizer is how new weights reach the sampler.
type Synchronizer struct {
	// Name of the plug-in that brings weights from trainer to sampler in one process. Trinity-RFT's
	// values stand for the first plug-in that fits the engines; `trinity check` says which. Explorers
	// in other processes get weights over HTTP.
	SyncMethod string `yaml:"sync_method" default:"nccl" enum:"nccl|checkpoint|memory|hccl|online|offline" plugin:"weights"`
	// When the explorer takes new weights. `fixed`: at fixed steps, and both sides wait for each
	// other. In the other styles nobody waits and the explorer takes the newest version: every
	// explorer_sync_interval steps (`explorer_driven`), at every explore step (`trainer_driven`), or
	// at any moment (`fully_async`).
	SyncStyle string `yaml:"sync_style" default:"fixed" enum:"fixed|explorer_driven|trainer_driven|fully_async|dynamic_by_explorer|dynamic_by_trainer"`
	// Steps between synchronizations.
	SyncInterval int `yaml:"sync_interval" default:"1" range:"[1,)"`
	// Explore steps between synchronizations, with fixed and explorer_driven; not set is
	// sync_interval.
	ExplorerSyncInterval *int `yaml:"explorer_sync_interval" range:"[1,)"`
	// Train steps between versions; not set is sync_interval.
	TrainerSyncInterval *int `yaml:"trainer_sync_interval" range:"[1,)"`
	// Steps that the explorer may be ahead of the trainer, with fixed: 0 is on-policy, 1 is one step
	// off-policy.
	SyncOffset int `yaml:"sync_offset" default:"0" range:"[0,)"`
	// Seconds that one side waits for the other.
	SyncTimeout float64 `yaml:"sync_timeout" default:"3600" range:"(0,)"`
	// How a version is proven that a server has loaded: `probe` compares how trainer and server score
	// fixed tokens; `full` also compares the digests of servers; `off` believes the server. Own
	// key of Trinity-Go.
	Verify string `yaml:"verify" default:"probe" enum:"probe|full|off"`
	// Versions between two comparisons of digests, with verify full. Own key of Trinity-Go.
	VerifyInterval int `yaml:"verify_interval" default:"16" range:"[1,)"`
	// Name of the NCCL group.
	GroupName string `yaml:"group_name" default:"rollout_weight_sync"`
	// Upstream does not use this key either.
	WaitForCheckpoint bool `yaml:"wait_for_checkpoint"`
}

func (s *Synchronizer) settle(r report, buffer *Buffer, engines *Engines, explorer *Explorer, method *Method, model *Model, w Work) {
	inherit(&s.ExplorerSyncInterval, &s.SyncInterval)
	inherit(&s.TrainerSyncInterval, &s.SyncInterval)
	engines.Weights = wayOfWeights(r, engines, model, s, w)
	if s.SyncStyle != "fixed" {
		checkUnfixed(r, method, s)
		return
	}
	if explorer.OverRollout.Ratio > 0 {
		r.fail("explorer.over_rollout.ratio", "needs a sync_style other than fixed, with which the trainer waits for whole batches",
			"set synchronizer.sync_style, for example to fully_async")
	}
	if w.Explores && explorer.EvalParallel {
		r.fail("explorer.eval_parallel", "needs a sync_style other than fixed, with which the trainer waits for the evaluation",
			"set synchronizer.sync_style, for example to fully_async")
	}
	if b, ahead := buffer.TrainerInput.ExperienceBuffer, buffer.BatchSize*(s.SyncOffset+1); w.Together && b.Capacity < ahead {
		const what = "is %d groups, but with batch_size %d and sync_offset %d the explorer puts %d before the trainer can publish"
		r.fail("buffer.trainer_input.experience_buffer.capacity", fmt.Sprintf(what,
			b.Capacity, buffer.BatchSize, s.SyncOffset, ahead), fmt.Sprintf("set it to %d or more", ahead))
	}
}

// checkUnfixed checks the styles in which nobody waits.
func checkUnfixed(r report, method *Method, s *Synchronizer) {
	if s.SyncOffset > 0 {
		r.fail("synchronizer.sync_offset", fmt.Sprintf("is %d, which only sync_style fixed reads", s.SyncOffset),
			"bound how far behind rollouts may be with algorithm.sample_strategy staleness_control")
	}
	if most := method.Sample.Staleness; most > 0 && most < float64(*s.TrainerSyncInterval) {
		const what = "is %v train steps, but there is a new version only every %d: no rollout would be new enough"
		r.fail("algorithm.sample_strategy_args.max_staleness", fmt.Sprintf(what, most, *s.TrainerSyncInterval),
			"raise it, or lower synchronizer.trainer_sync_interval")
	}
}

var unusedOfSynchronizer = []unusedKey{
	{"synchronizer", func(s *Settled, _ string) string {
		if s.ReadsDataset {
			return "nobody samples while " + s.Algorithm.AlgorithmType + " trains on a dataset"
		}
		return ""
	}},
	{"synchronizer.group_name", func(s *Settled, _ string) string {
		switch {
		case !s.Together:
			return "mode " + s.Mode + " has no sampler beside a trainer"
		case s.Engines.Train == s.Engines.Sample:
			return "the engine that trains samples as well"
		}
		return "weights that go to servers without files have a group of their own for each version"
	}},
	{"synchronizer.wait_for_checkpoint", always("upstream does not use it either")},
}
