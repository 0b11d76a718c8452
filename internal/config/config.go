package config

import (
	"github.com/trinity-go/trinity/engine"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/registry"
)

// Config is one run: the whole YAML file, with defaults filled in.
type Config struct {
	// What the program does. `both` explores and trains, `explore` only makes rollouts, `train` only
	// trains, `bench` evaluates checkpoints, and `serve` answers the OpenAI API with the rollout
	// model. `colocate` equals `both`, but servers that the run starts share the trainer's GPUs, and
	// sleep while it computes.
	Mode string `yaml:"mode" default:"both" enum:"both|explore|train|bench|serve|colocate"`
	// First path segment below checkpoint_root_dir.
	Project string `yaml:"project" default:"Trinity-RFT"`
	// Optional second path segment.
	Group string `yaml:"group"`
	// Name of the experiment, the last path segment.
	Name string `yaml:"name" default:"rft"`
	// Directory that holds all runs. A relative path starts at the working directory; empty is the
	// working directory.
	CheckpointRootDir string `yaml:"checkpoint_root_dir"`
	// Directory of this run.
	CheckpointJobDir string `yaml:"checkpoint_job_dir" auto:"checkpoint_root_dir/project/group/name"`
	// Name under which a Ray cluster keeps the actors of the run; empty is project/group/name.
	RayNamespace string `yaml:"ray_namespace"`
	// Seed of all random numbers of the run. Own key of Trinity-Go.
	Seed int `yaml:"seed" default:"42"`
	// Resume from the newest checkpoint in the run's directory. With false, a run whose directory is
	// not empty starts anew in a directory beside it.
	ContinueFromCheckpoint bool `yaml:"continue_from_checkpoint" default:"true"`
	// Continue even if the memory check of a GPU engine fails.
	IgnoreValidatorSuggestions bool `yaml:"ignore_validator_suggestions"`

	Algorithm     Algorithm     `yaml:"algorithm"`
	DataProcessor DataProcessor `yaml:"data_processor"`
	Model         Model         `yaml:"model"`
	Cluster       Cluster       `yaml:"cluster"`
	Buffer        Buffer        `yaml:"buffer"`
	Explorer      Explorer      `yaml:"explorer"`
	Trainer       Trainer       `yaml:"trainer"`
	Monitor       Monitor       `yaml:"monitor"`
	Synchronizer  Synchronizer  `yaml:"synchronizer"`
	Service       Service       `yaml:"service"`
	Log           Log           `yaml:"log"`
	// What runs the classes and functions that you have written in Python. Own section of Trinity-Go.
	Python bridge.Plugins `yaml:"python"`
	// Connect-the-Dots task packing (newest upstream).
	Cod Cod `yaml:"cod"`
	// Stages run one after the other. Each starts from the weights of the stage before it.
	Stages []Stage `yaml:"stages"`

	// Warnings has one line, with file and line number, for each deprecated spelling that Load
	// accepted.
	Warnings []string `yaml:"-"`

	source  *source
	settled []*Settled // the stages, or the run itself
}

// Stage is one stage of a run. Its keys override the file's keys; a key that the stage leaves out
// keeps the file's value.
type Stage struct {
	// Name of the stage. Its run is called `<name>/<stage_name>`.
	StageName string `yaml:"stage_name"`
	// What the stage does; left out is the file's mode.
	Mode          string         `yaml:"mode" enum:"|both|explore|train|bench|serve|colocate"`
	Algorithm     *Algorithm     `yaml:"algorithm"`
	Buffer        *Buffer        `yaml:"buffer"`
	DataProcessor *DataProcessor `yaml:"data_processor"`
	Explorer      *Explorer      `yaml:"explorer"`
	Trainer       *Trainer       `yaml:"trainer"`
}

// Cluster is the machines on which the programs of engines run: PyTorch workers and servers. The
// embedded engine has none.
type Cluster struct {
	// What starts the programs. `auto` is this machine, or the Ray cluster if node_num is above 1. Own
	// key of Trinity-Go.
	Launcher string `yaml:"launcher" default:"auto" plugin:"launcher"`
	// Arguments of the launcher (`trinity explain launcher NAME`). Own key of Trinity-Go.
	LauncherArgs map[string]any `yaml:"launcher_args" args:"launcher"`
	// Names or addresses of the machines, for a launcher that is given them. Own key of Trinity-Go.
	Hosts []string `yaml:"hosts"`
	// Address of the Ray cluster.
	RayAddress string `yaml:"ray_address" default:"auto"`
	// Number of machines; 0 is one, or all of hosts.
	NodeNum int `yaml:"node_num" default:"0" range:"[0,)"`
	// GPUs per machine; 0 takes all GPUs of the machine.
	GPUPerNode int `yaml:"gpu_per_node" default:"0" range:"[0,)"`
	// GiB of memory of each GPU, by which the plan is made; 0 is what nvidia-smi says is free on this
	// machine, if it has GPUs. Own key of Trinity-Go.
	GPUMemory float64 `yaml:"gpu_memory" default:"0" range:"[0,)"`
	// Processes over which each trained model is sharded; 0 is one for each GPU that the servers leave,
	// or 1 without GPUs. Own key of Trinity-Go.
	TrainerRanks int `yaml:"trainer_ranks" default:"0" range:"[0,)"`
	// Seconds until a program must answer after it was started, or sent to a scheduler's queue. Own key
	// of Trinity-Go.
	StartTimeout float64 `yaml:"start_timeout" default:"600" range:"(0,)"`
}

