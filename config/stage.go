package config

import (
	"fmt"

	"go.yaml.in/yaml/v4"
)

// Stage returns the configuration of stage i, counted from 0: the sections that the stage sets replace the file's, its name is
// `<name>/<stage_name>`, and trainer.save_hf_checkpoint is last, because the next stage starts from that checkpoint.
func (c *Config) Stage(i int) (*Config, error) {
	if i < 0 || i >= len(c.Stages) {
		return nil, fmt.Errorf("configuration %s has %d stages, not a stage %d", c.source.file, len(c.Stages), i)
	}
	cfg, errs := c.stage(i)
	if errs = errs.with(cfg.check()); len(errs) > 0 {
		return nil, errs.orNil()
	}
	return cfg, nil
}

func (c *Config) stage(i int) (*Config, Errors) {
	cfg, errs := c.source.decode(c.stageTree(i))
	cfg.Name = c.Name + "/" + c.Stages[i].StageName
	cfg.Trainer.SaveHfCheckpoint = "last"
	return cfg, errs
}

// stageTree is the file's tree with the sections of a stage in place of its own.
func (c *Config) stageTree(i int) *yaml.Node {
	root := *c.source.root
	root.Content = nil
	for k := 0; k+1 < len(c.source.root.Content); k += 2 {
		if c.source.root.Content[k].Value != "stages" {
			root.Content = append(root.Content, c.source.root.Content[k], c.source.root.Content[k+1])
		}
	}
	stage := child(c.source.root, "stages").Content[i]
	for k := 0; k+1 < len(stage.Content); k += 2 {
		name, value := stage.Content[k], stage.Content[k+1]
		if name.Value == "stage_name" || value.ShortTag() == "!!null" {
			continue
		}
		replace(&root, name, value)
	}
	return &root
}

// replace sets a key of a mapping, and takes over where the key is written.
func replace(n, name, value *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name.Value {
			n.Content[i], n.Content[i+1] = name, value
			return
		}
	}
	n.Content = append(n.Content, name, value)
}
