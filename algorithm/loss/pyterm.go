package loss

import (
	"context"
	"maps"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
)

// pythonTerm is a term of a loss that a class or a function in a process of Python computes.
type pythonTerm struct {
	Class   string         `yaml:"class" required:"name a class, such as my.module.Loss" doc:"package.module.Name, or file.py:Name"`
	Args    map[string]any `yaml:"args" doc:"arguments of the class, or of the function beside the streams"`
	Timeout float64        `yaml:"timeout" range:"(0,inf]" doc:"seconds for an optimizer step, besides imports (python.start_timeout)"`
	Python  bridge.Plugins `yaml:"python" doc:"the section python, if it is another for this class"`

	is  bridge.Described
	run bridge.Run
}

func newPythonTerm() pythonTerm { return pythonTerm{Timeout: 60, Python: bridge.DefaultPlugins()} }

// describe checks that the class exists, is of the kind and takes the arguments.
func (p *pythonTerm) describe(kind string) (err error) {
	if p.Class == "" {
		return nil // the tag required reports it
	}
	if p.Args == nil {
		p.Args = map[string]any{}
	}
	p.is, err = p.Python.Describe(kind, p.Class, p.Args)
	return bridge.Keyed(err)
}

// Open gives the term what a run offers.
func (p *pythonTerm) Open(host trinity.Host) error {
	p.run.Open(host)
	return nil
}

// ask asks about a step. of is the kind of term that the class is.
func (p *pythonTerm) ask(ctx context.Context, of string, question map[string]any, answer any) error {
	body := maps.Clone(question)
	body["of"] = of
	return p.run.Ask(ctx, &p.Python, bridge.Question{Do: "loss", Name: p.Class, Body: body, Timeout: p.Timeout}, answer)
}