// ClusterReader is implemented by a launcher plug-in that reads keys of cluster beside its
// arguments.
type ClusterReader interface {
	ReadCluster(c *Cluster) error
}

// Monitor is where metrics go.
type Monitor struct {
	// One monitor or a list of monitors; `auto` is console, jsonl and tensorboard. Every run also has
	// jsonl, and `trinity run` shows the console unless it has --quiet.
	MonitorType Names `yaml:"monitor_type" default:"auto" plugin:"monitor"`
	// Arguments of the monitor; with several monitors, one section per monitor name.
	MonitorArgs map[string]any `yaml:"monitor_args" args:"monitor_type"`
	// Log the metrics of every task in addition to their means.
	DetailedStats bool `yaml:"detailed_stats"`
	// Write Ray's timeline at the end.
	EnableRayTimeline bool `yaml:"enable_ray_timeline"`
	// One run of the backend for explorer and trainer (newest upstream).
	SharedRun bool `yaml:"shared_run"`
	// What is kept of every step to look at: who waited, and what the optimizer did to each token.
	Trace Trace `yaml:"trace"`
	// Directory of the monitors' files.
	CacheDir string `yaml:"cache_dir" auto:"checkpoint_job_dir/monitor"`
}

// Trace is what a run keeps in the directory trace of its own, for trinity view and other readers. It
// changes nothing that the run learns.
type Trace struct {
	// Whose tokens are kept: those of some groups of a step, of all, or none.
	Tokens string `yaml:"tokens" default:"sample" enum:"sample|all|off"`
	// Groups of a step that a sample has: those with the best, the worst, the longest and an invalid
	// answer come first; the seed draws the others.
	GroupsPerStep int `yaml:"groups_per_step" default:"4" range:"[1,)"`
	// Train steps from one whose tokens are kept to the next.
	Every int `yaml:"every" default:"1" range:"[1,)"`
	// Size of all traces of the run in GB. Beyond it, the oldest steps are thinned out.
	MaxGb float64 `yaml:"max_gb" default:"2.0" range:"(0,)"`
	// Keep who worked and who waited, and when.
	Spans bool `yaml:"spans" default:"true"`
}

// IsKept reports whether the run keeps a trace at all.
func (t *Trace) IsKept() bool { return t.Spans || t.Tokens != "off" }

// Log is the run's log files.
type Log struct {
	// Lowest severity of messages in the logs.
	Level string `yaml:"level" default:"INFO" enum:"DEBUG|INFO|WARNING|ERROR|CRITICAL"`
	// Write one directory per machine.
	GroupByNode bool `yaml:"group_by_node"`
	// Directory of the logs.
	SaveDir string `yaml:"save_dir" auto:"checkpoint_job_dir/log"`
}

// Service is the services that a run uses.
type Service struct {
	DataJuicer DataJuicer `yaml:"data_juicer"`
}

// DataJuicer is a Data-Juicer service.
type DataJuicer struct {
	// Address of a running service.
	ServerURL string `yaml:"server_url"`
	// Start the service with the run.
	AutoStart bool `yaml:"auto_start"`
	// Port of the service that the run starts; not set is any free port.
	Port *int `yaml:"port" range:"[0,65535]"`
}

// Names is one name or a list of names: `a` and `[a]` are the same.
type Names = engine.Names

var unusedOfRun = []unusedKey{
	{"ray_namespace", always("each run has a namespace of its own where it uses Ray")},
	{"monitor.enable_ray_timeline", always("Ray only starts programs, and its timeline would have no steps")},
	{"monitor.shared_run", func(s *Settled, _ string) string {
		if s.Together {
			return "explorer and trainer of mode " + s.Mode + " always share one run"
		}
		return "an explorer and a trainer in processes of their own are two runs"
	}},
	{"log.level", always("no log of the run has levels")},
	{"log.group_by_node", func(s *Settled, _ string) string {
		if s.unusedByEngines("cluster.node_num") == "" {
			return "each program writes a file of its own for each of its machines"
		}
		return "the run starts no programs on machines"
	}},
	{"service.data_juicer.server_url", unless(func(s *Settled) bool { return !s.Service.DataJuicer.AutoStart }, dataJuicerAddress)},
	{"service.data_juicer.port", unless(func(s *Settled) bool { return s.Service.DataJuicer.AutoStart }, dataJuicerAddress)},
}

const dataJuicerAddress = "with auto_start the run starts a service at port; without it, it uses the service at server_url"

// settle replaces auto with the monitors that it stands for.
func (monitor *Monitor) settle() {
	if m := monitor.MonitorType; len(m) == 1 && m[0] == "auto" {
		if catalog, ok := registry.Find("monitor"); ok {
			monitor.MonitorType = catalog.Auto
		}
	}
}
