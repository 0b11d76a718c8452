package studio

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/rundir"
	"github.com/trinity-go/trinity/internal/safetext"
	"github.com/trinity-go/trinity/registry"
)

// Template is a configuration to begin with.
type Template struct {
	Name  string   `json:"name"`
	Doc   string   `json:"doc"`
	Text  string   `json:"text"`
	Model string   `json:"model"` // which it trains; "" if the user names one
	Files []string `json:"-"`     // that a run of it needs, by paths from the directory of the studio

	Minutes float64 `json:"minutes"` // of the CPU, as measured; 0 if nobody has
}

// configRequest is the configuration in a request: its text, or the run that has it, and settings that override it.
type configRequest struct {
	Text      string   `json:"text"`
	Run       string   `json:"run"` // whose configuration is meant if there is no text
	Overrides []string `json:"overrides"`
}

// configName is what errors call a text that has no file yet.
const configName = "config.yaml"

func (w *configRequest) parse() (*config.Config, error) {
	return config.Parse(configName, []byte(w.Text), config.Options{Overrides: w.Overrides})
}

// problem is an error or a note at a line of a text; line 0 is the whole text, or a setting.
type problem struct {
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Key    string `json:"key"`
	Text   string `json:"text"`
}

// problemsOf takes the errors of a configuration apart.
func problemsOf(err error) []problem {
	if err == nil {
		return []problem{}
	}
	var all config.Errors
	var one config.Error
	switch {
	case errors.As(err, &all):
	case errors.As(err, &one):
		all = config.Errors{one}
	default:
		return []problem{{Text: shown(err.Error())}}
	}
	problems := make([]problem, len(all))
	for i, e := range all {
		text := e.Message
		if e.Hint != "" {
			text += "; " + e.Hint
		}
		problems[i] = problem{Line: e.Line, Column: e.Col, Key: e.Key, Text: shown(text)}
	}
	return problems
}

// shown returns a line without passwords and controls.
func shown(line string) string { return safetext.Hidden(safetext.Printable(line)) }

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// checked is what the check of a configuration says.
type checked struct {
	Errors   []problem      `json:"errors"`
	Warnings []problem      `json:"warnings"`
	Stages   []stageSetting `json:"stages"`
}

// stageSetting has what a stage, or the whole of a run without stages, sets to another value than the
// default.
type stageSetting struct {
	Name     string         `json:"name"`
	Settings map[string]any `json:"settings"`
}

// configs plans configurations that are being written.
type configs struct {
	runs     *runs
	planOf   func(*config.Config) (*config.Plan, error)
	absent   func(*config.Config) error // as of [Server.Absent]
	advice   func(dir string, load func(overrides ...string) (*config.Config, error)) (any, error)
	all      []Template
	planning *sync.Mutex
}

// check answers what is wrong with a configuration, models and data that are not here among it, and what it sets. It
// starts nothing.
func (s *configs) check(_ *http.Request, in configRequest) (any, error) {
	reply := checked{Warnings: []problem{}, Stages: []stageSetting{}}
	cfg, err := in.parse()
	reply.Errors = problemsOf(err)
	if err != nil {
		return reply, nil
	}
	for _, w := range cfg.Warnings {
		reply.Warnings = append(reply.Warnings, problem{Line: lineIn(w), Text: shown(w)})
	}
	for i, stage := range cfg.Settled() {
		for _, n := range stage.Unused() {
			reply.Warnings = append(reply.Warnings, problem{Line: n.Line, Key: n.Key, Text: shown(n.Reason)})
		}
		text, err := stage.Differences()
		if err != nil {
			return nil, err
		}
		set, err := parseSettings([]byte(text))
		if err != nil {
			return nil, err
		}
		name := ""
		if len(cfg.Stages) > 0 {
			name = cfg.Stages[i].StageName
		}
		reply.Stages = append(reply.Stages, stageSetting{name, set.flat})
	}
	if s.absent != nil {
		reply.Errors = problemsOf(s.absent(cfg))
	}
	return reply, nil
}

// lineIn returns the line in a warning that begins with its file and line.
func lineIn(warning string) (line int) {
	if rest, ok := strings.CutPrefix(warning, configName+":"); ok {
		_, _ = fmt.Sscanf(rest, "%d:", &line) // without a line it is 0
	}
	return line
}

// plan answers what a run of a configuration would do and need on this machine. It looks at local
// models and data; it downloads, writes and starts nothing.
func (s *configs) plan(_ *http.Request, in configRequest) (any, error) {
	cfg, err := in.parse()
	if err != nil {
		return map[string]any{"errors": problemsOf(err), "text": ""}, nil
	}
	s.planning.Lock() // one at a time: it measures the machine
	defer s.planning.Unlock()
	plan, err := s.planOf(cfg)
	if err != nil {
		return map[string]any{"errors": problemsOf(err), "text": ""}, nil
	}
	return map[string]any{"errors": problemsOf(plan.Fits()), "text": safetext.Hidden(plan.String())}, nil
}

