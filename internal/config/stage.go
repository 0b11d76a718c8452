package config

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// stage returns the configuration of stage i, counted from 0: the keys of the stage lie over those
// of the file, see [merge]. Its name is `<name>/<stage_name>`, and trainer.save_hf_checkpoint is
// last, because the next stage starts from that checkpoint.
func (c *Config) stage(i int) (*Config, Errors) {
	cfg, errs := c.source.decode(c.stageTree(i))
	cfg.Name = c.Name + "/" + c.Stages[i].StageName
	cfg.Trainer.SaveHfCheckpoint = "last"
	cfg.source.stage, cfg.source.whole = "stages."+digits(i)+".", c.source.positions
	return cfg, errs
}

// IsStage reports whether this is the configuration of a stage. Every stage but the first starts
// from another model than model.model_path.
func (c *Config) IsStage() bool { return c.source.stage != "" }

// stageTree returns the file's tree with the keys of stage i merged over it.
func (c *Config) stageTree(i int) *yaml.Node {
	file, stage := *c.source.root, *child(c.source.root, "stages").Content[i]
	file.Content = pairsBut(file.Content, func(name string, _ *yaml.Node) bool { return name == "stages" })
	if stage.Kind != yaml.MappingNode {
		return &file
	}
	stage.Content = pairsBut(stage.Content, func(name string, value *yaml.Node) bool { return name == "stage_name" || isNull(value) })
	return merge(&file, &stage)
}

// merge lays a stage's mapping over the file's, key by key. A value that is not a mapping replaces
// the file's value. Null means the default. If the stage makes another choice than the file, the
// file's settings for its own choice no longer apply:
//   - with another algorithm_type, only optimizer remains of the file's section;
//   - with another storage_type or selector_type, nothing remains of the file's section;
//   - with another plug-in x, the file's x_args do not apply;
//   - if two keys exclude one another, the stage's key remains.
func merge(file, stage *yaml.Node) *yaml.Node {
	if file == nil || file.Kind != yaml.MappingNode || stage.Kind != yaml.MappingNode {
		return stage
	}
	out := *stage
	out.Content = pairsBut(file.Content, func(name string, _ *yaml.Node) bool { return child(stage, name) != nil || goes(file, stage, name) })
	for k := 0; k+1 < len(stage.Content); k += 2 {
		name, value := stage.Content[k], stage.Content[k+1]
		if !goes(file, stage, name.Value) {
			value = merge(child(file, name.Value), value)
		}
		out.Content = append(out.Content, name, value)
	}
	return &out
}

// instead pairs the keys that exclude one another in a section.
var instead = map[string]string{"taskset": "tasksets", "tasksets": "taskset", "total_steps": "total_epochs", "total_epochs": "total_steps"}

// goes reports whether the file's value of a key belongs to a choice that the stage does not share,
// so that merge drops it.
func goes(file, stage *yaml.Node, name string) bool {
	switch plugin, isArgs := strings.CutSuffix(name, "_args"); {
	case chooses(file, stage, "algorithm_type"):
		return name != "optimizer"
	case chooses(file, stage, "storage_type"), chooses(file, stage, "selector_type"):
		return true
	case isArgs && (chooses(file, stage, plugin) || chooses(file, stage, plugin+"_type")):
		return true
	}
	other := child(stage, instead[name])
	return other != nil && !isNull(other)
}

// chooses reports whether both mappings have a key, with different values.
func chooses(file, stage *yaml.Node, name string) bool {
	before, after := child(file, name), child(stage, name)
	return before != nil && after != nil && before.Value != after.Value
}

// pairsBut returns the content of a mapping without the pairs for which drop returns true.
func pairsBut(content []*yaml.Node, drop func(name string, value *yaml.Node) bool) []*yaml.Node {
	var left []*yaml.Node
	for pair := range slices.Chunk(content, 2) {
		if !drop(pair[0].Value, pair[1]) {
			left = append(left, pair...)
		}
	}
	return left
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }
