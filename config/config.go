package config

// Config is one run: the whole YAML file, with defaults filled in.
type Config struct {
	// What the program does. `both` explores and trains, `explore` only makes rollouts, `train` only
	// trains, `bench` evaluates checkpoints, and `serve` answers the OpenAI API with the rollout
	// model. `colocate` equals `both`: on a CPU the two sides share cores and memory anyway.
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
	// Connect-the-Dots task packing (newest upstream).
	Cod Cod `yaml:"cod"`
	// Stages run one after the other. Each starts from the weights of the stage before it.
	Stages []Stage `yaml:"stages"`

	// Warnings has one line, with file and line number, for each deprecated spelling that Load
	// accepted.
	Warnings []string `yaml:"-"`

	source  *source
	settled []*Settled // the stages, or the run itself
	isStage bool
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

// Cluster is the Ray cluster of GPU engines.
type Cluster struct {
	// Address of the Ray cluster.
	RayAddress string `yaml:"ray_address" default:"auto"`
	// Number of machines; 0 takes all machines of the cluster.
	NodeNum int `yaml:"node_num" default:"0" range:"[0,)"`
	// GPUs per machine; 0 takes all GPUs of the machine.
	GPUPerNode int `yaml:"gpu_per_node" default:"0" range:"[0,)"`
}