// schemaKey is a key that a configuration may have.
type schemaKey struct {
	Key     string   `json:"key"`
	Type    string   `json:"type"`
	Default string   `json:"default"`
	Doc     string   `json:"doc"`
	Limits  string   `json:"limits,omitempty"` // in words
	Values  []string `json:"values,omitempty"` // one of which it must be

	ArgsOf string `json:"argsOf,omitempty"` // the key beside it that names the plug-in whose arguments it holds
	Plugin string `json:"plugin,omitempty"` // kind of plug-in that it names
}

// schema answers with all keys that a configuration may have, and with the arguments of all plug-ins
// by kind and name.
func schema(*http.Request) (any, error) {
	var all []schemaKey
	plugins := map[string]map[string][]schemaKey{}
	for _, k := range config.Keys() {
		if k.Auto != "" {
			continue
		}
		doc, err := k.Explain()
		if err != nil {
			return nil, err
		}
		limits := registry.Field{Range: k.Range, Enum: k.Enum}.Limits()
		key := schemaKey{Key: k.Path, Type: k.Type, Default: k.Default, Doc: doc, Limits: limits, Values: k.Enum,
			ArgsOf: k.ArgsOf, Plugin: k.Plugin}
		if c, ok := registry.Find(k.Plugin); ok {
			key.Values = c.Names()
			if plugins[k.Plugin], err = argumentsOf(c); err != nil {
				return nil, err
			}
		}
		all = append(all, key)
	}
	return map[string]any{"keys": all, "plugins": plugins}, nil
}

// argumentsOf returns the arguments of the plug-ins of a kind by their names.
func argumentsOf(c *registry.Catalog) (map[string][]schemaKey, error) {
	all := map[string][]schemaKey{}
	for _, name := range c.Names() {
		info, err := c.Explain(name)
		if err != nil {
			return nil, err
		}
		for _, f := range info.Fields {
			all[name] = append(all[name], schemaKey{Key: f.Key, Type: f.Type, Default: f.Default, Doc: f.Doc, Limits: f.Limits(), Values: f.Enum})
		}
	}
	return all, nil
}

// templates answers with the templates, and with the files that each one needs and that are not here.
func (s *configs) templates(*http.Request) (any, error) {
	type template struct {
		Template
		Missing []string `json:"missing"`
	}
	all := make([]template, len(s.all))
	for i, of := range s.all {
		all[i] = template{of, list(slices.DeleteFunc(slices.Clone(of.Files), exists))}
	}
	return map[string]any{"templates": all}, nil
}

// config answers with the configuration of a run, without secrets: with the comments that its author
// wrote if the studio started it.
func (s *runs) config(r *http.Request) (any, error) {
	in, _, err := s.writtenFor(r.PathValue("run"))
	if err != nil {
		return nil, err
	}
	set, err := parseSettings([]byte(in.Text))
	if err != nil {
		return nil, err
	}
	own := slices.DeleteFunc(in.Overrides, func(o string) bool { return strings.HasPrefix(o, rootKey+"=") }) // the studio's
	return map[string]any{"text": set.text, "overrides": list(own)}, nil
}

// writtenFor returns the configuration of a run with its secrets, and the ID under which the studio
// started it: "" if it did not. Of a stage it is that of the run.
func (s *runs) writtenFor(id string) (in configRequest, started string, err error) {
	root, err := s.root()
	if err != nil {
		return in, "", err
	}
	if in, started, err = startedAs(root, id); err != nil || started != "" {
		return in, started, err
	}
	f, err := s.open(id)
	if err != nil {
		return in, "", err
	}
	if dir, info := f.settingsIn(); info != nil {
		text, err := rundir.ReadSettings(dir)
		return configRequest{Text: string(text)}, "", err
	}
	return in, "", notFound{fmt.Errorf("the run %q has kept no configuration", id)}
}

// wholeOf returns the configuration that a request means: its text, or that of its run with its settings
// after those of the run.
func (s *runs) wholeOf(in configRequest) (configRequest, error) {
	if cmp.Or(in.Text, in.Run) == "" || in.Text != "" && in.Run != "" {
		return in, mistake{errors.New("give the text of a configuration, or a run to clone")}
	}
	if in.Run == "" {
		return in, nil
	}
	of, _, err := s.writtenFor(in.Run)
	of.Overrides = append(of.Overrides, in.Overrides...)
	return of, err
}
