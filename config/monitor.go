package config

import "github.com/trinity-go/trinity"

// Monitor is where metrics go.
type Monitor struct {
	// One monitor or a list of monitors; `auto` is console, jsonl and tensorboard.
	MonitorType Names `yaml:"monitor_type" default:"auto" plugin:"monitor"`
	// Arguments of the monitor; with several monitors, one section per monitor name.
	MonitorArgs map[string]any `yaml:"monitor_args"`
	// Log the metrics of every task in addition to their means.
	DetailedStats bool `yaml:"detailed_stats"`
	// Write Ray's timeline at the end.
	EnableRayTimeline bool `yaml:"enable_ray_timeline"`
	// One run of the backend for explorer and trainer (newest upstream).
	SharedRun bool `yaml:"shared_run"`
	// Directory of the monitors' files.
	CacheDir string `yaml:"cache_dir" auto:"checkpoint_job_dir/monitor"`
}

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
type Names = trinity.Names
