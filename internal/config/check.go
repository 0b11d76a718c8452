package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/internal/tags"
	"github.com/trinity-go/trinity/registry"
)

// check settles the configuration and reports everything that is wrong with it, after the values that could not be decoded.
// If there are stages, only they must be right, because the file is then just what the stages share.
// What is wrong with values is reported alone if the rest of the check would import code of users, which may take minutes.
func (s *Settled) check(decoding Errors) Errors {
	values := valueOf(&s.Config)
	errs := s.source.checkValues(values)
	if len(decoding)+len(errs) > 0 && importsCode(values, s.Plugin) {
		return decoding.with(errs)
	}
	if len(s.Stages) == 0 {
		r := report{s.source, &Errors{}, &s.Warnings}
		s.settle(r)
		s.settled = []*Settled{s}
		s.findPlugins(r)
		s.checkRules(r)
		return decoding.with(append(errs.with(*r.errs), s.unsupported()...))
	}
	errs = append(errs, s.checkStageNames()...)
	errs = append(errs, s.checkHidden()...)
	for i := range s.Stages {
		stage, decoding := s.stage(i)
		errs = append(errs, stage.check(decoding)...)
		s.Warnings = append(s.Warnings, stage.Warnings...)
		s.settled = append(s.settled, stage.settled...)
	}
	errs = append(errs, s.rewardStages()...)
	s.settle(report{s.source, &Errors{}, &s.Warnings}) // what it reports is only wrong if a stage uses it
	s.Warnings = unique(s.Warnings)
	return decoding.with(errs)
}

// importsCode reports whether the check of a plug-in that the configuration names imports code of users.
func importsCode(values reflect.Value, plugin pluginOf) bool {
	return bridge.Asks() && len(ofUsers(values, plugin)) > 0
}

// UserName is a name that stands for code of users, and the kind of plug-in that it is.
type UserName struct{ Kind, Name string }

// OfUsers returns such names in a configuration, each once.
func OfUsers(c *Config) []UserName { return ofUsers(valueOf(c), c.Plugin) }

func ofUsers(values reflect.Value, plugin pluginOf) (names []UserName) {
	tags.Walk(values, "", func(_, v reflect.Value, f reflect.StructField, _ string) {
		catalog, ok := registry.Find(f.Tag.Get("plugin"))
		if !ok || v.Kind() != reflect.String || v.String() == "" {
			return
		}
		one := UserName{catalog.Kind, v.String()}
		if found, _ := plugin(catalog, one.Name, nil); found != one.Name && !slices.Contains(names, one) {
			names = append(names, one)
		}
	})
	return names
}

func (c *Config) checkStageNames() Errors {
	var errs Errors
	seen := map[string]bool{}
	for i, s := range c.Stages {
		key := "stages." + digits(i)
		switch {
		case s.StageName == "":
			errs = append(errs, c.source.errorFor(key, "the stage has no stage_name", "add one: its checkpoints lie in a directory of that name"))
		case wrongName(s.StageName) != "":
			errs = append(errs, c.source.errorFor(key+".stage_name", wrongName(s.StageName), "use a plain name"))
		case strings.ContainsAny(s.StageName, `/\`):
			errs = append(errs, c.source.errorFor(key+".stage_name", "is a directory name and cannot contain / or \\", ""))
		case seen[s.StageName]:
			errs = append(errs, c.source.errorFor(key+".stage_name", "is the name of an earlier stage", "every stage has its own directory"))
		}
		seen[s.StageName] = true
	}
	return errs
}

// checkHidden reports values from the command line that no stage reads, because every stage sets
// its own value.
func (c *Config) checkHidden() Errors {
	var errs Errors
	for _, key := range c.source.leaves("") {
		if c.source.Pos(key).File != commandLine {
			continue
		}
		var own []string
		for i := range c.Stages {
			if nodeOf(c.stageTree(i), key) != nodeOf(c.source.root, key) {
				own = append(own, "stages."+digits(i)+"."+key)
			}
		}
		if len(own) == len(c.Stages) {
			errs = append(errs, c.source.errorFor(key, "is read by no stage, because each stage sets its own value",
				"set "+strings.Join(own, " or ")))
		}
	}
	return errs
}

// nodeOf returns the value of a dotted key, nil if there is none.
func nodeOf(n *yaml.Node, key string) *yaml.Node {
	for segment := range strings.SplitSeq(key, ".") {
		if n = child(n, segment); n == nil {
			return nil
		}
	}
	return n
}

func unique[T comparable](all []T) (kept []T) {
	seen := map[T]bool{}
	for _, item := range all {
		if !seen[item] {
			seen[item] = true
			kept = append(kept, item)
		}
	}
	return kept
}

// Pos returns where the file writes a dotted key. For a key that the file leaves out, it returns
// the place of the nearest section above it.
func (s *source) Pos(key string) Position {
	for k := key; k != ""; k = parent(k) {
		if p, ok := s.positions[k]; ok {
			return p
		}
	}
	return Position{File: s.file, Line: 1, Col: 1}
}

// At returns an error about a key at the place where the file writes it. Code that finds the
// mistake after Load uses it.
func (c *Config) At(key, message, hint string) error { return c.source.errorFor(key, message, hint) }

// IsSet reports whether the file or the command line gives the key.
func (s *source) IsSet(key string) bool {
	_, ok := s.positions[key]
	return ok
}

// IsSet reports whether the file or the command line gives the key.
func (c *Config) IsSet(key string) bool { return c.source.IsSet(key) }

// File returns the name of the configuration file.
func (c *Config) File() string { return c.source.file }

// parent drops the last segment of a dotted key.
func parent(key string) string {
	if i := strings.LastIndexByte(key, '.'); i >= 0 {
		return key[:i]
	}
	return ""
}

// rewardStages refuses a stage that would begin with the reward model of the stage before it.
func (c *Config) rewardStages() (errs Errors) {
	for i, s := range c.settled {
		if i == 0 || !c.settled[i-1].Method.Scores || s.Method.Scores && s.Trains {
			continue
		}
		errs = append(errs, c.source.errorFor("stages."+digits(i), fmt.Sprintf("would begin with the reward model of stage %s as its policy",
			c.Stages[i-1].StageName), "make them two runs, and name the reward model in reward_fn_args.model_path"))
	}
	return errs
}

// stage returns the configuration of stage i, counted from 0: the keys of the stage lie over those
// of the file, see [merge]. Its name is `<name>/<stage_name>`, and trainer.save_hf_checkpoint is
// last, because the next stage starts from that checkpoint.
func (c *Config) stage(i int) (*Settled, Errors) {
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
