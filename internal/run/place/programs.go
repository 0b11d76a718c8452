package place

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/cluster"
	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/machines"
	"github.com/trinity-go/trinity/internal/wait"
	"github.com/trinity-go/trinity/launcher"
)

// trainerPrograms is an engine.TrainerOpener whose engines run in programs of their own.
type trainerPrograms interface {
	// Programs returns what OpenTrainer starts.
	Programs(spec engine.TrainerSpec) []engine.Program
}

// samplerPrograms is an engine.SamplerOpener that starts servers.
type samplerPrograms interface {
	// Programs returns what OpenSampler starts: none if servers run already.
	Programs(spec engine.SamplerSpec) []engine.Program
}

// programs starts the programs of a stage's engines, and says where they run.
type programs struct {
	launcher      launcher.Launcher
	started       *cluster.Cluster // nil if no engine has programs
	Train, Sample engine.Place
	Unknown       error // why the launcher cannot tell the GPUs of the machines
}

// programsOf builds the launcher and gives each engine its part of the machines, if one has programs.
func programsOf(cfg *config.Settled, e *Engines) (*programs, error) {
	_, trains := e.Trainer.(trainerPrograms)
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
func launcherOf(cfg *config.Settled) (launcher.Launcher, error) {
	const key = "cluster.launcher"
	launcher, err := launcher.Launchers.Build(cfg.Engines.Launch, cfg.Cluster.LauncherArgs)
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
func serversOf(cfg *config.Settled, e *Engines) []engine.Program {
	starter, ok := e.Sampler.(samplerPrograms)
	if !ok {
		return nil
	}
	m := &cfg.Explorer.RolloutModel
	return starter.Programs(engine.SamplerSpec{Servers: m.BaseUrls, Start: ServerSpec(m)})
}

// ServerSpec returns how the servers of a model are started.
func ServerSpec(m *config.InferenceModel) engine.ServerSpec {
	return engine.ServerSpec{
		Engines: m.EngineNum, TensorParallel: m.TensorParallelSize, PipelineParallel: m.PipelineParallelSize,
		DataParallel: m.DataParallelSize, ExpertParallel: m.EnableExpertParallel, DType: m.Dtype, MemoryShare: m.GPUMemoryUtilization,
		Eager: m.EnforceEager, PrefixCaching: m.EnablePrefixCaching, ChunkedPrefill: m.EnableChunkedPrefill, Seed: m.Seed,
		Extra: m.ExtraEngineArgs,
	}
}

// trainerGroup is the name of the group of processes that trains.
const trainerGroup = "trainer"

// split divides the GPUs as Trinity-RFT does: each server of the rollout model gets the product of
// its parallel sizes, and the trainer gets the rest. In mode colocate both have the same.
func (p *programs) split(cfg *config.Settled, trains bool, servers int) error {
	c, m := &cfg.Cluster, &cfg.Explorer.RolloutModel
	h := hardware{cmp.Or(c.NodeNum, len(c.Hosts), 1), c.GPUPerNode}
	if h.gpus == 0 {
		if h.gpus, p.Unknown = p.launcher.GPUs(); p.Unknown != nil {
			p.Unknown = fmt.Errorf("cluster.gpu_per_node is left out, and the GPUs of the machines are not known: %w", p.Unknown)
		}
	}
	p.Train, p.Sample = engine.Place{Programs: p.started}, engine.Place{Programs: p.started, Nodes: 1}
	p.Train.GPUBytes = int64(c.GPUMemory * (1 << 30))
	p.Sample.GPUBytes = p.Train.GPUBytes
	p.Sample.Ranks = m.TensorParallelSize * m.PipelineParallelSize * m.DataParallelSize
	if servers > 0 && h.gpus > 0 {
		p.Sample.GPUs = p.Sample.Ranks
		if p.Sample.GPUs > h.gpus {
			return cfg.At(tensorParallelKey, fmt.Sprintf(
				"a server needs %d GPUs (tensor × pipeline × data parallel), and a machine has %d", p.Sample.GPUs, h.gpus), "lower it")
		}
		if cfg.Mode == "colocate" && trains {
			p.Sample.Beside = trainerGroup
			if err := strictTurns(cfg); err != nil {
				return err
			}
		}
	}
	switch {
	case !trains && !p.fits(h, servers):
		return cfg.At(enginesKey, fmt.Sprintf("there is no room for the servers on the %s", h),
			fmt.Sprintf("lower it to %d", h.nodes*(h.gpus/p.Sample.GPUs)))
	case !trains:
		return nil
	case h.gpus == 0:
		return p.placeOnCPUs(cfg, h.nodes)
	}
	return p.placeTrainer(cfg, h, servers)
}

// hardware is what the programs share: machines, and GPUs of each.
type hardware struct{ nodes, gpus int }

func (h hardware) String() string {
	return fmt.Sprintf("%d GPUs of each machine, machines: %d", h.gpus, h.nodes)
}

// fits reports whether a launcher that starts the trainer, if it has a place, and then the servers
// finds GPUs for all of them.
func (p *programs) fits(h hardware, servers int) bool {
	pool := machines.Pool{All: machines.Equal(make([]string, h.nodes), h.gpus), Spread: true}
	groups := []trinity.ProcessGroup{{Name: trainerGroup, Nodes: p.Train.Nodes, GPUs: p.Train.GPUs}}
	for i := range servers {
		groups = append(groups, trinity.ProcessGroup{Name: strconv.Itoa(i), Nodes: 1, GPUs: p.Sample.GPUs, Beside: p.Sample.Beside})
	}
	for _, g := range groups {
		if _, err := pool.Take(g); err != nil {
			return false
		}
	}
	return true
}

// placeOnCPUs makes the trainer's ranks share the cores.
func (p *programs) placeOnCPUs(cfg *config.Settled, most int) error {
	nodes, ranks := 1, max(1, cfg.Cluster.TrainerRanks)
	if most > 1 && ranks >= most {
		nodes = most
	}
	if ranks%nodes != 0 {
		return cfg.At(ranksKey, fmt.Sprintf("%d ranks do not divide among %d machines", ranks, nodes), "make it a multiple")
	}
	p.Train.Nodes, p.Train.Ranks = nodes, ranks/nodes
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

const (
	ranksKey   = "cluster.trainer_ranks"
	enginesKey = "explorer.rollout_model.engine_num"

	tensorParallelKey = "explorer.rollout_model.tensor_parallel_size"
)

// placeTrainer gives the trainer a GPU for each rank, the same number on each of its machines: as many
// ranks as the configuration says, or as there are GPUs that no server has.
func (p *programs) placeTrainer(cfg *config.Settled, h hardware, servers int) error {
	rest := h.nodes * h.gpus
	if p.Sample.Beside == "" {
		rest -= servers * p.Sample.GPUs
	}
	if rest <= 0 {
		return cfg.At(enginesKey, fmt.Sprintf("the servers (%d, GPUs of each: %d) leave no GPU for the trainer: there are %s",
			servers, p.Sample.GPUs, h),
			"add GPUs, lower it, or use mode colocate")
	}
	ranks := cmp.Or(cfg.Cluster.TrainerRanks, rest)
	if p.placeRanks(h, ranks, servers) {
		return nil
	}
	problem := fmt.Sprintf("%d ranks of the trainer, as many on each of its machines, and servers: %d, GPUs of each: %d, do not fit on the %s",
		ranks, servers, p.Sample.GPUs, h)
	for most := rest; most > 0; most-- {
		if p.placeRanks(h, most, servers) {
			return cfg.At(ranksKey, problem, fmt.Sprintf("set it to %d, or change the servers", most))
		}
	}
	return cfg.At(enginesKey, problem, "lower it")
}

// placeRanks spreads the trainer's ranks over as few machines as possible, and reports whether all
// programs find GPUs then.
func (p *programs) placeRanks(h hardware, ranks, servers int) bool {
	for nodes := 1; nodes <= h.nodes; nodes++ {
		if ranks < nodes || ranks%nodes != 0 || ranks/nodes > h.gpus {
			continue
		}
		p.Train.Nodes, p.Train.Ranks, p.Train.GPUs = nodes, ranks/nodes, ranks/nodes
		if p.fits(h, servers) {
			return true
		}
	}
	return false
}

// Close ends the programs that still run.
func (p *programs) Close() error {
	if p.started == nil {
		return nil
	}
	return p.started.Close()
}

// Say makes the programs tell people what happens to them.
func (p *programs) Say(say func(string)) {
	if p.started != nil {
		p.started.Say = say
	}
}
