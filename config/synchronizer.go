package config

// Synchronizer is how new weights reach the sampler.
type Synchronizer struct {
	// The way of the weights: `memory` and `nccl` in memory, `checkpoint` through files. The embedded engine does nccl's job in memory.
	SyncMethod string `yaml:"sync_method" default:"nccl" enum:"nccl|checkpoint|memory|hccl|online|offline"`
	// Who asks for a synchronization: at fixed steps, the explorer, the trainer, or nobody.
	SyncStyle string `yaml:"sync_style" default:"fixed" enum:"fixed|explorer_driven|trainer_driven|fully_async|dynamic_by_explorer|dynamic_by_trainer"`
	// Steps between synchronizations.
	SyncInterval int `yaml:"sync_interval" default:"1" range:"[1,)"`
	// Explore steps between synchronizations; not set is sync_interval.
	ExplorerSyncInterval *int `yaml:"explorer_sync_interval" range:"[1,)"`
	// Train steps between synchronizations; not set is sync_interval.
	TrainerSyncInterval *int `yaml:"trainer_sync_interval" range:"[1,)"`
	// Steps that the explorer may be ahead: 0 is on-policy, 1 one step off-policy.
	SyncOffset int `yaml:"sync_offset" default:"0" range:"[0,)"`
	// Seconds that one side waits for the other.
	SyncTimeout float64 `yaml:"sync_timeout" default:"3600" range:"(0,)"`
	// Name of the NCCL group.
	GroupName string `yaml:"group_name" default:"rollout_weight_sync"`
	// Not used by upstream either.
	WaitForCheckpoint bool `yaml:"wait_for_checkpoint"`
}
