package taskset

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// juicer holds the keys of a Data-Juicer recipe that ReadDataJuicer understands.
type juicer struct {
	Process     []map[string]map[string]any `yaml:"process"`
	DatasetPath string                      `yaml:"dataset_path"`
	TextKeys    any                         `yaml:"text_keys"` // one, or a list
	Rest        map[string]any              `yaml:",inline"`
}

// without lists the keys of a recipe that do not change its output.
var without = []string{
	"project_name", "job_id", "np", "executor_type", "ray_address", "export_path", "export_shard_size", "export_in_parallel",
	"export_type", "keep_stats_in_res_ds", "keep_hashes_in_res_ds",
	"use_cache", "ds_cache_dir", "cache_compress", "use_checkpoint", "temp_dir", "work_dir", "open_tracer", "op_list_to_trace",
	"trace_num", "open_monitor", "open_insight_mining",
	"op_fusion", "fusion_strategy", "adaptive_batch_size", "turbo", "debug", "save_stats_in_one_file", "event_logging",
}

// ReadDataJuicer appends the operators of a Data-Juicer recipe, and sets inputs and fields if there
// are none. As in Data-Juicer, a relative dataset_path is relative to the working directory.
func (r *Recipe) ReadDataJuicer(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var j juicer
	if err := yaml.Load(data, &j); err != nil {
		return fmt.Errorf("%s: %s", path, strings.Join(strings.Fields(err.Error()), " "))
	}
	for key := range j.Rest {
		if !slices.Contains(without, key) {
			return fmt.Errorf("%s: %s is not supported: remove it, or run the recipe in Data-Juicer", path, key)
		}
	}
	if len(j.Process) == 0 {
		return fmt.Errorf("%s has no operators: want a list at process", path)
	}
	for i, step := range j.Process {
		if len(step) != 1 {
			return fmt.Errorf("%s: process.%d has %d names, want one operator with its arguments below it", path, i, len(step))
		}
		for name, args := range step {
			r.Operators = append(r.Operators, Operator{name, args})
		}
	}
	if len(r.Fields) == 0 {
		if r.Fields, err = textKeys(j.TextKeys); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if len(r.Inputs) == 0 && j.DatasetPath != "" {
		r.Inputs = []string{filepath.Clean(j.DatasetPath)}
	}
	if len(r.Inputs) == 0 {
		return fmt.Errorf("%s names no dataset_path: set inputs", path)
	}
	return nil
}

// textKeys returns the keys in v, which is one key or a list of keys.
func textKeys(v any) ([]string, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return []string{v}, nil
	case []any:
		var keys []string
		for _, k := range v {
			s, ok := k.(string)
			if !ok {
				return nil, fmt.Errorf("text_keys: want names of fields, got %v", k)
			}
			keys = append(keys, s)
		}
		return keys, nil
	}
	return nil, errors.New("text_keys: want a name or a list of names")
}
