package run

import (
	"cmp"
	"fmt"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/config"
	"github.com/trinity-go/trinity/internal/cluster"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/registry"
)

// trainerPrograms is a trinity.TrainerOpener whose engines run in programs of their own.
type trainerPrograms interface {
	// Programs returns what OpenTrainer starts.
	Programs(spec trinity.EngineSpec) []trinity.Program
}

// samplerPrograms is a trinity.SamplerOpener that starts servers.
type samplerPrograms interface {
	// Programs returns what OpenSampler starts: none if servers run already.
	Programs(spec trinity.SamplerSpec) []trinity.Program
}

// programs starts the programs of a stage's engines, and says where they run.
type programs struct {
	launcher      trinity.Launcher
	started       *cluster.Cluster // nil if no engine has programs
	train, sample trinity.Place
}

// programsOf builds the launcher and gives each engine its part of the machines, if one has programs.
func programsOf(cfg *config.Settled, e *engines) (*programs, error) {
	_, trains := e.trainer.(trainerPrograms)
	servers := serversOf(cfg, e)
	if !trains && servers == nil {
		return &programs{}, nil
	}
	launcher, err := launcherOf(cfg)
	if err != nil {
		return nil, err
	}
	p := &programs{launcher: launcher}
	p.started = &cluster.Cluster{Launcher: launcher, Patience: wait.Seconds(cfg.Cluster.StartTimeout), LogDir: cfg.Log.SaveDir}
	return p, p.split(cfg, trains, len(servers))
}

// launcherOf builds the launcher.
func launcherOf(cfg *config.Settled) (trinity.Launcher, error) {
	const key = "cluster.launcher"
	launcher, err := registry.Launchers.Build(cfg.Engines.Launch, cfg.Cluster.LauncherArgs)
	if err != nil {
		return nil, cfg.At(key, err.Error(), "")
	}
	if r, ok := launcher.(config.ClusterReader); ok {
		if err := r.ReadCluster(&cfg.Cluster); err != nil {
			return nil, cfg.At(key, err.Error(), "")
		}
	}
	return launcher, nil
}

// serversOf returns the servers that the sampler starts.
func serversOf(cfg *config.Settled, e *engines) []trinity.Program {
	starter, ok := e.sampler.(samplerPrograms)
	if !ok {
		return nil
	}
	m := &cfg.Explorer.RolloutModel
	return starter.Programs(trinity.SamplerSpec{Servers: m.BaseUrls, Start: serverSpec(m)})
}

func serverSpec(m *config.InferenceModel) trinity.ServerSpec {
	return trinity.ServerSpec{
		Engines: m.EngineNum, TensorParallel: m.TensorParallelSize, PipelineParallel: m.PipelineParallelSize,
		DataParallel: m.DataParallelSize, ExpertParallel: m.EnableExpertParallel, DType: m.Dtype, MemoryShare: m.GPUMemoryUtilization,
		Eager: m.EnforceEager, PrefixCaching: m.EnablePrefixCaching, ChunkedPrefill: m.EnableChunkedPrefill, Seed: m.Seed,
		Extra: m.ExtraEngineArgs,
	}
}

// machines are what the programs share.
type machines struct {
	nodes, gpus int // gpus of each node
}

func (m machines) total() int { return m.nodes * m.gpus }

