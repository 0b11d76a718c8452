package config

// Config is one run: the whole YAML file, with defaults filled in.
type Config struct {
	// What runs: `both` rolls out and trains, `explore` only rolls out, `train` only trains, `bench` evaluates checkpoints; `serve` answers
	// the OpenAI API with the rollout model; `colocate` is `both`: on a CPU the two share cores and memory in any case.
	Mode string `yaml:"mode" default:"both" enum:"both|explore|train|bench|serve|colocate"`
	// First path segment under checkpoint_root_dir.
	Project string `yaml:"project" default:"Trinity-RFT"`
	// Optional second path segment.
	Group string `yaml:"group"`
	// Name of the experiment, the last path segment.
	Name string `yaml:"name" default:"rft"`
	// Directory that holds all runs; a relative path is relative to the working directory, empty is the working directory.
	CheckpointRootDir string `yaml:"checkpoint_root_dir"`
	// Directory of this run.
	CheckpointJobDir string `yaml:"checkpoint_job_dir" auto:"checkpoint_root_dir/project/group/name"`
	// Name under which a Ray cluster keeps the actors of the run; empty is project/group/name.
	RayNamespace string `yaml:"ray_namespace"`
	// Seed of everything random in the run. Own key of Trinity-Go.
	Seed int `yaml:"seed" default:"42"`
	// Go on from the newest checkpoint in the run's directory; false with a directory that is not empty starts a new one beside it.
	ContinueFromCheckpoint bool `yaml:"continue_from_checkpoint" default:"true"`
	// Do not stop for the memory check of a GPU engine.
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
	// Stages run one after the other, each from the weights of the one before.
	Stages []Stage `yaml:"stages"`

	// Warnings are deprecated spellings that were accepted, one line each, with file and line.
	Warnings []string `yaml:"-"`

	source  *source
	settled []*Settled // the stages, or the run itself
	isStage bool
}

// Stage is one stage of a run. Its keys lie over the file's; what is left out is the file's.
type Stage struct {
	// Name of the stage; its run is named `<name>/<stage_name>`.
	StageName string `yaml:"stage_name"`
	// What the stage runs; left out is the file's mode.
	Mode          string         `yaml:"mode" enum:"|both|explore|train|bench|serve|colocate"`
	Algorithm     *Algorithm     `yaml:"algorithm"`
	Buffer        *Buffer        `yaml:"buffer"`
	DataProcessor *DataProcessor `yaml:"data_processor"`
	Explorer      *Explorer      `yaml:"explorer"`
	Trainer       *Trainer       `yaml:"trainer"`
}
