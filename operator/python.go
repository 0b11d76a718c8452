package operator

import (
	"context"
	"fmt"
	"io"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/internal/bridge"
	"github.com/trinity-go/trinity/registry"
)

func init() {
	registry.Operators.Register("python",
		"An operator of yours in Python: a class with process(exps), such as ExperienceOperator and ExperienceOperatorV1 of Trinity-RFT, "+
			"or a function of exps. name: my.module.Filter names it as well; args are then its arguments. It gets the experiences of a step "+
			"and returns those to keep, and metrics: it may drop, order and repeat them, and change reward, action_mask, advantages, returns, "+
			"metrics and info, but no tokens. It is kept over the steps. "+
			"A class with set_auxiliary_model, and a function with the parameter auxiliary_models, get the models of auxiliary_models. The section "+
			"python of the configuration says which Python runs it. Metrics: filtered_count, and those that it returns.",
		func() trinity.Operator { return &pythonOperator{Timeout: 600, Python: bridge.DefaultPlugins()} })
	registry.Operators.Elsewhere("python", "class", "auxiliary_models")
}

// pythonOperator edits a step with a class or a function in a process of Python.
type pythonOperator struct {
	Class   string         `yaml:"class" required:"name a class, such as my.module.Filter" doc:"package.module.Name, or file.py:Name"`
	Args    map[string]any `yaml:"args" doc:"arguments of the class, or of the function beside exps"`
	Timeout float64        `yaml:"timeout" range:"(0,inf]" doc:"seconds for one step, besides those for imports (python.start_timeout)"`
	Python  bridge.Plugins `yaml:"python" doc:"the section python, if it is another for this class"`
	// Auxiliary are models that it asks.
	Auxiliary []string `yaml:"auxiliary_models" doc:"models that it asks, by their names in explorer.auxiliary_models, in this order"`

	run    bridge.Run
	memory bridge.Memory // has no state: it tells this entry of a pipeline from an equal one
	host   trinity.Host
	models []auxiliaryModel // nil before the first step
}

// auxiliaryModel is a model that an operator asks, and where.
type auxiliaryModel struct {
	Name    string `json:"name"`
	BaseURL string `json:"base_url"`
	APIKey  string `json:"api_key"`
}

// Requires implements [trinity.Requirer].
func (p *pythonOperator) Requires() (needs trinity.Requirements) {
	for _, name := range p.Auxiliary {
		needs.Askers = append(needs.Askers, trinity.AskerSpec{Name: name, Arg: "auxiliary_models"})
	}
	return needs
}

// Validate checks that the class exists and takes the arguments.
func (p *pythonOperator) Validate() error {
	_, err := p.Python.Check("operator", p.Class, &p.Args)
	return err
}

// Open gives the operator what a run offers.
func (p *pythonOperator) Open(host trinity.Host) error {
	p.run.Open(host)
	p.host = host
	return nil
}

// serve opens an endpoint of the auxiliary models, which stays until the stage ends: an instance keeps its clients.
func (p *pythonOperator) serve() error {
	if len(p.Auxiliary) == 0 || p.models != nil {
		return nil
	}
	asked := map[string]trinity.Asker{}
	for _, name := range p.Auxiliary {
		var err error
		if asked[name], err = p.host.Asker(name); err != nil {
			return err
		}
	}
	ctx, end := context.WithCancel(context.Background())
	e, err := p.host.Serve(ctx, nil, trinity.EndpointOptions{Sampling: trinity.SamplingOfRequest, ToolsAreOptional: true, Models: asked})
	if err != nil {
		end()
		return err
	}
	if _, err := p.host.Open("operator endpoint "+e.Key(), func(io.Writer) (io.Closer, error) { return ending(end), nil }); err != nil {
		end()
		return err
	}
	for _, name := range p.Auxiliary {
		p.models = append(p.models, auxiliaryModel{name, e.URL(), e.Key()})
	}
	return nil
}

// ending ends an endpoint.
type ending context.CancelFunc

// Close implements [io.Closer].
func (e ending) Close() error {
	e()
	return nil
}

// Process implements [trinity.Operator].
func (p *pythonOperator) Process(ctx context.Context, groups []trinity.Group) ([]trinity.Group, trinity.Metrics, error) {
	if err := p.serve(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", p.Class, err)
	}
	body := map[string]any{"args": p.Args, "auxiliary": p.models, "experiences": bridge.Experiences(groups)}
	var edits bridge.Edits
	q := bridge.Question{Do: "operate", Name: p.Class, Body: body, Memory: &p.memory, Timeout: p.Timeout}
	if err := p.run.Ask(ctx, &p.Python, q, &edits); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", p.Class, err)
	}
	had := 0
	for _, g := range groups {
		had += len(g)
	}
	kept, err := p.run.Edit("operator "+p.Class, &edits, groups)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", p.Class, err)
	}
	metrics := trinity.Metrics{"filtered_count": float64(max(0, had-len(edits.Experiences)))}
	metrics.Merge("", edits.Metrics)
	return kept, metrics, nil
}