// split divides the GPUs as Trinity-RFT does: each server of the rollout model gets the product of
// its parallel sizes, and the trainer gets the rest. In mode colocate both have the same.
func (p *programs) split(cfg *config.Settled, trains bool, servers int) error {
	c, m := &cfg.Cluster, &cfg.Explorer.RolloutModel
	all := machines{cmp.Or(c.NodeNum, len(c.Hosts), 1), cmp.Or(c.GPUPerNode, p.launcher.GPUs())}
	p.train, p.sample = trinity.Place{Programs: p.started}, trinity.Place{Programs: p.started, Nodes: 1}
	p.sample.Ranks = m.TensorParallelSize * m.PipelineParallelSize * m.DataParallelSize
	left := all.total()
	if servers > 0 && all.gpus > 0 {
		p.sample.GPUs = p.sample.Ranks
		if p.sample.GPUs > all.gpus {
			return cfg.At("explorer.rollout_model.tensor_parallel_size", fmt.Sprintf(
				"a server needs %d GPUs (tensor × pipeline × data parallel), and a machine has %d", p.sample.GPUs, all.gpus), "lower it")
		}
		if cfg.Mode == "colocate" && trains {
			p.sample.Beside = trainerGroup
			if err := strictTurns(cfg); err != nil {
				return err
			}
		} else {
			left -= servers * p.sample.GPUs
		}
	}
	if trains {
		return p.placeTrainer(cfg, all, left)
	}
	if left < 0 {
		return p.tooFew(cfg, all, -left)
	}
	return nil
}

// strictTurns refuses a run whose trainer and servers share GPUs and would compute at the same time.
func strictTurns(cfg *config.Settled) error {
	s := &cfg.Synchronizer
	const why, hint = "trainer and servers share GPUs in mode colocate, and take turns at every step", "leave it out, or use mode both"
	switch {
	case s.SyncStyle != "fixed":
		return cfg.At("synchronizer.sync_style", why+": want fixed", hint)
	case *s.TrainerSyncInterval != 1:
		return cfg.At("synchronizer.trainer_sync_interval", why+": want 1", hint)
	case *s.ExplorerSyncInterval != 1:
		return cfg.At("synchronizer.explorer_sync_interval", why+": want 1", hint)
	case s.SyncOffset != 0:
		return cfg.At("synchronizer.sync_offset", why+": want 0", hint)
	}
	return nil
}

// trainerGroup is the name of the group of processes that trains.
const trainerGroup = "trainer"

func (p *programs) tooFew(cfg *config.Settled, all machines, short int) error {
	return cfg.At("cluster.gpu_per_node", fmt.Sprintf(
		"machines: %d, GPUs of each: %d: that is %d too few for the trainer and servers: %d, GPUs of each: %d",
		all.nodes, all.gpus, short, cfg.Explorer.RolloutModel.EngineNum, p.sample.GPUs),
		"lower explorer.rollout_model.engine_num, or use mode colocate")
}

// placeTrainer gives the trainer the GPUs that are left. Without GPUs, its ranks share the cores.
func (p *programs) placeTrainer(cfg *config.Settled, all machines, left int) error {
	const key = "cluster.trainer_ranks"
	ranks := cfg.Cluster.TrainerRanks
	if all.gpus == 0 {
		nodes := 1
		if ranks = max(1, ranks); all.nodes > 1 && ranks >= all.nodes {
			nodes = all.nodes
		}
		if ranks%nodes != 0 {
			return cfg.At(key, fmt.Sprintf("%d ranks do not divide among %d machines", ranks, nodes), "make it a multiple")
		}
		p.train.Nodes, p.train.Ranks = nodes, ranks/nodes
		return nil
	}
	if left < max(1, ranks) {
		return p.tooFew(cfg, all, max(1, ranks)-left)
	}
	if ranks == 0 {
		ranks = left
	}
	nodes := (ranks + all.gpus - 1) / all.gpus
	if ranks%nodes != 0 {
		return cfg.At(key, fmt.Sprintf("the trainer has %d GPUs, which do not divide among machines with %d GPUs", ranks, all.gpus),
			"set it to a multiple of the GPUs of a machine, or to fewer than one has")
	}
	p.train.Nodes, p.train.Ranks, p.train.GPUs = nodes, ranks/nodes, ranks/nodes
	return nil
}

// close ends the programs that still run.
func (p *programs) close() error {
	if p.started == nil {
		return nil
	}
	return p.started.Close()
}
