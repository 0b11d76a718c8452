package config

import (
	"strings"

	"go.yaml.in/yaml/v4"
)

// check settles the configuration and reports everything that is wrong with it. If there are
// stages, only they must be right, because the file is then just what the stages share.
func (c *Config) check() Errors {
	errs := c.checkValues()
	if len(c.Stages) == 0 {
		settled, between := settle(c)
		c.settled = []*Settled{settled}
		between = append(between, settled.checkPlugins()...)
		between = append(between, settled.checkRules()...)
		return append(errs.with(between), settled.unsupported()...)
	}
	errs = append(errs, c.checkStageNames()...)
	errs = append(errs, c.checkHidden()...)
	for i := range c.Stages {
		stage, decoding := c.stage(i)
		errs = append(errs, decoding.with(stage.check())...)
		c.Warnings = append(c.Warnings, stage.Warnings...)
		c.settled = append(c.settled, stage.settled...)
	}
	errs = append(errs, c.rewardStages()...)
	settle(c) // what it reports is only wrong if a stage uses it
	c.Warnings = unique(c.Warnings)
	return errs
}

func (c *Config) checkStageNames() Errors {
	var errs Errors
	seen := map[string]bool{}
	for i, s := range c.Stages {
		key := "stages." + digits(i)
		switch {
		case s.StageName == "":
			errs = append(errs, c.errorFor(key, "the stage has no stage_name", "add one: its checkpoints lie in a directory of that name"))
		case wrongName(s.StageName) != "":
			errs = append(errs, c.errorFor(key+".stage_name", wrongName(s.StageName), "use a plain name"))
		case strings.ContainsAny(s.StageName, `/\`):
			errs = append(errs, c.errorFor(key+".stage_name", "is a directory name and cannot contain / or \\", ""))
		case seen[s.StageName]:
			errs = append(errs, c.errorFor(key+".stage_name", "is the name of an earlier stage", "every stage has its own directory"))
		}
		seen[s.StageName] = true
	}
	return errs
}

// checkHidden reports values from the command line that no stage reads, because every stage sets
// its own value.
func (c *Config) checkHidden() Errors {
	var errs Errors
	for _, key := range c.leaves("") {
		if c.Pos(key).File != commandLine {
			continue
		}
		var own []string
		for i := range c.Stages {
			if nodeOf(c.stageTree(i), key) != nodeOf(c.source.root, key) {
				own = append(own, "stages."+digits(i)+"."+key)
			}
		}
		if len(own) == len(c.Stages) {
			errs = append(errs, c.errorFor(key, "is read by no stage, because each stage sets its own value", "set "+strings.Join(own, " or ")))
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

func unique(lines []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, l := range lines {
		if !seen[l] {
			seen[l] = true
			out = append(out, l)
		}
	}
	return out
}

// Pos returns where the file writes a dotted key. For a key that the file leaves out, it returns
// the place of the nearest section above it.
func (c *Config) Pos(key string) Position {
	for k := key; k != ""; k = parent(k) {
		if p, ok := c.source.positions[k]; ok {
			return p
		}
	}
	return Position{File: c.source.file, Line: 1, Col: 1}
}

// At returns an error about a key at the place where the file writes it. Code that finds the
// mistake after Load uses it.
func (c *Config) At(key, message, hint string) error { return c.errorFor(key, message, hint) }

// IsSet reports whether the file or the command line gives the key.
func (c *Config) IsSet(key string) bool {
	_, ok := c.source.positions[key]
	return ok
}

// File returns the name of the configuration file.
func (c *Config) File() string { return c.source.file }

// parent drops the last segment of a dotted key.
func parent(key string) string {
	if i := strings.LastIndexByte(key, '.'); i >= 0 {
		return key[:i]
	}
	return ""
}
