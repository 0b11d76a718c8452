package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"go.yaml.in/yaml/v4"

	"github.com/trinity-go/trinity/internal/bridge"
)

// MaxFileSize is the largest size of a configuration file, in bytes.
const MaxFileSize = 4 << 20

// Options are the settings that the command line adds to a file.
type Options struct {
	// Overrides are `key=value` settings, applied in order. The value is YAML. A number in the key is
	// an index: `buffer.explorer_input.tasksets.0.path=x`.
	Overrides []string
	// Env looks up an environment variable; nil looks in the environment of the process.
	Env func(string) (string, bool)
	// Engine, unless empty, replaces trainer.trainer_type and explorer.rollout_model.engine_type.
	Engine string
}

// Load reads a configuration file, applies interpolations, overrides and defaults, and checks the
// result. The error is of type [Errors] if the configuration is wrong.
func Load(path string, opts Options) (*Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", path, err)
	}
	if len(data) > MaxFileSize {
		return nil, Errors{{File: path, Message: fmt.Sprintf("is longer than %d bytes", MaxFileSize)}}
	}
	return Parse(path, data, opts)
}

// Parse does what [Load] does for the text of a file. Errors call the file name.
func Parse(name string, data []byte, opts Options) (*Config, error) {
	src, err := readSource(name, data, opts)
	if err != nil {
		return nil, err
	}
	defer bridge.Together()()
	run, errs := src.decode(src.root)
	if errs = src.unresolved.with(run.check(errs)); len(errs) > 0 {
		return nil, errs.orNil()
	}
	return &run.Config, nil
}

// source is a file as nodes: aliases expanded, overrides applied, interpolations resolved.
type source struct {
	file      string
	opts      Options
	root      *yaml.Node
	positions map[string]Position // by dotted key, of the keys that are written

	stage      string              // of the configuration of a stage: stages.1.
	whole      map[string]Position // of the configuration of a stage: positions of the whole file
	unresolved Errors              // interpolations that failed, whose values are null, and keys of veRL that contradict others
}

// commandLine stands in for the file of values that were given as overrides.
const commandLine = "command line"

func readSource(name string, data []byte, opts Options) (*source, error) {
	if opts.Env == nil {
		opts.Env = os.LookupEnv
	}
	s := &source{file: name, opts: opts}
	var doc yaml.Node
	if err := yaml.Load(data, &doc); err != nil && !emptyDocument(data) {
		return nil, syntaxErrors(name, err)
	}
	s.root = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: 1, Column: 1}
	if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 && doc.Content[0].ShortTag() != "!!null" {
		s.root = doc.Content[0]
	}
	if s.root.Kind != yaml.MappingNode {
		return nil, Errors{s.errorAt(s.root, "", "a configuration is a mapping of keys to values", "")}
	}
	root, errs := s.expand(s.root)
	if len(errs) > 0 {
		return nil, errs.orNil()
	}
	s.root = root
	if errs := s.override(opts.Overrides); len(errs) > 0 {
		return nil, errs.orNil()
	}
	s.unresolved = s.interpolate()
	s.unresolved = append(s.unresolved, s.move(s.root)...)
	if stages := child(s.root, "stages"); stages != nil {
		for _, stage := range stages.Content {
			s.unresolved = append(s.unresolved, s.move(stage)...)
		}
	}
	return s, nil
}

// emptyDocument reports whether a text has no YAML in it. Such a text is a configuration of
// defaults.
func emptyDocument(data []byte) bool {
	for line := range bytes.Lines(data) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

// syntaxErrors turns the error of the YAML reader into errors with line numbers.
func syntaxErrors(name string, err error) error {
	var one *yaml.LoadError
	if errors.As(err, &one) {
		return Errors{{File: name, Line: one.Mark.Line, Col: one.Mark.Column, Message: "not valid YAML: " + one.Message}}
	}
	return Errors{{File: name, Line: 1, Col: 1, Message: "not valid YAML: " + err.Error()}}
}

// position returns where a node was written.
func (s *source) position(n *yaml.Node) Position {
	if n.Line == 0 {
		return Position{File: commandLine}
	}
	return Position{File: s.file, Line: n.Line, Col: n.Column}
}

func (s *source) errorAt(n *yaml.Node, key, message, hint string) Error {
	p := s.position(n)
	return Error{File: p.File, Line: p.Line, Col: p.Col, Key: key, Message: message, Hint: hint}
}
